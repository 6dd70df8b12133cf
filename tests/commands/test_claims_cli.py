"""`claims` prints all claims or one, as text or JSON, and measures them on this machine."""

from __future__ import annotations

import json

import pytest

from specviz.claims.all_claims import CLAIMS
from specviz.claims.claim import Batches, ClaimVerdict
from specviz.cli import main
from specviz.commands.claims_command import claims_result, judge_claims, shortfall
from specviz.errors import InputError
from specviz.experiments.benchmark import claim_measuring
from specviz.experiments.benchmark.claim_measuring import BUDGETS, Budget, ClaimMeasuring

TINY = Budget(prompts=1, max_new_tokens=6, repeats=1, samples=100)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["claims", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_table_has_a_line_per_claim(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys)
    assert status == 0 and err == ""
    numbers = [line.split()[0] for line in out.splitlines()[1:33]]
    assert numbers == [str(number) for number in range(1, 33)]
    for claim in CLAIMS.values():
        assert claim.title in out


def test_json_is_one_object_with_all_claims(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--json")
    result = json.loads(out)
    assert status == 0 and len(out.splitlines()) == 1
    assert [each["number"] for each in result["claims"]] == list(CLAIMS)
    assert result["complete"] is True and result["measured_on"] is None
    assert all(each["measured"] is None for each in result["claims"])


def test_one_claim_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--number", "12")
    words = " ".join(out.split())
    assert status == 0 and CLAIMS[12].said in words and CLAIMS[12].theory().sentence in words
    assert "2.04x" in out
    status, out, _ = run(capsys, "--number", "12", "--json")
    assert [each["number"] for each in json.loads(out)["claims"]] == [12]


@pytest.mark.parametrize("number", CLAIMS)
def test_every_claim_can_be_printed(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "--number", str(number))
    assert status == 0 and err == "" and out.startswith(f"{number}. {CLAIMS[number].title}")
    assert max(map(len, out.splitlines())) <= 100


def test_a_measured_claim_has_figures_with_their_spread(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = run(capsys, "--number", "3", "--measure", "--device", "cpu", "--json")
    result = json.loads(out)
    (claim,) = result["claims"]
    assert status == 0 and "claim 3" in err
    assert result["budget"] == "short" and result["measured_on"]["pair"] == "bundled"
    greedy, sampled = claim["measured"]["figures"]
    low, high = sampled["spread"]
    assert greedy["value"] == 0 and 0 < low <= sampled["value"] <= high < 1
    assert claim["measured"]["verdict"] == claim["verdict"] == "holds under conditions"


def test_a_claim_that_cannot_be_measured_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--number", "6", "--measure", "--device", "cpu")
    assert status == 0 and f"not measured: it {CLAIMS[6].reason}" in " ".join(out.split())


def test_ctrl_c_keeps_finished_measurements() -> None:
    def stop_at_4(line: str) -> None:
        if line.startswith("claim 4"):
            raise KeyboardInterrupt

    chosen = tuple(CLAIMS[number] for number in (3, 4, 6))
    measured, complete = judge_claims(chosen, ClaimMeasuring(TINY, "cpu"), stop_at_4)
    result = claims_result(chosen, measured, "short", None, complete)
    assert [each["measured"] is not None for each in result["claims"]] == [True, False, False]
    assert result["complete"] is False
    assert shortfall(result) == "1 of 2 claims measured"


def test_settings_that_cannot_run_here_do_not_stop_the_others() -> None:
    class Poor(ClaimMeasuring):
        """A measurement with a pair that lacks the draft model of claim 12."""

        def results(self, settings):  # type: ignore[no-untyped-def]
            if settings == CLAIMS[12].settings:
                raise InputError("pair 'bundled' has no draft model")
            return super().results(settings)

    said: list[str] = []
    chosen = tuple(CLAIMS[number] for number in (12, 3))
    measured, complete = judge_claims(chosen, Poor(TINY, "cpu"), said.append)
    assert list(measured) == [3] and not complete
    assert "claim 12 cannot be measured: pair 'bundled' has no draft model" in said
    assert shortfall(claims_result(chosen, measured, "short", None, complete)) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--number", "33"], "number must be a whole number from 1 to 32, got 33"),
        (["--number", "x"], "number must be a whole number, got 'x'"),
        (["--budget", "long"], "budget must be given together with 'measure', got 'long' alone"),
        (["--measure", "--budget", "huge"], "budget must be one of short, usual, long, got 'huge'"),
        (["--measure", "--device", "abacus"], "device must be one of"),
        (["--measure", "--dtype", "int3"], "dtype must be one of"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *arguments)
    assert status == 2 and out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"specviz: {message}")


def test_settings_that_two_claims_share_are_measured_once() -> None:
    measuring = ClaimMeasuring(TINY, "cpu")
    (first,) = measuring.results(CLAIMS[2].settings)
    (second,) = measuring.results(CLAIMS[4].settings)
    assert first is second


def test_a_batch_size_that_is_refused_ends_the_measurement_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = [{"method": "draft-model", "why": "pair 'bundled' needs 9 GB"}]
    found = {"rows": [{"batch_size": 1}], "refusals": refusals}
    monkeypatch.setattr(claim_measuring, "batch_benchmark", lambda *_: found)
    with pytest.raises(InputError, match="^pair 'bundled' needs 9 GB$"):
        ClaimMeasuring(TINY, "cpu").results([Batches((1, 64), 4)])


@pytest.mark.slow
def test_a_claim_can_be_measured_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict depends on the machine, so the test accepts any verdict."""
    status, out, err = run(capsys, "--number", "26", "--measure", "--device", "cpu", "--json")
    (claim,) = json.loads(out)["claims"]
    figures = {each["name"]: each for each in claim["measured"]["figures"]}
    assert status == 0 and "output-length 49" in err
    assert list(figures) == [f"speedup, {n} tokens" for n in (10, 25, 49)]
    for figure in figures.values():
        assert figure["spread"][0] <= figure["value"] <= figure["spread"][1]
    assert claim["verdict"] == "wrong"
    assert claim["measured"]["verdict"] in {each.value for each in ClaimVerdict}


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n, claim in CLAIMS.items() if claim.measured_rule])
def test_every_experiment_returns_the_keys_that_its_rule_reads(number: int) -> None:
    claim = CLAIMS[number]
    judged = claim.judge(MEASURING.results(claim.settings))
    assert judged.figures


MEASURING = ClaimMeasuring(TINY, "cpu")


def test_longer_budgets_use_more_samples_and_prompts() -> None:
    short, usual, long = BUDGETS.values()
    assert short.samples < usual.samples < long.samples
    assert short.prompts < usual.prompts < long.prompts
