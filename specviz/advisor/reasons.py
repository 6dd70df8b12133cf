"""Why the advice is what it is, in plain words: each reason only where the numbers say so.

Most are told by asking the same theory again without what is blamed. Pure; runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from specviz.advisor.estimate import Estimate, predicted_speedup, prefill_steps
from specviz.advisor.probe import Probe, SpeculativeRun
from specviz.advisor.wording import TYPED, Wording

ENDLESS = 4096  # tokens: a request whose prefill and whose end hardly count
LOSS = 0.1  # a share of the speedup that is worth a sentence
MUCH = 0.25  # a share of a round's time, or of memory, that is worth a sentence
LESS_ACCEPTED = 0.05
SURE = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Reason:
    """`value` is the number that the sentence rests on; `speaks_for` speculating, or against."""

    name: str
    sentence: str
    value: float
    speaks_for: bool


def reasons(
    probe: Probe, best: Estimate, speculate: bool, wording: Wording = TYPED
) -> tuple[Reason, ...]:
    """Those of the chosen candidate, what speaks for the advice first."""
    found = [
        *_acceptance(probe, best),
        *_slow_draft(best),
        *_short_outputs(probe, best, wording),
        *_prefill(probe, wording),
        *_temperature(probe, wording),
        *_batch(probe, best),
        *_vocabulary(probe, wording),
        *_memory(probe, best, wording),
    ]
    return tuple(sorted(found, key=lambda each: each.speaks_for is not speculate))


def _acceptance(probe: Probe, best: Estimate) -> Iterator[Reason]:
    """A round pays where it writes more tokens than it costs steps."""
    if not any(run.rounds for run in probe.of_method(best.candidate.method)):
        return
    pays = best.tokens_per_round > best.round_cost
    yield Reason(
        "acceptance",
        f"{_percent(best.acceptance_rate)} of the examined guesses pass, so a round writes "
        f"{best.tokens_per_round:.2f} tokens; it costs as much time as {best.round_cost:.2f} plain "
        f"steps.",
        best.acceptance_rate,
        pays,
    )


def _slow_draft(best: Estimate) -> Iterator[Reason]:
    """Drafting takes a large share of a round."""
    share = best.draft_cost / best.round_cost if best.round_cost else 0.0
    if share < MUCH:
        return
    length = best.candidate.draft_length
    yield Reason(
        "slow-draft",
        f"Drafting is {_percent(share)} of a round: {length} level{'s' if length > 1 else ''} "
        f"take as long as {best.draft_cost:.2f} plain steps.",
        best.draft_cost / length,
        False,
    )


def _short_outputs(probe: Probe, best: Estimate, wording: Wording) -> Iterator[Reason]:
    """The last rounds have no room to draft in, and the first token is not sped up."""
    tokens = probe.place.max_new_tokens
    here, endless = (predicted_speedup(probe, best.candidate, n) for n in (tokens, ENDLESS))
    if tokens < ENDLESS and here < (1 - LOSS) * endless:
        yield Reason(
            "short-outputs",
            f"Outputs of {tokens} tokens are short: theory gives {wording.factor(here)} on them, "
            f"and {wording.factor(endless)} on endless ones.",
            here / endless,
            False,
        )


def _prefill(probe: Probe, wording: Wording) -> Iterator[Reason]:
    """Reading the prompt takes a large share of the plain lane's time."""
    first, steps = prefill_steps(probe), probe.place.max_new_tokens - 1
    share = first / (first + steps)
    if share < MUCH:
        return
    yield Reason(
        "prefill-bound",
        f"{_percent(share)} of the time goes into reading the prompt "
        f"({probe.place.prompt_tokens:.0f} tokens), which nothing here speeds up: no more than "
        f"{wording.factor(1 / share)} can be had.",
        share,
        False,
    )


def _temperature(probe: Probe, wording: Wording) -> Iterator[Reason]:
    """The same drafter is believed more often at temperature 0, on the same prompts."""
    for cold in probe.greedy:
        warm = next(
            run
            for run in probe.runs
            if (run.candidate, run.block, run.is_race) == (cold.candidate, cold.block, False)
        )
        (here, here_error), (there, there_error) = (_rate(run) for run in (warm, cold))
        if there - here >= max(LESS_ACCEPTED, SURE * math.hypot(here_error, there_error)):
            yield Reason(
                "high-temperature",
                f"At temperature {probe.place.temperature:g} {_percent(here)} of the guesses of "
                f"{wording.method(cold.candidate.method)} pass, at 0 it is {_percent(there)}.",
                here,
                False,
            )


def _rate(run: SpeculativeRun) -> tuple[float, float]:
    """Levels passed / levels reached, and its standard error, never 0: one more of each counts."""
    passed = [each for seen in run.rounds for each in seen.accepted]
    reached = sum(min(each + 1, run.candidate.draft_length) for each in passed)
    likely = (sum(passed) + 1) / (reached + 2)
    return sum(passed) / max(1, reached), math.sqrt(likely * (1 - likely) / (reached + 2))


def _batch(probe: Probe, best: Estimate) -> Iterator[Reason]:
    """The rows fill the device, so that further tokens cost more than they do for one row."""
    rows = probe.place.batch_size
    if rows == 1:
        return
    tokens = best.candidate.draft_length + 1
    many, one = (curve.at(tokens) / curve.at(1) for curve in (probe.batch_curve, probe.row_curve))
    if many > (1 + LOSS) * one:
        yield Reason(
            "large-batch",
            f"In a batch of {rows} a forward over {tokens} tokens of each row takes {many:.2f} "
            f"times one over 1 token of each; for a single row it is {one:.2f} times.",
            many,
            False,
        )


def _vocabulary(probe: Probe, wording: Wording) -> Iterator[Reason]:
    """What the draft model offers is lost where its tokens mean something else."""
    for refusal in probe.refusals:
        if refusal.shared_share is not None:
            yield Reason(
                "vocabulary",
                f"The draft model has a vocabulary of its own: {_percent(refusal.shared_share)} of "
                "the target's tokens are in it, so the only method that can use it is "
                f"{wording.method('cross-vocabulary')}.",
                refusal.shared_share,
                False,
            )
            return


def _memory(probe: Probe, best: Estimate, wording: Wording) -> Iterator[Reason]:
    """Weights beside the target's."""
    extra, place = best.drafter_bytes, probe.place
    method = wording.method(best.candidate.method)
    if place.free_bytes is not None and extra > MUCH * place.free_bytes:
        yield Reason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB beside the target's "
            f"{place.target_bytes / 1e6:.0f} MB, {_percent(extra / place.free_bytes)} of what is "
            "free.",
            extra / place.free_bytes,
            False,
        )
    elif extra > MUCH * place.target_bytes:
        yield Reason(
            "memory",
            f"{method} needs {extra / 1e6:.0f} MB beside the target's "
            f"{place.target_bytes / 1e6:.0f} MB.",
            extra / place.target_bytes,
            False,
        )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
