"""The round of a verification by transformers has the numbers that were worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specviz.experiments.run.generated_round import SeenVerification, Times
from specviz.records import Drawing, ExtraKind, Outcome

# P has the target's distributions after the root, after candidate 0 and after candidate 1. Q has
# the draft's distributions of both candidates.
P = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
Q = [[0.8, 0.1, 0.1], [0.1, 0.3, 0.6]]
TIMES = Times(1.0, 1.0, 1.5, 3.0, 3.25)


def logits(distributions: list[list[float]]) -> torch.Tensor:
    return torch.tensor(distributions).log()


def seen(
    emitted: list[int],
    candidates: tuple[int, ...] = (0, 2),
    has_distribution: bool = True,
    sampled: bool = True,
) -> SeenVerification:
    return SeenVerification(
        context_length=7,
        candidate_ids=candidates,
        emitted_ids=emitted,
        logits=logits(P),
        raw_logits=logits(P),
        draft_logits=logits(Q) if has_distribution else None,
        raw_draft_logits=logits(Q) if has_distribution else None,
        is_sampled=sampled,
    )


def outcomes(verification: SeenVerification) -> str:
    return "".join(each.outcome.value[0] for each in verification.round(0, TIMES).verdicts)


def test_a_rejection_is_followed_by_a_token_of_the_residual() -> None:
    made = seen([0, 1]).round(3, TIMES)
    assert [each.outcome for each in made.verdicts] == [Outcome.ACCEPTED, Outcome.REJECTED]
    # At the position after token 0, p - q is (0, 0.3, -0.3). So the residual has only token 1, with
    # probability 1.
    assert made.extra is not None and made.extra.kind is ExtraKind.RECOVERED
    assert made.extra.prob == pytest.approx(1) and made.extra.parent == 0
    assert made.verdicts[0].acceptance_prob == pytest.approx(0.5 / 0.8)
    assert made.verdicts[1].acceptance_prob == pytest.approx(0.3 / 0.6)
    assert made.positions[0].overlap == pytest.approx(0.5 + 0.1 + 0.1)
    assert made.tree.drawing is Drawing.INDEPENDENT and made.index == 3


def test_full_acceptance_is_followed_by_a_token_of_p() -> None:
    made = seen([0, 2, 1]).round(0, TIMES)
    assert outcomes(seen([0, 2, 1])) == "aa"
    assert made.extra is not None and made.extra.kind is ExtraKind.BONUS
    assert made.extra.prob == pytest.approx(0.2)
    assert [each.parent for each in made.positions] == [-1, 0, 1]


def test_candidates_after_the_end_of_the_text_were_never_examined() -> None:
    assert outcomes(seen([0])) == "au"
    assert seen([0]).extra is None
    assert [each.parent for each in seen([0]).round(0, TIMES).positions] == [-1]
    assert outcomes(seen([0, 2])) == "aa" and seen([0, 2]).extra is None


def test_a_candidate_copied_from_the_prompt_has_q_1_and_leaves_the_rest_of_p() -> None:
    made = seen([0, 1], has_distribution=False).round(0, TIMES)
    assert made.tree.drawing is Drawing.CHOSEN
    assert [node.draft_prob for node in made.tree.nodes] == [1, 1]
    assert made.verdicts[1].acceptance_prob == pytest.approx(0.3)
    assert made.extra is not None and made.extra.prob == pytest.approx(0.6 / 0.7)
    assert made.positions[0].overlap == pytest.approx(0.5) and made.positions[0].draft_probs == ()


def test_greedy_verification_compares_best_tokens_and_keeps_raw_distributions() -> None:
    made = seen([0, 1], sampled=False).round(0, TIMES)
    first, second = made.verdicts
    assert (first.target_prob, first.draft_prob, first.acceptance_prob) == (1, 1, 1)
    assert (second.target_prob, second.draft_prob, second.acceptance_prob) == (0, 1, 0)
    assert second.raw_target_prob == pytest.approx(0.3)
    assert made.extra is not None and made.extra.prob == 1


def test_the_round_s_time_is_divided_into_drafting_verifying_and_the_rest() -> None:
    made = seen([0, 1]).round(0, TIMES)
    assert (made.draft_seconds, made.verify_seconds, made.host_seconds) == (0.5, 1.5, 0.25)
    assert (made.cache.committed, made.cache.speculative, made.cache.rolled_back) == (6, 3, 1)
    read = seen([0, 1]).round(0, replace(TIMES, read=1.25))
    assert (read.draft_prefill_seconds, read.draft_seconds) == (0.25, 0.25)
    assert made.draft_prefill_seconds == 0 and read.seconds == made.seconds
    assert [span.who for span in read.spans] == ["draft prefill", "draft", "verify", "host"]
