"""What llama.cpp makes of token ids: their continuation, whether it agrees with a text, how long a
look takes. Seconds are those of the engine's own clock, so that no request's way is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from specviz.errors import InputError
from specviz.serving.engine_address import EngineAddress

_SECONDS = 600.0  # for one answer


@dataclass(frozen=True, slots=True)
class Completion:
    """Tokens that an engine has written; `prompt_seconds` went to so many tokens of the prompt that
    it had not read before, `seconds` to what it wrote behind them.
    """

    ids: tuple[int, ...]
    seconds: float
    prompt_tokens: int
    prompt_seconds: float


def complete(
    address: EngineAddress, prompt_ids: Sequence[int], tokens: int, is_kept: bool = False
) -> Completion:
    """At most so many greedy tokens behind a prompt, fewer where the text ends.

    `is_kept`: what the engine still has in its cache from the request before is not read again.
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
    """At how many places of a text the engine writes the text's own token behind all before it."""
    found = 0
    for place, token in enumerate(text):
        written = complete(address, [*prompt_ids, *text[:place]], 1, is_kept=True)
        found += written.ids[:1] == (token,)
    return found


def look_seconds(
    address: EngineAddress, prompt_ids: Sequence[int], text: Sequence[int], count: int
) -> float:
    """What one look over `count` tokens takes, all before them known: the quickest along a text of
    more tokens than that, as other work on the machine only adds time. InputError where there is
    none.
    """
    seconds = []
    for place in range(1, len(text) - count + 1):
        before = [*prompt_ids, *text[:place]]
        complete(address, before, 1, is_kept=True)
        look = complete(address, [*before, *text[place : place + count]], 1, is_kept=True)
        if look.prompt_tokens == count:
            seconds.append(look.prompt_seconds)
    if not seconds:
        raise InputError(f"server at {address} must read {count} tokens in one look, but did not")
    return min(seconds)
