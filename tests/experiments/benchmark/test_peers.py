"""Each way to decode with only the library Transformers writes the greedy text.

With a draft, each way drafts K tokens per round.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest

from specviz.experiments.benchmark.peers import ASSISTED, LibraryPeer
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import custom_pair, pair_named
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


def test_plain_decoding_takes_one_target_forward_per_token() -> None:
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


def test_the_draft_length_is_ignored_as_an_argument_of_generate() -> None:
    """The test makes its own peer.

    In a shared peer, an earlier call would have left its draft length in the assistant model.
    """
    fresh, forwards = LibraryPeer(pair_named("bundled"), "cpu"), []
    for draft_length in (1, 5):
        assert fresh.assisted_by_argument(prompt_ids(), LENGTH, draft_length) == plain()
        forwards.append(fresh.target_forwards)
    assert forwards[0] == forwards[1]


def test_sampling_rules_in_the_model_s_files_do_not_change_its_text(tmp_path: Path) -> None:
    """Our lanes do not apply such rules, so a peer must not apply them either."""
    folder = tmp_path / "target"
    shutil.copytree(pair_named("bundled").target, folder)
    rules = {"repetition_penalty": 2.0, "no_repeat_ngram_size": 2, "eos_token_id": 0}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    assert LibraryPeer(custom_pair(str(folder)), "cpu").generate(prompt_ids(), LENGTH) == plain()


@pytest.mark.parametrize(("name", "method"), OURS.items())
@pytest.mark.parametrize("draft_length", [2, 5])
def test_a_peer_drafts_the_requested_number_of_tokens(
    name: str, method: str, draft_length: int
) -> None:
    """With the same draft and K, Transformers needs as many target forwards as specviz.

    Near the end of the text, it may need one more or one less.
    """
    config = DecodingConfig(method=method, draft_length=draft_length, max_new_tokens=LENGTH)
    race = start_race(RaceRequest(pair_named("bundled"), PROMPT, config, "code", "cpu"))
    for _ in race.run_lane(SPECULATIVE):
        pass
    ASSISTED[name](peer(), prompt_ids(), LENGTH, draft_length)
    assert peer().target_forwards == pytest.approx(len(race.trace().rounds) + 1, abs=1)
