import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.training.__main__ import main
from specviz.training.corpus import FILES, TASKS
from specviz.training.evaluation import Evaluation
from specviz.training.family import FamilyPlan, make_family
from specviz.training.pretraining import llama_config


@pytest.fixture(scope="module")
def made(
    sources: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[FamilyPlan, Evaluation]:
    """A whole run of a few seconds."""
    folder = tmp_path_factory.mktemp("family")
    plan = FamilyPlan(
        corpus=sources[0],
        output=folder / "assets" / "models",
        work=folder / "work",
        minutes=0.03,
        compiled=False,
        library=sources[1],
        target=llama_config(layers=4, width=64, inner=64),
        draft=llama_config(layers=1, width=64, inner=64),
        step_tokens=512,
        cache_rows=4,
        cache_window=80,
    )
    return plan, make_family(plan)


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_run_makes_folders_that_transformers_opens(
    made: tuple[FamilyPlan, Evaluation], role: str
) -> None:
    folder = made[0].output / role
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    ids = tokenizer("<|code|>def f(", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape == (1, ids.shape[1], 4096)


def test_every_task_is_scored_and_sampled(made: tuple[FamilyPlan, Evaluation]) -> None:
    evaluation = made[1]
    assert set(evaluation.scores) == set(evaluation.target_samples) == set(TASKS)
    assert all(0 < scores.target_loss < 12 for scores in evaluation.scores.values())


def test_prompts_lie_beside_the_models(made: tuple[FamilyPlan, Evaluation]) -> None:
    prompts = json.loads((made[0].output.parent / "prompts.json").read_text("utf-8"))
    assert list(prompts) == list(TASKS) and all(prompts.values())


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_card_has_front_matter_sources_and_measured_losses(
    made: tuple[FamilyPlan, Evaluation], role: str
) -> None:
    plan, evaluation = made
    card = (plan.output / role / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: ") and "pipeline_tag: text-generation" in card
    for word in (
        "Tatoeba",
        "manythings.org",
        "CC-BY 2.0",
        "GSM8K",
        "MIT",
        "Gutenberg",
        "PSF",
        *FILES,
    ):
        assert word in card
    for scores in evaluation.scores.values():
        loss = scores.target_loss if role == "target" else scores.draft_loss
        assert f" {loss:.2f} |" in card


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--minutes", "0"], "minutes must be > 0, got 0.0"),
        (["--minutes", "1", "--device", "cuda:77"], "device must be available here, got 'cuda:77'"),
        (["--minutes", "1"], "corpus must be a folder that holds books.tar.gz, got '"),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], message: str
) -> None:
    if "cuda:77" in extra and torch.cuda.is_available():
        pytest.skip("names a device that a CUDA machine would try")
    folders = [
        "--corpus",
        str(tmp_path),
        "--output",
        str(tmp_path / "o"),
        "--work",
        str(tmp_path / "w"),
    ]
    assert main([*folders, *extra]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_unknown_options_are_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(["--what"])
    assert refusal.value.code == 2 and capsys.readouterr().err.count("\n") == 1
