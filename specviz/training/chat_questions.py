"""Beginnings of questions that a chat model writes itself, and a filter for such questions.

The model writes the user's turn after the opening of the chat template. Half of the questions start
with a given beginning, so that there are requests for code, lists, translations, summaries and so
on. The filter refuses questions that resemble a held-out message.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

FREE_SHARE = 0.5  # share of the questions that have no given beginning
BEGINNINGS = tuple(
    line.strip()
    for line in """
    Write a Python function that
    Write a Python program to
    Write a SQL query
    Write an HTML page
    Explain this code:
    Fix the bug in this code:
    Write a list of
    Give me a list of
    Name five
    List the steps to
    What are the advantages and disadvantages of
    Compare
    What is the difference between
    Translate this sentence into French:
    Translate this into English:
    How do you say
    Summarize the following text:
    Summarise the following passage in two sentences:
    Rewrite this sentence
    Correct the grammar:
    Here is a passage:
    Write a short story about
    Write a poem about
    Write a letter to
    Write an email
    Write a dialogue between
    Continue this story:
    Explain
    What is
    What are
    Why do
    How can I
    How does
    Can you help me
    I have
    I am
    I need
    Tell me about
    Describe
    Give an example of
    Solve this problem:
    If
    A farmer has
    Sarah has
    How many
    Calculate
    Create a plan
    Suggest a
    Classify the following
    Answer the question:
    """.splitlines()
    if line.strip()
)
# A question resembles a held-out message in two cases. Either both texts contain the same sequence
# of RUN words. Or both texts are short and share many of their words: more than the share
# MOST_SHARED of the different words of the longer text.
RUN = 6
MOST_SHARED = 0.7
FEWEST_WORDS = 3


def beginning(chance: random.Random) -> str:
    """Return a random beginning of a question; it is empty with probability FREE_SHARE."""
    return "" if chance.random() < FREE_SHARE else chance.choice(BEGINNINGS)


class NewQuestions:
    """A filter of questions.

    It refuses repeated questions, and questions like a held-out message.
    """

    def __init__(self, held_out: Iterable[str]) -> None:
        self._runs: set[tuple[str, ...]] = set()
        self._short: list[frozenset[str]] = []
        self._asked: set[str] = set()
        for text in held_out:
            words = _words(text)
            self._runs.update(_runs(words))
            if len(words) <= 4 * RUN:
                self._short.append(frozenset(words))
        self._short = list(dict.fromkeys(self._short))

    def accept(self, text: str) -> bool:
        """Return whether the question `text` is acceptable, and remember it if it is.

        A question is acceptable if it was not accepted before, has at least FEWEST_WORDS words, and
        does not resemble a held-out message.
        """
        words = _words(text)
        key = " ".join(words)
        if key in self._asked or len(words) < FEWEST_WORDS or self.resembles_held_out(text):
            return False
        self._asked.add(key)
        return True

    def resembles_held_out(self, text: str) -> bool:
        """Return whether `text` and a held-out message share RUN words in a row, or most words."""
        words = _words(text)
        if any(run in self._runs for run in _runs(words)):
            return True
        if len(words) > 4 * RUN:
            return False
        own = frozenset(words)
        return any(
            len(own & other) > MOST_SHARED * max(len(own), len(other)) for other in self._short
        )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _runs(words: list[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1))
