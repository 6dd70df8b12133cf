"""Find an engine's flags in a pasted text: a shell command, Python code, JSON or YAML.

Nothing in the text is ever run. Python code is read as a syntax tree.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import yaml

from specviz.engines.engine_facts import (
    SPECULATIVE,
    EngineFacts,
    EngineFlag,
    spelling,
)
from specviz.engines.engine_registry import engines
from specviz.engines.other_programs import other_module, other_program, without_interpreter
from specviz.engines.shell_text import (
    commands,
    inner_script,
    is_windows_path,
    unsaid,
    variables,
    with_values,
    words_of,
)
from specviz.errors import InputError, short

MAX_TEXT = 20_000  # largest number of characters in a pasted text
# Largest nesting depth of brackets, and largest number of parts in a dotted name such as
# --flag.key.key.
MAX_DEPTH = 100
MAX_DIGITS = 200  # largest number of digits in one number
MAX_FLAGS = 500
_JSON_FLAGS = {"--speculative-config": SPECULATIVE, "-sc": SPECULATIVE}
_JSON_RULE = (
    'with names and texts in double quotes and no comma after the last: {"method": "ngram"}'
)


class SourceText(str):
    """The source text of a Python expression whose value is not known."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PastedFlag:
    """One flag in the pasted text.

    `name` is spelled as in the tables of engines, `typed` as in the text. `value` is True for a
    flag without a value, and a tuple if several words follow the flag.
    """

    name: str
    value: Any
    typed: str


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
    reading = _Reading()
    try:
        _read(clean, reading)
    except (RecursionError, MemoryError):
        raise InputError(
            "the text must be nested less deeply: paste only the part that starts the engine"
        ) from None
    if len(reading.commands) > 1:
        names = ", ".join(engines()[name].title for name in reading.commands)
        raise InputError(
            f"the text must have one command or call of an engine, got {len(reading.commands)} "
            f"({names}): keep one of them"
        )
    found = len(reading.flags)
    if found > MAX_FLAGS:
        raise InputError(f"the text must have at most {MAX_FLAGS} flags, got {found}")
    engine = reading.engine or _engine_of((flag.name for flag in reading.flags), reading.is_shell)
    if reading.client and not found:
        raise InputError(
            f"the text must have the command that starts the server, such as vllm serve …, but "
            f"{reading.client} only sends requests to a running server"
        )
    names = ", ".join(facts.title for facts in engines().values())
    program, title = reading.other
    if program and reading.engine is None:
        whose = title if program.lower() == title.lower() else f"{program} ({title})"
        raise InputError(
            f"the text must be for one of {names}, but it uses {whose}, whose flags specviz "
            f"cannot read"
        )
    if (engine is None or not found) and reading.is_manifest:
        raise InputError(
            "the file must have a container whose image or command names an engine, and whose "
            f"arguments are its flags, got {short(unsaid(text))}"
        )
    if engine is None or not found:
        raise InputError(
            f"the text must be a command, Python code or a configuration of {names}, "
            f"got {short(unsaid(text))}"
        )
    reading.leave_out(reading.exported)
    long_name = engines()[engine].long_name
    flags = tuple(replace(flag, name=long_name(flag.name)) for flag in reading.flags)
    return PastedText(engine, flags, tuple(reading.passed_over), frozenset(reading.variables))


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


class _Reading:
    """The flags and the notes that were found so far in the text that is being read."""

    def __init__(self) -> None:
        self.engine: str | None = None
        self.flags: list[PastedFlag] = []
        self.commands: list[str] = []  # the engines whose commands were found in the text
        self.passed_over: list[str] = []
        self.put_in: set[str] = set()  # names of variables whose values were put into the text
        # A program whose flags this module cannot read: its word in the text, and its name for
        # users.
        self.other = "", ""
        self.client = ""  # a command that sends requests to a server, if one was found
        # Environment variables that are set for the commands after them.
        self.exported: list[str] = []
        self.variables: set[str] = set()
        self.is_shell = False
        self.is_manifest = False  # the text is a file of Kubernetes or Docker compose

    def add(self, name: str, value: Any, typed: str | None = None) -> None:
        """Add one flag.

        If the value is an object, each of its parts becomes a flag. If the value is a list, it
        becomes several words.
        """
        key = spelling(name)
        flag, _, inner = key.partition(".")
        if inner.count(".") > MAX_DEPTH:
            raise InputError(
                f"{flag} must have at most {MAX_DEPTH} names after it, separated by dots, got more"
            )
        prefix = _JSON_FLAGS.get(flag)
        if prefix is not None and self._is_left_out(flag, prefix, bool(inner)):
            return
        if prefix is not None and not inner:
            for each, its in self.object_of(key, value).items():
                plain = str(each).replace("-", "_")
                self.flags.append(PastedFlag(f"{prefix}{plain}", its, str(each)))
            return
        if flag.startswith("-") and inner:
            value = literal(value)
            key = prefix + inner.replace("-", "_") if prefix else key
        elif isinstance(value, list) and value:
            value = tuple(value)
        self.flags.append(PastedFlag(key, value, typed or name))

    def _is_left_out(self, flag: str, prefix: str, is_part: bool) -> bool:
        """Return whether a repeated object, or a part of it, is ignored.

        Normally the last object counts. If parts of the object are given as flags (--flag.key),
        only the parts count.
        """
        before = [each for each in self.flags if each.name.startswith(prefix)]
        has_parts = any(each.typed.startswith("-") for each in before)
        if not before or is_part and has_parts:
            return False
        if is_part or has_parts:
            why = f"left out, because its parts ({flag}.…) are given as well"
            self.passed_over.append(f"{flag} as a whole is {why}")
        else:
            self.again([flag])
        if not has_parts:
            self.flags = [each for each in self.flags if each not in before]
        return has_parts

    def leave_out(self, settings: Iterable[str]) -> None:
        """Add a note about environment variables (NAME=value) that set no flag.

        The note does not show their values, which may be secrets.
        """
        names = [each.partition("=")[0] for each in settings]
        note = "a variable of the environment, left out"
        self.passed_over += [f"{each}: {note}" for each in names if each not in self.put_in]

    def object_of(self, name: str, value: Any) -> dict[str, Any]:
        """Return the object in a JSON text. Return a mapping unchanged.

        Raises InputError for anything else.
        """
        if isinstance(value, str):
            try:
                value = json.loads(value, object_pairs_hook=self._object)
            except ValueError:
                pass
        if not isinstance(value, dict):
            got = "no value" if value is True else short(value)
            raise InputError(f"{name} must be one JSON object, {_JSON_RULE}, got {got}")
        return value

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        self.again(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(pairs)

    def again(self, keys: Iterable[str]) -> None:
        """Add a note about each key that occurs more than once in a file."""
        self.passed_over += [f"{key} is given again, and the last one counts" for key in keys]


def literal(value: Any) -> Any:
    """Return the value in a JSON text. Return any other value unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _read(text: str, reading: _Reading) -> None:
    """Read the text as JSON, Python, YAML or a shell script: the first that fits."""
    stripped, problem = text.strip(), None
    if stripped.startswith("{"):
        try:
            data = reading.object_of("the text", stripped)
        except InputError as error:
            problem = error
        else:
            _read_data(data, reading)
            return
    tree = _syntax_tree(stripped)
    if tree is not None:
        _PythonReader(reading, tree).read()
        return
    documents = _yaml_mappings(stripped, reading)
    for each in documents:
        _read_data(each, reading)
    if not documents and problem is not None:
        raise problem
    if not documents:
        _read_shell(_of_dockerfile(text) or text, reading)


_DOCKERFILE = re.compile(r"^(FROM|ENTRYPOINT|CMD)[ \t]+((?:\\\n|.)+)$", re.MULTILINE)


def _of_dockerfile(text: str) -> str:
    """Return the command that a Dockerfile's image starts, or "" for another text."""
    found = dict(_DOCKERFILE.findall(text))
    words: list[str] = []
    for name in ("ENTRYPOINT", "CMD"):
        part = found.get(name, "").replace("\\\n", " ").strip()
        value = literal(part)
        words += [str(each) for each in value] if isinstance(value, list) else _words(part)
    if not words:
        return ""
    is_whole = _engine_word(words)[1] is not None or inner_script(words) is not None
    image = found.get("FROM", "").split()[:1]
    return shlex.join(words if is_whole else ["docker", "run", *image, *words])


# ---- functions that read a shell script

_OTHERS = {"pip", "pip3", "conda", "curl", "git", "cd", "cmake", "make"}
_OF_VARIABLES = {"export", "declare", "set", "unset"}
_BEFORE = {"uv", "sudo", "nohup", "exec", "time", "env", "run", "$", "%", ">", "!", *_OF_VARIABLES}
_CONTAINERS = {"docker", "podman", "kubectl", "nerdctl"}
_CLIENTS = {"chat", "complete", "bench"}
_SUBCOMMANDS = {"serve", "latency", "throughput", "startup", "mm-processor", "sweep", *_CLIENTS}
_CLIENT = re.compile(r"(.*[/.])?bench(mark)?_serving(\.py)?")
_OF_UNIT = re.compile(r"ExecStart=[-@:+!]*")
_SETTING = re.compile(r"[A-Za-z_]\w*=")
_IMAGE = re.compile(r"(?:[\w.${}-]+(?::\d+)?/)+[\w.-]+(?:[:@][^\s/]+)?")
_PLAIN_IMAGE = re.compile(r"(?:vllm|sglang|llama[.-]?cpp)[\w.-]*(?:[:@][^\s/]+)?")
_IMAGES = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llama.cpp", "llama-cpp": "llama.cpp"}


def _words(line: str) -> list[str]:
    try:
        return words_of(line)
    except ValueError:
        words = line.split()
        if _engine_word(words)[1] is None:
            # The line starts no engine, so it is a sentence, and its quote is an apostrophe.
            return words
        raise InputError(
            f"the text must close every quote that it opens, got {short(unsaid(line))}"
        ) from None


def _read_shell(text: str, reading: _Reading) -> None:
    """Read the flags of the engine's command in a shell script.

    If the script starts no engine, read the flags of any other command.
    """
    longer, put_in = with_values(text)
    if len(longer) <= MAX_TEXT:
        text = longer
        reading.put_in |= put_in
    reading.variables |= variables(text)
    reading.is_shell = True
    others, behind = [], []
    for line, is_behind in commands(text):
        words, before = _words(line), (len(reading.flags), list(reading.exported))
        if rest := _read_words(words, reading):
            others.append(rest)
        if is_behind and before == (len(reading.flags), reading.exported):
            behind.append(words[0])
    if behind and reading.engine:
        reading.passed_over.append(f"{', '.join(behind)}: other commands on the line, left out")
    for words in others:
        # a line of flags continues the command, even without a backslash
        if words[0].startswith("-"):
            _read_flags(words, reading.engine, reading)
            continue
        if reading.engine is not None:
            continue
        program, *flags = without_interpreter(words)
        note = "an unknown program; its flags are read as flags of the engine that has them"
        reading.passed_over.append(f"{program}: {note}")
        _read_flags(flags, None, reading)


def _read_words(words: Sequence[str], reading: _Reading) -> list[str]:
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
            _read_variables(word, rest, reading)
            return []
        if _SETTING.match(word):
            settings.append(word)
    if not rest:
        reading.exported += settings
        return []
    place, engine = _engine_word(rest)
    script = inner_script(rest)
    if engine is None and script is None and (other := other_program(rest))[0]:
        reading.other = other
        return []
    if script is None and (client := _client(rest, place, engine)):
        reading.client = client
        reading.passed_over.append(f"{client} sends requests to a running server: left out")
        return []
    if engine is not None:
        settings = [*reading.exported, *settings]
        reading.exported = []
    reading.leave_out(_read_settings(settings, engine, reading))
    _read_settings(filter(_SETTING.match, rest[:place]), engine, reading)
    is_run = rest[:2] == ["conda", "run"]
    # Skip commands of other programs, such as pip. `python -m pip` names the program in its third
    # word.
    if not is_run and any(word.lstrip("!%") in _OTHERS for word in rest[:3]):
        return []
    if engine is None and script is None:
        return rest if any(word.startswith("-") for word in rest) else []
    found = len(reading.flags)
    if script is not None:
        _read_shell(script, reading)
    elif engine is not None:
        _read_command(rest, place, engine, reading)
    is_around = rest[0].lstrip("!") in _CONTAINERS or rest[1:3] == ["bench", "sweep"]
    if len(reading.flags) > found and is_around:
        # the note does not list these options, because one of them may be a secret
        reading.passed_over.append(f"{' '.join(rest[:2])} …: options of its own, left out")
    return []


def _read_variables(command: str, words: Sequence[str], reading: _Reading) -> None:
    """Store the environment variables that a command exports for the commands after it."""
    if command == "unset" or "-n" in words:
        names = {word.partition("=")[0] for word in words}
        reading.exported = [e for e in reading.exported if e.partition("=")[0] not in names]
    else:
        reading.exported += filter(_SETTING.match, words)


def _client(words: Sequence[str], place: int, engine: str | None) -> str:
    """Return the name of the program if a command sends requests to a server, otherwise "".

    The name includes subcommands.
    """
    scripts = (w for w in words if w[:1] != "-" and not _program(w).startswith("python"))
    script, named = next(scripts, ""), _with_subcommands(words, place)
    if _CLIENT.fullmatch(script):
        return script
    is_server = engine is None or named in engines()[engine].programs
    return "" if is_server or _CLIENTS.isdisjoint(named.split()[1:2]) else named


def _with_subcommands(words: Sequence[str], place: int) -> str:
    behind = takewhile(_SUBCOMMANDS.__contains__, words[place + 1 : place + 3])
    return " ".join([_program(words[place]), *behind])


def _read_settings(words: Iterable[str], engine: str | None, reading: _Reading) -> list[str]:
    """Add the flags that words such as LLAMA_ARG_MODEL=a.gguf set. Return the other words."""
    facts, others = engines()[engine] if engine else None, []
    for word in words:
        name, _, value = word.partition("=")
        flag = facts.flag_of(name) if facts and value else ""
        if facts and flag:
            is_on = value.lower() in {"1", "true", "on", "enabled"}
            reading.add(flag, is_on if flag in facts.switches else value, name)
        else:
            others.append(word)
    return others


def _read_command(words: Sequence[str], place: int, engine: str, reading: _Reading) -> None:
    """Add the flags after `words[place]`, the word that names the engine."""
    reading.engine = reading.engine or engine
    facts, found = engines()[engine], len(reading.flags)
    program = _with_subcommands(words, place)
    if program in facts.programs:
        taken = f"a server replaces {program}: send it prompts as requests"
        reading.passed_over.append(taken)
    if facts.programs.get(program):
        reading.add(program, facts.programs[program])
    _read_flags(words[place + 1 :], engine, reading)
    if len(reading.flags) > found:
        reading.commands.append(engine)


def _engine_word(words: Sequence[str]) -> tuple[int, str | None]:
    """Return the index of the word that names a program, module or image, and its engine."""
    is_full = any(_IMAGE.fullmatch(word) and _engine_in(word) for word in words)
    image = _IMAGE if is_full else _PLAIN_IMAGE
    for place, word in enumerate(words):
        # A word with = or : sets an environment variable or mounts a folder. It names no program.
        is_setting = "=" in word or ":" in word[2:]
        name = "" if is_setting else _program(word)
        for facts in engines().values():
            starts = tuple(f"{each}." for each in facts.words)
            if name in facts.words or name.startswith(starts) and words[place - 1] == "-m":
                return place, facts.name
        if image.fullmatch(word) and (place == 0 or words[0].lstrip("!") in _CONTAINERS):
            found = _engine_in(word)
            if found is not None:
                # The words after an image may name the engine's program as well, perhaps after an
                # interpreter, as in `python3 -m sglang.…`. Its flags begin after that word.
                inside, own = _engine_word(words[place + 1 : place + 4])
                return (place + 1 + inside if own == found else place), found
    return 0, None


def _engine_in(image: str) -> str | None:
    """Return the engine that a container image starts, found by a part of the image's name."""
    return next((engine for mark, engine in _IMAGES.items() if mark in image), None)


def _program(word: str) -> str:
    """Return the name of a program without its folder."""
    return re.split(r"[/\\]", word.lstrip("!"))[-1].removesuffix(".exe")


def _read_flags(words: Sequence[str], engine: str | None, reading: _Reading) -> None:
    facts = engines()[engine] if engine else None
    place, named = 0, False
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-") or _is_number(word):
            is_target = engine == "vllm" and not named and word not in _SUBCOMMANDS
            is_file = "." in word.split("/")[0] and not word.startswith((".", "/"))
            is_served = words[place - 2 : place - 1] == ["serve"] or is_windows_path(word)
            is_target &= is_served or not is_file
            if is_target:
                named = True
                reading.add("--model", word, "model")
            elif facts is not None and word not in _SUBCOMMANDS:
                reading.passed_over.append(
                    f"{unsaid(word)}: left out, because it belongs to no flag"
                )
            continue
        typed, has_value, value = word.partition("=")
        name = facts.full_name(spelling(typed)) if facts is not None else typed
        joined = next((s for s in facts.joined if typed.startswith(s)), "") if facts else ""
        if facts is not None and joined and "." not in typed:
            value = has_value = typed.removeprefix(joined) or value
            typed, name = joined, facts.joined[joined]
        if has_value:
            reading.add(name, value, typed)
        elif place < len(words) and _is_value(words[place], name, facts):
            values = _values(words[place:], name, facts)
            reading.add(name, values[0] if len(values) == 1 else values, typed)
            place += len(values)
        else:
            is_short = facts is not None and name != spelling(typed) and facts.needs_value(name)
            reading.add(spelling(typed) if is_short else name, True, typed)
        named |= name in {"--model", "-m"}


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


# ---- functions that read JSON and YAML


def _repeated(node: yaml.Node) -> Iterator[str]:
    """Yield the keys that a mapping, or a mapping inside it, contains more than once."""
    if isinstance(node, yaml.MappingNode):
        keys = [str(key.value) for key, _ in node.value]
        yield from sorted({key for key in keys if keys.count(key) > 1})
    if isinstance(node, yaml.CollectionNode):
        for each in node.value:
            for inner in each if isinstance(each, tuple) else (each,):
                yield from _repeated(inner)


_UNREPORTED_KEYS = {
    *("image", "entrypoint", "command", "cmd", "args", "env", "environment"),
    # Keys that the manifest of specviz contains as well, with its own values. If the user's file
    # has them, they are not listed as left out.
    *("apiVersion", "kind", "name"),
}


def _yaml_mappings(text: str, reading: _Reading) -> list[dict[str, Any]]:
    """Return the YAML documents that are mappings. For other texts, the list is empty.

    Raises InputError for aliases, because with aliases a few lines can mean any number of values.
    """
    if not re.search(r"^ *-? *[\w.\"'-]+ *:(\s|$)", text, re.MULTILINE):
        return []
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InputError("the text must not have YAML aliases (*name): write each value out")
        documents = list(yaml.safe_load_all(text))
        for node in yaml.compose_all(text, yaml.SafeLoader):
            reading.again(_repeated(node))
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        return []
    return [each for each in documents if isinstance(each, dict)]


def _read_data(data: Mapping[Any, Any], reading: _Reading) -> None:
    """Read a configuration file, vLLM's JSON value for speculation, or a container's command."""
    is_manifest = bool({"apiVersion", "services"} & data.keys()) or {"kind", "spec"} <= data.keys()
    reading.is_manifest |= is_manifest
    containers, unnamed = list(_containers(data, is_manifest)), []
    for words in containers:
        reading.variables |= {each for word in words for each in variables(word)}
        unnamed.append(_read_words(words, reading))
    for words in unnamed:
        if words and words[0].startswith("-") and reading.engine is None:
            note = "the file names no engine; its flags are read for the engine that has them"
            reading.passed_over.append(note)
            _read_flags(words, None, reading)
    if containers or is_manifest:
        left = dict.fromkeys(_left_out(data) if containers else [str(data.get("kind", "services"))])
        if left and reading.flags:
            note = "only the engine's command and variables are read from the file"
            reading.passed_over.append(f"{note}; left out: {', '.join(left)}")
        return
    of_speculation = data.get("speculative_config")
    if isinstance(of_speculation, dict) and "decoding_type" in of_speculation:
        reading.other = "TensorRT-LLM", "TensorRT-LLM"
        return
    keys = {str(key).replace("-", "_") for key in data}
    inner = {key.removeprefix(SPECULATIVE) for key in engines()["vllm"].current}
    inner |= engines()["vllm"].speculative_fields()
    is_inner = "num_speculative_tokens" in keys and keys <= inner
    if is_inner or "method" in keys:
        reading.engine = "vllm"
        reading.add("--speculative-config", dict(data))
        return
    names = {key: f"--{str(key).lstrip('-').replace('_', '-')}" for key in data}
    facts = engines().get(reading.engine or _engine_of(names.values()) or "")
    for key, name in names.items():
        reading.add(facts.full_name(name) if facts else name, data[key], str(key))


def _containers(data: Any, is_manifest: bool = False) -> Iterator[list[str]]:
    """Yield the words of each container's command, anywhere in a manifest or compose file.

    The words of one command are the container's environment variables, the program and its
    arguments. If the arguments name no engine, the image comes before them, because its name may
    say which engine it starts. A container in a manifest may have flags but neither an image nor a
    program, because another file names the image; its words are then the variables and the flags.
    """
    if isinstance(data, list):
        for each in data:
            yield from _containers(each, is_manifest)
    if not isinstance(data, dict):
        return
    image = data.get("image")
    parts = (data.get(key) for key in ("entrypoint", "command", "cmd", "args"))
    words = [word for part in parts if part for word in _as_words(part)]
    starts_itself = inner_script(words) is not None or _engine_word(words)[1] is not None
    if is_manifest and image is None and words and words[0].startswith("--"):
        yield [*_settings(data), *words]
        return
    if isinstance(image, str) or starts_itself:
        yield [*_settings(data), *(words if starts_itself else [str(image), *words])]
        return
    for value in data.values():
        yield from _containers(value, is_manifest)


def _settings(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield a container's environment variables as NAME=value."""
    for part in (container.get("environment"), container.get("env")):
        if isinstance(part, dict):
            yield from (f"{name}={value}" for name, value in part.items())
        for each in part if isinstance(part, list) else ():
            is_pair = isinstance(each, dict)
            yield f"{each.get('name')}={each.get('value', '')}" if is_pair else str(each)


def _left_out(data: Any) -> Iterator[str]:
    """Yield the keys of a manifest or compose file that are not part of a container's command."""
    if isinstance(data, list):
        for each in data:
            yield from _left_out(each)
    for key, value in data.items() if isinstance(data, dict) else ():
        if key == "metadata" and isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)
        elif any(_containers(value, is_manifest=True)):
            yield from _left_out(value)
        elif key not in _UNREPORTED_KEYS:
            yield str(key)


def _as_words(part: Any) -> list[str]:
    if isinstance(part, str):
        return _words(part)
    return [str(each) for each in part] if isinstance(part, list) else []


# ---- functions that read Python code

_CALLS = {
    **dict.fromkeys(("LLM", "EngineArgs", "AsyncEngineArgs"), "vllm"),
    **dict.fromkeys(("Engine", "ServerArgs", "Runtime"), "sglang"),
    **dict.fromkeys(("Llama", "LlamaPromptLookupDecoding"), "llama.cpp"),
    **dict.fromkeys(("generate", "GenerationConfig", "pipeline"), "transformers"),
    "SamplingParams": "vllm",
}
_FLAGS_OF_CALL = {"LLM", "EngineArgs", "AsyncEngineArgs", "Engine", "ServerArgs", "Runtime"}
_DRAFT = "assistant_model"
_LOADED = "from_pretrained"
# The largest number of names and calls that are followed from a model back to the call that loaded
# it.
_LONGEST_CHAIN = 8


def _syntax_tree(text: str) -> ast.Module | None:
    """Return the syntax tree of a text, or None if it is not Python code with calls or imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    kinds = (ast.Call, ast.Import, ast.ImportFrom)
    return tree if any(isinstance(node, kinds) for node in ast.walk(tree)) else None


class _PythonReader:
    """Reads the calls of engines in Python code.

    Names are replaced by the values that were assigned to them.
    """

    def __init__(self, reading: _Reading, tree: ast.Module) -> None:
        self._reading, self._tree = reading, tree
        self._values: dict[str, ast.expr] = {}
        self._put_in = 0  # total number of characters of the values that have replaced names so far

    def read(self) -> None:
        nodes = list(ast.walk(self._tree))
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
        imported = {name for node in nodes for name in _imports(node)}
        self._find_engine(imported)
        if self._reading.engine is None and (other := other_module(imported))[0]:
            self._reading.other = other
            return
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
        removed = {
            name for facts in engines().values() for name in facts.older if name[0].isupper()
        }
        named = imported | {node.id for node in nodes if isinstance(node, ast.Name)}
        for name in sorted(removed & named):
            self._reading.add(name, True)

    def _find_engine(self, imported: set[str]) -> None:
        for facts in engines().values():
            if any(name.split(".")[0] in facts.words for name in imported):
                self._reading.engine = self._reading.engine or facts.name
                return

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        """Store the value that the code assigns to a name.

        If the code assigns it to a parameter of llama.cpp, such as `params.n_ctx`, add a flag.
        """
        if isinstance(target, ast.Name):
            self._values[target.id] = value
        elif isinstance(target, ast.Attribute):
            path = ast.unparse(target).split(".", 1)[1]
            # The code sets a field of a transformers model, such as
            # assistant.generation_config.num_assistant_tokens.
            if path in engines()["transformers"].older:
                self._reading.add(path, self._value(value), ast.unparse(target))
                return
            known = {flag.python: flag.name for flag in engines()["llama.cpp"].flags}
            if path in known:
                self._reading.add(known[path], self._value(value), path)

    def _call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        engine = _CALLS.get(name)
        if engine is None or (name == "generate" and not _speculates(node)):
            return
        if name not in {"SamplingParams", "LlamaPromptLookupDecoding"}:
            self._reading.engine = self._reading.engine or engine
        keys = {each.arg for each in node.keywords}
        if name in _FLAGS_OF_CALL and (node.args or keys & {"model", "model_path"}):
            self._reading.commands.append(engine)
        if name in _FLAGS_OF_CALL and node.args:
            self._reading.add("--model", self._value(node.args[0]), "model")
        if name == "generate" and isinstance(node.func, ast.Attribute):
            self._reading.add("generate.model", self._value(node.func.value), "model")
        holder = "generate" if name == "GenerationConfig" else name
        for key, value in self._keywords(node):
            if name in _FLAGS_OF_CALL:
                self._reading.add(f"--{key.replace('_', '-')}", value, key)
            elif f"{holder}.{key}" in engines()[engine].older:
                self._reading.add(f"{holder}.{key}", value, key)
        if engine == "transformers":
            if isinstance(node.func, ast.Attribute):
                self._loading(node.func.value, "target")
            for each in node.keywords:
                if each.arg in {"model", _DRAFT}:
                    self._loading(each.value, "draft" if each.arg == _DRAFT else "target")

    def _loading(self, node: ast.expr, role: str) -> None:
        """Store how a model was loaded: the dtype and the format of its weights.

        `node` is an expression for the model. Names and calls are followed back to
        `from_pretrained`.
        """
        for _ in range(_LONGEST_CHAIN):
            if isinstance(node, ast.Name) and node.id in self._values:
                node = self._values[node.id]
            elif isinstance(node, ast.Call) and _last_name(node.func) == _LOADED:
                self._loaded(node, role)
                return
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                # A method such as .to("cuda") returns the same model, so look for the call that
                # loaded the object of the method.
                node = node.func.value
            else:
                return

    def _loaded(self, node: ast.Call, role: str) -> None:
        for each in node.keywords:
            if each.arg == "quantization_config":
                inner = self._stands_for(each.value)
                if isinstance(inner, ast.Call) and _last_name(inner.func) == "BitsAndBytesConfig":
                    self._loaded(inner, role)
                else:
                    self._reading.add(f"{role}.{each.arg}", ast.unparse(inner), each.arg)
            elif f"{role}.{each.arg}" in engines()["transformers"].older:
                self._reading.add(f"{role}.{each.arg}", self._value(each.value), each.arg)

    def _stands_for(self, node: ast.expr) -> ast.expr:
        """Return the expression that the code assigned to the name `node`.

        Return any other expression unchanged.
        """
        if not isinstance(node, ast.Name) or node.id not in self._values:
            return node
        value = self._values[node.id]
        self._put_in += len(ast.unparse(value))
        if self._put_in > MAX_TEXT:
            raise InputError(
                f"the values that the text assigns to names must have at most {MAX_TEXT} characters"
            )
        return value

    def _keywords(self, node: ast.Call) -> Iterable[tuple[str, Any]]:
        for each in node.keywords:
            value = self._value(each.value)
            if each.arg is not None:
                yield each.arg, value
            elif isinstance(value, dict):  # the argument is a whole dictionary, such as **settings
                yield from ((str(key), inner) for key, inner in value.items())

    def _value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression: a literal, an assigned value, or a model's name.

        If the value cannot be found, return the source text of the expression.
        """
        if isinstance(node, ast.Name) and node.id in self._values and depth < _LONGEST_CHAIN:
            return self._value(self._stands_for(node), depth + 1)
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return {
                str(self._value(key, depth)): self._value(value, depth)
                for key, value in pairs
                if key is not None
            }
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(each, depth) for each in node.elts]
        if isinstance(node, ast.Call):
            return self._of_call(node, depth)
        if isinstance(node, ast.Attribute) and node.attr.startswith("COMMON_SPECULATIVE_TYPE_"):
            kind = node.attr.removeprefix("COMMON_SPECULATIVE_TYPE_")
            return kind.lower().replace("_", "-")
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch":
            return node.attr  # the attribute is a dtype, such as torch.float16
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            return SourceText(ast.unparse(node))

    def _of_call(self, node: ast.Call, depth: int) -> Any:
        name = _last_name(node.func)
        if name == "dict":
            return dict(self._keywords(node))
        if name in {"dumps", "from_pretrained", "to", "cuda", "eval", "half", "str", "Path"}:
            if name in {"to", "cuda", "eval", "half"} and isinstance(node.func, ast.Attribute):
                return self._value(node.func.value, depth)
            if node.args:
                return self._value(node.args[0], depth)
        return SourceText(ast.unparse(node))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _speculates(node: ast.Call) -> bool:
    older = engines()["transformers"].older
    older_flags = (older.get(f"generate.{each.arg}") for each in node.keywords)
    return any(
        old is not None and old.field not in {"", "assistant_tokenizer"} for old in older_flags
    )


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (alias.name for alias in node.names)


# ---- functions that find out which engine the flags belong to


def _engine_of(names: Iterable[str], is_shell: bool = False) -> str | None:
    """Return the engine that knows most of the flags, old or new, or None if none does.

    In a shell script, flags that many programs have, such as --model and -m, do not count.
    """
    spelled = list(names)

    def known(facts: EngineFacts) -> float:
        table = facts.current.keys() | facts.older.keys()
        fields = _USUAL if is_shell else ()
        usual = {name for flag in facts.flags if flag.field in fields for name in _names(flag)}
        usual |= {facts.long_name(name) for name in usual}
        count = sum(name in table and facts.long_name(name) not in usual for name in spelled)
        return count + sum(facts.knows(facts.long_name(name)) for name in spelled) / 1000

    best = max(engines().values(), key=known)
    return best.name if known(best) >= 1 else None


_USUAL = ("target", "port")  # fields that flags of many other programs set as well


def _names(flag: EngineFlag) -> tuple[str, ...]:
    return (flag.name, *flag.aliases)
