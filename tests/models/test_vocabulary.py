"""Tokens of two tokenizers are matched one to one if their bytes are equal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import VocabularyMap, difference, match_vocabularies


def pieces_codec(*pieces: str, special: tuple[str, ...] = ()) -> TextCodec:
    """Return a tokenizer like SentencePiece's: ▁ is a space, <0x41> is a byte."""
    backend = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    backend.add_special_tokens(list(special))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    return TextCodec(tokenizer, len(pieces), [])


@pytest.fixture
def byte_codec(tiny_tokenizer: Any) -> TextCodec:
    """Return a tokenizer of three control tokens and 256 bytes, then " the", "é" and "the"."""
    return TextCodec(tiny_tokenizer(extra=("Ġthe", "Ã©", "the")), 262, [0])


def check(found: VocabularyMap, target: TextCodec, draft: TextCodec) -> None:
    """Check that the two maps, in both directions, contain the same pairs of tokens.

    The tokens of a pair have equal bytes, and each token belongs to at most one pair.
    """
    there, back = found.target_to_draft, found.draft_to_target
    assert there.dtype == back.dtype == torch.int64
    assert there.shape == (target.vocab_size,)
    assert back.shape == (draft.vocab_size,)
    ours, theirs = (there >= 0).nonzero()[:, 0], (back >= 0).nonzero()[:, 0]
    assert len(ours) == len(theirs) == found.shared_count
    assert torch.equal(back[there[ours]], ours)
    assert torch.equal(there[back[theirs]], theirs)
    for token_id in ours.tolist():
        data = target.token_bytes(token_id)
        assert data
        assert data == draft.token_bytes(int(there[token_id]))


def test_a_vocabulary_matches_itself_except_for_control_tokens(byte_codec: TextCodec) -> None:
    found = match_vocabularies(byte_codec, byte_codec)
    assert found.target_to_draft.tolist() == [-1, -1, -1, *range(3, 262)]
    assert found.shared_count == 259
    assert found.target_share == found.draft_share == 259 / 262


def test_tokens_with_the_same_bytes_match_in_different_spellings(byte_codec: TextCodec) -> None:
    other = pieces_codec("<unk>", "▁the", "é", "the", "▁", "▁cat", special=("<unk>",))
    found = match_vocabularies(byte_codec, other)
    check(found, byte_codec, other)
    names = byte_codec.vocabulary
    expected = [-1, *(names.index(name) for name in ("Ġthe", "Ã©", "the", "Ġ")), -1]
    assert found.draft_to_target.tolist() == expected
    assert found.draft_share == 4 / 6


def test_the_relation_is_the_same_from_both_sides(byte_codec: TextCodec) -> None:
    other = pieces_codec("▁the", "a", "<0x61>", "<0x0A>", "b")
    one, two = match_vocabularies(byte_codec, other), match_vocabularies(other, byte_codec)
    assert torch.equal(one.target_to_draft, two.draft_to_target)
    assert torch.equal(one.draft_to_target, two.target_to_draft)


def test_a_normal_token_is_preferred_to_a_byte_token_with_the_same_text() -> None:
    ours, theirs = pieces_codec("<0x61>", "a", "<0x0A>"), pieces_codec("a", "<0x0A>", "<0x62>")
    found = match_vocabularies(ours, theirs)
    check(found, ours, theirs)
    assert found.target_to_draft.tolist() == [-1, 0, 1]


def test_vocabularies_without_a_common_token_share_nothing() -> None:
    ours, theirs = pieces_codec("a", "b"), pieces_codec("c")
    found = match_vocabularies(ours, theirs)
    assert found.shared_count == 0
    assert found.target_to_draft.tolist() == [-1, -1]


def test_ids_above_the_last_token_have_no_match(tiny_tokenizer: Any) -> None:
    wide, plain = TextCodec(tiny_tokenizer(), 300, [0]), TextCodec(tiny_tokenizer(), 259, [0])
    found = match_vocabularies(wide, plain)
    check(found, wide, plain)
    assert found.target_to_draft[259:].tolist() == [-1] * 41


def test_an_added_text_token_is_matched_and_a_control_token_is_not(
    tiny_tokenizer: Any,
) -> None:
    tokenizer = tiny_tokenizer(extra=("ĠĠ",))
    tokenizer.add_tokens([AddedToken("    ", normalized=False)])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    codec = TextCodec(tokenizer, 262, [0])
    assert codec.token_bytes(260) == b"    "
    assert codec.token_bytes(261) is None
    other = pieces_codec("▁▁▁▁", "▁▁", "<|end|>")
    assert match_vocabularies(codec, other).draft_to_target.tolist() == [260, 259, -1]


def test_equal_vocabularies_have_no_difference(tiny_tokenizer: Any) -> None:
    wide, plain = TextCodec(tiny_tokenizer(), 300, [0]), TextCodec(tiny_tokenizer(), 259, [0])
    assert difference(plain, plain) is None
    assert difference(wide, plain) is None


def test_the_first_difference_is_named(tiny_tokenizer: Any) -> None:
    one, two, none = (
        TextCodec(tiny_tokenizer(extra=extra), 259 + len(extra), [0])
        for extra in (("ab",), ("cd",), ())
    )
    assert difference(one, two) == "token 259 is 'ab' and 'cd'"
    assert difference(none, one) == "they have 259 and 260 tokens"
