"""Any bytes become tokens, whole characters or not, and what stands before does not change them."""

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
    """Control tokens and single bytes."""
    return TextCodec(tiny_tokenizer(), 259, [0])


@pytest.fixture
def pieces() -> TextCodec:
    """In the manner of SentencePiece: ▁ is a space, and one is put before every text."""
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
def test_text_survives(codec: TextCodec, text: str) -> None:
    found = ByteText(codec).encode(text.encode())
    assert found == codec.encode_part(text)
    assert ByteText(codec).spells(found, text.encode())


def test_any_bytes_survive_where_every_byte_has_a_token(codec: TextCodec) -> None:
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


def test_what_stands_before_decides_how_a_text_is_encoded(pieces: TextCodec) -> None:
    texts = ByteText(pieces)
    names = pieces.vocabulary
    behind = [names[token_id] for token_id in texts.encode_behind(b"a", b" ab")]
    assert behind == ["▁", "ab"] or behind == ["▁a", "b"]
    assert [names[i] for i in texts.encode_behind(b"c", b"ab")] == ["ab"]


def test_a_token_across_the_border_is_not_taken(pieces: TextCodec, codec: TextCodec) -> None:
    texts = ByteText(pieces)
    assert texts.encode(b"ca" + b"b")[-1] == 5  # ab, in one token
    assert texts.encode_behind(b"ca", b"b") == []  # alone it would get a space before it
    assert ByteText(codec).encode_behind("é".encode()[:1], "é".encode()[1:]) == [
        codec.vocabulary.index("©")
    ]


def test_nothing_behind_a_text_is_nothing(codec: TextCodec) -> None:
    assert ByteText(codec).encode_behind(b"abc", b"") == []


def test_there_is_one_per_tokenizer(codec: TextCodec) -> None:
    assert byte_text(codec) is byte_text(codec)
