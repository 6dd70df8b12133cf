"""A trace as one HTML file: the debugger's page with the run inside, to be opened from disk.

This module knows the page's files and the run's messages. A content security policy in the file
forbids all network requests. The run and plotly.js are embedded as gzip in base64, so that no text
of a model can be read as markup.
"""

from __future__ import annotations

import gzip
import json
import threading
from base64 import b64encode
from html import escape
from typing import Any

from specviz.experiments.run.recorded_race import Replay
from specviz.figures.labels import ENDINGS
from specviz.figures.outcomes import outcome_table
from specviz.figures.plotly_script import plotly_script
from specviz.figures.theme import PALETTES
from specviz.glossary import tooltips
from specviz.records import Trace
from specviz.sixty_lines import sixty_lines
from specviz.ui.page_files import PLAYER, PREFIX, module_map, styles
from specviz.ui.race_messages import RaceMessages
from specviz.ui.setup import settings_table

ENTRY = "report_main.js"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
<script type="importmap">{modules}</script>
</head>
<body>
<div class="specviz" data-specviz>
{head}
<main>
{step}
</main>
</div>
<script type="text/plain" data-packed="plotly">{plotly}</script>
<script type="text/plain" data-packed="run">{run}</script>
<script type="module">import {{ mount }} from "{entry}"; mount(document);</script>
</body>
</html>
"""


def report_html(trace: Trace) -> str:
    """Return the whole HTML file as text; the same trace always gives the same text."""
    head, step = ((PLAYER / name).read_text("utf-8") for name in ("report.html", "step/step.html"))
    return _PAGE.format(
        policy=POLICY,
        title=escape(f"specviz · {trace.config.method}, temperature {trace.config.temperature:g}"),
        style="\n".join(
            (PLAYER / sheet).read_text("utf-8")
            for sheet in (*styles("shared"), *styles("race"), *styles("step"), "report.css")
        ),
        modules=json.dumps({"imports": module_map(PLAYER, ENTRY)}),
        head=head,
        step=step,
        plotly=_packed(plotly_script().read_bytes()),
        run=_packed(json.dumps(_run(trace), separators=(",", ":"), allow_nan=False).encode()),
        entry=f"{PREFIX}{ENTRY}",
    )


def _run(trace: Trace) -> dict[str, Any]:
    """Return the data of the report's page.

    The data are the run's messages, and the colours, names and definitions that the page shows.
    """
    setup = {
        "palettes": PALETTES,
        "outcomes": outcome_table(),
        "endings": ENDINGS,
        "glossary": tooltips(),
        "settings": settings_table(),
        "methods": [],
        "code": sixty_lines(),
    }
    messages = RaceMessages(Replay(trace)).messages(threading.Event())
    return {"setup": setup, "messages": list(messages)}


def _packed(data: bytes) -> str:
    return b64encode(gzip.compress(data, mtime=0)).decode()
