"""Find an engine's flags in a pasted text: a shell command, Python code, JSON or YAML.

Nothing in the text is ever run. Each form has a reader in the folder `readers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from specviz.engines.engine_registry import engines
from specviz.engines.readers.engine_words import engine_of_flags
from specviz.engines.readers.found_flags import MAX_DEPTH, MAX_TEXT, FoundFlags, PastedFlag
from specviz.engines.readers.json_reader import read_json
from specviz.engines.readers.python_reader import read_python
from specviz.engines.readers.shell_reader import dockerfile_command, read_shell
from specviz.engines.readers.yaml_reader import read_yaml
from specviz.engines.shell_text import unsaid
from specviz.errors import InputError, short

MAX_DIGITS = 200  # largest number of digits in one number
MAX_FLAGS = 500


@dataclass(frozen=True, slots=True)
class PastedText:
    """The engine that a pasted text is for, and the flags in the text, in their order.

    `passed_over` has notes about parts of the text that were ignored. `variables` are the shell
    variables in the text.
    """

    engine: str
    flags: tuple[PastedFlag, ...]
    passed_over: tuple[str, ...]
    variables: frozenset[str]


def read_text(text: str) -> PastedText:
    """Find the engine and its flags in a text.

    Raises InputError if the text contains no flags of an engine.
    """
    if len(text) > MAX_TEXT:
        raise InputError(f"the text must have at most {MAX_TEXT} characters, got {len(text)}")
    clean = _typewritten(text)
    _check_depth(clean)
    found = FoundFlags()
    try:
        _read(clean, found)
    except (RecursionError, MemoryError):
        raise InputError(
            "the text must be nested less deeply: paste only the part that starts the engine"
        ) from None
    if len(found.commands) > 1:
        names = ", ".join(engines()[name].title for name in found.commands)
        raise InputError(
            f"the text must have one command or call of an engine, got {len(found.commands)} "
            f"({names}): keep one of them"
        )
    count = len(found.flags)
    if count > MAX_FLAGS:
        raise InputError(f"the text must have at most {MAX_FLAGS} flags, got {count}")
    engine = found.engine or engine_of_flags((flag.name for flag in found.flags), found.is_shell)
    if found.client and not count:
        raise InputError(
            "the text must have the command that starts the server, such as "
            f"{' '.join(next(iter(engines().values())).start)} …, but {found.client} only sends "
            "requests to a running server"
        )
    names = ", ".join(facts.title for facts in engines().values())
    program, title = found.other
    if program and found.engine is None:
        whose = title if program.lower() == title.lower() else f"{program} ({title})"
        raise InputError(
            f"the text must be for one of {names}, but it uses {whose}, whose flags specviz "
            f"cannot read"
        )
    if (engine is None or not count) and found.is_manifest:
        raise InputError(
            "the file must have a container whose image or command names an engine, and whose "
            f"arguments are its flags, got {short(unsaid(text))}"
        )
    if engine is None or not count:
        raise InputError(
            f"the text must be a command, Python code or a configuration of {names}, "
            f"got {short(unsaid(text))}"
        )
    found.leave_out(found.exported)
    long_name = engines()[engine].long_name
    flags = tuple(replace(flag, name=long_name(flag.name)) for flag in found.flags)
    return PastedText(engine, flags, tuple(found.passed_over), frozenset(found.variables))


def _check_depth(text: str) -> None:
    """Check that brackets are not nested too deeply and that numbers are not too long.

    YAML parsers need quadratic time for many open brackets. Python raises an error for integers of
    more than 4,300 digits. YAML also reads 1:30 as an integer, so a colon counts as a digit here.
    """
    if re.search(rf"\d[\da-fxo_:]{{{MAX_DIGITS}}}", text, re.IGNORECASE):
        raise InputError(f"the text must not have numbers of more than {MAX_DIGITS} digits")
    depth = 0
    for bracket in re.findall(r"[\[\](){}]", text):
        depth += 1 if bracket in "[({" else -1
        if depth > MAX_DEPTH:
            raise InputError(f"the text must not have brackets nested deeper than {MAX_DEPTH}")


def _typewritten(text: str) -> str:
    """Replace the quotes and hyphens of word processors with plain ones."""
    fine_and_plain = (("“", '"'), ("”", '"'), ("‘", "'"), ("’", "'"), ("\u00a0", " "))
    # Two of the characters in this table have no width, so a reader does not see them.
    for fine, plain in (*fine_and_plain, ("\ufeff", ""), ("\u200b", "")):
        text = text.replace(fine, plain)
    text = re.sub(r"(?<![^\s\"'(\[])[–—]-?(?=[a-z])", "--", text)
    return text.replace("\r\n", "\n").replace("\x00", "")


def _read(text: str, found: FoundFlags) -> None:
    """Read the text as JSON, Python, YAML or a shell script: the first that fits."""
    stripped = text.strip()
    problem = read_json(stripped, found) if stripped.startswith("{") else None
    if stripped.startswith("{") and problem is None:
        return
    if read_python(stripped, found) or read_yaml(stripped, found):
        return
    if problem is not None:
        raise problem
    read_shell(dockerfile_command(text) or text, found)
    for name in dict.fromkeys(found.named_files):
        if not read_yaml(found.files[name], found):
            found.passed_over.append(f"{name}: left out, because it is not YAML")
