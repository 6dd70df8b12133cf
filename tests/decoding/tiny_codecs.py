"""Two tiny tokenizers that share some tokens and merge differently.

Some of their tokens are only half of a character.
"""

from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from specviz.models.text.text_codec import TextCodec

TAG = "<|tag|>"
# Some tokens have letters of a byte-level vocabulary: Ġ is a space, Ã and © are the two bytes of é.
OURS = ("a", "b", "ab", TAG, "c", "Ã", "©", "Ã©", "abc", "Ġ", "Ġa", "d")
THEIRS = ("b", "a", "c", "©", "Ã", TAG, "ba", "Ġ", "e", "bc", "Ġa", "aa")
MERGES = (("a", "b"), ("Ã", "©"), ("ab", "c"), ("Ġ", "a"), ("b", "a"), ("b", "c"), ("a", "a"))


@cache
def tiny_codec(pieces, end=None):
    """Return a byte-level tokenizer with these tokens; it cannot encode any other text.

    `end` is the token that ends a text, or None.
    """
    merges = [pair for pair in MERGES if {*pair, "".join(pair)} <= set(pieces)]
    backend = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([each for each in (TAG, end) if each in pieces])
    eos_ids = [pieces.index(end)] if end else []
    return TextCodec(PreTrainedTokenizerFast(tokenizer_object=backend), len(pieces), eos_ids)


def our_codec(vocab):
    """Return the target's tokenizer with the first `vocab` tokens."""
    return tiny_codec(OURS[:vocab])


def their_codec(vocab):
    """Return the foreign draft's tokenizer with the first `vocab` tokens."""
    return tiny_codec(THEIRS[:vocab])
