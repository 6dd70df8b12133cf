"""Read the data of a JSON or YAML text: a configuration file, or the commands of containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.engines.engine_facts import SPECULATIVE
from specviz.engines.engine_registry import adapters, engines
from specviz.engines.readers.container_reader import container_commands, unread_keys
from specviz.engines.readers.engine_words import engine_of_flags
from specviz.engines.readers.found_flags import FoundFlags
from specviz.engines.readers.shell_reader import read_flags, read_words
from specviz.engines.shell_text import variables


def read_mapping(data: Mapping[Any, Any], found: FoundFlags) -> None:
    """Read a configuration file, an engine's object for speculation, or a container's command."""
    is_manifest = bool({"apiVersion", "services"} & data.keys()) or {"kind", "spec"} <= data.keys()
    found.is_manifest |= is_manifest
    containers, unnamed = list(container_commands(data, is_manifest)), []
    for words in containers:
        found.variables |= {each for word in words for each in variables(word)}
        unnamed.append(read_words(words, found))
    for words in unnamed:
        if words and words[0].startswith("-") and found.engine is None:
            note = "the file names no engine; its flags are read for the engine that has them"
            found.passed_over.append(note)
            read_flags(words, None, found)
    if containers or is_manifest:
        kind = str(data.get("kind", "services"))
        left = dict.fromkeys(unread_keys(data) if containers else [kind])
        if left and found.flags:
            note = "only the engine's command and variables are read from the file"
            found.passed_over.append(f"{note}; left out: {', '.join(left)}")
        return
    keys = {str(key).replace("-", "_") for key in data}
    for name, adapter in adapters().items():
        if adapter.is_speculation(keys):
            found.engine = name
            found.add("--speculative-config", dict(data))
            return
    names = {key: f"--{str(key).lstrip('-').replace('_', '-')}" for key in data}
    parts = (data[key] for key, name in names.items() if name == "--speculative-config")
    inner = [f"{SPECULATIVE}{key}" for each in parts if isinstance(each, dict) for key in each]
    facts = engines().get(found.engine or engine_of_flags([*names.values(), *inner]) or "")
    for key, name in names.items():
        found.add_setting(facts.full_name(name) if facts else name, data[key], str(key), facts)
