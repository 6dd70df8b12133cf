"""Write the shell command that repeats a race of the page with the same settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest
from specviz.models.pair_catalog import pairs
from specviz.prompts import held_out_prompts, own_text
from specviz.records import DECODING, SETTINGS, Conversation, RawText

REPEATS = 5
_OF_THE_SHAPE = frozenset({"branching", "drawing", "options"})


def race_line(request: RaceRequest) -> str:
    """Return the shell command; it leaves out every setting that has its default value."""
    words = ["python", "-m", "specviz", "race", "--repeat", str(REPEATS)]
    words += [*_pair(request), *_prompt(request), *_decoding(request), *_machine(request)]
    return shlex.join(words)


def _pair(request: RaceRequest) -> Iterator[str]:
    pair = request.pair
    if pair.name in {each.name for each in pairs()}:
        yield from ("--pair", pair.name)
        return
    yield from ("--target", pair.target)
    for part in ("draft", "eagle", "medusa"):
        if source := getattr(pair, part):
            yield from (f"--{part}", source)


def _prompt(request: RaceRequest) -> Iterator[str]:
    """Yield the flags for the prompt: the number of a held-out prompt, or a text."""
    task, text = request.task, own_text(request.prompt)
    known = held_out_prompts(task, request.pair.is_asked_to_chat(task)) if task else ()
    if task:
        yield from ("--task", task)
    if text in known:
        yield from ("--prompt-number", str(1 + known.index(text)))
    else:
        yield f"--prompt={text}"
    if isinstance(request.prompt, RawText):
        yield SETTINGS["raw"].flag
    if isinstance(request.prompt, Conversation):
        yield f"{SETTINGS['system'].flag}={request.prompt.turns[0].content}"


def _decoding(request: RaceRequest) -> Iterator[str]:
    config = request.config
    method = method_named(config.method)
    defaults = {each.name: each.default for each in DECODING}
    defaults["draft_length"] = method.usual_length(request.pair)
    yield from ("--method", method.name)
    if config.branching or method.default_branching:
        yield from ("--branching", ",".join(map(str, config.branching)))
    if len(method.drawings) > 1:
        yield from ("--drawing", config.drawing.value)
    for name, value in config.options:
        yield from ("--option", f"{name}={value}")
    for setting in DECODING:
        value = getattr(config, setting.name)
        is_written = setting.name in _OF_THE_SHAPE or setting.name == "method"
        if not is_written and value != defaults[setting.name]:
            yield from (setting.flag, str(value))


def _machine(request: RaceRequest) -> Iterator[str]:
    for name in ("device", "dtype"):
        value = getattr(request, name)
        if value != SETTINGS[name].default:
            yield from (SETTINGS[name].flag, value)
