"""The interface to a running server of one engine: its metrics, its version and its answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

# largest number of tokens that is believed if an answer reports it
MOST_COUNTED = 10**9


class Speculation(Enum):
    """The states of an engine: it speculates, it should but does not, or speculation is off."""

    ACTIVE = "active"
    IDLE = "asked for but not active"
    OFF = "off"


class ServerText(Protocol):
    """The answer of a server to one request."""

    @property
    def status(self) -> int: ...
    @property
    def text(self) -> str: ...
    def json(self) -> dict[str, Any]:
        """Return the JSON object in the text, or an empty dictionary if there is none."""


class AskedServer(Protocol):
    """A server to which GET requests can be sent."""

    def get(self, path: str) -> ServerText: ...


class TokenStream(ABC):
    """An engine's requests and streamed answers that contain the ids of tokens.

    `path` is the address of the request. `min_p_first` means that the engine applies min-p before
    top-p. `drafts_past_end` means that it drafts K tokens even if fewer are left to write.

    `model` is a function that asks the server for the name of its model. Only some engines need it.
    """

    path: ClassVar[str]
    min_p_first: ClassVar[bool] = False
    drafts_past_end: ClassVar[bool] = False

    @abstractmethod
    def tokenizing(self, text: str, model: Callable[[], str]) -> dict[str, Any]:
        """Return the request that splits a text into tokens, without special tokens."""

    @abstractmethod
    def request(
        self,
        prompt_ids: Sequence[int],
        tokens: int,
        sampling: Mapping[str, float],
        model: Callable[[], str],
    ) -> dict[str, Any]:
        """Return the request for at most `tokens` tokens.

        `sampling` has temperature, top_k, top_p, min_p and seed; at temperature 0 it has only the
        temperature. If a request leaves a sampling setting out, engines take it from their command
        line or from the model's generation_config.json. specviz's own decoders lack some of these
        settings. Therefore the request contains values that switch them off.
        """

    @abstractmethod
    def ids_in(self, event: Mapping[str, Any]) -> Any:
        """Return the token ids in an event of the stream, or None if it has none."""

    @abstractmethod
    def end_in(self, event: Mapping[str, Any]) -> Any:
        """Return the reason in an event why the answer ends, or None if it goes on."""

    def steps_in(self, event: Mapping[str, Any]) -> tuple[tuple[int, int], ...] | None:
        """Return the numbers of drafted and accepted tokens per draft, if they are reported."""
        return None


class ServerApi(ABC):
    """An engine's metrics in the format of Prometheus, and what else its server reports.

    - `title`: the engine's name in reports and traces.
    - `prefix`: the beginning of the names of its metrics, without the colon.
    - `counters`, `gauges`: fields of `EngineCounters` and `EngineMetrics` -> the names of metrics
      without the prefix. The engine does not report a field that has no name here.
    - `per_position`: the metric that counts accepted tokens at each position of a draft, or "".
    - `caveat`: a sentence for an engine whose metrics are known only from its source code, or "".
    - `metrics_off`: status of an answer without metrics -> the sentence about the server.
    - `request_fields`: fields of a request to /v1/completions that only this engine needs.
    - `stream`: the engine's stream of token ids, or None if it reports none.
    """

    title: ClassVar[str]
    prefix: ClassVar[str]
    counters: ClassVar[Mapping[str, str]]
    gauges: ClassVar[Mapping[str, str]]
    per_position: ClassVar[str] = ""
    caveat: ClassVar[str] = ""
    metrics_off: ClassVar[Mapping[int, str]] = {}
    request_fields: ClassVar[Mapping[str, Any]] = {}
    stream: ClassVar[TokenStream | None] = None

    @abstractmethod
    def version(self, server: AskedServer) -> str:
        """Return the version that the server reports, or "" if it reports none."""

    @abstractmethod
    def drafts_of(self, answer: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return how many tokens were drafted and accepted for one request, or None if unknown."""

    @abstractmethod
    def undrafted(
        self, server: AskedServer, has_counters: bool, is_expected: bool
    ) -> tuple[Speculation, str]:
        """Return the state of a server that has drafted nothing so far, and a sentence about it.

        `has_counters` means that it counts drafts. `is_expected` means that it was started with
        speculation.
        """


def whole_number(value: Any) -> int:
    """Return a count from an engine's answer. Return 0 if the value is not a plausible count."""
    return value if type(value) is int and 0 < value <= MOST_COUNTED else 0


def object_at(answer: Any, *keys: str) -> dict[str, Any]:
    """Return the object at a path of keys, or {} if there is none."""
    for key in keys:
        answer = answer.get(key) if isinstance(answer, dict) else None
    return answer if isinstance(answer, dict) else {}


def missing(is_expected: bool, why: str) -> tuple[Speculation, str]:
    """Return the state of a server without any sign of speculation."""
    return (Speculation.IDLE if is_expected else Speculation.OFF), why
