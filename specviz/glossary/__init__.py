"""One definition per term; tooltips, lessons and the README take theirs from here."""

from specviz.glossary.terms import TERMS, term, tooltips

__all__ = [
    "TERMS",
    "term",
    "tooltips",
]
