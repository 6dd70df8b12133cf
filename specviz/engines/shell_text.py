"""Split the text of a shell script into commands, and find its variables."""

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
_HERE_DOCUMENT = re.compile(r"\s*(?:sudo\s+)?(?:cat|tee)\b.*<<-?\s*([\"']?)(?P<mark>\w+)\1")
_WRITTEN_FILE = re.compile(r">\s*([\w./~+-]+)|\btee\s+([\w./~+-]+)")
_COMMANDS = {"--serve-cmd", "--startup-cmd"}  # flags of vllm bench sweep whose value is a command
_SHELLS = {"sh", "bash", "dash", "zsh", "ash"}


def commands(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each command, and whether another command precedes it on its line.

    Continued lines, comments and quotes mean the same as in a shell. A redirection (> file) becomes
    one word.

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


def here_documents(text: str) -> tuple[str, dict[str, str]]:
    r"""Return a script without the files that it writes itself, and these files by their names.

    >>> here_documents("cat > a.yaml <<'END'\nk: 1\nEND\nserve a.yaml")
    ('serve a.yaml', {'a.yaml': 'k: 1'})
    """
    script: list[str] = []
    files: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        begin = _HERE_DOCUMENT.match(line)
        name = _WRITTEN_FILE.search(line) if begin else None
        if begin is None or name is None:
            script.append(line)
            continue
        inside: list[str] = []
        for each in lines:
            if each.strip() == begin["mark"]:
                break
            inside.append(each)
        files[name[1] or name[2]] = "\n".join(inside)
    return "\n".join(script), files


def variables(text: str) -> set[str]:
    r"""Return the variables that a shell would expand, as spelled, such as $KEY or ${KEY}.

    Variables in single quotes are not expanded.

    >>> sorted(variables("serve $MODEL --key \"${KEY}\" --name '$name'"))
    ['$MODEL', '${KEY}']
    """
    words = (match["word"] or "" for match in _PIECE.finditer(text))
    return {found for word in words if word[:1] != "'" for found in _VARIABLE.findall(word)}


_ASSIGNED = re.compile(
    r"""^[ \t]*(?:export[ \t]+|set[ \t]+|\$(?:env:)?)?([A-Za-z_]\w*)[ \t]?=[ \t]?
    (["']?)([\w./\\:@~+-]+)\2[ \t]*;?[ \t]*$""",
    re.VERBOSE | re.MULTILINE,
)

# Matches a variable in a POSIX shell, in PowerShell ($env:NAME) or in cmd (%NAME%).
_ANY_VARIABLE = re.compile(rf"\$env:\w+|%[A-Za-z_]\w*%|{_VARIABLE.pattern}")


def with_values(text: str) -> tuple[str, set[str]]:
    """Replace variables that the text itself sets by their values. Return their names as well.

    A variable is not replaced if it may be a secret, or if it is set twice or to more than a plain
    word. In single quotes nothing is replaced, because a shell expands nothing there.

    >>> with_values('M=org/big\\nvllm serve "$M" --port ${P}')
    ('M=org/big\\nvllm serve "org/big" --port ${P}', {'M'})
    """
    assigned = [(found[1], found[3]) for found in _ASSIGNED.finditer(text)]
    names = [name for name, _ in assigned]
    values = {
        name: value
        for name, value in assigned
        if names.count(name) == 1 and not _SECRET.search(f"{name}={value}")
    }
    put_in: set[str] = set()

    def value_of(found: re.Match[str]) -> str:
        name = found[0].strip("${}%").removeprefix("env:")
        if name not in values:
            return found[0]
        put_in.add(name)
        return values[name]

    def word(found: re.Match[str]) -> str:
        is_literal = found["word"] is None or found[0].startswith("'")
        return found[0] if is_literal else _ANY_VARIABLE.sub(value_of, found[0])

    return (_PIECE.sub(word, text) if values else text), put_in


def inner_script(words: Sequence[str]) -> str | None:
    """Return the script that a command passes to a shell, as in `bash -lc "…"`, or None.

    Some flags, such as --serve-cmd, also have a script as their value.
    """
    for place, word in enumerate(words):
        if word in _COMMANDS and words[place + 1 :]:
            return words[place + 1]
        if word.rsplit("/", 1)[-1] not in _SHELLS:
            continue
        # In `docker run --entrypoint bash IMAGE -c …`, skip the image after the shell.
        skipped = 1 if place and words[place - 1] == "--entrypoint" else 0
        rest = words[place + 1 + skipped :]
        for option, script in zip(rest, rest[1:], strict=False):
            if re.fullmatch(r"-[a-z]*c", option):
                return script
            if not option.startswith("-"):
                break
    return None


def unsaid(text: str) -> str:
    """Replace the values of variables whose names sound like secrets with an ellipsis.

    >>> unsaid("export HF_TOKEN=hf_abc api-key: 'a b' PORT=5")
    'export HF_TOKEN=… api-key: … PORT=5'
    """
    return _SECRET.sub(r"\1…", text)


def is_windows_path(word: str) -> bool:
    r"""Return whether a word is a path with a drive letter, such as C:\models."""
    return re.match(r"[A-Za-z]:[\\/]", word) is not None


def words_of(line: str) -> list[str]:
    r"""Split a command into words, as a shell does. Backslashes in Windows paths are kept.

    >>> words_of(r"llama-server -m C:\models\a.gguf")
    ['llama-server', '-m', 'C:\\models\\a.gguf']
    """
    reader = shlex.shlex(line, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters = True, ""
    if re.search(r"""(?<![^\s="'])(?:[A-Za-z]:|\.\.?)\\[^\s"']""", line) and '\\"' not in line:
        reader.escape = ""
    return list(reader)


def quoted(word: str, kept: Collection[str]) -> str:
    r"""Quote one word for a shell. The shell expands only variables in `kept` and a leading ~.

    Windows paths get double quotes, which cmd and PowerShell understand as well.

    >>> quoted('{"key": "$KEY"}', {"$KEY"}), quoted("$KEY", ())
    ('"{\\"key\\": \\"$KEY\\"}"', "'$KEY'")
    >>> quoted("~/my models", ()), quoted(r"C:\models", ())
    ("~/'my models'", '"C:\\models"')
    """
    home = re.match(r"~[\w.-]*(?:/|$)", word)
    if home:
        rest = word[home.end() :]
        return home[0] + (quoted(rest, kept) if rest else "")
    if is_windows_path(word) and not re.search(r'["$`]', word):
        return f'"{word}"' if "\\" in word or " " in word else word
    if not any(each in kept for each in _VARIABLE.findall(word)):
        return shlex.quote(word)
    pieces = re.split(f"({_VARIABLE.pattern})", word)
    return (
        '"' + "".join(p if p in kept else re.sub(r'[$`"\\]', r"\\\g<0>", p) for p in pieces) + '"'
    )
