"""A class at work on one server, what each person waits for, what the server needs: `make load`.

    python -m tests.load_run                              40 people, 10 minutes, the bundled pair
    python -m tests.load_run --people 20 --minutes 2      a rehearsal
    python -m tests.load_run --url http://10.0.0.7:7860   a server that runs already

Most people ask as the page does, but without drawing anything; a few are real browsers. They race
(some with the teacher's link, which is the same race), fork, open recordings, read a lesson and
guess in it; two sweep all the time. Between two things a person looks at what came, for some
seconds. Prints what a person waited from the press to the first round, between two rounds, and for
recordings and lessons; every failure by its sentence; the server's memory after the first minute
and at the end; the processor time of the server, of this script and of its browsers, for they share
a machine. Ends with status 1 where anything failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from specviz.golden import golden_names
from specviz.models.pair_catalog import BUNDLED
from tests.browser.app_server import ROOT, START_SECONDS, free_port
from tests.browser.conftest import BROWSERS

LOOKS = (2.0, 8.0)  # seconds that a person looks at what came
SLOWEST = 5  # first rounds that are told one by one
ARRIVAL_SECONDS = 10.0  # in which everybody comes
SETTLED_SECONDS = 60  # after which memory must stay flat
TASKS = ("code", "story", "summarise", "translate")
FORKED = "draft-model.code"
BEGUN = """(() => {
  const { trace } = specviz.race.view;
  return trace.header !== window.before && trace.rounds.length > 0;
})()"""


@dataclass
class Findings:
    """What everybody has seen."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    firsts: list[tuple[float, str]] = field(default_factory=list)  # first rounds, and when
    done: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, int]] = field(default_factory=list)  # seconds, bytes
    processor: dict[str, float] = field(default_factory=dict)  # seconds, by who took them

    def add(self, kind: str, seconds: float) -> None:
        """How long somebody waited for something."""
        self.seconds[kind].append(seconds)
        if kind.endswith("first round"):
            at = time.monotonic() - self.began
            self.firsts.append((seconds, f"{kind}, {seconds:.1f} s, {at:.0f} s after the start"))

    def report(self) -> str:
        lines = [f"{'seconds':34} {'count':>6} {'p50':>8} {'p95':>8} {'max':>8}"]
        for name, found in sorted(self.seconds.items()):
            ordered = sorted(found)
            shown = (quantile(ordered, 0.5), quantile(ordered, 0.95), ordered[-1])
            numbers = " ".join(f"{each:8.3f}" for each in shown)
            lines.append(f"{name:34} {len(found):6} {numbers}")
        lines += [f"slowest {words}" for _, words in sorted(self.firsts)[: -SLOWEST - 1 : -1]]
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        lines.append(f"done: {done}")
        lines.append(f"failures: {sum(self.failures.values())}")
        lines += [f"  {count} x {text}" for text, count in self.failures.most_common()]
        return "\n".join([*lines, self.memory_line(), self.processor_line()])

    def processor_line(self) -> str:
        """Who took how much of a core."""
        elapsed = time.monotonic() - self.began
        shares = (f"{name} {100 * each / elapsed:.0f} %" for name, each in self.processor.items())
        return f"of a core, on {os.cpu_count()} cores: {', '.join(shares)}"

    def memory_line(self) -> str:
        """After the first minute and at the end."""
        if not self.memory:
            return "memory: not known of a server elsewhere"
        settled = next((size for at, size in self.memory if at >= SETTLED_SECONDS), None)
        last = self.memory[-1][1]
        if settled is None:
            return f"memory: {last / 1e6:.0f} MB at the end"
        change = 100 * (last / settled - 1)
        sizes = f"{settled / 1e6:.0f} MB after a minute, {last / 1e6:.0f} MB at the end"
        return f"memory: {sizes} ({change:+.0f} %)"


def quantile(ordered: list[float], share: float) -> float:
    """Of numbers in their order, the one below which that share lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Person:
    """Somebody who asks as the page does."""

    def __init__(
        self, client: httpx.AsyncClient, component: int, findings: Findings, until: float
    ) -> None:
        """At the time `until` it stops whatever goes on."""
        self._client = client
        self._until = until
        self._component = component
        self._session = secrets.token_hex(6)
        self._findings = findings

    async def ask(self, name: str, question: dict[str, Any]) -> dict[str, Any]:
        reply = await self._client.post(
            "gradio_api/component_server",
            json={
                "data": question,
                "fn_name": name,
                "component_id": self._component,
                "session_hash": self._session,
            },
        )
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()
        return found

    async def run(self, what: str, name: str, question: dict[str, Any]) -> None:
        """One thing from its press to its end."""
        began = time.perf_counter()
        try:
            last = None
            async for message in self._messages(name, question):
                now = time.perf_counter()
                if message["kind"] == "error":
                    raise Failed(message["text"])
                if message.get("type") == "round" and name != "open":
                    kind = f"{what}: {'first round' if last is None else 'between rounds'}"
                    self._findings.add(kind, now - (last or began))
                    last = now
            self._findings.add(f"{what}: whole", time.perf_counter() - began)
            self._findings.done[what] += 1
        except (Failed, httpx.HTTPError) as error:
            self._findings.failures[f"{what}: {str(error) or type(error).__name__}"] += 1

    async def _messages(self, name: str, question: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        ticket, after, is_over = secrets.token_hex(20), 0, False
        reply = await self.ask(name, {"ticket": ticket, **question})
        if reply["error"]:
            raise Failed(reply["error"])
        while True:
            if time.monotonic() > self._until and not is_over:
                is_over = True
                await self.ask("stop", {"ticket": ticket})
            seen = await self.ask("hear", {"ticket": ticket, "after": after})
            if seen["error"] or seen["state"] == "unknown":
                raise Failed(seen["error"] or "the run is unknown")
            for text in seen["messages"]:
                message = json.loads(text)
                after += 1
                yield message
                if message["kind"] in ("end", "error"):
                    return
            if seen["state"] == "done":
                if not is_over:  # a shared run goes on without whoever stops it
                    raise Failed("the run ended without a last message")
                return


class Failed(Exception):
    """What the server said instead of a result."""


async def learner(person: Person, pair: str, luck: random.Random, until: float) -> None:
    """Races, forks, recordings and a lesson, in any order."""
    plain = {"pair": pair, "method": "draft-model", "max_new_tokens": "48"}
    lesson = {"pair": pair, "prompt": "The cat sat on"}
    names = sorted(golden_names())
    await asyncio.sleep(luck.uniform(0, ARRIVAL_SECONDS))
    while time.monotonic() < until:
        task, seed = luck.choice(TASKS), str(luck.randrange(10**6))
        words = f"{luck.randrange(10**6)} is a number. What is"
        things: list[tuple[str, str, dict[str, Any]]] = [
            ("race", "join", {"form": plain | {"task": task, "prompt": words, "seed": seed}}),
            ("race", "join", {"form": plain | {"prompt": words, "temperature": "0"}}),
            ("race of a link", "join", {"form": plain | {"task": "story", "prompt": "A fox"}}),
            ("fork", "fork", fork(pair, luck)),
            ("recording", "open", {"golden": luck.choice(names)}),
            ("lesson", "drive", {"what": "typed", "form": lesson, "written": [], "typed": ""}),
        ]
        await person.run(*luck.choice(things))
        await asyncio.sleep(luck.uniform(*LOOKS))


def fork(pair: str, luck: random.Random) -> dict[str, Any]:
    changes = {"temperature": str(luck.choice(("0.5", "0.9", "1.1")))}
    form = {"pair": pair}
    return {"golden": FORKED, "round": luck.randrange(4), "changes": changes, "form": form}


async def sweeper(person: Person, pair: str, luck: random.Random, until: float) -> None:
    """One sweep behind the other."""
    while time.monotonic() < until:
        form = {"pair": pair, "method": "draft-model", "draft_length": "4", "temperature": "0"}
        form |= {"task": luck.choice(TASKS), "max_new_tokens": "64"}
        axes = [{"name": "draft-length", "values": "1,2,4,8"}]
        prompts = {"count": "2"}
        question = {"what": "sweep", "form": form, "prompts": prompts, "axes": axes, "repeats": "2"}
        await person.run("sweep", "measure", question)


# ---- browsers


async def browse(url: str, count: int, findings: Findings, until: float) -> None:
    """So many tabs, each of which races again and again."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not count or found is None:
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tabs = (tab(browser, url, number, findings, until) for number in range(count))
        await asyncio.gather(*tabs)
        await browser.close()


async def tab(browser: Any, url: str, number: int, findings: Findings, until: float) -> None:
    page = await browser.new_page()
    page.on("pageerror", lambda error: findings.failures.update([f"browser: {error}"]))
    began = time.perf_counter()
    task = TASKS[number % len(TASKS)]
    await page.goto(f"{url}?pair={BUNDLED}&task={task}&tokens=48&seed={number}")
    race = page.locator("[data-ref=race]")
    await race.wait_for(state="visible", timeout=60_000)
    findings.add("browser: page", time.perf_counter() - began)
    while time.monotonic() < until:
        try:
            began = time.perf_counter()
            await page.evaluate("window.before = specviz.race.view.trace.header")
            await race.click(timeout=60_000)
            await page.wait_for_function(BEGUN, timeout=60_000)
            findings.add("browser: first round", time.perf_counter() - began)
            await page.wait_for_function("!specviz.race.transport.isBusy", timeout=300_000)
            findings.done["race in a browser"] += 1
            await asyncio.sleep(random.uniform(*LOOKS))
        except Exception as error:
            findings.failures[f"browser: {str(error).splitlines()[0]}"] += 1


# ---- the server


def start_server(pair: str, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """`app.py` as users start it, once it has loaded what it begins with: forked from a process
    that has loaded torch it would decode otherwise.
    """
    port = free_port()
    environment = os.environ | {"PORT": str(port), "SPECVIZ_PAIR": pair, "HF_HUB_OFFLINE": "1"}
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
    url, deadline = f"http://127.0.0.1:{port}/", time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if httpx.get(f"{url}ready", timeout=2).status_code == 200:
                return server, url
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server did not start:\n{log.read_text()}")


def server_of(log: Path) -> int:
    """The process that writes the log; those that it has started came later."""
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        try:
            if os.path.samefile(process / "fd/1", log):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("no process writes the log")


def family(process: int) -> Iterator[int]:
    """A process and all that it started and that go on."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def resident_bytes(process: int) -> int:
    """Of a process and all that it started."""
    texts = [Path(f"/proc/{each}/statm").read_text() for each in family(process)]
    return sum(int(text.split()[1]) for text in texts) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(processes: Iterable[int]) -> float:
    """Of processes, with those that they have waited for."""
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2] for each in processes]
    ticks = sum(int(each) for text in fields for each in text.split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


async def watch(process: int | None, findings: Findings, until: float) -> None:
    """The server's memory and everybody's processor time, every few seconds."""
    began, before = time.monotonic(), processor_seconds([process] if process else [])
    while True:
        mine, here = os.getpid(), [] if process is None else list(family(process))
        browsers = [each for each in family(mine) if each not in (mine, *here)]
        findings.processor = {
            "server": processor_seconds(here) - before,
            "script": time.process_time(),
            "browsers": processor_seconds(browsers),
        }
        if process is not None:
            findings.memory.append((time.monotonic() - began, resident_bytes(process)))
        if time.monotonic() >= until:
            return
        await asyncio.sleep(2)


async def load(options: argparse.Namespace, url: str, process: int | None) -> Findings:
    """Everybody at once."""
    findings, luck = Findings(), random.Random(options.seed)
    until = time.monotonic() + 60 * options.minutes
    limits = httpx.Limits(max_connections=4 * options.people)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        config = (await client.get("config")).json()
        component = next(each["id"] for each in config["components"] if each["type"] == "html")
        work: list[Awaitable[None]] = [
            browse(url, options.browsers, findings, until),
            watch(process, findings, until),
        ]
        roles: list[Callable[..., Awaitable[None]]] = [sweeper] * options.sweeps
        roles += [learner] * (options.people - options.browsers - options.sweeps)
        for role in roles:
            person = Person(client, component, findings, until)
            work.append(role(person, options.pair, random.Random(luck.random()), until))
        await asyncio.gather(*work)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="", help="a server that runs already; else one is started")
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--browsers", type=int, default=2, help="of the people")
    parser.add_argument("--sweeps", type=int, default=2, help="people who sweep all the time")
    parser.add_argument("--pair", default=BUNDLED)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, default=Path("load-server.log"))
    options = parser.parse_args()
    server = None
    url = options.url if options.url.endswith("/") or not options.url else f"{options.url}/"
    if not url:
        server, url = start_server(options.pair, options.log)
    try:
        findings = asyncio.run(load(options, url, server.pid if server else None))
    finally:
        if server:
            server.send_signal(signal.SIGTERM)
            server.wait(20)
    if server and "Traceback" in options.log.read_text():
        findings.failures["a traceback in the server's log"] += 1
    print(f"{options.people} people, {options.minutes:g} minutes, pair {options.pair}")
    print(findings.report())
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
