"""All drafters of a chat model are trained from start to end, for the smallest chat model."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specviz.environment import Environment
from specviz.models.files.loading import load_model, load_surveyed
from specviz.models.files.survey import survey_model
from specviz.models.heads.eagle_files import open_eagle_head
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.training import chat, chat_draft, chat_sampling
from specviz.training.cards import training_text
from specviz.training.chat import main
from specviz.training.chat_draft import text_files
from specviz.training.chat_prompts import chat_prompts
from tests.chat_folder import chat_folder


@pytest.fixture
def few_messages(sources: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "chat_prompts", lambda corpus: chat_prompts(corpus, sources[1]))
    monkeypatch.setattr(chat, "text_files", lambda *given: text_files(*given, sources[1]))
    for name, value in (("TEXT_ROWS", 2), ("TEXT_LENGTH", 8)):
        monkeypatch.setattr(chat_draft, name, value)
    for name, value in (("BLOCK_ROWS", 4), ("LONGEST_ANSWER", 12), ("FILE_TOKENS", 100)):
        monkeypatch.setattr(chat_sampling, name, value)
    monkeypatch.setattr(chat, "keep_freed_memory", lambda of_any_size: True)


def read_d2t(folder: Path) -> torch.Tensor:
    weights: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return weights["d2t"]


@pytest.mark.slow
@pytest.mark.usefixtures("few_messages", "step_a_second")
def test_trained_drafters_can_be_opened_and_have_cards_with_their_scores(
    sources: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, output, work = chat_folder(tmp_path), tmp_path / "out", tmp_path / "work"
    folders = ["--target", target, "--output", str(output), "--work", str(work)]
    options = [*folders, "--corpus", str(sources[0]), "--minutes", "0.1"]
    assert main(options) == 0
    files = [path.name for path in sorted((work / "answers").glob("*.npz"))]
    assert files and (work / "answers" / "held-out" / "answers-000.npz").exists()
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    scores = {name: found["all"] for each in printed for name, found in each.items()}
    assert {*scores} == {"eagle", "medusa", "draft"}
    for name, found in scores.items():
        assert 1 <= found["tokens_per_round"] <= 5
        card = (output / name / "README.md").read_text("utf-8")
        assert f"| {found['tokens_per_round']:.2f} |" in card

    loaded = load_model(target)
    model = loaded.model
    head = open_eagle_head(output / "eagle", model)
    logits, _ = head.forward(
        torch.tensor([5]),
        torch.zeros(1, model.info.hidden_size),
        torch.tensor([0]),
        head.new_cache(4),
    )
    assert head.drafted is not None and logits.shape == (1, len(head.drafted.ids))
    medusa = MedusaHeads.open(output / "medusa", model)
    assert medusa.drafted is not None
    logits = medusa.logits(torch.zeros(model.info.hidden_size))
    assert logits.shape == (3, len(medusa.drafted.ids))
    survey = survey_model(str(output / "draft"), Environment.read(), loaded.codec)
    draft = load_surveyed(survey, torch.device("cpu"), torch.float32).model
    zero = torch.zeros(1, 1, dtype=torch.int64)
    logits = draft.forward(zero, zero, draft.new_cache(2)).logits
    assert logits.shape == (1, 1, model.info.vocab_size)

    again = ["--continue", str(output), "--only", "eagle", "draft"]
    other = ["--output", str(tmp_path / "again"), "--work", str(tmp_path / "other")]
    shutil.copytree(work / "answers", tmp_path / "other" / "answers")
    assert main([*options, *other, *again]) == 0
    for name in ("eagle", "draft"):
        one, two = (read_d2t(folder / name) for folder in (output, tmp_path / "again"))
        assert torch.equal(one, two)
        before, after = (training_text(folder / name) for folder in (output, tmp_path / "again"))
        assert f"all {scores[name]['tokens_per_round']:.2f} to " in after
        assert after.startswith(f"{before}\n\nThen these weights were trained further: ")

    checkpoint = (work / "chat-eagle.pt").stat().st_mtime_ns
    assert main([*options, "--minutes", "0.3", "--only", "answers"]) == 0
    more = [path.name for path in sorted((work / "answers").glob("*.npz"))]
    assert {*files} < {*more} and (work / "chat-eagle.pt").stat().st_mtime_ns == checkpoint


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--minutes", "0"], "minutes must be > 0, got 0.0"),
        (["--minutes", "1", "--target", "nowhere"], "target must be a model folder, got 'nowhere'"),
        (
            ["--minutes", "1", "--only", "eagle"],
            "work must contain answers of the target, got none",
        ),
        (
            ["--minutes", "1", "--continue", "nowhere"],
            "continue must be a folder that has eagle/config.json, got 'nowhere'",
        ),
    ],
)
def test_bad_input_ends_with_one_line_and_status_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    extra: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(chat, "keep_freed_memory", lambda of_any_size: True)
    folders = ["--target", chat_folder(tmp_path), "--corpus", str(tmp_path)]
    work = ["--output", str(tmp_path / "o"), "--work", str(tmp_path / "w")]
    assert main([*folders, *work, *extra]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
