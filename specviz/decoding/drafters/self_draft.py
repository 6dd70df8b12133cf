"""Two methods in which a cheaper form of the target's own weights drafts.

The cheaper form has its own KV cache. It starts from the target's keys and values of the prompt,
because the quantised copy would need longer than the target to read the prompt. Verification stays
exact, because the draft's distribution q may be any distribution.

- Layer skipping: some layers are left out. Draft & Verify (Zhang et al., arXiv 2309.08168).
- Quantised: a copy with 8 or 4 bits per weight. The copy agrees with the target nearly always and
  takes at most a quarter of the target's memory. It is faster than the target only if memory
  bandwidth limits the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.independent_rows import IndependentRows
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.source import ModelSource, SourceDrafter
from specviz.decoding.drafters.static_rows import StaticRows, static_rows
from specviz.decoding.drafters.static_tree import static_tree
from specviz.models.language_model import LanguageModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.self_model import (
    layer_skipping,
    quantised,
    spread_layers,
    usual_bits,
)
from specviz.models.memory_estimate import ExtraMemory
from specviz.models.parts import Need
from specviz.records import Drawing

SKIPPED = Option(
    "skipped",
    "Layers left out",
    0,
    0,
    200,
    "spread evenly; 0: as in self_drafting.json, otherwise half of the middle ones",
)
BITS = Option(
    "bits",
    "Bits of a weight",
    0,
    0,
    8,
    "0: 4 if the weights come from a 4-bit file (Q4_1), otherwise 8",
    choices=(0, 4, 8),
    usual="4,8",
)


def _target(setup: Setup) -> LlamaModel:
    """Return the target as a model whose layers run one by one.

    The target is such a model, because only pairs with such a target have `parts.self_drafting`.
    """
    return setup.target  # type: ignore[return-value]


def _drafter(setup: Setup, draft: LanguageModel, layers: Sequence[int]) -> Drafter:
    source = ModelSource(draft, setup.capacity, setup.target.info.vocab_size, layers)
    return SourceDrafter(source, static_tree(setup))


def _quantised(setup: Setup) -> tuple[LanguageModel, Sequence[int]]:
    """Return the quantised copy of the target, and the indices of its layers: all layers."""
    if setup.parts.self_drafting is None:
        raise setup.lacks(Need.LAYERS)
    target = _target(setup)
    return quantised(target, _bits(setup)), range(target.info.layers)


def _bits(setup: Setup) -> int:
    return QUANTISED.completed(setup.config)[BITS.name] or usual_bits(_target(setup))


def _quantised_rows(setups: Sequence[Setup]) -> StaticRows | None:
    """Return a drafter for all rows of a batch.

    On a CPU, each row must get exactly the logits that it would get alone, because there the
    quantised copy rounds the inputs of its matrix multiplications. That rounding would magnify the
    small differences between a forward of several rows and a forward of one row.
    """
    draft, shared = _quantised(setups[0])
    if draft.device.type != "cpu":
        return static_rows(setups, draft, shared)
    assert isinstance(draft, LlamaModel)
    source = IndependentRows(draft, [setup.capacity for setup in setups], shared)
    return StaticRows(source, [static_tree(setup) for setup in setups])


def _skipping(setup: Setup) -> tuple[LanguageModel, Sequence[int]]:
    """Return the model without the skipped layers, and the indices of the layers that it keeps."""
    usual = setup.parts.self_drafting
    if usual is None:
        raise setup.lacks(Need.LAYERS)
    count = SKIPPING.completed(setup.config)[SKIPPED.name]
    skipped = spread_layers(count, setup.target.info.layers) if count else usual.skipped_layers
    kept = [layer for layer in range(setup.target.info.layers) if layer not in skipped]
    return layer_skipping(_target(setup), skipped), kept


QUANTISED = Method(
    "quantised-self",
    "Quantised self",
    "A copy of the target, rounded to int8 or int4 weights, guesses: nearly always right, "
    "worth it where memory is slow.",
    lambda setup: _drafter(setup, *_quantised(setup)),
    frozenset({Need.LAYERS}),
    drawings=tuple(Drawing),
    takes_branching=True,
    options=(BITS,),
    extra_memory=ExtraMemory.ROUNDED_TARGET,
    make_rows=_quantised_rows,
    settle=lambda setup: setup.config.with_option(BITS.name, _bits(setup)),
)
SKIPPING = Method(
    "layer-skip",
    "Layer-skipping self",
    "The target drafts with some of its layers left out; it needs no further weights.",
    lambda setup: _drafter(setup, *_skipping(setup)),
    frozenset({Need.LAYERS}),
    drawings=tuple(Drawing),
    takes_branching=True,
    options=(SKIPPED,),
    extra_memory=ExtraMemory.TARGET_CACHE,
    make_rows=lambda setups: static_rows(setups, *_skipping(setups[0])),
)
