"""Lets the tests of the page import what stands beside them and one folder up."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
