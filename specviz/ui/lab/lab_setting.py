"""What the lab measures: the models, the prompts and the sampling, which all its cards share.

Trusts nothing of a question. Knows no card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, read_whole
from specviz.experiments.run.racing import RaceRequest
from specviz.experiments.sweep.sweep_setting import MAX_PROMPTS
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompts, prompt_number, prompts_of
from specviz.records import DecodingConfig, Prompt, prompt_text
from specviz.ui.settings_form import form_pair, race_request

PROMPTS, TOKENS = 4, 64  # that the page begins with
MOST_TEXT = 500  # characters of a field
MOST_OWN_TEXT = 200_000  # characters of all prompts of one's own
PLAIN = {"method": "prompt-lookup", "draft_length": "1"}  # for a card that has no method to tell


@dataclass(frozen=True, slots=True)
class LabSetting:
    """`task` is None for prompts of one's own; the config's method counts where a card has one."""

    pair: Pair
    prompts: tuple[Prompt, ...]
    task: str | None
    config: DecodingConfig
    device: str = "auto"
    dtype: str = "float32"

    @property
    def own_prompts(self) -> tuple[Prompt, ...]:
        """Those that are not held out."""
        return () if self.task else self.prompts

    @property
    def words(self) -> list[str]:
        """The models, on which prompts, and how tokens are drawn: each a few words."""
        return [
            self.pair.title,
            prompts_words(self.task, len(self.prompts)),
            *self.config.sampling_words,
        ]


def prompts_words(task: str | None, count: int) -> str:
    """Which prompts were decoded: held-out ones are the first ones of their task.

    >>> prompts_words("code", 4), prompts_words("code", 1), prompts_words(None, 2)
    ('code: prompts 1 to 4', 'code: prompt 1', '2 prompts of your own')
    """
    if task is None:
        return f"{count} prompt{'' if count == 1 else 's'} of your own"
    return f"{task}: prompt{'' if count == 1 else 's 1 to'} {count}"


def lab_setting(question: Mapping[str, Any], *, has_method: bool = False) -> LabSetting:
    """{"form": as of a race, "prompts": {"count", and of one's own "text", "name"}}.

    Where the card has no method to tell, that of the form does not count.
    """
    form = _form(question) | ({} if has_method else PLAIN)
    is_chat = form_pair(form).instruct
    task, prompts = _prompts(form.pop("task", ""), is_chat, question.get("prompts"))
    usual = race_request({**form, "task": task or "", "prompt": prompt_text(prompts[0])})
    for number, prompt in enumerate(prompts, start=1):
        with prompt_number(number):
            RaceRequest(usual.pair, prompt, usual.config, usual.task)
    return LabSetting(usual.pair, prompts, task, usual.config, usual.device, usual.dtype)


def own_prompts(question: Mapping[str, Any]) -> tuple[Prompt, ...]:
    """{"text", "name": of its file, "" where it was typed} -> the prompts, all of them."""
    text, name = question.get("text"), str(question.get("name", ""))
    if not isinstance(text, str) or len(text) > MOST_OWN_TEXT:
        raise InputError(f"prompts must be a text of at most {MOST_OWN_TEXT:,} characters")
    if not text.strip():
        raise InputError("prompts must have at least one text of your own, got none")
    found = prompts_of(text, name)
    if any("\ud800" <= char <= "\udfff" for each in found for char in prompt_text(each)):
        raise InputError("prompts must be valid Unicode, got half a surrogate pair")
    return found


def _form(question: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a question's form: texts by name, none of them endless."""
    form = question.get("form")
    if not isinstance(form, dict) or not all(isinstance(each, str) for each in form.values()):
        raise InputError("form must be settings by name, each a text")
    for name, text in form.items():
        if len(text) > MOST_TEXT:
            raise InputError(f"{name} must have at most {MOST_TEXT} characters, got {len(text)}")
    return form


def _prompts(task: str, is_chat: bool, given: object) -> tuple[str | None, tuple[Prompt, ...]]:
    """The task, if the prompts are held out, and as many of them as were asked for."""
    if not isinstance(given, Mapping):
        raise InputError("prompts must be told by count, or by text")
    is_own = "text" in given
    known = own_prompts(given) if is_own else held_out_prompts(task, is_chat)
    count = str(given.get("count", "")).strip() or (str(len(known)) if is_own else "")
    wanted = read_whole(count, "prompts", 1, min(MAX_PROMPTS, len(known)))
    return None if is_own else task, known[:wanted]
