"""Measure the waiting times of forty people who use one server at once: `make load`.

    python -m tests.load_run                              40 people, 10 minutes, the bundled pair
    python -m tests.load_run --people 20 --minutes 2      a rehearsal
    python -m tests.load_run --url http://10.0.0.7:7860   a server that runs already

Most people send the page's requests without drawing anything; a few are real browsers. They start
races (some through the teacher's link, so that they share one race), fork runs, open recordings,
and read and answer a lesson. Two people start one sweep after the other. Between two actions a
person looks at the result for some seconds.

The script prints the waiting times: from the click to the first round, between two rounds, between
two tokens of any lane ("standing still"), for recordings and for lessons. The lane whose clock is
behind moves next, so a long time may pass between two rounds while the other lane catches up. The
script also prints every failure with its message, and the server's memory after the first minute
and at the end. It prints the CPU time of the server, of this script, of its browsers and of all
other programs on the machine. If the other programs take much of the CPU time, measure again. The
exit status is 1 if anything failed.
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

LOOKS = (2.0, 8.0)  # shortest and longest time for which a person looks at a result, in seconds
# How many of the slowest first rounds and of the longest halts between tokens the script lists.
SLOWEST = 5
ARRIVAL_SECONDS = 10.0  # number of seconds within which all people start
SETTLED_SECONDS = 60  # number of seconds after which the server's memory must not grow
TASKS = ("code", "story", "summarise", "translate")
FORKED = "draft-model.code"
BEGUN = """(() => {
  const { trace } = specviz.race.view;
  return trace.header !== window.before && trace.rounds.length > 0;
})()"""


@dataclass
class Findings:
    """The measurements of all people of the load run: waiting times, failures, memory, CPU time."""

    began: float = field(default_factory=time.monotonic)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    # One entry for each first round of a run: the waiting time in seconds, and a text that says
    # what the person waited for and when.
    firsts: list[tuple[float, str]] = field(default_factory=list)
    # One entry for each time that a run stood still: the seconds, and a text that says in which run
    # and when.
    gaps: list[tuple[float, str]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    # The server's memory in bytes, with the seconds since the start.
    memory: list[tuple[float, int]] = field(default_factory=list)
    # Name of a process group -> its CPU seconds.
    processor: dict[str, float] = field(default_factory=dict)

    def add(self, kind: str, seconds: float) -> None:
        """Record one waiting time; `kind` names what the person waited for."""
        self.seconds[kind].append(seconds)
        for ending, slow in (("first round", self.firsts), ("standing still", self.gaps)):
            if kind.endswith(ending):
                at = time.monotonic() - self.began
                slow.append((seconds, f"{kind}, {seconds:.1f} s, {at:.0f} s after the start"))

    def report(self) -> str:
        lines = [f"{'seconds':34} {'count':>6} {'p50':>8} {'p95':>8} {'max':>8}"]
        for name, found in sorted(self.seconds.items()):
            ordered = sorted(found)
            shown = (quantile(ordered, 0.5), quantile(ordered, 0.95), ordered[-1])
            numbers = " ".join(f"{each:8.3f}" for each in shown)
            lines.append(f"{name:34} {len(found):6} {numbers}")
        for slow in (self.firsts, self.gaps):
            lines += [f"slowest {words}" for _, words in sorted(slow)[: -SLOWEST - 1 : -1]]
        done = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        lines.append(f"done: {done}")
        lines.append(f"failures: {sum(self.failures.values())}")
        lines += [f"  {count} x {text}" for text, count in self.failures.most_common()]
        return "\n".join([*lines, self.memory_line(), self.processor_line()])

    def processor_line(self) -> str:
        """Return a line with the CPU use of each process group as a share of one core."""
        elapsed = time.monotonic() - self.began
        shares = (f"{name} {100 * each / elapsed:.0f} %" for name, each in self.processor.items())
        return f"of a core, on {os.cpu_count()} cores: {', '.join(shares)}"

    def memory_line(self) -> str:
        """Return a line with the server's memory after a minute and at the end of the run."""
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
    """Return the number below which about `share` of the sorted numbers are; `share` is 0 to 1."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Person:
    """A person who sends the page's requests without a browser."""

    def __init__(
        self, client: httpx.AsyncClient, component: int, findings: Findings, until: float
    ) -> None:
        """Create a person who stops any running work at the time `until`."""
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
        """Send one request, wait until its work has ended, and record how long that took."""
        began = time.perf_counter()
        try:
            last = moved = None
            async for message in self._messages(name, question):
                now = time.perf_counter()
                if message["kind"] == "error":
                    raise Failed(message["text"])
                if message.get("type") in ("round", "step") and name != "open":
                    if moved is not None:
                        self._findings.add(f"{what}: standing still", now - moved)
                    moved = now
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
                # other people may share the run, so it can continue after this person has stopped
                if not is_over:
                    raise Failed("the run ended without a last message")
                return


class Failed(Exception):
    """Raised with the error message that the server sent instead of a result."""


async def learner(person: Person, pair: str, luck: random.Random, until: float) -> None:
    """Race, fork, open recordings and take a lesson, in random order, until the time `until`."""
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
    """Run one sweep after the other."""
    while time.monotonic() < until:
        form = {"pair": pair, "method": "draft-model", "draft_length": "4", "temperature": "0"}
        form |= {"task": luck.choice(TASKS), "max_new_tokens": "64"}
        axes = [{"name": "draft-length", "values": "1,2,4,8"}]
        prompts = {"count": "2"}
        question = {"what": "sweep", "form": form, "prompts": prompts, "axes": axes, "repeats": "2"}
        await person.run("sweep", "measure", question)


async def browse(url: str, count: int, findings: Findings, until: float) -> None:
    """Race again and again in `count` browser tabs."""
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


def start_server(pair: str, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start `app.py` in a new process as users do, and wait until it has loaded its models.

    The process is not forked from one that has loaded torch, because a forked process decodes with
    different thread settings.
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
    """Return the id of the server's process: the oldest process that writes the log."""
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda each: int(each.name)):
        try:
            if os.path.samefile(process / "fd/1", log):
                return int(process.name)
        except OSError:
            continue
    raise AssertionError("no process writes the log")


def family(process: int) -> Iterator[int]:
    """Yield a process and all running processes that it started."""
    yield process
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def resident_bytes(process: int) -> int:
    """Return the memory of a process and of all processes that it started, in bytes."""
    texts = [Path(f"/proc/{each}/statm").read_text() for each in family(process)]
    return sum(int(text.split()[1]) for text in texts) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(processes: Iterable[int]) -> float:
    """Return the CPU time of these processes in seconds.

    The time of their child processes that have ended is included.
    """
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2] for each in processes]
    ticks = sum(int(each) for text in fields for each in text.split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Return for how many seconds all cores together have been busy since the machine started."""
    user, nice, system, _, _, *interrupts = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, *interrupts))) / os.sysconf("SC_CLK_TCK")


async def watch(process: int | None, findings: Findings, until: float) -> None:
    """Record the server's memory and the CPU time of all process groups every few seconds."""
    began, before = time.monotonic(), processor_seconds([process] if process else [])
    busy = machine_seconds()
    while True:
        mine, here = os.getpid(), [] if process is None else list(family(process))
        browsers = [each for each in family(mine) if each not in (mine, *here)]
        findings.processor = {
            "server": processor_seconds(here) - before,
            "script": time.process_time(),
            "browsers": processor_seconds(browsers),
        }
        others = machine_seconds() - busy - sum(findings.processor.values())
        findings.processor["other programs"] = max(0.0, others)
        if process is not None:
            findings.memory.append((time.monotonic() - began, resident_bytes(process)))
        if time.monotonic() >= until:
            return
        await asyncio.sleep(2)


async def load(options: argparse.Namespace, url: str, process: int | None) -> Findings:
    """Run all people at once, and return the findings."""
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
