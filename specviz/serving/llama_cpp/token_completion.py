"""Let llama.cpp continue token ids; measure its speed, and how well it agrees with a text.

All seconds are measured by the engine itself, so they do not include the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress

_SECONDS = 600.0  # time limit in seconds for one answer


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens that an engine wrote, and how long it took.

    The engine needed `prompt_seconds` to read those `prompt_tokens` of the prompt that were not in
    its cache. `seconds` is the time for writing the tokens.
    """

    ids: tuple[int, ...]
    seconds: float
    prompt_tokens: int
    prompt_seconds: float


def complete(
    address: EngineAddress, prompt_ids: Sequence[int], tokens: int, is_kept: bool = False
) -> Completion:
    """Return at most `tokens` greedy tokens that follow a prompt.

    The result has fewer tokens if the text ends earlier. With `is_kept`, the engine does not read
    tokens again that its cache contains from the last request.
    """
    body = {"prompt": list(prompt_ids), "n_predict": tokens, "temperature": 0}
    body |= {"return_tokens": True, "cache_prompt": is_kept}
    answer = address.ask("/completion", body, _SECONDS)
    with suppress(LookupError, TypeError, ValueError):
        ids, times = answer["tokens"], answer["timings"]
        return Completion(
            tuple(map(int, ids)),
            float(times["predicted_ms"]) / 1000,
            int(times["prompt_n"]),
            float(times["prompt_ms"]) / 1000,
        )
    raise InputError(f"server at {address} must answer with token ids, but does not")


def agreeing(address: EngineAddress, prompt_ids: Sequence[int], text: Sequence[int]) -> int:
    """Return the number of positions of a text at which the engine itself writes the same token."""
    found = 0
    for place, token in enumerate(text):
        written = complete(address, [*prompt_ids, *text[:place]], 1, is_kept=True)
        found += written.ids[:1] == (token,)
    return found


def look_seconds(
    address: EngineAddress, prompt_ids: Sequence[int], text: Sequence[int], count: int
) -> float:
    """Measure the seconds of one forward over `count` tokens whose context is in the cache.

    The forward is measured at many positions of `text`, which has more than `count` tokens. The
    result is the shortest time, because other programs can only make a forward slower. Raises
    InputError if the engine never reads exactly `count` tokens.
    """
    seconds = []
    for place in range(1, len(text) - count + 1):
        before = [*prompt_ids, *text[:place]]
        complete(address, before, 1, is_kept=True)
        look = complete(address, [*before, *text[place : place + count]], 1, is_kept=True)
        if look.prompt_tokens == count:
            seconds.append(look.prompt_seconds)
    if not seconds:
        raise InputError(
            f"server at {address} must read {count} tokens in one forward pass, but did not"
        )
    return min(seconds)
