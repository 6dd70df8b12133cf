"""If too many results wait to be fetched, the address with most of them loses one result."""

from collections.abc import Sequence

import pytest

from specviz.ui import gradio_sessions
from specviz.ui.gradio_sessions import next_to_go


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradio_sessions, "MAX_CALLS", 8)
    monkeypatch.setattr(gradio_sessions, "CALLS_OF_ADDRESS", 3)


@pytest.mark.parametrize(
    ("owners", "address", "gone"),
    [
        ("", "a", None),
        ("xaaa", "a", 1),
        ("xaabbcc", "a", None),
        ("xaaabbbc", "c", 1),
        ("xaaabbbc", "x", 1),
        ("xaaabbbc", "new", 1),
        ("aabbccdd", "a", None),
        ("abcdefgh", "new", None),
    ],
)
def test_the_address_with_most_calls_loses_one_and_a_full_one_loses_its_own(
    owners: Sequence[str], address: str, gone: int | None
) -> None:
    assert next_to_go(list(owners), address) == gone


def test_an_address_with_a_single_call_keeps_it_however_many_others_call() -> None:
    waiting = ["somebody"]
    for number in range(60):
        address = f"greedy {number % 6}"
        gone = next_to_go(waiting, address)
        if gone is not None:
            del waiting[gone]
        elif len(waiting) >= gradio_sessions.MAX_CALLS:
            continue
        waiting.append(address)
    assert "somebody" in waiting and len(waiting) == gradio_sessions.MAX_CALLS
