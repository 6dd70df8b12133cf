"""What Gradio keeps of its visitors, bounded.

Its own way is a state of 130 kB for each of the last 10,000 sessions, under whatever name a visitor
gives one. Nothing of this page is kept between two questions, so all sessions share one state.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import gradio as gr
import gradio.routes
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

LONGEST_NAME = 64  # of a session; Gradio's own have 11 characters, a call's 32
MAX_CALLS = 200  # of programs, whose messages wait to be fetched
CALLS_OF_ADDRESS = 50  # its next one pushes out its own first one, not another's

Pushed = tuple[bool, Any, str]


class OneState(StateHolder):  # type: ignore[misc] # Gradio has no types
    """Gives every session the same state."""

    def __getitem__(self, session_id: str) -> SessionState:
        return super().__getitem__("")


def bound_sessions(page: gr.Blocks) -> None:
    """Must run before the page is launched."""
    gradio.routes.StateHolder = OneState
    queue = page._queue
    queue.pending_messages_per_session = LRUCache(MAX_CALLS)
    queue.pending_event_ids_session = LRUCache(MAX_CALLS)
    queue.push = _bounded(queue)
    queue.send_message = _to_who_is_there(queue.send_message, queue.pending_messages_per_session)


def _to_who_is_there(
    send: Callable[[Any, Any], None], waiting: dict[str, Any]
) -> Callable[[Any, Any], None]:
    """Gradio's queue would end for everybody at a message to a session that was pushed out."""

    def sent(event: Any, event_message: Any) -> None:
        if event.session_hash in waiting:
            send(event, event_message)

    return sent


def _bounded(queue: Any) -> Callable[..., Awaitable[Pushed]]:
    push, waiting = queue.push, queue.pending_messages_per_session
    addresses: dict[str, str] = LRUCache(MAX_CALLS)  # by session

    async def bounded(body: Any, request: Any, username: str | None) -> Pushed:
        if len(body.session_hash or "") > LONGEST_NAME:
            return False, f"session_hash must have at most {LONGEST_NAME} characters", "error"
        pushed: Pushed = await push(body=body, request=request, username=username)
        address = request.client.host
        addresses[body.session_hash or ""] = address
        near = [each for each in waiting if addresses.get(each) == address]
        for each in near[:-CALLS_OF_ADDRESS]:
            del waiting[each]
            queue.pending_event_ids_session.pop(each, None)
        return pushed

    return bounded
