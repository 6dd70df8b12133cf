from pathlib import Path

import pytest

from specviz.training.corpus import (
    FILES,
    TASKS,
    Corpus,
    beginning,
    chunks,
    first_sentence,
    functions,
    prompts,
    read_corpus,
)


def test_every_task_has_training_and_held_out_documents(corpus: Corpus) -> None:
    for task in TASKS:
        assert corpus.training[task] and corpus.held_out[task], task


@pytest.mark.parametrize("task", TASKS)
def test_held_out_documents_never_occur_in_training(corpus: Corpus, task: str) -> None:
    assert not set(corpus.held_out[task]) & set(corpus.training[task])


def test_english_lines_of_held_out_phrase_books_never_occur_in_training(corpus: Corpus) -> None:
    trained = {line for text in corpus.training["translate"] for line in text.split("\n")[::2]}
    for text in corpus.held_out["translate"]:
        assert not trained & set(text.split("\n")[::2])


def test_held_out_functions_are_held_out_in_both_tasks(corpus: Corpus) -> None:
    names = {f"def {name}(" for name in _function_names(corpus.held_out["summarise"])}
    assert names and not any(name in text for text in corpus.training["code"] for name in names)
    names = {f"def {name}(" for name in _function_names(corpus.held_out["code"])}
    assert names and not any(
        name in text for text in corpus.training["summarise"] for name in names
    )


def _function_names(texts: tuple[str, ...]) -> list[str]:
    lines = (line for text in texts for line in text.split("\n") if line.startswith("def "))
    return [line[4:].split("(")[0] for line in lines]


def test_maths_keeps_the_split_of_its_source_and_loses_the_calculator_notes(corpus: Corpus) -> None:
    assert all("train garden" in text for text in corpus.training["maths"])
    assert all("test garden" in text for text in corpus.held_out["maths"])
    assert "Ben has 3*4=12 pears.\n#### 15" in corpus.training["maths"][3]


def test_phrase_books_alternate_english_and_french_with_single_spaces(corpus: Corpus) -> None:
    lines = corpus.training["translate"][0].split("\n")
    assert all("Number" in line for line in lines[::2])
    assert all(line.startswith("Phrase") and " :" in line for line in lines[1::2])


def test_summaries_follow_functions_without_docstrings(corpus: Corpus) -> None:
    function, summary = corpus.training["summarise"][0].split("\n\n")[:2]
    assert function.startswith("def compute_") and '"""' not in function
    assert summary.startswith("Compute total number") and summary.endswith("of a value.")


def test_test_files_of_the_library_are_left_out(corpus: Corpus) -> None:
    assert not any("SECRET" in text for text in corpus.training["code"])


def test_headings_and_credits_are_not_part_of_a_story(corpus: Corpus) -> None:
    assert not any("CHAPTER" in text or "Produced" in text for text in corpus.training["story"])


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(sources: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    for other in FILES:
        if other != name:
            (tmp_path / other).symlink_to(sources[0] / other)
    with pytest.raises(ValueError, match=f"corpus must be a folder that holds {name}"):
        read_corpus(tmp_path, sources[1])


@pytest.mark.parametrize("task", TASKS)
def test_a_prompt_ends_before_white_space_in_its_document(corpus: Corpus, task: str) -> None:
    for text in corpus.held_out[task]:
        prompt = beginning(task, text)
        assert text.startswith(prompt) and prompt == prompt.rstrip() and text[len(prompt)] in " \n"


def test_private_functions_come_last_among_prompts() -> None:
    body = "\n".join("    x = 1" for _ in range(90))
    texts = [f'def {name}():\n    """{"Say something. " * 6}"""\n{body}' for name in ("_a", "b")]
    assert [prompt[4] for prompt in prompts("code", texts)] == ["b", "_"]


def test_a_long_class_repeats_its_header() -> None:
    methods = "\n".join(f"    def method_{n}(self):\n        return {n}\n" for n in range(100))
    parts = list(chunks(f"class Long(Base):\n{methods}"))
    assert len(parts) > 1 and all(part.startswith("class Long(Base):") for part in parts)
    assert sum(part.count("def method_") for part in parts) == 100


def test_a_method_is_dedented_and_loses_its_docstring() -> None:
    steps = "\n".join(f"        self.value += {n}" for n in range(4))
    source = f'class A:\n    def add(self):\n        """Add four numbers.  Twice."""\n{steps}\n'
    (found,) = functions(source)
    assert found.summary == "Add four numbers."
    assert found.body.startswith("def add(self):\n    self.value += 0")
    assert found.lines in source


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Return the thing.  More of it.", "Return the thing."),
        ("Return the\n    thing\n\nMore.", "Return the thing."),
        ("too short", ""),
        ("f(x) -> the value of f at x", ""),
    ],
)
def test_the_first_sentence_of_a_docstring_is_found(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring) == sentence
