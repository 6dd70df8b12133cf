"""Write docs/reference from the code: `make reference`.

`commands.md` comes from the parser of the command line, `settings.md` from the table of a run's
settings, the options of the methods and the environment's variables. In both files, the text before
the line MARK is written by hand. `tests/test_documents.py` fails if the rest differs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from specviz.cli import GROUPS, _parsers
from specviz.commands.parser import CommandParser
from specviz.decoding.drafters.method import Option
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.environment import Environment
from specviz.records import SETTINGS, RunSetting, ValueType

FOLDER = Path(__file__).parent / "reference"
_TITLES = {"options": "flag", "positional arguments": "argument"}
MARK = "<!-- `make reference` writes what follows -->\n"


def commands() -> str:
    """Return the reference of all commands as Markdown."""
    _, parsers = _parsers("specviz")
    by_name = {parser.prog.rpartition(" ")[2]: parser for parser in parsers}
    parts: list[str] = []
    for group, members in GROUPS.items():
        parts.append(f"## {group}\n")
        parts += [_command(by_name[name], summary) for name, (_, summary) in members.items()]
    return "\n".join(parts)


def _command(parser: CommandParser, summary: str) -> str:
    parser.complete()
    name = parser.prog.rpartition(" ")[2]
    help_of = argparse.HelpFormatter(parser.prog)._expand_help
    example = (parser.epilog or "").partition("\n")[2].strip()
    lines = [f"### `{name}`\n", f"{summary}\n", f"```\n{example}\n```\n"]
    for group in parser._action_groups:
        flags = [each for each in group._group_actions if each.dest not in ("help", "json")]
        if flags:
            title = _TITLES.get(str(group.title), group.title)
            lines.append(f"| {title} | meaning |\n|---|---|")
            lines += [f"| {_flag(each)} | {_cell(help_of(each))} |" for each in flags]
            lines.append("")
    return "\n".join(lines)


def _flag(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    values = () if action.nargs == 0 else (metavar,) if isinstance(metavar, str) else metavar
    return f"`{' '.join((', '.join(action.option_strings), *values)).strip()}`"


def settings() -> str:
    """Return the reference of a run's settings and of the environment as Markdown."""
    rows = [_setting(each) for each in SETTINGS.values()]
    variables = re.findall(r"^\| (.+?) \| (.+?)\s*\|$", _environment(), re.MULTILINE)[1:]
    return "\n".join(
        (
            "## Settings of a run\n",
            "| title | flag | key | value | default |\n|---|---|---|---|---|",
            *rows,
            "",
            "## Options of the methods\n",
            "Write `--option NAME=INTEGER`. A method refuses options that it does not have.\n",
            "| method | option | meaning | value | default |\n|---|---|---|---|---|",
            *(_option(name, each) for name, method in DRAFTERS.items() for each in method.options),
            "",
            "## Environment variables\n",
            "| variable | meaning |\n|---|---|",
            *(f"| {_named(name)} | {_cell(meaning)} |" for name, meaning in variables),
            "",
        )
    )


def _option(method: str, option: Option) -> str:
    meaning = f"{option.title}; {option.hint}" if option.hint else option.title
    return f"| `{method}` | `{option.name}` | {_cell(meaning)} | {option.rule} | {option.default} |"


def _environment() -> str:
    """Return the table in the docstring of `Environment`, with each row on one line."""
    return re.sub(r"\n {6,}", " ", Environment.__doc__ or "").replace("\n    ", "\n")


def _named(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _setting(setting: RunSetting) -> str:
    flag = f"`{setting.flag}`" if setting.flag else ""
    key = f"`{setting.key}`" if setting.key else ""
    return (
        f"| {_cell(setting.title)} | {flag} | {key} | {_values(setting)} "
        f"| {_default(setting.default)} |"
    )


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value in (None, "", ()) else str(getattr(value, "value", value))


def _values(setting: RunSetting) -> str:
    if not setting.is_bounded:
        return setting.type.value
    kind = "whole number" if setting.type is ValueType.INTEGER else "number"
    low = f"{'more than' if setting.excludes_low else 'at least'} {setting.low:,.10g}"
    high = f"{'below' if setting.excludes_high else 'at most'} {setting.high:,.16g}"
    return f"{kind}, {low}" + ("" if setting.high == float("inf") else f", {high}")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("%%", "%").replace("|", "\\|")


def renewed() -> Iterator[tuple[Path, str]]:
    """Yield the path of every file, and its text with the generated part written anew."""
    for name, made in (("commands", commands()), ("settings", settings())):
        path = FOLDER / f"{name}.md"
        yield path, f"{path.read_text(encoding='utf-8').partition(MARK)[0]}{MARK}\n{made}"


if __name__ == "__main__":
    for path, text in renewed():
        path.write_text(text, encoding="utf-8")
