"""The entry point of the Space and of `make run`: `specviz serve`, with its flags."""

import sys

from specviz.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
