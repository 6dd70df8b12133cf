"""Messages to the browser are JSON without characters that could act as markup."""

import json

from specviz.ui.messages import encode


def test_any_text_can_be_sent_and_no_message_contains_markup() -> None:
    for text in ("<script>", "</script>", "\ud800", "\x00", "${alert(1)}", "🙂", "\u2028"):
        encoded = encode({"kind": "event", "text": text})
        assert "<" not in encoded and encoded.isascii()
        assert json.loads(encoded)["text"] == text
