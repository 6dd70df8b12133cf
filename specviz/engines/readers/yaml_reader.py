"""Read a configuration file, a manifest or a compose file in YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from specviz.engines.readers.found_flags import FoundFlags
from specviz.engines.readers.mapping_reader import read_mapping
from specviz.errors import InputError


def _repeated(node: yaml.Node) -> Iterator[str]:
    """Yield the keys that a mapping, or a mapping inside it, contains more than once."""
    if isinstance(node, yaml.MappingNode):
        keys = [str(key.value) for key, _ in node.value]
        yield from sorted({key for key in keys if keys.count(key) > 1})
    if isinstance(node, yaml.CollectionNode):
        for each in node.value:
            for inner in each if isinstance(each, tuple) else (each,):
                yield from _repeated(inner)


def read_yaml(text: str, found: FoundFlags) -> bool:
    """Read the YAML documents that are mappings. Return False if the text has none.

    Raises InputError for aliases, because with aliases a few lines can mean any number of values.
    """
    if not re.search(r"^ *-? *[\w.\"'-]+ *:(\s|$)", text, re.MULTILINE):
        return False
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise InputError("the text must not have YAML aliases (*name): write each value out")
        documents = list(yaml.safe_load_all(text))
        for node in yaml.compose_all(text, yaml.SafeLoader):
            found.again(_repeated(node))
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        return False
    mappings = [each for each in documents if isinstance(each, dict)]
    for each in mappings:
        read_mapping(each, found)
    return bool(mappings)
