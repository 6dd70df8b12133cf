"""Write assets/player/records.d.ts, the types of the data that the page receives: `make types`.

The types follow from the fields of the records in Python. They describe the same JSON as a trace
file: the same short names of fields, and one array per field for `Columns`. If a value can have one
of several record types, its object has an extra field with the name of the type.
"""

from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin, get_type_hints

from specviz.figures.outcomes import Look
from specviz.lessons import Lesson, WidgetKind
from specviz.metrics import RunSummary
from specviz.records import NOTE_TYPES, Trace
from specviz.records.field_types import Columns
from specviz.trace_file.codec import SHORT_KEYS

DECLARATIONS = Path(__file__).parent.parent / "assets" / "player" / "records.d.ts"
ROOTS = (Trace, RunSummary, Look, Lesson, WidgetKind)
HEAD = """\
// The records that the server sends, for the type checker; no browser loads this file.
// Written by `make types` from the fields of the Python records: change those.

type Columns<T> = { [K in keyof T]: T[K][] }; // records as one array per field
"""
PLAIN = {int: "number", float: "number", bool: "boolean", str: "string"}


def declarations() -> str:
    """Return an interface for each record and a type for each enum, in alphabetical order."""
    named: dict[str, str] = {}
    for root in ROOTS:
        _type(root, named)
    return "\n".join([HEAD, *(named[name] for name in sorted(named))])


def _type(hint: object, named: dict[str, str]) -> str:
    """Return a type hint in TypeScript. Types that it refers to are added to `named`."""
    marker = None
    if get_origin(hint) is Annotated:
        hint, marker = get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if get_origin(hint) in (Union, UnionType):
        return _union(get_args(hint), named)
    if get_origin(hint) is tuple:
        first, second = get_args(hint)
        if second is not Ellipsis:
            return f"[{_type(first, named)}, {_type(second, named)}]"
        item = _type(first, named)
        if isinstance(marker, Columns):
            return f"Columns<{item}>"
        return f"({item})[]" if " | " in item else f"{item}[]"
    return _named(hint, named)


def _union(kinds: tuple[object, ...], named: dict[str, str]) -> str:
    records = [kind for kind in kinds if kind is not NoneType]
    if len(records) == 1:
        return f"{_type(records[0], named)} | null"
    assert {*records} == {*NOTE_TYPES.values()}
    lines = [
        f'  | ({{ note: "{tag}" }} & {_type(kind, named)})' for tag, kind in NOTE_TYPES.items()
    ]
    named["NoteRecord"] = "\n".join(["type NoteRecord =", *lines]) + ";\n"
    return "NoteRecord"


def _named(kind: type, named: dict[str, str]) -> str:
    name = f"{kind.__name__}{'Record' if is_dataclass(kind) else 'Name'}"
    if name in named:
        return name
    # The name is set before the fields are converted, because a field may have this same type.
    named[name] = ""
    if issubclass(kind, Enum):
        values = " | ".join(f'"{each.value}"' for each in kind)
        named[name] = f"type {name} = {values};\n"
        return name
    hints = get_type_hints(kind, include_extras=True)
    keys = SHORT_KEYS.get(kind.__name__, {})
    lines = [f"  {keys.get(f.name, f.name)}: {_type(hints[f.name], named)};" for f in fields(kind)]
    named[name] = "\n".join([f"interface {name} {{", *lines, "}", ""])
    return name


if __name__ == "__main__":
    DECLARATIONS.write_text(declarations(), encoding="utf-8")
