"""Advice, computed from a probe: whether to speculate, with which method, and what it gains."""
