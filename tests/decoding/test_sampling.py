"""Distributions, draws and keyed streams, against numbers worked out by hand."""

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


def test_a_low_temperature_sharpens():
    squares = [0.25, 0.09, 0.0225, 0.0025]
    expected = [square / sum(squares) for square in squares]
    assert Sampler(0.5).distributions(LOGITS)[0].tolist() == pytest.approx(expected)


def test_top_k_keeps_the_k_best_renormalised():
    assert Sampler(1.0, top_k=2).distributions(LOGITS)[0].tolist() == pytest.approx(
        [0.625, 0.375, 0, 0]
    )


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    assert Sampler(1.0, top_p=0.79).distributions(LOGITS)[0].tolist() == pytest.approx(
        [0.625, 0.375, 0, 0]
    )
    three = [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]
    assert Sampler(1.0, top_p=0.81).distributions(LOGITS)[0].tolist() == pytest.approx(three)


@pytest.mark.parametrize("top_p", [1e-6, 1e-50])  # the second is 0 in float32
@pytest.mark.parametrize("size", [4, 20_000])
def test_top_p_never_drops_the_best_token(top_p, size):
    kept = Sampler(1.0, top_p=top_p).distributions(-torch.arange(size)[None].float())
    assert kept[0, 0] == 1 and kept.sum() == 1


def test_top_p_is_applied_to_what_top_k_left():
    # top-k 2 leaves (0.625, 0.375): 0.6 of that mass needs the first token only
    assert Sampler(1.0, top_k=2, top_p=0.6).distributions(LOGITS)[0].tolist() == [1, 0, 0, 0]


def sorted_nucleus(probs, top_p):
    """Top-p by a sort of the whole vocabulary; the smaller id first where two are equal."""
    ordered, order = torch.sort(probs, dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = ordered.where((before < top_p) | (torch.arange(ordered.shape[-1]) == 0), 0.0)
    kept = torch.zeros_like(probs).scatter(-1, order, kept)
    return kept / kept.sum(-1, keepdim=True)


def rows_of_a_large_vocabulary(kind):
    logits = torch.randn(5, 20_000, generator=torch.Generator().manual_seed(4))
    if kind == "peaked":
        return 5 * logits
    if kind == "equal":  # every border falls into a tie, and some within the best 1,024
        return (2 * logits).round()
    if kind == "mixed":  # rows that few tokens decide beside rows that they do not
        return logits * torch.tensor([9.0, 0.0, 5.0, 0.1, 20.0])[:, None]
    return logits  # flat: 1,024 tokens do not hold the mass


@pytest.mark.parametrize("kind", ["peaked", "flat", "equal", "mixed"])
@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.9, 0.999999])
def test_top_p_of_a_large_vocabulary_is_bit_for_bit_that_of_a_full_sort(kind, top_p):
    logits = rows_of_a_large_vocabulary(kind)
    expected = sorted_nucleus(logits.softmax(-1), top_p)
    assert torch.equal(Sampler(1.0, top_p=top_p).distributions(logits), expected)
    one = sorted_nucleus(logits[:1].softmax(-1), top_p)
    assert torch.equal(Sampler(1.0, top_p=top_p).distributions(logits[:1]), one)


@pytest.mark.parametrize("size", [49_152, 20_000, 4_100])
def test_the_best_of_a_row_are_found_without_a_search_of_the_whole_row(size):
    """Ties within a block and over blocks, and a largest value behind the last whole block."""
    probs = torch.randint(0, 50, (4, size), generator=torch.Generator().manual_seed(1)) / 50
    probs[1] = torch.arange(size) / size
    probs[2, -1] = 2.0
    for count in (1, 16, 128, 1024):
        values, ids = _best(probs, count)
        assert torch.equal(values, probs.topk(count, -1).values)
        assert torch.equal(values, probs.gather(1, ids))
        assert all(len(set(row)) == count for row in ids.tolist())


def test_top_p_sorts_a_large_vocabulary_only_where_few_tokens_hold_too_little(monkeypatch):
    sizes = []
    sort = torch.sort
    monkeypatch.setattr(
        torch, "sort", lambda rows, **how: sizes.append(rows.shape) or sort(rows, **how)
    )
    Sampler(1.0, top_p=0.9).distributions(rows_of_a_large_vocabulary("peaked"))
    assert sizes == []
    Sampler(1.0, top_p=0.9).distributions(rows_of_a_large_vocabulary("mixed"))
    assert sizes == [(2, 20_000)]  # the two flat rows


def test_the_raw_distribution_is_the_processed_one_where_no_setting_changes_it():
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


def test_min_p_keeps_what_is_near_the_best_token():
    # 0.31 * 0.5 = 0.155 lies between 0.15 and 0.3
    kept = Sampler(1.0, min_p=0.31).distributions(LOGITS)[0].tolist()
    assert kept == pytest.approx([0.625, 0.375, 0, 0])
    assert Sampler(1.0, min_p=0.999).distributions(LOGITS)[0].tolist() == [1, 0, 0, 0]
    assert torch.equal(Sampler(1.0, min_p=0.0).distributions(LOGITS), LOGITS.softmax(-1))


def test_min_p_keeps_a_token_that_just_reaches_it():
    kept = sampling._near_best(torch.tensor([[0.5, 0.25, 0.125, 0.125]]), 0.5)
    assert kept[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])


def test_min_p_is_applied_to_what_top_p_left():
    # first min-p would leave (0.625, 0.375), of whose mass the best token alone has 0.6
    kept = Sampler(1.0, top_p=0.6, min_p=0.31).distributions(LOGITS)[0].tolist()
    assert kept == pytest.approx([0.625, 0.375, 0, 0])


@pytest.mark.parametrize("min_p", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("top_k, top_p", [(0, 1.0), (20, 1.0), (0, 0.9), (20, 0.8)])
def test_distributions_are_those_of_the_library(top_k, top_p, min_p):
    logits = 3 * torch.randn(40, 60, generator=torch.Generator().manual_seed(2))
    warpers = [TemperatureLogitsWarper(0.7)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    expected = logits
    for warp in (*warpers, MinPLogitsWarper(min_p)):
        expected = warp(None, expected)
    found = Sampler(0.7, top_k, top_p, min_p).distributions(logits)
    torch.testing.assert_close(found, expected.softmax(-1))


def test_draws_never_land_on_a_token_without_mass():
    distributions = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]] * 4)
    uniforms = torch.tensor([0.0, 0.4999, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(distributions, uniforms).tolist() == [1, 1, 3, 3]


def test_draws_have_the_distribution():
    stream = RandomStream(3, Purpose.EXTRA)
    uniforms = torch.tensor([stream.uniform(i) for i in range(20_000)], dtype=torch.float64)
    tokens = draw(LOGITS.exp().expand(len(uniforms), -1), uniforms)
    shares = torch.bincount(tokens, minlength=4) / len(tokens)
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.015)


def test_a_token_of_one_in_a_billion_is_drawn_by_its_share_of_the_draws():
    distributions = torch.tensor([[1.0, 1e-9]] * 2)
    uniforms = torch.tensor([1 - 0.5e-9, 1 - 2e-9], dtype=torch.float64)
    assert draw(distributions, uniforms).tolist() == [1, 0]


def test_a_vocabulary_of_150_000_keeps_its_tail():
    distributions = torch.full((1, 150_000), 1 / 150_000)
    for share in (0.1, 0.5, 0.999999):
        token = int(draw(distributions, torch.tensor([share], dtype=torch.float64)))
        assert token == pytest.approx(share * 150_000, abs=2)


def test_streams_of_other_seeds_purposes_rows_and_keys_are_unrelated():
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
def test_a_number_is_at_least_0_and_below_1_whatever_its_bits(state, expected, monkeypatch):
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
