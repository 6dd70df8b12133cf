"""A language model that is a table: a random law for every pair of last tokens.

Its features are its logits.

It sees only what the mask lets through and insists that what it sees is one unbroken path, so a
wrong mask, position or kept slot is an error at once. Fast enough for thousands of runs.
"""

import torch

from specviz.models.language_model import ForwardOutput
from specviz.records import ModelInfo


class TableCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.slots = []  # (token, position)

    @property
    def length(self):
        return len(self.slots)

    def keep(self, start, slots):
        self.slots = self.slots[:start] + [self.slots[slot] for slot in slots]


class TableModel:
    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, seed, vocab=3, sharpness=1.0):
        generator = torch.Generator().manual_seed(seed)
        self.logits = sharpness * torch.randn(vocab + 1, vocab, vocab, generator=generator)
        self.info = ModelInfo("table", "Table", 1, 1, 1, vocab, vocab, 10_000)

    def new_cache(self, capacity):
        return TableCache(capacity)

    def forward(
        self, token_ids, position_ids, cache, tree_mask=None, last_only=False, with_features=False
    ):
        new = list(zip(token_ids[0].tolist(), position_ids[0].tolist(), strict=True))
        first = cache.length
        cache.slots += new
        rows = [self.law(self._path(cache, first, i, tree_mask)) for i in range(len(new))]
        logits = torch.stack(rows)[None]
        return ForwardOutput(
            logits[:, -1:] if last_only else logits, logits if with_features else None
        )

    def law(self, tokens):
        """Logits after a path of tokens, from its last two."""
        before = tokens[-2] if len(tokens) > 1 else self.info.vocab_size
        return self.logits[before, tokens[-1]]

    @staticmethod
    def _path(cache, first, query, tree_mask):
        end = first + query + 1
        visible = range(end)
        if tree_mask is not None:
            covered = cache.length - tree_mask.shape[1]
            row = tree_mask[query].tolist()
            visible = [s for s in range(cache.length) if s < covered or row[s - covered]]
        seen = sorted((cache.slots[slot][1], cache.slots[slot][0]) for slot in visible)
        assert [position for position, _ in seen] == list(range(len(seen))), "not one path"
        assert cache.slots[first + query][1] == len(seen) - 1, "the query is not its path's end"
        return [token for _, token in seen]
