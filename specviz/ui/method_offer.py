"""What the menu of methods says: groups, and for each pair why it cannot do some of them.

Knows needs and pairs, no method by name; loads nothing.
"""

from __future__ import annotations

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.models.pair_catalog import Pair
from specviz.models.pair_check import needs_missing
from specviz.models.parts import Need

# a method belongs to the first group that shares a need with it; the last is for all others
_GROUPS = (
    ("With a second model", frozenset({Need.DRAFT, Need.FOREIGN_DRAFT})),
    ("With heads trained on the target", frozenset({Need.MEDUSA, Need.EAGLE})),
)
_ALONE = "With the target alone"


def group(method: Method) -> str:
    """The heading that the method stands under."""
    return next((title for title, needs in _GROUPS if needs & method.needs), _ALONE)


def refusal(pair: Pair, method: Method) -> str | None:
    """Why the pair cannot do the method, as far as that can be told without loading it.

    >>> from specviz.decoding.drafters.registry import method_named
    >>> refusal(Pair("own", "of my own", "target", draft=""), method_named("draft-model"))
    'needs a draft model; the pair of my own has none'
    """
    missing = needs_missing(pair, method.needs)
    things = [_with_article(need.title) for need in missing if need is not Need.LAYERS]
    clauses = [f"needs {' and '.join(things)}; the pair {pair.title} has none"] if things else []
    if Need.LAYERS in missing:
        clauses.append(f"needs a target of the Llama family; {_architecture(pair)} is not")
    return ", and ".join(clauses) or None


def _architecture(pair: Pair) -> str:
    """What the target is, in the words of its configuration where these are known."""
    return pair.model_type or pair.target


def refusals(pair: Pair) -> dict[str, str]:
    """Method name -> sentence, of all that the pair cannot do."""
    found = {name: refusal(pair, method) for name, method in DRAFTERS.items()}
    return {name: sentence for name, sentence in found.items() if sentence}


def _with_article(title: str) -> str:
    if title.endswith("s"):
        return title
    return f"{'an' if title[0] in 'AEIOU' else 'a'} {title}"
