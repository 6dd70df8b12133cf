"""`size`: whether speculation pays on a deployment that somebody plans, and what it takes."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from specviz import metrics, trace_file
from specviz.commands.command import Command, Progress
from specviz.commands.console import facts, table
from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.sizing.file_acceptance import FEWEST, read_sweep_acceptance
from specviz.sizing.forward_time import GPUS
from specviz.sizing.measured_times import MeasuredPlan, MeasuredTimes, read_measured
from specviz.sizing.published import trust
from specviz.sizing.serving_plan import FIELDS, Field, read_plan
from specviz.sizing.shape import MODELS, ModelShape, shape_of_config
from specviz.sizing.simulated_load import by_load
from specviz.sizing.sized_plan import SizedPlan
from specviz.sizing.sizing_answer import size
from specviz.sizing.sizing_words import apart

_MODELS = ("target", "draft")
_POLICIES = {"plain": "plain", "speculative": "speculation", "switched": "while it pays"}
_ALIKE = 0.8  # a name that looks so much like a preset's is taken for a slip
_OWN = "a preset of --list, a folder or file with a config.json, or a repository of the Hub"


def _add_flags(parser: ArgumentParser) -> None:
    parser.description = (
        "Whether speculative decoding pays for two models on some GPUs, up to how many requests at "
        "once, and what memory and money it takes. Computed from the models' shapes and the cards' "
        "data sheets; nothing is run. --trust shows how far published measurements are from it."
    )
    plan = parser.add_argument_group("what is planned")
    for field in FIELDS.values():
        meaning = field.meaning
        if field.name in _MODELS:
            meaning += f": {_OWN}"
        elif field.choices and field.name != "gpu":
            meaning += f": {', '.join(field.choices)}"
        flag = f"--{field.name.replace('_', '-')}"
        plan.add_argument(
            flag, help=f"{meaning} (default {_default(field)})".replace("%", "%%"), metavar="X"
        )
    parser.add_argument("--trace", metavar="FILE", help="take the acceptance rate of a saved run")
    parser.add_argument(
        "--sweep",
        metavar="FILE",
        help="take the acceptance rate of a sweep's file, of one pair and method",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="requests that arrive by chance, at several loads"
    )
    parser.add_argument(
        "--measured",
        metavar="FILE",
        help="simulate so with measured times of rounds and steps, of a file by load --json, "
        "bench --batch-size … --json or sweep --axis batch-size=…; the answer is computed still",
    )
    parser.add_argument("--seed", type=int, default=0, help="of that chance (default 0)")
    parser.add_argument(
        "--trust", action="store_true", help="published measurements beside what is computed"
    )
    parser.add_argument("--list", action="store_true", help="the preset models and GPUs")


def _default(field: Field) -> str:
    return "none" if field.default is None else str(field.default)


def sized(options: Namespace, progress: Progress) -> dict[str, Any]:
    """One of {"trust"}, {"presets"}, or {"size"} with "load" and "measured" beside it."""
    if options.trust:
        return {"trust": trust()}
    if options.list:
        return {"presets": _presets()}
    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    acceptance, source = _measured_acceptance(options)
    if acceptance is not None:
        if "acceptance" in given:
            raise InputError(
                f"acceptance must be given once, got {given['acceptance']!r} beside a file"
            )
        given["acceptance"] = acceptance
    times = None if options.measured is None else _measured_times(options.measured)
    target, draft = (_own_shape(given, name) for name in _MODELS)
    plan = read_plan(given, target, draft, source)
    found = SizedPlan(plan) if times is None else MeasuredPlan(plan, times)
    is_simulated = options.simulate or times is not None
    return {
        "size": size(plan),
        "load": by_load(found, options.seed) if is_simulated else None,
        "measured": None if times is None else times.told(plan),
    }


def _measured_times(name: str) -> MeasuredTimes:
    return read_measured(_text("measured", name), name)


def _text(parameter: str, name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{parameter} must be a readable file, got {name!r}: {error}") from None


def _measured_acceptance(options: Namespace) -> tuple[float | None, str]:
    """Of a run's or a sweep's file, and what it rests on; None where neither is given."""
    if options.trace is not None:
        totals = metrics.RoundTotals(trace_file.load(options.trace).rounds)
        rate, examined = totals.acceptance_rate, totals.levels_reached
        if rate is None:
            raise InputError(f"trace must be of a run that drafted, got {options.trace!r}")
        few = "" if examined >= FEWEST else ", which are few: another text may differ much"
        return rate, f"{rate:.2f} of a saved run, of {examined:,} examined guesses{few}"
    if options.sweep is None:
        return None, ""
    found = read_sweep_acceptance(_text("sweep", options.sweep), options.sweep)
    return found.rate, found.words


def _own_shape(given: dict[str, Any], name: str) -> ModelShape | None:
    """Of a model that is no preset; its field is left to the default."""
    source = given.get(name)
    if source is None or source in FIELDS[name].choices:
        return None
    nearest = get_close_matches(source, MODELS, 1, _ALIKE)
    if nearest and "/" not in source and not Path(source).exists():
        raise InputError(f"{name} must be {_OWN}, got {short(source)}: perhaps {nearest[0]}")
    del given[name]
    return shape_of_source(source)


def shape_of_source(source: str) -> ModelShape:
    """Of a file, a folder or a repository of the Hub, of which only the configuration is read."""
    from specviz.models.files.config_bounds import read_config_file
    from specviz.models.files.hub import (  # it brings the Hub's client
        fetch_configuration,
        is_on_the_hub,
    )

    path = Path(os.path.expanduser(source))
    if not path.is_file():
        is_named = is_on_the_hub(source)
        path = fetch_configuration(source, Environment.read()) if is_named else path / "config.json"
    return shape_of_config(read_config_file(source, path), source)


def _presets() -> dict[str, Any]:
    models = [
        {
            "name": name,
            "model": shape.title,
            "parameters (billions)": shape.parameters / 1e9,
            "used by a token": shape.active_parameters / 1e9,
            "cache of a token (kB)": 2 * shape.cache_values_per_token / 1000,
        }
        for name, shape in MODELS.items()
    ]
    gpus = [
        {
            "name": name,
            "GPU": gpu.title,
            "GB": gpu.memory,
            "GB/s": gpu.bandwidth,
            "TFLOP/s": gpu.bf16,
            "source": gpu.source,
        }
        for name, gpu in GPUS.items()
    ]
    return {"models": models, "gpus": gpus}


def size_text(result: dict[str, Any]) -> str:
    """The answer with its reasons first; then times, memory, batches and money as tables."""
    if "trust" in result:
        return _trust_text(result["trust"])
    if "presets" in result:
        return "\n\n".join(map(table, result["presets"].values()))
    found = result["size"]
    parts = ["\n".join([found["answer"], *(f"- {each}" for each in found["reasons"])])]
    parts += found["warnings"]
    cards = table([_card(each, found["unit"]) for each in found["memory"]])
    if not found["fits"]:
        simulated = [_load_part(result)] if result["measured"] else []
        return "\n\n".join([*parts, cards, *simulated])
    parts += [
        facts(_numbers(found)),
        table(_ways(found)),
        cards,
        table(
            [
                {
                    "requests at once": each["batch"],
                    "best K": _best_length(each),
                    "speedup of requests": each["request_speedup"],
                    "of tokens": each["speedup"],
                    "fits": _yes(each["fits"]),
                }
                for each in found["by_batch"][::4]
            ]
        ),
    ]
    if result["load"] is not None:
        parts.append(_load_part(result))
    parts.append(trust()["sentence"])
    return "\n\n".join([*parts, *found["assumed"]])


def _load_part(result: dict[str, Any]) -> str:
    return "\n".join([load_text(result["load"]), *(result["measured"] or ())])


def _best_length(each: dict[str, Any]) -> str:
    length, gain = str(each["draft_length"]), each["request_speedup"]
    if abs(gain - 1) < 0.005:
        return f"{length}, no gain"
    return length if gain > 1 else f"{length}, a loss"


def _numbers(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "target": found["target"],
        "draft": found["draft"],
        "acceptance rate": found["acceptance"],
        "draft length K": found["draft_length"],
        "best K here": found["best_length"],
        "tokens a round": found["tokens_per_round"],
        "c, draft forward / target forward": found["cost_ratio"],
        "v, extra time of a forward that checks K guesses": found["verification_overhead"],
        "speedup without prompts": found["speedup"],
        "with that K a token gains from a rate of": found["break_even_acceptance"],
        "most requests that fit": found["largest_batch"],
    }


def _ways(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Plain and speculative, with as many digits as it takes to tell them apart."""
    plain, fast = (_way(found, name) for name in ("plain", "speculative"))
    for name, value in plain.items():
        if isinstance(value, float) and isinstance(fast[name], float):
            plain[name], fast[name] = apart(value, fast[name], 1 if value >= 100 else 2)
    return [plain, fast]


def _way(found: dict[str, Any], name: str) -> dict[str, Any]:
    way, currency, unit = found[name], found["currency"], found["unit"]
    told = {
        "decoding": name,
        "request (s)": way["request"],
        "first token (ms)": 1000 * way["first_token"],
        "further token (ms)": 1000 * way["loaded_token"],
        "tokens/s": way["tokens_per_second"],
        "most at once within both limits": way["batch_within_limits"],
        "requests/s carried": way["carried_requests"],
        f"{unit}s for the load": way["cards_for_load"],
        f"{unit}-hours a million tokens, carrying that": way["card_hours_per_million"],
    }
    if way["money_per_million"] is not None:
        told[f"{currency} a million tokens, carrying that"] = way["money_per_million"]
    if way["job_seconds"] is not None:
        told["batch job (h)"] = way["job_seconds"] / 3600
        told["its requests at once"] = way["job_batch"]
    if way["job_money"] is not None:
        told[f"batch job ({currency})"] = way["job_money"]
    return told


def _card(each: dict[str, Any], unit: str) -> dict[str, Any]:
    parts = ("target", "draft", "target_cache", "draft_cache", "activations", "headroom", "limit")
    return {f"{unit}s": each["cards"]} | {
        f"{name.replace('_', ' ')} (GB)": each[name] / 1e9 for name in parts
    }


def load_text(results: list[dict[str, Any]]) -> str:
    """A line for each load and way of decoding."""
    if not results:
        return "No load was simulated: not even one request fits."
    rows = [
        {
            "requests/s": each["load"],
            "decoding": _POLICIES[each["policy"]],
            "first token p50 (ms)": _first(each, "first_token_p50"),
            "p95 (ms)": _first(each, "first_token_p95"),
            "token p50 (ms)": 1000 * each["token_p50"],
            "p95 (ms) ": 1000 * each["token_p95"],
            "running": each["mean_rows"],
            "within limits/s": each["goodput"],
            "keeps up": _yes(each["keeps_up"]),
        }
        for each in results
    ]
    return (
        "Requests that arrive by chance, simulated; where the deployment does not keep up, the "
        f"queue and with it the first token grow without end:\n{table(rows)}"
    )


def _first(each: dict[str, Any], name: str) -> float | None:
    return 1000 * each[name] if each["keeps_up"] else None


def _trust_text(found: dict[str, Any]) -> str:
    groups = [
        {
            "measured": each["group"],
            "figures": each["count"],
            "median error (%)": 100 * each["median_error"],
            "from (%)": 100 * each["lowest_error"],
            "to (%)": 100 * each["highest_error"],
        }
        for each in found["groups"]
    ]
    tables = [
        f"{name}:\n{table([_beside(each) for each in found['runs'] if each['group'] == name])}"
        for name in (each["group"] for each in found["groups"])
    ]
    sources = [
        f"{name}: {each['title']}. {each['note']}. {each['url']}"
        for name, each in found["sources"].items()
    ]
    return "\n\n".join([found["sentence"], table(groups), *tables, "\n".join(sources)])


def _beside(run: dict[str, Any]) -> dict[str, Any]:
    return {
        "setting": run["setting"],
        "published": run["value"],
        "computed": run["computed"],
        "unit": run["unit"],
        "error (%)": 100 * run["error"],
        "source": f"{run['source']} ({run['note']})" if run["note"] else run["source"],
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COMMAND = Command(sized, size_text, _add_flags)
