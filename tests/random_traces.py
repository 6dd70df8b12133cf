"""Random but coherent traces: laws, trees, verdicts and texts as a real run would leave them.

Knows no model: p and q are random laws over a small vocabulary, the walk follows the rules of
METHODS for drawn and for deterministic trees. For tests and for looking at figures.
"""

from __future__ import annotations

import random
from dataclasses import replace

from specviz.experiments.replay import Replay
from specviz.records import (
    BaselineStep,
    CacheLengths,
    DecodingConfig,
    DraftNode,
    DraftTree,
    ExtraKind,
    ExtraToken,
    FinishReason,
    LookaheadState,
    ModelInfo,
    NgramMatch,
    Note,
    Outcome,
    Position,
    Prefill,
    ProposalKind,
    Round,
    Span,
    Trace,
    Verdict,
)

TEXTS = (
    *("def", " read", "_lines", "(", "path", ",", " encoding", '="', "utf", "-", "8", '"):'),
    *("\n", "    ", '"""', "Return", " the", " lines", " of", " a", " file", ".", " with"),
    *(" open", ")", " as", " f", ":", "\t", " return", " [", "line", ".r", "strip", "rstrip"),
    *("<b>", "&amp;", "${pwned()}", "internationalisation", " "),
)
VOCABULARY = len(TEXTS)
EXAMPLES = 10  # top tokens kept per position
THRESHOLD = 0.09  # of the lossy rule
Law = tuple[float, ...]


def random_law(rng: random.Random, sharpness: float = 0.15) -> Law:
    """A law over the vocabulary; a small `sharpness` makes it peaked."""
    weights = [rng.gammavariate(sharpness, 1.0) + 1e-9 for _ in range(VOCABULARY)]
    total = sum(weights)
    return tuple(weight / total for weight in weights)


def _mixed(p: Law, other: Law, share: float) -> Law:
    return tuple((1 - share) * a + share * b for a, b in zip(p, other, strict=True))


def _residual(p: Law, q: Law) -> Law:
    rest = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    total = sum(rest)
    return tuple(value / total for value in rest) if total > 0 else p


def _sample(rng: random.Random, law: Law) -> int:
    return rng.choices(range(VOCABULARY), weights=law)[0]


class _RoundMaker:
    """Builds one round: a tree, its laws, the walk and the records of both."""

    def __init__(self, rng: random.Random, kind: ProposalKind, has_laws: bool) -> None:
        self.rng, self.kind, self.has_laws = rng, kind, has_laws
        self.p: dict[int, Law] = {}  # parent -> law
        self.q: dict[int, Law] = {}
        self.nodes: list[DraftNode] = []

    def grow(self, widths: tuple[int, ...]) -> None:
        level = [-1]
        for depth, width in enumerate(widths, start=1):
            level = [child for parent in level for child in self._children(parent, depth, width)]

    def _children(self, parent: int, depth: int, width: int) -> list[int]:
        self._law(parent)
        q, made = self.q[parent], []
        ranked = sorted(range(VOCABULARY), key=lambda token: -q[token])
        for rank in range(width):
            drawn = self.kind is ProposalKind.IID
            token = _sample(self.rng, q) if drawn else ranked[rank]
            rule_q = q[token] if drawn else 1.0
            self.nodes.append(DraftNode(token, parent, depth, rule_q, q[token]))
            made.append(len(self.nodes) - 1)
        return made

    def _law(self, parent: int) -> None:
        self.p[parent] = random_law(self.rng)
        self.q[parent] = _mixed(self.p[parent], random_law(self.rng), self.rng.random() * 0.7)

    def build(self, index: int, context_length: int) -> Round:
        tree = DraftTree(self.kind, tuple(self.nodes))
        outcomes = [Outcome.UNREACHED] * len(self.nodes)
        uniforms = [self.rng.random() for _ in self.nodes]
        compared = {i: self._p(node.parent)[node.token_id] for i, node in enumerate(self.nodes)}
        residuals: dict[int, Law] = {}
        here, examined = -1, [-1]
        while tree.children(here):
            law, chosen = self._p(here), None
            for child in tree.children(here):
                node = self.nodes[child]
                compared[child] = law[node.token_id]
                if self._passes(law[node.token_id], node.draft_prob, uniforms[child]):
                    chosen = child
                    break
                outcomes[child] = Outcome.REJECTED
                law = _residual(law, self._rule_q(node)) if self.kind.is_lossless else law
            if chosen is None:
                residuals[here] = law
                break
            outcomes[chosen] = Outcome.ACCEPTED
            here = chosen
            examined.append(here)
        last_law = residuals.get(here, self._p(here))
        token = _sample(self.rng, last_law)
        extra_kind = ExtraKind.RECOVERED if here in residuals else ExtraKind.BONUS
        verdicts = tuple(
            self._verdict(node, compared[i], uniforms[i], outcomes[i])
            for i, node in enumerate(self.nodes)
        )
        accepted = sum(outcome is Outcome.ACCEPTED for outcome in outcomes)
        draft_seconds = 0.001 + 0.0015 * max((node.depth for node in self.nodes), default=0)
        verify_seconds = 0.016 + 0.0003 * len(self.nodes) + self.rng.random() * 0.002
        notes: tuple[Note, ...] = ()
        if not self.has_laws:
            match = NgramMatch(2, self.rng.randrange(context_length))
            window = tuple(node.token_id for node in self.nodes)
            notes = (match, LookaheadState(3, 1, 0, (len(window),), window))
        return Round(
            index=index,
            context_length=context_length,
            tree=tree,
            verdicts=verdicts,
            positions=tuple(self._position(parent, residuals) for parent in examined),
            extra=ExtraToken(token, extra_kind, here, last_law[token]),
            extra_ids=tuple(
                token if row == here + 1 else row % VOCABULARY for row in range(len(self.nodes) + 1)
            ),
            draft_seconds=draft_seconds,
            verify_seconds=verify_seconds,
            host_seconds=0.0006 + self.rng.random() * 0.0004,
            spans=(),
            notes=notes,
            cache=CacheLengths(context_length - 1, len(self.nodes) + 1, len(self.nodes) - accepted),
        )

    def _passes(self, p: float, q: float, u: float) -> bool:
        return u * q < p if self.kind.is_lossless else p > THRESHOLD

    def _p(self, parent: int) -> Law:
        if parent not in self.p:
            self._law(parent)
        return self.p[parent]

    def _rule_q(self, node: DraftNode) -> Law:
        if self.kind is ProposalKind.IID:
            return self.q[node.parent]
        return tuple(float(token == node.token_id) for token in range(VOCABULARY))

    def _verdict(self, node: DraftNode, compared: float, u: float, outcome: Outcome) -> Verdict:
        p = self._p(node.parent)[node.token_id]
        return Verdict(
            target_prob=p,
            residual_prob=compared,
            draft_prob=node.draft_prob,
            acceptance_prob=min(1.0, compared / node.draft_prob)
            if self.kind.is_lossless
            else float(compared > THRESHOLD),
            uniform_draw=u,
            outcome=outcome,
            raw_target_prob=p,
            raw_draft_prob=self.q[node.parent][node.token_id] if self.has_laws else 1.0,
        )

    def _position(self, parent: int, residuals: dict[int, Law]) -> Position:
        return _position(parent, self._p(parent), self._draft_law(parent), residuals.get(parent))

    def _draft_law(self, parent: int) -> Law | None:
        return self.q.get(parent) if self.has_laws else None


def _position(parent: int, p: Law, q: Law | None, residual: Law | None) -> Position:
    top = sorted(range(VOCABULARY), key=lambda token: -p[token])[:EXAMPLES]
    laws = [tuple(law[t] for t in top) if law else () for law in (p, q, residual)]
    overlap = sum(min(a, b) for a, b in zip(p, q, strict=True)) if q else 0.0
    return Position(
        parent=parent,
        token_ids=tuple(top),
        target_probs=laws[0],
        draft_probs=laws[1],
        residual_probs=laws[2],
        raw_target_probs=laws[0],
        raw_draft_probs=laws[1],
        entropy=1.25,
        overlap=min(1.0, overlap),
        raw_overlap=min(1.0, overlap),
        margin=0.5,
    )


def random_round(
    seed: int = 0,
    widths: tuple[int, ...] = (1, 1, 1, 1, 1),
    kind: ProposalKind = ProposalKind.IID,
    has_laws: bool = True,
    index: int = 0,
    context_length: int = 12,
) -> Round:
    """One round with its tree grown to `widths` (empty: the drafter proposed nothing)."""
    maker = _RoundMaker(random.Random(seed), kind, has_laws)
    maker.grow(widths)
    return on_clock(maker.build(index, context_length), start=0.0)


def on_clock(round_: Round, start: float, is_ahead: bool = False) -> Round:
    """The round from `start` on its lane's clock; `is_ahead` adds work beside its verification."""
    drafted = start + round_.draft_seconds
    verified = drafted + round_.verify_seconds
    spans = [Span("draft", start, drafted), Span("verify", drafted, verified)]
    spans.append(Span("host", verified, verified + round_.host_seconds))
    if is_ahead:
        spans.append(Span("draft ahead", drafted, drafted + 0.7 * round_.verify_seconds))
    return replace(round_, spans=tuple(spans))


def random_trace(
    seed: int = 0,
    rounds: int = 20,
    branching: tuple[int, ...] = (),
    kind: ProposalKind = ProposalKind.IID,
    draft_length: int = 5,
    temperature: float = 0.7,
    has_laws: bool = True,
    cut: bool = False,
    is_ahead: bool = False,
) -> Trace:
    """A finished race of both lanes; `cut` ends the last round at an accepted token.

    At temperature 0 both lanes emit the same tokens. Without laws the drafter is an n-gram lookup
    that finds nothing in some rounds.
    """
    rng = random.Random(seed)
    config = DecodingConfig(
        method="draft-model" if has_laws else "prompt-lookup",
        draft_length=draft_length,
        branching=branching,
        tree_kind=kind,
        temperature=temperature,
        seed=seed,
        max_new_tokens=4096,
    )
    prompt_ids = tuple(rng.randrange(VOCABULARY) for _ in range(8))
    made: list[Round] = []
    length = len(prompt_ids) + 1
    for index in range(rounds):
        found = has_laws or rng.random() < 0.6
        widths = config.widths[: None if has_laws else rng.randint(1, draft_length)]
        used = kind if has_laws else ProposalKind.DETERMINISTIC
        seed_here = rng.randrange(2**31)
        each = random_round(seed_here, widths if found else (), used, has_laws, index, length)
        each = on_clock(each, sum(one.seconds for one in made), is_ahead)
        made.append(each)
        length += len(each.emitted_ids)
    if cut and made and made[-1].accepted:
        made[-1] = replace(made[-1], extra=None)
    first = _random_prefill(rng, len(prompt_ids), 0.031)
    ids = [token for each in made for token in each.emitted_ids]
    if temperature > 0:
        ids = [rng.randrange(VOCABULARY) for _ in ids]
    return Trace(
        config=config,
        target=ModelInfo("bundled-target", "llama", 17_000_000, 68_000_000, 8, 384, 4096, 2048),
        draft=ModelInfo("bundled-draft", "llama", 1_000_000, 4_000_000, 2, 128, 4096, 2048)
        if has_laws
        else None,
        device="cpu",
        dtype="float32",
        prompt="".join(TEXTS[token] for token in prompt_ids),
        prompt_ids=prompt_ids,
        token_texts=tuple(enumerate(TEXTS)),
        prefill=first,
        rounds=tuple(made),
        finish=FinishReason.END_OF_SEQUENCE if cut else FinishReason.LENGTH,
        baseline_prefill=replace(first, seconds=0.030),
        baseline_steps=tuple(
            BaselineStep(i, token, rng.random(), rng.random(), 0.016 + 0.002 * rng.random())
            for i, token in enumerate(ids)
        ),
        baseline_finish=FinishReason.LENGTH,
        drafter_bytes=4_000_000,
    )


def _random_prefill(rng: random.Random, prompt_length: int, seconds: float) -> Prefill:
    law = random_law(rng)
    token = _sample(rng, law)
    extra = ExtraToken(token, ExtraKind.FIRST, -1, law[token])
    return Prefill(prompt_length, extra, _position(-1, law, None, None), seconds)


def not_started(trace: Trace) -> Trace:
    """The same setting before either lane has begun."""
    return Replay(trace).header
