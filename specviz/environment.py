"""The environment variables that specviz reads, and the one place that reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from specviz.errors import InputError, read_whole

_YES = frozenset({"1", "on", "true", "yes"})
_NO = frozenset({"0", "off", "false", "no"})
PUBLIC_CACHE_GB = 40  # of downloads, where the page is public


@dataclass(frozen=True, slots=True)
class Environment:
    """What the environment variables say.

    HOST, PORT: where the page is served. SPECVIZ_MODELS: folder of the bundled models (holds
    `target` and `draft`; None: what comes with specviz). SPECVIZ_THREADS: torch threads (0: by the
    size of the model). SPECVIZ_MAX_MODEL_GB: the largest download from the Hub. HF_HUB_OFFLINE:
    never ask the Hub. SPECVIZ_CUDA_GRAPHS: whether steps on a GPU are recorded and replayed.
    SPECVIZ_CACHE: where a chat model is kept that is not from the Hub. SPECVIZ_PAIR: the pair that
    page and commands begin with ("": the chat model where it is on this machine, else the bundled
    one). SPACES_ZERO_GPU: set on a Space whose GPU is lent by the call. SPECVIZ_PUBLIC: strangers
    reach the page, as they do by default on a Hugging Face Space (SPACE_ID): only the models that
    the app offers are run. SPECVIZ_MODELS_ALLOWED: Hub ids and folders that the owner offers beside
    them, separated by commas. SPECVIZ_HUB_CACHE_GB: what downloads may take on the disk, the one
    unused for longest goes first (0: no limit, the default where the page is not public: the folder
    may be that of other programs, too). SPECVIZ_ENGINE_KEY: what a serving engine wants to be sent
    as its key; it is in no text that is shown. SPECVIZ_ENGINES_ALLOWED: addresses of serving
    engines, separated by commas, that a public page may ask.
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
    allowed_engines: tuple[str, ...] = ()

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Environment:
        """Read the process's environment (or the mapping given); InputError for a bad value."""
        source = os.environ if variables is None else variables
        folder = source.get("SPECVIZ_MODELS", "").strip()
        cache = source.get("SPECVIZ_CACHE", "").strip()
        is_space = bool(source.get("SPACE_ID", "").strip())
        is_public = _switch(source, "SPECVIZ_PUBLIC", is_space)
        return cls(
            host=source.get("HOST", "").strip() or cls().host,
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
            allowed_engines=_names(source, "SPECVIZ_ENGINES_ALLOWED"),
        )


def _integer(source: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = source.get(name, "").strip()
    return read_whole(text, name, low, high) if text else default


def _names(source: Mapping[str, str], name: str) -> tuple[str, ...]:
    """What is separated by commas, each once."""
    parts = (part.strip() for part in source.get(name, "").split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


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


SPINS = "2000"  # about what the small operations between two products take


def let_threads_sleep() -> None:
    """Have OpenMP threads that wait spin for a moment only, unless the environment says otherwise.

    Spinning ones take a busy machine's cores from each other: a race became 13 times slower beside
    another program. Ones that sleep at once have to be woken for every product. Of the chat model
    with its copy in int4, on two threads, tokens per second on quiet cores and with one of the two
    cores taken: 30 and 31 asleep at once, 45 and 21 with so many spins, 51 and 8 with ten times as
    many. Must run before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def silence_profiler() -> None:
    """Keep torch's profiler from writing its own start and stop on stderr.

    Must run before the first profile.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
