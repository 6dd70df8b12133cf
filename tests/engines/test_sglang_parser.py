"""sglang.toml lists exactly the flags of SGLang's own parser.

The test needs a Python environment with SGLang; the variable SPECVIZ_SGLANG_PYTHON names its
Python. The wheel and its imports are enough: pip install --no-deps sglang==0.5.23, then msgspec,
orjson, pybase64, triton and the modules that it reports missing. No GPU is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from specviz.engines import engine_registry

PYTHON = os.environ.get("SPECVIZ_SGLANG_PYTHON")
FILE = Path(engine_registry.__file__).parent / "sglang" / "sglang.toml"
KINDS = ("negatable", "switches", "several", "flags")


@pytest.mark.skipif(PYTHON is None, reason="SPECVIZ_SGLANG_PYTHON names no python with SGLang")
def test_the_table_has_every_flag_of_sglang_and_no_other() -> None:
    assert PYTHON is not None
    script = Path(__file__).with_name("sglang_parser.py")
    ran = subprocess.run(
        [PYTHON, str(script), "--json"], capture_output=True, text=True, check=True
    )
    read = json.loads(ran.stdout.splitlines()[-1])
    ours = tomllib.loads(FILE.read_text(encoding="utf-8"))
    assert ours["version"] == read["version"]
    for kind in KINDS:
        assert sorted(ours["known"][kind].split()) == read[kind], kind
    assert ours["deprecated"] == read["deprecated"]
