"""Greedy decoding by the Transformers library on the same models as specviz, for comparison."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from specviz.models.files.gguf_file import dequantised
from specviz.models.files.gguf_source import gguf_path
from specviz.models.files.hub import local_folder
from specviz.models.files.loading import resolve_device, resolve_dtype
from specviz.models.files.survey import generation_ids, read_config
from specviz.models.library_model import attention_of
from specviz.models.pair_catalog import Pair
from specviz.slices import check_stop

# Early exits of Transformers and of specviz draft with 1 / EXIT_SHARE of the layers.
EXIT_SHARE = 4


class LibraryPeer:
    """A pair in Transformers, decoded by the variants of `generate()`.

    Its files must be on this machine.

    `target_forwards` counts the forwards of the last call that ran all layers of the target.
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
        """Decode with Transformers' plain greedy loop and return the new tokens."""
        return self._run(prompt_ids, max_new_tokens)

    def assisted(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Decode with an assistant model that drafts exactly `draft_length` tokens per round."""
        _draft_always(self._draft, draft_length)
        return self._run(prompt_ids, max_new_tokens, assistant_model=self._draft)

    def assisted_by_argument(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Decode with an assistant model; pass the draft length as an argument of `generate`.

        The assistant's own configuration stays as it was loaded.
        """
        return self._run(
            prompt_ids,
            max_new_tokens,
            assistant_model=self._draft,
            num_assistant_tokens=draft_length,
        )

    def prompt_lookup(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Decode with drafts copied from the text so far, and return the new tokens."""
        return self._run(prompt_ids, max_new_tokens, prompt_lookup_num_tokens=draft_length)

    def early_exit(
        self, prompt_ids: Sequence[int], max_new_tokens: int, draft_length: int
    ) -> list[int]:
        """Decode with drafts from the target's first layers, and return the new tokens."""
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
    """Return a Transformers model of the files at `source` on this machine, ready to run.

    It has the model's special tokens, so that a text ends at the same token, but none of its own
    sampling rules. A generation_config.json may set a repetition penalty or banned tokens, which
    change a greedy text, and specviz does not apply them.
    """
    number, file = resolve_dtype(dtype), gguf_path(source)
    folder = local_folder(source) or Path(source)
    config = read_config(source, folder)
    settings = transformers.GenerationConfig(**generation_ids(folder, config))
    attention = attention_of(config)
    if file is not None:
        model = dequantised(file, config, number, attention)
    else:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            generation_config=settings,
            dtype=number,
            attn_implementation=attention,
            local_files_only=True,
            trust_remote_code=False,
        )
    model.generation_config = settings
    return model.to(device).eval()


def _draft_always(assistant: Any, draft_length: int) -> None:
    """Make the assistant draft exactly `draft_length` tokens in every round.

    Transformers reads the length from the assistant's generation config and ignores the argument of
    `generate`. It also shortens drafts by confidence and by a schedule, so both are switched off
    here.
    """
    settings = copy.deepcopy(assistant.generation_config)
    settings.num_assistant_tokens = draft_length
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    assistant.generation_config = settings


# (peer, prompt ids, largest number of new tokens, draft length) -> new tokens
Assisted = Callable[[LibraryPeer, Sequence[int], int, int], list[int]]

# The ways to speculate in Transformers, each named by the argument of `generate` that selects it.
ASSISTED: dict[str, Assisted] = {
    "generate(assistant_model)": LibraryPeer.assisted,
    "generate(prompt_lookup_num_tokens)": LibraryPeer.prompt_lookup,
    "generate(assistant_early_exit)": LibraryPeer.early_exit,
}
NEED_DRAFT = frozenset({"generate(assistant_model)"})
