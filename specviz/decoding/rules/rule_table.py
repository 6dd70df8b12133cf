"""The table of verification rules. A new rule needs one file in this folder and one entry here.

Installed packages can add rules as entry points.
"""

from __future__ import annotations

from specviz.decoding.plugins import with_installed
from specviz.decoding.rules import block, token_by_token, traversal, typical
from specviz.decoding.rules.rule import Rule
from specviz.errors import InputError, short

_RULES = (token_by_token.RULE, block.RULE, traversal.RULE, typical.RULE)
RULES: dict[str, Rule] = with_installed(_RULES, "specviz.rules", Rule)


def rule_named(name: str) -> Rule:
    """Return the rule with this name.

    If there is none, raise InputError. The message lists all rules.
    """
    if name not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {short(name)}")
    return RULES[name]
