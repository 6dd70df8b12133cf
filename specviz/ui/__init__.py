"""The web app."""

from specviz.ui.gradio_stubs import skip_stubs

skip_stubs()
