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
    queue.push = _named_shortly(queue.push)


def _named_shortly(push: Callable[..., Awaitable[Pushed]]) -> Callable[..., Awaitable[Pushed]]:
    async def bounded(body: Any, *given: Any, **named: Any) -> Pushed:
        if len(body.session_hash or "") > LONGEST_NAME:
            return False, f"session_hash must have at most {LONGEST_NAME} characters", "error"
        return await push(body, *given, **named)

    return bounded
