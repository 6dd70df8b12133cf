"""The setting that all panels of the lab's page share: the models, the prompts and the sampling.

Every field of a question is checked. This module does not depend on any single panel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import InputError, read_whole, short, sized
from specviz.experiments.run.racing import RaceRequest
from specviz.experiments.sweep.sweep_setting import MAX_PROMPTS
from specviz.models.pair_catalog import Pair
from specviz.prompts import held_out_prompts, prompt_number, prompts_of
from specviz.records import DecodingConfig, Prompt, prompt_text
from specviz.ui.settings_form import form_pair, race_request

PROMPTS, TOKENS = 4, 64  # the page's initial numbers of prompts and of new tokens
MOST_TEXT = 500  # largest number of characters in one field of the form
MOST_OWN_TEXT = 200_000  # largest number of characters in all the user's own prompts together
# The method that a panel without a choice of method sends, because the form needs one.
PLAIN = {"method": "prompt-lookup", "draft_length": "1"}


@dataclass(frozen=True, slots=True)
class LabSetting:
    """The models, prompts and sampling of a measurement.

    `task` is None if the user supplies the prompts. Only panels with a choice of method use the
    method in `config`.
    """

    pair: Pair
    prompts: tuple[Prompt, ...]
    task: str | None
    config: DecodingConfig
    device: str = "auto"
    dtype: str = "float32"

    @property
    def own_prompts(self) -> tuple[Prompt, ...]:
        """Return the user's own prompts, or () if the prompts are held-out ones."""
        return () if self.task else self.prompts

    @property
    def words(self) -> list[str]:
        """Return one short text each for the models, the prompts and the sampling."""
        return [
            self.pair.title,
            prompts_words(self.task, len(self.prompts)),
            *self.config.sampling_words,
        ]


def prompts_words(task: str | None, count: int) -> str:
    """Return in words which prompts were decoded; a task gives its first held-out prompts.

    >>> prompts_words("code", 4), prompts_words("code", 1), prompts_words(None, 2)
    ('code: prompts 1 to 4', 'code: prompt 1', '2 prompts of your own')
    """
    if task is None:
        return f"{count} prompt{'' if count == 1 else 's'} of your own"
    return f"{task}: prompt{'' if count == 1 else 's 1 to'} {count}"


def lab_setting(question: Mapping[str, Any], *, has_method: bool = False) -> LabSetting:
    """Return the setting for the question {"form", "prompts"}.

    The form has the fields of a race's form. "prompts" holds "count". For the user's own prompts it
    also holds "text" and "name". Without `has_method`, the form's method is ignored.
    """
    form = _form(question) | ({} if has_method else PLAIN)
    is_chat = form_pair(form).is_asked_to_chat(form.get("task"))
    task, prompts = _prompts(form.pop("task", ""), is_chat, question.get("prompts"))
    usual = race_request({**form, "task": task or "", "prompt": prompt_text(prompts[0])})
    for number, prompt in enumerate(prompts, start=1):
        with prompt_number(number):
            RaceRequest(usual.pair, prompt, usual.config, usual.task)
    return LabSetting(usual.pair, prompts, task, usual.config, usual.device, usual.dtype)


def own_prompts(question: Mapping[str, Any]) -> tuple[Prompt, ...]:
    """Read all prompts from {"text", "name"}; a typed text has the name ""."""
    text, name = question.get("text"), str(question.get("name", ""))
    if not isinstance(text, str) or len(text) > MOST_OWN_TEXT:
        raise InputError(
            f"prompts must be a text of at most {MOST_OWN_TEXT:,} characters, got {sized(text)}"
        )
    if not text.strip():
        raise InputError("prompts must have at least one text of your own, got none")
    found = prompts_of(text, name)
    if any("\ud800" <= char <= "\udfff" for each in found for char in prompt_text(each)):
        raise InputError("prompts must be valid Unicode, got half a surrogate pair")
    return found


def _form(question: Mapping[str, Any]) -> dict[str, str]:
    """Return the form's settings: name -> text. Raises InputError if a text is too long."""
    form = question.get("form")
    if not isinstance(form, dict):
        raise InputError(f"form must be an object from setting to value, got {short(form)}")
    for name, text in form.items():
        if not isinstance(text, str):
            raise InputError(f"{short(name)[1:-1]} must be text, got {short(text)}")
        if len(text) > MOST_TEXT:
            raise InputError(f"{name} must have at most {MOST_TEXT} characters, got {len(text)}")
    return form


def _prompts(task: str, is_chat: bool, given: object) -> tuple[str | None, tuple[Prompt, ...]]:
    """Return the task (None for the user's own prompts) and the requested number of prompts."""
    if not isinstance(given, Mapping):
        raise InputError(f"prompts must be an object with 'count' or 'text', got {short(given)}")
    is_own = "text" in given
    known = own_prompts(given) if is_own else held_out_prompts(task, is_chat)
    count = str(given.get("count", "")).strip() or (str(len(known)) if is_own else "")
    wanted = read_whole(count, "count", 1, min(MAX_PROMPTS, len(known)))
    return None if is_own else task, known[:wanted]
