"""The README.md of the foreign draft: losses per byte, and how far the vocabularies meet.

Knows nothing of how it was made.
"""

from pathlib import Path

from specviz.training.card import LIBRARY, SOURCES, USE, CardFacts, share, table, write_card
from specviz.training.foreign_draft import WRITTEN_SHARE
from specviz.training.foreign_evaluation import CHARS, ForeignEvaluation
from specviz.training.model_card import shape

HEADS = (
    "task",
    "target",
    "draft",
    "foreign draft",
    "meeting in the target's law",
    "in the foreign law",
    "overlap",
    "common ends",
)
MEASURED = f"""The first {CHARS} characters of each. Losses in nats per byte. *Meeting*: the
probability that a law gives to tokens which both vocabularies hold, at places where both models
have a token's end; *overlap*: the expected acceptance there, of tokens drawn from the foreign law
restricted to the meeting; *common ends*: how many of the target's tokens end at such a place."""


def write_foreign_card(folder: Path, facts: CardFacts, evaluation: ForeignEvaluation) -> None:
    """README.md of the foreign draft."""
    meeting = evaluation.meeting
    vocabularies = (
        f"{meeting} tokens stand for the same bytes as one of the target's: "
        f"{share(meeting / evaluation.foreign_vocabulary)} of the foreign vocabulary,"
        f" {share(meeting / evaluation.target_vocabulary)} of the target's. Neither holds the"
        " other."
    )
    training = (
        f"Trained on {facts.million_tokens} in {facts.effort}: next-token loss,"
        f" {share(WRITTEN_SHARE)} on text that the target wrote itself (sequence-level"
        " distillation), the rest on the corpus."
    )
    tokenizer = (
        "Byte-level BPE, trained on another mix of the same text (half of it stories), with up to"
        " three digits in a token and one sign before a word in the word's. Tags and"
        " `<|endoftext|>` are those of the family."
    )
    parts = [
        "A draft for the target that specviz ships, with a tokenizer of its own, to show"
        f" speculative decoding across vocabularies. {shape(facts)}",
        USE,
        f"## Tokenizer\n{tokenizer} {vocabularies}",
        f"## Data\n{SOURCES}",
        f"## Training\n{training}",
        f"## Held-out documents\n{MEASURED}\n\n{_scores(evaluation)}",
    ]
    write_card(folder, "foreign draft", "llama", LIBRARY, parts, facts.minutes)


def _scores(evaluation: ForeignEvaluation) -> str:
    rows = []
    for task, scores in evaluation.scores.items():
        losses = (scores.target_loss, scores.draft_loss, scores.foreign_loss)
        shares = (scores.target_mass, scores.foreign_mass, scores.overlap, scores.common_ends)
        rows.append((task, *(f"{loss:.3f}" for loss in losses), *map(share, shares)))
    return table(HEADS, rows)
