"""The command shown next to a race's result runs this race again."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser

import pytest

from specviz.commands.flags import chosen_config, chosen_pair, chosen_prompt
from specviz.commands.race_command import COMMAND
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import models_folder
from specviz.prompts import held_out_prompt
from specviz.ui.race_line import race_line
from specviz.ui.settings_form import race_request

SAMPLED = {"temperature": "0.7", "top_p": "0.9", "seed": "12", "max_new_tokens": "40"}
OWN = {"prompt": '--it\'s "mine"\n$x <b>', "device": "cpu", "dtype": "bfloat16"}
FRAMED = {"prompt": "Why?", "system": "Be brief: --raw"}
RAW = {"prompt": "<|im_start|>user\nWhy?", "raw": "yes"}
HELD_OUT = {"task": "story", "prompt": held_out_prompt("story", 4), **SAMPLED}


def repeated(line: str) -> RaceRequest:
    """Return the race that the command line starts."""
    program, _, _, command, *words = shlex.split(line)
    assert (program, command) == ("python", "race")
    parser = ArgumentParser()
    COMMAND.add_flags(parser)
    options = parser.parse_args(words)
    task, prompt = chosen_prompt(options, lambda line: None)
    pair, config = chosen_pair(options), chosen_config(options)
    return RaceRequest(pair, prompt, config, task, options.device, options.dtype)


@pytest.mark.parametrize("form", [FRAMED, RAW, {**HELD_OUT, "system": "Be brief."}])
def test_the_command_gives_the_model_the_same_prompt(form: dict[str, str]) -> None:
    request = race_request({**form, "method": "prompt-lookup"})
    assert not isinstance(request.prompt, str)
    assert repeated(race_line(request)) == request


def test_the_command_names_the_heads_of_other_models() -> None:
    folder = str(models_folder())
    heads = {"eagle": f"{folder}/eagle", "medusa": f"{folder}/medusa"}
    form = {"target": f"{folder}/target", "draft": "", **heads, "method": "eagle"}
    request = race_request({**OWN, "pair": "custom", **form})
    assert (request.pair.eagle, request.pair.medusa) == tuple(heads.values())
    assert repeated(race_line(request)) == request


@pytest.mark.parametrize("form", [OWN, HELD_OUT], ids=["own", "held-out"])
@pytest.mark.parametrize("method", DRAFTERS)
def test_the_command_contains_all_settings(method: str, form: dict[str, str]) -> None:
    usual = DRAFTERS[method].usual(5)
    shape = {"branching": ",".join(map(str, usual.branching)), "drawing": usual.drawing.value}
    request = race_request({**form, "method": method, **shape})
    assert repeated(race_line(request)) == request


def test_the_command_names_custom_models_and_options() -> None:
    request = race_request(
        {
            **OWN,
            "pair": "custom",
            "target": "my models/large",
            "draft": "small",
            "method": "early-exit",
            "options": {"exit_layer": "4"},
        }
    )
    line = race_line(request)
    assert "--target 'my models/large' --draft small" in line and "exit_layer=4" in line
    assert repeated(line) == request


@pytest.mark.parametrize("draft_length", ["2", "5"])
@pytest.mark.parametrize("pair", ["bundled", "smollm2"])
def test_the_command_repeats_the_draft_length_on_every_pair(pair: str, draft_length: str) -> None:
    form = {"prompt": "Why?", "pair": pair, "method": "draft-model", "draft_length": draft_length}
    request = race_request(form)
    assert repeated(race_line(request)) == request
