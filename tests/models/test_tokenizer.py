"""Typed text stays text, every token has a visible form, and tags are the first token."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specviz.errors import InputError
from specviz.models.text.text_codec import TextCodec
from specviz.records import RawText


@pytest.fixture
def codec(tiny_tokenizer: Any) -> TextCodec:
    return TextCodec(tiny_tokenizer(extra=("Ġf", "ðŁ", "é"[:1])), 261, [0])


def test_a_failure_of_the_tokenizer_is_reported_in_a_sentence(tiny_tokenizer: Any) -> None:
    """A regular expression makes the library tokenizers panic, which is no Python Exception."""
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(
        Regex("(a|a)*(a|a)*(a|aa)+$"), "isolated"
    )
    broken = TextCodec(tokenizer, 261, [0])
    assert broken.encode("short") == broken.encode_part("short")
    for encode in (broken.encode, broken.encode_part, lambda text: broken.encode(RawText(text))):
        with pytest.raises(InputError, match="tokenizer fails on this text"):
            encode("a" * 38 + "!")


TEXTS = ["plain", "  two  spaces\n\ttab", "naïve café", "日本語 😀", "\x00\x07", "", "a<|code|>b"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_encoding_and_decoding(codec: TextCodec, text: str) -> None:
    assert codec.decode(codec.encode(text)) == text


@pytest.mark.parametrize("text", ["<|endoftext|>", "x <|code|> y", "<|story|>"])
def test_typed_control_tokens_are_encoded_as_text(codec: TextCodec, text: str) -> None:
    assert not {0, 1, 2} & set(codec.encode(text))
    assert codec.decode(codec.encode(text)) == text


def test_the_tag_is_the_first_token(codec: TextCodec) -> None:
    assert codec.encode("ab", tag="story") == [2, *codec.encode("ab")]


def test_a_tag_that_the_model_lacks_is_left_out(codec: TextCodec) -> None:
    assert codec.encode("ab", tag="maths") == codec.encode("ab")


def test_the_end_token_is_no_tag(codec: TextCodec) -> None:
    assert codec.encode("ab", tag=None) == codec.encode("ab")


def test_decoding_leaves_control_tokens_out(codec: TextCodec) -> None:
    assert codec.decode([1, *codec.encode("ab"), 0]) == "ab"


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff", "\udc80x"])
def test_half_a_surrogate_pair_is_refused(codec: TextCodec, text: str) -> None:
    with pytest.raises(InputError, match="prompt must be valid Unicode text, got half of a surro"):
        codec.encode(text)


def test_a_token_that_is_no_whole_character_is_shown_as_bytes(codec: TextCodec) -> None:
    shown = [codec.token_text(token_id) for token_id in codec.encode("é😀")]
    assert shown == ["⟨C3⟩", "⟨A9⟩", "⟨F0⟩", "⟨9F⟩", "⟨98⟩", "⟨80⟩"]


def test_merged_tokens_and_control_tokens_have_their_own_text(codec: TextCodec) -> None:
    names = codec.vocabulary
    assert codec.token_text(names.index("Ġf")) == " f"
    assert codec.token_text(names.index("ðŁ")) == "⟨F0⟩⟨9F⟩"
    assert codec.token_text(0) == "<|endoftext|>"


def test_the_bytes_of_the_tokens_join_to_the_text(codec: TextCodec) -> None:
    pieces = [codec.token_bytes(token_id) for token_id in codec.encode("日本 f 😀")]
    assert b"".join(piece or b"" for piece in pieces).decode() == "日本 f 😀"


def test_an_id_outside_the_vocabulary_has_a_visible_form(codec: TextCodec) -> None:
    assert codec.token_text(9999) == "⟨9999⟩"
    assert codec.token_bytes(9999) is None


def test_every_token_has_a_visible_form(codec: TextCodec) -> None:
    assert all(codec.token_text(token_id) for token_id in range(codec.vocab_size))


def test_sentencepiece_tokens_are_shown_as_text() -> None:
    backend = Tokenizer(models.BPE({"<unk>": 0, "▁the": 1, "<0x0A>": 2, "<0xF0>": 3}, []))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    codec = TextCodec(PreTrainedTokenizerFast(tokenizer_object=backend), 4, [])
    assert [codec.token_text(i) for i in (1, 2, 3)] == [" the", "\n", "⟨F0⟩"]
