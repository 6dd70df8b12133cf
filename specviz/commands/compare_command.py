"""The command `compare`: it runs the same drafts in an engine and in specviz.

Then it compares the counts of drafted and accepted tokens.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import acceptance_columns, table
from specviz.commands.engine_serving import (
    add_method_flag,
    add_served_pair_flags,
    chosen_method,
    engine_with,
)
from specviz.commands.flags import add_flag, add_many_prompts_flags, chosen_pair, chosen_prompts
from specviz.engines.model_deployment import EngineMethod
from specviz.environment import Environment
from specviz.experiments.run.racing import Race, RaceRequest, start_race
from specviz.metrics.measured_costs import wilson_interval
from specviz.models.matrix_kernels.projection import in_float32
from specviz.models.pair_catalog import Pair
from specviz.records import SETTINGS, SPECULATIVE, DecodingConfig, Round
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters
from specviz.serving.engine_probe import read_engine, version_at
from specviz.serving.engine_stream import StreamedToken, stream_tokens, token_stream

_METHODS = (EngineMethod.DRAFT_MODEL, EngineMethod.EAGLE)
FEWEST_PROMPTS = 10  # with fewer prompts, the result says little about other prompts
_SECONDS = 600.0  # time limit for the engine's answer to one prompt


def _add_flags(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    add_served_pair_flags(group)
    add_flag(group, SETTINGS["eagle"], default=None)
    add_method_flag(group, _METHODS)
    add_many_prompts_flags(parser)
    add_flag(parser, SETTINGS["max_new_tokens"])
    parser.add_argument(
        "--url",
        metavar="URL",
        help="address of a server that serves this pair (default: start llama.cpp with this pair)",
    )


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One prompt decoded by our decoder and by an engine, with the counts of both.

    `difference` is a sentence about the first difference. It is "" if all tokens and counts agree.
    """

    ours: EngineCounters
    theirs: EngineCounters
    difference: str


def compare(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Decode every prompt greedily in specviz and in the engine; compare texts and sum counts.

    Both use float32 and draft a single chain of tokens.
    """
    pair, method = chosen_pair(options), chosen_method(options, _METHODS, "to be compared")
    task, prompts = chosen_prompts(options)
    config = DecodingConfig(
        method=method.value,
        draft_length=options.draft_length,
        # EAGLE drafts a tree by default. Draft a chain instead, as the engine does.
        branching=(1,) if method is EngineMethod.EAGLE else (),
        max_new_tokens=options.max_new_tokens,
        temperature=0.0,
    )
    requests = [RaceRequest(pair, each, config, task, "cpu") for each in prompts]
    pairs = []
    with _server(options.url, pair, method, config.draft_length) as address:
        engine = read_engine(address).engine
        # Raises InputError for an engine that does not report its tokens.
        token_stream(address, engine)
        for number, request in enumerate(requests, 1):
            pairs.append(side_by_side(request, address, engine))
            progress(f"prompt {number} of {len(requests)}: {pairs[-1].difference or 'the same'}")
        version = version_at(address, engine)
    return {
        "pair": pair.name,
        "engine": engine,
        "version": version,
        "draft_length": config.draft_length,
        "prompts": len(pairs),
        "same": sum(not each.difference for each in pairs),
        "differences": {
            number: each.difference for number, each in enumerate(pairs, 1) if each.difference
        },
        "ours": _described([each.ours for each in pairs]),
        "theirs": _described([each.theirs for each in pairs]),
    }


@contextmanager
def _server(
    url: str | None, pair: Pair, method: EngineMethod, draft_length: int
) -> Iterator[EngineAddress]:
    """Yield the server at `url`, or run llama.cpp with the pair until the `with` block ends."""
    if url is not None:
        yield EngineAddress.of(url, Environment.read().engine_key)
        return
    served = engine_with(
        pair,
        method,
        draft_length,
        in_float32=True,
        # llama.cpp would end a draft at a token of low probability. With 0 it always drafts K
        # tokens, as our decoder does.
        min_probability=0.0,
    )
    with served as engine:
        yield EngineAddress.of(engine.url)


def side_by_side(request: RaceRequest, address: EngineAddress, engine: str) -> SideBySide:
    """Decode one prompt greedily with chain drafts, by our decoder and by the engine."""
    most, K = request.config.max_new_tokens, request.config.draft_length
    count = counted
    # Some engines draft K tokens even near the limit of new tokens, and our decoder drafts fewer
    # there. With a limit that is K tokens higher, our decoder drafts as they do.
    if token_stream(address, engine).drafts_past_end:
        count = counted_past_end
        longer = replace(request.config, max_new_tokens=most + K)
        request = replace(request, config=longer)
    with in_float32():
        started = start_race(request)
    with closing(started) as race:
        rounds = [event for event in race.run_lane(SPECULATIVE) if isinstance(event, Round)]
        ids = race.emitted_ids(SPECULATIVE)[:most]
        before = read_engine(address).counters
        written = _written(address, engine, race.header.prompt_ids, most=most)
        theirs = read_engine(address).counters.since(before)
        ours = count(rounds, len(ids), K)
        return SideBySide(ours, theirs, _difference(race, ids, written, ours, theirs, engine))


def _written(
    address: EngineAddress, engine: str, prompt_ids: Sequence[int], *, most: int
) -> list[int]:
    answer = stream_tokens(address, engine, prompt_ids, most, seconds=_SECONDS)
    return [each.token_id for each in answer if isinstance(each, StreamedToken)]


def counted_past_end(rounds: Sequence[Round], tokens: int, draft_length: int) -> EngineCounters:
    """Count our rounds in the way of an engine that drafts beyond the end of the text.

    Such an engine drafts K tokens in every round and counts all accepted ones, even if fewer tokens
    are left to write. The first token of the text belongs to no round, because the prefill emits
    it.
    """
    kept: list[int] = []
    for each in rounds:
        if 1 + len(kept) + sum(kept) >= tokens:
            break
        kept.append(len(each.accepted))
    return _counts(kept, draft_length * len(kept), tokens, draft_length)


def counted(rounds: Sequence[Round], tokens: int, draft_length: int) -> EngineCounters:
    """Count our rounds in the way of llama.cpp.

    llama.cpp counts only rounds that drafted. If a drafted token ends the text before the draft
    ends, llama.cpp counts it as the target's own token. This was observed, not documented.
    """
    drafts = [each for each in rounds if each.tree.nodes]
    kept = [
        len(each.tree.nodes)
        if len(each.accepted) == len(each.tree.nodes)
        else len(each.emitted_ids) - 1
        for each in drafts
    ]
    drafted = sum(len(each.tree.nodes) for each in drafts)
    return _counts(kept, drafted, tokens, draft_length)


def _counts(kept: Sequence[int], drafted: int, tokens: int, draft_length: int) -> EngineCounters:
    """Return the counters of a text of `tokens` tokens, for which `drafted` tokens were drafted.

    `kept` has the number of accepted tokens of each draft.
    """
    return EngineCounters(
        drafts=len(kept),
        drafted=drafted,
        accepted=sum(kept),
        tokens=tokens,
        per_position=tuple(sum(each > place for each in kept) for place in range(draft_length)),
    )


def _difference(
    race: Race,
    ids: Sequence[int],
    written: Sequence[int],
    ours: EngineCounters,
    theirs: EngineCounters,
    engine: str,
) -> str:
    for place, (here, there) in enumerate(zip_longest(ids, written), 1):
        if here != there:
            named = [
                "the end" if each is None else repr(race.token_text(each)) for each in (here, there)
            ]
            return (
                f"the texts differ from token {place} on: {named[0]} here, {named[1]} in {engine}"
            )
    for name in ("drafts", "drafted", "accepted", "per_position"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            return f"{name.replace('_', ' ')}: {_shown(here)} here, {_shown(there)} in {engine}"
    return ""


def _shown(value: float | tuple[float, ...]) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{each:.0f}" for each in value)
    return f"{value:.0f}"


def _described(each: Sequence[EngineCounters]) -> dict[str, Any]:
    """Return the counts of drafts, summed over all prompts, and rates computed from the sums."""
    total = EngineCounters.total(each)
    return {
        "tokens": total.tokens,
        "drafts": total.drafts,
        "drafted": total.drafted,
        "accepted": total.accepted,
        "acceptance_rate": total.acceptance_rate,
        "draft_utilization": total.draft_utilization,
        "draft_utilization_interval": _interval(total.draft_utilization, total.drafted),
        "block_efficiency": total.block_efficiency,
        "acceptance_per_position": list(total.acceptance_per_position),
    }


def _interval(share: float | None, count: float) -> list[float] | None:
    """Return the 95 % interval of a share that was measured on `count` tokens.

    If `share` is None, return None.
    """
    return None if share is None else list(wilson_interval(share, int(count)))


def _verdict(same: int, prompts: int) -> str:
    """Return how many prompts agree, and what this says about other prompts.

    >>> _verdict(2, 2)
    '2 of 2 prompts: all tokens and counts agree. Too few prompts for a verdict: at least 10.'
    >>> _verdict(10, 10).split(". ")[1]
    'For other prompts of this kind, 72 to 100 % would agree (95 % confidence).'
    """
    agreement = f"{same} of {prompts} prompts: all tokens and counts agree."
    if prompts < FEWEST_PROMPTS:
        return f"{agreement} Too few prompts for a verdict: at least {FEWEST_PROMPTS}."
    low, high = wilson_interval(same / prompts, prompts)
    others = f"{100 * low:.0f} to {100 * high:.0f} % would agree (95 % confidence)"
    return f"{agreement} For other prompts of this kind, {others}."


_NO_RATE = (
    "The acceptance rate is unknown: engines count no examined tokens, and they follow from the "
    "other counts only if nearly all drafts have the full length. Longer texts may show it."
)


def compare_text(result: dict[str, Any]) -> str:
    """Return a table of the counts of specviz and the engine, and whether they agree."""
    rows = [
        {
            "by": name,
            "drafts": int(side["drafts"]),
            "drafted": int(side["drafted"]),
            "accepted": int(side["accepted"]),
            **acceptance_columns(side),
            "95 % of utilization": side["draft_utilization_interval"],
            "by position": " ".join(f"{one:.2f}" for one in side["acceptance_per_position"]),
        }
        for name, side in (("specviz", result["ours"]), (result["engine"], result["theirs"]))
    ]
    verdict = _verdict(result["same"], result["prompts"])
    lines = [f"prompt {number}: {why}" for number, why in result["differences"].items()]
    if result["theirs"]["acceptance_rate"] is None:
        lines.append(_NO_RATE)
    return "\n\n".join([table(rows), "\n".join([verdict, *lines])])


def shortfall(result: dict[str, Any]) -> str | None:
    """Return one line if some prompt's tokens or counts differ."""
    count = len(result["differences"])
    if not count:
        return None
    return f"{'1 prompt differs' if count == 1 else f'{count} prompts differ'}"


COMMAND = Command(
    compare,
    compare_text,
    _add_flags,
    shortfall,
    example="--pair bundled --task code --draft-length 4",
)
