"""Connections: each has so long to say what it asks, and an address has so many of them.

uvicorn alone waits for the head of a question as long as a client likes, and a process can hold
only so many connections: one telephone would make the page unreachable. Knows nothing of what is
asked.
"""

from __future__ import annotations

import logging
import sys
from asyncio import BaseTransport, TimerHandle, Transport
from collections import Counter

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from specviz.environment import Environment
from specviz.ui.visitors import visitor_at

HEAD_SECONDS = 20.0  # from a connection, or a question's first byte, to the end of its head
# From an answer to the next question. Proxies hold connections for 60 seconds: one that the server
# closes first may be closed in the moment in which a question is sent, which is lost then.
KEPT_SECONDS = 75
CONNECTIONS_OF_ADDRESS = 600  # whole classes share one; a proxy may have any number
LINES_A_MINUTE = 60

_limiter = FixedWindowRateLimiter(MemoryStorage())
_open: Counter[str] = Counter()  # by address


def bound_connections(config: Config) -> None:
    """Of a server that runs: from the next connection on."""
    config.http_protocol_class = BoundedConnection
    config.timeout_keep_alive = KEPT_SECONDS
    logging.getLogger("uvicorn.error").addFilter(_is_among_few)
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_among_few(_: logging.LogRecord) -> bool:
    """Of what clients send that is no HTTP, and of those that leave, the log has so many lines."""
    return _limiter.hit(RateLimitItemPerMinute(LINES_A_MINUTE))


class BoundedConnection(H11Protocol):
    """uvicorn's, which is closed where it asks nothing or its address has too many."""

    transport: Transport
    _timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._host = self.client[0] if self.client else ""
        self._visitor = visitor_at(self._host)
        _open[self._visitor] += 1
        if _open[self._visitor] > CONNECTIONS_OF_ADDRESS and not self._is_proxy():
            self.transport.abort()
        self._watch(is_idle=False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _open.subtract([self._visitor])
        if not _open[self._visitor]:
            del _open[self._visitor]
        if self._timer:
            self._timer.cancel()

    def _is_proxy(self) -> bool:
        """Whether visitors come through this address, as uvicorn believes it."""
        believed = ProxyHeadersMiddleware(self.app, self.config.forwarded_allow_ips)
        return Environment.read().is_space or self._host in believed.trusted_hosts

    def _watch(self, is_idle: bool, last: object = None) -> None:
        """Closed where nothing was asked between two looks; after an answer uvicorn waits itself,
        until a first byte comes.
        """
        was_idle, asked = is_idle, self.cycle
        is_idle = self.timeout_keep_alive_task is None and (
            asked is None or asked.response_complete
        )
        if was_idle and is_idle and asked is last:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(HEAD_SECONDS / 2, self._watch, is_idle, asked)
