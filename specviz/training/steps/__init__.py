"""The steps of a run, one file each: what is made of what, and where it is kept.

Each leaves its result in the work folder and is skipped when it is there.
"""
