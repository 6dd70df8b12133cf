"""The page as one Gradio component: an empty element that the player's own modules fill.

Gradio carries the events; everything that is seen is built by `assets/player/main.js`. The
template holds no model text: Gradio runs templates as JavaScript.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

# Gradio finds the custom event 'race' by its quoted name in this text.
MOUNT = """
const page = new URL("specviz/player/main.js", document.baseURI).href;
import(page).then((module) => module.mount(element, {
    race: (order) => trigger('race', order),
    server,
    onBatch: (take) => watch('value', () => take(props.value)),
}));
"""

from gradio.events import Dependency

class Player(gr.HTML):
    """Sends batches of messages (JSON text) to the page, receives the event `race`."""

    def __init__(self, server_functions: Sequence[ServerFunction], **kwargs: Any) -> None:
        super().__init__(
            value="",
            html_template='<div class="specviz" data-specviz></div>',
            css_template="",
            js_on_load=MOUNT,
            apply_default_css=False,
            server_functions=[_plain(each) for each in server_functions],
            **kwargs,
        )

    def preprocess(self, payload: object) -> None:
        """The page's state is the browser's; nothing of it comes back."""

    def postprocess(self, value: str | None) -> str:
        return value or ""

    def api_info(self) -> dict[str, Any]:
        return {"type": "object"}

    def get_block_name(self) -> str:
        return "html"
    from typing import Callable, Literal, Sequence, Any, TYPE_CHECKING
    from gradio.blocks import Block

    if TYPE_CHECKING:
        from gradio.components import Timer
        from gradio.components.base import Component
