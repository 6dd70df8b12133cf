"""The target model of one sequence: its KV cache, its sampler and its forward over a draft tree.

Plain decoding (the baseline) uses the same class with an empty tree. In shapes, S is the number of
tokens of one forward (the root, the nodes and the extra queries).
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
from specviz.models.accelerator import upload
from specviz.models.language_model import (
    ForwardOutput,
    KeyValueCache,
    LanguageModel,
    LayeredModel,
)
from specviz.records import MAX_TREE_NODES, DecodingConfig

MAX_EXTRA_QUERIES = 192  # largest number of extra queries that a drafter may add per round


def cache_capacity(prompt_ids: Sequence[int], config: DecodingConfig) -> int:
    """Return how many cache slots a run needs.

    The slots hold the prompt, the new tokens, one draft tree and the extra queries of a drafter.
    """
    return len(prompt_ids) + config.max_new_tokens + MAX_TREE_NODES + 1 + MAX_EXTRA_QUERIES


def check_prompt(model: LanguageModel, prompt_ids: Sequence[int], config: DecodingConfig) -> None:
    """Raise InputError if the prompt has no tokens or does not fit into the context.

    The context must also have space for the new tokens of the run.
    """
    if not prompt_ids:
        raise InputError("prompt must have at least one token, got none")
    context, why = model.info.context_length, model.info.context_reason
    ending = f": {why}" if why else ""
    if config.max_new_tokens >= context:
        raise InputError(
            f"max_new_tokens must be below {context}, the context length of {model.info.name}, "
            f"got {config.max_new_tokens}{ending}"
        )
    room = context - config.max_new_tokens
    if len(prompt_ids) > room:
        raise InputError(
            f"prompt must have at most {room} tokens (the context of {model.info.name}, {context}, "
            f"minus max_new_tokens = {config.max_new_tokens}), got {len(prompt_ids)}{ending}"
        )


def finite(values: list[float], model: LanguageModel) -> list[float]:
    """Return numbers that the model computed. Raises InputError if one is NaN or infinite."""
    if not math.isfinite(sum(values)):
        raise InputError(
            f"model {model.info.name!r} must give finite logits, got NaN or infinity: "
            f"its weights are broken or too large for {model.dtype}; try float32"
        )
    return values


@dataclass(frozen=True, slots=True)
class Target:
    """The target model of a run, with the cache of one sequence and the sampler."""

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
        """Create the target of one prompt.

        Every forward returns the features of `feature_layers`, in which the number i means the
        input of layer i. Several sequences may share one `transfer`, which counts the blocking
        copies. Raises InputError for a prompt that the model cannot read.
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
        """Copy a tensor to the host and count the copy.

        Raises InputError if it contains NaN or infinity.
        """
        return finite(self.transfer.to_host(packed), self.model)

    def fill(self, token_ids: Sequence[int]) -> ForwardOutput:
        """Run the prompt and fill the empty cache with its keys and values.

        Return the logits after the last token of the prompt, and the features of all its tokens.
        """
        device = self.model.device
        tokens = upload(torch.tensor([token_ids], dtype=torch.int64), device)
        positions = torch.arange(len(token_ids), device=device)[None]
        return self.model.forward(
            tokens, positions, self.cache, last_only=True, feature_layers=self.feature_layers
        )

    def keys_values(self, count: int) -> Sequence[Tensor]:
        """Return the keys and values of the first `count` tokens, one tensor per layer."""
        return self.cache.held(count)

    def verify(self, root_id: int, proposal: Proposal, end: int) -> ForwardOutput:
        """Run the root, all nodes and all extra queries in one forward.

        `end` is the number of committed tokens, of which the root is the last.
        """
        root = upload(torch.tensor([root_id]), self.model.device)
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
        """Complete a forward in which a drafter has run the first layers over some tokens."""
        # The model is a LayeredModel, because a drafter can run only the layers of such a model.
        model: LayeredModel = self.model  # type: ignore[assignment]
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
    """The input of one verification. `offsets` are text positions relative to the root."""

    token_ids: Tensor  # [S] int64
    offsets: Tensor  # [S] int64
    mask: Tensor | None  # [S, S] bool, True where a token sees another one; None for a chain


def tree_inputs(root: Tensor, proposal: Proposal) -> TreeInputs:
    """Join the last committed token, the nodes and the extra queries into one input.

    `root` is the last committed token, a tensor [1].
    """
    tree, queries = proposal.topology, proposal.queries
    token_ids = torch.cat([root, proposal.token_ids])
    if queries is None:
        return TreeInputs(token_ids, tree.offsets, None if tree.is_chain else tree.mask)
    # The columns of the extra queries are False in the rows of the tree, because no node sees a
    # query.
    mask = F.pad(tree.mask, (0, len(queries.token_ids)))
    return TreeInputs(
        torch.cat([token_ids, queries.token_ids]),
        torch.cat([tree.offsets, queries.offsets]),
        torch.cat([mask, queries.mask]),
    )
