from collections.abc import Iterator
from pathlib import Path

import torch

from specviz.training.corpus import Corpus
from specviz.training.head_training import (
    CONTINUATION,
    PREFIX,
    RANKS,
    HeldOutText,
    evaluate_head,
    held_out_text,
)
from specviz.training.network import Network
from specviz.training.token_files import train_tokenizer


def test_text_is_written_once_and_begins_like_the_documents(
    corpus: Corpus, target: Network, tmp_path: Path
) -> None:
    tokenizer = train_tokenizer(corpus)
    held_out = {"code": list(corpus.held_out["code"][:3])}
    texts = held_out_text(target, tokenizer, held_out, tmp_path / "written.json")
    assert texts.written["code"].shape == (3, PREFIX + CONTINUATION)
    for read, written in zip(texts.read["code"], texts.written["code"], strict=True):
        assert torch.equal(read[0, :PREFIX], written[:PREFIX])
    again = held_out_text(Network(target.config), tokenizer, held_out, tmp_path / "written.json")
    assert torch.equal(again.written["code"], texts.written["code"])


def test_correct_levels_in_a_row_and_ranks_are_counted(target: Network) -> None:
    tokens = torch.randint(1, 4096, (2, PREFIX + CONTINUATION))
    table = target.model.embed_tokens.weight.detach()

    def foretell(tokens: torch.Tensor, given: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield correct predictions at levels 1 and 3, and wrong ones at level 2."""
        roots = tokens.shape[1] - 4
        for level, sign in enumerate((1, -1, 1)):
            yield sign * given[:, level + 1 : level + 1 + roots] @ table.T

    found = evaluate_head(target, foretell, HeldOutText({"code": [tokens]}, {"code": tokens}))
    scores = found.scores["code"]
    assert scores.read == scores.written == [1, 0, 1] and scores.accepted == 1
    assert [len(level) for level in found.accuracies] == [RANKS] * 3
    assert found.accuracies[0] == [1.0] + [0.0] * (RANKS - 1)


def test_nothing_counts_after_the_end_token(target: Network) -> None:
    tokens = torch.randint(1, 4096, (1, PREFIX + CONTINUATION))
    tokens[0, PREFIX + 9] = 0  # the text's end token comes nine tokens after the prefix
    seen: list[int] = []

    def foretell(tokens: torch.Tensor, given: torch.Tensor) -> Iterator[torch.Tensor]:
        roots = tokens.shape[1] - 2
        logits = given[:, 1 : 1 + roots] @ target.model.embed_tokens.weight.detach().T
        # All predictions from this position on are made wrong. They are about the end token and the
        # text after it, so they must not count.
        last = PREFIX + 9 - 2
        seen.append(roots)
        logits[:, last:] = -logits[:, last:]
        yield logits

    found = evaluate_head(target, foretell, HeldOutText({"code": [tokens]}, {"code": tokens}))
    assert found.scores["code"].written == [1.0] and found.scores["code"].read[0] < 1 and seen
