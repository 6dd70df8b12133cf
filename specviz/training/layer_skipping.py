"""Choose the layers that the target leaves out when it drafts for itself.

The greedy search is that of Draft & Verify (Zhang et al., arXiv 2309.08168). But that paper
measures the speed, and here a formula computes it. In shapes, B is the number of texts, T the
number of tokens per text, and V the size of the vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from specviz.training.network import Network, rotation

FEWEST, MOST = 3, 8  # smallest and largest number of layers that are left out
DRAFT_LENGTHS = range(1, 6)
HEAD_COST = 1.0  # cost of the output matrix, in units of one layer


def layers_to_skip(network: Network, tokens: Tensor) -> tuple[int, ...]:
    """Return a set of FEWEST to MOST layers to leave out, found by a greedy search.

    `tokens` is [B, T]. Each step of the search leaves out one more layer: the layer without which
    the network's distributions overlap most with those of the complete network. Of the sets that
    the search finds, the result is the one with the highest `modelled_speedup`.
    """
    count = len(network.model.layers)
    whole = distributions(network, tokens, ())
    skipped: tuple[int, ...] = ()
    found: dict[tuple[int, ...], float] = {}
    while len(skipped) < min(MOST, count - 1):
        left = (layer for layer in range(count) if layer not in skipped)
        overlaps = {layer: _overlap(network, tokens, whole, (*skipped, layer)) for layer in left}
        best = max(overlaps, key=overlaps.__getitem__)
        skipped = (*skipped, best)
        if len(skipped) >= min(FEWEST, count - 1):
            found[tuple(sorted(skipped))] = modelled_speedup(overlaps[best], len(skipped), count)
    return max(found, key=found.__getitem__)


def modelled_speedup(overlap: float, skipped: int, layers: int) -> float:
    """Return the speedup at the best draft length.

    Every token is accepted with probability a = `overlap`. A forward without the skipped layers
    takes c times as long as a complete one. With K drafted tokens per round, the speedup is
    (1 - a^(K + 1)) / (1 - a) / (1 + K c) (Leviathan et al., arXiv 2211.17192). For example, if no
    layer is skipped and a = 0.5, K = 1 gives 1.5 / 2 = 0.75.
    """
    cost = (layers - skipped + HEAD_COST) / (layers + HEAD_COST)
    return max(
        sum(overlap**accepted for accepted in range(length + 1)) / (1 + length * cost)
        for length in DRAFT_LENGTHS
    )


@torch.no_grad()
def distributions(network: Network, tokens: Tensor, skipped: tuple[int, ...]) -> Tensor:
    """Run the network without the skipped layers; return the probabilities. [B, T] -> [B, T, V]"""
    *_, last = _kept_states(network, tokens, skipped)
    return network.logits(last).float().softmax(-1)


def _kept_states(network: Network, tokens: Tensor, skipped: tuple[int, ...]) -> Iterator[Tensor]:
    hidden = network.model.embed_tokens(tokens)
    turns = rotation(tokens.shape[1], network.config, tokens.device, network.dtype)
    for index, layer in enumerate(network.model.layers):
        if index not in skipped:
            hidden = layer(hidden, *turns, network.dtype)
        yield hidden


def _overlap(network: Network, tokens: Tensor, whole: Tensor, skipped: tuple[int, ...]) -> float:
    return torch.minimum(distributions(network, tokens, skipped), whole).sum(-1).mean().item()
