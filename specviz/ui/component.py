"""The page as one Gradio component: an empty element that the player's own modules fill.

Gradio carries the events; everything that is seen is built by `assets/player/main.js`. The
template holds no model text: Gradio runs templates as JavaScript. A function and not a subclass
of `gr.HTML`: for a subclass Gradio writes a `.pyi` file beside the source at every start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import gradio as gr

ServerFunction = Callable[[dict[str, Any]], Any]

# Gradio finds the custom event 'race' by its quoted name in this text.
MOUNT = """
const page = new URL("specviz/player/main.js", document.baseURI).href;
import(page).then((module) => module.mount(element, {
    race: (order) => trigger('race', order),
    server,
    onBatch: (take) => watch('value', () => take(props.value)),
})).catch((error) => {
    console.error(error);
    element.textContent = "The page could not be loaded. Reload it to try again.";
});
"""
TEMPLATE = '<div class="specviz" data-specviz><p class="loading">Loading …</p></div>'


def player(server_functions: Sequence[ServerFunction]) -> gr.HTML:
    """Takes batches of messages (JSON text) as its value; sends the event `race`."""
    return gr.HTML(
        value="",
        html_template=TEMPLATE,
        js_on_load=MOUNT,
        apply_default_css=False,
        server_functions=[_plain(each) for each in server_functions],
    )


def _plain(method: ServerFunction) -> ServerFunction:
    """Gradio marks a server function by an attribute, which a bound method cannot take."""

    @wraps(method)
    def function(question: dict[str, Any]) -> Any:
        return method(question)

    return function
