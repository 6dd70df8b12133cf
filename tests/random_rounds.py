"""Random but consistent rounds: distributions, tree, walk and verdicts as in a real round.

No model is involved: p and q are random distributions over a small vocabulary. The walk through the
tree follows the documented rules for drawn and for deterministic trees, for chains that are judged
as a whole, and for trees that are judged from their leaves up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specviz.records import (
    CacheLengths,
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    LookaheadState,
    NgramMatch,
    Note,
    Outcome,
    Position,
    Round,
    Span,
    Verdict,
)
from tests.random_distributions import (
    VOCABULARY,
    Distribution,
    mixed,
    position,
    random_distribution,
    residual,
    sample,
)

THRESHOLD = 0.09  # acceptance threshold of typical acceptance, which is not lossless


@dataclass
class _Walk:
    """The state of a round's walk through its draft tree."""

    uniforms: list[float]
    # The probabilities from which the verdicts of the nodes follow: p of the node's token or, after
    # a rejected sibling, the token's probability in the residual.
    compared: list[float]
    outcomes: list[Outcome]
    # The root, as -1, and the accepted nodes.
    examined: list[int] = field(default_factory=lambda: [-1])
    # With a rule that judges whole paths, the acceptance probability of each node.
    thresholds: list[float] = field(default_factory=list)
    # For each node whose children were all rejected, the residual distribution that is left.
    residuals: dict[int, Distribution] = field(default_factory=dict)


class _RoundMaker:
    """Builds one round: a tree, its distributions, the walk through the tree and the records."""

    def __init__(
        self, rng: random.Random, drawing: Drawing, rule: str, has_distributions: bool
    ) -> None:
        self.rng, self.drawing, self.has_distributions = rng, drawing, has_distributions
        self.rule, self.is_lossless = rule, rule != "typical"
        # node (-1 is the root) -> the target's distribution after it
        self.p: dict[int, Distribution] = {}
        self.q: dict[int, Distribution] = {}
        self.nodes: list[DraftNode] = []

    def grow(self, widths: tuple[int, ...]) -> None:
        level = [-1]
        for depth, width in enumerate(widths, start=1):
            level = [child for parent in level for child in self._children(parent, depth, width)]

    def _children(self, parent: int, depth: int, width: int) -> list[int]:
        self._distribution(parent)
        q, made = self.q[parent], []
        ranked = sorted(range(VOCABULARY), key=lambda token: -q[token])
        for rank in range(width):
            drawn = self.drawing is Drawing.INDEPENDENT
            token = sample(self.rng, q) if drawn else ranked[rank]
            rule_q = q[token] if drawn else 1.0
            self.nodes.append(DraftNode(token, parent, depth, rule_q, q[token]))
            made.append(len(self.nodes) - 1)
        return made

    def _distribution(self, parent: int) -> None:
        self.p[parent] = random_distribution(self.rng)
        self.q[parent] = mixed(
            self.p[parent], random_distribution(self.rng), self.rng.random() * 0.7
        )

    def build(self, index: int, context_length: int) -> Round:
        tree = DraftTree(self.drawing, tuple(self.nodes))
        walk = self._walk(tree)
        extra = self._extra(walk)
        accepted = len(walk.examined) - 1
        return Round(
            index=index,
            context_length=context_length,
            tree=tree,
            verdicts=tuple(self._verdict(i, walk) for i in range(len(self.nodes))),
            positions=tuple(self._position(parent, walk) for parent in walk.examined),
            extra=extra,
            extra_ids=tuple(
                extra.token_id if row == extra.parent + 1 else row % VOCABULARY
                for row in range(len(self.nodes) + 1)
            ),
            draft_seconds=0.001 + 0.0015 * max((node.depth for node in self.nodes), default=0),
            verify_seconds=0.016 + 0.0003 * len(self.nodes) + self.rng.random() * 0.002,
            notes=() if self.has_distributions else self._lookup_notes(context_length),
            host_seconds=0.0006 + self.rng.random() * 0.0004,
            spans=(),
            cache=CacheLengths(context_length - 1, len(self.nodes) + 1, len(self.nodes) - accepted),
        )

    def _walk(self, tree: DraftTree) -> _Walk:
        walk = _Walk(
            uniforms=[self.rng.random() for _ in self.nodes],
            compared=[self._p(node.parent)[node.token_id] for node in self.nodes],
            outcomes=[Outcome.UNREACHED] * len(self.nodes),
        )
        if self.rule == "block":
            self._judge_jointly(walk)
            return walk
        if self.rule == "traversal":
            self._judge_upwards(walk, tree)
            return walk
        children = tree.children(-1)
        while children:
            chosen = self._examine(children, walk)
            if chosen is None:
                break
            walk.outcomes[chosen] = Outcome.ACCEPTED
            walk.examined.append(chosen)
            children = tree.children(chosen)
        return walk

    def _judge_jointly(self, walk: _Walk) -> None:
        """Judge a chain with block verification: the thresholds h, the path and its residual."""
        carried, rests = [1.0], []
        for node, compared in zip(self.nodes, walk.compared, strict=True):
            p, q = self._p(node.parent), self._rule_q(node)
            rests.append([max(0.0, carried[-1] * a - b) for a, b in zip(p, q, strict=True)])
            carried.append(min(1.0, carried[-1] * compared / node.draft_prob))
        for at, rest in enumerate(rests[1:], start=1):
            missing = sum(rest) + 1 - carried[at]
            walk.thresholds.append(min(1.0, sum(rest) / missing) if missing > 0 else 1.0)
        walk.thresholds += carried[1:][-1:]
        pairs = enumerate(zip(walk.uniforms, walk.thresholds, strict=True), start=1)
        length = max((at for at, (u, h) in pairs if u < h), default=0)
        walk.examined += range(length)
        walk.outcomes[:length] = [Outcome.ACCEPTED] * length
        walk.outcomes[length:] = [Outcome.REJECTED] * (len(self.nodes) - length)
        if length < len(self.nodes):
            total = sum(rests[length])
            left = tuple(each / total for each in rests[length]) if total else self._p(length - 1)
            walk.residuals[length - 1] = left

    def _judge_upwards(self, walk: _Walk, tree: DraftTree) -> None:
        """Judge a tree with traversal verification: the thresholds, the path and its residual."""
        walk.thresholds = [0.0 for _ in self.nodes]
        order: list[int] = []
        lefts: dict[int, Distribution] = {}

        def judge(parent: int, budget: float) -> float:
            """Compute the thresholds below a node. Return the node's own threshold."""
            left = self._p(parent)
            for child in tree.children(parent):
                node = self.nodes[child]
                walk.compared[child] = compared = left[node.token_id]
                below = min(1.0, budget * compared / node.draft_prob)
                walk.thresholds[child] = judge(child, below)
                order.append(child)
                q = self._rule_q(node)
                rest = [max(0.0, budget * a - b) for a, b in zip(left, q, strict=True)]
                total = sum(rest)
                left = tuple(each / total for each in rest) if total else left
                missing = total + 1 - budget
                budget = min(1.0, total / missing) if missing > 0 else 1.0
            lefts[parent] = left
            return budget

        judge(-1, 1.0)
        passing = (at for at, i in enumerate(order) if walk.uniforms[i] < walk.thresholds[i])
        count = next(passing, len(order))
        path = tree.path(order[count]) if count < len(order) else ()
        for nodes, outcome in ((order[:count], Outcome.REJECTED), (path, Outcome.ACCEPTED)):
            for node in nodes:
                walk.outcomes[node] = outcome
        walk.examined += path
        end = walk.examined[-1]
        if tree.children(end):
            walk.residuals[end] = lefts[end]

    def _examine(self, children: Sequence[int], walk: _Walk) -> int | None:
        """Return the first accepted child.

        If all children are rejected, store their residual and return None.
        """
        here = walk.examined[-1]
        distribution = self._p(here)
        for child in children:
            node = self.nodes[child]
            walk.compared[child] = distribution[node.token_id]
            if self._passes(distribution[node.token_id], node.draft_prob, walk.uniforms[child]):
                return child
            walk.outcomes[child] = Outcome.REJECTED
            distribution = (
                residual(distribution, self._rule_q(node)) if self.is_lossless else distribution
            )
        walk.residuals[here] = distribution
        return None

    def _extra(self, walk: _Walk) -> ExtraToken:
        here = walk.examined[-1]
        distribution = walk.residuals.get(here, self._p(here))
        token = sample(self.rng, distribution)
        kind = ExtraKind.RECOVERED if here in walk.residuals else ExtraKind.BONUS
        kind = kind if self.nodes else ExtraKind.PLAIN
        return ExtraToken(token, kind, here, distribution[token])

    def _lookup_notes(self, context_length: int) -> tuple[Note, ...]:
        match = NgramMatch(2, self.rng.randrange(context_length))
        window = tuple(node.token_id for node in self.nodes)
        return match, LookaheadState(3, 1, 0, (len(window),), window)

    def _passes(self, p: float, q: float, u: float) -> bool:
        return u * q < p if self.is_lossless else p > THRESHOLD

    def _p(self, parent: int) -> Distribution:
        if parent not in self.p:
            self._distribution(parent)
        return self.p[parent]

    def _rule_q(self, node: DraftNode) -> Distribution:
        if self.drawing is Drawing.INDEPENDENT:
            return self.q[node.parent]
        return tuple(float(token == node.token_id) for token in range(VOCABULARY))

    def _verdict(self, index: int, walk: _Walk) -> Verdict:
        node, compared = self.nodes[index], walk.compared[index]
        p = self._p(node.parent)[node.token_id]
        return Verdict(
            target_prob=p,
            residual_prob=compared,
            draft_prob=node.draft_prob,
            acceptance_prob=walk.thresholds[index]
            if walk.thresholds
            else self._chance(compared, node),
            uniform_draw=walk.uniforms[index],
            outcome=walk.outcomes[index],
            raw_target_prob=p,
            raw_draft_prob=self.q[node.parent][node.token_id] if self.has_distributions else 1.0,
        )

    def _chance(self, compared: float, node: DraftNode) -> float:
        return (
            min(1.0, compared / node.draft_prob)
            if self.is_lossless
            else float(compared > THRESHOLD)
        )

    def _position(self, parent: int, walk: _Walk) -> Position:
        q = self.q.get(parent) if self.has_distributions else None
        return position(parent, self._p(parent), q, walk.residuals.get(parent))


def random_round(
    seed: int = 0,
    widths: tuple[int, ...] = (1, 1, 1, 1, 1),
    drawing: Drawing = Drawing.INDEPENDENT,
    has_distributions: bool = True,
    index: int = 0,
    context_length: int = 12,
    rule: str = "token",
) -> Round:
    """Return a round whose tree has `widths` children per node at each level.

    Without widths, nothing was drafted.
    """
    maker = _RoundMaker(random.Random(seed), drawing, rule, has_distributions)
    maker.grow(widths)
    made = replace(maker.build(index, context_length), rule=rule)
    return on_clock(made, start=0.0)


def on_clock(round_: Round, start: float, is_ahead: bool = False) -> Round:
    """Return the round with its times on the lane's clock, beginning at `start` seconds.

    `is_ahead` adds a time span for drafting ahead.
    """
    drafted = start + round_.draft_seconds
    verified = drafted + round_.verify_seconds
    spans = [Span("draft", start, drafted), Span("verify", drafted, verified)]
    spans.append(Span("host", verified, verified + round_.host_seconds))
    if is_ahead:
        spans.append(Span("draft ahead", drafted, drafted + 0.7 * round_.verify_seconds))
    return replace(round_, spans=tuple(spans))
