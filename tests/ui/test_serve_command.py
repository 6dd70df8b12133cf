"""`serve` refuses invalid arguments in one line."""

from __future__ import annotations

import socket

import pytest

from specviz.cli import main
from specviz.environment import Environment
from specviz.ui.serve_command import exposure


def test_a_port_in_use_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    rule = f"host and port must be free to listen on, got 127.0.0.1:{port}: choose another port"
    assert captured.err == f"specviz: {rule}\n"


def test_an_invalid_port_is_refused_before_anything_is_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--port", "70000"]) == 2
    said = "specviz: port must be a whole number from 0 to 65,535, got 70000\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "laptop.local"])
def test_serving_others_without_the_public_rules_prints_a_warning(
    host: str,
) -> None:
    assert f"Everyone who can reach {host} may load" in exposure(Environment(host=host))
    assert exposure(Environment(host=host, is_public=True)) == ""


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "::1", "localhost"])
def test_serving_only_this_machine_prints_no_warning(host: str) -> None:
    assert exposure(Environment(host=host)) == ""
