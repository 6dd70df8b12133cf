"""Questions to a server that may be anything: bounded in time and size, one sentence for a failure.

Redirections are not followed, so that a key goes nowhere but to the address that was typed.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from specviz.errors import InputError, short

ANSWER_SECONDS = 10.0  # for a question; a request that writes tokens has longer
MOST_BYTES = 4_000_000  # of an answer; the metrics of a busy vLLM take a tenth
_KEY_NAME = "SPECVIZ_ENGINE_KEY"
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """Status and text of an answer."""

    status: int
    text: str

    def json(self) -> dict[str, Any]:
        """The object that the text is; empty where it is none."""
        with suppress(ValueError, RecursionError):
            found = json.loads(self.text)
            if isinstance(found, dict):
                return found
        return {}


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where a server is; `key` is sent with every question, and shown nowhere."""

    scheme: str
    host: str
    port: int
    path: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str, key: str = "") -> EngineAddress:
        """Of what was typed, such as http://127.0.0.1:8000 or that with /v1 behind it."""
        rule = "url must be the address of a server, such as http://127.0.0.1:8000"
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise InputError(f"{rule}, got {short(url)}") from None
        if parts.username is not None or parts.password is not None:
            raise InputError(f"url must hold no key: set {_KEY_NAME} instead")
        clean = url.strip().isascii() and url.strip().isprintable() and " " not in url.strip()
        if parts.scheme not in ("http", "https") or not parts.hostname or not clean:
            raise InputError(f"{rule}, got {short(url)}")
        if parts.query or parts.fragment:
            raise InputError("url must end with its path: it has a query or a fragment")
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default, path, key)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def get(self, path: str, seconds: float | None = None) -> ServerAnswer:
        """The answer to GET; InputError where none comes within the bounds.

        So many seconds at most: `ANSWER_SECONDS` if they are not given.
        """
        with self._asked("GET", path, None, seconds or ANSWER_SECONDS) as response:
            return ServerAnswer(response.status, _text(_pieces(response, self)))

    def lines(self, path: str, body: dict[str, Any], seconds: float) -> Generator[str, None, None]:
        """Lines of the answer to a POST, as they come; InputError for a status that is no success.

        The answer has so many seconds in all.
        """
        with self._asked("POST", path, body, seconds) as response:
            if response.status != 200:
                answer = ServerAnswer(response.status, _text(_pieces(response, self)))
                raise InputError(self.refused(path, response.status) + self._reason(answer))
            kept = b""
            for piece in _pieces(response, self):
                *whole, kept = (kept + piece).split(b"\n")
                yield from (line.decode("utf-8", "replace").strip() for line in whole)
            yield kept.decode("utf-8", "replace").strip()

    def ask(self, path: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The object that answers a POST within so many seconds; InputError where none does."""
        answer = ServerAnswer(200, "".join(self.lines(path, body, seconds))).json()
        if not answer:
            raise InputError(f"server at {self} must answer {path} in JSON, but does not")
        return answer

    def refused(self, path: str, status: int) -> str:
        """A sentence for an answer that is no success."""
        if status in (401, 403):
            wanted = "another key than it is sent" if self.key else f"a key, such as {_KEY_NAME}"
            return f"server at {self} wants {wanted}: it answers {path} with status {status}"
        return f"server at {self} must answer {path}, but does with status {status}"

    def _reason(self, answer: ServerAnswer) -> str:
        """What it says of a bad question, in the form of OpenAI's; nothing that holds the key."""
        if answer.status not in (400, 404, 422):
            return ""
        told = answer.json().get("error")
        words = told.get("message") if isinstance(told, dict) else None
        if not isinstance(words, str) or (self.key and self.key in words):
            return ""
        return f": {' '.join(words.split())[:200]}"

    @contextmanager
    def _asked(
        self, method: str, path: str, body: dict[str, Any] | None, seconds: float
    ) -> Iterator[http.client.HTTPResponse]:
        secure = self.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=seconds)
        is_late, sockets = threading.Event(), list[socket.socket]()

        def end() -> None:  # a server may send a byte a second, which no timeout of a socket sees
            is_late.set()
            for each in sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        headers = {"Accept": "*/*", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.connect()
            sockets.append(connection.sock)  # which the connection forgets where the answer ends it
            if is_late.is_set():
                raise TimeoutError
            connection.request(method, f"{self.path}{path}", data, headers)
            yield connection.getresponse()
            if is_late.is_set():
                raise TimeoutError
        except InputError:
            raise
        except Exception as error:  # sockets, TLS and the parser of HTTP each raise their own
            raise InputError(self._failure(error, path, is_late.is_set(), seconds)) from None
        finally:
            timer.cancel()
            connection.close()

    def _failure(self, error: Exception, path: str, is_late: bool, seconds: float) -> str:
        must = f"server at {self} must answer"
        if is_late or isinstance(error, TimeoutError):
            return f"{must} {path} within {seconds:g} s, but does not"
        match error:
            case ConnectionRefusedError():
                return f"{must}, but nothing listens there"
            case socket.gaierror():
                return f"{must}, but no machine has the name {self.host!r}"
            case ssl.SSLError():
                return f"{must} over TLS, but cannot: {error.reason or 'no certificate to trust'}"
            case http.client.IncompleteRead():
                return f"{must} {path}, but ends in the middle of it"
            case http.client.HTTPException():
                return f"{must} {path} in HTTP, but what it sends is none"
            case OSError():
                why = error.strerror or "the connection broke"
                return f"{must} {path}, but: {why}"
        raise error


def _pieces(response: http.client.HTTPResponse, address: EngineAddress) -> Iterator[bytes]:
    """What comes, as it comes; InputError where it is more than `MOST_BYTES`."""
    size = 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > MOST_BYTES:
            most = MOST_BYTES // 1_000_000
            raise InputError(f"server at {address} must answer in {most} MB, but sends more")
        yield piece
    if response.length:  # of what was announced so much is missing
        raise http.client.IncompleteRead(b"", response.length)


def _text(pieces: Iterator[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
