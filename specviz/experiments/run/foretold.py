"""How well an EAGLE head foretells the target's features, guess after guess.

Its first guess of a round stands on the target's own features, the second on what it has foretold
itself, and so on. The text is given here, so guesses differ only in whose features they stand on.
Letters: N tokens, W hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.target import check_prompt
from specviz.models.heads.eagle_head import EagleHead
from specviz.models.language_model import LanguageModel
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.records import DecodingConfig, Prompt
from specviz.slices import give_way


@dataclass(frozen=True, slots=True)
class ForetoldLevel:
    """Of the n-th guess in a row, on average over the places of a text.

    `likeness`: the cosine between the foretold feature and the target's own. `agreed`: the share of
    places where the likeliest next token is the same by both.
    """

    likeness: float
    agreed: float


@dataclass(frozen=True, slots=True)
class ForetoldText:
    """What was found of a head; it can guess `drafted` of the `vocabulary` tokens.

    `outside` is the share of the written tokens that it cannot guess. Bytes are of the weights.
    """

    levels: tuple[ForetoldLevel, ...]
    vocabulary: int
    drafted: int
    outside: float
    head_bytes: int
    target_bytes: int
    layers: int


@dataclass(frozen=True, slots=True)
class _Text:
    """N tokens; of all but the last the features [N - 1, W] and the likeliest next one [N - 1]."""

    token_ids: Tensor
    features: Tensor
    likeliest: Tensor


@torch.inference_mode()
def foretold_text(pair: Pair, prompt: Prompt, places: int, depth: int) -> ForetoldText:
    """Guess `depth` tokens deep behind each of the `places` tokens that the target writes.

    InputError for a pair without an EAGLE head, and for a prompt that leaves no room.
    """
    loaded = load_pair(pair, "auto", "float32", frozenset({Need.EAGLE}))
    head, target = loaded.parts.eagle, loaded.target
    assert head is not None
    prompt_ids = loaded.codec.encode(prompt)
    count = places + depth
    check_prompt(target, prompt_ids, DecodingConfig(max_new_tokens=count))
    text = _greedy_text(target, head, prompt_ids, count)
    first = len(prompt_ids) + 1
    found, able = [], torch.ones(target.info.vocab_size, dtype=torch.bool)
    for guesses in _guesses(head, text, range(first, first + places), depth):
        found.append([(likeness, float(agreed)) for likeness, agreed, _ in guesses])
        able = guesses[0][2]
    means = torch.tensor(found).mean(0).tolist()  # [depth, 2]
    info = target.info
    return ForetoldText(
        tuple(ForetoldLevel(*each) for each in means),
        info.vocab_size,
        int(able.sum()),
        1 - float(able[text.token_ids[len(prompt_ids) :]].float().mean()),
        head.bytes,
        info.bytes,
        info.layers,
    )


def mean_text(texts: Sequence[ForetoldText]) -> ForetoldText:
    """The same head on several texts of as many places each."""
    levels = zip(*(each.levels for each in texts), strict=True)
    return replace(
        texts[0], levels=tuple(map(_mean, levels)), outside=fmean(each.outside for each in texts)
    )


def _mean(levels: Sequence[ForetoldLevel]) -> ForetoldLevel:
    return ForetoldLevel(fmean(e.likeness for e in levels), fmean(e.agreed for e in levels))


def _greedy_text(
    model: LanguageModel, head: EagleHead, prompt_ids: Sequence[int], count: int
) -> _Text:
    """The prompt and `count` tokens that the target writes."""
    cache = model.new_cache(len(prompt_ids) + count)
    written, new = list(prompt_ids), list(prompt_ids)
    features, likeliest = list[Tensor](), list[Tensor]()
    for _ in range(count):
        give_way()
        start = len(written) - len(new)
        ids = torch.tensor([new], device=model.device)
        positions = torch.arange(start, len(written), device=model.device)[None]
        output = model.forward(ids, positions, cache, feature_layers=head.feature_layers)
        assert output.features is not None
        features.append(head.reduce(output.features[0]))
        likeliest.append(output.logits[0].argmax(-1))
        new = [int(likeliest[-1][-1])]
        written += new
    return _Text(torch.tensor(written), torch.cat(features), torch.cat(likeliest))


def _guesses(
    head: EagleHead, text: _Text, lengths: range, depth: int
) -> Iterator[list[tuple[float, bool, Tensor]]]:
    """Behind each length of the text: likeness and agreement of each guess, and what it may name.

    The last is a mask over the vocabulary. [V] bool
    """
    cache = head.new_cache(lengths.stop + depth)
    device, pairs = text.features.device, 0  # pairs that stand on the target's own features
    ids = text.token_ids.to(device)
    for length in lengths:
        give_way()
        places = torch.arange(pairs, length - 1, device=device)
        own = text.features[pairs : length - 1]
        logits, foretold = head.forward(ids[pairs + 1 : length], own, places, cache, None, True)
        foretold, pairs, found = foretold[-1:], length - 1, []
        for place in range(pairs, pairs + depth):
            likeness = float(F.cosine_similarity(foretold, text.features[place : place + 1])[0])
            agreed = bool(logits[0].argmax() == text.likeliest[place])
            found.append((likeness, agreed, logits[0].isfinite().cpu()))
            at = torch.tensor([place], device=device)
            logits, foretold = head.forward(ids[place + 1 : place + 2], foretold, at, cache)
        cache.keep(pairs, [])
        yield found
