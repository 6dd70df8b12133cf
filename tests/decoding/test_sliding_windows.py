"""On models with sliding-window layers, every method writes the text of transformers.

The texts are longer than the window.
"""

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.target import cache_capacity
from specviz.models.library_model import LibraryModel
from specviz.models.parts import Need
from specviz.records import DecodingConfig
from tests.decoding.events import tokens_of
from tests.decoding.tiny_parts import parts_for
from tests.models.conftest import build_module, describe, family_config

VOCAB, TOKENS = 12, 24
FAMILIES = ("mistral-sliding", "qwen3-sliding", "gemma3", "gpt-oss")
PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5, 4, 4, 1, 3, 5)
# All methods share one mask, so every family is tested with only two methods. Gemma 3 has layers
# with a window and layers without.
MIXED, FEW = "gemma3", ("draft-model", "draft-tree")
VARIANTS = [
    pytest.param(
        family,
        method,
        kind,
        id=f"{family} {method.name} {kind.value}",
        marks=() if family == MIXED or method.name in FEW else pytest.mark.slow,
    )
    for family in FAMILIES
    for method in DRAFTERS.values()
    for kind in method.drawings
    if Need.LAYERS not in method.needs
]


@pytest.fixture(scope="module")
def family(request):
    """Return the target, the parts that methods need, and the text that transformers writes."""
    modules = []
    for layers in (3, 1):
        config = family_config(request.param)
        config.vocab_size, config.num_hidden_layers = VOCAB, layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
        modules.append(build_module(request.param, config))
    target, draft = (LibraryModel(module, describe(module, VOCAB)) for module in modules)
    ids = torch.tensor([PROMPT])
    text = modules[0].generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=TOKENS,
        eos_token_id=None,
        pad_token_id=0,
    )
    return target, parts_for(target, draft), text[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("family, method, kind", VARIANTS, indirect=["family"])
def test_greedy_text_equals_that_of_transformers(family, method, kind):
    target, parts, expected = family
    config = DecodingConfig(
        method=method.name,
        draft_length=6,  # the draft is longer than the sliding window
        branching=method.default_branching,
        drawing=kind,
        max_new_tokens=TOKENS,
    )
    drafter = make_drafter(Setup(target, parts, config, cache_capacity(PROMPT, config)))
    assert tokens_of(speculative.decode(target, drafter, PROMPT, config)) == expected
