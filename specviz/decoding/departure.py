"""The start of a run in the middle of a text, such as a fork of a recorded run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specviz.decoding.topology import TreeShape, tree_shape
from specviz.errors import InputError
from specviz.records import Round, Trace

# The path of a node: one pair (rank among its siblings, token) for every node from depth 1 down to
# the node itself.
NodePath = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """The point from which a run continues an earlier text.

    `written` are the tokens written so far after the prompt, and `index` is the number of the next
    round. Uniform draws depend on text positions and draft draws on the round number. A run that
    starts here therefore makes the same draws as a run that wrote the whole text. `seconds` is the
    decoding time so far. `lengths` says how many tokens along one path each earlier round drafted
    and accepted, which the length policy must know. `forced` replaces draws of round `index`, the
    first round of this run.
    """

    written: tuple[int, ...]
    index: int
    seconds: float
    lengths: tuple[tuple[int, int], ...] = ()
    forced: ForcedDraws | None = None

    @classmethod
    def of(cls, trace: Trace, index: int, forced: Mapping[int, float]) -> Departure:
        """Start before round `index` of a recorded run that has a prefill.

        `index` may also be the number of recorded rounds. In that case `forced` is ignored, because
        the recording has no round whose draws it could replace.
        """
        assert trace.prefill is not None
        before = trace.rounds[:index]
        ids = (token_id for each in before for token_id in each.emitted_ids)
        record = trace.rounds[index] if index < len(trace.rounds) else None
        return cls(
            written=(trace.prefill.extra.token_id, *ids),
            index=index,
            seconds=sum((each.seconds for each in before), trace.prefill.seconds),
            lengths=tuple(
                (_height(each), len(each.accepted)) for each in before if not each.is_forced
            ),
            forced=None if record is None else ForcedDraws.of(record, forced),
        )


@dataclass(frozen=True, slots=True)
class ForcedDraws:
    """Numbers in [0, 1) that replace the random draws of some nodes in round `index`.

    A node is identified by its path. It can therefore be found even in a longer or wider tree than
    the recorded one.
    """

    index: int
    draws: tuple[tuple[NodePath, float], ...]

    @classmethod
    def of(cls, record: Round, forced: Mapping[int, float]) -> ForcedDraws | None:
        """Create forced draws from a map: node of the recorded round -> draw.

        Return None if the map is empty.
        """
        if not forced:
            return None
        nodes = record.tree.nodes
        shape = tree_shape(tuple(node.parent for node in nodes))
        paths = _node_paths(shape, [node.token_id for node in nodes])
        return cls(record.index, tuple((paths[node], u) for node, u in forced.items()))

    def applied(
        self, shape: TreeShape, token_ids: Sequence[int], uniforms: Sequence[float]
    ) -> tuple[float, ...]:
        """Return the draw of every node; nodes with a forced draw get that draw.

        Raises InputError if the tree lacks a node that has a forced draw. That happens if other
        settings led to another tree than the recorded one.
        """
        numbers = {path: node for node, path in enumerate(_node_paths(shape, token_ids))}
        changed = list(uniforms)
        for path, draw in self.draws:
            if path not in numbers:
                raise InputError(
                    f"forced draw must belong to a drafted token, but with these settings round "
                    f"{self.index + 1} drafts another tree, which lacks that token at depth "
                    f"{len(path)}: fork without the forced draw, or with the settings of the "
                    "recording"
                )
            changed[numbers[path]] = draw
        return tuple(changed)


def _height(record: Round) -> int:
    return max((node.depth for node in record.tree.nodes), default=0)


def _node_paths(shape: TreeShape, token_ids: Sequence[int]) -> list[NodePath]:
    paths: list[NodePath] = []
    for parent, rank, token_id in zip(shape.parents, shape.ranks, token_ids, strict=True):
        above = paths[parent] if parent >= 0 else ()
        paths.append((*above, (rank, token_id)))
    return paths
