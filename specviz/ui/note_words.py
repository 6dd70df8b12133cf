"""A drafter's note on its round, in words; each kind of note has a template.

This module imports the notes, but no drafter. A remark is a list of parts: a text, a word of the
glossary, or a list of token ids, which the page shows as chips. A note without a template is shown
field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from specviz.figures.labels import milliseconds, percent
from specviz.records.notes import (
    NOTE_TYPES,
    BatchRound,
    ForcedTokens,
    HybridChoice,
    LookaheadState,
    NgramMatch,
    Note,
    Prepared,
    RecycledTokens,
    SharedVocabulary,
    SuffixMatch,
    TreeBudget,
)

Word = dict[str, str]  # {"text", "term"}; the page shows the term's definition as a tooltip
Part = str | list[int] | Word
Remark = list[Part]

_NAMES = {note_type: name for name, note_type in NOTE_TYPES.items()}


def remark(note: Note) -> Remark:
    """Return the note in words.

    >>> from specviz.records.notes import TreeBudget
    >>> remark(TreeBudget(nodes=12, candidates=36))
    ['The target verifies the most probable 12 of 36 scored candidates.']
    """
    template = _TEMPLATES.get(type(note))
    return template(note) if template else generic_remark(note)


def generic_remark(note: Note) -> Remark:
    """Return the name and the fields of a note that has no template.

    >>> from specviz.records.notes import NgramMatch
    >>> generic_remark(NgramMatch(length=2, position=7))
    ['ngram match: length 2, position 7']
    """
    name = _NAMES.get(type(note), type(note).__name__).replace("-", " ")
    values = [(each.name, getattr(note, each.name)) for each in fields(note)]
    plain = [f"{key.replace('_', ' ')} {_shown(value)}" for key, value in values if key != _TOKENS]
    parts: Remark = [f"{name}: {', '.join(plain)}"]
    for key, value in values:
        if key == _TOKENS and value:
            parts += ["; tokens ", list(value)]
    return parts


_TOKENS = "token_ids"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _ngram_match(note: NgramMatch) -> Remark:
    one = note.length == 1
    last = "The last token also occurs" if one else f"The last {note.length} tokens also occur"
    copied = f"the draft copies the text after it, from token {note.position + 1} on."
    return [f"{last} earlier in the text; {copied}"]


def _suffix_match(note: SuffixMatch) -> Remark:
    """Return which tokens matched, how often the draft followed them, and the score of the match.

    >>> _suffix_match(SuffixMatch(4, (4, 3, 2), False, (7, 8)))[-1].splitlines()[1]
    'So its score is 3/4 + 2/4 = 1.25, the highest of the matches of 1 to 4 tokens.'
    """
    occurrences, *counts = note.counts or (0,)
    one, alone = len(note.token_ids) == 1, len(counts) == 1
    last = "The last token " if one else f"The last {len(note.token_ids)} tokens "
    occur = f" {'occurs' if one else 'occur'} {_count(occurrences, 'time')} in the "
    where = " of earlier outputs" if note.is_earlier else " of the text"
    drafted = "the drafted token" if alone else "the drafted tokens"
    followed = f"{where}, this end included; {drafted} followed {_listed(counts)} of these times."
    shares = " + ".join(f"{count}/{occurrences}" for count in counts)
    score = f"So its score is {shares} = {sum(counts) / (occurrences or 1):.2f}"
    best = f", the highest of the matches of 1 to {note.longest} tokens."
    end = best if note.longest > 1 else ". No longer match exists."
    tree = _word("suffix tree", "suffix_tree")
    return [last, list(note.token_ids), occur, tree, f"{followed}\n{score}{end}"]


def _listed(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers or (0,))
    return f"{', '.join(others)} and {last}" if others else last


def _hybrid_choice(note: HybridChoice) -> Remark:
    """Return why this round copied its draft, or why the draft model wrote it.

    >>> _hybrid_choice(HybridChoice(1.5, 1.0))
    ['This score is at least the smallest score, 1.00, so this round copies.']
    >>> _hybrid_choice(HybridChoice(0.998, 1.0))[0].partition(", so")[0]
    'The best copy has a score of 0.998, below the smallest score, 1.000'
    """
    if not note.score:
        return ["There is nothing to copy, so the draft model drafts."]
    if note.score >= note.least_score:
        least = f"{note.least_score:.2f}"
        return [f"This score is at least the smallest score, {least}, so this round copies."]
    score, least = _apart(note.score, note.least_score)
    best = f"The best copy has a score of {score}, below the smallest score, {least}"
    return [f"{best}, so the draft model drafts."]


def _apart(one: float, other: float) -> tuple[str, str]:
    """Return both numbers with as many decimal places, 2 to 6, as they need to look different."""
    written = ((f"{one:.{places}f}", f"{other:.{places}f}") for places in range(2, 7))
    return next((pair for pair in written if pair[0] != pair[1]), (f"{one:g}", f"{other:g}"))


def _forced_tokens(note: ForcedTokens) -> Remark:
    """Return why the method drafted nothing, and what the draft is instead.

    >>> _forced_tokens(ForcedTokens(3))[-1]
    ' tokens: it leaves no other choice. They are the draft, which cost nothing and surely passes.'
    """
    if note.count == 1:
        rest = " token: it leaves no other choice. It is the draft, which cost nothing and surely "
        return ["The grammar fixes the next ", _word("forced", "forced_token"), f"{rest}passes."]
    rest = " tokens: it leaves no other choice. They are the draft, which cost nothing and surely "
    return [
        f"The grammar fixes the next {note.count} ",
        _word("forced", "forced_token"),
        f"{rest}passes.",
    ]


def _tree_budget(note: TreeBudget) -> Remark:
    best = "most probable one" if note.nodes == 1 else f"most probable {note.nodes}"
    scored = _count(note.candidates, "scored candidate")
    return [f"The target verifies the {best} of {scored}."]


def _lookahead_state(note: LookaheadState) -> Remark:
    """Return the state of lookahead decoding in words.

    First come sentences on the pool of n-grams, on the guesses, and on the lookahead window. Then
    come the tokens of the window, level by level.
    """
    size = f" holds {_count(note.pool, 'n-gram')}, {note.added or 'none'} of them new."
    parts: Remark = ["The ", _word("pool", "ngram_pool"), size, *_guesses(note.hits)]
    if note.level_sizes:
        parts += ["\nThe ", _word("window", "jacobi_window"), " runs in the same target forward; "]
        parts += ["each row has the target's choices after the row above, one position later:"]
    start = 0
    for level, length in enumerate(note.level_sizes, start=1):
        parts += [f"\nrow {level} ", list(note.token_ids[start : start + length])]
        start += length
    return parts


def _recycled_tokens(note: RecycledTokens) -> Remark:
    r"""Return the size of the table of successors, and how often they have been right.

    >>> _recycled_tokens(RecycledTokens(12, (0.5, 0.25)))[-1].splitlines()[1].replace("\xa0", " ")
    'So far, the first successor was the next token in 50.0 % of cases, and one of 2 in 75.0 %.'
    """
    known = f" holds successors of {_count(note.known, 'token')}. The draft is a tree of them."
    first, any_of = (percent(share) for share in (note.rates[0], sum(note.rates)))
    rates = f"So far, the first successor was the next token in {first} of cases"
    more = f", and one of {len(note.rates)} in {any_of}" if len(note.rates) > 1 else ""
    return ["The ", _word("table", "successor_table"), f"{known}\n{rates}{more}."]


def _guesses(hits: int) -> Remark:
    if not hits:
        none = "\nNone of them begins with the last token, so there are no "
        return [none, _word("guesses", "lookahead_guess"), "."]
    if hits == 1:
        noun, words = "guess", "1 of them begins with the last token; this round verifies it as a "
    else:
        noun, words = "guesses", f"{hits} of them begin with the last token; this round verifies "
        words += "them as "
    return [f"\n{words}", _word(noun, "lookahead_guess"), "."]


def _word(text: str, term: str) -> Word:
    return {"text": text, "term": term}


def _prepared(note: Prepared) -> Remark:
    if not note.outcomes:
        return ["No draft was prepared before this round, so it was made now."]
    outcomes = _count(sum(note.outcomes), "prepared outcome")
    if note.hit:
        found = f"Hit: this round's draft was ready; it is for one of {outcomes}."
    else:
        found = f"Miss: none of {outcomes} happened, so the draft was made now."
    hidden = f" The draft model worked for {milliseconds(note.hidden_seconds)} while the target"
    waited = f"verified, and the target waited for it for {milliseconds(note.waited_seconds)}."
    return [f"{found}{hidden} {waited}"]


def _shared_vocabulary(note: SharedVocabulary) -> Remark:
    shares = f"{note.target_share:.0%} of the target's, {note.draft_share:.0%} of the draft's"
    shared = f"The two vocabularies have {_count(note.shared, 'token')} in common: {shares}."
    mass = f"In this round, the draft model gave {note.mass:.0%} of its probability to them."
    made = f"Its {_count(note.draft_tokens, 'token')} became {note.target_tokens or 'none'}"
    return [f"{shared} {mass} {made} of the target's vocabulary."]


def _batch_round(note: BatchRound) -> Remark:
    alone = "This text now runs alone in its batch"
    place = alone if note.rows == 1 else f"This text is one of {note.rows} in a batch"
    ran = f"the forward ran {_count(note.tokens, 'token')}"
    text = f"{place}: {ran} and left {_count(note.padding, 'slot')} empty."
    too_many = f" With more than {_count(note.limit, 'text')}, nothing is drafted."
    return [text + too_many if note.rows > note.limit else text]


_TEMPLATES: dict[type, Callable[[Any], Remark]] = {
    NgramMatch: _ngram_match,
    SuffixMatch: _suffix_match,
    HybridChoice: _hybrid_choice,
    ForcedTokens: _forced_tokens,
    TreeBudget: _tree_budget,
    LookaheadState: _lookahead_state,
    RecycledTokens: _recycled_tokens,
    Prepared: _prepared,
    SharedVocabulary: _shared_vocabulary,
    BatchRound: _batch_round,
}
