"""Drafting during verification changes only the time: every round equals that of draft-model.

In the names of these tests, "the chain's" rounds are the rounds of draft-model.
"""

import contextlib

import pytest
import torch

from specviz.decoding.ahead import executor as executors
from specviz.decoding.ahead.executor import InLine, OwnProcess, SecondStream
from specviz.decoding.ahead.order import Order, Outcomes, Setting, fan_outs, prepared_outcomes
from specviz.decoding.drafters import pre_speculation
from specviz.decoding.sampling import Sampler
from specviz.errors import InputError
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Parts
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig
from tests.decoding import batch_runs
from tests.decoding.ahead_runs import AHEAD, CHAIN, assert_same, drafter_of, hits, rounds_of
from tests.decoding.conftest import VOCAB, learned_positions, tiny_model
from tests.decoding.table_model import TableModel

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
SAMPLINGS = [
    {},
    {"temperature": 0.8},
    {"temperature": 0.8, "top_k": 5},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 0.8, "min_p": 0.1},
    {"temperature": 1.3, "top_k": 8, "top_p": 0.95},
]


@pytest.fixture(scope="module")
def close_draft(target):
    """Return a draft that often agrees with the target.

    Its logits are those of the target, divided by 1.5.
    """
    return SofterModel(target)


class SofterModel:
    """A model that divides another model's logits by a constant."""

    def __init__(self, model):
        self._model = model
        self.info, self.device, self.dtype = model.info, model.device, model.dtype
        self.new_cache = model.new_cache
        self.forwards = []  # the number of tokens in each forward so far

    def forward(self, token_ids, *arguments, **options):
        self.forwards.append(token_ids.shape[1])
        output = self._model.forward(token_ids, *arguments, **options)
        return type(output)(output.logits / 1.5)


@pytest.fixture
def executor(request, monkeypatch):
    monkeypatch.setattr(pre_speculation, "executor_for", request.param)


# A test runs with every sampling setting inside this process. With a worker process it runs with
# every fourth setting, which is enough to show that the worker receives the settings.
EXECUTED = pytest.mark.parametrize(
    "executor, sampling",
    [
        *(pytest.param(InLine, each, id=f"in line {each}") for each in SAMPLINGS),
        *(pytest.param(OwnProcess, each, id=f"own process {each}") for each in SAMPLINGS[::4]),
    ],
    indirect=["executor"],
)


@EXECUTED
@pytest.mark.parametrize("draft_length, fan_out", [(1, 2), (5, 2)])
def test_every_round_equals_the_chain_s(
    target, close_draft, executor, draft_length, fan_out, sampling
):
    setting = {"draft_length": draft_length, "max_new_tokens": 60, "seed": 5, **sampling}
    chain = rounds_of(CHAIN, target, close_draft, PROMPT, **setting)
    options = (("fan_out", fan_out),)
    ahead = rounds_of(AHEAD, target, close_draft, PROMPT, options=options, **setting)
    assert_same(ahead, chain)
    assert True in hits(ahead)


@EXECUTED
def test_rounds_without_a_prepared_draft_equal_the_chain_s(target, draft, executor, sampling):
    setting = {"max_new_tokens": 60, "seed": 5, **sampling}
    chain = rounds_of(CHAIN, target, draft, PROMPT, **setting)
    ahead = rounds_of(AHEAD, target, draft, PROMPT, options=(("fan_out", 1),), **setting)
    assert_same(ahead, chain)
    assert False in hits(ahead)[1:]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_rounds_with_long_accepted_paths_equal_the_chain_s(target, close_draft, sampling):
    setting = {"draft_length": 4, "max_new_tokens": 80, "seed": 3, **sampling}
    chain = rounds_of(CHAIN, target, close_draft, PROMPT, **setting)
    ahead = rounds_of(AHEAD, target, close_draft, PROMPT, **setting)
    assert_same(ahead, chain)
    full = [len(each.accepted) == 4 for each in ahead[:-1]]
    assert any(full) and True in hits(ahead)


# A worker with a transformers model takes seconds to start, so this test belongs to `make slow`.
# The worker's own tests show that its copy of a model gives the same logits.
@pytest.mark.slow
@pytest.mark.parametrize(
    "executor, make",
    [
        pytest.param(InLine, None, id="in line, rotary"),
        pytest.param(InLine, learned_positions, id="in line, learned"),
        pytest.param(OwnProcess, None, id="own process, rotary"),
        pytest.param(
            OwnProcess, learned_positions, id="own process, learned", marks=pytest.mark.slow
        ),
    ],
    indirect=["executor"],
)
def test_rounds_equal_the_chain_s_up_to_the_end_of_the_context(target, draft, executor, make):
    draft = make() if make else draft
    setting = {"max_new_tokens": target.info.context_length - len(PROMPT), "temperature": 0.8}
    chain = rounds_of(CHAIN, target, draft, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, draft, PROMPT, **setting), chain)


@pytest.mark.parametrize("limit", range(1, 13))
def test_rounds_near_the_token_limit_equal_the_chain_s(target, close_draft, limit):
    setting = {"max_new_tokens": limit, "draft_length": 3, "temperature": 0.9, "seed": limit}
    chain = rounds_of(CHAIN, target, close_draft, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, close_draft, PROMPT, **setting), chain)


@pytest.mark.parametrize("seed", range(8))
def test_every_prepared_outcome_sees_its_own_path(seed):
    """Table models raise an error if a token does not see one unbroken path.

    Their vocabulary has three tokens, fewer than some fan-outs.
    """
    target, draft = TableModel(3, 1), TableModel(2)
    setting = {"draft_length": 4, "max_new_tokens": 60, "temperature": 1.0, "seed": seed}
    chain = rounds_of(CHAIN, target, draft, (0, 2, 1), **setting)
    ahead = rounds_of(AHEAD, target, draft, (0, 2, 1), options=(("fan_out", 4),), **setting)
    assert_same(ahead, chain)
    assert all(hits(ahead)[1:]), "every outcome was prepared"


def test_a_draft_with_a_padded_vocabulary_gives_the_chain_s_rounds(target, monkeypatch):
    monkeypatch.setattr(pre_speculation, "executor_for", InLine)
    draft = tiny_model(7, 1, "padded draft", vocab=VOCAB + 4)
    setting = {"max_new_tokens": 40, "temperature": 1.0}
    chain = rounds_of(CHAIN, target, draft, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, draft, PROMPT, **setting), chain)


SHIPPED = [{}, {"temperature": 0.8}, {"temperature": 0.8, "top_k": 50, "top_p": 0.9}]


@pytest.mark.parametrize(
    "task, sampling", list(zip(("code", "translate", "code"), SHIPPED, strict=True)), ids=str
)
def test_the_bundled_pair_s_rounds_equal_the_chain_s(task, sampling):
    pair = load_pair(pair_named("bundled"), "cpu", "float32")
    prompt = pair.codec.encode(held_out_prompt(task, 2), task)
    setting = {"max_new_tokens": 64, "seed": 9, "end_ids": pair.codec.eos_ids, **sampling}
    chain = rounds_of(CHAIN, pair.target, pair.parts.draft, prompt, **setting)
    ahead = rounds_of(AHEAD, pair.target, pair.parts.draft, prompt, **setting)
    assert_same(ahead, chain)
    if not sampling:
        assert sum(hits(ahead)) >= 0.6 * (len(hits(ahead)) - 1)


def test_a_prepared_draft_is_used_if_the_extra_token_is_among_the_draft_s_best(target, close_draft):
    """The drafter prepares drafts for the extra tokens that the draft model finds most probable.

    A rejected token cannot be the extra token at its position, so it does not count among these.
    """
    rounds = rounds_of(AHEAD, target, close_draft, PROMPT, draft_length=3, max_new_tokens=100)
    context = [*PROMPT, int(last_logits(target, PROMPT).argmax())]
    counts = fan_outs(3, 2)
    for round_, is_hit in zip(rounds, hits(rounds)[1:], strict=False):
        path, nodes = round_.accepted, round_.tree.nodes
        logits = last_logits(close_draft, [*context, *(nodes[node].token_id for node in path)])
        if len(path) < len(nodes):
            logits[nodes[len(path)].token_id] = -torch.inf
        rank = int((logits > logits[round_.extra.token_id]).sum())
        assert is_hit == (rank < counts[len(path)])
        context.extend(round_.emitted_ids)


def last_logits(model, token_ids):
    ids, positions = torch.tensor([token_ids]), torch.arange(len(token_ids))[None]
    return model.forward(ids, positions, model.new_cache(256), last_only=True).logits[0, 0].clone()


@pytest.mark.parametrize("fan_out", [1, 2, 4])
def test_a_round_runs_the_draft_k_times_ahead_and_once_after_the_chain(
    target, close_draft, fan_out
):
    setting = {"draft_length": 4, "max_new_tokens": 60, "options": (("fan_out", fan_out),)}
    config, drafter = drafter_of(AHEAD, target, close_draft, PROMPT, **setting)
    close_draft.forwards.clear()
    drafter.propose(PROMPT, 50, 0)
    assert close_draft.forwards == [len(PROMPT), 1, 1, 1]
    close_draft.forwards.clear()
    drafter._executor.finish()
    assert close_draft.forwards == [1, *[sum(fan_outs(4, fan_out))] * 4]


def test_waiting_counts_as_drafting_and_the_note_has_the_hidden_time(target, draft):
    # The time in seconds at which the previous round ended. Only then was its outcome known.
    before = 0.0
    for round_ in rounds_of(AHEAD, target, draft, PROMPT, max_new_tokens=60)[:-2]:
        spans = {span.who: span for span in round_.spans}
        ahead, host = spans["draft ahead"], spans["host"]
        assert before <= ahead.start <= ahead.end <= host.end
        before = host.end
        note = round_.notes[0]
        assert note.hidden_seconds >= 0 and note.waited_seconds >= 0
        if not note.hit:
            assert note.waited_seconds > 0
            assert round_.draft_seconds > 0


def test_drafting_in_the_same_process_hides_no_time(target, close_draft):
    rounds = rounds_of(AHEAD, target, close_draft, PROMPT, max_new_tokens=40)
    for round_ in rounds:
        assert all(note.hidden_seconds < 1e-4 for note in round_.notes)


def test_fan_outs_use_the_whole_budget_and_each_is_at_least_1():
    for draft_length in range(1, 33):
        for fan_out in range(1, 5):
            counts = fan_outs(draft_length, fan_out)
            assert sum(counts) == fan_out * (draft_length + 1) == fan_out * len(counts)
            assert min(counts) >= 1
            assert list(counts[:-1]) == sorted(counts[:-1], reverse=True)


def test_outcomes_after_which_no_draft_fits_are_not_prepared():
    assert prepared_outcomes(3, 1, 1) == Outcomes((), 0)
    assert prepared_outcomes(3, 1, 2) == Outcomes((1,), 1)
    assert prepared_outcomes(3, 1, 4) == Outcomes((1, 1, 1), 3)
    assert prepared_outcomes(3, 1, 5) == prepared_outcomes(3, 1, 500) == Outcomes((1,) * 4, 3)


def test_an_exchange_buffer_of_unreasonable_size_is_refused(target, draft):
    setting = Setting(32, 4, Sampler(), 0, 200_000, 100)
    with pytest.raises(
        InputError, match="fan_out must be lower: .* got 4, .* with draft_length 32"
    ):
        InLine(draft, setting)


class StubStream:
    device = torch.device("cpu")
    wait_stream = synchronize = record = lambda *_: None
    elapsed_time = staticmethod(lambda last: 1.0)


def test_a_second_stream_gives_the_same_rounds(target, draft, monkeypatch):
    """Stubs replace CUDA's streams and events, so the order of the work is tested without a GPU."""
    for name in ("Stream", "Event", "current_stream"):
        monkeypatch.setattr(executors.torch.cuda, name, lambda *_, **__: StubStream())
    monkeypatch.setattr(executors.torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(pre_speculation, "executor_for", SecondStream)
    setting = {"max_new_tokens": 50, "temperature": 0.8}
    chain = rounds_of(CHAIN, target, draft, PROMPT, **setting)
    assert_same(rounds_of(AHEAD, target, draft, PROMPT, **setting), chain)


def test_an_order_knows_the_length_of_its_chain():
    setting = Setting(5, 2, Sampler(), 0, VOCAB, 100)
    assert Order(0, 10, 3, 0, 12).length(setting) == 3
    assert Order(0, 10, 30, 0, 12).length(setting) == 5


@pytest.mark.parametrize("limits", [[4] * 6, [4, 0, 4, 4, 4], [4, 2, 4, 4], [2, 4, 4]])
def test_after_a_round_with_a_smaller_limit_the_next_rounds_equal_the_chain_s(
    limits, target, monkeypatch
):
    """A batch may limit a row to a smaller draft than the one that is prepared.

    The drafter must not use the prepared draft in such a round.
    """
    monkeypatch.setattr(pre_speculation, "executor_for", InLine)

    def drafted(method):
        config = DecodingConfig(
            method=method, draft_length=4, temperature=0.9, seed=1, max_new_tokens=40
        )
        each_round = [[limit] for limit in limits]
        steps = batch_runs.limited_steps(target, Parts(draft=target), config, [PROMPT], each_round)
        rounds = [each for (each,) in batch_runs.rounds_of(steps)]
        return [[(node.token_id, node.draft_prob) for node in each.tree.nodes] for each in rounds]

    for ahead, chain in zip(drafted("pre-speculation"), drafted("draft-model"), strict=True):
        assert [token for token, _ in ahead] == [token for token, _ in chain]
        assert [q for _, q in ahead] == pytest.approx([q for _, q in chain], abs=1e-5)
