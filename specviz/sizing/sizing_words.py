"""The answer to a plan in words: one sentence, then the reasons for it."""

from __future__ import annotations

from collections.abc import Iterator

from specviz import theory
from specviz.sizing.carried_load import WITHIN, CarriedLoad
from specviz.sizing.forward_time import GIGA, MAX_GPUS
from specviz.sizing.plan_warnings import obstacle
from specviz.sizing.published import PROMPT_ERROR, SPEEDUP_ERRORS
from specviz.sizing.serving_plan import ASSUMED_RATE, MAX_ROWS
from specviz.sizing.sized_plan import DRAWN_ROWS, PAYS, Job, Policy, SizedPlan

# If the relative difference of two numbers is smaller than this, the text calls them equal.
SEEN = 1e-3
# If prompts take more than this share of a job's time, the answer mentions them.
MUCH = 0.1


def verdict(found: SizedPlan, load: CarriedLoad) -> str:
    """Return the verdict about the plan, in one to three words.

    - `does not fit`: memory is too small.
    - `on paper`: engines refuse the pair.
    - `yes`: the speedup is larger than the largest error of published speedups.
    - `perhaps`: there is a speedup, but it is smaller than that error.
    - `at a price`: requests are faster, but the deployment serves less load or a token costs more.
    - `no`: no speedup at any batch size.
    - `not here`: no speedup at the planned batch size, but at others.
    """
    if not found.fits(found.plan.batch):
        return "does not fit"
    if obstacle(found.plan) is not None:
        return "on paper"
    gain = gain_at(found, found.plan.batch)
    if gain >= PAYS:
        if _is_dearer(load):
            return "at a price"
        return "yes" if gain >= 1 + SPEEDUP_ERRORS[1] else "perhaps"
    return "not here" if _best_batch(found)[0] >= PAYS else "no"


def answer(found: SizedPlan, load: CarriedLoad) -> str:
    """Return one sentence about speed, capacity and cost, for readers who read no further."""
    rows, word = found.plan.batch, verdict(found, load).capitalize()
    if not found.fits(rows):
        worst = min(found.memory(rows), key=lambda each: each.headroom)
        return (
            f"{word}: {_requests(rows)} {'needs' if rows == 1 else 'need'} "
            f"{worst.used / GIGA:,.0f} GB on {'each of ' if worst.cards > 1 else ''}"
            f"{_cards(found, worst.cards)}, and {worst.limit / GIGA:,.0f} may be used."
        )
    against = obstacle(found.plan)
    start = "" if against is None else f"{against}. Computed all the same, "
    return f"{word}: {start}{_compared(found, rows)}{_at_what_cost(load)}."


def _cost_ratio(load: CarriedLoad) -> float | None:
    """Return the cost per token with speculation divided by the cost without it, at full load."""
    plain, fast = (load.card_seconds_per_token(x) for x in (Policy.PLAIN, Policy.SPECULATIVE))
    return fast / plain if fast and plain else None


def _is_dearer(load: CarriedLoad) -> bool:
    """Return True if speculation serves a smaller load, or makes a token more expensive."""
    plain, fast = (load.rate(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    cost = _cost_ratio(load)
    return fast < plain * (1 - SEEN) or (cost is not None and cost > 1 + SEEN)


def _at_what_cost(load: CarriedLoad) -> str:
    """Return words that compare the load and the cost per token with those of plain decoding."""
    plain, fast = (load.rate(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    cost = _cost_ratio(load)
    if cost is None:
        return ""
    now, before = apart(fast, plain, 0 if plain >= 100 else 1 if plain >= 1 else 2)
    carries = (
        "carries as much"
        if now == before
        else f"carries {now} requests a second instead of {before}"
    )
    costs = "costs as much" if abs(cost - 1) < 0.005 else f"costs {cost:.2f} times as much"
    return f"; a deployment {carries}, and a token {costs}"


def _compared(found: SizedPlan, rows: int) -> str:
    """Compare the time of a whole request with and without speculation, in words."""
    K = found.length(Policy.SPECULATIVE, rows)
    plain, fast = found.speeds(rows, 0).request, found.speeds(rows, K).request
    gain = plain / fast
    if abs(gain - 1) < 0.005:
        compared = ", about as long as without"
    elif gain < 1:
        compared = f" instead of {seconds(plain)}, {100 / gain - 100:.0f} % longer"
    else:
        small = "" if gain >= PAYS else ", too little to count on"
        compared = f" instead of {seconds(plain)}, {times(gain)} as fast{small}"
    return f"at {_requests(rows)} a whole request takes {seconds(fast)}{compared}"


def reasons(found: SizedPlan, load: CarriedLoad) -> Iterator[str]:
    """Yield the reasons: where speculation is faster, how sure that is, limits, load, acceptance.

    For a plan that does not fit into memory, yield what would fit.
    """
    if not found.fits(found.plan.batch):
        yield from _room(found)
        yield from _job(found)
        return
    most, rows = _best_batch(found)
    if most >= PAYS:
        yield _paying(found)
        yield _lowered(found)
        yield from _carried(found, load)
    elif most > 1:
        yield f"The most at any number is {times(most)}, at {_requests(rows)}."
    elif break_even(found) is None:
        yield "The draft costs more than it can save."
    else:
        yield "It gains at no number of requests at once."
    yield from _broken_limits(found)
    yield from _job(found)
    yield from _accepted(found)


def gain_at(found: SizedPlan, rows: int) -> float:
    """Return the speedup of whole requests at a batch size, with the K for this batch size."""
    return found.request_speedup(rows, found.length(Policy.SPECULATIVE, rows))


def _best_batch(found: SizedPlan) -> tuple[float, int]:
    """Return the highest speedup, and the smallest batch size with this speedup.

    Only batch sizes that fit into memory count.
    """
    gains = ((gain_at(found, rows), rows) for rows in DRAWN_ROWS if found.fits(rows))
    return max(gains, key=lambda each: (each[0], -each[1]))


# ---- sentences about the numbers of requests with which speculation is faster


def _paying(found: SizedPlan) -> str:
    """Return words that say up to how many concurrent requests speculation is faster.

    If the planned number is not among them, also return where the speedup is highest.
    """
    least, end, largest = _ends(found)
    start = "" if least == 1 else f"from {least} "
    if end < largest:
        until, more = (
            f"{'about ' if end >= 100 else ''}{_requests(about(end))}",
            f"; above that it gains nothing{_until_next(found, end)}",
        )
    else:
        until = _requests(largest)
        more = ", the most that fit" if largest < MAX_ROWS else ", the largest number computed"
    is_here = gain_at(found, found.plan.batch) >= PAYS
    said = f"{_lengths(found, least, end)} it {'pays' if is_here else 'gains'} {start}up to {until}"
    if is_here:
        return f"{said}{more}."
    most, rows = _best_batch(found)
    return f"{said}{more}. The most is {times(most)}, at {_requests(rows)}."


def _until_next(found: SizedPlan, end: int) -> str:
    """Return words that say where the next range of requests with a speedup starts.

    Return "" if there is none that fits into memory.
    """
    later = (first for first, _ in found.paying_ranges if end < first <= found.largest_batch())
    first = next(later, None)
    return "" if first is None else f" until {first:,}"


def _ends(found: SizedPlan) -> tuple[int, int, int]:
    """Return the smallest and the largest number of requests with a speedup.

    The third number is how many requests fit into memory.
    """
    least, most = found.paying_batches or (1, 1)
    largest = min(MAX_ROWS, found.largest_batch())
    return least, min(most, largest), largest


def _lowered(found: SizedPlan) -> str:
    """Return a sentence with the speedup after correction by the errors of published speedups."""
    least, end, largest = _ends(found)
    low, high = (100 * (1 - 1 / (1 + error)) for error in SPEEDUP_ERRORS)
    gain = gain_at(found, found.plan.batch)
    here = [times(gain / (1 + error)) for error in reversed(SPEEDUP_ERRORS)]
    spans = [
        [rows for rows in range(least, end + 1) if gain_at(found, rows) > 1 + each]
        for each in reversed(SPEEDUP_ERRORS)
    ]
    told = [f"{each[-1] if each[-1] == largest else about(each[-1]):,}" for each in spans if each]
    if not told:
        pays = "gains nowhere"
    elif told[0] == told[-1]:
        pays = f"gains up to {told[0]} at once{'' if spans[0] else ' at best'}"
    else:
        pays = f"gains up to {told[0]} at once at worst, {told[-1]} at best"
    if spans[0] and len(spans[0]) <= spans[0][-1] - least:
        pays += ", though not at every number"
    is_here = f"is {here[0]} to {here[1]} here, and " if gain >= PAYS else ""
    return (
        f"Published speedups were {low:.0f} to {high:.0f} % below such a computation; with that "
        f"correction it {is_here}{pays}."
    )


def about(count: int) -> int:
    """Round a number of at least 100 to two significant digits.

    Computed times are not more precise.

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


# ---- sentences about limits, load and acceptance


def _carried(found: SizedPlan, load: CarriedLoad) -> Iterator[str]:
    """Yield how much load a deployment serves within the limits, with and without speculation.

    With speculation, the load may be smaller even if requests are faster. A second sentence applies
    the error of published prefills to the time to first token.
    """
    plain, fast = (load.rate(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    if not (plain or fast):
        yield f"At no load do {percent(WITHIN)} of the requests meet both your limits."
        return
    if plain and fast:
        fast_text, plain_text = apart(fast, plain, 1 if plain < 100 else 0)
        instead = "as without" if fast_text == plain_text else f"instead of {plain_text}"
        yield (
            f"With random arrivals a deployment carries {fast_text} requests a second "
            f"{instead}, {percent(WITHIN)} of them within both your limits; "
            f"{_for_load(found, load)}"
        )
    else:
        alone = found.speeds(1, found.length(Policy.SPECULATIVE, 1)).loaded_token
        is_sure = alone * (1 + SPEEDUP_ERRORS[1]) <= found.plan.token_limit / 1000
        speculation = "speculation" if is_sure else "speculation, and not with the corrected gain"
        only = f"with {speculation}" if fast else "without speculation"
        policy = Policy.SPECULATIVE if fast else Policy.PLAIN
        yield (
            f"Both your limits are met only {only}: a deployment then carries "
            f"{fast or plain:.2g} requests a second, and your {found.plan.load:g} a second take "
            f"{_cards(found, load.cards(policy) or 0)}."
        )
    first = found.speeds(found.plan.batch, found.K).first_token
    slower = first * (1 + PROMPT_ERROR)
    if first <= found.plan.first_token_limit / 1000 < slower:
        yield (
            f"The computed time to the first token is {seconds(first)}. With the median error of "
            f"published prompts it is {seconds(slower)}, which breaks your limit."
        )


def _broken_limits(found: SizedPlan) -> Iterator[str]:
    """Yield a sentence about the latency limits that the planned number of requests breaks."""
    plan, here = found.plan, found.speeds(found.plan.batch, found.K)
    broken = [
        f"{what} takes {seconds(value)}, and your limit is {seconds(limit / 1000)}"
        for what, value, limit in (
            ("the first token", here.first_token, plan.first_token_limit),
            ("each further token", here.loaded_token, plan.token_limit),
        )
        if 1000 * value > limit
    ]
    if broken:
        yield f"With {_requests(plan.batch)} {'; '.join(broken)}."


def _for_load(found: SizedPlan, load: CarriedLoad) -> str:
    """Return words that say how many GPUs the planned load needs, in whole deployments."""
    cards = [load.cards(each) for each in (Policy.PLAIN, Policy.SPECULATIVE)]
    planned, (plain, fast) = f"your {found.plan.load:g} a second", [each or 0 for each in cards]
    if plain == fast:
        return f"{planned} take {_cards(found, plain)} either way."
    return (
        f"{planned} take {_cards(found, fast)} instead of {plain}, {fast / plain:.2f} times the "
        "money."
    )


def _job(found: SizedPlan) -> Iterator[str]:
    plain, fast = found.job(Policy.PLAIN), found.job(Policy.SPECULATIVE)
    if plain is not None and fast is not None:
        yield (
            f"The batch job takes {seconds(fast.seconds)} with speculation, {fast.rows:,} at once, "
            f"and {seconds(plain.seconds)} without, {plain.rows:,} at once"
            f"{_with_slower_prompts(fast, plain)}."
        )


def _with_slower_prompts(*jobs: Job) -> str:
    """Return words for the time of a job if prompts are as slow as in published measurements.

    Return "" if prompts are a small share of the job.
    """
    share = max(each.prompt_share for each in jobs)
    if share < MUCH:
        return ""
    slower = (each.seconds * (1 + each.prompt_share * PROMPT_ERROR) for each in jobs)
    return (
        f"; {percent(share)} of that are prompts, and with prompts as slow as the median of "
        f"published ones it takes {' and '.join(map(seconds, slower))}"
    )


def _accepted(found: SizedPlan) -> Iterator[str]:
    """Yield sentences about the source of the acceptance rate, and about the rate that is needed.

    With more than the needed rate, a token is faster with speculation than without.
    """
    source, needed = found.plan.acceptance_source, break_even(found)
    is_told = needed is not None and needed >= 0.005
    gains = f"with K = {found.K} a token gains from {needed:.2f} on" if is_told else ""
    if source.startswith(ASSUMED_RATE):
        said = f"The acceptance rate α, {found.plan.acceptance:.2f}, is {source}: measure yours"
    elif source:
        said = f"The acceptance rate α is {source}; another pair or other texts have another"
    elif gains:
        said = f"The acceptance rate α is yours, {found.plan.acceptance:.2f}"
    else:
        return
    yield f"{said}; {gains}." if gains else f"{said}."
    yield _depth(found)


def _depth(found: SizedPlan) -> str:
    """Return a sentence that says how the plan assumes that acceptance falls with depth."""
    plan = found.plan
    if plan.survival:
        falls = " ".join(f"{each:.2f}" for each in plan.survival)
        return f"Acceptance by position is as measured, {falls}; no longer K is considered."
    if plan.draft_length > plan.longest_draft:
        return (
            f"You chose K = {plan.draft_length}, and the rate is assumed to hold so deep: "
            f"published drafts have at most {plan.longest_draft} guesses, and acceptance falls "
            "with depth."
        )
    if plan.draft_length:
        return (
            "The rate is assumed to hold at every depth, though acceptance falls with depth: rates "
            "by position would show more."
        )
    return (
        f"The rate is assumed to hold at every depth, though acceptance falls with depth: so no K "
        f"beyond {plan.longest_draft}, the deepest published, is considered. Rates by "
        "position would show more."
    )


def break_even(found: SizedPlan) -> float | None:
    """Return the acceptance rate above which a token is faster than in plain decoding.

    The batch size is the planned one.
    """
    rows, K = found.plan.batch, found.K
    c, v = found.cost_ratio(rows), found.verification_overhead(rows, K)
    return theory.break_even_acceptance(K, c, v)


# ---- sentences about what would fit into memory


def _room(found: SizedPlan) -> Iterator[str]:
    rows = found.plan.batch
    if found.fits(rows, Policy.PLAIN):
        yield f"Plain decoding of them fits{_beside(found)}."
    room, plain = found.largest_batch(), found.largest_batch(Policy.PLAIN)
    if room:
        without = f", {plain:,} without speculation" if plain > room else ""
        yield f"Memory is enough for {_requests(room)}{without}; {_compared(found, room)}."
        if found.fewest_gpus is not None:
            yield _more_cards(found)
        return
    worst = min(found.memory(rows), key=lambda each: each.headroom)
    if worst.target:
        yield _more_cards(found)
    if any(each.headroom < 0 for each in found.memory(rows)[1:]):
        yield f"Give the draft more {found.plan.gpu.unit}s, or a smaller one."


def _beside(found: SizedPlan) -> str:
    """Return words for the memory that speculation adds on the target's own GPUs."""
    if found.plan.draft_gpus:
        return ""
    rows, unit = found.plan.batch, found.plan.gpu.unit
    (plain, *_), (card, *_) = found.memory(rows, Policy.PLAIN), found.memory(rows)
    more = f"{(card.used - plain.used) / GIGA:.1f} GB more on a {unit}"
    return f": the draft and its guesses take {more} of the target’s"


def _more_cards(found: SizedPlan) -> str:
    unit = found.plan.gpu.unit
    if found.fewest_gpus is None:
        return f"{MAX_GPUS} of these {unit}s do not hold this number of requests either."
    return f"{found.fewest_gpus} of these {unit}s hold {_requests(found.plan.batch)}."


# ---- functions that write numbers in words


def _cards(found: SizedPlan, count: int) -> str:
    unit = found.plan.gpu.unit
    return f"1 {unit}" if count == 1 else f"{count:,} {unit}s"


def _requests(rows: int) -> str:
    return "1 request" if rows == 1 else f"{rows:,} requests at once"


def apart(first: float, second: float, least: int = 1) -> tuple[str, str]:
    """Return both numbers with enough decimals to show their difference.

    Numbers that differ by less than one in a thousand count as equal.

    >>> apart(18.74, 17.5), apart(0.31, 0.26), apart(0.331, 0.338), apart(2.0, 2.0)
    (('18.7', '17.5'), ('0.31', '0.26'), ('0.331', '0.338'), ('2.0', '2.0'))
    """
    digits, difference = least, abs(first - second)
    if difference > SEEN * max(abs(first), abs(second)):
        while abs(abs(round(first, digits) - round(second, digits)) / difference - 1) > 0.25:
            digits += 1
    return f"{first:,.{digits}f}", f"{second:,.{digits}f}"


def times(gain: float) -> str:
    """Return a factor with one decimal, or with two if it is near 1.

    >>> times(2.04), times(1.04)
    ('2.0×', '1.04×')
    """
    return f"{gain:.1f}×" if gain >= 1.2 else f"{gain:.2f}×"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def seconds(value: float) -> str:
    """Return a duration with a suitable unit.

    >>> seconds(0.0421), seconds(3.27), seconds(412), seconds(30_000)
    ('42 ms', '3.27 s', '6.9 min', '8.3 h')
    """
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 100:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 5400 else f"{value / 3600:.1f} h"
