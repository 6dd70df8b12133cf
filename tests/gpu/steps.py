"""The steps of a GPU probe, the most valuable first, with the time limit of each."""

from __future__ import annotations

from tests.gpu import costs, cuda_tests, exactness, facts, races
from tests.gpu.step import Step

STEPS = (
    Step("facts", 15, 10, facts.parts),
    Step(cuda_tests.STEP, 110, 110, cuda_tests.parts),
    Step("exactness", 70, 15, exactness.parts),
    Step("cost", 150, 40, costs.parts),
    Step("races", 160, 30, races.parts),
)
