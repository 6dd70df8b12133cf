"""Find the commands of containers in the data of a Kubernetes manifest or a compose file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.engines.readers.engine_words import engine_word
from specviz.engines.readers.shell_reader import split_words
from specviz.engines.shell_text import inner_script

_UNREPORTED_KEYS = {
    *("image", "entrypoint", "command", "cmd", "args", "env", "environment"),
    # Keys that the manifest of specviz contains as well, with its own values. If the user's file
    # has them, they are not listed as left out.
    *("apiVersion", "kind", "name"),
}


def container_commands(data: Any, is_manifest: bool = False) -> Iterator[list[str]]:
    """Yield the words of each container's command, anywhere in a manifest or compose file.

    The words of one command are the container's environment variables, the program and its
    arguments. If the arguments name no engine, the image comes before them, because its name may
    say which engine it starts. A container in a manifest may have flags but neither an image nor a
    program, because another file names the image; its words are then the variables and the flags.
    """
    if isinstance(data, list):
        for each in data:
            yield from container_commands(each, is_manifest)
    if not isinstance(data, dict):
        return
    image = data.get("image")
    parts = (data.get(key) for key in ("entrypoint", "command", "cmd", "args"))
    words = [word for part in parts if part for word in _as_words(part)]
    starts_itself = inner_script(words) is not None or engine_word(words)[1] is not None
    if is_manifest and image is None and words and words[0].startswith("--"):
        yield [*_settings(data), *words]
        return
    if isinstance(image, str) or starts_itself:
        yield [*_settings(data), *(words if starts_itself else [str(image), *words])]
        return
    for value in data.values():
        yield from container_commands(value, is_manifest)


def _settings(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield a container's environment variables as NAME=value."""
    for part in (container.get("environment"), container.get("env")):
        if isinstance(part, dict):
            yield from (f"{name}={value}" for name, value in part.items())
        for each in part if isinstance(part, list) else ():
            is_pair = isinstance(each, dict)
            yield f"{each.get('name')}={each.get('value', '')}" if is_pair else str(each)


def unread_keys(data: Any) -> Iterator[str]:
    """Yield the keys of a manifest or compose file that are not part of a container's command."""
    if isinstance(data, list):
        for each in data:
            yield from unread_keys(each)
    for key, value in data.items() if isinstance(data, dict) else ():
        if key == "metadata" and isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)
        elif any(container_commands(value, is_manifest=True)):
            yield from unread_keys(value)
        elif key not in _UNREPORTED_KEYS:
            yield str(key)


def _as_words(part: Any) -> list[str]:
    if isinstance(part, str):
        return split_words(part)
    return [str(each) for each in part] if isinstance(part, list) else []
