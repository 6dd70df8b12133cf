"""Draws the pictures of README.md from the app itself: `make pictures`, some by name.

Each shows what a visitor sees. The lab's is measured as it is drawn, which
takes two minutes on a quiet machine.
"""

import io
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.browser.app_server import serve
from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.contexts import Contexts
from tests.browser.lab_driver import SWEEP
from tests.browser.race_driver import RaceDriver

DOCS = Path(__file__).parent
WIDTH = 1200  # pixels
COLOURS = 64  # the edges of letters alone have more, which nobody sees
ADVICE_SECONDS = "30"
MINUTES = 4  # at the most, for advice or sweep of a busy machine


def race(driver: RaceDriver) -> None:
    """The recorded race that the page opens with, at its end."""
    driver.go()
    driver.evaluate("specviz.race.form.refs.more.open = false")
    driver.settle()


def step(driver: RaceDriver) -> None:
    """A rejected and an accepted guess of a tree."""
    driver.go("?view=step&trace=draft-tree.story&round=3&pos=7")


def learn(driver: RaceDriver) -> None:
    """A lesson whose first guess is made, with what it is tried on."""
    driver.go("?view=learn&lesson=accept-or-reject")
    view = "specviz.learn.view"
    driver.until(f"Object.keys({view}?.widget.values ?? {{}}).length")
    driver.page.get_by_text("Kept in some cases").click()
    driver.ref("lessonNext").click()
    driver.until(f"{view}.step.name === 'the-rule' && Object.keys({view}.widget.values).length")


def glossary(driver: RaceDriver) -> None:
    driver.go("?view=glossary")


def lab(driver: RaceDriver) -> None:
    """Advice and a sweep, both measured now on the bundled pair."""
    driver.go("?view=lab&lab-pair=bundled&lab-task=code&lab-method=draft-model")
    driver.fill("adviceMethods", "draft-model, eagle, quantised-self, prompt-lookup")
    driver.fill("adviceSeconds", ADVICE_SECONDS)
    driver.ref("adviceGo").click()
    driver.page.wait_for_selector("[data-ref=adviceResult]:visible", timeout=MINUTES * 60_000)
    driver.until("specviz.lab.advice.refs.adviceStop.disabled", MINUTES * 60)
    driver.fill("values1", "1-8")
    driver.ref("sweepGo").click()
    driver.until(f"{SWEEP}.views.places.length >= 8", MINUTES * 60)
    driver.until(f"!{SWEEP}.run.isBusy && !{SWEEP}.isDrawing")
    # the answer of the sweep with its charts, below the page's own head
    driver.evaluate(
        "document.querySelector('[data-ref=sweepGo]').scrollIntoView({ block: 'start' })"
    )
    driver.evaluate("scrollBy(0, -310)")


PICTURES: dict[str, tuple[Callable[[RaceDriver], None], int]] = {  # with the height, in pixels
    "race": (race, 800),
    "step": (step, 800),
    "learn": (learn, 580),
    "lab": (lab, 760),
    "glossary": (glossary, 458),
}


@contextmanager
def app():
    """The address of one of our own."""
    with tempfile.TemporaryDirectory() as folder:
        yield from serve("app.py", Path(folder) / "log.txt")


def main(names: list[str]) -> None:
    """Draw these, or all."""
    with app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        contexts = Contexts(browser)
        for name in names or PICTURES:
            show, height = PICTURES[name]
            driver = RaceDriver(contexts.take({"width": WIDTH, "height": height}), url)
            show(driver)
            driver.page.wait_for_timeout(1000)  # fonts and charts come frames after
            picture = Image.open(io.BytesIO(driver.page.screenshot())).convert("RGB")
            few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, 1, dither=Image.Dither.NONE)
            few.convert("RGB").save(DOCS / f"{name}.webp", lossless=True, quality=100, method=6)
            contexts.give_back(driver)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
