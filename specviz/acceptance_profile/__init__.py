"""The loss of acceptance over many runs, by token class, depth, position, certainty and prompt."""

from specviz.acceptance_profile.profile import (
    EXAMPLES,
    OPEN_PROMPTS,
    TITLES,
    AcceptanceProfile,
    AcceptanceProfiler,
    acceptance_profile,
)

__all__ = [
    "AcceptanceProfile",
    "AcceptanceProfiler",
    "EXAMPLES",
    "OPEN_PROMPTS",
    "TITLES",
    "acceptance_profile",
]
