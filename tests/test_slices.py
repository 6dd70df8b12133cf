"""Work in time slices yields to other work, even from deep inside a call, and can be stopped."""

import threading
import time

import pytest

from specviz.slices import InSlices, check_stop, give_way, giving_way, own_time, stoppable
from specviz.slices import until_stopped as until


def deep(places, inside=False):
    """Call `give_way` `places` times, in a function that is not a generator."""
    for _ in range(places):
        give_way(inside)
    return places


def told(seen, rounds=3):
    for number in range(rounds):
        seen.append(number)
        deep(2)
        yield number


def test_outside_a_slice_offers_to_yield_do_nothing():
    check_stop()
    assert deep(5) == 5
    assert list(giving_way("ab")) == ["a", "b"]
    assert time.perf_counter() <= own_time() <= time.perf_counter()


def test_work_yields_deep_inside_and_runs_only_when_it_is_resumed():
    seen = []
    work = InSlices(lambda: told(seen), threading.Event(), seconds=0.0)
    assert seen == []
    assert [next(work) for _ in range(3)] == [None, None, 0]
    assert seen == [0]
    assert list(work) == [None, None, 1, None, None, 2]
    assert next(work, "over") == "over"


def test_work_does_not_yield_while_its_slice_has_time_left():
    assert list(InSlices(lambda: told([]), threading.Event(), seconds=60.0)) == [0, 1, 2]


def test_a_timed_run_is_interrupted_later_than_other_work():
    def measured():
        deep(1, inside=True)
        yield "measured"

    now = iter([0.0, 0.6, 0.6, 3.0, 3.0, 3.0]).__next__
    assert list(InSlices(measured, threading.Event(), 0.5, lambda: 0.0)) == ["measured"]
    assert next(InSlices(measured, threading.Event(), 0.5, now)) == "measured"
    now = iter([0.0, 3.0, 3.0]).__next__
    assert next(InSlices(measured, threading.Event(), 0.5, now)) is None


def test_own_time_does_not_count_time_that_other_work_used():
    def timed():
        began = own_time()
        give_way()
        yield own_time() - began

    work = InSlices(timed, threading.Event(), seconds=0.0)
    spent = 0.0
    for _ in range(2):
        time.sleep(0.1)
        began = time.perf_counter()
        own = next(work)
        spent += time.perf_counter() - began
    assert 0 < own <= spent


def test_closing_ends_the_work_at_its_position_and_frees_its_resources():
    freed = []

    def work():
        try:
            while True:
                yield deep(1000)
        finally:
            freed.append(True)

    moved = InSlices(work, threading.Event(), seconds=0.0)
    assert next(moved) is None and not freed
    moved.close()
    assert freed and next(moved, "over") == "over"


def test_work_that_notices_the_stop_keeps_its_results():
    stop, kept = threading.Event(), []

    def steps():
        yield 1
        stop.set()
        deep(1)
        yield 2

    def work():
        kept.extend(until(steps(), stop))
        yield "kept"

    assert list(InSlices(work, stop, seconds=60.0)) == ["kept"]
    assert kept == [1]


def test_an_error_of_the_work_is_raised_in_the_code_that_waits_for_it():
    def failing():
        yield 1
        raise ValueError("broken")

    work = InSlices(failing, threading.Event())
    assert next(work) == 1
    with pytest.raises(ValueError, match="broken"):
        next(work)
    assert list(work) == []


def test_a_run_reacts_to_its_own_stop_only():
    mine, other = threading.Event(), threading.Event()

    def steps():
        while True:
            check_stop()
            yield "moved"

    one, two = stoppable(steps(), mine), stoppable(steps(), other)
    other.set()
    assert next(one) == "moved"
    assert list(until(two, threading.Event())) == []
    check_stop()  # `check_stop` would raise an error if the stop of a run also stopped this thread
