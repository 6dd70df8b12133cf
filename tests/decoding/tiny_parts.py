"""What methods need beside a target, tiny and random: for table models and for tiny Llamas."""

from specviz.models.parts import Need, Parts
from specviz.models.self_drafting import SelfDrafting
from tests.decoding.table_model import TableModel

LLAMA_NEEDS: set[Need] = set()  # what a table cannot give


def parts_for(target, draft):
    """Every part that a pair of these two can offer."""
    return Parts(draft=draft, self_drafting=SelfDrafting(1, (1,)))


def pair_for(method, tiny_model):
    """A target and a draft of few tokens and far apart laws that the method can run on."""
    if method.needs & LLAMA_NEEDS:
        return tiny_model(1, 3, "target", vocab=3), tiny_model(2, 1, "draft", vocab=3)
    return TableModel(3, 1), TableModel(2)
