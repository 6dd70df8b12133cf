"""Claims on how much is gained, by task and by method."""

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
)
from specviz.claims.implied import USUAL_COST_RATIO, cost_ratio, ideal_curve, needed_acceptance
from specviz.claims.machines import RIDGE_TOKENS
from specviz.claims.setting import BY_BATCH, BY_TASK, Grid
from specviz.claims.wording import percent
from specviz.metrics.measured_costs import wilson_interval
from specviz.theory import roofline

# task: acceptance and speedup of the claim, in the names of our own tasks
TASKS = {
    "code": (0.87, 2.3),
    "translate": (0.82, 2.0),
    "summarise": (0.79, 1.9),
    "maths": (0.72, 1.7),
    "story": (0.68, 1.6),
}
# method: speedups of the claim
METHODS = {
    "medusa": (2.0, 3.0),
    "early-exit": (1.5, 2.0),
    "lookahead": (1.5, 1.5),
    "eagle": (3.0, 4.0),
}
USES = {"code": (2.0, 4.0), "chat": (1.5, 2.5), "summaries by n-gram": (1.5, 3.0)}
_SIXTEEN = 16


def tasks_theory(tasks: dict[str, tuple[float, float]] = TASKS, K: int = 5) -> Finding:
    implied = {
        task: cost_ratio(theory.expected_tokens(a, K), gain, K) for task, (a, gain) in tasks.items()
    }
    order = sorted(tasks, key=lambda task: -tasks[task][1])
    rank = order.index("summarise") + 1 if "summarise" in order else 0
    return Finding(
        f"At K = {K} each row fits a draft of c = {min(implied.values()):.2f} to "
        f"{max(implied.values()):.2f}, so the rows agree with one another. Summaries stand in "
        f"place {rank} of {len(order)}: the text's own table contradicts its sentence that they "
        "gain the most. Which task accepts most depends on the pair.",
        tuple(Number(f"c behind {task}", c) for task, c in implied.items()),
    )


def judge_tasks(results: Sequence[Result]) -> Judgement:
    points = {each["setting"]["task"]: each for each in results[0]["points"]}
    found = sorted(points, key=lambda task: -(points[task]["acceptance_rate"] or 0.0))
    spans = [
        wilson_interval(each["acceptance_rate"] or 0.0, judging.examined(each))
        for each in points.values()
    ]
    differ = max(low for low, _ in spans) > min(high for _, high in spans)
    claimed = sorted(TASKS, key=lambda task: -TASKS[task][0])
    others = [each for task, each in points.items() if task != "summarise"]
    most = [judging.faster(points["summarise"], each) for each in others]
    parts: list[judging.Part] = [
        found == claimed if differ else None,
        *(_rate(each, TASKS[task][0]) for task, each in points.items()),
        *(judging.inside(TASKS[task][1], TASKS[task][1], each) for task, each in points.items()),
        False if False in most else None if None in most else True,
    ]
    return Judgement(
        judging.combined_sizes(parts),
        f"From most to least accepted: {', '.join(found)}; the claim has {', '.join(claimed)}. "
        f"Of {len(points)} rates and {len(points)} speedups {parts[1:-1].count(True)} are the "
        "claim's, give or take a tenth.",
        tuple(
            make(task, each)
            for task, each in points.items()
            for make in (judging.acceptance, judging.speedup)
        ),
    )


def _rate(measured: judging.Point, claimed: float) -> judging.Part:
    """Whether the acceptance is the claimed one, within a tenth and its own interval."""
    rate = measured["acceptance_rate"] or 0.0
    return judging.near(claimed, *wilson_interval(rate, judging.examined(measured)))


def methods_theory(
    methods: dict[str, tuple[float, float]] = METHODS, K: int = 5, c: float = USUAL_COST_RATIO
) -> Finding:
    return Finding(
        f"What a chain of K = {K} would have to accept for it, were its drafts free: "
        + ", ".join(
            f"{name} {_percent(needed_acceptance(low, K, 0.0))}"
            for name, (low, _) in methods.items()
        )
        + "; trees reach a number of tokens with less. Published comparisons such as Spec-Bench "
        "differ from machine to machine, and so do the methods' places in them.",
        tuple(
            Number(f"acceptance for {low:g}× at c = {cost:g}, {name}", needed)
            for name, (low, _) in methods.items()
            for cost in (0.0, c)
            if (needed := needed_acceptance(low, K, cost)) is not None
        ),
    )


def _percent(rate: float | None) -> str:
    return "more than all" if rate is None else percent(rate)


def judge_methods(results: Sequence[Result]) -> Judgement:
    points = {name: judging.point(results[0], "method", name) for name in METHODS}
    parts = [judging.inside(*METHODS[name], each) for name, each in points.items()]
    return Judgement(
        judging.combined_sizes(parts),
        f"Within the claimed range: {_named(points, parts, True) or 'none'}; "
        f"outside: {_named(points, parts, False) or 'none'}.",
        tuple(judging.speedup(name, each) for name, each in points.items()),
    )


def _named(names: dict[str, judging.Point], parts: Sequence[judging.Part], wanted: bool) -> str:
    return ", ".join(name for name, part in zip(names, parts, strict=True) if part is wanted)


def uses_theory(
    uses: dict[str, tuple[float, float]] = USES,
    rows: int = _SIXTEEN,
    a: float = 0.8,
    K: int = 5,
    c: float = USUAL_COST_RATIO,
    ridge: float = RIDGE_TOKENS,
) -> Finding:
    target, draft = ideal_curve(ridge), ideal_curve(ridge, c)
    gain = roofline.batch_speedup(a, K, rows, target, draft)
    needed = {
        name: (needed_acceptance(low, K, c), needed_acceptance(high, K, c))
        for name, (low, high) in uses.items()
    }
    return Finding(
        f"At K = {K} and c = {c:g} the ranges need an acceptance of "
        + ", ".join(
            f"{_percent(lo)} to {_percent(hi)} ({name})" for name, (lo, hi) in needed.items()
        )
        + f". A batch of {rows} need not lose: by the ideal roofline of an H100 it gains "
        f"{gain:.2f}×.",
        (
            *(
                Number(f"acceptance for {uses[name][end]:g}×, {name}", rate)
                for name, ends in needed.items()
                for end, rate in enumerate(ends)
                if rate is not None
            ),
            Number(f"speedup of {rows} rows", gain, "x", 1.0),
        ),
    )


def judge_uses(results: Sequence[Result]) -> Judgement:
    by_task, by_lookup, batches = results
    measured = {
        "code": judging.point(by_task, "task", "code"),
        "chat": judging.point(by_task, "task", "story"),
        "summaries by n-gram": judging.point(by_lookup, "task", "summarise"),
    }
    most = judging.row(batches, _SIXTEEN)
    pays = judging.pays(most)
    parts = [judging.inside(*USES[name], each) for name, each in measured.items()]
    regression = None if pays is None else not pays
    figures: tuple[Figure, ...] = tuple(judging.speedup(*each) for each in measured.items())
    return Judgement(
        judging.combined_sizes([*parts, regression]),
        f"Within the claimed range: {_named(measured, parts, True) or 'none'}; "
        f"outside: {_named(measured, parts, False) or 'none'}; stories stand in for chat. A batch "
        f"of {_SIXTEEN} gains {most['speedup']:.2f}×.",
        (*figures, judging.speedup(f"batch of {_SIXTEEN}", most)),
    )


CLAIMS = (
    Claim(
        9,
        "Code gains most, 2.3×, and creative text least, 1.6×",
        "Code 87 % and 2.3×, translation 82 % and 2.0×, summaries 79 % and 1.9×, maths 72 % and "
        "1.7×, creative text 68 % and 1.6×; summaries and retrieval gain the most.",
        (Text.A,),
        Kind.MEASURABLE,
        tasks_theory,
        (BY_TASK,),
        judge_tasks,
    ),
    Claim(
        17,
        "EAGLE-2 gains 3 to 4×, Medusa 2 to 3×, LayerSkip up to 2×, lookahead 1.5×",
        "Medusa 2 to 3×, LayerSkip 1.5 to 2×, lookahead 1.5×, EAGLE-2 3 to 4×.",
        (Text.C,),
        Kind.MEASURABLE,
        methods_theory,
        (Grid("method", "medusa,early-exit,lookahead,eagle"),),
        judge_methods,
    ),
    Claim(
        31,
        "Code gains 2 to 4×, chat 1.5 to 2.5×; batches of 16 get slower",
        "Code 2 to 4×, chat 1.5 to 2.5×, summaries with n-grams 1.5 to 3×; batches of 16 and more "
        "get slower.",
        (Text.E,),
        Kind.MEASURABLE,
        uses_theory,
        (BY_TASK, Grid("task", "summarise", method="prompt-lookup"), BY_BATCH),
        judge_uses,
    ),
)
