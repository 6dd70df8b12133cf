"""Natural beginnings of held-out documents: the prompts that a person picks from.

No prompt ends with a newline or a space: each ends at the end of a line or sentence, where the
training text goes on with a newline or a space that belongs to the next token. So prompt +
continuation splits into tokens exactly as in training. Prompts come without the task's tag. Knows
nothing of tokens; lengths are in characters.
"""

import ast
import re
from collections.abc import Iterable

PROMPTS_PER_TASK = 40
REST_CHARS = 700  # about 200 tokens: room for the continuation before the document would end
PROMPT_CHARS = range(90, 400)
DENSE_PROMPT_CHARS = range(90, 330)  # code has more tokens per character


def beginning(task: str, text: str) -> str:
    """A tidy beginning of the document, or "" if it has none that leaves room for a continuation.

    maths: "Q?\\nA..." -> "Q?"
    """
    prompt = _BEGINNINGS[task](text)
    roomy = task == "maths" or len(text) - len(prompt) >= REST_CHARS
    tidy = prompt.isascii() or task == "translate"
    fitting = DENSE_PROMPT_CHARS if task in ("code", "summarise") else PROMPT_CHARS
    return prompt if roomy and tidy and len(prompt) in fitting else ""


def prompts(task: str, documents: Iterable[str]) -> list[str]:
    """The first PROMPTS_PER_TASK beginnings of the documents; private functions come last."""
    found = [prompt for text in documents if (prompt := beginning(task, text))]
    return sorted(found[:PROMPTS_PER_TASK], key=_is_private)


def _is_private(prompt: str) -> bool:
    return prompt.startswith("def _") or "DEPRECATED" in prompt


def _code(text: str) -> str:
    """A function's signature, its docstring and the first line after it."""
    if not text.startswith("def "):
        return ""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    if ast.get_docstring(function) is None or len(function.body) < 3:
        return ""
    first = function.body[1]
    if not isinstance(first, ast.Assign | ast.Expr) or first.end_lineno != first.lineno:
        return ""
    return "\n".join(text.split("\n")[: first.end_lineno])


def _story(text: str) -> str:
    """The first sentences of the first paragraph, up to about 220 characters."""
    paragraph = text.split("\n\n")[0]
    ends = [match.end() for match in re.finditer(r"[a-z][.!?]\"?(?= [\"A-Z])", paragraph)]
    fitting = [end for end in ends if end <= 220]
    return paragraph[: fitting[-1]] if fitting and text[0].isupper() else ""


def _maths(text: str) -> str:
    return text.split("\n")[0]


def _translate(text: str) -> str:
    """Three pairs and an English line; two pairs if the sentences are long."""
    lines = text.split("\n")
    long = sum(map(len, lines[:7])) > 300
    return "\n".join(lines[: 5 if long else 7])


def _summarise(text: str) -> str:
    """One item and the next function, without its summary."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(paragraphs[:3])


_BEGINNINGS = {
    "code": _code,
    "story": _story,
    "maths": _maths,
    "translate": _translate,
    "summarise": _summarise,
}
