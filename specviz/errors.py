"""The one error that is meant for a person: its text is a sentence to show as it is."""

import reprlib


class InputError(ValueError):
    """Input that breaks a rule; the message names the parameter, the rule and the value."""


def short(value: object) -> str:
    """A value as an error may quote it: hostile input can be of any length and depth."""
    if isinstance(value, dict):
        return f"an object of {_counted(len(value), 'field')}"
    if isinstance(value, list):
        return f"an array of {_counted(len(value), 'item')}"
    return reprlib.repr(value)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
