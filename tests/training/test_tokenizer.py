from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus, beginning
from specviz.training.token_files import END, open_tokenizer, tag, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(corpus).save_pretrained(folder)
    return open_tokenizer(folder)


@settings(max_examples=100, deadline=None)
@given(text=st.text())
def test_any_text_survives_encoding_and_decoding(
    tokenizer: PreTrainedTokenizerFast, text: str
) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("text", [" two  spaces ", "a\r\n\tb\n\n", "🙂 «é» \u202f?", "x , y ."])
def test_white_space_and_emoji_survive_encoding_and_decoding(
    tokenizer: PreTrainedTokenizerFast, text: str
) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_the_end_token_has_id_0_and_the_tags_follow(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer(END + "".join(map(tag, TASKS)))["input_ids"] == list(range(6))


def test_the_tokenizer_adds_no_token(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer("")["input_ids"] == []
    assert tokenizer.convert_ids_to_tokens(tokenizer("7")["input_ids"]) == ["7"]


def test_each_digit_is_a_token(tokenizer: PreTrainedTokenizerFast) -> None:
    assert len(tokenizer("2048")["input_ids"]) == 4


@pytest.mark.parametrize("task", TASKS)
def test_a_prompt_has_the_same_tokens_as_the_beginning_of_its_document(
    tokenizer: PreTrainedTokenizerFast, corpus: Corpus, task: str
) -> None:
    for text in corpus.held_out[task]:
        prompt = tokenizer(tag(task) + beginning(task, text))["input_ids"]
        assert tokenizer(tag(task) + text)["input_ids"][: len(prompt)] == prompt


def test_auto_tokenizer_can_open_it(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    text = "def f(x):\n    return x  # 42 «é»"
    opened = AutoTokenizer.from_pretrained(tmp_path)
    assert opened(text)["input_ids"] == tokenizer(text)["input_ids"]
