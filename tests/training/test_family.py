import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specviz.training import evaluation, token_files
from specviz.training.__main__ import main
from specviz.training.corpus import FILES, TASKS
from specviz.training.family import make_family
from specviz.training.plan import FamilyPlan, Step
from specviz.training.pretraining import EXIT_LAYER, llama_config
from specviz.training.token_files import FOREIGN_VOCABULARY

Made = tuple[FamilyPlan, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def made(sources: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Run a whole training of a few seconds, scored on short texts; yield its plan and scores."""
    folder = tmp_path_factory.mktemp("family")
    plan = FamilyPlan(
        corpus=sources[0],
        output=folder / "assets" / "models",
        work=folder / "work",
        minutes=0.01,
        compiled=False,
        library=sources[1],
        target=llama_config(layers=4, width=64, inner=64),
        draft=llama_config(layers=1, width=64, inner=64),
        eagle=llama_config(layers=1, width=64, inner=64),
        foreign=llama_config(layers=1, width=64, inner=64, vocabulary=FOREIGN_VOCABULARY),
        step_tokens=512,
        cache_rows=4,
        cache_window=80,
    )
    with pytest.MonkeyPatch.context() as few:
        few.setattr(token_files, "HELD_OUT", 6)
        few.setattr(evaluation, "LONGEST", 128)
        few.setattr(evaluation, "SAMPLE_TOKENS", 12)
        yield plan, make_family(plan)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "vocabulary"),
    [("target", 4096), ("draft", 4096), ("foreign-draft", FOREIGN_VOCABULARY)],
)
def test_transformers_can_open_the_trained_folders(made: Made, role: str, vocabulary: int) -> None:
    folder = made[0].output / role
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    ids = tokenizer("<|code|>def f(", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape == (1, ids.shape[1], vocabulary)


@pytest.mark.slow
def test_every_task_is_scored_and_sampled(made: Made) -> None:
    for step in (Step.PAIR, Step.EAGLE, Step.MEDUSA, Step.FOREIGN_DRAFT):
        assert set(made[1][step]["scores"]) == set(TASKS)
    pair = made[1][Step.PAIR]
    assert set(pair["target_samples"]) == set(TASKS)
    assert all(0 < scores["target_loss"] < 12 for scores in pair["scores"].values())


@pytest.mark.slow
def test_the_prompts_are_saved_with_the_models(made: Made) -> None:
    prompts = json.loads((made[0].output.parent / "prompts.json").read_text("utf-8"))
    assert list(prompts) == list(TASKS) and all(prompts.values())


@pytest.mark.slow
@pytest.mark.parametrize("role", ["target", "draft", "eagle", "medusa", "foreign-draft"])
def test_a_card_has_front_matter_sources_and_a_row_per_task(made: Made, role: str) -> None:
    card = (made[0].output / role / "README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: ")
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
    assert all(f"| {task} | " in card for task in TASKS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "step", "loss", "digits"),
    [
        ("target", Step.PAIR, "target_loss", 2),
        ("draft", Step.PAIR, "draft_loss", 2),
        ("foreign-draft", Step.FOREIGN_DRAFT, "foreign_loss", 3),
    ],
)
def test_a_model_card_shows_the_measured_losses(
    made: Made, role: str, step: Step, loss: str, digits: int
) -> None:
    card = (made[0].output / role / "README.md").read_text("utf-8")
    assert "pipeline_tag: text-generation" in card
    for scores in made[1][step]["scores"].values():
        assert f" {scores[loss]:.{digits}f} |" in card


@pytest.mark.slow
@pytest.mark.parametrize("role", ["eagle", "medusa"])
def test_a_head_card_shows_the_measured_accuracy_of_every_level(made: Made, role: str) -> None:
    card = (made[0].output / role / "README.md").read_text("utf-8")
    for scores in made[1][role]["scores"].values():
        assert (
            f"| written | {' | '.join(f'{100 * level:.0f} %' for level in scores['written'])} |"
            in card
        )


@pytest.mark.slow
def test_the_target_s_folder_says_how_it_drafts_for_itself(made: Made) -> None:
    ways = json.loads((made[0].output / "target" / "self_drafting.json").read_text("utf-8"))
    assert ways["exit_layer"] == EXIT_LAYER
    assert len(set(ways["skipped_layers"])) == 3 and set(ways["skipped_layers"]) < set(range(4))


@pytest.mark.slow
def test_a_single_step_can_be_repeated_from_the_saved_results(made: Made) -> None:
    plan, measured = made
    again = make_family(replace(plan, steps=(Step.EAGLE,)))
    assert again == {"eagle": measured["eagle"]}


@pytest.mark.slow
def test_a_step_without_a_target_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="output must contain a trained target if the step pair is left out, got '"
    ):
        make_family(replace(made[0], steps=(Step.MEDUSA,), output=tmp_path))


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
