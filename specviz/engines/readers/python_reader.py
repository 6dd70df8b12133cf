"""Read the calls of engines in Python code. The code is a syntax tree and never runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from specviz.engines.engine_registry import adapters, engines
from specviz.engines.other_programs import other_module
from specviz.engines.readers.found_flags import MAX_TEXT, FoundFlags, SourceText
from specviz.errors import InputError

# The largest number of names and calls that are followed from a name back to its value.
LONGEST_CHAIN = 8


def read_python(text: str, found: FoundFlags) -> bool:
    """Read Python code. Return False if the text is none, or has no calls and no imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    nodes = list(ast.walk(tree))
    kinds = (ast.Call, ast.Import, ast.ImportFrom)
    if not any(isinstance(node, kinds) for node in nodes):
        return False
    code = PythonCode()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _assign(target, node.value, code, found)
    imported = {name for node in nodes for name in _imports(node)}
    found.engine = found.engine or _imported_engine(imported)
    if found.engine is None and (other := other_module(imported))[0]:
        found.other = other
        return True
    for node in nodes:
        if isinstance(node, ast.Call):
            _call(node, code, found)
    removed = {name for facts in engines().values() for name in facts.older if name[0].isupper()}
    named = imported | {node.id for node in nodes if isinstance(node, ast.Name)}
    for name in sorted(removed & named):
        found.add(name, True)
    return True


class PythonCode:
    """The values that code assigns to names."""

    def __init__(self) -> None:
        self.assigned: dict[str, ast.expr] = {}
        self._put_in = 0  # total number of characters of the values that have replaced names so far

    def stands_for(self, node: ast.expr) -> ast.expr:
        """Return the expression that the code assigned to the name `node`.

        Return any other expression unchanged.
        """
        if not isinstance(node, ast.Name) or node.id not in self.assigned:
            return node
        value = self.assigned[node.id]
        self._put_in += len(ast.unparse(value))
        if self._put_in > MAX_TEXT:
            raise InputError(
                f"the values that the text assigns to names must have at most {MAX_TEXT} characters"
            )
        return value

    def keywords(self, node: ast.Call) -> Iterable[tuple[str, Any]]:
        for each in node.keywords:
            value = self.value(each.value)
            if each.arg is not None:
                yield each.arg, value
            elif isinstance(value, dict):  # the argument is a whole dictionary, such as **settings
                yield from ((str(key), inner) for key, inner in value.items())

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression: a literal, an assigned value, or a model's name.

        If the value cannot be found, return the source text of the expression.
        """
        if isinstance(node, ast.Name) and node.id in self.assigned and depth < LONGEST_CHAIN:
            return self.value(self.stands_for(node), depth + 1)
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {
                str(self.value(key, depth)): self.value(value, depth)
                for key, value in pairs
                if key is not None
            }
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(each, depth) for each in node.elts]
        if isinstance(node, ast.Call):
            return self._of_call(node, depth)
        if isinstance(node, ast.Attribute):
            constants = (each.constant(node.attr) for each in adapters().values())
            if (constant := next(filter(None, constants), None)) is not None:
                return constant
            if ast.unparse(node.value) == "torch":
                return node.attr  # the attribute is a dtype, such as torch.float16
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return SourceText(ast.unparse(node))

    def _of_call(self, node: ast.Call, depth: int) -> Any:
        name = last_name(node.func)
        if name == "dict":
            return dict(self.keywords(node))
        if name in {"dumps", "from_pretrained", "to", "cuda", "eval", "half", "str", "Path"}:
            if name in {"to", "cuda", "eval", "half"} and isinstance(node.func, ast.Attribute):
                return self.value(node.func.value, depth)
            if node.args:
                return self.value(node.args[0], depth)
        made = (each.made_object(name) for each in adapters().values())
        if (settings := next((each for each in made if each is not None), None)) is not None:
            return {**settings, **dict(self.keywords(node))}
        return SourceText(ast.unparse(node))


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A call in the code. `name` is the last part of the function's name."""

    name: str
    node: ast.Call
    code: PythonCode

    @property
    def owner(self) -> ast.expr | None:
        """Return the expression before the dot of a method's name, or None for a function."""
        return self.node.func.value if isinstance(self.node.func, ast.Attribute) else None

    @property
    def keywords(self) -> Iterable[tuple[str, Any]]:
        return self.code.keywords(self.node)


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _assign(target: ast.expr, value: ast.expr, code: PythonCode, found: FoundFlags) -> None:
    """Store the value that the code assigns to a name.

    If the code assigns it to a setting of an engine, such as `params.n_ctx`, add a flag.
    """
    if isinstance(target, ast.Name):
        code.assigned[target.id] = value
    elif isinstance(target, ast.Attribute):
        whole = ast.unparse(target)
        path = whole.split(".", 1)[1]
        settings = (each.setting_at(path, whole) for each in adapters().values())
        if setting := next(filter(None, settings), None):
            name, typed = setting
            found.add(name, code.value(value), typed)


def _call(node: ast.Call, code: PythonCode, found: FoundFlags) -> None:
    """Let the engine that has this call read it. The engine of the text comes first."""
    name = last_name(node.func)
    able = [each for each in adapters().values() if name in each.facts.calls]
    able.sort(key=lambda each: each.name != found.engine)
    if able:
        able[0].read_call(PythonCall(name, node, code), found)


def _imported_engine(imported: set[str]) -> str | None:
    for facts in engines().values():
        if any(name.split(".")[0] in facts.words for name in imported):
            return facts.name
    return None


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (alias.name for alias in node.names)
