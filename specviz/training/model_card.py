"""The README.md of target and draft: numbers and samples of both.

Knows nothing of how either was made.
"""

from pathlib import Path

from specviz.training.card import LIBRARY, SOURCES, USE, CardFacts, share, table, write_card
from specviz.training.evaluation import SAMPLE_TEMPERATURE, Evaluation
from specviz.training.pretraining import EXIT_LAYER, EXIT_WEIGHT


def write_target_card(folder: Path, facts: CardFacts, evaluation: Evaluation) -> None:
    """README.md of the target."""
    training = (
        f"Trained on {facts.million_tokens} in {facts.effort}: Muon for the matrices, AdamW for"
        f" the rest, and an early-exit loss (weight {EXIT_WEIGHT}) after layer {EXIT_LAYER}, so"
        f" that the first {EXIT_LAYER} layers with the final norm and head can draft for the whole"
        " model. `self_drafting.json` names that layer, and those that it may leave out instead: a"
        " greedy search on training text."
    )
    rows = [
        (task, _loss(scores.target_loss), _loss(scores.exit_loss), share(scores.exit_agreement))
        for task, scores in evaluation.scores.items()
    ]
    heads = ("task", "loss", f"loss after layer {EXIT_LAYER}", "same greedy token after both")
    _write(folder, "target", facts, training, table(heads, rows), evaluation.target_samples)


def write_draft_card(folder: Path, facts: CardFacts, evaluation: Evaluation) -> None:
    """README.md of the draft."""
    training = (
        f"Distilled from the target beside it for {facts.effort} ({facts.million_tokens}, several"
        " passes): KL divergence to the target's likeliest tokens, half on the training text, half"
        " on text that the target wrote itself. It shares the target's tokenizer."
    )
    rows = [
        (task, _loss(scores.draft_loss), share(scores.greedy_agreement), share(scores.overlap))
        for task, scores in evaluation.scores.items()
    ]
    heads = ("task", "loss", "same greedy token as the target", "overlap (expected acceptance)")
    _write(folder, "draft", facts, training, table(heads, rows), evaluation.draft_samples)


def _write(
    folder: Path,
    role: str,
    facts: CardFacts,
    training: str,
    losses: str,
    samples: dict[str, tuple[str, str]],
) -> None:
    heading = f"Prompts from held-out documents, temperature {SAMPLE_TEMPERATURE}."
    parts = [
        f"The {role} model of the pair that specviz ships to show speculative decoding."
        f" {shape(facts)}",
        USE,
        f"## Data\n{SOURCES}",
        f"## Training\n{training}",
        f"## Held-out documents\nLosses in nats per token.\n\n{losses}",
        f"## Samples\n{heading}\n\n{_quoted(samples)}",
    ]
    write_card(folder, role, "llama", LIBRARY, parts, facts.minutes)


def shape(facts: CardFacts) -> str:
    """The sizes of a Llama in a sentence."""
    config = facts.config
    return (
        f"Llama architecture, {config.num_hidden_layers} layers, {config.hidden_size} wide,"
        f" {config.num_attention_heads} heads of {config.head_dim}, MLP {config.intermediate_size},"
        f" vocabulary {config.vocab_size}, tied embeddings; {facts.million_parameters}, bfloat16."
    )


def _quoted(samples: dict[str, tuple[str, str]]) -> str:
    return "\n\n".join(
        f"**{task}**, the model goes on after `▶`:\n~~~text\n{prompt}▶{text}\n~~~"
        for task, (prompt, text) in samples.items()
    )


def _loss(value: float) -> str:
    return f"{value:.2f}"
