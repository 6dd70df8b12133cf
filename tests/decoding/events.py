"""Reading a stream of events."""

from specviz.records import BaselineStep, Prefill, Round


def tokens_of(events):
    """All new tokens, the first one included."""
    ids = []
    for event in events:
        match event:
            case Prefill():
                ids.append(event.extra.token_id)
            case Round():
                ids.extend(event.emitted_ids)
            case BaselineStep():
                ids.append(event.token_id)
    return ids
