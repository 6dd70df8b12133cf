"""What a fork takes over from the trace that it leaves: pair, tokens, size of trees, baseline."""

from __future__ import annotations

import reprlib
from dataclasses import replace

from specviz.decoding.drafters.registry import method_named
from specviz.decoding.drafters.tree_budget import NODES
from specviz.errors import InputError
from specviz.models.pair_catalog import Pair, pairs
from specviz.models.text.text_codec import TextCodec
from specviz.records import DecodingConfig, FinishReason, Lane, Trace


def pair_of(trace: Trace, other: Pair) -> Pair:
    """The pair that a trace says it was made with: same target, if possible same draft.

    `other` is looked at first, then those that have a name; it is also the answer where none fits.
    What a file from elsewhere names is never loaded because of its name alone: only pairs that the
    app offers anyway are looked through.
    """
    target, draft = trace.target.name, trace.main.draft
    fitting = [pair for pair in (other, *pairs()) if pair.model_name("target") == target]
    same = (pair for pair in fitting if draft and pair.model_name("draft") == draft.name)
    return next(same, next(iter(fitting), other))


def check_texts(trace: Trace, codec: TextCodec, pair_name: str) -> None:
    """Raise InputError unless all tokens of the trace mean the same to this tokenizer."""
    texts = dict(trace.token_texts)
    for token_id in (*texts, *trace.prompt_ids, *trace.emitted_ids):
        found = codec.token_text(token_id) if token_id < codec.vocab_size else None
        if found is None or texts.get(token_id, found) != found:
            there = reprlib.repr(texts[token_id]) if token_id in texts else "used"
            here = "no token" if found is None else reprlib.repr(found)
            raise InputError(
                f"pair {pair_name!r} must have the tokenizer of the trace: token {token_id} is "
                f"{there} in the trace and {here} here"
            )


def with_measured_nodes(parent: Trace, config: DecodingConfig) -> DecodingConfig:
    """`config` with the size of tree that was measured to pay when the parent ran.

    Measured anew it may come out otherwise, and the same setting would draft other trees. A fork
    that drafts otherwise measures for itself.
    """
    is_measured = NODES in method_named(config.method).options
    is_measured = is_measured and not dict(config.options).get(NODES.name)
    alike = [e for e in parent.rounds if _shape(parent.config_of(e.index)) == _shape(config)]
    if not is_measured or not alike:
        return config
    nodes = max(len(each.tree.nodes) for each in alike)
    return config.with_option(NODES.name, nodes) if nodes else config


def _shape(config: DecodingConfig) -> tuple[object, ...]:
    """All that the size of a tree follows from, but for the machine."""
    drafted = config.method, config.draft_length, config.branching, config.tree_kind
    return *drafted, config.temperature, config.options


def copied_baseline(parent: Trace, header: Trace) -> Lane | None:
    """The parent's baseline, where it is the baseline of this setting too.

    None where another target, device or distribution of sampling would have written another text
    or taken other times. It is cut to `max_new_tokens`, and counts as stopped where it is shorter.
    """
    lane, limit = parent.baseline, header.config.max_new_tokens
    if lane is None or lane.prefill is None or _maker(parent) != _maker(header):
        return None
    steps = lane.steps[: limit - 1]
    finish = _finish(lane, 1 + len(steps), limit)
    return replace(lane, config=header.config, steps=steps, finish=finish)


def _finish(lane: Lane, kept: int, limit: int) -> FinishReason | None:
    """Why a baseline of which `kept` tokens were copied has ended there."""
    if kept < len(lane.emitted_ids):
        return FinishReason.LENGTH
    is_short = lane.finish is FinishReason.LENGTH and kept < limit
    return FinishReason.STOPPED if is_short else lane.finish


def _maker(trace: Trace) -> tuple[object, ...]:
    """All that a baseline's text and times follow from, but for its seed."""
    return trace.target, trace.device, trace.dtype, trace.config.sampling
