"""The groups of flags that several commands share, and the values that stand for what was typed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Sequence
from pathlib import Path

from specviz.decoding.batch_options import MAX_BATCH_SIZE, BatchOptions
from specviz.decoding.drafters.registry import method_named
from specviz.errors import InputError
from specviz.experiments.run.profiling import MAX_PROMPTS
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.prompts import (
    TASKS,
    held_out_prompt,
    held_out_prompts,
    held_out_rows,
    read_prompts,
    read_text,
)
from specviz.records import DecodingConfig, ProposalKind
from specviz.typed_settings import parse_integers, parse_kind

MAX_REPEATS = 1000
_DEFAULT_COUNT = 10  # of held-out prompts


def add_pair_flags(parser: ArgumentParser) -> None:
    """Which models, and where they run; read by `chosen_pair`."""
    group = parser.add_argument_group("models")
    group.add_argument("--pair", default="bundled", help="a named pair (default %(default)s)")
    group.add_argument("--target", help="folder or Hub id, instead of --pair")
    group.add_argument("--draft", help="folder or Hub id; for methods that need one")
    add_machine_flags(group)


def add_machine_flags(parser: _ActionsContainer) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="float32", help="float32, bfloat16 or float16")


def chosen_pair(options: Namespace) -> Pair:
    """The named pair, or the one of `--target` and `--draft` (which may be missing)."""
    if options.target is None and options.draft is None:
        return pair_named(options.pair)
    if options.target is None:
        raise InputError("draft must be given with a target, got it alone")
    return custom_pair(options.target, options.draft or "")


def add_prompt_flags(parser: ArgumentParser) -> None:
    """One prompt, or one per row of a batch; read by `chosen_prompt` and `chosen_rows`."""
    group = parser.add_argument_group("prompt")
    group.add_argument("--task", help=f"{', '.join(TASKS)} (default code, none with --prompt)")
    group.add_argument("--prompt-number", type=int, default=1, help="which held-out prompt")
    group.add_argument("--prompt", help="your own text")
    group.add_argument("--prompt-file", metavar="FILE", help="your own text, UTF-8")


def chosen_prompt(options: Namespace) -> tuple[str | None, str]:
    """The task, if there is one, and the prompt."""
    _check_one_source(options)
    if options.prompt is not None:
        return options.task, options.prompt
    if options.prompt_file is not None:
        return options.task, read_text(options.prompt_file, "prompt-file")
    task = options.task or TASKS[0]
    return task, held_out_prompt(task, options.prompt_number)


def chosen_rows(options: Namespace, count: int) -> tuple[str | None, tuple[str, ...]]:
    """The task and `count` prompts, one per row of a batch.

    Held-out prompts start at `--prompt-number` and begin again behind the last. A file gives one
    prompt per line that has text; a prompt of the user's own is in every row.
    """
    _check_one_source(options)
    if options.prompt is not None:
        return options.task, (options.prompt,) * count
    if options.prompt_file is not None:
        lines = [
            line
            for line in read_text(options.prompt_file, "prompt-file").split("\n")
            if line.strip()
        ]
        if len(lines) < count:
            raise InputError(
                f"prompt-file must have a line of text for each of {count} rows, got {len(lines)}"
            )
        return options.task, tuple(lines[:count])
    task = options.task or TASKS[0]
    return task, held_out_rows(task, count, options.prompt_number)


def _check_one_source(options: Namespace) -> None:
    if options.prompt is not None and options.prompt_file is not None:
        raise InputError("prompt and prompt-file must not be given together")


def add_many_prompts_flags(parser: ArgumentParser) -> None:
    """Many prompts, of a task or a file; read by `chosen_prompts`."""
    group = parser.add_argument_group("prompts")
    group.add_argument("--task", help=f"{', '.join(TASKS)} (default code, none with --prompts)")
    group.add_argument(
        "--prompts",
        metavar="FILE",
        help="your own texts: a line each, blocks between empty lines, or .jsonl with `prompt`",
    )
    group.add_argument("--count", type=int, help="the first so many (default 10, all of a file)")


def chosen_prompts(options: Namespace) -> tuple[str | None, tuple[str, ...]]:
    """The task, if there is one, and the prompts; all of a file unless `--count` is given."""
    if options.prompts is None:
        task = options.task or TASKS[0]
        return task, _first(held_out_prompts(task), options.count or _DEFAULT_COUNT, options)
    prompts = read_prompts(options.prompts)
    if options.count is None and len(prompts) > MAX_PROMPTS:
        raise InputError(
            f"prompts must be at most {MAX_PROMPTS}, got {len(prompts)}; count takes the first ones"
        )
    return options.task, _first(prompts, options.count or len(prompts), options)


def _first(prompts: tuple[str, ...], count: int, options: Namespace) -> tuple[str, ...]:
    most = min(len(prompts), MAX_PROMPTS)
    if options.count is not None and not 1 <= options.count <= most:
        raise InputError(f"count must be an integer from 1 to {most}, got {options.count}")
    return prompts[:count]


def add_batch_flags(parser: ArgumentParser) -> None:
    """Options of a batch besides its size; read by `chosen_batch`."""
    group = parser.add_argument_group("batch")
    group.add_argument(
        "--speculate-up-to",
        type=int,
        help="rounds of more rows draft nothing; 0: measured (default: all rounds draft)",
    )
    group.add_argument("--draft-budget", type=int, help="drafted tokens a round, all rows together")


def chosen_batch(options: Namespace) -> BatchOptions:
    """The options that were typed; without a batch they are refused, not dropped."""
    typed = {
        name: getattr(options, name)
        for name in ("speculate_up_to", "draft_budget")
        if getattr(options, name) is not None
    }
    if typed and options.batch_size is None:
        raise InputError(f"{next(iter(typed))} must be given with batch-size, got it alone")
    return BatchOptions(**typed)


def add_config_flags(parser: ArgumentParser, temperature: float = 0.0) -> None:
    """The method and how it decodes; read by `chosen_config`."""
    default = DecodingConfig()
    group = parser.add_argument_group("decoding")
    group.add_argument("--method", default=default.method, help="see the command `methods`")
    group.add_argument("--draft-length", type=int, default=default.draft_length, help="K")
    group.add_argument("--branching", help="children per depth of a tree, such as 3,2")
    rules = ", ".join(kind.value for kind in ProposalKind)
    group.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=INTEGER",
        help="an option of the method, see the command `methods`; may be given several times",
    )
    group.add_argument("--rule", help=f"how siblings are drawn and verified: {rules}")
    add_sampling_flags(group, temperature)


def add_sampling_flags(group: _ActionsContainer, temperature: float = 0.0) -> None:
    default = DecodingConfig()
    group.add_argument("--temperature", type=float, default=temperature)
    group.add_argument("--top-k", type=int, default=default.top_k, help="0 is off")
    group.add_argument("--top-p", type=float, default=default.top_p, help="1 is off")
    group.add_argument("--seed", type=int, default=default.seed)
    group.add_argument("--max-new-tokens", type=int, default=default.max_new_tokens)


def chosen_config(options: Namespace) -> DecodingConfig:
    method = method_named(options.method)
    branching = method.default_branching[: max(1, options.draft_length)]
    return DecodingConfig(
        method=method.name,
        draft_length=options.draft_length,
        branching=branching
        if options.branching is None
        else parse_integers("branching", options.branching),
        tree_kind=parse_kind("rule", options.rule or "", method.kinds),
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        max_new_tokens=getattr(options, "max_new_tokens", DecodingConfig().max_new_tokens),
        options=named_integers("option", options.option),
    )


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


def check_integer(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{name} must be an integer from {low} to {high}, got {value}")


def check_batch_size(size: int) -> None:
    check_integer("batch-size", size, 1, MAX_BATCH_SIZE)
