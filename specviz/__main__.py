"""`python -m specviz …`"""

import signal
import sys


def run() -> int:
    """Import and run; an interrupt while libraries load is no traceback either.

    Who asks the process to end, as a container's host does, is heard as Ctrl-C is.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        print("specviz: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
