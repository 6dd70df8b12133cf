"""A fork goes on with the size of tree that was measured to pay when its parent ran."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.decoding.drafters.tree_budget import NODES
from specviz.experiments.run.fork_parent import with_measured_nodes
from specviz.records import ForkPoint
from tests.experiments.run.test_forking import decisions, forked, parent_of
from tests.random_traces import changed

MEASURED = [name for name, method in DRAFTERS.items() if NODES in method.options]
SIZES = (3, 9)  # one of them at least is not what this machine would measure


@pytest.mark.parametrize("method", MEASURED)
@pytest.mark.parametrize("nodes", SIZES)
def test_an_unforced_fork_drafts_its_parents_trees_again(method, nodes):
    made = parent_of(method, options=((NODES.name, nodes),))
    parent = changed(made, config=replace(made.config, options=()))  # as if it had been measured
    trace, _ = forked(parent, 1)
    assert trace.config == parent.config
    assert decisions(trace.rounds) == decisions(made.rounds)


@pytest.mark.parametrize("method", MEASURED)
def test_what_was_asked_for_or_is_another_setting_is_left_alone(method):
    asked = parent_of(method, options=((NODES.name, SIZES[0]),))
    assert with_measured_nodes(asked, asked.config) == asked.config
    warmer = replace(asked.config, temperature=1.3, options=())
    assert with_measured_nodes(asked, warmer) == warmer


def test_a_method_that_measures_nothing_gets_no_option():
    parent = parent_of("draft-model")
    assert with_measured_nodes(parent, parent.config) == parent.config


def test_a_fork_of_a_fork_takes_the_size_of_the_rounds_of_its_own_setting():
    wide = parent_of("eagle", options=((NODES.name, 9),))
    small = replace(wide.config, options=(), temperature=0.4)
    fork = changed(wide, config=small, forks=(ForkPoint(2, wide.config),))
    rounds = [each for each in wide.rounds if each.index >= 2]
    nodes = max(len(each.tree.nodes) for each in rounds)
    assert dict(with_measured_nodes(fork, small).options)[NODES.name] == nodes
    elsewhere = replace(small, temperature=1.1)
    assert with_measured_nodes(fork, elsewhere) == elsewhere
