"""The README.md of every member of the family; every number comes from a run and its evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import LlamaConfig

from specviz.training.chat_draft import TEXT_UNTIL
from specviz.training.chat_head import DEPTH as CHAT_DEPTH
from specviz.training.chat_scores import SAMPLED, ChatScores
from specviz.training.corpus import FILES
from specviz.training.evaluation import SAMPLE_TEMPERATURE, Evaluation
from specviz.training.foreign_training import CHARS, WRITTEN_SHARE, ForeignEvaluation
from specviz.training.head_training import (
    CONTINUATION,
    DEPTH,
    PREFIX,
    HeadEvaluation,
    MedusaNetwork,
)
from specviz.training.plan import FamilyPlan
from specviz.training.pretraining import EXIT_LAYER, EXIT_WEIGHT, Progress

# ---- what all cards share: front matter, data, licences, tables


FRONT_MATTER = """---
license: cc-by-2.0
language:
- en
- fr
{library}datasets:
- openai/gsm8k
tags:
- speculative-decoding
- {tag}
---
"""
LIBRARY = "library_name: transformers\npipeline_tag: text-generation\n"
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
    """What a card tells besides an evaluation."""

    config: LlamaConfig
    parameters: int
    progress: Progress
    machine: str
    minutes: float  # of the whole family

    @classmethod
    def of(
        cls, plan: FamilyPlan, config: LlamaConfig, network: nn.Module, progress: Progress
    ) -> "CardFacts":
        """Facts of a network as it was trained."""
        parameters = sum(weight.numel() for weight in network.parameters())
        return cls(config, parameters, progress, plan.machine, plan.minutes)

    @property
    def million_tokens(self) -> str:
        """Of training, all passes together."""
        return f"{self.progress.tokens / 1e6:.1f} M tokens"

    @property
    def million_parameters(self) -> str:
        """All that was trained."""
        return f"{self.parameters / 1e6:.2f} M parameters"

    @property
    def effort(self) -> str:
        """Time and machine."""
        minutes = f"{self.progress.elapsed_seconds / 60:.0f} minutes"
        return f"{minutes} of wall-clock time on {self.machine}"


def write_card(
    folder: Path, name: str, tag: str, library: str, parts: Sequence[str], minutes: float
) -> None:
    """README.md: front matter and title, then the parts, then how to reproduce it."""
    title = f"{FRONT_MATTER.format(library=library, tag=tag)}# specviz {name}"
    files = ", ".join(f"`{file}`" for file in FILES)
    whole = [title, *parts, REPRODUCE.format(minutes=minutes, files=files)]
    text = "\n\n".join(part.strip() for part in whole) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(value: float) -> str:
    """0.625 -> "62 %"."""
    return f"{100 * value:.0f} %"


# ---- target and draft


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
    _write_llama_card(
        folder, "target", facts, training, table(heads, rows), evaluation.target_samples
    )


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
    _write_llama_card(
        folder, "draft", facts, training, table(heads, rows), evaluation.draft_samples
    )


def _write_llama_card(
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


# ---- EAGLE head and Medusa heads


HEADS_MEASURED = f"""\
Share of positions where the target's likeliest token is foretold, with the true text
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
        " the target's own output matrix makes of it the distribution of token t + 2. MLP"
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
    _write_head_card(folder, "EAGLE head", "eagle", facts, (layout, training), evaluation)


def write_medusa_card(folder: Path, facts: CardFacts, evaluation: HeadEvaluation) -> None:
    """README.md of the Medusa heads."""
    heads = len(evaluation.accuracies)
    layout = (
        f"{heads} Medusa heads ([arXiv 2401.10774](https://arxiv.org/abs/2401.10774)) for the"
        " target beside them. Where the target's hidden state after its final norm, x, gives the"
        " token at n, head i (from 0) gives the one at n + i + 1:"
        " `output(x + up(SiLU(down(x))))`, where the output matrix is the target's own."
        f" {facts.million_parameters}, bfloat16."
    )
    training = (
        f"Trained for {facts.effort} ({facts.million_tokens}, several passes, {LEARNED}): KL"
        " divergence to the target's likeliest tokens at the place that the head foretells, from"
        " the best linear guess by least squares on. The target and its output matrix are frozen."
        " `accuracies` in config.json gives, per head, how often the target's token is the head's"
        " 1st, 2nd, ... 10th choice in written text of all tasks together."
    )
    _write_head_card(folder, "Medusa heads", "medusa", facts, (layout, training), evaluation)


def _write_head_card(
    folder: Path,
    name: str,
    tag: str,
    facts: CardFacts,
    paragraphs: tuple[str, str],
    evaluation: HeadEvaluation,
) -> None:
    layout, training = paragraphs
    parts = [
        layout,
        f"## Data\n{SOURCES}",
        f"## Training\n{training}",
        f"## Held-out documents\n{HEADS_MEASURED}\n\n{_levels(evaluation)}",
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


# ---- foreign draft: losses per byte, and how far the vocabularies meet


FOREIGN_COLUMNS = (
    "task",
    "target",
    "draft",
    "foreign draft",
    "meeting in the target's distribution",
    "in the foreign distribution",
    "overlap",
    "common ends",
)
FOREIGN_MEASURED = f"""The first {CHARS} characters of each. Losses in nats per byte. *Meeting*: the
probability that a distribution gives to tokens which both vocabularies hold, at places where both
models have a token's end; *overlap*: the expected acceptance there, of tokens drawn from the
foreign distribution restricted to the meeting; *common ends*: how many of the target's tokens end
at such a place."""


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
        f"## Held-out documents\n{FOREIGN_MEASURED}\n\n{_foreign_scores(evaluation)}",
    ]
    write_card(folder, "foreign draft", "llama", LIBRARY, parts, facts.minutes)


def _foreign_scores(evaluation: ForeignEvaluation) -> str:
    rows = []
    for task, scores in evaluation.scores.items():
        losses = (scores.target_loss, scores.draft_loss, scores.foreign_loss)
        shares = (scores.target_mass, scores.foreign_mass, scores.overlap, scores.common_ends)
        rows.append((task, *(f"{loss:.3f}" for loss in losses), *map(share, shares)))
    return table(FOREIGN_COLUMNS, rows)


# ---- drafters of the chat model


CHAT_MODEL = "[SmolLM2-135M-Instruct](https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct)"
CHAT_MEASURED = f"""Answers of the target to messages that nothing was trained on. *Level n*: share
of places where the n-th guess in a row is the target's likeliest token (the target's own text
before it), answers at temperature 0. *Tokens per round*: what a chain of {{levels}} guesses commits
per forward of the target, the target's own token among them. *At {SAMPLED}*: the mean of
sum(min(p, q)) at that temperature, the expected acceptance of a drawn token, for the same
levels."""
CHAT_REPRODUCE = """## Reproduce
`make models CORPUS=DIR CHAT_MODEL=FOLDER` in the specviz repository, or
`python -m specviz.training.chat --corpus DIR --target FOLDER --output assets/models/smollm2-135m
--minutes MINUTES`, where DIR holds {files} and FOLDER the chat model. The budget is processor
time; a second run adds answers and goes on from the checkpoint.
"""


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """What the card of a drafter of the chat model tells besides its shape and its scores."""

    parameters: int
    drafted: int  # tokens of the draft vocabulary
    answer_tokens: int
    progress: Progress
    machine: str

    @property
    def million_parameters(self) -> str:
        """All that was trained."""
        return f"{self.parameters / 1e6:.2f} M parameters"

    @property
    def vocabulary(self) -> str:
        """What it drafts from."""
        return (
            f"a draft vocabulary of {self.drafted:,} tokens (`d2t`: token id minus row), those that"
            " the target gave the highest mean probability"
        )

    @property
    def effort(self) -> str:
        """What it learned from, and how long."""
        minutes = self.progress.elapsed_seconds / 60
        return (
            f"{self.answer_tokens:,} tokens that the target answered at temperatures 0, 0.7 and 1"
            f" ({self.progress.tokens / 1e6:.2f} million in several passes) in"
            f" {self.progress.step:,} steps and {minutes:.0f} minutes of processor time on"
            f" {self.machine}."
        )


def write_chat_eagle_card(
    folder: Path, config: LlamaConfig, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """README.md of the EAGLE head of the chat model."""
    layout = (
        "An EAGLE head ([arXiv 2401.15077](https://arxiv.org/abs/2401.15077)) for"
        f" {CHAT_MODEL} (Apache-2.0). One decoder layer without input norm and without final norm"
        " over `fc([embedding of token t + 1 ; feature of t])` at position t; a feature is the"
        " target's hidden state after its final norm. What comes out stands for the feature of"
        " t + 1, and the target's own output matrix makes of it the distribution of token t + 2"
        f" over {facts.vocabulary}. MLP"
        f" {config.intermediate_size}, {config.num_attention_heads} heads of {config.head_dim} with"
        f" {config.num_key_value_heads} keys; {facts.million_parameters}, bfloat16."
    )
    training = (
        f"{facts.effort} First three products by"
        " least squares, then all by gradients: KL divergence to the target's likeliest tokens"
        " within a part of the draft vocabulary that changes from step to step, and smooth L1"
        " distance of the feature, at up to"
        f" {CHAT_DEPTH} levels; from the second on the head is fed what it foretold itself."
    )
    _write_chat_card(folder, "EAGLE head", "eagle", layout, training, scores)


def write_chat_medusa_card(
    folder: Path, network: MedusaNetwork, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """README.md of the Medusa heads of the chat model."""
    layout = (
        f"{len(network.heads)} Medusa heads ([arXiv 2401.10774](https://arxiv.org/abs/2401.10774))"
        f" for {CHAT_MODEL} (Apache-2.0). Where the target's hidden state after its final norm, x,"
        " gives the token at n, head i (from 0) gives the one at n + i + 1: `output(x +"
        f" up(SiLU(down(x))))`, {network.inner} wide in between, where the output matrix is the"
        f" target's own: its rows of {facts.vocabulary}. {facts.million_parameters}, bfloat16."
    )
    training = (
        f"{facts.effort} First the best linear guess of that rank by least squares, then gradients:"
        " KL divergence to the target's likeliest tokens at the place that the head foretells,"
        " within a part of the draft vocabulary that changes from step to step. The target is"
        " frozen. `accuracies` in config.json gives, per head, how often the target's token is the"
        " head's 1st, 2nd, ... 10th choice in the answers below at temperature 0."
    )
    _write_chat_card(folder, "Medusa heads", "medusa", layout, training, scores)


def write_chat_draft_card(
    folder: Path, config: LlamaConfig, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """README.md of the small draft model of the chat model."""
    layout = (
        f"A small draft model for {CHAT_MODEL} (Apache-2.0) and every other model with the"
        f" tokenizer of SmolLM2. Llama architecture, {config.num_hidden_layers} layers,"
        f" {config.hidden_size} wide, {config.num_attention_heads} heads of {config.head_dim} with"
        f" {config.num_key_value_heads} key, MLP {config.intermediate_size};"
        f" {facts.million_parameters}, bfloat16. Its tied embedding has a row for each token of"
        f" {facts.vocabulary}; the last row is how every other token is read. There is no tokenizer"
        " in the folder: `tokenizer_fingerprint` says which one it was trained with, and the"
        " target's has to be the same."
    )
    training = (
        f"{facts.effort} Rows began as the best {config.hidden_size} dimensions of the target's,"
        " the rest at random. KL divergence to the target's likeliest tokens in its answers and,"
        f" up to {share(TEXT_UNTIL)} of the time, the next token of the texts, both within a part"
        " of the draft vocabulary that changes from step to step."
    )
    _write_chat_card(folder, "draft model", "llama", layout, training, scores)


def _write_chat_card(
    folder: Path,
    name: str,
    tag: str,
    layout: str,
    training: str,
    scores: Mapping[str, ChatScores],
) -> None:
    """README.md of a drafter of the chat model."""
    count = len(scores["all"].greedy)
    levels = (f"level {level + 1}" for level in range(count))
    rows = [
        (
            task,
            *map(share, found.greedy),
            f"{found.tokens_per_round:.2f}",
            ", ".join(map(share, found.sampled)),
        )
        for task, found in scores.items()
    ]
    heads = ("task", *levels, "tokens per round", f"at {SAMPLED}")
    front = FRONT_MATTER.format(library="", tag=tag)
    parts = [
        f"{front}# specviz {name} for SmolLM2-135M-Instruct",
        layout,
        "## Data\nThe target's own answers to questions of specviz's making, and to messages made"
        f" from these texts:\n\n{SOURCES.split(chr(10) * 2)[0]}",
        f"## Training\n{training}",
        f"## Held-out messages\n{CHAT_MEASURED.format(levels=count)}\n\n{table(heads, rows)}",
        CHAT_REPRODUCE.format(files=", ".join(f"`{file}`" for file in FILES)),
    ]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
