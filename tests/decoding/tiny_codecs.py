"""Two tiny tokenizers that share some tokens, hold halves of a character, and merge differently."""

from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specviz.models.text.text_codec import TextCodec

TAG = "<|tag|>"
# in the letters of a byte-level vocabulary: Ġ is a space, Ã and © are the two bytes of é
OURS = ("a", "b", "ab", TAG, "c", "Ã", "©", "Ã©", "abc", "Ġ", "Ġa", "d")
THEIRS = ("b", "a", "c", "©", "Ã", TAG, "ba", "Ġ", "e", "bc", "Ġa", "aa")
MERGES = (("a", "b"), ("Ã", "©"), ("ab", "c"), ("Ġ", "a"), ("b", "a"), ("b", "c"), ("a", "a"))


@cache
def tiny_codec(pieces, end=None):
    """A byte-level tokenizer of these tokens; it cannot write what they do not spell.

    `end` is the one that ends a text, if one does.
    """
    merges = [pair for pair in MERGES if {*pair, "".join(pair)} <= set(pieces)]
    backend = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([each for each in (TAG, end) if each in pieces])
    eos_ids = [pieces.index(end)] if end else []
    return TextCodec(PreTrainedTokenizerFast(tokenizer_object=backend), len(pieces), eos_ids)


def our_codec(vocab):
    """The target's."""
    return tiny_codec(OURS[:vocab])


def their_codec(vocab):
    """That of a foreign draft."""
    return tiny_codec(THEIRS[:vocab])
