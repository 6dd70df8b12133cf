"""Every causal architecture of transformers decodes exactly, or is refused with a reason."""

from __future__ import annotations

import random

import pytest
import transformers

from specviz.errors import InputError
from specviz.models.files.small_twin import check_architecture, random_model, small_config
from tests.models.walked_architectures import (
    BROKEN,
    CHANGES,
    CONFIG_MAPPING,
    EXACT,
    REFUSED,
    TABLE,
    architectures,
    documented,
    table_text,
    verdict_on,
)

pytestmark = pytest.mark.usefixtures("empty_memory")

DOCUMENTED = documented()
# One architecture for each kind of cache and each reason for a refusal. SAMPLE adds random
# architectures.
NAMED = ("deepseek_v3", "gemma3n_text", "mimo_v2_flash", "longcat_flash", "bert", "mpt", "cpmant")
SAMPLE = {*NAMED, *random.Random(0).sample(architectures(), 5)}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in SAMPLE else pytest.mark.slow)
        for kind in architectures()
    ],
)
def test_an_architecture_is_exact_or_refused_as_the_documented_table_says(kind: str) -> None:
    assert verdict_on(kind) == DOCUMENTED[kind]


def test_the_table_has_every_architecture_of_the_installed_transformers() -> None:
    assert sorted(DOCUMENTED) == architectures()
    assert TABLE.read_text("utf-8") == table_text(DOCUMENTED)
    assert f"transformers\n{transformers.__version__}." in TABLE.read_text("utf-8")


def test_most_architectures_are_exact_and_few_could_not_be_tried() -> None:
    words = [each.word for each in DOCUMENTED.values()]
    assert words.count(EXACT) >= 90
    assert words.count(BROKEN) <= 12


SHOWN_BY_A_TWIN = (
    "ignores",
    "lets a token",
    "no cache",
    "more tokens",
    "no mask",
    "sliding window",
)


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind, each in DOCUMENTED.items()
        if each.word == REFUSED and any(words in each.reason for words in SHOWN_BY_A_TWIN)
    ],
)
def test_a_refusal_is_known_before_the_weights_are_downloaded(kind: str) -> None:
    config = small_config(CONFIG_MAPPING[kind](), **CHANGES.get(kind, {}))
    with pytest.raises(InputError) as caught:
        check_architecture("model", config)
    assert DOCUMENTED[kind].reason.partition(" (")[0] in str(caught.value)


def test_the_same_seed_gives_the_same_small_model_without_changing_global_draws() -> None:
    import torch

    config = small_config(CONFIG_MAPPING["gpt2"]())
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one, other = random_model(config), random_model(config)
    assert torch.equal(torch.rand(1), expected)
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
