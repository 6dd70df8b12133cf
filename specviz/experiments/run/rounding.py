"""A measurement of how far rounding moves logits, compared with the gap between the two best.

A forward over one token and a forward over several compute the same sums in another order, so the
last digits of the logits differ. At temperature 0 this changes a token if the gap between the two
best logits is smaller than the rounding. Both texts are then correct texts of the target. In
shapes, N is the number of tokens and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.target import check_prompt
from specviz.models.language_model import KeyValueCache, LanguageModel
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.records import DecodingConfig, Prompt
from specviz.slices import give_way


@dataclass(frozen=True, slots=True)
class RoundedPlace:
    """One position of a greedy text, computed in a forward over one token and in one over several.

    `margin` is the gap between the two best logits in the forward over one token. `moved` is the
    change of that gap in the forward over several tokens. `other` is the best token in that second
    forward.
    """

    token: str
    second: str
    other: str
    margin: float
    moved: float


@torch.inference_mode()
def rounded_places(
    pair: Pair, prompt: Prompt, dtype: str, places: int, count: int
) -> Iterator[RoundedPlace]:
    """Yield the first `places` positions of the greedy text, each computed in two forwards.

    One forward runs only the token before the position, the other runs this token and the next
    `count` - 1 tokens. Raises InputError for a pair that cannot be loaded, and for a prompt that is
    too long for the model's context.
    """
    loaded = load_pair(pair, "auto", dtype, frozenset())
    model, prompt_ids = loaded.target, loaded.codec.encode(prompt)
    length = places + count
    check_prompt(model, prompt_ids, DecodingConfig(max_new_tokens=length))
    written, logits = _greedy(model, prompt_ids, length)
    cache = _filled(model, prompt_ids, length)
    for place in range(places):
        start = len(prompt_ids) + place
        together = _forward(model, written[place : place + count], start, cache)[0]
        cache.keep(start, [])
        best, second = logits[place].topk(2).indices.tolist()
        alone, moved = (float(each[best] - each[second]) for each in (logits[place], together))
        text, other = loaded.codec.token_text, int(together.argmax())
        yield RoundedPlace(text(best), text(second), text(other), alone, abs(moved - alone))


def _greedy(
    model: LanguageModel, prompt_ids: Sequence[int], count: int
) -> tuple[list[int], list[Tensor]]:
    """Decode `count` tokens one at a time; return them, and the logits [V] before each."""
    cache = _filled(model, prompt_ids, count)
    written, logits = [prompt_ids[-1]], list[Tensor]()
    for start in range(len(prompt_ids), len(prompt_ids) + count):
        give_way()
        logits.append(_forward(model, written[-1:], start, cache)[0])
        written.append(int(logits[-1].argmax()))
    return written, logits


def _filled(model: LanguageModel, prompt_ids: Sequence[int], count: int) -> KeyValueCache:
    """Return a cache that holds the prompt without its last token.

    It has room for that token and for `count` more.
    """
    cache = model.new_cache(len(prompt_ids) + count + 1)
    if len(prompt_ids) > 1:
        _forward(model, prompt_ids[:-1], 1, cache)
    return cache


def _forward(
    model: LanguageModel, token_ids: Sequence[int], start: int, cache: KeyValueCache
) -> Tensor:
    """Run tokens, of which the first is token number `start` of the text, counted from 1.

    Return the logits [N, V] after each token.
    """
    ids = torch.tensor([token_ids], device=model.device)
    first = start - 1
    positions = torch.arange(first, first + len(token_ids), device=model.device)[None]
    return model.forward(ids, positions, cache).logits[0].float()
