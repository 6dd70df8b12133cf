"""Compare traversal verification with token by token on the same draft trees.

Run it with `PYTHONPATH=. python docs/measure_traversal.py --pair bundled`; every draw is seeded.
The texts are those of traversal verification. Both rules judge every draft that has all levels. The
expected number of accepted tokens is computed from their acceptance probabilities, so it does not
depend on random draws. The intervals contain 95 % of the bootstrap samples over prompts.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.decoding.rules import token_by_token, traversal
from specviz.decoding.rules.rule import Acceptance
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.topology import Topology, tree_shape
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.prompts import held_out_prompts, tasks
from specviz.records import DecodingConfig, Drawing

METHOD = method_named("draft-tree")
BRANCHING = (2, 2, 2)
SAMPLES = 4000
Groups = Sequence[Sequence[int]]
# Sums over the drafts of a prompt: their number, and the accepted tokens that each rule expects.
Sums = tuple[float, ...]


def expected_down(groups: Groups, chances: Sequence[float], row: int = 0) -> float:
    """Return how many nodes a walk down from a row accepts on average.

    Row 0 is the root, and row i + 1 is node i. `groups` has the children of each row, and `chances`
    the acceptance probability of each node.
    """
    total, reached = 0.0, 1.0
    for child in groups[row]:
        total += reached * chances[child] * (1 + expected_down(groups, chances, child + 1))
        reached *= 1 - chances[child]
    return total


def expected_up(
    groups: Groups, chances: Sequence[float], row: int = 0, depth: int = 1
) -> tuple[float, float]:
    """Return what a walk up from the leaves accepts on average if it ends below a row.

    The first number is the mean number of nodes on the accepted path. The second is the probability
    that all nodes below the row fail. `depth` is the depth of the row's children.
    """
    total, failed = 0.0, 1.0
    for child in groups[row]:
        below, missed = expected_up(groups, chances, child + 1, depth + 1)
        total += failed * (below + missed * chances[child] * depth)
        failed *= missed * (1 - chances[child])
    return total, failed


@dataclass(eq=False)
class BothRules:
    """Traversal verification that also adds up the expected accepted tokens of both rules."""

    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    def accept(
        self, topology: Topology, token_ids: Tensor, drawing: Drawing, p: Tensor, q: Tensor | None
    ) -> Acceptance:
        judged = traversal.traversal(topology, token_ids, drawing, p, q)
        if topology.height == len(BRANCHING):
            single = token_by_token.acceptance(topology, token_ids, drawing, p, q)
            groups = tree_shape(tuple(topology.parents.tolist())).groups
            found = (
                1.0,
                expected_down(groups, single.acceptance_probs.tolist()),
                expected_up(groups, judged.acceptance_probs.tolist())[0],
            )
            self.sums = [before + more for before, more in zip(self.sums, found, strict=True)]
        return judged


def sums_of(loaded: LoadedPair, task: str, text: str, config: DecodingConfig) -> Sums:
    """Decode one prompt, and return the sums over its drafts."""
    ids, both = loaded.codec.encode(text, task), BothRules()
    most = len(ids) + config.max_new_tokens + len(BRANCHING)
    drafter = make_drafter(Setup(loaded.target, loaded.parts, config, most))
    rule = replace(traversal.RULE, accept=both.accept)
    run = SpeculativeRun(loaded.target, drafter, ids, config, loaded.codec.eos_ids, rule=rule)
    run.prefill()
    while run.finish is None:
        run.round()
    drafter.close()
    return tuple(both.sums)


def gains(prompts: Sequence[Sums]) -> tuple[float, ...]:
    """Return each rule's mean of accepted tokens per draft, and the gain of traversal verification.

    The last two numbers are the gain in accepted tokens and the gain in tokens per forward.
    """
    count, down, up = (sum(column) for column in zip(*prompts, strict=True))
    return down / count, up / count, up / down - 1, (count + up) / (count + down) - 1


def row(prompts: Sequence[Sums]) -> list[str]:
    """Return the cells of a table row: drafts, both means, and both gains with their intervals."""
    choose = random.Random(0)
    spread = [gains(choose.choices(prompts, k=len(prompts))) for _ in range(SAMPLES)]
    by_token, upwards, *more = gains(prompts)
    cells = [f"{sum(count for count, *_ in prompts):,.0f}", f"{by_token:.3f}", f"{upwards:.3f}"]
    for each, found in zip(more, list(zip(*spread, strict=True))[2:], strict=True):
        low, high = (sorted(found)[int(SAMPLES * share)] for share in (0.025, 0.975))
        cells.append(f"{each:+.1%} [{low:.1%}, {high:.1%}]".replace("%", " %"))
    return cells


def main() -> None:
    """Print a table with a row for each drawing and temperature."""
    parser = argparse.ArgumentParser(description="Compare two rules on the same draft trees.")
    parser.add_argument("--pair", default="bundled")
    parser.add_argument("--prompts", type=int, default=20, help="prompts of each task")
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pair = pair_named(options.pair)
    loaded = load_pair(pair, "cpu", "float32", METHOD.needs)
    names = tasks(pair.instruct)
    held_out = [
        (task, text)
        for task in names
        for text in held_out_prompts(task, pair.instruct)[: options.prompts]
    ]
    heads = ("accepted, `token`", "accepted, `traversal`", "gain", "gain in tokens per forward")
    print(f"{len(held_out)} prompts, branching {','.join(map(str, BRANCHING))}")
    print(f"| drawing | temperature | drafts | {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|")
    for drawing in (Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT):
        for temperature in (0.7, 1.0):
            config = METHOD.usual(
                len(BRANCHING),
                branching=BRANCHING,
                drawing=drawing,
                temperature=temperature,
                rule="traversal",
                max_new_tokens=options.tokens,
            )
            made = [sums_of(loaded, *each, config) for each in held_out]
            cells = row([each for each in made if each[0]])
            print(f"| `{drawing.value}` | {temperature:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
