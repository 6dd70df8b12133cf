"""One function decides which code paths a GPU takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specviz.models import accelerator
from specviz.models.accelerator import is_accelerator
from specviz.models.files import loading

SOURCES = Path(__file__).parents[2] / "specviz"
COMPARISON = re.compile(r"""\.type\s*[!=]=\s*["']cuda["']|\.is_cuda\b""")
OUTSIDE = "training"  # the training code, which runs without the app, may compare devices itself


def test_cuda_is_an_accelerator_and_the_cpu_is_not() -> None:
    assert is_accelerator(torch.device("cuda", 1)) and not is_accelerator(torch.device("cpu"))


def test_a_rehearsal_can_make_another_device_an_accelerator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accelerator, "ACCELERATORS", {"cuda", "meta"})
    assert is_accelerator(torch.device("meta"))


def test_attention_kernels_that_plan_for_exact_shapes_are_disabled_on_accelerators_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", asked.append)
    accelerator.prepare(torch.device("cpu"))
    assert asked == []
    accelerator.prepare(torch.device("cuda"))
    assert asked == [False]


def test_loading_a_model_prepares_its_device(
    save_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[torch.device] = []
    monkeypatch.setattr(loading, "prepare", prepared.append)
    loading.load_model(str(save_model("llama")), "cpu")
    assert prepared == [torch.device("cpu")]


def test_no_other_file_compares_a_device_with_cuda() -> None:
    files = (file for file in SOURCES.rglob("*.py") if OUTSIDE not in file.parts)
    assert [file.name for file in files if COMPARISON.search(file.read_text("utf-8"))] == []
