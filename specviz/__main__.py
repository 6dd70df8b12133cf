"""The program behind `python -m specviz …`."""

import signal
import sys


def run() -> int:
    """Run the command line.

    If the user interrupts the program, even while libraries load, print one line instead of a
    traceback.

    The signal SIGTERM, which for example a container sends to end a program, has the same effect as
    Ctrl-C.
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
