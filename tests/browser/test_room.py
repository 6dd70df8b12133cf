"""A teacher leads a class, and the pages of the students follow the teacher and vote."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.axe_findings import findings
from tests.browser.race_driver import RaceDriver

RUN = "?view=step&trace=layer-skip.chat.smollm2&round=2&pos=1"
LESSON = "?view=learn&lesson=accept-or-reject&step=first-guess"
TYPED = "?view=learn&lesson=exercise-hundred&step=acceptance"
PLACE = "specviz.step.view.cursor.round * 100 + specviz.step.view.cursor.at"
IN_LESSON = "location.search.includes('accept-or-reject')"
HAS_RUN = "specviz.step.view.trace?.rounds.length > 5 && specviz.step.view.cursor.round === 1"
PHONE = {"width": 390, "height": 844}
ON_ITS_SIDE = {"width": 844, "height": 390}

OpenPage = Callable[..., RaceDriver]


def opened_class(
    open_page: OpenPage, url: str, run: str = RUN, **options: object
) -> tuple[RaceDriver, str]:
    """Open a class; return the teacher's page and the query of the class's link."""
    teacher = open_page(url, run, **options)
    teacher.until(HAS_RUN)
    teacher.ref("openRoom").click()
    teacher.ref("roomBegin").click()
    teacher.ref("roomInvitation").wait_for()
    query = "?" + teacher.text("roomLink").split("?")[1]
    teacher.until("document.querySelector('[data-ref=roomCode]').naturalWidth > 0")
    teacher.ref("roomStart").click()
    return teacher, query


def says(driver: RaceDriver, words: str) -> None:
    driver.until(f"document.querySelector('[data-ref=roomWord]').textContent.includes('{words}')")


class Ask:
    """The question to a class on one person's screen."""

    def __init__(self, driver: RaceDriver) -> None:
        self.dialog = driver.page.locator("dialog.room-ask")
        self.place = self.dialog.locator(".hint").first
        self.text = self.dialog.locator(".room-text")
        self.hinted = self.dialog.locator(".room-hinted")
        self.said = self.dialog.locator(".room-said")
        self.accept = self.button("Accept")
        self.bars = self.dialog.locator(".room-bars")
        self.sentence = self.dialog.locator(".room-sentence")

    def button(self, name: str) -> Locator:
        return self.dialog.get_by_role("button", name=name)


@pytest.mark.slow
def test_a_class_follows_its_teacher_votes_secretly_and_sees_the_result(
    open_page: OpenPage, random_url: str
) -> None:
    teacher, query = opened_class(open_page, random_url)
    ann, bob = open_page(random_url, query), open_page(random_url, query, viewport=PHONE)
    for member in (ann, bob):
        member.until(HAS_RUN)
        assert "class=" not in member.address  # a copied address must not lead into the class
        assert member.text("roomWord") == "You are in a class: this page follows the teacher’s."
    teacher.ref("roomNext").click()
    teacher.page.keyboard.press("PageDown")
    for member in (ann, bob):
        member.until(f"{PLACE} === 102")

    # Until the teacher gives a hint, the vote shows no numbers.
    teacher.ref("roomFreeze").click()
    for member in (ann, bob):
        Ask(member).accept.wait_for()
        assert (
            Ask(member).hinted.inner_text() == ""
            and "p, q and the draw" in Ask(member).said.inner_text()
        )
        member.page.keyboard.press("Escape")
        member.page.keyboard.press("Escape")
        assert Ask(member).dialog.is_visible() and not Ask(member).sentence.is_visible()
    Ask(ann).accept.click()
    bob.page.keyboard.press("a")
    bob.page.keyboard.press("r")
    expect(Ask(teacher).said).to_contain_text("2 of 2")
    assert findings(bob.page, ".room-ask") == []
    Ask(teacher).button("Show p and q").click()
    for screen in (teacher, ann, bob):
        expect(Ask(screen).hinted).to_contain_text("q = ")
    assert Ask(bob).said.inner_text().startswith("You said reject.")
    Ask(teacher).button("Show the result").click()
    for screen in (teacher, ann, bob):
        Ask(screen).sentence.wait_for()
        assert (
            Ask(screen)
            .sentence.inner_text()
            .startswith("1 of 2 votes (50 %) was for accepting it.")
        )
        assert "min(1, p/q) = min(1, " in Ask(screen).sentence.inner_text()
    assert "The result is" in Ask(bob).said.inner_text()
    assert findings(teacher.page, ".room-ask") == []
    Ask(teacher).button("Go on").click()
    verdict = teacher.evaluate(PLACE)
    for member in (ann, bob):
        member.until(f"{PLACE} === {verdict}")
        Ask(member).dialog.wait_for(state="hidden")

    ground = "getComputedStyle(document.querySelector('[data-ref=roomBar]')).backgroundColor"
    quiet = ann.evaluate(ground)
    ann.page.locator("a[data-page=glossary]").click()
    ann.ref("roomReturn").wait_for()
    assert ann.evaluate(ground) != quiet
    assert ann.text("roomWord") == "You left the teacher’s page."
    ann.ref("roomReturn").click()
    ann.ref("roomReturn").wait_for(state="hidden")
    assert ann.evaluate(PLACE) == verdict and "view=step" in ann.address

    teacher.page.keyboard.press("End")
    says(teacher, "no further verdict")
    assert teacher.ref("roomNext").is_disabled()
    teacher.evaluate(f"specviz.race.shell.enter('{LESSON}')")
    for member, choice in ((ann, "sometimes"), (bob, "always")):
        member.page.locator(f"[data-option={choice}]").click()
    says(teacher, "2 of 2")
    assert not Ask(ann).dialog.is_visible()
    teacher.ref("roomShowGuesses").click()
    Ask(teacher).dialog.wait_for()
    question = teacher.ref("lessonText").text_content()
    assert question and question in Ask(teacher).text.inner_text().replace("\n", "")
    shown = Ask(teacher).bars.locator("li").all_inner_texts()
    assert [each.split("\n")[-1] for each in shown] == ["0 · 0 %", "1 · 50 %", "1 · 50 %"]
    # A vote that changes after the guesses are shown changes the chart
    ann.page.locator("[data-option=never]").click()
    expect(Ask(teacher).bars).to_contain_text("likes it less1 · 50 %")
    Ask(teacher).button("Go on").dblclick()
    Ask(teacher).dialog.wait_for(state="hidden")
    assert teacher.ref("lessonNext").is_disabled()  # the teacher must answer the question first
    assert teacher.ref("roomShowGuesses").is_visible()
    teacher.ref("roomNext").click()
    for screen in (teacher, ann, bob):
        screen.until(f"!location.search.includes('first-guess') && {IN_LESSON}")

    teacher.evaluate(f"specviz.race.shell.enter('{TYPED}')")
    for member, typed, so_far in ((ann, "900", 1), (bob, "none", 1), (bob, "900", 2)):
        member.page.locator("[data-number]").fill(typed)
        member.page.keyboard.press("Enter")
        says(teacher, f"{so_far} of 2")
    teacher.ref("roomShowGuesses").click()
    expect(Ask(teacher).bars).to_contain_text("another number2 · 100 %")
    expect(Ask(teacher).bars).to_contain_text("the acceptance rate (right)0 · 0 %")
    close = Ask(teacher).button("Go on").bounding_box()
    height = teacher.evaluate("innerHeight")
    assert close and close["y"] + close["height"] <= height, "in sight however long the chart is"
    teacher.page.keyboard.press("PageDown")

    teacher.ref("roomFollow").click()
    says(ann, "on your own")
    says(teacher, "free to look around")
    teacher.evaluate("specviz.race.shell.show('glossary')")
    bob.ref("roomLeave").click()
    bob.ref("roomReturn").click()  # Bob left by mistake and returns
    says(bob, "on your own")
    bob.ref("roomLeave").click()
    bob.ref("roomLeave").click()
    assert not bob.ref("roomBar").is_visible()
    says(teacher, "1 here")
    assert "view=learn" in ann.address
    teacher.ref("roomEnd").click()
    teacher.ref("roomGoOn").click()
    assert teacher.ref("roomBar").is_visible()
    teacher.ref("roomEnd").click()
    teacher.ref("roomEndNow").click()
    says(ann, "has ended")
    ann.ref("roomLeave").click()
    assert not ann.ref("roomBar").is_visible() and not teacher.ref("roomBar").is_visible()


UNCOVERED = """(() => {
    const ask = document.querySelector(".room-ask");
    const seen = new Set();
    for (let x = 3; x < innerWidth; x += 23)
        for (let y = 3; y < innerHeight; y += 17) {
            const hit = document.elementFromPoint(x, y);
            if (hit && !ask.contains(hit)) seen.add(hit.className || hit.tagName);
        }
    return [...seen, ...document.querySelectorAll(":popover-open")].map(String);
})()"""
NUMBER = re.compile(r"[0-9]\s?%|0\.[0-9]|[pqu] = ")


def told(driver: RaceDriver) -> list[str]:
    """Return all names and texts of the page that a screen reader can read out."""
    session = driver.page.context.new_cdp_session(driver.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    return [each.get("name", {}).get("value", "") for each in nodes if not each.get("ignored")]


@pytest.mark.slow
def test_a_vote_does_not_show_the_verdict_and_survives_a_reload_by_the_teacher(
    open_page: OpenPage, random_url: str
) -> None:
    teacher, query = opened_class(open_page, random_url)
    member = open_page(random_url, query, viewport=PHONE)
    member.until(HAS_RUN)
    facts = teacher.evaluate("specviz.step.question.facts")
    teacher.ref("roomFreeze").click()
    Ask(member).accept.wait_for()
    for screen in (teacher, member):
        assert screen.evaluate(UNCOVERED) == []
        assert [each for each in told(screen) if NUMBER.search(each)] == []
        assert not NUMBER.search(screen.page.title())
    place = Ask(teacher).place.inner_text()
    # This button shows the class's link and QR code, for students who arrive late.
    Ask(teacher).button("Link and code").click()
    teacher.ref("roomStart").click()
    for screen in (teacher, member):
        screen.may_complain = True
        screen.context.set_offline(True)
    Ask(teacher).button("Show the result").click()
    expect(Ask(teacher).said).to_contain_text("cannot be reached")
    Ask(member).accept.click()
    expect(Ask(member).said).to_contain_text("sent as soon as")
    for screen in (teacher, member):
        screen.context.set_offline(False)
    expect(Ask(teacher).said).to_contain_text("1 of 1 has answered")
    teacher.has_left = True
    teacher.page.reload()
    Ask(teacher).button("Show the result").wait_for()
    with teacher.page.context.expect_page() as opened:
        teacher.evaluate("window.open('?view=glossary') && 1")
    second = opened.value  # the teacher's second tab, which takes the lead
    says(teacher, "another tab of yours leads")
    second.get_by_role("button", name="Show the result").click()
    end = "accepted" if facts["accepted"] else "rejected"
    for screen in (teacher, member):
        Ask(screen).sentence.wait_for()
        assert (
            Ask(screen)
            .sentence.inner_text()
            .startswith("1 of 1 vote (100 %) was for accepting it.")
        )
        assert Ask(screen).sentence.inner_text().endswith(f"so it is {end}.")
    second.close()
    # The first tab has followed the second one to the next question.
    Ask(teacher).button("Ask about the next guess").click()
    Ask(member).accept.wait_for()
    assert Ask(teacher).place.inner_text() != place


GUESS_IN_SIGHT = """(() => {
    const box = document.querySelector(".room-text").getBoundingClientRect();
    const guess = document.querySelector(".room-text mark").getBoundingClientRect();
    return guess.top >= box.top && guess.bottom <= box.bottom;
})()"""
ALL_IN_SIGHT = """(() => {
    const { scrollHeight, clientHeight } = document.querySelector(".room-ask");
    return scrollHeight <= clientHeight;
})()"""


SIZE = "parseFloat(getComputedStyle(document.querySelector('.{}')).fontSize)"


def test_the_guess_in_a_long_text_is_visible_and_the_teacher_reaches_all_buttons(
    open_page: OpenPage, random_url: str
) -> None:
    long_run = RUN.replace("layer-skip.chat", "eagle.code")
    projector = {"width": 1280, "height": 720}
    teacher, query = opened_class(open_page, random_url, long_run, viewport=projector)
    for part, lowest in (("stepText", 330), ("stepTree", 450), ("stepTable", 660)):
        box = teacher.ref(part).bounding_box()
        assert box and box["y"] < lowest, f"{part} is in sight on a projector"
    teacher.evaluate("scrollTo(0, 150)")
    row = teacher.ref("stepBack").bounding_box()
    assert row and row["y"] > 93
    member = open_page(random_url, query, viewport=PHONE)
    member.until(HAS_RUN)
    member.page.set_viewport_size(ON_ITS_SIDE)
    sentence = member.ref("stepSentence").bounding_box()
    assert sentence and sentence["y"] + 40 < 390
    member.page.set_viewport_size(PHONE)
    teacher.ref("roomFreeze").click()
    Ask(member).accept.wait_for()
    Ask(teacher).dialog.wait_for()
    text = "document.querySelector('.room-text')"
    # without a scrollable text the test would prove nothing
    assert teacher.evaluate(f"{text}.scrollHeight > {text}.clientHeight")
    for screen in (teacher, member):
        assert screen.evaluate(GUESS_IN_SIGHT) and screen.evaluate(ALL_IN_SIGHT)
    Ask(teacher).button("Show p and q").click()
    expect(Ask(member).hinted).to_contain_text("q = ")
    member.page.set_viewport_size(ON_ITS_SIDE)
    assert member.evaluate(ALL_IN_SIGHT)
    assert teacher.evaluate(GUESS_IN_SIGHT)
    sizes = [teacher.evaluate(SIZE.format(name)) for name in ("room-hinted", "room-said")]
    assert sizes[0] >= sizes[1]
    teacher.evaluate(f"{text}.scrollTop = 0")
    # At the beginning of the text, its upper edge does not fade.
    teacher.until(f"{text}.style.getPropertyValue('--above') === '0px'")
    Ask(teacher).button("Show the result").click()
    for screen in (teacher, member):
        Ask(screen).sentence.wait_for()
        assert screen.evaluate(GUESS_IN_SIGHT) and screen.evaluate(ALL_IN_SIGHT)
    Ask(teacher).button("Go on").click()
    teacher.evaluate(f"specviz.race.shell.enter('{LESSON}')")
    member.page.locator("[data-option=always]").click()
    teacher.ref("roomShowGuesses").click()
    Ask(teacher).dialog.wait_for()
    assert teacher.evaluate(ALL_IN_SIGHT)
    teacher.page.keyboard.press("Escape")
    Ask(teacher).dialog.wait_for(state="hidden")
    teacher.evaluate(f"specviz.race.shell.enter('{LESSON.replace('first-guess', 'larger-u')}')")
    line = teacher.page.locator(".draw-line").bounding_box()
    assert line and line["y"] + line["height"] < 720


def test_a_class_that_ended_in_another_tab_leaves_the_teacher_s_page_unchanged(
    open_page: OpenPage, random_url: str
) -> None:
    teacher, _ = opened_class(open_page, random_url)
    teacher.evaluate("specviz.race.shell.show('race')")
    teacher.until("specviz.race.trace.rounds.length > 1 && !specviz.race.isReopening")
    # The class always sees a recording at its end. So the page warns the teacher about unseen
    # content exactly when the teacher looks at another position.
    for key, unseen in (("End", False), ("Home", True)):
        teacher.page.keyboard.press(key)
        assert teacher.evaluate("specviz.race.unseen !== ''") is unseen
    teacher.press_race()
    says(teacher, "does not see your race")
    is_large = "document.querySelector('.specviz').classList.contains('is-large')"
    assert teacher.evaluate(is_large)
    with teacher.page.context.expect_page() as opened:
        teacher.evaluate("window.open('?view=glossary') && 1")
    second = opened.value
    second.locator("[data-ref=roomEnd]").click()
    second.locator("[data-ref=roomEndNow]").click()
    teacher.ref("roomLead").wait_for(state="hidden")
    assert teacher.text("roomWord") == "The class has ended."
    assert not teacher.evaluate(is_large)
    second.close()


def test_the_dialogs_of_a_class_have_no_accessibility_fault_in_the_dark_theme(
    open_page: OpenPage, random_url: str
) -> None:
    size = {"width": 1024, "height": 768}
    teacher = open_page(random_url, RUN, viewport=size, color_scheme="dark")
    teacher.until(HAS_RUN)
    teacher.ref("openRoom").click()
    assert findings(teacher.page, "[data-ref=roomOpen]") == []
    teacher.ref("roomBegin").click()
    teacher.ref("roomInvitation").wait_for()
    assert findings(teacher.page, "[data-ref=roomOpen]") == []
    teacher.ref("roomStart").click()
    assert findings(teacher.page, "[data-ref=roomBar]") == []
    tabs = teacher.page.locator("[data-page=step]").bounding_box()
    assert tabs and tabs["height"] < 50  # the tabs fit in one line, even in large type
    teacher.ref("roomEnd").click()
    assert findings(teacher.page, "[data-ref=roomEnding]") == []
    teacher.ref("roomEndNow").click()
    teacher.ref("roomBar").wait_for(state="hidden")


def test_a_link_to_a_class_that_has_ended_says_so_and_the_page_stays_usable(
    open_page: OpenPage, random_url: str
) -> None:
    late = open_page(random_url, "?class=not-a-class&view=glossary")
    says(late, "mistyped")
    assert late.query == "?view=glossary"


@pytest.mark.slow
def test_the_teacher_s_tab_keeps_its_class_whatever_link_is_opened_in_it(
    open_page: OpenPage, random_url: str
) -> None:
    teacher, _ = opened_class(open_page, random_url)
    teacher.has_left = True
    teacher.page.goto(f"{random_url}?class=not-a-class")
    teacher.ref("roomLead").wait_for()
    says(teacher, "This tab leads a class")
    assert "view=step" in teacher.address, "and shows what it showed"
    teacher.page.keyboard.press("PageDown")
    says(teacher, "Class: nobody here yet")


@pytest.mark.slow
def test_ten_members_follow_within_three_seconds_and_all_votes_are_counted(
    open_page: OpenPage, random_url: str
) -> None:
    teacher, query = opened_class(open_page, random_url)
    members = [open_page(random_url, query) for _ in range(10)]
    for member in members:
        member.until(HAS_RUN)
    teacher.ref("roomNext").click()
    for member in members:
        member.until(f"{PLACE} === 101", 3)
    teacher.ref("roomFreeze").click()
    for at, member in enumerate(members):
        Ask(member).accept.wait_for()
        member.page.keyboard.press("a" if at < 7 else "r")
    expect(Ask(teacher).said).to_contain_text("10 of 10")
    Ask(teacher).button("Show the result").click()
    for screen in (teacher, *members):
        Ask(screen).sentence.wait_for()
        assert Ask(screen).sentence.inner_text().startswith("7 of 10 votes (70 %) were")
