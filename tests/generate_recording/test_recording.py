"""A recording contains every call inside its context and restores models and imports afterwards."""

import subprocess
import sys

import pytest
import torch

import specviz
from specviz.errors import InputError
from specviz.records import FinishReason
from specviz.trace_file import dumps, loads
from tests.generate_recording.watched_call import PROMPT, TOKENIZER, inputs, state, watched


def test_everything_is_restored_after_the_context(target, draft):
    before = state(target), state(draft)
    watched(target, assistant_model=draft, do_sample=False)
    assert (state(target), state(draft)) == before


def test_everything_is_restored_after_an_error_and_finished_calls_are_kept(target, draft):
    before = state(target), state(draft)

    def fails(ids, scores, **named):
        if ids.shape[1] > 20:
            raise RuntimeError("enough")
        return torch.zeros(1, dtype=torch.bool)

    recording = specviz.record(target, TOKENIZER)
    with pytest.raises(RuntimeError, match="enough"), recording:
        target.generate(
            **inputs(), assistant_model=draft, max_new_tokens=40, do_sample=False,
            stopping_criteria=[fails],
        )  # fmt: skip
    assert (state(target), state(draft)) == before
    trace = recording.trace
    assert trace.finish is FinishReason.STOPPED and 20 < len(trace.prompt_ids + trace.emitted_ids)
    assert loads(dumps(trace)).emitted_ids == trace.emitted_ids


def test_a_generate_method_that_the_user_replaced_is_restored(target, draft):
    original = target.generate
    calls = []
    target.generate = lambda *given, **named: calls.append(1) or original(*given, **named)
    own = target.generate
    watched(target, assistant_model=draft, do_sample=False)
    assert target.generate is own and calls == [1]


def test_every_call_in_a_context_has_a_trace_and_a_call_without_drafts_has_none(target, draft):
    options = {"max_new_tokens": 8, "do_sample": False}
    with specviz.record(target, TOKENIZER, assistant=draft) as recording:
        plain = target.generate(**inputs(), **options)
        target.generate(**inputs(), assistant_model=draft, **options)
        target.generate(**inputs("b"), assistant_model=draft, **options)
    assert [trace.prompt for trace in recording.traces] == [PROMPT, "b"]
    assert recording.trace is recording.traces[-1]
    first = recording.traces[0]
    assert [*first.prompt_ids, *first.emitted_ids] == plain[0].tolist()


def test_a_recording_without_calls_says_so(target):
    with specviz.record(target, TOKENIZER) as recording:
        target.generate(**inputs(), max_new_tokens=2, do_sample=False)
    with pytest.raises(InputError, match="nothing was recorded: call generate inside the"):
        recording.trace  # noqa: B018


def test_importing_the_package_imports_no_torch():
    code = "import sys, specviz; assert specviz.record and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
