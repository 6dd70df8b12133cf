"""The README.md of a model folder: Hub front matter, data, licences, numbers, samples.

Every number comes from the run and its evaluation. Knows nothing of how either was made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformers import LlamaConfig

from specviz.training.corpus import FILES
from specviz.training.evaluation import SAMPLE_TEMPERATURE, Evaluation
from specviz.training.loop import Progress
from specviz.training.pretraining import EXIT_LAYER, EXIT_WEIGHT

FRONT_MATTER = """---
license: cc-by-2.0
language:
- en
- fr
library_name: transformers
pipeline_tag: text-generation
datasets:
- openai/gsm8k
tags:
- speculative-decoding
- llama
---
"""
SOURCES = """| text | task | licence |
|---|---|---|
| 23 English books of [Project Gutenberg](https://www.gutenberg.org) | story | public domain in the USA |
| [GSM8K](https://github.com/openai/grade-school-math) (OpenAI), the training part | maths | MIT |
| English-French sentence pairs of [Tatoeba](https://tatoeba.org), from [manythings.org/anki](https://www.manythings.org/anki/) | translate | CC-BY 2.0 France |
| the Python standard library (Python Software Foundation) | code, summarise | PSF licence |

GSM8K's test part and 40 documents of every other task were held out; all figures are measured
on 40 held-out documents per task.
"""  # noqa: E501
USE = """A document is a task's tag (`<|code|>`, `<|story|>`, `<|maths|>`, `<|translate|>`,
`<|summarise|>`), text, and `<|endoftext|>`. Prompts begin with the tag and end without a newline.
It is a teaching model: small enough to ship with the app, and never to be trusted in what it says.
"""
REPRODUCE = """## Reproduce
`make models CORPUS=DIR` in the specviz repository, or
`python -m specviz.training --corpus DIR --output assets/models --minutes {minutes:.0f}`, where DIR
holds {files}. The budget is wall-clock time, so a faster machine sees more tokens.
"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card tells besides the evaluation."""

    config: LlamaConfig
    parameters: int
    progress: Progress
    machine: str
    minutes: float  # of the whole family


def write_target_card(folder: Path, facts: CardFacts, evaluation: Evaluation) -> None:
    """README.md of the target."""
    training = (
        f"Trained on {_tokens(facts)} in {_minutes(facts)} of wall-clock time on {facts.machine}:"
        " Muon for the matrices, AdamW for the rest, and an early-exit loss (weight"
        f" {EXIT_WEIGHT}) after layer {EXIT_LAYER}, so that the first {EXIT_LAYER} layers with the"
        " final norm and head can draft for the whole model."
    )
    rows = [
        (task, _loss(scores.target_loss), _loss(scores.exit_loss), _share(scores.exit_agreement))
        for task, scores in evaluation.scores.items()
    ]
    heads = ("task", "loss", f"loss after layer {EXIT_LAYER}", "same greedy token after both")
    _write(folder, "target", facts, training, _table(heads, rows), evaluation.target_samples)


def write_draft_card(folder: Path, facts: CardFacts, evaluation: Evaluation) -> None:
    """README.md of the draft."""
    training = (
        f"Distilled from the target beside it for {_minutes(facts)} of wall-clock time on"
        f" {facts.machine} ({_tokens(facts)}, several passes): KL divergence to the target's"
        " likeliest tokens, half on the training text, half on text that the target wrote itself."
        " It shares the target's tokenizer."
    )
    rows = [
        (task, _loss(scores.draft_loss), _share(scores.greedy_agreement), _share(scores.overlap))
        for task, scores in evaluation.scores.items()
    ]
    heads = ("task", "loss", "same greedy token as the target", "overlap (expected acceptance)")
    _write(folder, "draft", facts, training, _table(heads, rows), evaluation.draft_samples)


def _write(
    folder: Path,
    role: str,
    facts: CardFacts,
    training: str,
    table: str,
    samples: dict[str, tuple[str, str]],
) -> None:
    shape = facts.config
    size = (
        f"Llama architecture, {shape.num_hidden_layers} layers, {shape.hidden_size} wide,"
        f" {shape.num_attention_heads} heads of {shape.head_dim}, MLP {shape.intermediate_size},"
        f" vocabulary {shape.vocab_size}, tied embeddings; {facts.parameters / 1e6:.2f} M"
        " parameters, bfloat16."
    )
    heading = f"Prompts from held-out documents, temperature {SAMPLE_TEMPERATURE}."
    parts = [
        f"{FRONT_MATTER}# specviz {role}",
        f"The {role} model of the pair that specviz ships to show speculative decoding. {size}",
        USE,
        f"## Data\n{SOURCES}",
        f"## Training\n{training}",
        f"## Held-out documents\nLosses in nats per token.\n\n{table}",
        f"## Samples\n{heading}\n\n{_quoted(samples)}",
        REPRODUCE.format(minutes=facts.minutes, files=", ".join(f"`{name}`" for name in FILES)),
    ]
    (folder / "README.md").write_text(
        "\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _quoted(samples: dict[str, tuple[str, str]]) -> str:
    return "\n\n".join(
        f"**{task}**, the model goes on after `▶`:\n~~~text\n{prompt}▶{text}\n~~~"
        for task, (prompt, text) in samples.items()
    )


def _loss(value: float) -> str:
    return f"{value:.2f}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _tokens(facts: CardFacts) -> str:
    return f"{facts.progress.tokens / 1e6:.1f} M tokens"


def _minutes(facts: CardFacts) -> str:
    return f"{facts.progress.elapsed_seconds / 60:.0f} minutes"
