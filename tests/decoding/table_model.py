"""A language model of tables: each layer has a random distribution after every pair of tokens.

The model sees only what the mask allows, and it asserts that this is one unbroken path. So a wrong
mask, position or kept slot in any layer raises an error at once. The model is fast enough for
thousands of runs. A hidden state consists of the token (one-hot) and the logits of its layer. The
features are the logits, and the output head returns the features unchanged. In shapes, V is the
size of the vocabulary.
"""

import torch

from specviz.models.language_model import ForwardOutput
from specviz.records import ModelInfo


class TableCache:
    bytes = 1

    def __init__(self, layers, capacity):
        self.capacity = capacity
        self.length = 0
        # Each layer has a list of its slots: the token and the position in each slot.
        self.layers = [[] for _ in range(layers)]

    def write(self, layer, start, new):
        slots = self.layers[layer]
        assert self.length <= start <= len(slots), "slots have to be written in order"
        assert start + len(new) <= self.capacity, "no room"
        slots[start:] = new

    def advance(self, count):
        self.length += count
        assert all(len(slots) == self.length for slots in self.layers), "a layer lacks slots"

    def held(self, count):
        return [slots[:count] for slots in self.layers]

    def begin(self, keys_values):
        assert self.length == 0 and len(keys_values) == len(self.layers)
        self.layers = [list(slots) for slots in keys_values]
        self.length = len(self.layers[0])

    def keep(self, start, slots):
        for layer, held in enumerate(self.layers):
            self.layers[layer] = held[:start] + [held[slot] for slot in slots]
        self.length = start + len(slots)


class TableLayer:
    """Logits after every pair of tokens; index V of the first token means "no token before"."""

    parameters = 1

    def __init__(self, weight):  # [V + 1, V, V]: first token, second token, next token
        self.weight = weight
        self.bias = None

    @property
    def down(self):
        """Return the layer with one row of logits per pair of tokens: [(V + 1) * V, V]."""
        return TableLayer(self.weight.flatten(0, 1))

    def converted(self, convert):
        """Return a copy of the layer whose weight was passed through `convert`."""
        return TableLayer(convert(self.down).weight.view_as(self.weight))


class TableModel:
    """A model with one table layer per seed; the last layer's distribution is its output."""

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, *seeds, vocab=3, sharpness=1.0):
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        shape = (vocab + 1, vocab, vocab)
        self.layers = [TableLayer(sharpness * torch.randn(shape, generator=g)) for g in generators]
        self.head = TableLayer(torch.eye(vocab))
        self.info = ModelInfo("table", "Table", 1, 1, len(seeds), vocab, vocab, 10_000)
        self.executions = 0  # counts tokens times layers: one layer that runs one token counts 1

    def with_layers(self, layers, info, head=None):
        """Return a model of these layers.

        The argument `head` has no effect, because the output head of every table model is the
        identity.
        """
        model = TableModel(vocab=self.info.vocab_size)
        model.layers, model.info = layers, info
        return model

    def new_cache(self, capacity):
        return TableCache(len(self.layers), capacity)

    def forward(
        self, token_ids, position_ids, cache, tree_mask=None, last_only=False, feature_layers=()
    ):
        hidden, start, states = self.embed(token_ids[0]), cache.length, []
        for layer in range(len(self.layers)):
            states.append(hidden)
            one = range(layer, layer + 1)
            hidden = self.run_layers(hidden, position_ids[0], cache, one, start, tree_mask)
        cache.advance(token_ids.shape[1])
        logits = self.norm(hidden)[None]
        states.append(logits[0])
        chosen = [states[layer] for layer in feature_layers]
        features = torch.cat(chosen, 1)[None] if chosen else None
        return ForwardOutput(logits[:, -1:] if last_only else logits, features)

    def embed(self, token_ids):
        one_hot = torch.nn.functional.one_hot(token_ids, self.info.vocab_size).float()
        return torch.cat([one_hot, torch.zeros_like(one_hot)], 1)

    def run_layers(self, hidden, position_ids, cache, layers, start, tree_mask=None):
        tokens = hidden[:, : self.info.vocab_size].argmax(1).tolist()
        new = list(zip(tokens, position_ids.tolist(), strict=True))
        for layer in layers:
            cache.write(layer, start, new)
            self.executions += len(new)
        if not layers:
            return hidden
        slots = cache.layers[layers[-1]]
        rows = [
            self.distribution(self._path(slots, start, i, tree_mask), layers[-1])
            for i in range(len(new))
        ]
        return torch.cat([hidden[:, : self.info.vocab_size], torch.stack(rows)], 1)

    def norm(self, hidden):
        return hidden[:, self.info.vocab_size :]

    def output(self, features):
        return features

    def distribution(self, tokens, layer=-1):
        """Return the logits [V] after a path of tokens; they depend on its last two tokens only."""
        before = tokens[-2] if len(tokens) > 1 else self.info.vocab_size
        return self.layers[layer].weight[before, tokens[-1]]

    @staticmethod
    def _path(slots, start, query, tree_mask):
        visible = range(start + query + 1)
        if tree_mask is not None:
            covered = len(slots) - tree_mask.shape[1]
            row = tree_mask[query].tolist()
            visible = [s for s in range(len(slots)) if s < covered or row[s - covered]]
        seen = sorted((slots[slot][1], slots[slot][0]) for slot in visible)
        assert [position for position, _ in seen] == list(range(len(seen))), "not one path"
        assert slots[start + query][1] == len(seen) - 1, "the query is not its path's end"
        return [token for _, token in seen]
