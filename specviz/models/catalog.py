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
    """A target and what can be beside it, each a folder or a Hub id ("": none).

    `name` is typed, `title` is shown. `model_type` is the target's architecture in the words of its
    configuration, for what must be known before a download ("": look there).
    """

    name: str
    title: str
    target: str
    draft: str
    note: str = ""
    medusa: str = ""
    eagle: str = ""
    foreign_draft: str = ""
    model_type: str = ""


_HUB_PAIRS = (
    Pair(
        "smollm2",
        "SmolLM2 360M and 135M",
        "HuggingFaceTB/SmolLM2-360M",
        "HuggingFaceTB/SmolLM2-135M",
        "Readable English on a laptop; 2 GB in float32.",
        model_type="llama",
    ),
    Pair(
        "gpt2",
        "GPT-2 medium and DistilGPT-2",
        "openai-community/gpt2-medium",
        "distilbert/distilgpt2",
        "The classic with learned positions; 1.7 GB in float32.",
        model_type="gpt2",
    ),
    Pair(
        "pythia",
        "Pythia 410M and 70M",
        "EleutherAI/pythia-410m",
        "EleutherAI/pythia-70m",
        "A draft nearly six times smaller; 1.9 GB in float32.",
        model_type="gpt_neox",
    ),
    Pair(
        "qwen3",
        "Qwen3 1.7B and 0.6B",
        "Qwen/Qwen3-1.7B-Base",
        "Qwen/Qwen3-0.6B-Base",
        "For a GPU; 4.7 GB in bfloat16.",
        model_type="qwen3",
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
        medusa=_part(folder / "medusa"),
        eagle=_part(folder / "eagle"),
        foreign_draft=_part(folder / "foreign-draft"),
    )
    return (bundled, *_HUB_PAIRS)


def _part(folder: Path) -> str:
    return str(folder) if folder.is_dir() else ""


def pair_named(name: str) -> Pair:
    """The pair of that name; InputError lists the names there are."""
    for pair in pairs():
        if pair.name == name:
            return pair
    names = ", ".join(pair.name for pair in pairs())
    raise InputError(f"pair must be one of {names}, got {name!r}")


def custom_pair(target: str, draft: str) -> Pair:
    """A pair of any two sources; the draft may also have a vocabulary of its own."""
    for role, source in (("target", target), ("draft", draft)):
        if not source.strip():
            raise InputError(f"{role} must be a model folder or a Hub id, got {source!r}")
    target, draft = target.strip(), draft.strip()
    return Pair("custom", f"{target} and {draft}", target, draft, foreign_draft=draft)
