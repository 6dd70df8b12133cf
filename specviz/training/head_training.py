"""Trains and measures an EAGLE head and Medusa heads on what the finished target makes of texts.

A feature is the target's hidden state after the final norm; its tied head turns it into the
distribution of the next token.

Letters: B rows, T positions or pairs, W width, V vocabulary, H heads, d head width, R roots,
L levels.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedTokenizerFast

from specviz.training.distillation import CacheReader, TeacherCache, divergence
from specviz.training.model_files import load_into, save_model
from specviz.training.network import Attention, FeedForward, Network, Norm, linear, rotation, sample
from specviz.training.pretraining import Progress, Rates, TrainingLoop, llama_config
from specviz.training.token_files import END_ID, document_ids

# ---- features of the cached texts


FEATURE_ROWS = 16  # windows a forward
REPORT_ROWS = 50 * FEATURE_ROWS
Features = NDArray[np.float16]  # [N, T, W]


class HeadLesson(NamedTuple):
    """Windows for a head to learn from."""

    tokens: Tensor  # [B, T]
    top_ids: Tensor  # [B, T, k]: of the target's distribution after each token
    top_probs: Tensor  # [B, T, k]
    features: Tensor  # [B, T, W]

    def to(self, device: str) -> "HeadLesson":
        """The same windows on a device."""
        return HeadLesson(*(part.to(device) for part in self))


class LessonReader(CacheReader):
    """Shuffled passes over a teacher cache and its features."""

    def __init__(self, cache: TeacherCache, features: Features, seed: int) -> None:
        super().__init__(cache, seed)
        self.features = features

    def lesson(self, rows: int) -> HeadLesson:
        """The next `rows` windows."""
        picked = self.pick(rows)
        features = torch.from_numpy(self.features[picked].astype(np.float32))
        return HeadLesson(*self.lines(picked), features)


def make_features(network: Network, tokens: NDArray[np.uint16], path: Path) -> Features:
    """Features of all but the last token of each row of `tokens` [N, T + 1], memory-mapped."""
    if not path.exists():
        partial = path.with_suffix(".partial")
        shape = (len(tokens), tokens.shape[1] - 1, network.config.hidden_size)
        made = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape)
        for start in range(0, len(tokens), FEATURE_ROWS):
            rows = torch.from_numpy(tokens[start : start + FEATURE_ROWS, :-1].astype(np.int64))
            made[start : start + FEATURE_ROWS] = features(network, rows).half().cpu().numpy()
            if start % REPORT_ROWS == 0:
                print(f"features: {start} of {len(tokens)} rows", file=sys.stderr, flush=True)
        made.flush()
        partial.replace(path)
    found: Features = np.load(path, mmap_mode="r")
    return found


@torch.no_grad()
def features(network: Network, token_ids: Tensor) -> Tensor:
    """token_ids [B, T] -> features [B, T, W] in float32, on the network's device."""
    *_, last = network.states(token_ids.to(network.model.embed_tokens.weight.device))
    normed: Tensor = network.model.norm(last, torch.float32)
    return normed


# ---- EAGLE: one decoder layer that predicts the target's next feature
#
# Pair t, [embedding of token t + 1 ; feature of t], gives the feature of t + 1; the target's own
# head turns that into the distribution of token t + 2. The layer has no norm before its attention
# and none after its output (Li et al., EAGLE, arXiv 2401.15077).


DEPTH = 4  # levels of a tree that training covers
DEPTH_DECAY = 0.8  # weight of a level over that of the one before
FEATURE_WEIGHT = 0.5
EAGLE_ROWS = 8  # windows a step


def eagle_config() -> LlamaConfig:
    """One layer of the target's shape."""
    return llama_config(layers=1)


class EagleLayer(nn.Module):
    """A decoder layer without an input norm, whose queries may attend to their own predictions."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)


class EagleNetwork(nn.Module):
    """The head. `dtype` is that of the products; weights stay float32."""

    def __init__(self, config: LlamaConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([EagleLayer(config)])
        self._initialise()

    def _initialise(self) -> None:
        """Start as the identity: the head returns the feature that it is given."""
        width = self.config.hidden_size
        for name, parameter in self.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.5 * parameter.shape[1] ** -0.5)
        with torch.no_grad():
            self.fc.weight[:, width:] = torch.eye(width)

    def forward(
        self,
        embedded: Tensor,
        features: Tensor,
        depth: int = 1,
        message: Tensor | None = None,
        deeper_rows: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """Predicted features of levels 1 ... depth, each [B, T, W]; both inputs [B, T, W].

        Level s at pair t is what decoding predicts after s - 1 predictions: pair t carries the
        feature that level s - 1 predicted for it; its query attends to the target's features at
        pairs up to t - s + 1, and at the s - 1 pairs after that to those that levels 1 ... s - 1
        predicted on the way (the training-time test of EAGLE-3, arXiv 2503.01840). All pairs are
        computed at once; the first s - 1 of level s have no such past and are to be ignored.

        With a `message` [B, M], inputs are [B, M + T, W]: nothing is predicted at the first M
        pairs, which are only attended to, and of those there are the ones that it says.
        `deeper_rows` [R]: the rows of all levels after the first.
        """
        layer = self.layers[0]
        assert isinstance(layer, EagleLayer)
        cos, sin = rotation(features.shape[1], self.config, features.device, self.dtype)
        embedded, given = embedded.to(self.dtype), features.to(self.dtype)
        before = 0 if message is None else message.shape[1]
        seen: list[tuple[Tensor, Tensor]] = []
        for level in range(depth):
            hidden = linear(torch.cat((embedded, given), dim=-1), self.fc)
            query, key, value = layer.self_attn.project(hidden, cos, sin)
            seen.append((key, value))
            if level == 0:
                query, hidden, embedded = (
                    query[:, :, before:],
                    hidden[:, before:],
                    embedded[:, before:],
                )
                cos, sin = cos[before:], sin[before:]
            hidden = hidden.float() + layer.self_attn.write(attend_to_guesses(query, seen, message))
            normed = layer.post_attention_layernorm(hidden, self.dtype)
            hidden = hidden + layer.mlp(normed)
            yield hidden
            if level == 0 and deeper_rows is not None:
                hidden, embedded = hidden[deeper_rows], embedded[deeper_rows]
                seen = [(key[deeper_rows], value[deeper_rows])]
                message = None if message is None else message[deeper_rows]
            given = later(hidden.to(self.dtype), 1, dim=1)


def attend_to_guesses(
    query: Tensor, seen: list[tuple[Tensor, Tensor]], message: Tensor | None = None
) -> Tensor:
    """query [B, H, T, d] of level s; (key, value) of levels 1 ... s -> [B, H, T, d].

    The query at t sees level 1 up to t - s + 1, then level 2 at t - s + 2, ..., level s at t.
    With a `message` [B, M], level 1 has M keys more before the others, seen where it says so.
    """
    query = query * query.shape[3] ** -0.5
    length, level = query.shape[2], len(seen)
    (first_key, first_value), *guesses = seen
    keys = first_key.shape[2]
    past = torch.ones(length, keys, dtype=torch.bool, device=query.device)
    past = past.tril(keys - length + 1 - level)
    if message is not None:
        past = past & F.pad(message, (0, length), value=True)[:, None, None]  # [B, 1, T, M + T]
    scores = [(query @ first_key.mT).float().masked_fill(~past, float("-inf"))]
    back = range(len(guesses) - 1, -1, -1)
    for (key, _), pairs in zip(guesses, back, strict=True):
        scores.append((query * later(key, pairs, dim=2)).sum(-1, keepdim=True).float())
    weights = torch.cat(scores, dim=-1).softmax(-1).to(query.dtype)  # [B, H, T, M + T + s - 1]
    mixed: Tensor = weights[..., :keys] @ first_value
    for index, ((_, value), pairs) in enumerate(zip(guesses, back, strict=True), start=keys):
        mixed = mixed + weights[..., index, None] * later(value, pairs, dim=2)
    return mixed


def later(states: Tensor, pairs: int, dim: int) -> Tensor:
    """The states `pairs` places further along `dim`; zeros come first. [a, b, c], 1 -> [0, a, b]"""
    kept = states.narrow(dim, 0, states.shape[dim] - pairs)
    return torch.cat((torch.zeros_like(states.narrow(dim, 0, pairs)), kept), dim=dim)


def train_eagle(
    config: LlamaConfig,
    cache: TeacherCache,
    features: Features,
    table: Tensor,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[EagleNetwork, Progress]:
    """A head trained for `seconds` (resumed if begun); table [V, W] is the target's, and frozen."""
    torch.manual_seed(2)
    network = EagleNetwork(config).to(device)
    reader = LessonReader(cache, features, seed=2)
    loop = TrainingLoop(network, reader, checkpoint, seconds, Rates())
    loss = torch.compile(eagle_loss, dynamic=False) if compiled else eagle_loss
    table = table.to(device)

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, table, reader.lesson(EAGLE_ROWS).to(device))

    return network, loop.run(losses)


def eagle_loss(
    network: EagleNetwork, table: Tensor, lesson: HeadLesson, depth: int = DEPTH
) -> Tensor:
    """Weighted mean over levels, each with DEPTH_DECAY times the weight of the one before.

    A level's loss is the divergence from the target's distribution + FEATURE_WEIGHT * the smooth
    L1 distance of the feature.
    """
    embedded = F.embedding(lesson.tokens[:, 1:], table)
    weights = [DEPTH_DECAY**level for level in range(depth)]
    total = torch.zeros((), device=table.device)
    predicted = network(embedded, lesson.features[:, :-1], depth)
    for level, (weight, guess) in enumerate(zip(weights, predicted, strict=True)):
        guess = guess[:, level:]
        logits = F.linear(guess.to(network.dtype), table.to(network.dtype))
        wanted = lesson.features[:, level + 1 :]
        distributions = lesson.top_ids[:, level + 1 :], lesson.top_probs[:, level + 1 :]
        loss = divergence(logits, *distributions) + FEATURE_WEIGHT * F.smooth_l1_loss(guess, wanted)
        total = total + weight / sum(weights) * loss
    return total


# ---- Medusa: each head predicts the token one place further than the one before
#
# With feature h(n - 1), from which the target itself draws the token at n, head i (from 0) gives
# the feature at n + i, of which the target's own output matrix makes the distribution of the token
# at n + i + 1 (Cai et al., Medusa, arXiv 2401.10774; there each head has a matrix of its own).
# Heads learn apart from each other and leave the target as it is.


HEADS = 4
MEDUSA_ROWS = 8  # windows a step
MEDUSA_RATES = Rates(decay=0.02)
RIDGE = 1e-3
FITTED_WINDOWS = 256


class MedusaHead(nn.Module):
    """x + up(SiLU(down(x))); it starts as the identity."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner)
        self.up = nn.Linear(inner, width, bias=False)
        nn.init.normal_(self.down.weight, std=width**-0.5)
        nn.init.zeros_(self.down.bias)
        nn.init.zeros_(self.up.weight)

    def forward(self, features: Tensor) -> Tensor:
        """features [..., W] -> those that it foretells, in the same dtype."""
        bias = self.down.bias.to(features.dtype)
        return features + linear(F.silu(linear(features, self.down) + bias), self.up)


@torch.no_grad()
def fit_medusa_head(head: MedusaHead, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Begin at the best linear guess, of a rank of half the inner width.

    `pairs`: features [N, W] with those to foretell. What goes down once as it is and once negated
    comes up linear, for SiLU(z) - SiLU(-z) = z.
    """
    square, mixed = torch.zeros(()), torch.zeros(())
    for given, wanted in pairs:
        square, mixed = square + given.t() @ given, mixed + given.t() @ (wanted - given)
    regular = square + RIDGE * square.diagonal().mean() * torch.eye(len(square))
    linear_map = torch.linalg.solve(regular, mixed).t()  # [W, W]
    _, directions = torch.linalg.eigh(linear_map @ square @ linear_map.t())
    rank = head.down.out_features // 2
    kept = directions[:, -rank:]
    low = kept.t() @ linear_map
    head.down.weight.zero_()
    head.down.weight[: 2 * rank] = torch.cat((low, -low))
    head.up.weight[:, : 2 * rank] = torch.cat((kept, -kept), dim=1)


class MedusaNetwork(nn.Module):
    """All heads over one feature. `dtype` is that of the products; weights stay float32."""

    def __init__(
        self,
        width: int,
        inner: int,
        heads: int = HEADS,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__()
        self.width, self.inner = width, inner
        self.dtype = dtype
        self.heads = nn.ModuleList(MedusaHead(width, inner) for _ in range(heads))

    def forward(self, features: Tensor) -> Iterator[Tensor]:
        """features [B, T, W] -> per head those foretold for where the window holds the token.

        Head i: [B, T - i - 1, W].
        """
        for index, head in enumerate(self.heads):
            yield head(features[:, : -index - 1].to(self.dtype))


def train_medusa(
    cache: TeacherCache,
    features: Features,
    table: Tensor,
    checkpoint: Path,
    seconds: float,
    device: str = "cpu",
    compiled: bool = True,
) -> tuple[MedusaNetwork, Progress]:
    """Heads trained for `seconds` (resumed if begun); table [V, W] is the target's, and frozen."""
    torch.manual_seed(3)
    width = table.shape[1]
    network = MedusaNetwork(width, width)
    reader = LessonReader(cache, features, seed=3)
    if not checkpoint.exists():
        given = LessonReader(cache, features, seed=3).lesson(FITTED_WINDOWS).features
        for index, head in enumerate(network.heads):
            assert isinstance(head, MedusaHead)
            pair = (given[:, : -index - 1].flatten(0, 1), given[:, index + 1 :].flatten(0, 1))
            fit_medusa_head(head, [pair])
    network.to(device)
    loop = TrainingLoop(network, reader, checkpoint, seconds, MEDUSA_RATES)
    loss = torch.compile(medusa_loss, dynamic=False) if compiled else medusa_loss
    table = table.to(device)

    def losses(fraction: float) -> Iterator[Tensor]:
        yield loss(network, table, reader.lesson(MEDUSA_ROWS).to(device))

    return network, loop.run(losses)


def medusa_loss(network: MedusaNetwork, table: Tensor, lesson: HeadLesson) -> Tensor:
    """Mean over heads of the divergence from the target's distribution one place further per
    head.
    """
    output = table.to(network.dtype)
    parts = [
        divergence(
            F.linear(guess, output),
            lesson.top_ids[:, index + 1 :],
            lesson.top_probs[:, index + 1 :],
        )
        for index, guess in enumerate(network(lesson.features))
    ]
    return torch.stack(parts).mean()


# ---- folders of heads


def save_eagle(network: EagleNetwork, folder: Path) -> None:
    """A Llama config of one layer, and the weights; what was in `folder` goes.

    vLLM asks for the architecture to know whose layer it is.
    """
    told = {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    config = LlamaConfig.from_dict({**network.config.to_dict(), **told})
    save_model(network, config.to_dict(), folder)


def save_medusa(
    network: MedusaNetwork,
    vocabulary: int,
    accuracies: list[list[float]],
    folder: Path,
    drafted: Tensor | None = None,
) -> None:
    """Heads, sizes and `accuracies` (see `HeadEvaluation.accuracies`).

    `drafted` [D]: the draft vocabulary, if there is one.
    """
    config = {
        "heads": len(network.heads),
        "hidden_size": network.width,
        "inner_size": network.inner,
        "vocab_size": vocabulary,
        "accuracies": accuracies,
    }
    save_model(network, config, folder, drafted)


def load_eagle(folder: Path) -> EagleNetwork:
    """As saved; its products run in float32."""
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    load_into(network, folder)
    return network


def load_medusa(folder: Path) -> MedusaNetwork:
    """As saved; its products run in float32."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    width, inner, heads = (config[name] for name in ("hidden_size", "inner_size", "heads"))
    network = MedusaNetwork(width, inner, heads, torch.float32)
    load_into(network, folder)
    return network


# ---- how often a head predicts how the target continues, per level and task
#
# A root is a position whose next token the target itself gives; level s (from 0) predicts the token
# s + 1 places after that one. Measured on held-out documents (read) and on what the target writes
# after their beginnings at temperature 0 (written).


LONGEST = 256
PREFIX, CONTINUATION = 64, 96  # tokens
RANKS = 10
LEVELS = 5  # of an EAGLE tree
# tokens [B, T], features [B, T, W] -> per level logits [B, R, V] of roots 0 ... R - 1
Predict = Callable[[Tensor, Tensor], Iterator[Tensor]]


@dataclass(frozen=True, slots=True)
class HeldOutText:
    """Per task: held-out documents, each [1, T], and what the target wrote, [B, T]."""

    read: dict[str, list[Tensor]]
    written: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class HeadScores:
    """Of one task, per level: share of roots where the target's likeliest token is predicted.

    accepted: on written text, the mean number of levels that are right in a row.
    """

    read: list[float]
    written: list[float]
    accepted: float


@dataclass(frozen=True, slots=True)
class HeadEvaluation:
    """Scores per task; over all that was written, per level the shares of choices 1 ... RANKS."""

    scores: dict[str, HeadScores]
    accuracies: list[list[float]]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def eagle_levels(network: EagleNetwork, table: Tensor, levels: int = LEVELS) -> Predict:
    """Per level the head's logits along the text, from the features that it predicted itself."""

    def predict(tokens: Tensor, given: Tensor) -> Iterator[Tensor]:
        embedded = F.embedding(tokens[:, 1:], table)
        roots = tokens.shape[1] - levels - 1
        for level, guess in enumerate(network(embedded, given[:, :-1], levels)):
            yield F.linear(guess[:, level : level + roots].float(), table)

    return predict


def medusa_levels(network: MedusaNetwork, table: Tensor) -> Predict:
    """Per level the logits of its head."""

    def predict(tokens: Tensor, given: Tensor) -> Iterator[Tensor]:
        roots = tokens.shape[1] - len(network.heads) - 1
        for guess in network(given):
            yield F.linear(guess[:, :roots].float(), table)

    return predict


def held_out_text(
    target: Network,
    tokenizer: PreTrainedTokenizerFast,
    held_out: Mapping[str, Sequence[str]],
    kept: Path,
) -> HeldOutText:
    """At most LONGEST tokens of each document, and CONTINUATION tokens after the first PREFIX.

    A document shorter than PREFIX is repeated to that length. What the target writes is kept in the
    JSON file `kept`, and read from there if it is there.
    """
    documents = {task: document_ids(tokenizer, task, texts) for task, texts in held_out.items()}
    if not kept.exists():
        written = {task: _continued(target, ids).tolist() for task, ids in documents.items()}
        kept.write_text(json.dumps(written), encoding="utf-8")
    return HeldOutText(
        {task: [torch.tensor([row[:LONGEST]]) for row in ids] for task, ids in documents.items()},
        {task: torch.tensor(ids) for task, ids in json.loads(kept.read_text("utf-8")).items()},
    )


def _continued(target: Network, documents: Sequence[Sequence[int]]) -> Tensor:
    prefix = torch.tensor(np.stack([np.resize(ids[:PREFIX], PREFIX) for ids in documents]))
    return sample(target, prefix, PREFIX + CONTINUATION, torch.zeros(len(prefix)))


def evaluate_head(target: Network, predict: Predict, texts: HeldOutText) -> HeadEvaluation:
    """Scores of one head on all texts."""
    everything: list[Tensor] = []
    scores = {}
    for task in texts.read:
        read = [ranks(target, predict, tokens).flatten(0, 1) for tokens in texts.read[task]]
        written = _written_ranks(target, predict, texts.written[task])
        everything.append(written)
        scores[task] = _scores(torch.cat(read), written)
    together = torch.cat(everything)
    shares = [(together == rank).double().mean(0) for rank in range(RANKS)]
    return HeadEvaluation(scores, [_rounded(level) for level in torch.stack(shares, dim=1)])


@torch.no_grad()
def ranks(target: Network, predict: Predict, tokens: Tensor) -> Tensor:
    """tokens [B, T] -> [B, R, L]: how many tokens each level ranks above the target's choice."""
    given = features(target, tokens)
    choices = F.linear(given, target.model.embed_tokens.weight).argmax(-1)  # [B, T]
    columns = []
    for level, logits in enumerate(predict(tokens, given)):
        wanted = choices[:, level + 1 : level + 1 + logits.shape[1], None]
        columns.append((logits > logits.gather(2, wanted)).sum(-1))
    return torch.stack(columns, dim=2)


def _written_ranks(target: Network, predict: Predict, tokens: Tensor) -> Tensor:
    """Ranks [N, L] of the roots from the prefix's last token to the document's end."""
    found = ranks(target, predict, tokens)
    roots, levels = found.shape[1:]
    ended = (tokens[:, PREFIX:] == END_ID).cumsum(1)  # [B, CONTINUATION]
    last = torch.arange(PREFIX - 1, roots) + levels + 1 - PREFIX  # the last token predicted
    return found[:, PREFIX - 1 :][ended[:, last] == 0]


def _scores(read: Tensor, written: Tensor) -> HeadScores:
    """Both [N, L]."""
    right = (written == 0).double()
    return HeadScores(
        read=_rounded((read == 0).double().mean(0)),
        written=_rounded(right.mean(0)),
        accepted=round(right.cumprod(1).sum(1).mean().item(), 4),
    )


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
