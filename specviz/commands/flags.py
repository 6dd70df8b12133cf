"""The flags that several commands share, and the functions that read them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.commands.command import Progress
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.draft_lengths import POLICIES, policy_named
from specviz.decoding.drafters.registry import DRAFTERS, method_named
from specviz.decoding.rules.rule_table import RULES, rule_named
from specviz.engines.engine_registry import servers
from specviz.errors import InputError, short, whole_between
from specviz.experiments.run.profiling import MAX_PROMPTS
from specviz.experiments.run.template_warning import pair_warning
from specviz.models.files.loading import DEVICES, DTYPES
from specviz.models.pair_catalog import CHAT, Pair, custom_pair, pair_named, pairs
from specviz.prompts import (
    CHAT_TASKS,
    Framing,
    held_out_prompts,
    held_out_rows,
    read_prompts,
    tasks,
)
from specviz.records import (
    BATCH,
    DECODING,
    SETTINGS,
    DecodingConfig,
    Drawing,
    Part,
    Prompt,
    RunSetting,
    ValueType,
    read_integers,
)
from specviz.sizing.forward_time import GPUS

MAX_REPEATS = 1000
FILE_HELP = (
    "either text, in which empty lines separate the prompts (without empty lines, each line is a "
    "prompt), or .jsonl with `prompt` or `messages` and an optional `system`"
)
TASK_HELP = (
    "use held-out prompts (not used for training) of this task: "
    f"{', '.join(CHAT_TASKS)} (chat needs a chat model; default the first task, or none with {{}})"
)
_WITH_TARGET = ("draft", "eagle", "medusa")
_METAVARS = {ValueType.INTEGER: "N", ValueType.NUMBER: "X", ValueType.CHOICE: "NAME"}
_DEFAULT_COUNT = 10  # number of held-out prompts without --prompt-count
_OF_METHOD = tuple(setting for setting in DECODING if setting.part is Part.METHOD)
# Setting -> arguments of its flag. These settings have no fixed default: the pair decides the
# default method, and pair and method decide the default draft length.
_OF_PAIR: dict[str, dict[str, Any]] = {
    "method": {"default": ""},
    "draft_length": {
        "default": None,
        "help": f"{SETTINGS['draft_length'].flag_help} (default 2 for the draft model and the "
        f"heads of the pair {CHAT}, otherwise {SETTINGS['draft_length'].default})",
    },
}
# settings of a method whose defaults are the same for all methods
_AS_GIVEN = ("rule", "length_policy", "entropy_threshold")
_BESIDE_METHOD = tuple(setting for setting in DECODING if setting.part is not Part.METHOD)


def add_flag(parser: _ActionsContainer, setting: RunSetting, **changes: Any) -> None:
    """Add the flag of one setting; `changes` replaces arguments of `add_argument`."""
    given: dict[str, Any] = {"help": setting.flag_help}
    if setting.type is ValueType.OPTIONS:
        given |= {"action": "append", "default": [], "metavar": "NAME=INTEGER"}
    elif setting.type is ValueType.SWITCH:
        given |= {"action": "store_true"}
    else:
        given |= {"metavar": _METAVARS.get(setting.type, "TEXT")}
    if setting.is_bounded:
        given |= {"type": setting.parser, "default": setting.default}
    elif setting.type is ValueType.CHOICE:
        given |= {"default": setting.default}
    given |= changes
    has_default = given.get("default") not in (None, "", [])
    if has_default and setting.type is not ValueType.SWITCH and "(default" not in given["help"]:
        is_number = setting.type is ValueType.NUMBER
        given["help"] += f" (default %(default){'g' if is_number else 's'})"
    parser.add_argument(setting.flag, **given)


def known_values(flags: Sequence[str]) -> Sequence[str] | None:
    """Return the values that the shell completes for a flag, or None if it takes any text.

    `flags` are the flag's names, such as `--pair`.
    """
    values: dict[str, Sequence[str]] = {
        "--method": tuple(DRAFTERS),
        "--pair": tuple(pair.name for pair in pairs()),
        "--task": CHAT_TASKS,
        "--device": DEVICES,
        "--dtype": tuple(DTYPES),
        "--drawing": tuple(drawing.value for drawing in Drawing),
        "--rule": tuple(RULES),
        "--length-policy": tuple(POLICIES),
        "--gpu": tuple(GPUS),
        "--to": servers(),
    }
    return next((values[flag] for flag in flags if flag in values), None)


def add_pair_flags(parser: ArgumentParser, **changes: Any) -> None:
    """Add the flags for the models and the device, which `chosen_pair` reads.

    `changes` replaces arguments of `--pair`.
    """
    group = parser.add_argument_group("models")
    add_flag(group, SETTINGS["pair"], **changes)
    for name in ("target", *_WITH_TARGET):
        add_flag(group, SETTINGS[name])
    add_machine_flags(group)


def add_machine_flags(parser: _ActionsContainer) -> None:
    for name in ("device", "dtype"):
        add_flag(parser, SETTINGS[name])


def chosen_pair(options: Namespace) -> Pair:
    """Return the pair that `--pair` names, or the pair of `--target` and its `--draft` or heads."""
    drafters = {name: getattr(options, name) for name in _WITH_TARGET}
    given = [name for name, source in drafters.items() if source is not None]
    if options.target is not None:
        return custom_pair(options.target, **{name: drafters[name] for name in given})
    if given:
        raise InputError(f"{given[0]} must be given together with target, got it alone")
    return pair_named(options.pair)


def add_prompt_flags(parser: ArgumentParser) -> None:
    """Add the flags for one prompt, or for one prompt per row of a batch.

    `chosen_prompt` and `chosen_rows` read them.
    """
    group = parser.add_argument_group("prompt")
    group.add_argument("--task", metavar="NAME", help=TASK_HELP.format("--prompt"))
    group.add_argument(
        "--prompt-number",
        type=int,
        default=1,
        metavar="N",
        help="which prompt of the task or of --prompt-file to use, counted from 1 "
        "(default %(default)s)",
    )
    group.add_argument("--prompt", metavar="TEXT", help="your own prompt")
    add_prompt_file_flag(group)
    add_framing_flags(group)


def add_framing_flags(group: _ActionsContainer) -> None:
    """Add `--system` and `--raw`, which `chosen_framing` reads.

    The flags decide which system prompt and which chat template surround a prompt.
    """
    add_flag(group, SETTINGS["system"], default="")
    add_flag(group, SETTINGS["raw"])


def chosen_framing(options: Namespace) -> Framing:
    return Framing(options.system, options.raw)


def chosen_prompt(options: Namespace, progress: Progress) -> tuple[str | None, Prompt]:
    """Return the task (None without one) and the prompt that the flags choose.

    If the prompt file holds several prompts, print the number of the chosen one.
    """
    if options.prompt_file is None:
        task, (prompt,) = chosen_rows(options, 1)
        return task, prompt
    _check_one_source(options)
    known, number = read_prompts(options.prompt_file, "prompt-file"), options.prompt_number
    if not 1 <= number <= len(known):
        raise InputError(f"prompt-number must be from 1 to {len(known)}, got {number}")
    if len(known) > 1:
        progress(f"prompt {number} of the {len(known)} in {options.prompt_file}")
    return options.task, chosen_framing(options).of(known[number - 1])


def chosen_rows(options: Namespace, count: int) -> tuple[str | None, tuple[Prompt, ...]]:
    """Return the task (None without one) and `count` prompts, one for each row of a batch.

    Held-out prompts start at `--prompt-number`. If the task has too few prompts after it, they
    continue with the task's first prompt. A prompt file gives its first `count` prompts. With
    `--prompt`, every row gets the same prompt.
    """
    task, prompts = _unframed_rows(options, count)
    return task, tuple(map(chosen_framing(options).of, prompts))


def _unframed_rows(options: Namespace, count: int) -> tuple[str | None, tuple[Prompt, ...]]:
    _check_one_source(options)
    if options.prompt is not None:
        return options.task, (options.prompt,) * count
    if options.prompt_file is not None:
        known = read_prompts(options.prompt_file, "prompt-file")
        if len(known) < count:
            raise InputError(
                f"prompt-file must have at least {count} prompts, one for each row of the batch, "
                f"got {len(known)}"
            )
        return options.task, known[:count]
    is_chat = chosen_pair(options).is_asked_to_chat(options.task)
    task = options.task or tasks(is_chat)[0]
    return task, held_out_rows(task, count, options.prompt_number, is_chat)


def _check_one_source(options: Namespace) -> None:
    if options.prompt is not None and options.prompt_file is not None:
        raise InputError("prompt and prompt-file must not be given together")


def add_many_prompts_flags(parser: ArgumentParser) -> None:
    """Add the flags for many prompts, of a task or from a file; `chosen_prompts` reads them."""
    group = parser.add_argument_group("prompts")
    group.add_argument("--task", metavar="NAME", help=TASK_HELP.format("--prompt-file"))
    add_prompt_file_flag(group)
    add_prompt_count_flag(group, _DEFAULT_COUNT)
    add_framing_flags(group)


def add_prompt_file_flag(group: _ActionsContainer) -> None:
    group.add_argument(
        "--prompt-file", metavar="FILE", help=f"file with your own prompts: {FILE_HELP}"
    )


def add_prompt_count_flag(group: _ActionsContainer, default: int) -> None:
    """Add `--prompt-count`; `default` is the number of held-out prompts without this flag."""
    group.add_argument(
        "--prompt-count",
        type=int,
        metavar="N",
        help=f"use the first N prompts (default {default} of each task, or all of a file)",
    )


def chosen_prompts(options: Namespace) -> tuple[str | None, tuple[Prompt, ...]]:
    """Return the task (None without one) and the first `--prompt-count` prompts, or all prompts."""
    task, prompts = _unframed_prompts(options)
    return task, tuple(map(chosen_framing(options).of, prompts))


def _unframed_prompts(options: Namespace) -> tuple[str | None, tuple[Prompt, ...]]:
    count = options.prompt_count
    if options.prompt_file is None:
        is_chat = chosen_pair(options).is_asked_to_chat(options.task)
        task = options.task or tasks(is_chat)[0]
        known = held_out_prompts(task, is_chat)
        return task, _first(known, count or _DEFAULT_COUNT, options)
    prompts = read_prompts(options.prompt_file, "prompt-file")
    if count is None and len(prompts) > MAX_PROMPTS:
        raise InputError(
            f"prompt-file must have at most {MAX_PROMPTS} prompts, got {len(prompts)}; add "
            "--prompt-count to use only the first ones"
        )
    return options.task, _first(prompts, count or len(prompts), options)


def _first(prompts: tuple[Prompt, ...], count: int, options: Namespace) -> tuple[Prompt, ...]:
    most = min(len(prompts), MAX_PROMPTS)
    if options.prompt_count is not None:
        whole_between(options.prompt_count, "prompt-count", 1, most)
    return prompts[:count]


def warn_of_template(
    pair: Pair, options: Namespace, prompts: Sequence[Prompt], progress: Progress
) -> None:
    """Print a warning if a prompt already contains tokens that the chat template adds."""
    warning = pair_warning(pair, options.device, options.dtype, prompts) if prompts else None
    if warning:
        progress(f"specviz: {warning} (--raw)")


def add_batch_flags(parser: ArgumentParser, **size: Any) -> None:
    """Add the flags of a batch, which `chosen_batch` reads.

    `size` replaces arguments of `--batch-size`.
    """
    group = parser.add_argument_group("batch")
    for setting in BATCH.values():
        changes = size if setting.name == "batch_size" else {}
        add_flag(group, setting, **({"default": None} | changes))


def chosen_batch(options: Namespace) -> BatchOptions:
    """Return the batch options that the user gave.

    Raises InputError for a batch option without `--batch-size`.
    """
    typed = {
        name: getattr(options, name)
        for name in BATCH
        if name != "batch_size" and getattr(options, name) is not None
    }
    if typed and options.batch_size is None:
        raise InputError(
            f"{next(iter(typed))} must be given together with batch-size, got it alone"
        )
    return BatchOptions(**typed)


def add_config_flags(parser: ArgumentParser, **defaults: Any) -> None:
    """Add the flags for the method and all decoding settings, which `chosen_config` reads.

    `defaults` holds the command's own default values by setting.
    """
    group = parser.add_argument_group("decoding")
    for setting in _OF_METHOD:
        add_flag(group, setting, **_OF_PAIR.get(setting.name, {}))
    add_sampling_flags(group, **defaults)


def add_any_method_flags(parser: _ActionsContainer) -> None:
    """Add the flags for the settings of a method that all methods share.

    `chosen_for_any_method` reads them.
    """
    for name in _AS_GIVEN:
        add_flag(parser, SETTINGS[name])


def chosen_for_any_method(options: Namespace) -> tuple[tuple[str, Any], ...]:
    """Return the settings of `add_any_method_flags`: pairs of a name and a value.

    Raises InputError for a name that no method knows. A single method may still refuse a setting.
    """
    rule_named(options.rule)
    policy_named(options.length_policy)
    return tuple((name, getattr(options, name)) for name in _AS_GIVEN)


def add_sampling_flags(group: _ActionsContainer, **defaults: Any) -> None:
    """Add the flags for the sampling, the seed and the length; `chosen_sampling` reads them.

    `defaults` holds the command's own default values by setting.
    """
    for setting in _BESIDE_METHOD:
        add_flag(group, setting, default=defaults.get(setting.name, setting.default))


def chosen_config(options: Namespace) -> DecodingConfig:
    """Return the decoding settings that the user gave.

    If the user gave no shape of the tree, or no way to draw siblings, the method decides it.
    """
    pair = chosen_pair(options)
    method = method_named(options.method or pair.method)
    length = method.usual_length(pair) if options.draft_length is None else options.draft_length
    shape: dict[str, Any] = {"options": named_integers("option", options.option)}
    if options.branching is not None:
        shape["branching"] = read_integers("branching", options.branching)
    if options.drawing is not None:
        shape["drawing"] = method.drawing_named(options.drawing)
    chosen = dict(chosen_for_any_method(options))
    config = method.usual(length, **chosen, **shape, **chosen_sampling(options))
    method.check(config)
    return config


def chosen_sampling(options: Namespace) -> dict[str, Any]:
    """Return the settings of `add_sampling_flags` by name."""
    return {setting.name: getattr(options, setting.name) for setting in _BESIDE_METHOD}


def named_integers(flag: str, texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parse the values of a repeatable flag NAME=INTEGER; the last value of each name counts.

    >>> named_integers("option", ["nodes=16"])
    (('nodes', 16),)
    """
    parsed: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value.lstrip("-").isdecimal() or not value.isascii() or len(value) > 9:
            raise InputError(f"{flag} must be NAME=INTEGER, such as nodes=16, got {short(text)}")
        parsed[name] = int(value)
    return tuple(parsed.items())


def check_writable(what: str, name: str) -> None:
    """Raise InputError if the result file `name` cannot be written.

    Call this before the measurement, so that no result is lost.

    If the file did not exist, this check leaves no file behind.
    """
    path = Path(name)
    try:
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise InputError(f"{what} {name!r} cannot be written: {error.strerror}") from None
