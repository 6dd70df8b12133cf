"""The environment variables of specviz. No other module reads environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from specviz.errors import InputError, read_whole

_YES = frozenset({"1", "on", "true", "yes"})
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_NO = frozenset({"0", "off", "false", "no"})
# The default limit in GB for all downloaded models on disk together, if the page is public.
PUBLIC_CACHE_GB = 40


@dataclass(frozen=True, slots=True)
class Environment:
    """The values of the environment variables.

    | variable | meaning |
    |---|---|
    | HOST, PORT | address of the page (default 127.0.0.1 and 7860) |
    | GRADIO_SERVER_NAME | address of the page if HOST is not set |
    | SPECVIZ_MODELS | folder with `target` and `draft`, to replace the bundled models |
    | SPECVIZ_THREADS | torch threads (0: chosen by the size of the model) |
    | SPECVIZ_MAX_MODEL_GB | limit in GB for the weights of one model from the Hub (default 20) |
    | HF_HUB_OFFLINE | 1: never send requests to the Hub (default 0) |
    | SPECVIZ_CUDA_GRAPHS | capture forward passes on a GPU as graphs and replay them (default 1) |
    | SPECVIZ_CACHE | folder of an unpacked chat model, and of measured times of matrix kernels
      (default ~/.cache/specviz) |
    | SPECVIZ_PAIR | default pair ("": the chat model if downloaded, otherwise the bundled pair) |
    | SPACES_ZERO_GPU | set on a Space that lends its GPU for single calls |
    | SPACE_ID | set on a Hugging Face Space |
    | SPECVIZ_PUBLIC | anyone can open the page (default on a Space): only offered models may run |
    | SPECVIZ_MODELS_ALLOWED | more Hub ids and folders that the owner offers, comma-separated |
    | SPECVIZ_HUB_CACHE_GB | limit in GB for all downloads on disk together (0: no limit; default 40
      if the page is public, otherwise 0); the page deletes the least recently used |
    | SPECVIZ_ENGINE_KEY | key for serving engines; it is never shown |
    | SPECVIZ_ENGINES_ALLOWED | addresses of engines that a public page may contact, comma-separated
    |
    | SPECVIZ_HOSTS | host names of the page besides localhost and this machine, comma-separated |
    | SPACE_HOST | host name of a Space, set by the Space |
    | SPECVIZ_MEMORY | `small`: keep every weight matrix once, even if a second layout were faster |

    SPECVIZ_HUB_CACHE_GB is 0 by default if the page is not public, because other programs may use
    the same folder. A public page checks host names only if SPECVIZ_HOSTS is set.
    """

    host: str = "127.0.0.1"
    port: int = 7860
    models_folder: Path | None = None
    threads: int = 0
    max_model_gb: int = 20
    hub_offline: bool = False
    cuda_graphs: bool = True
    cache_folder: Path = Path.home() / ".cache" / "specviz"
    pair: str = ""
    zero_gpu: bool = False
    is_space: bool = False
    is_public: bool = False
    allowed_models: tuple[str, ...] = ()
    hub_cache_gb: int = 0
    engine_key: str = field(default="", repr=False)
    small_memory: bool = False
    allowed_engines: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    space_host: str = ""

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Environment:
        """Read the values from the process's environment variables, or from the given mapping.

        Raises InputError for a bad value.
        """
        source = os.environ if variables is None else variables
        folder = source.get("SPECVIZ_MODELS", "").strip()
        cache = source.get("SPECVIZ_CACHE", "").strip()
        is_space = bool(source.get("SPACE_ID", "").strip())
        is_public = _switch(source, "SPECVIZ_PUBLIC", is_space)
        return cls(
            host=_first(source, "HOST", "GRADIO_SERVER_NAME") or cls().host,
            port=_integer(source, "PORT", cls().port, 0, 65535),
            models_folder=Path(folder).expanduser() if folder else None,
            threads=_integer(source, "SPECVIZ_THREADS", 0, 0, 1024),
            max_model_gb=_integer(source, "SPECVIZ_MAX_MODEL_GB", cls().max_model_gb, 1, 10_000),
            hub_offline=_switch(source, "HF_HUB_OFFLINE", cls().hub_offline),
            cuda_graphs=_switch(source, "SPECVIZ_CUDA_GRAPHS", cls().cuda_graphs),
            cache_folder=Path(cache).expanduser() if cache else cls().cache_folder,
            pair=source.get("SPECVIZ_PAIR", "").strip(),
            zero_gpu=_switch(source, "SPACES_ZERO_GPU", cls().zero_gpu),
            is_space=is_space,
            is_public=is_public,
            allowed_models=_names(source, "SPECVIZ_MODELS_ALLOWED"),
            hub_cache_gb=_integer(
                source, "SPECVIZ_HUB_CACHE_GB", PUBLIC_CACHE_GB if is_public else 0, 0, 100_000
            ),
            engine_key=_key(source, "SPECVIZ_ENGINE_KEY"),
            small_memory=_one_of(source, "SPECVIZ_MEMORY", ("full", "small")) == "small",
            allowed_engines=_names(source, "SPECVIZ_ENGINES_ALLOWED"),
            hosts=_hosts(source, "SPECVIZ_HOSTS"),
            space_host=next(iter(_hosts(source, "SPACE_HOST")), "") if is_space else "",
        )


def _first(source: Mapping[str, str], *names: str) -> str:
    """Return the value of the first of these variables that is not empty, or ""."""
    return next((text for name in names if (text := source.get(name, "").strip())), "")


def _integer(source: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = source.get(name, "").strip()
    return read_whole(text, name, low, high) if text else default


def _one_of(source: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Return the variable's value, which must be in `values`.

    The first of `values` is the default.
    """
    text = source.get(name, "").strip().lower() or values[0]
    if text not in values:
        raise InputError(f"{name} must be {' or '.join(values)}, got {source[name]!r}")
    return text


def _names(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    parts = (part.strip() for part in source.get(name, "").split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def _hosts(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the host names of a comma-separated list in lower case, without scheme and port."""
    hosts = tuple(each.lower() for each in _names(source, name))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise InputError(f"{name} must be host names such as example.org, got {host!r}")
    return hosts


def _key(source: Mapping[str, str], name: str) -> str:
    key = source.get(name, "").strip()
    if any(not "!" <= each <= "~" for each in key):
        raise InputError(f"{name} must be printable ASCII without spaces, got something else")
    return key


def _switch(source: Mapping[str, str], name: str, default: bool) -> bool:
    text = source.get(name, "").strip().lower()
    if not text:
        return default
    if text not in _YES | _NO:
        raise InputError(f"{name} must be 0 or 1, got {source[name]!r}")
    return text in _YES


# How often an idle thread checks for work before it sleeps. These checks take about as long as the
# small operations between two matrix multiplications.
SPINS = "2000"


def let_threads_sleep() -> None:
    """Let OpenMP threads sleep soon when they have no work.

    A thread without work first spins: it checks for work again and again before it sleeps. On a
    busy machine, spinning threads take CPU time from working threads: a race became 13 times slower
    when another program ran. But a thread that sleeps at once must be woken for every matrix
    multiplication, which takes time as well.

    The table shows tokens per second of the chat model with its int4 copy, on two threads:

    | spins | two idle cores | one of the two cores busy |
    |---|---|---|
    | 0 | 30 | 31 |
    | SPINS | 45 | 21 |
    | 10 * SPINS | 51 | 8 |

    A value of OMP_WAIT_POLICY or GOMP_SPINCOUNT that the user has set is kept. Call this function
    before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def silence_profiler() -> None:
    """Stop torch's profiler from printing to stderr when it starts and stops.

    Call this function before the first profile is recorded.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def without_hub() -> dict[str, str]:
    """Return the environment variables with which a child process never uses the Hub."""
    return {**os.environ, "HF_HUB_OFFLINE": "1"}
