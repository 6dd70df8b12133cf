"""Verification rules that are each wrong in one part, built from the right rule.

A rule decides each part of a round:

- which tokens are drafted (`guesses`), and which of them are verified (`examined`);
- which q verification receives (`given_q`);
- with which probability a guess passes and what replaces a rejected token (`accept`), and how the
  draws decide (`walk`); both are the decoder's own functions by default;
- whether the target adds a bonus token (`takes_bonus`), and whether rejected tokens are removed
  from its cache (`rolls_back`).

Every wrong rule replaces one part. A round drafts `siblings` guesses for one position, or a chain:
one guess for each of two positions. In shapes, n is the number of draws of one position, W the
number of guesses that are drawn for it, N the number of guesses in each draw, and V the size of the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specviz.decoding.rules import block, token_by_token, traversal
from specviz.decoding.rules.rule import Acceptance, Walk, walk_down
from specviz.decoding.rules.token_by_token import acceptance
from specviz.decoding.rules.typical import typical
from specviz.decoding.sampling import draw
from specviz.decoding.topology import Topology
from specviz.experiments.bug_zoo.zoo import RIGHT, specimen_named
from specviz.records import Drawing

LOW = 0.3  # lowest q of the guesses that two of the wrong rules keep


class ExactRule:
    """The decoder's own rule, for guesses drawn independently from q."""

    name = RIGHT
    drawing = Drawing.INDEPENDENT
    is_chain = False  # a round drafts one guess for each of two positions
    of_decoder = token_by_token.RULE  # the decoder's rule, of which a wrong rule changes a part
    takes_bonus = True  # if all tokens of a path are accepted, the target adds one more token
    rolls_back = True  # rejected tokens are removed from the target's cache

    def __init__(self, siblings: int = 1) -> None:
        self.siblings = siblings

    @property
    def reads_ahead(self) -> bool:
        """Return whether the walk also reads draws of guesses after the accepted path."""
        return self.of_decoder.reads_ahead

    @property
    def guess_count(self) -> int:
        """Return the number of guesses in a draft."""
        return 2 if self.is_chain else self.siblings

    def guesses(self, q: Tensor, uniforms: Tensor) -> Tensor:
        """Draw guesses for one position from q with `uniforms`. [V] x [n, W] float64 -> [n, W]"""
        shape = uniforms.shape
        return draw(q.expand(uniforms.numel(), -1), uniforms.flatten()).view(shape)

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        """Return which guesses are verified. [n, N] x [n, N, V] -> [n, N] bool

        Each guess was drawn from its row of q. In a chain, no guess after an unverified guess is
        verified, whatever the result says about it.
        """
        return torch.ones_like(guesses, dtype=torch.bool)

    def given_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        """Return the rows of q that verification receives; None means a point mass on each guess.

        `raw_q` is q before the sampling settings.
        """
        return q

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        """Verify the guesses with the decoder's own function."""
        return self.of_decoder.accept(topology, token_ids, drawing, p, q)

    def walk(
        self,
        children: Sequence[Sequence[int]],
        acceptance_probs: Sequence[float],
        uniforms: Sequence[float],
    ) -> Walk:
        """Decide with the decoder's own function which guesses are accepted."""
        return self.of_decoder.walk(children, acceptance_probs, uniforms)


class BlockRule(ExactRule):
    """The decoder's own block verification of a chain of two guesses."""

    is_chain = True
    of_decoder = block.RULE


class TraversalRule(ExactRule):
    """The decoder's own traversal verification of a chain of two guesses."""

    is_chain = True
    of_decoder = traversal.RULE


class ResampledFromTarget(ExactRule):
    name = "resampled-from-target"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        return replace(acceptance(topology, token_ids, drawing, p, q), extra_distributions=p)


class EqualArgmax(ExactRule):
    name = "equal-argmax"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        is_best = token_ids == p.argmax(-1)[topology.parent_rows]
        judged = acceptance(topology, token_ids, drawing, p, q)
        return replace(judged, acceptance_probs=is_best.to(p), extra_distributions=p)


class RawDraftProbability(ExactRule):
    name = "raw-draft-probability"

    def given_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        return raw_q


class ArgmaxWithSoftmax(ExactRule):
    name = "argmax-with-softmax"

    def guesses(self, q: Tensor, uniforms: Tensor) -> Tensor:
        return q.argmax().expand(uniforms.shape)


class CertainAcceptance(ExactRule):
    name = "certain-acceptance"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = acceptance(topology, token_ids, drawing, p, q)
        return replace(judged, acceptance_probs=judged.residual_probs)


class StaleCache(ExactRule):
    name = "stale-cache"
    rolls_back = False


class FirstUnverified(ExactRule):
    name = "first-unverified"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = acceptance(topology, token_ids, drawing, p, q)
        return replace(judged, acceptance_probs=torch.ones_like(judged.acceptance_probs))


class SoftmaxOfResidual(ExactRule):
    name = "softmax-of-residual"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        assert q is not None
        judged = acceptance(topology, token_ids, drawing, p, q)
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
        return _probabilities(q, guesses) >= q.amax(-1).clamp(max=LOW)


class LengthByDrawnToken(ExactRule):
    name = "length-by-drawn-token"
    is_chain = True

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        return guesses == q.argmax(-1)


class StopAfterDrawing(ImprobableDropped):
    name = "stop-after-drawing"
    is_chain = True

    def examined(self, guesses: Tensor, q: Tensor) -> Tensor:
        is_first = torch.arange(guesses.shape[1], device=q.device) == 0
        return super().examined(guesses, q) | is_first


class BlockStopsEarly(BlockRule):
    name = "block-stops-early"

    def walk(
        self,
        children: Sequence[Sequence[int]],
        acceptance_probs: Sequence[float],
        uniforms: Sequence[float],
    ) -> Walk:
        return walk_down(children, acceptance_probs, uniforms)


class BlockPlainResidual(BlockRule):
    name = "block-plain-residual"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        single = acceptance(topology, token_ids, drawing, p, q)
        judged = super().accept(topology, token_ids, drawing, p, q)
        return replace(judged, extra_distributions=single.extra_distributions)


class TraversalKeepsProduct(TraversalRule):
    name = "traversal-keeps-product"

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = super().accept(topology, token_ids, drawing, p, q)
        products = p.new_ones(topology.size + 1)
        for (rows, nodes), *_ in topology.levels:
            ratios = judged.target_probs[nodes] / judged.draft_probs[nodes]
            products[nodes + 1] = (products[rows] * ratios).clamp(max=1)
        return replace(judged, acceptance_probs=products[1:])


class TypicalAcceptance(ExactRule):
    name = "typical-acceptance"
    drawing = Drawing.CHOSEN

    def given_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
        return None

    def accept(
        self,
        topology: Topology,
        token_ids: Tensor,
        drawing: Drawing,
        p: Tensor,
        q: Tensor | None,
    ) -> Acceptance:
        return typical(topology, token_ids, drawing, p, q)


class NoBonus(ExactRule):
    name = "no-bonus"
    takes_bonus = False


class PointMass(ExactRule):
    name = "point-mass"
    drawing = Drawing.CHOSEN

    def given_q(self, q: Tensor, raw_q: Tensor) -> Tensor | None:
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
    LengthByDrawnToken,
    StopAfterDrawing,
    BlockStopsEarly,
    BlockPlainResidual,
    TraversalKeepsProduct,
    TypicalAcceptance,
    NoBonus,
    PointMass,
)

RULES: dict[str, type[ExactRule]] = {kind.name: kind for kind in _WRONG}


def rule_named(name: str) -> ExactRule:
    """Return the rule of this name, with as many siblings as are needed to expose it.

    Raises InputError for an unknown name.
    """
    return ExactRule() if name == RIGHT else RULES[name](specimen_named(name).siblings)


def _probabilities(q: Tensor, guesses: Tensor) -> Tensor:
    """Return the probability of each guess. [n, N, V] x [n, N] -> [n, N]"""
    return q.gather(-1, guesses[..., None])[..., 0]
