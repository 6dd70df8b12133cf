"""A text at temperature 0 with a drafter's guess at each position, recorded for a game.

At temperature 0 the text does not depend on the guesses. The recorded text therefore decides about
any guess: a token is accepted if it is the recorded one.
"""

from __future__ import annotations

from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.typed_round import TypedRequest, TypedRound, rival_of, typed_round
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig, Prompt, Round, prompt_text

PLACES = 48  # number of positions of the text that the game records
GUESSED = 6  # number of tokens that the drafter guesses at each position
LIKELIEST = 6  # number of the target's most probable tokens recorded at each position
ROOT = -1


def record_typed(pair: Pair, task: str, number: int, most: int = PLACES) -> dict[str, Any]:
    """Return the game as one message: the prompt, and the token and guesses of each position."""
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
    """Return a position's token, the target's most probable tokens, and the drafter's guess.

    `own` is the round with the target's token, and `rival` the drafter's round.
    """
    (root,) = (each for each in own.positions if each.parent == ROOT)
    likely = zip(root.token_ids, root.raw_target_probs, strict=True)
    return {
        "token": texts[own.emitted_ids[0]],
        "likely": [[texts[each], p] for each, p in list(likely)[:LIKELIEST]],
        "rival": [texts[node.token_id] for node in rival.tree.nodes],
        "seconds": own.verify_seconds,
    }
