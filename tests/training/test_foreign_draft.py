from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus, beginning
from specviz.training.foreign_training import (
    Reader,
    evaluate_foreign,
    foreign_mixture,
    meeting,
    next_token_loss,
    prepare_foreign,
    train_foreign,
    translatable,
)
from specviz.training.network import Network
from specviz.training.pretraining import llama_config
from specviz.training.token_files import END, FOREIGN, open_tokenizer, tag, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus) -> PreTrainedTokenizerFast:
    return train_tokenizer(corpus)


@pytest.fixture(scope="module")
def foreign(corpus: Corpus) -> PreTrainedTokenizerFast:
    return train_tokenizer(corpus, FOREIGN)


def test_neither_vocabulary_contains_the_other(
    tokenizer: PreTrainedTokenizerFast, foreign: PreTrainedTokenizerFast
) -> None:
    ours, theirs = set(tokenizer.get_vocab()), set(foreign.get_vocab())
    assert ours - theirs and theirs - ours and ours & theirs


def test_the_end_token_and_the_tags_are_the_same_in_both(foreign: PreTrainedTokenizerFast) -> None:
    assert foreign(END + "".join(map(tag, TASKS)))["input_ids"] == list(range(6))


def test_digits_form_one_token_and_a_sign_joins_its_word(foreign: PreTrainedTokenizerFast) -> None:
    cuts = foreign.backend_tokenizer.pre_tokenizer.pre_tokenize_str("a_b 1234")
    assert [text for text, _ in cuts] == ["a", "_b", "Ġ", "123", "4"]


@pytest.mark.parametrize("text", [" two  spaces ", "a\r\n\tb\n\n", "🙂 «é» \u202f?", "x , 1234 ."])
def test_any_text_survives_encoding_and_decoding(
    foreign: PreTrainedTokenizerFast, text: str
) -> None:
    assert foreign.decode(foreign(text)["input_ids"]) == text


@pytest.mark.parametrize("task", TASKS)
def test_a_prompt_has_the_same_tokens_as_the_beginning_of_its_document(
    foreign: PreTrainedTokenizerFast, corpus: Corpus, task: str
) -> None:
    for text in corpus.held_out[task]:
        prompt = foreign(tag(task) + beginning(task, text))["input_ids"]
        assert foreign(tag(task) + text)["input_ids"][: len(prompt)] == prompt


def test_matched_tokens_have_the_same_bytes(
    tokenizer: PreTrainedTokenizerFast, foreign: PreTrainedTokenizerFast
) -> None:
    ours, theirs = meeting(tokenizer, foreign)
    assert len(ours) == len(set(ours.tolist())) == len(set(theirs.tolist())) > 256
    assert tokenizer.convert_ids_to_tokens(ours) == foreign.convert_ids_to_tokens(theirs)


def test_the_target_s_text_is_translated_without_cutting_a_character(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    whole = tokenizer(f"{tag('story')}Once{END}{tag('code')}x")["input_ids"]
    cut = [*tokenizer("a ")["input_ids"], *tokenizer("🙂")["input_ids"][:1]]
    assert translatable(tokenizer, [whole, cut]) == [f"{tag('story')}Once{END}{tag('code')}x", "a "]


def test_half_of_its_training_text_is_written_by_the_target(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    written = np.array([tokenizer("zz" * 40)["input_ids"][:20]] * 30, dtype=np.uint16)
    prepare_foreign(corpus, tokenizer, written, tmp_path)
    mixture = foreign_mixture(tmp_path, seed=0)
    assert set(mixture.shares) == {*TASKS, "written"} and mixture.shares["written"] == 0.5
    rows = open_tokenizer(tmp_path / "tokenizer").batch_decode(mixture.batch(40, 5))
    assert sum(set(row) == {"z"} for row in rows) == pytest.approx(20, abs=1)


@pytest.mark.usefixtures("step_a_second")
def test_training_can_be_resumed_and_gives_the_same_weights(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    prepare_foreign(corpus, tokenizer, np.zeros((2, 300), dtype=np.uint16), tmp_path)
    config = llama_config(layers=1, width=64, inner=64, vocabulary=FOREIGN.vocabulary)

    def train(seconds: float) -> tuple[Network, int]:
        network, progress = train_foreign(
            config, foreign_mixture(tmp_path, 0), tmp_path / "f.pt", seconds, compiled=False
        )
        return network, progress.step

    _, first = train(2)
    network, second = train(5)
    assert (first, second, train(5)[1]) == (2, 5, 5)
    assert next_token_loss(network, torch.zeros(1, 9, dtype=torch.long)) < 8


def test_a_model_with_the_target_s_tokenizer_shares_every_token(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    torch.manual_seed(0)
    config = llama_config(layers=1, width=64, inner=64, vocabulary=len(tokenizer))
    reader = Reader(Network(config, torch.float32), tokenizer)
    found = evaluate_foreign(reader, reader, reader, {"story": ["The old king found a boat."]})
    assert found.meeting == found.target_vocabulary == found.foreign_vocabulary
    scores = found.scores["story"]
    assert scores.target_loss == scores.draft_loss == scores.foreign_loss > 0
    assert scores.target_mass == scores.foreign_mass == pytest.approx(1, abs=1e-3)
    assert scores.overlap == pytest.approx(1, abs=1e-3) and scores.common_ends == 1
