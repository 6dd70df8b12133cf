"""What is sent late arrives without a wait of its own."""

import torch

from specviz.decoding.transfer import LateTransfer


def test_a_late_number_is_there_behind_the_next_copy():
    late = LateTransfer(torch.device("cpu"))
    late.send(torch.tensor([0.25]))
    assert late.arrived() == 0.25
