"""Corpus folder -> held-out documents, tokenizer and token files, once per work folder.

Knows nothing of models.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import HELD_OUT, TASKS, read_corpus
from specviz.training.library_code import standard_library
from specviz.training.prompts import prompts
from specviz.training.token_file import document_ids, write_token_file
from specviz.training.tokenizer import open_tokenizer, train_tokenizer


@dataclass(frozen=True, slots=True)
class Material:
    """What training needs of the corpus."""

    tokenizer: PreTrainedTokenizerFast
    token_files: dict[str, Path]
    held_out: dict[str, list[str]]  # HELD_OUT documents per task
    prompts: dict[str, list[str]]


def prepare(corpus_folder: Path, work: Path, library: Path | None = None) -> Material:
    """Read, or make and read, the material in `work`."""
    if not (work / "held_out.json").exists():
        _make(corpus_folder, work, library or standard_library())
    return Material(
        tokenizer=open_tokenizer(work / "tokenizer"),
        token_files={task: work / "tokens" / f"{task}.bin" for task in TASKS},
        held_out=json.loads((work / "held_out.json").read_text("utf-8")),
        prompts=json.loads((work / "prompts.json").read_text("utf-8")),
    )


def _make(corpus_folder: Path, work: Path, library: Path) -> None:
    corpus = read_corpus(corpus_folder, library)
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(corpus)
    tokenizer.save_pretrained(work / "tokenizer")
    for task in TASKS:
        write_token_file(
            work / "tokens" / f"{task}.bin", document_ids(tokenizer, task, corpus.training[task])
        )
    write_json(
        work / "prompts.json", {task: prompts(task, corpus.held_out[task]) for task in TASKS}
    )
    write_json(work / "held_out.json", {task: corpus.held_out[task][:HELD_OUT] for task in TASKS})


def write_json(path: Path, value: object) -> None:
    """Readable, accents as they are."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
