"""The target's forward over a draft tree and the judgement of the tree, as one piece of work.

One piece of work can be captured as a CUDA graph. In shapes, N is the number of nodes, R = N + 1
the number of rows (the root, then the nodes) and F W the width of joined features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.rules.rule import Rule
from specviz.decoding.sampling import Sampler
from specviz.decoding.target import tree_inputs
from specviz.decoding.topology import Topology, TreeLayout
from specviz.decoding.verification import judge
from specviz.models.sequence_work import Numbers, SequenceWork, Steps
from specviz.records import Drawing


@dataclass(frozen=True, slots=True)
class ProposalForm:
    """The parts of a proposal that are the same in most rounds of a run.

    Proposals with equal forms can use the same CUDA graph. If the host knows the tree, the tables
    of the tree belong to the form. A proposal with extra queries has no form.
    """

    drawing: Drawing
    tree: Topology | TreeLayout
    has_distributions: bool
    has_raw_distributions: bool
    has_origins: bool

    @classmethod
    def of(cls, proposal: Proposal) -> ProposalForm:
        tree = proposal.topology
        return cls(
            proposal.drawing,
            tree.layout if tree.is_padded else tree,
            proposal.distributions is not None,
            proposal.raw_distributions is not None,
            proposal.origins is not None,
        )

    def filled(self, tensors: Sequence[Tensor]) -> Proposal:
        """Return a proposal of this form with the tensors that `changing_tensors` returned."""
        left = list(tensors)
        token_ids = left.pop(0)
        distributions = left.pop(0) if self.has_distributions else None
        raw_distributions = left.pop(0) if self.has_raw_distributions else None
        origins = left.pop(0) if self.has_origins else None
        tree = self.tree if isinstance(self.tree, Topology) else self.tree.topology(left)
        return Proposal(
            tree, token_ids, distributions, raw_distributions, origins, drawing=self.drawing
        )


def changing_tensors(proposal: Proposal) -> tuple[Tensor, ...]:
    """Return the tensors of a proposal that differ from round to round, such as its token ids."""
    tree = proposal.topology
    found = (proposal.distributions, proposal.raw_distributions, proposal.origins)
    given = (tensor for tensor in found if tensor is not None)
    return (proposal.token_ids, *given, *(tree.tensors if tree.is_padded else ()))


@dataclass(frozen=True, slots=True)
class JudgedTree:
    """The tensor work that runs a draft tree after the cached tokens and judges every node.

    The host passes these numbers to it: the root's token, and the uniform draw for the extra token
    at each depth. A call returns the buffer that `judge` packs. If the drafter needs features, the
    call also returns the features [R, F W] of all rows.
    """

    form: ProposalForm
    sampler: Sampler
    rule: Rule
    feature_layers: tuple[int, ...]
    wholes: ClassVar[int] = 1
    alike: ClassVar[Sequence[SequenceWork]] = ()

    @property
    def tokens(self) -> int:
        return 1 + self.form.tree.size

    def __call__(
        self, steps: Steps, numbers: Numbers, inputs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        proposal = self.form.filled(inputs)
        rows = tree_inputs(numbers.wholes, proposal)
        output = steps.forward(
            rows.token_ids, rows.offsets, rows.mask, feature_layers=self.feature_layers
        )
        # The draw of the extra token depends on its text position. All rows of one depth share that
        # position, so they share the draw.
        uniforms = numbers.draws[proposal.topology.offsets]
        packed = judge(proposal, output.logits[0], self.sampler, uniforms, self.rule)
        features = output.row_features
        return (packed,) if features is None else (packed, features)
