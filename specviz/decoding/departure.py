"""A run that begins in the middle of a text, as a fork does, with some draws forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.decoding.topology import TreeShape, tree_shape
from specviz.errors import InputError
from specviz.records import Round, Trace

NodePath = tuple[tuple[int, int], ...]  # rank and token of every node from depth 1 to this one


@dataclass(frozen=True, slots=True)
class Departure:
    """The new tokens that are written already, and the index of the next round.

    Uniform draws are keyed by text position and draft draws by the round's index, so a run that
    begins here draws the same numbers as one that wrote the whole text. `seconds` is the lane's own
    clock at this moment; `forced` replaces draws of the first round.
    """

    written: tuple[int, ...]
    index: int
    seconds: float
    forced: ForcedDraws | None = None

    @classmethod
    def of(cls, trace: Trace, index: int, forced: Mapping[int, float]) -> Departure:
        """Before round `index` of a trace that has a prefill; after the last nothing is forced."""
        assert trace.prefill is not None
        before = trace.rounds[:index]
        ids = (token_id for each in before for token_id in each.emitted_ids)
        record = trace.rounds[index] if index < len(trace.rounds) else None
        return cls(
            written=(trace.prefill.extra.token_id, *ids),
            index=index,
            seconds=sum((each.seconds for each in before), trace.prefill.seconds),
            forced=None if record is None else ForcedDraws.of(record, forced),
        )


@dataclass(frozen=True, slots=True)
class ForcedDraws:
    """Draws in [0, 1) for some nodes of round `index`, in place of their own.

    A node is identified by its path, so it is found in a longer or wider tree than the recorded
    one, too.
    """

    index: int
    draws: tuple[tuple[NodePath, float], ...]

    @classmethod
    def of(cls, record: Round, forced: Mapping[int, float]) -> ForcedDraws | None:
        """`forced` maps nodes of the round to draws; None if it is empty."""
        if not forced:
            return None
        nodes = record.tree.nodes
        shape = tree_shape(tuple(node.parent for node in nodes))
        paths = _node_paths(shape, [node.token_id for node in nodes])
        return cls(record.index, tuple((paths[node], u) for node, u in forced.items()))

    def applied(
        self, shape: TreeShape, token_ids: Sequence[int], uniforms: Sequence[float]
    ) -> tuple[float, ...]:
        """The draws of a tree, the forced ones replaced.

        InputError if the tree lacks such a node, because another setting drafted something else.
        """
        numbers = {path: node for node, path in enumerate(_node_paths(shape, token_ids))}
        changed = list(uniforms)
        for path, draw in self.draws:
            if path not in numbers:
                raise InputError(
                    f"forced draw must find its token at depth {len(path)} of round "
                    f"{self.index + 1}, but this setting drafts another tree there: fork without "
                    "the forced draw, or with the setting of the record"
                )
            changed[numbers[path]] = draw
        return tuple(changed)


def _node_paths(shape: TreeShape, token_ids: Sequence[int]) -> list[NodePath]:
    paths: list[NodePath] = []
    for parent, rank, token_id in zip(shape.parents, shape.ranks, token_ids, strict=True):
        above = paths[parent] if parent >= 0 else ()
        paths.append((*above, (rank, token_id)))
    return paths
