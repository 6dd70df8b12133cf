"""Find the models of transformers in Python code, and how the code loads them."""

from __future__ import annotations

import ast

from specviz.engines.engine_facts import EngineFacts
from specviz.engines.readers.found_flags import FoundFlags
from specviz.engines.readers.python_reader import LONGEST_CHAIN, PythonCall, last_name

_DRAFT = "assistant_model"
_LOADED = "from_pretrained"


def speculates(call: PythonCall, facts: EngineFacts) -> bool:
    """Return whether a call of generate() has an argument for speculation."""
    older = (facts.older.get(f"generate.{each.arg}") for each in call.node.keywords)
    return any(old is not None and old.field not in {"", "assistant_tokenizer"} for old in older)


def read_loading(call: PythonCall, facts: EngineFacts, found: FoundFlags) -> None:
    """Find how the models of a call were loaded."""
    if call.owner is not None:
        _loading(call, call.owner, "target", facts, found)
    for each in call.node.keywords:
        if each.arg in {"model", _DRAFT}:
            role = "draft" if each.arg == _DRAFT else "target"
            _loading(call, each.value, role, facts, found)


def _loading(
    call: PythonCall, node: ast.expr, role: str, facts: EngineFacts, found: FoundFlags
) -> None:
    """Store how a model was loaded: the dtype and the format of its weights.

    `node` is an expression for the model. Names and calls are followed back to `from_pretrained`.
    """
    assigned = call.code.assigned
    for _ in range(LONGEST_CHAIN):
        if isinstance(node, ast.Name) and node.id in assigned:
            node = assigned[node.id]
        elif isinstance(node, ast.Call) and last_name(node.func) == _LOADED:
            _loaded(call, node, role, facts, found)
            return
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # A method such as .to("cuda") returns the same model, so look for the call that
            # loaded the object of the method.
            node = node.func.value
        else:
            return


def _loaded(
    call: PythonCall, node: ast.Call, role: str, facts: EngineFacts, found: FoundFlags
) -> None:
    for each in node.keywords:
        if each.arg == "quantization_config":
            inner = call.code.stands_for(each.value)
            if isinstance(inner, ast.Call) and last_name(inner.func) == "BitsAndBytesConfig":
                _loaded(call, inner, role, facts, found)
            else:
                found.add(f"{role}.{each.arg}", ast.unparse(inner), each.arg)
        elif f"{role}.{each.arg}" in facts.older:
            found.add(f"{role}.{each.arg}", call.code.value(each.value), each.arg)
