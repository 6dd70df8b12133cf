"""How a question of the page is answered: with a value, or with one sentence of what is wrong.

Knows no question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from specviz.errors import InputError

log = logging.getLogger("specviz")
Question = dict[str, Any]
Asked = TypeVar("Asked")
UNEXPECTED = "Something went wrong on the server; its log says what."


def answers(method: Callable[[Asked, Question], Question]) -> Callable[..., Question]:
    """An error becomes {"error": one sentence}; an answer without one gets "error": None."""

    @wraps(method)
    def answer(asked: Asked, question: Question) -> Question:
        try:
            return {"error": None} | method(asked, question)
        except InputError as error:
            return {"error": str(error)}
        except Exception:
            log.exception("the answer to %s failed", method.__name__)
            return {"error": UNEXPECTED}

    return answer
