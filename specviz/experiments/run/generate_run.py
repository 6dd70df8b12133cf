"""One call of transformers' assisted `generate`, watched from outside.

It wraps the two methods of the library's candidate generator and looks at the forwards of both
models; no step of the library is replaced. One thing is done otherwise: the first forward gets no
candidates, so that reading the prompt has a time and a token of its own, as in a run of ours (the
library does the same with drafters that need the target's states). Texts at greedy decoding stay
the same, sampled ones keep their distribution but not the draws of an unwatched call. Knows
nothing of how it is put in place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from transformers.generation import candidate_generator as library

from specviz.decoding.clock import wait_for
from specviz.decoding.drafters.prompt_lookup import LONGEST
from specviz.errors import InputError
from specviz.experiments.run.generated_round import SeenVerification, Times
from specviz.experiments.run.recorder import Recorder
from specviz.records import MAX_DRAFT_LENGTH, FinishReason, ProposalKind, Trace

LANE = "generate"
_METHODS: dict[type, str] = {  # exact types: what is unknown here may hide a tree or another rule
    library.AssistedCandidateGenerator: "draft-model",
    library.AssistedCandidateGeneratorDifferentTokenizers: "cross-vocabulary",
    library.UniversalSpeculativeDecodingGenerator: "cross-vocabulary",
    library.EarlyExitCandidateGenerator: "early-exit",
    library.PromptLookupCandidateGenerator: "prompt-lookup",
}
_WITH_OWN_LOGITS = frozenset({"draft-model", "early-exit"})  # over the target's vocabulary


class GenerateRun:
    """Follows one candidate generator from its first call to the end of `generate`.

    Raises InputError, through `generate`, for what a trace cannot hold.
    """

    def __init__(self, model: Any, generator: Any, settings: Any, prompt_ids: Tensor) -> None:
        """`settings` is the generation config, `prompt_ids` [1, N]."""
        _check(generator, settings, prompt_ids)
        self.method = _METHODS[type(generator)]
        self.assistant: Any = getattr(generator, "assistant_model", None)
        self.prompt_ids = self._ids = tuple(prompt_ids[0].tolist())
        self.longest_draft = 0
        self.kind = ProposalKind.DETERMINISTIC  # until a draft comes with a distribution
        self._is_sampled = bool(settings.do_sample)
        self._generator = generator
        self._recorder = Recorder()
        self._clock = _GenerateClock()
        self._is_drafting = False
        self._began = self._read = self._drafted = self._judged = 0.0
        self._rounds: int | None = None  # None before the prompt was read
        self._known = len(self.prompt_ids)  # tokens before the round under way
        self._candidates: tuple[Tensor, Tensor | None] = (prompt_ids, None)
        self._raw_draft_logits: list[Tensor] = []
        self._raw_logits: Tensor | None = None
        self._seen: SeenVerification | None = None
        self._hooks = ExitStack()
        self._model = model

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """Of the method, where the generator has something like it."""
        longest = getattr(self._generator, "max_matching_ngram_size", None)
        return () if longest is None else ((LONGEST.name, int(longest)),)

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """What has been written so far."""
        return self._ids[len(self.prompt_ids) :]

    @property
    def token_ids(self) -> set[int]:
        """Every token that the records mention."""
        return self._recorder.token_ids.union(self.prompt_ids)

    @property
    def has_begun(self) -> bool:
        """Whether the prompt was read, without which there is nothing to keep."""
        return self._rounds is not None

    def finish(self, reason: FinishReason) -> None:
        """Stop watching."""
        self._hooks.close()
        self._end_round()
        self._recorder.add(LANE, reason)

    def fill(self, header: Trace) -> Trace:
        """`header` with all that was seen."""
        return self._recorder.fill(header)

    def watch(self) -> None:
        """Put the hooks in place; `finish` takes them off."""
        self._hooks.callback(self._model.register_forward_hook(self._on_target).remove)
        if self.method in _WITH_OWN_LOGITS:
            self._hooks.callback(self.assistant.register_forward_hook(self._on_draft).remove)
        get, update = self._generator.get_candidates, self._generator.update_candidate_strategy
        self._generator.get_candidates = lambda *given, **named: self._get(get, *given, **named)
        self._generator.update_candidate_strategy = lambda *given: self._update(update, *given)

    def _get(self, get: Callable[..., Any], input_ids: Tensor, **named: Any) -> Any:
        self._end_round()
        self._began = self._read = self._clock.now()
        self._known = input_ids.shape[1]
        self._candidates, self._raw_draft_logits = (input_ids, None), []
        if self._rounds is not None:
            if self._rounds == 0:
                self._lengthen_masks(input_ids.shape[1])
            self._is_drafting = True
            try:
                self._candidates = get(input_ids, **named)
            finally:
                self._is_drafting = False
        self._drafted = self._clock.now()
        return self._candidates

    def _lengthen_masks(self, length: int) -> None:
        """The drafter starts one token behind the prompt, of which its inputs know nothing."""
        inputs = getattr(self._generator, "assistant_kwargs", {})
        if inputs:
            is_encoder_decoder = self.assistant.config.is_encoder_decoder
            inputs = library._prepare_attention_mask(inputs, length, is_encoder_decoder)
            inputs = library._prepare_position_ids(inputs, length, is_encoder_decoder)
            self._generator.assistant_kwargs = library._prepare_token_type_ids(inputs, length)

    def _on_draft(self, module: Any, given: Any, output: Any) -> None:
        if self._is_drafting:
            if self._rounds == 0 and not self._raw_draft_logits:
                wait_for(output.logits.device)  # the first forward has the prompt in it
                self._read = self._clock.now()
            with self._clock:
                self._raw_draft_logits.append(output.logits[0, -1].detach().clone())

    def _on_target(self, module: Any, given: Any, output: Any) -> None:
        if not self._is_drafting:
            with self._clock:  # the library processes these in place
                self._raw_logits = output.logits[0].detach().clone()

    def _update(
        self, update: Callable[..., Any], input_ids: Tensor, logits: Tensor, matches: int
    ) -> None:
        self._judged = self._clock.now()
        with self._clock:
            self._ids = tuple(input_ids[0].tolist())
            self._seen = self._see(logits[0])
        if self._rounds is not None:  # there were no candidates to learn from before
            update(input_ids, logits, matches)

    def _see(self, logits: Tensor) -> SeenVerification:
        """What the round under way shows once it was judged; logits [K + 1, V] are processed."""
        ids, draft_logits = self._candidates
        candidate_ids = ids[0, self._known :].tolist()
        count = len(candidate_ids)
        if count > MAX_DRAFT_LENGTH:
            rule = f"num_assistant_tokens must be at most {MAX_DRAFT_LENGTH} to be recorded"
            raise InputError(f"{rule}, got a round of {count}")
        self.longest_draft = max(self.longest_draft, count)
        if draft_logits is not None:
            self.kind = ProposalKind.IID
        has_raw = count > 0 and len(self._raw_draft_logits) == count
        assert self._raw_logits is not None
        return SeenVerification(
            context_length=self._known,
            candidate_ids=candidate_ids,
            emitted_ids=self._ids[self._known :],
            logits=logits,
            raw_logits=self._raw_logits[-count - 1 :],
            draft_logits=None if draft_logits is None else draft_logits[0],
            raw_draft_logits=torch.stack(self._raw_draft_logits) if has_raw else None,
            is_sampled=self._is_sampled,
        )

    def _end_round(self) -> None:
        """The round that was under way has ended just now."""
        ended, seen = self._clock.now(), self._seen
        if seen is None:
            return
        with self._clock:
            if self._rounds is None:
                self._recorder.add(LANE, seen.prefill(ended - self._began))
                self._rounds = 0
            else:
                times = Times(self._began, self._read, self._drafted, self._judged, ended)
                self._recorder.add(LANE, seen.round(self._rounds, times))
                self._rounds += 1
            self._seen = None


class _GenerateClock:
    """Seconds of the run; inside `with` it stands still, for what only watching takes."""

    def __init__(self) -> None:
        self._shift = self._stopped = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._shift

    def __enter__(self) -> None:
        self._stopped = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shift += time.perf_counter() - self._stopped


def _check(generator: Any, settings: Any, prompt_ids: Tensor) -> None:
    if prompt_ids.shape[0] != 1:
        raise InputError(f"generate must get one sequence to be recorded, got {len(prompt_ids)}")
    if type(generator) not in _METHODS:
        known = ", ".join(sorted(set(_METHODS.values())))
        raise InputError(
            f"generate must draft in a way that can be recorded ({known}), "
            f"got {type(generator).__name__}"
        )
    if settings.assistant_ensemble_weight is not None:
        weight = settings.assistant_ensemble_weight
        raise InputError(f"assistant_ensemble_weight must be off to be recorded, got {weight}")
