"""The command `translate`: it rewrites old flags or an article's code for today's engines."""

from __future__ import annotations

import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specviz.commands.command import Command, Progress
from specviz.engines.draft_schedule import schedule_of_sweep
from specviz.engines.engine_registry import engines, servers
from specviz.engines.local_pair import read_local_pair
from specviz.engines.readers.found_flags import MAX_TEXT
from specviz.engines.translation import translate
from specviz.engines.translation_answer import translation_answer
from specviz.errors import InputError, short

_FORMS = ("command", "yaml", "python", "compose", "kubernetes")
_WIDTH = 100


def _add_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "text",
        nargs="?",
        metavar="TEXT",
        help="a command, Python code, JSON or YAML, in quotes (default: read standard input)",
    )
    parser.add_argument(
        "--file", metavar="FILE", help="read the text from this file instead of TEXT (default none)"
    )
    parser.add_argument(
        "--to",
        metavar="ENGINE",
        help=f"engine to write a configuration for: {', '.join(servers())} (default the engine "
        "of the text)",
    )
    parser.add_argument(
        "--form",
        metavar="NAME",
        help=f"form of the configuration to print: {', '.join(_FORMS)} or all "
        f"(default {_FORMS[0]})",
    )
    parser.add_argument(
        "--schedule",
        metavar="FILE",
        help="choose the draft length for each batch size from a file that `sweep --output` wrote "
        "(default none)",
    )


def translated(options: Namespace, progress: Progress) -> dict[str, Any]:
    """Return what happened to each flag of the text, and a configuration for today's engine."""
    form = options.form or _FORMS[0]
    if form not in (*_FORMS, "all"):
        raise InputError(f"form must be one of {', '.join((*_FORMS, 'all'))}, got {short(form)}")
    schedule = schedule_of_sweep(_read("schedule", options.schedule)) if options.schedule else ()
    found = translate(_text(options), options.to, read_local_pair, schedule)
    answer = translation_answer(found)
    able = [name for name, text in answer["forms"].items() if text]
    if able and form not in (*able, "all"):
        title = engines()[found.target].title
        raise InputError(
            f"form must be one of {', '.join(able)} or all for {title}, got {short(form)}"
        )
    return {**answer, "form": form}


def _text(options: Namespace) -> str:
    if options.text is not None and options.file is not None:
        raise InputError("'text' and 'file' must not be given together")
    if options.file is not None:
        return _read("file", options.file)
    if options.text is not None:
        return str(options.text)
    if sys.stdin.isatty():
        raise InputError("text must be given in quotes, with --file or on standard input, got none")
    return sys.stdin.read(MAX_TEXT + 1)


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"{name} {path!r} cannot be read: {reason}") from None


def translated_text(result: Mapping[str, Any]) -> str:
    source, target = (engines()[result[name]] for name in ("from", "to"))
    title = f"{source.title}, in the words of {target.title} {target.version}"
    parts = [title, "\n".join(map(_change_line, result["changes"]))]
    parts += ["\n".join(_labelled(kind, result[f"{kind}s"])) for kind in ("note", "problem")]
    form, forms = result["form"], result["forms"]
    parts += [text for name, text in forms.items() if form in (name, "all") and text]
    return "\n\n".join(part.rstrip("\n") for part in parts if part)


def _change_line(change: Mapping[str, str]) -> str:
    value = f" {change['value']}" if change["value"] else ""
    now = f" -> {change['now']}" if change["now"] else ""
    why = f": {change['why']}" if change["why"] else ""
    return _filled(f"{change['typed']}{value}  {change['fate']}{now}{why}", "  ")


def _labelled(kind: str, sentences: list[str]) -> Iterator[str]:
    yield from (_filled(f"{kind}: {each}", "") for each in sentences)


def _filled(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def shortfall(result: Mapping[str, Any]) -> str | None:
    """Return one line if the engine would refuse the resulting configuration."""
    count = len(result["problems"])
    if not count:
        return None
    return f"no configuration: {'1 problem' if count == 1 else f'{count} problems'}"


COMMAND = Command(
    translated,
    translated_text,
    _add_flags,
    shortfall,
    example='"vllm serve TARGET --speculative-model DRAFT --num-speculative-tokens 5"',
)
