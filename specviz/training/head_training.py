"""Train and measure an EAGLE head and Medusa heads, which learn from the finished target.

A feature is the target's hidden state after the final norm. The target's output matrix turns it
into the distribution of the next token.

The input of an EAGLE head is a sequence of pairs: pair t is the embedding of token t + 1 with the
feature after token t. A root is a position from which the evaluation lets the head predict.

In shapes, N is the number of all windows of text or of all roots, B the number of windows in a
batch, T the number of positions or pairs, M that of a message's pairs, W the hidden size, V the
size of the vocabulary, D that of the draft vocabulary, k the number of top tokens, H the number of
attention heads, d the head size, R the number of roots, and L the number of levels.
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

FEATURE_ROWS = 16  # number of windows of text in one forward of the target
REPORT_ROWS = 50 * FEATURE_ROWS
Features = NDArray[np.float16]  # [N, T, W]


class HeadLesson(NamedTuple):
    """Windows of text, with the target's distributions and features, from which a head learns."""

    tokens: Tensor  # [B, T]
    top_ids: Tensor  # [B, T, k]: the target's most probable tokens after each token
    top_probs: Tensor  # [B, T, k]
    features: Tensor  # [B, T, W]

    def to(self, device: str) -> "HeadLesson":
        """Return a copy of these windows on a device."""
        return HeadLesson(*(part.to(device) for part in self))


class LessonReader(CacheReader):
    """Shuffled passes over a teacher cache and its features."""

    def __init__(self, cache: TeacherCache, features: Features, seed: int) -> None:
        super().__init__(cache, seed)
        self.features = features

    def lesson(self, rows: int) -> HeadLesson:
        """Return the next `rows` windows of the current pass as a lesson."""
        picked = self.pick(rows)
        features = torch.from_numpy(self.features[picked].astype(np.float32))
        return HeadLesson(*self.lines(picked), features)


def make_features(network: Network, tokens: NDArray[np.uint16], path: Path) -> Features:
    """Compute the features of all but the last token of each row of `tokens` [N, T + 1].

    The features are stored in the file `path` and memory-mapped. If the file exists, it is read
    instead.
    """
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
    """Compute features: token_ids [B, T] -> [B, T, W] in float32, on the network's device."""
    *_, last = network.states(token_ids.to(network.model.embed_tokens.weight.device))
    normed: Tensor = network.model.norm(last, torch.float32)
    return normed


# An EAGLE head is one decoder layer that predicts the target's next feature.
#
# From pair t, which is [embedding of token t + 1 ; feature of t], it predicts the feature of t + 1.
# The target's output matrix turns that feature into the distribution of token t + 2. The layer has
# no norm before its attention and none after its output (Li et al., EAGLE, arXiv 2401.15077).


DEPTH = 4  # number of tree levels that training covers
DEPTH_DECAY = 0.8  # weight of a level divided by the weight of the level before
FEATURE_WEIGHT = 0.5
EAGLE_ROWS = 8  # number of windows of text per training step


def eagle_config() -> LlamaConfig:
    """Return the shape of the EAGLE head: a decoder layer with the sizes of the target's layers."""
    return llama_config(layers=1)


class EagleLayer(nn.Module):
    """A decoder layer without an input norm, whose queries can attend to the head's predictions."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)


class EagleNetwork(nn.Module):
    """The EAGLE head. Its weights are float32, and its matrix multiplications run in `dtype`."""

    def __init__(self, config: LlamaConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layers = nn.ModuleList([EagleLayer(config)])
        self._initialise()

    def _initialise(self) -> None:
        """Initialise the head as the identity, so that it returns the feature it is given."""
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
        """Predict the features of levels 1 ... depth, each [B, T, W]; both inputs are [B, T, W].

        In decoding, the s-th guess of a round reads s - 1 features that the head predicted itself.
        Level s trains this case (the training-time test of EAGLE-3, arXiv 2503.01840). At level s,
        pair t contains the feature that level s - 1 predicted. The query of pair t attends to the
        pairs before it as well: up to pair t - s + 1 they contain the target's features, and the
        pairs after that contain the predictions of levels 1 ... s - 1. All pairs are computed at
        once. The caller must ignore the first s - 1 pairs of level s, because there are too few
        pairs before them.

        With a `message` [B, M] the inputs are [B, M + T, W]. Nothing is predicted at the first M
        pairs. Later pairs attend to them where `message` is true. Levels after the first are
        predicted only for the rows `deeper_rows` [R].
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
    """Compute attention for the query of level s, given (key, value) of levels 1 ... s.

    The query and the result are [B, H, T, d]. The query at pair t sees level 1 up to pair t - s +
    1, then level 2 at pair t - s + 2, and so on up to level s at pair t. With a `message` [B, M],
    level 1 has M more keys before all others. The query sees such a key if `message` is true there.
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
    """Shift states by `pairs` along `dim` and fill with zeros: [a, b, c], 1 -> [0, a, b]."""
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
    """Train an EAGLE head for `seconds`, or continue its training from a checkpoint.

    `table` [V, W] is the target's output matrix, which is not trained.
    """
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
    """Return the weighted mean of the losses of all levels.

    Each level has DEPTH_DECAY times the weight of the level before. The loss of a level is the
    divergence from the target's distribution plus FEATURE_WEIGHT times the smooth L1 distance of
    the feature.
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


# Each Medusa head predicts the token one position further than the head before.
#
# From feature h(n - 1), from which the target itself predicts the token at n, head i (from 0)
# predicts the feature at n + i. The target's output matrix turns that into the distribution of the
# token at n + i + 1 (Cai et al., Medusa, arXiv 2401.10774; in the paper each head has a matrix of
# its own). The heads learn independently of each other, and the target is not changed.


HEADS = 4
MEDUSA_ROWS = 8  # number of windows of text per training step
MEDUSA_RATES = Rates(decay=0.02)
RIDGE = 1e-3
FITTED_WINDOWS = 256


class MedusaHead(nn.Module):
    """A Medusa head: x + up(SiLU(down(x))), initialised as the identity."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner)
        self.up = nn.Linear(inner, width, bias=False)
        nn.init.normal_(self.down.weight, std=width**-0.5)
        nn.init.zeros_(self.down.bias)
        nn.init.zeros_(self.up.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Predict a later feature from each feature, in the dtype of the input.

        [..., W] -> [..., W]
        """
        bias = self.down.bias.to(features.dtype)
        return features + linear(F.silu(linear(features, self.down) + bias), self.up)


@torch.no_grad()
def fit_medusa_head(head: MedusaHead, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Initialise a head as the best linear prediction whose rank is half of the inner width.

    `pairs` yields features [N, W] and the features to predict. `down` contains each direction
    twice, with opposite signs. The head is then linear in this direction in spite of its
    activation, because SiLU(z) - SiLU(-z) = z.
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
    """All Medusa heads, which read the same feature.

    The weights are float32, and matrix multiplications run in `dtype`.
    """

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
        """Yield, for each head, the features that it predicts for positions inside the window.

        `features` is [B, T, W]. The result of head i is [B, T - i - 1, W].
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
    """Train Medusa heads for `seconds`, or continue their training from a checkpoint.

    `table` [V, W] is the target's output matrix, which is not trained.
    """
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
    """Return the divergence from the target's distribution, averaged over the heads.

    The prediction of head i is compared with the target's distribution i + 1 positions later.
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


def save_eagle(network: EagleNetwork, folder: Path) -> None:
    """Save a Llama config of one layer, and the weights; delete the old content of `folder`.

    The config names the Llama architecture, because vLLM reads the type of the layer from it.
    """
    further = {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16"}
    config = LlamaConfig.from_dict({**network.config.to_dict(), **further})
    save_model(network, config.to_dict(), folder)


def save_medusa(
    network: MedusaNetwork,
    vocabulary: int,
    accuracies: list[list[float]],
    folder: Path,
    drafted: Tensor | None = None,
) -> None:
    """Save Medusa heads, their sizes and their `accuracies`.

    For each head, `accuracies` has how often its 1st, 2nd, … choice is right.

    `drafted` [D] is the draft vocabulary, if there is one.
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
    """Load a saved EAGLE head; its matrix multiplications run in float32."""
    network = EagleNetwork(LlamaConfig.from_pretrained(folder), torch.float32)
    load_into(network, folder)
    return network


def load_medusa(folder: Path) -> MedusaNetwork:
    """Load saved Medusa heads; their matrix multiplications run in float32."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    width, inner, heads = (config[name] for name in ("hidden_size", "inner_size", "heads"))
    network = MedusaNetwork(width, inner, heads, torch.float32)
    load_into(network, folder)
    return network


# The evaluation below measures how often a head predicts the target's own token, for each level and
# task.
#
# A root is a position in a text. The target itself predicts the next token after a root. Level s of
# a head (counted from 0) predicts the token s + 1 positions after that next token. There are two
# kinds of text: the held-out documents ("read"), and the target's continuations of their beginnings
# at temperature 0 ("written").


LONGEST = 256
# numbers of tokens in the beginning of a text and in its continuation
PREFIX, CONTINUATION = 64, 96
RANKS = 10
LEVELS = 5  # number of levels of an EAGLE head that are measured
# A function from tokens [B, T] and features [B, T, W] to the logits of a head. For each level, it
# yields the logits [B, R, V] for the R roots at positions 0 ... R - 1.
Predict = Callable[[Tensor, Tensor], Iterator[Tensor]]


@dataclass(frozen=True, slots=True)
class HeldOutText:
    """The texts of each task: held-out documents [1, T], and the target's continuations [B, T]."""

    read: dict[str, list[Tensor]]
    written: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class HeadScores:
    """The scores of a head in one task.

    `read` and `written` have, for each level, the share of roots at which the level predicts the
    target's token, on read and on written text. `accepted` is the mean number of consecutive
    levels, from the first one on, that predict the target's token on written text.
    """

    read: list[float]
    written: list[float]
    accepted: float


@dataclass(frozen=True, slots=True)
class HeadEvaluation:
    """The scores of each task, and accuracies over all texts that the target wrote.

    For each level, `accuracies` has the shares of roots at which the head's 1st, 2nd, … choice is
    the target's token, up to choice number RANKS.
    """

    scores: dict[str, HeadScores]
    accuracies: list[list[float]]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores and accuracies as a value that JSON can represent."""
        return asdict(self)


def eagle_levels(network: EagleNetwork, table: Tensor, levels: int = LEVELS) -> Predict:
    """Return a function that yields the logits of each level of an EAGLE head.

    The levels after the first read features that the head itself predicted.
    """

    def predict(tokens: Tensor, given: Tensor) -> Iterator[Tensor]:
        embedded = F.embedding(tokens[:, 1:], table)
        roots = tokens.shape[1] - levels - 1
        for level, guess in enumerate(network(embedded, given[:, :-1], levels)):
            yield F.linear(guess[:, level : level + roots].float(), table)

    return predict


def medusa_levels(network: MedusaNetwork, table: Tensor) -> Predict:
    """Return a function that yields the logits of each Medusa head."""

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
    """Return at most LONGEST tokens of each document, and its continuation by the target.

    A continuation has CONTINUATION tokens, which follow the first PREFIX tokens of the document. A
    document with fewer than PREFIX tokens is repeated up to that length. The continuations are
    stored in the JSON file `kept`. If that file exists, they are read from it.
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
    """Compute the scores of one drafting head on all texts."""
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
    """Return, for each root and level, how many tokens have a larger logit than the right token.

    The right token is the target's own choice. `tokens` is [B, T] and the result is [B, R, L]. The
    result is 0 if the level's first choice is right.
    """
    given = features(target, tokens)
    choices = F.linear(given, target.model.embed_tokens.weight).argmax(-1)  # [B, T]
    columns = []
    for level, logits in enumerate(predict(tokens, given)):
        wanted = choices[:, level + 1 : level + 1 + logits.shape[1], None]
        columns.append((logits > logits.gather(2, wanted)).sum(-1))
    return torch.stack(columns, dim=2)


def _written_ranks(target: Network, predict: Predict, tokens: Tensor) -> Tensor:
    """Return the `ranks` of the N roots whose predicted tokens all belong to a continuation.

    -> [N, L], 0 where the level's first choice is right.

    A root counts only if the document does not end before the last token that its levels predict.
    """
    found = ranks(target, predict, tokens)
    roots, levels = found.shape[1:]
    ended = (tokens[:, PREFIX:] == END_ID).cumsum(1)  # [B, CONTINUATION]
    # The levels of a root predict several tokens. `last` has, for each root, the index in the
    # continuation of the last of these tokens.
    last = torch.arange(PREFIX - 1, roots) + levels + 1 - PREFIX
    return found[:, PREFIX - 1 :][ended[:, last] == 0]


def _scores(read: Tensor, written: Tensor) -> HeadScores:
    """Compute the scores of one task from its `ranks` [N, L] on read and on written text."""
    right = (written == 0).double()
    return HeadScores(
        read=_rounded((read == 0).double().mean(0)),
        written=_rounded(right.mean(0)),
        accepted=round(right.cumprod(1).sum(1).mean().item(), 4),
    )


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
