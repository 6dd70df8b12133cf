"""Compare the adaptive draft length and the entropy stop with every fixed draft length.

Run it on an idle machine with `PYTHONPATH=. python docs/measure_lengths.py --pair bundled`. In each
pass, every setting decodes the same prompts with one method (`--method`) at temperature 0; every
second pass runs in reverse order. Other work on a machine disturbs whole seconds. The speedups are
therefore computed from single rounds: each round of a text counts with the median time of all
measured rounds whose drafts have as many tokens and the same depth. The last column has the
speedups of whole passes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import method_named
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import Pair, pair_named
from specviz.prompts import Framing, held_out_prompts, tasks
from specviz.records import BASELINE, SPECULATIVE, Round, TokenStep
from specviz.slices import own_time

LONGEST, WARM_UP = 8, 4


# Rounds of one kind take about the same time. A kind is the number of drafted tokens, the depth of
# the draft, and whether it could stop early. The baseline's steps are a kind of their own.
Kind = tuple[int, int, bool]
BASELINE_KIND = (-1, -1, False)


def work_seconds(event: Round | TokenStep) -> float:
    """Return the seconds of a round without the time in which the drafter reads the prompt."""
    return event.work_seconds if isinstance(event, Round) else event.seconds


@dataclass(slots=True)
class Setting:
    """One way to decode, with the times of its passes and of all its rounds, for each task."""

    name: str
    method: Method
    changes: dict[str, Any]
    length: int = LONGEST
    is_baseline: bool = False
    seconds: dict[str, list[float]] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    # For each task, the kind of each round of the last pass.
    rounds: dict[str, list[Kind]] = field(default_factory=dict)
    times: list[tuple[Kind, float]] = field(default_factory=list)

    def run(self, request: RaceRequest, steps: int | None = None) -> list[Round | TokenStep]:
        """Decode one prompt, or only its first steps."""
        race = start_race(request)
        try:
            events = islice(race.run_lane(BASELINE if self.is_baseline else SPECULATIVE), steps)
            return [each for each in events if isinstance(each, Round | TokenStep)]
        finally:
            race.close()

    def kind(self, event: Round | TokenStep) -> Kind:
        if isinstance(event, TokenStep):
            return BASELINE_KIND
        tree = event.tree
        depth = max((len(tree.path(node)) for node in range(len(tree.nodes))), default=0)
        return len(tree.nodes), depth, "entropy_threshold" in self.changes

    def pass_over(self, task: str, requests: Sequence[RaceRequest]) -> None:
        began = own_time()
        events = [event for request in requests for event in self.run(request)]
        self.seconds.setdefault(task, []).append(own_time() - began)
        self.tokens[task] = sum(
            len(each.emitted_ids) if isinstance(each, Round) else 1 for each in events
        )
        self.rounds[task] = [self.kind(each) for each in events]
        self.times += [(self.kind(each), work_seconds(each)) for each in events]

    def requests(
        self, pair: Pair, task: str, texts: Sequence[str], tokens: int
    ) -> list[RaceRequest]:
        config = self.method.usual(self.length, max_new_tokens=tokens, **self.changes)
        return [RaceRequest(pair, Framing().of(text), config, task) for text in texts]

    def rates(self, names: Sequence[str]) -> list[float]:
        """Return the tokens per second of each pass, over all tasks in `names` together."""
        tokens = sum(self.tokens[task] for task in names)
        passes = zip(*(self.seconds[task] for task in names), strict=True)
        return [tokens / sum(seconds) for seconds in passes]

    def rate(self, names: Sequence[str], typical: Mapping[Kind, float]) -> float:
        """Return the tokens per second if every round takes the typical time of its kind."""
        seconds = sum(typical[kind] for task in names for kind in self.rounds[task])
        return sum(self.tokens[task] for task in names) / seconds


def all_settings(method: Method, thresholds: Sequence[float]) -> list[Setting]:
    adaptive = {"length_policy": "adaptive"}
    return [
        Setting("baseline", method, {}, is_baseline=True),
        *(Setting(f"K = {length}", method, {}, length) for length in range(1, LONGEST + 1)),
        Setting(f"adaptive, K = {LONGEST}", method, adaptive),
        *(
            Setting(
                f"K = {LONGEST}, entropy threshold {each:g}", method, {"entropy_threshold": each}
            )
            for each in thresholds
        ),
    ]


def typical_times(found: Sequence[Setting]) -> dict[Kind, float]:
    """Return the median time of each kind of round, over all settings, tasks and passes."""
    times: dict[Kind, list[float]] = {}
    for each in found:
        for kind, seconds in each.times:
            times.setdefault(kind, []).append(seconds)
    return {kind: median(seconds) for kind, seconds in times.items()}


def share(
    setting: Setting,
    fixed: Sequence[Setting],
    names: Sequence[str],
    typical: Mapping[Kind, float],
) -> str:
    """Return the rate as a share of the rate of the best fixed length."""
    best = max(fixed, key=lambda each: each.rate(names, typical))
    return f"{setting.rate(names, typical) / best.rate(names, typical):.3f} of {best.name}"


def print_table(found: Sequence[Setting], names: Sequence[str]) -> None:
    """Print a table row for each setting: its speedup, and its tokens per round."""
    typical = typical_times(found)
    baseline, fixed, others = found[0], found[1 : LONGEST + 1], found[LONGEST + 1 :]
    columns = [*([name] for name in names), list(names)]
    print(f"| setting | {' | '.join(names)} | all together | whole passes |")
    print(f"|---{'|---' * (len(columns) + 1)}|")
    plain = " | ".join(f"{baseline.rate(each, typical):.1f} tokens/s" for each in columns)
    print(f"| baseline | {plain} | |")
    for each in found[1:]:
        cells = []
        for column in columns:
            tokens = sum(each.tokens[task] for task in column)
            rounds = sum(len(each.rounds[task]) for task in column)
            speedup = each.rate(column, typical) / baseline.rate(column, typical)
            cells.append(f"{speedup:.2f}, {tokens / rounds:.2f}")
        passes = zip(each.rates(names), baseline.rates(names), strict=True)
        timed = [ours / theirs for ours, theirs in passes]
        cells.append(f"{median(timed):.2f} ({min(timed):.2f}–{max(timed):.2f})")
        print(f"| {each.name} | {' | '.join(cells)} |")
    for each in others:
        cells = [share(each, fixed, column, typical) for column in columns]
        print(f"| {each.name}: share of the best K | {' | '.join(cells)} | |")
    print("milliseconds by (drafted tokens, depth, can stop):", file=sys.stderr)
    print({kind: round(1000 * each, 2) for kind, each in sorted(typical.items())}, file=sys.stderr)


def main() -> None:
    """Measure all settings on all tasks of a pair, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pair", default="bundled")
    parser.add_argument("--method", default="draft-model")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--first", type=int, default=5, help="number of the first prompt")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--passes", type=int, default=4)
    thresholds = "entropy thresholds to compare; none for a method that drafts trees"
    parser.add_argument("--thresholds", type=float, nargs="*", default=[0.2], help=thresholds)
    options = parser.parse_args()
    pair = pair_named(options.pair)
    names = tasks(pair.instruct)
    found = all_settings(method_named(options.method), options.thresholds)
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
