"""Configurations of the Llama family: which of them this code can run, and the memory they need."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from specviz.environment import Environment
from specviz.models.llama.layer import take_heads
from specviz.models.llama.rotary import is_fixed
from specviz.models.matrix_kernels.choice import by_rule
from specviz.models.matrix_kernels.kernel_candidates import PLAIN
from specviz.models.matrix_kernels.settling import expected
from specviz.models.matrix_kernels.weights import MatrixShape
from specviz.models.windows import Windows

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
# The size in bytes up to which a tied output matrix may be kept in a second layout.
TIED_COPY_BYTES = 256 << 20


def is_supported(config: Any) -> bool:
    """Return whether this code can run the model of a configuration."""
    is_family = (
        config.model_type in FAMILY and config.hidden_act == "silu" and is_fixed(config, True)
    )
    # The matrix kernels cannot store a matrix without inputs or outputs.
    is_whole = is_family and 0 not in (config.intermediate_size, config.vocab_size)
    return is_whole and Windows.of(config).size is None


def second_layout_bytes(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the memory of the second layouts in a model, computed from its configuration.

    The layout of a tied output matrix for the kernels counts as a second one, because the plain
    matrix is needed as the embedding.
    """
    if not is_supported(config):
        return 0
    environment = Environment.read()
    shapes = _layer_shapes(config, device, dtype)
    choices = expected(shapes, dtype, environment)
    layers = sum(
        (len(choice.layouts) - 1) * shape.bytes * shapes[shape] for shape, choice in choices.items()
    )
    return layers + tied_copy_bytes(config, device, dtype)


def _layer_shapes(config: Any, device: torch.device, dtype: torch.dtype) -> dict[MatrixShape, int]:
    """Return the shapes of all layers' matrices, and the number of matrices of each shape."""
    heads, width, inner = take_heads(config), config.hidden_size, config.intermediate_size
    joined = (heads.queries + 2 * heads.keys) * heads.size
    sizes = (
        (joined, width),
        (width, heads.queries * heads.size),
        (2 * inner, width),
        (width, inner),
    )
    form, count = str(dtype).removeprefix("torch."), config.num_hidden_layers
    shapes = Counter[MatrixShape]()
    for rows, columns in sizes:
        size = rows * columns * dtype.itemsize
        shapes[MatrixShape(form, rows, columns, device.type, size)] += count
    return shapes


def tied_copy_bytes(config: Any, device: torch.device, dtype: torch.dtype) -> int:
    """Return the size in bytes of a tied output matrix's copy in a second layout; 0 without a
    copy."""
    if not (is_supported(config) and config.tie_word_embeddings):
        return 0
    width, rows = config.hidden_size, config.vocab_size
    size: int = rows * width * dtype.itemsize
    if size > TIED_COPY_BYTES or Environment.read().small_memory:
        return 0
    shape = MatrixShape(str(dtype).removeprefix("torch."), rows, width, device.type, size)
    return 0 if by_rule(shape, dtype, only_plain=False).layouts == (PLAIN,) else size
