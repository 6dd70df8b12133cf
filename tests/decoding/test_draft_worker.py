"""The worker process of a draft model is idle between rounds, and a dead one is replaced."""

import gc
import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.ahead import worker as workers
from specviz.decoding.ahead.worker import worker_for
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from tests.decoding.ahead_runs import AHEAD, CHAIN, assert_same, drafter_of, rounds_of
from tests.decoding.conftest import learned_positions, tiny_model

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)


def is_there(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def gone(process_id, within=60.0):
    end = time.monotonic() + within
    while is_there(process_id) and time.monotonic() < end:
        time.sleep(0.01)
    return not is_there(process_id)


@pytest.fixture(scope="module")
def mortal():
    """Return a draft whose workers these tests may kill."""
    return tiny_model(8, 1, "mortal draft")


def test_runs_of_one_draft_share_a_worker(target, draft):
    first = worker_for(draft)
    rounds_of(AHEAD, target, draft, PROMPT, max_new_tokens=20)
    assert worker_for(draft) is first


@pytest.mark.slow
def test_another_draft_has_its_own_worker_which_ends_with_the_draft(draft):
    other = tiny_model(8, 1, "another draft")
    process_id = worker_for(other).process_id
    assert process_id != worker_for(draft).process_id
    del other
    gc.collect()
    assert gone(process_id) and is_there(worker_for(draft).process_id)


def start_and_wait(line):
    model = tiny_model(8, 1, "draft of a copy")
    line.send(worker_for(model).process_id)
    time.sleep(60)


@pytest.mark.slow
def test_a_worker_ends_with_its_owner_even_if_the_owner_is_killed():
    """The owner is a fork of this process, which has already imported everything."""
    ours, theirs = multiprocessing.Pipe()
    owner = multiprocessing.get_context("fork").Process(target=start_and_wait, args=(theirs,))
    owner.start()
    theirs.close()
    process_id = ours.recv()
    assert is_there(process_id)
    owner.kill()
    owner.join()
    assert gone(process_id)


def test_two_runs_at_once_do_not_mix_their_drafts(target, draft):
    setting = {"max_new_tokens": 40, "temperature": 0.8, "draft_length": 3}
    runs = []
    for seed in (1, 2):
        config, drafter = drafter_of(AHEAD, target, draft, PROMPT, seed=seed, **setting)
        runs.append(speculative.decode(target, drafter, PROMPT, config))
    events = [[next(run)] for run in runs]
    for _ in range(6):  # both runs ask the shared worker for drafts, in turns
        for seen, run in zip(events, runs, strict=True):
            seen.append(next(run))
    for seed, (seen, run) in enumerate(zip(events, runs, strict=True), start=1):
        ahead = [*seen, *run][1:-1]
        assert_same(ahead, rounds_of(CHAIN, target, draft, PROMPT, seed=seed, **setting))


def test_runs_in_two_threads_do_not_affect_each_other(target, draft):
    setting = {"max_new_tokens": 40, "temperature": 0.8}
    found = {}

    def run(seed):
        found[seed] = rounds_of(AHEAD, target, draft, PROMPT, seed=seed, **setting)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for seed in (1, 2, 3):
        assert_same(found[seed], rounds_of(CHAIN, target, draft, PROMPT, seed=seed, **setting))


def test_the_worker_is_idle_between_rounds(target, draft):
    """If the worker drafted between rounds, that time would not count in its lane's clock."""
    config, drafter = drafter_of(AHEAD, target, draft, PROMPT, max_new_tokens=60)
    events = speculative.decode(target, drafter, PROMPT, config)
    # The id of the process's CPU clock, computed as the C function clock_getcpuclockid does.
    clock = (~worker_for(draft).process_id << 3) | 2
    for _ in range(6):
        next(events)
        rests, end = False, time.monotonic() + 60
        # The worker may still be finishing its last answer, so the test tries again.
        while not rests and time.monotonic() < end:
            before = time.clock_gettime(clock)
            time.sleep(0.05)
            rests = time.clock_gettime(clock) - before < 0.001
        assert rests


def test_the_worker_forgets_a_dropped_run(target, draft):
    """The next run must not receive answers that belong to the dropped run."""
    config, drafter = drafter_of(AHEAD, target, draft, PROMPT, max_new_tokens=60)
    drafter.propose(PROMPT, 50, 0)  # the worker now drafts ahead for this run
    del drafter
    gc.collect()
    assert set(worker_for(draft)._answers) == {0}
    setting = {"max_new_tokens": 30}
    chain = rounds_of(CHAIN, target, draft, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, draft, PROMPT, **setting), chain)


@pytest.mark.slow
def test_a_killed_worker_is_one_clear_error_and_the_next_run_gets_a_new_worker(target, mortal):
    config, drafter = drafter_of(AHEAD, target, mortal, PROMPT, max_new_tokens=60)
    events = speculative.decode(target, drafter, PROMPT, config)
    next(events), next(events)
    process_id = worker_for(mortal).process_id
    os.kill(process_id, signal.SIGKILL)
    with pytest.raises(InputError, match="'mortal draft' ended: it ended by SIGK"):
        list(events)
    setting = {"max_new_tokens": 30}
    chain = rounds_of(CHAIN, target, mortal, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, mortal, PROMPT, **setting), chain)
    assert worker_for(mortal).process_id != process_id


def test_a_worker_that_does_not_answer_is_replaced(target, mortal, monkeypatch):
    worker = worker_for(mortal)
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 0.3)
    config, drafter = drafter_of(AHEAD, target, mortal, PROMPT, max_new_tokens=60)
    os.kill(worker.process_id, signal.SIGSTOP)
    with pytest.raises(InputError, match="ended: no answer within 0.3 s"):
        list(speculative.decode(target, drafter, PROMPT, config))
    assert gone(worker.process_id)


def test_a_failure_in_the_worker_ends_only_the_run_that_caused_it(target, draft):
    prompt = (99_999,)  # a token that the draft's vocabulary does not have
    config, drafter = drafter_of(AHEAD, target, draft, prompt, max_new_tokens=8)
    with pytest.raises(InputError, match="drafting failed: IndexError"):
        drafter.propose(prompt, 6, 0)
    chain = rounds_of(CHAIN, target, draft, PROMPT, max_new_tokens=20)
    assert_same(rounds_of(AHEAD, target, draft, PROMPT, max_new_tokens=20), chain)


def test_without_an_interpreter_there_is_no_worker(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(InputError, match="a process that drafts with 'draft' could not be started"):
        worker_for(tiny_model(8, 1, "draft"))


def test_both_processes_read_the_same_clock(target, draft):
    config, drafter = drafter_of(AHEAD, target, draft, PROMPT, max_new_tokens=60)
    before = time.perf_counter()
    drafter.propose(PROMPT, 50, 0)
    ahead = drafter._executor.finish()
    assert before < ahead.began < ahead.ended < time.perf_counter()


COPIED = {
    "tiny": lambda: tiny_model(2, 1, "tiny draft"),
    "learned positions": learned_positions,
    "bundled": lambda: load_pair(pair_named("bundled"), "cpu", "float32").parts.draft,
}


@pytest.mark.parametrize("make", COPIED.values(), ids=COPIED)
def test_a_copied_model_gives_exactly_the_same_logits(make):
    model = make()
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    copy = torch.load(stream, weights_only=False)
    for count in (1, 5, 12, model.info.context_length):
        positions = torch.arange(count)[None]
        ours = model.forward(positions % 12, positions, model.new_cache(count))
        theirs = copy.forward(positions % 12, positions, copy.new_cache(count))
        assert torch.equal(ours.logits, theirs.logits)


def test_a_worker_does_not_load_transformers(draft):
    """The import would take seconds and a quarter of a gigabyte of memory."""
    maps = Path(f"/proc/{worker_for(draft).process_id}/maps").read_text()
    assert "torch" in maps and "tokenizers" not in maps
