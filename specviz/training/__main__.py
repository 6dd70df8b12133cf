"""Make the bundled models from a corpus folder: `python -m specviz.training`.

Progress goes to stderr. Invalid input ends with a one-line message and exit status 2.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from specviz.models.allocator import keep_freed_memory
from specviz.training.family import make_family
from specviz.training.options import OneLineParser
from specviz.training.plan import FamilyPlan, Step


def main(arguments: list[str] | None = None) -> int:
    """Make the bundled models as the command line says, and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        plan = _plan(options)
        keep_freed_memory(of_any_size=True)
        measured = make_family(plan)
    except ValueError as error:
        print(f"specviz.training: {error}", file=sys.stderr)
        return 2
    print(json.dumps({step: found.get("scores", found) for step, found in measured.items()}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="specviz.training", description="Make the bundled model family.")
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the source files")
    parser.add_argument("--output", type=Path, required=True, help="folder for the models")
    parser.add_argument(
        "--minutes", type=float, required=True, help="wall-clock time of all training, in minutes"
    )
    parser.add_argument(
        "--work", type=Path, default=Path("build/models"), help="folder for checkpoints"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        type=Step,
        choices=tuple(Step),
        default=tuple(Step),
        metavar="STEP",
        help=f"run only these steps, of {', '.join(Step)}; without pair, the output folder must"
        " contain a target",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    return parser


def _plan(options: argparse.Namespace) -> FamilyPlan:
    if not options.minutes > 0:
        raise ValueError(f"minutes must be > 0, got {options.minutes}")
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device must be available here, got {options.device!r}")
    return FamilyPlan(
        options.corpus,
        options.output,
        options.work,
        options.minutes,
        tuple(options.only),
        options.device,
    )


if __name__ == "__main__":
    sys.exit(main())
