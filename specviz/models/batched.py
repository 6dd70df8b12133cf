"""Whether a model can run rows of different lengths in one forward.

Knows nothing of how it does that.
"""

from __future__ import annotations

from typing import cast

from specviz.models.language_model import BatchedModel, LanguageModel
from specviz.models.spread_model import SpreadModel


def as_batched(model: LanguageModel) -> BatchedModel | None:
    """The model, or None where rows have to run one by one: on several devices, for one."""
    can = hasattr(model, "forward_rows") and not isinstance(model, SpreadModel)
    return cast(BatchedModel, model) if can else None
