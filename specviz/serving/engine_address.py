"""Send requests to a server of an unknown kind, with limits on time and size.

Every failure becomes an error of one sentence. Redirections are not followed, so the key is sent
only to the address that the user typed.
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

# Time limit in seconds for a simple request. Requests that generate tokens have a longer time
# limit.
ANSWER_SECONDS = 10.0
# Largest size of an answer in bytes. The metrics of a busy vLLM server need a tenth of this size.
MOST_BYTES = 4_000_000
_KEY_NAME = "SPECVIZ_ENGINE_KEY"
_PIECE = 65_536


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    status: int
    text: str

    def json(self) -> dict[str, Any]:
        """Return the JSON object in the answer's text, or an empty dictionary if there is none."""
        with suppress(ValueError, RecursionError):
            found = json.loads(self.text)
            if isinstance(found, dict):
                return found
        return {}


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """The address of a server. `key` is sent with every request and never shown."""

    scheme: str
    host: str
    port: int
    path: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str, key: str = "") -> EngineAddress:
        """Parse an address that a user typed, such as http://127.0.0.1:8000.

        A trailing /v1 is allowed. Raises InputError for anything else, and for an address that
        contains a key.
        """
        rule = "url must be the address of a server, such as http://127.0.0.1:8000"
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError:
            raise InputError(f"{rule}, got {short(url)}") from None
        if parts.username is not None or parts.password is not None:
            raise InputError(f"url must contain no user and no key: set {_KEY_NAME} instead")
        clean = url.strip().isascii() and url.strip().isprintable() and " " not in url.strip()
        if parts.scheme not in ("http", "https") or not parts.hostname or not clean:
            raise InputError(f"{rule}, got {short(url)}")
        if parts.query or parts.fragment:
            raise InputError("url must have no query (?…) and no fragment (#…)")
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        default = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or default, path, key)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def get(self, path: str, seconds: float | None = None) -> ServerAnswer:
        """Return the answer to a GET request.

        Raises InputError if the answer takes longer than `seconds` (default ANSWER_SECONDS) or is
        larger than MOST_BYTES.
        """
        with self._asked("GET", path, None, seconds or ANSWER_SECONDS) as response:
            return ServerAnswer(response.status, _text(_pieces(response, self)))

    def lines(self, path: str, body: dict[str, Any], seconds: float) -> Generator[str, None, None]:
        """Send a POST request and yield the lines of the answer as they arrive.

        The whole answer must arrive within `seconds`. Raises InputError for any status other than
        200.
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
        """Return the JSON object that answers a POST request within `seconds`.

        Raises InputError if the server answers with anything else.
        """
        answer = ServerAnswer(200, "".join(self.lines(path, body, seconds))).json()
        if not answer:
            raise InputError(
                f"server at {self} must answer {path} in JSON, but sends something else"
            )
        return answer

    def refused(self, path: str, status: int) -> str:
        """Return the sentence of an error for an answer with a status other than 200."""
        if status in (401, 403):
            wanted = "another key" if self.key else f"a key, such as the one in {_KEY_NAME}"
            return f"server at {self} needs {wanted}: it answers {path} with status {status}"
        must = f"server at {self} must answer {path} with status 200"
        return f"{must}, but answered with status {status}"

    def _reason(self, answer: ServerAnswer) -> str:
        """Return the reason that the server gives for an error, in OpenAI's format.

        Return "" if there is no reason, or if the reason contains the key.
        """
        if answer.status not in (400, 404, 422):
            return ""
        error = answer.json().get("error")
        words = error.get("message") if isinstance(error, dict) else None
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

        # The timeout of a socket begins again with every byte, so it never ends an answer that
        # arrives slowly, byte by byte. This timer limits the whole answer.
        def end() -> None:
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
            # Keep the socket for the timer, because the connection forgets it when it has read the
            # answer's headers.
            sockets.append(connection.sock)
            if is_late.is_set():
                raise TimeoutError
            connection.request(method, f"{self.path}{path}", data, headers)
            yield connection.getresponse()
            if is_late.is_set():
                raise TimeoutError
        except InputError:
            raise
        # Sockets, TLS and the HTTP parser each raise errors of their own kinds.
        except Exception as error:
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
                return f"{must}, but no host has the name {self.host!r}"
            case ssl.SSLError():
                return f"{must} over TLS, but cannot: {error.reason or 'no certificate to trust'}"
            case http.client.IncompleteRead():
                return f"{must} {path}, but its answer stops in the middle"
            case http.client.HTTPException():
                return f"{must} {path} in HTTP, but sends something else"
            case OSError():
                why = error.strerror or "the connection broke"
                return f"{must} {path}, but: {why}"
        raise error


def _pieces(response: http.client.HTTPResponse, address: EngineAddress) -> Iterator[bytes]:
    """Yield the pieces of an answer as they arrive.

    Raises InputError if the answer is larger than MOST_BYTES.
    """
    size = 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > MOST_BYTES:
            most = MOST_BYTES // 1_000_000
            raise InputError(
                f"server at {address} must answer with at most {most} MB, but sends more"
            )
        yield piece
    if response.length:  # the connection ended before the whole answer had arrived
        raise http.client.IncompleteRead(b"", response.length)


def _text(pieces: Iterator[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
