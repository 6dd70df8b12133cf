"""A figure as its difference from one of the same kind: layout and style travel once, arrays often.

Knows only that figures are `{"data": [trace, …], "layout": {…}}` dicts whose traces never change in
number or order. `assets/player/shared/figure_delta.js` puts them together again.
"""

from __future__ import annotations

from typing import Any

Figure = dict[str, Any]


def delta(template: Figure, figure: Figure) -> Figure:
    """What of `figure` is not in `template`, by key of each trace and of the layout.

    >>> delta({"data": [{"x": [1], "mode": "lines"}], "layout": {"height": 9}},
    ...       {"data": [{"x": [2], "mode": "lines"}], "layout": {"height": 9}})
    {'data': [{'x': [2]}], 'layout': {}}
    """
    traces = zip(template["data"], figure["data"], strict=True)
    return {
        "data": [_changed(old, new) for old, new in traces],
        "layout": _changed(template["layout"], figure["layout"]),
    }


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    missing = dict.fromkeys(old.keys() - new.keys())
    return missing | {key: value for key, value in new.items() if old.get(key) != value}
