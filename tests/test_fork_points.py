"""A fork's record says at which round it left its parent run; a trace file preserves this."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.errors import InputError
from specviz.experiments.run.forking import ForkRequest
from specviz.models.pair_catalog import pair_named
from specviz.records import ForkPoint, Trace
from specviz.trace_file import decode_trace, dumps, encode_trace, loads
from tests.random_traces import changed, random_trace

RUN = random_trace(1, rounds=8)


def fork_of(parent: Trace, index: int, forced: dict[int, float] | None = None) -> Trace:
    """Return the record of a fork of `parent` before round `index`, without any new round yet.

    The fork's seed is the parent's plus one.
    """
    config = replace(parent.config, seed=parent.config.seed + 1)
    draws = tuple((forced or {}).items())
    request = ForkRequest(parent, index, pair_named("bundled"), config, draws)
    return changed(parent, config=config, forks=request.forks)


def seeds(trace: Trace) -> list[int]:
    return [trace.config_of(index).seed for index in range(len(trace.rounds))]


def test_rounds_before_a_fork_keep_the_settings_that_made_them() -> None:
    fork = fork_of(RUN, 3)
    assert seeds(RUN) == [1] * 8
    assert seeds(fork) == [1] * 3 + [2] * 5
    # The parent run wrote the first token in its prefill (index -1), so the parent's settings apply
    # to it.
    assert fork.config_of(-1) == RUN.config


def test_a_fork_of_a_fork_keeps_earlier_fork_points_and_drops_later_ones() -> None:
    later = fork_of(fork_of(RUN, 3), 5)
    assert [each.round_index for each in later.main.forks] == [3, 5]
    assert seeds(later) == [1] * 3 + [2] * 2 + [3] * 3
    same = fork_of(fork_of(RUN, 3), 3)
    assert [each.round_index for each in same.main.forks] == [3]
    assert seeds(same) == [1] * 3 + [3] * 5
    earlier = fork_of(fork_of(RUN, 5), 3)
    assert [each.round_index for each in earlier.main.forks] == [3]
    assert seeds(earlier) == [1] * 3 + [3] * 5


def test_a_forced_draw_is_stored_with_the_token_that_it_verifies() -> None:
    node = next(i for i, each in enumerate(RUN.rounds[4].verdicts) if each.uniform_draw is not None)
    fork = fork_of(RUN, 4, {node: 0.25})
    assert fork.main.forks[0].forced == ((RUN.rounds[4].tree.nodes[node].token_id, 0.25),)


def test_a_file_keeps_the_fork_points() -> None:
    fork = fork_of(fork_of(RUN, 3, {0: 0.125}), 5)
    assert loads(dumps(fork)).main.forks == fork.main.forks


@pytest.mark.parametrize("rounds", [(5, 3), (3, 3)])
def test_fork_points_out_of_order_are_refused(rounds: tuple[int, int]) -> None:
    forks = tuple(ForkPoint(each, RUN.config) for each in rounds)
    with pytest.raises(InputError, match="forks must be in the order of their rounds"):
        decode_trace(encode_trace(changed(RUN, forks=forks)))
