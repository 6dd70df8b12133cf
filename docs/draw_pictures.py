"""Draw the pictures of README.md from the app itself: `make pictures`, or some of them by name.

Each picture shows what a visitor sees. The picture of the lab contains a real measurement, which
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
WIDTH = 1200  # width of a picture in pixels
COLOURS = 64  # number of colours in a picture; more colours make no visible difference
ADVICE_SECONDS = "30"
MINUTES = 4  # longest wait for the advice or the sweep, if the machine is busy


def race(driver: RaceDriver) -> None:
    """Show the end of the recorded race that the page plays first."""
    driver.go()
    driver.evaluate("specviz.race.form.refs.more.open = false")
    driver.settle()


def step(driver: RaceDriver) -> None:
    """Show a rejected and an accepted token of a tree."""
    driver.go("?view=step&trace=draft-tree.story&round=3&pos=7")


def learn(driver: RaceDriver) -> None:
    """Show a lesson after the first prediction, with its widget."""
    driver.go("?view=learn&lesson=accept-or-reject")
    view = "specviz.learn.view"
    driver.until(f"Object.keys({view}?.widget.values ?? {{}}).length")
    driver.page.get_by_text("Kept in some cases").click()
    driver.ref("lessonNext").click()
    driver.until(f"{view}.step.name === 'the-rule' && Object.keys({view}.widget.values).length")


def glossary(driver: RaceDriver) -> None:
    driver.go("?view=glossary")


def lab(driver: RaceDriver) -> None:
    """Show the advice and a sweep, which are both measured now with the bundled pair."""
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
    # Scroll until the charts of the sweep are visible below the header of the page.
    driver.evaluate(
        "document.querySelector('[data-ref=sweepGo]').scrollIntoView({ block: 'start' })"
    )
    driver.evaluate("scrollBy(0, -310)")


# Each picture has a function that prepares the page, and a height in pixels.
PICTURES: dict[str, tuple[Callable[[RaceDriver], None], int]] = {
    "race": (race, 800),
    "step": (step, 800),
    "learn": (learn, 580),
    "lab": (lab, 760),
    "glossary": (glossary, 458),
}


@contextmanager
def app():
    """Start the app and yield its address."""
    with tempfile.TemporaryDirectory() as folder:
        yield from serve("app.py", Path(folder) / "log.txt")


def main(names: list[str]) -> None:
    """Draw the named pictures, or all."""
    with app() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        contexts = Contexts(browser)
        for name in names or PICTURES:
            show, height = PICTURES[name]
            driver = RaceDriver(contexts.take({"width": WIDTH, "height": height}), url)
            show(driver)
            driver.page.wait_for_timeout(1000)  # fonts and charts appear some frames later
            picture = Image.open(io.BytesIO(driver.page.screenshot())).convert("RGB")
            few = picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, 1, dither=Image.Dither.NONE)
            few.convert("RGB").save(DOCS / f"{name}.webp", lossless=True, quality=100, method=6)
            contexts.give_back(driver)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
