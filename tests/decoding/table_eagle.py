"""An EAGLE head that consists of a table and checks all its inputs.

The head reads pairs of a token and the feature of the token before it. Pair t must have position t,
see one unbroken path of pairs, and come with the feature of token t. The feature of a committed
pair must be the target's. The feature of a drafted pair must be the head's own prediction for the
pair before. The head's distributions are those of a table model after the same tokens. They also
serve as the predicted features. In shapes, V is the size of the vocabulary.
"""

import torch

from tests.decoding.table_model import TableModel


class TableEagleCache:
    bytes = 0

    def __init__(self):
        self.length = 0
        self.slots = []  # the token and the position of each cached pair
        self.foretold = []  # the feature that the head predicted at each cached pair, [V]

    def keep(self, start, slots):
        assert slots == [], "a guess is never kept"
        self.length = start
        del self.slots[start:], self.foretold[start:]


class TableEagle:
    bytes = 7
    shares = None
    drafted = None

    def __init__(self, target, table):
        self.feature_layers = (target.info.layers,)
        self._target = target
        self._table = table
        self.pairs = 0  # number of pairs that the head has run so far

    def new_cache(self, capacity):
        return TableEagleCache()

    def reduce(self, features):
        return features

    def forward(self, token_ids, features, position_ids, cache, tree_mask=None, last_only=False):
        start = cache.length
        cache.slots[start:] = list(zip(token_ids.tolist(), position_ids.tolist(), strict=True))
        for row in range(len(token_ids)):
            path = TableModel._path(cache.slots, start, row, tree_mask)
            self._check_feature(features[row], path, cache)
            cache.foretold.append(self._table.distribution(path))
        self.pairs += len(token_ids)
        cache.length += len(token_ids)
        foretold = torch.stack(cache.foretold[start:])
        return foretold[-1:] if last_only else foretold, foretold

    def _check_feature(self, feature, path, cache):
        """Assert that the feature is the target's or the head's own prediction.

        The first token of the text has no pair, so the target's distribution is known only from
        pair 2 on.
        """
        above = [] if len(path) < 2 else [self._table.distribution(path[:-1])]
        true = [self._target.distribution(path[:-1])] if len(path) > 2 else [feature]
        assert any(torch.equal(feature, known) for known in true + above), "a foreign feature"


class TableEagle3(TableEagle):
    """A head that reads the hidden states of two layers and combines them into its feature."""

    def __init__(self, target, table):
        super().__init__(target, table)
        self.feature_layers = (0, target.info.layers)

    def reduce(self, features):
        tokens, logits = features.tensor_split((-self._target.info.vocab_size,), 1)
        assert torch.equal(tokens.sum(1), torch.ones(len(tokens))), "no states of the first layer"
        return logits


class NarrowTableEagle(TableEagle):
    """A head whose draft vocabulary lacks token 1."""

    def forward(self, *given, **how):
        logits, foretold = super().forward(*given, **how)
        logits = logits.clone()
        logits[:, 1] = -torch.inf
        return logits, foretold
