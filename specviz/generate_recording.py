"""Record assisted generation of the library transformers, by watching calls of `generate`.

This module changes the user's model object while it watches, and restores the object afterwards. It
creates complete traces, and never reads tensors itself: `experiments.run.generate_run` records the
rounds of a single call.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from specviz.errors import InputError
from specviz.experiments.run.generate_run import LANE, GenerateRun
from specviz.experiments.run.racing import device_name
from specviz.models.text.text_codec import TextCodec
from specviz.records import (
    MAX_NEW_TOKENS,
    SAMPLING,
    DecodingConfig,
    FinishReason,
    Lane,
    LaneKind,
    ModelInfo,
    Trace,
)


def record(model: Any, tokenizer: Any, assistant: Any = None) -> Recording:
    """Watch calls of `model.generate` with `assistant_model` or `prompt_lookup_num_tokens`.

    `model` is a decoder of transformers, and `tokenizer` its fast tokenizer. If `assistant` is
    given, calls that draft with anything else are rejected. Use the result in a `with` block.
    Afterwards `recording.trace` is the trace of the last call, and `recording.traces` has all of
    them. A call without drafts is not recorded.

    In a watched call, the first forward of the target verifies no drafted tokens, so that the time
    of the prefill can be measured. At temperature 0 the text is the same as without watching. A
    sampled text has the same distribution, but the same seed gives other draws. `generate` does not
    show its uniform draws, its residuals, or the tokens that it would have added after other nodes,
    so the trace lacks them. The seed in the trace is 0. Raises InputError for batches, and for
    drafting that a trace cannot describe.
    """
    return Recording(model, tokenizer, assistant)


class Recording:
    """A context manager that watches `model.generate`. It can be entered several times."""

    def __init__(self, model: Any, tokenizer: Any, assistant: Any = None) -> None:
        _check(model, tokenizer)
        self.traces: list[Trace] = []
        self._model, self._assistant = model, assistant
        self._codec = TextCodec(tokenizer, int(model.config.get_text_config().vocab_size), ())
        self._run: GenerateRun | None = None
        self._settings: Any = None
        self._is_generating = False
        self._undo = ExitStack()

    @property
    def trace(self) -> Trace:
        """Return the trace of the last recorded call. Raises InputError if no call used drafts."""
        if not self.traces:
            raise InputError(
                "nothing was recorded: call generate inside the `with` block, with "
                "assistant_model or prompt_lookup_num_tokens"
            )
        return self.traces[-1]

    def __enter__(self) -> Recording:
        self._original_generate = self._model.generate
        self._original_generator = self._model._get_candidate_generator
        self._patch("generate", self._generate)
        self._patch("_get_candidate_generator", self._candidate_generator)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def _patch(self, name: str, value: Any) -> None:
        """Set an attribute of the user's model object, and remember how to restore it."""
        own = vars(self._model)
        if name in own:
            self._undo.callback(setattr, self._model, name, own[name])
        else:
            self._undo.callback(delattr, self._model, name)
        setattr(self._model, name, value)

    def _generate(self, *given: Any, **named: Any) -> Any:
        # If the target drafts with its own first layers, `generate` calls this function again from
        # inside, and that call must not be recorded.
        if self._is_generating:
            return self._original_generate(*given, **named)
        self._is_generating, self._run = True, None
        reason = FinishReason.STOPPED
        try:
            output = self._original_generate(*given, **named)
            reason = self._reason()
            return output
        finally:
            self._is_generating = False
            self._take(reason)

    def _candidate_generator(self, *given: Any, **named: Any) -> Any:
        generator = self._original_generator(*given, **named)
        if self._is_generating:
            used = named.get("assistant_model")
            if self._assistant is not None and used is not self._assistant:
                got = "no assistant_model" if used is None else f"another {type(used).__name__}"
                raise InputError(f"generate must be called with the recorded assistant, got {got}")
            self._settings = named["generation_config"]
            run = GenerateRun(self._model, generator, self._settings, named["input_ids"])
            # `decoding_config` raises an error before decoding starts, if a trace cannot describe
            # the settings.
            decoding_config(run, self._settings)
            self._run = run
            run.watch()
        return generator

    def _take(self, reason: FinishReason) -> None:
        """Store the trace of the call that has just ended, even if it was interrupted."""
        run, self._run = self._run, None
        if run is None:
            return
        run.finish(reason)
        if run.has_begun:
            self.traces.append(run.fill(self._header(run)))

    def _reason(self) -> FinishReason:
        """Return the reason why a complete call of `generate` ended.

        If a stopping criterion of the user ended the call, the reason is STOPPED.
        """
        if self._run is None or not self._run.emitted_ids:
            return FinishReason.STOPPED
        if self._run.emitted_ids[-1] in end_ids(self._settings):
            return FinishReason.END_OF_SEQUENCE
        length = len(self._run.prompt_ids) + len(self._run.emitted_ids)
        is_full = length >= self._settings.max_length
        return FinishReason.LENGTH if is_full else FinishReason.STOPPED

    def _header(self, run: GenerateRun) -> Trace:
        model, assistant = self._model, run.assistant
        has_own_draft = assistant is not None and assistant is not model
        draft = describe(assistant) if has_own_draft else None
        codec = self._codec
        lane = Lane(
            LANE,
            LaneKind.LIBRARY,
            decoding_config(run, self._settings),
            draft=draft,
            drafter_bytes=draft.bytes if draft else 0,
        )
        return Trace(
            target=describe(model),
            device=device_name(model.device),
            dtype=str(model.dtype).removeprefix("torch."),
            prompt=codec.decode(run.prompt_ids),
            prompt_ids=run.prompt_ids,
            token_texts=tuple((i, codec.token_text(i)) for i in sorted(run.token_ids)),
            lanes=(lane,),
        )


def _check(model: Any, tokenizer: Any) -> None:
    for name in ("generate", "_get_candidate_generator"):
        if not hasattr(model, name):
            rule = f"model must be a causal language model of transformers, with {name}"
            raise InputError(f"{rule}, got {type(model).__name__}")
    if model.config.is_encoder_decoder:
        raise InputError("model must be a decoder-only model, got an encoder-decoder")
    if not getattr(tokenizer, "is_fast", False):
        rule = "tokenizer must be a fast tokenizer of transformers"
        raise InputError(f"{rule}, got {type(tokenizer).__name__}")


def decoding_config(run: GenerateRun, settings: Any) -> DecodingConfig:
    """Return a DecodingConfig with the settings of a call of `generate`.

    Its field `draft_length` is the number of tokens in the longest draft of the call so far.

    Some settings of Transformers, such as penalties and forbidden words, do not exist in specviz.
    Their effect is visible only in the recorded probabilities.
    """
    is_sampled = bool(settings.do_sample)
    limit = settings.max_length - len(run.prompt_ids)
    plain = DecodingConfig()
    made = replace(
        plain,
        method=run.method,
        draft_length=max(1, run.longest_draft),
        drawing=run.drawing,
        max_new_tokens=min(max(1, limit), MAX_NEW_TOKENS),
        options=run.options,
    )
    if not is_sampled:
        return made
    given = {each: getattr(settings, each.name, None) for each in SAMPLING}
    sampling = {each.name: each.parser(value) for each, value in given.items() if value is not None}
    return replace(made, **({"temperature": 1.0} | sampling))


def end_ids(settings: Any) -> Collection[int]:
    ids = settings.eos_token_id
    if ids is None:
        return ()
    return (ids,) if isinstance(ids, int) else tuple(int(each) for each in ids)


def describe(model: Any) -> ModelInfo:
    """Return the facts about a loaded model that a trace contains."""
    config, weights = model.config.get_text_config(), list(model.parameters())
    return ModelInfo(
        name=str(getattr(model, "name_or_path", "") or type(model).__name__),
        architecture=type(model).__name__,
        parameters=sum(weight.numel() for weight in weights),
        bytes=sum(weight.nbytes for weight in weights),
        layers=int(config.num_hidden_layers),
        hidden_size=int(config.hidden_size),
        vocab_size=int(config.vocab_size),
        context_length=int(getattr(config, "max_position_embeddings", None) or 0),
    )
