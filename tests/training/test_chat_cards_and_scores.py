from pathlib import Path

import torch

from specviz.folders import ASSETS
from specviz.training.cards import ChatFacts, EarlierDrafter, training_text
from specviz.training.chat_scores import ChatScores, tokens_per_round
from specviz.training.pretraining import Progress


def scores(tokens_per_round: float) -> dict[str, ChatScores]:
    return {"all": ChatScores([0.5], tokens_per_round, [0.4])}


def facts(earlier: EarlierDrafter | None) -> ChatFacts:
    return ChatFacts(1000, 64, 0.931, 5000, Progress(7, 120.0, 20_000), "a machine", earlier)


def test_a_new_drafter_s_training_begins_with_its_start() -> None:
    text = facts(None).training("Rows began as zeros.", "The loss is small.", scores(1.8))
    assert text.startswith("The drafter was trained on 5,000 tokens of the target's answers")
    assert text.endswith(" Rows began as zeros. The loss is small.")


def test_continued_training_adds_its_gain_to_the_earlier_text() -> None:
    earlier = EarlierDrafter("It began well.", scores(1.72))
    text = facts(earlier).training("Rows began as zeros.", "The loss is small.", scores(1.8))
    assert text.startswith("It began well.\n\nThen these weights were trained further, on 5,000 ")
    assert text.endswith("before and after: all 1.72 to 1.80.") and "zeros" not in text


def test_the_training_text_is_read_from_a_card(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A\n\n## Training\nOne.\n\nTwo.\n\n## More\nThree.\n")
    assert training_text(tmp_path) == "One.\n\nTwo."
    for name in ("eagle", "draft"):
        text = training_text(ASSETS / "models" / "smollm2-135m" / name)
        assert text.count("Then these weights were trained further, on ") >= 1


def test_a_round_begins_where_the_last_one_ended() -> None:
    right, wrong = [1.0, 1.0], [0.0, 0.0]
    # the three rounds begin at indices 0, 1 and 4 of the answer, so they do not include every index
    answer = torch.tensor([wrong, right, right, right, wrong])
    assert tokens_per_round([answer]) == 5 / 3
    assert tokens_per_round([answer, torch.tensor([[1.0, 0.0]])]) == 7 / 4
