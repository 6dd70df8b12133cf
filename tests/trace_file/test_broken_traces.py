"""A broken trace file is refused with the name of the field or the kind of bytes."""

from __future__ import annotations

import copy
import gzip
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.trace_file import decode_trace, dumps, encode_trace, files, load, loads
from tests.random_traces import random_trace

WANTED = "trace must be the file of a run, as Save in Step through or `race --trace` writes it"
Change = Callable[[dict[str, Any]], None]


def set_at(path: str, value: object) -> Change:
    """Return a function that sets the item at `path` of a trace, such as `lanes.0.name`."""

    def change(trace: dict[str, Any]) -> None:
        *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place: Any = trace
        for key in above:
            place = place[key]
        place[last] = value

    return change


def remove(path: str) -> Change:
    def change(trace: dict[str, Any]) -> None:
        del trace[path]

    return change


LANE = "lanes.1"
ROUND = f"{LANE}.rounds.0"
NODES, VERDICTS = f"{ROUND}.tree.nodes", f"{ROUND}.verdicts"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("format", "other"), f"{WANTED}, got one in the format 'other'"),
        (set_at("version", 5), "trace.version must be 1, got 5"),
        (set_at("version", "1"), "trace.version must be 1, got '1'"),
        (set_at("version", True), "trace.version must be 1, got True"),
        (remove("device"), "trace.device is missing"),
        (set_at("surprise", 1), "trace must have only known fields, got 'surprise'"),
        (set_at("device", 3), "trace.device must be Unicode text of at most 200 characters, got 3"),
        (set_at("prompt", "\ud800"), "trace.prompt must be Unicode text"),
        (set_at("prompt_ids.0", -1), "trace.prompt_ids[0] must be a whole number from 0"),
        (set_at("prompt_ids.0", 1.5), "trace.prompt_ids[0] must be a whole number from 0"),
        (set_at("prompt_ids", "abc"), "trace.prompt_ids must be an array, got 'abc'"),
        (
            set_at(f"{LANE}.config.draft_length", 99),
            "draft_length must be a whole number from 1 to 32",
        ),
        (
            set_at(f"{LANE}.config.temperature", 10**400),
            "….config.temperature must be a number from 0 to",
        ),
        (
            set_at(f"{LANE}.config.temperature", 9),
            "temperature must be 0 or from 0.001 to 5, got",
        ),
        (
            set_at(f"{LANE}.config.drawing", "x"),
            "….config.drawing must be one of independent, without",
        ),
        (set_at("target.bytes", "big"), "trace.target.bytes must be a whole number from 0"),
        (set_at(f"{LANE}.finish", "tired"), "….finish must be one of end-of-sequence, length"),
        (set_at("tokens.1.0", 0), "trace.tokens must name each token once, got 0 twice"),
        (set_at("tokens.1.1", 5), "trace.tokens[1][1] must be Unicode text"),
        (set_at(f"{LANE}.prefill", None), "….prefill must exist before 2 rounds, got null"),
        (set_at(f"{LANE}.prefill.seconds", -1), "….prefill.seconds must be a number from 0 to"),
        (
            set_at(ROUND, []),
            "….rounds[0] must be an object, got an array of 0",
        ),
        (set_at(f"{LANE}.rounds.1.i", 7), "….rounds[1].i must be 1, got 7"),
        (
            set_at(f"{ROUND}.context", 3),
            "….rounds[0].context must be 9, the tokens before",
        ),
        (
            set_at(f"{ROUND}.tree.drawing", "magic"),
            "….rounds[0].tree.drawing must be one of independent",
        ),
        (
            set_at(f"{NODES}.parent.2", 2),
            "….rounds[0].tree.nodes.parent[2] must be below its own",
        ),
        (
            set_at(f"{NODES}.parent.1", 4),
            "….rounds[0].tree.nodes.parent[1] must be below its own",
        ),
        (
            set_at(f"{NODES}.parent.1", -2),
            "….rounds[0].tree.nodes.parent[1] must be a whole number",
        ),
        (
            set_at(f"{NODES}.depth.1", 3),
            "….rounds[0].tree.nodes.depth[1] must be 2, one more",
        ),
        (set_at(f"{ROUND}.extras", [10**6] * 6), "….rounds[0].extras["),
        (
            set_at(f"{ROUND}.extras", None),
            "….rounds[0].extras must be an array, got None",
        ),
        (
            set_at(f"{ROUND}.extras", 0),
            "….rounds[0].extras must be an array, got 0",
        ),
        (set_at("lanes.0.steps.seconds.0", -0.5), "trace.lanes[0].steps.seconds[0] must be a"),
        (
            set_at(f"{ROUND}.extras", [1]),
            "….rounds[0].extras must have 6 items, got 1",
        ),
        (
            set_at(f"{VERDICTS}.u.0", None),
            "….rounds[0].verdicts.u[0] must be a number from 0",
        ),
        (
            set_at(f"{NODES}.q.0", 1.2),
            "….rounds[0].tree.nodes.q[0] must be a number from 0 to 1",
        ),
        (
            set_at(f"{NODES}.q", [0.5]),
            "….rounds[0].tree.nodes.q must have 5 items, got 1",
        ),
        (
            set_at(f"{NODES}.id", [0] * 65),
            "….rounds[0].tree.nodes.id must have at most 64 items",
        ),
        (
            set_at(f"{VERDICTS}.u.0", -0.1),
            "….rounds[0].verdicts.u[0] must be a number from 0",
        ),
        (
            set_at(f"{VERDICTS}.p.0", None),
            "….rounds[0].verdicts.p[0] must be a number from 0",
        ),
        (set_at(f"{VERDICTS}.outcome.2", "x"), "….rounds[0].verdicts.outcome[2] must be one of"),
        (
            set_at(f"{VERDICTS}.outcome", ["unreached", *["accepted"] * 4]),
            "….rounds[0].verdicts.outcome must accept one",
        ),
        (
            set_at(f"{ROUND}.positions.0.parent", 5),
            "….rounds[0].positions[0].parent must be",
        ),
        (
            set_at(f"{ROUND}.positions.0.p", []),
            "….rounds[0].positions[0].p must have 10 items",
        ),
        (
            set_at(f"{ROUND}.extra.kind", "gift"),
            "….rounds[0].extra.kind must be one of first",
        ),
        (set_at(f"{ROUND}.draft_seconds", [1]), "….rounds[0].draft_seconds must be a number"),
        (set_at(f"{ROUND}.spans.end.0", -1), "….rounds[0].spans.end[0] must be a number"),
        (set_at(f"{ROUND}.spans.start.0", 99), "….rounds[0].spans.end[0] must be a number"),
        (set_at(f"{ROUND}.spans.who.0", "<a href=x>"), "….rounds[0].spans.who[0] must be 1 to 40"),
        (set_at(f"{LANE}.name", "<b>"), "….name must be 1 to 40 letters, digits, spaces or"),
        (
            set_at(f"{LANE}.name", "baseline"),
            "trace.lanes must have unique names, got 'baseline' twice",
        ),
        (set_at(f"{LANE}.kind", "magic"), "….kind must be one of baseline, speculative"),
        (set_at("lanes", []), "trace.lanes must have at least one lane, got none"),
        (set_at(f"{ROUND}.notes", [{"note": "?"}]), "….rounds[0].notes[0]"),
        (
            set_at(f"{ROUND}.cache.committed", True),
            "….rounds[0].cache.committed must be a whole number from 0",
        ),
        (set_at(f"{LANE}.forks", [{"round": 1}]), "….forks[0].config is missing"),
        (
            set_at(f"{LANE}.forks", [{"round": -1, "config": {}, "forced": []}]),
            "….forks[0].round must be a whole number from 0",
        ),
        (set_at(f"{LANE}.forks", None), "….forks must be an array, got None"),
        (set_at("lanes.0.prefill", None), "trace.lanes[0].prefill must exist before"),
        (set_at("lanes.0.steps.id", []), "trace.lanes[0].steps.id must have"),
        (
            set_at("lanes.0.steps.prob.1", 2),
            "trace.lanes[0].steps.prob[1] must be a number from 0",
        ),
    ],
)
def test_a_broken_trace_is_refused_with_the_name_of_its_field(change: Change, message: str) -> None:
    value = copy.deepcopy(encode_trace(random_trace(0, rounds=2)))
    change(value)
    with pytest.raises(InputError) as error:
        decode_trace(value)
    assert str(error.value).startswith(message.replace("…", "trace.lanes[1]"))
    assert "\n" not in str(error.value) and len(str(error.value)) < 250


def test_more_rounds_than_a_run_can_have_are_refused() -> None:
    value = encode_trace(random_trace(0, rounds=1))
    value["lanes"][1]["rounds"] *= 4097
    with pytest.raises(InputError, match="rounds must have at most 4096 items, got 4097"):
        decode_trace(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "trace must be JSON text or gzip of it, got an empty file"),
        (gzip.compress(b"", mtime=0), "trace must be JSON text or gzip of it, got an empty file"),
        (b"not json", f"{WANTED}, got text that is not JSON from line 1, column 1 on: 'not json'"),
        (b"\xff\xfe", f"{WANTED}, got bytes that are neither JSON nor gzip"),
        (
            b'{"kind": "sweep"}\n{"kind": "point"}',
            f"{WANTED}, got text that is not JSON from line 2, column 1 on: a second object, as in "
            "the file of a sweep, which the Lab opens",
        ),
        (b"[" * 100_000, "trace must be JSON text or gzip of it, got maximum recursion"),
        (b"[" + b"9" * 5000 + b"]", "trace must be JSON text or gzip of it, got Exceeds the limit"),
        (b"[NaN]", "trace must hold finite numbers only, got NaN"),
        (b"[-Infinity]", "trace must hold finite numbers only, got -Infinity"),
        (b'{"a": 1, "a": 2}', "trace must name each field once, got 'a' twice"),
        (b"[1, 2]", f"{WANTED}, got other JSON: an array of 2 items"),
        (b"null", f"{WANTED}, got other JSON: None"),
        (b"\x1f\x8bgarbage", "trace must be a whole gzip file, got "),
        (
            gzip.compress(b"{}" * 999, mtime=0)[:-9],
            "trace must be a whole gzip file, got Compressed file ended",
        ),
    ],
)
def test_bytes_that_are_not_a_trace_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as error:
        loads(data)
    assert str(error.value).startswith(message)


def test_for_a_truncated_file_the_error_says_where_it_ends() -> None:
    with pytest.raises(InputError, match="not JSON from line 1, column 4 on: the file ends there"):
        loads(b"[1,")


def test_a_duplicate_among_many_fields_is_found_quickly() -> None:
    names = [f'"f{i}": 0' for i in range(40_000)]
    data = "{" + ", ".join([*names, names[-1]]) + "}"
    started = time.thread_time()
    with pytest.raises(InputError, match="trace must name each field once, got 'f39999' twice"):
        loads(data.encode())
    assert time.thread_time() - started < 2


def test_a_number_that_overflows_to_infinity_is_refused() -> None:
    text = dumps(random_trace(0, rounds=0)).decode()
    broken = text.replace('"entropy":1.25', '"entropy":1e999', 1)
    with pytest.raises(InputError, match="entropy must be a number from 0 to 1e[+]300, got inf"):
        loads(broken.encode())


def test_a_file_above_the_size_limit_is_refused_packed_or_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 1000)
    (tmp_path / "plain").write_bytes(b" " * 1001)
    (tmp_path / "bomb").write_bytes(gzip.compress(b" " * 50_000))
    assert (tmp_path / "bomb").stat().st_size < 1000
    for name in ("plain", "bomb"):
        with pytest.raises(InputError, match="trace must be at most 1000 bytes, got 1001 or more"):
            load(tmp_path / name)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path must be an existing file, got .*nowhere"):
        load(tmp_path / "nowhere")


@given(st.binary(max_size=200))
def test_no_bytes_raise_any_error_except_input_error(data: bytes) -> None:
    with pytest.raises(InputError):
        loads(data)
