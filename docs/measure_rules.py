"""Compare block verification with token by token on the same drafts of the bundled pair.

Run it with `PYTHONPATH=. python docs/measure_rules.py`; every draw is seeded. The record of a round
has p, q and the acceptance probability h of every guess, even after a rejection. So for both rules,
the expected number of accepted tokens of a whole draft can be computed. The intervals contain 95 %
of the bootstrap samples over prompts.
"""

import random
from collections.abc import Iterator, Sequence

import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter, method_named
from specviz.metrics.expected_accepted import expected_accepted
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import LoadedPair, load_pair
from specviz.prompts import all_held_out
from specviz.records import Round

METHOD = method_named("draft-model")
LENGTH, TOKENS = 5, 64
SAMPLES = 4000
# Sums over the drafts of a prompt: their number, and the accepted tokens that each rule expects.
Sums = tuple[float, ...]


def drafts(loaded: LoadedPair, task: str, text: str, temperature: float) -> Iterator[Round]:
    """Decode one prompt with block verification; yield its rounds that drafted LENGTH tokens."""
    config = METHOD.usual(LENGTH, temperature=temperature, rule="block", max_new_tokens=TOKENS)
    ids = loaded.codec.encode(text, task)
    drafter = make_drafter(Setup(loaded.target, loaded.parts, config, len(ids) + TOKENS + LENGTH))
    events = speculative.decode(loaded.target, drafter, ids, config, loaded.codec.eos_ids)
    rounds = (each for each in events if isinstance(each, Round))
    return (each for each in rounds if len(each.verdicts) == LENGTH)


def gains(prompts: Sequence[Sums]) -> tuple[float, ...]:
    """Return each rule's mean of accepted tokens per draft, and the gain of block verification.

    The last two numbers are the gain in accepted tokens and the gain in tokens per forward.
    """
    count, by_token, as_block = (sum(column) for column in zip(*prompts, strict=True))
    per_forward = (count + as_block) / (count + by_token)
    return by_token / count, as_block / count, as_block / by_token - 1, per_forward - 1


def main() -> None:
    """Print a table with a row for each temperature."""
    torch.set_num_threads(1)
    loaded = load_pair(pair_named(BUNDLED), "cpu", "float32", METHOD.needs)
    held_out = [(task, text) for task, texts in all_held_out(False).items() for text in texts]
    heads = ("accepted, `token`", "accepted, `block`", "gain", "gain in tokens per forward")
    print(f"| temperature | drafts | {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|")
    for temperature in (0.7, 1.0):
        made = [list(drafts(loaded, *each, temperature)) for each in held_out]
        rows = [[(1.0, *expected_accepted(each)) for each in rounds] for rounds in made if rounds]
        sums: list[Sums] = [tuple(map(sum, zip(*each, strict=True))) for each in rows]
        choose = random.Random(0)
        spread = [gains(choose.choices(sums, k=len(sums))) for _ in range(SAMPLES)]
        by_token, as_block, *more = gains(sums)
        cells = [f"{temperature:g}", f"{sum(map(len, rows)):,}", f"{by_token:.3f}"]
        cells.append(f"{as_block:.3f}")
        for each, found in zip(more, list(zip(*spread, strict=True))[2:], strict=True):
            low, high = (sorted(found)[int(SAMPLES * share)] for share in (0.025, 0.975))
            cells.append(f"{each:+.1%} [{low:.1%}, {high:.1%}]".replace("%", " %"))
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
