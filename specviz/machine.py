"""The processor's name and specviz's version, to store with a measurement."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

from specviz import __version__

_CPU_FACTS = Path("/proc/cpuinfo")
_ROOT = Path(__file__).parent.parent


@cache
def processor_name() -> str:
    """Return the processor's name as the operating system reports it."""
    try:
        lines = _CPU_FACTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@cache
def version() -> str:
    """Return specviz's version, in a clone with the commit: `0.1.0 (1a2b3c4d, changed)`.

    "changed" means that files of the clone differ from that commit.
    """
    if not (_ROOT / ".git").exists():
        return __version__
    commit, changes = _git("rev-parse", "--short=8", "HEAD"), _git("status", "--porcelain", "-uno")
    if not commit:
        return __version__
    return f"{__version__} ({commit}{', changed' if changes else ''})"


def _git(*arguments: str) -> str:
    """Run git and return what it prints, or "" if git is missing or fails."""
    command = ("git", "-C", str(_ROOT), *arguments)
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
