"""Find the shape of a model in a file, a folder, a repository or a configuration.

The shape is the numbers of layers, heads, tokens in the vocabulary and parameters; see
`sizing.shape.ModelShape`. A process with limits counts the parameters, because a configuration may
be hostile.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specviz.environment import Environment
from specviz.errors import InputError
from specviz.models.files.config_bounds import read_config_file
from specviz.models.files.hub import fetch_configuration, is_on_the_hub
from specviz.models.limited_process import Limits, NoAnswer, ask_limited
from specviz.sizing.shape import Counted, ModelShape, shape_of_config

# Limits of the process that counts a model's parameters. Counting takes 4.3 s for a model with 512
# layers and 128 experts.
LIMITS = Limits(seconds=20, memory=2_000_000_000)
_COUNT = "specviz.models.files.model_counts:counted_config"


def shape_of_source(source: str) -> ModelShape:
    """Return the shape of a model; `source` is a file, a folder or a Hub id.

    Only the model's configuration is read.
    """
    path = Path(os.path.expanduser(source))
    if not path.is_file():
        is_named = is_on_the_hub(source)
        path = fetch_configuration(source, Environment.read()) if is_named else path / "config.json"
    return shape_of_content(read_config_file(source, path), source)


def shape_of_content(content: Mapping[str, Any], title: str) -> ModelShape:
    """Return the shape in a config.json whose numbers were checked.

    The parameters are counted exactly if transformers knows the model. Raises InputError if
    counting takes too much time or memory.
    """
    # Without the field `model_type`, transformers does not know which class the model has, so the
    # parameters cannot be counted.
    if not isinstance(content.get("model_type"), str):
        return shape_of_config(content, title)
    try:
        found = ask_limited(_COUNT, content, LIMITS)
    except NoAnswer:
        raise InputError(
            f"model {title!r} must have a configuration whose parameters can be counted within "
            f"{LIMITS}: choose the nearest preset"
        ) from None
    return shape_of_counts(found, title)


def shape_of_counts(found: Mapping[str, Any], title: str) -> ModelShape:
    """Convert a result of `counted_config` to the shape of a model."""
    config, counts = found["config"], found["counts"]
    if counts is None:
        return shape_of_config(config, title, unknown_class=str(config["model_type"]))
    return shape_of_config(config, title, Counted(**counts))
