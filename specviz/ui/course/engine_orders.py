"""Exercises with a real engine: llama.cpp runs for a few requests and is then closed.

Each job ends with the message `end`. The docstring of the job's class lists its other messages.
Other work on the machine can only add time, so a job times every server in several passes. Every
second pass takes the servers in reverse order, so that a slow drift of the machine affects all of
them alike.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from specviz.commands.compare_command import SideBySide, side_by_side
from specviz.decoding.drafters.registry import method_named
from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.experiments.run.racing import RaceRequest
from specviz.models.files.gguf_export import export_gguf
from specviz.models.files.survey import survey_model
from specviz.models.pair_catalog import BUNDLED, CHAT, Pair, pair_named
from specviz.prompts import held_out_rows
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import EngineCounters
from specviz.serving.engine_load import load_level
from specviz.serving.engine_probe import model_at, probe, read_engine
from specviz.serving.llama_cpp.llama_cpp_process import ENGINE, NOT_INSTALLED, is_installed, serving
from specviz.serving.llama_cpp.token_completion import agreeing, complete, look_seconds
from specviz.slices import until_stopped
from specviz.ui.lab.lab_order import LabOrder
from specviz.ui.messages import Message

PASSES = 4
TASK = "story"


def no_engine() -> str:
    """Return why this server cannot start an engine, or "" if it can.

    The reason is "public" on a public server, and "missing" if llama.cpp is not installed.
    """
    if Environment.read().is_public:
        return "public"
    return "" if is_installed() else "missing"


def _check_engine() -> None:
    why = no_engine()
    if why:
        is_public = f"engine {ENGINE} must be started on a machine of your own: this one is public"
        raise InputError(is_public if why == "public" else NOT_INSTALLED)


@dataclass(frozen=True, slots=True)
class EngineOrder(LabOrder):
    """A job of an exercise that starts servers; it sends `points` messages of kind `progress`."""

    title: ClassVar[str] = "an exercise"

    served: Pair

    @property
    def pair(self) -> Pair:
        return self.served

    def messages(self, stop: threading.Event) -> Generator[Message]:
        done = count(1)
        with ExitStack() as opened:  # the stack closes the servers, also after an error
            for found in until_stopped(self.measured(opened), stop):
                yield found or {"kind": "progress", "done": next(done), "points": self.points}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}

    @property
    @abstractmethod
    def points(self) -> int:
        """Return how many measurements `measured` makes."""

    @abstractmethod
    def measured(self, opened: ExitStack) -> Generator[Message | None]:
        """Make all measurements of this job; `opened` closes the servers that they start.

        Yield None after each measurement, so that the caller can report progress. At the end, yield
        the message with the result.
        """


def _folder(opened: ExitStack) -> Path:
    return Path(opened.enter_context(TemporaryDirectory(prefix="specviz-gguf-")))


KINDS = ("F16", "Q8_0", "Q4_0")
DRAFTED = "drafted"  # name of the server that runs the F16 target with the Q4_0 model as its draft
MODELS = (BUNDLED, CHAT)
LENGTH = 4
TEXTS, TOKENS = 3, 32


@dataclass(frozen=True, slots=True)
class QuantisedOrder(EngineOrder):
    """A job that measures a target as F16, as Q8_0, as Q4_0, and as F16 with Q4_0 as its draft.

    Its message `quantised` has:

    - for each server, the number of tokens that it wrote, and the seconds of every pass
    - for each format, the size of the model's file in bytes, and at how many positions the model
      chooses the same token as in F16
    - the engine's counters of drafted and accepted tokens
    - the seconds of an F16 forward over one token and over LENGTH + 1 tokens
    """

    @property
    def points(self) -> int:
        return 2 * len(KINDS) + 1 + PASSES * (len(KINDS) + 1) + len(KINDS)

    def measured(self, opened: ExitStack) -> Generator[Message | None]:
        folder = _folder(opened)
        files: dict[str, Path] = {}
        for kind in KINDS:
            files[kind] = export_gguf(self.served.target, folder, kind)
            yield None
        servers: dict[str, EngineAddress] = {}
        for name in (*KINDS, DRAFTED):
            engine = opened.enter_context(serving(_quantised(name, files), engine_threads()))
            servers[name] = EngineAddress.of(engine.url)
            yield None
        prompts = self._prompts()
        for each in servers.values():
            # A server's first request pays one-time costs, so the first request is not timed.
            complete(each, prompts[0], 2)
        texts: dict[str, list[Sequence[int]]] = {}
        seconds: dict[str, list[float]] = {name: [] for name in servers}
        counters = EngineCounters()
        for turn in range(PASSES):
            before = read_engine(servers[DRAFTED]).counters
            for name in list(servers)[:: -1 if turn % 2 else 1]:
                written = [complete(servers[name], each, TOKENS) for each in prompts]
                texts[name] = [each.ids for each in written]
                seconds[name].append(sum(each.seconds for each in written))
                yield None
            counters = read_engine(servers[DRAFTED]).counters.since(before)
        agreed: dict[str, int] = {}
        for kind in KINDS:
            pairs = zip(prompts, texts["F16"], strict=True)
            agreed[kind] = sum(agreeing(servers[kind], *each) for each in pairs)
            yield None
        looks = [
            look_seconds(servers["F16"], prompts[0], texts["F16"][0], size)
            for size in (1, LENGTH + 1)
        ]
        yield {
            "kind": "quantised",
            "model": self.served.model_name("target"),
            "length": LENGTH,
            "texts": len(prompts),
            "bytes": {kind: file.stat().st_size for kind, file in files.items()},
            "tokens": {name: sum(map(len, each)) for name, each in texts.items()},
            "seconds": seconds,
            "agreed": agreed,
            "is_same": texts[DRAFTED] == texts["F16"],
            "drafts": _counted(counters),
            "looks": looks,
        }

    def _prompts(self) -> list[list[int]]:
        codec = survey_model(self.served.target, Environment.read()).codec
        rows = held_out_rows(TASK, TEXTS, is_chat=self.served.instruct)
        return [codec.encode(each, TASK) for each in rows]


def _quantised(name: str, files: Mapping[str, Path]) -> ModelDeployment:
    if name != DRAFTED:
        return ModelDeployment(target=str(files[name]))
    return _drafted(str(files["F16"]), str(files["Q4_0"]), LENGTH)


def _drafted(target: str, draft: str, length: int, **fields: Any) -> ModelDeployment:
    """Return a deployment that always drafts `length` tokens, even if the draft is unsure."""
    return ModelDeployment(
        target=target,
        draft=draft,
        method=EngineMethod.DRAFT_MODEL,
        draft_tokens=length,
        min_probability=0.0,
        **fields,
    )


def engine_threads() -> int:
    """Return the threads of each server: one, unless SPECVIZ_THREADS sets a number."""
    return Environment.read().threads or 1


def _counted(counters: EngineCounters) -> dict[str, Any]:
    names = ("drafts", "drafted", "accepted", "tokens", "per_position")
    return {name: asdict(counters)[name] for name in names}


def quantised_order(question: Mapping[str, Any]) -> QuantisedOrder:
    """Return the job for the question {"model": one of MODELS}.

    Raises InputError if the chat model is not on this machine.
    """
    _check_engine()
    name = str(question["model"])
    if name not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {short(name)}")
    pair = pair_named(name)
    if not pair.is_here:
        raise InputError(f"model must be on this machine: {pair.note}")
    return QuantisedOrder(pair)


# A task that is so hard for the draft that speculation stops paying at a moderate load.
TEXTS_OF = "summarise"
AHEAD = 3
AT_ONCE = (1, 2, 4, 8, 16)
COMPARED = 4  # number of different prompts that the requests at each load level use
SHORT = 32  # tokens that each request writes
# A server without a draft, one with the bundled draft, and one whose draft has another vocabulary.
SERVERS = ("plain", "draft", "foreign")


@dataclass(frozen=True, slots=True)
class ServersOrder(EngineOrder):
    """A job that serves the same target with and without a draft.

    Its message `servers` has each server's health and counters, and a comparison of the engine's
    drafts with the drafts of specviz. For each number of concurrent requests, the message has the
    tokens per second of both servers in every pass.
    """

    @property
    def points(self) -> int:
        return 2 * len(SERVERS) + COMPARED + len(AT_ONCE) * PASSES * 2

    def measured(self, opened: ExitStack) -> Generator[Message | None]:
        deployments = self._deployments(_folder(opened))
        servers: dict[str, EngineAddress] = {}
        probes = []
        for name, deployment in deployments.items():
            engine = opened.enter_context(serving(deployment, engine_threads(), in_float32=True))
            servers[name] = EngineAddress.of(engine.url)
            yield None
            probes.append(_probed(name, servers[name]) | {"refusal": engine.refusal()})
            yield None
        compared = []
        for request in self._requests():
            compared.append(side_by_side(request, servers["draft"], ENGINE))
            yield None
        levels = []
        for at_once in AT_ONCE:
            levels.append((yield from _level(servers, at_once)))
        yield {
            "kind": "servers",
            "model": self.served.model_name("target"),
            "length": AHEAD,
            "servers": probes,
            "compared": _together(compared),
            "levels": levels,
        }

    def _deployments(self, folder: Path) -> dict[str, ModelDeployment]:
        target = str(export_gguf(self.served.target, folder))
        draft = str(export_gguf(self.served.draft, folder, target=self.served.target))
        more: dict[str, Any] = {"max_batch": max(AT_ONCE), "max_length": 512}
        found = {
            "plain": ModelDeployment(target=target, **more),
            "draft": _drafted(target, draft, AHEAD, **more),
        }
        (folder / "other").mkdir()
        other = export_gguf(self.served.foreign_draft, folder / "other", target=self.served.target)
        return found | {"foreign": _drafted(target, str(other), AHEAD)}

    def _requests(self) -> list[RaceRequest]:
        config = method_named("draft-model").usual(AHEAD, max_new_tokens=SHORT)
        prompts = held_out_rows(TEXTS_OF, COMPARED)
        first = RaceRequest(self.served, prompts[0], config, TEXTS_OF, "cpu")
        return [replace(first, prompt=each) for each in prompts]


def _probed(name: str, address: EngineAddress) -> dict[str, Any]:
    found = probe(address, is_expected=name != "plain")
    return {
        "name": name,
        "health": str(address.get("/health").json().get("status", "")),
        "state": found.speculation.value,
        **_counted(found.metrics.counters),
    }


def _together(compared: Sequence[SideBySide]) -> dict[str, Any]:
    sides = {
        "ours": EngineCounters.total([each.ours for each in compared]),
        "theirs": EngineCounters.total([each.theirs for each in compared]),
    }
    return {
        "prompts": len(compared),
        "same": sum(not each.difference for each in compared),
        **{name: _counted(side) for name, side in sides.items()},
    }


def _level(
    servers: Mapping[str, EngineAddress], at_once: int
) -> Generator[None, None, dict[str, Any]]:
    """Measure both servers with `at_once` requests at the same time.

    Yield None after every measurement. Return the tokens per second of every pass, and the
    acceptance of the drafts.
    """
    rows = held_out_rows(TEXTS_OF, COMPARED)
    # Every load level decodes the same prompts. The acceptance is then the same at all levels.
    prompts = rows * max(1, at_once // COMPARED)
    rates: dict[str, list[float]] = {"plain": [], "draft": []}
    acceptance = None
    for turn in range(PASSES):
        for name in list(rates)[:: -1 if turn % 2 else 1]:
            address = servers[name]
            level = load_level(address, model_at(address), prompts, at_once, SHORT)
            rates[name].append(level.tokens_per_second)
            acceptance = level.draft_utilization or acceptance
            yield None
    return {"at_once": at_once, **rates, "acceptance": acceptance}


def servers_order(_: Mapping[str, Any]) -> ServersOrder:
    """Return the job that serves the bundled pair with and without a draft."""
    _check_engine()
    return ServersOrder(pair_named(BUNDLED))
