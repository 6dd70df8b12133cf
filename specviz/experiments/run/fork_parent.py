"""The parts that a fork inherits from its parent trace: pair, tokens, tree size, baseline."""

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
    """Return a pair with the target that made a trace and, if possible, with the same draft.

    `other` is the pair that the user chose. The function tries it first, then the pairs that the
    app offers by name. If none has this target, the result is `other`. The function never builds a
    pair from the model names in a trace, so somebody else's trace file never causes a download.
    """
    target, draft = trace.target.name, trace.main.draft
    fitting = [pair for pair in (other, *pairs()) if pair.model_name("target") == target]
    same = (pair for pair in fitting if draft and pair.model_name("draft") == draft.name)
    return next(same, next(iter(fitting), other))


def check_texts(trace: Trace, codec: TextCodec, pair_name: str) -> None:
    """Raise InputError if a token of the trace has another text in this tokenizer."""
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
    """Return `config` with the tree size that was measured as the best when the parent ran.

    A new measurement could give another size, and the same setting would then draft other trees. A
    fork with another drafting setting measures the size itself.
    """
    is_measured = NODES in method_named(config.method).options
    is_measured = is_measured and not dict(config.options).get(NODES.name)
    alike = [e for e in parent.rounds if _shape(parent.config_of(e.index)) == _shape(config)]
    if not is_measured or not alike:
        return config
    nodes = max(len(each.tree.nodes) for each in alike)
    return config.with_option(NODES.name, nodes) if nodes else config


def _shape(config: DecodingConfig) -> tuple[object, ...]:
    """Return all settings that decide how many tokens a tree has."""
    drafted = config.method, config.draft_length, config.branching, config.drawing
    return *drafted, config.temperature, config.options


def copied_baseline(parent: Trace, header: Trace) -> Lane | None:
    """Return the parent's baseline if a run with the fork's setting would repeat it.

    `header` has the fork's setting. The result is None if the target, the device or the sampling
    distribution differs, because the text or the times would differ as well. The lane is cut to
    `max_new_tokens` of the fork. If the parent's lane reached a smaller limit, the copy gets the
    finish reason STOPPED.
    """
    lane, limit = parent.baseline, header.config.max_new_tokens
    if lane is None or lane.prefill is None or _maker(parent) != _maker(header):
        return None
    steps = lane.steps[: limit - 1]
    finish = _finish(lane, 1 + len(steps), limit)
    return replace(lane, config=header.config, steps=steps, finish=finish)


def _finish(lane: Lane, kept: int, limit: int) -> FinishReason | None:
    """Return the finish reason of a copied baseline of which `kept` tokens are left."""
    if kept < len(lane.emitted_ids):
        return FinishReason.LENGTH
    is_short = lane.finish is FinishReason.LENGTH and kept < limit
    return FinishReason.STOPPED if is_short else lane.finish


def _maker(trace: Trace) -> tuple[object, ...]:
    """Return all facts that decide the text and the times of a baseline, except its seed."""
    return trace.target, trace.device, trace.dtype, trace.config.sampling
