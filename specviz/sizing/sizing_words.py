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

# The relative difference of two numbers below which the text calls them equal.
SEEN = 1e-3
# The share of a job's time that prompts must exceed to be mentioned in the answer.
MUCH = 0.1


def verdict(sized: SizedPlan, load: CarriedLoad) -> str:
    """Return the verdict about the plan, in one to three words.

    - `does not fit`: memory is too small.
    - `on paper`: engines refuse the pair.
    - `yes`: the speedup is larger than the largest error of published speedups.
    - `perhaps`: there is a speedup, but it is smaller than that error.
    - `at a price`: requests are faster, but the deployment serves less load or a token costs more.
    - `no`: no speedup at any batch size.
    - `not here`: no speedup at the planned batch size, but at others.
    """
    if not sized.fits(sized.plan.batch):
        return "does not fit"
    if obstacle(sized.plan) is not None:
        return "on paper"
    gain = gain_at(sized, sized.plan.batch)
    if gain >= PAYS:
        if _is_dearer(load):
            return "at a price"
        return "yes" if gain >= 1 + SPEEDUP_ERRORS[1] else "perhaps"
    return "not here" if _best_batch(sized)[0] >= PAYS else "no"


def answer(sized: SizedPlan, load: CarriedLoad) -> str:
    """Return one sentence about speed, capacity and cost, for readers who read no further."""
    rows, word = sized.plan.batch, verdict(sized, load).capitalize()
    if not sized.fits(rows):
        worst = min(sized.memory(rows), key=lambda each: each.headroom)
        return (
            f"{word}: {_requests(rows)} {'needs' if rows == 1 else 'need'} "
            f"{worst.used / GIGA:,.0f} GB on {'each of ' if worst.cards > 1 else ''}"
            f"{_cards(sized, worst.cards)}, but an engine may use only "
            f"{worst.limit / GIGA:,.0f} GB."
        )
    against = obstacle(sized.plan)
    start = f"engines refuse this pair, because {against}. Computed anyway: " if against else ""
    return f"{word}: {start}{_compared(sized, rows)}{_at_what_cost(load)}."


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
    serves = (
        "serves as many requests per second"
        if now == before
        else f"serves {now} requests per second instead of {before}"
    )
    costs = "costs the same" if abs(cost - 1) < 0.005 else f"costs {cost:.2f} times as much"
    return f"; a deployment {serves}, and a token {costs}"


def _compared(sized: SizedPlan, rows: int) -> str:
    """Compare the time of a whole request with and without speculation, in words."""
    K = sized.length(Policy.SPECULATIVE, rows)
    plain, fast = sized.speeds(rows, 0).request, sized.speeds(rows, K).request
    gain = plain / fast
    if abs(gain - 1) < 0.005:
        compared = ", about as long as without speculation"
    elif gain < 1:
        compared = f" instead of {seconds(plain)} ({100 / gain - 100:.0f} % longer)"
    else:
        small = "" if gain >= PAYS else ", too little to rely on"
        compared = f" instead of {seconds(plain)} ({times(gain)} as fast{small})"
    return f"with {_requests(rows)}, a whole request takes {seconds(fast)}{compared}"


def reasons(sized: SizedPlan, load: CarriedLoad) -> Iterator[str]:
    """Yield the reasons: where speculation is faster, how sure that is, limits, load, acceptance.

    For a plan that does not fit into memory, yield what would fit.
    """
    if not sized.fits(sized.plan.batch):
        yield from _room(sized)
        yield from _job(sized)
        return
    most, rows = _best_batch(sized)
    if most >= PAYS:
        yield _paying(sized)
        yield _lowered(sized)
        yield from _carried(sized, load)
    elif most > 1:
        yield f"The highest speedup is {times(most)}, with {_requests(rows)}."
    elif break_even(sized) is None:
        yield "The draft costs more than it can save."
    else:
        yield "Speculation is not faster with any number of requests at once."
    yield from _broken_limits(sized)
    yield from _job(sized)
    yield from _accepted(sized)


def gain_at(sized: SizedPlan, rows: int) -> float:
    """Return the speedup of whole requests at a batch size, with the K for this batch size."""
    return sized.request_speedup(rows, sized.length(Policy.SPECULATIVE, rows))


def _best_batch(sized: SizedPlan) -> tuple[float, int]:
    """Return the highest speedup, and the smallest batch size with this speedup.

    Only batch sizes that fit into memory count.
    """
    gains = ((gain_at(sized, rows), rows) for rows in DRAWN_ROWS if sized.fits(rows))
    return max(gains, key=lambda each: (each[0], -each[1]))


# ---- sentences about the numbers of requests with which speculation is faster


def _paying(sized: SizedPlan) -> str:
    """Return words that say up to how many concurrent requests speculation is faster.

    If the planned number is not among them, also return where the speedup is highest.
    """
    least, end, largest = _ends(sized)
    start = "up" if least == 1 else f"from {least}"
    if end < largest:
        until, more = (
            f"{'about ' if end >= 100 else ''}{_requests(about(end))}",
            f"; with more it is not faster{_until_next(sized, end)}",
        )
    else:
        until = _requests(largest)
        more = " (more do not fit)" if largest < MAX_ROWS else " (no more were computed)"
    paying = f"{_lengths(sized, least, end)} speculation is faster {start} to {until}{more}."
    if gain_at(sized, sized.plan.batch) >= PAYS:
        return paying
    most, rows = _best_batch(sized)
    return f"{paying} The highest speedup is {times(most)}, with {_requests(rows)}."


def _until_next(sized: SizedPlan, end: int) -> str:
    """Return words that say where the next range of requests with a speedup starts.

    Return "" if there is none that fits into memory.
    """
    later = (first for first, _ in sized.paying_ranges if end < first <= sized.largest_batch())
    first = next(later, None)
    return "" if first is None else f" until {_requests(first)}"


def _ends(sized: SizedPlan) -> tuple[int, int, int]:
    """Return the smallest and the largest number of requests with a speedup.

    The third number is how many requests fit into memory.
    """
    least, most = sized.paying_batches or (1, 1)
    largest = min(MAX_ROWS, sized.largest_batch())
    return least, min(most, largest), largest


def _lowered(sized: SizedPlan) -> str:
    """Return a sentence with the speedup after correction by the errors of published speedups."""
    least, end, largest = _ends(sized)
    low, high = (100 * (1 - 1 / (1 + error)) for error in SPEEDUP_ERRORS)
    gain = gain_at(sized, sized.plan.batch)
    here = [times(gain / (1 + error)) for error in reversed(SPEEDUP_ERRORS)]
    spans = [
        [rows for rows in range(least, end + 1) if gain_at(sized, rows) > 1 + each]
        for each in reversed(SPEEDUP_ERRORS)
    ]
    ends = [f"{each[-1] if each[-1] == largest else about(each[-1]):,}" for each in spans if each]
    if not ends:
        faster = "not faster with any number of requests"
    elif ends[0] == ends[-1]:
        faster = f"faster up to {ends[0]} requests at once{'' if spans[0] else ' in the best case'}"
    else:
        faster = (
            f"faster up to {ends[0]} requests at once in the worst case, {ends[-1]} in the best"
        )
    if spans[0] and len(spans[0]) <= spans[0][-1] - least:
        faster += ", but not with every number"
    is_here = f"the speedup here is {here[0]} to {here[1]}, and " if gain >= PAYS else ""
    return (
        f"Published speedups were {low:.0f} to {high:.0f} % lower than the computed ones. With "
        f"this correction, {is_here}speculation is {faster}."
    )


def about(count: int) -> int:
    """Round a number of at least 100 to two significant digits.

    Computed times are not more precise.

    >>> about(285), about(1024), about(37), about(8)
    (280, 1000, 37, 8)
    """
    return round(count, 2 - len(str(count))) if count >= 100 else count


def _lengths(sized: SizedPlan, least: int, most: int) -> str:
    if sized.plan.draft_length:
        return f"With K = {sized.K},"
    used = {
        each.K for each in sized.lengths if each.K and least <= each.last and each.first <= most
    }
    low, high = min(used), max(used)
    span = f"K = {low}" if low == high else f"K from {low} to {high} (the best for each number)"
    return f"With {span},"


# ---- sentences about limits, load and acceptance


def _carried(sized: SizedPlan, load: CarriedLoad) -> Iterator[str]:
    """Yield how much load a deployment serves within the limits, with and without speculation.

    With speculation, the load may be smaller even if requests are faster. A second sentence applies
    the error of published prefills to the time to first token.
    """
    plain, fast = (load.rate(each) for each in (Policy.PLAIN, Policy.SPECULATIVE))
    if not (plain or fast):
        yield f"There is no load at which {percent(WITHIN)} of the requests meet both your limits."
        return
    if plain and fast:
        fast_text, plain_text = apart(fast, plain, 1 if plain < 100 else 0)
        same = "with and without speculation"
        instead = same if fast_text == plain_text else f"instead of {plain_text}"
        yield (
            f"If requests arrive at random, a deployment serves {fast_text} requests per second "
            f"{instead}, {percent(WITHIN)} of them within both your limits; "
            f"{_for_load(sized, load)}"
        )
    else:
        alone = sized.speeds(1, sized.length(Policy.SPECULATIVE, 1)).loaded_token
        is_sure = alone * (1 + SPEEDUP_ERRORS[1]) <= sized.plan.token_limit / 1000
        speculation = (
            "speculation" if is_sure else "speculation (not with the lowest corrected speedup)"
        )
        only = f"with {speculation}" if fast else "without speculation"
        policy = Policy.SPECULATIVE if fast else Policy.PLAIN
        yield (
            f"Both your limits are met only {only}. A deployment then serves "
            f"{fast or plain:.2g} requests per second, and your {sized.plan.load:g} requests per "
            f"second need {_cards(sized, load.cards(policy) or 0)}."
        )
    first = sized.speeds(sized.plan.batch, sized.K).first_token
    slower = first * (1 + PROMPT_ERROR)
    if first <= sized.plan.first_token_limit / 1000 < slower:
        yield (
            f"The computed time to the first token is {seconds(first)}. With the median error of "
            f"published prompts it is {seconds(slower)}, which breaks your limit."
        )


def _broken_limits(sized: SizedPlan) -> Iterator[str]:
    """Yield a sentence about the latency limits that the planned number of requests breaks."""
    plan, here = sized.plan, sized.speeds(sized.plan.batch, sized.K)
    broken = [
        f"{what} takes {seconds(value)}, but your limit is {seconds(limit / 1000)}"
        for what, value, limit in (
            ("the first token", here.first_token, plan.first_token_limit),
            ("each further token", here.loaded_token, plan.token_limit),
        )
        if 1000 * value > limit
    ]
    if broken:
        yield f"With {_requests(plan.batch)}, {'; '.join(broken)}."


def _for_load(sized: SizedPlan, load: CarriedLoad) -> str:
    """Return words that say how many GPUs the planned load needs, in whole deployments."""
    cards = [load.cards(each) for each in (Policy.PLAIN, Policy.SPECULATIVE)]
    planned, (plain, fast) = (
        f"your {sized.plan.load:g} requests per second",
        [each or 0 for each in cards],
    )
    if plain == fast:
        return f"{planned} need {_cards(sized, plain)} with and without speculation."
    return (
        f"{planned} need {_cards(sized, fast)} instead of {plain}, which cost {fast / plain:.2f} "
        "times as much."
    )


def _job(sized: SizedPlan) -> Iterator[str]:
    plain, fast = sized.job(Policy.PLAIN), sized.job(Policy.SPECULATIVE)
    if plain is not None and fast is not None:
        yield (
            f"The batch job takes {seconds(fast.seconds)} with speculation ({fast.rows:,} at once) "
            f"and {seconds(plain.seconds)} without ({plain.rows:,} at once)"
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
        f". Prompts take up to {percent(share)} of this time. If they are as slow as the median of "
        f"published prompts, the job takes {' and '.join(map(seconds, slower))}"
    )


def _accepted(sized: SizedPlan) -> Iterator[str]:
    """Yield sentences about the source of the acceptance rate, and about the rate that is needed.

    With more than the needed rate, a token is faster with speculation than without.
    """
    source, needed = sized.plan.acceptance_source, break_even(sized)
    is_shown = needed is not None and needed >= 0.005
    limit = f"With K = {sized.K}, a token is faster if α is above {needed:.2f}." if is_shown else ""
    if source.startswith(ASSUMED_RATE):
        rate = f"The acceptance rate α, {sized.plan.acceptance:.2f}, is {source}: measure yours."
    elif source:
        rate = f"The acceptance rate α is {source}. Other pairs and other texts have other rates."
    elif limit:
        rate = f"You chose the acceptance rate α, {sized.plan.acceptance:.2f}."
    else:
        return
    yield f"{rate} {limit}".rstrip()
    yield _depth(sized)


def _depth(sized: SizedPlan) -> str:
    """Return a sentence that says how the plan assumes that acceptance falls with depth."""
    plan = sized.plan
    if plan.survival:
        falls = " ".join(f"{each:.2f}" for each in plan.survival)
        return f"The rates by position are measured ({falls}); no larger K is tried."
    if plan.draft_length > plan.longest_draft:
        return (
            f"You chose K = {plan.draft_length}. The plan assumes the same rate at every depth, "
            "but real acceptance falls with depth, and published drafts have at most "
            f"{plan.longest_draft} guesses."
        )
    if plan.draft_length:
        return (
            "The plan assumes the same rate at every depth, but real acceptance falls with depth. "
            "With rates by position, the plan is more exact."
        )
    return (
        "The plan assumes the same rate at every depth, but real acceptance falls with depth. It "
        f"therefore tries no K above {plan.longest_draft}, the longest published draft. With rates "
        "by position, the plan is more exact."
    )


def break_even(sized: SizedPlan) -> float | None:
    """Return the acceptance rate above which a token is faster than in plain decoding.

    The batch size is the planned one.
    """
    rows, K = sized.plan.batch, sized.K
    c, v = sized.cost_ratio(rows), sized.verification_overhead(rows, K)
    return theory.break_even_acceptance(K, c, v)


# ---- sentences about what would fit into memory


def _room(sized: SizedPlan) -> Iterator[str]:
    rows = sized.plan.batch
    if sized.fits(rows, Policy.PLAIN):
        yield f"Without speculation, these requests fit{_added(sized)}."
    room, plain = sized.largest_batch(), sized.largest_batch(Policy.PLAIN)
    if room:
        without = f", or for {plain:,} without speculation" if plain > room else ""
        yield f"Memory is enough for {_requests(room)}{without}; {_compared(sized, room)}."
        if sized.fewest_gpus is not None:
            yield _more_cards(sized)
        return
    worst = min(sized.memory(rows), key=lambda each: each.headroom)
    if worst.target:
        yield _more_cards(sized)
    if any(each.headroom < 0 for each in sized.memory(rows)[1:]):
        yield f"Give the draft more {sized.plan.gpu.unit}s, or choose a smaller draft."


def _added(sized: SizedPlan) -> str:
    """Return words for the memory that speculation adds on the target's own GPUs."""
    if sized.plan.draft_gpus:
        return ""
    rows, unit = sized.plan.batch, sized.plan.gpu.unit
    (plain, *_), (card, *_) = sized.memory(rows, Policy.PLAIN), sized.memory(rows)
    more = f"{(card.used - plain.used) / GIGA:.1f} GB more on each {unit} of the target"
    return f": the draft and its guesses need {more}"


def _more_cards(sized: SizedPlan) -> str:
    unit = sized.plan.gpu.unit
    if sized.fewest_gpus is None:
        return f"Even {MAX_GPUS} of these {unit}s have too little memory for so many requests."
    rows = sized.plan.batch
    return f"{sized.fewest_gpus} of these {unit}s have enough memory for {_requests(rows)}."


# ---- functions that write numbers in words


def _cards(sized: SizedPlan, count: int) -> str:
    unit = sized.plan.gpu.unit
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
