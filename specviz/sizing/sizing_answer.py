"""The answer to a plan: one sentence, the numbers behind it, and what was assumed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz import theory
from specviz.sizing.forward_time import GIGA, MAX_GPUS
from specviz.sizing.plan_memory import Memory
from specviz.sizing.plan_warnings import plan_warnings
from specviz.sizing.published import SPEEDUP_ERRORS, n_gram_overheads
from specviz.sizing.serving_plan import ASSUMED_RATE, MAX_ROWS, ServingPlan
from specviz.sizing.sized_plan import DRAWN_ROWS, Policy, SizedPlan

_AFTER = "after the errors of published speedups"
SEEN = 1e-3  # of a number, by which another has to differ
PAYS = 1.05  # a smaller gain is none: nobody would see it, and the model errs by more
ASSUMED = (
    "Every guess is accepted with the same probability, independently of the others; real "
    "acceptance falls with depth and depends on the task.",
    "A forward's matrix products take as long as reading the weights or as their arithmetic, "
    "whichever is longer, and then its attention as long as reading the caches or as its "
    "arithmetic, at 80 % of a GPU's peaks (70 % on a CPU); 25 microseconds a layer and 100 a "
    "forward come on top.",
    "Weights in fewer bits than 16 are taken to be read at full speed; kernels that unpack them "
    "are slower, so these times are too short.",
    "Requests are alike, and every one decodes by itself. What the engine's scheduler and its "
    "network add is not counted.",
)


def size(plan: ServingPlan) -> dict[str, Any]:
    """Everything that is said of a plan, as plain values; seconds, bytes and tokens."""
    found = SizedPlan(plan)
    rows, K = plan.batch, found.K
    return {
        "sentence": sentence(found),
        "verdict": verdict(found),
        "warnings": list(plan_warnings(plan)),
        "target": plan.target.title,
        "draft": None if plan.draft is None else plan.draft.title,
        "acceptance": plan.acceptance,
        "currency": plan.currency,
        "draft_length": K,
        "best_length": found.best_length(rows),
        "lengths": [asdict(each) for each in found.lengths],
        "cost_ratio": found.cost_ratio(rows),
        "verification_overhead": found.verification_overhead(rows, K),
        "tokens_per_round": theory.expected_tokens(plan.acceptance, K),
        "speedup": found.speedup(rows, K),
        "request_speedup": found.request_speedup(rows, K),
        "break_even_acceptance": break_even(found),
        "paying_batches": found.paying_batches,
        "by_batch": [
            {
                "batch": each,
                "draft_length": found.length(Policy.SPECULATIVE, each),
                "speedup": found.speedup(each, found.length(Policy.SPECULATIVE, each)),
                "request_speedup": _gain_at(found, each),
                "fits": found.fits(each),
            }
            for each in DRAWN_ROWS
        ],
        "memory": [_memory(each) for each in found.memory(rows)],
        "fits": found.fits(rows),
        "largest_batch": found.largest_batch(),
        "fewest_gpus": found.fewest_gpus,
        "weights": {
            "target_parameters": plan.target.parameters,
            "active_parameters": plan.target.active_parameters,
            "draft_parameters": None if plan.draft is None else plan.draft.parameters,
            "cache_bytes_per_token": found.target.context_bytes,
        },
        **{policy.value: _way(found, policy) for policy in (Policy.PLAIN, Policy.SPECULATIVE)},
        "assumed": [*ASSUMED, n_gram_overheads()],
    }


def _way(found: SizedPlan, policy: Policy) -> dict[str, Any]:
    """Of one way of decoding: speeds at the plan's batch, what a deployment carries within both
    limits, cards and money for the load, and the batch job. None is what cannot be said.
    """
    rows, rate = found.goodput(policy)
    cost, job, price = found.cost(policy), found.job(policy), found.plan.price
    each_token = found.card_seconds_per_token(policy)
    return {
        **asdict(found.speeds(found.plan.batch, found.length(policy, found.plan.batch))),
        "cards": found.cards(policy),
        "largest_batch": found.largest_batch(policy),
        "seats": found.seats(policy),
        "carried_batch": rows,
        "carried_requests": rate,
        "carried_tokens": rate * found.plan.output,
        "card_hours_per_million": None if each_token is None else each_token * 1e6 / 3600,
        "money_per_million": _money(each_token, price, 1e6 / 3600),
        "cards_for_load": found.cards_for_load(policy),
        "money_a_day_for_load": None if cost is None or price is None else cost.money,
        "job_seconds": None if job is None else job.seconds,
        "job_money": _money(None if job is None else job.card_hours, price),
    }


def _money(cards: float | None, price: float | None, times: float = 1.0) -> float | None:
    return None if cards is None or price is None else cards * price * times


def verdict(found: SizedPlan) -> str:
    """`yes`, `perhaps` (less than published speedups came out too high), `no` (at no batch), `not
    here` (at other batches only), or `does not fit`.
    """
    if not found.fits(found.plan.batch):
        return "does not fit"
    gain = _gain_at(found, found.plan.batch)
    if gain >= PAYS:
        return "yes" if gain >= 1 + SPEEDUP_ERRORS[1] else "perhaps"
    return "not here" if _best_batch(found)[0] >= PAYS else "no"


def _gain_at(found: SizedPlan, rows: int) -> float:
    """Of whole requests, with the K of so many."""
    return found.request_speedup(rows, found.length(Policy.SPECULATIVE, rows))


def _best_batch(found: SizedPlan) -> tuple[float, int]:
    """The highest speedup of the batches that fit, and the batch."""
    return max((_gain_at(found, rows), -rows) for rows in DRAWN_ROWS if found.fits(rows))


def sentence(found: SizedPlan) -> str:
    """The answer in two or three sentences, for somebody who reads nothing else."""
    match verdict(found):
        case "does not fit":
            return _does_not_fit(found)
        case "yes" | "perhaps" as word:
            answer = f"{word.capitalize()}: {_here(found)} {_paying(found)}{_carried(found)}"
        case "not here":
            best = -_best_batch(found)[1]
            answer = (
                f"Not here: {_here(found)} {_paying(found)} "
                f"The most is {times(_gain_at(found, best))}, at {_requests(best)}."
            )
        case _:
            no_draft = "The draft costs more than it can save."
            end = no_draft if break_even(found) is None else "It gains no more at any number."
            answer = f"No: {_here(found)} {end}"
    return answer + _accepted(found)


def _accepted(found: SizedPlan) -> str:
    """Where its acceptance rate is from unless it was typed, and from which one a token gains."""
    source, needed = found.plan.acceptance_source, break_even(found)
    gains = "" if needed is None else f"from {needed:.2f} on a token gains here"
    if source.startswith(ASSUMED_RATE):
        said = f" The acceptance rate α, {found.plan.acceptance:.2f}, is {source}: measure yours"
        return f"{said}; {gains}." if gains else f"{said}."
    if source:
        said = f" The acceptance rate α is {source}"
        return f"{said}; {gains}." if gains else f"{said}."
    return (
        f" The acceptance rate α is yours, {found.plan.acceptance:.2f}; {gains}." if gains else ""
    )


def _here(found: SizedPlan) -> str:
    """Whole requests first: a token's speedup leaves out the prompts."""
    rows = found.plan.batch
    plain, fast = found.speeds(rows, 0).request, found.speeds(rows, found.K).request
    left = ""
    if verdict(found) == "perhaps":
        low, high = (plain / fast / (1 + error) for error in reversed(SPEEDUP_ERRORS))
        left = f" ({low:.2f} to {high:.2f} {_AFTER})"
    return (
        f"at {_requests(rows)} a whole request takes {seconds(fast)} instead of {seconds(plain)}, "
        f"{times(plain / fast)} as fast{left}; each token after its first comes "
        f"{times(found.speedup(rows, found.K))} as fast."
    )


def _carried(found: SizedPlan) -> str:
    """What a deployment does for its money, which may be less where each request is faster."""
    (_, plain), (_, fast) = (found.goodput(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    if not (plain and fast):
        kept = "with speculation alone" if fast else "without it alone" if plain else "at no number"
        return f" Both your limits are kept {kept}."
    fast_text, plain_text = apart(fast, plain)
    instead = "as without" if fast_text == plain_text else f"instead of {plain_text}"
    return (
        f" Within both your limits a deployment carries {fast_text} requests a second {instead}; "
        f"{_for_load(found)}"
    )


def _for_load(found: SizedPlan) -> str:
    """Cards that the planned load takes: whole deployments, however full they are."""
    cards = [found.cards_for_load(each) for each in (Policy.PLAIN, Policy.SPECULATIVE)]
    load, (plain, fast) = f"your {found.plan.load:g} a second", [each or 0 for each in cards]
    if plain == fast:
        return f"{load} take {_cards(plain)} either way."
    return f"{load} take {_cards(fast)} instead of {plain}, {fast / plain:.2f} times the money."


def _cards(count: int) -> str:
    return "1 card" if count == 1 else f"{count:,} cards"


def apart(first: float, second: float, least: int = 1) -> tuple[str, str]:
    """Both with as many digits behind the point as it takes to see by how much they differ; those
    that differ by less than one in a thousand are as good as equal.

    >>> apart(18.74, 17.5), apart(0.31, 0.26), apart(0.331, 0.338), apart(2.0, 2.0)
    (('18.7', '17.5'), ('0.31', '0.26'), ('0.331', '0.338'), ('2.0', '2.0'))
    """
    digits, difference = least, abs(first - second)
    if difference > SEEN * max(abs(first), abs(second)):
        while abs(abs(round(first, digits) - round(second, digits)) / difference - 1) > 0.25:
            digits += 1
    return f"{first:.{digits}f}", f"{second:.{digits}f}"


def times(gain: float) -> str:
    """With one digit behind the point, two where it is near 1.

    >>> times(2.04), times(1.04)
    ('2.0x', '1.04x')
    """
    return f"{gain:.1f}x" if gain >= 1.2 else f"{gain:.2f}x"


def seconds(value: float) -> str:
    """
    >>> seconds(0.0421), seconds(3.27), seconds(412)
    ('42 ms', '3.27 s', '6.9 min')
    """
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 100:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def _paying(found: SizedPlan) -> str:
    """Up to how many, and up to how many after the errors of published speedups."""
    least, most = found.paying_batches or (1, 1)
    start = "" if least == 1 else f"from {_requests(least)} "
    largest = min(MAX_ROWS, found.largest_batch())
    end = min(most, largest)
    pays = f"{_lengths(found, least, end)} it pays {start}up to"
    if most < largest:
        told, more = f"about {about(most):,}", "; above that it loses"
    else:
        told, more = f"{largest:,}", ", the most that fit"
        more = more if largest < MAX_ROWS else ", the most looked at"
    ends = [
        max((rows for rows in range(least, end + 1) if _gain_at(found, rows) > 1 + each), default=0)
        for each in reversed(SPEEDUP_ERRORS)
    ]
    low, high = (f"{about(each):,}" if each else "none" for each in ends)
    span = low if low == high else f"{low} to {high}"
    return f"{pays} {told} ({span} {_AFTER}){more}."


def about(count: int) -> int:
    """A number that is computed from times, not to the unit.

    >>> about(285), about(1024), about(37), about(8)
    (280, 1000, 37, 8)
    """
    return round(count, 2 - len(str(count))) if count >= 100 else count


def _lengths(found: SizedPlan, least: int, most: int) -> str:
    if found.plan.draft_length:
        return f"With K = {found.K}"
    used = {
        each.K for each in found.lengths if each.K and least <= each.last and each.first <= most
    }
    low, high = min(used), max(used)
    span = f"K = {low}" if low == high else f"K from {low} to {high}, the best for each number,"
    return f"With {span}"


def _requests(rows: int) -> str:
    return "1 request" if rows == 1 else f"{rows:,} requests at once"


def _does_not_fit(found: SizedPlan) -> str:
    worst = min(found.memory(found.plan.batch), key=lambda each: each.headroom)
    said = (
        f"Does not fit: {_requests(found.plan.batch)} need {worst.used / GIGA:,.0f} GB on each of "
        f"{_cards(worst.cards)}, and {worst.limit / GIGA:,.0f} may be used."
    )
    said += _plain_fits(found)
    if found.largest_batch():
        return f"{said} Room is for {_requests(found.largest_batch())}."
    draft = "Give the draft more cards, or a smaller one."
    if worst.target == 0:
        return f"{said} {draft}"
    needed = found.fewest_gpus
    if needed is None:
        return f"{said} {MAX_GPUS} of these cards do not hold it either."
    also = any(each.headroom < 0 for each in found.memory(found.plan.batch)[1:])
    return f"{said} {needed} of these cards hold it." + (f" {draft}" if also else "")


def _plain_fits(found: SizedPlan) -> str:
    """What the draft takes of the target's cards, where plain decoding has room without it."""
    rows = found.plan.batch
    if not found.fits(rows, Policy.PLAIN):
        return ""
    (plain, *_), (card, *_) = found.memory(rows, Policy.PLAIN), found.memory(rows)
    return (
        f" Plain decoding of them fits: the draft and its guesses take "
        f"{(card.used - plain.used) / GIGA:.1f} GB more on a card of the target’s."
    )


def break_even(found: SizedPlan) -> float | None:
    """The acceptance rate above which a token gains at the plan's batch."""
    rows, K = found.plan.batch, found.K
    c, v = found.cost_ratio(rows), found.verification_overhead(rows, K)
    return theory.break_even_acceptance(K, c, v)


def _memory(each: Memory) -> dict[str, Any]:
    return asdict(each) | {"used": each.used, "headroom": each.headroom}
