"""Short lines about a pair, from what is known before its weights are downloaded.

A line is {"tone", "text"}; the tones are `good`, `plain`, `warning` and `problem`.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.models.memory import gigabytes
from specviz.models.pair_check import PairReport
from specviz.models.text.vocabulary import Relation

Line = dict[str, str]


def report_lines(report: PairReport) -> list[Line]:
    """Return lines about the pair's vocabularies, memory and download; problems come last."""
    return [
        *_vocabulary(report),
        _memory(report),
        *(_line("plain", f"unknown: {text}") for text in report.memory.unknown),
        *_download(report),
        *(_line("warning", text) for text in report.warnings),
        *(_line("problem", text) for text in report.problems),
    ]


def _vocabulary(report: PairReport) -> Iterator[Line]:
    match report.vocabulary:
        case Relation.EQUAL:
            yield _line("good", "both models have the same vocabulary")
        case Relation.PADDED:
            yield _line("good", "both models have the same vocabulary, except for padding")
        case Relation.DIFFERENT:
            share = f"{report.shared_tokens or 0:.0%} of the target's tokens"
            yield _line("plain", f"the vocabularies differ: {share} are also tokens of the draft")


def _memory(report: PairReport) -> Line:
    need = f"needs {gigabytes(report.bytes_needed)} in {report.dtype}"
    if report.bytes_free is None:
        return _line("plain", f"{need}; the free memory is unknown")
    tone = "good" if report.bytes_needed <= report.bytes_free else "warning"
    return _line(tone, f"{need}, {gigabytes(report.bytes_free)} are free")


def _download(report: PairReport) -> Iterator[Line]:
    if report.download_bytes:
        yield _line("plain", f"{gigabytes(report.download_bytes)} of weights on the Hub")
    if report.gated:
        yield _line("plain", "gated: its terms are accepted for this server's token")
    if report.instruct:
        yield _line("plain", "an instruct model: prompts go through its chat template")


def _line(tone: str, text: str) -> Line:
    return {"tone": tone, "text": text}
