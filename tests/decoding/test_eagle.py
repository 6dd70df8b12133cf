"""EAGLE reads the target's features of committed tokens, and its own predictions after those.

The table head (see `table_eagle`) itself refuses a wrong position, mask, token or feature, so every
run tests those. These tests check what the table head cannot see.
"""

from dataclasses import replace

import pytest
import torch

from specviz.decoding import autoregressive, speculative
from specviz.decoding.drafters.dynamic_tree import DynamicTree
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.registry import make_drafter
from specviz.decoding.drafters.static_tree import StaticTree
from specviz.decoding.speculative import SpeculativeRun
from specviz.models.library_model import LibraryModel
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.parts import Parts
from specviz.records import DecodingConfig, Drawing, Prefill, Round
from tests.decoding.conftest import tiny_model
from tests.decoding.events import tokens_of
from tests.decoding.table_eagle import TableEagle, TableEagle3
from tests.decoding.table_model import TableModel
from tests.decoding.tiny_parts import eagle3_for, eagle_for

PROMPT = (0, 2, 1, 0, 2)
CHOSEN = Drawing.CHOSEN
CONFIG = DecodingConfig(
    method="eagle", draft_length=4, drawing=CHOSEN, temperature=0.8, max_new_tokens=40
)
SHAPES = [
    pytest.param(CHOSEN, (), id="dynamic"),
    pytest.param(Drawing.INDEPENDENT, (), id="chain"),
    pytest.param(Drawing.WITHOUT_REPLACEMENT, (2, 2), id="drawn tree"),
    pytest.param(CHOSEN, (2, 1), id="best tree"),
]


def table_setup(config, table=None, kind=TableEagle):
    target = TableModel(1)
    head = kind(target, table or TableModel(2))
    return Setup(target, Parts(eagle=head), config, 400)


def rounds_of(setup, prompt=PROMPT):
    events = speculative.decode(setup.target, make_drafter(setup), prompt, setup.config)
    return [event for event in events if isinstance(event, Round)]


@pytest.mark.parametrize("kind, branching", SHAPES)
@pytest.mark.parametrize("prompt", [PROMPT, (1,)], ids=["prompt", "one token"])
@pytest.mark.parametrize("head", [TableEagle, TableEagle3], ids=["EAGLE", "EAGLE-3"])
def test_every_pair_runs_once_on_true_features_and_every_expanded_node_once(
    kind, branching, prompt, head
):
    """Each token of the text makes one pair, no matter which drafted tokens were accepted."""
    setup = table_setup(replace(CONFIG, drawing=kind, branching=branching), kind=head)
    rounds = rounds_of(setup, prompt)
    true = rounds[-1].context_length - 1 if rounds[-1].tree.nodes else rounds[-2].context_length - 1
    guesses = sum(_parents(each.tree) for each in rounds)
    if kind is not CHOSEN or branching:
        assert setup.parts.eagle.pairs == true + guesses
    # The head may expand nodes that do not belong to the verified tree.
    else:
        assert setup.parts.eagle.pairs >= true + guesses


def _parents(tree):
    """Return how many nodes of a tree have children."""
    return sum(bool(tree.children(node)) for node in range(len(tree.nodes)))


@pytest.mark.parametrize("kind, branching", SHAPES)
def test_a_head_that_equals_the_target_is_accepted_to_a_leaf(kind, branching):
    config = replace(CONFIG, drawing=kind, branching=branching, temperature=0.0)
    for each in rounds_of(table_setup(config, TableModel(1))):
        assert each.tree.children(each.extra.parent) == ()
        assert each.accepted or not each.tree.nodes


def test_the_first_draft_follows_the_prompt_even_without_a_prefill():
    """Without a prefill, `resume` starts with the prompt's last token as the root."""
    setup = table_setup(replace(CONFIG, drawing=Drawing.INDEPENDENT))
    run = SpeculativeRun(setup.target, make_drafter(setup), PROMPT, setup.config, ())
    run.resume()
    first = run.round()
    distribution = TableModel(2).distribution([0, 2]).softmax(-1)
    node = first.tree.nodes[0]
    assert node.draft_score == pytest.approx(float(distribution[node.token_id]), abs=1e-6)
    while run.finish is None:
        run.round()


def test_after_a_round_without_a_tree_no_feature_is_missing():
    """A round without a draft still gives features of the target.

    The head must read them in its next forward.
    """
    setup = table_setup(replace(CONFIG, draft_length=2))
    drafter = make_drafter(setup)
    run = SpeculativeRun(setup.target, drafter, PROMPT, setup.config, ())
    run.prefill()
    usual, drafter.propose = drafter.propose, lambda ids, room, index: usual(ids, 0, index)
    assert run.round().tree.nodes == ()
    drafter.propose = usual
    while run.finish is None:
        run.round()
    assert setup.parts.eagle.pairs >= len(PROMPT)


@pytest.mark.parametrize("head_for", [eagle_for, eagle3_for])
def test_the_head_drafts_along_each_path_of_the_tree_what_it_predicts(head_for):
    """The nodes' scores equal those that a head with a real layer gives to one pair at a time."""
    target = tiny_model(1, 3, "target")
    head = head_for(target)
    # The default number of nodes depends on measured times.
    config = replace(CONFIG, options=(("nodes", 8),))
    setup = Setup(target, Parts(eagle=head), config, 400)
    text = list(PROMPT)
    checked = 0
    for event in speculative.decode(target, make_drafter(setup), PROMPT, config):
        if isinstance(event, Prefill):
            text.append(event.extra.token_id)
            continue
        if not isinstance(event, Round) or checked > 40:
            continue
        for node in event.tree.nodes:
            above = [event.tree.nodes[i].token_id for i in event.tree.path(node.parent)]
            distribution = _chain_distribution(target, head, text, above)
            assert node.draft_score == pytest.approx(float(distribution[node.token_id]), abs=1e-4)
            checked += 1
        text += event.emitted_ids
    assert checked > 40


def _chain_distribution(target, head, text, above):
    """Return the head's distribution after `text` and then `above`, run one pair at a time.

    The pairs of `text` have the target's features; those of `above` have the head's predictions.
    """
    ids, cache = torch.tensor(text), target.new_cache(len(text))
    positions = torch.arange(len(text))
    states = target.forward(
        ids[None, :-1], positions[None, :-1], cache, feature_layers=head.feature_layers
    ).features
    own = head.new_cache(len(text) + len(above))
    logits, guesses = head.forward(ids[1:], head.reduce(states[0]), positions[:-1], own)
    for step, token in enumerate(above):
        at = torch.tensor([len(text) - 1 + step])
        logits, guesses = head.forward(torch.tensor([token]), guesses[-1:], at, own)
    distribution = logits.softmax(-1)[-1:]
    drafted = head.drafted
    return (distribution if drafted is None else drafted.spread_distributions(distribution))[0]


@pytest.mark.parametrize("kind, branching", SHAPES)
@pytest.mark.parametrize("model", [LlamaModel, LibraryModel])
def test_with_features_of_several_layers_the_greedy_text_is_the_baseline_text(
    kind, branching, model
):
    target = tiny_model(1, 3, "target", kind=model)
    config = replace(CONFIG, drawing=kind, branching=branching, temperature=0.0)
    setup = Setup(target, Parts(eagle=eagle3_for(target)), config, 400)
    assert setup.parts.eagle.feature_layers == (2, 1, 0)
    found = tokens_of(speculative.decode(target, make_drafter(setup), PROMPT, config))
    assert found == tokens_of(autoregressive.decode(target, PROMPT, config))


@pytest.mark.parametrize(
    "kind, branching, shape",
    [
        (CHOSEN, (), DynamicTree),
        (CHOSEN, (2,), StaticTree),
        (Drawing.INDEPENDENT, (), StaticTree),
    ],
)
def test_branching_and_drawn_kinds_use_a_static_tree(kind, branching, shape):
    config = replace(CONFIG, drawing=kind, branching=branching)
    assert isinstance(make_drafter(table_setup(config))._shape, shape)


def test_the_method_s_memory_is_the_weights_of_the_head():
    assert make_drafter(table_setup(CONFIG)).memory.weights == TableEagle.bytes
