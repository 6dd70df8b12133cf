"""`race`: one method against its baseline, on one prompt or on a batch of prompts."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from specviz import trace_file
from specviz.commands.command import Command, Progress
from specviz.commands.console import table
from specviz.commands.flags import (
    MAX_REPEATS,
    add_batch_flags,
    add_config_flags,
    add_pair_flags,
    add_prompt_flags,
    check_writable,
    chosen_batch,
    chosen_config,
    chosen_pair,
    chosen_prompt,
    chosen_rows,
    warn_of_template,
)
from specviz.decoding.batch_options import BatchOptions
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.experiments.benchmark.batching import batch_report, measure_batch
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.blocks import Measurement, measure
from specviz.experiments.run.engine_lane import RacedServer
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.metrics import summarise
from specviz.prompts import prompt_json
from specviz.records import (
    BATCH,
    PLAIN_SERVER,
    SERVER,
    EngineReport,
    Lane,
    LaneKind,
    TokenOrigin,
    Trace,
)
from specviz.serving.engine_address import EngineAddress
from specviz.trace_file.config_fields import encode_settings


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_prompt_flags(parser)
    add_config_flags(parser)
    parser.add_argument(
        "--repeat", type=int, default=2, help="pairs of blocks (default %(default)s)"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="save the shown repeat, of a batch the last (.json.gz)",
    )
    parser.add_argument(
        "--server", metavar="URL", help="a llama.cpp or vLLM server of this target, raced too"
    )
    parser.add_argument(
        "--plain-server", metavar="URL", help="the same server without drafts, raced too"
    )
    add_batch_flags(parser)


def race(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure both lanes in alternating blocks."""
    whole_between(options.repeat, "repeat", 1, MAX_REPEATS)
    batch, servers = chosen_batch(options), _servers(options)
    if servers and options.batch_size is not None:
        raise InputError("server must be left out with batch-size: a server is raced by one prompt")
    files = _trace_files(options)
    for name in files:
        check_writable("trace file", name)
    if options.batch_size is not None:
        return _race_batch(options, batch, files, progress)
    task, prompt = chosen_prompt(options, progress)
    pair, config = chosen_pair(options), chosen_config(options)
    request = RaceRequest(pair, prompt, config, task, options.device, options.dtype, servers)
    warn_of_template(request.pair, options, (prompt,), progress)
    measured = _with_servers(measure(request, options.repeat, progress), request, progress)
    for name in files:
        trace_file.save(measured.trace, name)
    return _result(measured, request)


def _servers(options: Namespace) -> tuple[RacedServer, ...]:
    """Those of the flags; each is sent the key of the environment."""
    key = Environment.read().engine_key
    named = ((SERVER, options.server), (PLAIN_SERVER, options.plain_server))
    return tuple(RacedServer(lane, EngineAddress.of(url, key)) for lane, url in named if url)


def _with_servers(measured: Measurement, request: RaceRequest, progress: Progress) -> Measurement:
    """One answer of each server in its lane of the shown repeat, once all repeats have ended."""
    if not request.servers:
        return measured
    with closing(start_race(request)) as race:
        for server in request.servers:
            progress(f"asking the {server.lane} at {server.address}")
            for event in race.ask(server):
                race.take(server.lane, event)
        asked = race.trace()
    trace = measured.trace
    lanes = (asked.lane(x.name) if x.kind is LaneKind.ENGINE else x for x in trace.lanes)
    texts = dict(asked.token_texts) | dict(trace.token_texts)
    whole = replace(trace, lanes=tuple(lanes), token_texts=tuple(sorted(texts.items())))
    return replace(measured, trace=whole)


def _race_batch(
    options: Namespace, batch: BatchOptions, files: list[str], progress: Progress
) -> dict[str, Any]:
    pair, config = chosen_pair(options), chosen_config(options)
    task, prompts = chosen_rows(options, options.batch_size)
    first = RaceRequest(pair, prompts[0], config, task, options.device, options.dtype)
    request = BatchRequest(first, prompts, batch)
    warn_of_template(pair, options, prompts, progress)
    measured = measure_batch(request, options.repeat, progress)
    report = batch_report(request, measured)
    if files:
        for row, trace, name in zip(report["rows"], measured.traces, files, strict=True):
            trace_file.save(trace, name)
            row["trace"] = name
    return report


def _trace_files(options: Namespace) -> list[str]:
    """Where to save traces: no file, one, or one per row. InputError for a bad batch size."""
    size = options.batch_size
    if size is not None:
        BATCH["batch_size"].check(size)
    if options.trace is None:
        return []
    return [options.trace] if size is None else [_row_file(options.trace, i) for i in range(size)]


def _row_file(name: str, row: int) -> str:
    """A row's own file.

    >>> _row_file("runs/race.json.gz", 2)
    'runs/race-row2.json.gz'
    """
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    return str(path.with_name(f"{stem}-row{row}{dot}{ending}"))


def _result(measured: Measurement, request: RaceRequest) -> dict[str, Any]:
    numbers, trace = asdict(measured.typical), measured.trace
    (low, high), servers = measured.spread, summarise(measured.trace)
    return {
        "baseline": {**numbers["baseline"], "text": measured.baseline_text},
        "speculative": {**numbers["speculative"], "text": measured.text},
        "drafter_bytes": trace.main.drafter_bytes,
        "drafter_cache_bytes": trace.main.drafter_cache_bytes,
        "speedup": measured.speedup,
        "speedup_spread": [low, high],
        "speedup_tokens": numbers["speedup_tokens"],
        "theory_speedup": numbers["theory_speedup"],
        "lossless": request.config.tree_kind.is_lossless,
        "identical": numbers["identical"],
        "first_divergence": numbers["first_divergence"],
        "device": trace.device,
        "dtype": trace.dtype,
        "pair": request.pair.name,
        "method": trace.config.method,
        "servers": [_server(x, trace) for x in trace.lanes if x.kind is LaneKind.ENGINE],
        "server_speedup": servers.server_speedup,
        "server_speedup_tokens": servers.server_speedup_tokens,
        "setting": _setting(request, len(measured.summaries)),
    }


def _server(lane: Lane, trace: Trace) -> dict[str, Any]:
    """What a server's lane came to; `same_text`: the baseline's, None above temperature 0."""
    ids, seconds = lane.emitted_ids, lane.seconds
    plain = trace.baseline if ids and trace.config.temperature == 0 else None
    return {
        "lane": lane.name,
        **asdict(lane.engine or EngineReport()),
        "tokens": len(ids),
        "target_forwards": _forwards(lane),
        "seconds": seconds,
        "tokens_per_second": len(ids) / seconds if ids else None,
        "ttft_seconds": lane.arrivals[0].seconds if ids else None,
        "same_text": None if plain is None else ids == plain.emitted_ids,
    }


def _forwards(lane: Lane) -> int | None:
    """Of the server's target, the prompt's included; None where it hides them."""
    origins = [each.origin for each in lane.arrivals]
    if not origins or None in origins:
        return None
    return 1 + sum(each is not TokenOrigin.ACCEPTED for each in origins[:-1])


def _setting(request: RaceRequest, repeats: int) -> dict[str, Any]:
    """All that is needed to run it again."""
    return {
        "pair": request.pair.name,
        "target": request.pair.target,
        "draft": request.pair.draft or None,
        "eagle": request.pair.eagle or None,
        "medusa": request.pair.medusa or None,
        "task": request.task,
        "prompt": prompt_json(request.prompt),
        "device": request.device,
        "dtype": request.dtype,
        "repeat": repeats,
        **encode_settings(request.config),
    }


def race_text(result: dict[str, Any]) -> str:
    """Both lanes, the verdict and the speculative text; of a batch both lanes and every row."""
    if "rows" in result:
        return _batch_text(result)
    lanes = [
        {
            "lane": name,
            "tokens": result[name]["tokens"],
            "forwards, the prompt's too": result[name].get(
                "target_forwards", result[name]["tokens"]
            ),
            "seconds": result[name]["seconds"],
            "tokens/s": result[name]["tokens_per_second"],
            "first token (ms)": 1000 * result[name]["ttft_seconds"],
        }
        for name in ("baseline", "speculative")
    ]
    lanes += [
        {
            "lane": each["lane"],
            "tokens": each["tokens"],
            "forwards, the prompt's too": each["target_forwards"] or "unknown",
            "seconds": each["seconds"],
            "tokens/s": each["tokens_per_second"],
            "first token (ms)": 1000 * each["ttft_seconds"],
        }
        for each in result["servers"]
        if each["tokens"]
    ]
    numbers = result["speculative"]
    facts = {
        "acceptance_rate": numbers["acceptance_rate"],
        "block_efficiency": numbers["block_efficiency"],
        "theory_speedup": result["theory_speedup"],
        "speedup_tokens": result["speedup_tokens"],
        "speedup": result["speedup"],
        "speedup_spread": result["speedup_spread"],
    }
    head = f"{result['method']} on {result['pair']}, {result['device']}, {result['dtype']}"
    text = result["speculative"]["text"].strip("\n")
    parts = [head, text, table(lanes), table([facts]), _memory(result), _verdict(result)]
    if result["server_speedup"] is not None:
        over = f"over {result['server_speedup_tokens']} tokens, one answer of each"
        parts.append(f"server with drafts / without: {result['server_speedup']:.2f}x, {over}")
    return "\n\n".join([*parts, *map(_server_line, result["servers"])])


def _server_line(server: dict[str, Any]) -> str:
    """Who answered in a server's lane, and what it tells of its drafts; what it hides is unknown.

    >>> _server_line({"lane": "server", "engine": "vLLM", "version": "0.32", "model": "m",
    ...     "drafted": 9, "accepted": 4, "tokens": 8, "same_text": True, "remark": ""})
    'server: vLLM 0.32, model m; 4 of 9 drafted tokens accepted; the text of the baseline'
    """
    parts = []
    if server["engine"]:
        engine = f"{server['engine']} {server['version']}".strip()
        parts.append(f"{engine}, model {server['model']}")
    if server["tokens"]:
        drafted, accepted = server["drafted"], server["accepted"]
        told = f"{accepted} of {drafted} drafted tokens accepted" if drafted else "nothing drafted"
        parts.append("its drafts are unknown" if drafted is None else told)
    if server["same_text"] is not None:
        parts.append("the text of the baseline" if server["same_text"] else "another text")
    return f"{server['lane']}: {'; '.join([*parts, server['remark']]).removesuffix('; ')}"


def _memory(result: dict[str, Any]) -> str:
    """What the method holds beside the target.

    >>> _memory({"drafter_bytes": 6_700_000, "drafter_cache_bytes": 1_200_000})
    'beside the target: 6.7 MB of weights, 1.2 MB of cache'
    """
    weights, cache = result["drafter_bytes"], result["drafter_cache_bytes"]
    more = "cache not seen (another process)" if cache is None else f"{cache / 1e6:.1f} MB of cache"
    return f"beside the target: {weights / 1e6:.1f} MB of weights, {more}"


def _batch_text(result: dict[str, Any]) -> str:
    """What all rows took together, then each by itself."""
    lanes = [
        {
            "lane": name,
            "tokens": result[name]["tokens"],
            "target forwards": result[name]["target_forwards"],
            "seconds": result[name]["seconds"],
            "tokens/s": result[name]["tokens_per_second"],
            "slots wasted": result[name]["slot_waste"],
        }
        for name in ("baseline", "speculative")
    ]
    facts = {
        "acceptance_rate": result["speculative"]["acceptance_rate"],
        "block_efficiency": result["speculative"]["block_efficiency"],
        "speedup": result["speedup"],
        "speedup_spread": result["speedup_spread"],
        "identical": "-" if result["identical"] is None else str(result["identical"]),
    }
    names = ("row", "seed", "prompt_tokens", "tokens", "target_forwards", "block_efficiency")
    rows = [{name: row[name] for name in (*names, "finish")} for row in result["rows"]]
    head = f"{result['method']} on {result['pair']}, {result['batch_size']} rows"
    place = f"{head}, {result['device']}, {result['dtype']}"
    return "\n\n".join([place, table(lanes), table([facts]), table(rows)])


def _verdict(result: dict[str, Any]) -> str:
    divergence = result["first_divergence"]
    if not result["lossless"]:
        return "lossy: the verification rule asked for does not keep the target's distribution"
    if result["identical"] is None:
        return "same distribution (at a temperature above 0 the texts differ by chance)"
    if divergence is None:
        return "identical text"
    where = f"first difference at token {divergence['index'] + 1}"
    if divergence["margin"] is None:
        return f"{where}, which the baseline does not have"
    return (
        f"{where}, where the target's two best logits "
        f"are {divergence['margin']:.2g} apart (a numerical tie if that is tiny)"
    )


COMMAND = Command(race, race_text, _add_flags)
