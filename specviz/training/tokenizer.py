"""The family's tokenizers: byte-level BPE, one for target and draft, another for the foreign draft.

Round trips are byte-exact: nothing is normalised, no space is put in front, no token is added. The
two differ in what they were trained on, where they cut text before merging, and in size, so that
neither vocabulary holds the other. Knows nothing of what the documents say.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from specviz.training.corpus import TASKS, Corpus

VOCABULARY, FOREIGN_VOCABULARY = 4096, 3072
END = "<|endoftext|>"
_MARKS_AND_SPACE = r"| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a tokenizer is made of."""

    vocabulary: int
    words: str  # pattern of the pieces that merges stay within
    sample_chars: Mapping[str, int]  # of each task


# A digit stands alone; one space belongs to what follows it.
FAMILY = Recipe(
    VOCABULARY,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}" + _MARKS_AND_SPACE,
    dict.fromkeys(TASKS, 1_500_000),
)
# Up to three digits stand together, without a space; any one sign belongs to the word after it.
FOREIGN = Recipe(
    FOREIGN_VOCABULARY,
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _MARKS_AND_SPACE,
    {
        "code": 400_000,
        "story": 3_000_000,
        "maths": 800_000,
        "translate": 1_500_000,
        "summarise": 200_000,
    },
)


def tag(task: str) -> str:
    """The special token that opens a document of the task: "code" -> "<|code|>"."""
    return f"<|{task}|>"


def train_tokenizer(
    corpus: Corpus, recipe: Recipe = FAMILY, seed: int = 0
) -> PreTrainedTokenizerFast:
    """A tokenizer of the recipe's size; `<|endoftext|>` is 0 and the tags follow."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(recipe.words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=[END, *map(tag, TASKS)],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(_sample(corpus, recipe, seed), trainer)
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


def _sample(corpus: Corpus, recipe: Recipe, seed: int) -> Iterator[str]:
    for task in TASKS:
        documents = list(corpus.training[task])
        random.Random(f"{seed} sample {task}").shuffle(documents)
        taken = 0
        while documents and taken < recipe.sample_chars[task]:
            taken += len(documents[-1])
            yield documents.pop()
