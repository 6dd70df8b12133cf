"""Lesson files are read and checked; a file that breaks a rule is refused in one line."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from specviz.errors import InputError
from specviz.golden import golden_names, golden_trace
from specviz.lessons import LESSONS, Lesson, read_lesson, read_lessons, read_widgets
from specviz.lessons.lesson_files import MAX_WORDS
from specviz.records import Drawing, Outcome

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "lesson.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
WIDGETS = read_widgets()


def lesson_of(folder: Path, text: str) -> Lesson:
    path = folder / "mine" / "lesson.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return read_lesson(path, WIDGETS)


def test_the_lessons_of_the_course_are_in_order() -> None:
    lessons = read_lessons()
    assert [each.number for each in lessons] == sorted({each.number for each in lessons})
    assert len(lessons) == len([*LESSONS.glob("*/lesson.toml")]) > 0


def test_the_example_in_the_guide_is_a_valid_lesson(tmp_path: Path) -> None:
    made = lesson_of(tmp_path, EXAMPLE)
    assert (made.name, [step.name for step in made.steps]) == ("mine", ["guess", "try", "check"])
    assert ("round", "26") in made.steps[0].scene


BROKEN = {
    "a kind": ('kind = "try"', 'kind = "play"', "steps[1].kind must be one of predict, case, try"),
    "an unknown field": (
        "minutes = 2",
        "minutes = 2\nhours = 1",
        "must have only known fields, got 'hours'",
    ),
    "no number": ("number = 3", "", "lesson.number is missing"),
    "a widget": ('widget = "accept-reject"', 'widget = "x"', "lesson.widget must be one of"),
    "a scene": ('u = "free" }\n\n[steps.formula]', 'v = "free" }\n\n[steps.formula]', "got 'v'"),
    "a goal": ('goal = "both-verdicts"', 'goal = "all"', "steps[1].goal must be one of both-"),
    "a value": ("So {accept} of", "So {chance} of", "steps[1].after must name values among"),
    "a term": ("(acceptance_prob)", "(luck)", "must name terms of the glossary, got 'luck'"),
    "a typed number": (
        "So {accept} of all",
        "So 0.38 of all",
        "instead of typed numbers, got '0.38'",
    ),
    "a typed word": (
        "of all such guesses",
        "of ten such guesses",
        "instead of typed numbers, got 'ten'",
    ),
    "a comparison": (
        'compare = "guess"',
        'compare = "check"',
        "compare must be guess, got",
    ),
    "no right answer": ('right = true\nreply = "p/q', 'reply = "p/q', "got 0 right ones"),
    "no reply": (
        'reply = "Then {token} would come out too seldom."',
        'reply = ""',
        "reply must not be empty",
    ),
    "no mathml": ("<mi>min</mi>", "<mi>min", "formula.mathml must be MathML"),
    "an odd element": ("<mi>min</mi>", "<script/>", "got the element 'script'"),
    "a symbol": ("data-symbol='q'", "data-symbol='r'", "formula.symbols must be those of its"),
    "a name twice": ('name = "try"', 'name = "guess"', "unique names, got 'guess' twice"),
    "nothing asked": ('kind = "predict"', 'kind = "read"', "steps[0] must ask a question"),
    "a notebook": (
        "minutes = 2",
        'minutes = 2\nnotebook = "x.ipynb"',
        "lesson.notebook must be one of",
    ),
    "no TOML": ("minutes = 2", "minutes =", "the file must be TOML"),
    "an answer beside a value": (
        'kind = "check"',
        'kind = "check"\nvalue = "p"',
        "a value, got 1 right ones",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_lesson_is_refused_in_one_line_with_its_file(name: str, tmp_path: Path) -> None:
    old, new, words = BROKEN[name]
    assert EXAMPLE.count(old) >= 1
    with pytest.raises(InputError) as refused:
        lesson_of(tmp_path, EXAMPLE.replace(old, new, 1))
    line = str(refused.value)
    assert line.startswith("mine/lesson.toml: ") and words in line and "\n" not in line


def test_a_step_may_have_its_own_widget_with_goals_and_predictions(
    tmp_path: Path,
) -> None:
    own = EXAMPLE.replace('goal = "both-verdicts"\ncompare = "guess"', 'goal = "swept"', 1)
    scene = 'scene = { trace = "layer-skip.chat.smollm2", round = 26, show = "guess", u = "free" }'
    own = own.replace(scene, 'widget = "draft-length"\nscene = { K = 5 }', 1)
    own = own.replace("So {accept} of", "So {tokens} of", 1)
    own = re.sub(r"\[steps.formula\].*?\]\n\n(?=\[\[steps)", "", own, flags=re.DOTALL)
    made = lesson_of(tmp_path, own)
    names = [made.widget_of(step) for step in made.steps]
    assert names == ["accept-reject", "draft-length", "accept-reject"]
    with pytest.raises(
        InputError, match=r"compare must be empty: no earlier step predicts .*, got 'guess'"
    ):
        lesson_of(tmp_path, own.replace('goal = "swept"', 'goal = "swept"\ncompare = "guess"'))
    with pytest.raises(InputError, match=r"steps\[1\].widget must be one of .*, got 'x'"):
        lesson_of(tmp_path, own.replace('widget = "draft-length"', 'widget = "x"'))


NUMBER = """
[[steps]]
name = "reckon"
kind = "number"
title = "Reckon"
text = "How often is it kept?"
otherwise = "It is min(1, p/q)."
link = { text = "Race it", address = "view=race&k=5" }
scene = { trace = "layer-skip.chat.smollm2", round = 26, show = "guess" }

[[steps.options]]
name = "accept"
text = "the acceptance probability"
value = "accept"
right = true
reply = "p/q."
[[steps.options]]
name = "p"
text = "what the target finds"
value = "p"
reply = "Set it beside q."
"""


def test_a_lesson_may_end_with_a_number_and_recognises_typical_mistakes(tmp_path: Path) -> None:
    step = lesson_of(tmp_path, EXAMPLE + NUMBER).steps[-1]
    assert [(each.value, each.right) for each in step.options] == [("accept", True), ("p", False)]
    assert step.link and step.link.address == "view=race&k=5"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('value = "p"', 'value = "x"', "options[1].value must be one of"),
        (
            'otherwise = "It is min(1, p/q)."\n',
            "",
            "'otherwise' if its kind is 'number', and only then",
        ),
        ("view=race&k=5", "https://else.where", "the query of a page, such as view=lab"),
        ('value = "p"\n', "", "options[1].value must be one of"),
        (
            'kind = "number"',
            'kind = "check"',
            "options[0].value must be empty unless",
        ),
    ],
)
def test_a_numeric_question_that_breaks_a_rule_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in NUMBER
    with pytest.raises(InputError) as refused:
        lesson_of(tmp_path, EXAMPLE + NUMBER.replace(old, new, 1))
    assert words in str(refused.value)


def test_a_lesson_with_too_much_text_before_the_first_task_is_refused(tmp_path: Path) -> None:
    long = " ".join(["word"] * (MAX_WORDS + 1))
    with pytest.raises(InputError, match=f"at most {MAX_WORDS} words to read before"):
        lesson_of(tmp_path, EXAMPLE.replace("The guess is kept if", long, 1))


def test_two_lessons_must_have_different_numbers(tmp_path: Path) -> None:
    (tmp_path / "widgets.toml").write_text((LESSONS / "widgets.toml").read_text("utf-8"), "utf-8")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lesson.toml").write_text(EXAMPLE, encoding="utf-8")
    with pytest.raises(InputError, match=r"other/lesson.toml: number must be unique"):
        read_lessons(tmp_path)


def test_an_answer_that_depends_on_a_measurement_has_bounds(tmp_path: Path) -> None:
    measured = EXAMPLE.replace('name = "check"', 'name = "check"\nvalue = "p"', 1)
    measured = measured.replace('text = "Yes"\nright = true', 'text = "Yes"\nlow = 0.5')
    made = lesson_of(tmp_path, measured.replace('text = "No, u', 'high = 0.5\ntext = "No, u'))
    assert [(each.low, each.high) for each in made.steps[-1].options] == [(0.5, None), (None, 0.5)]


def test_every_recorded_round_that_a_lesson_shows_exists() -> None:
    opened = cache(golden_trace)
    for lesson in read_lessons():
        for scene in (dict(step.scene) for step in lesson.steps):
            if "trace" in scene:
                assert scene["trace"] in golden_names(), lesson.name
            if "round" in scene:
                round_ = opened(scene["trace"]).rounds[int(scene["round"]) - 1]
                assert int(scene.get("node", 0)) < len(round_.tree.nodes), lesson.name


def test_in_the_lesson_the_second_drawn_sibling_is_verified_against_the_residual() -> None:
    (lesson,) = (each for each in read_lessons() if each.name == "trees-and-drafters")
    (step,) = (each for each in lesson.steps if each.name == "drawn-siblings")
    scene = dict(step.scene)
    round_ = golden_trace(scene["trace"]).rounds[int(scene["round"]) - 1]
    first, second, *_ = (
        verdict
        for node, verdict in zip(round_.tree.nodes, round_.verdicts, strict=True)
        if node.parent == -1
    )
    assert round_.tree.drawing is Drawing.INDEPENDENT
    assert [each.outcome for each in (first, second)] == [Outcome.REJECTED, Outcome.ACCEPTED]
    assert second.target_prob > second.draft_prob > second.residual_prob > 0
    kept = second.residual_prob / second.draft_prob
    assert second.acceptance_prob == pytest.approx(kept, rel=1e-4)


def test_a_verdict_that_a_lesson_calls_right_is_the_recorded_one() -> None:
    (lesson,) = (each for each in read_lessons() if each.name == "accept-or-reject")
    cases = [step for step in lesson.steps if dict(step.scene).get("u") == "shown"]
    told = {"kept": "accepted", "thrown": "rejected", "rare": "accepted"}
    assert len(cases) == len(told)
    for step in cases:
        scene = dict(step.scene)
        round_ = golden_trace(scene["trace"]).rounds[int(scene["round"]) - 1]
        outcome = round_.verdicts[int(scene.get("node", 0))].outcome
        (right,) = (option.name for option in step.options if option.right)
        assert told[right] == outcome.value, step.name


def test_in_the_lesson_about_blocks_each_round_has_the_verdicts_that_the_texts_tell() -> None:
    """In one round, block verification accepts more tokens; in the other, token by token does."""
    (lesson,) = (each for each in read_lessons() if each.name == "judge-the-block")
    kept = {}
    for name in ("unlikely", "other-round"):
        (scene,) = (dict(step.scene) for step in lesson.steps if step.name == name)
        round_ = golden_trace(scene["trace"]).rounds[int(scene["round"]) - 1]
        passes = [
            each.uniform_draw is not None and each.uniform_draw * each.draft_prob < each.target_prob
            for each in round_.verdicts
        ]
        kept[name] = (passes.index(False), len(round_.accepted))
        assert round_.rule == "block" and len(round_.verdicts) == 5
    assert kept == {"unlikely": (1, 5), "other-round": (3, 1)}
