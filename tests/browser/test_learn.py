"""A learner can finish every lesson with the keyboard, and answers survive a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from playwright.sync_api import Page

from specviz.lessons import Lesson, LessonGroup, LessonStep, StepKind, read_lessons, read_widgets
from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver

OpenPage = Callable[..., RaceDriver]
WIDGETS = read_widgets()
INPUT = ".typed-text + .typed-form input"
# Goal of a lesson -> the elements to reach with Tab, each with the keys to press in it.
KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "both-verdicts": ((".draw-line input", "End"),),
    "wide-overlap": ((".guess-row:first-child .bar-q", *["PageUp"] * 6),),
    "last-gone": ((".draft-length [data-name=a]", "Home"),),
    "loses": ((".draft-length [data-name=K]", "End"), (".draft-length [data-name=c]", "End")),
    "at-best": ((".draft-length [data-name=K]", "Home", "ArrowRight"),),
    "swept": (("[data-replay]", "Enter"),),
    "measured": ((".forward-go .primary", "Enter"),),
    "binds": ((".one-forward input", "End"),),
    "shown": (("[data-replay]", "Enter"),),
    "walked": (("[data-next]", "Enter"),),
    "masked": (("[data-seen=true][aria-pressed=false]", "Enter"),),
    "rolled-back": (("[data-seen=true][aria-pressed=false]", "Enter"),),
    "stepped": (("[data-next]", "Enter"),),
    "paired": (("[data-seen=true][aria-pressed=false]", "Enter"),),
    "added": (("[data-again]", "Enter"),),
    "narrow-overlap": (
        (".guess-row:first-child .bar-p", "End"),
        (".guess-row:nth-child(2) .bar-q", "End"),
    ),
    "no-gain": ((".deployment [data-name=a]", "Control+a", "0"),),
    "gain": ((".deployment [data-name=a]", "Control+a", "1"),),
    "short": (
        (".deployment [data-name=prompt]", "Control+a", *"90000"),
        (".deployment [data-name=answer]", "Control+a", *"20"),
    ),
    "judged": ((INPUT, " ", "a", "Enter"),),
    "thrown-rest": ((INPUT, *" zz zz zz", "Enter"),),
    "bonus": (
        (".typed-form .chip:not(form:first-child *)", "Enter"),
        (".typed-peeked .chip", "Enter"),
        (INPUT, "Enter"),
    ),
    "enough-rounds": ((INPUT, "a", "Enter"),),
    "drawn": ((".guess .redraw .primary", "Enter"),),
    "found": ((".guess .redraw .primary", "Enter"),),
    "failed": (("[data-next]", "Enter"),),
    "compared": (("[data-compare]", "Enter"),),
    # the numbers of the recorded race: its tokens per forward, and its draft length
    "converted": (
        (".rate-names [data-name=value]", "Control+a", *"4.17"),
        (".rate-names [data-name=K]", "Control+a", "5"),
    ),
    "equal-rules": ((".two-words [data-name=K]", "Home"),),
    "named": ((".guess .redraw .primary", "Enter"), ("[data-suspect=true]", "Enter")),
}
REPEATED = ("bonus", "enough-rounds", "walked", "masked", "rolled-back")
REPEATED += ("stepped", "paired", "added", "failed")
MOST_TIMES = 30
# The lesson that is always done with Tab. The others are done so only in `make slow`.
WALKED_BY_TAB = "guess-and-check"
VIEW = "specviz.learn.view"
# VALUES is a script that returns the names of the widget's values. ODD is a script that returns
# values in the lesson's text that are missing or no numbers.
VALUES = f"Object.keys({VIEW}.widget.values)"
ODD = """[...document.querySelectorAll(".lesson-words .value, .lesson-words mn")]
    .filter((each) => /…|NaN|undefined|Infinity/.test(each.textContent))
    .map((each) => `${each.dataset.value}: ${each.textContent}`)"""
IS_AT_REST = f"!{VIEW}.widget.course.drive.isBusy"
REST = "(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))()"
CAN_BE_USED = "(each) => !each.disabled && each.checkVisibility()"
STOPS = "a[href], button, input, select, textarea, [tabindex]"
# A script that returns how many presses of Tab reach an element. A negative number counts presses
# of Shift+Tab.
TABS = f"""(selector) => {{
    const all = [...document.querySelectorAll({STOPS!r})];
    const seen = all.filter({CAN_BE_USED});
    const here = seen.indexOf(document.activeElement);
    const goal = seen.findIndex((each) => each.matches(selector));
    const stops = (from, end) => seen.slice(from, end).filter((each) => each.tabIndex >= 0).length;
    return goal > here ? stops(here + 1, goal + 1) : -stops(goal, here);
}}"""


class Learner:
    """A learner without a mouse."""

    def __init__(self, driver: RaceDriver) -> None:
        self.driver, self.page = driver, driver.page

    def tab_to(self, selector: str) -> None:
        """Press Tab as often as needed, and check that the element has the focus."""
        self.driver.until(f"[...document.querySelectorAll({selector!r})].some({CAN_BE_USED})")
        count = int(self.page.evaluate(TABS, selector))
        for _ in range(abs(count)):
            self.page.keyboard.press("Tab" if count > 0 else "Shift+Tab")
        where = f"document.activeElement.matches({selector!r})"
        assert self.page.evaluate(where), f"Tab does not lead to {selector}"

    def press(self, selector: str, *keys: str) -> None:
        self.tab_to(selector)
        for key in keys:
            self.page.keyboard.press(key)

    def wait(self, step: LessonStep) -> None:
        shown = f"{VIEW}?.step.name === {step.name!r} && Object.keys({VIEW}.widget.values).length"
        self.driver.until(shown)

    def walk(self, lesson: Lesson) -> None:
        """Start a lesson from the list, do every step, and return to the list."""
        self.press(f"[data-lesson-name={lesson.name}]", "Enter")
        for step in lesson.steps:
            self.wait(step)
            self.driver.until(IS_AT_REST)
            assert self.page.evaluate("document.activeElement.dataset.ref") == "lessonStepTitle"
            self.do(lesson, step)
            self.driver.evaluate(REST)
            assert self.driver.evaluate(ODD) == [], (lesson.name, step.name)
            named = [value.name for value in WIDGETS[lesson.widget_of(step)].values]
            assert sorted(self.driver.evaluate(VALUES)) == sorted(named), (lesson.name, step.name)
            self.page.evaluate("document.querySelector('[data-ref=lessonStepTitle]').focus()")
            if step is not lesson.steps[-1]:
                self.press("[data-ref=lessonNext]", "Enter")
        self.press("[data-ref=lessonBack]", "Enter")

    def reach(self, goal: str) -> None:
        """Press the keys that reach a goal.

        Press them repeatedly if the goal needs several rounds or a particular draw.
        """
        for _ in range(MOST_TIMES if goal in REPEATED else 1):
            for selector, *keys in KEYS[goal]:
                self.driver.until(f"{IS_AT_REST} || {VIEW}.isReached")
                if self.driver.evaluate(f"{VIEW}.isReached"):
                    return
                self.press(selector, *keys)
        self.driver.until(f"{VIEW}.isReached")

    def do(self, lesson: Lesson, step: LessonStep) -> None:
        if step.kind is StepKind.TRY:
            self.reach(step.goal)
        if step.kind is StepKind.NUMBER:
            self.give_numbers(step)
            return
        for option in step.options if step.kind is StepKind.CHECK else step.options[:1]:
            self.press(f"[data-option={option.name}]", "Enter")
        if step.kind is StepKind.CHECK:
            right = self.driver.evaluate(f"{VIEW}.rightOption?.name")
            self.page.evaluate("document.querySelector('[data-ref=lessonStepTitle]').focus()")
            self.press(f"[data-option={right}]", "Enter")

    def give_numbers(self, step: LessonStep) -> None:
        """Type a word, a wrong number, each known mistake, and finally the right number."""
        told = f"{VIEW}.widget.values"
        for each in step.options:
            self.driver.until(f"typeof {told}[{each.value!r}] === 'number'")
        values = self.driver.evaluate(told)
        self.press("[data-number]", *"much", "Enter")
        assert "must be a number" in self.page.locator(".number-form .error").inner_text()
        wrong = [123456.0, *(values[each.value] for each in step.options if not each.right)]
        (right,) = (values[each.value] for each in step.options if each.right)
        for number in [*wrong, right]:
            self.press("[data-number]", "Control+a", *f"{number:.5f}", "Enter")
        assert self.page.locator("[data-ref=lessonAfter] .is-right").count() == 1

    def take(self, lessons: Iterable[Lesson]) -> None:
        """Do the lessons of the list one after another, with the same random numbers each time."""
        self.driver.evaluate("{ window.chance = Math.random; Math.random = () => 0.25; }")
        self.driver.ref("tabs").locator("button, a").first.focus()
        self.press("[data-page=learn]", "Enter")
        self.driver.until("document.querySelector('[data-lesson-name]')")
        for lesson in lessons:
            self.walk(lesson)
            card = self.page.locator(".lesson-card", has_text=lesson.title)
            assert "done" in card.inner_text() and lesson.learned in card.inner_text()
        self.driver.evaluate("Math.random = window.chance")


class HastyLearner(Learner):
    """A learner who focuses each element directly, which is faster than Tab."""

    def tab_to(self, selector: str) -> None:
        usable = f"[...document.querySelectorAll({selector!r})].find({CAN_BE_USED})"
        has_gone = f"({usable}?.focus(), {usable} === document.activeElement)"
        # The element usually exists already, so the test need not wait for it
        if not self.driver.evaluate(has_gone):
            self.driver.until(has_gone)


def in_group(group: LessonGroup) -> list[Lesson]:
    return [lesson for lesson in read_lessons() if lesson.group is group]


def test_a_lesson_with_the_learner_s_own_guesses_can_be_finished_with_the_keyboard(
    turn_page: OpenPage, random_url: str
) -> None:
    learner = Learner(turn_page(random_url))
    learner.take(each for each in read_lessons() if each.name == WALKED_BY_TAB)
    assert findings(learner.page) == []


@pytest.mark.parametrize("group", LessonGroup, ids=lambda group: group.value)
def test_every_other_lesson_can_be_finished(
    turn_page: OpenPage, random_url: str, group: LessonGroup
) -> None:
    others = [each for each in in_group(group) if each.name != WALKED_BY_TAB]
    HastyLearner(turn_page(random_url)).take(others)


@pytest.mark.slow
def test_every_core_lesson_can_be_finished_with_the_keyboard(
    turn_page: OpenPage, random_url: str
) -> None:
    learner = Learner(turn_page(random_url))
    learner.take(in_group(LessonGroup.CORE))
    assert findings(learner.page) == []


@pytest.mark.slow
def test_every_further_lesson_can_be_finished_with_the_keyboard(
    turn_page: OpenPage, random_url: str
) -> None:
    learner = Learner(turn_page(random_url))
    learner.take(in_group(LessonGroup.OPTIONAL))
    assert learner.page.locator("[data-ref=lessonFurther] .lesson-card.is-done").count() >= 1


@pytest.mark.slow
def test_every_exercise_can_be_finished_with_the_keyboard(
    turn_page: OpenPage, random_url: str
) -> None:
    lessons = in_group(LessonGroup.EXERCISE)
    learner = Learner(turn_page(random_url))
    learner.take(lessons)
    done = learner.page.locator("[data-ref=lessonPractice] .lesson-card.is-done")
    assert done.count() == len(lessons) == 8


@pytest.mark.slow
def test_every_misconception_can_be_finished_with_the_keyboard(
    turn_page: OpenPage, random_url: str
) -> None:
    lessons = in_group(LessonGroup.MISCONCEPTION)
    learner = Learner(turn_page(random_url))
    learner.take(lessons)
    done = learner.page.locator("[data-ref=lessonMyths] .lesson-card.is-done")
    assert done.count() == len(lessons)


# REFUSE makes the page believe that the server refuses to measure. Lessons must then use their
# recordings.
REFUSE = f"""{{
    const {{ drive }} = {VIEW}.course;
    drive.start = (what, question, on) => on.failed("No model is loaded.");
    drive.ask = ((ask) => (name, question) =>
        name === "ready" ? Promise.resolve({{ is_ready: false }}) : ask.call(drive, name, question)
    )(drive.ask);
}}"""


@pytest.mark.slow
def test_without_models_the_lessons_that_measure_use_recordings(
    turn_page: OpenPage, random_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Learner(turn_page(random_url))
    replayed = (("[data-replay]", "Enter"),)
    monkeypatch.setitem(KEYS, "measured", replayed)
    monkeypatch.setitem(KEYS, "drawn", replayed)
    names = ("one-token", "guess-and-check", "how-far-ahead", "trees-and-drafters", "when-not-to")
    open_lesson(learner, read_lessons()[2])
    learner.driver.evaluate(REFUSE)
    learner.page.locator("[data-ref=lessonBack]").click()
    learner.take(each for each in read_lessons() if each.name in names)


def open_lesson(learner: Learner, lesson: Lesson) -> None:
    """Open a lesson by its address."""
    learner.driver.visit(f"?view=learn&lesson={lesson.name}")
    learner.wait(lesson.steps[0])


@pytest.mark.parametrize(
    "lesson",
    [
        each if at == 2 else pytest.param(each, marks=pytest.mark.slow)
        for at, each in enumerate(read_lessons())
    ],
    ids=lambda lesson: lesson.name,
)
def test_a_lesson_has_no_accessibility_fault(
    turn_page: OpenPage, random_url: str, lesson: Lesson
) -> None:
    learner = Learner(turn_page(random_url))
    open_lesson(learner, lesson)
    assert findings(learner.page, ".learn") == []


def test_an_answer_is_kept_when_the_learner_returns_to_its_question(
    turn_page: OpenPage, random_url: str
) -> None:
    learner = Learner(turn_page(random_url))
    page = learner.page
    open_lesson(learner, read_lessons()[2])
    learner.driver.evaluate(f"{VIEW}.go(2)")
    learner.driver.until(f"{VIEW}.step.kind === 'case' && {VIEW}.widget.values.p > 0")
    page.locator("[data-option=thrown]").click()
    page.locator("[data-ref=lessonNext]").click()
    page.locator("[data-ref=lessonPrevious]").click()
    learner.driver.until(f"{VIEW}.at === 2 && {VIEW}.widget.isRevealed")
    assert page.locator("[data-option=thrown]").get_attribute("aria-pressed") == "true"
    assert (
        "the favourite plays no part" in page.locator("[data-ref=lessonAfter]").inner_text().lower()
    )
    assert not page.locator("[data-ref=lessonNext]").is_disabled()


def test_an_answer_that_the_measurement_does_not_decide_is_not_graded(
    turn_page: OpenPage, random_url: str
) -> None:
    """The recording measured 0.80 to 1.18 times the plain speed for a text of 2 tokens."""
    driver = turn_page(random_url)
    driver.visit("?view=learn&lesson=when-not-to&step=short")
    driver.until(f"{VIEW}?.step.name === 'short' && {VIEW}.widget.planned.length")
    driver.page.locator("[data-option=gains]").click()
    driver.until(f"{VIEW}.widget.values.first_speedup > 0")
    reply = driver.page.locator("[data-ref=lessonAfter] .lesson-reply")
    assert reply.inner_text().startswith("Not decided.")
    assert "the measurement allows 0.80× to 1.18×" in reply.inner_text()
    assert driver.page.locator(":is(.is-right, .is-wrong):visible").count() == 0


def test_the_end_of_a_lesson_leads_to_the_next_and_that_of_the_course_to_more_lessons(
    turn_page: OpenPage, random_url: str
) -> None:
    learner = Learner(turn_page(random_url))
    page, core = learner.page, in_group(LessonGroup.CORE)
    for lesson, way in ((core[0], f"Next: {core[1].title} →"), (core[-1], "Further lessons")):
        open_lesson(learner, lesson)
        learner.driver.evaluate(f"{VIEW}.go({len(lesson.steps) - 1})")
        right = next(each.name for each in lesson.steps[-1].options if each.right)
        page.locator(f"[data-option={right}]").click()
        onward = page.locator("[data-ref=lessonNext].primary")
        assert onward.inner_text() == way
        onward.click()
        if lesson is core[0]:
            learner.wait(core[1].steps[0])
    assert page.locator("[data-ref=lessonFurther]").is_visible()


def test_a_goal_of_losing_is_reached_only_if_the_shown_number_is_below_1(
    turn_page: OpenPage, random_url: str
) -> None:
    driver = turn_page(random_url)
    driver.visit("?view=learn&lesson=how-far-ahead&step=the-price")
    driver.until(f"{VIEW}?.step.name === 'the-price' && {VIEW}.widget.values.speedup > 1")
    for length, seen in ((10, "1.00"), (12, "0.91")):
        driver.evaluate(f"{VIEW}.widget.move('K', {length})")
        driver.until(f"{VIEW}.widget.words.textContent.includes('; {seen} times')")
        assert driver.evaluate(f"{VIEW}.isReached") is (seen != "1.00"), seen


def test_a_step_has_an_address_and_a_prediction_survives_a_reload(
    turn_page: OpenPage, random_url: str
) -> None:
    driver = turn_page(random_url)
    page: Page = driver.page
    driver.visit("?view=learn&lesson=accept-or-reject&step=first-guess")
    driver.until(f"{VIEW}?.widget.values.p > 0")
    page.locator("[data-option=always]").click()
    assert page.locator("[data-ref=lessonAfter] .lesson-reply").count() == 0, "nothing is revealed"
    page.keyboard.press("ArrowRight")
    driver.until(f"{VIEW}.step.name === 'the-rule'")
    assert driver.query.endswith("step=the-rule")
    driver.evaluate(f"{VIEW}.reached('both-verdicts')")
    told = page.locator("[data-ref=lessonAfter]").inner_text()
    assert "You predicted: Kept: the target finds it possible" in told and "Not quite" in told
    page.go_back()
    driver.until(f"{VIEW}.step.name === 'first-guess'")
    page.evaluate("localStorage.clear()")
