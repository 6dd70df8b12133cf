"""The command `size`: it computes whether speculation pays on a planned deployment."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from specviz import metrics, trace_file
from specviz.commands.command import Command, Progress
from specviz.commands.console import facts, table
from specviz.errors import InputError, short
from specviz.sizing.file_acceptance import FEWEST, read_sweep_acceptance, survival_of_depths
from specviz.sizing.forward_time import GPUS
from specviz.sizing.measured_times import MeasuredPlan, MeasuredTimes, read_measured
from specviz.sizing.published import trust
from specviz.sizing.serving_plan import FIELDS, PRINTED, Field, read_plan
from specviz.sizing.shape import MODELS, ModelShape
from specviz.sizing.simulated_load import by_load
from specviz.sizing.sized_plan import SizedPlan
from specviz.sizing.sizing_answer import size
from specviz.sizing.sizing_words import apart

_MODELS = ("target", "draft")
_POLICIES = {"plain": "plain", "speculative": "speculation", "switched": "while it pays"}
# The smallest similarity (0 to 1) to a preset with which a name counts as a misspelt preset.
_ALIKE = 0.8
_OWN = "a preset of --list, the path of a config.json or of its folder, or a repository of the Hub"


def _add_flags(parser: ArgumentParser) -> None:
    parser.description = (
        "Compute whether speculative decoding pays for two models on some GPUs, up to how many\n"
        "requests at once, and how much memory and money it needs. The result follows from the\n"
        "shapes of the models and the data sheets of the GPUs; no model runs. --trust compares it\n"
        "with published measurements."
    )
    plan = parser.add_argument_group("the plan")
    for field in FIELDS.values():
        meaning = field.meaning
        if field.name in _MODELS:
            meaning += f"; a model is {_OWN}"
        elif field.name == "gpu":
            meaning += "; --list shows them"
        elif field.choices:
            meaning += f": {', '.join(field.choices)}"
        plan.add_argument(
            f"--{_flag(field.name)}",
            dest=field.name,
            metavar="NAME" if field.choices else "N" if field.is_whole else "X",
            help=f"{meaning} (default {_default(field)})".replace("%", "%%"),
        )
    parser.add_argument(
        "--from-trace",
        metavar="FILE",
        help="read the acceptance rate from the trace file of a run (default none)",
    )
    parser.add_argument(
        "--from-sweep",
        metavar="FILE",
        help="read the acceptance rate from a file of `sweep --output`, for a sweep of one pair "
        "and one method (default none)",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="also simulate requests that arrive at random, at several loads",
    )
    parser.add_argument(
        "--measured",
        metavar="FILE",
        help="simulate with the measured times in this file, which `load --json`, `bench "
        "--batch-size … --json` or `sweep --axis batch-size=… --output` has written (default none)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the random arrivals (default %(default)s)",
    )
    parser.add_argument(
        "--trust", action="store_true", help="compare the formulas with published measurements"
    )
    parser.add_argument("--list", action="store_true", help="list the preset models and GPUs")


# A field of a plan -> its flag, if the flag has another name. Other commands already use the
# field's own name for something else.
_FLAGS = {"batch": "concurrency", "prompt": "prompt-tokens", "output": "output-tokens"}


def _flag(name: str) -> str:
    return _FLAGS.get(name, name.replace("_", "-"))


def _default(field: Field) -> str:
    return "none" if field.default is None else str(field.default)


def sized(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Return a dict with the keys "size", "load" and "measured".

    "size" has the answer to the plan, "load" the simulated load (or None), and "measured" sentences
    about the source of measured times (or None). With `--trust`, the only key is "trust", for the
    comparison with published measurements. With `--list` it is "presets".
    """
    if options.trust:
        return {"trust": trust()}
    if options.list:
        return {"presets": _presets()}
    try:
        return _sized(options)
    # An error begins with the name of a plan's field. The user knows only the flag's name.
    except InputError as error:
        field, space, rule = str(error).partition(" ")
        raise InputError(f"{_FLAGS.get(field, field)}{space}{rule}") from None


def _sized(options: Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    acceptance, source, survival = _measured_acceptance(options)
    if acceptance is not None:
        twice = next((name for name in ("acceptance", *PRINTED) if name in given), None)
        if twice is not None:
            raise InputError(
                f"{twice} must not be given together with a file that contains it, "
                f"got {given[twice]!r}"
            )
        given["acceptance"] = acceptance
    times = None if options.measured is None else _measured_times(options.measured)
    target, draft = (_own_shape(given, name) for name in _MODELS)
    plan = read_plan(given, target, draft, source, survival)
    found = SizedPlan(plan) if times is None else MeasuredPlan(plan, times)
    is_simulated = options.simulate or times is not None
    return {
        "size": size(plan),
        "load": by_load(found, options.seed) if is_simulated else None,
        "measured": None if times is None else times.sentences(plan),
    }


def _measured_times(name: str) -> MeasuredTimes:
    return read_measured(_text("measured", name), name)


def _text(parameter: str, name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{parameter} must be a readable file, got {name!r}: {error}") from None


def _measured_acceptance(options: Namespace) -> tuple[float | None, str, tuple[float, ...]]:
    """Return a measured acceptance rate, a text on its source, and the chance to pass each depth.

    The rate comes from a saved run or from a sweep. It is None if the user named no file.
    """
    if options.from_trace is not None:
        totals = metrics.RoundTotals(trace_file.load(options.from_trace).rounds)
        rate, examined = totals.acceptance_rate, totals.levels_reached
        if rate is None:
            raise InputError(
                "from-trace must be the file of a run that drafted tokens, got "
                f"{options.from_trace!r}"
            )
        few = "" if examined >= FEWEST else " (few: another text may have a very different rate)"
        depths = ((each.reached, each.passed) for each in totals.acceptance_by_depth)
        source = f"{rate:.2f}, from {examined:,} examined guesses of a saved run{few}"
        return rate, source, survival_of_depths(depths)
    if options.from_sweep is None:
        return None, "", ()
    found = read_sweep_acceptance(_text("from-sweep", options.from_sweep), options.from_sweep)
    return found.rate, found.words, found.survival


def _own_shape(given: dict[str, Any], name: str) -> ModelShape | None:
    """Return the shape of a model that is no preset, and remove that model's name from `given`."""
    source = given.get(name)
    if source is None or source in FIELDS[name].choices:
        return None
    nearest = get_close_matches(source, MODELS, 1, _ALIKE)
    if nearest and "/" not in source and not Path(source).exists():
        raise InputError(f"{name} must be {_OWN}, got {short(source)}; did you mean {nearest[0]}?")
    del given[name]
    # This import also loads the client of the Hub, so do it only for a model that is no preset.
    from specviz.shape_source import shape_of_source

    return shape_of_source(source)


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
    """Return the answer with its reasons, then tables of times, memory, batch sizes and costs."""
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
        return f"{length}, not faster"
    return length if gain > 1 else f"{length}, slower"


def _numbers(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "target": found["target"],
        "draft": found["draft"],
        "acceptance rate (accepted / examined)": found["acceptance"],
        "draft utilization (accepted / drafted)": found["draft_utilization"],
        "draft length K": found["draft_length"],
        "best K here": found["best_length"],
        "tokens per forward": found["tokens_per_round"],
        "c, draft forward / target forward": found["cost_ratio"],
        "v, extra time of a forward that checks K guesses": found["verification_overhead"],
        "speedup without prompts": found["speedup"],
        "acceptance rate above which this K is faster": found["break_even_acceptance"],
        "largest number of requests that fit into memory": found["largest_batch"],
    }


def _ways(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers of both ways to decode, with enough decimals to show the difference."""
    plain, fast = (_way(found, name) for name in ("plain", "speculative"))
    for name, value in plain.items():
        if isinstance(value, float) and isinstance(fast[name], float):
            plain[name], fast[name] = apart(value, fast[name], 1 if value >= 100 else 2)
    return [plain, fast]


def _way(found: dict[str, Any], name: str) -> dict[str, Any]:
    way, currency, unit = found[name], found["currency"], found["unit"]
    numbers = {
        "decoding": name,
        "request (s)": way["request"],
        "first token (ms)": 1000 * way["first_token"],
        "further token (ms)": 1000 * way["loaded_token"],
        "tokens/s": way["tokens_per_second"],
        "best batch within both limits": way["batch_within_limits"],
        "highest load (requests/s)": way["carried_requests"],
        f"{unit}s for the planned load": way["cards_for_load"],
        f"{unit}-hours per million tokens at the highest load": way["card_hours_per_million"],
    }
    if way["money_per_million"] is not None:
        numbers[f"{currency} per million tokens at the highest load"] = way["money_per_million"]
    if way["job_seconds"] is not None:
        numbers["batch job (h)"] = way["job_seconds"] / 3600
        numbers["requests at once in the batch job"] = way["job_batch"]
    if way["job_money"] is not None:
        numbers[f"batch job ({currency})"] = way["job_money"]
    return numbers


def _card(each: dict[str, Any], unit: str) -> dict[str, Any]:
    parts = ("target", "draft", "target_cache", "draft_cache", "activations", "headroom", "limit")
    return {f"{unit}s": each["cards"]} | {
        f"{name.replace('_', ' ')} (GB)": each[name] / 1e9 for name in parts
    }


def load_text(results: list[dict[str, Any]]) -> str:
    """Return a table of the simulation, with one line per load and way of decoding."""
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
        "Random arrivals, simulated. If the deployment does not keep up, the queue and the time to "
        f"the first token grow without end:\n{table(rows)}"
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


COMMAND = Command(
    sized,
    size_text,
    _add_flags,
    example="--target llama-3-1-70b --draft llama-3-2-1b --gpu h100-sxm --gpus 4 --acceptance 0.7",
)
