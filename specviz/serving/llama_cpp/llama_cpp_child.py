"""The process in which the llama.cpp server runs. `llama_cpp_process` starts it.

It ends when its parent ends, because its standard input is closed then.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_ENUMS = {
    "cache_type_k": "ggml_type",
    "cache_type_v": "ggml_type",
    "flash_attn_type": "llama_flash_attn_type",
}


def main() -> None:
    """Start a server with the settings in the first line of stdin, and print its address.

    The settings map paths in `xllamacpp.CommonParams` to values. The server runs until stdin is
    closed.
    """
    import xllamacpp

    params: Any = xllamacpp.CommonParams()
    for path, value in json.loads(sys.stdin.readline()).items():
        *way, name = path.split(".")
        if name == "types":
            value = [getattr(xllamacpp.common_speculative_type, value)]
        elif name in _ENUMS:
            value = getattr(getattr(xllamacpp, _ENUMS[name]), value)
        place = params
        for step in way:
            place = getattr(place, step)
        setattr(place, name, value)
    server = xllamacpp.Server(params)
    print(json.dumps({"url": server.listening_address}), flush=True)
    sys.stdin.read()
    os._exit(0)  # a normal exit would wait for the server's threads forever


if __name__ == "__main__":
    main()
