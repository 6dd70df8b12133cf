"""Every lossless rule is exact: this is proved by enumeration of all drafts and verdicts.

The tests run the functions `accept` and `walk` of the rules; they contain no second copy of them.
"""

import itertools
from dataclasses import replace

import pytest
import torch

from specviz.decoding.rules import block, token_by_token, traversal, typical
from specviz.decoding.rules.rule import Walk, walk_down
from specviz.decoding.rules.token_by_token import acceptance
from specviz.decoding.topology import Topology, device_topology, topology, tree_shape
from specviz.records import Drawing

CPU = torch.device("cpu")
TREES = {
    "chain of one": (-1,),
    "chain of three": (-1, 0, 1),
    "two siblings": (-1, -1),
    "three siblings": (-1, -1, -1),
    "two siblings, the first continued": (-1, -1, 0),
    "two siblings, the second continued": (-1, -1, 1),
    "two by two": (-1, -1, 0, 0, 1, 1),
}
VOCAB = {"three siblings": 5, "two by two": 4}


def random_distributions(generator, rows, vocab, zeros):
    """Return random float64 distributions [rows, vocab]; `zeros` sets a third of them to 0."""
    mass = torch.rand(rows, vocab, generator=generator, dtype=torch.float64) ** 2
    if zeros:
        mass[torch.rand(rows, vocab, generator=generator) < 0.35] = 0
        mass[:, 0] += 0.05
        mass[:, -1] += 0.05
    return mass / mass.sum(-1, keepdim=True)


class World:
    """Random p and q for every prefix of tokens, as two models would return them."""

    def __init__(self, seed, vocab, depth, zeros):
        generator = torch.Generator().manual_seed(seed)
        prefixes = [x for n in range(depth + 1) for x in itertools.product(range(vocab), repeat=n)]
        self.vocab = vocab
        self.rule = token_by_token.RULE
        self.p = dict(
            zip(prefixes, random_distributions(generator, len(prefixes), vocab, zeros), strict=True)
        )
        self.q = dict(
            zip(prefixes, random_distributions(generator, len(prefixes), vocab, zeros), strict=True)
        )


def shape_of(tree: Topology):
    return tree_shape(tuple(tree.parents.tolist()))


def prefix_of(tree: Topology, tokens, row):
    node, reversed_prefix, parents = row - 1, [], shape_of(tree).parents
    while node >= 0:
        reversed_prefix.append(tokens[node])
        node = parents[node]
    return tuple(reversed(reversed_prefix))


def draft_prob(tree, tokens, kind, world):
    """Return the probability that the drafter proposes exactly these tokens."""
    weight, parents = 1.0, shape_of(tree).parents
    for node, parent in enumerate(parents):
        q = world.q[prefix_of(tree, tokens, parent + 1)].clone()
        if kind is Drawing.WITHOUT_REPLACEMENT:
            for earlier in range(node):
                if parents[earlier] == parent:
                    q[tokens[earlier]] = 0
            q = q / q.sum() if q.sum() > 0 else q
        weight *= float(q[tokens[node]])
    return weight


def drafts(tree, kind, world):
    """Yield every possible draft with its probability."""
    if not kind.is_drawn:
        # A rule for point masses must be exact for any fixed tokens, even repeated ones.
        generator = torch.Generator().manual_seed(5)
        for _ in range(6):
            yield tuple(torch.randint(world.vocab, (tree.size,), generator=generator).tolist()), 1.0
        return
    for tokens in itertools.product(range(world.vocab), repeat=tree.size):
        weight = draft_prob(tree, tokens, kind, world)
        if weight > 0:
            yield tokens, weight


def verdicts(tree, kind, world, tokens):
    """Return the `Acceptance` of one draft, and every accepted path with its probability."""
    p = torch.stack([world.p[prefix_of(tree, tokens, row)] for row in range(tree.size + 1)])
    q = torch.stack([world.q[prefix_of(tree, tokens, row)] for row in range(tree.expanded)])
    result = world.rule.accept(tree, torch.tensor(tokens), kind, p, q if kind.is_drawn else None)
    probs, groups, paths = result.acceptance_probs.tolist(), shape_of(tree).groups, []
    for accepts in itertools.product((True, False), repeat=tree.size):
        weight = 1.0
        for accept, prob in zip(accepts, probs, strict=True):
            weight *= prob if accept else 1 - prob
        if weight == 0:
            continue
        # All draws below the acceptance probability accept, and all others reject. Use the middle
        # of the interval that gives the wanted verdict.
        uniforms = [
            prob / 2 if accept else (1 + prob) / 2
            for accept, prob in zip(accepts, probs, strict=True)
        ]
        paths.append((weight, world.rule.walk(groups, probs, uniforms).path))
    return result, paths


def emitted_distribution(tree, kind, world, tokens, output):
    """Add the distribution of the emitted prefixes for one draft to `output`."""
    result, paths = verdicts(tree, kind, world, tokens)
    for weight, path in paths:
        end = path[-1] if path else -1
        prefix = prefix_of(tree, tokens, end + 1)
        for extra, mass in enumerate(result.extra_distributions[end + 1].tolist()):
            output[(*prefix, extra)] = output.get((*prefix, extra), 0.0) + weight * mass


def completed(world, output, length):
    """Return the distribution of sequences of `length` tokens.

    If a round emitted fewer tokens, the target continues the sequence.
    """
    distribution = {}
    for prefix, weight in output.items():
        for rest in itertools.product(range(world.vocab), repeat=length - len(prefix)):
            sequence, mass = prefix + rest, weight
            for end in range(len(prefix), length):
                mass *= float(world.p[sequence[:end]][sequence[end]])
            distribution[sequence] = distribution.get(sequence, 0.0) + mass
    return distribution


def worst_error(tree, kind, world):
    """Return the largest difference between the emitted distribution and p.

    The sequences are one token longer than the tree is deep.
    """
    length = max(shape_of(tree).depths) + 1
    total: dict = {}
    results = []
    for tokens, weight in drafts(tree, kind, world):
        output: dict = {}
        emitted_distribution(tree, kind, world, tokens, output)
        distribution = completed(world, output, length)
        results.append(distribution)
        for sequence, mass in distribution.items():
            total[sequence] = total.get(sequence, 0.0) + weight * mass
    # A deterministic proposal must be exact for each draft; a drawn proposal must be exact on
    # average.
    distributions = [total] if kind.is_drawn else results
    worst = 0.0
    for distribution in distributions:
        for sequence in itertools.product(range(world.vocab), repeat=length):
            expected = 1.0
            for end in range(length):
                expected *= float(world.p[sequence[:end]][sequence[end]])
            worst = max(worst, abs(distribution.get(sequence, 0.0) - expected))
    return worst


def on_the_device(parents):
    """Return a tree whose parents exist only in the device's memory, as some drafters build it."""
    shape = tree_shape(parents)
    width = max(map(len, shape.groups))
    return device_topology(torch.tensor(parents), max(shape.depths), width)


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
@pytest.mark.parametrize("made", ["host", "device"])
@pytest.mark.parametrize("shape", TREES)
def test_the_emitted_distribution_equals_the_target_distribution(shape, made, kind, zeros):
    parents = TREES[shape]
    tree = topology(parents, CPU) if made == "host" else on_the_device(parents)
    vocab = VOCAB.get(shape, 4) if tree.size < 6 else 3
    world = World(len(shape), vocab, tree.height + 1, zeros)
    assert worst_error(tree, kind, world) < 1e-9


CHAINS = {"chain of one": (-1,), "chain of two": (-1, 0), "chain of three": (-1, 0, 1)}


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
@pytest.mark.parametrize("made", ["host", "device"])
@pytest.mark.parametrize("shape", CHAINS)
def test_block_verification_of_a_chain_emits_the_target_distribution(shape, made, kind, zeros):
    parents = CHAINS[shape]
    tree = topology(parents, CPU) if made == "host" else on_the_device(parents)
    world = World(len(shape), 3, tree.height + 1, zeros)
    world.rule = block.RULE
    assert worst_error(tree, kind, world) < 1e-9


def expected_accepted(tree, kind, world):
    """Return how many drafted tokens are accepted on average."""
    total = 0.0
    for tokens, weight in drafts(tree, kind, world):
        for mass, path in verdicts(tree, kind, world, tokens)[1]:
            total += weight * mass * len(path)
    return total


def test_block_verification_accepts_11_9_tokens_where_token_by_token_accepts_10_9():
    """In the paper's example (arXiv 2403.10444), p is the same at every position, and so is q."""
    world = World(1, 2, 3, False)
    world.p = dict.fromkeys(world.p, torch.tensor([1 / 3, 2 / 3], dtype=torch.float64))
    world.q = dict.fromkeys(world.q, torch.tensor([2 / 3, 1 / 3], dtype=torch.float64))
    tree = topology(CHAINS["chain of two"], CPU)
    assert expected_accepted(tree, Drawing.INDEPENDENT, world) == pytest.approx(10 / 9)
    world.rule = block.RULE
    assert expected_accepted(tree, Drawing.INDEPENDENT, world) == pytest.approx(11 / 9)
    assert worst_error(tree, Drawing.INDEPENDENT, world) < 1e-9


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize("shape", CHAINS)
def test_block_verification_gains_only_with_several_drawn_tokens(shape, zeros):
    tree = topology(CHAINS[shape], CPU)
    world = World(3, 3, tree.height + 1, zeros)
    for kind in (Drawing.INDEPENDENT, Drawing.CHOSEN):
        world.rule = token_by_token.RULE
        single = expected_accepted(tree, kind, world)
        world.rule = block.RULE
        gain = expected_accepted(tree, kind, world) - single
        if tree.size > 1 and kind.is_drawn:
            assert gain > 1e-3
        else:
            assert gain == pytest.approx(0, abs=1e-12)


BRANCHING = {
    **{name: TREES[name] for name in TREES if name.startswith("t")},
    "three siblings, two of them continued": (-1, -1, -1, 0, 1),
    "branches of different depths": (-1, 0, 1, 0, -1),
}
DRAWN = [kind for kind in Drawing if kind.is_drawn]


def small_world(parents, height, zeros):
    """Return random models over four tokens, or over three for trees with many drafts."""
    return World(len(parents), 4 if len(parents) < 4 else 3, height + 1, zeros)


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
@pytest.mark.parametrize("made", ["host", "device"])
@pytest.mark.parametrize("shape", CHAINS | BRANCHING)
def test_traversal_verification_of_a_tree_emits_the_target_distribution(shape, made, kind, zeros):
    parents = (CHAINS | BRANCHING)[shape]
    tree = topology(parents, CPU) if made == "host" else on_the_device(parents)
    world = small_world(parents, tree.height, zeros)
    world.rule = traversal.RULE
    assert worst_error(tree, kind, world) < 1e-9


@pytest.mark.parametrize("shape", CHAINS)
def test_traversal_verification_of_a_chain_is_block_verification(shape):
    tree = topology(CHAINS[shape], CPU)
    world = World(4, 3, tree.height + 1, True)
    for tokens, _ in drafts(tree, Drawing.INDEPENDENT, world):
        world.rule = block.RULE
        wanted, paths = verdicts(tree, Drawing.INDEPENDENT, world, tokens)
        world.rule = traversal.RULE
        found, own_paths = verdicts(tree, Drawing.INDEPENDENT, world, tokens)
        assert torch.allclose(found.acceptance_probs, wanted.acceptance_probs, atol=1e-12)
        extra, wanted_extra = found.extra_distributions, wanted.extra_distributions
        assert torch.allclose(extra, wanted_extra, atol=1e-12)
        assert [path for _, path in own_paths] == [path for _, path in paths]


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.value)
def test_traversal_verification_accepts_more_tokens_of_trees_than_token_by_token(kind):
    gains = []
    for seed, parents in enumerate(BRANCHING.values()):
        tree = topology(parents, CPU)
        for zeros in (False, True):
            world = World(seed, 3, tree.height + 1, zeros)
            single = expected_accepted(tree, kind, world)
            world.rule = traversal.RULE
            gains.append(expected_accepted(tree, kind, world) - single)
    assert sum(gains) > 0.1


@pytest.mark.parametrize("kind", DRAWN, ids=lambda kind: kind.value)
@pytest.mark.parametrize("shape", BRANCHING)
def test_traversal_verification_accepts_a_first_guess_as_often_as_token_by_token(shape, kind):
    tree = topology(BRANCHING[shape], CPU)
    world, found = World(8, 3, tree.height + 1, False), []
    for rule in (token_by_token.RULE, traversal.RULE):
        world.rule = rule
        found.append(
            sum(
                weight * mass
                for tokens, weight in drafts(tree, kind, world)
                for mass, path in verdicts(tree, kind, world, tokens)[1]
                if path
            )
        )
    assert found[1] == pytest.approx(found[0], abs=1e-12)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        *(("three siblings", kind) for kind in DRAWN),
        *((shape, Drawing.CHOSEN) for shape in BRANCHING),
    ],
)
def test_traversal_verification_of_one_level_or_of_chosen_tokens_gains_nothing(shape, kind):
    parents = BRANCHING[shape]
    tree = topology(parents, CPU)
    world = small_world(parents, tree.height, False)
    single = expected_accepted(tree, kind, world)
    world.rule = traversal.RULE
    assert expected_accepted(tree, kind, world) == pytest.approx(single, abs=1e-12)


def test_a_leaf_and_its_parent_are_judged_as_computed_by_hand():
    """The root has the children A (token 0) and B (token 1); A has one child, C (token 1).

    `specviz.decoding.rules.traversal` defines the budget b of a node and the sum S. At A, b =
    min(1, 0.2 / 0.4) = 1/2, and at C, b = min(1, 1/2 * 0.8 / 0.5) = 0.8. After C failed, S at A is
    0: token 0 adds max(0, 1/2 * 0.2 - 0.5) = 0, and token 1 adds max(0, 1/2 * 0.8 - 0.5) = 0. So A
    cannot pass. After A failed, S at the root is 0.8 - 0.6 = 0.2, all of it for token 1, so B
    surely passes.
    """
    tree = topology((-1, -1, 0), CPU)
    p = torch.tensor([[0.2, 0.8], [0.2, 0.8], [0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    q = torch.tensor([[0.4, 0.6], [0.5, 0.5]], dtype=torch.float64)
    found = traversal.RULE.accept(tree, torch.tensor([0, 1, 1]), Drawing.INDEPENDENT, p, q)
    assert found.acceptance_probs.tolist() == pytest.approx([0, 1, 0.8])
    assert found.target_probs.tolist() == pytest.approx([0.2, 0.8, 0.8])
    assert found.residual_probs.tolist() == pytest.approx([0.2, 1, 0.8])
    assert found.draft_probs.tolist() == pytest.approx([0.4, 0.6, 0.5])
    assert found.extra_distributions[0].tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize("rule", [block.RULE, traversal.RULE], ids=lambda rule: rule.name)
@pytest.mark.parametrize("seed", range(20))
def test_thresholds_of_a_chain_are_probabilities_if_p_and_q_differ_only_by_rounding(seed, rule):
    torch.manual_seed(seed)
    tree = topology((-1, 0, 1, 2), CPU)
    q = torch.rand(tree.size + 1, 2000).softmax(-1)
    p = (q * (1 + 2e-7 * torch.randn_like(q))).clamp(min=0)
    tokens = torch.randint(0, q.shape[-1], (tree.size,))
    found = rule.accept(tree, tokens, Drawing.INDEPENDENT, p, q[: tree.expanded])
    for each in (found.acceptance_probs, found.extra_distributions):
        assert 0 <= float(each.min()) and float(each.max()) <= 1


def off_by_rounding(tree, token_ids, kind, p, q):
    """Return `acceptance` for p and q whose rows are multiplied so that their sums differ from 1.

    The result must be the same as without the factors.
    """
    wrong_p = 1 + 0.01 * torch.arange(len(p), dtype=p.dtype)[:, None]
    wrong_q = None if q is None else 1 - 0.02 * torch.arange(1, len(q) + 1, dtype=p.dtype)[:, None]
    found = acceptance(tree, token_ids, kind, p * wrong_p, None if q is None else q * wrong_q)
    extra = found.extra_distributions
    return replace(found, extra_distributions=extra / extra.sum(-1, keepdim=True))


@pytest.mark.parametrize("zeros", [False, True], ids=["full support", "holes in the support"])
@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
@pytest.mark.parametrize("shape", TREES)
def test_distributions_need_not_sum_to_1(shape, kind, zeros):
    tree = topology(TREES[shape], CPU)
    vocab = VOCAB.get(shape, 4) if tree.size < 6 else 3
    world = World(len(shape), vocab, tree.height + 1, zeros)
    world.rule = replace(token_by_token.RULE, accept=off_by_rounding)
    assert worst_error(tree, kind, world) < 1e-9


@pytest.mark.parametrize("shape", TREES)
def test_a_tree_known_on_the_device_has_the_same_tables_as_one_known_on_the_host(shape):
    host, device = topology(TREES[shape], CPU), on_the_device(TREES[shape])
    assert torch.equal(host.mask, device.mask) and torch.equal(host.offsets, device.offsets)
    assert len(host.levels) == len(device.levels) == host.height
    for (rows, nodes), (padded_rows, padded_nodes) in zip(
        host.siblings, device.siblings, strict=True
    ):
        pairs = set(zip(padded_rows.tolist(), padded_nodes.tolist(), strict=True))
        pairs.discard((host.size + 1, host.size))
        assert pairs == set(zip(rows.tolist(), nodes.tolist(), strict=True))


def test_typical_acceptance_is_not_lossless():
    world = World(3, 4, 3, False)
    world.rule = typical.RULE
    errors = [
        worst_error(topology(parents, CPU), Drawing.CHOSEN, world) for parents in ((-1,), (-1, -1))
    ]
    assert min(errors) > 0.05


def test_typical_acceptance_of_a_certain_target_accepts_only_its_token():
    tree = topology((-1, -1), CPU)
    p = torch.tensor([[0.0, 1.0, 0.0]] * 3)
    result = typical.RULE.accept(tree, torch.tensor([2, 1]), Drawing.CHOSEN, p, None)
    assert result.acceptance_probs.tolist() == [0, 1]
    assert torch.equal(result.extra_distributions, p)


def test_enumeration_detects_a_biased_rule(monkeypatch):
    """Resampling from p instead of the residual is the classic mistake; it must give an error."""
    monkeypatch.setattr(token_by_token, "residual", lambda p, q: p)
    tree = topology((-1, -1), CPU)
    assert worst_error(tree, Drawing.INDEPENDENT, World(1, 4, 2, False)) > 0.01


def test_enumeration_detects_siblings_sorted_by_probability():
    """The rule is exact only if siblings are examined in the order in which they were drawn."""
    tree = topology((-1, -1), CPU)
    world = World(2, 4, 2, False)
    total: dict = {}
    for tokens, weight in drafts(tree, Drawing.INDEPENDENT, world):
        ordered = tuple(sorted(tokens, key=lambda token: -float(world.q[()][token])))
        output: dict = {}
        emitted_distribution(tree, Drawing.INDEPENDENT, world, ordered, output)
        for sequence, mass in output.items():
            total[sequence[0]] = total.get(sequence[0], 0.0) + weight * mass
    errors = [abs(total[token] - float(world.p[()][token])) for token in range(4)]
    assert max(errors) > 0.005


def test_a_token_of_probability_0_is_rejected_even_at_draw_0():
    assert walk_down([[0], []], [0.0], [0.0]).path == ()


def test_a_token_with_acceptance_probability_1_passes_at_the_largest_draw():
    assert walk_down([[0], []], [1.0], [1 - 2.0**-53]).path == (0,)


def test_a_repeated_sibling_is_always_rejected_and_still_updates_the_residual():
    tree = topology((-1, -1), CPU)
    p = torch.tensor([[0.2, 0.5, 0.3]] * 3, dtype=torch.float64)
    q = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    result = acceptance(tree, torch.tensor([0, 0]), Drawing.INDEPENDENT, p, q)
    # After the first rejection p is (0, .2, .2) / .4 = (0, .5, .5); after the second it is (0, .2,
    # .4) / .6.
    assert result.acceptance_probs.tolist() == pytest.approx([1 / 3, 0])
    assert result.extra_distributions[0].tolist() == pytest.approx([0, 1 / 3, 2 / 3])


def test_a_rejected_point_mass_is_removed_from_the_target_s_distribution():
    tree = topology((-1, -1), CPU)
    p = torch.tensor([[0.2, 0.5, 0.3]] * 3, dtype=torch.float64)
    result = acceptance(tree, torch.tensor([1, 0]), Drawing.CHOSEN, p, None)
    assert result.acceptance_probs.tolist() == pytest.approx([0.5, 0.4])
    assert result.extra_distributions[0].tolist() == pytest.approx([0, 0, 1])


def test_an_empty_tree_leaves_the_target_distribution_unchanged():
    p = torch.tensor([[0.2, 0.8]])
    result = acceptance(
        topology((), CPU), torch.tensor([], dtype=torch.long), Drawing.INDEPENDENT, p, None
    )
    assert result.extra_distributions.tolist() == p.tolist()
    assert walk_down([[]], [], []).end == -1


@pytest.mark.parametrize("kind", Drawing, ids=lambda kind: kind.value)
def test_the_recorded_p_of_a_sibling_ignores_earlier_rejections(kind):
    tree, tokens = topology((-1, -1, -1), CPU), torch.tensor([1, 0, 2])
    p, q = (each[None].double() for each in torch.tensor([[0.5, 0.2, 0.3], [0.2, 0.7, 0.1]]))
    found = acceptance(tree, tokens, kind, p.expand(4, -1), q if kind.is_drawn else None)
    assert found.target_probs.tolist() == pytest.approx([0.2, 0.5, 0.3])
    assert found.residual_probs.tolist() != pytest.approx([0.2, 0.5, 0.3])


def test_a_walk_examines_siblings_in_order_at_any_depth():
    # These nodes are the first of three siblings at each of eight depths. The walk rejects two
    # siblings and accepts the third.
    firsts = range(0, 24, 3)
    children = [(), *[()] * 24]
    for depth, first in enumerate(firsts):
        children[3 * depth] = (first, first + 1, first + 2)
    accept = [0.2, 0.2, 0.8] * 8
    found = walk_down(children, accept, [0.5] * 24)
    assert found.path == tuple(first + 2 for first in firsts)
    assert found.rejected == tuple(node for node in range(24) if node % 3 < 2)


def test_cutting_a_walk_removes_rejections_after_its_end():
    whole = Walk(path=(1, 3), rejected=(0, 2))
    assert whole.cut({1}, depths=(1, 1, 2, 2)) == Walk((1,), (0,))
    assert whole.cut({3}, depths=(1, 1, 2, 2)) == whole
    assert whole.cut({0}, depths=(1, 1, 2, 2)) is None
