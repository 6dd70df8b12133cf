"""Limits on connections: the time to send the head of a request, and the number per address.

uvicorn itself waits for a request's head without limit, and a process can have only a limited
number of connections. Without these limits, a single phone could make the page unreachable. This
module does not look at the content of requests.
"""

from __future__ import annotations

import logging
import sys
from asyncio import BaseTransport, TimerHandle, Transport

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from uvicorn import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from specviz.environment import Environment
from specviz.ui.visitors import VisitorCounts, visitor_at

# The longest time from the connection, or from a request's first byte, to the end of the request's
# head.
HEAD_SECONDS = 20.0
# Idle time allowed between an answer and the next request. Proxies keep connections for 60 seconds.
# If the server closed a connection first, a request sent at that moment would be lost.
KEPT_SECONDS = 75
# The largest number of connections from one address, which all students of a class may share. A
# proxy has no limit.
CONNECTIONS_OF_ADDRESS = 600
LINES_A_MINUTE = 60

_limiter = FixedWindowRateLimiter(MemoryStorage())
_open = VisitorCounts()  # number of open connections of each visitor


def bound_connections(config: Config) -> None:
    """Apply the limits to every connection that a running server accepts after this call."""
    config.http_protocol_class = BoundedConnection
    config.timeout_keep_alive = KEPT_SECONDS
    logging.getLogger("uvicorn.error").addFilter(_may_log)
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _may_log(_: logging.LogRecord) -> bool:
    """Return whether uvicorn may write one more line to its log in this minute.

    Every client that does not speak HTTP or that disconnects causes a line. Without a limit, such
    clients could fill the disk.
    """
    return _limiter.hit(RateLimitItemPerMinute(LINES_A_MINUTE))


class BoundedConnection(H11Protocol):
    """A uvicorn connection that closes itself if its client breaks one of two limits.

    The client must send each request in time, and its address may have a limited number of
    connections.
    """

    transport: Transport
    _timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._host = self.client[0] if self.client else ""
        self._visitor = visitor_at(self._host)
        _open.add(self._visitor)
        if _open[self._visitor] > CONNECTIONS_OF_ADDRESS and not self._is_proxy():
            self.transport.abort()
        self._watch(is_idle=False)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _open.add(self._visitor, -1)
        if self._timer:
            self._timer.cancel()

    def _is_proxy(self) -> bool:
        """Return whether the client is a proxy in front of this server.

        On a Space, every client is a proxy. Elsewhere, uvicorn's list of trusted hosts decides.
        """
        believed = ProxyHeadersMiddleware(self.app, self.config.forwarded_allow_ips)
        return Environment.read().is_space or self._host in believed.trusted_hosts

    def _watch(self, is_idle: bool, last: object = None) -> None:
        """Check every HEAD_SECONDS / 2 whether the head of a request is overdue; if so, disconnect.

        `is_idle` says whether the previous check found the server waiting for a head, and `last` is
        the request before this head. If the server waits at two checks for the same head, the
        client is too slow. The wait between an answer and the first byte of the next request is
        limited by uvicorn itself, so it does not count here.
        """
        was_idle, asked = is_idle, self.cycle
        is_idle = self.timeout_keep_alive_task is None and (
            asked is None or asked.response_complete
        )
        if was_idle and is_idle and asked is last:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(HEAD_SECONDS / 2, self._watch, is_idle, asked)
