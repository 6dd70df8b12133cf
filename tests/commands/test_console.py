"""Commands print results as text if they run without `--json`."""

from specviz.cli import main
from specviz.commands.bench_command import bench_text
from specviz.commands.console import table
from specviz.commands.methods_command import list_methods, methods_text
from specviz.commands.race_command import race_text


def test_a_table_aligns_names_left_and_numbers_right():
    text = table([{"name": "a", "n": 5, "x": 1.5}, {"name": "bbb", "n": 12, "x": None}])
    assert text.splitlines() == ["name   n     x", "a      5  1.50", "bbb   12     -"]


def lane(**more):
    numbers = {"tokens": 9, "seconds": 0.5, "tokens_per_second": 18.0, "ttft_seconds": 0.01}
    return numbers | {"text": "some text"} | more


def result(**changes):
    speculative = lane(
        target_forwards=4, acceptance_rate=0.8, draft_utilization=0.6, block_efficiency=2.7
    )
    common = {"method": "m", "pair": "p", "device": "cpu", "dtype": "float32"}
    common |= {"setting": {"grammar": ""}}
    speeds = {"speedup": 0.87, "speedup_spread": [0.8, 0.9], "theory_speedup": None}
    speeds |= {"speedup_tokens": 9, "predicted_speedup": None}
    speeds |= {"speedup_is": "the median of 3 repeats", "remark": ""}
    verdict = {"lossless": True, "identical": True, "first_divergence": None}
    memory = {"drafter_bytes": 6_700_000, "drafter_cache_bytes": 1_200_000}
    servers = {"servers": [], "server_speedup": None, "reading": None}
    lanes = {"baseline": lane(reading_share=None), "speculative": speculative} | servers
    return lanes | common | speeds | memory | verdict | changes


def test_a_slowdown_is_shown_as_a_slowdown():
    assert race_text(result()).splitlines()[-7].split()[-4:] == ["0.87", "0.80", "to", "0.90"]


def test_memory_beyond_the_target_is_shown_as_weights_and_caches():
    line = "in addition to the target: 6.7 MB of weights, 1.2 MB of cache"
    assert line in race_text(result()).splitlines()


def test_a_lossy_rule_is_called_lossy_even_if_the_texts_are_equal():
    assert "lossy" in race_text(result(lossless=False)) and "identical" not in race_text(
        result(lossless=False)
    )


def test_methods_are_a_narrow_table_with_their_options_below():
    text = methods_text(list_methods())
    assert all(len(line) <= 160 for line in text.splitlines())
    assert "medusa" in text and "typical" in text
    assert "lookahead --option window=N" in text and "{" not in text


def test_sampled_texts_are_never_called_identical():
    assert race_text(result(identical=None)).endswith("differ by chance)")
    assert race_text(result()).endswith("identical text")


def test_a_divergence_is_shown_with_its_token_and_margin():
    text = race_text(result(identical=False, first_divergence={"index": 4, "margin": 3e-6}))
    assert "first difference at token 5" in text and "3e-06 apart" in text


def test_a_text_that_continues_after_the_baseline_s_end_says_so():
    text = race_text(result(identical=False, first_divergence={"index": 8, "margin": None}))
    assert text.endswith("first difference at token 9, which the baseline does not have")


def test_every_list_can_be_printed_without_json(capsys):
    assert main(["methods"]) == main(["models"]) == 0
    assert "draft-tree" in capsys.readouterr().out


def test_a_benchmark_prints_no_more_digits_than_were_measured() -> None:
    row = {"method": "eagle", "rates": [3.14159265358979] * 3, "extra_bytes": 6690816}
    refusals = [{"method": "medusa", "why": "pair 'own' has no Medusa heads"}]
    assert bench_text({"rows": [row], "refusals": refusals}) == (
        "method  extra MB\neagle       6.69\n\nmedusa: pair 'own' has no Medusa heads"
    )
    assert table([{"rates": [3.14159265358979] * 3}]).endswith("3.14, 3.14, 3.14")


def test_tables_give_the_acceptance_numbers_the_same_names() -> None:
    """Some tables once called this number block_efficiency, and others called it tokens/forward."""
    rates = {"acceptance_rate": 0.9, "draft_utilization": 0.8, "block_efficiency": 3.4}
    row = {"method": "eagle", "tokens_per_second": 9.0, "speedup": 1.1, **rates}
    text = bench_text({"rows": [row], "refusals": []})
    names = ("acceptance rate", "draft utilization", "tokens/forward", "tokens/s")
    for name in names:
        assert name in text and name in race_text(result())
    assert "_" not in text and "may differ from the ratio of the two medians" in text
