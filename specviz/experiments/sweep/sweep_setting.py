"""The whole setting of one point of a sweep, and the race requests that it leads to.

This module runs nothing. It loads a tokenizer only to count the tokens of a prompt.
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
    """The setting of one point: `prompts` prompts, of which `batch_size` are decoded together.

    The prompts are held-out prompts of `task`, or the user's own `texts`, which need no task. Only
    whole batches are decoded: the first prompts are used again to fill the last batch, so that
    every batch size is measured on the same texts. Every row of the point has a seed of its own.
    `batch` has the settings that concern a whole batch.

    With `prompt_tokens` each prompt's own text is cut to that length, or extended with the text of
    the next prompts. A chat template or system prompt around the text stays whole and is not
    counted.
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
        """Return the texts from which the prompts are taken."""
        return self.texts or held_out_prompts(
            self.task or "", self.pair.is_asked_to_chat(self.task)
        )

    @property
    def batches(self) -> int:
        """Return the number of batches in which all prompts are decoded."""
        return -(-self.prompts // self.batch_size)

    @property
    def groups(self) -> tuple[tuple[RaceRequest, ...], ...]:
        """Return the race requests, grouped into batches."""
        size, rows = self.batch_size, self.requests
        return tuple(rows[at : at + size] for at in range(0, len(rows), size))

    @property
    def requests(self) -> tuple[RaceRequest, ...]:
        """Return one race request per row. Raises InputError for an invalid setting."""
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
        """Return prompt `number`, with its own text cut or extended to `prompt_tokens` tokens."""
        assert self.prompt_tokens is not None
        prompt, own_texts = texts[number], map(own_text, texts[number:] + texts[:number])
        text = "\n\n".join(own_texts)[: 8 * self.prompt_tokens]
        # The tokenizer is needed to cut the text exactly. A request with the whole text might be
        # refused as too long, so the text is first cut to at most 8 characters per token.
        codec = load_request(self._request(with_own_text(prompt, text))).codec
        return with_own_text(prompt, codec.beginning(text, self.prompt_tokens))
