"""Several requests at once to real engines, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from specviz.cli import main
from specviz.commands import load_command
from specviz.commands.engine_serving import engine_with
from specviz.commands.load_command import verdict
from specviz.engines.model_deployment import EngineMethod
from specviz.models.pair_catalog import pair_named
from specviz.sizing.measured_times import read_measured

TOKENS = 12


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    """With drafts and without, four requests at once each."""
    pair, more = pair_named("bundled"), {"max_batch": 4, "max_length": 512}
    with (
        engine_with(pair, EngineMethod.DRAFT_MODEL, 3, "Q8_0", **more) as fast,
        engine_with(pair, EngineMethod.NONE, 3, "Q8_0", **more) as plain,
    ):
        yield fast.url, plain.url


def loaded(capsys: Any, *flags: str) -> tuple[int, dict[str, Any], str]:
    status = main(["load", *flags, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out or "{}"), captured.err


def test_levels_are_measured_until_drafts_no_longer_pay(urls: Any, capsys: Any) -> None:
    flags = (
        "--plain",
        urls[1],
        "--at-once",
        "1,2,4",
        "--each",
        "2",
        "--max-new-tokens",
        str(TOKENS),
    )
    status, found, err = loaded(capsys, urls[0], *flags)
    assert status == 0 and found["levels"] and "1 at once: " in err
    for level in found["levels"]:
        for name in ("speculative", "plain"):
            server = level[name]
            count = 2 * level["at_once"]
            for each in server["passes"]:
                assert each["tokens"] == count * TOKENS and len(each["first_tokens"]) == count
            assert 0 < server["first_token_p50"] <= server["first_token_p95"]
            assert 0 < server["token_p50"] <= server["token_p95"]
        assert 0 < level["speculative"]["acceptance"] < 1 and level["plain"]["acceptance"] is None
    gains = [
        each["speculative"]["tokens_per_second"] >= each["plain"]["tokens_per_second"]
        for each in found["levels"]
    ]
    assert len(gains) == 3 or not any(gains)
    assert found["verdict"] == verdict(found["levels"]) != ""
    assert found["engine"].startswith("llama.cpp") and found["draft_length"] == 3
    times = read_measured(json.dumps(found), "load.json")  # what `size --measured` takes
    for curve in (times.steps, times.rounds[3]):
        assert [rows for rows, _ in curve] == [each["at_once"] for each in found["levels"]]


def test_one_server_is_measured_alone_and_what_is_read_is_a_table(urls: Any, capsys: Any) -> None:
    flags = ("--at-once", "2", "--each", "1", "--max-new-tokens", "4", "--task", "story")
    assert main(["load", urls[0], *flags]) == 0
    heading, row, *rest = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["at", "once"] and row.split()[:2] == ["2", "yes"] and not rest


def test_ctrl_c_keeps_what_is_measured(urls: Any, capsys: Any, monkeypatch: Any) -> None:
    level, seen = load_command.load_level, []

    def measured(*arguments: Any) -> Any:
        if arguments[3] == 2:
            raise KeyboardInterrupt
        seen.append(arguments[3])
        return level(*arguments)

    monkeypatch.setattr(load_command, "load_level", measured)
    status, found, err = loaded(capsys, urls[0], "--at-once", "1,2", "--max-new-tokens", "4")
    assert status == 0 and [each["at_once"] for each in found["levels"]] == [1] == seen[-1:]
    assert err.endswith("stopped\n") and found["verdict"] == ""


def level(at_once: int, fast: float, plain: float) -> dict[str, Any]:
    rates = {"speculative": fast, "plain": plain}
    return {"at_once": at_once} | {n: {"tokens_per_second": r} for n, r in rates.items()}


@pytest.mark.parametrize(
    "levels, said",
    [
        ([], ""),
        ([level(1, 9, 10)], "Speculation does not pay: 0.90x with 1 at once."),
        ([level(1, 20, 10)], "Speculation pays up to 1 at once: 2.00x the tokens a second."),
        (
            [level(1, 20, 10), level(4, 12, 10), level(8, 8, 10)],
            "Speculation pays up to 4 at once: 1.20x the tokens a second, and 0.80x with 8.",
        ),
    ],
)
def test_up_to_where_it_pays_is_one_sentence(levels: list[dict[str, Any]], said: str) -> None:
    assert verdict(levels) == said


@pytest.mark.parametrize(
    "flags, said",
    [
        (("--at-once", "4,2"), "at-once must be rising numbers from 1, got '4,2'"),
        (("--at-once", "0,2"), "at-once must be rising numbers from 1, got '0,2'"),
        (("--at-once", "1000"), "at-once must be a whole number from 1 to 256, got 1000"),
        (("--each", "0"), "each must be a whole number from 1 to 100, got 0"),
        (("--max-new-tokens", "1"), "max-new-tokens must be a whole number from 2 to 4,096, got 1"),
        (("--task", "poems"), "task must be one of"),
        (("--task", "code", "--prompts", "x"), "task and prompts must not be given together"),
        ((), "nothing listens there"),
    ],
)
def test_a_wrong_question_is_one_line(flags: tuple[str, ...], said: str, capsys: Any) -> None:
    status, _, err = loaded(capsys, "http://127.0.0.1:9", *flags)
    assert status == 2 and said in err and err.count("\n") == 1
