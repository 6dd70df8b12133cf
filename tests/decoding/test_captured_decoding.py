"""With captured steps, a run emits the same tokens and waits for the device once per round."""

import pytest
import torch

from specviz.decoding import speculative
from specviz.decoding.drafters.base import HostTransfer
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import DRAFTERS, make_drafter
from specviz.decoding.drafters.tree_budget import NODES
from specviz.decoding.speculative import SpeculativeRun
from specviz.decoding.target import cache_capacity
from specviz.models.graphs.captured_model import CapturedModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.records import DecodingConfig, Round
from tests.decoding.conftest import tiny_model
from tests.decoding.tiny_parts import parts_for
from tests.devices import DEVICES, HAS_CUDA

PROMPT = (3, 5, 1, 3, 5, 2, 7, 3, 5)
SINGLE_COPY = [
    method.name
    for method in DRAFTERS.values()
    # pre-speculation is left out, because it also waits for its own stream.
    if method.host_copies == 1 and method.name != "pre-speculation"
]


def setup_for(kind, device, config):
    def on_device(module, info):
        return kind(module.to(device), info)

    target = tiny_model(1, 3, "tiny target", kind=on_device)
    draft = tiny_model(2, 1, "tiny draft", kind=on_device)
    return Setup(target, parts_for(target, draft), config, cache_capacity(PROMPT, config))


def config_of(method, temperature):
    """Return a configuration with a fixed tree size, because a measured size would vary."""
    return DecodingConfig(
        method=method.name,
        draft_length=4,
        branching=method.default_branching,
        drawing=method.drawings[0],
        max_new_tokens=24,
        temperature=temperature,
        seed=5,
        options=tuple((NODES.name, 6) for option in method.options if option is NODES),
    )


def emitted(setup):
    drafter = make_drafter(setup)
    events = speculative.decode(setup.target, drafter, PROMPT, setup.config)
    return [event.emitted_ids for event in events if isinstance(event, Round)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 0.9])
@pytest.mark.parametrize("method", DRAFTERS.values(), ids=list(DRAFTERS))
def test_every_method_emits_the_same_tokens_with_and_without_captured_steps(
    method, temperature, device
):
    config = config_of(method, temperature)
    plain, captured = (setup_for(kind, device, config) for kind in (LlamaModel, CapturedModel))
    expected = emitted(plain)
    assert emitted(captured) == expected
    assert emitted(captured) == expected  # the second run reuses the buffers of the first


@pytest.fixture
def waits_are_errors(monkeypatch):
    """Make every wait for the device an error, except the round's one counted copy to the host."""
    counted = HostTransfer.to_host

    def allowed(transfer, tensor):
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("default")
        try:
            return counted(transfer, tensor)
        finally:
            torch.cuda.set_sync_debug_mode(mode)

    monkeypatch.setattr(HostTransfer, "to_host", allowed)
    yield lambda: torch.cuda.set_sync_debug_mode("error")
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.cuda
@pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("name", SINGLE_COPY)
def test_a_round_waits_for_the_device_only_at_its_counted_copy(name, temperature, waits_are_errors):
    setup = setup_for(CapturedModel, "cuda", config_of(DRAFTERS[name], temperature))
    emitted(setup)  # this run captures every step that the next run needs
    drafter = make_drafter(setup)
    run = SpeculativeRun(setup.target, drafter, PROMPT, setup.config, ())
    run.prefill()
    run.round()
    waits_are_errors()
    while run.finish is None:
        run.round()
