"""The README.md of the EAGLE head and the Medusa heads: what goes in, and how often they are right.

Knows nothing of how they were made.
"""

from pathlib import Path

from specviz.training.card import SOURCES, CardFacts, share, table, write_card
from specviz.training.eagle import DEPTH
from specviz.training.head_evaluation import CONTINUATION, PREFIX, HeadEvaluation

MEASURED = f"""Share of positions where the target's likeliest token is foretold, with the true text
up to the token before it. *Read*: the documents themselves. *Written*: {CONTINUATION} tokens that
the target writes at temperature 0 after their first {PREFIX}. *In a row*: the mean number of levels
right one after the other from the first on, in written text: what a chain of that length gains per
forward of the target."""
LEARNED = "half on the training text, half on text that the target wrote itself"


def write_eagle_card(folder: Path, facts: CardFacts, evaluation: HeadEvaluation) -> None:
    """README.md of the EAGLE head."""
    config = facts.config
    layout = (
        "An EAGLE head ([arXiv 2401.15077](https://arxiv.org/abs/2401.15077)) for the target beside"
        " it. One decoder layer without input norm and without final norm over"
        " `fc([embedding of token t + 1 ; feature of t])` at position t; a feature is the target's"
        " hidden state after its final norm. What comes out stands for the feature of t + 1, and"
        " the target's own output matrix makes of it the law of token t + 2. MLP"
        f" {config.intermediate_size}, {config.num_attention_heads} heads of {config.head_dim};"
        f" {facts.million_parameters}, bfloat16; embedding and output matrix are the target's."
    )
    training = (
        f"Trained for {facts.effort} ({facts.million_tokens}, several passes, {LEARNED}): KL"
        " divergence to the target's likeliest tokens, and smooth L1 distance of the feature,"
        f" at {DEPTH} levels. From the second level on it is fed what it foretold itself, and sees"
        " of the past the target's features up to the root of the guess and its own after it. The"
        " target is frozen."
    )
    _write(folder, "EAGLE head", "eagle", facts, (layout, training), evaluation)


def write_medusa_card(folder: Path, facts: CardFacts, evaluation: HeadEvaluation) -> None:
    """README.md of the Medusa heads."""
    heads = len(evaluation.accuracies)
    layout = (
        f"{heads} Medusa heads ([arXiv 2401.10774](https://arxiv.org/abs/2401.10774)) for the"
        " target beside them. Where the target's hidden state after its final norm, x, gives the"
        " token at n, head i (from 0) gives the one at n + i + 1:"
        " `output(x + SiLU(residual(x)))`, with an output matrix of its own."
        f" {facts.million_parameters}, bfloat16."
    )
    training = (
        f"Trained for {facts.effort} ({facts.million_tokens}, several passes, {LEARNED}): KL"
        " divergence to the target's likeliest tokens at the place that the head foretells. The"
        " output matrices began as the target's; the target is frozen. `accuracies` in config.json"
        " gives, per head, how often the target's token is the head's 1st, 2nd, ... 10th choice"
        " in written text of all tasks together."
    )
    _write(folder, "Medusa heads", "medusa", facts, (layout, training), evaluation)


def _write(
    folder: Path,
    name: str,
    tag: str,
    facts: CardFacts,
    told: tuple[str, str],
    evaluation: HeadEvaluation,
) -> None:
    layout, training = told
    parts = [
        layout,
        f"## Data\n{SOURCES}",
        f"## Training\n{training}",
        f"## Held-out documents\n{MEASURED}\n\n{_levels(evaluation)}",
    ]
    write_card(folder, name, tag, "", parts, facts.minutes)


def _levels(evaluation: HeadEvaluation) -> str:
    """Two rows per task."""
    count = len(evaluation.accuracies)
    levels = (f"level {level + 1}" for level in range(count))
    rows = []
    for task, scores in evaluation.scores.items():
        rows.append((task, "read", *map(share, scores.read), ""))
        rows.append((task, "written", *map(share, scores.written), f"{scores.accepted:.2f}"))
    return table(("task", "text", *levels, f"in a row, of {count}"), rows)
