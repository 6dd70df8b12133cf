"""Which pairs of target and draft there are: the bundled one and presets from the Hub.

Knows nothing of loading. A pair only names two sources.
"""

from __future__ import annotations

from pathlib import Path

from specviz.errors import InputError
from specviz.models.pair import Pair as Pair
from specviz.models.presets import PRESETS
from specviz.settings import Settings

BUNDLED = "bundled"


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
        model_type="llama",
        medusa=_part(folder / "medusa"),
        eagle=_part(folder / "eagle"),
        foreign_draft=_part(folder / "foreign-draft"),
    )
    return (bundled, *PRESETS)


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
