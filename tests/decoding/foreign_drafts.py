"""Pairs whose draft has a vocabulary of its own, and short runs of them."""

from specviz.decoding import speculative
from specviz.decoding.drafters.cross_vocabulary import METHOD
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.models.files.loading import LoadedModel
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, ProposalKind, Round
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_codecs import our_codec, their_codec

KINDS = (ProposalKind.DETERMINISTIC, ProposalKind.IID)
PROMPT = (0, 1, 4, 0, 2, 1, 8, 9, 10)
VOCAB = 12


def config_of(kind, **changes):
    return DecodingConfig(method=METHOD.name, tree_kind=kind, **changes)


def parts_of(draft, ours=None, theirs=None):
    """`draft` is the foreign one; `ours` and `theirs` are tokenizers, the tiny ones by default."""
    theirs = theirs or their_codec(draft.info.vocab_size)
    return Parts(foreign=LoadedModel(draft, theirs), codec=ours or our_codec(VOCAB))


def tables():
    """A target and a draft that are nothing alike."""
    return TableModel(1, vocab=VOCAB), TableModel(2, vocab=VOCAB)


def drafter_of(target, parts, config):
    return make_drafter(Setup(target, parts, config, 400))


def rounds_of(target, parts, config, prompt=PROMPT):
    """All rounds of a run."""
    drafter = drafter_of(target, parts, config)
    events = speculative.decode(target, drafter, prompt, config)
    return [event for event in events if isinstance(event, Round)]
