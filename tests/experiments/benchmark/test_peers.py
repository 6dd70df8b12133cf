"""The library's own ways to decode, as our speed is set beside them: the same text, the same K."""

from __future__ import annotations

from functools import cache

import pytest

from specviz.experiments.benchmark.peers import ASSISTED, LibraryPeer
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.prompts import held_out_prompt
from specviz.records import SPECULATIVE, DecodingConfig

LENGTH = 24
PROMPT = held_out_prompt("code", 1)
OURS = {
    "generate(assistant_model)": "draft-model",
    "generate(assistant_early_exit)": "early-exit",
}


@cache
def peer() -> LibraryPeer:
    return LibraryPeer(pair_named("bundled"), "cpu")


@cache
def prompt_ids() -> tuple[int, ...]:
    return tuple(load_pair(pair_named("bundled"), "cpu").codec.encode(PROMPT, "code"))


@cache
def plain() -> list[int]:
    return peer().generate(prompt_ids(), LENGTH)


def test_plain_decoding_takes_a_target_forward_per_token() -> None:
    assert len(peer().generate(prompt_ids(), LENGTH)) == LENGTH
    assert peer().target_forwards == LENGTH


@pytest.mark.parametrize("name", ASSISTED)
@pytest.mark.parametrize("draft_length", [1, 4])
def test_speculation_writes_the_same_text_in_fewer_target_forwards(
    name: str, draft_length: int
) -> None:
    expected = plain()
    assert ASSISTED[name](peer(), prompt_ids(), LENGTH, draft_length) == expected
    assert LENGTH / (draft_length + 1) <= peer().target_forwards < LENGTH


def test_the_draft_length_as_an_argument_of_generate_is_ignored() -> None:
    """On a peer of its own: another way of asking leaves its length in the assistant."""
    fresh, forwards = LibraryPeer(pair_named("bundled"), "cpu"), []
    for draft_length in (1, 5):
        assert fresh.assisted_by_argument(prompt_ids(), LENGTH, draft_length) == plain()
        forwards.append(fresh.target_forwards)
    assert forwards[0] == forwards[1]


@pytest.mark.parametrize(("name", "method"), OURS.items())
@pytest.mark.parametrize("draft_length", [2, 5])
def test_it_drafts_as_many_tokens_as_it_is_told(name: str, method: str, draft_length: int) -> None:
    """With the same draft and the same K its target runs as often as ours, but for the ends."""
    config = DecodingConfig(method=method, draft_length=draft_length, max_new_tokens=LENGTH)
    race = start_race(RaceRequest(pair_named("bundled"), PROMPT, config, "code", "cpu"))
    for _ in race.run_lane(SPECULATIVE):
        pass
    ASSISTED[name](peer(), prompt_ids(), LENGTH, draft_length)
    assert peer().target_forwards == pytest.approx(len(race.trace().rounds) + 1, abs=1)
