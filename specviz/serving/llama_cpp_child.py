"""The process in which llama.cpp's server runs; its parent is `engine_process`.

It ends with whoever started it: its standard input closes then.
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
    """Serve what the first line of stdin orders until stdin ends; the address goes to stdout.

    The order has paths of `xllamacpp.CommonParams` and their values.
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
    os._exit(0)  # its threads would wait for requests that nobody sends


if __name__ == "__main__":
    main()
