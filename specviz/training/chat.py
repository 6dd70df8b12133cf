"""`python -m specviz.training.chat`: makes the drafters of the chat model from a corpus folder.

Progress goes to stderr; bad input ends with one line and exit status 2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from specviz.environment import Environment
from specviz.models.allocator import keep_freed_memory
from specviz.models.files.survey import silence_libraries, survey_model
from specviz.models.text.vocabulary import fingerprint
from specviz.training.cards import (
    ChatFacts,
    write_chat_draft_card,
    write_chat_eagle_card,
    write_chat_medusa_card,
)
from specviz.training.chat_answers import ChatAnswer, draft_vocabulary, read_answers
from specviz.training.chat_draft import (
    TEXT_SHARES,
    DraftReader,
    chat_draft_config,
    chat_draft_levels,
    load_chat_draft,
    save_chat_draft,
    text_files,
    train_chat_draft,
)
from specviz.training.chat_head import (
    chat_eagle_config,
    chat_eagle_levels,
    load_chat_eagle,
    save_chat_eagle,
    train_chat_eagle,
)
from specviz.training.chat_lessons import ChatReader
from specviz.training.chat_medusa import (
    HEADS,
    INNER_SHARE,
    PlaceReader,
    chat_medusa_levels,
    train_chat_medusa,
)
from specviz.training.chat_prompts import chat_prompts
from specviz.training.chat_sampling import AnsweringModel, sample_answers
from specviz.training.chat_scores import chat_scores, choice_shares, level_shares
from specviz.training.head_training import (
    RANKS,
    EagleNetwork,
    MedusaNetwork,
    load_medusa,
    save_medusa,
)
from specviz.training.network import Network
from specviz.training.options import OneLineParser
from specviz.training.plan import machine
from specviz.training.pretraining import Progress
from specviz.training.token_files import TokenMixture, write_json

DRAFT_VOCABULARY = 8192


class ChatShare:
    """Shares of the budget."""

    ANSWERS = 0.4
    EAGLE = 0.3  # which gains from many passes
    MEDUSA = 0.05
    DRAFT = 0.25


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """What a run makes, from what, and in how much processor time."""

    target: Path
    corpus: Path
    output: Path
    work: Path
    minutes: float
    steps: tuple[str, ...]

    @property
    def answers(self) -> Path:
        """The folder of answers, which a second run adds to."""
        return self.work / "answers"

    def seconds(self, share: float) -> float:
        """Seconds of a share of the budget, of processor time."""
        return 60 * self.minutes * share


def write_answers_of(plan: ChatPlan) -> dict[str, Any]:
    """The target answers messages for its share of the time."""
    model = LlamaForCausalLM.from_pretrained(plan.target, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(plan.target)
    prompts = chat_prompts(plan.corpus)
    seconds = plan.seconds(ChatShare.ANSWERS)
    sample_answers(AnsweringModel(model), tokenizer, prompts, plan.answers, seconds)
    return {}


@dataclass(frozen=True, slots=True)
class ChatMaterial:
    """What drafters learn from and are measured on."""

    config: LlamaConfig  # of the target
    table: Tensor  # its embedding, tied to its output matrix [V, W]
    answers: list[ChatAnswer]
    held_out: list[ChatAnswer]
    drafted: Tensor  # the draft vocabulary [D]

    @classmethod
    def of(cls, plan: ChatPlan) -> ChatMaterial:
        """From the answers in the work folder; ValueError where there are none."""
        model = LlamaForCausalLM.from_pretrained(plan.target, dtype=torch.float32)
        table = model.model.embed_tokens.weight.detach()
        answers = list(read_answers(plan.answers))
        if not answers:
            raise ValueError(f"work must hold answers, got none in {str(plan.answers)!r}")
        return cls(
            model.config,
            table,
            answers,
            list(read_answers(plan.answers / "held-out")),
            draft_vocabulary(answers, min(DRAFT_VOCABULARY, len(table)), len(table)),
        )

    def facts(self, network: nn.Module, progress: Progress) -> ChatFacts:
        """For the card of what was trained."""
        return ChatFacts(
            sum(weight.numel() for weight in network.parameters()),
            len(self.drafted),
            sum(len(answer.top_ids) for answer in self.answers),
            progress,
            machine(),
        )


def make_chat_eagle(plan: ChatPlan) -> dict[str, Any]:
    """Make the folder `eagle`."""
    given = ChatMaterial.of(plan)
    table, drafted = given.table, given.drafted
    reader = ChatReader(given.answers, drafted, len(table), seed=0)
    torch.manual_seed(0)
    network = EagleNetwork(chat_eagle_config(given.config))
    checkpoint = plan.work / "chat-eagle.pt"
    seconds = plan.seconds(ChatShare.EAGLE)
    progress = train_chat_eagle(network, reader, table, drafted, checkpoint, seconds)
    folder = plan.output / "eagle"
    shares = choice_shares(chat_eagle_levels(network, table, drafted), drafted, given.held_out)
    save_chat_eagle(network, drafted, shares, folder)
    saved, _ = load_chat_eagle(folder)
    scores = chat_scores(chat_eagle_levels(saved, table, drafted), drafted, given.held_out)
    write_chat_eagle_card(folder, saved.config, given.facts(saved, progress), scores)
    return {task: asdict(found) for task, found in scores.items()}


def make_chat_medusa(plan: ChatPlan) -> dict[str, Any]:
    """Make the folder `medusa`."""
    given = ChatMaterial.of(plan)
    table, drafted, width = given.table, given.drafted, given.config.hidden_size
    reader = PlaceReader(given.answers, drafted, len(table), HEADS, seed=0)
    torch.manual_seed(0)
    network = MedusaNetwork(width, round(INNER_SHARE * width), HEADS)
    checkpoint = plan.work / "chat-medusa.pt"
    seconds = plan.seconds(ChatShare.MEDUSA)
    progress = train_chat_medusa(network, reader, table, drafted, checkpoint, seconds)
    folder = plan.output / "medusa"
    levels = chat_medusa_levels(network, table, drafted)
    shares = level_shares(levels, drafted, given.held_out, RANKS)
    save_medusa(network, len(table), shares, folder, drafted)
    saved = load_medusa(folder)
    scores = chat_scores(chat_medusa_levels(saved, table, drafted), drafted, given.held_out)
    write_chat_medusa_card(folder, saved, given.facts(saved, progress), scores)
    return {task: asdict(found) for task, found in scores.items()}


def make_chat_draft(plan: ChatPlan) -> dict[str, Any]:
    """Make the folder `draft`."""
    given = ChatMaterial.of(plan)
    table, drafted = given.table, given.drafted
    codec = survey_model(str(plan.target), Environment.read()).codec
    text = TokenMixture(
        text_files(plan.corpus, plan.target, plan.work / "text"), TEXT_SHARES, seed=0
    )
    reader = DraftReader(given.answers, drafted, len(table), text, seed=0)
    torch.manual_seed(0)
    network = Network(chat_draft_config(len(drafted), given.config))
    checkpoint = plan.work / "chat-draft.pt"
    seconds = plan.seconds(ChatShare.DRAFT)
    progress = train_chat_draft(network, reader, table, drafted, checkpoint, seconds)
    folder = plan.output / "draft"
    save_chat_draft(network, drafted, fingerprint(codec), folder)
    saved, _ = load_chat_draft(folder)
    levels = chat_draft_levels(saved, drafted, len(table))
    scores = chat_scores(levels, drafted, given.held_out)
    write_chat_draft_card(folder, saved.config, given.facts(saved, progress), scores)
    return {task: asdict(found) for task, found in scores.items()}


STEPS: dict[str, Callable[[ChatPlan], dict[str, Any]]] = {
    "answers": write_answers_of,
    "eagle": make_chat_eagle,
    "medusa": make_chat_medusa,
    "draft": make_chat_draft,
}


def main(arguments: list[str] | None = None) -> int:
    """Exit status."""
    options = _parser().parse_args(arguments)
    try:
        plan = _plan(options)
        silence_libraries()
        keep_freed_memory(of_any_size=True)
        for step in plan.steps:
            measured = STEPS[step](plan)
            if measured:
                write_json(plan.work / f"chat-{step}.json", measured)
                print(json.dumps({step: measured}))
    except ValueError as error:
        print(f"specviz.training.chat: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="specviz.training.chat", description="Make the drafters of the chat model."
    )
    parser.add_argument("--target", type=Path, required=True, help="folder of the chat model")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the source files")
    parser.add_argument("--output", type=Path, required=True, help="gets a folder per drafter")
    parser.add_argument("--minutes", type=float, required=True, help="budget of processor time")
    parser.add_argument(
        "--work", type=Path, default=Path("build/chat"), help="answers and checkpoints; resumes"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=tuple(STEPS),
        default=tuple(STEPS),
        metavar="STEP",
        help=f"of {', '.join(STEPS)}",
    )
    return parser


def _plan(options: argparse.Namespace) -> ChatPlan:
    if not options.minutes > 0:
        raise ValueError(f"minutes must be > 0, got {options.minutes}")
    if not (options.target / "config.json").exists():
        raise ValueError(f"target must be a model folder, got {str(options.target)!r}")
    return ChatPlan(
        options.target,
        options.corpus,
        options.output,
        options.work,
        options.minutes,
        tuple(step for step in STEPS if step in options.only),
    )


if __name__ == "__main__":
    sys.exit(main())
