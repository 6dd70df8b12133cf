"""Before a race each model has run what a race begins with."""

from specviz.experiments.racing import warm_up_pair
from specviz.models.catalog import BUNDLED, pair_named
from specviz.models.pairs import load_pair
from specviz.records import DecodingConfig

PROMPT = list(range(5, 12))


def watched(monkeypatch, model):
    """How many tokens each forward of a model is over, from now on."""
    sizes, forward = [], model.forward

    def watching(token_ids, *given, **named):
        sizes.append(token_ids.shape[1])
        return forward(token_ids, *given, **named)

    monkeypatch.setattr(model, "forward", watching)
    return sizes


def test_each_model_runs_the_prompt_one_token_and_a_round_of_tokens(monkeypatch):
    loaded = load_pair(pair_named(BUNDLED), "cpu", "float32")
    target, draft = (watched(monkeypatch, each) for each in (loaded.target, loaded.parts.draft))
    warm_up_pair(loaded, PROMPT, DecodingConfig(draft_length=4, max_new_tokens=20))
    assert target == draft == [len(PROMPT), 1, 5]
