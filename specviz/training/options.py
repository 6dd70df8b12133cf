"""The parser that both training programs use for their command lines."""

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser that ends with a one-line message and exit status 2 on invalid input."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
