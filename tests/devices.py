"""The devices that a claim about every device is tested on: CUDA where there is one."""

from __future__ import annotations

import pytest
import torch

HAS_CUDA = torch.cuda.is_available()
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.cuda)) if HAS_CUDA else ("cpu",)
