"""Every experiment for a class can be raced as it stands, and asks before it tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specviz.experiments.run.racing import start_race
from specviz.metrics import summarise
from specviz.metrics.run_summary import SpeculativeSummary
from specviz.models.pair_catalog import default_pair, pair_named
from specviz.prompts import held_out_prompt
from specviz.records import SETTINGS, SPECULATIVE
from specviz.ui.class_presets import PRESETS, ClassPreset, ClassRun
from specviz.ui.settings_form import race_request

RUNS = [(preset, run) for preset in PRESETS for run in preset.runs]
NAMES = {setting.key: setting.name for setting in SETTINGS.values() if setting.key}
OPTION = "option-"


def as_form(run: ClassRun) -> dict[str, Any]:
    """As the page's form would send it."""
    named = {NAMES[key]: text for key, text in run.query.items() if key in NAMES}
    options = {key: text for key, text in run.query.items() if key.startswith(OPTION)}
    assert run.query.keys() == {*options, *(k for k in run.query if k in NAMES)}
    pair = pair_named(named.setdefault("pair", default_pair().name))
    form: dict[str, Any] = named | {"prompt": held_out_prompt(named["task"], 1, pair.instruct)}
    if options:
        form["options"] = {key.removeprefix(OPTION): text for key, text in options.items()}
    return form


@pytest.mark.parametrize(("preset", "run"), RUNS, ids=[f"{p.name}-{r.label}" for p, r in RUNS])
def test_a_run_is_a_race_that_the_server_takes(preset: ClassPreset, run: ClassRun) -> None:
    request = race_request(as_form(run))
    assert request.config.method == run.query["method"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_asks_and_its_runs_differ_in_few_settings(preset: ClassPreset) -> None:
    assert preset.question.endswith("?")
    first, *others = (run.query for run in preset.runs)
    for other in others:
        different = {k for k in {*first, *other} if first.get(k) != other.get(k)}
        assert 1 <= len(different) <= 2


# What the answer says of the numbers of the runs.
ANSWERS: dict[str, Callable[..., bool]] = {
    "bad-draft": lambda good, bad: rate(bad) < 0.5 < rate(good),
    "temperature": lambda cold, hot: rate(cold) != rate(hot),
    "draft-length": lambda one, twelve, four: (
        used(one) > used(four) > used(twelve)
        and tokens(one) < tokens(four) <= tokens(twelve) < 5
        and used(twelve) < 0.5
    ),
    "summary": lambda summary, story: rate(summary) > rate(story) and tokens(summary) > 1.2,
    "tree": lambda chain, tree: tokens(tree) > tokens(chain),
    "loop": lambda cold, hot: rate(cold) > 0.8 > rate(hot) and tokens(cold) > 2 * tokens(hot),
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_numbers_of_the_runs_are_as_the_answer_says(preset: ClassPreset) -> None:
    texts, numbers = [], []
    for run in preset.runs:
        form = as_form(run) | {"pair": "bundled"}
        form["prompt"] = held_out_prompt(form["task"], 1)
        race = start_race(race_request(form))
        for _ in race.run_lane(SPECULATIVE):
            pass
        race.close()
        numbers.append(summarise(race.trace()).speculative)
        texts.append(race.text(SPECULATIVE))
    assert ANSWERS[preset.name](*numbers)
    if preset.name in ("bad-draft", "tree"):
        assert texts[0] == texts[1]


def rate(run: SpeculativeSummary) -> float:
    return run.acceptance_rate or 0.0


def used(run: SpeculativeSummary) -> float:
    return run.draft_utilization or 0.0


def tokens(run: SpeculativeSummary) -> float:
    return run.block_efficiency or 0.0


def test_names_are_unique() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
