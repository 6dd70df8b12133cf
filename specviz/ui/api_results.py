"""The results of the named endpoints, assembled from the messages of a run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypedDict

from specviz.experiments.run.recorder import Recorder
from specviz.records import BASELINE, SPECULATIVE, FinishReason, Prefill, Round, TokenStep
from specviz.trace_file import decode, decode_trace, encode_trace


class Streamed(TypedDict, total=False):
    """The fields that every decoding endpoint streams.

    While the call waits, `ahead` is the number of runs before it.
    """

    state: str
    ahead: int
    # Warns that the prompt contains tokens of the model's chat template; missing if it has none.
    warning: str


class RaceResult(Streamed, total=False):
    """The texts of both lanes so far, and `summary`: the numbers that `specviz race --json` prints.

    The final result also has `reason` (why the race ended), `beside` (how many other runs took
    turns with it) and `waited` (the share of its time in which other work used the processor; null
    if it is negligible or unknown).
    """

    baseline_text: str
    text: str
    summary: dict[str, Any]
    command: str
    reason: str
    beside: int
    waited: float | None


class TraceResult(Streamed, total=False):
    """The whole record of a run, as in a trace file; `specviz.trace_file.decode_trace` reads it."""

    trace: dict[str, Any]


class SweepResult(Streamed, total=False):
    """The plan and the points of a sweep, as in a file of `specviz sweep --output`.

    To measure noise, the sweep times the baseline several times under the same conditions. Each
    number in `noise` is the speed in one of these measurements divided by the speed in another.
    """

    plan: dict[str, Any]
    points: list[dict[str, Any]]
    noise: list[float]


class AdviceResult(Streamed, total=False):
    """The advice: its verdict with reasons, the expected speedup with its interval, the ranking."""

    doing: str
    advice: dict[str, Any]


class ProfileResult(Streamed, total=False):
    """The counts of accepted drafts by token class, depth, position, entropy and prompt."""

    done: int
    profile: dict[str, Any]


class LosslessResult(Streamed, total=False):
    """How far the drawn tokens are from the target's distribution, and the noise of sampling."""

    counts: dict[str, Any]


class TheoryResult(TypedDict):
    """Theory's prediction if each token is accepted independently; `best` is the fastest length."""

    tokens: float
    accepted: float
    speedup: float
    best: int
    best_speedup: float


class Collector(Protocol):
    """An object that builds a result from the messages of a run."""

    def add(self, message: Mapping[str, Any]) -> None: ...

    def result(self, is_done: bool) -> dict[str, Any]:
        """Return the result so far, without the fields of `Streamed`."""


class Kept:
    """A collector that keeps the last message of one kind.

    It also keeps one field of the progress messages.
    """

    def __init__(self, kind: str, progress_field: str = "") -> None:
        """Start without messages.

        `kind` is the kind of message to keep, and `progress_field` the field of the progress
        messages ("" keeps none).
        """
        self._kind, self._progress_field = kind, progress_field
        self._found: dict[str, Any] = {}

    def add(self, message: Mapping[str, Any]) -> None:
        if message["kind"] == self._kind:
            fields = {name: each for name, each in message.items() if name not in ("kind", "seq")}
            self._found[self._kind] = fields
        if message["kind"] == "progress" and self._progress_field:
            self._found[self._progress_field] = message[self._progress_field]

    def result(self, is_done: bool) -> dict[str, Any]:
        return self._found


class SweptPoints:
    """A collector of a sweep's plan, points and noise, from the lines of its file."""

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
    """A collector of the texts and numbers of a race."""

    def __init__(self) -> None:
        # Token id -> text. The ids are texts, because the keys of a JSON object are texts.
        self._texts: dict[str, str] = {}
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
    """Return the ids of the tokens that an event adds to the text of its lane."""
    match kind:
        case "prefill":
            return [record["extra"]["id"]]
        case "step":
            return [record["id"]]
        case "round":
            return decode(Round, record, "round").emitted_ids
    return []


class WholeTrace:
    """A collector that builds the whole trace of a race from the messages of the race."""

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
