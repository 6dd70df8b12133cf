"""The whole setting of one point of a sweep, and the races that it asks for.

Runs nothing; only to count a prompt's tokens it loads a tokenizer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from specviz.decoding.batch_options import ALL_DRAFT, BatchOptions, row_seed
from specviz.errors import whole_between
from specviz.experiments.run.racing import RaceRequest, load_request
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompts, own_text, with_own_text
from specviz.records import BATCH, DecodingConfig, Prompt

MAX_PROMPTS = 40
MAX_PROMPT_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class SweepSetting:
    """The first `prompts` prompts, decoded one after another or `batch_size` at once.

    They are the held-out ones of `task`, or `texts` of one's own, which need no task.

    Whole batches are decoded, the first prompts again behind the last, so that every batch size is
    measured on the same texts. Each race has a row's seed.

    With `prompt_tokens` each prompt's own text is cut to at most so many, or goes on with that of
    the next ones; a chat template around it, or a system prompt, stays whole and is not counted.
    `batch` is what the rows of a batch share.
    """

    pair: Pair
    config: DecodingConfig
    task: str | None = "code"
    prompts: int = 3
    prompt_tokens: int | None = None
    device: str = "auto"
    dtype: str = "float32"
    batch_size: int = 1
    texts: tuple[Prompt, ...] = ()
    batch: BatchOptions = ALL_DRAFT

    def __post_init__(self) -> None:
        most = min(MAX_PROMPTS, len(self.all_texts))
        whole_between(self.prompts, "prompts", 1, most)
        if self.prompt_tokens is not None:
            whole_between(self.prompt_tokens, "prompt-length", 1, MAX_PROMPT_TOKENS)
        BATCH["batch_size"].check(self.batch_size)

    @property
    def all_texts(self) -> tuple[Prompt, ...]:
        """What the prompts are taken from."""
        return self.texts or held_out_prompts(self.task or "", self.pair.instruct)

    @property
    def batches(self) -> int:
        """How many groups of prompts are decoded."""
        return -(-self.prompts // self.batch_size)

    @property
    def groups(self) -> tuple[tuple[RaceRequest, ...], ...]:
        """The races that run together."""
        size, rows = self.batch_size, self.requests
        return tuple(rows[at : at + size] for at in range(0, len(rows), size))

    @property
    def requests(self) -> tuple[RaceRequest, ...]:
        """One race per row. InputError for what a user can mend."""
        return tuple(map(self._row, range(self.batches * self.batch_size)))

    def _row(self, row: int) -> RaceRequest:
        texts, number = self.all_texts, row % self.prompts
        text = texts[number] if self.prompt_tokens is None else self._sized(texts, number)
        request = self._request(text)
        seed = row_seed(self.config.seed, row)
        return replace(request, config=replace(self.config, seed=seed))

    def _request(self, text: Prompt) -> RaceRequest:
        return RaceRequest(self.pair, text, self.config, self.task, self.device, self.dtype)

    def _sized(self, texts: tuple[Prompt, ...], number: int) -> Prompt:
        """Prompt `number`, its text cut, or going on with that of the next ones."""
        assert self.prompt_tokens is not None
        prompt, own_texts = texts[number], map(own_text, texts[number:] + texts[:number])
        text = "\n\n".join(own_texts)[: 8 * self.prompt_tokens]
        # loaded for a prompt of about that size: as a whole it need not fit
        codec = load_request(self._request(with_own_text(prompt, text))).codec
        return with_own_text(prompt, codec.beginning(text, self.prompt_tokens))
