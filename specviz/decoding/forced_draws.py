"""Uniform draws of one round that are not drawn but given, for the nodes of a recorded tree.

Knows nothing of models or distributions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.decoding.tree_shape import TreeShape, tree_shape
from specviz.errors import InputError
from specviz.records import Round

Place = tuple[tuple[int, int], ...]  # of a node: rank and token of all on its path, from depth 1


@dataclass(frozen=True, slots=True)
class ForcedDraws:
    """Numbers in [0, 1) for nodes of round `index`, each known by its place in the recorded tree.

    A node has its place by the path of tokens down to it and their ranks among siblings, so its
    draw finds it in a tree that is longer or wider than the recorded one too.
    """

    index: int
    draws: tuple[tuple[Place, float], ...]

    @classmethod
    def of(cls, record: Round, forced: Mapping[int, float]) -> ForcedDraws | None:
        """None where nothing is forced; the nodes must be those of the round."""
        if not forced:
            return None
        nodes = record.tree.nodes
        shape = tree_shape(tuple(node.parent for node in nodes))
        places = _places(shape, [node.token_id for node in nodes])
        return cls(record.index, tuple((places[node], u) for node, u in forced.items()))

    def applied(
        self, shape: TreeShape, token_ids: Sequence[int], uniforms: Sequence[float]
    ) -> tuple[float, ...]:
        """The draws of a tree with the forced ones in their places.

        InputError where the tree has no such place: another setting drafted something else there.
        """
        numbers = {place: node for node, place in enumerate(_places(shape, token_ids))}
        changed = list(uniforms)
        for place, draw in self.draws:
            if place not in numbers:
                raise InputError(
                    f"forced draw must find its token at depth {len(place)} of round "
                    f"{self.index + 1}, but this setting drafts another tree there: fork without "
                    "the forced draw, or with the setting of the record"
                )
            changed[numbers[place]] = draw
        return tuple(changed)


def _places(shape: TreeShape, token_ids: Sequence[int]) -> list[Place]:
    places: list[Place] = []
    for parent, rank, token_id in zip(shape.parents, shape.ranks, token_ids, strict=True):
        above = places[parent] if parent >= 0 else ()
        places.append((*above, (rank, token_id)))
    return places
