"""The exact distributions of target and draft behind the same texts, and what rules would make of
them.

Draws nothing: every number is a sum over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from specviz.claims import output_distributions as outputs
from specviz.decoding.sampling import Sampler
from specviz.models.language_model import LanguageModel
from specviz.models.pair_loading import LoadedPair


def measure_distributions(
    loaded: LoadedPair, contexts: Sequence[Sequence[int]], temperatures: Sequence[float]
) -> list[dict[str, Any]]:
    """For each temperature one number per context (token ids).

    `overlap`: accepted by min(1, p/q); `equal_mass`: drafts with p = q; the others are total
    variations between p and the output's distribution under a rule that some texts give.
    """
    assert loaded.parts.draft is not None
    models = loaded.target, loaded.parts.draft
    logits = [[_next_logits(model, context) for model in models] for context in contexts]
    return [_compare(logits, temperature) for temperature in temperatures]


@torch.inference_mode()
def _next_logits(model: LanguageModel, ids: Sequence[int]) -> torch.Tensor:
    """[V]"""
    tokens = torch.tensor([list(ids)], device=model.device)
    positions = torch.arange(len(ids), device=model.device)[None]
    cache = model.new_cache(len(ids))
    return model.forward(tokens, positions, cache, last_only=True).logits[0, -1].double().cpu()


def _compare(logits: Sequence[Sequence[torch.Tensor]], temperature: float) -> dict[str, Any]:
    pairs = [[_distribution(each, temperature) for each in both] for both in logits]
    return {
        "temperature": temperature,
        "overlap": [outputs.overlap(p, q) for p, q in pairs],
        "equal_mass": [outputs.equal_mass(p, q) for p, q in pairs],
        "resampled_from_p": [
            outputs.total_variation(outputs.emitted(p, q, p), p) for p, q in pairs
        ],
        "two_siblings": [
            outputs.total_variation(outputs.emitted_of_two(p, q), p) for p, q in pairs
        ],
    }


def _distribution(logits: torch.Tensor, temperature: float) -> list[float]:
    distribution = Sampler(temperature).distributions(logits[None])[0].double()
    values: list[float] = (distribution / distribution.sum()).tolist()
    return values
