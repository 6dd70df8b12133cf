"""A recorded call returns the same text as a call without recording, and its trace is complete."""

import time

import torch

import specviz
from specviz.experiments.run import generate_run
from specviz.records import Drawing, FinishReason
from specviz.trace_file import dumps, loads
from tests.generate_recording.watched_call import TOKENIZER, WAYS, inputs, watched
from tests.models.conftest import build_tokenizer


def test_a_recorded_greedy_text_equals_the_text_without_recording(target, draft):
    for options in ({"assistant_model": draft}, {"prompt_lookup_num_tokens": 3}):
        plain = target.generate(**inputs(), max_new_tokens=40, do_sample=False, **options)
        trace = watched(target, do_sample=False, **options)
        assert [*trace.prompt_ids, *trace.emitted_ids] == plain[0].tolist()


def test_the_draft_length_schedule_of_transformers_starts_unchanged(target, draft):
    draft.generation_config.num_assistant_tokens_schedule = "heuristic_transient"
    trace = watched(target, assistant_model=draft, do_sample=False)
    # Round 0 drafts 4 tokens, because the prefill, which comes before it, does not change the draft
    # length.
    assert len(trace.rounds[0].tree.nodes) == 4
    assert {len(each.tree.nodes) for each in trace.rounds[1:-1]} != {4}


def test_a_masked_prompt_is_masked_for_the_draft_as_well(target, draft):
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


def test_the_settings_of_a_call_become_settings_of_specviz(target, draft):
    config = watched(target, assistant_model=draft, **WAYS["nucleus"]).config
    assert (config.method, config.draft_length, config.drawing) == (
        *("draft-model", 4, Drawing.INDEPENDENT),
    )
    assert (config.temperature, config.top_k, config.top_p) == (1.0, 20, 0.8)
    lookup = watched(target, prompt_lookup_num_tokens=3, do_sample=False)
    assert lookup.config.method == "prompt-lookup" and lookup.config.temperature == 0
    assert lookup.config.drawing is Drawing.CHOSEN
    assert lookup.config.options == (("longest_ngram", 2),)  # transformers' default n-gram length
    assert lookup.main.draft is None and lookup.main.drafter_bytes == 0
    draft_info = watched(target, assistant_model=draft, do_sample=False).main.draft
    assert draft_info.layers == 2 and draft_info.vocab_size == len(TOKENIZER)


def test_a_draft_with_another_tokenizer_is_recorded_without_a_distribution(target, draft):
    other = build_tokenizer(("ab",))
    draft.resize_token_embeddings(len(other), mean_resizing=False)
    trace = watched(
        target, assistant_model=draft, tokenizer=TOKENIZER, assistant_tokenizer=other,
        do_sample=False,
    )  # fmt: skip
    assert trace.config.method == "cross-vocabulary"
    assert {each.tree.drawing for each in trace.rounds} == {Drawing.CHOSEN}
    assert sum(len(each.accepted) for each in trace.rounds) > 0


def test_a_drafted_end_token_ends_the_text_without_an_extra_token(target, draft):
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


def test_the_recorded_times_are_not_longer_than_the_call(target, draft):
    began = time.perf_counter()
    trace = watched(target, assistant_model=draft, do_sample=False)
    took = time.perf_counter() - began
    spent = trace.prefill.seconds + sum(each.seconds for each in trace.rounds)
    assert 0 < spent < took
    assert all(each.draft_seconds > 0 and each.verify_seconds > 0 for each in trace.rounds[:-1])
    assert [each.draft_prefill_seconds > 0 for each in trace.rounds[:2]] == [True, False]
    ends = [span.end for each in trace.rounds for span in each.spans]
    assert ends == sorted(ends) and ends[-1] <= took


def test_the_prefill_s_time_includes_the_work_of_the_device(target, draft, monkeypatch):
    waited = []
    monkeypatch.setattr(generate_run, "wait_for", waited.append)
    trace = watched(target, assistant_model=draft, do_sample=False)
    # The recording waits for the device once, after the prefill's forward.
    assert len(trace.rounds) > 1 and waited == [draft.device]
