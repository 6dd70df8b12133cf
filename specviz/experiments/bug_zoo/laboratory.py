"""The losslessness laboratory: it samples one position of a text thousands of times.

For a draft model, many rounds are drawn together from one evaluation of the models per position,
under the right rule or a wrong one. With any other method, and under another rule of the decoder
than token by token, the models run again for every draw. The iterator yields at most MOST_STEPS
times, so that the caller can show the counts and stop at any moment. In shapes, V is the size of
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import torch
from torch import Tensor

from specviz.decoding.drafters.registry import method_named
from specviz.decoding.rules import token_by_token
from specviz.decoding.sampling import Sampler
from specviz.decoding.target import Target
from specviz.errors import InputError
from specviz.experiments.bug_zoo.many_draws import ManyDraws, Place
from specviz.experiments.bug_zoo.wrong_rules import ExactRule, rule_named
from specviz.experiments.bug_zoo.zoo import RIGHT, specimen_named
from specviz.experiments.run.losslessness import (
    Counting,
    DecoderDraws,
    Distance,
    Draws,
    counted,
    distance,
    next_probabilities,
)
from specviz.models.language_model import LanguageModel
from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.records import MAX_TREE_NODES, DecodingConfig

MAX_DRAWS = 50_000
SIDE_BY_SIDE = "draft-model"  # the method whose rules can be replaced by wrong ones
# the only rule of the decoder for which many draws are computed at once
TOKEN_BY_TOKEN = token_by_token.RULE.name
FOUND = 1e-3  # p-value below which a rule counts as wrong
SHOWN = 7  # number of tokens that have a bar of their own in the chart
MOST_NUMBERS = 50_000_000  # largest number of probabilities that are kept for later draws
# The largest number of progress steps in a series of draws.
MOST_STEPS = 200


@dataclass(frozen=True, slots=True)
class LaboratoryRequest:
    """A series of draws under a rule: RIGHT, or the name of a wrong rule of the zoo.

    With `is_random_draft` the draft gives every token the same probability. A wrong rule and a
    random draft are possible only for the method SIDE_BY_SIDE, judged token by token.
    """

    pair: Pair
    text: str
    config: DecodingConfig
    draws: int
    rule: str = RIGHT
    is_random_draft: bool = False
    task: str | None = None
    device: str = "auto"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not 1 <= self.draws <= MAX_DRAWS:
            raise InputError(f"draws must be from 1 to {MAX_DRAWS}, got {self.draws}")
        if self.rule != RIGHT:
            specimen_named(self.rule)
        is_changed = self.rule != RIGHT or self.is_random_draft
        if is_changed and self.config.method != SIDE_BY_SIDE:
            raise InputError(
                f"method must be {SIDE_BY_SIDE} to test a wrong rule or a random draft, got "
                f"{self.config.method}"
            )
        if is_changed and self.config.rule != TOKEN_BY_TOKEN:
            raise InputError(
                f"verification rule must be {TOKEN_BY_TOKEN} to test a wrong rule or a random "
                f"draft, got {self.config.rule}"
            )


@dataclass(frozen=True, slots=True)
class Tokens:
    """A bar of the chart: a token's text, its probability p and its count.

    An empty text stands for all other tokens together.
    """

    text: str
    p: float
    count: int


@dataclass(frozen=True, slots=True)
class LaboratoryStep:
    """The state of a series after `draws` draws of two tokens.

    `cells` has the bars of two charts, with counts of tokens and the target's probabilities.
    `cells[0]` counts the first token of every draw. `cells[1]` counts the second token, but only in
    draws whose first token was `usual`, the most probable one.
    """

    draws: int
    accepted: int  # number of draws whose first token was an accepted guess
    distance: Distance  # distance of both tokens' counts from the target's distributions
    cells: tuple[tuple[Tokens, ...], ...]
    usual: str

    @property
    def is_other(self) -> bool:
        """Return True if the draws do not follow the target's distribution.

        For a lossless rule the result is wrongly True about once in 1,000 series.
        """
        return self.distance.forbidden > 0 or self.distance.p_value < FOUND


class Laboratory:
    """One series of draws: iterate over it once."""

    def __init__(self, request: LaboratoryRequest) -> None:
        """Load the models. Raises InputError for an invalid request."""
        self._request = request
        method = method_named(request.config.method)
        self._loaded = load_pair(request.pair, request.device, request.dtype, method.needs)
        self._context = self._loaded.codec.encode(request.text, request.task)
        rule = rule_named(request.rule)
        top_k = 0 if request.rule == RIGHT else specimen_named(request.rule).top_k
        self.config = replace(request.config, top_k=top_k) if top_k else request.config
        if not self._context:
            raise InputError("text must have at least one token, got none")
        self.counting = Counting(self._loaded, self.config, self._context)
        # Token ids of a text -> both models' distributions for the token that follows the text.
        self._after: dict[tuple[int, ...], Place] = {}
        self._draws = self._make_draws(rule)

    @property
    def is_side_by_side(self) -> bool:
        """Return whether all draws share one evaluation of the models.

        Otherwise the models run again for every draw.
        """
        return isinstance(self._draws, ManyDraws)

    def __iter__(self) -> Iterator[LaboratoryStep]:
        goal, reported = self._request.draws, 0
        for done in counted(self.counting, self._draws, goal):
            if done - reported >= goal / MOST_STEPS or done == goal:
                reported = done
                yield self._step(done)

    def _make_draws(self, rule: ExactRule) -> Draws:
        config, context, usual = self.config, self._context, self.counting.usual
        if config.method != SIDE_BY_SIDE or config.rule != TOKEN_BY_TOKEN:
            return DecoderDraws(self._loaded, config, context, usual, config.seed)
        first, second = (self._place(ids) for ids in (context, [*context, usual]))
        stale = cache(
            lambda rejected: stale_probabilities(self._loaded, config, context, rejected, usual)
        )
        return ManyDraws(rule, first, second, usual, config.seed, stale)

    def _place(self, ids: Sequence[int]) -> Place:
        p, _ = next_probabilities(self._loaded.target, self.config, ids)
        draft = self._loaded.parts.draft
        assert draft is not None, "the method needs one"
        if self._request.is_random_draft:
            logits = torch.zeros(1, len(p))
            q, raw_q = Sampler.of(self.config).both(logits)
            return Place(p.cpu(), q[0], raw_q[0], partial(self._places, tuple(ids), draft))
        q, raw_q = (fitted_to(each, p) for each in next_probabilities(draft, self.config, ids))
        return Place(p.cpu(), q, raw_q, partial(self._places, tuple(ids), draft))

    def _places(
        self, context: Sequence[int], draft: LanguageModel, token_ids: Collection[int]
    ) -> dict[int, Place]:
        """Return both models' distributions after `context` and each token in `token_ids`.

        Each model runs one forward for all tokens together.
        """
        if 3 * len(self._after) * len(self.counting.cells[0].counts) > MOST_NUMBERS:
            self._after.clear()
        lacking = [each for each in token_ids if (*context, each) not in self._after]
        if lacking:
            p, _ = following_probabilities(self._loaded.target, self.config, context, lacking)
            if self._request.is_random_draft:
                q, raw_q = Sampler.of(self.config).both(torch.zeros_like(p))
            else:
                both = following_probabilities(draft, self.config, context, lacking)
                q, raw_q = (fitted_to(each, p) for each in both)
            for token_id, own_p, own_q, own_raw in zip(lacking, p, q, raw_q, strict=True):
                self._after[*context, token_id] = Place(own_p, own_q, own_raw)
        return {each: self._after[*context, each] for each in token_ids}

    def _step(self, done: int) -> LaboratoryStep:
        counting, codec = self.counting, self._loaded.codec
        return LaboratoryStep(
            done,
            self._draws.accepted,
            distance(counting.cells),
            tuple(self._bars(cell.distribution, cell.counts) for cell in counting.cells),
            codec.decode([counting.usual]),
        )

    def _bars(self, p: Tensor, counts: Tensor) -> tuple[Tokens, ...]:
        """Return bars for the most probable tokens, and one bar for all other tokens together."""
        ids = p.topk(min(SHOWN, len(p))).indices
        decode = self._loaded.codec.decode
        shown = [Tokens(decode([i]), float(p[i]), int(counts[i])) for i in ids.tolist()]
        rest = max(0.0, 1 - float(p[ids].sum())), int(counts.sum() - counts[ids].sum())
        return (*shown, Tokens("", *rest))


def fitted_to(q: Tensor, p: Tensor) -> Tensor:
    """Return `q`, the draft's distributions, with as many tokens as `p`: cut, or padded with zeros.

    [..., V of the draft] -> [..., V]
    """
    size = p.shape[-1]
    return torch.nn.functional.pad(q.cpu(), (0, size - q.shape[-1]))[..., :size]


@torch.inference_mode()
def following_probabilities(
    model: LanguageModel, config: DecodingConfig, context: Sequence[int], token_ids: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return two distributions [m, V] of a model after `context` and each of the m `token_ids`.

    The first follows the sampling settings, and the second is the plain softmax. The tokens run as
    siblings of a tree.
    """
    target = Target.of(model, context, replace(config, max_new_tokens=1))
    target.fill(context)
    logits = []
    for start in range(0, len(token_ids), MAX_TREE_NODES):
        part = token_ids[start : start + MAX_TREE_NODES]
        ids = torch.tensor([part], device=model.device)
        own = torch.eye(len(part), dtype=torch.bool, device=model.device)
        output = model.forward(ids, torch.full_like(ids, len(context)), target.cache, own)
        target.cache.keep(len(context), [])
        logits.append(output.logits[0])
    processed, raw = target.sampler.both(torch.cat(logits))
    return processed.cpu(), raw.cpu()


@torch.inference_mode()
def stale_probabilities(
    loaded: LoadedPair, config: DecodingConfig, context: Sequence[int], rejected: int, token_id: int
) -> Tensor:
    """Return p [V] after `token_id`, computed with a cache that still holds the token `rejected`.

    One of the wrong rules leaves rejected tokens in the cache, so attention sees both tokens.
    """
    target = Target.of(loaded.target, context, replace(config, max_new_tokens=1))
    target.fill(context)
    device = loaded.target.device
    for each in (rejected, token_id):
        ids, positions = torch.tensor([[each]]), torch.tensor([[len(context)]])
        output = loaded.target.forward(ids.to(device), positions.to(device), target.cache)
    return target.sampler.distributions(output.logits[0])[0].cpu()
