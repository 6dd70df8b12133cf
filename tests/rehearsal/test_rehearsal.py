"""Every method runs on a stand-in for a GPU: one device, one wait per round, intended dtypes.

A rehearsal cannot show whether kernels exist and agree, whether work can be captured, how streams
overlap, or how fast anything is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from specviz.decoding import judged_tree
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.experiments.run.racing import demand_of
from specviz.models import sequence_work
from specviz.models.cache import SlotCache, StraightSlots
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels import kernel_candidates
from specviz.models.matrix_kernels.kernel_candidates import Held
from specviz.models.memory_estimate import estimate
from specviz.models.parts import Need
from specviz.records import Drawing
from tests.rehearsal.runs import baseline, both_lanes, config_of, rehearsed, several, single
from tests.rehearsal.shapes import LARGE, PAIRS, TINY_VOCABULARY, Shape
from tests.rehearsal.stand_in import Refused, StandIn

KINDS = [
    pytest.param(method.name, kind, id=f"{method.name} {kind.value}")
    for method in DRAFTERS.values()
    for kind in method.drawings
]
NARROWED = {"top_k": 5, "top_p": 0.9, "min_p": 0.01}
ALL_LAYERS = 99
# The test of memory leaves out two methods. The cross-vocabulary method runs on a tiny vocabulary
# here. The estimate of memory does not count the prepared logits of pre-speculation, which take 14
# MB here.
OTHER_MEMORY = {"cross-vocabulary", "pre-speculation"}


def pair_of(size: str, name: str = "", layers: int = 2) -> tuple[Shape, ...]:
    """Return the shapes of a target and a draft.

    They have few layers, because all layers are alike.
    """
    pair = [replace(each, layers=min(each.layers, layers)) for each in PAIRS[size]]
    if name == "cross-vocabulary":
        # The method matches the vocabularies of two tiny tokenizers, so the models need their size.
        pair = [replace(each, vocabulary=TINY_VOCABULARY) for each in pair]
    return tuple(pair)


@pytest.mark.parametrize("name, kind", KINDS)
def test_a_round_waits_for_the_device_only_at_its_counted_copies(
    name: str, kind: Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = DRAFTERS[name]
    script = single(config_of(method, kind, **NARROWED))
    _, costs = rehearsed(script, pair_of("8 B", name), torch.bfloat16, monkeypatch)
    assert all(1 <= cost.copies <= method.host_copies for cost in costs)
    # Pre-speculation drafts in its own stream, and the host waits for an event at the end of that
    # stream's work. In the first round, that work includes the draft's prefill.
    waits = {"an event"} if name == "pre-speculation" else set()
    assert {wait for cost in costs for wait in cost.waits} == waits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", DRAFTERS)
def test_every_method_runs_in_other_dtypes_and_shapes_without_graphs(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = "135 M" if dtype is torch.float16 else "11 M"
    script = single(config_of(DRAFTERS[name], DRAFTERS[name].drawings[0], temperature=0.0))
    rehearsed(script, pair_of(size, name), dtype, monkeypatch, LlamaModel)


@pytest.mark.parametrize("name", DRAFTERS)
def test_all_rows_of_a_batch_wait_together_once_per_round(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = DRAFTERS[name]
    script = several(config_of(method, method.drawings[0]))
    _, costs = rehearsed(script, pair_of("11 M", name), torch.bfloat16, monkeypatch)
    rows = 4  # the host copies more than once if it reads each row's draft (`host_copies` > 1)
    assert [cost.copies for cost in costs] == [1 + rows * (method.host_copies - 1)] * len(costs)


def test_the_baseline_waits_once_per_token(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(DRAFTERS["draft-model"], Drawing.INDEPENDENT)
    pair = pair_of("8 B", layers=ALL_LAYERS)
    mode, _ = rehearsed(baseline(config), pair, torch.bfloat16, monkeypatch)
    assert not mode.waits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_logits_are_not_rounded_to_half_precision(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(target: Any, parts: Any, mode: Any) -> torch.dtype:
        states = torch.zeros(2, target.info.hidden_size, dtype=target.dtype, device=target.device)
        return target.output(states).dtype  # type: ignore[no-any-return]

    _, found = rehearsed(script, pair_of("11 M"), dtype, monkeypatch)
    assert found is torch.float32


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_copy_is_multiplied_without_converting_it_first(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Converting a matrix before it is multiplied would need a buffer as large as the original."""
    config = config_of(
        DRAFTERS["quantised-self"],
        Drawing.INDEPENDENT,
        options=(("bits", bits),),
        max_new_tokens=20,
    )
    made: list[Held] = []
    for kind in (kernel_candidates.Widened, kernel_candidates.GpuInt4):
        call = kind.__call__

        def counted(held: Held, *given: Any, call: Any = call) -> Tensor:
            made.append(held)
            return call(held, *given)

        monkeypatch.setattr(kind, "__call__", counted)
    pair = pair_of("8 B")
    rehearsed(single(config), pair, torch.bfloat16, monkeypatch)
    on_the_device = [each for each in made if each.bytes >= LARGE.width**2 // 2]
    if bits == 8:
        assert on_the_device == []
    else:
        assert {type(each) for each in on_the_device} == {kernel_candidates.GpuInt4}


@pytest.mark.parametrize("name", [name for name in DRAFTERS if name not in OTHER_MEMORY])
def test_a_race_uses_at_most_the_estimated_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, dtype = DRAFTERS[name], torch.bfloat16
    config, pair = config_of(method, method.drawings[0]), pair_of("8 B", layers=ALL_LAYERS)
    prompt = tuple(1 + (3 * place + place // 7) % 11 for place in range(100))
    before: list[int] = []
    parameters: list[int] = []

    def script(target: Any, parts: Any, mode: StandIn) -> None:
        mode.peak = mode.live
        before.append(mode.live)
        parameters.append(target.info.parameters)
        both_lanes(config, prompt)(target, parts, mode)

    mode, _ = rehearsed(script, pair, dtype, monkeypatch)
    # Bytes that the run needs in addition to the weights of both models.
    held = mode.peak - before[-1]
    target, draft = pair[0].size(parameters[-1], dtype), pair[1].size(0, dtype)
    drafts = [draft] if Need.DRAFT in method.needs else []
    found = estimate(target, drafts, demand_of(config), len(prompt), 0, is_on_cpu=False)
    counted = found.total - found.weights
    assert counted / 3 < held <= counted


def planted(monkeypatch: pytest.MonkeyPatch, name: str = "draft-tree") -> None:
    """Rehearse a method into whose code the test has put a fault."""
    method = DRAFTERS[name]
    script = single(config_of(method, method.drawings[0]))
    rehearsed(script, pair_of("11 M"), torch.bfloat16, monkeypatch, LlamaModel)


def test_a_mask_on_the_cpu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    visible = StraightSlots.visible

    def on_cpu(slots: Any, tree_mask: Tensor | None, device: torch.device) -> Tensor:
        seen = visible(slots, tree_mask, device)
        return torch.ones(seen.shape, dtype=torch.bool) if device.type == "meta" else seen

    monkeypatch.setattr(StraightSlots, "visible", on_cpu)
    with pytest.raises(Refused, match="mixes meta with cpu"):
        planted(monkeypatch)


def test_reading_a_number_during_verification_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = judged_tree.judge

    def curious(proposal: Any, logits: Tensor, *rest: Any) -> Tensor:
        logits.max().item()
        return judge(proposal, logits, *rest)

    monkeypatch.setattr(judged_tree, "judge", curious)
    with pytest.raises(Refused, match="the host waits for aten.item"):
        planted(monkeypatch)


def test_a_float32_cache_of_a_bfloat16_model_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    grow = SlotCache._grow

    def grown(cache: SlotCache, end: int, shape: tuple[int, int, int], like: torch.Tensor) -> None:
        grow(cache, end, shape, like.float())

    monkeypatch.setattr(SlotCache, "_grow", grown)
    with pytest.raises(Refused, match="makes a buffer of torch.float32 instead of torch.bfloat16"):
        planted(monkeypatch)


def test_a_blocking_copy_to_the_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_work, "upload", lambda host, device: host.to(device))
    with pytest.raises(Refused, match="a blocking copy to the device"):
        planted(monkeypatch)


def test_a_copy_from_memory_that_is_not_pinned_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unpinned(host: Tensor, device: torch.device) -> Tensor:
        return host.to(device, non_blocking=True)

    monkeypatch.setattr(sequence_work, "upload", unpinned)
    with pytest.raises(Refused, match="memory that is not pinned"):
        planted(monkeypatch)


def test_a_list_that_becomes_a_tensor_during_verification_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = judged_tree.judge

    def careless(proposal: Any, logits: Tensor, *rest: Any) -> Tensor:
        return judge(proposal, logits + logits.new_tensor([0.0]), *rest)

    monkeypatch.setattr(judged_tree, "judge", careless)
    with pytest.raises(Refused, match="a blocking copy of a list"):
        planted(monkeypatch)
