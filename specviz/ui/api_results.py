"""What the named endpoints give: their results, put together from the messages of a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypedDict

from specviz.experiments.run.recorder import Recorder
from specviz.records import BASELINE, SPECULATIVE, FinishReason, Prefill, Round, TokenStep
from specviz.trace_file import decode, decode_trace, encode_trace


class Streamed(TypedDict, total=False):
    """What every endpoint that decodes streams: `ahead` runs come first while it waits."""

    state: str
    ahead: int
    warning: str  # where the prompt holds what the model's chat template writes around it


class RaceResult(Streamed, total=False):
    """Both texts, and the numbers of `specviz race --json` so far.

    Once it has ended also `reason`, and `beside` and `waited` as `Trace` has them.
    """

    baseline_text: str
    text: str
    summary: dict[str, Any]
    command: str
    reason: str
    beside: int
    waited: float | None


class TraceResult(Streamed, total=False):
    """A run's whole record, as a trace file holds it, for `specviz.trace_file.decode_trace`."""

    trace: dict[str, Any]


class SweepResult(Streamed, total=False):
    """`plan` and `points` are the lines of a file of `specviz sweep --output`; `noise`: baseline
    over baseline."""

    plan: dict[str, Any]
    points: list[dict[str, Any]]
    noise: list[float]


class AdviceResult(Streamed, total=False):
    """The verdict with its reasons, the expected speedup and its interval, and the ranking."""

    doing: str
    advice: dict[str, Any]


class ProfileResult(Streamed, total=False):
    """Where acceptance is lost: by class of token, depth, place, entropy and prompt."""

    done: int
    profile: dict[str, Any]


class LosslessResult(Streamed, total=False):
    """Distances of the drawn tokens from the target's distribution, with their noise."""

    counts: dict[str, Any]


class TheoryResult(TypedDict):
    """Under independent acceptance; `best` is the draft length of the highest speedup."""

    tokens: float
    accepted: float
    speedup: float
    best: int
    best_speedup: float


class Collector(Protocol):
    """Makes a result of a run's messages."""

    def add(self, message: Mapping[str, Any]) -> None: ...

    def result(self, is_done: bool) -> dict[str, Any]:
        """What there is of it, without `Streamed`."""


class Kept:
    """The last message of a kind, and a field of what is told on the way."""

    def __init__(self, kind: str, told: str = "") -> None:
        """`kind` is also the result's name for it."""
        self._kind, self._told = kind, told
        self._found: dict[str, Any] = {}

    def add(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == self._kind:
            fields = {name: each for name, each in message.items() if name not in ("kind", "seq")}
            self._found[self._kind] = fields
        if message["kind"] == "progress" and self._told:
            self._found[self._told] = message[self._told]

    def result(self, is_done: bool) -> dict[str, Any]:
        return self._found


class SweptPoints:
    """The lines of a sweep's file."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {"points": []}

    def add(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "plan":
                self._found["plan"] = json.loads(message["line"])
            case "point":
                self._found["points"] = [*self._found["points"], json.loads(message["line"])]
            case "noise":
                self._found["noise"] = message["noise"]

    def result(self, is_done: bool) -> dict[str, Any]:
        return self._found


class Texts:
    """A race's texts and numbers so far."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}  # by token id, as JSON has it
        self._ids: dict[str, list[int]] = {BASELINE: [], SPECULATIVE: []}
        self._found: dict[str, Any] = {}

    def add(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "header":
                self._found["command"] = message["command"]
            case "event":
                self._texts |= message["texts"]
                self._ids[message["lane"]] += _emitted(message["type"], message["record"])
            case "summary" | "end":
                self._found["summary"] = message["summary"]
                ending = ("reason", "beside", "waited")
                self._found |= {name: message[name] for name in ending if name in message}

    def result(self, is_done: bool) -> dict[str, Any]:
        texts = {
            lane: "".join(self._texts.get(str(each), "") for each in ids)
            for lane, ids in self._ids.items()
        }
        return {"baseline_text": texts[BASELINE], "text": texts[SPECULATIVE]} | self._found


_RECORDS = {"prefill": Prefill, "round": Round, "step": TokenStep}


def _emitted(kind: str, record: Any) -> Sequence[int]:
    """The tokens that an event's record adds to its lane's text."""
    match kind:
        case "prefill":
            return [record["extra"]["id"]]
        case "step":
            return [record["id"]]
        case "round":
            return decode(Round, record, "round").emitted_ids
    return []


class WholeTrace:
    """The record of a race, put together as the race itself does."""

    def __init__(self) -> None:
        self._header: Any = None
        self._recorder = Recorder()
        self._texts: dict[int, str] = {}

    def add(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == "header":
            self._header = decode_trace(message["trace"])
            self._texts = dict(self._header.token_texts)
        if message["kind"] == "event":
            self._texts |= {int(each): text for each, text in message["texts"].items()}
            kind, record = message["type"], message["record"]
            made = (
                FinishReason(record) if kind == "finish" else decode(_RECORDS[kind], record, kind)
            )
            self._recorder.add(message["lane"], made)
        if message["kind"] == "end":
            measured = {name: message[name] for name in ("beside", "waited")}
            self._header = replace(self._header, **measured)

    def result(self, is_done: bool) -> dict[str, Any]:
        if not is_done or self._header is None:
            return {}
        texts = tuple(sorted(self._texts.items()))
        trace = replace(self._recorder.fill(self._header), token_texts=texts)
        return {"trace": encode_trace(trace)}
