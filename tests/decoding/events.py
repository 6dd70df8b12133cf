"""Functions that read the events of a run."""

from dataclasses import fields, replace

from specviz.records import Prefill, Round, TokenStep


def tokens_of(events):
    """Return all new tokens of a run, including the token of the prefill."""
    ids = []
    for event in events:
        match event:
            case Prefill():
                ids.append(event.extra.token_id)
            case Round():
                ids.extend(event.emitted_ids)
            case TokenStep():
                ids.append(event.token_id)
    return ids


def without_seconds(round_):
    """Return the round with all times set to 0.

    A repeated run must give the same rounds, except for their times.
    """
    return replace(
        round_,
        draft_prefill_seconds=0,
        draft_seconds=0,
        verify_seconds=0,
        host_seconds=0,
        spans=(),
        notes=tuple(map(_timeless, round_.notes)),
    )


def _timeless(note):
    seconds = [field.name for field in fields(note) if field.name.endswith("_seconds")]
    return replace(note, **dict.fromkeys(seconds, 0.0))
