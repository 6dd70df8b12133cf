"""EAGLE head and Medusa heads: training, folders, evaluation and cards.

Knows nothing of the other steps.
"""

from specviz.training.card import CardFacts
from specviz.training.eagle import train_eagle
from specviz.training.head_card import write_eagle_card, write_medusa_card
from specviz.training.head_evaluation import (
    HeadEvaluation,
    eagle_levels,
    evaluate_head,
    medusa_levels,
)
from specviz.training.head_folder import load_eagle, load_medusa, save_eagle, save_medusa
from specviz.training.medusa import train_medusa
from specviz.training.plan import FamilyPlan, Share
from specviz.training.preparation import Material
from specviz.training.steps.teacher import head_material, kept


def make_eagle(plan: FamilyPlan, material: Material) -> HeadEvaluation:
    """The folder `eagle`."""
    lessons = head_material(plan, material)
    network, progress = train_eagle(
        plan.eagle,
        lessons.cache,
        lessons.features,
        lessons.table,
        kept(plan, "eagle.pt"),
        plan.seconds(Share.EAGLE),
        plan.device,
        plan.compiled,
    )
    folder = plan.output / "eagle"
    save_eagle(network.cpu(), folder)
    levels = eagle_levels(load_eagle(folder), lessons.table)
    evaluation = evaluate_head(lessons.target, levels, lessons.texts)
    write_eagle_card(folder, CardFacts.of(plan, plan.eagle, network, progress), evaluation)
    return evaluation


def make_medusa(plan: FamilyPlan, material: Material) -> HeadEvaluation:
    """The folder `medusa`."""
    lessons = head_material(plan, material)
    network, progress = train_medusa(
        lessons.cache,
        lessons.features,
        lessons.table,
        kept(plan, "medusa.pt"),
        plan.seconds(Share.MEDUSA),
        plan.device,
        plan.compiled,
    )
    folder = plan.output / "medusa"
    save_medusa(network.cpu(), [], folder)
    saved = load_medusa(folder)
    evaluation = evaluate_head(lessons.target, medusa_levels(saved), lessons.texts)
    save_medusa(saved, evaluation.accuracies, folder)
    facts = CardFacts.of(plan, lessons.target.config, network, progress)
    write_medusa_card(folder, facts, evaluation)
    return evaluation
