"""A warning about prompts that already contain the control tokens of a chat template."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.models.pair_catalog import Pair
from specviz.models.pair_loading import load_pair
from specviz.models.text.text_codec import TextCodec
from specviz.records import Prompt


def pair_warning(pair: Pair, device: str, dtype: str, prompts: Sequence[Prompt]) -> str | None:
    """Return `template_warning` for a pair's target; load the target if necessary."""
    return template_warning(load_pair(pair, device, dtype, frozenset()).codec, prompts)


def template_warning(codec: TextCodec, prompts: Sequence[Prompt]) -> str | None:
    """Return a warning if a prompt contains tokens that the chat template adds, otherwise None."""
    found = [(at, codec.template_tokens_in(prompt)) for at, prompt in enumerate(prompts, start=1)]
    held = [(at, tokens) for at, tokens in found if tokens]
    if not held:
        return None
    number, tokens = held[0]
    who = "the prompt holds"
    if len(held) > 1:
        who = f"{len(held)} of {len(prompts)} prompts, number {number} first, hold"
    elif len(prompts) > 1:
        who = f"prompt {number} of {len(prompts)} holds"
    return (
        f"{who} {tokens[0]}, which the model's chat template adds as well: it is plain text inside "
        "the template; a raw prompt gets no template"
    )
