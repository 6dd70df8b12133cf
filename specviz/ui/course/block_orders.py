"""The server side of a lesson that compares block verification with token-by-token verification.

Both rules judge the same drafts. For a vocabulary of two words, the results are computed exactly
from all possible drafts. For the bundled pair, a job measures how many more drafted tokens block
verification accepts; its messages are `progress`, then `blocks` and `end`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from specviz.decoding.drafters.registry import method_named
from specviz.errors import number_between, whole_between
from specviz.experiments.run.enumerated_rules import LONGEST, VARIANTS, enumerated_rule
from specviz.experiments.run.judged_drafts import drafted_rounds, rule_gain, sums_of
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.models.pair_loading import load_pair
from specviz.prompts import TASKS, held_out_rows
from specviz.records import DecodingConfig
from specviz.slices import until_stopped
from specviz.ui.course.pair_orders import PairOrder
from specviz.ui.messages import Message
from specviz.ui.turns import Work

# Draft lengths of the draft model, whose tokens are drawn at random.
LENGTHS = (1, 2, 3, 5, 8)
COPIED = 5  # draft length of prompt lookup, whose tokens are copied without a random draw
TOKENS = 48  # tokens to decode per prompt
TEMPERATURE = 1.0
PROMPTS = 4  # prompts per task


def _config(method: str, length: int) -> DecodingConfig:
    return method_named(method).usual(
        length, temperature=TEMPERATURE, rule="block", max_new_tokens=TOKENS
    )


CONFIGS = (
    *(_config("draft-model", length) for length in LENGTHS),
    _config("prompt-lookup", COPIED),
)


@dataclass(frozen=True, slots=True)
class BlocksOrder(PairOrder):
    """A job that compares how many tokens of the same drafts the two verification rules accept.

    A row of the message `blocks` says whether the draft was copied, and has its length and a
    `RuleGain`. If the user stops the job, it sends only rows that are completely measured.
    """

    work: ClassVar[Work] = Work.LAB  # queued like the lab's measurements: it takes a minute

    prompts: int  # number of prompts per task

    def messages(self, stop: threading.Event) -> Generator[Message]:
        texts = [(task, text) for task in TASKS for text in held_out_rows(task, self.prompts)]
        loaded = load_pair(self.measured, needs=method_named("draft-model").needs)
        rows: list[dict[str, Any]] = []
        done, points = 0, len(CONFIGS) * len(texts)
        for config in CONFIGS:
            runs = (drafted_rounds(loaded, config, *each) for each in texts)
            sums = []
            for rounds in until_stopped(runs, stop):
                done += 1
                sums.append(sums_of(rounds))
                yield {"kind": "progress", "done": done, "points": points}
            if len(sums) == len(texts):
                row = {"is_copied": not config.drawing.is_drawn, "K": config.draft_length}
                rows.append(row | asdict(rule_gain(sums)))
        if rows:
            facts = {"temperature": TEMPERATURE, "prompts": len(texts)}
            yield {"kind": "blocks", **facts, "rows": rows}
        yield {"kind": "end", "reason": "stopped" if stop.is_set() else "done"}


def blocks_order(_: Mapping[str, Any], prompts: int = PROMPTS) -> BlocksOrder:
    """Return the job for the bundled pair; it measures `prompts` prompts of each task."""
    return BlocksOrder(pair_named(BUNDLED), prompts)


def two_words_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exact results of each verification rule for a vocabulary of two words.

    The question is {"p", "q", "K"}: the target's and the draft's probability of the first word at
    every position, and the draft length. The answer maps the name of a rule to its results for all
    drafts of K words. In the answer, a text is a list of 0 (first word) and 1 (second word).
    """
    p, q = (number_between(question.get(name), name, 0, 1) for name in ("p", "q"))
    length = whole_between(question.get("K"), "K", 1, LONGEST)
    found = {name: enumerated_rule(name, p, q, length) for name in VARIANTS}
    return {
        name: {
            "drafts": [asdict(each) for each in rule.drafts],
            "accepted": rule.accepted,
            "distance": rule.distance,
            "texts": [
                {"words": list(words), "came": came, "wanted": wanted}
                for words, (came, wanted) in rule.texts.items()
            ],
        }
        for name, rule in found.items()
    }
