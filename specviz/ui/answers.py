"""How a question of the page is answered: with a value, or with one sentence of what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from specviz.errors import InputError, short
from specviz.models.memory import is_shortage

log = logging.getLogger("specviz")
Question = dict[str, Any]
Handler = TypeVar("Handler")
UNEXPECTED = "Something went wrong on the server; its log says what."


MAX_SENTENCE = 400  # characters
NO_MEMORY = (
    "This machine has no memory left for that: choose a smaller model, a shorter prompt, or fewer "
    "tokens, or try again in a minute."
)


def told(error: Exception, what: str) -> str:
    """The sentence of an error; what is not meant for people goes to the log."""
    if isinstance(error, InputError):
        text = str(error)  # which may quote what was sent
        return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 60]} … {text[-50:]}"
    if is_shortage(error):
        log.error("%s found no memory", what)
        return NO_MEMORY
    log.error("%s failed", what, exc_info=error)
    return UNEXPECTED


class _Fields(dict[str, Any]):
    """A question's fields; one that is needed and missing is the asker's error.

    So is a form that is no object.
    """

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if name != "form":
            return value
        if not isinstance(value, dict):
            raise InputError(f"form must be an object, got {short(value)}")
        return _Fields(value)

    def __missing__(self, name: str) -> Any:
        raise InputError(f"{name} is missing from the question")


def answers(method: Callable[[Handler, Question], Question]) -> Callable[..., Question]:
    """An error becomes {"error": one sentence}; an answer without one gets "error": None."""

    @wraps(method)
    def answer(handler: Handler, question: object) -> Question:
        try:
            if not isinstance(question, dict):
                raise InputError(f"question must be an object, got {short(question)}")
            return {"error": None} | method(handler, _Fields(question))
        except Exception as error:
            return {"error": told(error, f"the answer to {method.__name__}")}

    return answer


def asked_by(question: Any, request: Any) -> Any:
    """The question with the address that a request of Gradio comes from, whatever it says."""
    address = request.client.host if request.client else ""
    return question | {"address": address} if isinstance(question, dict) else question


def asker(question: Mapping[str, Any]) -> str:
    """The address that `asked_by` has told, or ""."""
    return str(question.get("address", ""))
