"""The whole run, step by step, from the corpus to all model folders and their cards.

Knows nothing of the command line, nor of what a step does.
"""

from collections.abc import Callable
from typing import Any

from specviz.training.plan import FamilyPlan, Step
from specviz.training.preparation import Material, prepare, write_json
from specviz.training.steps.foreign import make_foreign_draft
from specviz.training.steps.heads import make_eagle, make_medusa
from specviz.training.steps.pair import make_pair
from specviz.training.steps.self_drafting import make_self_drafting

_MAKERS: dict[Step, Callable[[FamilyPlan, Material], dict[str, Any]]] = {
    Step.PAIR: lambda plan, material: make_pair(plan, material).to_dict(),
    Step.SELF_DRAFTING: make_self_drafting,
    Step.EAGLE: lambda plan, material: make_eagle(plan, material).to_dict(),
    Step.MEDUSA: lambda plan, material: make_medusa(plan, material).to_dict(),
    Step.FOREIGN_DRAFT: lambda plan, material: make_foreign_draft(plan, material).to_dict(),
}


def make_family(plan: FamilyPlan) -> dict[str, dict[str, Any]]:
    """Makes the plan's steps in order; what each measured, also in `work` as <step>.json.

    Raises ValueError if a step needs a target and there is none.
    """
    if Step.PAIR not in plan.steps and not (plan.output / "target" / "config.json").exists():
        raise ValueError(f"output must hold a target without {Step.PAIR}, got {str(plan.output)!r}")
    material = prepare(plan.corpus, plan.work, plan.library)
    measured = {}
    for step in (step for step in Step if step in plan.steps):
        measured[step.value] = _MAKERS[step](plan, material)
        write_json(plan.work / f"{step}.json", measured[step.value])
    return measured
