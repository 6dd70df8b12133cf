"""A fork keeps the tree size that was measured when its parent ran."""

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
# Two tree sizes in nodes. A new measurement gives one size, so it cannot give both by chance.
SIZES = (3, 9)


# Token recycling drafts from a table that depends on earlier rounds, so a fork drafts other trees.
@pytest.mark.parametrize("method", sorted({*MEASURED} - {"token-recycling"}))
@pytest.mark.parametrize("nodes", SIZES)
def test_a_fork_without_forced_draws_drafts_its_parent_s_trees(method, nodes):
    made = parent_of(method, options=((NODES.name, nodes),))
    # If a record lacks the option `nodes`, the run measured its tree size.
    parent = changed(made, config=replace(made.config, options=()))
    trace, _ = forked(parent, 1)
    assert trace.config == parent.config
    assert decisions(trace.rounds) == decisions(made.rounds)


@pytest.mark.parametrize("method", MEASURED)
def test_a_requested_size_or_another_setting_is_left_unchanged(method):
    asked = parent_of(method, options=((NODES.name, SIZES[0]),))
    assert with_measured_nodes(asked, asked.config) == asked.config
    warmer = replace(asked.config, temperature=1.3, options=())
    assert with_measured_nodes(asked, warmer) == warmer


def test_a_method_without_a_measured_size_gets_no_option():
    parent = parent_of("draft-model")
    assert with_measured_nodes(parent, parent.config) == parent.config


def test_a_fork_of_a_fork_keeps_the_size_of_the_rounds_with_its_own_settings():
    wide = parent_of("eagle", options=((NODES.name, 9),))
    small = replace(wide.config, options=(), temperature=0.4)
    fork = changed(wide, config=small, forks=(ForkPoint(2, wide.config),))
    rounds = [each for each in wide.rounds if each.index >= 2]
    nodes = max(len(each.tree.nodes) for each in rounds)
    assert dict(with_measured_nodes(fork, small).options)[NODES.name] == nodes
    elsewhere = replace(small, temperature=1.1)
    assert with_measured_nodes(fork, elsewhere) == elsewhere
