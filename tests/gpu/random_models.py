"""Llama models of published shapes with random weights, made on the device without downloads.

The time of a forward does not depend on the weights. The gain of a round does depend on them,
through the acceptance rate. The scale of the output matrices sets this rate, as follows.

Let each token have the logit s X in the target and s Y in the draft. X and Y are independent
standard normal variables, so s is the standard deviation of the logits. Let the size V of the
vocabulary be large. Then a token has p = exp(s X - s^2 / 2) / V and q = exp(s Y - s^2 / 2) / V.

The acceptance rate is the sum of min(p, q) over all tokens. Half of it is the sum of p over the
tokens with X < Y. If tokens are drawn with probability p, X has the mean s instead of 0. So this
sum is the probability that X + s < Y, which is Phi(-s / sqrt 2). The acceptance rate is twice that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import torch
from transformers import LlamaConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from specviz.models.language_model import LanguageModel
from specviz.records import ModelInfo
from specviz.sizing.shape import ModelShape


def acceptance_at(deviation: float) -> float:
    """Return the acceptance rate of a target and a draft with independent random logits.

    The logits of both models have the standard deviation `deviation`, and the temperature is 1.
    """
    return 2 * NormalDist().cdf(-deviation / math.sqrt(2))


def deviation_for(acceptance: float) -> float:
    """Return the standard deviation of logits with which two models have this acceptance rate.

    Both models have independent random logits, and the temperature is 1.
    """
    return -math.sqrt(2) * NormalDist().inv_cdf(acceptance / 2)


@torch.inference_mode()
def random_model(
    shape: ModelShape,
    device: torch.device,
    dtype: torch.dtype,
    acceptance: float,
    seed: int,
    kind: Callable[[Any, ModelInfo], LanguageModel],
) -> LanguageModel:
    """Build a random model of that shape on the device.

    The final norm gives features with unit mean square. So an output matrix with standard deviation
    s / sqrt(W) gives logits with standard deviation s, where W is the hidden size.

    If the output matrix is tied to the embedding, this is only true if the layers add much more to
    a token's state than the token's embedding does. That is the case in models with many layers and
    in models with a small s. `kind` makes the model that runs the module.
    """
    torch.manual_seed(seed)
    with device:
        module = AutoModelForCausalLM.from_config(
            llama_config(shape), dtype=dtype, attn_implementation="sdpa"
        ).eval()
    module.lm_head.weight.normal_(std=deviation_for(acceptance) / math.sqrt(shape.hidden_size))
    weights = list(module.parameters())
    info = ModelInfo(
        name=shape.title,
        architecture="LlamaForCausalLM",
        parameters=sum(weight.numel() for weight in weights),
        bytes=sum(weight.nbytes for weight in weights),
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        vocab_size=shape.vocabulary,
        context_length=shape.context,
    )
    return kind(module, info)


def llama_config(shape: ModelShape) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads or shape.heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
    )
