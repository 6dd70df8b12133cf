"""Pairs whose draft has another vocabulary than the target, and short runs of them."""

from specviz.decoding import speculative
from specviz.decoding.drafters.cross_vocabulary import METHOD
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.models.files.loading import LoadedModel
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing, Round
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_codecs import our_codec, their_codec

KINDS = (Drawing.CHOSEN, Drawing.INDEPENDENT)
PROMPT = (0, 1, 4, 0, 2, 1, 8, 9, 10)
VOCAB = 12


def config_of(kind, **changes):
    return DecodingConfig(method=METHOD.name, drawing=kind, **changes)


def parts_of(draft, ours=None, theirs=None):
    """Return the parts of a pair whose draft has another vocabulary than the target.

    `ours` is the target's tokenizer and `theirs` the draft's; both are tiny by default.
    """
    theirs = theirs or their_codec(draft.info.vocab_size)
    return Parts(foreign=LoadedModel(draft, theirs), codec=ours or our_codec(VOCAB))


def tables():
    """Return a target and a draft that are table models with unrelated distributions."""
    return TableModel(1, vocab=VOCAB), TableModel(2, vocab=VOCAB)


def drafter_of(target, parts, config):
    return make_drafter(Setup(target, parts, config, 400))


def rounds_of(target, parts, config, prompt=PROMPT):
    drafter = drafter_of(target, parts, config)
    events = speculative.decode(target, drafter, prompt, config)
    return [event for event in events if isinstance(event, Round)]
