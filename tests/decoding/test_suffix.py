"""The suffix tree counts every sequence correctly, and suffix decoding copies the best path."""

import random
from collections import Counter

import pytest

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.suffix_tree import CountedPath, DraftLimits, SuffixTree
from specviz.errors import InputError
from specviz.models.parts import Parts
from specviz.records import Round, SuffixMatch
from tests.decoding.events import tokens_of

METHOD = DRAFTERS["suffix"]
PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)


def tree_of(*texts, depth=24, most_texts=9):
    tree = SuffixTree(depth, most_texts)
    for text in texts:
        tree.begin()
        for token_id in text:
            tree.append(token_id)
    return tree


def occurrences(texts, depth):
    """Count every sequence of 1 to `depth` tokens in the texts, without a tree."""
    return Counter(
        tuple(text[start:end])
        for text in texts
        for start in range(len(text))
        for end in range(start + 1, min(start + depth, len(text)) + 1)
    )


def path_by_counting(text, matched, most, least_percent):
    """Return the path after the last `matched` tokens, found without a tree.

    Among equally frequent tokens, the one whose last occurrence is the most recent is chosen.
    """

    def ends(sequence):
        size = len(sequence)
        return [end for end in range(size, len(text) + 1) if text[end - size : end] == sequence]

    sequence, counts = text[-matched:], [len(ends(text[-matched:]))]
    while len(counts) <= most:
        following = {token: ends([*sequence, token]) for token in set(text)}
        token, found = max(following.items(), key=lambda item: (len(item[1]), item[1][-1:]))
        if not found or 100 * len(found) < least_percent * counts[0]:
            break
        sequence = [*sequence, token]
        counts.append(len(found))
    return CountedPath(matched, tuple(sequence[matched:]), tuple(counts))


def is_counted(tree, counts):
    """Return whether each node of the tree has the count that `counts` has for its sequence."""
    nodes = [((), tree._root)]
    for path, node in nodes:
        children = [(path + (token_id,), child) for token_id, child in node.children.items()]
        if any(child.count != counts[sequence] for sequence, child in children):
            return False
        if children and path:
            best = max(child.count for _, child in children)
            if node.children[node.best].count != best:
                return False
        nodes += children
    return True


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_counts_as_counting_without_a_tree_does(seed):
    rng = random.Random(seed)
    depth, most_texts, letters = rng.randint(2, 7), rng.randint(1, 3), rng.randint(1, 4)
    tree, texts = SuffixTree(depth, most_texts), []
    for _ in range(5):
        tree.begin()
        texts = [*texts, []][-most_texts:]
        for _ in range(rng.randint(0, 30)):
            texts[-1].append(rng.randrange(letters))
            tree.append(texts[-1][-1])
            counts = occurrences(texts, depth)
            assert is_counted(tree, counts)
            last = texts[-1]
            matches = [
                m for m in range(1, depth) if m <= len(last) and counts[tuple(last[-m:])] > 1
            ]
            assert tree.longest_match == len(matches)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_path_is_the_one_that_counting_without_a_tree_finds(seed):
    rng = random.Random(seed)
    letters, depth = rng.randint(1, 5), rng.randint(2, 9)
    text = [rng.randrange(letters) for _ in range(rng.randint(1, 60))]
    limits = DraftLimits(rng.randint(1, 6), rng.choice([50, 100, 300]), rng.randint(0, 2), 20)
    tree = tree_of(text, depth=depth)
    paths = [CountedPath()]
    for matched in range(1, tree.longest_match + 1):
        most = min(limits.after(matched), depth - matched)
        paths.append(path_by_counting(text, matched, most, limits.least_percent))
    assert tree.best_path(limits) == max(paths, key=lambda path: (path.score, path.matched))


def test_shares_count_the_end_of_the_text_as_an_occurrence():
    # The text contains "1 2" three times. The first two are followed by 3, and then by 4 or by 5.
    found = tree_of([1, 2, 3, 4, 1, 2, 3, 5, 1, 2]).best_path(DraftLimits(8))
    assert found == CountedPath(2, (3, 5), (3, 2, 1))
    assert found.score == pytest.approx(1)


def test_among_equally_frequent_tokens_the_most_recent_is_copied():
    assert tree_of([1, 2, 9, 1, 3, 9, 1]).best_path(DraftLimits(1)).token_ids == (3,)


def test_a_tie_goes_to_the_longer_match():
    text = [8, 1, 2, 3, 8, 1]  # "1" and "8 1" occur twice each, and each is followed by 2 once
    assert tree_of(text).best_path(DraftLimits(1)) == CountedPath(2, (2,), (2, 1))


def test_a_short_match_wins_if_its_score_is_higher():
    # In this text "9 1" occurs twice and is followed by 5 once; "1" occurs six times and is
    # followed by 2 four times.
    text = [1, 2, 1, 2, 1, 2, 1, 2, 9, 1, 5, 9, 1]
    assert tree_of(text).best_path(DraftLimits(1)) == CountedPath(1, (2,), (6, 4))


def test_no_limit_lets_a_draft_exceed_it():
    text = list(range(20)) + list(range(8))
    assert tree_of(text).best_path(DraftLimits(24)).token_ids == tuple(range(8, 16))
    assert tree_of(text).best_path(DraftLimits(3)).token_ids == (8, 9, 10)
    assert tree_of(text).best_path(DraftLimits(24, percent=50)).token_ids == (8, 9, 10, 11)
    assert tree_of(text).best_path(DraftLimits(24, percent=0, offset=2)).token_ids == (8, 9)
    # A match and its draft together are no longer than the tree's depth.
    assert len(tree_of(text, depth=10).best_path(DraftLimits(24)).token_ids) == 5
    assert tree_of(text).best_path(DraftLimits(24, least_percent=51)).token_ids == ()
    assert tree_of(list(range(9))).best_path(DraftLimits(24)) == CountedPath()


def test_a_text_without_repeats_has_one_node_per_token():
    tree, nodes = tree_of(range(500)), 0
    pending = [tree._root]
    while pending:
        children = list(pending.pop().children.values())
        nodes += len(children)
        pending += children
    assert nodes == 500


@pytest.fixture
def drafted(target):
    def draft(text, draft_length=8, **options):
        config = METHOD.usual(draft_length, options=tuple(options.items()))
        return make_drafter(Setup(target, Parts(), config, 64)).propose(text, 16, 0)

    return draft


def test_the_note_says_which_tokens_matched_and_their_counts(drafted):
    proposal = drafted((1, 2, 3, 4, 1, 2, 3, 5, 1, 2))
    assert proposal.token_ids.tolist() == [3, 5]
    assert proposal.notes == (SuffixMatch(2, (3, 2, 1), False, (1, 2)),)
    nothing = drafted((1, 2, 3))
    assert nothing.notes == () and nothing.topology.size == 0


def test_the_options_limit_the_draft(drafted):
    text = (*range(9), *range(4))
    assert drafted(text).token_ids.tolist() == [4, 5, 6, 7]
    assert drafted(text, match_factor=25, match_offset=1).token_ids.tolist() == [4, 5]
    assert drafted(text, tree_depth=6).token_ids.tolist() == [4, 5, 6]
    assert drafted(text, draft_length=1).token_ids.tolist() == [4]
    assert drafted(text, least_share=51).token_ids.tolist() == []


def run(target, prompt, earlier=None, **changes):
    config = METHOD.usual(8, max_new_tokens=40, **changes)
    drafter = make_drafter(Setup(target, Parts(), config, 256, earlier))
    return list(speculative.decode(target, drafter, prompt, config))


def rounds_of(events):
    return [each for each in events if isinstance(each, Round)]


def test_a_shared_tree_of_earlier_outputs_drafts_more_and_changes_no_token(target):
    alone, earlier = run(target, PROMPT), SuffixTree(most_texts=4)
    first, second = (run(target, PROMPT, earlier) for _ in range(2))
    assert tokens_of(first) == tokens_of(second) == tokens_of(alone)
    assert len(rounds_of(second)) < len(rounds_of(alone))
    notes = [note for each in rounds_of(second) for note in each.notes]
    assert any(note.is_earlier for note in notes)
    assert not any(note.is_earlier for each in rounds_of(alone) for note in each.notes)


def test_the_tree_of_earlier_outputs_holds_whole_outputs_and_no_prompt(target):
    earlier = SuffixTree(most_texts=2)
    outputs = [tokens_of(run(target, prompt, earlier)) for prompt in ((4,), (6, 1), PROMPT)]
    assert [tuple(text) for text in earlier._texts] == [tuple(each) for each in outputs[1:]]


def test_without_a_shared_tree_two_runs_know_nothing_of_each_other(target):
    rounds = [[each.tree for each in rounds_of(run(target, PROMPT))] for _ in range(2)]
    assert rounds[0] == rounds[1]


def test_earlier_outputs_are_refused_above_temperature_0(target):
    """Runs with the same seed use the same draws.

    A draft from an earlier output would therefore depend on the draws that judge it.
    """
    message = "temperature must be 0 for drafts from earlier outputs, got 0.5"
    with pytest.raises(InputError, match=message):
        run(target, PROMPT, SuffixTree(), temperature=0.5)


def test_a_wrong_option_is_refused_in_one_sentence(drafted):
    for name, value, rule in (
        ("tree_depth", 1, "a whole number from 2 to 64"),
        ("match_factor", 801, "a whole number from 0 to 800"),
        ("match_offset", 17, "a whole number from 0 to 16"),
        ("least_share", 101, "a whole number from 0 to 100"),
    ):
        with pytest.raises(InputError, match=f"^{name} must be {rule}, got {value}$"):
            drafted((1,), **{name: value})
