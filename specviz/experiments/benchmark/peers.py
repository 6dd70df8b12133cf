"""The transformers library's own ways to decode, on the same models: what our speed is set beside.

Greedy only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers

from specviz.models.files.gguf_file import dequantised
from specviz.models.files.gguf_source import LibrarySource, gguf_path
from specviz.models.files.loading import attention_of, resolve_device, resolve_dtype
from specviz.models.pair_catalog import Pair
from specviz.slices import check_stop

EXIT_SHARE = 4  # the library's early exit drafts with one layer in so many, as ours does


class LibraryPeer:
    """`generate()` in its several ways, on a pair that is on this machine already.

    `target_forwards` counts those of the last call: every forward with all the target's layers.
    """

    def __init__(self, pair: Pair, device: str = "auto", dtype: str = "float32") -> None:
        self._device = resolve_device(device)
        self._target = load_library_model(pair.target, self._device, dtype)
        self._draft = load_library_model(pair.draft, self._device, dtype) if pair.draft else None
        self._layers = self._target.config.num_hidden_layers
        self.target_forwards = 0
        self._target.register_forward_hook(self._count)

    def _count(self, model: Any, *_: object) -> None:
        check_stop()
        self.target_forwards += model.config.num_hidden_layers == self._layers

    def generate(self, prompt_ids: Sequence[int], max_new_tokens: int) -> list[int]:
        """The library's plain greedy loop; the new tokens."""
        return self._run(prompt_ids, max_new_tokens)

    def assisted(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Its assisted decoding with really `draft_length` tokens per round."""
        _draft_always(self._draft, draft_length)
        return self._run(prompt_ids, max_new_tokens, assistant_model=self._draft)

    def assisted_by_argument(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """The same with the length as an argument of `generate`, the assistant left as loaded."""
        return self._run(
            prompt_ids,
            max_new_tokens,
            assistant_model=self._draft,
            num_assistant_tokens=draft_length,
        )

    def prompt_lookup(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Its n-gram drafting out of the text so far."""
        return self._run(prompt_ids, max_new_tokens, prompt_lookup_num_tokens=draft_length)

    def early_exit(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Its self-drafting with the target's first layers."""
        _draft_always(self._target, draft_length)
        layers = max(1, self._layers // EXIT_SHARE)
        return self._run(prompt_ids, max_new_tokens, assistant_early_exit=layers)

    def _run(self, prompt_ids: Sequence[int], max_new_tokens: int, **options: Any) -> list[int]:
        tokens = torch.tensor([prompt_ids], device=self._device)
        self.target_forwards = 0
        output = self._target.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            do_sample=False,
            max_new_tokens=max_new_tokens,
            **options,
        )
        ids: list[int] = output[0, len(prompt_ids) :].tolist()
        return ids


def load_library_model(source: str, device: torch.device, dtype: str) -> Any:
    """The library's own module of a model that is on this machine, ready to run."""
    where, number, file = LibrarySource.of(source), resolve_dtype(dtype), gguf_path(source)
    with where.reading():
        config = transformers.AutoConfig.from_pretrained(
            where.place, local_files_only=True, **where.options
        )
    attention = attention_of(config)
    if file is not None:
        return dequantised(file, config, number, attention).to(device).eval()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        source, dtype=number, attn_implementation=attention, local_files_only=True
    )
    return model.to(device).eval()


def _draft_always(assistant: Any, draft_length: int) -> None:
    """So many tokens every round.

    The library reads the length from the assistant's generation config (as an argument of
    `generate` it is ignored) and shortens it by confidence and by schedule unless told not to.
    """
    settings = copy.deepcopy(assistant.generation_config)
    settings.num_assistant_tokens = draft_length
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    assistant.generation_config = settings


# of a peer: prompt ids, most new tokens, draft length -> new tokens
Assisted = Callable[[LibraryPeer, Sequence[int], int, int], list[int]]

# each way to speculate by the argument of `generate` that asks for it
ASSISTED: dict[str, Assisted] = {
    "generate(assistant_model)": LibraryPeer.assisted,
    "generate(prompt_lookup_num_tokens)": LibraryPeer.prompt_lookup,
    "generate(assistant_early_exit)": LibraryPeer.early_exit,
}
NEED_DRAFT = frozenset({"generate(assistant_model)"})
