"""The tables in docs/measurements.md come from commands and name the versions and machine."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.cli import _parser
from specviz.metrics.expected_accepted import expected_accepted
from tests.random_rounds import random_round

ROOT = Path(__file__).parent.parent


def script(name: str) -> Any:
    """Return a script in docs as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = script("measure_tables")

MADE = {"made_by": "specviz 0.1.0 (1a2b3c4d)", "processor": "AMD EPYC"}
STEPS = {
    "version": "0.1.0 (1a2b3c4d)",
    "processor": "AMD EPYC",
    "threads": 2,
    "bandwidth": 28.06e9,
    "models": [
        {
            "model": "target",
            "bytes": 538_060_032,
            "own_seconds": 0.025,
            "library_seconds": 0.05,
            "ratio": 0.5,
            "read_seconds": 0.02,
            "shares": {
                "matrices": 0.8,
                "attention": 0.05,
                "copies": 0.02,
                "else": 0.08,
                "between": 0.05,
            },
            "forwards": [{"tokens": 6, "seconds": 0.03, "ratio": 1.2}],
        }
    ],
    "kernels": [{"kind": "qkv", "rows": 1, "kernel": "compiled", "bytes_per_second": 25.04e9}],
    "formats": [
        {
            "weights": "int8",
            "bytes": 135e6,
            "seconds": 0.0125,
            "ratio": 0.5,
            "read_seconds": 0.005,
        }
    ],
}


def test_the_step_table_has_times_tokens_matrix_kernels_and_formats() -> None:
    asked: list[tuple[str, ...]] = []

    def run(*arguments: str) -> dict[str, Any]:
        asked.append(arguments)
        return STEPS

    lines = list(tables.steps("smollm2", run))
    assert asked == [("steps", "--pair", "smollm2", "--repeat", "8", "--formats")]
    assert lines[0].startswith("specviz 0.1.0 (1a2b3c4d), AMD EPYC, 2 threads")
    assert "28.1 GB/s" in lines[1]
    target = "| target, 538 MB | 25 ms | 50 ms | 0.50 | 20 ms | 80 % | 80 %, 5 %, 10 %, 5 % |"
    assert target in lines
    assert "| target | 25 ms | 30 ms (1.20) |" in lines
    assert "| qkv | 1 | compiled | 25.0 |" in lines
    assert "| int8 | 135 | 12.5 ms | 0.50 | 40 % |" in lines


def _race(*arguments: str) -> dict[str, Any]:
    is_greedy = arguments[arguments.index("--temperature") + 1] == "0"
    return MADE | {
        "device": "cpu (2 threads)",
        "speedup": 1.5 if is_greedy else 1.25,
        "speculative": {"acceptance_rate": 0.9},
        "baseline": {"tokens_per_second": 31.6, "reading_share": 0.834},
    }


def test_the_chat_model_table_has_an_entry_per_task_and_the_baseline_s_share_of_the_limit() -> None:
    lines = list(tables.chat(_race))
    assert lines[0].startswith("specviz 0.1.0 (1a2b3c4d), AMD EPYC, cpu (2 threads)")
    plain = " | ".join(["32 tokens/s (83 %)"] * 6)
    assert f"| baseline (of the reading limit) | 0 | {plain} |" in lines
    for method in tables.CHAT_METHODS:
        for temperature, speedup in (("0", "1.50"), ("0.7", "1.25")):
            entries = " | ".join([f"{speedup}, α 0.90"] * 6)
            assert f"| {method} | {temperature} | {entries} |" in lines


def test_a_benchmark_table_has_a_row_per_method_and_empty_cells_for_missing_values() -> None:
    row = {"speedup": 2.26, "speedup_spread": [2.23, 2.29], "tokens_per_second": 72.4}
    counted = {"acceptance_rate": 0.98, "block_efficiency": 5.5, "extra_bytes": 6.7e6}
    plain = {"acceptance_rate": None, "block_efficiency": None, "extra_bytes": None}
    rows = [
        row | plain | {"method": "baseline", "task": "code"},
        row | counted | {"method": "draft-model", "task": "code"},
        row | plain | {"method": "generate()", "task": "story"},
        row | counted | {"method": "early-exit", "task": "code", "extra_bytes": 0},
    ]
    lines = list(tables.bench("5", "0", lambda *_: MADE | {"rows": rows}))
    assert lines[0].startswith("specviz 0.1.0 (1a2b3c4d), AMD EPYC")
    assert "| baseline | 72 tokens/s |  |  |  |  |  |" in lines
    told = "2.26 (2.23–2.29), α 0.98, τ 5.5"
    assert f"| draft-model | {told} |  |  |  |  | 6.7 MB |" in lines
    assert "| generate() |  | 2.26 (2.23–2.29) |  |  |  |  |" in lines
    assert f"| early-exit | {told} |  |  |  |  | 0 |" in lines


@pytest.mark.parametrize("name", ["steps", "chat-steps", "chat", "greedy", "sampled"])
def test_every_table_is_printed_by_its_name_and_comes_from_valid_commands(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = STEPS | MADE | {"rows": []}

    def run(*arguments: str) -> dict[str, Any]:
        _parser().parse_args([*arguments, "--json"])  # raises InputError for an unknown flag
        return _race(*arguments) if name == "chat" else found

    monkeypatch.setattr(tables, "specviz", run)
    tables.main(name)
    out = capsys.readouterr().out
    assert out.startswith(f"\n## {name}\n") and "specviz 0.1.0 (1a2b3c4d)" in out


def test_the_expected_accepted_tokens_of_a_draft_follow_from_its_record_for_both_rules() -> None:
    made = random_round(widths=(1, 1))
    numbers = ((0.2, 0.4, 0.1), (0.3, 0.2, 0.5))
    verdicts = tuple(
        replace(old, target_prob=p, draft_prob=q, acceptance_prob=h)
        for old, (p, q, h) in zip(made.verdicts, numbers, strict=True)
    )
    by_token, as_block = expected_accepted(replace(made, verdicts=verdicts))
    assert by_token == pytest.approx(0.5 + 0.5 * 1)
    assert as_block == pytest.approx(2 * 0.5 + 1 * 0.1 * 0.5)
