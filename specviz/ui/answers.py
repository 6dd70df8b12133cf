"""The answers to the page's questions: a value, or one sentence that says what is wrong.

A question is a request of a page to one handler: a JSON object that maps names of fields to values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from specviz.errors import InputError, is_fault, short
from specviz.models.memory import is_shortage

log = logging.getLogger("specviz")
Question = dict[str, Any]
Handler = TypeVar("Handler")
UNEXPECTED = "Something went wrong on the server; its log says what."


# The largest number of tracebacks in the log per minute, so that requests cannot fill the disk.
LOGGED_A_MINUTE = 30
MAX_SENTENCE = 400  # largest number of characters in an error sentence
NO_MEMORY = (
    "This machine has no memory left for that: choose a smaller model, a shorter prompt, or fewer "
    "tokens, or try again in a minute."
)


_limiter = FixedWindowRateLimiter(MemoryStorage())


def error_sentence(error: BaseException, what: str) -> str:
    """Return the sentence that the user reads about an error.

    If the error is not meant for users, the function logs it and returns a general sentence.
    `what` names the failed work in the log.
    """
    if isinstance(error, InputError):
        text = str(error)  # the error may quote a long request, so the sentence is cut
        return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 60]} … {text[-50:]}"
    if is_shortage(error):
        log.error("%s found no memory", what)
        return NO_MEMORY
    log_fault(error, what)
    return UNEXPECTED


def log_fault(error: BaseException, what: str) -> None:
    """Log an error with its traceback, at most LOGGED_A_MINUTE times per minute.

    `what` names the failed work in the log.
    """
    if _limiter.hit(RateLimitItemPerMinute(LOGGED_A_MINUTE)):
        log.error("%s failed", what, exc_info=error)


class _Fields(dict[str, Any]):
    """The fields of a question: name -> value.

    Reading a missing field raises InputError. Reading the field "form" also raises it if the value
    is not an object.
    """

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if name != "form":
            return value
        if not isinstance(value, dict):
            raise InputError(f"form must be an object, got {short(value)}")
        return _Fields(value)

    def __missing__(self, name: str) -> Any:
        raise InputError(f"{name!r} must be given in the request, got nothing")


def answers(method: Callable[[Handler, Question], Question]) -> Callable[..., Question]:
    """Decorate a handler so that errors meant for users become its answer.

    The handler returns {"error": None} with its answer, or {"error": one sentence}.
    """

    @wraps(method)
    def answer(handler: Handler, question: object) -> Question:
        try:
            if not isinstance(question, dict):
                raise InputError(f"question must be an object, got {short(question)}")
            return {"error": None} | method(handler, _Fields(question))
        except BaseException as error:
            if not is_fault(error):
                raise
            return {"error": error_sentence(error, f"the answer to {method.__name__}")}

    return answer


def asked_by(question: Any, request: Any) -> Any:
    """Return the question with the visitor's network address as its field "address".

    The address comes from Gradio's request. It replaces an address that the question may contain.
    """
    address = request.client.host if request.client else ""
    return question | {"address": address} if isinstance(question, dict) else question


def asker(question: Mapping[str, Any]) -> str:
    """Return the visitor's network address, which `asked_by` stored in the question, or ""."""
    return str(question.get("address", ""))
