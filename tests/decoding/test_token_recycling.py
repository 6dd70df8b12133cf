"""A table keeps the likeliest successors of each token, and a draft is the best tree of these."""

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters import token_recycling
from specviz.decoding.drafters.base import HostTransfer, Observation, PrefilledPrompt
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.token_recycling import SuccessorTable
from specviz.errors import InputError
from specviz.models.parts import Parts
from specviz.records import RecycledTokens, Round
from tests.decoding.events import tokens_of

METHOD = DRAFTERS["token-recycling"]
PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)


def drafter_of(target, draft_length=4, **options):
    options = {"nodes": 8} | options
    config = METHOD.usual(draft_length, options=tuple(options.items()), max_new_tokens=40)
    return make_drafter(Setup(target, Parts(), config, 256))


def table_of(successors, most=3):
    table = SuccessorTable(most)
    for token_id, following in successors.items():
        table.replace(token_id, following)
    return table


def test_the_tree_has_the_nodes_with_the_highest_probability():
    table = table_of({1: (2, 3), 2: (4, 5), 3: (6,), 4: (1, 9)}, most=2)
    rates = table.rates
    every_path = {(): 1.0}
    for depth in range(1, 4):
        for path in [path for path in every_path if len(path) == depth - 1]:
            following = table.successors((1, *path)[-1])
            every_path |= {
                (*path, token): every_path[path] * rate
                for token, rate in zip(following, rates, strict=False)
            }
    del every_path[()]
    for most in range(1, len(every_path) + 1):
        token_ids, parents = table.tree(1, 3, most)
        paths = []
        for token_id, parent in zip(token_ids, parents, strict=True):
            assert parent < len(paths)
            paths.append((*(paths[parent] if parent >= 0 else ()), token_id))
        best = sorted(every_path.values(), reverse=True)[:most]
        assert [every_path[path] for path in paths] == pytest.approx(best)
        assert len(set(paths)) == len(paths)


def test_the_tree_is_no_deeper_than_asked():
    table = table_of({1: (1,)})
    assert table.tree(1, 3, 64)[1] == (-1, 0, 1)
    assert table.tree(1, 0, 64)[0] == ()
    assert table.tree(2, 3, 64)[0] == ()


def test_the_rates_follow_the_text():
    table = table_of({1: (2, 3)}, most=2)
    before = table.rates
    # In this text, token 1 is followed by 3, 3 and 2. The table knows no other token.
    table.count([1, 3, 1, 3, 1, 2, 9, 9])
    weight = token_recycling.FIRST_WEIGHT
    expected = [(weight * before[0] + 1) / (weight + 3), (weight * before[1] + 2) / (weight + 3)]
    assert table.rates == pytest.approx(expected)


def test_a_run_begins_with_what_followed_each_token_of_the_prompt(target):
    drafter = drafter_of(target, draft_length=1)
    drafter.start(PrefilledPrompt(PROMPT, None, None, HostTransfer()))
    proposal = drafter.propose(PROMPT, 9, 0)
    # In the prompt, token 5 is last followed by 2, and before that by 1.
    assert proposal.token_ids.tolist() == [2, 1]
    (note,) = proposal.notes
    assert isinstance(note, RecycledTokens) and note.known == len({3, 5, 1, 2, 7})


def test_the_target_s_choices_after_rejected_tokens_are_kept_as_well(target):
    drafter = drafter_of(target, draft_length=1, successors=2)
    drafter.start(PrefilledPrompt((1, 2, 1, 3, 1), None, None, HostTransfer()))
    assert drafter.propose((1,), 9, 0).token_ids.tolist() == [3, 2]
    # The target's best next tokens after the root (token 1), after token 3 and after token 2.
    best = ((4, 5, 6), (7, 8, 9), (8, 7, 9))
    drafter.observe(Observation((), (), (4,), None, (), lambda: best))
    successors = drafter._table.successors
    assert [successors(token) for token in (1, 3, 2)] == [(4, 5), (7, 8), (8, 7)]


def test_the_accepted_path_decides_between_equal_tokens(target):
    drafter = drafter_of(target)
    drafter.start(PrefilledPrompt((1, 2, 1, 1), None, None, HostTransfer()))
    tokens = drafter.propose((1,), 9, 0).token_ids.tolist()
    rows = [1, *tokens]
    path = (tokens.index(1),)
    best = tuple((100 + row, 200) for row in range(len(rows)))
    drafter.observe(Observation(path, (), (1, 5), None, (), lambda: best))
    assert drafter._table.successors(1) == (100 + path[0] + 1, 200)


def test_the_kept_tokens_are_the_target_s_most_probable_ones(target, monkeypatch):
    """The drafter reads the best tokens from the numbers that every round copies for the page."""
    seen = []
    observe = token_recycling.TokenRecycling.observe

    def spied(drafter, observation):
        seen.append((drafter._drafted, observation.best_ids()))
        return observe(drafter, observation)

    monkeypatch.setattr(token_recycling.TokenRecycling, "observe", spied)
    events = list(run(target, temperature=0.8))
    rounds = [each for each in events if isinstance(each, Round)]
    assert len(seen) == len(rounds) > 0
    for each, (drafted, best) in zip(rounds, seen, strict=True):
        assert drafted[1:] == tuple(node.token_id for node in each.tree.nodes)
        for position in each.positions:
            ranked = sorted(position.raw_target_probs, reverse=True)
            shown = dict(zip(position.token_ids, position.raw_target_probs, strict=True))
            assert [shown[token] for token in best[position.parent + 1]] == ranked[: len(best[0])]


def run(target, **changes):
    config = METHOD.usual(4, max_new_tokens=40, **({"options": (("nodes", 8),)} | changes))
    drafter = make_drafter(Setup(target, Parts(), config, 256))
    return speculative.decode(target, drafter, PROMPT, config)


def test_two_runs_are_alike_because_no_run_sees_another_one_s_table(target):
    first, second = (list(run(target)) for _ in range(2))
    assert tokens_of(first) == tokens_of(second)
    trees = [
        [each.tree for each in events if isinstance(each, Round)] for events in (first, second)
    ]
    assert trees[0] == trees[1]


def test_without_a_number_of_nodes_the_measured_times_decide(target, monkeypatch):
    monkeypatch.setattr(token_recycling, "best_node_count", lambda model, gains: 2)
    rounds = [each for each in run(target, options=()) if isinstance(each, Round)]
    assert max(len(each.tree.nodes) for each in rounds) == 2


def test_a_wrong_number_of_successors_is_refused_in_one_sentence(target):
    message = "^successors must be a whole number from 1 to 10, got 11$"
    with pytest.raises(InputError, match=message):
        drafter_of(target, successors=11)
