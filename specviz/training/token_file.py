"""Documents as one long row of token ids on disk per task, and random windows of them.

Documents lie end to end in an order of their own; a window starts anywhere. Knows nothing of
models.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.training.tokenizer import END, tag

END_ID = 0
TokenIds = NDArray[np.uint16]


def document_ids(
    tokenizer: PreTrainedTokenizerFast, task: str, texts: Sequence[str]
) -> list[list[int]]:
    """Each document's ids: tag, text, end."""
    encoded = tokenizer([f"{tag(task)}{text}{END}" for text in texts], add_special_tokens=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def write_token_file(path: Path, documents: Sequence[Sequence[int]]) -> None:
    """All documents end to end as uint16."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.concatenate([np.asarray(ids, dtype=np.uint16) for ids in documents]).tofile(path)


class TokenMixture:
    """Token files of several tasks, read in given shares.

    Each task is read in passes over shuffled windows: nothing repeats before all was seen once.
    """

    def __init__(self, files: Mapping[str, Path], shares: Mapping[str, float], seed: int) -> None:
        self.tokens: dict[str, TokenIds] = {
            task: np.memmap(path, dtype=np.uint16, mode="r") for task, path in files.items()
        }
        total = sum(shares.values())
        self.shares = {task: shares[task] / total for task in files}
        self.chance = np.random.default_rng(seed)
        self.drawn = dict.fromkeys(files, 0)  # windows so far
        self.starts: dict[str, list[int]] = {task: [] for task in files}
        self.tokens_read = 0
        self.ends = {task: np.flatnonzero(tokens == END_ID) for task, tokens in self.tokens.items()}

    def batch(self, rows: int, length: int) -> Tensor:
        """token ids [rows, length + 1]; the task that lags its share most is next."""
        windows = [self._window(self._next_task(), length) for _ in range(rows)]
        self.chance.shuffle(windows)
        self.tokens_read += rows * length
        return torch.from_numpy(np.stack(windows).astype(np.int64))

    def beginnings(self, rows: int, length: int) -> Tensor:
        """token ids [rows, length]: the first tokens of random documents; tasks by their shares."""
        tasks = self.chance.choice(list(self.shares), size=rows, p=list(self.shares.values()))
        picked = [self._beginning(str(task), length) for task in tasks]
        return torch.from_numpy(np.stack(picked).astype(np.int64))

    def _beginning(self, task: str, length: int) -> TokenIds:
        tokens = self.tokens[task]
        start = int(self.chance.choice(self.ends[task]) + 1) % len(tokens)
        return np.resize(tokens[start : start + length], length)

    def _next_task(self) -> str:
        task = min(self.drawn, key=lambda name: (self.drawn[name] + 1) / self.shares[name])
        self.drawn[task] += 1
        return task

    def _window(self, task: str, length: int) -> TokenIds:
        tokens = self.tokens[task]
        waiting = self.starts[task]
        if not waiting:
            offset = int(self.chance.integers(length))
            waiting.extend(range(offset, max(offset + 1, len(tokens) - length - 1), length))
            self.chance.shuffle(waiting)
        start = min(waiting.pop(), max(0, len(tokens) - length - 1))
        return np.resize(tokens[start : start + length + 1], length + 1)

    def state_dict(self) -> dict[str, object]:
        """All that decides the batches to come."""
        return {
            "chance": self.chance.bit_generator.state,
            "drawn": dict(self.drawn),
            "starts": {task: list(starts) for task, starts in self.starts.items()},
            "tokens_read": self.tokens_read,
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        chance, drawn, starts = state["chance"], state["drawn"], state["starts"]
        assert isinstance(chance, dict) and isinstance(drawn, dict) and isinstance(starts, dict)
        self.chance.bit_generator.state = chance
        self.drawn = dict(drawn)
        self.starts = {task: list(waiting) for task, waiting in starts.items()}
        self.tokens_read = int(str(state["tokens_read"]))
