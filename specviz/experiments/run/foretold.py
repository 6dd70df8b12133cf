"""A test of how well an EAGLE head predicts the target's features, guess after guess.

The first guess of a round uses the target's own features, the second uses the head's own
prediction, and so on. Every guess gets the true tokens of the text before it, so guesses differ
only in the features that they use. In shapes, N is the number of tokens, W the hidden size, and V
the size of the vocabulary.
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
    """The quality of the n-th of consecutive guesses, averaged over the positions of a text.

    `likeness` is the cosine between the predicted feature and the target's own. `agreed` is the
    share of positions at which both features lead to the same most probable next token.
    """

    likeness: float
    agreed: float


@dataclass(frozen=True, slots=True)
class ForetoldText:
    """A measurement of how well a head predicts one text.

    The head can guess only `drafted` of the target's `vocabulary` tokens.

    `outside` is the share of emitted tokens that the head cannot guess. `head_bytes` and
    `target_bytes` are the sizes of the weights.
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
    """A text of N tokens with the target's features and best next tokens.

    Both exist for all tokens but the last: features [N - 1, W], best tokens [N - 1].
    """

    token_ids: Tensor
    features: Tensor
    likeliest: Tensor


@torch.inference_mode()
def foretold_text(pair: Pair, prompt: Prompt, places: int, depth: int) -> ForetoldText:
    """Let the head guess `depth` tokens after each of the `places` tokens that the target emits.

    Raises InputError for a pair without an EAGLE head, and for a prompt that is too long for the
    model's context.
    """
    loaded = load_pair(pair, "auto", "float32", frozenset({Need.EAGLE}))
    head, target = loaded.parts.eagle, loaded.target
    assert head is not None
    prompt_ids = loaded.codec.encode(prompt)
    count = places + depth
    check_prompt(target, prompt_ids, DecodingConfig(max_new_tokens=count))
    text = _greedy_text(target, head, prompt_ids, count)
    first = len(prompt_ids) + 1
    found = [*_guesses(head, text, range(first, first + places), depth)]
    able = torch.ones(target.info.vocab_size, dtype=torch.bool)
    if head.drafted is not None:
        able.zero_()[head.drafted.ids.cpu()] = True
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
    """Return the mean result over several texts, all for the same head and number of positions."""
    levels = zip(*(each.levels for each in texts), strict=True)
    return replace(
        texts[0], levels=tuple(map(_mean, levels)), outside=fmean(each.outside for each in texts)
    )


def _mean(levels: Sequence[ForetoldLevel]) -> ForetoldLevel:
    return ForetoldLevel(fmean(e.likeness for e in levels), fmean(e.agreed for e in levels))


def _greedy_text(
    model: LanguageModel, head: EagleHead, prompt_ids: Sequence[int], count: int
) -> _Text:
    """Return the prompt and the `count` tokens that the target emits after it, with features."""
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
) -> Iterator[list[tuple[float, float]]]:
    """Yield the head's next `depth` guesses after the first n tokens, for each n in `lengths`.

    Each guess is a pair: the cosine of its feature and the target's, and 1 if the guessed token is
    the target's most probable one, otherwise 0.
    """
    cache = head.new_cache(lengths.stop + depth)
    # `pairs` is the number of cache entries that come from the target's own features.
    device, pairs = text.features.device, 0
    ids = text.token_ids.to(device)
    for length in lengths:
        give_way()
        places = torch.arange(pairs, length - 1, device=device)
        own = text.features[pairs : length - 1]
        logits, foretold = head.forward(ids[pairs + 1 : length], own, places, cache, None, True)
        foretold, pairs, found = foretold[-1:], length - 1, []
        for place in range(pairs, pairs + depth):
            likeness = float(F.cosine_similarity(foretold, text.features[place : place + 1])[0])
            best = logits[0].argmax()
            guessed = best if head.drafted is None else head.drafted.ids[best]
            found.append((likeness, float(guessed == text.likeliest[place])))
            at = torch.tensor([place], device=device)
            logits, foretold = head.forward(ids[place + 1 : place + 2], foretold, at, cache)
        cache.keep(pairs, [])
        yield found
