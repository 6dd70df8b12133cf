"""Speculate or not, with what, and what to expect: from a probe to advice."""
