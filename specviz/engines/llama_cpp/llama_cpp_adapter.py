"""The settings of llama.cpp: how they are read and written, and what llama.cpp refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from specviz.engines.engine_adapter import (
    ONLY_LOOKUP,
    Needless,
    Options,
    RepositoryFile,
    ServerAdapter,
)
from specviz.engines.flag_values import words_of_value
from specviz.engines.llama_cpp.llama_cpp_api import LlamaCppApi
from specviz.engines.llama_cpp.model_sources import repository_files
from specviz.engines.model_deployment import MAY_HAVE_DRAFT, EngineMethod, ModelDeployment
from specviz.engines.model_names import is_file
from specviz.engines.readers.found_flags import PastedFlag
from specviz.engines.typed_fields import WEIGHTS, Heard, read_integer

_SPECULATIVE_TYPE = "COMMON_SPECULATIVE_TYPE_"


class LlamaCppAdapter(ServerAdapter):
    name = "llama.cpp"
    of_methods = "type"
    meant: ClassVar = {
        **{"context": "max_length", "lookup_size": "lookup_max"},
        "lookup_tokens": "draft_tokens",
    }
    api = LlamaCppApi()
    within: ClassVar = {"quantization": "target", "draft_quantization": "draft"}
    only: ClassVar = dict.fromkeys(("lookup_size", "lookup_tokens"), ONLY_LOOKUP)
    _MODELS = (
        ("--hf-repo", "--model", "quantization"),
        ("--spec-draft-hf", "--spec-draft-model", "draft_quantization"),
    )
    _DEVICE = "--spec-draft-device"

    def setting_at(self, path: str, whole: str) -> tuple[str, str] | None:
        known = {flag.python: flag.name for flag in self.facts.flags}
        return (known[path], path) if path in known else None

    def constant(self, name: str) -> str | None:
        kind = name.removeprefix(_SPECULATIVE_TYPE)
        return None if kind == name else kind.lower().replace("_", "-")

    def options(self, deployment: ModelDeployment) -> Options:
        found = self.plain(deployment)
        lacking = {field for field, _ in self.lacking(deployment)}
        for hub, file, field in self._MODELS:
            name, tag = found.get(file), getattr(deployment, field)
            if name is None:
                continue
            found.pop(hub if is_file(name) else file)
            if tag is not None and field not in lacking:
                found[hub] = f"{name}:{tag}"
        if deployment.max_length is not None:
            found["--ctx-size"] = deployment.max_length * (deployment.max_batch or 1)
        if deployment.method is EngineMethod.PROMPT_LOOKUP:
            longest = deployment.lookup_max or deployment.lookup_min
            depth = found.pop("--spec-draft-n-max", None)
            given = (("size-n", longest), ("size-m", depth))
            found |= {f"--spec-ngram-simple-{end}": each for end, each in given if each is not None}
        return found

    def python(self, options: Options) -> str:
        lines = ["import xllamacpp", "", "params = xllamacpp.CommonParams()"]
        for name, value in options.items():
            flag = self.facts.current.get(name)
            if flag is None:
                words = " ".join([name, *words_of_value(value)])
                lines.append(f"# {words}: see the fields of CommonParams")
            else:
                lines.append(f"params.{flag.python_name} = {_python_value(name, value)}")
        return "\n".join([*lines, "server = xllamacpp.Server(params)", ""])

    def refusals(self, deployment: ModelDeployment) -> Iterator[str]:
        if deployment.mixed_vocabularies:
            yield (
                "mixed-vocabularies must be off in llama.cpp: with a draft of another vocabulary "
                "it works without speculation, and its health check does not show that"
            )

    def model_remarks(
        self, deployment: ModelDeployment, further: Mapping[str, Any]
    ) -> Iterator[str]:
        brings_models = bool(self.facts.presets & further.keys())
        if "gguf" not in deployment.target.lower() and not brings_models:
            kind = "file" if is_file(deployment.target) else "repository"
            yield f"llama.cpp reads GGUF: {deployment.target!r} must be a GGUF {kind}"

    def repository_files(self, flags: Sequence[PastedFlag]) -> list[RepositoryFile]:
        return repository_files(flags, self.facts)

    def lacking(self, deployment: ModelDeployment) -> Iterator[tuple[str, str]]:
        yield from super().lacking(deployment)
        least, most = deployment.lookup_min, deployment.lookup_max
        if least is not None and most is not None and least != most:
            yield "lookup_min", f"it looks for n-grams of one length; the longest, {most}, is used"
        for field, name in zip(WEIGHTS, (deployment.target, deployment.draft), strict=True):
            if getattr(deployment, field) is not None and name is not None and is_file(name):
                yield (
                    field,
                    "a GGUF file has its weights in one format: choose a file in that format",
                )
        served = self.facts.methods.get(deployment.method)
        if deployment.draft_device is not None and served and self._DEVICE not in served.fields:
            yield "draft_device", f"{served.name} has no device setting of its own"

    def kept_method(self, typed: Any) -> tuple[str, dict[str, str]]:
        lookup = self.facts.methods[EngineMethod.PROMPT_LOOKUP]
        kinds = [kind for kind in _listed(typed) if kind != "none"]
        n_grams = [kind for kind in kinds if kind in (lookup.name, *lookup.also)]
        if len(kinds) < 2 and n_grams in ([], [lookup.name]):
            return "", {}
        kind = "ngram-mod" if "ngram-mod" in kinds else [*n_grams, lookup.name][0]
        passed = ("--spec-ngram-", "--spec-draft-n-m") if kinds == n_grams else "--spec-ngram-"
        own = {name: name for name in self.facts.known if name.startswith(passed)}
        for end in ("size-n", "size-m", "min-hits"):
            own[f"--spec-ngram-{end}"] = f"--spec-{kind}-{end}"
        general = "--spec-draft-n-"
        if kind == "ngram-mod":
            own["--spec-ngram-size-n"], general = "--spec-ngram-mod-n-match", "--spec-ngram-mod-n-"
        for name in self.facts.older if kinds == n_grams else ():
            if name.startswith("--draft"):
                own[name] = general + ("min" if "min" in name else "max")
        return ",".join(kinds), own

    def settle(self, heard: Heard, old: frozenset[str]) -> Iterator[str | Needless]:
        for role, field in zip(("target", "draft"), WEIGHTS, strict=True):
            name, colon, tag = str(heard.get(role, "")).rpartition(":")
            if colon and not is_file(str(heard[role])) and self.facts.has_weights(tag):
                heard |= {role: name, field: tag}
        size, tokens = heard.pop("lookup_size", None), heard.pop("lookup_tokens", None)
        typed = heard.pop("method", None)
        names = [name for name in _listed(typed) if name != "none"]
        methods = [self.method_named(name) for name in names]
        # If the text names several methods, the first method that can use a draft is chosen.
        if methods:
            heard["method"] = next((each for each in methods if each in MAY_HAVE_DRAFT), methods[0])
        elif "draft" in heard:
            heard["method"] = EngineMethod.DRAFT_MODEL
        elif size is not None or tokens is not None:
            heard["method"] = EngineMethod.PROMPT_LOOKUP
        if heard.get("method") is EngineMethod.PROMPT_LOOKUP:
            if size is not None:
                heard["lookup_min"] = heard["lookup_max"] = size
            if tokens is not None:
                heard["draft_tokens"] = tokens
        if isinstance(heard.get("draft_sampling"), bool):
            sampled = heard["draft_sampling"]
            heard["draft_sampling"] = "probabilistic" if sampled else "greedy"
        context = heard.pop("context", None)
        if context is not None and (length := read_integer(context, "context")) > 0:
            slots = read_integer(heard.get("max_batch", 1), "parallel")
            heard["max_length"] = length // max(slots, 1)
        return iter(())


def _listed(typed: Any) -> list[str]:
    names = typed if isinstance(typed, list | tuple) else str(typed or "").split(",")
    return [str(name).strip() for name in names if str(name).strip()]


def speculative_type(name: str) -> str:
    """Return the name that the xllamacpp library has for a kind of speculation.

    >>> speculative_type("draft-simple")
    'COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE'
    """
    return f"{_SPECULATIVE_TYPE}{name.upper().replace('-', '_')}"


def _python_value(name: str, value: Any) -> str:
    if name == "--spec-type":
        kinds = map(speculative_type, value.split(","))
        return f"[{', '.join(f'xllamacpp.common_speculative_type.{each}' for each in kinds)}]"
    if name == "--spec-draft-sampling":
        return repr(value == "probabilistic")
    return repr(value)


ADAPTER = LlamaCppAdapter()
