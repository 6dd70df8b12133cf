"""How the target drafts for itself: after which layer it may stop, and which it may leave out.

Knows nothing of the other steps.
"""

import numpy as np
import torch

from specviz.training.layer_skipping import layers_to_skip
from specviz.training.plan import FamilyPlan
from specviz.training.preparation import Material, write_json
from specviz.training.pretraining import EXIT_LAYER
from specviz.training.steps.teacher import teacher, teacher_cache

ROWS = 12  # windows that the search looks at


def make_self_drafting(plan: FamilyPlan, material: Material) -> dict[str, object]:
    """self_drafting.json in the target's folder."""
    tokens = teacher_cache(plan, material).tokens
    picked = np.random.default_rng(0).permutation(len(tokens))[:ROWS]
    windows = torch.from_numpy(tokens[picked][:, :-1].astype(np.int64)).to(plan.device)
    ways: dict[str, object] = {
        "exit_layer": EXIT_LAYER,
        "skipped_layers": layers_to_skip(teacher(plan), windows),
    }
    write_json(plan.output / "target" / "self_drafting.json", ways)
    return ways
