"""The entry point of the Space and of `make run`: builds the page and serves it.

Knows nothing else.
"""

from specviz.environment import Environment
from specviz.ui.handlers import Handlers
from specviz.ui.page import build_page, launch_options
from specviz.ui.preload import preload

handlers = Handlers()
demo = build_page(handlers)

if __name__ == "__main__":
    demo.launch(**launch_options(Environment.read(), handlers), prevent_thread_lock=True)
    preload()  # only now: loading would take the page its processor time
    demo.block_thread()
