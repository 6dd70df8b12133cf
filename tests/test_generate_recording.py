"""`specviz.record` watches transformers' own assisted generation and says only what it saw."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation import candidate_generator

import specviz
from specviz.acceptance_profile import acceptance_profile
from specviz.errors import InputError
from specviz.metrics import levels, root_ids, summarise
from specviz.records import ExtraKind, FinishReason, Outcome, ProposalKind
from specviz.trace_file import dumps, loads
from tests.models.conftest import build_tokenizer

TOKENIZER = build_tokenizer()
PROMPT = "aba abab "


def module(seed: int, layers: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=256,
        initializer_range=0.25,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


def repetitive(model):
    """Every token depends on the one before it alone, so that the text soon goes in a circle."""
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight *= 0.01
            layer.mlp.down_proj.weight *= 0.01
        model.lm_head.weight *= 4
    return model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target, and a draft that is nearly the same, as files."""
    target = module(1, 2)
    draft = copy.deepcopy(target)
    with torch.no_grad():
        for weight in draft.lm_head.parameters():
            weight += 0.06 * torch.randn(weight.shape)
    made = {}
    for name, each in (("target", target), ("draft", draft)):
        made[name] = tmp_path_factory.mktemp(name)
        each.save_pretrained(made[name])
    return made


@pytest.fixture
def target(folders):
    return LlamaForCausalLM.from_pretrained(folders["target"])


@pytest.fixture
def draft(folders):
    model = LlamaForCausalLM.from_pretrained(folders["draft"])
    model.generation_config.num_assistant_tokens = 4
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0
    return model


def inputs(text=PROMPT):
    return TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)


def watched(target, seed=0, text=PROMPT, **options):
    """The trace of one call, whose text must be what the call gave back."""
    torch.manual_seed(seed)
    given = inputs(text)
    with specviz.record(target, TOKENIZER) as recording:
        output = target.generate(**given, **({"max_new_tokens": 40} | options))
    trace = recording.trace
    length = given["input_ids"].shape[1]
    assert list(trace.prompt_ids) == output[0, :length].tolist()
    assert list(trace.emitted_ids) == output[0, length:].tolist()
    return trace


# The library draws its assistant's tokens with every processor applied twice (5.23): at 0.9 * 0.9.
DRAFT_TEMPERATURE = 0.81
WAYS = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.9, "top_k": 0},
    "nucleus": {"do_sample": True, "top_p": 0.8, "top_k": 20},
}


@pytest.fixture(params=[*WAYS, "lookup", "sampled lookup", "early exit", "sampled early exit"])
def trace(request, target, draft):
    name = request.param
    options = dict(WAYS["sampled" if "sampled" in name else "greedy"])
    if name in WAYS:
        return watched(target, assistant_model=draft, **WAYS[name])
    if "lookup" in name:
        return watched(repetitive(target), prompt_lookup_num_tokens=3, **options)
    target.generation_config.num_assistant_tokens = 3
    target.generation_config.assistant_confidence_threshold = 0.0
    return watched(target, assistant_early_exit=1, **options)


def test_a_recording_is_a_trace_that_every_reader_takes(trace):
    assert len(trace.emitted_ids) == 40 and trace.finish is FinishReason.LENGTH
    again = loads(dumps(trace))
    assert again.emitted_ids == trace.emitted_ids and dumps(again) == dumps(trace)
    numbers = summarise(trace).speculative
    assert numbers.tokens == 40 and numbers.target_forwards == 1 + len(trace.rounds)
    assert numbers.block_efficiency == 39 / len(trace.rounds)
    assert acceptance_profile([trace]).acceptance_rate == numbers.acceptance_rate
    texts = dict(trace.token_texts)
    assert "".join(texts[token] for token in trace.prompt_ids) == PROMPT == trace.prompt


def test_accepted_tokens_add_up_to_the_text(trace):
    accepted = sum(len(each.accepted) for each in trace.rounds)
    extras = sum(each.extra is not None for each in trace.rounds)
    assert 1 + accepted + extras == len(trace.emitted_ids) and accepted > 0
    ids = (*trace.prompt_ids, *trace.emitted_ids)
    for each, root in zip(trace.rounds, root_ids(trace), strict=True):
        count = each.context_length
        assert root == ids[count - 1]
        assert each.emitted_ids == ids[count : count + len(each.emitted_ids)]
        assert [node.parent for node in each.tree.nodes] == list(
            range(-1, len(each.tree.nodes) - 1)
        )
        is_full = len(each.accepted) == len(each.tree.nodes)
        if each.extra is not None:
            assert each.extra.kind is (ExtraKind.BONUS if is_full else ExtraKind.RECOVERED)
        assert levels(each).reached - levels(each).passed == (not is_full)


def test_what_generate_hides_is_unknown_and_not_guessed(trace):
    for each in trace.rounds:
        assert each.extra_ids == ()
        assert all(verdict.uniform_draw is None for verdict in each.verdicts)
        assert all(verdict.residual_prob is None for verdict in each.verdicts)
        assert all(position.residual_probs == () for position in each.positions)


def test_every_way_of_drafting_has_some_rejection_to_see(trace):
    outcomes = {verdict.outcome for each in trace.rounds for verdict in each.verdicts}
    assert {Outcome.ACCEPTED, Outcome.REJECTED} <= outcomes


def laws(model, ids, temperature):
    """The model's law behind every token."""
    with torch.inference_mode():
        return (model(torch.tensor([ids])).logits[0] / temperature).softmax(-1)


def test_p_and_q_are_the_laws_that_both_models_give_on_their_own(target, draft):
    trace = watched(target, assistant_model=draft, **WAYS["sampled"])
    ids = [*trace.prompt_ids, *trace.emitted_ids]
    for each in trace.rounds:
        known = [*ids[: each.context_length], *(node.token_id for node in each.tree.nodes)]
        p, q = laws(target, known, 0.9), laws(draft, known, DRAFT_TEMPERATURE)
        raw_p, raw_q = laws(target, known, 1), laws(draft, known, 1)
        for row, verdict in enumerate(each.verdicts):
            token, place = each.tree.nodes[row].token_id, each.context_length - 1 + row
            assert verdict.target_prob == pytest.approx(p[place, token].item(), abs=1e-4)
            assert verdict.draft_prob == pytest.approx(q[place, token].item(), abs=1e-4)
            assert verdict.raw_target_prob == pytest.approx(raw_p[place, token].item(), abs=1e-4)
            assert verdict.raw_draft_prob == pytest.approx(raw_q[place, token].item(), abs=1e-4)
            ratio = min(1.0, verdict.target_prob / verdict.draft_prob)
            assert verdict.acceptance_prob == pytest.approx(ratio)
        for position in each.positions:
            place = each.context_length + position.parent
            entropy = -(raw_p[place] * raw_p[place].log()).sum()
            assert position.entropy == pytest.approx(entropy.item(), abs=1e-3)
            if position.draft_probs:
                overlap = torch.minimum(p[place], q[place]).sum().item()
                assert position.overlap == pytest.approx(overlap, abs=1e-4)


def test_the_extra_tokens_probability_follows_from_the_laws_that_were_seen(target, draft):
    trace = watched(target, assistant_model=draft, **WAYS["sampled"])
    ids = [*trace.prompt_ids, *trace.emitted_ids]
    kinds = set()
    for each in trace.rounds:
        place = each.context_length - 1 + len(each.accepted)
        law = laws(target, ids[: place + 1], 0.9)[place]
        if each.extra.kind is ExtraKind.RECOVERED:
            left = (law - laws(draft, ids[: place + 1], DRAFT_TEMPERATURE)[place]).clamp(min=0)
            law = left / left.sum()
        assert each.extra.prob == pytest.approx(law[each.extra.token_id].item(), abs=1e-3)
        kinds.add(each.extra.kind)
    assert kinds == {ExtraKind.RECOVERED, ExtraKind.BONUS}


def test_a_greedy_text_is_that_of_a_call_nobody_watches(target, draft):
    for options in ({"assistant_model": draft}, {"prompt_lookup_num_tokens": 3}):
        plain = target.generate(**inputs(), max_new_tokens=40, do_sample=False, **options)
        trace = watched(target, do_sample=False, **options)
        assert [*trace.prompt_ids, *trace.emitted_ids] == plain[0].tolist()


def test_the_librarys_own_schedule_starts_where_it_would(target, draft):
    draft.generation_config.num_assistant_tokens_schedule = "heuristic_transient"
    trace = watched(target, assistant_model=draft, do_sample=False)
    assert len(trace.rounds[0].tree.nodes) == 4  # the reading of the prompt taught it nothing
    assert {len(each.tree.nodes) for each in trace.rounds[1:-1]} != {4}


def test_a_masked_prompt_stays_masked_for_the_draft_too(target, draft):
    given = inputs()
    ids = torch.cat([torch.zeros(1, 3, dtype=torch.long), given["input_ids"]], 1)
    mask = torch.cat([torch.zeros(1, 3, dtype=torch.long), given["attention_mask"]], 1)
    options = {"max_new_tokens": 24, "do_sample": False}
    alone = target.generate(input_ids=ids, attention_mask=mask, assistant_model=draft, **options)
    with specviz.record(target, TOKENIZER) as recording:
        output = target.generate(
            input_ids=ids, attention_mask=mask, assistant_model=draft, **options
        )
    assert output.tolist() == alone.tolist()
    assert list(recording.trace.emitted_ids) == output[0, ids.shape[1] :].tolist()
    drafted = sum(len(each.tree.nodes) for each in recording.trace.rounds)
    accepted = sum(len(each.accepted) for each in recording.trace.rounds)
    with specviz.record(target, TOKENIZER) as unpadded:
        target.generate(**given, assistant_model=draft, **options)
    rounds = unpadded.trace.rounds
    assert accepted == sum(len(each.accepted) for each in rounds)
    assert drafted == sum(len(each.tree.nodes) for each in rounds)


def test_the_setting_is_told_in_our_words(target, draft):
    config = watched(target, assistant_model=draft, **WAYS["nucleus"]).config
    assert (config.method, config.draft_length, config.tree_kind) == (
        *("draft-model", 4, ProposalKind.IID),
    )
    assert (config.temperature, config.top_k, config.top_p) == (1.0, 20, 0.8)
    lookup = watched(target, prompt_lookup_num_tokens=3, do_sample=False)
    assert lookup.config.method == "prompt-lookup" and lookup.config.temperature == 0
    assert lookup.config.tree_kind is ProposalKind.DETERMINISTIC
    assert lookup.draft is None and lookup.drafter_bytes == 0
    draft_info = watched(target, assistant_model=draft, do_sample=False).draft
    assert draft_info.layers == 2 and draft_info.vocab_size == len(TOKENIZER)


def test_another_tokenizers_draft_is_text_without_a_law(target, draft):
    other = build_tokenizer(("ab",))
    draft.resize_token_embeddings(len(other), mean_resizing=False)
    trace = watched(
        target, assistant_model=draft, tokenizer=TOKENIZER, assistant_tokenizer=other,
        do_sample=False,
    )  # fmt: skip
    assert trace.config.method == "cross-vocabulary"
    assert {each.tree.kind for each in trace.rounds} == {ProposalKind.DETERMINISTIC}
    assert sum(len(each.accepted) for each in trace.rounds) > 0


def test_an_end_token_that_was_drafted_ends_the_text_without_an_extra_token(target, draft):
    ids = watched(target, assistant_model=draft, do_sample=False)
    rounds = [each for each in ids.rounds if len(each.accepted) >= 2]
    end = ids.emitted_ids.index(rounds[0].emitted_ids[1])
    token = ids.emitted_ids[end]
    trace = watched(target, assistant_model=draft, do_sample=False, eos_token_id=token)
    assert trace.finish is FinishReason.END_OF_SEQUENCE
    assert trace.emitted_ids == ids.emitted_ids[: end + 1]
    last = trace.rounds[-1]
    if last.tree.nodes[last.accepted[-1]].token_id == token:
        assert last.extra is None and len(last.positions) == len(last.accepted)
    loads(dumps(trace))


def test_times_are_the_calls_own_and_no_more_than_it_took(target, draft):
    began = time.perf_counter()
    trace = watched(target, assistant_model=draft, do_sample=False)
    took = time.perf_counter() - began
    spent = trace.prefill.seconds + sum(each.seconds for each in trace.rounds)
    assert 0 < spent < took
    assert all(each.draft_seconds > 0 and each.verify_seconds > 0 for each in trace.rounds[:-1])
    ends = [span.end for each in trace.rounds for span in each.spans]
    assert ends == sorted(ends) and ends[-1] <= took


def state(model):
    return dict(vars(model)), len(model._forward_hooks), model.generation_config.to_dict()


def test_everything_is_as_before_after_the_context(target, draft):
    before = state(target), state(draft)
    watched(target, assistant_model=draft, do_sample=False)
    assert (state(target), state(draft)) == before


def test_everything_is_as_before_after_an_error_and_what_was_seen_is_kept(target, draft):
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


def test_a_method_of_the_objects_own_is_put_back(target, draft):
    original = target.generate
    calls = []
    target.generate = lambda *given, **named: calls.append(1) or original(*given, **named)
    own = target.generate
    watched(target, assistant_model=draft, do_sample=False)
    assert target.generate is own and calls == [1]


def test_every_call_in_a_context_has_its_trace_and_one_without_drafts_has_none(target, draft):
    options = {"max_new_tokens": 8, "do_sample": False}
    with specviz.record(target, TOKENIZER, assistant=draft) as recording:
        plain = target.generate(**inputs(), **options)
        target.generate(**inputs(), assistant_model=draft, **options)
        target.generate(**inputs("b"), assistant_model=draft, **options)
    assert [trace.prompt for trace in recording.traces] == [PROMPT, "b"]
    assert recording.trace is recording.traces[-1]
    first = recording.traces[0]
    assert [*first.prompt_ids, *first.emitted_ids] == plain[0].tolist()


def test_nothing_recorded_is_said_so(target):
    with specviz.record(target, TOKENIZER) as recording:
        target.generate(**inputs(), max_new_tokens=2, do_sample=False)
    with pytest.raises(InputError, match="nothing was recorded: call generate in the context"):
        recording.trace  # noqa: B018


@pytest.mark.parametrize("options", [{"prompt_lookup_num_tokens": 3}, {}])
def test_a_batch_is_refused(target, draft, options):
    rows = inputs()["input_ids"].repeat(2, 1)
    before = state(target)
    options = options or {"assistant_model": draft}
    with pytest.raises(InputError, match="one sequence to be recorded, got 2"):  # noqa: SIM117
        with specviz.record(target, TOKENIZER):
            target.generate(rows, attention_mask=torch.ones_like(rows), do_sample=False, **options)
    assert state(target) == before


def test_another_assistant_than_the_one_to_record_is_refused(target, draft, folders):
    other = LlamaForCausalLM.from_pretrained(folders["draft"])
    with specviz.record(target, TOKENIZER, assistant=draft):
        with pytest.raises(InputError, match="got another LlamaForCausalLM"):
            target.generate(**inputs(), assistant_model=other, max_new_tokens=4)
        with pytest.raises(InputError, match="got no assistant_model"):
            target.generate(**inputs(), prompt_lookup_num_tokens=3, max_new_tokens=4)


def test_drafts_that_a_trace_cannot_hold_are_refused(target, draft):
    draft.generation_config.num_assistant_tokens = 40
    with specviz.record(target, TOKENIZER):
        with pytest.raises(InputError, match="at most 32 to be recorded, got a round of"):
            target.generate(**inputs(), assistant_model=draft, max_new_tokens=100, do_sample=False)
        with pytest.raises(InputError, match="assistant_ensemble_weight must be off"):
            target.generate(
                **inputs(), assistant_model=draft, max_new_tokens=4, do_sample=True,
                assistant_ensemble_weight=0.5,
            )  # fmt: skip


def test_an_unknown_kind_of_drafting_is_refused(target, draft, monkeypatch):
    class Unknown(candidate_generator.AssistedCandidateGenerator):
        pass

    monkeypatch.setattr("transformers.generation.utils.AssistedCandidateGenerator", Unknown)
    with specviz.record(target, TOKENIZER), pytest.raises(InputError, match="got Unknown"):
        target.generate(**inputs(), assistant_model=draft, max_new_tokens=4, do_sample=False)


def test_what_cannot_be_watched_is_refused_at_once(target):
    config = SimpleNamespace(is_encoder_decoder=True)
    model = SimpleNamespace(config=config, generate=None, _get_candidate_generator=None)
    with pytest.raises(InputError, match="model must be a decoder only"):
        specviz.record(model, TOKENIZER)
    with pytest.raises(InputError, match="model must be a causal language model.*got Linear"):
        specviz.record(torch.nn.Linear(1, 1), TOKENIZER)
    with pytest.raises(InputError, match="tokenizer must be a fast one of transformers, got str"):
        specviz.record(target, "gpt2")


def test_a_setting_that_no_trace_can_say_is_refused_before_anything_runs(target, draft):
    before = state(target), state(draft)
    with specviz.record(target, TOKENIZER) as recording:
        with pytest.raises(InputError, match="temperature must be 0 or from 0.001 to 5, got 9.0"):
            target.generate(
                **inputs(), assistant_model=draft, max_new_tokens=4, do_sample=True, temperature=9.0
            )
    assert recording.traces == [] and (state(target), state(draft)) == before


def test_importing_the_package_imports_no_torch():
    code = "import sys, specviz; assert specviz.record and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
