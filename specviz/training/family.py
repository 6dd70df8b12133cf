"""Make all model folders and their model cards from the corpus, step by step.

Each step stores its result in the work folder. A step whose result exists is skipped.
"""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.training.cards import (
    CardFacts,
    write_draft_card,
    write_eagle_card,
    write_foreign_card,
    write_medusa_card,
    write_target_card,
)
from specviz.training.corpus import read_corpus, standard_library
from specviz.training.distillation import TeacherCache, distil, make_cache
from specviz.training.evaluation import Evaluation, evaluate
from specviz.training.foreign_training import (
    ForeignEvaluation,
    Reader,
    evaluate_foreign,
    foreign_mixture,
    prepare_foreign,
    train_foreign,
)
from specviz.training.head_training import (
    Features,
    HeadEvaluation,
    HeldOutText,
    eagle_levels,
    evaluate_head,
    held_out_text,
    load_eagle,
    load_medusa,
    make_features,
    medusa_levels,
    save_eagle,
    save_medusa,
    train_eagle,
    train_medusa,
)
from specviz.training.layer_skipping import layers_to_skip
from specviz.training.network import Network, fingerprint, load_network, save_model
from specviz.training.plan import FamilyPlan, Share, Step
from specviz.training.pretraining import EXIT_LAYER, SHARES, Progress, pretrain
from specviz.training.token_files import Material, TokenMixture, open_tokenizer, prepare, write_json

# Drafters learn from the finished target: from its probabilities, and from the text that it writes.
# Probabilities and text are stored in a folder that is named by the fingerprint of the target's
# weights, so that those of another target are never used by mistake.


def kept(plan: FamilyPlan, name: str) -> Path:
    """Return the path of the file or folder `name`, which depends on the target's weights.

    The folder of the path is named by a fingerprint of these weights.
    """
    return plan.work / f"target-{fingerprint(plan.output / 'target')}" / name


def teacher(plan: FamilyPlan) -> Network:
    """Load the target from its folder; its matrix multiplications run in bfloat16."""
    return load_network(plan.output / "target", torch.bfloat16).to(plan.device)


def teacher_cache(plan: FamilyPlan, material: Material) -> TeacherCache:
    """Return the target's distributions on texts of the corpus and on texts that it wrote."""
    return make_cache(
        teacher(plan),
        TokenMixture(material.token_files, SHARES, seed=1),
        kept(plan, "teacher"),
        plan.seconds(Share.CACHE),
        plan.cache_rows,
        plan.cache_window,
    )


@dataclass(frozen=True, slots=True)
class HeadMaterial:
    """The data with which a drafting head is trained and measured."""

    target: Network  # the target in float32, on the CPU
    table: Tensor  # the target's output matrix, which is also its embedding: [vocabulary, width]
    cache: TeacherCache
    features: Features
    texts: HeldOutText


def head_material(plan: FamilyPlan, material: Material) -> HeadMaterial:
    """Compute the data with which heads are trained, or read it from the work folder."""
    target = load_network(plan.output / "target")
    cache = teacher_cache(plan, material)
    return HeadMaterial(
        target,
        target.model.embed_tokens.weight.detach(),
        cache,
        make_features(teacher(plan), cache.tokens, kept(plan, "teacher") / "features.npy"),
        held_out_text(target, material.tokenizer, material.held_out, kept(plan, "written.json")),
    )


def make_pair(plan: FamilyPlan, material: Material) -> Evaluation:
    """Train target and draft, write their folders and prompts.json, and return their scores.

    The folders are `target` and `draft` in the output folder; prompts.json is next to that folder.
    """
    target_progress = _make_target(plan, material)
    draft_progress = _make_draft(plan, material)
    folders = plan.output / "target", plan.output / "draft"
    target, draft = map(load_network, folders)
    print("evaluating", file=sys.stderr, flush=True)
    evaluation = evaluate(target, draft, material.tokenizer, material.held_out, material.prompts)
    shutil.copy(plan.work / "prompts.json", plan.output.parent / "prompts.json")
    target_facts = CardFacts.of(plan, target.config, target, target_progress)
    draft_facts = CardFacts.of(plan, draft.config, draft, draft_progress)
    write_target_card(folders[0], target_facts, evaluation)
    write_draft_card(folders[1], draft_facts, evaluation)
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


SEARCH_ROWS = 12  # number of text windows on which the search compares layers


def make_self_drafting(plan: FamilyPlan, material: Material) -> dict[str, object]:
    """Write self_drafting.json into the target's folder, and return its content.

    The target can draft for itself in two ways: it stops after an early layer, or it leaves out
    some layers. The file names the early layer, and the layers that are left out.
    """
    tokens = teacher_cache(plan, material).tokens
    picked = np.random.default_rng(0).permutation(len(tokens))[:SEARCH_ROWS]
    windows = torch.from_numpy(tokens[picked][:, :-1].astype(np.int64)).to(plan.device)
    ways: dict[str, object] = {
        "exit_layer": EXIT_LAYER,
        "skipped_layers": layers_to_skip(teacher(plan), windows),
    }
    write_json(plan.output / "target" / "self_drafting.json", ways)
    return ways


def make_eagle(plan: FamilyPlan, material: Material) -> HeadEvaluation:
    """Train the EAGLE head, write its folder `eagle`, and return its scores."""
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
    """Train the Medusa heads, write their folder `medusa`, and return their scores."""
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
    vocabulary = len(lessons.table)
    save_medusa(network.cpu(), vocabulary, [], folder)
    saved = load_medusa(folder)
    evaluation = evaluate_head(lessons.target, medusa_levels(saved, lessons.table), lessons.texts)
    save_medusa(saved, vocabulary, evaluation.accuracies, folder)
    facts = CardFacts.of(plan, lessons.target.config, network, progress)
    write_medusa_card(folder, facts, evaluation)
    return evaluation


def make_foreign_draft(plan: FamilyPlan, material: Material) -> ForeignEvaluation:
    """Train the foreign draft, write its folder `foreign-draft`, and return its scores."""
    texts = _prepared(plan, material)
    network, progress = train_foreign(
        plan.foreign,
        foreign_mixture(texts, seed=4),
        kept(plan, "foreign-draft.pt"),
        plan.seconds(Share.FOREIGN_DRAFT),
        plan.device,
        plan.compiled,
    )
    folder = plan.output / "foreign-draft"
    save_model(network.cpu(), open_tokenizer(texts / "tokenizer"), folder)
    target, draft, foreign = map(_reader, (plan.output / "target", plan.output / "draft", folder))
    evaluation = evaluate_foreign(target, draft, foreign, material.held_out)
    write_foreign_card(folder, CardFacts.of(plan, plan.foreign, network, progress), evaluation)
    return evaluation


def _prepared(plan: FamilyPlan, material: Material) -> Path:
    folder = kept(plan, "foreign")
    if not (folder / "tokenizer").exists():
        corpus = read_corpus(plan.corpus, plan.library or standard_library())
        written = teacher_cache(plan, material).written(plan.cache_rows)
        prepare_foreign(corpus, material.tokenizer, written, folder)
    return folder


def _reader(folder: Path) -> Reader:
    return Reader(load_network(folder), open_tokenizer(folder))


_MAKERS: dict[Step, Callable[[FamilyPlan, Material], dict[str, Any]]] = {
    Step.PAIR: lambda plan, material: make_pair(plan, material).to_dict(),
    Step.SELF_DRAFTING: make_self_drafting,
    Step.EAGLE: lambda plan, material: make_eagle(plan, material).to_dict(),
    Step.MEDUSA: lambda plan, material: make_medusa(plan, material).to_dict(),
    Step.FOREIGN_DRAFT: lambda plan, material: make_foreign_draft(plan, material).to_dict(),
}


def make_family(plan: FamilyPlan) -> dict[str, dict[str, Any]]:
    """Run the plan's steps in order, and return the measurements of each step by its name.

    The measurements are also stored as <step>.json in the work folder. Raise ValueError if the
    target is neither in the output folder nor among the steps.
    """
    if Step.PAIR not in plan.steps and not (plan.output / "target" / "config.json").exists():
        raise ValueError(
            f"output must contain a trained target if the step {Step.PAIR} is left out, "
            f"got {str(plan.output)!r}"
        )
    material = prepare(plan.corpus, plan.work, plan.library)
    measured = {}
    for step in (step for step in Step if step in plan.steps):
        measured[step.value] = _MAKERS[step](plan, material)
        write_json(plan.work / f"{step}.json", measured[step.value])
    return measured
