"""Target and draft: training, folders, evaluation and cards.

Knows nothing of the other steps.
"""

import shutil
import sys

from specviz.training import model_card
from specviz.training.card import CardFacts
from specviz.training.distillation import distil
from specviz.training.evaluation import Evaluation, evaluate
from specviz.training.loop import Progress
from specviz.training.model_folder import load_network, save_model
from specviz.training.plan import FamilyPlan, Share
from specviz.training.preparation import Material
from specviz.training.pretraining import SHARES, pretrain
from specviz.training.steps.teacher import kept, teacher_cache
from specviz.training.token_file import TokenMixture


def make_pair(plan: FamilyPlan, material: Material) -> Evaluation:
    """The folders `target` and `draft`, and prompts.json beside their parent."""
    target_progress = _make_target(plan, material)
    draft_progress = _make_draft(plan, material)
    folders = plan.output / "target", plan.output / "draft"
    target, draft = map(load_network, folders)
    print("evaluating", file=sys.stderr, flush=True)
    evaluation = evaluate(target, draft, material.tokenizer, material.held_out, material.prompts)
    shutil.copy(plan.work / "prompts.json", plan.output.parent / "prompts.json")
    target_facts = CardFacts.of(plan, target.config, target, target_progress)
    draft_facts = CardFacts.of(plan, draft.config, draft, draft_progress)
    model_card.write_target_card(folders[0], target_facts, evaluation)
    model_card.write_draft_card(folders[1], draft_facts, evaluation)
    return evaluation


def _make_target(plan: FamilyPlan, material: Material) -> Progress:
    network, progress = pretrain(
        plan.target,
        TokenMixture(material.token_files, SHARES, seed=0),
        plan.work / "target.pt",
        plan.seconds(Share.TARGET),
        plan.step_tokens,
        plan.device,
        plan.compiled,
    )
    save_model(network.cpu(), material.tokenizer, plan.output / "target")
    return progress


def _make_draft(plan: FamilyPlan, material: Material) -> Progress:
    network, progress = distil(
        plan.draft,
        teacher_cache(plan, material),
        kept(plan, "draft.pt"),
        plan.seconds(Share.DRAFT),
        plan.device,
        plan.compiled,
    )
    save_model(network.cpu(), material.tokenizer, plan.output / "draft")
    return progress
