"""How many processor threads a pair runs on.

Knows nothing of models but their size.
"""

from __future__ import annotations

import torch

from specviz.environment import Environment
from specviz.records import ModelInfo

# Operations of a model this small end sooner on one thread than two threads take to meet: on two
# cores the bundled target makes 1.2 times as many tokens per second alone.
SMALL_PARAMETERS = 50_000_000
_EVERY_THREAD = torch.get_num_threads()


def use_threads(target: ModelInfo, environment: Environment) -> None:
    """SPECVIZ_THREADS; without it one thread for a small target, torch's own choice for others."""
    fitting = 1 if target.parameters < SMALL_PARAMETERS else _EVERY_THREAD
    torch.set_num_threads(environment.threads or fitting)
