"""Check whether a pair of models can run on this machine, before the weights are downloaded.

If a source cannot be read, the check raises an error. All other findings are in its report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from specviz.environment import Environment
from specviz.errors import InputError, first_line
from specviz.models.files.context import context_of
from specviz.models.files.file_check import check_files
from specviz.models.files.gguf_source import architecture
from specviz.models.files.hub import download_problems, is_on_the_hub, local_folder
from specviz.models.files.loading import TABLE, resolve_device, resolve_dtype
from specviz.models.files.survey import (
    Survey,
    has_draft_vocabulary,
    known_to_run_by_layers,
    read_config,
    survey_model,
)
from specviz.models.files.weight_fit import unfit_weights
from specviz.models.heads.head_weights import HeadWeights
from specviz.models.llama.llama_config import FAMILY, second_layout_bytes
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
    """Return the sources of the target and of the draft models in `needs`, each source once."""
    sources = [pair.target]
    sources += [pair.draft] if Need.DRAFT in needs else []
    sources += [pair.foreign_draft] if Need.FOREIGN_DRAFT in needs else []
    return tuple(dict.fromkeys(source for source in sources if source))


def needs_missing(pair: Pair, needs: frozenset[Need]) -> tuple[Need, ...]:
    """Return the parts that a method needs and the pair of models does not have.

    If only loading the pair can show whether it has a part, that part is left out.
    """
    return tuple(need for need in Need if need in needs and _is_missing(pair, need))


def need_refusal(pair: Pair, need: Need) -> str:
    """Return an error sentence for a pair that cannot meet a need of the method.

    The sentence names the pairs that can meet the need.
    """
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
    """Return whether the target's layers can run one by one, or None if this is unknown.

    For bundled pairs, the catalog of pairs has the answer. That saves time: reading a configuration
    for the first time takes seconds, because it imports all of transformers.
    """
    if pair.is_here and pair.model_type:
        return pair.model_type in FAMILY
    return known_to_run_by_layers(pair.target, pair.model_type)


@dataclass(frozen=True, slots=True)
class PairReport:
    """The facts about a pair that are known before it is loaded.

    `problems` prevent a run; `warnings` do not. `shared_tokens` is the fraction of the target's
    tokens that the draft also has. If no draft is needed, `shared_tokens` and `vocabulary` are
    None. `memory` is the estimate for the request, and `bytes_needed` is its total.
    `download_bytes` is the size of the weights on the Hub. `bytes_free` is None if the machine does
    not report it.
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
    """The facts about the models of a run that can be known without the weights of the models."""

    target: Survey
    draft: Survey | None
    foreign: Survey | None

    @property
    def models(self) -> tuple[Survey, ...]:
        """Return the facts about every model, each model once."""
        found = (self.target, self.draft, self.foreign)
        return tuple({each.source: each for each in found if each}.values())


def check_pair_sources(
    pair: Pair,
    device: str = "auto",
    dtype: str = "float32",
    needs: frozenset[Need] = frozenset({Need.DRAFT}),
    demand: Demand = NO_REQUEST,
) -> PairReport:
    """Download and check the small files of the models that a run needs.

    Raises InputError if a source is missing, if the Hub demands a permission for it, or if its
    model cannot run.
    """
    where, number = resolve_device(device), resolve_dtype(dtype)
    return judge_pair(pair, survey_pair(pair, needs), where, number, needs, demand)


def survey_pair(pair: Pair, needs: frozenset[Need]) -> PairSurvey:
    """Survey each model that the pair names and the run needs.

    Raises InputError if one of these models cannot run.
    """
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
    """Return a report that says whether the surveyed models can run the request on this device."""
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
    """Estimate the memory of the request.

    With `least`, an unknown prompt counts as one token, so that the result is a minimum.
    """
    target = survey.target
    tokens = prompt_tokens(target.codec, demand, least=least)
    drafts = [each.size(dtype) for each in survey.models if each is not target]
    on_cpu = device.type == "cpu"
    heads = head_bytes(pair, needs, dtype)
    return estimate(target.size(dtype), drafts, demand, tokens, heads, on_cpu)


def prompt_tokens(codec: TextCodec, demand: Demand, *, least: bool = False) -> int | None:
    """Return the number of tokens in the request's prompt.

    If the prompt is unknown, return None, or 1 with `least`.
    """
    if demand.prompt is None:
        return 1 if least else None
    return len(codec.encode(demand.prompt, demand.task))


def head_bytes(pair: Pair, needs: frozenset[Need], dtype: torch.dtype) -> int | None:
    """Return the size of the drafting heads that the run needs, in bytes.

    Return None if the files of the heads are missing or broken.
    """
    found = [(source, local_folder(source)) for _, source in _heads(pair, needs)]
    folders = [(source, folder) for source, folder in found if folder]
    if len(folders) < len(found):
        return None
    try:
        return sum(_numbers(source, folder) for source, folder in folders) * dtype.itemsize
    except (InputError, OSError, SafetensorError):
        return None


def _heads(pair: Pair, needs: frozenset[Need]) -> list[tuple[Need, str]]:
    named = ((Need.MEDUSA, pair.medusa), (Need.EAGLE, pair.eagle))
    return [(need, source) for need, source in named if need in needs and source]


def _head_problems(pair: Pair, needs: frozenset[Need], target: Survey) -> Iterator[str]:
    """Yield problems of drafting heads in local folders.

    Heads on the Hub are checked when they are loaded.
    """
    for need, source in _heads(pair, needs):
        try:
            if is_on_the_hub(source):
                continue
            folder = Path(source).expanduser()
            check_files(source, folder)
            head = HeadWeights(need.title, folder)
            keys = [key for key in ("target_hidden_size", "hidden_size") if key in head.config]
            if keys:
                head.fit_states(target.source, target.config.hidden_size, keys[0])
        except InputError as error:
            yield str(error)


def _weight_problems(survey: PairSurvey) -> Iterator[str]:
    """Yield a sentence for each model on this machine whose weights do not fit its configuration.

    Only the headers of the weights are read.
    """
    for model in survey.models:
        if is_on_the_hub(model.source):
            continue
        try:
            fault = _unfit(model)
        except Exception as error:
            # Catch every error, because the model's class may raise any error for odd values.
            fault = f"cannot be built by transformers: {first_line(error)}"
        if fault:
            yield f"model {model.source!r} {fault}"


def _unfit(model: Survey) -> str | None:
    if not model.folder.is_file():
        return unfit_weights(model.folder, model.config)
    from specviz.models.files.gguf_tensors import unfit_gguf  # this module needs the package gguf

    return unfit_gguf(model.folder, architecture(model.source, model.folder), model.config)


def draft_bytes(pair: Pair, dtype: torch.dtype) -> int | None:
    """Return the memory of the pair's draft model; None if its files are missing or broken.

    Only the configuration and the headers of the weights are read.
    """
    folder = local_folder(pair.draft)
    if folder is None:
        return None
    try:
        copied = second_layout_bytes(read_config(pair.draft, folder), resolve_device("auto"), dtype)
        return _numbers(pair.draft, folder, besides=TABLE) * dtype.itemsize + copied
    except (InputError, OSError, SafetensorError):
        return None


HALF_PRECISION = 2  # number of bytes per number in pickled heads, which are stored in 16 bits


def _numbers(source: str, folder: Path, besides: str = "") -> int:
    """Count the numbers in all tensors of a folder, except the tensor named `besides`.

    The count comes from headers, or from the file sizes of pickled weights.
    """
    check_files(source, folder)
    total = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            names = set(weights.keys()) - {besides}
            total += sum(prod(weights.get_slice(name).get_shape()) for name in names)
    pickled = [file for end in ("bin", "pt") for file in folder.glob(f"*.{end}")]
    return total or sum(file.stat().st_size for file in pickled) // HALF_PRECISION


def _long_prompt(memory: MemoryEstimate, least: MemoryEstimate, room: int | None) -> Iterator[str]:
    """Yield a warning if a short prompt fits into memory, but the longest prompt does not."""
    if room is not None and least.total <= room < memory.total:
        yield (
            f"a prompt that fills the context does not fit into memory: it needs "
            f"{gigabytes(memory.total)}, but {gigabytes(room)} are free"
        )


def source_problems(survey: PairSurvey) -> Iterator[str]:
    """Yield reasons not to download these models: different tokens, a size limit, a full disk."""
    target, draft = survey.target, survey.draft
    if draft and (found := difference(target.codec, draft.codec)):
        yield refusal(target.source, draft.source, found)
    environment = Environment.read()
    for model in survey.models:
        if model.listing:
            yield from download_problems(model.source, model.listing, environment)


def _relation(target: Survey, draft: Survey) -> Relation:
    # A model with a draft vocabulary has fewer output rows, but it uses the target's tokens. So do
    # not compare the numbers of rows.
    if has_draft_vocabulary(draft.config):
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
    yield from _weight_problems(survey)
    yield from _head_problems(pair, needs, survey.target)


def _warnings(survey: PairSurvey, device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    yield from dtype_warnings(device, dtype)
    target, draft = survey.target, survey.draft or survey.foreign
    for model in survey.models:
        if reason := context_of(model.source, model.config).reason:
            yield f"model {model.source!r} runs with a shorter context than it supports: {reason}"
        if model.parameters is None:
            yield f"the size of model {model.source!r} is not known before it is loaded"
        elif dtype == torch.float16 and model.config.dtype == torch.bfloat16:
            yield f"model {model.source!r} was made in bfloat16 and may overflow in float16"
    if fault := target.codec.template_fault:
        yield (
            f"the chat template of model {target.source!r} fails ({fault}), so the model runs as a "
            "base model and a prompt is plain text"
        )
    if draft is None:
        return
    if target.codec.is_instruct != draft.codec.is_instruct:
        words = ("an instruct", "a base") if target.codec.is_instruct else ("a base", "an instruct")
        yield (
            f"the target is {words[0]} model and the draft {words[1]} model: expect fewer accepted "
            "tokens"
        )
    if target.parameters and draft.parameters and draft.parameters >= target.parameters:
        yield "the draft is not smaller than the target, so it cannot speed it up"
