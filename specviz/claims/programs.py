"""Claims on programs: what an interface takes, what a benchmark's code does."""

from __future__ import annotations

from collections.abc import Sequence

from specviz import theory
from specviz.claims import judging
from specviz.claims.claim import (
    Claim,
    Figure,
    Finding,
    Judgement,
    Kind,
    Number,
    Result,
    Text,
    Verdict,
)
from specviz.claims.implied import TOLERANCE, USUAL_COST_RATIO
from specviz.claims.setting import LibraryLength, Noise
from specviz.claims.wording import percent

_NO_ENGINE = "is about vLLM's interface; vLLM is no part of this app"
LIBRARY_DRAFT_LENGTH = 20  # of transformers, where nobody sets one


def self_draft_theory(
    a: float = 0.8, shares: tuple[float, ...] = (0.25, 0.5), K: int = 5
) -> Finding:
    gains = [theory.speedup(a, K, share) for share in shares]
    return Finding(
        "vLLM had no such value: of the words in brackets it knew the one for n-grams. The flat "
        "arguments were real, and were removed in 2025 for one speculative configuration (vLLM "
        "pull request 15466). What the claim wants, a target that drafts with some of its own "
        "layers, would cost the share of layers that it runs: at "
        f"a = {a:g} "
        + ", ".join(f"{g:.2f}× with {percent(s)}" for g, s in zip(gains, shares, strict=True))
        + ".",
        tuple(
            Number(f"speedup at c = {share:g}, K = {K}", gain, "x")
            for gain, share in zip(gains, shares, strict=True)
        ),
        Verdict.WRONG,
    )


def parts_theory() -> Finding:
    return Finding(
        "These classes were vLLM's first engine's and went with it in 2025 (vLLM pull request "
        "21152). In the engine that followed, the model runner itself holds the drafter and the "
        "rejection sampler. The claim has no numbers to compute.",
        (),
        Verdict.WRONG,
    )


def argument_theory(
    asked: int = 5,
    used: int = LIBRARY_DRAFT_LENGTH,
    a: float = 0.8,
    c: float = USUAL_COST_RATIO,
) -> Finding:
    wanted, got = theory.speedup(a, asked, c), theory.speedup(a, used, c)
    return Finding(
        f"At a = {a:g} and c = {c:g}, K = {asked} gives {wanted:.2f}× and the library's own "
        f"K = {used}, run to its end, {got:.2f}×; it also stops a draft that is not confident. "
        "Which of the two is used shows in the number of target forwards.",
        (
            Number(f"speedup at K = {asked}", wanted, "x"),
            Number(f"speedup at K = {used}", got, "x"),
            Number("best K", theory.best_draft_length(a, c), "tokens", asked),
        ),
    )


def judge_argument(results: Sequence[Result]) -> Judgement:
    forwards = results[0]["target_forwards"]
    by_argument, by_config = forwards["argument"], forwards["config"]
    if len(set(by_config)) == 1:
        verdict = Verdict.UNDECIDED
    elif by_argument == by_config:
        verdict = Verdict.HOLDS
    else:
        is_ignored = len(set(by_argument)) == 1
        verdict = Verdict.WRONG if is_ignored else Verdict.CONDITIONAL
    lengths = results[0]["lengths"]
    return Judgement(
        verdict,
        "Target forwards of the same greedy text by K = "
        + " and ".join(map(str, lengths))
        + f": {_list(by_argument)} where K is an argument of generate, {_list(by_config)} where it "
        "stands in the assistant's generation config.",
        tuple(
            Figure(f"target forwards, K = {length} by {how}", count)
            for how, counts in forwards.items()
            for length, count in zip(lengths, counts, strict=True)
        ),
    )


def _list(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))


def ratio_theory(
    baseline: tuple[float, ...] = (20.0, 40.0), speculative: tuple[float, ...] = (40.0, 40.0)
) -> Finding:
    """Rates of prompts with as many tokens each: an example."""
    summed = sum(speculative) / sum(baseline)
    timed = sum(1 / rate for rate in baseline) / sum(1 / rate for rate in speculative)
    return Finding(
        "It puts the inputs on the GPU and leaves the models on the CPU, where PyTorch refuses to "
        "run; it does not warm up and always runs the baseline first, so whatever only the first "
        "calls cost is charged to the baseline. It divides sums of rates: for two prompts of as "
        f"many tokens at {_rates(baseline)} and then {_rates(speculative)} tokens/s that says "
        f"{summed:.2f}×, where the time shrank {timed:.2f}×.",
        (Number("speedup by time, in the example", timed, "x", summed),),
        Verdict.WRONG,
    )


def _rates(rates: Sequence[float]) -> str:
    return " and ".join(f"{rate:g}" for rate in rates)


def judge_noise(results: Sequence[Result]) -> Judgement:
    ratios = results[0]["noise"]
    if min(ratios) <= 1 <= max(ratios):
        verdict = Verdict.CONDITIONAL  # order does no harm once both are warm
    else:
        verdict = Verdict.WRONG if min(ratios) > 1 + TOLERANCE else Verdict.UNDECIDED
    return Judgement(
        verdict,
        "The plain decoder beside itself, second block over first, after a warm-up: what differs "
        "from 1 is what order and chance do here.",
        (judging.over("baseline over itself", ratios, "x"),),
    )


CLAIMS = (
    Claim(
        11,
        'In vLLM speculative_model="[self]" turns self-drafting on',
        'In vLLM 0.7 and 0.8 speculative_model="[self]" and flat arguments turn self-drafting on.',
        (Text.A,),
        Kind.DEFINITION,
        self_draft_theory,
        reason=_NO_ENGINE,
    ),
    Claim(
        18,
        "num_assistant_tokens=5 makes the library draft five tokens",
        "generate(..., num_assistant_tokens=5) sets how many tokens are drafted.",
        (Text.C,),
        Kind.MEASURABLE,
        argument_theory,
        (LibraryLength(),),
        judge_argument,
    ),
    Claim(
        19,
        "A notebook's code measures the speedup of assisted generation",
        "Its code measures the speedup of assisted generation.",
        (Text.C,),
        Kind.DEFINITION,
        ratio_theory,
        (Noise(),),
        judge_noise,
    ),
    Claim(
        32,
        "vLLM's SpecDecodeWorker does the work",
        "SpecDecodeWorker and BatchExpansionTop1Scorer do the work, and scheduling is apart.",
        (Text.E,),
        Kind.DEFINITION,
        parts_theory,
        reason=_NO_ENGINE,
    ),
)
