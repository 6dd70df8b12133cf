"""The entry point of the Space and of `make run`: builds the page and serves it.

Knows nothing else. HOST and PORT choose the address; left at their defaults, GRADIO_SERVER_NAME and
GRADIO_SERVER_PORT (which a Space sets) may still do so.
"""

import threading

from specviz.settings import Settings
from specviz.ui.page import build_page, launch_options
from specviz.ui.preload import preload

demo = build_page()

if __name__ == "__main__":
    settings = Settings.from_environment()
    threading.Thread(target=preload, daemon=True).start()
    demo.launch(
        server_name=settings.host if settings.host != Settings.host else None,
        server_port=settings.port if settings.port != Settings.port else None,
        **launch_options(),
    )
