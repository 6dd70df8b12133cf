"""Records one run of every method for the page to teach with; `make traces` calls it.

Each is a race on the bundled pair over a held-out prompt, sampled, so that accepted, recovered and
bonus tokens all occur. Knows nothing of the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.golden import SUFFIX
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.prompts import TASKS, held_out_prompt
from specviz.trace_file import save

TOKENS = 72
TEMPERATURE = 0.7
SEED = 7
PROMPT = 3


def golden_requests() -> Iterator[RaceRequest]:
    """The setting of every golden run, in the registry's order."""
    for method, task in zip(DRAFTERS.values(), cycle(TASKS), strict=False):
        config = method.usual(4, temperature=TEMPERATURE, seed=SEED, max_new_tokens=TOKENS)
        yield RaceRequest(pair_named(BUNDLED), held_out_prompt(task, PROMPT), config, task)


def main(folder: Path) -> None:
    """Write one file per method into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for request in golden_requests():
        race = start_race(request)
        for _ in race:
            pass
        path = folder / f"{request.config.method}.{request.task}{SUFFIX}"
        save(race.trace(), path)
        print(f"{path.name}: {path.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
