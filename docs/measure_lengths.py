"""Compare the adaptive draft length and the entropy stop with every fixed draft length.

Run it on an idle machine with `PYTHONPATH=. python docs/measure_lengths.py --pair bundled`. In each
pass, every setting decodes the same prompts with the method `draft-model` at temperature 0; every
second pass runs in reverse order. A speedup compares with the baseline of the same pass.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import Pair, pair_named
from specviz.prompts import Framing, held_out_prompts, tasks
from specviz.records import BASELINE, SPECULATIVE, Round
from specviz.slices import own_time

METHOD = method_named("draft-model")
LONGEST, WARM_UP = 8, 4


@dataclass(slots=True)
class Setting:
    """One way to decode, with the seconds and tokens of each of its passes, for each task."""

    name: str
    changes: dict[str, Any]
    length: int = LONGEST
    is_baseline: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)

    def run(self, request: RaceRequest, steps: int | None = None) -> tuple[int, int]:
        """Decode one prompt; return the number of tokens and of rounds."""
        race = start_race(request)
        lane = BASELINE if self.is_baseline else SPECULATIVE
        rounds = 0
        try:
            for count, event in enumerate(race.run_lane(lane), start=1):
                rounds += isinstance(event, Round)
                if count == steps:
                    break
        finally:
            race.close()
        return len(race.emitted_ids(lane)), rounds

    def pass_over(self, task: str, requests: Sequence[RaceRequest]) -> None:
        began = own_time()
        found = [self.run(request) for request in requests]
        self.seconds.setdefault(task, []).append(own_time() - began)
        self.tokens[task] = sum(tokens for tokens, _ in found)
        self.rounds[task] = sum(rounds for _, rounds in found)

    def requests(
        self, pair: Pair, task: str, texts: Sequence[str], tokens: int
    ) -> list[RaceRequest]:
        config = METHOD.usual(self.length, max_new_tokens=tokens, **self.changes)
        return [RaceRequest(pair, Framing().of(text), config, task) for text in texts]

    def rates(self, names: Sequence[str]) -> list[float]:
        """Return the tokens per second of each pass over these tasks together."""
        tokens = sum(self.tokens[task] for task in names)
        passes = zip(*(self.seconds[task] for task in names), strict=True)
        return [tokens / sum(seconds) for seconds in passes]


def all_settings(thresholds: Sequence[float]) -> list[Setting]:
    adaptive = {"length_policy": "adaptive"}
    return [
        Setting("baseline", {}, is_baseline=True),
        *(Setting(f"K = {length}", {}, length) for length in range(1, LONGEST + 1)),
        Setting(f"adaptive, K = {LONGEST}", adaptive),
        *(
            Setting(f"K = {LONGEST}, entropy threshold {each:g}", {"entropy_threshold": each})
            for each in thresholds
        ),
    ]


def ratios(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(one, other, strict=True)]


def cell(setting: Setting, baseline: Setting, names: Sequence[str]) -> str:
    """Return the median speedup with its range, and the tokens per round."""
    rates = setting.rates(names)
    if setting.is_baseline:
        return f"{median(rates):.1f} tokens/s"
    found = ratios(rates, baseline.rates(names))
    tokens = sum(setting.tokens[task] for task in names)
    rounds = sum(setting.rounds[task] for task in names)
    spread = f"{median(found):.2f} ({min(found):.2f}–{max(found):.2f})"
    return f"{spread}, {tokens / rounds:.2f}"


def share(setting: Setting, fixed: Sequence[Setting], names: Sequence[str]) -> str:
    """Return the rate as a share of the best fixed length's rate, each in the same pass."""
    best = max(fixed, key=lambda each: median(each.rates(names)))
    found = median(ratios(setting.rates(names), best.rates(names)))
    return f"{found:.3f} of {best.name}"


def print_table(found: Sequence[Setting], names: Sequence[str]) -> None:
    baseline, fixed, others = found[0], found[1 : LONGEST + 1], found[LONGEST + 1 :]
    columns = [*([name] for name in names), list(names)]
    print(f"| setting | {' | '.join(names)} | all together |")
    print(f"|---{'|---' * len(columns)}|")
    for each in found:
        print(f"| {each.name} | {' | '.join(cell(each, baseline, c) for c in columns)} |")
    for each in others:
        cells = " | ".join(share(each, fixed, column) for column in columns)
        print(f"| {each.name}: share of the best K | {cells} |")


def main() -> None:
    """Measure all settings on all tasks of a pair, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="bundled")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--first", type=int, default=5, help="number of the first prompt")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--thresholds", type=float, nargs="*", default=[0.2])
    options = parser.parse_args()
    pair = pair_named(options.pair)
    names = tasks(pair.instruct)
    found = all_settings(options.thresholds)
    for task in names:
        last = options.first - 1 + options.prompts
        texts = held_out_prompts(task, pair.is_asked_to_chat(task))[options.first - 1 : last]
        asked = [each.requests(pair, task, texts, options.tokens) for each in found]
        for each, requests in zip(found, asked, strict=True):
            each.run(requests[0], WARM_UP)
        for number in range(options.passes):
            order = list(zip(found, asked, strict=True))[:: -1 if number % 2 else 1]
            for each, requests in order:
                each.pass_over(task, requests)
            print(f"{task}: pass {number + 1}", file=sys.stderr, flush=True)
    print_table(found, names)


if __name__ == "__main__":
    main()
