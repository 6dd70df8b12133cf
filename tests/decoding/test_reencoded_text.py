"""A growing text gets the tokens that another tokenizer would give to the whole text."""

from functools import cache

import pytest
from tokenizers import Tokenizer, models, normalizers
from transformers import PreTrainedTokenizerFast

from specviz.decoding.drafters.cross_vocabulary import METHOD, ReencodedText, control_partners
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.text.text_codec import TextCodec
from specviz.prompts import TASKS, held_out_prompt
from tests.decoding.tiny_codecs import OURS, TAG, THEIRS, our_codec, their_codec, tiny_codec

VOCAB = 12


@cache
def bundled():
    return load_pair(pair_named("bundled"), "cpu", "float32", METHOD.needs)


@pytest.mark.parametrize("task", TASKS)
def test_a_growing_text_has_the_same_tokens_as_the_whole_text(task):
    ours, theirs = bundled().codec, bundled().parts.foreign.codec
    committed = ours.encode(held_out_prompt(task, 1) + "\n\n  été — 12345 😀😀 ok?", task)
    text = ReencodedText(ours, theirs)
    compared = 0
    for end in range(1, len(committed) + 1):
        found = text.token_ids(committed[:end])
        whole = ours.decode(committed[:end])
        if not whole.endswith("\ufffd"):  # the decoded text ends with a complete character
            assert found == [theirs.control_tokens[f"<|{task}|>"], *theirs.encode_part(whole)]
            compared += 1
    assert compared > len(committed) / 2


def test_a_text_that_ends_inside_a_character_ends_with_its_bytes():
    ours, theirs = our_codec(VOCAB), their_codec(VOCAB)
    text = ReencodedText(ours, theirs)
    first, second = OURS.index("Ã"), OURS.index("©")
    assert text.token_ids([0, first]) == [THEIRS.index("a"), THEIRS.index("Ã")]
    assert text.token_ids([0, first, second])[:1] == [THEIRS.index("a")]


def test_for_a_tokenizer_that_adds_a_space_at_the_start_the_whole_text_is_encoded():
    """If the text were encoded in parts, each part would get a space."""
    backend = Tokenizer(models.BPE({"▁": 0, "a": 1, "b": 2}, []))
    backend.normalizer = normalizers.Prepend("▁")
    theirs = TextCodec(PreTrainedTokenizerFast(tokenizer_object=backend), 3, [])
    text, committed = ReencodedText(tiny_codec(("a", "b")), theirs), [0, 1] * 30
    for end in range(1, len(committed) + 1):
        found = text.token_ids(committed[:end])
        assert found == [0, *(token_id + 1 for token_id in committed[:end])]


def test_control_tokens_are_matched_by_name_and_others_are_dropped():
    ours, theirs = our_codec(VOCAB), their_codec(VOCAB)
    tag = OURS.index(TAG)
    text = ReencodedText(ours, theirs).token_ids([tag, 0, 1, tag, 1])
    assert text == [THEIRS.index(piece) for piece in (TAG, "a", "b", TAG, "b")]
    untagged = tiny_codec(("b", "a"))
    assert ReencodedText(ours, untagged).token_ids([tag, 0, 1, tag, 1]) == [1, 0, 0]
    assert control_partners(ours, theirs) == {tag: THEIRS.index(TAG)}


def test_end_tokens_match_whatever_their_names():
    ours, theirs = tiny_codec(("a", "<eos>"), "<eos>"), tiny_codec(("</s>", "a"), "</s>")
    assert control_partners(ours, theirs) == {1: 0}
    assert control_partners(theirs, ours) == {0: 1}


def test_the_end_tokens_and_tags_of_the_bundled_models_match():
    ours, theirs = bundled().codec, bundled().parts.foreign.codec
    partners = control_partners(theirs, ours)
    assert {partners[token_id] for token_id in theirs.eos_ids} == set(ours.eos_ids)
    assert len(partners) == 6
