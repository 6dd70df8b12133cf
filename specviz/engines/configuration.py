"""Write a deployment as a configuration that today's engines can read.

The forms are a command line, YAML, Python, docker compose and, for vLLM, a Kubernetes manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import yaml

from specviz.engines.dialects import DIALECTS, Options
from specviz.engines.engine_facts import SPECULATIVE, EngineFacts, server_named
from specviz.engines.engine_rules import ServedPair, problems, remarks
from specviz.engines.model_deployment import NO_TARGET, ModelDeployment
from specviz.engines.shell_text import quoted
from specviz.errors import InputError

DEFAULT_PORTS = {"vllm": 8000, "sglang": 30_000, "llama.cpp": 8080}
_HUB_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
_TOKEN_OF_SHELL = (
    "# Models behind a licence need a token: export HF_TOKEN=… before docker compose up\n"
)
_EXPECTED_OF_CLUSTER = (
    "# It expects a PersistentVolumeClaim called models, and for models behind a licence a token:\n"
    "# kubectl create secret generic hf-token --from-literal=token=…\n"
)
_INDENT = " \\\n    "


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of one deployment, as a text in each output format.

    A text is "" if the engine cannot read that format.
    """

    engine: str
    version: str
    options: Options
    command: str
    yaml: str
    python: str
    compose: str
    kubernetes: str
    remarks: tuple[str, ...]

    @property
    def forms(self) -> dict[str, str]:
        """Return the forms that have a text, as a map from the form's title to the text."""
        named = {
            "command line": self.command,
            "YAML": self.yaml,
            "Python": self.python,
            "docker compose": self.compose,
            "Kubernetes": self.kubernetes,
        }
        return {title: text for title, text in named.items() if text}


def configure(
    deployment: ModelDeployment,
    engine: str,
    further: Mapping[str, Any] | None = None,
    pair: ServedPair | None = None,
    variables: Collection[str] = (),
) -> Configuration:
    """Return the configuration of one engine for a deployment.

    `further` are flags that are passed on unchanged. `variables` are shell variables that the
    command must contain unchanged. Raises InputError if the engine would refuse the deployment.
    """
    facts = server_named(engine)
    found = problems(deployment, facts, pair)
    if found:
        raise InputError(found[0])
    options = DIALECTS[engine].options(deployment) | dict(further or {})
    if facts.presets & options.keys():
        options = {name: value for name, value in options.items() if value != NO_TARGET}
    return Configuration(
        engine=engine,
        version=facts.version,
        options=options,
        command=_command(facts, options, variables),
        yaml=_config_file(facts, options),
        python=_python(facts, options),
        compose=_compose(facts, options, deployment),
        kubernetes=_kubernetes(facts, options, deployment) if engine == "vllm" else "",
        remarks=remarks(deployment, facts, further),
    )


def _start(facts: EngineFacts, options: Options) -> tuple[list[str], Options]:
    """Return the words that start the server, and the flags that these words do not contain yet.

    `vllm serve` takes the model's name as a word, so --model is then no longer among the flags.
    """
    if facts.name == "vllm":
        others = {name: value for name, value in options.items() if name != "--model"}
        return ["vllm", "serve", options["--model"]], others
    if facts.name == "sglang":
        return ["python3", "-m", "sglang.launch_server"], options
    return ["llama-server"], options


def _flags(facts: EngineFacts, options: Options) -> Iterator[list[str]]:
    """Yield the command-line words of each flag: its name, then its value.

    If the engine collects the values of a repeated flag in a list, the flag is repeated once for
    each value.
    """
    for name, value in _folded(options):
        if value is False and name in facts.negatable:
            yield [f"--no-{name[2:]}"]
        elif isinstance(value, tuple) and name in facts.appended:
            yield from ([name, _word(each)] for each in value)
        else:
            yield [name, *_words(value)]


def _folded(options: Options) -> Iterable[tuple[str, Any]]:
    """Yield each flag with its value. Parts of an object (--flag.key) become one flag with a dict.

    vLLM's --speculative-config comes last.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        *within, key = name.replace(SPECULATIVE, "--speculative-config.").split(".")
        inner = found
        for each in within:
            if not isinstance(inner.get(each), dict):
                inner[each] = {}
            inner = inner[each]
        inner[key] = value
    speculative = found.pop("--speculative-config", None)
    yield from found.items()
    if speculative:
        yield "--speculative-config", speculative


def _words(value: Any) -> list[str]:
    if value is True:
        return []
    return list(map(_word, value)) if isinstance(value, tuple) else [_word(value)]


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _literal(value: Any) -> Any:
    """Convert a word of a command line, or several words, to the value for a file or for Python."""
    if isinstance(value, tuple):
        return list(map(_literal, value))
    is_number = isinstance(value, str) and re.fullmatch(r"-?\d{1,400}(\.\d+)?", value)
    return json.loads(value) if is_number else value


def _command(facts: EngineFacts, options: Options, variables: Collection[str]) -> str:
    start, others = _start(facts, options)
    lines = [start, *_flags(facts, others)]
    return _INDENT.join(" ".join(quoted(w, variables) for w in line) for line in lines) + "\n"


def _yaml(data: Any) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, width=4096, allow_unicode=True))


def _config_file(facts: EngineFacts, options: Options) -> str:
    """Return the YAML file of SGLang or vLLM, in which each key is the name of a flag.

    A file can contain each flag once. Flags that must be repeated are written in its first comment,
    after the name of the file.
    """
    if not facts.config_file:
        return ""
    again = {name: options[name] for name in facts.appended & options.keys()}
    behind = (quoted(word, ()) for word in chain(*_flags(facts, again)))
    start = [facts.config_file.replace("FILE", "config.yaml"), *behind]
    single = {name[2:]: value for name, value in _folded(options) if name not in again}
    plain = {
        key: _word(each) if isinstance(each, dict) else _literal(each)
        for key, each in single.items()
    }
    return f"# {' '.join(start)}\n{_yaml(plain)}"


def _python(facts: EngineFacts, options: Options) -> str:
    if facts.name == "llama.cpp":
        return _xllamacpp(facts, options)
    named = {
        name.lstrip("-").replace("-", "_"): _argument(facts, name, value)
        for name, value in _folded(options)
        if name not in facts.server
    }
    arguments = "".join(f"    {name}={value!r},\n" for name, value in named.items())
    if facts.name == "sglang":
        indented = arguments.replace("    ", "        ", 1).replace("\n    ", "\n        ")
        return (
            "import sglang\n\n"
            'if __name__ == "__main__":  # it starts processes that import this file\n'
            f"    engine = sglang.Engine(\n{indented}    )\n"
        )
    return f"from vllm import LLM\n\nllm = LLM(\n{arguments})\n"


def _argument(facts: EngineFacts, name: str, value: Any) -> Any:
    """Convert the JSON text of an object to the object. Only a shell needs the text."""
    try:
        return json.loads(value) if name in facts.objects else _literal(value)
    except (TypeError, ValueError):
        # Keep a value that is not JSON text. The engine may have a format of its own for it.
        return value


def _xllamacpp(facts: EngineFacts, options: Options) -> str:
    lines = ["import xllamacpp", "", "params = xllamacpp.CommonParams()"]
    for name, value in options.items():
        flag = facts.current.get(name)
        if flag is None:
            words = " ".join([name, *_words(value)])
            lines.append(f"# {words}: see the fields of CommonParams")
        else:
            lines.append(f"params.{flag.python_name} = {_python_value(name, value)}")
    return "\n".join([*lines, "server = xllamacpp.Server(params)", ""])


def speculative_type(name: str) -> str:
    """Return the name that the xllamacpp library has for a kind of speculation.

    >>> speculative_type("draft-simple")
    'COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE'
    """
    return f"COMMON_SPECULATIVE_TYPE_{name.upper().replace('-', '_')}"


def _python_value(name: str, value: Any) -> str:
    if name == "--spec-type":
        kinds = map(speculative_type, value.split(","))
        return f"[{', '.join(f'xllamacpp.common_speculative_type.{each}' for each in kinds)}]"
    if name == "--spec-draft-sampling":
        return repr(value == "probabilistic")
    return repr(value)


def _port(facts: EngineFacts, deployment: ModelDeployment) -> int:
    return deployment.port or DEFAULT_PORTS[facts.name]


def _in_container(facts: EngineFacts, options: Options, port: int) -> tuple[list[str], list[str]]:
    """Return the program and its arguments for a server inside a container."""
    start, others = _start(facts, options)
    flags = _flags(facts, {**others, "--host": "0.0.0.0", "--port": port})
    words = [word for flag in flags for word in flag]
    if facts.name == "vllm":
        return start[:2], [start[2], *words]
    return start, words


def _compose(facts: EngineFacts, options: Options, deployment: ModelDeployment) -> str:
    port = _port(facts, deployment)
    program, arguments = _in_container(facts, options, port)
    if facts.name == "llama.cpp":  # the image of llama.cpp starts the server itself
        program = []
    named = (deployment.target, deployment.draft)
    folders = [name for name in named if name and name.startswith("/")]
    cards = {"driver": "nvidia", "count": deployment.tensor_parallel, "capabilities": ["gpu"]}
    service: dict[str, Any] = {"image": facts.image}
    if program:
        service["entrypoint"] = program
    service |= {
        "command": arguments,
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}"},
        "ports": [f"{port}:{port}"],
        "volumes": [_HUB_CACHE, *(f"{each}:{each}:ro" for each in folders)],
        "ipc": "host",
        "deploy": {"resources": {"reservations": {"devices": [cards]}}},
    }
    services = _yaml({"services": {facts.name.replace(".", "-"): service}})
    return f"{_TOKEN_OF_SHELL}{services}"


def _probe(port: int) -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 10}


def _kubernetes(facts: EngineFacts, options: Options, deployment: ModelDeployment) -> str:
    """Return a Kubernetes Deployment on the GPUs of one node, and a Service for it."""
    port, name = _port(facts, deployment), "vllm"
    program, arguments = _in_container(facts, options, port)
    gpus = {"nvidia.com/gpu": deployment.tensor_parallel}
    token = {"name": "hf-token", "key": "token", "optional": True}
    container = {
        "name": name,
        "image": facts.image,
        "command": program,
        "args": arguments,
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}}],
        "ports": [{"containerPort": port}],
        "resources": {"limits": gpus, "requests": dict(gpus)},
        "readinessProbe": _probe(port),
        "startupProbe": _probe(port) | {"failureThreshold": 180},
        "volumeMounts": [
            {"name": "shared-memory", "mountPath": "/dev/shm"},
            {"name": "models", "mountPath": "/root/.cache/huggingface"},
        ],
    }
    pods = {
        "containers": [container],
        "volumes": [
            # The processes of a model on several GPUs communicate through shared memory.
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
            {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        ],
    }
    labels = {"app": name}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pods},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": dict(labels), "ports": [{"port": port, "targetPort": port}]},
    }
    return f"{_EXPECTED_OF_CLUSTER}{_yaml(manifest)}---\n{_yaml(service)}"
