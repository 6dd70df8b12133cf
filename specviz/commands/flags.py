"""The groups of flags that several commands share, and the values that stand for what was typed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specviz.commands.command import Progress
from specviz.decoding.batch_options import BatchOptions
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError, whole_between
from specviz.experiments.run.profiling import MAX_PROMPTS
from specviz.experiments.run.template_warning import pair_warning
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
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
    Part,
    Prompt,
    RunSetting,
    ValueType,
    read_integers,
)

MAX_REPEATS = 1000
FILE_HELP = (
    "a line each, blocks between empty lines, or .jsonl with `prompt` or `messages`, "
    "and perhaps `system`"
)
TASK_HELP = (
    f"{', '.join(CHAT_TASKS)} (chat: chat models only; default the first that there is, none with "
    "{})"
)
_BESIDE_TARGET = ("draft", "eagle", "medusa")
_DEFAULT_COUNT = 10  # of held-out prompts
_OF_METHOD = tuple(setting for setting in DECODING if setting.part is Part.METHOD)
_BESIDE_METHOD = tuple(setting for setting in DECODING if setting.part is not Part.METHOD)


def add_flag(parser: _ActionsContainer, setting: RunSetting, **changes: Any) -> None:
    """The flag of one setting; `changes` go before what argparse would be given."""
    given: dict[str, Any] = {"help": setting.flag_help}
    if setting.type is ValueType.OPTIONS:
        given |= {"action": "append", "default": [], "metavar": "NAME=INTEGER"}
    elif setting.is_bounded:
        given |= {"type": setting.parser, "default": setting.default}
    elif setting.type is ValueType.SWITCH:
        given |= {"action": "store_true"}
    elif setting.type is ValueType.CHOICE:
        given |= {"default": setting.default}
    parser.add_argument(setting.flag, **(given | changes))


def add_pair_flags(parser: ArgumentParser, **changes: Any) -> None:
    """Which models, and where they run; read by `chosen_pair`. `changes` are to `--pair`."""
    group = parser.add_argument_group("models")
    add_flag(group, SETTINGS["pair"], **changes)
    for name in ("target", *_BESIDE_TARGET):
        add_flag(group, SETTINGS[name])
    add_machine_flags(group)


def add_machine_flags(parser: _ActionsContainer) -> None:
    for name in ("device", "dtype"):
        add_flag(parser, SETTINGS[name])


def chosen_pair(options: Namespace) -> Pair:
    """The named pair, or the one of `--target` and what is given beside it."""
    beside = {name: getattr(options, name) for name in _BESIDE_TARGET}
    given = [name for name, source in beside.items() if source is not None]
    if options.target is not None:
        return custom_pair(options.target, **{name: beside[name] for name in given})
    if given:
        raise InputError(f"{given[0]} must be given with a target, got it alone")
    return pair_named(options.pair)


def add_prompt_flags(parser: ArgumentParser) -> None:
    """One prompt, or one per row of a batch; read by `chosen_prompt` and `chosen_rows`."""
    group = parser.add_argument_group("prompt")
    group.add_argument("--task", help=TASK_HELP.format("--prompt"))
    group.add_argument(
        "--prompt-number", type=int, default=1, help="which held-out prompt, or which of the file"
    )
    group.add_argument("--prompt", help="your own text")
    group.add_argument("--prompt-file", metavar="FILE", help=f"your own texts: {FILE_HELP}")
    add_framing_flags(group)


def add_framing_flags(group: _ActionsContainer) -> None:
    """How prompts are put to the model; read by `chosen_framing`."""
    add_flag(group, SETTINGS["system"], default="")
    add_flag(group, SETTINGS["raw"])


def chosen_framing(options: Namespace) -> Framing:
    return Framing(options.system, options.raw)


def chosen_prompt(options: Namespace, progress: Progress) -> tuple[str | None, Prompt]:
    """The task, if there is one, and the prompt; of a file of many, which one it is is told."""
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
    """The task and `count` prompts, one per row of a batch.

    Held-out prompts start at `--prompt-number` and begin again behind the last. A file gives its
    first prompts; a prompt of the user's own is in every row.
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
                f"prompt-file must have a prompt for each of {count} rows, got {len(known)}"
            )
        return options.task, known[:count]
    is_chat = chosen_pair(options).instruct
    task = options.task or tasks(is_chat)[0]
    return task, held_out_rows(task, count, options.prompt_number, is_chat)


def _check_one_source(options: Namespace) -> None:
    if options.prompt is not None and options.prompt_file is not None:
        raise InputError("prompt and prompt-file must not be given together")


def add_many_prompts_flags(parser: ArgumentParser) -> None:
    """Many prompts, of a task or a file; read by `chosen_prompts`."""
    group = parser.add_argument_group("prompts")
    group.add_argument("--task", help=TASK_HELP.format("--prompts"))
    group.add_argument("--prompts", metavar="FILE", help=f"your own texts: {FILE_HELP}")
    group.add_argument("--count", type=int, help="the first so many (default 10, all of a file)")
    add_framing_flags(group)


def chosen_prompts(options: Namespace) -> tuple[str | None, tuple[Prompt, ...]]:
    """The task, if there is one, and the prompts; all of a file unless `--count` is given."""
    task, prompts = _unframed_prompts(options)
    return task, tuple(map(chosen_framing(options).of, prompts))


def _unframed_prompts(options: Namespace) -> tuple[str | None, tuple[Prompt, ...]]:
    if options.prompts is None:
        is_chat = chosen_pair(options).instruct
        task = options.task or tasks(is_chat)[0]
        known = held_out_prompts(task, is_chat)
        return task, _first(known, options.count or _DEFAULT_COUNT, options)
    prompts = read_prompts(options.prompts)
    if options.count is None and len(prompts) > MAX_PROMPTS:
        raise InputError(
            f"prompts must be at most {MAX_PROMPTS}, got {len(prompts)}; count takes the first ones"
        )
    return options.task, _first(prompts, options.count or len(prompts), options)


def _first(prompts: tuple[Prompt, ...], count: int, options: Namespace) -> tuple[Prompt, ...]:
    most = min(len(prompts), MAX_PROMPTS)
    if options.count is not None:
        whole_between(options.count, "count", 1, most)
    return prompts[:count]


def warn_of_template(
    pair: Pair, options: Namespace, prompts: Sequence[Prompt], progress: Progress
) -> None:
    """A line where a prompt holds what the model's chat template writes around it."""
    warning = pair_warning(pair, options.device, options.dtype, prompts) if prompts else None
    if warning:
        progress(f"specviz: {warning} (--raw)")


def add_batch_flags(parser: ArgumentParser, **size: Any) -> None:
    """How many texts run at once, and what these share; read by `chosen_batch`.

    `size` are changes to `--batch-size`.
    """
    group = parser.add_argument_group("batch")
    for setting in BATCH.values():
        changes = size if setting.name == "batch_size" else {}
        add_flag(group, setting, **({"default": None} | changes))


def chosen_batch(options: Namespace) -> BatchOptions:
    """The options that were typed; without a batch they are refused, not dropped."""
    typed = {
        name: getattr(options, name)
        for name in BATCH
        if name != "batch_size" and getattr(options, name) is not None
    }
    if typed and options.batch_size is None:
        raise InputError(f"{next(iter(typed))} must be given with batch-size, got it alone")
    return BatchOptions(**typed)


def add_config_flags(parser: ArgumentParser, **defaults: Any) -> None:
    """The method and how it decodes; read by `chosen_config`. `defaults` are a command's own."""
    group = parser.add_argument_group("decoding")
    for setting in _OF_METHOD:
        usual = {"default": ""} if setting.name == "method" else {}  # what the pair begins with
        add_flag(group, setting, **usual)
    add_sampling_flags(group, **defaults)


def add_sampling_flags(group: _ActionsContainer, **defaults: Any) -> None:
    """All settings of the decoding but the method's; read by `chosen_sampling`."""
    for setting in _BESIDE_METHOD:
        add_flag(group, setting, default=defaults.get(setting.name, setting.default))


def chosen_config(options: Namespace) -> DecodingConfig:
    """With the method's usual tree and rule where none is given."""
    method = method_named(options.method or chosen_pair(options).method)
    shape: dict[str, Any] = {"options": named_integers("option", options.option)}
    if options.branching is not None:
        shape["branching"] = read_integers("branching", options.branching)
    if options.rule is not None:
        shape["tree_kind"] = method.kind_named(options.rule, "rule")
    return method.usual(options.draft_length, **shape, **chosen_sampling(options))


def chosen_sampling(options: Namespace) -> dict[str, Any]:
    """The settings beside the method, by name."""
    return {setting.name: getattr(options, setting.name) for setting in _BESIDE_METHOD}


def named_integers(flag: str, texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The values of a flag that takes NAME=INTEGER and may be repeated; the last of a name counts.

    >>> named_integers("option", ["nodes=16"])
    (('nodes', 16),)
    """
    parsed: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value.lstrip("-").isdecimal() or not value.isascii() or len(value) > 9:
            raise InputError(f"{flag} must be NAME=INTEGER, such as nodes=16, got {text!r}")
        parsed[name] = int(value)
    return tuple(parsed.items())


def check_writable(what: str, name: str) -> None:
    """Before a measurement, so that a file that cannot be written does not cost its result."""
    try:
        Path(name).open("ab").close()
    except OSError as error:
        raise InputError(f"{what} {name!r} cannot be written: {error.strerror}") from None
