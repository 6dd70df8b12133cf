"""Any bytes can be encoded as tokens, even parts of a character, and after any text."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from specviz.models.text.byte_text import ByteText, byte_text
from specviz.models.text.text_codec import TextCodec


@pytest.fixture
def codec(tiny_tokenizer: Any) -> TextCodec:
    """Return a tokenizer of control tokens and single bytes."""
    return TextCodec(tiny_tokenizer(), 259, [0])


@pytest.fixture
def pieces() -> TextCodec:
    """Return a tokenizer like SentencePiece's: ▁ is a space, and every text starts with a space."""
    names = ["▁", "a", "b", "c", "▁a", "ab", "é", "<0xC3>", "<0xF0>"]
    merges = [("▁", "a"), ("a", "b")]
    backend = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    return TextCodec(PreTrainedTokenizerFast(tokenizer_object=backend), len(names), [])


TEXTS = ["", "plain", "naïve café 日本語 😀", "a<|code|>b", "\x00\n\t"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_encoding_and_decoding(codec: TextCodec, text: str) -> None:
    found = ByteText(codec).encode(text.encode())
    assert found == codec.encode_part(text)
    assert ByteText(codec).spells(found, text.encode())


def test_any_bytes_survive_if_every_byte_has_a_token(codec: TextCodec) -> None:
    rng, texts = random.Random(1), ByteText(codec)
    for _ in range(200):
        data = bytes(
            rng.choice(b"\x80\xc3\xa9\xf0\x9f\x98ab \xff") for _ in range(rng.randrange(12))
        )
        assert texts.spells(texts.encode(data), data)


def test_bytes_without_a_token_are_left_out(pieces: TextCodec) -> None:
    texts = ByteText(pieces)
    assert texts.encode(b"\xc3") == [7]
    assert texts.encode(b"\xff\xf0") == [8]


def test_control_tokens_have_no_bytes(codec: TextCodec) -> None:
    texts = ByteText(codec)
    assert texts.bytes_of(0) is None and texts.size_of(0) == 0
    assert texts.bytes_of(10**6) is None


def test_the_text_before_decides_how_a_text_is_encoded(pieces: TextCodec) -> None:
    texts = ByteText(pieces)
    names = pieces.vocabulary
    behind = [names[token_id] for token_id in texts.encode_behind(b"a", b" ab")]
    assert behind == ["▁", "ab"] or behind == ["▁a", "b"]
    assert [names[i] for i in texts.encode_behind(b"c", b"ab")] == ["ab"]


def test_no_token_joins_a_text_and_its_continuation(pieces: TextCodec, codec: TextCodec) -> None:
    texts = ByteText(pieces)
    assert texts.encode(b"ca" + b"b")[-1] == 5  # the last token is `ab`, one token for two letters
    # After `ca`, the token `ab` would cross the boundary between the two texts. So `b` is encoded
    # on its own, but this tokenizer then adds a space before it. No tokens spell exactly `b`.
    assert texts.encode_behind(b"ca", b"b") == []
    assert ByteText(codec).encode_behind("é".encode()[:1], "é".encode()[1:]) == [
        codec.vocabulary.index("©")
    ]


def test_an_empty_continuation_has_no_tokens(codec: TextCodec) -> None:
    assert ByteText(codec).encode_behind(b"abc", b"") == []


def test_a_tokenizer_always_gets_the_same_byte_text(codec: TextCodec) -> None:
    assert byte_text(codec) is byte_text(codec)
