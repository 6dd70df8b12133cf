"""Print the flags of the installed SGLang as the sections `[known]` and `[deprecated]`.

After a new SGLang version, run this file with the Python of an environment that has SGLang, and
paste the output into sglang.toml. The flags come from the parser that SGLang builds itself, so they
include those that SGLang registers by hand. No server starts and no weights are loaded.
"""

import argparse
import importlib.metadata
import json
import re
import sys
import textwrap

from sglang.srt.server_args import ServerArgs

# Flags that the command line of SGLang's server has and its Python engine lacks.
SERVER = ("port", "host", "api-key")


def known_flags() -> dict[str, object]:
    """Return the names of all flags by kind, without leading hyphens, and the deprecated flags."""
    parser = argparse.ArgumentParser(add_help=False)
    ServerArgs.add_cli_args(parser)
    found: dict[str, list[str]] = {"negatable": [], "switches": [], "several": [], "flags": []}
    deprecated = {}
    for action in parser._actions:
        names = [name for name in action.option_strings if not name.startswith("--no-")]
        found[_kind(action)] += [name.removeprefix("--") for name in names]
        if advice := _advice(action):
            deprecated |= dict.fromkeys(names, advice)
    return {kind: sorted(names) for kind, names in found.items()} | {"deprecated": deprecated}


def _kind(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction):
        return "negatable"
    if action.nargs == 0:
        return "switches"
    return "several" if action.nargs in ("+", "*") else "flags"


def _advice(action: argparse.Action) -> str:
    """Return the flag that SGLang recommends instead of a deprecated one, or an empty text."""
    if new := getattr(action, "new_flag", None):
        return str(new)
    found = re.search(r"[Dd]eprecated[.:,]? [Uu]se (\S+)", action.help or "")
    return found[1].rstrip(".)") if found else ""


def as_toml(known: dict[str, object]) -> str:
    """Return the flags as sections of sglang.toml."""
    lines = ["[known]", f'server = "{" ".join(SERVER)}"']
    deprecated = known.pop("deprecated")
    for kind, names in known.items():
        lines += [
            f'{kind} = """',
            textwrap.fill(" ".join(names), 100, break_on_hyphens=False),
            '"""',
        ]
    lines += [
        "",
        "# Flags that are still accepted, with a warning that names the flag to use instead.",
        "[deprecated]",
    ]
    return "\n".join([*lines, *(f'{name} = "{new}"' for name, new in deprecated.items())])


if __name__ == "__main__":
    known = known_flags()
    version = importlib.metadata.version("sglang")
    print(json.dumps({"version": version, **known}) if "--json" in sys.argv else as_toml(known))
