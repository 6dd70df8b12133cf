"""specviz: speculative decoding made visible, on a real and lossless decoder."""

from specviz.settings import let_threads_sleep

__version__ = "0.1.0"

let_threads_sleep()
