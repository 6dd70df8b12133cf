"""Compute the time of one forward: a roofline from a model's shape and data sheets of GPUs.

Within one kernel, reading and arithmetic happen at the same time, so the longer time counts. The
matrix multiplications read the weights once, and attention reads the cache of every sequence.
Attention runs after the multiplications, so the two times are added. Each layer adds a fixed time
for its kernels. On several GPUs, the exchange of activations adds its time as well. All models use
the same constants; `published.py` shows how far the results are from published runs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import InputError, short
from specviz.sizing.shape import ModelShape, Weights, bytes_of

# The share of the data sheet's peak speeds that a well-written kernel reaches. On GPUs, a long copy
# reaches 80 to 90 % of the peak bandwidth, and a large matrix multiplication 70 to 80 % of the peak
# arithmetic speed. For CPUs, the value is the share of the peak bandwidth that a copy with all
# cores reaches. This is the only constant that differs by kind of device.
EFFICIENCY = {"gpu": 0.8, "cpu": 0.7}
# A decoder layer runs 8 to 10 kernels, which a CUDA graph starts together. At the
# start and at the end of a kernel only a part of the chip works, which costs 2 to 3 microseconds. A
# CPU has no such delay.
LAYER_SECONDS = {"gpu": 25e-6, "cpu": 2e-6}
# The time between two forwards: start, sampling, and the copy of the token to the host.
FORWARD_SECONDS = {"gpu": 100e-6, "cpu": 20e-6}
# The time that one exchange between GPUs takes, even of a few bytes.
LINK_SECONDS = {"nvlink": 10e-6, "pcie": 30e-6}
# The number of exchanges between GPUs per layer: one after attention and one after the feed-forward
# block.
EXCHANGES = 2
ACTIVATION_BYTES = 2
KEPT_BYTES = 2  # bytes of a parameter that stays unquantised in a quantised model
GIGA, TERA = 1e9, 1e12
MAX_GPUS = 64
_FILE = Path(__file__).with_name("gpus.toml")


@dataclass(frozen=True, slots=True)
class Gpu:
    """The data sheet of a GPU or another machine.

    It has the memory in GB, the memory bandwidth in GB/s, the speed in dense TFLOP/s, and the speed
    of its link in GB/s in one direction.
    """

    title: str
    source: str
    kind: str
    memory: float
    bandwidth: float
    bf16: float
    link: float
    link_kind: str
    # FP8 speed, or None if the GPU has no FP8 units. Without `has_bf16`, the GPU cannot
    # compute in bfloat16.
    fp8: float | None = None
    has_bf16: bool = True

    @property
    def unit(self) -> str:
        """Return the word for this hardware in sentences: "card" or "machine"."""
        return "card" if self.kind == "gpu" else "machine"

    def together(self, count: int, precision: str = "bf16") -> Hardware:
        """Return `count` GPUs as one device.

        Every layer is split over them (tensor parallelism).
        """
        if not 1 <= count <= MAX_GPUS:
            raise InputError(f"gpus must be from 1 to {MAX_GPUS}, got {count}")
        peak = self.fp8 if precision == "fp8" and self.fp8 else self.bf16
        efficiency = EFFICIENCY[self.kind]
        return Hardware(
            bytes_per_second=efficiency * count * self.bandwidth * GIGA,
            flops_per_second=efficiency * count * peak * TERA,
            layer_seconds=LAYER_SECONDS[self.kind],
            forward_seconds=FORWARD_SECONDS[self.kind],
            gpus=count,
            link_bytes_per_second=efficiency * self.link * GIGA,
            link_seconds=LINK_SECONDS[self.link_kind],
        )


@dataclass(frozen=True, slots=True)
class Hardware:
    """The combined speed of all GPUs of a model, and the fixed times per layer and per forward."""

    bytes_per_second: float
    flops_per_second: float
    layer_seconds: float = 0.0
    forward_seconds: float = 0.0
    gpus: int = 1
    link_bytes_per_second: float = 1.0
    link_seconds: float = 0.0

    def roofline(
        self, weights: Weights, weight_bytes: float, tokens: int, cache_bytes: float = 0.0
    ) -> float:
        """Return the seconds of matrix multiplications and attention for `tokens` tokens.

        The fixed times per layer, launch and exchange are not included. A matrix multiplication
        reads `weight_bytes` bytes per parameter. Attention reads `cache_bytes` in all.

        >>> Hardware(100.0, 1000.0).roofline(Weights(50.0), 2.0, 1)  # 100 bytes, 100 FLOP
        1.0
        >>> Hardware(100.0, 1000.0).roofline(Weights(50.0), 2.0, 20, 100.0)  # 2000 FLOP, 100 bytes
        3.0
        """
        products = self._longer(weight_bytes * weights.read(tokens), 2 * tokens * weights.used)
        return products + self._longer(cache_bytes, 0.0)

    def _longer(self, read_bytes: float, flops: float) -> float:
        return max(read_bytes / self.bytes_per_second, flops / self.flops_per_second)

    def _exchange(self, model: ModelShape, tokens: int) -> float:
        """Return the seconds that all layers need to exchange activations between GPUs.

        Each exchange adds up the activations of all GPUs. In it, each of n GPUs sends 2 (n - 1) / n
        times the bytes of the activations.
        """
        if self.gpus == 1:
            return 0.0
        sent = 2 * (self.gpus - 1) / self.gpus * tokens * model.hidden_size * ACTIVATION_BYTES
        return EXCHANGES * model.layers * (self.link_seconds + sent / self.link_bytes_per_second)


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model with its weights in a precision, on its hardware.

    `weight_bytes` and `cache_bytes` are the bytes per weight and per cached value. `is_published`
    says that the model's authors quantised the weights. Such weights keep some parameters in 16
    bits.
    """

    model: ModelShape
    hardware: Hardware
    weight_bytes: float = 2.0
    cache_bytes: float = 2.0
    is_published: bool = False

    @property
    def stored_bytes(self) -> float:
        whole = self.model.parameters * self.weight_bytes
        return whole + self._kept(self.model.kept_parameters)

    def _kept(self, parameters: int) -> float:
        """Return the additional bytes of the parameters that quantised weights keep in 16 bits."""
        return parameters * (KEPT_BYTES - self.weight_bytes) if self.is_published else 0.0

    @property
    def context_bytes(self) -> float:
        """Return the bytes of the KV cache for one token of context."""
        return self.model.cache_values_per_token * self.cache_bytes

    @property
    def cache_cards(self) -> int:
        """Return the number of GPUs over which a KV cache is split.

        It is split by KV heads. If there are more GPUs than heads, the other GPUs have copies. A
        cache of latent attention has no heads, so it is complete on every GPU.
        """
        if self.model.cache_values is not None:
            return 1
        return min(self.hardware.gpus, self.model.kv_heads or self.model.heads)

    def seconds(self, rows: int, tokens: int, context: float, scored: int | None = None) -> float:
        """Return the seconds of a forward over `tokens` new tokens for each of `rows` sequences.

        Each sequence already has `context` tokens. Logits are computed for `scored` tokens in all;
        None means that logits are computed for all tokens.
        """
        count = rows * tokens
        hardware, model = self.hardware, self.model
        weights = model.weights
        copies = hardware.gpus / self.cache_cards
        flops = count * (2 * weights.used - model.head_flops)
        flops += (count if scored is None else scored) * model.head_flops
        read = self.weight_bytes * weights.read(count) + self._kept(model.kept_read)
        products = hardware._longer(read, flops)
        attention = hardware._longer(
            copies * rows * context * self.context_bytes, count * context * model.attention_flops
        )
        layers = model.layers * hardware.layer_seconds + hardware._exchange(model, count)
        return products + attention + layers + hardware.forward_seconds

    def prefill_seconds(self, rows: int, prompt: int) -> float:
        """Return the seconds of a prefill, which gives `rows` prompts their first tokens."""
        return self.seconds(rows, prompt, prompt / 2, scored=rows)


def placed(
    model: ModelShape, gpu: Gpu, count: int, precision: str, cache: str = "bf16"
) -> PlacedModel:
    """Return a model on `count` GPUs. Its cache has 16 bits per value (bf16) or 8 (fp8)."""
    hardware, is_published = gpu.together(count, precision), precision == model.stored
    return PlacedModel(model, hardware, bytes_of(precision), bytes_of(cache), is_published)


def gpu_named(name: str) -> Gpu:
    """Return a preset GPU. Raises InputError with all names if it does not exist."""
    if name not in GPUS:
        raise InputError(f"gpu must be one of {', '.join(GPUS)}, got {short(name)}")
    return GPUS[name]


GPUS = {
    name: Gpu(**entry) for name, entry in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
