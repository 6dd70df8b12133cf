"""A recorder for one call of Transformers' assisted `generate`.

The recorder wraps two methods of the library's candidate generator and observes the forwards of
both models. It replaces no step of the library. One thing differs: the first forward gets no
candidates, so that the prefill has a time and a token of its own, as in our runs. (The library does
the same with drafters that need the target's hidden states.) Greedy texts do not change. Sampled
texts keep their distribution, but use other random draws than an unrecorded call. The module
`specviz.generate_recording` decides which calls are recorded.

In shapes, N is the number of tokens of the prompt, K the number of candidates and V the size of the
vocabulary.
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
from specviz.errors import InputError, one_of
from specviz.experiments.run.generated_round import SeenVerification, Times
from specviz.experiments.run.recorder import Recorder
from specviz.records import MAX_DRAFT_LENGTH, Drawing, FinishReason, Trace

LANE = "generate"
# Class of a candidate generator -> the method of specviz. A subclass of these classes is refused,
# because it may draft a tree or use another rule.
_METHODS: dict[type, str] = {
    library.AssistedCandidateGenerator: "draft-model",
    library.AssistedCandidateGeneratorDifferentTokenizers: "cross-vocabulary",
    library.UniversalSpeculativeDecodingGenerator: "cross-vocabulary",
    library.EarlyExitCandidateGenerator: "early-exit",
    library.PromptLookupCandidateGenerator: "prompt-lookup",
}
# Methods whose draft model has the target's vocabulary, so that its raw logits can be recorded.
_WITH_OWN_LOGITS = frozenset({"draft-model", "early-exit"})


class GenerateRun:
    """The record of one `generate` call from the first use of its candidate generator.

    The watched call raises InputError if `generate` does something that a trace cannot contain.
    """

    def __init__(self, model: Any, generator: Any, settings: Any, prompt_ids: Tensor) -> None:
        """Prepare the record; `settings` is the generation config. `prompt_ids` is [1, N]."""
        _check(generator, settings, prompt_ids)
        self.method = _METHODS[type(generator)]
        self.assistant: Any = getattr(generator, "assistant_model", None)
        self.prompt_ids = self._ids = tuple(prompt_ids[0].tolist())
        self.longest_draft = 0
        # Candidates without logits were chosen and not drawn. `_see` changes this when candidates
        # come with logits.
        self.drawing = Drawing.CHOSEN
        self._is_sampled = bool(settings.do_sample)
        self._generator = generator
        self._recorder = Recorder()
        self._clock = _GenerateClock()
        self._is_drafting = False
        self._began = self._read = self._drafted = self._judged = 0.0
        self._rounds: int | None = None  # number of recorded rounds; None until the prompt was read
        self._known = len(self.prompt_ids)  # number of tokens before the current round
        self._candidates: tuple[Tensor, Tensor | None] = (prompt_ids, None)
        self._raw_draft_logits: list[Tensor] = []
        self._raw_logits: Tensor | None = None
        self._seen: SeenVerification | None = None
        self._hooks = ExitStack()
        self._model = model

    @property
    def options(self) -> tuple[tuple[str, int], ...]:
        """Return the options of the method with their values in the candidate generator."""
        longest = getattr(self._generator, "max_matching_ngram_size", None)
        return () if longest is None else ((LONGEST.name, int(longest)),)

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """Return the ids of the tokens emitted so far."""
        return self._ids[len(self.prompt_ids) :]

    @property
    def token_ids(self) -> set[int]:
        """Return the id of every token in the record."""
        return self._recorder.token_ids.union(self.prompt_ids)

    @property
    def has_begun(self) -> bool:
        """Return whether the prompt was read; before that, there is nothing to record."""
        return self._rounds is not None

    def finish(self, reason: FinishReason) -> None:
        """Remove the hooks and record why the run ended."""
        self._hooks.close()
        self._end_round()
        self._recorder.add(LANE, reason)

    def fill(self, header: Trace) -> Trace:
        """Return `header`, a trace without events, with everything that was recorded."""
        return self._recorder.fill(header)

    def watch(self) -> None:
        """Install hooks on both models and on the candidate generator; `finish` removes them."""
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
        """Lengthen the drafter's masks by the first token after the prompt.

        Transformers built the masks for the prompt alone.
        """
        inputs = getattr(self._generator, "assistant_kwargs", {})
        if inputs:
            is_encoder_decoder = self.assistant.config.is_encoder_decoder
            inputs = library._prepare_attention_mask(inputs, length, is_encoder_decoder)
            inputs = library._prepare_position_ids(inputs, length, is_encoder_decoder)
            self._generator.assistant_kwargs = library._prepare_token_type_ids(inputs, length)

    def _on_draft(self, module: Any, given: Any, output: Any) -> None:
        if self._is_drafting:
            if self._rounds == 0 and not self._raw_draft_logits:
                # The draft's first forward reads the prompt. Its end is the end of the drafter's
                # prefill.
                wait_for(output.logits.device)
                self._read = self._clock.now()
            with self._clock:
                self._raw_draft_logits.append(output.logits[0, -1].detach().clone())

    def _on_target(self, module: Any, given: Any, output: Any) -> None:
        if not self._is_drafting:
            # Transformers changes the logits in place afterwards, so they are copied.
            with self._clock:
                self._raw_logits = output.logits[0].detach().clone()

    def _update(
        self, update: Callable[..., Any], input_ids: Tensor, logits: Tensor, matches: int
    ) -> None:
        self._judged = self._clock.now()
        with self._clock:
            self._ids = tuple(input_ids[0].tolist())
            self._seen = self._see(logits[0])
        # The first forward verified no candidates, so the generator has no result to learn from.
        if self._rounds is not None:
            update(input_ids, logits, matches)

    def _see(self, logits: Tensor) -> SeenVerification:
        """Return what was observed in a round after its verification.

        `logits` [K + 1, V] are the target's logits after processing.
        """
        ids, draft_logits = self._candidates
        candidate_ids = ids[0, self._known :].tolist()
        count = len(candidate_ids)
        if count > MAX_DRAFT_LENGTH:
            rule = f"num_assistant_tokens must be at most {MAX_DRAFT_LENGTH} in a recorded call"
            raise InputError(f"{rule}, got a round of {count}")
        self.longest_draft = max(self.longest_draft, count)
        if draft_logits is not None:
            self.drawing = Drawing.INDEPENDENT
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
        """Record the current round, which ends at this moment."""
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
    """A clock in seconds that stops inside `with`, to exclude the time of recording."""

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
        raise InputError(
            f"a recorded call of generate must have one sequence, got {len(prompt_ids)}: record "
            "one call for each prompt"
        )
    if type(generator) not in _METHODS:
        known = sorted(set(_METHODS.values()))
        raise InputError(
            f"a recorded call of generate must draft by {one_of(known)}, "
            f"got {type(generator).__name__}"
        )
    if settings.assistant_ensemble_weight is not None:
        weight = settings.assistant_ensemble_weight
        raise InputError(
            "assistant_ensemble_weight must be None in a recorded call of generate, got "
            f"{weight}: leave this argument out"
        )
