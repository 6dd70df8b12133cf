"""The stand-in refuses operations that wait for a GPU or mix its tensors with the host's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.rehearsal.stand_in import META, Refused, StandIn, Tape

WAITS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool((x > 0).any()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu", non_blocking=True),
    "copy_": lambda x: torch.zeros(3).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "equal": lambda x: torch.equal(x, x),
    "repeat": lambda x: x.repeat_interleave(x.long()),
}
MIXTURES: dict[str, Callable[[Tensor], object]] = {
    "sum": lambda x: x + torch.ones(3),
    "in place": lambda x: x.add_(torch.ones(3)),
    "index": lambda x: x[torch.tensor([0, 1])],
    "gather": lambda x: x.gather(0, torch.tensor([0])),
    "cat": lambda x: torch.cat([x, torch.ones(1)]),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        x.view(1, 1, 3, 1), x.view(1, 1, 3, 1), x.view(1, 1, 3, 1), torch.zeros(3, 3)
    ),
}


@pytest.fixture
def stand_in() -> StandIn:
    tape = Tape()
    tape.rewind()
    return StandIn(META, tape, torch.float32)


@pytest.mark.parametrize("way", WAITS.values(), ids=list(WAITS))
def test_reading_from_the_device_is_refused(
    way: Callable[[Tensor], object], stand_in: StandIn
) -> None:
    with torch.inference_mode(), stand_in, pytest.raises(Refused, match="wait|reads|unknown size"):
        way(torch.ones(3, device=META))


@pytest.mark.parametrize("way", MIXTURES.values(), ids=list(MIXTURES))
def test_two_devices_in_one_operation_are_refused(
    way: Callable[[Tensor], object], stand_in: StandIn
) -> None:
    with torch.inference_mode(), stand_in, pytest.raises(Refused, match="mixes meta with cpu"):
        way(torch.ones(3, device=META))


def test_a_host_scalar_and_a_copy_to_the_device_are_allowed(stand_in: StandIn) -> None:
    with torch.inference_mode(), stand_in:
        device = torch.ones(3, device=META)
        assert (device * torch.tensor(2.0)).device == META
        with stand_in.in_a_round():
            assert torch.ones(3).pin_memory().to(META, non_blocking=True).device == META
        assert stand_in.uploads == 1


COPIES: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "to": (lambda x: torch.ones(3).to(META), "a blocking copy to the device"),
    "copy_": (lambda x: x.copy_(torch.ones(3).pin_memory()), "a blocking copy to the device"),
    "unpinned": (lambda x: torch.ones(3).to(META, non_blocking=True), "memory that is not pinned"),
    "tensor": (lambda x: torch.tensor([1.0], device=META), "a list to the device"),
    "as_tensor": (lambda x: torch.as_tensor([1], device="meta"), "a list to the device"),
    "new_tensor": (lambda x: x.new_tensor([1.0]), "a list to the device"),
    "index": (lambda x: x[[0, 2]], "a list to the device"),
    "indices": (lambda x: x[None, [0, 2]], "a list to the device"),
    "place": (lambda x: x.__setitem__([0, 2], 1.0), "a list to the device"),
}


@pytest.mark.parametrize("copy, message", COPIES.values(), ids=list(COPIES))
def test_during_a_round_only_pinned_memory_may_be_copied_to_the_device(
    copy: Callable[[Tensor], object], message: str, stand_in: StandIn
) -> None:
    with torch.inference_mode(), stand_in:
        device = torch.ones(3, device=META)
        copy(device)  # outside a round the copy may block
        with stand_in.in_a_round(), pytest.raises(Refused, match=message):
            copy(device)


def test_a_round_may_make_and_index_host_tensors(stand_in: StandIn) -> None:
    with torch.inference_mode(), stand_in, stand_in.in_a_round():
        assert torch.tensor([1, 2, 3])[[0, 2]].tolist() == [1, 3]


def test_live_memory_counts_storages_and_views_cost_nothing(stand_in: StandIn) -> None:
    with torch.inference_mode(), stand_in:
        kept = torch.empty(10, 4, device=META)
        row = kept[3]
        assert stand_in.live == 160
        passing = kept + 1
        assert stand_in.live == 320
        del passing, kept
        assert (stand_in.live, stand_in.peak) == (160, 320)
        del row
        assert stand_in.live == 0
