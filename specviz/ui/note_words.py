"""What a drafter says of its round, in words: one template per kind of note.

Knows the notes, no drafter. A remark is a list of parts: a text, a word of the glossary, or a list
of token ids, which the page shows as chips. A note without a template is told field by field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from specviz.figures.labels import milliseconds
from specviz.records.notes import (
    NOTE_TYPES,
    BatchRound,
    LookaheadState,
    NgramMatch,
    Note,
    Prepared,
    SharedVocabulary,
    TreeBudget,
)

Word = dict[str, str]  # {"text", "term"}: the term's definition is the word's tooltip
Part = str | list[int] | Word
Remark = list[Part]

_NAMES = {note_type: name for name, note_type in NOTE_TYPES.items()}


def remark(note: Note) -> Remark:
    """The note in words.

    >>> from specviz.records.notes import TreeBudget
    >>> remark(TreeBudget(nodes=12, candidates=36))
    ['Of 36 scored candidates the most probable 12 went to the target.']
    """
    template = _TEMPLATES.get(type(note))
    return template(note) if template else generic_remark(note)


def generic_remark(note: Note) -> Remark:
    """Name and fields, for a note that nobody wrote a sentence for.

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
    """3 tokens, 1 token, no tokens."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _ngram_match(note: NgramMatch) -> Remark:
    last = "The last token" if note.length == 1 else f"The last {note.length} tokens"
    copied = f"what follows there, from token {note.position + 1} on, was copied."
    return [f"{last} stood in the text before: {copied}"]


def _tree_budget(note: TreeBudget) -> Remark:
    best = "most probable one" if note.nodes == 1 else f"most probable {note.nodes}"
    scored = _count(note.candidates, "scored candidate")
    return [f"Of {scored} the {best} went to the target."]


def _lookahead_state(note: LookaheadState) -> Remark:
    """One sentence each for the pool, the guesses and the window, then the window's rows."""
    size = f" holds {_count(note.pool, 'n-gram')}, {note.added or 'none'} of them new."
    parts: Remark = ["The ", _word("pool", "ngram_pool"), size, *_guesses(note.hits)]
    if note.level_sizes:
        parts += ["\nThe ", _word("window", "jacobi_window"), " rides in the same target forward; "]
        parts += ["each row is what the target made of the row above, one place further on:"]
    start = 0
    for level, length in enumerate(note.level_sizes, start=1):
        parts += [f"\nrow {level} ", list(note.token_ids[start : start + length])]
        start += length
    return parts


def _guesses(hits: int) -> Remark:
    if not hits:
        return ["\nNone begins with the last token: no ", _word("guesses", "lookahead_guess"), "."]
    begin, went = ("begins", "it was") if hits == 1 else ("begin", "they were")
    word = _word("guess" if hits == 1 else "guesses", "lookahead_guess")
    return [f"\n{hits} {begin} with the last token: as ", word, f" {went} verified in this round."]


def _word(text: str, term: str) -> Word:
    return {"text": text, "term": term}


def _prepared(note: Prepared) -> Remark:
    if not note.outcomes:
        return ["Nothing had been prepared yet, so the draft was made now."]
    outcomes = _count(sum(note.outcomes), "prepared outcome")
    if note.hit:
        found = f"Hit: the draft of this round was ready, one of {outcomes}."
    else:
        found = f"Miss: none of {outcomes} came true, so the draft was made now."
    hidden = f" {milliseconds(note.hidden_seconds)} of drafting ran while the target verified"
    return [f"{found}{hidden}, {milliseconds(note.waited_seconds)} were waited for."]


def _shared_vocabulary(note: SharedVocabulary) -> Remark:
    shares = f"{note.target_share:.0%} of the target's, {note.draft_share:.0%} of the draft's"
    shared = f"{_count(note.shared, 'token')} stand in both vocabularies: {shares}."
    mass = f"The draft gave them {note.mass:.0%} of its probability here"
    made = f"{_count(note.draft_tokens, 'token')} of its own became {note.target_tokens or 'none'}"
    return [f"{shared} {mass}; {made} of the target's."]


def _batch_round(note: BatchRound) -> Remark:
    rows = "Alone in its batch now" if note.rows == 1 else f"One of {note.rows} rows of a batch"
    empty = f"{_count(note.padding, 'slot')} of the forward stood empty"
    text = f"{rows}: the target ran {_count(note.tokens, 'token')} at once, {empty}."
    too_many = f" With more than {_count(note.limit, 'row')} nothing is drafted."
    return [text + too_many if note.rows > note.limit else text]


_TEMPLATES: dict[type, Callable[[Any], Remark]] = {
    NgramMatch: _ngram_match,
    TreeBudget: _tree_budget,
    LookaheadState: _lookahead_state,
    Prepared: _prepared,
    SharedVocabulary: _shared_vocabulary,
    BatchRound: _batch_round,
}
