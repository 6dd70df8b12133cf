"""The job of a lesson about forced tokens: the chat model writes JSON that must match a schema.

The model answers three times at temperature 0: without drafts, with drafts, and with forced tokens
as additional drafts. The text is the same each time. The job's messages are `progress`, then
`forced` and `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.target import cache_capacity
from specviz.errors import InputError
from specviz.models.pair_catalog import CHAT, GET_CHAT_MODEL, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.records import DecodingConfig, Prefill, Round, TokenStep
from specviz.slices import giving_way, until_stopped
from specviz.ui.course.pair_orders import PairOrder
from specviz.ui.grammar_examples import PERSON
from specviz.ui.messages import Message
from specviz.ui.turns import Work

# Prompt lookup drafts without a model, and finds little to copy in this text.
METHOD = "prompt-lookup"
K, TOKENS = 5, 96


@dataclass(frozen=True, slots=True)
class ForcedOrder(PairOrder):
    """A job that decodes one answer without drafts, with drafts, and with forced tokens as drafts.

    The message `forced` has the prompt, the grammar, and the tokens of the answer: the text of each
    and how many tokens the grammar allowed there. A row has the number of rounds and of tokens,
    how many tokens of the text were drafted because they were forced, and whether the text is that
    of the target alone.
    """

    work: ClassVar[Work] = Work.LAB

    def messages(self, stop: threading.Event) -> Generator[Message]:
        loaded = load_pair(self.measured, needs=frozenset())
        plain = _plain(loaded)
        rows: list[dict[str, Any]] = []
        for row in until_stopped((_row(loaded, each, plain) for each in (False, True)), stop):
            rows.append(row)
            yield {"kind": "progress", "done": len(rows), "points": 2}
        if len(rows) == 2:
            facts = {"model": self.measured.model_name("target"), "K": K}
            asked = {"prompt": PERSON.prompt, "grammar": PERSON.grammar}
            tokens = _tokens(loaded, plain)
            yield {"kind": "forced", **facts, **asked, "tokens": tokens, "rows": rows}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def _config(drafts_forced: bool) -> DecodingConfig:
    return method_named(METHOD).usual(
        K,
        temperature=0.0,
        max_new_tokens=TOKENS,
        grammar=PERSON.grammar,
        draft_forced=drafts_forced,
    )


def _plain(loaded: LoadedPair) -> list[int]:
    """Return the tokens that the target writes alone."""
    config, ids = _config(False), loaded.codec.encode(PERSON.prompt)
    grammar, ends = loaded.grammar(config), loaded.codec.eos_ids
    written: list[int] = []
    for event in giving_way(autoregressive.decode(loaded.target, ids, config, ends, grammar)):
        if isinstance(event, Prefill):
            written.append(event.extra.token_id)
        if isinstance(event, TokenStep):
            written.append(event.token_id)
    return written


def _row(loaded: LoadedPair, drafts_forced: bool, plain: list[int]) -> dict[str, Any]:
    config, ids = _config(drafts_forced), loaded.codec.encode(PERSON.prompt)
    drafter = make_drafter(Setup(loaded.target, loaded.parts, config, cache_capacity(ids, config)))
    rounds, written, forced = 0, [], 0
    for event in giving_way(
        speculative.decode(
            loaded.target,
            drafter,
            ids,
            config,
            loaded.codec.eos_ids,
            grammar=loaded.grammar(config),
        )
    ):
        if isinstance(event, Prefill):
            written.append(event.extra.token_id)
        if isinstance(event, Round):
            rounds += 1
            written += event.emitted_ids
            forced += len(event.accepted) if event.is_forced else 0
    return {
        "drafts_forced": drafts_forced,
        "rounds": rounds,
        "tokens": len(written),
        "forced": forced,
        "is_same": written == plain,
    }


def _tokens(loaded: LoadedPair, written: list[int]) -> list[dict[str, Any]]:
    """Return the text of each token, and how many tokens the grammar allowed in its place."""
    grammar = loaded.grammar(_config(False))
    assert grammar is not None
    state, tokens = grammar.begin(), []
    for token_id in written:
        allowed = int(state.allowed().sum())
        tokens.append({"text": loaded.codec.token_text(token_id), "allowed": allowed})
        state.append([token_id])
    return tokens


def forced_order(_: Mapping[str, Any]) -> ForcedOrder:
    """Return the job for the chat model; raise InputError if it is not on this machine."""
    pair = pair_named(CHAT)
    if not pair.is_here:
        raise InputError(f"the chat model must be on this machine: {GET_CHAT_MODEL}")
    return ForcedOrder(pair)
