"""Messages are safe to carry."""

import json

from specviz.ui.messages import encode


def test_any_text_survives_and_no_markup_is_on_the_wire() -> None:
    for text in ("<script>", "</script>", "\ud800", "\x00", "${alert(1)}", "🙂", "\u2028"):
        encoded = encode({"kind": "event", "text": text})
        assert "<" not in encoded and encoded.isascii()
        assert json.loads(encoded)["text"] == text
