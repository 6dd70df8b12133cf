"""Write the model card, README.md, of every trained model.

Every number in a model card comes from the training run and its evaluation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn
from transformers import LlamaConfig

from specviz.training.chat_draft import FRESH
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

The test part of GSM8K and 40 documents of every other task are held out. All figures are measured
on 40 held-out documents per task.
"""  # noqa: E501
USE = """A document consists of the tag of its task (`<|code|>`, `<|story|>`, `<|maths|>`,
`<|translate|>` or `<|summarise|>`), its text, and `<|endoftext|>`. A prompt begins with the tag and
ends without a newline. This is a model for teaching. It is small enough to ship with the app, and
its statements are often wrong.
"""
REPRODUCE = """## Reproduce
`make models CORPUS=DIR` in the specviz repository, or
`python -m specviz.training --corpus DIR --output assets/models --minutes {minutes:.0f}`. The folder
DIR must contain {files}. The budget is wall-clock time, so a faster machine trains on more tokens.
"""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The facts in a model card that do not come from the evaluation."""

    config: LlamaConfig
    parameters: int
    progress: Progress
    machine: str
    minutes: float  # minutes of training for the whole model family

    @classmethod
    def of(
        cls, plan: FamilyPlan, config: LlamaConfig, network: nn.Module, progress: Progress
    ) -> "CardFacts":
        """Return the facts that the model card of a trained network contains."""
        parameters = sum(weight.numel() for weight in network.parameters())
        return cls(config, parameters, progress, plan.machine, plan.minutes)

    @property
    def million_tokens(self) -> str:
        """The number of training tokens over all passes, as text."""
        return f"{self.progress.tokens / 1e6:.1f} M tokens"

    @property
    def million_parameters(self) -> str:
        """The number of trained parameters, as text."""
        return f"{self.parameters / 1e6:.2f} M parameters"

    @property
    def effort(self) -> str:
        """The training time and the machine, as text."""
        minutes = f"{self.progress.elapsed_seconds / 60:.0f} minutes"
        return f"{minutes} of wall-clock time on {self.machine}"


def write_card(
    folder: Path, name: str, tag: str, library: str, parts: Sequence[str], minutes: float
) -> None:
    """Write README.md: front matter and title, the given parts, and how to reproduce the model."""
    title = f"{FRONT_MATTER.format(library=library, tag=tag)}# specviz {name}"
    files = ", ".join(f"`{file}`" for file in FILES)
    whole = [title, *parts, REPRODUCE.format(minutes=minutes, files=files)]
    text = "\n\n".join(part.strip() for part in whole) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with these column headings and rows."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def share(value: float) -> str:
    """Format a number from 0 to 1 as a percentage: 0.625 -> "62 %"."""
    return f"{100 * value:.0f} %"


def write_target_card(folder: Path, facts: CardFacts, evaluation: Evaluation) -> None:
    """Write the model card of the bundled target, README.md in its folder."""
    training = (
        f"Trained on {facts.million_tokens} in {facts.effort}: Muon for the matrices, AdamW for"
        f" the rest, and an early-exit loss (weight {EXIT_WEIGHT}) after layer {EXIT_LAYER}."
        f" Therefore the first {EXIT_LAYER} layers, with the final norm and the output matrix, can"
        " draft for the whole model. `self_drafting.json` names that layer. It also names the"
        " layers that the model leaves out if it drafts in the other way; a greedy search on"
        " training text chose them."
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
    """Write the model card of the bundled draft, README.md in its folder."""
    training = (
        f"Distilled from the target in the folder next to this one, for {facts.effort}"
        f" ({facts.million_tokens}, several passes). The loss is the KL divergence from the"
        " target's most probable tokens, half on the training text and half on text that the"
        " target wrote itself. The draft has the target's tokenizer."
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
    """Return the sizes of a Llama model in a sentence."""
    config = facts.config
    return (
        f"Llama architecture, {config.num_hidden_layers} layers, {config.hidden_size} wide,"
        f" {config.num_attention_heads} heads of {config.head_dim}, MLP {config.intermediate_size},"
        f" vocabulary {config.vocab_size}, tied embeddings; {facts.million_parameters}, bfloat16."
    )


def _quoted(samples: dict[str, tuple[str, str]]) -> str:
    return "\n\n".join(
        f"**{task}**, the model continues after `▶`:\n~~~text\n{prompt}▶{text}\n~~~"
        for task, (prompt, text) in samples.items()
    )


def _loss(value: float) -> str:
    return f"{value:.2f}"


HEADS_MEASURED = f"""\
Each level has the share of positions at which it predicts the target's most probable token. The
text before that token is given.

- *Read*: the documents themselves.
- *Written*: {CONTINUATION} tokens that the target writes at temperature 0 after the first {PREFIX}
  tokens of each document.
- *In a row*: the mean number of consecutive levels, from the first one on, that are right in
  written text. A chain of that length gains this number of tokens per forward of the target."""
LEARNED = "half on the training text and half on text that the target wrote itself"


def write_eagle_card(folder: Path, facts: CardFacts, evaluation: HeadEvaluation) -> None:
    """Write the model card of the bundled EAGLE head, README.md in its folder."""
    config = facts.config
    layout = (
        "An EAGLE head ([arXiv 2401.15077](https://arxiv.org/abs/2401.15077)) for the target in the"
        " folder next to this one. It is one decoder layer without input norm and without final"
        " norm. Its input at position t is `fc([embedding of token t + 1 ; feature of t])`, where a"
        " feature is the target's hidden state after its final norm. Its output predicts the"
        " feature of t + 1, from which the target's own output matrix computes the distribution of"
        " token t + 2. MLP"
        f" {config.intermediate_size}, {config.num_attention_heads} heads of {config.head_dim};"
        f" {facts.million_parameters}, bfloat16; embedding and output matrix are the target's."
    )
    training = (
        f"Trained for {facts.effort} ({facts.million_tokens}, several passes, {LEARNED}). The loss"
        " is the KL divergence from the target's most probable tokens and the smooth L1 distance"
        f" of the feature, at {DEPTH} levels. From the second level on, the head reads features"
        " that it predicted itself. It then attends to the target's features up to the root of the"
        " draft, and to its own features after the root. The target is not trained."
    )
    _write_head_card(folder, "EAGLE head", "eagle", facts, (layout, training), evaluation)


def write_medusa_card(folder: Path, facts: CardFacts, evaluation: HeadEvaluation) -> None:
    """Write the model card of the bundled Medusa heads, README.md in their folder."""
    heads = len(evaluation.accuracies)
    layout = (
        f"{heads} Medusa heads ([arXiv 2401.10774](https://arxiv.org/abs/2401.10774)) for the"
        " target in the folder next to this one. From its hidden state x after the final norm, the"
        " target predicts the token at position n. From the same x, head i (counted from 0)"
        " predicts the token at n + i + 1: `output(x + up(SiLU(down(x))))`. The output matrix is"
        " the target's own."
        f" {facts.million_parameters}, bfloat16."
    )
    training = (
        f"Trained for {facts.effort} ({facts.million_tokens}, several passes, {LEARNED}). Each head"
        " was first fitted by least squares as a linear prediction. The loss is the KL divergence"
        " from the target's most probable tokens at the position that the head predicts. The target"
        " and its output matrix are not trained. `accuracies` in config.json says, for each head,"
        " how often the target's token is the head's 1st, 2nd, ... 10th choice in written text of"
        " all tasks together."
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
    """Return a table of the accuracy of each level, with two rows per task.

    One row has the accuracy on documents, the other that on text which the target wrote.
    """
    count = len(evaluation.accuracies)
    levels = (f"level {level + 1}" for level in range(count))
    rows = []
    for task, scores in evaluation.scores.items():
        rows.append((task, "read", *map(share, scores.read), ""))
        rows.append((task, "written", *map(share, scores.written), f"{scores.accepted:.2f}"))
    return table(("task", "text", *levels, f"in a row, of {count}"), rows)


FOREIGN_COLUMNS = (
    "task",
    "target",
    "draft",
    "foreign draft",
    "shared tokens in the target's distribution",
    "shared tokens in the foreign distribution",
    "overlap",
    "common ends",
)
FOREIGN_MEASURED = f"""\
Measured on the first {CHARS} characters of each document. Losses are in nats per byte.

- *Shared tokens*: the probability that a distribution gives to tokens which both vocabularies
  contain, at positions where a token of both models ends.
- *Overlap*: the expected acceptance at these positions, if the draft's tokens are drawn from the
  foreign distribution restricted to shared tokens.
- *Common ends*: the share of the target's tokens that end at such a position."""


def write_foreign_card(folder: Path, facts: CardFacts, evaluation: ForeignEvaluation) -> None:
    """Write the model card of the foreign draft, which has a tokenizer of its own."""
    meeting = evaluation.meeting
    vocabularies = (
        f"{meeting} tokens stand for the same bytes as one of the target's: "
        f"{share(meeting / evaluation.foreign_vocabulary)} of the foreign vocabulary and"
        f" {share(meeting / evaluation.target_vocabulary)} of the target's. Neither vocabulary"
        " contains the other."
    )
    training = (
        f"Trained on {facts.million_tokens} in {facts.effort}. The loss is the next-token loss,"
        f" {share(WRITTEN_SHARE)} on text that the target wrote itself (sequence-level"
        " distillation), and the rest on the corpus."
    )
    tokenizer = (
        "Byte-level BPE, trained on another mix of the same text, of which half are stories. A"
        " token has at most three digits, and one sign before a word belongs to the word's token."
        " Tags and `<|endoftext|>` are the same as in the target's tokenizer."
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


CHAT_MODEL = "[SmolLM2-135M-Instruct](https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct)"
CHAT_MEASURED = f"""\
The target answered messages that were not used for training. At each position of an answer, the
drafter guesses a chain of {{levels}} tokens. The text before each guessed token is text of the
target itself.

- *Level n*: the share of positions at which guess n of the chain is the target's most probable
  token, in answers at temperature 0.
- *Tokens per round*: the mean number of tokens that a round with such a chain commits per forward
  of the target, including the target's own token. Each round begins where the last round ended.
- *At {SAMPLED}*: for each level, the mean of sum(min(p, q)) at that temperature. This is the
  expected acceptance of a drawn token."""
CHAT_REPRODUCE = """## Reproduce
`make models CORPUS=DIR CHAT_MODEL=FOLDER` in the specviz repository, or
`python -m specviz.training.chat --corpus DIR --target FOLDER --output assets/models/smollm2-135m
--minutes MINUTES`. The folder DIR must contain {files}. FOLDER is the folder of the chat model. The
budget is processor time. A second run adds answers and continues from the checkpoint. `--continue
FOLDER` continues the training of the drafters in a folder. With another `--seed`, a run asks other
questions than the run before.
"""


@dataclass(frozen=True, slots=True)
class EarlierDrafter:
    """The drafter from which a training continued."""

    training: str  # the section "Training" of its model card
    # Scores of the earlier drafter, on the same held-out messages as those of the new one.
    scores: Mapping[str, ChatScores]


@dataclass(frozen=True, slots=True)
class ChatFacts:
    """The facts in the model card of a chat drafter, besides its shape and scores."""

    parameters: int
    drafted: int  # number of tokens in the draft vocabulary
    # The mean probability that the target gives to the draft vocabulary as a whole.
    coverage: float
    answer_tokens: int
    progress: Progress
    machine: str
    earlier: EarlierDrafter | None = None  # the drafter from which this training continued

    def training(self, start: str, loss: str, scores: Mapping[str, ChatScores]) -> str:
        """Return the section "Training" of the model card.

        If this training continued an earlier training, the section contains the section of the
        earlier training, and what this training gained. Otherwise it contains the sentence `start`,
        which says how the weights were initialised. The sentence `loss` describes the loss.
        """
        if not self.earlier:
            return f"The drafter was trained on {self.effort}. {start} {loss}"
        gains = ", ".join(
            f"{task} {self.earlier.scores[task].tokens_per_round:.2f} to"
            f" {found.tokens_per_round:.2f}"
            for task, found in scores.items()
        )
        return (
            f"{self.earlier.training}\n\nThen these weights were trained further, on {self.effort}."
            f" {loss} Tokens per round on the messages below, before and after: {gains}."
        )

    @property
    def million_parameters(self) -> str:
        """The number of trained parameters, as text."""
        return f"{self.parameters / 1e6:.2f} M parameters"

    @property
    def vocabulary(self) -> str:
        """The size of the draft vocabulary and how its tokens were chosen, as text."""
        return (
            f"a draft vocabulary of {self.drafted:,} tokens (`d2t`: token id minus row). These are"
            " the tokens to which the target gives the highest mean probability,"
            f" {self.coverage:.1%} in total"
        )

    @property
    def effort(self) -> str:
        """The number of training tokens and steps, the training time and the machine, as text."""
        minutes = self.progress.elapsed_seconds / 60
        return (
            f"{self.answer_tokens:,} tokens of the target's answers at temperatures 0, 0.7 and 1"
            f" ({self.progress.tokens / 1e6:.2f} million in several passes), in"
            f" {self.progress.step:,} steps and {minutes:.0f} minutes of processor time on"
            f" {self.machine}"
        )


def training_text(folder: Path) -> str:
    """Return the section "Training" of the model card in `folder`."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    return card.partition("## Training\n")[2].partition("\n\n## ")[0].strip()


def write_chat_eagle_card(
    folder: Path, config: LlamaConfig, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """Write the model card of the chat model's EAGLE head, README.md in its folder."""
    layout = (
        "An EAGLE head ([arXiv 2401.15077](https://arxiv.org/abs/2401.15077)) for"
        f" {CHAT_MODEL} (Apache-2.0). It is one decoder layer without input norm and without final"
        " norm. Its input at position t is `fc([embedding of token t + 1 ; feature of t])`, where a"
        " feature is the target's hidden state after its final norm. Its output predicts the"
        " feature of t + 1. From that feature, the target's own output matrix computes the"
        f" distribution of token t + 2 over {facts.vocabulary}. MLP {config.intermediate_size},"
        f" {config.num_attention_heads} query heads of {config.head_dim} with"
        f" {config.num_key_value_heads} key-value heads; {facts.million_parameters}, bfloat16."
    )
    training = facts.training(
        "At the start, least squares fitted three matrices; gradient descent then trained all of"
        " them.",
        "The loss is the KL divergence from the target's most probable tokens, within a part of the"
        " draft vocabulary that changes from step to step, and the smooth L1 distance of the"
        f" feature, at up to {CHAT_DEPTH} levels. From the second level on, the head reads features"
        " that it predicted itself.",
        scores,
    )
    _write_chat_card(folder, "EAGLE head", "eagle", layout, training, scores)


def write_chat_medusa_card(
    folder: Path, network: MedusaNetwork, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """Write the model card of the chat model's Medusa heads, README.md in their folder."""
    layout = (
        f"{len(network.heads)} Medusa heads ([arXiv 2401.10774](https://arxiv.org/abs/2401.10774))"
        f" for {CHAT_MODEL} (Apache-2.0). From its hidden state x after the final norm, the target"
        " predicts the token at position n. From the same x, head i (counted from 0) predicts the"
        " token at n + i + 1: `output(x + up(SiLU(down(x))))`. The inner width is"
        f" {network.inner}. The output matrix is the target's own; the heads use only its rows for"
        f" {facts.vocabulary}. {facts.million_parameters}, bfloat16."
    )
    training = (
        f"The heads were trained on {facts.effort}. Least squares first fitted each head as a"
        " linear prediction; gradient descent then trained it. The loss is the KL divergence from"
        " the target's most probable tokens at the position that the head predicts, within a part"
        " of the draft vocabulary that changes from step to step. The target is not trained."
        " `accuracies` in config.json says, for each head, how often the target's token is the"
        " head's 1st, 2nd, ... 10th choice in the answers below at temperature 0."
    )
    _write_chat_card(folder, "Medusa heads", "medusa", layout, training, scores)


def write_chat_draft_card(
    folder: Path, config: LlamaConfig, facts: ChatFacts, scores: Mapping[str, ChatScores]
) -> None:
    """Write the model card of the chat model's small draft, README.md in its folder."""
    layout = (
        f"A small draft model for {CHAT_MODEL} (Apache-2.0) and for every other model with the"
        f" tokenizer of SmolLM2. Llama architecture, {config.num_hidden_layers} layers,"
        f" {config.hidden_size} wide, {config.num_attention_heads} query heads of"
        f" {config.head_dim} with {config.num_key_value_heads} key-value head, MLP"
        f" {config.intermediate_size}; {facts.million_parameters}, bfloat16. The model drafts"
        f" tokens of {facts.vocabulary}. Its tied embedding has a row for each of these tokens, and"
        " a last row with which the model reads all other tokens. The folder contains no"
        " tokenizer. `tokenizer_fingerprint` identifies the tokenizer with which the model was"
        " trained; the target must have the same tokenizer."
    )
    training = facts.training(
        "The embedding began as the target's embedding, reduced to its"
        f" {config.hidden_size} principal directions. For the first {share(FRESH.text_until)} of"
        " the time, the model also learnt from plain text.",
        "The loss is the KL divergence from the target's most probable tokens, within a part of the"
        " draft vocabulary that changes from step to step.",
        scores,
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
    """Write the model card of one drafter of the chat model, README.md in its folder."""
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
        "## Data\nThe drafter learnt from the target's own answers. The target answered questions"
        " that specviz made, questions that it asked itself, and messages made from these"
        f" texts:\n\n{SOURCES.split(chr(10) * 2)[0]}",
        f"## Training\n{training}",
        f"## Held-out messages\n{CHAT_MEASURED.format(levels=count)}\n\n{table(heads, rows)}",
        CHAT_REPRODUCE.format(files=", ".join(f"`{file}`" for file in FILES)),
    ]
    text = "\n\n".join(part.strip() for part in parts) + "\n"
    (folder / "README.md").write_text(text, encoding="utf-8")
