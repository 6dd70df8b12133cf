"""`python -m specviz …`"""

import sys


def run() -> int:
    """Import and run; an interrupt while libraries load is no traceback either."""
    try:
        from specviz.cli import main

        return main()
    except KeyboardInterrupt:
        print("specviz: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
