"""`python -m specviz.training.chat`: makes the drafters of the chat model from a corpus folder.

Progress goes to stderr; bad input ends with one line and exit status 2.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from specviz.models.allocator import keep_freed_memory
from specviz.models.files.survey import silence_libraries
from specviz.training.cards import ChatFacts, write_chat_eagle_card
from specviz.training.chat_answers import draft_vocabulary, read_answers
from specviz.training.chat_head import (
    chat_eagle_config,
    chat_scores,
    choice_shares,
    load_chat_eagle,
    save_chat_eagle,
    train_chat_eagle,
)
from specviz.training.chat_lessons import ChatReader
from specviz.training.chat_prompts import chat_prompts
from specviz.training.chat_sampling import AnsweringModel, sample_answers
from specviz.training.head_training import EagleNetwork
from specviz.training.options import OneLineParser
from specviz.training.plan import machine
from specviz.training.token_files import write_json

ANSWERS_SHARE = 0.4  # of the budget; the rest is the head's, which gains from many passes
DRAFT_VOCABULARY = 8192


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
    seconds = plan.seconds(ANSWERS_SHARE)
    sample_answers(AnsweringModel(model), tokenizer, prompts, plan.answers, seconds)
    return {}


def make_chat_eagle(plan: ChatPlan) -> dict[str, Any]:
    """Make the folder `eagle`."""
    model = LlamaForCausalLM.from_pretrained(plan.target, dtype=torch.float32)
    table = model.model.embed_tokens.weight.detach()
    answers = list(read_answers(plan.answers))
    if not answers:
        raise ValueError(f"work must hold answers, got none in {str(plan.answers)!r}")
    drafted = draft_vocabulary(answers, min(DRAFT_VOCABULARY, len(table)), len(table))
    reader = ChatReader(answers, drafted, len(table), seed=0)
    torch.manual_seed(0)
    network = EagleNetwork(chat_eagle_config(model.config))
    checkpoint = plan.work / "chat-eagle.pt"
    seconds = plan.seconds(1 - ANSWERS_SHARE)
    progress = train_chat_eagle(network, reader, table, drafted, checkpoint, seconds)
    folder = plan.output / "eagle"
    held_out = list(read_answers(plan.answers / "held-out"))
    shares = choice_shares(network, table, drafted, held_out)
    save_chat_eagle(network, drafted, shares, folder)
    saved, _ = load_chat_eagle(folder)
    scores = chat_scores(saved, table, drafted, held_out)
    facts = ChatFacts(
        saved.config,
        sum(weight.numel() for weight in saved.parameters()),
        len(drafted),
        sum(len(answer.top_ids) for answer in answers),
        progress,
        machine(),
    )
    write_chat_eagle_card(folder, facts, scores)
    return {task: asdict(found) for task, found in scores.items()}


STEPS: dict[str, Callable[[ChatPlan], dict[str, Any]]] = {
    "answers": write_answers_of,
    "eagle": make_chat_eagle,
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
