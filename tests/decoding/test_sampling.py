"""Distributions, draws and keyed random streams equal numbers worked out by hand."""

import math

import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specviz.decoding import sampling, streams
from specviz.decoding.sampling import Sampler, _best, draw, residual
from specviz.decoding.streams import Purpose, RandomStream

LOGITS = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))


def test_temperature_zero_is_a_one_hot_distribution():
    assert Sampler(0.0).distributions(LOGITS).tolist() == [[1, 0, 0, 0]]


def test_temperature_one_is_the_plain_softmax():
    assert Sampler(1.0).distributions(LOGITS)[0].tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05])


def test_a_low_temperature_makes_the_distribution_sharper():
    squares = [0.25, 0.09, 0.0225, 0.0025]
    expected = [square / sum(squares) for square in squares]
    assert Sampler(0.5).distributions(LOGITS)[0].tolist() == pytest.approx(expected)


def test_top_k_keeps_the_k_best_renormalised():
    assert Sampler(1.0, top_k=2).distributions(LOGITS)[0].tolist() == pytest.approx(
        [0.625, 0.375, 0, 0]
    )


def test_top_k_keeps_every_token_that_ties_with_its_last_one():
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
    kept = Sampler(1.0, top_k=2).distributions(logits) > 0
    assert kept.sum(-1).tolist() == [4, 6]
    assert torch.equal(kept, TopKLogitsWarper(2)(None, logits).isfinite())


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    assert Sampler(1.0, top_p=0.79).distributions(LOGITS)[0].tolist() == pytest.approx(
        [0.625, 0.375, 0, 0]
    )
    three = [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]
    assert Sampler(1.0, top_p=0.81).distributions(LOGITS)[0].tolist() == pytest.approx(three)


@pytest.mark.parametrize("top_p", [1e-6, 1e-50])  # 1e-50 is 0 in float32
@pytest.mark.parametrize("size", [4, 20_000])
def test_top_p_never_drops_the_best_token(top_p, size):
    kept = Sampler(1.0, top_p=top_p).distributions(-torch.arange(size)[None].float())
    assert kept[0, 0] == 1 and kept.sum() == 1


def test_top_p_is_applied_to_what_top_k_left():
    # Top-k 2 leaves the probabilities 0.625 and 0.375. The first token alone reaches top-p 0.6.
    assert Sampler(1.0, top_k=2, top_p=0.6).distributions(LOGITS)[0].tolist() == [1, 0, 0, 0]


def sorted_nucleus(probs, top_p):
    """Return top-p, computed by sorting the whole vocabulary; in a tie the smaller id is first."""
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.where((before < top_p) | (torch.arange(ordered.shape[-1]) == 0), 0.0)
    kept = torch.zeros_like(probs).scatter(-1, order, kept)
    return kept / kept.sum(-1, keepdim=True)


def rows_of_a_large_vocabulary(kind):
    logits = torch.randn(5, 20_000, generator=torch.Generator().manual_seed(4))
    if kind == "peaked":
        return 5 * logits
    # In rows of the kind "equal", the last token that top-p keeps has the same logit as the first
    # one that it drops. In some rows these two are among the best 1,024 tokens.
    if kind == "equal":
        return (2 * logits).round()
    if kind == "mixed":  # some rows reach top-p with few tokens, other rows need many
        return logits * torch.tensor([9.0, 0.0, 5.0, 0.1, 20.0])[:, None]
    # In flat rows, even the best 1,024 tokens do not reach top-p.
    return logits


@pytest.mark.parametrize("kind", ["peaked", "flat", "equal", "mixed"])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.9, 0.999999])
def test_top_p_of_a_large_vocabulary_equals_a_full_sort_exactly(kind, top_p):
    logits = rows_of_a_large_vocabulary(kind)
    expected = sorted_nucleus(logits.softmax(-1), top_p)
    assert torch.equal(Sampler(1.0, top_p=top_p).distributions(logits), expected)
    one = sorted_nucleus(logits[:1].softmax(-1), top_p)
    assert torch.equal(Sampler(1.0, top_p=top_p).distributions(logits[:1]), one)


@pytest.mark.parametrize("size", [49_152, 20_000, 4_100])
def test_the_best_tokens_of_a_row_are_found_block_by_block(size):
    """The rows have ties within and between blocks, and a maximum after the last whole block."""
    probs = torch.randint(0, 50, (4, size), generator=torch.Generator().manual_seed(1)) / 50
    probs[1] = torch.arange(size) / size
    probs[2, -1] = 2.0
    for count in (1, 16, 128, 1024):
        values, ids = _best(probs, count)
        assert torch.equal(values, probs.topk(count, -1).values)
        assert torch.equal(values, probs.gather(1, ids))
        assert all(len(set(row)) == count for row in ids.tolist())


def test_top_p_sorts_a_large_vocabulary_only_if_the_best_tokens_have_too_little_mass(monkeypatch):
    sizes = []
    sort = torch.sort
    monkeypatch.setattr(
        torch, "sort", lambda rows, **how: sizes.append(rows.shape) or sort(rows, **how)
    )
    Sampler(1.0, top_p=0.9).distributions(rows_of_a_large_vocabulary("peaked"))
    assert sizes == []
    Sampler(1.0, top_p=0.9).distributions(rows_of_a_large_vocabulary("mixed"))
    assert sizes == [(2, 20_000)]  # the function sorts only the two flat rows completely


def test_without_sampling_settings_the_raw_and_the_processed_distribution_are_equal():
    processed, raw = Sampler(1.0).both(LOGITS)
    assert processed is raw
    for sampler in (Sampler(0.5), Sampler(1.0, top_k=2), Sampler(1.0, top_p=0.5), Sampler(0.0)):
        processed, raw = sampler.both(LOGITS)
        assert torch.equal(processed, sampler.distributions(LOGITS))
        assert torch.equal(raw, LOGITS.softmax(-1)) and not torch.equal(raw, processed)


def test_top_p_keeps_the_smaller_id_of_equally_probable_tokens():
    for size in (8, 20_000):
        kept = Sampler(1.0, top_p=0.5).distributions(torch.zeros(1, size))[0]
        assert kept.nonzero().flatten().tolist() == list(range(size // 2))


def test_min_p_keeps_tokens_that_are_near_the_best_one():
    # Min-p keeps tokens with at least 0.31 * 0.5 = 0.155. The probabilities 0.5 and 0.3 are above
    # this limit, and 0.15 is below it.
    kept = Sampler(1.0, min_p=0.31).distributions(LOGITS)[0].tolist()
    assert kept == pytest.approx([0.625, 0.375, 0, 0])
    assert Sampler(1.0, min_p=0.999).distributions(LOGITS)[0].tolist() == [1, 0, 0, 0]
    assert torch.equal(Sampler(1.0, min_p=0.0).distributions(LOGITS), LOGITS.softmax(-1))


def test_min_p_keeps_a_token_exactly_at_the_limit():
    kept = sampling._near_best(torch.tensor([[0.5, 0.25, 0.125, 0.125]]), 0.5)
    assert kept[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])


def test_min_p_is_applied_to_what_top_p_left():
    # If min-p came first, it would leave (0.625, 0.375). Then the best token alone would have 0.6
    # of the mass, and top-p would drop the other.
    kept = Sampler(1.0, top_p=0.6, min_p=0.31).distributions(LOGITS)[0].tolist()
    assert kept == pytest.approx([0.625, 0.375, 0, 0])


@pytest.mark.parametrize("min_p", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("top_k, top_p", [(0, 1.0), (20, 1.0), (0, 0.9), (20, 0.8)])
def test_distributions_equal_those_of_transformers(top_k, top_p, min_p):
    logits = 3 * torch.randn(40, 60, generator=torch.Generator().manual_seed(2))
    warpers = [TemperatureLogitsWarper(0.7)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    expected = logits
    for warp in (*warpers, MinPLogitsWarper(min_p)):
        expected = warp(None, expected)
    found = Sampler(0.7, top_k, top_p, min_p).distributions(logits)
    torch.testing.assert_close(found, expected.softmax(-1))


def test_draws_never_choose_a_token_without_mass():
    distributions = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]] * 4)
    uniforms = torch.tensor([0.0, 0.4999, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(distributions, uniforms).tolist() == [1, 1, 3, 3]


def test_draws_follow_the_distribution():
    stream = RandomStream(3, Purpose.EXTRA)
    uniforms = torch.tensor([stream.uniform(i) for i in range(20_000)], dtype=torch.float64)
    tokens = draw(LOGITS.exp().expand(len(uniforms), -1), uniforms)
    shares = torch.bincount(tokens, minlength=4) / len(tokens)
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.015)


def test_a_token_of_probability_one_in_a_billion_can_be_drawn():
    distributions = torch.tensor([[1.0, 1e-9]] * 2)
    uniforms = torch.tensor([1 - 0.5e-9, 1 - 2e-9], dtype=torch.float64)
    assert draw(distributions, uniforms).tolist() == [1, 0]


def test_rare_tokens_of_a_vocabulary_of_150_000_can_be_drawn():
    distributions = torch.full((1, 150_000), 1 / 150_000)
    for share in (0.1, 0.5, 0.999999):
        token = int(draw(distributions, torch.tensor([share], dtype=torch.float64)))
        assert token == pytest.approx(share * 150_000, abs=2)


def test_streams_with_another_seed_purpose_row_or_key_are_unrelated():
    def numbers(stream):
        return [stream.uniform(i, j) for i in range(60) for j in range(5)]

    streams = [
        RandomStream(0, Purpose.DRAFT),
        RandomStream(1, Purpose.DRAFT),
        RandomStream(0, Purpose.VERIFY),
        RandomStream(0, Purpose.DRAFT, row=1),
    ]
    rows = torch.tensor([numbers(stream) for stream in streams])
    assert rows.min() >= 0 and rows.max() < 1
    assert rows.mean(1).tolist() == pytest.approx([0.5] * 4, abs=0.07)
    correlation = torch.corrcoef(rows) - torch.eye(4)
    assert correlation.abs().max() < 4 / math.sqrt(rows.shape[1])


@pytest.mark.parametrize("state, expected", [(0, 0.0), (2**64 - 1, 1 - 2**-53)])
def test_a_uniform_number_is_at_least_0_and_below_1_for_any_bits(state, expected, monkeypatch):
    monkeypatch.setattr(streams, "_fold", lambda *_: state)
    assert RandomStream(0, Purpose.VERIFY).uniform(0) == expected


def test_a_stream_gives_the_same_number_for_the_same_key_in_any_order():
    stream = RandomStream(9, Purpose.VERIFY)
    late, early = stream.uniform(5, 1), stream.uniform(2, 0)
    again = RandomStream(9, Purpose.VERIFY)
    assert (again.uniform(2, 0), again.uniform(5, 1)) == (early, late)


def test_the_residual_of_equal_distributions_is_the_target_s():
    p = torch.tensor([[0.25, 0.75], [1.0, 0.0]])
    assert torch.equal(residual(p, p.clone()), p)


def test_a_draw_from_a_row_without_mass_is_still_a_token():
    assert draw(torch.zeros(1, 3), torch.tensor([0.5])).tolist() == [0]
