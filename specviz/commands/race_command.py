"""The command `race`: it compares one method with plain decoding, on one prompt or a batch."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from specviz import trace_file
from specviz.commands.command import Command, Progress
from specviz.commands.console import acceptance_columns, table
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
from specviz.commands.result_files import UNWRITTEN, missing_files, unwritten
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.rules.rule_table import rule_named
from specviz.environment import Environment
from specviz.errors import InputError, whole_between
from specviz.experiments.benchmark.batching import batch_report, measure_batch
from specviz.experiments.run.asked_servers import (
    AskedServers,
    ask_servers,
    forwards_of,
    tokens_per_forward,
)
from specviz.experiments.run.batch_race import BatchRequest
from specviz.experiments.run.blocks import Measurement, measure
from specviz.experiments.run.engine_lane import RacedServer
from specviz.experiments.run.racing import RaceRequest
from specviz.experiments.run.repeats import DEFAULT_REPEATS
from specviz.metrics.round_totals import ratio
from specviz.metrics.rounded_copy import rounded_copy_words
from specviz.prompts import prompt_json
from specviz.records import (
    BATCH,
    PLAIN_SERVER,
    SERVER,
    EngineReport,
    FinishReason,
    Lane,
    LaneKind,
    Trace,
)
from specviz.serving.engine_address import EngineAddress
from specviz.trace_file.config_fields import encode_settings


def _add_flags(parser: ArgumentParser) -> None:
    add_pair_flags(parser)
    add_prompt_flags(parser)
    add_config_flags(parser)
    parser.add_argument(
        "--repeat",
        type=int,
        default=DEFAULT_REPEATS,
        metavar="N",
        help="number of measurements of plain decoding, of the method and of each server, which "
        "take turns (default %(default)s)",
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="save the run whose numbers are shown to this .json.gz file; for a batch, save the "
        "last measurement, each prompt in its own file (default none)",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        help="address of a llama.cpp or vLLM server that runs this target; its answer is measured "
        "as well (default none)",
    )
    parser.add_argument(
        "--plain-server",
        metavar="URL",
        help="address of a server that runs this target without drafts; its answer is measured as "
        "well (default none)",
    )
    add_batch_flags(parser)


def race(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Measure the baseline and the method in alternating blocks."""
    whole_between(options.repeat, "repeat", 1, MAX_REPEATS)
    batch, servers = chosen_batch(options), _servers(options)
    if servers and options.batch_size is not None:
        raise InputError(
            "server must not be given with batch-size, because a server answers one prompt at a "
            "time"
        )
    files = _trace_files(options)
    for name in files:
        check_writable("trace file", name)
    if options.batch_size is not None:
        return _race_batch(options, batch, files, progress)
    task, prompt = chosen_prompt(options, progress)
    pair, config = chosen_pair(options), chosen_config(options)
    request = RaceRequest(pair, prompt, config, task, options.device, options.dtype, servers)
    warn_of_template(request.pair, options, (prompt,), progress)
    measured, asked = measure(request, options.repeat, progress), None
    if request.servers:
        asked = ask_servers(request, options.repeat, progress)
        measured = _with_servers(measured, asked)
    lost = [each for name in files for each in _unsaved(measured.trace, name)]
    return _result(measured, asked, request) | {UNWRITTEN: lost}


def _unsaved(trace: Trace, name: str) -> list[str]:
    return unwritten("trace file", name, partial(trace_file.save, trace, name))


def _servers(options: Namespace) -> tuple[RacedServer, ...]:
    """Return the servers that the flags name, with the key in SPECVIZ_ENGINE_KEY."""
    key = Environment.read().engine_key
    named = ((SERVER, options.server), (PLAIN_SERVER, options.plain_server))
    return tuple(RacedServer(lane, EngineAddress.of(url, key)) for lane, url in named if url)


def _with_servers(measured: Measurement, asked: AskedServers) -> Measurement:
    """Put the answer of each server into its lane of the race's trace."""
    trace, answers = measured.trace, asked.shown
    lanes = (answers.lane(x.name) if x.kind is LaneKind.ENGINE else x for x in trace.lanes)
    texts = dict(answers.token_texts) | dict(trace.token_texts)
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
    lost: list[str] = []
    if files:
        for row, trace, name in zip(report["rows"], measured.traces, files, strict=True):
            lost += _unsaved(trace, name)
            row["trace"] = name
    return report | {UNWRITTEN: lost}


def _trace_files(options: Namespace) -> list[str]:
    """Return the names of the trace files: none, one, or one per row of a batch.

    Raises InputError for a bad batch size.
    """
    size = options.batch_size
    if size is not None:
        BATCH["batch_size"].check(size)
    if options.trace is None:
        return []
    return [options.trace] if size is None else [_row_file(options.trace, i) for i in range(size)]


def _row_file(name: str, row: int) -> str:
    """Return the name of the trace file for one prompt of a batch.

    >>> _row_file("runs/race.json.gz", 2)
    'runs/race-row2.json.gz'
    """
    path = Path(name)
    stem, dot, ending = path.name.partition(".")
    return str(path.with_name(f"{stem}-row{row}{dot}{ending}"))


def _result(
    measured: Measurement, asked: AskedServers | None, request: RaceRequest
) -> dict[str, Any]:
    numbers, trace = asdict(measured.typical), measured.trace
    low, high = measured.spread
    return {
        "baseline": {**numbers["baseline"], "text": measured.baseline_text},
        "speculative": {**numbers["speculative"], "text": measured.text},
        "drafter_bytes": trace.main.drafter_bytes,
        "drafter_cache_bytes": trace.main.drafter_cache_bytes,
        "speedup": measured.speedup,
        "speedup_spread": [low, high],
        "speedup_is": measured.repeats.name,
        "speedup_limit": numbers["speedup_limit"],
        "is_disturbed": numbers["is_disturbed"],
        "remark": measured.repeats.remark,
        "copy": rounded_copy_words(trace.config, numbers["cost_ratio"]),
        "speedup_tokens": numbers["speedup_tokens"],
        "theory_speedup": numbers["theory_speedup"],
        "theory_band": numbers["theory_band"],
        "predicted_speedup": measured.predicted_speedup,
        "lossless": rule_named(request.config.rule).is_lossless,
        "identical": numbers["identical"],
        "finish": trace.main.finish.value if trace.main.finish else None,
        "first_divergence": numbers["first_divergence"],
        "device": trace.device,
        "dtype": trace.dtype,
        "processor": trace.processor,
        "made_by": trace.made_by,
        "pair": request.pair.name,
        "method": trace.config.method,
        **_servers_result(asked, trace),
        "reading": None if trace.reading is None else asdict(trace.reading),
        "setting": _setting(request, len(measured.repeats.counted)),
    }


def _servers_result(asked: AskedServers | None, trace: Trace) -> dict[str, Any]:
    """Return the results of the servers that raced, and the speedup of the server with drafts."""
    servers = [_server(x, trace, asked) for x in trace.lanes if x.kind is LaneKind.ENGINE]
    summary = asked.summary if asked else None
    speedups = asked.speedups if asked else ()
    return {
        "servers": servers,
        "server_speedup": summary.server_speedup if summary else None,
        "server_speedup_spread": [min(speedups), max(speedups)] if speedups else None,
        "server_speedup_is": asked.repeats.name if asked and speedups else None,
        "server_speedup_tokens": summary.server_speedup_tokens if summary else 0,
        "server_remark": asked.repeats.remark if asked else "",
    }


def _server(lane: Lane, trace: Trace, asked: AskedServers | None) -> dict[str, Any]:
    """Return the result of a server's lane.

    `same_text` says whether its text equals the baseline's. It is None above temperature 0, where
    texts differ by chance.
    """
    ids, seconds = lane.emitted_ids, lane.seconds
    plain = trace.baseline if ids and trace.config.temperature == 0 else None
    report, rates = lane.engine or EngineReport(), asked.rates(lane.name) if asked else ()
    return {
        "lane": lane.name,
        **asdict(report),
        "tokens": len(ids),
        "target_forwards": forwards_of(lane),
        "draft_utilization": ratio(report.accepted or 0, report.drafted or 0),
        "block_efficiency": tokens_per_forward(lane),
        "seconds": seconds,
        "tokens_per_second": len(ids) / seconds if ids else None,
        "tokens_per_second_spread": [min(rates), max(rates)] if rates else None,
        "ttft_seconds": lane.arrivals[0].seconds if ids else None,
        "same_text": None if plain is None else ids == plain.emitted_ids,
    }


def _setting(request: RaceRequest, repeats: int) -> dict[str, Any]:
    """Return every setting that is needed to repeat the race."""
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
    """Return a table of the lanes, the emitted text and the verdict.

    For a batch, return a table of the lanes and one of the rows.
    """
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
        **acceptance_columns(numbers),
        "explained speedup": result["theory_speedup"],
        "from the other repeats' costs": result["predicted_speedup"],
        "over tokens": result["speedup_tokens"],
        "speedup": result["speedup"],
        "spread": result["speedup_spread"],
    }
    head = f"{result['method']} on {result['pair']}, {result['device']}, {result['dtype']}"
    text = result["speculative"]["text"].strip("\n")
    parts = [head, text, table(lanes), table([facts]), _repeats_line(result), *_reading(result)]
    parts += [*_grammar(result), _memory(result), _verdict(result)]
    if result["server_speedup"] is not None:
        low, high = result["server_speedup_spread"]
        over = f"over {result['server_speedup_tokens']} tokens, {result['server_speedup_is']}"
        parts.append(
            f"server with drafts / without: {result['server_speedup']:.2f}x "
            f"({low:.2f} to {high:.2f}), {over}"
        )
        parts += [result["server_remark"]] if result["server_remark"] else []
    return "\n\n".join([*parts, *map(_server_line, result["servers"])])


def _grammar(result: dict[str, Any]) -> list[str]:
    """Return how many tokens were free because the grammar forced them, and whether it ended.

    >>> _grammar({"setting": {"grammar": "a+", "max_new_tokens": 9}, "finish": "length",
    ...     "speculative": {"forced_tokens": 3, "tokens": 9}})
    ['free tokens, which the grammar forced: 3 of 9', 'the text is incomplete: the limit of 9 \
tokens came before the end of the grammar']
    """
    setting, numbers = result["setting"], result["speculative"]
    if not setting["grammar"]:
        return []
    free = f"{numbers['forced_tokens']} of {numbers['tokens']}"
    lines = [f"free tokens, which the grammar forced: {free}"]
    if result["finish"] == FinishReason.LENGTH.value:
        limit = f"the limit of {setting['max_new_tokens']} tokens"
        lines.append(f"the text is incomplete: {limit} came before the end of the grammar")
    return lines


def _repeats_line(result: dict[str, Any]) -> str:
    """Return a line that says from which repeat the speedup comes, and which were disturbed."""
    sentences = (
        f"The speedup is {result['speedup_is']}.",
        result["remark"],
        result.get("copy", ""),
    )
    return " ".join(filter(None, sentences))


def _server_line(server: dict[str, Any]) -> str:
    """Return which engine answered in a server's lane, and what it reports about its drafts.

    >>> _server_line({"lane": "server", "engine": "vLLM", "version": "0.32", "model": "m",
    ...     "drafted": 9, "accepted": 4, "tokens": 8, "block_efficiency": 2.0, "same_text": None,
    ...     "remark": ""})
    'server: vLLM 0.32, model m; draft utilization 0.44 (4 of 9), tokens per forward 2.00'
    """
    parts = []
    if server["engine"]:
        engine = f"{server['engine']} {server['version']}".strip()
        parts.append(f"{engine}, model {server['model']}")
    if server["tokens"]:
        drafted, accepted = server["drafted"], server["accepted"]
        parts.append("its drafts are unknown" if drafted is None else "nothing drafted")
        if drafted:
            share = f"draft utilization {accepted / drafted:.2f} ({accepted} of {drafted})"
            tau = server["block_efficiency"]
            parts[-1] = share if tau is None else f"{share}, tokens per forward {tau:.2f}"
    if server["same_text"] is not None:
        parts.append("the text of the baseline" if server["same_text"] else "another text")
    return f"{server['lane']}: {'; '.join([*parts, server['remark']]).removesuffix('; ')}"


def _reading(result: dict[str, Any]) -> list[str]:
    """Return the share of the memory bandwidth that the baseline reached, if both are known.

    >>> _reading({"reading": {"bytes_per_second": 30e9, "step_bytes": 540_000_000},
    ...     "baseline": {"reading_share": 0.8}})
    ["the baseline reads its 540 MB of weights at 24.0 GB/s: 80 % of the memory's 30.0 GB/s"]
    """
    reading, share = result["reading"], result["baseline"]["reading_share"]
    if reading is None or share is None:
        return []
    megabytes, limit = reading["step_bytes"] / 1e6, reading["bytes_per_second"] / 1e9
    reads = f"the baseline reads its {megabytes:.0f} MB of weights at {share * limit:.1f} GB/s"
    cached = " (from the cache, or other work slowed that measurement)" if share > 1 else ""
    return [f"{reads}: {100 * share:.0f} % of the memory's {limit:.1f} GB/s{cached}"]


def _memory(result: dict[str, Any]) -> str:
    """Return the memory that the method needs in addition to the target's.

    >>> _memory({"drafter_bytes": 6_700_000, "drafter_cache_bytes": 1_200_000})
    'in addition to the target: 6.7 MB of weights, 1.2 MB of cache'
    """
    weights, cache = result["drafter_bytes"], result["drafter_cache_bytes"]
    more = "cache not seen (another process)" if cache is None else f"{cache / 1e6:.1f} MB of cache"
    return f"in addition to the target: {weights / 1e6:.1f} MB of weights, {more}"


def _batch_text(result: dict[str, Any]) -> str:
    """Return tables of a batch's result: the totals of both lanes, then one line per row."""
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
        **acceptance_columns(result["speculative"]),
        "speedup": result["speedup"],
        "speedup_spread": result["speedup_spread"],
        "identical": "-" if result["identical"] is None else str(result["identical"]),
    }
    names = ("row", "seed", "prompt_tokens", "tokens", "target_forwards")
    rows = [
        {name: row[name] for name in names} | acceptance_columns(row) | {"finish": row["finish"]}
        for row in result["rows"]
    ]
    head = f"{result['method']} on {result['pair']}, {result['batch_size']} rows"
    place = f"{head}, {result['device']}, {result['dtype']}"
    return "\n\n".join([place, table(lanes), table([facts]), _repeats_line(result), table(rows)])


def _verdict(result: dict[str, Any]) -> str:
    divergence = result["first_divergence"]
    if not result["lossless"]:
        return "lossy: the chosen verification rule does not keep the target's distribution"
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


COMMAND = Command(
    race,
    race_text,
    _add_flags,
    missing_files,
    example="--pair bundled --task code --method draft-tree --branching 3,2",
)
