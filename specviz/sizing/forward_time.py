"""How long one forward takes: the roofline of a model's shape on GPUs by their data sheets.

Within one kernel, reading and arithmetic overlap, so the longer one counts. Products with the
weights (read once) and attention (the caches of all sequences are read) run one after the other and
are added; each layer's kernels and, over several GPUs, its exchange of activations come on top. The
constants are the same for all models: `published.py` shows how far they are from published runs.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from specviz.errors import InputError, short
from specviz.sizing.shape import ModelShape, Weights, bytes_of

# The one constant of a class of devices: of both peaks, what a well-written kernel reaches. GPUs: a
# long copy reaches 80 to 90 % of the data sheet's bandwidth, a large product 70 to 80 % of its
# arithmetic. CPUs: the copy alone, with all cores.
EFFICIENCY = {"gpu": 0.8, "cpu": 0.7}
# A decoder layer is 8 to 10 kernels of 2 to 3 microseconds to fill and drain the chip, launched
# together from a CUDA graph; a CPU has none of it.
LAYER_SECONDS = {"gpu": 25e-6, "cpu": 2e-6}
# Between two forwards: launch, sampling, the token's way to the host.
FORWARD_SECONDS = {"gpu": 100e-6, "cpu": 20e-6}
LINK_SECONDS = {"nvlink": 10e-6, "pcie": 30e-6}  # of one exchange of a few bytes, however short
EXCHANGES = (
    2  # of a layer over several GPUs: behind the attention and behind the feed-forward block
)
ACTIVATION_BYTES = 2
GIGA, TERA = 1e9, 1e12
MAX_GPUS = 64
_FILE = Path(__file__).with_name("gpus.toml")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card by its data sheet: GB, GB/s, TFLOP/s dense, and GB/s of its link one way."""

    title: str
    source: str
    kind: str
    memory: float
    bandwidth: float
    bf16: float
    link: float
    link_kind: str
    fp8: float | None = None  # None: it has no such units, nor bfloat16 where has_bf16 is false
    has_bf16: bool = True

    @property
    def unit(self) -> str:
        """What one of them is called where they are counted."""
        return "card" if self.kind == "gpu" else "machine"

    def together(self, count: int, precision: str = "bf16") -> Hardware:
        """So many of them, over which every layer is split (tensor parallel)."""
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
    """What all GPUs of a model reach together, and what each layer and each forward adds."""

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
        """Seconds of a forward over `tokens` tokens that computes with its weights alone, and reads
        them and, apart from the products, so many bytes of its cache.

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
        """Of all layers: sums over all GPUs, each of which sends its share twice."""
        if self.gpus == 1:
            return 0.0
        sent = 2 * (self.gpus - 1) / self.gpus * tokens * model.hidden_size * ACTIVATION_BYTES
        return EXCHANGES * model.layers * (self.link_seconds + sent / self.link_bytes_per_second)


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model in a precision on its hardware; its cache in `cache_bytes` a value."""

    model: ModelShape
    hardware: Hardware
    weight_bytes: float = 2.0
    cache_bytes: float = 2.0

    @property
    def stored_bytes(self) -> float:
        return self.model.parameters * self.weight_bytes

    @property
    def context_bytes(self) -> float:
        """Of the cache, for one token of context."""
        return self.model.cache_values_per_token * self.cache_bytes

    @property
    def cache_cards(self) -> int:
        """Over how many cards a cache is split: by its heads, which more cards repeat; a latent
        one has none and is on every card.
        """
        if self.model.cache_values is not None:
            return 1
        return min(self.hardware.gpus, self.model.kv_heads or self.model.heads)

    def seconds(self, rows: int, tokens: int, context: float, scored: int | None = None) -> float:
        """Of a forward that gives each of `rows` sequences `tokens` new tokens behind `context`.

        The output layer is computed for `scored` tokens in all (all of them where it is None).
        """
        count = rows * tokens
        hardware, model = self.hardware, self.model
        weights = model.weights
        copies = hardware.gpus / self.cache_cards
        flops = count * (2 * weights.used - model.head_flops)
        flops += (count if scored is None else scored) * model.head_flops
        products = hardware._longer(self.weight_bytes * weights.read(count), flops)
        attention = hardware._longer(
            copies * rows * context * self.context_bytes, count * context * model.attention_flops
        )
        layers = model.layers * hardware.layer_seconds + hardware._exchange(model, count)
        return products + attention + layers + hardware.forward_seconds

    def prefill_seconds(self, rows: int, prompt: int) -> float:
        """Until the prompts of `rows` sequences are in the cache and each has its first token."""
        return self.seconds(rows, prompt, prompt / 2, scored=rows)


def placed(
    model: ModelShape, gpu: Gpu, count: int, precision: str, cache: str = "bf16"
) -> PlacedModel:
    """A model on so many GPUs, its cache in 16 bits (bf16) or 8 (fp8)."""
    return PlacedModel(model, gpu.together(count, precision), bytes_of(precision), bytes_of(cache))


def gpu_named(name: str) -> Gpu:
    """InputError names them all."""
    if name not in GPUS:
        raise InputError(f"gpu must be one of {', '.join(GPUS)}, got {short(name)}")
    return GPUS[name]


GPUS = {
    name: Gpu(**entry) for name, entry in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
