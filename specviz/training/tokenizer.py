"""The family's tokenizer: byte-level BPE, trained on a sample with equal parts of every task.

Round trips are byte-exact: nothing is normalised, no space is put in front, no token is added. A
digit is a token of its own. Knows nothing of what the documents say.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus

VOCABULARY = 4096
END = "<|endoftext|>"
SAMPLE_CHARS = 1_500_000  # of each task
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def tag(task: str) -> str:
    """The special token that opens a document of the task: "code" -> "<|code|>"."""
    return f"<|{task}|>"


def train_tokenizer(corpus: Corpus, seed: int = 0) -> PreTrainedTokenizerFast:
    """A tokenizer of VOCABULARY tokens; `<|endoftext|>` is 0 and the tags follow."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END, *map(tag, TASKS)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_sample(corpus, seed), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=list(map(tag, TASKS)),
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def open_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that `save_pretrained` wrote to `folder`."""
    return PreTrainedTokenizerFast.from_pretrained(folder)


def _sample(corpus: Corpus, seed: int) -> Iterator[str]:
    for task in TASKS:
        documents = list(corpus.training[task])
        random.Random(f"{seed} sample {task}").shuffle(documents)
        taken = 0
        while documents and taken < SAMPLE_CHARS:
            taken += len(documents[-1])
            yield documents.pop()
