"""Which servers a page may ask for its visitors: in public the owner's, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.serving.engine_address import EngineAddress

LONGEST_KEY = 1_000


def permitted(url: Any, key: Any) -> EngineAddress:
    """Where a visitor's question goes, with the key that it takes; InputError where it may not.

    The owner's key goes to the owner's servers alone, and where the visitor gives none.
    """
    environment = Environment.read()
    if not isinstance(url, str) or not url.strip():
        raise InputError("url must be the address of a server, such as http://127.0.0.1:8000")
    is_key = isinstance(key, str) and len(key) <= LONGEST_KEY
    if not is_key or any(not "!" <= each <= "~" for each in key):
        raise InputError("key must be printable ASCII without spaces, got something else")
    address, allowed = EngineAddress.of(url, key), _allowed(environment)
    if str(address) in allowed:
        return replace(address, key=key or environment.engine_key)
    if environment.is_public:
        named = f"one of {', '.join(allowed)}" if allowed else "none, for its owner names none"
        raise InputError(f"url must be, on this public page, {named}, got {short(url)}")
    return address


def permitted_addresses() -> list[str] | None:
    """Those of the owner where the page is public, None where every address may be asked.

    InputError for an address of the owner's that is none.
    """
    environment = Environment.read()
    allowed = _allowed(environment)
    return allowed if environment.is_public else None


def _allowed(environment: Environment) -> list[str]:
    try:
        return [str(EngineAddress.of(each)) for each in environment.allowed_engines]
    except InputError as error:
        told = str(error).removeprefix("url ")
        raise InputError(f"SPECVIZ_ENGINES_ALLOWED, each of its addresses, {told}") from None
