"""In ten situations, the advisor's choice is compared with measurements of all settings.

Each comparison takes minutes, and other work on the machine adds noise. To see the results, run
`pytest -m slow -s` on this file.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from specviz.advisor.advice import LENGTHS
from specviz.experiments.advice.advice_check import AdviceCheck
from specviz.experiments.advice.advising import Advising
from specviz.experiments.advice.probing import AdviceRequest
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.prompts import held_out_prompts
from specviz.records import DecodingConfig

pytestmark = pytest.mark.slow
# The smallest share of the largest measured speedup that the advisor's choice must reach.
REACHED = 0.9
BUNDLED = pair_named("bundled")
FOREIGN = custom_pair(BUNDLED.target, BUNDLED.foreign_draft)
# The draft model of this pair is the target itself, so it is as slow as the target.
OWN_WEIGHT = custom_pair(BUNDLED.target, BUNDLED.target)


@dataclass(frozen=True, slots=True)
class Setting:
    """A task, a temperature and a batch size for which the advisor must choose a method.

    `prompts` is the number of prompts. The test takes them from the end of the task's prompts,
    because the first ones were used during development.
    """

    task: str
    temperature: float
    tokens: int
    batch_size: int = 1
    pair: Pair = BUNDLED
    prompts: int = 4

    @property
    def request(self) -> AdviceRequest:
        texts = held_out_prompts(self.task)[-self.prompts :]
        config = DecodingConfig(temperature=self.temperature, max_new_tokens=self.tokens)
        return AdviceRequest(self.pair, texts, config, self.task, self.batch_size, device="cpu")


SETTINGS = {
    "code": Setting("code", 0.0, 64),
    "story": Setting("story", 0.0, 64),
    "maths, warm": Setting("maths", 0.7, 64),
    "translate, short": Setting("translate", 0.0, 16),
    "summarise, hot": Setting("summarise", 1.0, 64),
    "code, long": Setting("code", 0.0, 150, prompts=2),
    "code, batch of 4": Setting("code", 0.0, 32, batch_size=4),
    "story, hot, batch of 8": Setting("story", 1.0, 24, batch_size=8, prompts=8),
    "foreign draft": Setting("code", 0.0, 48, pair=FOREIGN),
    "draft as slow as the target, hot": Setting("story", 1.0, 48, pair=OWN_WEIGHT),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_choice_reaches_nine_tenths_of_the_best_of_all_settings(name: str) -> None:
    """If every method is slower than plain decoding, the best is plain decoding, with speedup 1."""
    request = SETTINGS[name].request
    advising = Advising(request)
    for _ in advising:
        pass
    advice = advising.advice()
    assert advice is not None
    check = AdviceCheck(request, advice.best.candidate if advice.speculate else None, LENGTHS)
    for _ in check:
        pass
    result = check.result()
    best = result.settings[0]
    print(
        f"\n{name}: {advice.verdict} Measured {result.advised_speedup:.2f}x; best "
        f"{best.candidate.title} {result.best_speedup:.2f}x of {len(result.settings)} settings; "
        f"reached {100 * result.reached:.0f} %"
    )
    assert result.reached >= REACHED
