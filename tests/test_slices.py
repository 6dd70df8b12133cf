"""Work in slices: it moves only while somebody waits, gives way deep inside, hears a stop there."""

import threading
import time

import pytest

from specviz.slices import InSlices, check_stop, give_way, heeding, letting_by, own_time
from specviz.slices import until_stopped as until


def deep(places, inside=False):
    """Work far below whoever yields."""
    for _ in range(places):
        give_way(inside)
    return places


def told(seen, rounds=3):
    for number in range(rounds):
        seen.append(number)
        deep(2)
        yield number


def test_outside_of_any_slice_nobody_is_let_by():
    check_stop()
    assert deep(5) == 5
    assert list(letting_by("ab")) == ["a", "b"]
    assert time.perf_counter() <= own_time() <= time.perf_counter()


def test_work_gives_way_deep_inside_and_moves_only_while_somebody_waits():
    seen = []
    work = InSlices(lambda: told(seen), threading.Event(), seconds=0.0)
    assert seen == []
    assert [next(work) for _ in range(3)] == [None, None, 0]
    assert seen == [0]
    assert list(work) == [None, None, 1, None, None, 2]
    assert next(work, "over") == "over"


def test_a_slice_that_has_time_left_is_not_given_away():
    assert list(InSlices(lambda: told([]), threading.Event(), seconds=60.0)) == [0, 1, 2]


def test_a_measured_run_is_left_alone_for_longer_than_a_slice():
    def measured():
        deep(1, inside=True)
        yield "measured"

    now = iter([0.0, 0.6, 0.6, 3.0, 3.0, 3.0]).__next__
    assert list(InSlices(measured, threading.Event(), 0.5, lambda: 0.0)) == ["measured"]
    assert next(InSlices(measured, threading.Event(), 0.5, now)) == "measured"
    now = iter([0.0, 3.0, 3.0]).__next__
    assert next(InSlices(measured, threading.Event(), 0.5, now)) is None


def test_own_time_does_not_count_what_others_had():
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


def test_closing_ends_the_work_where_it_stands_and_frees_what_it_holds():
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


def test_work_that_hears_the_stop_keeps_what_it_has():
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


def test_what_work_raises_is_raised_to_whoever_waits():
    def failing():
        yield 1
        raise ValueError("broken")

    work = InSlices(failing, threading.Event())
    assert next(work) == 1
    with pytest.raises(ValueError, match="broken"):
        next(work)
    assert list(work) == []


def test_steps_of_a_run_hear_its_stop_and_no_other():
    mine, other = threading.Event(), threading.Event()

    def steps():
        while True:
            check_stop()
            yield "moved"

    one, two = heeding(steps(), mine), heeding(steps(), other)
    other.set()
    assert next(one) == "moved"
    assert list(until(two, threading.Event())) == []
    check_stop()  # nothing is left behind in the thread
