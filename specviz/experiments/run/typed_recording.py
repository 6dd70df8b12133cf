"""A text at temperature 0 and what a drafter guesses at each of its places, recorded as a game.

At temperature 0 the text is the same whatever is guessed, so the recorded text judges any guess: a
token is kept if it is the one that stands there.
"""

from __future__ import annotations

from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.typed_round import TypedRequest, TypedRound, rival_of, typed_round
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig, Prompt, Round, prompt_text

PLACES = 48  # of the text
GUESSED = 6  # tokens of the drafter at each of them
LIKELIEST = 6  # tokens that the target finds probable there
ROOT = -1


def record_typed(pair: Pair, task: str, number: int, most: int = PLACES) -> dict[str, Any]:
    """One message: the prompt, and of each place of the text its token and what was guessed."""
    prompt = held_out_prompt(task, number, pair.instruct)
    begun = _ask(pair, prompt, (), "")
    written, texts = list(begun.begun), dict(begun.texts)
    places: list[dict[str, Any]] = []
    while len(places) < most:
        found = _ask(pair, prompt, tuple(written), " a" * GUESSED)
        assert found.round and found.rival
        texts |= found.texts
        places.append(_place(found.round, found.rival, texts))
        written.append(found.round.emitted_ids[0])
        if found.has_ended and len(found.round.emitted_ids) == 1:
            break
    return {
        "kind": "game",
        "prompt": prompt_text(prompt),
        "target": pair.model_name("target"),
        "rival": method_named(rival_of(pair)).title,
        "begun": [texts[each] for each in begun.begun],
        "places": places,
    }


def _ask(pair: Pair, prompt: Prompt, written: tuple[int, ...], typed: str) -> TypedRound:
    config = DecodingConfig(temperature=0.0, draft_length=1, method="prompt-lookup")
    return typed_round(TypedRequest(pair, prompt, written, typed, config))


def _place(own: Round, rival: Round, texts: dict[int, str]) -> dict[str, Any]:
    """The token that the target writes here, its likeliest ones, and the drafter's guess."""
    (root,) = (each for each in own.positions if each.parent == ROOT)
    likely = zip(root.token_ids, root.raw_target_probs, strict=True)
    return {
        "token": texts[own.emitted_ids[0]],
        "likely": [[texts[each], p] for each, p in list(likely)[:LIKELIEST]],
        "rival": [texts[node.token_id] for node in rival.tree.nodes],
        "seconds": own.verify_seconds,
    }
