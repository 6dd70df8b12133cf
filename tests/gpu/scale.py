"""How much a probe measures: on a GPU, and in a rehearsal with tiny shapes on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specviz.models.pair_catalog import BUNDLED, CHAT
from specviz.sizing.shape import MODELS, ModelShape

TARGET, DRAFT, SMALL = "8b", "1b", "135m"
EVERY_METHOD = (
    *("draft-model", "draft-tree", "dynamic-tree", "eagle", "medusa", "prompt-lookup"),
    *("early-exit", "lookahead", "quantised-self", "layer-skip", "cross-vocabulary"),
    *("pre-speculation", "suffix", "hybrid", "token-recycling"),
)


@dataclass(frozen=True, slots=True)
class RoundSetting:
    """A measurement of whole rounds of TARGET with DRAFT.

    It has a method, a draft length, and the number of tokens in the text when the rounds begin.
    """

    method: str
    draft_length: int
    context: int


@dataclass(frozen=True, slots=True)
class Scale:
    """The device of every step, and how much each step measures.

    `shapes` are the shapes of random models in `dtype`. Their forwards run after `contexts` tokens
    over `token_counts` tokens, `repeats` times each. `dtypes` and `methods` belong to the exactness
    step, whose runs write `new_tokens` tokens. The pairs in `pairs` race for `race_tokens` tokens
    if their models are on this machine. `test_paths` contain the CUDA tests, which `test_workers`
    processes run.
    """

    device: str
    dtype: str
    shapes: Mapping[str, ModelShape]
    contexts: tuple[int, ...]
    token_counts: tuple[int, ...]
    repeats: int
    rounds: tuple[RoundSetting, ...]
    round_tokens: int
    dtypes: tuple[str, ...]
    methods: tuple[str, ...]
    pairs: tuple[str, ...]
    new_tokens: int
    race_tokens: int
    race_repeats: int
    samples: int  # number of rounds that the comparison of distributions samples
    test_paths: tuple[str, ...]
    test_workers: int


GPU = Scale(
    device="cuda",
    dtype="bfloat16",
    shapes={
        TARGET: MODELS["llama-3-1-8b"],
        DRAFT: MODELS["llama-3-2-1b"],
        SMALL: MODELS["smollm2-135m"],
    },
    contexts=(900, 128, 3900),
    token_counts=(1, 2, 4, 8, 16, 32, 64),
    repeats=20,
    rounds=(
        RoundSetting("draft-model", 5, 900),
        RoundSetting("draft-model", 3, 900),
        RoundSetting("draft-model", 8, 900),
        RoundSetting("pre-speculation", 5, 900),
        RoundSetting("draft-tree", 3, 900),
        RoundSetting("draft-model", 5, 128),
        RoundSetting("draft-model", 5, 3900),
    ),
    round_tokens=64,
    dtypes=("float32", "bfloat16"),
    methods=EVERY_METHOD,
    pairs=(BUNDLED, CHAT),
    new_tokens=64,
    race_tokens=128,
    race_repeats=2,
    samples=600,
    test_paths=("tests",),
    test_workers=4,
)

_TINY = ModelShape(
    layers=2,
    hidden_size=64,
    heads=4,
    kv_heads=2,
    intermediate_size=128,
    vocabulary=1024,
    context=512,
    title="a tiny target",
)
REHEARSAL = replace(
    GPU,
    device="cpu",
    shapes={
        TARGET: _TINY,
        DRAFT: replace(_TINY, layers=1, tied=True, title="a tiny draft"),
        SMALL: replace(_TINY, hidden_size=32, title="a tinier model"),
    },
    contexts=(16, 40),
    token_counts=(1, 4),
    repeats=2,
    rounds=(RoundSetting("draft-model", 3, 16), RoundSetting("draft-tree", 2, 40)),
    round_tokens=16,
    pairs=(BUNDLED,),
    new_tokens=12,
    race_tokens=12,
    race_repeats=1,
    samples=100,
    test_workers=2,
)
