"""A whole trace <-> one JSON value, with its version; the parts stand in `encoding`.

Knows no file.
"""

from __future__ import annotations

from dataclasses import asdict, fields

from specviz.errors import InputError, short
from specviz.records import (
    FORMAT_VERSION,
    MAX_NEW_TOKENS,
    MAX_TREE_NODES,
    BaselineStep,
    FinishReason,
    ForkPoint,
    ModelInfo,
    Round,
    Trace,
)
from specviz.trace_file.config_fields import decode_settings, encode_settings
from specviz.trace_file.decoding import decode_prefill, decode_round, decode_step
from specviz.trace_file.encoding import Json, encode_prefill, encode_round, encode_step
from specviz.trace_file.fields import (
    MAX_INTEGER,
    MAX_TEXT,
    Fields,
    array,
    choice,
    integer,
    number,
    text,
)

_FORMAT = "specviz-trace"
MAX_FORKS = 256
_STEP_KEYS = ("i", "id", "prob", "margin", "seconds")
_KEYS = (
    *("format", "version", "config", "target", "draft", "device", "dtype", "prompt"),
    *("prompt_ids", "tokens", "prefill", "rounds", "finish", "baseline", "drafter_bytes"),
    *("total_variation", "forks"),
)


def encode_trace(trace: Trace) -> Json:
    """The whole trace; baseline steps and token texts are columns."""
    steps = [encode_step(step) for step in trace.baseline_steps]
    baseline = trace.baseline_prefill
    return {
        "format": _FORMAT,
        "version": trace.format_version,
        "config": encode_settings(trace.config),
        "target": asdict(trace.target),
        "draft": None if trace.draft is None else asdict(trace.draft),
        "device": trace.device,
        "dtype": trace.dtype,
        "prompt": trace.prompt,
        "prompt_ids": list(trace.prompt_ids),
        "tokens": {
            "id": [token_id for token_id, _ in trace.token_texts],
            "text": [text for _, text in trace.token_texts],
        },
        "prefill": None if trace.prefill is None else encode_prefill(trace.prefill),
        "rounds": [encode_round(each) for each in trace.rounds],
        "finish": _encode_finish(trace.finish),
        "baseline": {
            "prefill": None if baseline is None else encode_prefill(baseline),
            "steps": {key: [step[key] for step in steps] for key in _STEP_KEYS},
            "finish": _encode_finish(trace.baseline_finish),
        },
        "drafter_bytes": trace.drafter_bytes,
        "total_variation": trace.total_variation,
        "forks": [_encode_fork(each) for each in trace.forks],
    }


def _encode_fork(fork: ForkPoint) -> Json:
    forced = [list(draw) for draw in fork.forced]
    return {"round": fork.round_index, "config": encode_settings(fork.config), "forced": forced}


def _encode_finish(finish: FinishReason | None) -> str | None:
    return None if finish is None else finish.value


def decode_trace(value: object) -> Trace:
    """The trace of a JSON value; InputError for anything that no run can have left."""
    trace = Fields(_upgraded(value), "trace", _KEYS)
    baseline = Fields(trace["baseline"], trace.at("baseline"), ("prefill", "steps", "finish"))
    decoded = Trace(
        config=decode_settings(trace["config"], trace.at("config")),
        target=_decode_model(trace["target"], trace.at("target")),
        draft=trace.optional("draft", _decode_model),
        device=trace.text("device", 200),
        dtype=trace.text("dtype", 200),
        prompt=trace.text("prompt"),
        prompt_ids=trace.integers("prompt_ids"),
        token_texts=_decode_texts(trace["tokens"], trace.at("tokens")),
        prefill=trace.optional("prefill", decode_prefill),
        rounds=trace.each("rounds", decode_round, MAX_NEW_TOKENS),
        finish=trace.optional("finish", _decode_finish),
        baseline_prefill=baseline.optional("prefill", decode_prefill),
        baseline_steps=_decode_steps(baseline["steps"], baseline.at("steps")),
        baseline_finish=baseline.optional("finish", _decode_finish),
        drafter_bytes=trace.integer("drafter_bytes"),
        total_variation=trace.optional("total_variation", _decode_share),
        forks=trace.each("forks", _decode_fork, MAX_FORKS),
    )
    _check_order(decoded)
    return decoded


def _upgraded(value: object) -> object:
    """The value as the newest version writes it; InputError where it is no trace of ours."""
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise InputError(f'trace must be an object with "format": "{_FORMAT}", got {short(value)}')
    version = integer(value.get("version"), "trace.version", 1, FORMAT_VERSION)
    if version < 2:
        value = value | {"rounds": _with_extras(value.get("rounds"))}
    if version < 3 and "forks" not in value:
        value = value | {"forks": []}
    return value


def _with_extras(rounds: object) -> object:
    if not isinstance(rounds, list):
        return rounds
    return [each | {"extras": []} if isinstance(each, dict) else each for each in rounds]


def _decode_fork(value: object, path: str) -> ForkPoint:
    fork = Fields(value, path, ("round", "config", "forced"))
    return ForkPoint(
        round_index=fork.integer("round", 0, MAX_NEW_TOKENS),
        config=decode_settings(fork["config"], fork.at("config")),
        forced=fork.each("forced", _decode_draw, MAX_TREE_NODES),
    )


def _decode_draw(value: object, path: str) -> tuple[int, float]:
    token_id, u = array(value, path, 2, 2)
    return integer(token_id, f"{path}[0]", 0, MAX_INTEGER), number(u, f"{path}[1]", 0, 1)


def _decode_share(value: object, path: str) -> float:
    return number(value, path, 0, 1)


def _decode_model(value: object, path: str) -> ModelInfo:
    model = Fields(value, path, [field.name for field in fields(ModelInfo)])
    return ModelInfo(
        name=model.text("name", 1000),
        architecture=model.text("architecture", 1000),
        parameters=model.integer("parameters"),
        bytes=model.integer("bytes"),
        layers=model.integer("layers"),
        hidden_size=model.integer("hidden_size"),
        vocab_size=model.integer("vocab_size"),
        context_length=model.integer("context_length"),
    )


def _decode_texts(value: object, path: str) -> tuple[tuple[int, str], ...]:
    tokens = Fields(value, path, ("id", "text"))
    ids = tokens.integers("id")
    if len(set(ids)) != len(ids):
        raise InputError(f"{path}.id must name each token once, got a repeat")
    texts = enumerate(tokens.array("text", count=len(ids)))
    checked = [text(each, f"{path}.text[{i}]", MAX_TEXT) for i, each in texts]
    return tuple(zip(ids, checked, strict=True))


def _decode_finish(value: object, path: str) -> FinishReason:
    return choice(value, path, FinishReason)


def _decode_steps(value: object, path: str) -> tuple[BaselineStep, ...]:
    steps = Fields(value, path, _STEP_KEYS)
    count = len(steps.array("i", MAX_NEW_TOKENS))
    columns = [steps.array(key, count=count) for key in _STEP_KEYS]
    rows = (dict(zip(_STEP_KEYS, row, strict=True)) for row in zip(*columns, strict=True))
    return tuple(decode_step(row, f"{path}[{i}]") for i, row in enumerate(rows))


def _check_order(trace: Trace) -> None:
    """Rounds count from 0, need a prefill, and stand on tokens that exist; forks are in order."""
    if trace.rounds and trace.prefill is None:
        raise InputError(f"trace.prefill must exist before {len(trace.rounds)} rounds, got null")
    if trace.baseline_steps and trace.baseline_prefill is None:
        steps = len(trace.baseline_steps)
        raise InputError(f"trace.baseline.prefill must exist before {steps} steps, got null")
    places = [fork.round_index for fork in trace.forks]
    if places != sorted(set(places)):
        raise InputError(f"trace.forks must be in the order of their rounds, got {short(places)}")
    known = len(trace.prompt_ids) + 1
    for index, each in enumerate(trace.rounds):
        _check_place(each, index, known)
        known += len(each.emitted_ids)


def _check_place(round_: Round, index: int, known: int) -> None:
    path = f"trace.rounds[{index}]"
    if round_.index != index:
        raise InputError(f"{path}.i must be {index}, got {round_.index}")
    if round_.context_length != known:
        rule = f"{known}, the tokens before the round"
        raise InputError(f"{path}.context must be {rule}, got {round_.context_length}")
