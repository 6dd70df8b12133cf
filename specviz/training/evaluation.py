"""Measure target, early exit and draft on held-out documents; sample texts of target and draft.

The early exit is the target without its layers after EXIT_LAYER. In shapes, T is the number of
tokens of a document, and V the size of the vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.training.network import Network, sample
from specviz.training.pretraining import EXIT_LAYER
from specviz.training.token_files import END_ID, document_ids, tag

LONGEST = 1024
SAMPLE_TOKENS = 96
SAMPLE_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The scores of one task; losses are in nats per token, the other scores are from 0 to 1.

    greedy_agreement: the share of positions at which draft and target have the same most probable
    token. exit_agreement: the share of positions at which the target's early exit has the target's
    most probable token. overlap: the mean over positions of the sum of min(p, q), where p is the
    target's distribution and q the draft's.
    """

    target_loss: float
    exit_loss: float
    draft_loss: float
    greedy_agreement: float
    overlap: float
    exit_agreement: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The scores of each task, and each model's continuation of one held-out prompt per task."""

    scores: dict[str, TaskScores]
    target_samples: dict[str, tuple[str, str]]  # task -> prompt and continuation
    draft_samples: dict[str, tuple[str, str]]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores and samples as a value that JSON can represent."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Evaluation":
        """Make an evaluation from the result of `to_dict`."""
        scores = {task: TaskScores(**fields) for task, fields in value["scores"].items()}
        samples = (
            {task: (pair[0], pair[1]) for task, pair in value[name].items()}
            for name in ("target_samples", "draft_samples")
        )
        return cls(scores, *samples)


def evaluate(
    target: Network,
    draft: Network,
    tokenizer: PreTrainedTokenizerFast,
    held_out: Mapping[str, Sequence[str]],
    prompts: Mapping[str, Sequence[str]],
) -> Evaluation:
    """Compute the scores of target and draft, and sample texts from both models."""
    return Evaluation(
        scores={
            task: task_scores(target, draft, document_ids(tokenizer, task, texts))
            for task, texts in held_out.items()
        },
        target_samples=_samples(target, tokenizer, prompts),
        draft_samples=_samples(draft, tokenizer, prompts),
    )


@torch.no_grad()
def task_scores(target: Network, draft: Network, documents: Sequence[Sequence[int]]) -> TaskScores:
    """Return the mean scores over all predicted tokens of the documents.

    Of each document, only the first LONGEST tokens are used.
    """
    sums = torch.zeros(6, dtype=torch.float64)
    count = 0
    for document in documents:
        ids = torch.tensor([document[:LONGEST]])
        sums += _document_sums(target, draft, ids)
        count += ids.shape[1] - 1
    means = [round(value, 4) for value in (sums / count).tolist()]
    target_loss, exit_loss, draft_loss, greedy_agreement, overlap, exit_agreement = means
    return TaskScores(
        target_loss, exit_loss, draft_loss, greedy_agreement, overlap, exit_agreement, count
    )


def _document_sums(target: Network, draft: Network, ids: Tensor) -> Tensor:
    """Return the six scores of `TaskScores`, as sums over the positions of a document [1, T]."""
    inputs, wanted = ids[:, :-1], ids[0, 1:, None]
    states = list(target.states(inputs))
    last, early = (
        target.logits(states[-1])[0],
        target.logits(states[min(EXIT_LAYER, len(states)) - 1])[0],
    )
    drafted = draft(inputs)[0]  # [T - 1, V]
    losses = [
        -logits.float().log_softmax(-1).gather(1, wanted).sum() for logits in (last, early, drafted)
    ]
    choice = last.argmax(-1)
    overlap = torch.minimum(last.float().softmax(-1), drafted.float().softmax(-1)).sum()
    agreements = [(logits.argmax(-1) == choice).sum() for logits in (drafted, early)]
    return torch.stack([*losses, agreements[0], overlap, agreements[1]]).double()


def _samples(
    network: Network, tokenizer: PreTrainedTokenizerFast, prompts: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, str]]:
    torch.manual_seed(0)
    return {
        task: (texts[0], continuation(network, tokenizer, task, texts[0]))
        for task, texts in prompts.items()
    }


def continuation(
    network: Network,
    tokenizer: PreTrainedTokenizerFast,
    task: str,
    prompt: str,
    temperature: float = SAMPLE_TEMPERATURE,
) -> str:
    """Return a continuation of the prompt: SAMPLE_TOKENS tokens, or fewer if the document ends."""
    prefix = torch.tensor([tokenizer(tag(task) + prompt)["input_ids"]])
    width = prefix.shape[1]
    ids = sample(network, prefix, width + SAMPLE_TOKENS, torch.tensor([temperature]))[
        0, width:
    ].tolist()
    return str(tokenizer.decode(ids[: ids.index(END_ID)] if END_ID in ids else ids))
