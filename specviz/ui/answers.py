"""How a question of the page is answered: with a value, or with one sentence of what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from specviz.errors import InputError, short

log = logging.getLogger("specviz")
Question = dict[str, Any]
Handler = TypeVar("Handler")
UNEXPECTED = "Something went wrong on the server; its log says what."


class _Fields(dict[str, Any]):
    """A question's fields; one that is needed and missing is the asker's error."""

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
        except InputError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("the answer to %s failed", method.__name__)
            return {"error": UNEXPECTED}

    return answer


def asked_by(question: Any, request: Any) -> Any:
    """The question with the address that a request of Gradio comes from, whatever it says."""
    address = request.client.host if request.client else ""
    return question | {"address": address} if isinstance(question, dict) else question
