"""The job of a lesson about copied drafts: two copying methods continue the same conversation.

The conversation contains the results of a tool. The chat model answers at temperature 0, so the
text is the same with both methods. The job's messages are `progress`, then `copies` and `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.drafters.suffix import TREE_DEPTH
from specviz.decoding.target import cache_capacity
from specviz.errors import InputError
from specviz.models.pair_catalog import CHAT, GET_CHAT_MODEL, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.records import Conversation, Prefill, Round, Turn
from specviz.records.notes import NgramMatch, Note, SuffixMatch
from specviz.slices import giving_way, until_stopped
from specviz.ui.course.pair_orders import PairOrder
from specviz.ui.messages import Message
from specviz.ui.turns import Work

SHORT, LONG = 10, 24  # draft lengths; engines draft up to 24 tokens with suffix decoding
METHODS = ("prompt-lookup", "suffix")
TOKENS = 160

# The results of two tool calls. Both list the same hosts; only some of the numbers differ, so most
# of the answer can be copied.
_BEFORE = (
    '[{"host": "web-1", "region": "eu-west", "load": 0.42, "errors": 0, "status": "ok"}, '
    '{"host": "web-2", "region": "us-east", "load": 0.87, "errors": 3, "status": "slow"}, '
    '{"host": "web-3", "region": "eu-west", "load": 0.15, "errors": 0, "status": "ok"}, '
    '{"host": "db-1", "region": "eu-west", "load": 0.63, "errors": 1, "status": "ok"}]'
)
_NOW = (
    '[{"host": "web-1", "region": "eu-west", "load": 0.44, "errors": 0, "status": "ok"}, '
    '{"host": "web-2", "region": "us-east", "load": 0.51, "errors": 0, "status": "ok"}, '
    '{"host": "web-3", "region": "eu-west", "load": 0.15, "errors": 0, "status": "ok"}, '
    '{"host": "db-1", "region": "eu-west", "load": 0.63, "errors": 1, "status": "ok"}]'
)
_ASKED = "Answer with the tool's result as JSON in a field `report`.\nTool result: "
CONVERSATION = Conversation(
    (
        Turn("user", f"{_ASKED}{_BEFORE}"),
        Turn("assistant", f'{{"report": {_BEFORE}}}'),
        Turn("user", f"Again, please. Tool result: {_NOW}"),
    )
)


@dataclass(frozen=True, slots=True)
class CopiesOrder(PairOrder):
    """A job that decodes the conversation with each drafter and each draft length.

    The message `copies` also has the depth of the suffix tree. A row has the method, the draft
    length and the rounds. A round has the texts of the matched tokens, which end the text before
    it, and those of the drafted tokens. It also has the number of accepted tokens and the text of
    the target's own token, which is null if the text ended before it.
    """

    work: ClassVar[Work] = Work.LAB  # queued like the lab's measurements: it takes a minute

    def messages(self, stop: threading.Event) -> Generator[Message]:
        loaded = load_pair(self.measured, needs=frozenset())
        runs = [(method, length) for length in (SHORT, LONG) for method in METHODS]
        rows: list[dict[str, Any]] = []
        for rounds in until_stopped((_rounds(loaded, *each) for each in runs), stop):
            method, length = runs[len(rows)]
            rows.append({"method": method, "K": length, "rounds": rounds})
            yield {"kind": "progress", "done": len(rows), "points": len(runs)}
        if len(rows) == len(runs):
            turns = [{"role": each.role, "content": each.content} for each in CONVERSATION.turns]
            facts = {"model": self.measured.model_name("target"), "depth": TREE_DEPTH.default}
            yield {"kind": "copies", **facts, "turns": turns, "rows": rows}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def _rounds(loaded: LoadedPair, method: str, length: int) -> list[dict[str, Any]]:
    usual = method_named(method).usual(length, temperature=0.0, max_new_tokens=TOKENS)
    ids = loaded.codec.encode(CONVERSATION, None)
    drafter = make_drafter(Setup(loaded.target, loaded.parts, usual, cache_capacity(ids, usual)))
    text, context = loaded.codec.token_text, list(ids)
    rounds: list[dict[str, Any]] = []
    for event in giving_way(
        speculative.decode(loaded.target, drafter, ids, usual, loaded.codec.eos_ids)
    ):
        if isinstance(event, Prefill):
            context.append(event.extra.token_id)
        if isinstance(event, Round):
            matched = sum(_matched(note) for note in event.notes)
            drafted = [node.token_id for node in event.tree.nodes]
            rounds.append(
                {
                    "matched": [text(each) for each in context[len(context) - matched :]],
                    "draft": [text(each) for each in drafted],
                    "kept": len(event.accepted),
                    "extra": text(event.extra.token_id) if event.extra else None,
                }
            )
            context += drafted[: len(event.accepted)]
            context += [event.extra.token_id] if event.extra else []
    return rounds


def _matched(note: Note) -> int:
    match note:
        case NgramMatch():
            return note.length
        case SuffixMatch():
            return len(note.token_ids)
    return 0


def copies_order(_: Mapping[str, Any]) -> CopiesOrder:
    """Return the job for the chat model; raise InputError if it is not on this machine."""
    pair = pair_named(CHAT)
    if not pair.is_here:
        raise InputError(f"the chat model must be on this machine: {GET_CHAT_MODEL}")
    return CopiesOrder(pair)
