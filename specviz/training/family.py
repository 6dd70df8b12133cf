"""The whole run, step by step, from the corpus to both model folders and their cards.

Each step leaves its result in the work folder and is skipped when it is there. Knows nothing of
the command line.
"""

import os
import platform
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import LlamaConfig

from specviz.training import model_card
from specviz.training.distillation import distil, draft_config
from specviz.training.evaluation import Evaluation, evaluate
from specviz.training.loop import Progress
from specviz.training.model_folder import load_network, save_model
from specviz.training.network import Network
from specviz.training.preparation import Material, prepare, write_json
from specviz.training.pretraining import SHARES, STEP_TOKENS, llama_config, pretrain
from specviz.training.teacher_cache import WINDOW, make_cache
from specviz.training.token_file import TokenMixture

# Of the budget; the rest goes to text and evaluation.
TARGET_SHARE, CACHE_SHARE, DRAFT_SHARE = 0.78, 0.06, 0.11


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """What to make, from what, and within how long."""

    corpus: Path
    output: Path
    work: Path
    minutes: float
    device: str = "cpu"
    compiled: bool = True
    library: Path | None = None  # None: that of the running interpreter
    target: LlamaConfig = field(default_factory=llama_config)
    draft: LlamaConfig = field(default_factory=draft_config)
    step_tokens: int = STEP_TOKENS
    cache_rows: int = 192
    cache_window: int = WINDOW

    def seconds(self, share: float) -> float:
        """A share of the budget."""
        return 60 * self.minutes * share


def make_family(plan: FamilyPlan) -> Evaluation:
    """Both model folders in `plan.output`, prompts.json beside it, evaluation.json in `work`."""
    material = prepare(plan.corpus, plan.work, plan.library)
    target_progress = _make_target(plan, material)
    draft_progress = _make_draft(plan, material, target_progress.step)
    target, draft = load_network(plan.output / "target"), load_network(plan.output / "draft")
    _say("evaluating")
    evaluation = evaluate(target, draft, material.tokenizer, material.held_out, material.prompts)
    write_json(plan.work / "evaluation.json", evaluation.to_dict())
    shutil.copy(plan.work / "prompts.json", plan.output.parent / "prompts.json")
    target_facts = _facts(plan, target, target_progress)
    model_card.write_target_card(plan.output / "target", target_facts, evaluation)
    model_card.write_draft_card(
        plan.output / "draft", _facts(plan, draft, draft_progress), evaluation
    )
    return evaluation


def _make_target(plan: FamilyPlan, material: Material) -> Progress:
    network, progress = pretrain(
        plan.target,
        TokenMixture(material.token_files, SHARES, seed=0),
        plan.work / "target.pt",
        plan.seconds(TARGET_SHARE),
        plan.step_tokens,
        plan.device,
        plan.compiled,
    )
    save_model(network.cpu(), material.tokenizer, plan.output / "target")
    return progress


def _make_draft(plan: FamilyPlan, material: Material, target_step: int) -> Progress:
    """Distilled from the target as it is shipped, in bfloat16; anew if the target went on."""
    cache = make_cache(
        load_network(plan.output / "target", torch.bfloat16).to(plan.device),
        TokenMixture(material.token_files, SHARES, seed=1),
        plan.work / f"teacher-{target_step}",
        plan.seconds(CACHE_SHARE),
        plan.cache_rows,
        plan.cache_window,
    )
    network, progress = distil(
        plan.draft,
        cache,
        plan.work / f"draft-{target_step}.pt",
        plan.seconds(DRAFT_SHARE),
        plan.device,
        plan.compiled,
    )
    save_model(network.cpu(), material.tokenizer, plan.output / "draft")
    return progress


def _facts(plan: FamilyPlan, network: Network, progress: Progress) -> model_card.CardFacts:
    return model_card.CardFacts(
        config=network.config,
        parameters=sum(weight.numel() for weight in network.parameters()),
        progress=progress,
        machine=_machine(plan.device),
        minutes=plan.minutes,
    )


def _machine(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{os.cpu_count()} shared {platform.machine()} CPU cores"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
