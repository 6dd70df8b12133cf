"""Every experiment for a class can be raced unchanged, and asks before it shows the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import pytest

from specviz.experiments.run.racing import start_race
from specviz.metrics import summarise
from specviz.metrics.run_summary import SpeculativeSummary
from specviz.models.pair_catalog import CHAT, Pair, default_pair, pair_named
from specviz.prompts import held_out_prompt
from specviz.records import BASELINE, SETTINGS, SPECULATIVE
from specviz.ui.class_presets import COMPARED, PRESETS, ClassPreset, ClassRun, Measure
from specviz.ui.settings_form import race_request

RUNS = [(preset, run) for preset in PRESETS for run in preset.runs]
NAMES = {setting.key: setting.name for setting in SETTINGS.values() if setting.key}
OPTION = "option-"
ENOUGH = 48  # smallest number of tokens with which a run can compare speeds


def as_form(run: ClassRun, usual: Pair | None = None) -> dict[str, Any]:
    """Return the form that the page sends for a run of an experiment.

    `usual` is the model pair that the page selects at its start.
    """
    named = {NAMES[key]: text for key, text in run.query.items() if key in NAMES}
    options = {key: text for key, text in run.query.items() if key.startswith(OPTION)}
    assert run.query.keys() == {*options, *(k for k in run.query if k in NAMES)}
    pair = pair_named(named.setdefault("pair", (usual or default_pair()).name))
    form: dict[str, Any] = named | {"prompt": held_out_prompt(named["task"], 1, pair.instruct)}
    if options:
        form["options"] = {key.removeprefix(OPTION): text for key, text in options.items()}
    return form


@pytest.mark.parametrize(("preset", "run"), RUNS, ids=[f"{p.name}-{r.label}" for p, r in RUNS])
def test_the_server_accepts_every_run_of_an_experiment(preset: ClassPreset, run: ClassRun) -> None:
    request = race_request(as_form(run))
    assert request.config.method == run.query["method"]


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_an_experiment_asks_a_question_and_its_runs_differ_in_few_settings(
    preset: ClassPreset,
) -> None:
    assert preset.question.endswith("?")
    first, *others = (run.query for run in preset.runs)
    for other in others:
        different = {k for k in {*first, *other} if first.get(k) != other.get(k)}
        assert 1 <= len(different) <= 2


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_an_answer_uses_only_numbers_of_its_own_runs(preset: ClassPreset) -> None:
    finding = preset.finding
    assert finding.measure in COMPARED and len(finding.leads) == len(preset.runs)
    for sentence in (*finding.leads, finding.close, preset.lesson):
        named = re.findall(r"\{(.*?)\.(.*?)\}", sentence)
        assert len(named) == sentence.count("{") == sentence.count("}")
        assert all(Measure(name) and int(at) < len(preset.runs) for name, at in named)
    for sentence in (*finding.leads, finding.close):
        assert f"{{{finding.measure}." in sentence, "whoever is told who leads sees the numbers"


def test_tree_and_chain_have_as_many_guesses_as_the_answer_says() -> None:
    preset = next(preset for preset in PRESETS if preset.name == "tree")
    chain, tree = (run.query for run in preset.runs)
    levels = accumulate((int(each) for each in tree["branching"].split(",")), mul)
    said = re.search(r"chain with (\d+) guesses in a round and the tree with (\d+)", preset.lesson)
    assert said and [int(each) for each in said.groups()] == [int(chain["k"]), sum(levels)]


# Name of an experiment -> a check that its runs, in their order, show what the experiment is about.
ANSWERS: dict[str, Callable[..., bool]] = {
    "bad-draft": lambda good, bad: rate(bad) < 0.5 < rate(good),
    "temperature": lambda cold, hot: rate(cold) > rate(hot),
    "draft-length": lambda one, twelve, four: (
        used(one) > used(four) > used(twelve)
        and tokens(one) < tokens(four) <= tokens(twelve) < 5
        and used(twelve) < 0.5
    ),
    "summary": lambda summary, story: tokens(summary) > 2 > 1.5 > tokens(story),
    "tree": lambda chain, tree: tokens(tree) > tokens(chain),
    "copy": lambda lookup, suffix: used(suffix) > used(lookup),
    "loop": lambda cold, hot: rate(cold) > 0.8 > rate(hot) and tokens(cold) > 2 * tokens(hot),
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_runs_show_what_the_question_asks_on_texts_of_equal_length(
    preset: ClassPreset,
) -> None:
    chat = pair_named(CHAT)
    if preset.name in ("summary", "copy") and not chat.is_here:
        pytest.skip("the chat model, which can sum up, is not on this machine")
    texts, numbers = [], []
    for run in preset.runs:
        race = start_race(race_request(as_form(run, chat)))
        for lane in (BASELINE, SPECULATIVE):
            for _ in race.run_lane(lane):
                pass
        race.close()
        summary = summarise(race.trace())
        assert summary.baseline.tokens == summary.speculative.tokens >= ENOUGH
        numbers.append(summary.speculative)
        texts.append(race.text(SPECULATIVE))
    assert ANSWERS[preset.name](*numbers)
    if preset.name in ("bad-draft", "tree", "copy"):
        assert texts[0] == texts[1]


def rate(run: SpeculativeSummary) -> float:
    return run.acceptance_rate or 0.0


def used(run: SpeculativeSummary) -> float:
    return run.draft_utilization or 0.0


def tokens(run: SpeculativeSummary) -> float:
    return run.block_efficiency or 0.0


def test_names_are_unique() -> None:
    assert len({preset.name for preset in PRESETS}) == len(PRESETS)
