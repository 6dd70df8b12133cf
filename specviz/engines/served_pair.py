"""Facts about the target and the draft of a deployment that decide whether they fit together."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.engines.model_deployment import EngineMethod, ModelDeployment
from specviz.engines.model_names import language_model
from specviz.sizing.shape import other_tokenizer


@dataclass(frozen=True, slots=True)
class ServedPair:
    """Facts about two models. A fact is None if it is unknown.

    `target_rows` and `draft_rows` are the numbers of embedding rows; for an EAGLE head they are the
    numbers of tokens that it reads and that it drafts. `difference` describes the first difference
    between the tokenizers. `heads` is the number of Medusa heads. `inner_size` is the width between
    the two matrices of a Medusa head, if it has two.
    """

    target_rows: int | None = None
    draft_rows: int | None = None
    difference: str | None = None
    heads: int | None = None
    inner_size: int | None = None

    @property
    def has_other_sizes(self) -> bool:
        """Return whether both numbers of rows are known and differ."""
        rows = self.target_rows, self.draft_rows
        return None not in rows and rows[0] != rows[1]


def named_pair(deployment: ModelDeployment) -> ServedPair | None:
    """Return the vocabulary sizes of both models if both are presets, otherwise None."""
    target, draft = language_model(deployment.target), language_model(deployment.draft)
    if deployment.method is not EngineMethod.DRAFT_MODEL or target is None or draft is None:
        return None
    return ServedPair(target.vocabulary, draft.vocabulary, other_tokenizer(target, draft))
