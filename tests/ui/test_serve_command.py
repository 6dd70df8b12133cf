"""`serve` refuses what it cannot do, in one line."""

from __future__ import annotations

import socket

import pytest

from specviz.cli import main


def test_a_port_that_is_taken_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    said = f"specviz: host and port must be free to listen at, got 127.0.0.1:{port}\n"
    assert captured.err == said


def test_a_port_that_is_none_is_refused_before_anything_is_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--port", "70000"]) == 2
    said = "specviz: port must be an integer from 0 to 65535, got 70000\n"
    assert capsys.readouterr().err == said
