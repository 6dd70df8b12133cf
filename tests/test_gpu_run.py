"""What `make gpu` would run is what the command line takes; without a GPU no more can be tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz import cli
from tests import gpu_run


@pytest.mark.parametrize("scale", [gpu_run.GPU, gpu_run.REHEARSAL], ids=lambda each: each.device)
@pytest.mark.parametrize("part", gpu_run.PARTS)
def test_the_command_line_takes_every_command(
    part: str, scale: gpu_run.Scale, tmp_path: Path
) -> None:
    bench = gpu_run.Bench(scale, tmp_path)
    commands = dict(bench.part(part))
    assert commands
    for _python, module, name, *flags in commands.values():
        assert module == "-m"
        if name == "specviz":
            cli._parser().parse_args(flags)
            assert flags[0] in cli.COMMANDS
        else:
            assert name == "pytest"


def test_a_command_that_succeeded_is_not_run_again_and_one_that_failed_is(tmp_path: Path) -> None:
    class Two(gpu_run.Bench):
        def part(self, name):
            count = f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).open('a').write('x')"
            yield "good", (gpu_run.sys.executable, "-c", count)
            yield "bad", (gpu_run.sys.executable, "-c", f"{count}; raise SystemExit(3)")

    bench = Two(gpu_run.REHEARSAL, tmp_path)
    for _ in range(2):
        assert not gpu_run.run_part(bench, "steps")
    assert (tmp_path / "ran").read_text() == "xxx"
    ended = {name: entry["status"] for name, entry in gpu_run.known(tmp_path).items()}
    assert ended == {"steps-good": 0, "steps-bad": 3}
