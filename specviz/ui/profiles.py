"""The page's acceptance profile: progress messages, then where acceptance was lost.

Every question is checked. Kinds of message: `warning`, `progress`, `profile`, `example` (a run that
the profile names, as a file for the debugger), `end`.
"""

from __future__ import annotations

import base64
import gzip
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any

from specviz.acceptance_profile import TITLES
from specviz.errors import InputError, read_whole, sized
from specviz.experiments.run.profiling import MAX_PROMPTS, ProfileRequest, Profiling
from specviz.prompts import held_out_prompts, prompts_of
from specviz.records import Prompt, prompt_text
from specviz.slices import until_stopped
from specviz.trace_file import dumps
from specviz.ui.messages import Message
from specviz.ui.settings_form import form_pair, race_request

PROGRESS_SECONDS = 0.25
MAX_FILE_CHARACTERS = 2_000_000


def _setting(request: ProfileRequest) -> dict[str, Any]:
    """Return the setting of the profile, which the page shows in a line above the result."""
    config = request.config
    return {
        "pair": request.pair.title,
        "method": config.method,
        "draft_length": config.draft_length,
        "temperature": config.temperature,
        "max_new_tokens": config.max_new_tokens,
    }


def profile_request(question: Mapping[str, Any]) -> ProfileRequest:
    """Return the request for an acceptance profile.

    The question is {"form", "task", "count"} for held-out prompts, or {"form", "name", "text"} for
    the prompts in a user's file. The form holds the setting of a race.
    """
    task, prompts = _prompts(question)
    form = {**question["form"], "prompt": prompt_text(prompts[0]), "task": task or ""}
    usual = race_request(form)
    return ProfileRequest(usual.pair, prompts, usual.config, task, usual.device, usual.dtype)


def _prompts(question: Mapping[str, Any]) -> tuple[str | None, tuple[Prompt, ...]]:
    if "text" not in question:
        task = str(question.get("task"))
        held_out = held_out_prompts(task, form_pair(question["form"]).is_asked_to_chat(task))
        return task, held_out[: read_whole(question.get("count"), "count", 1, len(held_out))]
    text, name = question["text"], str(question.get("name"))
    if not isinstance(text, str) or len(text) > MAX_FILE_CHARACTERS:
        raise InputError(
            f"prompts must be a text of at most {MAX_FILE_CHARACTERS:,} characters, got "
            f"{sized(text)}"
        )
    prompts = prompts_of(text, name)
    count = question.get("count") or len(prompts)
    most = min(MAX_PROMPTS, max(1, len(prompts)))
    return None, prompts[: read_whole(count, "count", 1, most)]


def profile_messages(request: ProfileRequest, stop: threading.Event) -> Generator[Message]:
    """Decode all prompts and yield messages; when `stop` is set, end after the current round."""
    profiling = Profiling(request)
    if profiling.warning:
        yield {"kind": "warning", "text": profiling.warning}
    shown_at = 0.0
    for step in until_stopped(profiling, stop):
        if time.monotonic() - shown_at >= PROGRESS_SECONDS:
            shown_at = time.monotonic()
            numbers = {"done": step.done, "prompts": step.prompts, "tokens": step.tokens}
            yield {"kind": "progress"} | numbers
    yield {
        "kind": "profile",
        "titles": TITLES,
        "setting": _setting(request),
        "profile": profiling.profile().to_dict(),
    }
    for index, trace in profiling.traces.items():
        data = base64.b64encode(gzip.compress(dumps(trace), mtime=0)).decode()
        yield {"kind": "example", "index": index, "data": data}
    yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}
