"""A rehearsal of the GPU probe runs every step on a CPU, and a failure stops no other part."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.benchmark import step_costs
from specviz.models.graphs.captured_model import GraphSteps
from specviz.models.language_model import ForwardOutput
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import load_pair
from tests import gpu_probe
from tests.gpu import scale
from tests.gpu.cuda_tests import run_tests
from tests.gpu.exactness import compare
from tests.gpu.probe_results import ARCHIVE, FAILED, LATE, LINES, OK, SUMMARY, Entry, Results
from tests.gpu.step import PROBLEM, Measure, Step
from tests.gpu.summary import summary

ROOT = Path(__file__).resolve().parents[1]
FEW = replace(
    scale.REHEARSAL,
    contexts=(16,),
    rounds=scale.REHEARSAL.rounds[:1],
    dtypes=("float32",),
    methods=("draft-model", "prompt-lookup"),
    test_paths=("tests/models/test_captured_work.py",),
    test_workers=0,
)
WITHOUT_LIMIT = 600.0


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment variables that the probe sets for its process."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LINES).read_text().splitlines()]


def test_a_rehearsal_runs_every_step_and_packs_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.gpu import steps

    patient = [replace(step, limit=WITHOUT_LIMIT, most=WITHOUT_LIMIT) for step in steps.STEPS]
    # Other work on the machine may slow every step, so the test removes all time limits.
    monkeypatch.setattr(steps, "STEPS", tuple(patient))
    monkeypatch.setattr(scale, "REHEARSAL", FEW)
    monkeypatch.setattr(step_costs, "STEPS", 4)
    monkeypatch.setattr(step_costs, "WARM_UP_STEPS", 1)
    monkeypatch.setattr(gpu_probe, "WHOLE_SECONDS", WITHOUT_LIMIT)
    status = gpu_probe.main(["--output", str(tmp_path), "--device", "cpu"])
    lines = lines_of(tmp_path)
    assert status == 0, [line for line in lines if line["status"] != OK]
    assert {line["label"].partition("/")[0] for line in lines} == {each.name for each in patient}
    values = {line["label"]: line["values"] for line in lines}
    assert values["exactness/draft-model float32 0"]["is_same_text"] is True
    assert values["facts/capture"]["is_equal"] is True
    assert values["cost/8b at 16"]["rows"][1]["tokens"] == 4
    assert values["cost/rounds draft-model K=3 at 16"]["round_seconds"] > 0
    assert values["cost/8b profile"]["kernels_per_layer"] > 1
    with tarfile.open(tmp_path / ARCHIVE) as archive:
        names = archive.getnames()
        assert {LINES, SUMMARY, f"trace-{BUNDLED}-draft-model-0.json.gz"} <= set(names)
        packed = archive.extractfile(SUMMARY)
        assert packed is not None and b"Whole rounds" in packed.read()


def step_of(*parts: tuple[str, Measure], name: str = "made", most: float = 60.0) -> Step:
    def make(scale: object, results: object) -> Iterator[tuple[str, Measure]]:
        yield from parts

    return Step(name, 60.0, most, make)


def run(folder: Path, *steps: Step, earlier: Path | None = None) -> dict[str, Entry]:
    """Run the steps without a limit of the total time; return the newest entry of every part."""
    results = Results(folder, earlier)
    gpu_probe.run_steps(steps, FEW, results, deadline=float("inf"))
    return results.latest()


def test_a_part_that_fails_or_hangs_does_not_stop_the_others(tmp_path: Path) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("out of\nmemory")

    hanging = step_of(("hangs", lambda: {"never": threading.Event().wait(600)}), most=0.05)
    problem = ("is wrong", lambda: {PROBLEM: "two texts", "margin": 3.0})
    parts = step_of(("is broken", broken), problem, ("works", lambda: {"a": 1}), name="next")
    found = run(tmp_path, hanging, parts)
    assert [(each.label, each.status) for each in found.values()] == [
        ("made/hangs", LATE),
        ("next/is broken", FAILED),
        ("next/is wrong", FAILED),
        ("next/works", OK),
    ]
    assert found["next/is broken"].error == "out of memory"
    assert "raise RuntimeError" in found["next/is broken"].traceback
    assert found["next/is wrong"].values == {"margin": 3.0}


def test_a_second_call_runs_only_the_parts_that_have_not_passed(tmp_path: Path) -> None:
    calls: list[str] = []

    def part(name: str, is_good: bool) -> tuple[str, Measure]:
        def measure() -> dict[str, Any]:
            calls.append(name)
            return {"call": len(calls)} if is_good else {PROBLEM: "no"}

        return name, measure

    run(tmp_path / "first", step_of(part("good", True), part("bad", False)))
    mended = step_of(part("good", True), part("bad", True))
    found = run(tmp_path / "second", mended, earlier=tmp_path / "first" / LINES)
    assert calls == ["good", "bad", "bad"]
    assert {label: each.values for label, each in found.items()} == {
        "made/good": {"call": 1},
        "made/bad": {"call": 3},
    }
    assert [line["status"] for line in lines_of(tmp_path / "second")] == [OK, FAILED, OK]


def test_an_interrupted_probe_packs_the_results_that_it_has(tmp_path: Path) -> None:
    code = f"""
import threading
from tests import gpu_probe
from tests.gpu.probe_results import Results
from tests.test_gpu_probe import step_of

parts = step_of(("works", lambda: {{}}), ("hangs", lambda: {{"never": threading.Event().wait()}}))
gpu_probe._loaded = lambda device: (None, [parts])
gpu_probe.probe(Results(gpu_probe.Path({str(tmp_path)!r})), "cpu", (), 600)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    # Wait until the part "works" has ended. The probe then runs the part "hangs", which never ends.
    while "made/works" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=60)[0]
    assert "the process was asked to end" in told
    with tarfile.open(tmp_path / ARCHIVE) as archive:
        packed = archive.extractfile(LINES)
        assert packed is not None
        labels = [json.loads(line)["label"] for line in packed]
    assert labels == ["made/works", "probe"]


def test_without_a_gpu_the_reason_is_a_result(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert gpu_probe.main(["--output", str(tmp_path)]) == 1
    (line,) = lines_of(tmp_path)
    assert line["error"].startswith("torch finds no CUDA device")
    assert (tmp_path / ARCHIVE).is_file()


def test_results_are_never_overwritten(tmp_path: Path) -> None:
    Results(tmp_path).add(Entry("made/works", OK))
    with pytest.raises(SystemExit):
        gpu_probe.main(["--output", str(tmp_path), "--device", "cpu"])
    assert len(lines_of(tmp_path)) == 1


def test_each_cuda_test_is_a_result_and_is_not_repeated_once_it_has_passed(tmp_path: Path) -> None:
    file = tmp_path / "test_made.py"
    file.write_text(
        "import pytest\n\n"
        "@pytest.mark.cuda\ndef test_good(): pass\n\n"
        "@pytest.mark.cuda\ndef test_bad(): assert 1 == 2\n"
    )
    made = replace(FEW, test_paths=(str(file),))
    results = Results(tmp_path / "results")
    assert PROBLEM in run_tests(made, results)
    statuses = {label.rpartition("::")[2]: each for label, each in results.latest().items()}
    assert statuses["test_good"].status == OK
    assert statuses["test_bad"].status == FAILED and "1 == 2" in statuses["test_bad"].traceback
    again = run_tests(made, results)
    assert again["passed before"] == 1 and again["failed"] == 1 and "passed" not in again


def test_wrongly_captured_steps_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # Load a pair whose steps are not captured; the pair stays in memory. The comparison must not
    # reuse this pair, but load one that captures its steps.
    load_pair(pair_named(BUNDLED), "cpu")
    usual = GraphSteps.forward

    def shifted(steps: GraphSteps, *arguments: Any) -> ForwardOutput:
        output = usual(steps, *arguments)
        return replace(output, logits=output.logits.roll(1, -1))

    monkeypatch.setattr(GraphSteps, "forward", shifted)
    found = compare(FEW, "float32", "prompt-lookup", 0.0)
    assert "captured and uncaptured steps write two texts" in found[PROBLEM]


def test_a_summary_needs_no_results() -> None:
    assert summary({}) == ""
    late = {name: Entry(f"cost/{name}", LATE) for name in ("a", "b")}
    assert "cost: no time left for 2 parts" in summary(late)


def test_the_probe_knows_every_method() -> None:
    assert set(scale.GPU.methods) == set(DRAFTERS)
