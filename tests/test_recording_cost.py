"""Recording and computing the shown numbers takes a small share of the decoding time."""

import time

from specviz.decoding import row, speculative, verification
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.target import cache_capacity
from specviz.models.pair_catalog import pair_named
from specviz.models.pair_loading import load_pair
from specviz.models.parts import Need
from specviz.prompts import held_out_prompt
from specviz.records import DecodingConfig

WATCHING = [(verification, "_shown"), (row, "_tree"), (row, "_verdicts"), (row, "_positions")]


def test_recording_takes_at_most_8_percent_of_decoding(monkeypatch):
    loaded = load_pair(pair_named("bundled"), "cpu", needs=frozenset({Need.DRAFT}))
    prompt = loaded.codec.encode(held_out_prompt("code", 1), "code")
    config = DecodingConfig(max_new_tokens=128)
    spent = 0.0

    def timed(function):
        def run(*arguments):
            nonlocal spent
            began = time.thread_time()
            result = function(*arguments)
            spent += time.thread_time() - began
            return result

        return run

    for module, name in WATCHING:
        monkeypatch.setattr(module, name, timed(getattr(module, name)))
    shares = []
    for _ in range(5):
        setup = Setup(loaded.target, loaded.parts, config, cache_capacity(prompt, config))
        spent, began = 0.0, time.thread_time()
        for _ in speculative.decode(loaded.target, make_drafter(setup), prompt, config):
            pass
        shares.append(spent / (time.thread_time() - began))
    print(f"recording: {min(shares):.1%} to {max(shares):.1%} of decoding time")
    assert sorted(shares)[2] <= 0.08
