"""The endpoints with names: what programs and agents ask of the app, over HTTP or MCP.

Each call is a session more: it goes through the page's own checks, waits in the same queue, and is
stopped where its caller leaves. Parameters follow from the table of settings. An endpoint that
decodes streams {"state": "waiting" or "running", …}, and last of all its result, "done".
"""

import inspect
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from specviz.errors import InputError
from specviz.experiments.advice.advising import DEFAULT_SECONDS
from specviz.experiments.bug_zoo.zoo import RIGHT
from specviz.models.pair_catalog import default_pair
from specviz.records import BATCH, SETTINGS, RunSetting, ValueType
from specviz.ui.answers import Question, asked_by
from specviz.ui.api_results import (
    AdviceResult,
    Collector,
    Kept,
    LosslessResult,
    ProfileResult,
    RaceResult,
    SweepResult,
    SweptPoints,
    Texts,
    TheoryResult,
    TraceResult,
    WholeTrace,
)
from specviz.ui.course.slider_answers import theory_answer
from specviz.ui.handlers import Handlers
from specviz.ui.lab.lab_losslessness import PLACE
from specviz.ui.lab.lab_setting import PROMPTS, TOKENS
from specviz.ui.lab.lab_sweeps import DEFAULTS
from specviz.ui.settings_form import CUSTOM, form_method, form_pair
from specviz.ui.spending import counted

Given = dict[str, Any]  # the arguments of a call, by name
DRAWS = 2000  # of a test of losslessness
_PLACE = {"prompt": "", "temperature": 1.0}  # of it; "": the place that the page begins with
WAITING, RUNNING, DONE = "waiting", "running", "done"


# ---- parameters


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an endpoint; one without a default has to be given."""

    name: str
    type: type
    help: str
    default: Any = inspect.Parameter.empty


_TYPES = {
    ValueType.INTEGER: int,
    ValueType.NUMBER: float,
    ValueType.SWITCH: bool,
    ValueType.OPTIONS: dict,
}


def _of_setting(setting: RunSetting) -> Parameter:
    """An argument that is a setting; "" leaves a text to the pair or the method."""
    kind = _TYPES.get(setting.type, str)
    words = (setting.flag_help or setting.title).replace("--", "")
    if setting.is_bounded:
        words += f", {setting.rule}"
    default = setting.default if kind in (int, float, bool) else {} if kind is dict else ""
    return Parameter(setting.name, kind, words, default)


_RUN = {name: _of_setting(setting) for name, setting in SETTINGS.items()} | {
    "method": Parameter(
        "method", str, "how to draft, see the command `methods`; empty: the pair's own", ""
    ),
    "task": Parameter("task", str, "code, story, maths, translate, summarise or chat", ""),
}
_PROMPT = replace(_RUN["prompt"], default=inspect.Parameter.empty, help="the text to go on from")
RACE = (_PROMPT, *(each for name, each in _RUN.items() if name != "prompt"))
_SHARED = tuple(  # by all that is measured over prompts
    replace(each, default=TOKENS) if name == "max_new_tokens" else each
    for name, each in _RUN.items()
    if name not in ("prompt", "method", "draft_length", "branching", "options", "tree_kind")
)
_DRAFTING = (_RUN["method"], _RUN["draft_length"])
_COUNT = Parameter("count", int, f"prompts; 0: {PROMPTS} of the task, or all of your own", 0)
_OWN = Parameter(
    "prompts", str, "prompts of your own instead of a task's: a line each, or JSON lines", ""
)
MEASURED = (_COUNT, _OWN, *_SHARED)


def form_of(given: Mapping[str, Any], names: Sequence[str] = tuple(SETTINGS)) -> dict[str, Any]:
    """The page's form of a call's arguments: texts, what is empty left out.

    The pair is the one that the page begins with, the method the pair's own, the tree the method's.
    """
    form = {name: _text(given[name]) for name in names if given.get(name) not in (None, "", {})}
    form.setdefault("pair", CUSTOM if "target" in form else default_pair().name)
    form.setdefault("method", form_pair(form).method)
    if "branching" in names and not {"branching", "options", "tree_kind"} & set(form):
        setting = SETTINGS["draft_length"]
        length = setting.read(form.get("draft_length", setting.default))
        usual = form_method(form).usual_branching(length)
        form["branching"] = ",".join(map(str, usual))
    return form


def _text(value: Any) -> Any:
    """As a field of the page's form holds it; what no field can hold is left for its check."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value) if isinstance(value, int | float) else value


def _measured_question(given: Given, *names: str) -> Question:
    """{"form", "prompts"} as `lab_setting` takes them."""
    form = form_of(given, [each.name for each in _SHARED] + [each.name for each in _DRAFTING])
    form.setdefault("task", "chat" if form_pair(form).instruct else "code")
    own, count = given["prompts"], given["count"]
    prompts = {"text": own, "name": ""} if own else {"count": count or PROMPTS}
    if own and count:
        prompts["count"] = count
    return {"form": form, "prompts": prompts} | {name: given[name] for name in names}


# ---- endpoints


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One that decodes: `ask` makes the page's question of a call, `take` joins the queue by it."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    result: type
    collect: Callable[[], Collector]
    ask: Callable[[Given], Question]
    take: Callable[[Handlers, Question], Question]


def _ask_race(given: Given) -> Question:
    return {"form": form_of(given)}


def _ask_sweep(given: Given) -> Question:
    axes = [{"name": given["axis"], "values": given["values"]}]
    if given["second_axis"]:
        axes.append({"name": given["second_axis"], "values": given["second_values"]})
    batch = {name: given[name] for name in BATCH}
    return _measured_question(given, "repeats") | {"what": "sweep", "axes": axes, "batch": batch}


def _ask_advice(given: Given) -> Question:
    question = _measured_question(given | {"method": "", "draft_length": ""})
    asked = {name: given[name] for name in ("batch_size", "seconds", "methods")}
    return question | {"what": "advice"} | asked


def _ask_profile(given: Given) -> Question:
    question = _measured_question(given)
    form = question["form"]
    return {**question["prompts"], "form": form, "task": form["task"]}


def _ask_lossless(given: Given) -> Question:
    place = {name: text for name, text in PLACE.items() if not given.get(name)}
    question = {"form": form_of(given | place), "draws": given["draws"], "rule": given["rule"]}
    return question | {"what": "losslessness", "draft": ""}


ENDPOINTS = (
    Endpoint(
        "race",
        "Decode a prompt with and without speculation, on fair clocks, and compare.",
        RACE,
        RaceResult,
        Texts,
        _ask_race,
        lambda handlers, question: handlers.join(question),
    ),
    Endpoint(
        "trace",
        "Decode a prompt as `race` does, for the record of every round: drafts, p, q, u, verdicts.",
        RACE,
        TraceResult,
        WholeTrace,
        _ask_race,
        lambda handlers, question: handlers.join(question),
    ),
    Endpoint(
        "sweep",
        "Measure the speedup over the values of one or two settings, on held-out prompts or yours.",
        (
            Parameter("axis", str, "what to vary, such as draft-length", DEFAULTS["axis"]),
            Parameter("values", str, "its values, such as 1-8 or 2,4,6", DEFAULTS["values"]),
            Parameter("second_axis", str, "another one, or empty", ""),
            Parameter("second_values", str, "its values", ""),
            Parameter("repeats", int, "of each value", DEFAULTS["repeats"]),
            *(_of_setting(each) for each in BATCH.values()),
            *_DRAFTING,
            *MEASURED,
        ),
        SweepResult,
        SweptPoints,
        _ask_sweep,
        lambda handlers, question: handlers.lab.measure(question),
    ),
    Endpoint(
        "advise",
        "Whether to speculate, with which method and draft length, and what to expect: measured.",
        (
            Parameter("seconds", float, "that it may measure", DEFAULT_SECONDS),
            Parameter("batch_size", int, "texts that are decoded at once", 1),
            Parameter("methods", str, "names with commas; empty: all that the pair can do", ""),
            *MEASURED,
        ),
        AdviceResult,
        lambda: Kept("advice", "doing"),
        _ask_advice,
        lambda handlers, question: handlers.lab.measure(question),
    ),
    Endpoint(
        "profile",
        "Where acceptance is lost, over many prompts: by token class, depth, place and entropy.",
        (*_DRAFTING, *MEASURED),
        ProfileResult,
        lambda: Kept("profile", "done"),
        _ask_profile,
        lambda handlers, question: handlers.profile(question),
    ),
    Endpoint(
        "lossless",
        "Draw the next tokens thousands of times and compare them with the target's distribution.",
        (
            Parameter("draws", int, "how many", DRAWS),
            Parameter("rule", str, "the right one, or a wrong one of the zoo", RIGHT),
            *(replace(each, default=_PLACE.get(each.name, each.default)) for each in RACE),
        ),
        LosslessResult,
        lambda: Kept("counts"),
        _ask_lossless,
        lambda handlers, question: handlers.lab.measure(question),
    ),
)


def add_endpoints(handlers: Handlers) -> None:
    """Within a `gr.Blocks`: all of them, as public as the page itself."""
    for endpoint in ENDPOINTS:
        _register(_follower(handlers, endpoint))

    async def claims(request: gr.Request = None) -> list[dict[str, Any]]:
        """What popular texts say of speculative decoding, and what theory makes of their numbers.

        Returns:
            every claim with its verdict, theory's finding, and what was measured on this server
        """
        answer = await counted(handlers.lab.claims, asked_by({}, request))
        return list(_answered(answer)["claims"])

    _register(claims)
    _register(theory)


def theory(
    acceptance_rate: float, draft_length: int, cost_ratio: float = 0.0, verify_overhead: float = 0.0
) -> TheoryResult:
    """What theory says of a draft length, acceptance being independent from token to token.

    Parameters:
        acceptance_rate: a, from 0 to 1
        draft_length: K, tokens drafted a round
        cost_ratio: c, time of one draft forward over one of the target
        verify_overhead: v, what verifying K + 1 tokens costs more than one, in target forwards
    Returns:
        tokens per target forward, how many of them are accepted drafts, the speedup, the best K
    """
    question = {"a": acceptance_rate, "K": draft_length, "c": cost_ratio, "v": verify_overhead}
    try:
        found = theory_answer(question)
    except InputError as error:
        raise refusal(str(error)) from None
    return {
        "tokens": found["tokens"],
        "accepted": found["accepted"],
        "speedup": found["speedup"],
        "best": found["best"],
        "best_speedup": found["best_speedup"],
    }


def _register(function: Callable[..., Any]) -> None:
    gr.api(function, api_name=function.__name__, concurrency_limit=None)


def refusal(sentence: str) -> gr.Error:
    """What the caller reads; nothing of it goes to the server's log."""
    return gr.Error(sentence, print_exception=False)


def _answered(answer: Question) -> Question:
    if answer["error"]:
        raise refusal(answer["error"])
    return answer


def _follower(handlers: Handlers, endpoint: Endpoint) -> Callable[..., Any]:
    """The endpoint as the function whose signature and docstring Gradio publishes."""
    names = [each.name for each in endpoint.parameters]

    async def follow(*arguments: Any) -> AsyncIterator[dict[str, Any]]:
        *values, request = arguments
        try:
            question = endpoint.ask(dict(zip(names, values, strict=True)))
        except InputError as error:
            raise refusal(str(error)) from None
        ticket = secrets.token_hex(16)
        _answered(endpoint.take(handlers, asked_by(question | {"ticket": ticket}, request)))
        try:
            async for progress in _followed(handlers, ticket, endpoint.collect()):
                yield progress
        finally:
            handlers.stop({"ticket": ticket})

    required = [each for each in endpoint.parameters if each.default is inspect.Parameter.empty]
    assert endpoint.parameters[: len(required)] == tuple(required)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    taken = [
        inspect.Parameter(each.name, kind, default=each.default, annotation=each.type)
        for each in endpoint.parameters
    ]
    taken.append(inspect.Parameter("request", kind, default=None, annotation=gr.Request))
    follow.__name__ = endpoint.name
    follow.__signature__ = inspect.Signature(taken, return_annotation=endpoint.result)  # type: ignore[attr-defined]
    follow.__annotations__ = {each.name: each.annotation for each in taken}
    lines = [f"    {each.name}: {each.help}" for each in endpoint.parameters]
    returns = " ".join((endpoint.result.__doc__ or "").split())
    follow.__doc__ = "\n".join(
        [endpoint.help, "", "Parameters:", *lines, "Returns:", f"    {returns}"]
    )
    return follow


async def _followed(
    handlers: Handlers, ticket: str, collector: Collector
) -> AsyncIterator[dict[str, Any]]:
    """What there is of a run, whenever there is more."""
    after, warning = 0, {}
    while True:
        found = _answered(await handlers.hear({"ticket": ticket, "after": after}))
        after += len(found["messages"])
        for message in map(json.loads, found["messages"]):
            if message["kind"] == "error":
                raise refusal(message["text"])
            if message["kind"] == "warning":
                warning = {"warning": message["text"]}
            collector.add(message)
        state = found["state"] if found["state"] in (WAITING, RUNNING) else DONE
        is_done = state == DONE and not found["messages"]
        shown = RUNNING if state == DONE and not is_done else state
        yield {"state": shown, "ahead": found["ahead"]} | warning | collector.result(is_done)
        if is_done:
            return
