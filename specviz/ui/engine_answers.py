"""The page's questions about serving engines: write a configuration, or translate flags.

No engine is started. A public server does not read the models that a visitor names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specviz.engines.configuration import configure
from specviz.engines.engine_registry import engines, server_adapters, servers
from specviz.engines.local_pair import read_local_pair
from specviz.engines.model_deployment import (
    NEEDS_DRAFT,
    EngineMethod,
    ModelDeployment,
)
from specviz.engines.readers.found_flags import MAX_TEXT
from specviz.engines.translation import translate
from specviz.engines.translation_answer import forms_json, translation_answer
from specviz.engines.typed_fields import read_field
from specviz.environment import Environment
from specviz.errors import InputError, short
from specviz.models.files.hub import HUB_ID
from specviz.sizing.serving_plan import ServingPlan
from specviz.sizing.shape import EAGLE, N_GRAM, PUBLISHED
from specviz.sizing.sized_plan import PAYS

METHODS = {
    EngineMethod.NONE: "none, plain decoding",
    EngineMethod.DRAFT_MODEL: "a small draft model",
    EngineMethod.PROMPT_LOOKUP: "n-grams of the prompt",
    EngineMethod.EAGLE: "an EAGLE head",
    EngineMethod.EAGLE3: "an EAGLE-3 head",
    EngineMethod.MEDUSA: "Medusa heads",
    EngineMethod.MTP: "the model’s own heads (MTP)",
    EngineMethod.SUFFIX: "suffixes of earlier answers",
    EngineMethod.DFLASH: "DFlash",
    EngineMethod.DSPARK: "DSpark",
}
# Name of a deployment's field -> its title on the page and an example.
FIELDS = {
    "target": ("Target", "org/model, or a path on the server"),
    "draft": ("Draft or head", "org/model, or a path on the server"),
    "draft_tokens": ("Draft length K", "4"),
    "lookup_min": ("Shortest n-gram", "1"),
    "lookup_max": ("Longest n-gram", "3"),
    "tensor_parallel": ("Cards", "1"),
    "draft_tensor_parallel": ("Cards that share the draft", "as many"),
    "draft_device": ("Devices of the draft’s own", "CUDA1"),
    "quantization": ("Weights", "as they are stored"),
    "draft_quantization": ("Draft’s weights", "as they are stored"),
    "max_batch": ("Most requests at once", "the engine’s own"),
    "max_length": ("Longest request, in tokens", "the model’s own"),
    "memory_fraction": ("Memory used", "0.9"),
    "port": ("Port", "the engine’s own"),
    "schedule": ("K by requests at once", "1-16:5 17-64:2 65-256:0"),
}
DRAFTS = {  # drafting method -> title of the form's field `draft` for this method
    EngineMethod.DRAFT_MODEL: "Draft model",
    EngineMethod.EAGLE: "EAGLE head, made for the target",
    EngineMethod.EAGLE3: "EAGLE-3 head, made for the target",
    EngineMethod.MEDUSA: "Medusa heads, made for the target",
    EngineMethod.MTP: "Its heads, where they lie elsewhere",
    EngineMethod.DFLASH: "DFlash model, made for the target",
    EngineMethod.DSPARK: "DSpark model, if it is in another repository",
}
# Shortest and longest n-gram to look up, as in published measurements of n-gram drafting.
LOOKUP = {"lookup_min": "1", "lookup_max": "3"}
OF_DRAFT = ("draft", "draft_tensor_parallel", "draft_device", "draft_quantization")
FORMS = {
    "command": "Command line",
    "yaml": "YAML",
    "python": "Python",
    "compose": "Docker compose",
    "kubernetes": "Kubernetes",
}
_CHAT = {each.get("source"): each.get("chat") for each in PUBLISHED.values()}
LONGEST_TEXT = 4096  # largest number of characters that a field of the form may have
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9}):(\d{1,9})")


def engines_offer() -> dict[str, Any]:
    """Return the fields of the page's form, and the engines with their methods.

    Also return the output formats of a configuration, such as YAML or a shell command.
    """
    return {
        "engines": [
            {
                "name": name,
                "title": f"{engines()[name].title} {engines()[name].version}",
                "methods": [
                    {"name": method.value, "title": METHODS[method]}
                    for method in (EngineMethod.NONE, *engines()[name].methods)
                ],
                "lacks": sorted(engines()[name].lacks),
                "weights": list(engines()[name].weights),
            }
            for name in servers()
        ],
        "fields": [
            {"name": name, "title": title, "example": example}
            for name, (title, example) in FIELDS.items()
        ],
        "drafts": {method.value: title for method, title in DRAFTS.items()},
        "of_draft": list(OF_DRAFT),
        "of_method": dict.fromkeys(LOOKUP, EngineMethod.PROMPT_LOOKUP.value),
        "forms": [{"name": name, "title": title} for name, title in FORMS.items()],
        "longest": MAX_TEXT,
    }


def configuration_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's configuration in every output format, such as YAML or a shell command.

    The question is {"engine", "fields": fields of the deployment, as texts}.
    """
    deployment, engine = _deployment(question["fields"]), _text("engine", question["engine"])
    if engine in servers():
        deployment = server_adapters()[engine].as_stored(deployment)
    pair = None if Environment.read().is_public else read_local_pair(deployment)
    found = configure(deployment, engine, pair=pair)
    chat = _CHAT.get(deployment.target)
    base = f"{deployment.target!r} is a base model, not trained to chat: for that name {chat!r}"
    return {"forms": forms_json(found), "remarks": [*found.remarks, *([base] if chat else [])]}


def translated_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the translation of each flag in a text, and the configuration in every output format.

    The question is {"text", "to"}. "to" names an engine; "" keeps the engine of the text.
    """
    text = question["text"]
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f"text must be a command, code, JSON or YAML of an engine, got {short(text)}"
        )
    read_pair = None if Environment.read().is_public else read_local_pair
    found = translate(text, _text("to", question.get("to", "")) or None, read_pair)
    return translation_answer(found)


def planned_fields(
    plan: ServingPlan, size: Mapping[str, Any], names: Mapping[str, Any]
) -> dict[str, str] | None:
    """Return the fields of the configuration form for a sized plan, or None if it does not fit.

    `size` is what `sizing_answer.size` returns for the plan. `names` has the presets and Hub
    repositories of the plan's models. If speculation never gains, the method is plain decoding. The
    name of a pasted model, or of an unknown EAGLE head, stays empty, and the user fills it in.
    """
    if not size["fits"]:
        return None
    draft = names.get("draft")
    method = {EAGLE: EngineMethod.EAGLE, N_GRAM: EngineMethod.PROMPT_LOOKUP}.get(
        str(draft), EngineMethod.DRAFT_MODEL
    )
    is_gain, seats, rows = _planned_use(plan, size)
    if not is_gain:
        method = EngineMethod.NONE
    ranges = [each for each in size["lengths"] if each["first"] <= seats]
    K = next(each["K"] for each in size["lengths"] if rows <= each["last"]) or size["draft_length"]
    parts = (f"{each['first']}-{min(each['last'], seats)}:{each['K']}" for each in ranges)
    preset = PUBLISHED.get(str(names.get("target")), {})
    head = str(preset.get("eagle", "")) if method is EngineMethod.EAGLE else ""
    return {
        "target": _repository(names.get("target")),
        "method": method.value,
        "draft": head or (_repository(draft) if method in NEEDS_DRAFT else ""),
        "draft_tokens": str(K),
        **(LOOKUP if method is EngineMethod.PROMPT_LOOKUP else {}),
        "tensor_parallel": str(plan.gpus),
        "draft_tensor_parallel": str(plan.draft_gpus or ""),
        "draft_device": "",
        "quantization": _format(plan.precision),
        "draft_quantization": _format(plan.draft_precision) if method in NEEDS_DRAFT else "",
        "max_batch": str(seats),
        "max_length": str(plan.prompt + plan.output + max(each["K"] for each in ranges)),
        "memory_fraction": f"{plan.memory_share:g}",
        "port": "",
        "schedule": " ".join(parts) if len(ranges) > 1 else "",
    }


def _planned_use(plan: ServingPlan, size: Mapping[str, Any]) -> tuple[bool, int, int]:
    """Return whether the plan speculates, its concurrency, and the batch size that decides K.

    For a batch job, both numbers are the batch size that finishes the job soonest. Otherwise the
    concurrency is the batch size with the highest rate of requests within both latency limits. If
    no batch size meets the limits, it is the number of sequences that fit. The planned batch size,
    at most the concurrency, then decides K.
    """
    fast, plain = size["speculative"], size["plain"]
    if plan.job is None:
        seats = max(1, fast["batch_within_limits"] or fast["seats"])
        return size["verdict"] != "no", seats, min(plan.batch, seats)
    is_gain = PAYS * fast["job_seconds"] <= plain["job_seconds"]
    rows = (fast if is_gain else plain)["job_batch"]
    return is_gain, rows, rows


def _format(precision: str) -> str:
    """Return the text of the form's field for the weight format of a planned model.

    It is "fp8" if the engine converts the weights to this format, or the tag of a GGUF file. For
    all other formats it is "", because the repository must already have the weights in that format.
    """
    tag = precision.upper()
    is_tag = precision.startswith("q") and any(tag in each.weights for each in engines().values())
    return tag if is_tag else precision if precision == "fp8" else ""


def _repository(name: Any) -> str:
    """Return the Hub repository of a preset, or the name itself.

    If the preset also has a repository of the model trained to chat, return that repository.
    """
    preset = PUBLISHED.get(str(name))
    if preset is not None:
        return str(preset.get("chat", preset.get("source", "")))
    return str(name) if HUB_ID.fullmatch(str(name)) and name not in (EAGLE, N_GRAM) else ""


def _deployment(fields: Any) -> ModelDeployment:
    if not isinstance(fields, dict):
        raise InputError(f"fields must be an object, got {short(fields)}")
    unknown = sorted(set(fields) - {*FIELDS, "method"})
    if unknown:
        raise InputError(f"field must be one of {', '.join(FIELDS)}, got {short(unknown[0])}")
    texts = {name: _text(name, value).strip() for name, value in fields.items()}
    method = _method(texts.pop("method", EngineMethod.NONE.value))
    if not texts.get("target"):
        raise InputError("target must be the name or path of a model, got none")
    ranges = texts.pop("schedule", "")
    given = {name: read_field(name, text) for name, text in texts.items() if text}
    return ModelDeployment(
        **given | {"method": method, "schedule": read_field("schedule", _ranges(ranges))}
    )


def _method(name: str) -> EngineMethod:
    try:
        return EngineMethod(name)
    except ValueError:
        names = ", ".join(each.value for each in EngineMethod)
        raise InputError(f"method must be one of {names}, got {short(name)}") from None


def _ranges(text: str) -> list[list[str]]:
    """Return `1-16:5 17-64:2` as lists of first batch size, last batch size and K."""
    found = [_RANGE.fullmatch(each) for each in text.split()]
    if None in found:
        raise InputError(
            f"schedule must be ranges such as {FIELDS['schedule'][1]}, got {short(text)}"
        )
    return [list(each.groups()) for each in found if each]


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise InputError(
            f"{name} must be a text of at most {LONGEST_TEXT:,} characters, got {short(value)}"
        )
    return value
