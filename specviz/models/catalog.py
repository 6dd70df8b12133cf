"""Which pairs of target and draft there are: the bundled one and presets from the Hub.

Knows nothing of loading. A pair only names two sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specviz.errors import InputError
from specviz.settings import Settings

BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and its draft, each a folder or a Hub id; `name` is typed, `title` is shown."""

    name: str
    title: str
    target: str
    draft: str
    note: str = ""


_HUB_PAIRS = (
    Pair(
        "smollm2",
        "SmolLM2 360M and 135M",
        "HuggingFaceTB/SmolLM2-360M",
        "HuggingFaceTB/SmolLM2-135M",
        "Readable English on a laptop; 2 GB in float32.",
    ),
    Pair(
        "gpt2",
        "GPT-2 medium and DistilGPT-2",
        "openai-community/gpt2-medium",
        "distilbert/distilgpt2",
        "The classic with learned positions; 1.7 GB in float32.",
    ),
    Pair(
        "pythia",
        "Pythia 410M and 70M",
        "EleutherAI/pythia-410m",
        "EleutherAI/pythia-70m",
        "A draft nearly six times smaller; 1.9 GB in float32.",
    ),
    Pair(
        "qwen3",
        "Qwen3 1.7B and 0.6B",
        "Qwen/Qwen3-1.7B-Base",
        "Qwen/Qwen3-0.6B-Base",
        "For a GPU; 4.7 GB in bfloat16.",
    ),
)


def models_folder(settings: Settings | None = None) -> Path:
    """The folder of the bundled models: SPECVIZ_MODELS, or assets/models of the repository."""
    chosen = (settings or Settings.from_environment()).models_folder
    return chosen or Path(__file__).resolve().parents[2] / "assets" / "models"


def pairs() -> tuple[Pair, ...]:
    """Every pair that has a name, the bundled one first."""
    folder = models_folder()
    bundled = Pair(
        BUNDLED,
        "Bundled pair",
        str(folder / "target"),
        str(folder / "draft"),
        "Comes with the app; needs no download.",
    )
    return (bundled, *_HUB_PAIRS)


def pair_named(name: str) -> Pair:
    """The pair of that name; InputError lists the names there are."""
    for pair in pairs():
        if pair.name == name:
            return pair
    names = ", ".join(pair.name for pair in pairs())
    raise InputError(f"pair must be one of {names}, got {name!r}")


def custom_pair(target: str, draft: str) -> Pair:
    """A pair of any two sources."""
    for role, source in (("target", target), ("draft", draft)):
        if not source.strip():
            raise InputError(f"{role} must be a model folder or a Hub id, got {source!r}")
    target, draft = target.strip(), draft.strip()
    return Pair("custom", f"{target} and {draft}", target, draft)
