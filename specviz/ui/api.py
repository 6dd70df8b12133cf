"""The named endpoints, which programs and agents call over HTTP or MCP.

Each call gets a session of its own. Like a run that a user starts in the web app, it is checked and
waits in the queue. It stops when its caller disconnects. The parameters come from the table of
settings. While an endpoint waits or decodes, it streams {"state": "waiting" or
"running", …}. At the end it streams its result with the state "done".
"""

import inspect
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from gradio.route_utils import FnIndexInferError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from specviz.errors import InputError, short
from specviz.experiments.advice.advising import DEFAULT_SECONDS
from specviz.experiments.bug_zoo.zoo import RIGHT
from specviz.experiments.sweep.sweep_axis import AXES
from specviz.models.pair_catalog import default_pair
from specviz.records import BATCH, SETTINGS, RunSetting, ValueType
from specviz.records.settings import ON, Part
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
from specviz.ui.lab.lab_losslessness import place_of
from specviz.ui.lab.lab_setting import PROMPTS, TOKENS
from specviz.ui.lab.lab_sweeps import DEFAULTS
from specviz.ui.settings_form import CUSTOM, form_method, form_pair
from specviz.ui.spending import counted

Given = dict[str, Any]  # the arguments of a call: name -> value
DRAWS = 2000  # default number of draws in a losslessness test
# Default arguments of the losslessness test. An empty prompt stands for the page's default text;
# the test samples the token after the prompt.
_TEST_DEFAULTS = {"prompt": "", "temperature": 1.0}
WAITING, RUNNING, DONE = "waiting", "running", "done"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an endpoint; a parameter without a default is required."""

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
    """Return the parameter for a setting.

    A setting whose value is a text has the default "". If the caller leaves it empty, the pair or
    the method chooses the value.
    """
    kind = _TYPES.get(setting.type, str)
    words = (setting.flag_help or setting.title).replace("--", "")
    if setting.is_bounded:
        words += f", {setting.rule}"
    default = setting.default if kind in (int, float, bool) else {} if kind is dict else ""
    return Parameter(setting.name, kind, words, default)


_RUN = {name: _of_setting(setting) for name, setting in SETTINGS.items()} | {
    "method": Parameter(
        "method",
        str,
        "drafting method, one of those that the command `methods` lists; empty: the pair's own",
        "",
    ),
    "task": Parameter("task", str, "code, story, maths, translate, summarise or chat", ""),
}
_PROMPT = replace(
    _RUN["prompt"], default=inspect.Parameter.empty, help="the text that the model continues"
)
RACE = (_PROMPT, *(each for name, each in _RUN.items() if name != "prompt"))
_SHARED = tuple(  # parameters of every endpoint that measures several prompts
    replace(each, default=TOKENS) if name == "max_new_tokens" else each
    for name, each in _RUN.items()
    if name != "prompt" and SETTINGS[name].part is not Part.METHOD
)
_DRAFTING = (_RUN["method"], _RUN["draft_length"])
_COUNT = Parameter(
    "count", int, f"number of prompts; 0: {PROMPTS} of the task, or all of your own", 0
)
_OWN = Parameter(
    "prompts", str, "your own prompts instead of a task's: one per line, or JSON lines", ""
)
MEASURED = (_COUNT, _OWN, *_SHARED)


def form_of(given: Mapping[str, Any], names: Sequence[str] = tuple(SETTINGS)) -> dict[str, Any]:
    """Return a call's arguments as the fields of the page's form.

    Empty arguments are left out. A missing pair, method or tree gets the default of the page: the
    page's default pair, the default method of the pair, or the default tree of the method.
    """
    given_names = [name for name in names if given.get(name) not in (None, "", {})]
    form = {name: _text(given[name], name) for name in given_names}
    _check_sources(form)
    form.setdefault("pair", CUSTOM if "target" in form else default_pair().name)
    form.setdefault("method", form_pair(form).method)
    if "branching" in names and not {"branching", "options", "drawing"} & set(form):
        setting = SETTINGS["draft_length"]
        length = setting.read(form.get("draft_length", setting.default))
        usual = form_method(form).usual_branching(length)
        form["branching"] = ",".join(map(str, usual))
    return form


def _check_sources(form: Mapping[str, Any]) -> None:
    """Raise InputError if the call gives sources of single models that would have no effect.

    They would have none if the call also names a pair, because a pair has its own models. They
    would also have none without a target, because the call then uses the default pair.
    """
    sources = [name for name in ("target", "draft", "eagle", "medusa") if name in form]
    if sources and form.get("pair", CUSTOM) != CUSTOM:
        raise InputError(
            f"{sources[0]} must not be given together with a pair, got {short(form['pair'])}"
        )
    if sources and "target" not in sources:
        raise InputError(f"{sources[0]} must be given together with target, got it alone")


def _text(value: Any, name: str) -> Any:
    """Return an argument of a call as the text of a form's field.

    A value that is no number, text or flag is returned unchanged. The check of the field then
    refuses it.
    """
    is_switch = (SETTINGS | BATCH)[name].type is ValueType.SWITCH
    if is_switch and not isinstance(value, bool) and value != ON:
        raise InputError(f"{name} must be true or false, got {short(value)}")
    if isinstance(value, bool):
        return (ON if value else "") if is_switch else value
    return str(value) if isinstance(value, int | float) else value


def _measured_question(given: Given, *names: str) -> Question:
    """Convert the arguments of a call to a question of the lab's page, as `lab_setting` reads it.

    The arguments whose names are in `names` are copied into the question unchanged.
    """
    form = form_of(given, [each.name for each in _SHARED] + [each.name for each in _DRAFTING])
    form.setdefault("task", "chat" if form_pair(form).instruct else "code")
    own, count = given["prompts"], given["count"]
    prompts = {"text": own, "name": ""} if own else {"count": count or PROMPTS}
    if own and count:
        prompts["count"] = count
    return {"form": form, "prompts": prompts} | {name: given[name] for name in names}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint that decodes.

    `ask` converts the arguments of a call to the question that the page would send. `take` adds the
    question's run to the queue, and `collect` makes the object that builds the result.
    """

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    result: type
    collect: Callable[[], Collector]
    ask: Callable[[Given], Question]
    take: Callable[[Handlers, Question], Question]
    # Rewrites an error message of the page for this endpoint, because the endpoint's parameters may
    # have other names than the page's fields.
    worded: Callable[[Given, str], str] = lambda given, sentence: sentence


def _ask_race(given: Given) -> Question:
    return {"form": form_of(given)}


_AXES = {"axis": "values", "second_axis": "second_values"}


def _ask_sweep(given: Given) -> Question:
    names = [name for name, values in _AXES.items() if given[name] or given[values]]
    for name in names:
        if str(given[name]) not in AXES:
            raise InputError(f"{name} must be one of {', '.join(AXES)}, got {short(given[name])}")
    if len(names) == 2 and given["axis"] == given["second_axis"]:
        raise InputError(f"second_axis must differ from axis, got {short(given['axis'])} for both")
    axes = [{"name": given[name], "values": given[_AXES[name]]} for name in names]
    batch = {name: given[name] for name in BATCH}
    return _measured_question(given, "repeats") | {"what": "sweep", "axes": axes, "batch": batch}


def _worded_sweep(given: Given, sentence: str) -> str:
    """Return an error `sentence` about a sweep, with the name of the endpoint's wrong parameter.

    A sentence about a value of an axis names a setting, such as draft_length. The caller gave this
    value in the parameter `values` or `second_values`, so the result begins with its name.
    """
    refused = re.split(r"[ :]", sentence, maxsplit=1)[0]
    for name, values in _AXES.items():
        axis = AXES.get(given[name])
        if axis and refused in axis.refused_as and not _is_refused(given, refused):
            return f"{values}: {sentence}"
    return sentence


def _is_refused(given: Given, name: str) -> bool:
    """Return whether the value that a call gives for its parameter `name` breaks a rule."""
    setting = (SETTINGS | BATCH).get(name)
    if setting is None or given.get(name) in (None, ""):
        return False
    try:
        setting.check(setting.read(_text(given[name], name)))
    except InputError:
        return True
    return False


def _ask_advice(given: Given) -> Question:
    question = _measured_question(given | {"method": "", "draft_length": ""})
    asked = {name: given[name] for name in ("batch_size", "seconds", "methods")}
    return question | {"what": "advice"} | asked


def _ask_profile(given: Given) -> Question:
    question = _measured_question(given)
    form = question["form"]
    return {**question["prompts"], "form": form, "task": form["task"]}


def _ask_lossless(given: Given) -> Question:
    usual = place_of(str(given["specimen"]))
    place = {name: text for name, text in usual.items() if not given.get(name)}
    question = {"form": form_of(given | place), "draws": given["draws"], "rule": given["specimen"]}
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
        "Decode a prompt as `race` does, and return each round: its drafts, p, q, u and verdicts.",
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
            Parameter("axis", str, "the setting to vary, such as draft-length", DEFAULTS["axis"]),
            Parameter("values", str, "its values, such as 1-8 or 2,4,6", DEFAULTS["values"]),
            Parameter("second_axis", str, "a second setting to vary, or empty", ""),
            Parameter("second_values", str, "the values of the second setting", ""),
            Parameter("repeats", int, "number of times to measure each value", DEFAULTS["repeats"]),
            *(_of_setting(each) for each in BATCH.values()),
            *_DRAFTING,
            *MEASURED,
        ),
        SweepResult,
        SweptPoints,
        _ask_sweep,
        lambda handlers, question: handlers.lab.measure(question),
        _worded_sweep,
    ),
    Endpoint(
        "advise",
        "Measure whether to speculate, with which method and draft length, and what to expect.",
        (
            Parameter("seconds", float, "seconds to spend on measuring", DEFAULT_SECONDS),
            Parameter("batch_size", int, "texts that are decoded at once", 1),
            Parameter(
                "methods",
                str,
                "names of methods, separated by commas; empty: all that this pair supports",
                "",
            ),
            *MEASURED,
        ),
        AdviceResult,
        lambda: Kept("advice", "doing"),
        _ask_advice,
        lambda handlers, question: handlers.lab.measure(question),
    ),
    Endpoint(
        "profile",
        "Show where many prompts lose acceptance: by token class, depth, position and entropy.",
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
            Parameter("draws", int, "number of draws", DRAWS),
            Parameter(
                "specimen",
                str,
                "rule to draw with: the right one, or a wrong one from the bug zoo",
                RIGHT,
            ),
            *(replace(each, default=_TEST_DEFAULTS.get(each.name, each.default)) for each in RACE),
        ),
        LosslessResult,
        lambda: Kept("counts"),
        _ask_lossless,
        lambda handlers, question: handlers.lab.measure(question),
    ),
)


def add_endpoints(handlers: Handlers, is_read: Callable[[str | None], bool]) -> None:
    """Register all endpoints within a `gr.Blocks`; everybody who can open the page can call them.

    `is_read` takes the name of a session. It returns whether the program that called the endpoint
    fetches the session's messages as fast as they arrive.
    """
    for endpoint in ENDPOINTS:
        _register(_follower(handlers, endpoint, is_read))

    async def claims(request: gr.Request = None) -> list[dict[str, Any]]:
        """Return what popular texts claim about speculative decoding, and what theory says.

        Returns:
            every claim with its verdict, theory's finding, and what was measured on this server
        """
        answer = await counted(handlers.lab.claims, asked_by({}, request))
        return list(_answered(answer)["claims"])

    _register(claims)
    _register(theory)


# Symbol of theory -> parameter of the endpoint `theory`.
_THEORY = {
    "a": "acceptance_rate",
    "K": "draft_length",
    "c": "cost_ratio",
    "v": "verify_overhead",
}


def theory(
    acceptance_rate: float, draft_length: int, cost_ratio: float = 0.0, verify_overhead: float = 0.0
) -> TheoryResult:
    """Predict the effect of a draft length, if tokens are accepted independently of each other.

    Parameters:
        acceptance_rate: a, from 0 to 1
        draft_length: K, tokens drafted per round
        cost_ratio: c, time of a draft forward divided by that of a target forward
        verify_overhead: v, extra time to verify K + 1 tokens instead of one, in target forwards

    Returns:
        tokens per target forward, how many of them are accepted drafts, the speedup, the best K
    """
    given = (acceptance_rate, draft_length, cost_ratio, verify_overhead)
    question = dict(zip(_THEORY, given, strict=True))
    try:
        found = theory_answer(question)
    except InputError as error:
        symbol, space, rule = str(error).partition(" ")
        raise refusal(f"{_THEORY.get(symbol, symbol)}{space}{rule}") from None
    return {
        "tokens": found["tokens"],
        "accepted": found["accepted"],
        "speedup": found["speedup"],
        "best": found["best"],
        "best_speedup": found["best_speedup"],
    }


_UNKNOWN = re.compile(r"Parameter `(.*?)` is not a valid", re.DOTALL)
_MISSING = re.compile(r"No value provided for required argument: (\w+)")
_NAMES = (*(each.name for each in ENDPOINTS), "claims", "theory")


async def call_refusal(request: Request, error: Exception) -> Response:
    """Return the answer to a call with an unknown name, or with unknown or missing parameters.

    The answer is one sentence. If the call failed for another reason, raise its error again.
    """
    name = request.url.path.rstrip("/").rpartition("/")[2]
    if name not in _NAMES:
        sentence = f"endpoint must be one of {', '.join(_NAMES)}, got {short(name)}"
    elif found := _UNKNOWN.match(str(error)):
        known = f"{name}, whose parameters /gradio_api/info lists"
        sentence = f"parameter {short(found[1])} is unknown to {known}"
    elif found := _MISSING.match(str(error)):
        sentence = f"{found[1]} is missing from the call of {name}"
    else:
        raise error
    return PlainTextResponse(sentence, 400)


CALL_ERRORS: tuple[type[Exception], ...] = (TypeError, KeyError, FnIndexInferError)


def _register(function: Callable[..., Any]) -> None:
    gr.api(function, api_name=function.__name__, concurrency_limit=None)


def refusal(sentence: str) -> gr.Error:
    """Return an error that sends `sentence` to the caller of an endpoint.

    The error is not written to the server's log.
    """
    return gr.Error(sentence, print_exception=False)


def _answered(answer: Question) -> Question:
    if answer["error"]:
        raise refusal(answer["error"])
    return answer


def _follower(
    handlers: Handlers, endpoint: Endpoint, is_read: Callable[[str | None], bool]
) -> Callable[..., Any]:
    """Return the endpoint as a function that yields its states and results.

    Gradio publishes the function's signature and docstring.
    """
    names = [each.name for each in endpoint.parameters]

    async def follow(*arguments: Any) -> AsyncIterator[dict[str, Any]]:
        *values, request = arguments
        given = dict(zip(names, values, strict=True))
        try:
            question = endpoint.ask(given)
        except InputError as error:
            raise refusal(str(error)) from None
        ticket = secrets.token_hex(16)
        taken = endpoint.take(handlers, asked_by(question | {"ticket": ticket}, request))
        if taken["error"]:
            raise refusal(endpoint.worded(given, taken["error"]))
        try:
            async for progress in _followed(handlers, ticket, endpoint.collect()):
                # Gradio keeps every message until a program fetches it, and every message
                # contains all results so far. So messages for a slow program are left out.
                if progress["state"] == DONE or is_read(request.session_hash):
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
    """Yield a run's state and its result so far, each time that the queue has news of the run."""
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
