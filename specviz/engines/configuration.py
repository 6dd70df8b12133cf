"""Write a deployment as a configuration that today's engines can read.

The forms are a command line, YAML, Python, docker compose and a Kubernetes manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import yaml

from specviz.engines.engine_adapter import Options
from specviz.engines.engine_facts import EngineFacts
from specviz.engines.engine_registry import server_adapters, server_named
from specviz.engines.engine_rules import problems, remarks
from specviz.engines.flag_values import folded, literal_value, word_of, words_of_value
from specviz.engines.model_deployment import NO_TARGET, ModelDeployment
from specviz.engines.served_pair import ServedPair
from specviz.engines.shell_text import quoted
from specviz.errors import InputError

_HUB_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
_TOKEN_OF_SHELL = (
    "# Models behind a licence need a token: export HF_TOKEN=… before docker compose up\n"
)
_EXPECTED_OF_CLUSTER = (
    "# It expects a PersistentVolumeClaim called models, and for models behind a licence a token:\n"
    "# kubectl create secret generic hf-token --from-literal=token=…\n"
)
_FILE = "config.yaml"
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
    adapter = server_adapters()[engine]
    found = problems(deployment, facts, pair)
    if found:
        raise InputError(found[0])
    options = adapter.options(deployment) | dict(further or {})
    if facts.presets & options.keys():
        options = {name: value for name, value in options.items() if value != NO_TARGET}
    return Configuration(
        engine=engine,
        version=facts.version,
        options=options,
        command=_command(facts, options, variables),
        yaml=_config_file(facts, options),
        python=adapter.python(options),
        compose=_compose(facts, options, deployment),
        kubernetes=_kubernetes(facts, options, deployment) if facts.kubernetes else "",
        remarks=remarks(deployment, facts, further),
    )


def _positional(facts: EngineFacts, options: Options) -> tuple[list[str], Options]:
    """Return the words that come before all flags, and the flags.

    Some engines take the model's name as such a word, so it is then not among the flags.
    """
    others = {name: value for name, value in options.items() if name != facts.positional}
    return [options[facts.positional]] if facts.positional else [], others


def _flags(facts: EngineFacts, options: Options) -> Iterator[list[str]]:
    """Yield the command-line words of each flag: its name, then its value.

    If the engine collects the values of a repeated flag in a list, the flag is repeated once for
    each value.
    """
    for name, value in folded(options):
        if value is False and name in facts.negatable:
            yield [f"--no-{name[2:]}"]
        elif isinstance(value, tuple) and name in facts.appended:
            yield from ([facts.shown(name), word_of(each)] for each in value)
        else:
            yield [facts.shown(name), *words_of_value(value)]


def _command(facts: EngineFacts, options: Options, variables: Collection[str]) -> str:
    inside, outside = _file_and_flags(facts, options)
    command = _INDENT.join(
        " ".join(quoted(word, variables) for word in line) for line in _lines(facts, outside)
    )
    if not inside:
        return f"{command}\n"
    file = _yaml(inside)
    # In quotes, the mark of the file's end keeps the shell from expanding variables in the file.
    mark = "EOF" if any(each in file for each in variables) else "'EOF'"
    named = f"{facts.shown(facts.file_flags[0])} {_FILE}"
    return f"cat > {_FILE} <<{mark}\n{file}EOF\n{command}{_INDENT}{named}\n"


def _lines(facts: EngineFacts, options: Options) -> list[list[str]]:
    named, others = _positional(facts, options)
    return [[*facts.start, *named], *_flags(facts, others)]


def _file_and_flags(facts: EngineFacts, options: Options) -> tuple[dict[str, Any], Options]:
    """Return the settings that have no flag, as the data of a file, and the other settings."""
    inside = {name: value for name, value in options.items() if facts.is_in_file(name)}
    outside = {name: value for name, value in options.items() if name not in inside}
    data = {facts.shown(name)[2:]: literal_value(value) for name, value in folded(inside)}
    return data, outside


class _YamlWriter(yaml.SafeDumper):  # type: ignore[misc]
    """Writes an expression of Python code (`SourceText`) as the text that it is."""


_YamlWriter.add_multi_representer(str, _YamlWriter.represent_str)


def _yaml(data: Any) -> str:
    options = {"sort_keys": False, "width": 4096, "allow_unicode": True}
    return str(yaml.dump(data, Dumper=_YamlWriter, **options))


def _config_file(facts: EngineFacts, options: Options) -> str:
    """Return the YAML file of an engine, in which each key is the name of a flag.

    A file can contain each flag once. Flags that must be repeated are written in its first comment,
    after the name of the file.
    """
    inside, outside = _file_and_flags(facts, options)
    if inside:
        words = [quoted(word, ()) for word in chain(*_lines(facts, outside))]
        named = [facts.shown(facts.file_flags[0]), _FILE]
        return f"# {' '.join([*words, *named])}\n{_yaml(inside)}"
    if not facts.config_file:
        return ""
    again = {name: options[name] for name in facts.appended & options.keys()}
    behind = (quoted(word, ()) for word in chain(*_flags(facts, again)))
    start = [facts.config_file.replace("FILE", _FILE), *behind]
    single = {name[2:]: value for name, value in folded(options) if name not in again}
    plain = {
        key: word_of(each) if isinstance(each, dict) else literal_value(each)
        for key, each in single.items()
    }
    return f"# {' '.join(start)}\n{_yaml(plain)}"


def _port(facts: EngineFacts, deployment: ModelDeployment) -> int:
    return deployment.port or facts.port


def _in_container(facts: EngineFacts, options: Options, port: int) -> list[str]:
    """Return the arguments of a server inside a container."""
    named, others = _positional(facts, options)
    flags = _flags(facts, {**others, "--host": "0.0.0.0", "--port": port})
    return [*named, *chain(*flags)]


def _compose(facts: EngineFacts, options: Options, deployment: ModelDeployment) -> str:
    if not facts.image:
        return ""
    port = _port(facts, deployment)
    named = (deployment.target, deployment.draft)
    folders = [name for name in named if name and name.startswith("/")]
    cards = {"driver": "nvidia", "count": deployment.tensor_parallel, "capabilities": ["gpu"]}
    service: dict[str, Any] = {"image": facts.image}
    if not facts.image_starts:
        service["entrypoint"] = list(facts.start)
    service |= {
        "command": _in_container(facts, options, port),
        "environment": {"HF_TOKEN": "${HF_TOKEN:-}"},
        "ports": [f"{port}:{port}"],
        "volumes": [_HUB_CACHE, *(f"{each}:{each}:ro" for each in folders)],
        "ipc": "host",
        "deploy": {"resources": {"reservations": {"devices": [cards]}}},
    }
    services = _yaml({"services": {_service(facts): service}})
    return f"{_TOKEN_OF_SHELL}{services}"


def _service(facts: EngineFacts) -> str:
    return facts.name.replace(".", "-")


def _probe(port: int) -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 10}


def _kubernetes(facts: EngineFacts, options: Options, deployment: ModelDeployment) -> str:
    """Return a Kubernetes Deployment on the GPUs of one node, and a Service for it."""
    port, name = _port(facts, deployment), _service(facts)
    gpus = {"nvidia.com/gpu": deployment.tensor_parallel}
    token = {"name": "hf-token", "key": "token", "optional": True}
    container = {
        "name": name,
        "image": facts.image,
        "command": list(facts.start),
        "args": _in_container(facts, options, port),
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
