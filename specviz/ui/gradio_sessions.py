"""Limits on what Gradio keeps for each visitor.

By default, Gradio keeps a state of 130 kB for each of the last 10,000 sessions, under any name that
a visitor chooses. This page keeps nothing between two questions, so all sessions share one state.

Gradio also keeps the messages of every call until a program fetches them, without a limit on their
number. Even after all messages were fetched, it keeps an entry for every session.
"""

from __future__ import annotations

import time
from asyncio import Queue
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import gradio as gr
import gradio.queueing
import gradio.routes
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

from specviz.ui.visitors import VisitorCounts, accounts_of

# The largest number of characters in a session's name. Gradio's names for pages have 11 characters,
# and the names of calls have 32.
LONGEST_NAME = 64
MAX_CALLS = 200  # largest number of sessions with messages that no program has fetched yet
# The largest number of sessions with unread messages from one address. A further session replaces
# the session of this address that was read longest ago.
CALLS_OF_ADDRESS = 50
# Largest number of calls of one session with messages that no program has fetched yet.
CALLS_OF_SESSION = 50
# If MAX_CALLS sessions have unread messages, a new session replaces one whose program has not read
# its messages for this number of seconds.
UNHEARD_SECONDS = 60.0
# number of seconds after which the server forgets results that nobody has fetched
KEEP_SECONDS = 600.0
# The largest number of unread messages of a session. With more unread messages, the session gets no
# progress messages, but it still gets results.
MOST_UNREAD = 8
TOO_MANY = "too many calls wait to be fetched: fetch yours, or try again in a minute"

Pushed = tuple[bool, Any, str]


class OneState(StateHolder):  # type: ignore[misc] # Gradio has no types
    """A Gradio state holder that gives all sessions one common state."""

    def __getitem__(self, session_id: str) -> SessionState:
        return super().__getitem__("")


class Messages(Queue[Any]):
    """The unread messages of a session, the visitor's address, and the time of the last read."""

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self.heard = time.monotonic()

    async def get(self) -> Any:
        # A program with an open stream calls `get` again every ten seconds, so these calls show
        # that it listens.
        self.heard = time.monotonic()
        message = await super().get()
        self.heard = time.monotonic()
        return message


def bound_sessions(page: gr.Blocks) -> None:
    """Limit the sessions of a page; this must run before the page is launched."""
    gradio.routes.StateHolder = OneState
    gradio.queueing.AsyncQueue = Messages
    queue = page._queue
    # The cache never drops an entry, because `_bounded` limits the number of its entries.
    queue.pending_messages_per_session = LRUCache(2 * MAX_CALLS)
    queue.pending_event_ids_session = LRUCache(2 * MAX_CALLS)
    queue.push = _bounded(queue)
    queue.send_message = _only_to_kept_sessions(
        queue.send_message, queue.pending_messages_per_session
    )


def is_read(page: gr.Blocks, session: str | None) -> bool:
    """Return whether the session's program fetches its messages about as fast as they are sent."""
    messages = page._queue.pending_messages_per_session.get(session)
    return messages is not None and messages.qsize() < MOST_UNREAD


def _only_to_kept_sessions(
    send: Callable[[Any, Any], None], waiting: dict[str, Any]
) -> Callable[[Any, Any], None]:
    """Return a function that sends a message only if its session was not removed.

    A message to a removed session would stop Gradio's queue for everybody.
    """

    def sent(event: Any, event_message: Any) -> None:
        if event.session_hash in waiting:
            send(event, event_message)

    return sent


def _bounded(queue: Any) -> Callable[..., Awaitable[Pushed]]:
    push, waiting = queue.push, queue.pending_messages_per_session
    unfetched = queue.pending_event_ids_session

    async def drop(session: str) -> None:
        waiting.pop(session, None)
        unfetched.pop(session, None)
        await queue.clean_events(session_hash=session)  # Gradio then ends the runs of the session

    async def make_room(address: str) -> bool:
        """Drop old sessions if necessary; return whether `address` may get one more session."""
        now = time.monotonic()
        over = [
            session
            for session, messages in waiting.items()
            if not unfetched.get(session) or now - messages.heard > KEEP_SECONDS
        ]
        for session in over:
            await drop(session)
        oldest = sorted(waiting, key=lambda each: waiting[each].heard)
        gone = next_to_go([waiting[each].address for each in oldest], address)
        is_full = len(oldest) >= MAX_CALLS
        if gone is None and is_full and now - waiting[oldest[0]].heard > UNHEARD_SECONDS:
            gone = 0
        if gone is not None:
            await drop(oldest[gone])
        return gone is not None or not is_full

    async def bounded(body: Any, request: Any, username: str | None) -> Pushed:
        session = body.session_hash
        if len(session or "") > LONGEST_NAME:
            return False, f"session_hash must have at most {LONGEST_NAME} characters", "error"
        address = request.client.host
        if session in waiting and len(unfetched.get(session, ())) >= CALLS_OF_SESSION:
            return False, TOO_MANY, "queue_full"
        if session not in waiting and not await make_room(address):
            return False, TOO_MANY, "queue_full"
        pushed: Pushed = await push(body=body, request=request, username=username)
        if body.session_hash in waiting:
            waiting[body.session_hash].address = address
        return pushed

    return bounded


def next_to_go(owners: Sequence[str], address: str) -> int | None:
    """Return the index in `owners` of the session that a new session of `address` replaces.

    `owners` has the address of each session with unread messages; the session that was read longest
    ago comes first. An address with CALLS_OF_ADDRESS sessions loses its own first session. If there
    are MAX_CALLS sessions in all, the address with the largest number of sessions loses its first
    one. The result is None if no session must be replaced, or if no address has more sessions than
    `address` would have with one more.
    """
    for name, visitors in accounts_of(address).items():
        near = [index for index, each in enumerate(owners) if name in accounts_of(each)]
        if len(near) >= CALLS_OF_ADDRESS * visitors:
            return near[0]
    if len(owners) < MAX_CALLS:
        return None
    counts = VisitorCounts(owners)
    most = max(owners, key=lambda each: counts[each])
    return owners.index(most) if counts[most] > counts[address] + 1 else None
