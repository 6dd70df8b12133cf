"""`compare`: the same drafts by llama.cpp or vLLM and here, counted the same way."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.commands.console import table
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
from specviz.models.llama.projection import in_float32
from specviz.models.pair_catalog import Pair
from specviz.records import SETTINGS, SPECULATIVE, DecodingConfig, Round
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import VLLM, EngineCounters
from specviz.serving.engine_probe import read_engine, version_at
from specviz.serving.engine_stream import StreamedToken, check_tells_tokens, stream_tokens

_METHODS = (EngineMethod.DRAFT_MODEL, EngineMethod.EAGLE)
_SECONDS = 600.0  # for the engine's text of one prompt


def _add_flags(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    add_served_pair_flags(group)
    add_flag(group, SETTINGS["eagle"], default=None)
    add_method_flag(group, _METHODS)
    add_many_prompts_flags(parser)
    add_flag(parser, SETTINGS["max_new_tokens"])
    parser.add_argument(
        "--url", help="of a server that serves this pair (default: one of llama.cpp is started)"
    )


@dataclass(frozen=True, slots=True)
class SideBySide:
    """One prompt by both; `difference` is a sentence, "" where tokens and counts are the same."""

    ours: EngineCounters
    theirs: EngineCounters
    difference: str


def compare(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Greedy texts of a chain's drafts in float32, prompt by prompt; sums over all prompts."""
    pair, method = chosen_pair(options), chosen_method(options, _METHODS, "to be compared")
    task, prompts = chosen_prompts(options)
    config = DecodingConfig(
        method=method.value,
        draft_length=options.draft_length,
        branching=(1,) if method is EngineMethod.EAGLE else (),  # else its tree, which is none
        max_new_tokens=options.max_new_tokens,
        temperature=0.0,
    )
    requests = [RaceRequest(pair, each, config, task, "cpu") for each in prompts]
    pairs = []
    with _server(options.url, pair, method, config.draft_length) as address:
        engine = read_engine(address).engine
        check_tells_tokens(address, engine)
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
    """The one at `url`, or llama.cpp started with the pair until the block ends."""
    if url is not None:
        yield EngineAddress.of(url, Environment.read().engine_key)
        return
    served = engine_with(
        pair,
        method,
        draft_length,
        in_float32=True,
        min_probability=0.0,  # the draft proposes K tokens however unsure it is, as ours does
    )
    with served as engine:
        yield EngineAddress.of(engine.url)


def side_by_side(request: RaceRequest, address: EngineAddress, engine: str) -> SideBySide:
    """A greedy request of a chain's drafts by our decoder and by the engine at an address."""
    most, K = request.config.max_new_tokens, request.config.draft_length
    count = counted
    if engine == VLLM:  # it drafts beyond the last token
        count = counted_by_vllm
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


def counted_by_vllm(rounds: Sequence[Round], tokens: int, draft_length: int) -> EngineCounters:
    """Our rounds as vLLM counts them: it drafts K tokens in each, also where fewer are left to
    write, and counts all that pass. The first token comes with the prompt.
    """
    kept: list[int] = []
    for each in rounds:
        if 1 + len(kept) + sum(kept) >= tokens:
            break
        kept.append(len(each.accepted))
    return _counts(kept, draft_length * len(kept), tokens, draft_length)


def counted(rounds: Sequence[Round], tokens: int, draft_length: int) -> EngineCounters:
    """Our rounds as the engine counts them.

    Those where something was drafted. A drafted token that ends the text counts as the target's
    own, but at the draft's last place: so llama.cpp was seen to do.
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
    """Of drafts of which so many tokens each were kept."""
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
            return f"the texts part at token {place}: {named[0]} here, {named[1]} in {engine}"
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
    """The sums over all prompts, and the rates of these sums."""
    total = EngineCounters.total(each)
    return {
        "tokens": total.tokens,
        "drafts": total.drafts,
        "drafted": total.drafted,
        "accepted": total.accepted,
        "acceptance": total.acceptance,
        "tokens_per_forward": total.accepted_length,
        "acceptance_per_position": list(total.acceptance_per_position),
    }


def compare_text(result: dict[str, Any]) -> str:
    """Both in a table, and whether they agree."""
    rows = [
        {
            "by": name,
            "drafts": int(side["drafts"]),
            "drafted": int(side["drafted"]),
            "accepted": int(side["accepted"]),
            "acceptance": side["acceptance"],
            "tokens/forward": side["tokens_per_forward"],
            "by position": " ".join(f"{one:.2f}" for one in side["acceptance_per_position"]),
        }
        for name, side in (("specviz", result["ours"]), (result["engine"], result["theirs"]))
    ]
    verdict = (
        f"{result['same']} of {result['prompts']} prompts: every token and every count the same."
    )
    told = [f"prompt {number}: {why}" for number, why in result["differences"].items()]
    return "\n\n".join([table(rows), "\n".join([verdict, *told])])


def shortfall(result: dict[str, Any]) -> str | None:
    """One line where something differs."""
    count = len(result["differences"])
    if not count:
        return None
    return f"{'1 prompt differs' if count == 1 else f'{count} prompts differ'}"


COMMAND = Command(compare, compare_text, _add_flags, shortfall)
