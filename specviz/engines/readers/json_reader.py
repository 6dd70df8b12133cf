"""Read a configuration file, or an engine's single object for speculation, in JSON."""

from __future__ import annotations

from specviz.engines.readers.found_flags import FoundFlags
from specviz.engines.readers.mapping_reader import read_mapping
from specviz.errors import InputError


def read_json(text: str, found: FoundFlags) -> InputError | None:
    """Read a JSON object. Return the reason if the text is none: it may have another form."""
    try:
        data = found.object_of("the text", text)
    except InputError as error:
        return error
    read_mapping(data, found)
    return None
