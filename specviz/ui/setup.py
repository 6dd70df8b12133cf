"""The data that the page needs before a race, as one JSON-ready dict: menus, settings, words.

This module collects the data from the list of methods, the catalog of models and the records, and
decides nothing itself.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from specviz.bias import measured_bias
from specviz.decoding.draft_lengths import POLICIES
from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS, method_named
from specviz.decoding.rules.rule import Rule
from specviz.decoding.rules.rule_table import RULES
from specviz.environment import Environment
from specviz.experiments.run.racing import device_name
from specviz.figures.labels import ENDINGS
from specviz.figures.outcomes import outcome_table
from specviz.figures.theme import PALETTES
from specviz.glossary import places, tooltips
from specviz.golden import OPENING, SAMPLED, SAMPLED_ROUND, golden_names, golden_parts
from specviz.models.files.context import context_of_folder
from specviz.models.files.loading import DEVICES, DTYPES, resolve_device
from specviz.models.pair_catalog import BUNDLED, Pair, default_pair, pair_named, pairs
from specviz.models.parts import Need
from specviz.prompts import CHAT_TASKS, tasks
from specviz.records import (
    MAX_TREE_NODES,
    SETTINGS,
    Drawing,
    RunSetting,
    ValueType,
)
from specviz.serving.engine_permission import permitted_addresses
from specviz.sixty_lines import sixty_lines
from specviz.ui.class_presets import class_presets
from specviz.ui.grammar_examples import EXAMPLES
from specviz.ui.settings_form import CUSTOM, refusals

DRAWING_TITLES = {
    Drawing.INDEPENDENT: "independent draws",
    Drawing.WITHOUT_REPLACEMENT: "without replacement",
    Drawing.CHOSEN: "most probable (top-k)",
}
# A pair of any two models. Nothing is known of them until the user names them.
_CUSTOM = Pair(
    CUSTOM,
    "of your own",
    "any/target",
    "any/draft",
    "A target and, where the method needs one, a smaller draft: folders here, or names on the Hub.",
    foreign_draft="any/draft",
)
_DRAFTLESS = Pair(CUSTOM, "without a draft", "any/target", "")
# Groups in the menu of methods: the heading of a group, and what its methods need. A method belongs
# to the first group that lists one of its needs. All other methods belong to the group _ALONE.
_GROUPS = (
    ("With a second model", frozenset({Need.DRAFT, Need.FOREIGN_DRAFT})),
    ("With heads trained on the target", frozenset({Need.MEDUSA, Need.EAGLE})),
)
_ALONE = "With the target alone"
DTYPE_NOTES = {
    "bfloat16": "Half the bytes to read; near ties between tokens may fall the other way.",
}


def page_setup() -> dict[str, Any]:
    """Return everything that the page needs to know before a race."""
    return {
        "tasks": [{"name": task, "title": task} for task in _tasks()],
        "pairs": [*map(_pair, pairs()), *_custom_pairs()],
        "models_note": _models_note(),
        "methods": [_method(method) for method in DRAFTERS.values()],
        "drawings": [
            {"name": each.value, "title": title} for each, title in DRAWING_TITLES.items()
        ],
        "rules": [_rule(rule) for rule in RULES.values()],
        "most_nodes": MAX_TREE_NODES,
        "length_policies": [
            {"name": each.name, "title": each.title, "summary": each.summary}
            for each in POLICIES.values()
        ],
        "devices": _devices(),
        "dtypes": [
            {"name": name, "title": name, "note": DTYPE_NOTES.get(name, "")} for name in DTYPES
        ],
        "device": _device_title(),
        "settings": settings_table(),
        "palettes": PALETTES,
        "outcomes": outcome_table(),
        "endings": ENDINGS,
        "glossary": tooltips(),
        "places": places(),
        "traces": _with_different_titles([_trace(name) for name in _traces()]),
        "opening": OPENING,
        "sampled": SAMPLED,
        "sampled_round": SAMPLED_ROUND,
        "presets": class_presets(),
        "code": sixty_lines(),
        "servers": _servers(),
        "grammars": [asdict(each) for each in EXAMPLES],
    }


def _servers() -> list[str] | None:
    """Return the addresses of servers that the form proposes for a race.

    The result is None if the server allows no such addresses.
    """
    allowed = permitted_addresses()
    return None if allowed == [] or Environment.read().zero_gpu else allowed or []


def _tasks() -> tuple[str, ...]:
    """Return all tasks; the tasks of the default pair come first."""
    return tuple(dict.fromkeys((*tasks(default_pair().instruct), *CHAT_TASKS)))


def settings_table() -> list[dict[str, Any]]:
    """Return the table of settings for the browser."""
    return [setting_entry(setting) for setting in SETTINGS.values()]


def setting_entry(setting: RunSetting) -> dict[str, Any]:
    """Return one entry of the table of settings; the default is the initial text of the field."""
    return {
        "name": setting.name,
        "title": setting.title,
        "word": setting.word,
        "key": setting.key,
        "type": setting.type.value,
        "part": setting.part.value,
        "default": _default(setting),
        "bounds": setting_bounds(setting),
        "off": setting.off,
        "hint": setting.hint,
        "slider": None if setting.slider is None else asdict(setting.slider),
        "menu": setting.menu,
    }


def _default(setting: RunSetting) -> str:
    """Return a setting's default value as the text of a field.

    The server's default pair decides the default values of the settings `pair`, `method` and
    `drawing`.
    """
    match setting.name:
        case "pair":
            return default_pair().name
        case "method":
            return default_pair().method
        case "drawing":
            return method_named(default_pair().method).drawings[0].value
    if setting.is_bounded:
        return f"{setting.default:.17g}"
    return setting.default if isinstance(setting.default, str) else ""


def setting_bounds(setting: RunSetting) -> dict[str, Any] | None:
    """Return the bounds of a numeric setting, or None for any other setting."""
    if not setting.is_bounded:
        return None
    return number_bounds(setting.low, setting.high, setting.type is ValueType.INTEGER) | {
        "excludes_low": setting.excludes_low,
        "excludes_high": setting.excludes_high,
        "least": setting.least,
    }


def number_bounds(low: float, high: float | None, is_whole: bool = True) -> dict[str, Any]:
    """Return the bounds by which the browser checks a number; `high` can be None (no limit)."""
    return {"low": low, "high": high, "is_whole": is_whole}


def group(method: Method) -> str:
    """Return the heading of the menu under which the method is listed."""
    return next((title for title, needs in _GROUPS if needs & method.needs), _ALONE)


def _traces() -> list[str]:
    """Return the recordings: the opening one, then those of other pairs, then the bundled pair's.

    Each of these groups is in the order of the methods' menu.
    """
    methods = list(DRAFTERS)

    def place(name: str) -> tuple[bool, bool, int]:
        method, _, pair = golden_parts(name)
        return name != OPENING, not pair, methods.index(method)

    return sorted(golden_names(), key=place)


def _trace(name: str) -> dict[str, str]:
    """Return a recording's title (method and task, or rule) and its group (pair)."""
    method, task, pair = golden_parts(name)
    bundled = pair_named(BUNDLED).title.lower()
    model = pair_named(pair).model_name("target").partition(" (")[0] if pair else f"the {bundled}"
    return {
        "name": name,
        "title": f"{method_named(method).title} · {RULES[task].title if task in RULES else task}",
        "group": f"Recorded with {model}",
    }


def _with_different_titles(traces: list[dict[str, str]]) -> list[dict[str, str]]:
    """Add the model's name to each title that several recordings have in common."""
    titles = [trace["title"] for trace in traces]
    alike = {title for title in titles if titles.count(title) > 1}
    return [
        trace | {"title": f"{trace['title']} ({trace['group'].removeprefix('Recorded with ')})"}
        if trace["title"] in alike
        else trace
        for trace in traces
    ]


def _pair(pair: Pair) -> dict[str, Any]:
    """Return the page's data about a pair.

    `refusals` maps methods that it cannot run to reasons, and `draft_lengths` maps each method to
    the draft length to start with.
    """
    return {
        "name": pair.name,
        "title": pair.title,
        "note": pair.note,
        "claim": pair.claim,
        "is_here": pair.is_here,
        "context": context_of_folder(pair.target),
        "prompts": "chat" if pair.instruct else "plain",
        "refusals": refusals(pair),
        "draft_lengths": {name: each.usual_length(pair) for name, each in DRAFTERS.items()},
    }


def _custom_pairs() -> list[dict[str, Any]]:
    """Return a list with the menu's entry for models that are in no pair of the catalog.

    The list is empty if the server does not allow such models. `refusals_alone` of the entry has
    the methods that need a draft, and cannot run as long as the user names only a target.
    """
    environment = Environment.read()
    if environment.is_public and not environment.allowed_models:
        return []
    entry = _pair(_CUSTOM) | {"title": "Other models …", "refusals_alone": refusals(_DRAFTLESS)}
    if environment.is_public:
        entry["note"] = f"Offered here by name: {', '.join(environment.allowed_models)}."
    return [entry]


def _models_note() -> str:
    """Return why the user can choose only the menu's models, or "" if any can be chosen."""
    if not Environment.read().is_public:
        return ""
    return "This server is public and runs the models of this menu; run specviz yourself for more."


def _method(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "title": method.title,
        "summary": method.summary,
        "group": group(method),
        "tree": method.takes_branching,
        "depth_cap": method.depth_cap,
        "drawings": [drawing.value for drawing in method.drawings],
        "rules": [rule.name for rule in method.rules],
        "length_policies": [policy.name for policy in method.length_policies],
        "can_stop": method.can_stop,
        "biases": {rule.name: _bias(method, rule) for rule in method.rules},
        "branching": ",".join(map(str, method.default_branching)),
        "options": [asdict(option) for option in method.options],
    }


def _bias(method: Method, rule: Rule) -> dict[str, Any] | None:
    """Return how far the output of a lossy rule is from the target's distribution.

    The result is None if this distance was not measured.
    """
    found = measured_bias(method.name, rule.name)
    return asdict(found) if found else None


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name,
        "title": rule.title,
        "summary": rule.summary,
        "lossless": rule.is_lossless,
        "drawings": [drawing.value for drawing in Drawing if drawing in rule.drawings],
    }


def _devices() -> list[dict[str, str]]:
    """Return the devices that the user can choose; only `auto` if there is no choice."""
    if resolve_device("auto").type == "cpu":
        return [{"name": "auto", "title": "CPU"}]
    return [{"name": name, "title": name} for name in DEVICES]


def _device_title() -> str:
    """Return the name on the page for the device that the setting `auto` chooses."""
    device = resolve_device("auto")
    return "CPU" if device.type == "cpu" else device_name(device)
