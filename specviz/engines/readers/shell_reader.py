"""Read the flags of an engine's command in a shell script, a unit file or a Dockerfile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import takewhile

from specviz.engines.engine_facts import EngineFacts, spelling
from specviz.engines.engine_registry import engines
from specviz.engines.other_programs import other_program, without_interpreter
from specviz.engines.readers.engine_words import CONTAINERS, engine_word, program_name
from specviz.engines.readers.found_flags import MAX_TEXT, FoundFlags, literal
from specviz.engines.shell_text import (
    commands,
    here_documents,
    inner_script,
    is_windows_path,
    unsaid,
    variables,
    with_values,
    words_of,
)
from specviz.errors import InputError, short

_OTHERS = {"pip", "pip3", "conda", "curl", "git", "cd", "cmake", "make"}
_OF_VARIABLES = {"export", "declare", "set", "unset"}
_BEFORE = {"uv", "sudo", "nohup", "exec", "time", "env", "run", "$", "%", ">", "!", *_OF_VARIABLES}
_CLIENT = re.compile(r"(.*[/.])?bench(mark)?_serving(\.py)?")
_OF_UNIT = re.compile(r"ExecStart=[-@:+!]*")
_SETTING = re.compile(r"[A-Za-z_]\w*=")


def split_words(line: str) -> list[str]:
    try:
        return words_of(line)
    except ValueError:
        words = line.split()
        if engine_word(words)[1] is None:
            # The line starts no engine, so it is a sentence, and its quote is an apostrophe.
            return words
        raise InputError(
            f"the text must close every quote that it opens, got {short(unsaid(line))}"
        ) from None


def read_shell(text: str, found: FoundFlags) -> None:
    """Read the flags of the engine's command in a shell script.

    If the script starts no engine, read the flags of any other command.
    """
    text, files = here_documents(text)
    found.files |= files
    longer, put_in = with_values(text)
    if len(longer) <= MAX_TEXT:
        text = longer
        found.put_in |= put_in
    found.variables |= variables(text)
    found.is_shell = True
    others, behind = [], []
    for line, is_behind in commands(text):
        words, before = split_words(line), (len(found.flags), list(found.exported))
        if rest := read_words(words, found):
            others.append(rest)
        if is_behind and before == (len(found.flags), found.exported):
            behind.append(words[0])
    if behind and found.engine:
        found.passed_over.append(f"{', '.join(behind)}: other commands on the line, left out")
    for words in others:
        # a line of flags continues the command, even without a backslash
        if words[0].startswith("-"):
            read_flags(words, found.engine, found)
            continue
        if found.engine is not None:
            continue
        program, *flags = without_interpreter(words)
        note = "an unknown program; its flags are read as flags of the engine that has them"
        found.passed_over.append(f"{program}: {note}")
        read_flags(flags, None, found)


def read_words(words: Sequence[str], found: FoundFlags) -> list[str]:
    """Read the variables of one command, and its flags if it starts an engine.

    Return the words of a command that has flags but starts no known engine, because the caller may
    read these flags later. For any other command, return [].
    """
    rest = list(words)
    # In a unit file of systemd, "ExecStart=" comes before the command.
    if rest and (unit := _OF_UNIT.match(rest[0])):
        rest[0] = rest[0][unit.end() :]
    settings = []
    while rest and (rest[0] in _BEFORE or _SETTING.match(rest[0])):
        word = rest.pop(0)
        if word in _OF_VARIABLES:
            _read_variables(word, rest, found)
            return []
        if _SETTING.match(word):
            settings.append(word)
    if not rest:
        found.exported += settings
        return []
    place, engine = engine_word(rest)
    script = inner_script(rest)
    if engine is None and script is None and (other := other_program(rest))[0]:
        found.other = other
        return []
    if script is None and (client := _client(rest, place, engine)):
        found.client = client
        found.passed_over.append(f"{client} sends requests to a running server: left out")
        return []
    if engine is not None:
        settings = [*found.exported, *settings]
        found.exported = []
    found.leave_out(_read_settings(settings, engine, found))
    _read_settings(filter(_SETTING.match, rest[:place]), engine, found)
    is_run = rest[:2] == ["conda", "run"]
    # Skip commands of other programs, such as pip. `python -m pip` names the program in its third
    # word.
    if not is_run and any(word.lstrip("!%") in _OTHERS for word in rest[:3]):
        return []
    if engine is None and script is None:
        return rest if any(word.startswith("-") for word in rest) else []
    before = len(found.flags)
    if script is not None:
        read_shell(script, found)
    elif engine is not None:
        _read_command(rest, place, engine, found)
    is_around = rest[0].lstrip("!") in CONTAINERS or rest[1:3] == ["bench", "sweep"]
    if len(found.flags) > before and is_around:
        # the note does not list these options, because one of them may be a secret
        found.passed_over.append(f"{' '.join(rest[:2])} …: options of its own, left out")
    return []


def _read_variables(command: str, words: Sequence[str], found: FoundFlags) -> None:
    """Store the environment variables that a command exports for the commands after it."""
    if command == "unset" or "-n" in words:
        names = {word.partition("=")[0] for word in words}
        found.exported = [e for e in found.exported if e.partition("=")[0] not in names]
    else:
        found.exported += filter(_SETTING.match, words)


def _client(words: Sequence[str], place: int, engine: str | None) -> str:
    """Return the name of the program if a command sends requests to a server, otherwise "".

    The name includes subcommands.
    """
    scripts = (w for w in words if w[:1] != "-" and not program_name(w).startswith("python"))
    script, named = next(scripts, ""), _with_subcommands(words, place, engine)
    if _CLIENT.fullmatch(script):
        return script
    facts = engines()[engine] if engine else None
    is_client = facts is not None and facts.clients & {*named.split()[1:2]}
    return named if facts and is_client and named not in facts.programs else ""


def _with_subcommands(words: Sequence[str], place: int, engine: str | None) -> str:
    subcommands = engines()[engine].subcommands if engine else ()
    behind = takewhile(subcommands.__contains__, words[place + 1 : place + 3])
    return " ".join([program_name(words[place]), *behind])


def _read_settings(words: Iterable[str], engine: str | None, found: FoundFlags) -> list[str]:
    """Add the flags that words such as LLAMA_ARG_MODEL=a.gguf set. Return the other words."""
    facts, others = engines()[engine] if engine else None, []
    for word in words:
        name, _, value = word.partition("=")
        flag = facts.flag_of(name) if facts and value else ""
        if facts and flag:
            is_on = value.lower() in {"1", "true", "on", "enabled"}
            found.add(flag, is_on if flag in facts.switches else value, name)
        else:
            others.append(word)
    return others


def _read_command(words: Sequence[str], place: int, engine: str, found: FoundFlags) -> None:
    """Add the flags after `words[place]`, the word that names the engine."""
    found.engine = found.engine or engine
    facts, before = engines()[engine], len(found.flags)
    program = _with_subcommands(words, place, engine)
    if program in facts.programs:
        taken = f"a server replaces {program}: send it prompts as requests"
        found.passed_over.append(taken)
    if facts.programs.get(program):
        found.add(program, facts.programs[program])
    read_flags(words[place + 1 :], engine, found)
    if len(found.flags) > before:
        found.commands.append(engine)


def read_flags(words: Sequence[str], engine: str | None, found: FoundFlags) -> None:
    facts = engines()[engine] if engine else None
    place, named = 0, False
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or _is_number(word):
            is_subcommand = facts is not None and word in facts.subcommands
            is_target = facts is not None and bool(facts.positional) and not is_subcommand
            is_file = "." in word.split("/")[0] and not word.startswith((".", "/"))
            before = list(words[: place - 1][-1:])
            is_served = facts is not None and before == _last_of_start(facts)
            is_target &= not named and (is_served or is_windows_path(word) or not is_file)
            if facts is not None and is_target:
                named = True
                found.add(facts.positional, word, "model")
            elif facts is not None and not is_subcommand:
                found.passed_over.append(f"{unsaid(word)}: left out, because it belongs to no flag")
            continue
        typed, has_value, value = word.partition("=")
        name = facts.full_name(spelling(typed)) if facts is not None else typed
        joined = next((s for s in facts.joined if typed.startswith(s)), "") if facts else ""
        if facts is not None and joined and "." not in typed:
            value = has_value = typed.removeprefix(joined) or value
            typed, name = joined, facts.joined[joined]
        if has_value:
            _add_value(name, value, typed, facts, found)
        elif place < len(words) and _is_value(words[place], name, facts):
            values = _values(words[place:], name, facts)
            _add_value(name, values[0] if len(values) == 1 else values, typed, facts, found)
            place += len(values)
        else:
            is_short = facts is not None and name != spelling(typed) and facts.needs_value(name)
            found.add(spelling(typed) if is_short else name, True, typed)
        named |= name in {"--model", "-m"}


def _add_value(
    name: str,
    value: str | tuple[str, ...],
    typed: str,
    facts: EngineFacts | None,
    found: FoundFlags,
) -> None:
    """Add a flag with its value, or note that the value is a file which the script writes."""
    if facts is not None and name in facts.file_flags and value in found.files:
        found.named_files.append(str(value))
    else:
        found.add(name, value, typed)


def _last_of_start(facts: EngineFacts) -> list[str]:
    """Return the word before the model's name, or no word if that is the program itself."""
    return list(facts.start[1:][-1:])


def _is_value(word: str, flag: str, facts: EngineFacts | None) -> bool:
    if facts is not None and spelling(flag) in facts.switches:
        return word.lower() in {"true", "false"}
    return not word.startswith("-") or _is_number(word)


def _values(words: Sequence[str], flag: str, facts: EngineFacts | None) -> tuple[str, ...]:
    """Return the words that are the value of a flag.

    The first word always belongs to the value. The words up to the next flag belong to it as well,
    unless the engine is known to take one value for this flag. The next word may then be the name
    of a model.
    """
    takes_several = facts is None or not facts.several or facts.now(flag) in facts.several
    further = words[1:] if takes_several else ()
    return (words[0], *takewhile(lambda word: not word.startswith("-"), further))


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?", word) is not None


_DOCKERFILE = re.compile(r"^(FROM|ENTRYPOINT|CMD)[ \t]+((?:\\\n|.)+)$", re.MULTILINE)


def dockerfile_command(text: str) -> str:
    """Return the command that a Dockerfile's image starts, or "" for another text."""
    found = dict(_DOCKERFILE.findall(text))
    words: list[str] = []
    for name in ("ENTRYPOINT", "CMD"):
        part = found.get(name, "").replace("\\\n", " ").strip()
        value = literal(part)
        words += [str(each) for each in value] if isinstance(value, list) else split_words(part)
    if not words:
        return ""
    is_whole = engine_word(words)[1] is not None or inner_script(words) is not None
    image = found.get("FROM", "").split()[:1]
    return shlex.join(words if is_whole else ["docker", "run", *image, *words])
