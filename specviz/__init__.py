"""specviz: speculative decoding made visible, with a real and lossless decoder.

These functions work from Python, without the page:

- `race(prompt, …)` decodes a prompt with and without speculation and returns the `Trace`, the
  record of every round.
- `record(model, tokenizer, assistant)` records a trace of transformers' own `generate`.
- `load(path)` and `save(trace, path)` read and write traces as files.
- `summarise(trace)` returns the numbers of a trace, such as `.speedup`. `specviz.trace_tables`
  makes tables of its rounds, drafted nodes and tokens, for pandas.

Bad input raises `InputError`, whose text is one sentence. The first race imports torch, which takes
seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specviz.environment import let_threads_sleep
from specviz.errors import InputError
from specviz.metrics import summarise
from specviz.records import SETTINGS, Prompt, Trace
from specviz.trace_file import load, save

if TYPE_CHECKING:
    from specviz.models.pair_catalog import Pair

__all__ = ["InputError", "Trace", "load", "race", "record", "save", "summarise"]
__version__ = "0.1.0"

let_threads_sleep()


def race(
    prompt: Prompt,
    pair: str | Pair = "",
    method: str = "",
    *,
    task: str | None = None,
    device: str = SETTINGS["device"].default,
    dtype: str = SETTINGS["dtype"].default,
    draft_length: int | None = None,
    **settings: Any,
) -> Trace:
    """Decode one prompt with and without speculation, and return the record of all rounds.

    `pair` is the name of a pair of models (`python -m specviz models` lists them), or the result of
    `specviz.models.pair_catalog.custom_pair(target, draft)`. An empty name means the chat model if
    it is on this machine, and the bundled pair if not. `method` is a drafting method; an empty name
    means the default method of the pair. `draft_length` is the largest depth of a draft; None means
    the default of the method for this pair. `task` is the kind of text, such as "code". Some pairs
    were trained with a special token for each task; this token is put before the prompt. `settings`
    are further fields of `specviz.records.DecodingConfig`: temperature, top_k, top_p, min_p, seed,
    max_new_tokens, branching, drawing, rule, length_policy, entropy_threshold, options.

    The run with speculation and the run without it take turns. Each has a clock that counts only
    its own work, so their times can be compared. Raises InputError for a value that is not allowed,
    for a pair that lacks what the method needs, and for a model that cannot be loaded.
    """
    from specviz.decoding.drafters.registry import method_named
    from specviz.experiments.run.racing import RaceRequest, start_race
    from specviz.models.pair_catalog import default_pair, pair_named

    if isinstance(pair, str):
        pair = pair_named(pair) if pair else default_pair()
    chosen = method_named(method or pair.method)
    length = chosen.usual_length(pair) if draft_length is None else draft_length
    config = chosen.usual(length, **settings)
    run = start_race(RaceRequest(pair, prompt, config, task, device, dtype))
    try:
        for _ in run:
            pass
        return run.trace()
    finally:
        run.close()


def record(model: Any, tokenizer: Any, assistant: Any = None) -> Any:
    """Record transformers' assisted generation as a trace. See `specviz.generate_recording`."""
    from specviz.generate_recording import record

    return record(model, tokenizer, assistant)
