"""Messages in batches: numbered without gaps, logged, safe to carry."""

import json
from itertools import count

from specviz.ui.batches import BATCH_SECONDS, Message, batches, encode


def events(number: int) -> list[Message]:
    return [{"kind": "event", "n": n} for n in range(number)]


def unpacked(texts: list[str]) -> list[list[int]]:
    return [[message["seq"] for message in json.loads(text)["messages"]] for text in texts]


def test_events_wait_for_company_and_none_is_lost() -> None:
    ticks = count(step=BATCH_SECONDS / 4)
    log: list[str] = []
    sent = unpacked(list(batches(events(10), "t", log, lambda: next(ticks))))
    assert [seq for batch in sent for seq in batch] == list(range(10))
    assert max(map(len, sent)) > 1
    assert [json.loads(text)["seq"] for text in log] == list(range(10))


def test_anything_but_an_event_goes_at_once_and_takes_the_waiting_along() -> None:
    messages = [{"kind": "header"}, *events(2), {"kind": "end"}]
    sent = unpacked(list(batches(messages, "t", [], lambda: 0.0)))
    assert sent == [[0], [1, 2, 3]]


def test_the_last_events_are_sent_even_without_an_end() -> None:
    assert unpacked(list(batches(events(3), "t", [], lambda: 0.0))) == [[0, 1, 2]]


def test_each_batch_carries_its_ticket() -> None:
    (text,) = batches([{"kind": "end"}], 'odd "ticket"', [])
    assert json.loads(text)["ticket"] == 'odd "ticket"'


def test_any_text_survives_and_no_markup_is_on_the_wire() -> None:
    for text in ("<script>", "</script>", "\ud800", "\x00", "${alert(1)}", "🙂", "\u2028"):
        encoded = encode({"kind": "event", "text": text})
        assert "<" not in encoded and encoded.isascii()
        assert json.loads(encoded)["text"] == text
