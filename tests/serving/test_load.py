"""Several requests at once are sent to real engines, and the report describes the load."""

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
    """Start a server with drafts and a plain one; yield both addresses.

    Both accept four requests at once.
    """
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


def test_load_levels_are_measured_until_drafts_no_longer_pay(urls: Any, capsys: Any) -> None:
    flags = (
        "--plain",
        urls[1],
        "--concurrency",
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
            assert 0 < server["first_token_p50"] and 0 < server["token_p50"]
            # With fewer than 20 requests, the 95th percentile would be the slowest request.
            has_tail = 3 * count >= 20
            assert (server["first_token_p95"] is not None) is has_tail
            low, high = server["tokens_per_second_interval"]
            assert low < server["tokens_per_second"] < high
        assert 0 < level["speculative"]["draft_utilization"] < 1
        assert level["plain"]["draft_utilization"] is None
    gains = [each["speedup"] >= 1 for each in found["levels"]]
    assert len(gains) == 3 or not any(gains[-2:])
    assert all(
        x["speedup_interval"][0] < x["speedup"] < x["speedup_interval"][1] for x in found["levels"]
    )
    assert found["verdict"] == verdict(found["levels"]) != ""
    assert found["engine"].startswith("llama.cpp") and found["draft_length"] == 3
    times = read_measured(json.dumps(found), "load.json")  # `size --measured` reads this result
    for curve in (times.steps, times.rounds[3]):
        assert [rows for rows, _ in curve] == [each["at_once"] for each in found["levels"]]


def test_a_single_server_is_measured_and_its_table_is_printed(urls: Any, capsys: Any) -> None:
    flags = ("--concurrency", "2", "--each", "1", "--max-new-tokens", "4", "--task", "story")
    assert main(["load", urls[0], *flags]) == 0
    heading, row, *rest = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["at", "once"] and row.split()[:2] == ["2", "yes"] and not rest


def test_ctrl_c_keeps_the_finished_measurements(urls: Any, capsys: Any, monkeypatch: Any) -> None:
    level, seen = load_command.load_level, []

    def measured(*arguments: Any) -> Any:
        if arguments[3] == 2:
            raise KeyboardInterrupt
        seen.append(arguments[3])
        return level(*arguments)

    monkeypatch.setattr(load_command, "load_level", measured)
    status, found, err = loaded(capsys, urls[0], "--concurrency", "1,2", "--max-new-tokens", "4")
    assert status == 0 and [each["at_once"] for each in found["levels"]] == [1] == seen[-1:]
    assert err.endswith("stopped\n") and found["verdict"] == ""


def level(at_once: int, speedup: float, spread: float = 0.05, requests: int = 48) -> dict[str, Any]:
    ends = [speedup - spread, speedup + spread]
    compared = {"requests": requests, "speedup": speedup, "speedup_interval": ends}
    return {"at_once": at_once} | compared


UNCLEAR = "requests at once, the result is unclear."


@pytest.mark.parametrize(
    "levels, said",
    [
        ([], ""),
        (
            [level(1, 0.9)],
            "With 1 request at once, speculation does not pay: 0.90x the tokens per second "
            "(0.85 to 0.95).",
        ),
        (
            [level(1, 2.0)],
            "With 1 request at once, speculation pays: 2.00x the tokens per second (1.95 to 2.05).",
        ),
        (
            [level(1, 2.0), level(4, 1.2), level(8, 0.8)],
            "With 4 requests at once, speculation pays: 1.20x the tokens per second "
            "(1.15 to 1.25). With 8, it does not: 0.80x the tokens per second (0.75 to 0.85).",
        ),
        ([level(1, 1.02), level(2, 1.0)], f"No verdict. With 1, 2 {UNCLEAR}"),
        (
            [level(1, 2.0), level(4, 1.02)],
            "With 1 request at once, speculation pays: 2.00x the tokens per second (1.95 to 2.05). "
            f"With 4 {UNCLEAR}",
        ),
    ],
)
def test_a_level_is_decided_only_if_its_interval_excludes_1(
    levels: list[dict[str, Any]], said: str
) -> None:
    assert verdict(levels) == said


def test_two_requests_are_too_few_to_decide() -> None:
    assert verdict([level(1, 2.0, requests=2)]).startswith(
        "No verdict: a level needs at least 40 requests per server, but the largest has 2; raise"
    )


@pytest.mark.parametrize(
    "flags, said",
    [
        (
            ("--concurrency", "4,2"),
            "concurrency must be whole numbers from 1 in rising order, such as 1,2,4, got '4,2'",
        ),
        (
            ("--concurrency", "0,2"),
            "concurrency must be whole numbers from 1 in rising order, such as 1,2,4, got '0,2'",
        ),
        (("--concurrency", "1000"), "concurrency must be a whole number from 1 to 256, got 1000"),
        (("--each", "0"), "'each' must be a whole number from 1 to 100, got 0"),
        (("--max-new-tokens", "1"), "max-new-tokens must be a whole number from 2 to 4,096, got 1"),
        (("--task", "poems"), "task must be one of"),
        (
            ("--task", "code", "--prompt-file", "x"),
            "task and prompt-file must not be given together",
        ),
        ((), "nothing listens there"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(
    flags: tuple[str, ...], said: str, capsys: Any
) -> None:
    status, _, err = loaded(capsys, "http://127.0.0.1:9", *flags)
    assert status == 2 and said in err and err.count("\n") == 1
