"""A shell's text: its commands, a command within a command, and the variables that it puts in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence

_PIECE = re.compile(
    r"""(?P<space>[\\`^][ \t]*\n|(?<!\S)\#[^\n]*)
      | (?P<to>(?<!\S)[\d&]?>{1,2}(?:&\d|[ \t]*[^\s;&|]+)) | (?P<end>[\n;&|]+)
      | (?P<word>'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;&|'"\\]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_VARIABLE = re.compile(r"(?<!\\)\$(?:[A-Za-z_]\w*|\{[A-Za-z_][^{}]*\})")
_SECRET = re.compile(
    r"""((?:token|key|secret|password)\w{0,40}
      (?:["'\]]{0,2}\s*=|["']\s*:|:(?=\s)|\s+value:)\s*) (?:"[^"]*"|'[^']*'|\S+)""",
    re.VERBOSE | re.IGNORECASE,
)
_COMMANDS = {"--serve-cmd", "--startup-cmd"}  # of vllm bench sweep
_SHELLS = {"sh", "bash", "dash", "zsh", "ash"}


def commands(text: str) -> Iterator[tuple[str, bool]]:
    """Each command, and whether it stands behind another one in its line; lines that go on,
    comments and quotes as a shell has them. Where output goes (> file) is one word.

    >>> list(commands("serve a > log 2>&1 | tee b"))
    [('serve a >log 2>&1', False), ('tee b', True)]
    """
    pieces: list[str] = []
    is_behind = False
    for match in _PIECE.finditer(f"{text}\n"):
        if match["space"] is not None:
            pieces.append(" ")
        elif match["to"] is not None and "".join(pieces).strip():
            pieces.append("".join(match["to"].split()))
        elif match["end"] is None:
            pieces.append(match[0])
        else:
            if line := "".join(pieces).strip():
                yield line, is_behind
            is_behind = bool(line) and "\n" not in match["end"]
            pieces = []


def variables(text: str) -> set[str]:
    """Those that the shell puts in, as they are spelled: $KEY, ${KEY}; none in single quotes.

    >>> sorted(variables("serve $MODEL --key \\"${KEY}\\" --name '$name'"))
    ['$MODEL', '${KEY}']
    """
    words = (match["word"] or "" for match in _PIECE.finditer(text))
    return {found for word in words if word[:1] != "'" for found in _VARIABLE.findall(word)}


def inner_script(words: Sequence[str]) -> str | None:
    """What a shell among the words is told to run, as in `bash -lc "…"`, or a flag says is run;
    None without one.
    """
    for place, word in enumerate(words):
        if word in _COMMANDS and words[place + 1 :]:
            return words[place + 1]
        if word.rsplit("/", 1)[-1] not in _SHELLS:
            continue
        skipped = 1 if place and words[place - 1] == "--entrypoint" else 0  # the image
        rest = words[place + 1 + skipped :]
        for option, script in zip(rest, rest[1:], strict=False):
            if re.fullmatch(r"-[a-z]*c", option):
                return script
            if not option.startswith("-"):
                break
    return None


def unsaid(text: str) -> str:
    """The text without the values of variables that are secrets by their names.

    >>> unsaid("export HF_TOKEN=hf_abc api-key: 'a b' PORT=5")
    'export HF_TOKEN=… api-key: … PORT=5'
    """
    return _SECRET.sub(r"\1…", text)


def quoted(word: str, kept: Collection[str]) -> str:
    """One word as a shell reads it, which puts in the variables that are kept and no other.

    >>> quoted('{"key": "$KEY"}', {"$KEY"}), quoted("$KEY", ())
    ('"{\\\\"key\\\\": \\\\"$KEY\\\\"}"', "'$KEY'")
    """
    if not any(each in kept for each in _VARIABLE.findall(word)):
        return shlex.quote(word)
    pieces = re.split(f"({_VARIABLE.pattern})", word)
    return (
        '"' + "".join(p if p in kept else re.sub(r'[$`"\\]', r"\\\g<0>", p) for p in pieces) + '"'
    )
