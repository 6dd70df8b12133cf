"""A fork with rounds of a lossy rule is not lossless, even if its own rule is exact."""

from specviz.experiments.run.forking import ForkRequest, start_fork
from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.records import DecodingConfig, Drawing, Trace

PAIR = pair_named(BUNDLED)
TYPICAL = DecodingConfig(
    method="medusa", drawing=Drawing.CHOSEN, rule="typical", temperature=0.8, max_new_tokens=12
)
EXACT = DecodingConfig(method="draft-model", temperature=0.8, max_new_tokens=12)


def run(request: RaceRequest | ForkRequest) -> Trace:
    made = start_fork(request) if isinstance(request, ForkRequest) else start_race(request)
    for _ in made:
        pass
    made.close()
    return made.trace()


def test_a_lossless_fork_of_a_lossy_run_keeps_its_distance_from_the_target() -> None:
    parent = run(RaceRequest(PAIR, "def f(x):\n", TYPICAL, device="cpu"))
    assert parent.main.total_variation
    late, early = (run(ForkRequest(parent, index, PAIR, EXACT, device="cpu")) for index in (2, 0))
    assert late.main.total_variation == parent.main.total_variation
    # This fork begins at round 0, so it has no lossy round of its parent.
    assert early.main.total_variation is None
