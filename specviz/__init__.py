"""specviz: speculative decoding made visible, on a real and lossless decoder."""

from typing import Any

from specviz.environment import let_threads_sleep

__version__ = "0.1.0"

let_threads_sleep()


def record(model: Any, tokenizer: Any, assistant: Any = None) -> Any:
    """Record transformers' assisted generation as a trace; see `specviz.generate_recording`."""
    from specviz.generate_recording import record  # torch is not imported with the package

    return record(model, tokenizer, assistant)
