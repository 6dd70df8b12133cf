"""Typical acceptance (Medusa, arXiv 2401.10774), which is not lossless.

A token x is accepted if p(x) is large enough for the entropy of p. The extra token is drawn from p
itself. In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes)
and V the size of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.decoding.rules.rule import Acceptance, Rule
from specviz.decoding.topology import Topology
from specviz.records import Drawing

# Epsilon and delta of typical acceptance, with the values of the Medusa paper.
EPSILON, DELTA = 0.09, 0.3


def typical(
    topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
) -> Acceptance:
    """Accept x if p(x) > min(epsilon, delta * exp(-entropy of p)). Rejections never change p."""
    entropy = torch.special.entr(p).sum(-1)  # [R]
    threshold = (DELTA * (-entropy).exp()).clamp(max=EPSILON)
    rows = topology.parent_rows
    p_x = p[rows, token_ids]
    passes = (p_x > threshold[rows]).to(p)
    return Acceptance(passes, p_x, p_x, torch.ones_like(p_x), p)


RULE = Rule(
    "typical",
    "typical acceptance (lossy)",
    "A guess passes if the target finds it plausible enough; the text is not the target's.",
    typical,
    drawings=frozenset({Drawing.CHOSEN}),
    is_lossless=False,
)
