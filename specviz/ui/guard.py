"""What stands between network and page: limits on what is sent, headers on what is answered.

One ASGI middleware for every route, Gradio's own included. Knows addresses and sizes, nothing of
what is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from traceback import extract_tb

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.environment import Environment
from specviz.ui.spending import BYTE_SECONDS, PAGE_SECONDS, TOO_MUCH, VALUE_SECONDS, spending
from specviz.ui.visitors import visitor_at

log = logging.getLogger("specviz")
MAX_BODY_BYTES = 48_000_000  # two runs of 16 MB in base64, to be compared
MAX_BODIES_BYTES = 160_000_000  # of all that are under way at once
BODIES_OF_ADDRESS = 64_000_000  # the rest is for others
SMALL_BYTES = 10_000  # a body of at most so much finds room whatever else is under way
MAX_VALUES = 200_000  # of a body's JSON: each becomes an object of its own
CALL_VALUES = 20_000  # of one that Gradio takes apart itself, while nobody else is answered
VALUE_BYTES = 200  # that one takes in memory, at the most; it counts as much among all bodies
PART_BYTES = 64_000  # of an answer that are handed on at once: whoever reads slowly is waited for,
READ_SECONDS = 60.0  # but for each part no longer than this
OPEN_OF_ADDRESS = 600  # questions under way: a whole class asks and waits for news
LARGE_BYTES = 1_000_000  # a body that whoever has asked for much has to wait with
BODY_SECONDS = 60.0  # for a whole body, and
BODY_RATE = 50_000  # bytes, for each of which it has a second more
PER_MINUTE = 6000  # questions of one address, which may be that of a whole class
# routes of Gradio that store what is sent, fetch for others or show the server's inside, and that
# the page has no use for
CLOSED = tuple(
    f"/gradio_api/{name}"
    for name in (
        *("upload", "proxy=", "process_recording", "stream", "custom_component", "dev", "runs"),
        *("run-history", "vibe", "undo-vibe", "deep_link", "profiling"),
    )
)
MCP = "/gradio_api/mcp"  # tools of agents: each call keeps one of the threads that answer
MCP_AT_ONCE = 16  # of everybody's calls, and
MCP_OF_ADDRESS = 4
CLOSED += (f"{MCP}/sse", f"{MCP}/messages")  # its older transport
CLOSED += ("/monitoring", "/custom_component", "/proxy=", "/upload")
# Anything else a page of another site may send without asking first; and of a form Gradio writes
# the files to the disk, where those of one that breaks off stay.
JSON = "application/json"
PAGE_ASKS = "/gradio_api/component_server"  # it hands on what is asked as it is
CALLS = ("/gradio_api/run/", "/gradio_api/api/", "/gradio_api/call/", "/gradio_api/queue/join")
# what Gradio makes anew for whoever asks
MADE = ("/", "/config", "/openapi.json", "/gradio_api/info", "/gradio_api/openapi.json", "/metrics")
# what Gradio reads of an address to find one of several pages or a stored state, of which there are
# none: a link with such a parameter would fail
UNREAD = (b"page=", b"deep_link=")
# Gradio's page has scripts in its HTML and makes functions of texts, so both must be allowed; what
# a script does can reach no other server
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'self' https://huggingface.co https://*.hf.space"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class _Refused(Exception):
    """A body breaks a limit: the status and the sentence of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(slots=True)
class _Bodies:
    """What all questions that are read or worked on now, and answers to them, take in bytes."""

    taken: Counter[str] = field(default_factory=Counter)  # by address

    def have_room(self, visitor: str) -> bool:
        """No address takes more than it leaves: however many send, there is some for one more."""
        left = MAX_BODIES_BYTES - self.taken.total()
        return self.taken[visitor] <= min(BODIES_OF_ADDRESS, left)


class Guard:
    """The middleware; one for the whole app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._bodies = _Bodies()
        self._open: Counter[str] = Counter()  # by address
        self._tools: Counter[str] = Counter()
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["client"] = (_address(scope), 0)  # whom the app counts orders and classes by
        given = scope["query_string"].split(b"&")
        scope["query_string"] = b"&".join(part for part in given if not part.startswith(UNREAD))
        answer = _with_refusals(_with_headers(send))
        if refusal := self._refusal(scope):
            await PlainTextResponse(refusal.text, refusal.status)(scope, receive, answer)
            return
        visitor = scope["client"][0]
        if _path(scope).startswith(MCP):
            _tell_visitor(scope)
        values = MAX_VALUES if _path(scope).startswith(PAGE_ASKS) else CALL_VALUES
        body = _Body(receive, answer, self._bodies, visitor, values)
        under_way = [self._open, *([self._tools] if _is_tool(scope) else [])]
        for each in under_way:
            each[visitor] += 1
        try:
            await self._app(scope, body.receive, body.send)
        except (_Refused, ClientDisconnect):
            pass  # told below, if there is anybody
        except Exception as error:  # Gradio's own, of a question that its page would not send
            if self._limiter.hit(_NOTES):
                _note(scope, error)
            body.refused = body.refused or _Refused(400, "this question cannot be answered")
        finally:
            body.close()
            for each in under_way:
                each[visitor] -= 1
                if not each[visitor]:
                    del each[visitor]
        if body.refused and not body.is_answered:
            told = PlainTextResponse(body.refused.text, body.refused.status)
            await told(scope, receive, answer)

    def _refusal(self, scope: Scope) -> _Refused | None:
        """What can be said before the body is read."""
        path = _path(scope)
        if path.startswith(CLOSED):
            return _Refused(404, "specviz has no use for this")
        headers = Headers(scope=scope)
        if _is_foreign(headers):
            return _Refused(403, "a page of another site may link to this one, but not ask it")
        visitor = scope["client"][0]
        if self._open[visitor] >= OPEN_OF_ADDRESS:
            return _Refused(429, f"at most {OPEN_OF_ADDRESS} questions at once: wait a moment")
        is_full = self._tools.total() >= MCP_AT_ONCE or self._tools[visitor] >= MCP_OF_ADDRESS
        if is_full and _is_tool(scope):
            return _Refused(429, f"at most {MCP_OF_ADDRESS} calls of tools at once: wait a moment")
        is_post = scope["method"] == "POST"
        is_made = path.startswith(CALLS) if is_post else (path.rstrip("/") or "/") in MADE
        if is_made or path.startswith(MCP):
            if spending.is_over(visitor):
                return _Refused(429, TOO_MUCH)
            spending.add(visitor, PAGE_SECONDS)
        if not is_post:
            return None
        kinds = headers.getlist("content-type")
        if not kinds or not all(each.strip().lower().startswith(JSON) for each in kinds):
            return _Refused(415, f"a question must be JSON, and say so (Content-Type: {JSON})")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return _too_large()
        if Environment.read().is_public and not self._limiter.hit(_LIMIT, visitor):
            return _Refused(429, f"at most {PER_MINUTE} questions a minute: wait a moment")
        return None


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _is_foreign(headers: Headers) -> bool:
    """Whether a browser asks for a page of another site. Programs name no origin, nor do links."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is None:
        return False
    if site:  # as new browsers tell where the connection is safe, whatever Host a proxy writes
        return site != "same-origin"
    return origin.partition("://")[2] != headers.get("host")


def _is_tool(scope: Scope) -> bool:
    return scope["method"] == "POST" and _path(scope).startswith(MCP)


def _tell_visitor(scope: Scope) -> None:
    """Gradio asks itself for an agent, by the agent's headers: they must name who really asks."""
    told = (b"x-forwarded-for", scope["client"][0].encode())
    scope["headers"] = [each for each in scope["headers"] if each[0] != told[0]] + [told]


_LIMIT = RateLimitItemPerMinute(PER_MINUTE)
_NOTES = RateLimitItemPerMinute(60)  # nobody fills a disk with what they ask


def _note(scope: Scope, error: Exception) -> None:
    """One line in the log: what failed, and where."""
    where = extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())[:100]
    place = f"{where.filename}:{where.lineno}"
    log.error("%r failed: %s %s (%s)", scope["path"][:100], type(error).__name__, said, place)


def _too_much_sent() -> _Refused:
    return _Refused(503, "too much is being sent: try again in a moment")


def _too_large() -> _Refused:
    return _Refused(413, f"a question must be at most {MAX_BODY_BYTES // 10**6} MB")


def _address(scope: Scope) -> str:
    """Who asks. A Space is reached through its proxy alone, whose word is the header's last."""
    client = scope.get("client") or ("", 0)
    is_told = Environment.read().is_space
    told = Headers(scope=scope).get("x-forwarded-for", "") if is_told else ""
    return visitor_at(told.rpartition(",")[2].strip() or str(client[0]))


class _Body:
    """One request's body as it comes in, and the answer, unless the body breaks a limit."""

    def __init__(
        self, receive: Receive, send: Send, bodies: _Bodies, visitor: str, most_values: int
    ) -> None:
        self._most_values = most_values
        self._visitor = visitor
        self._receive = receive
        self._send = send
        self._bodies = bodies
        self._began = time.monotonic()
        self._size = 0
        self._weight = 0  # what it and its answer count among all that are under way
        self._values = 0
        self._is_whole = False
        self.refused: _Refused | None = None
        self.is_answered = False

    async def receive(self) -> Message:
        if self.refused:
            raise self.refused
        if self._is_whole:  # the app waits for its client to leave
            return await self._receive()
        try:
            ends = self._began + BODY_SECONDS + self._size / BODY_RATE
            message = await asyncio.wait_for(self._receive(), ends - time.monotonic())
        except TimeoutError:
            return self._refuse(_Refused(408, "the question did not come"))
        if message["type"] != "http.request":
            return message
        part = message.get("body", b"")
        values = sum(part.count(mark) for mark in (b",", b"[", b"{"))
        self._size += len(part)
        self._values += values
        self._weigh(len(part) + values * VALUE_BYTES)
        spending.add(self._visitor, len(part) * BYTE_SECONDS + values * VALUE_SECONDS)
        self._is_whole = not message.get("more_body", False)
        if self._size > MAX_BODY_BYTES:
            self._refuse(_too_large())
        if self._values > self._most_values:
            told = f"a question must hold at most {self._most_values} values"
            self._refuse(_Refused(413, told))
        if self._weight > LARGE_BYTES and spending.is_over(self._visitor):
            self._refuse(_Refused(429, TOO_MUCH))
        if self._weight > SMALL_BYTES and not self._bodies.have_room(self._visitor):
            self._refuse(_too_much_sent())
        return message

    def _weigh(self, size: int) -> None:
        self._weight += size
        self._bodies.taken[self._visitor] += size

    async def send(self, message: Message) -> None:
        """The app's answer; one about a body that broke off is not passed on."""
        if message["type"] == "http.response.start" and self._size:
            self._hold_answer(int(Headers(raw=message["headers"]).get("content-length", "0")))
        if self.refused and not self.is_answered:
            return
        self.is_answered = True
        for part in _parts(message):
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await self._send(part)
            except TimeoutError:
                raise ClientDisconnect from None

    def _hold_answer(self, size: int) -> None:
        """What a question with a body is answered with counts until it has been read."""
        if size > SMALL_BYTES and not self._bodies.have_room(self._visitor):
            self.refused = self.refused or _too_much_sent()
            return
        self._weigh(size)

    def close(self) -> None:
        self._bodies.taken[self._visitor] -= self._weight
        if not self._bodies.taken[self._visitor]:
            del self._bodies.taken[self._visitor]

    def _refuse(self, refused: _Refused) -> Message:
        self.refused = refused
        raise refused


def _parts(message: Message) -> Iterator[Message]:
    """An answer in parts: the server would take a whole one into memory for who reads nothing."""
    content, goes_on = message.get("body", b""), message.get("more_body", False)
    last = max(0, len(content) - 1) // PART_BYTES * PART_BYTES
    for start in range(0, last, PART_BYTES):
        yield {**message, "body": content[start : start + PART_BYTES], "more_body": True}
    yield {**message, "body": content[last:], "more_body": goes_on} if last else message


def _with_refusals(send: Send) -> Send:
    """Gradio says of whatever it answers with a sentence that the server failed: 400 is meant."""
    held: list[Message] = []

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 500:
            held.append(message)
            return
        if held:
            is_told = message.get("body", b"").startswith(b'{"error":"')
            await send({**held.pop(), "status": 400 if is_told else 500})
        await send(message)

    return answer


async def unreadable(_: Request, __: Exception) -> Response:
    """For FastAPI, whose own answer holds the question once for each field that is missing."""
    return PlainTextResponse("this question lacks a field, or has one of another kind", 422)


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return answer
