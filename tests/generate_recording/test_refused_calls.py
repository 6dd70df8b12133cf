"""Calls that cannot be recorded are refused with a reason and change nothing."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaForCausalLM
from transformers.generation import candidate_generator

import specviz
from specviz.errors import InputError
from tests.generate_recording.watched_call import TOKENIZER, inputs, state


@pytest.mark.parametrize("options", [{"prompt_lookup_num_tokens": 3}, {}])
def test_a_batch_is_refused(target, draft, options):
    rows = inputs()["input_ids"].repeat(2, 1)
    before = state(target)
    options = options or {"assistant_model": draft}
    with pytest.raises(InputError, match="must have one sequence, got 2"):  # noqa: SIM117
        with specviz.record(target, TOKENIZER):
            target.generate(rows, attention_mask=torch.ones_like(rows), do_sample=False, **options)
    assert state(target) == before


def test_a_call_with_another_assistant_than_announced_is_refused(target, draft, folders):
    other = LlamaForCausalLM.from_pretrained(folders["draft"])
    with specviz.record(target, TOKENIZER, assistant=draft):
        with pytest.raises(InputError, match="got another LlamaForCausalLM"):
            target.generate(**inputs(), assistant_model=other, max_new_tokens=4)
        with pytest.raises(InputError, match="got no assistant_model"):
            target.generate(**inputs(), prompt_lookup_num_tokens=3, max_new_tokens=4)


def test_drafts_that_a_trace_cannot_represent_are_refused(target, draft):
    draft.generation_config.num_assistant_tokens = 40
    with specviz.record(target, TOKENIZER):
        with pytest.raises(InputError, match="at most 32 in a recorded call, got a round of"):
            target.generate(**inputs(), assistant_model=draft, max_new_tokens=100, do_sample=False)
        with pytest.raises(InputError, match="assistant_ensemble_weight must be None"):
            target.generate(
                **inputs(), assistant_model=draft, max_new_tokens=4, do_sample=True,
                assistant_ensemble_weight=0.5,
            )  # fmt: skip


def test_an_unknown_way_of_drafting_is_refused(target, draft, monkeypatch):
    class Unknown(candidate_generator.AssistedCandidateGenerator):
        pass

    monkeypatch.setattr("transformers.generation.utils.AssistedCandidateGenerator", Unknown)
    with specviz.record(target, TOKENIZER), pytest.raises(InputError, match="got Unknown"):
        target.generate(**inputs(), assistant_model=draft, max_new_tokens=4, do_sample=False)


def test_a_model_that_cannot_be_watched_is_refused_at_once(target):
    config = SimpleNamespace(is_encoder_decoder=True)
    model = SimpleNamespace(config=config, generate=None, _get_candidate_generator=None)
    with pytest.raises(InputError, match="model must be a decoder-only model"):
        specviz.record(model, TOKENIZER)
    with pytest.raises(InputError, match="model must be a causal language model.*got Linear"):
        specviz.record(torch.nn.Linear(1, 1), TOKENIZER)
    with pytest.raises(
        InputError, match="tokenizer must be a fast tokenizer of transformers, got str"
    ):
        specviz.record(target, "gpt2")


def test_a_setting_that_no_trace_can_express_is_refused_before_the_call_runs(target, draft):
    before = state(target), state(draft)
    with specviz.record(target, TOKENIZER) as recording:
        with pytest.raises(InputError, match="temperature must be 0 or from 0.001 to 5, got 9.0"):
            target.generate(
                **inputs(), assistant_model=draft, max_new_tokens=4, do_sample=True, temperature=9.0
            )
    assert recording.traces == [] and (state(target), state(draft)) == before
