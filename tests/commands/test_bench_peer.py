"""`bench --peer llama.cpp` also measures llama.cpp, in every pass over the methods' prompts."""

from __future__ import annotations

import json
from statistics import median

import pytest

from specviz.cli import main
from specviz.commands import bench_command
from specviz.serving.llama_cpp.llama_cpp_process import ENGINE, is_installed

BENCH = ("bench", "--pair", "bundled", "--tasks", "code", "--prompt-count", "1", "--device", "cpu")
FEW = ("--methods", "prompt-lookup", "--draft-lengths", "2", "--max-new-tokens", "8")
PEER = (*BENCH, *FEW, "--peer", ENGINE, "--json")


@pytest.mark.skipif(not is_installed(), reason="needs xllamacpp")
def test_the_ratios_compare_passes_that_ran_directly_after_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*PEER, "--repeat", "2"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    rows = {row["method"]: row for row in result["rows"]}
    (found,) = result["engine"]
    baseline, engine = rows["baseline"]["rates"], rows[ENGINE]["rates"]
    assert len(engine) == len(baseline) >= 2
    ratios = [ours / theirs for ours, theirs in zip(baseline, engine, strict=True)]
    assert found["baseline_over_engine"] == pytest.approx(median(ratios))
    assert found["best_method"] == "prompt-lookup" and found["best_over_engine"] > 0
    assert "runs on 1 threads" in err  # the small bundled target also uses one thread


def test_a_missing_engine_is_named_before_anything_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.serving.llama_cpp.llama_cpp_process.find_spec", lambda name: None)
    monkeypatch.setattr(bench_command, "load_pair", lambda *_: pytest.fail("it was loaded"))
    assert main([*BENCH, *FEW, "--peer", ENGINE]) == 2
    assert 'must be installed to be started: pip install "specviz[llama-cpp]"' in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "flags, told",
    [
        (("--peer", "vllm"), "peer must be llama.cpp"),
        (("--peer", ENGINE, "--temperature", "0.8"), "temperature must be 0 with 'peer'"),
        (("--peer", ENGINE, "--dtype", "bfloat16"), "dtype must be float32 with 'peer'"),
        (("--peer", ENGINE, "--batch-size", "2"), "peer must not be given with batch-size"),
        (("--peer", ENGINE, "--device", "cuda"), "device must be cpu or auto with 'peer'"),
        (("--peer", ENGINE, "--device", "tpu"), "device must be cpu or auto with 'peer'"),
        (("--peer", ENGINE, "--methods", "nope"), "methods must be among"),
        (("--peer", ENGINE, "--tasks", "nope"), "task must be one of"),
    ],
)
def test_settings_that_do_not_suit_a_comparison_are_refused_before_the_engine_starts(
    flags: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench_command, "engine_with", lambda *_, **__: pytest.fail("it started"))
    assert main([*BENCH, *FEW, *flags]) == 2
    assert told in capsys.readouterr().err
