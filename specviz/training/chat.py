"""Make the drafters of the chat model from a corpus folder: `python -m specviz.training.chat`.

Progress goes to stderr. Invalid input ends with a one-line message and exit status 2. In shapes, V
is the size of the target's vocabulary, D that of the draft vocabulary, and W the hidden size.
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
from specviz.training.answering_model import AnsweringModel
from specviz.training.cards import (
    ChatFacts,
    EarlierDrafter,
    training_text,
    write_chat_draft_card,
    write_chat_eagle_card,
    write_chat_medusa_card,
)
from specviz.training.chat_answers import (
    ChatAnswer,
    draft_vocabulary,
    read_answers,
    token_mass,
)
from specviz.training.chat_draft import CONTINUED as DRAFT_CONTINUED
from specviz.training.chat_draft import FRESH as DRAFT_FRESH
from specviz.training.chat_draft import (
    TEXT_SHARES,
    DraftReader,
    begin_as_the_target_s,
    chat_draft_config,
    chat_draft_levels,
    load_chat_draft,
    save_chat_draft,
    text_files,
    train_chat_draft,
)
from specviz.training.chat_head import CONTINUED as EAGLE_CONTINUED
from specviz.training.chat_head import FRESH as EAGLE_FRESH
from specviz.training.chat_head import (
    chat_eagle_config,
    chat_eagle_levels,
    fit_by_least_squares,
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
from specviz.training.chat_sampling import sample_answers
from specviz.training.chat_scores import Levels, chat_scores, choice_shares, level_shares
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
    """The share of the time budget that each step of a run gets."""

    ANSWERS = 0.4
    # The EAGLE head gets more than other drafters, because it needs many passes over the answers.
    EAGLE = 0.3
    MEDUSA = 0.05
    DRAFT = 0.25


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """A plan of one run: its input and output folders, its steps and its time budget."""

    target: Path
    corpus: Path
    output: Path
    work: Path
    minutes: float
    steps: tuple[str, ...]
    seed: int
    begun: Path | None  # folder with trained drafters; training continues from their weights

    @property
    def answers(self) -> Path:
        """The folder with the target's answers. Every run adds files to this folder."""
        return self.work / "answers"

    def seconds(self, share: float) -> float:
        """Return how many seconds of processor time a share of the budget is."""
        return 60 * self.minutes * share

    def begun_drafter(self, name: str) -> Path | None:
        """Return the folder of drafter `name` whose training continues.

        Return None if the drafter is new.
        """
        return self.begun / name if self.begun else None

    def library(self) -> LlamaForCausalLM:
        """Load the target as a model of transformers, in float32."""
        return LlamaForCausalLM.from_pretrained(self.target, dtype=torch.float32)


def write_answers_of(plan: ChatPlan) -> dict[str, Any]:
    """Sample answers of the target during this step's share of the budget."""
    sample_answers(
        AnsweringModel(plan.library()),
        AutoTokenizer.from_pretrained(plan.target),
        chat_prompts(plan.corpus),
        plan.answers,
        plan.seconds(ChatShare.ANSWERS),
        plan.seed,
    )
    return {}


@dataclass(frozen=True, slots=True)
class ChatMaterial:
    """The data with which the drafters are trained and measured."""

    config: LlamaConfig  # the configuration of the target, with its sizes
    table: Tensor  # the target's embedding, which is also its output matrix [V, W]
    answers: list[ChatAnswer]
    held_out: list[ChatAnswer]
    mass: Tensor  # sum of the target's probabilities of each token over all answers [V]
    drafted: Tensor  # draft vocabulary of a new drafter [D]

    @classmethod
    def of(cls, plan: ChatPlan) -> ChatMaterial:
        """Read the data in the work folder, and compute the target's probabilities for new answers.

        Raises ValueError if there are no answers.
        """
        library = plan.library()
        model = AnsweringModel(library)
        table = library.model.embed_tokens.weight.detach()
        answers = read_answers(model, plan.answers)
        if not answers:
            raise ValueError(
                f"work must contain answers of the target, got none in {str(plan.answers)!r}: run "
                "the step answers first"
            )
        held_out = read_answers(model, plan.answers / "held-out")
        mass = token_mass(answers, len(table))
        chosen = plan.work / "draft-vocabulary.pt"
        # The draft vocabulary is chosen only once, because checkpoints depend on it.
        if not chosen.exists():
            torch.save(draft_vocabulary(mass, min(DRAFT_VOCABULARY, len(table))), chosen)
        return cls(library.config, table, answers, held_out, mass, torch.load(chosen))

    def earlier(self, folder: Path, levels: Levels, drafted: Tensor) -> EarlierDrafter:
        """Return the facts about the drafter in `folder` whose training is to be continued."""
        return EarlierDrafter(training_text(folder), chat_scores(levels, drafted, self.held_out))

    def facts(
        self,
        network: nn.Module,
        drafted: Tensor,
        progress: Progress,
        earlier: EarlierDrafter | None = None,
    ) -> ChatFacts:
        """Return the facts that the model card of a newly trained drafter contains."""
        return ChatFacts(
            sum(weight.numel() for weight in network.parameters()),
            len(drafted),
            (self.mass[drafted].sum() / self.mass.sum()).item(),
            sum(answer.answer_length for answer in self.answers),
            progress,
            machine(),
            earlier,
        )


def make_chat_eagle(plan: ChatPlan) -> dict[str, Any]:
    """Train the EAGLE head, write its folder `eagle`, and return the scores of each task."""
    given = ChatMaterial.of(plan)
    table, drafted = given.table, given.drafted
    torch.manual_seed(plan.seed)
    network = EagleNetwork(chat_eagle_config(given.config))
    checkpoint = plan.work / "chat-eagle.pt"
    begun = plan.begun_drafter("eagle")
    earlier = None
    if begun:
        weights, drafted = load_chat_eagle(begun)
        network.load_state_dict(weights.state_dict())
        earlier = given.earlier(begun, chat_eagle_levels(weights, table, drafted), drafted)
    reader = ChatReader(given.answers, drafted, len(table), plan.seed)
    if not begun and not checkpoint.exists():
        fit_by_least_squares(network, reader, table)
    course = EAGLE_CONTINUED if begun else EAGLE_FRESH
    seconds = plan.seconds(ChatShare.EAGLE)
    progress = train_chat_eagle(network, reader, table, drafted, checkpoint, seconds, course)
    folder = plan.output / "eagle"
    shares = choice_shares(chat_eagle_levels(network, table, drafted), drafted, given.held_out)
    save_chat_eagle(network, drafted, shares, folder)
    saved, _ = load_chat_eagle(folder)
    scores = chat_scores(chat_eagle_levels(saved, table, drafted), drafted, given.held_out)
    facts = given.facts(saved, drafted, progress, earlier)
    write_chat_eagle_card(folder, saved.config, facts, scores)
    return {task: asdict(found) for task, found in scores.items()}


def make_chat_medusa(plan: ChatPlan) -> dict[str, Any]:
    """Train the Medusa heads, write their folder `medusa`, and return the scores of each task."""
    given = ChatMaterial.of(plan)
    table, drafted, width = given.table, given.drafted, given.config.hidden_size
    reader = PlaceReader(given.answers, drafted, len(table), HEADS, plan.seed)
    torch.manual_seed(plan.seed)
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
    write_chat_medusa_card(folder, saved, given.facts(saved, drafted, progress), scores)
    return {task: asdict(found) for task, found in scores.items()}


def make_chat_draft(plan: ChatPlan) -> dict[str, Any]:
    """Train the small draft model, write its folder `draft`, and return the scores of each task."""
    given = ChatMaterial.of(plan)
    table, drafted = given.table, given.drafted
    codec = survey_model(str(plan.target), Environment.read()).codec
    text = TokenMixture(
        text_files(plan.corpus, plan.target, plan.work / "text"), TEXT_SHARES, seed=plan.seed
    )
    torch.manual_seed(plan.seed)
    begun = plan.begun_drafter("draft")
    earlier = None
    if begun:
        weights, drafted = load_chat_draft(begun)
        network = Network(weights.config)
        network.load_state_dict(weights.state_dict())
        earlier = given.earlier(begun, chat_draft_levels(weights, drafted, len(table)), drafted)
    else:
        network = Network(chat_draft_config(len(drafted), given.config))
        begin_as_the_target_s(network, table, drafted)
    reader = DraftReader(given.answers, drafted, len(table), text, plan.seed)
    checkpoint = plan.work / "chat-draft.pt"
    seconds = plan.seconds(ChatShare.DRAFT)
    course = DRAFT_CONTINUED if begun else DRAFT_FRESH
    progress = train_chat_draft(network, reader, drafted, checkpoint, seconds, course)
    folder = plan.output / "draft"
    save_chat_draft(network, drafted, fingerprint(codec), folder)
    saved, _ = load_chat_draft(folder)
    levels = chat_draft_levels(saved, drafted, len(table))
    scores = chat_scores(levels, drafted, given.held_out)
    facts = given.facts(saved, drafted, progress, earlier)
    write_chat_draft_card(folder, saved.config, facts, scores)
    return {task: asdict(found) for task, found in scores.items()}


STEPS: dict[str, Callable[[ChatPlan], dict[str, Any]]] = {
    "answers": write_answers_of,
    "eagle": make_chat_eagle,
    "medusa": make_chat_medusa,
    "draft": make_chat_draft,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the steps that the command line names; return the exit status."""
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
    parser.add_argument("--output", type=Path, required=True, help="folder for the drafters")
    parser.add_argument("--minutes", type=float, required=True, help="minutes of processor time")
    parser.add_argument(
        "--work", type=Path, default=Path("build/chat"), help="folder for answers and checkpoints"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="use another seed for every run that adds answers"
    )
    parser.add_argument(
        "--continue",
        dest="begun",
        type=Path,
        metavar="DIR",
        help="continue the training of the drafters in this folder",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=tuple(STEPS),
        default=tuple(STEPS),
        metavar="STEP",
        help=f"run only these steps, of {', '.join(STEPS)}",
    )
    return parser


def _plan(options: argparse.Namespace) -> ChatPlan:
    if not options.minutes > 0:
        raise ValueError(f"minutes must be > 0, got {options.minutes}")
    if not (options.target / "config.json").exists():
        raise ValueError(f"target must be a model folder, got {str(options.target)!r}")
    if options.begun and not (options.begun / "eagle" / "config.json").exists():
        begun = str(options.begun)
        raise ValueError(f"continue must be a folder that has eagle/config.json, got {begun!r}")
    return ChatPlan(
        options.target,
        options.corpus,
        options.output,
        options.work,
        options.minutes,
        tuple(step for step in STEPS if step in options.only),
        options.seed,
        options.begun,
    )


if __name__ == "__main__":
    sys.exit(main())
