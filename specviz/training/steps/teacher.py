"""What all that drafts learns from the finished target: its judgement of texts, and what it writes.

Everything is of the target as it is shipped, and kept under its fingerprint: another target's is
never mistaken for it. Knows nothing of what learns from it.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specviz.training.feature_cache import Features, make_features
from specviz.training.head_evaluation import HeldOutText, held_out_text
from specviz.training.model_folder import fingerprint, load_network
from specviz.training.network import Network
from specviz.training.plan import FamilyPlan, Share
from specviz.training.preparation import Material
from specviz.training.pretraining import SHARES
from specviz.training.teacher_cache import TeacherCache, make_cache
from specviz.training.token_file import TokenMixture


def kept(plan: FamilyPlan, name: str) -> Path:
    """The place in the work folder of something that depends on the target's weights."""
    return plan.work / f"target-{fingerprint(plan.output / 'target')}" / name


def teacher(plan: FamilyPlan) -> Network:
    """The target as shipped, its products in bfloat16."""
    return load_network(plan.output / "target", torch.bfloat16).to(plan.device)


def teacher_cache(plan: FamilyPlan, material: Material) -> TeacherCache:
    """The target's distributions on texts that it read and wrote."""
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
    """What a head is trained and measured on."""

    target: Network  # float32, on the CPU
    table: Tensor  # its tied head [V, W]
    cache: TeacherCache
    features: Features
    texts: HeldOutText


def head_material(plan: FamilyPlan, material: Material) -> HeadMaterial:
    """Made, or read from the work folder."""
    target = load_network(plan.output / "target")
    cache = teacher_cache(plan, material)
    return HeadMaterial(
        target,
        target.model.embed_tokens.weight.detach(),
        cache,
        make_features(teacher(plan), cache.tokens, kept(plan, "teacher") / "features.npy"),
        held_out_text(target, material.tokenizer, material.held_out, kept(plan, "written.json")),
    )
