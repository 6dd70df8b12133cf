"""The browser's type declarations match the records and name every field of a message."""

import importlib.util
import re
import threading
from pathlib import Path

from specviz.ui.race_messages import RaceMessages
from specviz.ui.settings_form import race_request
from tests.ui.random_race import RandomRace

ROOT = Path(__file__).parent.parent.parent
_spec = importlib.util.spec_from_file_location("declare", ROOT / "docs" / "declare_records.py")
declare = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(declare)


def test_the_declarations_are_up_to_date():
    committed = declare.DECLARATIONS.read_text(encoding="utf-8")
    assert committed == declare.declarations(), "run `make types`"


def test_every_field_of_a_message_is_declared():
    types = (ROOT / "assets" / "player" / "types.d.ts").read_text(encoding="utf-8")
    declared = set(re.findall(r"\b(\w+)\??:", types))
    form = {"prompt": "hello", "temperature": "0.7", "max_new_tokens": "12", "seed": "3"}
    messages = [*RaceMessages(RandomRace(race_request(form))).messages(threading.Event())]
    assert {each["kind"] for each in messages} >= {"header", "event", "end"}
    assert {name for each in messages for name in each} <= declared
