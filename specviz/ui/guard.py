"""The guard between the network and the page: it limits requests and adds headers to answers.

It is one ASGI middleware for every route, including Gradio's own. It knows addresses and sizes, not
the content of questions.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from traceback import extract_tb

from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.environment import Environment
from specviz.errors import is_fault, short
from specviz.ui.served_routes import RouteTable, Use
from specviz.ui.site_names import name_refusal, page_refusal
from specviz.ui.spending import BYTE_SECONDS, PAGE_SECONDS, TOO_MUCH, VALUE_SECONDS, spending
from specviz.ui.visitors import VisitorCounts, accounts_of, visitor_at

log = logging.getLogger("specviz")
# The largest size of a request body in bytes. It is enough for two runs of 16 MB in base64, which
# the page compares.
MAX_BODY_BYTES = 48_000_000
MAX_BODIES_BYTES = 160_000_000  # largest total size in bytes of all requests in progress
# Largest total size in bytes of the requests in progress from one address.
BODIES_OF_ADDRESS = 64_000_000
# A body of at most this size in bytes is accepted even if the other requests in progress already
# have too many bytes.
SMALL_BYTES = 10_000
MAX_VALUES = 200_000  # largest number of values in a body's JSON; each becomes a Python object
# The largest number of values in a call that Gradio parses itself. While Gradio parses a call, the
# server answers nobody else.
CALL_VALUES = 20_000
# Memory in bytes that each value of a body is assumed to take in the total of all bodies.
VALUE_BYTES = 200
PART_BYTES = 64_000  # size of the chunks in which an answer is sent
# Longest time in seconds that a slow reader may take for one chunk of an answer.
READ_SECONDS = 60.0
# The largest number of requests in progress from one address, which all students of a class may
# share.
OPEN_OF_ADDRESS = 600
# The largest size in bytes of a request body from a visitor who has used up the budget of processor
# time.
LARGE_BYTES = 1_000_000
# A request body must arrive within BODY_SECONDS, plus one second for every BODY_RATE bytes of it.
BODY_SECONDS = 60.0
BODY_RATE = 50_000
# The largest number of requests per minute from one address, which all students of a class may
# share.
PER_MINUTE = 6000
MCP_AT_ONCE = 16  # largest number of tool calls at the same time; each occupies one thread
MCP_OF_ADDRESS = 4
# The only accepted content type. A page of another site can send some other content types without a
# preflight request. Gradio would also write the files in an HTML form to disk, and files of an
# interrupted upload would stay there.
JSON = "application/json"
EVENTS = "text/event-stream"
# The events of which Gradio sends one if a program asks for the result of a call that the server no
# longer stores.
UNKNOWN_CALL = (
    b'event: error\ndata: "404: Not Found"\n\n',
    b'data: {"msg":"unexpected_error","event_id":null,"message":"404: Not Found"',
)
NO_CALL = b"this call is no longer stored: its result was fetched, or newer calls replaced it"
# The texts of FastAPI's and Gradio's errors about a body that they cannot parse.
UNPARSED = ("There was an error parsing the body", "Invalid JSON body.")
NO_JSON = (
    "the body must be JSON in UTF-8 without deep nesting, and its numbers must have at most "
    f"{sys.int_info.default_max_str_digits:,} digits"
)
# Gradio reads these parameters to find one of several pages or a stored state. This app has
# neither, so a link with such a parameter would fail.
UNREAD = (b"page=", b"deep_link=")
# Gradio's page has inline scripts and builds functions from texts, so both must be allowed. A
# script can contact no other server.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; "
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


def headers_of(environment: Environment) -> dict[str, str]:
    """Return the headers of every answer, which say which sites may show this app in a frame.

    Pages of this server always may. On a Space, huggingface.co and pages under the host name of the
    Space may as well.
    """
    shown_by = "frame-ancestors 'self'"
    if environment.is_space:
        shown_by += " https://huggingface.co"
    if environment.space_host:
        shown_by += f" https://{environment.space_host}"
    return HEADERS | {"Content-Security-Policy": POLICY + shown_by}


class _Refused(Exception):
    """A refusal of a request that breaks a limit: the HTTP status and the text of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(slots=True)
class _Bodies:
    """The bytes of all requests that are being read or answered, and of their answers."""

    # bytes of the requests and answers in progress of each visitor
    taken: VisitorCounts = field(default_factory=VisitorCounts)

    def have_room(self, visitor: str) -> bool:
        """Return whether this visitor's address may send more bytes.

        Two limits apply to the bytes of its requests in progress: BODIES_OF_ADDRESS, and the number
        of bytes that are still free for all addresses together.
        """
        left = MAX_BODIES_BYTES - self.taken.total()
        return self.taken[visitor] <= min(BODIES_OF_ADDRESS, left)


class Guard:
    """The ASGI middleware that limits requests; the app has one."""

    def __init__(self, app: ASGIApp, routes: RouteTable | None = None) -> None:
        self._app = app
        self._routes = routes or RouteTable()
        self._bodies = _Bodies()
        # Numbers of requests, and of tool calls, that each visitor has in progress.
        self._open = VisitorCounts()
        self._tools = VisitorCounts()
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The page uses no websocket, so the guard closes every one.
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The app counts the jobs and classes of this address.
        scope["client"] = (_address(scope), 0)
        given = scope["query_string"].split(b"&")
        scope["query_string"] = b"&".join(part for part in given if not part.startswith(UNREAD))
        environment = Environment.read()
        answer = _with_refusals(_with_sentence(_with_headers(send, headers_of(environment))))
        use = self._routes.use_of(scope["method"], _path(scope))
        if refusal := self._refusal(scope, use, environment):
            await PlainTextResponse(refusal.text, refusal.status)(scope, receive, answer)
            return
        visitor = scope["client"][0]
        if use is Use.TOOL:
            _tell_visitor(scope)
        values = MAX_VALUES if use is Use.PAGE else CALL_VALUES
        body = _Body(receive, answer, self._bodies, visitor, values)
        under_way = [self._open, *([self._tools] if _calls_tool(scope, use) else [])]
        for each in under_way:
            each.add(visitor)
        try:
            await self._app(scope, body.receive, body.send)
        except (_Refused, ClientDisconnect):
            pass  # the code below sends the refusal, if the client is still connected
        # Gradio raises an error for some requests that its page never sends.
        except BaseException as error:
            if not is_fault(error):
                raise
            if not isinstance(error.__cause__, HTTPException) and self._limiter.hit(_NOTES):
                _note(scope, error)
            if body.is_stream:  # Gradio has already sent the error in its stream of events
                await body.send({"type": "http.response.body", "body": b"", "more_body": False})
            body.refused = body.refused or _Refused(400, "this question cannot be answered")
        finally:
            body.close()
            for each in under_way:
                each.add(visitor, -1)
        if body.refused and not body.is_answered:
            response = PlainTextResponse(body.refused.text, body.refused.status)
            await response(scope, receive, answer)

    def _refusal(self, scope: Scope, use: Use | None, environment: Environment) -> _Refused | None:
        """Return the refusal of a request before its body is read; None if nothing is wrong."""
        if use is None:
            return _Refused(404, "specviz has no such page")
        headers = Headers(scope=scope)
        if use is not Use.FILE:  # any site may load a file, because files hold no secrets
            problem = name_refusal(headers, environment) or page_refusal(headers, environment)
            if problem:
                return _Refused(403, problem)
        visitor = scope["client"][0]
        if self._open[visitor] >= OPEN_OF_ADDRESS:
            return _Refused(429, f"at most {OPEN_OF_ADDRESS} questions at once: wait a moment")
        is_full = self._tools.total() >= MCP_AT_ONCE or self._tools[visitor] >= MCP_OF_ADDRESS
        if is_full and _calls_tool(scope, use):
            return _Refused(429, f"at most {MCP_OF_ADDRESS} calls of tools at once: wait a moment")
        if use in (Use.MADE, Use.TOOL):
            if spending.is_over(visitor):
                return _Refused(429, TOO_MUCH)
            spending.add(visitor, PAGE_SECONDS)
        return self._body_refusal(scope, headers, environment)

    def _body_refusal(
        self, scope: Scope, headers: Headers, environment: Environment
    ) -> _Refused | None:
        """Return the refusal of a POST request, or None if the request is accepted.

        A request is refused if its headers break a rule, or if its address has sent too many
        requests in this minute. Requests with other methods than POST are never refused here.
        """
        if scope["method"] != "POST":
            return None
        kinds = headers.getlist("content-type")
        if not kinds or not all(each.strip().lower().startswith(JSON) for each in kinds):
            return _Refused(415, f"a question must be JSON, and say so (Content-Type: {JSON})")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return _too_large()
        if environment.is_public:
            for name, visitors in accounts_of(scope["client"][0]).items():
                most = PER_MINUTE * visitors
                if not self._limiter.hit(RateLimitItemPerMinute(most), name):
                    return _Refused(429, f"at most {most} questions a minute: wait a moment")
        return None


def _path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _calls_tool(scope: Scope, use: Use | None) -> bool:
    return use is Use.TOOL and scope["method"] == "POST"


def _tell_visitor(scope: Scope) -> None:
    """Write the visitor's address into the headers.

    If an agent calls a tool, Gradio itself sends a second request to this server. Without the
    header, this second request would seem to come from this machine.
    """
    header = (b"x-forwarded-for", scope["client"][0].encode())
    scope["headers"] = [each for each in scope["headers"] if each[0] != header[0]] + [header]


# Limits the lines in the log, so that requests cannot fill the disk.
_NOTES = RateLimitItemPerMinute(60)


def _note(scope: Scope, error: BaseException) -> None:
    where = extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())[:100]
    place = f"{where.filename}:{where.lineno}"
    log.error("%r failed: %s %s (%s)", scope["path"][:100], type(error).__name__, said, place)


def _too_much_sent() -> _Refused:
    return _Refused(503, "this server is receiving too much data: try again in a moment")


def _too_large() -> _Refused:
    return _Refused(413, f"a question must be at most {MAX_BODY_BYTES // 10**6} MB")


def _address(scope: Scope) -> str:
    """Return the visitor's address.

    On a Space, a proxy writes this address as the last entry of the header X-Forwarded-For.
    """
    client = scope.get("client") or ("", 0)
    has_proxy = Environment.read().is_space
    forwarded = Headers(scope=scope).get("x-forwarded-for", "") if has_proxy else ""
    return visitor_at(forwarded.rpartition(",")[2].strip() or str(client[0]))


class _Body:
    """The body of one request and the answer to it, both while they are transferred.

    If the body or the answer breaks a limit, the request is refused.
    """

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
        self._weight = 0  # bytes of this body and its answer, counted in the total of all bodies
        self._values = 0
        self._is_whole = False
        self.refused: _Refused | None = None
        self.is_answered = False
        self.is_stream = False  # True if the answer to this request is a stream of events

    async def receive(self) -> Message:
        if self.refused:
            raise self.refused
        # The body is complete, so the app only waits for the client to disconnect.
        if self._is_whole:
            return await self._receive()
        try:
            ends = self._began + BODY_SECONDS + self._size / BODY_RATE
            message = await asyncio.wait_for(self._receive(), ends - time.monotonic())
        except TimeoutError:
            return self._refuse(_Refused(408, "the question took too long to arrive"))
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
            rule = f"a question must hold at most {self._most_values} values"
            self._refuse(_Refused(413, rule))
        if self._weight > LARGE_BYTES and spending.is_over(self._visitor):
            self._refuse(_Refused(429, TOO_MUCH))
        if self._weight > SMALL_BYTES and not self._bodies.have_room(self._visitor):
            self._refuse(_too_much_sent())
        return message

    def _weigh(self, size: int) -> None:
        self._weight += size
        self._bodies.taken.add(self._visitor, size)

    async def send(self, message: Message) -> None:
        """Send the app's answer, unless the request's body was refused."""
        if message["type"] == "http.response.start" and self._size:
            self._hold_answer(int(Headers(raw=message["headers"]).get("content-length", "0")))
        if self.refused and not self.is_answered:
            return
        self.is_answered = True
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            self.is_stream = kind.startswith(EVENTS)
        for part in _parts(message):
            try:
                async with asyncio.timeout(READ_SECONDS):
                    await self._send(part)
            except TimeoutError:
                raise ClientDisconnect from None

    def _hold_answer(self, size: int) -> None:
        """Count the bytes of an answer until the client has read it.

        If the bytes break a limit of `_Bodies`, refuse the request.
        """
        if size > SMALL_BYTES and not self._bodies.have_room(self._visitor):
            self.refused = self.refused or _too_much_sent()
            return
        self._weigh(size)

    def close(self) -> None:
        self._bodies.taken.add(self._visitor, -self._weight)

    def _refuse(self, refused: _Refused) -> Message:
        self.refused = refused
        raise refused


def _parts(message: Message) -> Iterator[Message]:
    """Divide an answer into chunks, and yield them.

    Without chunks, the server would keep the whole answer in memory until a slow reader has
    received all of it.
    """
    content, goes_on = message.get("body", b""), message.get("more_body", False)
    last = max(0, len(content) - 1) // PART_BYTES * PART_BYTES
    for start in range(0, last, PART_BYTES):
        yield {**message, "body": content[start : start + PART_BYTES], "more_body": True}
    yield {**message, "body": content[last:], "more_body": goes_on} if last else message


def _with_refusals(send: Send) -> Send:
    """Return a `send` that changes the status of Gradio's error sentences from 500 to 400."""
    held: list[Message] = []

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 500:
            held.append(message)
            return
        if held:
            is_sentence = message.get("body", b"").startswith(b'{"error":"')
            await send({**held.pop(), "status": 400 if is_sentence else 500})
        await send(message)

    return answer


def _with_sentence(send: Send) -> Send:
    """Return a `send` that changes Gradio's answer to an unknown call.

    It writes a whole sentence in place of "404: Not Found".
    """

    async def answer(message: Message) -> None:
        content = message.get("body", b"")
        if content.startswith(UNKNOWN_CALL):
            message = {**message, "body": content.replace(b"404: Not Found", NO_CALL, 1)}
        await send(message)

    return answer


async def unreadable(_: Request, error: Exception) -> Response:
    """Answer a question whose fields are invalid with one sentence about the first of them.

    FastAPI's own answer would repeat the whole question for every missing field.
    """
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    place = [part for part in fault["loc"] if isinstance(part, str) and part != "body"]
    name = repr(place[-1][:40]) if place else "the body"
    rule = fault["msg"].removeprefix("Input should be ").partition(",")[0]
    sentence = f"{name} must be {rule}, got {short(fault.get('input'))}"
    if fault["type"] == "json_invalid":
        sentence = NO_JSON
    elif fault["type"] == "missing":
        sentence = f"{name} must be given in the request, got nothing"
    elif not place:
        sentence = f"the body must be a JSON object, got {short(fault.get('input'))}"
    return PlainTextResponse(sentence, 422)


async def unparsed(request: Request, error: Exception) -> Response:
    """Answer a body that cannot be parsed with one sentence, and other errors as FastAPI does."""
    assert isinstance(error, HTTPException)
    if error.detail in UNPARSED:
        return PlainTextResponse(NO_JSON, 400)
    return await http_exception_handler(request, error)


def _with_headers(send: Send, given: Mapping[str, str]) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in given.items():
                headers.setdefault(name, value)
        await send(message)

    return answer
