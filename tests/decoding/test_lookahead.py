"""Lookahead fills its window and its pool as described, and limits its extra queries."""

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.base import HostTransfer, Observation, PrefilledPrompt
from specviz.decoding.drafters.lookahead import METHOD, ON_CPU, LookaheadWindow, NgramPool
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.errors import InputError
from specviz.experiments.run.recorder import Recorder
from specviz.models.language_model import ForwardOutput
from specviz.models.parts import Parts
from specviz.records import (
    SPECULATIVE,
    DecodingConfig,
    Drawing,
    LookaheadState,
    Round,
)
from tests.decoding.conftest import VOCAB
from tests.decoding.table_model import TableModel

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
CPU = torch.device("cpu")


def config_of(**changes):
    return DecodingConfig(method=METHOD.name, drawing=Drawing.CHOSEN, **changes)


def rounds_of(target, config, prompt=PROMPT):
    drafter = make_drafter(Setup(target, Parts(), config, 400))
    events = speculative.decode(target, drafter, prompt, config)
    return [event for event in events if isinstance(event, Round)]


def state_of(each):
    (state,) = each.notes
    assert isinstance(state, LookaheadState)
    return state


def test_a_window_fills_level_by_level_and_then_moves_one_position_per_step():
    # Level 0 has W + N - 3 = 4 tokens and N is 4, so the window has W = 3 columns.
    window = LookaheadWindow([11, 12, 13, 14], ngram=4)
    assert window.step(10, 20, [22, 23, 24, 25]) == []
    assert (window.sizes, window.token_ids) == ((3, 4), (12, 13, 14, 22, 23, 24, 25))
    assert window.step(20, 30, [0, 0, 0, 33, 34, 35, 36]) == []
    assert window.sizes == (2, 3, 3) and window.is_full
    assert window.token_ids == (13, 14, 23, 24, 25, 34, 35, 36)
    found = window.step(30, 40, [0] * 5 + [45, 46, 47])
    assert found == [(30, (23, 34, 45)), (13, (24, 35, 46)), (14, (25, 36, 47))]
    assert window.token_ids == (24, 25, 34, 35, 36, 45, 46, 47)
    assert window.sizes == (2, 3, 3)


def test_with_bigrams_the_window_is_plain_jacobi_iteration_after_the_last_token():
    window = LookaheadWindow([11, 12], ngram=2)
    assert window.step(10, 20, [21, 22]) == [(10, (20,)), (11, (21,)), (12, (22,))]
    assert window.token_ids == (21, 22)


def test_the_text_s_ngrams_follow_the_order_of_the_committed_tokens():
    """The pool must not learn the root with the round's last token as its next token.

    A round commits several tokens, so other tokens are between these two.
    """
    config = config_of(options=(("window", 2), ("ngram", 2)))
    drafter = make_drafter(Setup(TableModel(1, vocab=9), Parts(), config, 400))
    drafter.start(PrefilledPrompt((7, 7, 7), None, None, HostTransfer()))
    drafter.propose([1, 2, 7, 1], 9, 0)
    drafter.observe(Observation((0,), (0,), (2, 8), None, (5,)))
    assert drafter.propose([1, 2, 7, 1, 2, 8, 1], 9, 1).token_ids.tolist() == [2]
    assert 2 not in drafter.propose([1, 2, 7, 1, 2, 8, 1, 2], 9, 2).token_ids.tolist()


def started(prompt, **changes):
    """Return a drafter that has received its prompt."""
    drafter = make_drafter(Setup(TableModel(1, vocab=9), Parts(), config_of(**changes), 400))
    drafter.start(PrefilledPrompt(prompt, None, None, HostTransfer()))
    return drafter


def test_the_window_begins_with_random_tokens_of_the_prompt():
    firsts = {started((3, 4, 5, 6), seed=seed)._window.token_ids for seed in range(20)}
    assert len(firsts) > 10 and {token for ids in firsts for token in ids} == {3, 4, 5, 6}


def test_the_window_pauses_if_the_remaining_text_has_no_space_for_a_guess():
    drafter = started((1, 2, 3))
    assert drafter.propose([1, 2, 3, 4], 1, 0).queries is None
    assert drafter.propose([1, 2, 3, 4], 2, 0).queries is not None


def test_the_pool_receives_every_ngram_of_the_text_once_and_counts_new_ones():
    drafter, text, seen = started((1, 2, 3)), [1, 2, 3, 4, 1, 2, 3, 5], []
    add = drafter._pool.add
    drafter._pool.add = lambda key, rest: (seen.append((key, *rest)), add(key, rest))[1]
    notes = [drafter.propose(text[:end], 9, 0).notes[0] for end in (4, 4, 6, 8)]
    assert seen == [tuple(text[i : i + 3]) for i in range(6)]
    # The last call adds one n-gram instead of two: the text contains 1 2 3 twice.
    assert [note.added for note in notes] == [2, 0, 2, 1]


def test_a_window_with_only_the_root_s_column_needs_no_queries_for_bigrams():
    assert LookaheadWindow([], ngram=2).queries(4, CPU) is None


def test_window_tokens_see_the_root_the_oldest_level_before_them_and_their_column():
    window = LookaheadWindow([11, 12, 13], ngram=4)
    # After this step the window has two levels. It has two columns besides that of the root.
    window.step(10, 20, [22, 23, 24])
    queries = window.queries(3, CPU)
    assert queries.token_ids.tolist() == [12, 13, 22, 23, 24]
    assert queries.offsets.tolist() == [1, 2, 1, 2, 3]
    # No query of the window may see a drafted token.
    assert queries.mask[:, 1:3].any().item() is False
    assert queries.mask[:, 0].all().item() is True
    assert queries.mask[:, 3:].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [1, 0, 0, 1, 0],
        [1, 1, 0, 0, 1],
    ]


class Counting(TableModel):
    """A model that predicts the number of the position, whatever tokens come before it."""

    def distribution(self, tokens, layer=-1):
        return 5.0 * torch.eye(self.info.vocab_size)[len(tokens)]


@pytest.mark.parametrize("window, ngram", [(1, 2), (1, 3), (3, 2), (3, 3), (2, 5), (5, 4)])
def test_the_window_finds_the_tokens_that_the_target_will_write(window, ngram):
    """No token occurs twice, so only the window can predict the next one."""
    options = (("window", window), ("ngram", ngram), ("guesses", 2))
    config = config_of(max_new_tokens=40, draft_length=8, options=options)
    rounds = rounds_of(Counting(0, vocab=60), config, prompt=(50, 51, 52))
    assert [token for each in rounds for token in each.emitted_ids] == list(range(4, 43))
    accepted = [len(each.accepted) for each in rounds]
    assert max(accepted) == (ngram - 1 if window > 1 else 0)


def test_the_window_s_results_are_the_target_s_most_probable_tokens():
    """A token of the newest level is the target's choice after its column in the levels before."""
    target = TableModel(3, vocab=8)
    options = (("window", 4), ("ngram", 4))
    rounds = rounds_of(target, config_of(max_new_tokens=40, options=options))
    committed = list(PROMPT)
    compared = 0
    states = [state_of(each) for each in rounds]
    for each, state, later in zip(rounds, states, states[1:], strict=False):
        if len(state.level_sizes) == len(later.level_sizes) == 3:
            oldest = state.token_ids[: state.level_sizes[0]]
            middle = state.token_ids[state.level_sizes[0] :][: state.level_sizes[1]]
            newest = state.token_ids[-state.level_sizes[2] :]
            for column in range(4):
                seen = [*oldest[:column], middle[column], newest[column]]
                likeliest = int(target.distribution(seen).argmax())
                assert later.token_ids[-4:][column] == likeliest
                compared += 1
        committed += each.emitted_ids
    assert compared > 20


def test_the_pool_starts_with_the_ngrams_of_the_prompt():
    config = config_of(max_new_tokens=20, temperature=1.0)
    drafter = make_drafter(Setup(TableModel(1, vocab=9), Parts(), config, 400))
    proposal = drafter.propose([1, 2, 3, 8, 1, 5, 6, 7, 1], 9, 0)
    # The prompt's later n-gram, 1 5 6, comes before the earlier 1 2 3.
    assert proposal.token_ids.tolist() == [5, 6, 2, 3]
    assert proposal.topology.parents.tolist() == [-1, 0, -1, 2]
    assert proposal.notes[0].hits == 2 and proposal.notes[0].pool == proposal.notes[0].added == 7


def test_guesses_with_a_common_beginning_share_a_branch():
    drafter = make_drafter(Setup(TableModel(1, vocab=9), Parts(), config_of(), 400))
    proposal = drafter.propose([1, 2, 3, 8, 1, 2, 4, 7, 1], 9, 0)
    assert proposal.token_ids.tolist() == [2, 4, 3]
    assert proposal.topology.parents.tolist() == [-1, 0, 0]


@pytest.mark.parametrize("draft_length, room, depth", [(1, 9, 1), (5, 9, 2), (5, 1, 1), (5, 0, 0)])
def test_guesses_are_as_long_as_the_settings_and_the_remaining_text_allow(
    draft_length, room, depth
):
    config = config_of(draft_length=draft_length)
    drafter = make_drafter(Setup(TableModel(1, vocab=9), Parts(), config, 400))
    assert drafter.propose([1, 2, 3, 1], room, 0).topology.height == depth


def test_the_pool_drops_ngrams_that_it_has_not_seen_for_the_longest_time():
    pool = NgramPool(per_key=2, max_keys=2)
    assert pool.learn([1, 2, 1, 3], 0, 2) == 3
    assert not pool.add(1, (2,)) and pool.behind(1) == [(2,), (3,)] and pool.size == 3
    assert pool.add(1, (4,)) and pool.behind(1) == [(4,), (2,)] and pool.size == 3
    pool.add(5, (6,))
    assert pool.behind(2) == [] and pool.behind(1) == [(4,), (2,)]
    assert pool.size == sum(len(pool.behind(key)) for key in range(9)) == 3


def test_the_pool_learns_every_ngram_of_a_growing_text_once():
    text = [1, 2, 3, 4, 5, 6]
    whole, parts = NgramPool(9), NgramPool(9)
    assert whole.learn(text, 0, 3) == 4
    assert sum(parts.learn(text[:end], end - 1, 3) for end in range(1, 7)) == 4
    assert all(whole.behind(key) == parts.behind(key) for key in text)


class Watched:
    """A target that records the highest position of each forward."""

    def __init__(self, model):
        self._model, self.positions = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, token_ids, position_ids, *rest, **options) -> ForwardOutput:
        self.positions.append(int(position_ids.max()))
        return self._model.forward(token_ids, position_ids, *rest, **options)


@pytest.mark.parametrize("ngram", [2, 3, 7])
def test_no_extra_query_is_outside_the_context(ngram, target):
    watched = Watched(target)
    context = target.info.context_length
    options = (("window", 15), ("ngram", ngram))
    config = config_of(max_new_tokens=context - len(PROMPT), options=options)
    rounds = rounds_of(watched, config)
    assert len(PROMPT) + 1 + sum(len(each.emitted_ids) for each in rounds) == context
    assert max(watched.positions) < context
    assert state_of(rounds[0]).token_ids and not state_of(rounds[-1]).token_ids


def test_the_note_describes_window_and_pool(target):
    rounds = rounds_of(target, config_of(max_new_tokens=60))
    width, ngram = ON_CPU.window, ON_CPU.ngram
    assert state_of(rounds[0]).level_sizes == (width + ngram - 3,)
    sizes = [state_of(each).level_sizes for each in rounds[1:-1]]
    assert set(sizes) == {(width - 1, *[width] * (ngram - 2))}
    for each in rounds:
        state = state_of(each)
        assert len(state.token_ids) == sum(state.level_sizes)
        assert all(0 <= token < VOCAB for token in state.token_ids)
        assert len(each.tree.children(-1)) <= state.hits <= ON_CPU.guesses
        assert each.cache.speculative == 1 + len(each.tree.nodes) + len(state.token_ids)
    assert sum(state_of(each).added for each in rounds) >= state_of(rounds[-1]).pool > 0


def test_the_texts_of_window_tokens_are_recorded(target):
    recorder = Recorder()
    for each in rounds_of(target, config_of(max_new_tokens=20)):
        recorder.add(SPECULATIVE, each)
        assert set(state_of(each).token_ids) <= recorder.token_ids


def test_ngrams_of_one_token_are_refused(target):
    with pytest.raises(InputError, match="ngram must be 0 or from 2 to 8, got 1"):
        rounds_of(target, config_of(options=(("ngram", 1),)))
