"""The devices on which device tests run: the CPU, and CUDA if there is a GPU."""

from __future__ import annotations

import pytest
import torch

HAS_CUDA = torch.cuda.is_available()
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda)) if HAS_CUDA else ("cpu",)
