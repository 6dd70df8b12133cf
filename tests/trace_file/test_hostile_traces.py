"""About fifty hostile files are each refused in one line that gives the reason.

Each file is a complete trace except for one hostile change. The tests also upload it through the
page's handler (`ui.recordings`), because strangers can reach it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.trace_file import MAX_FILE_BYTES, MAX_VALUES, encode_trace
from specviz.ui.recordings import MAX_UPLOAD_BYTES, requested_trace
from tests.random_traces import random_trace
from tests.trace_file.test_broken_traces import set_at

Value = dict[str, Any]
TREE = encode_trace(random_trace(0, rounds=3, branching=(2, 2)))


def changed(path: str, value: object) -> bytes:
    """Return the JSON of a trace with `value` as the item at `path`, such as `lanes.0.name`."""
    trace = json.loads(json.dumps(TREE))
    set_at(path, value)(trace)
    return json.dumps(trace).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in TREE.items() if key != name}).encode()


def spelled(old: str, new: str) -> bytes:
    """Return the trace's JSON text with one piece replaced by text that no JSON writer produces."""
    text = json.dumps(TREE)
    assert old in text
    return text.replace(old, new, 1).encode()


def two_paths() -> bytes:
    """Return a trace in which both children of the root are accepted."""
    outcomes = ["unreached"] * len(TREE["lanes"][1]["rounds"][0]["tree"]["nodes"]["id"])
    outcomes[0] = outcomes[1] = "accepted"
    return changed(f"{VERDICTS}.outcome", outcomes)


def bomb() -> bytes:
    """Return a small file that unpacks to more bytes than a trace may have."""
    return gzip.compress(b" " * (MAX_FILE_BYTES + 1), compresslevel=1)


def crowd() -> bytes:
    """Return a small file with millions of empty arrays, each of which would become an object."""
    return gzip.compress(b"[" + b"[]," * MAX_VALUES + b"[]]", compresslevel=1)


LANE = "lanes.1"
ROUND = f"{LANE}.rounds.0"
NODES, VERDICTS = f"{ROUND}.tree.nodes", f"{ROUND}.verdicts"
FILES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "a picture": lambda: b"\x89PNG\r\n\x1a\n",
    "HTML": lambda: b"<script>window.pwned=1</script>",
    "half of the text": lambda: json.dumps(TREE).encode()[:5000],
    "half of a gzip": lambda: gzip.compress(json.dumps(TREE).encode())[:500],
    "not gzip after all": lambda: b"\x1f\x8b" + b"\x00" * 40,
    "a gzip bomb": bomb,
    "millions of empty lists": crowd,
    "a gzip of a gzip": lambda: gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
    "nested a hundred thousand deep": lambda: b"[" * 100_000,
    "a number of five thousand digits": lambda: b"[" + b"9" * 5000 + b"]",
    "NaN": lambda: spelled('"total_variation": null', '"total_variation": NaN'),
    "infinity": lambda: spelled('"total_variation": null', '"total_variation": Infinity'),
    "a number that overflows": lambda: spelled('"entropy": 1.25', '"entropy": 1e999'),
    "a repeated key": lambda: spelled('"device":', '"dtype": 1, "device":'),
    "another format": lambda: changed("format", "evil"),
    "a version to come": lambda: changed("version", 99),
    "a list": lambda: b"[1]",
    "a missing field": lambda: without("lanes"),
    "a field too many": lambda: changed("__proto__", {"polluted": True}),
    "rounds that are text": lambda: changed(f"{LANE}.rounds", "many"),
    "a round that is null": lambda: changed(f"{LANE}.rounds.1", None),
    "a lone surrogate": lambda: changed("tokens.0.1", "\ud800"),
    "a token twice": lambda: changed("tokens.1.0", 0),
    "a token without a text": lambda: changed("tokens.0", [0]),
    "a negative count": lambda: changed(f"{LANE}.drafter_bytes", -1),
    "a huge number": lambda: changed("target.parameters", 10**400),
    "a truth as a number": lambda: changed("prompt_ids.0", True),
    "a fraction as a token": lambda: changed(f"{NODES}.id.0", 0.5),
    "a node that is its own parent": lambda: changed(f"{NODES}.parent.1", 1),
    "a cycle of two": lambda: changed(f"{NODES}.parent.0", 2),
    "a parent below the root": lambda: changed(f"{NODES}.parent.2", -2),
    "a depth that skips": lambda: changed(f"{NODES}.depth.2", 7),
    "columns of two lengths": lambda: changed(f"{NODES}.q", [0.5]),
    "more nodes than a tree has": lambda: changed(f"{NODES}.id", [0] * 65),
    "a probability of two": lambda: changed(f"{VERDICTS}.p.0", 2),
    "an outcome that is none": lambda: changed(f"{VERDICTS}.outcome", ["zzzzzz"] * 6),
    "a second accepted path": two_paths,
    "a place behind a node that is not": lambda: changed(f"{ROUND}.positions.0.parent", 40),
    "an extra token behind a node that is not": lambda: changed(f"{ROUND}.extra.parent", 64),
    "rounds out of order": lambda: changed(f"{LANE}.rounds.2.i", 1),
    "a round that stands on too few tokens": lambda: changed(f"{LANE}.rounds.1.context", 0),
    "a note of no drafter": lambda: changed(f"{ROUND}.notes", [{"note": "evil"}]),
    "time that runs back": lambda: changed(f"{ROUND}.spans.start.0", 99),
    "a link as a worker's name": lambda: changed(f"{ROUND}.spans.who.0", '<a href="//x">x</a>'),
    "a lane twice": lambda: changed(f"{LANE}.name", "baseline"),
    "a picture as a lane's name": lambda: changed(f"{LANE}.name", "<img src=x>"),
    "a lane of no kind": lambda: changed(f"{LANE}.kind", "evil"),
    "no lane": lambda: changed("lanes", []),
    "a cache below nothing": lambda: changed(f"{ROUND}.cache.rolled_back", -5),
    "rounds before a prefill": lambda: changed(f"{LANE}.prefill", None),
    "a method's option of text": lambda: changed(f"{LANE}.config.options", [["k", "rm -rf"]]),
    "a temperature beyond its bound": lambda: changed(f"{LANE}.config.temperature", 99),
}


def refusal(question: dict[str, Any]) -> str:
    with pytest.raises(InputError) as error:
        requested_trace(question)
    return str(error.value)


@pytest.fixture(scope="module")
def sentences() -> dict[str, str]:
    """Return, for the name of each hostile file, the message that the page shows for it."""
    files = {name: base64.b64encode(make()).decode() for name, make in FILES.items()}
    messages = {name: refusal({"data": data}) for name, data in files.items()}
    messages["no file"] = refusal({})
    messages["no base64"] = refusal({"data": "§§§§"})
    messages["too large to send"] = refusal({"data": "A" * (2 * MAX_UPLOAD_BYTES)})
    messages["no such recording"] = refusal({"golden": "../../etc/passwd"})
    return messages


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_refused_in_one_short_line(sentences: dict[str, str], name: str) -> None:
    message = sentences[name]
    assert message and "\n" not in message and len(message) < 250
    assert "Traceback" not in message and "<script" not in message


def test_each_refusal_has_a_different_sentence(sentences: dict[str, str]) -> None:
    assert len(sentences) >= 30
    assert len(set(sentences.values())) == len(sentences), sorted(sentences.values())


def test_the_original_file_without_the_change_is_accepted() -> None:
    data = base64.b64encode(json.dumps(TREE).encode()).decode()
    assert len(requested_trace({"data": data}).rounds) == 3
