"""A Llama for training: it computes what `LlamaForCausalLM` computes, but faster.

Its parameters have the names that transformers uses, so both can load the same state dict.

In shapes, B is the number of rows (texts), T the number of tokens per row, P that of a prefix, V
the size of the vocabulary, D the hidden size, H the number of query heads, G the number of
key-value heads, and d the head size.
"""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


class Attention(nn.Module):
    """Causal attention with rotary positions. One matrix multiplication computes q, k and v."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.head_dim = config.head_dim
        self.queries_per_key = config.num_attention_heads // config.num_key_value_heads
        queries = config.num_attention_heads * self.head_dim
        keys = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(width, queries, bias=False)
        self.k_proj = nn.Linear(width, keys, bias=False)
        self.v_proj = nn.Linear(width, keys, bias=False)
        self.o_proj = nn.Linear(queries, width, bias=False)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Apply attention: hidden [B, T, D] -> [B, T, D]."""
        return self.write(attend(*self.project(hidden, cos, sin)))

    def project(self, hidden: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query and key, both rotated, and value, each [B, H, T, d], for hidden [B, T, D].

        If several query heads share a key and a value, the key and the value are repeated for each
        of them.
        """
        rows, length, _ = hidden.shape
        weights = self.q_proj.weight, self.k_proj.weight, self.v_proj.weight
        packed = F.linear(hidden, torch.cat(weights).to(hidden.dtype))
        packed = packed.view(rows, length, -1, self.head_dim).transpose(1, 2)  # [B, H + 2 G, T, d]
        groups = self.k_proj.out_features // self.head_dim
        parts = [groups * self.queries_per_key, groups, groups]
        query, key, value = torch.split(packed, parts, dim=1)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        if self.queries_per_key > 1:
            key, value = (each.repeat_interleave(self.queries_per_key, 1) for each in (key, value))
        return query, key, value

    def write(self, mixed: Tensor) -> Tensor:
        """Apply the output projection to the results of attention: [B, H, T, d] -> [B, T, D]."""
        return linear(mixed.transpose(1, 2).flatten(2), self.o_proj)


class FeedForward(nn.Module):
    """The SwiGLU feed-forward layer. One matrix multiplication computes gate and up."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the feed-forward layer: hidden [B, T, D] -> [B, T, D]."""
        weight = torch.cat((self.gate_proj.weight, self.up_proj.weight)).to(hidden.dtype)
        gate, up = F.linear(hidden, weight).chunk(2, dim=-1)
        return linear(F.silu(gate) * up, self.down_proj)


class Norm(nn.Module):
    """The norm RMSNorm, computed in float32 as transformers does."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, hidden: Tensor, dtype: torch.dtype) -> Tensor:
        """Normalise: hidden [B, T, D] in float32 -> [B, T, D] in `dtype`."""
        wide = hidden.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale * self.weight).to(dtype)


class Block(nn.Module):
    """One decoder layer of the Llama: attention and MLP, each after a norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the residual stream [B, T, D] in its own dtype; multiplications run in `dtype`."""
        hidden = hidden + self.self_attn(self.input_layernorm(hidden, dtype), cos, sin)
        written: Tensor = self.mlp(self.post_attention_layernorm(hidden, dtype))
        return hidden + written


class Body(nn.Module):
    """The embedding, the layers and the final norm.

    As in transformers, the names of their parameters begin with `model.`.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


class Network(nn.Module):
    """A Llama whose embedding is also its output matrix.

    Weights are float32, and multiplications run in `dtype`.
    """

    def __init__(self, config: LlamaConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.model = Body(config)
        self._initialise()

    def _initialise(self) -> None:
        """Set the weights to their values before training.

        Embeddings are small, matrices are scaled by their number of inputs, and matrices that add
        to the residual stream are 0.
        """
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif "embed_tokens" in name:
                nn.init.normal_(parameter, std=0.02)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)

    def states(self, token_ids: Tensor) -> Iterator[Tensor]:
        """Yield the residual stream [B, T, D] after each layer; `token_ids` is [B, T]."""
        cos, sin = rotation(token_ids.shape[1], self.config, token_ids.device, self.dtype)
        hidden = self.model.embed_tokens(token_ids)
        for layer in self.model.layers:
            hidden = layer(hidden, cos, sin, self.dtype)
            yield hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Apply the final norm and the output matrix: [..., D] -> [..., V] in `dtype`."""
        normed = self.model.norm(hidden, self.dtype)
        logits: Tensor = F.linear(normed, self.model.embed_tokens.weight.to(self.dtype))
        return logits

    def forward(self, token_ids: Tensor) -> Tensor:
        """Compute the logits: token_ids [B, T] -> [B, T, V]."""
        *_, last = self.states(token_ids)
        return self.logits(last)


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute causal attention; all tensors are [B, H, T, d].

    On a CPU this function writes out the single operations, because they compile faster than
    torch's fused attention.
    """
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    length = query.shape[2]
    scores = (query * query.shape[3] ** -0.5) @ key.transpose(2, 3)  # [B, H, T, T]
    causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    weights = scores.float().masked_fill(~causal, float("-inf")).softmax(-1)
    mixed: Tensor = weights.to(value.dtype) @ value
    return mixed


def linear(hidden: Tensor, layer: nn.Linear) -> Tensor:
    """Apply a linear layer in the dtype of its input, whatever the dtype of the weight."""
    return F.linear(hidden, layer.weight.to(hidden.dtype))


def rotation(
    length: int, config: LlamaConfig, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return cos and sin of the rotary positions, each [T, d].

    Both halves of a head have the same angles.
    """
    theta = float(config.rope_parameters["rope_theta"])
    exponent = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angle = torch.outer(torch.arange(length, device=device).float(), theta**-exponent)  # [T, d/2]
    both = torch.cat((angle, angle), dim=-1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate heads [B, H, T, d]: the halves (x1, x2) become (x1 cos - x2 sin, x2 cos + x1 sin)."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


# The class and the functions below sample texts. For a high throughput, they sample batches of
# texts of equal length, with a KV cache.


class CachedNetwork:
    """A network with a KV cache for at most `length` tokens."""

    def __init__(self, network: Network, rows: int, length: int) -> None:
        config = network.config
        device = network.model.embed_tokens.weight.device
        self.network = network
        self.length = 0
        shape = (rows, config.num_key_value_heads, length, config.head_dim)
        self.keys = [
            torch.zeros(shape, dtype=network.dtype, device=device) for _ in network.model.layers
        ]
        self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.cos, self.sin = rotation(length, config, device, network.dtype)

    @torch.no_grad()
    def feed(self, token_ids: Tensor) -> Tensor:
        """Run the next tokens [B, T] of all rows; return the logits [B, V] after the last token."""
        end = self.length + token_ids.shape[1]
        hidden = self.network.model.embed_tokens(token_ids)
        for index, layer in enumerate(self.network.model.layers):
            assert isinstance(layer, Block)
            normed = layer.input_layernorm(hidden, self.network.dtype)
            hidden = hidden + self._attend(index, layer, normed, end)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden, self.network.dtype))
        self.length = end
        return self.network.logits(hidden[:, -1]).float()

    def _attend(self, index: int, layer: Block, hidden: Tensor, end: int) -> Tensor:
        """Compute the attention of one layer over the cache: [B, T, D] -> [B, T, D].

        While the cache is empty, several tokens can be processed together; afterwards only one.
        """
        rows, width, _ = hidden.shape
        attention = layer.self_attn
        query, key, value = (
            linear(hidden, product).view(rows, width, -1, attention.head_dim).transpose(1, 2)
            for product in (attention.q_proj, attention.k_proj, attention.v_proj)
        )  # [B, H, T, d]
        cos, sin = self.cos[self.length : end], self.sin[self.length : end]
        self.keys[index][:, :, self.length : end] = rotate(key, cos, sin)
        self.values[index][:, :, self.length : end] = value
        assert width == 1 or self.length == 0, "several tokens may only be fed first"
        mixed = F.scaled_dot_product_attention(
            rotate(query, cos, sin),
            self.keys[index][:, :, :end],
            self.values[index][:, :, :end],
            is_causal=width > 1,
            enable_gqa=attention.queries_per_key > 1,
        )
        return linear(mixed.transpose(1, 2).reshape(rows, width, -1), attention.o_proj)


def sample(network: Network, prefix: Tensor, total: int, temperatures: Tensor) -> Tensor:
    """Continue a prefix [B, P] to [B, total]; a temperature [B] of 0 takes the most probable token.

    If a document ends in a row, the row continues with another document, as the training text does.
    """
    cache = CachedNetwork(network, prefix.shape[0], total)
    tokens = [prefix]
    latest = prefix
    for _ in range(total - prefix.shape[1]):
        latest = draw(cache.feed(latest), temperatures)[:, None]
        tokens.append(latest)
    return torch.cat(tokens, dim=1)


def draw(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Draw one token id per row: logits [B, V], temperatures [B] -> [B].

    The token is the argmax of logits + temperature * Gumbel noise.
    """
    noise = -torch.empty_like(logits).exponential_().log()
    return (logits + noise * temperatures[:, None]).argmax(-1)


SHARD_SIZE = "9MB"


def save_model(network: Network, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save config, tokenizer and weights in bfloat16; delete the old content of `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    model = LlamaForCausalLM(network.config)
    missing = model.load_state_dict(network.state_dict(), strict=False).missing_keys
    assert missing in ([], ["lm_head.weight"]), missing
    model.tie_weights()
    model.generation_config = GenerationConfig(eos_token_id=0, pad_token_id=0)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=SHARD_SIZE)
    tokenizer.save_pretrained(folder)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    for path in folder.iterdir():
        # safetensors makes files that only their owner can read, but other users may need the model
        path.chmod(0o644)


def load_network(folder: Path, dtype: torch.dtype = torch.float32) -> Network:
    """Load a saved network.

    Its weights have bfloat16 precision, and its matrix multiplications run in `dtype`.
    """
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    network = Network(model.config, dtype)
    weights = {
        name: weight for name, weight in model.state_dict().items() if name != "lm_head.weight"
    }
    network.load_state_dict(weights)
    return network.eval()


def fingerprint(folder: Path) -> str:
    """Return eight hexadecimal digits of a hash of the saved weights.

    These digits are the name of the folder with everything that was made from these weights.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
