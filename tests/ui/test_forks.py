"""A fork keeps the settings of its round, except those that the page's request changes."""

from __future__ import annotations

from specviz.decoding.drafters.registry import method_named
from specviz.models.pair_catalog import BUNDLED
from specviz.records import ForkPoint, Trace
from specviz.ui.forks import fork_request
from tests.random_traces import changed, random_trace

RUN = random_trace(1, rounds=8)


def asked(parent: Trace, index: int, **changes: str) -> Trace:
    """Request a fork at the round `index`; return the parent's trace with the fork's settings."""
    form = {"pair": BUNDLED, "device": "cpu", "dtype": "float32"}
    request = fork_request({"round": index, "changes": changes, "form": form}, parent)
    return changed(parent, config=request.config, forks=request.forks)


def lengths(trace: Trace) -> list[int]:
    return [trace.config_of(index).draft_length for index in range(len(trace.rounds))]


def test_unchanged_settings_are_those_of_the_forked_round() -> None:
    later = asked(RUN, 5, draft_length="2")
    assert lengths(later) == [5] * 5 + [2] * 3
    assert lengths(asked(later, 3)) == [5] * 8
    assert lengths(asked(later, 6)) == [5] * 5 + [2] * 3


def test_a_fork_at_the_end_continues_with_the_last_settings() -> None:
    later = asked(RUN, 5, draft_length="2")
    assert asked(later, len(RUN.rounds)).config == later.config
    assert asked(later, 8).main.forks[-1] == ForkPoint(8, later.config)


def test_another_method_uses_its_own_tree_shape() -> None:
    tree = asked(RUN, 2, method="draft-tree").config
    assert tree == method_named("draft-tree").usual(RUN.config.draft_length, **tree.beside_method)
    assert tree.branching == (3, 2) and tree.beside_method == RUN.config.beside_method
    assert asked(RUN, 2, method="draft-tree", draft_length="1").config.branching == (3,)


def test_the_same_method_keeps_its_tree_shape() -> None:
    tree = asked(RUN, 2, method="draft-tree")
    assert asked(tree, 2, method="draft-tree", draft_length="4").config.branching == (3, 2)
