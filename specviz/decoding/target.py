"""The target of one sequence: its cache, the forward of a root and its draft tree, its sampler.

Both lanes use it; the baseline's tree is empty. Letters: S tokens of one forward: the root, the
nodes and the extra queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import HostTransfer, Partial, Proposal
from specviz.decoding.sampling import Sampler
from specviz.errors import InputError
from specviz.models.language_model import (
    ForwardOutput,
    KeyValueCache,
    LanguageModel,
    LayeredModel,
)
from specviz.records import MAX_TREE_NODES, DecodingConfig

MAX_EXTRA_QUERIES = 192  # of one round


def cache_capacity(prompt_ids: Sequence[int], config: DecodingConfig) -> int:
    """Cache slots for the prompt, the whole output, one tree and a drafter's extra queries."""
    return len(prompt_ids) + config.max_new_tokens + MAX_TREE_NODES + 1 + MAX_EXTRA_QUERIES


def check_prompt(model: LanguageModel, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """InputError for an empty prompt, and for one that leaves the output no room in the context."""
    if not prompt_ids:
        raise InputError("prompt must have at least one token, got none")
    context = model.info.context_length
    if config.max_new_tokens >= context:
        raise InputError(
            f"max_new_tokens must be below {context}, the context of {model.info.name}, "
            f"got {config.max_new_tokens}"
        )
    room = context - config.max_new_tokens
    if len(prompt_ids) > room:
        raise InputError(
            f"prompt must have at most {room} tokens (the {context} that "
            f"{model.info.name} can see less max_new_tokens = {config.max_new_tokens}), "
            f"got {len(prompt_ids)}"
        )


def finite(values: list[float], model: LanguageModel) -> list[float]:
    """The values; InputError if any is NaN or infinite."""
    if not math.isfinite(sum(values)):
        raise InputError(
            f"model {model.info.name!r} must give finite logits, got NaN or infinity: "
            f"its weights are broken or too large for {model.dtype}; try float32"
        )
    return values


@dataclass(frozen=True, slots=True)
class Target:
    """The model, the cache of one sequence, and the sampler of the run."""

    model: LanguageModel
    cache: KeyValueCache
    sampler: Sampler
    transfer: HostTransfer
    feature_layers: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        model: LanguageModel,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        feature_layers: Sequence[int] = (),
        transfer: HostTransfer | None = None,
    ) -> Target:
        """`feature_layers`: every forward returns these features; see `ForwardOutput`.

        `transfer`: the counter of blocking copies, if several sequences share one. Raises
        InputError for a prompt that the model cannot take.
        """
        check_prompt(model, prompt_ids, config)
        return cls(
            model,
            model.new_cache(cache_capacity(prompt_ids, config)),
            Sampler.of(config),
            transfer or HostTransfer(),
            feature_layers,
        )

    def to_host(self, packed: Tensor) -> list[float]:
        """The counted blocking copy; InputError if any number is NaN or infinite."""
        return finite(self.transfer.to_host(packed), self.model)

    def fill(self, token_ids: Sequence[int]) -> ForwardOutput:
        """Run the prompt into the empty cache: logits after its last token, features of all."""
        device = self.model.device
        tokens = torch.tensor([token_ids], dtype=torch.int64).to(device, non_blocking=True)
        positions = torch.arange(len(token_ids), device=device)[None]
        return self.model.forward(
            tokens, positions, self.cache, last_only=True, feature_layers=self.feature_layers
        )

    def keys_values(self, count: int) -> Sequence[Tensor]:
        """Those of the first `count` tokens, layer by layer; see `PrefilledPrompt`."""
        return self.cache.held(count)

    def verify(self, root_id: int, proposal: Proposal, end: int) -> ForwardOutput:
        """One forward over the root at text position `end` - 1, all nodes and all extra queries."""
        root = torch.tensor([root_id]).to(self.model.device, non_blocking=True)
        inputs = tree_inputs(root, proposal)
        positions = inputs.offsets + (end - 1)
        if proposal.partial is not None:
            return self._complete(proposal.partial, inputs.token_ids, positions, inputs.mask)
        return self.model.forward(
            inputs.token_ids[None],
            positions[None],
            self.cache,
            inputs.mask,
            feature_layers=self.feature_layers,
        )

    def _complete(
        self, partial: Partial, token_ids: Tensor, positions: Tensor, mask: Tensor | None
    ) -> ForwardOutput:
        """The same, when drafting has run the first tokens through the first layers already."""
        model: LayeredModel = self.model  # type: ignore[assignment] # its method needs LAYERS
        hidden, ran = partial.hidden, len(partial.hidden)
        start, first = self.cache.length, range(partial.layers)
        if ran < len(token_ids):
            below = None if mask is None else mask[ran:]
            late = model.embed(token_ids[ran:])
            late = model.run_layers(late, positions[ran:], self.cache, first, start + ran, below)
            hidden = torch.cat([hidden, late])
        rest = range(partial.layers, model.info.layers)
        hidden = model.run_layers(hidden, positions, self.cache, rest, start, mask)
        self.cache.advance(len(token_ids))
        return ForwardOutput(model.output(model.norm(hidden))[None])


@dataclass(frozen=True, slots=True, eq=False)
class TreeInputs:
    """The tokens of one verification. `offsets` are text positions relative to the root's."""

    token_ids: Tensor  # [S] int64
    offsets: Tensor  # [S] int64
    mask: Tensor | None  # [S, S] bool, who sees whom; None for a chain


def tree_inputs(root: Tensor, proposal: Proposal) -> TreeInputs:
    """Root, nodes and extra queries as one sequence. `root` is the last committed token, [1]."""
    tree, queries = proposal.topology, proposal.queries
    token_ids = torch.cat([root, proposal.token_ids])
    if queries is None:
        return TreeInputs(token_ids, tree.offsets, None if tree.is_chain else tree.mask)
    mask = F.pad(tree.mask, (0, len(queries.token_ids)))  # no node sees a query
    return TreeInputs(
        torch.cat([token_ids, queries.token_ids]),
        torch.cat([tree.offsets, queries.offsets]),
        torch.cat([mask, queries.mask]),
    )
