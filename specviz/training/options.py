"""Command lines of training: bad input ends with one line."""

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Ends with one line and exit status 2, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
