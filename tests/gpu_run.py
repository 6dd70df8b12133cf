"""Everything that only a GPU can show, written to one folder: `make gpu`.

    python -m tests.gpu_run --output gpu-results              every part
    python -m tests.gpu_run --output gpu-results steps races  some of them
    python -m tests.gpu_run --output rehearsal --device cpu   a rehearsal, in small

Each part ends within nine minutes and can be called alone. A part's commands are those of the
command line; what each printed lies in a file named after it, and `index.json` says how it ended,
how long it took and how much memory of the GPU was in use at most. A command that has succeeded is
not run again, so that a run that was cut off goes on. Nothing is fetched: the chat model takes part
where it is on this machine (`make chat`, or a folder SPECVIZ_CACHE that holds it).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specviz.models.pair_catalog import BUNDLED, CHAT, pair_named

ROOT = Path(__file__).resolve().parents[1]
PART_SECONDS = 9 * 60
POLL_SECONDS = 0.5
MEMORY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")

# The bundled target in the shape of a model of 7.6 billion weights; in a rehearsal, a little wider.
# Scales by powers of four are exact in bfloat16.
LARGE = {
    "hidden_size": 6144, "num_attention_heads": 96, "num_key_value_heads": 12,
    "intermediate_size": 16384, "num_hidden_layers": 20,
}  # fmt: skip
REHEARSED = {"intermediate_size": 2048}

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scale:
    """What a part runs on, and how much of it."""

    device: str
    dtype: str
    shape: dict[str, int]
    new_tokens: int
    batch_sizes: str
    draft_lengths: str


GPU = Scale("cuda", "bfloat16", LARGE, 256, "1,2,4,8,16,32,64", "1-8")
REHEARSAL = Scale("cpu", "float32", REHEARSED, 8, "1,2", "1-2")


@dataclass(frozen=True, slots=True)
class Bench:
    """The models at hand, and the commands of every part."""

    scale: Scale
    output: Path

    @property
    def large(self) -> Path:
        """15 GB on a GPU, and no result: beside the checkout's other builds."""
        return ROOT / "build" / f"large-{self.scale.device}"

    def models(self) -> dict[str, Arguments]:
        """By name: the flags that choose a target. The large one drafts with the bundled draft."""
        draft = ROOT / "assets" / "models" / "draft"
        chosen: dict[str, Arguments] = {
            "bundled": ("--pair", BUNDLED),
            "large": ("--target", str(self.large), "--draft", str(draft)),
        }
        return chosen | ({"chat": ("--pair", CHAT)} if pair_named(CHAT).is_here else {})

    def command(self, name: str, *flags: str) -> Arguments:
        scale = self.scale
        where = ("--json", "--device", scale.device, "--dtype", scale.dtype)
        return (sys.executable, "-m", "specviz", name, *where, *flags)

    def part(self, name: str) -> Iterator[tuple[str, Arguments]]:
        """Its commands, each with a name."""
        yield from getattr(self, f"_{name}")()

    def _tests(self) -> Iterator[tuple[str, Arguments]]:
        """What is claimed of CUDA: captured steps equal eager ones, a round waits once, …"""
        yield "cuda", (sys.executable, "-m", "pytest", "-m", "cuda", "-n", "0", "-v", "-rs")

    def _build(self) -> Iterator[tuple[str, Arguments]]:
        if (self.large / "config.json").is_file():  # which is written last
            return
        shutil.rmtree(self.large, ignore_errors=True)
        shape = [f"--shape={name}={size}" for name, size in self.scale.shape.items()]
        command = (sys.executable, "-m", "specviz", "models", "--json")
        yield "build", (*command, "--inflate", str(self.large), *shape)

    def _steps(self) -> Iterator[tuple[str, Arguments]]:
        """One token, captured and kernel by kernel, beside the library and the bandwidth."""
        yield from self._build()
        for name, flags in self.models().items():
            yield name, self.command("steps", *flags)

    def _races(self) -> Iterator[tuple[str, Arguments]]:
        """Chains and trees; drafting ahead on a stream of its own beside the same chain."""
        yield from self._build()
        new_tokens = ("--max-new-tokens", str(self.scale.new_tokens), "--task", "code")
        alone = ("prompt-lookup", "layer-skip")
        with_draft = ("draft-model", "pre-speculation", "draft-tree")
        for name, flags in self.models().items():
            for method in alone if name == "chat" else (*with_draft, *alone):
                for heat in ("0", "0.7"):
                    setting = ("--method", method, "--temperature", heat, *new_tokens)
                    yield f"{name}-{method}-{heat}", self.command("race", *flags, *setting)

    def _sweep(self) -> Iterator[tuple[str, Arguments]]:
        """Draft lengths, on the large model."""
        yield from self._build()
        new_tokens = ("--max-new-tokens", str(self.scale.new_tokens), "--prompts", "1")
        axis = ("--axis", f"draft-length={self.scale.draft_lengths}")
        for method in ("draft-model", "pre-speculation"):
            flags = (*self.models()["large"], "--method", method, *axis, *new_tokens)
            yield method, self.command("sweep", *flags)

    def _batches(self) -> Iterator[tuple[str, Arguments]]:
        """Where speculation begins to lose as rows are added."""
        yield from self._build()
        sizes = ("--batch-size", self.scale.batch_sizes, "--draft-lengths", "4", "--tasks", "code")
        new_tokens = ("--max-new-tokens", str(min(64, self.scale.new_tokens)), "--repeat", "1")
        for name, flags in self.models().items():
            method = "prompt-lookup" if name == "chat" else "draft-model"
            setting = ("--methods", method, *sizes, *new_tokens)
            yield name, self.command("bench", *flags, *setting)

    def _library(self) -> Iterator[tuple[str, Arguments]]:
        """Beside eager `generate()` in its four ways."""
        new_tokens = str(min(64, self.scale.new_tokens))
        few = ("--prompts", "1", "--repeat", "1", "--draft-lengths", "4", "--tasks", "code")
        for name, flags in self.models().items():
            if name != "large":
                setting = (*few, "--max-new-tokens", new_tokens)
                yield name, self.command("bench", *flags, *setting)


PARTS = ("tests", "steps", "races", "sweep", "batches", "library")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"PART must be one of {', '.join(PARTS)}, got {unknown[0]!r}")
    if options.device == "cuda" and not has_gpu():
        parser.error("device cuda must be there, but no GPU was found; --device cpu rehearses")
    scale = GPU if options.device == "cuda" else REHEARSAL
    bench = Bench(scale, options.output.resolve())
    bench.output.mkdir(parents=True, exist_ok=True)
    outcomes = [run_part(bench, part) for part in options.parts or PARTS]
    return 0 if all(outcomes) else 1


def has_gpu() -> bool:
    code = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code]).returncode == 0


def run_part(bench: Bench, part: str) -> bool:
    """Run what has not succeeded yet, until the part's time is up; whether all of it has."""
    deadline = time.monotonic() + PART_SECONDS
    is_whole = True
    for name, command in bench.part(part):
        label = f"{part}-{name}"
        if known(bench.output).get(label, {}).get("status") == 0:
            continue
        left = deadline - time.monotonic()
        status = run(bench.output, label, command, left) if left > 1 else None
        print(f"{label}: {'ok' if status == 0 else 'no time left' if status is None else status}")
        is_whole &= status == 0
    return is_whole


def run(output: Path, label: str, command: Arguments, seconds: float) -> int | None:
    """Run a command and note how it ended: its status, None where its time was up."""
    started, peak = time.monotonic(), PeakMemory()
    with (output / f"{label}.json").open("w") as out, (output / f"{label}.log").open("w") as log:
        try:
            environment = os.environ | {"HF_HUB_OFFLINE": "1"}
            process = subprocess.run(
                command, cwd=ROOT, stdout=out, stderr=log, timeout=seconds, env=environment
            )
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            status = None
    entry = {
        "command": " ".join(command[1:]),
        "status": status,
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_mib": peak.stop(),
    }
    whole = known(output) | {label: entry}
    (output / "index.json").write_text(json.dumps(whole, indent=1) + "\n")
    return status


def known(output: Path) -> dict[str, dict[str, object]]:
    """How the commands of earlier calls ended."""
    index = output / "index.json"
    found: dict[str, dict[str, object]] = json.loads(index.read_text()) if index.is_file() else {}
    return found


class PeakMemory:
    """The most memory of the first GPU that was in use, by all processes, in MiB."""

    def __init__(self) -> None:
        self._peak: int | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if shutil.which(MEMORY[0]):
            self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            said = subprocess.run(MEMORY, capture_output=True, text=True).stdout.split()
            if said and said[0].isdigit():
                self._peak = max(self._peak or 0, int(said[0]))

    def stop(self) -> int | None:
        """None where there is no GPU to ask."""
        self._is_over.set()
        return self._peak


if __name__ == "__main__":
    raise SystemExit(main())
