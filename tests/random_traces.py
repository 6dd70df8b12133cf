"""Random but consistent traces: rounds, both lanes and texts as in a real run.

Tests and previews of figures use these traces.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from specviz.records import (
    BASELINE,
    SPECULATIVE,
    DecodingConfig,
    Drawing,
    ExtraKind,
    ExtraToken,
    FinishReason,
    Lane,
    LaneKind,
    ModelInfo,
    Prefill,
    Round,
    TokenStep,
    Trace,
)
from tests.random_distributions import TEXTS, VOCABULARY, position, random_distribution, sample
from tests.random_rounds import on_clock, random_round

TARGET = ModelInfo("bundled-target", "llama", 17_000_000, 68_000_000, 8, 384, 4096, 2048)
DRAFT = ModelInfo("bundled-draft", "llama", 1_000_000, 4_000_000, 2, 128, 4096, 2048)


def random_trace(
    seed: int = 0,
    rounds: int = 20,
    branching: tuple[int, ...] = (),
    drawing: Drawing = Drawing.INDEPENDENT,
    rule: str = "token",
    draft_length: int = 5,
    temperature: float = 0.7,
    has_distributions: bool = True,
    cut: bool = False,
    is_ahead: bool = False,
) -> Trace:
    """Return a finished race of both lanes; `cut` ends the last round at an accepted token.

    At temperature 0 both lanes emit the same tokens. Without distributions the method is an n-gram
    lookup that drafts nothing in some rounds.
    """
    rng = random.Random(seed)
    config = DecodingConfig(
        method="draft-model" if has_distributions else "prompt-lookup",
        draft_length=draft_length,
        branching=branching,
        drawing=drawing,
        rule=rule,
        temperature=temperature,
        seed=seed,
        max_new_tokens=4096,
    )
    prompt_ids = tuple(rng.randrange(VOCABULARY) for _ in range(8))
    made = _random_rounds(rng, rounds, config, len(prompt_ids) + 1, has_distributions, is_ahead)
    if cut and made and made[-1].accepted:
        made[-1] = replace(made[-1], extra=None)
    first = _random_prefill(rng, len(prompt_ids), 0.031)
    lanes = (
        Lane(
            BASELINE,
            LaneKind.BASELINE,
            config,
            prefill=replace(first, seconds=0.030),
            steps=_random_steps(rng, made, is_same=temperature == 0),
            finish=FinishReason.LENGTH,
        ),
        Lane(
            SPECULATIVE,
            LaneKind.SPECULATIVE,
            config,
            draft=DRAFT if has_distributions else None,
            drafter_bytes=4_000_000,
            prefill=first,
            rounds=tuple(made),
            finish=FinishReason.END_OF_SEQUENCE if cut else FinishReason.LENGTH,
        ),
    )
    return Trace(
        target=TARGET,
        device="cpu",
        dtype="float32",
        prompt="".join(TEXTS[token] for token in prompt_ids),
        prompt_ids=prompt_ids,
        token_texts=tuple(enumerate(TEXTS)),
        lanes=lanes,
    )


def three_lanes(temperature: float = 0.7) -> Trace:
    """Return a race of three lanes: baseline, speculative, and `generate` of transformers."""
    ours = random_trace(3, rounds=6, temperature=temperature)
    theirs = random_trace(4, rounds=9, temperature=temperature)
    lane = replace(theirs.main, name="generate", kind=LaneKind.LIBRARY)
    return replace(ours, lanes=(*ours.lanes, lane))


def changed(trace: Trace, lane: str = SPECULATIVE, **changes: Any) -> Trace:
    """Return the trace with new values for some fields of one lane."""
    lanes = (replace(each, **changes) if each.name == lane else each for each in trace.lanes)
    return replace(trace, lanes=tuple(lanes))


def _random_rounds(
    rng: random.Random,
    count: int,
    config: DecodingConfig,
    context_length: int,
    has_distributions: bool,
    is_ahead: bool,
) -> list[Round]:
    made: list[Round] = []
    begin = 0.0
    drawing = config.drawing if has_distributions else Drawing.CHOSEN
    for index in range(count):
        found = has_distributions or rng.random() < 0.6
        widths = config.widths[: None if has_distributions else rng.randint(1, config.draft_length)]
        seed = rng.randrange(2**31)
        each = random_round(
            seed,
            widths if found else (),
            drawing,
            has_distributions,
            index,
            context_length,
            config.rule,
        )
        made.append(on_clock(each, begin, is_ahead))
        begin += made[-1].seconds
        context_length += len(each.emitted_ids)
    return made


def _random_steps(rng: random.Random, rounds: list[Round], is_same: bool) -> tuple[TokenStep, ...]:
    """Return the baseline's steps after its prefill.

    If `is_same` is true, the steps emit the tokens of the rounds, otherwise random tokens.
    """
    ids = [token for each in rounds for token in each.emitted_ids]
    if not is_same:
        ids = [rng.randrange(VOCABULARY) for _ in ids]
    return tuple(
        TokenStep(i, token, rng.random(), rng.random(), 0.016 + 0.002 * rng.random())
        for i, token in enumerate(ids)
    )


def _random_prefill(rng: random.Random, prompt_length: int, seconds: float) -> Prefill:
    distribution = random_distribution(rng)
    token = sample(rng, distribution)
    extra = ExtraToken(token, ExtraKind.FIRST, -1, distribution[token])
    return Prefill(prompt_length, extra, position(-1, distribution, None, None), seconds)
