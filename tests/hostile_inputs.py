"""Hostile variants of every kind of request that the server answers.

Each is a pair (name, request). One test passes them to the handlers, another sends them to a
running server.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Iterator
from itertools import count
from typing import Any

from specviz.golden import OPENING, golden_trace
from specviz.records import SETTINGS
from specviz.sizing.serving_plan import FIELDS
from specviz.trace_file import encode
from specviz.ui.page import ASKED, COURSE_ASKED, LAB_ASKED, ROOM_ASKED, SERVING_ASKED

Asked = tuple[str, Any]
FORM = {"prompt": "hello", "max_new_tokens": "3", "temperature": "0"}

TEXTS: tuple[Any, ...] = (
    *("", " ", "\x00", "\ud800", "\udfff\ud800", "\u202e\u2066", "\ufffe", "\x1b[2J", "\r\n\r\n"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:alert(1)"),
    *("{{ 7 * 7 }}", "${7*7}", "{% for i in range(10**9) %}", "%s%n%x", "__proto__", "';--"),
    *(
        "<|endoftext|>" * 500,
        "a" * 300_000,
        "\n" * 50_000,
        "é" * 50_000,
        "𝔸" * 20_000,
        "\u0300" * 9999,
    ),
    *(None, True, 0, -1, 1.5, [], {}, ["x"], {"a": {}}, math.inf, 10**30),
)
NUMBERS: tuple[Any, ...] = (
    *(
        "-1",
        "0",
        "1e999",
        "-1e999",
        "NaN",
        "inf",
        "0x10",
        "1_0",
        "²",
        "٣",
        "1,5",
        "1e-400",
        "9" * 5000,
    ),
    *(None, True, [], {}, [1], 10**400, math.nan, -math.inf, "1\x00", "--1", "1;ls", "a" * 9999),
)
SOURCES: tuple[Any, ...] = (
    *(
        "/etc/passwd",
        "/etc/shadow",
        "/proc/self/environ",
        "/dev/zero",
        "/dev/tty",
        "/",
        "~",
        "~root",
    ),
    *("../../etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/x", "\\\\host\\share", "C:\\x"),
    *(
        "owner/model/../..",
        "owner/model\x00",
        "a/b/c",
        "a" * 5000,
        "a/" * 500,
        "*",
        "$(id)",
        "`id`",
    ),
    *("x.gguf", "/etc/passwd.gguf", "owner/\u202emodel", "model\nname", "-rf", ".", "..", "CON"),
    *(None, 3, [], {}, ["owner/model"], True),
)
NONSENSE: tuple[Any, ...] = (
    *(None, [], "text", 3, True, {}, {"form": None}, {"form": []}, {"form": {"form": {}}}),
    {"ticket": None, "after": None, "form": None, "file": None, "do": None, "what": None},
    {"ticket": {}, "after": "x", "form": [], "file": 3, "do": ["x" * 10_000], "what": {}},
    {"ticket": "t" * 20, "after": math.inf, "form": "x", "golden": [], "record": {}, "a": 1},
    {"ticket": "x" * 100_000, "form": {"prompt": {}}, "golden": "../" * 99, "a": {"data": "%"}},
    {"__class__": "x", "constructor": {}, "form": {"pair": "bundled", "method": "__init__"}},
)
TICKETS: tuple[Any, ...] = (*("", "short", "x" * 65, "x" * 10**6, "\x00" * 20, "\ud800" * 20), None)
RECORDS: tuple[Any, ...] = (None, [], {}, "x", {"tree": []}, {"tree": {"nodes": None}}, [[]] * 999)


def packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


FILES: tuple[Any, ...] = (
    *(
        "",
        "%%%",
        "A" * 30_000_000,
        None,
        5,
        [],
        {},
        packed(b""),
        packed(b"\x1f\x8b"),
        packed(b"[1]"),
    ),
    *(packed(b"\x89PNG\r\n"), packed(b"\x1f\x8b" + b"\x00" * 99), packed(b"[" * 99_999)),
    packed(gzip.compress(b" " * 30_000_000)),
    packed(gzip.compress(b"[" + b"[]," * 999 + b"[]]")),
    packed(gzip.compress(b" " * 10**6)[:-4] + b"\x00\x00\x00\x00"),
    packed(b'{"format": "specviz-trace", "version": 1e999}'),
    packed(b'{"format": "specviz-trace", "version": 1, "__proto__": {}}'),
    packed(b"\xff\xfe<\x00"),
)


def _round() -> Any:
    """Return the shortest round of a recording as JSON, so that tests can replace each number."""
    rounds = golden_trace(OPENING).rounds
    return encode(min(rounds, key=lambda each: len(str(each))))


def mutated(value: Any, hostile: Any) -> Iterator[Any]:
    """Yield copies of a JSON value; each copy has one number replaced by `hostile`."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from (value | {name: other} for other in mutated(each, hostile))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            for other in mutated(each, hostile):
                yield [*value[:at], other, *value[at + 1 :]]
    elif isinstance(value, int | float):
        yield hostile


def hostile_questions() -> list[Asked]:
    """Return all hostile requests.

    Each has a new ticket, so the server never refuses a request only because its ticket is in use.
    """
    return list(_questions())


def _questions() -> Iterator[Asked]:
    tickets = (f"a-hostile-ticket-{number}" for number in count())
    for name in (*ASKED, *LAB_ASKED, *COURSE_ASKED, *ROOM_ASKED, *SERVING_ASKED):
        for question in NONSENSE:
            yield name, question
    for value in TEXTS:
        for field in ("prompt", "system", "task", "method", "pair"):
            # The limit of 0 new tokens is not valid, so none of these requests starts a run.
            form = FORM | {field: value, "max_new_tokens": "0"}
            yield "join", {"ticket": next(tickets), "form": form}
    for setting in SETTINGS.values():
        if setting.is_bounded:
            for value in NUMBERS:
                form = FORM | {"branching": "0", setting.name: value}
                yield "join", {"ticket": next(tickets), "form": form}
    for value in NUMBERS:
        for field in FIELDS:
            yield "size", {"plan": {field: value}}
        for field in ("a", "K", "c", "v", "measured"):
            yield "theory", {"a": 0.5, "K": 4, "c": 0.1, "v": 0.1, field: value}
        yield "forward_line", {"counts": value, "seconds": value, "chosen": value}
        yield "arrivals", {"plan": {"load": value}}
    for value in TEXTS:
        yield "size", {"plan": {"target": "own"}, "target_config": value}
        yield "configuration", {"fields": value, "engine": value}
        yield "translation", {"text": value, "engine": value, "from": value, "to": value}
    for value in SOURCES:
        for role in ("target", "draft", "eagle", "medusa"):
            models = {"pair": "custom", "target": "owner/model", role: value}
            form = FORM | models | {"method": "draft-model", "device": "cpu", "dtype": "float32"}
            yield "check", {"form": form}
    for value in TICKETS:
        yield "join", {"ticket": value, "form": FORM}
        for name in ("look", "stop", "hold", "open", "profile"):
            yield name, {"ticket": value, "after": 0, "do": value, "golden": value}
    for data in FILES:
        yield "open", {"ticket": next(tickets), "data": data}
        yield "fork", {"ticket": next(tickets), "data": data, "round": 0}
        yield "diff", {"a": {"data": data}, "b": {"golden": "../x"}}
    for changes in (["method"], "method", {"method": []}, {"seed": "x" * 9999}, {"pair": "x"}, 5):
        parent = {"golden": OPENING, "round": 0, "changes": changes}
        yield "fork", {"ticket": next(tickets), **parent}
        yield "fork", {"ticket": next(tickets), **parent, "round": 10**9, "changes": {}}
    for value in TEXTS:
        member = {"room": value, "member": value, "version": 0, "number": 0, "choice": value}
        teacher = {"room": value, "secret": value, "version": value, "do": value, "page": value}
        for name in ROOM_ASKED:
            yield name, {"home": value} | member | teacher
        yield "open", {"ticket": next(tickets), "data": value}
        yield "join", {"ticket": next(tickets), "form": FORM | {"method": "none"}, "data": value}
    forced = {"0": 0.5, "1": 0.25}
    asked = {"record": _round(), "forced": forced, "ends": [0], "texts": {"0": "a"}, "root": 1}
    for question in mutated(asked, 10**400):
        yield "what_if", question
    for record in RECORDS:
        for forced in ({}, {"0": "x"}, {"0": 2}, {str(i): 0.5 for i in range(99)}, [], None):
            yield "what_if", {"record": record, "forced": forced, "ends": [], "texts": {}}
