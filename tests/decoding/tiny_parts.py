"""Tiny random drafts and heads that methods need, for table models and for tiny Llamas."""

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig

from specviz.models.files.loading import LoadedModel
from specviz.models.heads.eagle_files import open_eagle_head
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.llama.self_model import SelfDrafting
from specviz.models.parts import Need, Parts
from tests.decoding.table_eagle import TableEagle
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_codecs import our_codec, their_codec

LLAMA_NEEDS: set[Need] = set()  # the parts that a method may need and a table model cannot have
HEADS = 3
SHARES = [[0.6, 0.2, 0.1], [0.4, 0.2, 0.1], [0.3, 0.1, 0.1]]


def parts_for(target, draft):
    """Return every part that a pair of these two models can offer."""
    is_table = isinstance(target, TableModel)
    return Parts(
        draft=draft,
        medusa=medusa_for(target),
        eagle=TableEagle(target, draft) if is_table else eagle_for(target),
        foreign=LoadedModel(draft, their_codec(draft.info.vocab_size)),
        codec=our_codec(target.info.vocab_size),
        self_drafting=SelfDrafting(1, (1,)),
    )


def pair_for(method, tiny_model):
    """Return a small target and draft that disagree and with which the method can run."""
    if method.needs & LLAMA_NEEDS:
        return tiny_model(1, 3, "target", vocab=3), tiny_model(2, 1, "draft", vocab=3)
    return TableModel(3, 1), TableModel(2)


def medusa_for(target, seed=3, drafted=()):
    """Return random Medusa heads. If `drafted` has token ids, they are the draft vocabulary.

    Such heads use the target's output matrix.
    """
    width, vocab = target.info.hidden_size, target.info.vocab_size
    config = {"heads": HEADS, "hidden_size": width, "vocab_size": vocab, "accuracies": SHARES}
    shapes = {}
    for i in range(HEADS):
        shapes[f"heads.{i}.residual.weight"] = (width, width)
        shapes[f"heads.{i}.residual.bias"] = (width,)
        if not drafted:
            shapes[f"heads.{i}.output.weight"] = (vocab, width)
    weights = _random(shapes, seed)
    if drafted:
        config["draft_vocab_size"] = len(drafted)
        weights["d2t"] = torch.tensor(drafted) - torch.arange(len(drafted))
    return _opened(MedusaHeads.open, config, weights, target)


def eagle_for(target, seed=4):
    """Return a random EAGLE head: one layer with two attention heads."""
    width, inner, heads = target.info.hidden_size, 48, 32
    config = LlamaConfig(
        vocab_size=target.info.vocab_size,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
    ).to_dict()
    shapes = {"fc.weight": (width, 2 * width)}
    for name in "qkv":
        shapes[f"layers.0.self_attn.{name}_proj.weight"] = (heads, width)
    shapes["layers.0.self_attn.o_proj.weight"] = (width, heads)
    for name in ("gate", "up"):
        shapes[f"layers.0.mlp.{name}_proj.weight"] = (inner, width)
    shapes["layers.0.mlp.down_proj.weight"] = (width, inner)
    shapes["layers.0.post_attention_layernorm.weight"] = (width,)
    return _opened(open_eagle_head, config, _random(shapes, seed), target)


def eagle3_for(target, seed=5):
    """Return a random EAGLE-3 head with a draft vocabulary; it reads three layers of the target."""
    width, inner, vocab = target.info.hidden_size, 48, target.info.vocab_size
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
    ).to_dict() | {"draft_vocab_size": vocab - 2}
    shapes = {"fc.weight": (width, 3 * width), "lm_head.weight": (vocab - 2, width)}
    for name in "qkv":
        shapes[f"midlayer.self_attn.{name}_proj.weight"] = (32, 2 * width)
    shapes["midlayer.self_attn.o_proj.weight"] = (width, 32)
    for name in ("gate", "up"):
        shapes[f"midlayer.mlp.{name}_proj.weight"] = (inner, width)
    shapes["midlayer.mlp.down_proj.weight"] = (width, inner)
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "norm")
    for name in (*norms, "midlayer.post_attention_layernorm"):
        shapes[f"{name}.weight"] = (width,)
    # The draft vocabulary has all tokens except the first and the last: token i of the draft is
    # token i + 1 of the target.
    d2t = {"d2t": torch.ones(vocab - 2, dtype=torch.int64)}
    return _opened(open_eagle_head, config, _random(shapes, seed) | d2t, target)


def _random(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(shape, generator=generator) / shape[-1] ** 0.5
        for name, shape in shapes.items()
    }


def _opened(opened, config, weights, target):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        save_file(weights, Path(folder) / "model.safetensors")
        return opened(Path(folder), target)
