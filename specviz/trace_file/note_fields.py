"""Notes of a round as JSON and back, whatever their type: `notes.NOTE_TYPES` says what there is.

Part of `trace_file`. Knows no note.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from specviz.errors import InputError, short
from specviz.records import MAX_TREE_NODES, NOTE_TYPES, Note
from specviz.trace_file.fields import Fields

MOST_IDS = 4 * MAX_TREE_NODES  # of one note
_NAMES = {note_type: name for name, note_type in NOTE_TYPES.items()}


def encode_note(note: Note) -> dict[str, Any]:
    return {"note": _NAMES[type(note)]} | {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(note).items()
    }


def decode_note(value: object, path: str) -> Note:
    """Refuses, with an InputError that names the field, what no drafter can have said."""
    name = value.get("note") if isinstance(value, dict) else None
    if not isinstance(name, str) or name not in NOTE_TYPES:
        raise InputError(f"{path}.note must be one of {', '.join(NOTE_TYPES)}, got {short(name)}")
    note_type = NOTE_TYPES[name]
    known = {field.name: str(field.type) for field in fields(note_type)}
    source = Fields(value, path, ("note", *known))
    values: dict[str, Any] = {key: _decode(source, key, kind) for key, kind in known.items()}
    return note_type(**values)


def _decode(source: Fields, name: str, kind: str) -> object:
    match kind:
        case "int":
            return source.integer(name)
        case "float":
            return source.number(name)
        case "bool":
            return source.boolean(name)
        case "tuple[int, ...]":
            return source.integers(name, most=MOST_IDS)
    raise AssertionError(f"a note's field may not be {kind}")
