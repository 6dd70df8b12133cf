"""specviz: speculative decoding made visible, on a real and lossless decoder."""

__version__ = "0.1.0"
