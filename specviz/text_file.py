"""A user's text file, or one sentence on why it cannot be read.

Knows nothing of what the text means.
"""

from __future__ import annotations

from pathlib import Path

from specviz.errors import InputError


def read_text(name: str, parameter: str) -> str:
    """The UTF-8 text of a file; a byte order mark is no part of it."""
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{parameter} {name!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{parameter} {name!r} must be UTF-8 text") from None
    except ValueError:  # a name with a NUL
        raise InputError(f"{parameter} must be the name of a file, got {name!r}") from None
