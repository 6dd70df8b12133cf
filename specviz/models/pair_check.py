"""Whether two models can run as a pair on this machine, found out before their weights are fetched.

Raises for what cannot even be looked at; all else stands in the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.hub import download_problems, is_on_the_hub, local_folder
from specviz.models.files.loading import TABLE, resolve_device, resolve_dtype
from specviz.models.files.survey import (
    Survey,
    has_draft_vocabulary,
    known_to_run_by_layers,
    read_config,
    survey_model,
)
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.llama.llama_model import FAMILY, tied_copy_bytes
from specviz.models.memory import dtype_warnings, gigabytes, room_bytes, shortage
from specviz.models.memory_estimate import NO_REQUEST, Demand, MemoryEstimate, estimate
from specviz.models.pair_catalog import Pair, pairs
from specviz.models.parts import Need
from specviz.models.text.text_codec import TextCodec
from specviz.models.text.vocabulary import (
    Relation,
    difference,
    match_vocabularies,
    refusal,
    relation,
)


def needed_models(pair: Pair, needs: frozenset[Need]) -> tuple[str, ...]:
    """The sources of the models that must be loaded for these needs, each once."""
    sources = [pair.target]
    sources += [pair.draft] if Need.DRAFT in needs else []
    sources += [pair.foreign_draft] if Need.FOREIGN_DRAFT in needs else []
    return tuple(dict.fromkeys(source for source in sources if source))


def needs_missing(pair: Pair, needs: frozenset[Need]) -> tuple[Need, ...]:
    """The needs that the pair cannot meet, as far as that can be told without loading it."""
    return tuple(need for need in Need if need in needs and _is_missing(pair, need))


def need_refusal(pair: Pair, need: Need) -> str:
    """That the pair cannot meet the need, and which pairs can."""
    able = [each.name for each in pairs() if not _is_missing(each, need)]
    instead = f", or one of the pairs {', '.join(able)}" if able else ""
    return f"pair {pair.name!r} has no {need.title}: choose a method that needs none{instead}"


def _is_missing(pair: Pair, need: Need) -> bool:
    match need:
        case Need.DRAFT:
            return not pair.draft
        case Need.MEDUSA:
            return not pair.medusa
        case Need.EAGLE:
            return not pair.eagle
        case Need.FOREIGN_DRAFT:
            return not pair.foreign_draft
        case Need.LAYERS:
            return _runs_by_layers(pair) is False
        case Need.TEXT:
            return False


def _runs_by_layers(pair: Pair) -> bool | None:
    """None where it is not known. Pairs of our own are what the catalog says: to read it from a
    configuration takes seconds where it is the first, for all of the library comes with that.
    """
    if pair.is_here and pair.model_type:
        return pair.model_type in FAMILY
    return known_to_run_by_layers(pair.target, pair.model_type)


@dataclass(frozen=True, slots=True)
class PairReport:
    """What can be said of a pair beforehand.

    `problems` keep it from running, `warnings` do not. `shared_tokens` is the part of the target's
    tokens that the draft has too. Where no draft is needed, it and `vocabulary` are None.
    `bytes_needed` is the sum of `memory`, the estimate for the request; `download_bytes` is what
    the Hub holds of the weights; `bytes_free` is None where the machine does not say.
    """

    device: str
    dtype: str
    vocabulary: Relation | None
    shared_tokens: float | None
    bytes_needed: int
    memory: MemoryEstimate
    bytes_free: int | None
    download_bytes: int
    gated: bool
    instruct: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PairSurvey:
    """The models that a run needs, without their weights."""

    target: Survey
    draft: Survey | None
    foreign: Survey | None

    @property
    def models(self) -> tuple[Survey, ...]:
        """Each model once."""
        found = (self.target, self.draft, self.foreign)
        return tuple({each.source: each for each in found if each}.values())


def check_pair_sources(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset({Need.DRAFT}),
    demand: Demand = NO_REQUEST,
) -> PairReport:
    """Fetch the small files of the models that a run needs, and judge them.

    Raises InputError for a source that is not there, is gated, or holds no model that can run.
    """
    where, number = resolve_device(device), resolve_dtype(dtype)
    return judge_pair(pair, survey_pair(pair, needs), where, number, needs, demand)


def survey_pair(pair: Pair, needs: frozenset[Need]) -> PairSurvey:
    """Look at each model that is needed and named; InputError where one cannot run."""
    environment = Environment.read()
    target = survey_model(pair.target, environment)
    found = {
        source: survey_model(source, environment, target.codec)
        for source in needed_models(pair, needs)
        if source != pair.target
    }
    found[pair.target] = target
    return PairSurvey(
        target,
        found.get(pair.draft) if Need.DRAFT in needs else None,
        found.get(pair.foreign_draft) if Need.FOREIGN_DRAFT in needs else None,
    )


def judge_pair(
    pair: Pair,
    survey: PairSurvey,
    device: torch.device,
    dtype: torch.dtype,
    needs: frozenset[Need],
    demand: Demand,
) -> PairReport:
    """What the surveys say of running the request on the pair there."""
    memory = surveyed_estimate(pair, survey, device, dtype, needs, demand)
    least = surveyed_estimate(pair, survey, device, dtype, needs, demand, least=True)
    room = room_bytes(device)
    target, draft = survey.target, survey.draft or survey.foreign
    listings = [each.listing for each in survey.models if each.listing]
    return PairReport(
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        vocabulary=_relation(target, draft) if draft else None,
        shared_tokens=_shared_tokens(target, draft) if draft else None,
        bytes_needed=memory.total,
        memory=memory,
        bytes_free=room,
        download_bytes=sum(listing.weight_bytes for listing in listings),
        gated=any(listing.is_gated for listing in listings),
        instruct=target.codec.is_instruct,
        problems=tuple(_problems(pair, survey, device, dtype, needs, least, room)),
        warnings=(*_warnings(survey, device, dtype), *_long_prompt(memory, least, room)),
    )


def surveyed_estimate(
    pair: Pair,
    survey: PairSurvey,
    device: torch.device,
    dtype: torch.dtype,
    needs: frozenset[Need],
    demand: Demand,
    *,
    least: bool = False,
) -> MemoryEstimate:
    """What the request takes; with `least`, a prompt that is not known counts as one token."""
    target = survey.target
    tokens = prompt_tokens(target.codec, demand, least=least)
    drafts = [each.size(dtype) for each in survey.models if each is not target]
    on_cpu = device.type == "cpu"
    heads = head_bytes(pair, needs, dtype)
    return estimate(target.size(dtype), drafts, demand, tokens, heads, on_cpu)


def prompt_tokens(codec: TextCodec, demand: Demand, *, least: bool = False) -> int | None:
    """Tokens of the request's prompt; None where it is not known, or 1 with `least`."""
    if demand.prompt is None:
        return 1 if least else None
    return len(codec.encode(demand.prompt, demand.task))


def head_bytes(pair: Pair, needs: frozenset[Need], dtype: torch.dtype) -> int | None:
    """Weights of the heads that are needed; None where their files are not here or broken."""
    folders = [local_folder(source) for _, source in _heads(pair, needs)]
    if None in folders:
        return None
    try:
        return sum(map(_numbers, (each for each in folders if each))) * dtype.itemsize
    except (OSError, SafetensorError):
        return None


def _heads(pair: Pair, needs: frozenset[Need]) -> list[tuple[Need, str]]:
    """The heads that are needed and named, with their sources."""
    named = ((Need.MEDUSA, pair.medusa), (Need.EAGLE, pair.eagle))
    return [(need, source) for need, source in named if need in needs and source]


def _head_problems(pair: Pair, needs: frozenset[Need], target: Survey) -> Iterator[str]:
    """Of heads in folders, by their config.json alone; those of the Hub are not looked at yet."""
    for need, source in _heads(pair, needs):
        try:
            if is_on_the_hub(source):
                continue
            head = HeadWeights(need.title, Path(source).expanduser())
            keys = [key for key in ("target_hidden_size", "hidden_size") if key in head.config]
            if keys:
                head.fit_states(target.source, target.config.hidden_size, keys[0])
        except InputError as error:
            yield str(error)


def draft_bytes(pair: Pair, dtype: torch.dtype) -> int | None:
    """What the pair's draft takes in memory, told by its configuration and the headers of its
    weights alone; None where they are not here or broken.
    """
    folder = local_folder(pair.draft)
    if folder is None:
        return None
    try:
        copied = tied_copy_bytes(read_config(pair.draft, folder), resolve_device("auto"), dtype)
        return _numbers(folder, besides=TABLE) * dtype.itemsize + copied
    except (InputError, OSError, SafetensorError):
        return None


HALF_PRECISION = 2  # bytes, in which heads are pickled


def _numbers(folder: Path, besides: str = "") -> int:
    """How many there are in all other tensors, told by headers; of pickled files, by their size."""
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            names = set(weights.keys()) - {besides}
            total += sum(prod(weights.get_slice(name).get_shape()) for name in names)
    pickled = [file for end in ("bin", "pt") for file in folder.glob(f"*.{end}")]
    return total or sum(file.stat().st_size for file in pickled) // HALF_PRECISION


def _long_prompt(memory: MemoryEstimate, least: MemoryEstimate, room: int | None) -> Iterator[str]:
    """Where some prompts fit and the longest does not."""
    if room is not None and least.total <= room < memory.total:
        yield (
            f"a prompt that fills the context does not fit: with it {gigabytes(memory.total)} are "
            f"needed, {gigabytes(room)} are free"
        )


def source_problems(survey: PairSurvey) -> Iterator[str]:
    """What keeps these models from being fetched for a run, wherever it runs."""
    target, draft = survey.target, survey.draft
    if draft and (found := difference(target.codec, draft.codec)):
        yield refusal(target.source, draft.source, found)
    environment = Environment.read()
    for model in survey.models:
        if model.listing:
            yield from download_problems(model.source, model.listing, environment)


def _relation(target: Survey, draft: Survey) -> Relation:
    if has_draft_vocabulary(draft.config):  # its rows say nothing of the tokens
        return Relation.EQUAL
    rows = target.config.vocab_size, draft.config.vocab_size
    return relation(target.codec, draft.codec, rows)


def _shared_tokens(target: Survey, draft: Survey) -> float:
    if difference(target.codec, draft.codec) is None:
        return 1.0
    return match_vocabularies(target.codec, draft.codec).target_share


def _problems(
    pair: Pair,
    survey: PairSurvey,
    device: torch.device,
    dtype: torch.dtype,
    needs: frozenset[Need],
    least: MemoryEstimate,
    room: int | None,
) -> Iterator[str]:
    for need in needs_missing(pair, needs):
        yield need_refusal(pair, need)
    if room is not None and least.total > room:
        yield f"pair {pair.name!r} {shortage(least.total, device, dtype)}"
    yield from source_problems(survey)
    yield from _head_problems(pair, needs, survey.target)


def _warnings(survey: PairSurvey, device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    yield from dtype_warnings(device, dtype)
    target, draft = survey.target, survey.draft or survey.foreign
    for model in survey.models:
        if model.parameters is None:
            yield f"the size of model {model.source!r} is not known before it is loaded"
        elif dtype == torch.float16 and model.config.dtype == torch.bfloat16:
            yield f"model {model.source!r} was made in bfloat16 and may overflow in float16"
    if draft is None:
        return
    if target.codec.is_instruct != draft.codec.is_instruct:
        words = ("an instruct", "a base") if target.codec.is_instruct else ("a base", "an instruct")
        yield f"the target is {words[0]} model and the draft {words[1]} model: expect less accepted"
    if target.parameters and draft.parameters and draft.parameters >= target.parameters:
        yield "the draft is not smaller than the target: it cannot make it faster"
