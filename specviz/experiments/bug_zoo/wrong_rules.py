"""Rules that are wrong in one part, each beside the right one that it is made of.

A rule here has the parts that a round has: what is drafted, which of it is examined, which q is
told, what is accepted and what follows a rejection (`accept`, the decoder's own by default), and
what becomes of the rest. Every subclass replaces one part. All rounds are one level deep.
Letters: n draws of one place, W siblings of each, N nodes, R = N + 1 rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from specviz.decoding.sampling import draw
from specviz.decoding.topology import Topology
from specviz.decoding.verification import Acceptance, acceptance
from specviz.experiments.bug_zoo.zoo import RIGHT, specimen_named
from specviz.records import ProposalKind

LOW = 0.3  # a q below it is too low for who drops improbable guesses


class ExactRule:
    """The rule that the decoder has, for `siblings` guesses drawn independently from q."""

    name = RIGHT
    kind = ProposalKind.IID
    takes_bonus = True  # the token that the target adds where a whole path was accepted
    rolls_back = True  # what was rejected leaves the target's cache

    def __init__(self, siblings: int = 1) -> None:
        self.siblings = siblings

    def guesses(self, q: Tensor, uniforms: Tensor) -> Tensor:
        """Drawn from q in this order. [V] x [n, W] float64 -> [n, W] token ids"""
        shape = uniforms.shape
        return draw(q.expand(uniforms.numel(), -1), uniforms.flatten()).view(shape)

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        """Which of them verification sees. [n, W] -> [n, W] bool"""
        return torch.ones_like(guesses, dtype=torch.bool)

    def told_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        """The q that verification is told; None: a point mass. `raw_q`: before the settings."""
        return q

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        """As `decoding.verification.acceptance`, which it is."""
        return acceptance(topology, token_ids, kind, p, q)


class ResampledFromTarget(ExactRule):
    name = "resampled-from-target"

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        return replace(acceptance(topology, token_ids, kind, p, q), extra_distributions=p)


class EqualArgmax(ExactRule):
    name = "equal-argmax"

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        is_best = token_ids == p.argmax(-1)[topology.parent_rows]
        judged = acceptance(topology, token_ids, kind, p, q)
        return replace(judged, acceptance_probs=is_best.to(p), extra_distributions=p)


class RawDraftProbability(ExactRule):
    name = "raw-draft-probability"

    def told_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        return raw_q


class ArgmaxWithSoftmax(ExactRule):
    name = "argmax-with-softmax"

    def guesses(self, q: Tensor, uniforms: Tensor) -> Tensor:
        return q.argmax().expand(uniforms.shape)


class CertainAcceptance(ExactRule):
    name = "certain-acceptance"

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = acceptance(topology, token_ids, kind, p, q)
        return replace(judged, acceptance_probs=judged.residual_probs)


class StaleCache(ExactRule):
    name = "stale-cache"
    rolls_back = False


class FirstUnverified(ExactRule):
    name = "first-unverified"

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = acceptance(topology, token_ids, kind, p, q)
        return replace(judged, acceptance_probs=torch.ones_like(judged.acceptance_probs))


class SoftmaxOfResidual(ExactRule):
    name = "softmax-of-residual"

    def accept(
        self, topology: Topology, token_ids: Tensor, kind: ProposalKind, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        assert q is not None
        judged = acceptance(topology, token_ids, kind, p, q)
        extra, rows = judged.extra_distributions.clone(), topology.parent_rows
        extra[rows] = (p[rows] - q[rows]).clamp(min=0).softmax(-1)
        return replace(judged, extra_distributions=extra)


class SiblingsMerged(ExactRule):
    name = "siblings-merged"

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        equal = guesses[:, :, None] == guesses[:, None, :]  # [n, W, W]
        return ~equal.tril(-1).any(-1)


class SiblingsSorted(ExactRule):
    name = "siblings-sorted"

    def guesses(self, q: Tensor, uniforms: Tensor) -> Tensor:
        drawn = super().guesses(q, uniforms)
        return drawn.gather(1, q[drawn].argsort(dim=1, descending=True, stable=True))


class ImprobableDropped(ExactRule):
    name = "improbable-dropped"

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        return q[guesses] >= min(LOW, float(q.max()))


class TypicalAcceptance(ExactRule):
    name = "typical-acceptance"
    kind = ProposalKind.TYPICAL

    def told_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        return None


class NoBonus(ExactRule):
    name = "no-bonus"
    takes_bonus = False


class PointMass(ExactRule):
    name = "point-mass"
    kind = ProposalKind.DETERMINISTIC

    def told_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        return None


_WRONG = (
    ResampledFromTarget,
    EqualArgmax,
    RawDraftProbability,
    ArgmaxWithSoftmax,
    CertainAcceptance,
    StaleCache,
    FirstUnverified,
    SoftmaxOfResidual,
    SiblingsMerged,
    SiblingsSorted,
    ImprobableDropped,
    TypicalAcceptance,
    NoBonus,
    PointMass,
)
RULES: dict[str, type[ExactRule]] = {kind.name: kind for kind in _WRONG}


def rule_named(name: str) -> ExactRule:
    """The rule of that name, with as many siblings as it takes to show; InputError for none."""
    return ExactRule() if name == RIGHT else RULES[name](specimen_named(name).siblings)
