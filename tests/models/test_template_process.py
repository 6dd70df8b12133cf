"""A chat template may try to use unlimited time and memory; a separate process stops it early."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.models.text import template_process
from specviz.models.text.template_process import RENDER_BYTES, TemplateProcess
from specviz.models.text.text_codec import TextCodec

TURNS = [{"role": "user", "content": "Why?"}]
PLAIN = "{{ bos_token }}{% for turn in messages %}<{{ turn.role }}> {{ turn.content }}{% endfor %}"
ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
HUGE = "{{ ('a' * 1900000000) | length }}"
GROWING = (
    "{% set all = namespace(text='aaaaaaaa') %}{% for i in range(40) %}"
    "{% set all.text = all.text + all.text %}{% endfor %}{{ all.text }}"
)
LONG = "{{ 'a' * 3000000 }}"


@pytest.fixture(scope="module")
def process() -> Iterator[TemplateProcess]:
    made = TemplateProcess()
    yield made
    made.end()


def test_a_template_is_rendered_as_transformers_renders_it(process: TemplateProcess) -> None:
    assert process.render(PLAIN, TURNS, bos_token="^") == "^<user> Why?"
    with pytest.raises(ValueError, match="^no$"):
        process.render("{{ raise_exception('no') }}", TURNS)


def largest_child() -> int:
    """Return the peak memory of the largest process that this one has started, in bytes."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


@pytest.mark.parametrize("template", [HUGE, GROWING, LONG])
def test_a_template_that_needs_gigabytes_is_refused(
    process: TemplateProcess, template: str
) -> None:
    before = largest_child()
    with pytest.raises(InputError, match="takes more than 2 s or 256 MB to fill in"):
        process.render(template, TURNS)
    assert largest_child() <= max(before, 8 * RENDER_BYTES)
    assert process.render(PLAIN, TURNS, bos_token="^") == "^<user> Why?"


def test_a_template_that_takes_too_long_is_ended_once(
    process: TemplateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.render(PLAIN, TURNS)
    monkeypatch.setattr(template_process, "RENDER_SECONDS", 0.2)
    for _ in range(2):
        with pytest.raises(InputError, match="takes more than"):
            process.render(ENDLESS, TURNS)
        assert process.process_id is None
        # The second time, the template must be refused without a new process.
        monkeypatch.setattr(process, "_begin", None)


def test_a_template_is_not_refused_because_its_process_was_paused(
    process: TemplateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_process, "RENDER_SECONDS", 0.2)
    process.render(PLAIN, TURNS)
    stopped = process.process_id
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (stopped, signal.SIGCONT)).start()
    assert process.render(PLAIN, TURNS, bos_token="^") == "^<user> Why?"


def test_a_killed_process_is_replaced(process: TemplateProcess) -> None:
    process.render(PLAIN, TURNS)
    killed = process.process_id
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
    assert process.render(PLAIN, TURNS, bos_token="^") == "^<user> Why?"


def test_encoding_with_such_a_template_is_refused_in_one_line(
    tiny_tokenizer: Any, process: TemplateProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.models.text.text_codec.process", process)
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = HUGE + "<|endoftext|>"
    with pytest.raises(InputError, match="the model's chat template takes more than"):
        TextCodec(tokenizer, 259, (0,)).encode("Why?")
