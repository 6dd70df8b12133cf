"""The transformers library's own ways to decode, on the same models: what our speed is set beside.

Greedy only. Knows nothing of specviz's decoder.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from specviz.models.catalog import Pair
from specviz.models.loading import resolve_device, resolve_dtype


class LibraryPeer:
    """`generate()` and `generate(assistant_model=…)` on a pair that is on this machine already."""

    def __init__(self, pair: Pair, device: str = "auto", dtype: str = "float32") -> None:
        self._device = resolve_device(device)
        self._target = self._load(pair.target, dtype)
        self._draft = self._load(pair.draft, dtype)

    def _load(self, source: str, dtype: str) -> Any:
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=resolve_dtype(dtype), attn_implementation="sdpa", local_files_only=True
        )
        return model.to(self._device).eval()

    def generate(self, prompt_ids: Sequence[int], max_new_tokens: int) -> list[int]:
        """The library's plain greedy loop; the new tokens."""
        return self._run(prompt_ids, max_new_tokens)

    def assisted(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Its assisted decoding with really `draft_length` tokens per round.

        The library reads the length from the assistant's generation config (as an argument of
        `generate` it is ignored) and shortens it by confidence and by schedule unless told not to.
        """
        settings = copy.deepcopy(self._draft.generation_config)
        settings.num_assistant_tokens = draft_length
        settings.num_assistant_tokens_schedule = "constant"
        settings.assistant_confidence_threshold = 0.0
        self._draft.generation_config = settings
        return self._run(prompt_ids, max_new_tokens, assistant_model=self._draft)

    def _run(self, prompt_ids: Sequence[int], max_new_tokens: int, **options: Any) -> list[int]:
        tokens = torch.tensor([prompt_ids], device=self._device)
        output = self._target.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            **options,
        )
        ids: list[int] = output[0, len(prompt_ids) :].tolist()
        return ids
