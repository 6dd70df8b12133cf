"""One plain sentence with its numbers for every moment of a round, shown by the debugger.

The functions turn records into words. A sentence is a list of texts and token ids; the page shows
an id as the text of the token. A sentence depends only on its round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.figures.distribution_rows import first_q, has_own_distribution
from specviz.figures.hover import shown_draft_prob
from specviz.figures.labels import compared, decimals, drawn, in_proportion, percent
from specviz.figures.rule_words import carried_ratios, rule_words
from specviz.records import (
    BatchRound,
    ExtraKind,
    LookaheadState,
    Outcome,
    Position,
    Round,
    Verdict,
)

Part = str | list[int]
Sentence = list[Part]
NAMED = 4  # largest number of tokens of one level that a sentence names
_COPIED = "This draft gives no probability."


@dataclass(frozen=True, slots=True)
class RoundSentences:
    """The sentences about each phase of a round.

    `draft` has one sentence per level of the tree; if nothing was drafted, it has a single sentence
    that says so. `judge` has one sentence per drafted node, also for nodes that were not examined.
    `extra` is None if the target added no token.
    """

    draft: list[Sentence]
    verify: Sentence
    judge: list[Sentence]
    extra: Sentence | None
    commit: Sentence


def round_sentences(round_: Round, is_greedy: bool, knows_extra: bool = True) -> RoundSentences:
    """Return the sentences for every moment of a round.

    `is_greedy` is True if the run decodes at temperature 0. `knows_extra` is False if the record
    does not contain the probability of the extra token.
    """
    words = _Words(round_, is_greedy, knows_extra)
    levels = range(1, 1 + max((node.depth for node in round_.tree.nodes), default=0))
    return RoundSentences(
        draft=[words.draft(level) for level in levels] or [["Nothing was drafted in this round."]],
        verify=words.verify(),
        judge=[words.judge(node) for node in range(len(round_.tree.nodes))],
        extra=None if round_.extra is None else words.extra(),
        commit=words.commit(),
    )


class _Words:
    def __init__(self, round_: Round, is_greedy: bool, knows_extra: bool) -> None:
        self.round, self.is_greedy, self.knows_extra = round_, is_greedy, knows_extra
        self.nodes, self.drawing = round_.tree.nodes, round_.tree.drawing
        self.rule = rule_words(round_.rule)
        depths = [node.depth for node in self.nodes]
        self.is_chain = len(set(depths)) == len(depths)
        self.has_confidence = has_own_distribution(round_)

    def draft(self, level: int) -> Sentence:
        own = [i for i, node in enumerate(self.nodes) if node.depth == level]
        if self.is_chain:
            return [f"Guess {level} of {len(self.nodes)}: ", *self._guess(own[0])]
        rest = [f" and {len(own) - NAMED} more"] if len(own) > NAMED else []
        named = _listed([self._shown(i) for i in own[:NAMED]], is_open=bool(rest))
        noun = "one guess" if len(own) == 1 else f"{len(own)} guesses"
        return [f"Depth {level}, {noun}: ", *named, *rest, f". {self._manner}"]

    def _guess(self, node: int) -> Sentence:
        if not self.has_confidence:
            return [self._token(node), f". {_COPIED}"]
        q = percent(self._own_q(node))
        if self.is_greedy and self.drawing.is_drawn and not self.drawing.removes:
            return ["the draft takes ", self._token(node), f", its most probable token ({q})."]
        if self._is_drawn:
            return ["the draft draws ", self._token(node), f", to which it gave {q}."]
        return ["the draft picks ", self._token(node), f", to which it gives {q}."]

    def _shown(self, node: int) -> Sentence:
        q = f" {percent(self._own_q(node))}" if self.has_confidence else ""
        return [self._token(node), q]

    @property
    def _manner(self) -> str:
        if not self.has_confidence:
            return _COPIED
        if not self._is_drawn:
            return "The draft picked them; the percentages are its own."
        if not self.drawing.removes:
            return "Each was drawn from the draft’s distribution, so one can come twice."
        return "They were drawn from the draft’s distribution, none twice."

    @property
    def _is_drawn(self) -> bool:
        return self.drawing.is_drawn and not self.is_greedy

    def _own_q(self, node: int) -> float:
        """Return the draft's probability of a node's token, before it drew any of its siblings."""
        return first_q(self.round, node) if self._is_drawn else shown_draft_prob(self.nodes[node])

    def verify(self) -> Sentence:
        count, took = len(self.nodes), _milliseconds(self.round.verify_seconds)
        guesses = "the one guess" if count == 1 else f"all {count} guesses"
        riding = self._riding
        alone = "the last token" if riding else "the last token alone"
        read = f"the last token and {guesses}" if count else alone
        gives = "p, its next-token distribution"
        gives += f", after each. {self._seen}" if count else ""
        gives = f"gives {gives}.{riding}"
        batch = next((note for note in self.round.notes if isinstance(note, BatchRound)), None)
        if batch is None or batch.rows == 1:
            once = f", each weight once ({took})," if count else f" ({took})"
            return [f"One forward of the target reads {read}{once} and {gives}"]
        whole = f"for {batch.rows} rows of the batch, {batch.tokens} tokens at once ({took})"
        return [f"One forward of the target {whole}; in this row {read}. It {gives}"]

    @property
    def _riding(self) -> str:
        """Return a sentence about the lookahead window's tokens; "" if there are none.

        They run in the target's forward together with the draft, but no rule verifies them.
        """
        states = (each for each in self.round.notes if isinstance(each, LookaheadState))
        extra = sum(len(each.token_ids) for each in states)
        if not extra:
            return ""
        tokens = _count(extra, "token")
        return f" It also reads {tokens} of the drafter’s window, for later guesses."

    @property
    def _seen(self) -> str:
        """Return a sentence that explains why p is the same as in plain decoding."""
        before = "the tokens before it" if self.is_chain else "the tokens on its path"
        return f"Each sees only {before}, so p is as in plain decoding, except for rounding"

    def judge(self, node: int) -> Sentence:
        verdict = self.round.verdicts[node]
        if self.rule.is_joint and (self._is(node, Outcome.UNREACHED) or not self.is_greedy):
            return self._judged_upwards(node) if self.rule.goes_up else self._judged_jointly(node)
        if verdict.outcome is Outcome.UNREACHED:
            return self._unreached(node)
        if self.is_greedy:
            return self._judged_greedily(node)
        if not self.rule.has_draws:
            return self._judged_by_threshold(node)
        outcome = f" {self._chance(node)}: {verdict.outcome.value}.{self._lost(node)}"
        return [*self._compared(node), outcome]

    def _lost(self, node: int) -> str:
        """Return a sentence that explains why the tokens after a rejected one are dropped.

        It is "" if the node was not rejected, or if no drafted token depends on it.
        """
        if not self._is(node, Outcome.REJECTED):
            return ""
        below = sum(node in self.round.tree.path(each)[:-1] for each in range(len(self.nodes)))
        if not below:
            return ""
        if below == 1:
            return " The guess after it depends on it, so it is dropped as well."
        return " The guesses after it depend on it, so they are dropped as well."

    def _compared(self, node: int) -> Sentence:
        """Return a sentence that names the p and q that the acceptance rule compared at a node."""
        verdict, x = self.round.verdicts[node], self._token(node)
        failed = _named(self._failed_before(node))
        if failed and verdict.compared_prob == 0:
            return ["After the rejection of ", *failed, " nothing of p is left for ", x, "."]
        if not self.drawing.is_drawn:
            start: Sentence = ["Without ", *failed, ", the target gives "]
            start = start if failed else ["The target gives "]
            picked = "; the guess was picked, not drawn, so q counts as 1."
            return [*start, x, f" {percent(verdict.compared_prob)}{picked}"]
        p, q = in_proportion(verdict.compared_prob, verdict.draft_prob, _threshold(verdict))
        if p == q and verdict.compared_prob != verdict.draft_prob and not failed:
            less, more = ("target", "draft") if verdict.acceptance_prob < 1 else ("draft", "target")
            return ["Both give ", x, f" {p}, the {less} less than the {more}."]
        only = "" if verdict.acceptance_prob >= 1 or p.startswith("under") else "only "
        if not failed:
            return ["The draft gave ", x, f" {q}, the target {only}{p}."]
        left: Sentence = ["After the rejection of ", *failed, ", what is left of p gives ", x]
        gave = "then gave it" if self.drawing.removes else "gave it"
        return [*left, f" {only}{p}; the draft {gave} {q}."]

    def _chance(self, node: int) -> str:
        verdict = self.round.verdicts[node]
        if verdict.acceptance_prob >= 1:
            return "So it passes with any draw"
        if verdict.acceptance_prob <= 0:
            return "So it cannot pass"
        draw = verdict.uniform_draw
        value = "is not known" if draw is None else f"was {drawn(verdict.acceptance_prob, draw)[1]}"
        return f"So it passes with probability {_threshold(verdict)}; the draw {value}"

    def _judged_greedily(self, node: int) -> Sentence:
        rule = "At temperature 0 only the target’s most probable token passes. "
        verdict, x = self.round.verdicts[node], self._token(node)
        if verdict.outcome is Outcome.ACCEPTED:
            return [f"{rule}It is ", x, f" ({percent(verdict.raw_target_prob)}): accepted."]
        if self.rule.is_joint and self.nodes[node].parent not in (-1, *self.round.accepted):
            why = "is not the target’s most probable token, so it cannot pass: rejected."
            return ["A guess before ", x, f" {why}"]
        best = self._best(self.nodes[node].parent)
        end = f": rejected.{'' if self.rule.is_joint else self._lost(node)}"
        if best is None:
            return [f"{rule}It is not ", x, f" ({percent(verdict.raw_target_prob)}){end}"]
        p_best, p = compared(best[1], verdict.raw_target_prob)
        return [f"{rule}That is ", [best[0]], f" ({p_best}); ", x, f" has {p}{end}"]

    def _judged_jointly(self, node: int) -> Sentence:
        """Return a sentence about a node of a chain that was judged as a whole, from its end.

        The guesses after it have been judged before.
        """
        verdict, x, depth = self.round.verdicts[node], self._token(node), self.nodes[node].depth
        if verdict.outcome is Outcome.UNREACHED:
            return [x, " is dropped: the text ends before it."]
        p, q = compared(verdict.target_prob, verdict.draft_prob)
        start: Sentence = ["The draft gave ", x, f" {q}, the target {p}"]
        if not self.drawing.is_drawn:
            start = ["The target gives ", x, f" {p}; the guess was picked, so q counts as 1"]
        product = "; the product of p/q up to here, cut to 1 at each guess, is "
        draw, h = verdict.uniform_draw, _threshold(verdict)
        h = f"h = {h}" if h[0].isdigit() else f"h, {h}"
        value = "is not known" if draw is None else f"was {drawn(verdict.acceptance_prob, draw)[1]}"
        end = f"; the draw {value}. {self._joint_fate(node)}"
        if node == len(self.nodes) - 1:
            return [*start, f"{product}{h}{end}"]
        product += decimals(carried_ratios(self.round)[node])
        if verdict.acceptance_prob >= 1:
            return [*start, f"{product}, so h = 1{end}"]
        which = "this guess" if depth == 1 else f"the first {depth} guesses"
        chance = f" it gives {h}, the chance of {which} if no longer draft passes{end}"
        return [*start, f"{product}. With what p has beyond q after ", x, chance]

    def _joint_fate(self, node: int) -> str:
        accepted = self.round.accepted
        if node not in accepted:
            rest = ", and one guess less is read next" if node else ", and no guess is left"
            return f"So the draft up to here fails{rest}: rejected."
        if node != accepted[-1]:
            return "A longer draft passed, so this draw decides nothing: accepted."
        if self.round.extra is None:
            return "This draft or a longer one passed: accepted."
        if node == len(self.nodes) - 1:
            return "So the whole draft passes: accepted."
        before = ", with all guesses before it" if node else ""
        return f"Read from the end, it is the first that passes: accepted{before}."

    def _judged_upwards(self, node: int) -> Sentence:
        """Return a sentence about a node of a tree that was judged from its leaves up.

        All nodes below it have been judged before.
        """
        verdict, x = self.round.verdicts[node], self._token(node)
        accepted, is_whole = self.round.accepted, self.round.extra is not None
        if verdict.outcome is Outcome.UNREACHED:
            if not is_whole and accepted and accepted[-1] in self.round.tree.path(node):
                return [x, " is dropped: the text ends before it."]
            passed = self._token(accepted[-1]) if accepted else []
            return [x, " was not needed: the path to ", passed, " passed."]
        if node in accepted[:-1]:
            return [
                *("The path to ", self._token(accepted[-1]), " passed, so no draw decides about "),
                *(x, ": accepted."),
            ]
        draw, h = verdict.uniform_draw, _threshold(verdict)
        h = f"h = {h}" if h[0].isdigit() else f"h, {h}"
        value = "is not known" if draw is None else f"was {drawn(verdict.acceptance_prob, draw)[1]}"
        end: Sentence = [f"{h}; the draw {value}. ", *self._upward_fate(node, is_whole)]
        if self.round.tree.children(node):
            left = " failed, which leaves for the path up to it the product "
            return ["All guesses after ", x, left, *end]
        before = "p/q times the product before it" if self.nodes[node].parent >= 0 else "p/q"
        return [*self._ratio(node), f"; {before}, cut to 1, is ", *end]

    def _ratio(self, node: int) -> Sentence:
        """Return the beginning of a sentence, which names the p and q of a node."""
        verdict, x, failed = self.round.verdicts[node], self._token(node), self._failed_before(node)
        p, q = compared(verdict.compared_prob, verdict.draft_prob)
        gave = "The draft then gave " if failed and self.drawing.removes else "The draft gave "
        start: Sentence = [gave, x, f" {q}"]
        if not self.drawing.is_drawn:
            start, p = [x, " was picked, so q counts as 1"], percent(verdict.compared_prob)
        if not failed:
            gives = ", the target " if self.drawing.is_drawn else "; the target gives it "
            return [*start, f"{gives}{p}"]
        after = ", what is left of p gives it "
        return [*start, "; after the rejection of ", *_named(failed), f"{after}{p}"]

    def _upward_fate(self, node: int, is_whole: bool) -> Sentence:
        """Return the end of a sentence: whether the path passes, and which path is judged next."""
        x, parent = self._token(node), self.nodes[node].parent
        if self._is(node, Outcome.ACCEPTED):
            if not is_whole:
                return ["This path or a longer one passed: accepted."]
            before = ", with all guesses before it" if parent >= 0 else ""
            return ["So the path to ", x, f" passes: accepted{before}."]
        siblings = self.round.tree.children(parent)
        later = siblings[siblings.index(node) + 1 :]
        if later:
            following = self._token(self._first_leaf(later[0]))
            return ["So it fails, and the path to ", following, " is read next: rejected."]
        if parent < 0:
            return ["So it fails, and no guess is left: rejected."]
        return ["So it fails, and ", self._token(parent), " before it is read next: rejected."]

    def _first_leaf(self, node: int) -> int:
        while below := self.round.tree.children(node):
            node = below[0]
        return node

    def _judged_by_threshold(self, node: int) -> Sentence:
        verdict, x = self.round.verdicts[node], self._token(node)
        passes = verdict.outcome is Outcome.ACCEPTED
        enough = "enough" if passes else "too little"
        rule = f"{enough} for typical acceptance, which draws nothing: {verdict.outcome.value}."
        rule += self._lost(node)
        return ["The target gives ", x, f" {percent(verdict.target_prob)}, {rule}"]

    def _unreached(self, node: int) -> Sentence:
        x, parent = self._token(node), self.nodes[node].parent
        siblings = self.round.tree.children(parent)
        passed = next((i for i in siblings if self._is(i, Outcome.ACCEPTED)), None)
        if passed is not None:
            return [x, " was never examined: its sibling ", self._token(passed), " passed first."]
        above = next((i for i in self.round.tree.path(node) if self._is(i, Outcome.REJECTED)), None)
        if above is not None:
            return [x, " was never examined: ", self._token(above), " before it was rejected."]
        if parent >= 0 and self._is(parent, Outcome.ACCEPTED):
            return [x, " was never examined: the text ends before it."]
        return [x, " was never examined: the guesses before it led to another branch of the tree."]

    def extra(self) -> Sentence:
        extra = self.round.extra
        assert extra is not None
        match extra.kind:
            case ExtraKind.RECOVERED:
                return self._recovered()
            case ExtraKind.PLAIN:
                return ["Nothing was drafted, so nothing is judged: ", *self._own_draw(), "."]
        return [
            f"{self._passed()}. The same forward has p for the next position: ",
            *self._own_draw(),
            ", a bonus.",
        ]

    def _passed(self) -> str:
        count = len(self.round.accepted)
        if not self.is_chain and self.rule.goes_up:
            return f"The path to a leaf passed, {_count(count, 'guess', 'guesses')} deep"
        if not self.is_chain:
            return f"The walk reached a leaf of the tree, {_count(count, 'guess', 'guesses')} deep"
        return f"All {count} guesses passed" if count > 1 else "The guess passed"

    def _own_draw(self) -> Sentence:
        if self.is_greedy:
            return ["the target writes its most probable token, ", *self._extra_with_chance()]
        return ["the target draws ", *self._extra_with_chance(), " from p"]

    def _extra_with_chance(self) -> Sentence:
        chance = self._extra_chance()
        return [self._extra, f" ({chance})" if chance else ""]

    def _extra_chance(self) -> str:
        extra = self.round.extra
        assert extra is not None
        if not self.is_greedy:
            return percent(extra.prob) if self.knows_extra else ""
        best = self._best(extra.parent)
        return percent(best[1]) if best else ""

    def _recovered(self) -> Sentence:
        extra = self.round.extra
        assert extra is not None
        failed = [self.nodes[i].token_id for i in self.round.tree.children(extra.parent)]
        start: Sentence = ["In place of ", *_named(failed)]
        if self.is_greedy:
            best = " comes the target’s most probable token, "
            return [*start, best, *self._extra_with_chance(), "."]
        chance = self._extra_chance()
        share = f", which gives it {chance}" if chance else ""
        drawn: Sentence = [*start, " the target draws ", self._extra, " from "]
        if not self.rule.has_residual:
            lossy = "This rule is lossy: an exact one would draw from what is left of p."
            return [*drawn, f"p itself{share}. {lossy}"]
        return [*drawn, *self._residual(failed), share, "."]

    def _residual(self, failed: list[int]) -> Sentence:
        if not self.drawing.is_drawn:
            return ["p without ", failed]
        if self.rule.goes_up and self.round.accepted:
            return [
                "what their rejection left of p"
                if len(failed) > 1
                else "what its rejection left of p"
            ]
        if self.rule.is_joint and self.round.accepted:
            carried = decimals(carried_ratios(self.round)[self.round.accepted[-1]])
            if carried != "1":
                return [f"what {carried} × p has beyond q, the residual"]
        if len(failed) > 1:
            return ["what their rejection left of p, the residual"]
        return ["what p has beyond q, the residual"]

    def commit(self) -> Sentence:
        count, dropped = len(self.round.emitted_ids), self.round.cache.rolled_back
        slots = f" The cache drops {_count(dropped, 'entry', 'entries')} that no kept token needs."
        start = f"{_count(count, 'new token')} from one forward of the target: "
        return [start, *self._brought(), f".{slots if dropped else ''}"]

    def _brought(self) -> Sentence:
        """Return the end of a sentence that lists the new tokens and says how each was chosen."""
        extra, accepted = self.round.extra, len(self.round.accepted)
        guesses = _count(accepted, "accepted guess", "accepted guesses")
        if extra is None:
            end: Sentence = ["; with ", [*self.round.emitted_ids[-1:]], " the text ends"]
            return [guesses, *(end if accepted else [])]
        if extra.kind is ExtraKind.PLAIN:
            return [self._extra, ", as in plain decoding"]
        kind = "the bonus " if extra.kind is ExtraKind.BONUS else "the recovered "
        if accepted:
            return [f"{guesses} and {kind}", self._extra]
        return [kind, self._extra, ", because no guess passed"]

    def _token(self, node: int) -> list[int]:
        return [self.nodes[node].token_id]

    @property
    def _extra(self) -> list[int]:
        assert self.round.extra is not None
        return [self.round.extra.token_id]

    def _is(self, node: int, outcome: Outcome) -> bool:
        return self.round.verdicts[node].outcome is outcome

    def _failed_before(self, node: int) -> list[int]:
        """Return the tokens of those siblings of a node that were rejected before it."""
        siblings = self.round.tree.children(self.nodes[node].parent)
        failed = [i for i in siblings if i < node and self._is(i, Outcome.REJECTED)]
        return [self.nodes[i].token_id for i in failed]

    def _best(self, parent: int) -> tuple[int, float] | None:
        """Return the target's most probable token after `parent` and its raw p.

        The result is None if the record has no distribution there.
        """
        position = next((each for each in self.round.positions if each.parent == parent), None)
        return None if position is None else _favourite(position)


def _named(failed: list[int]) -> Sentence:
    """Return the part of a sentence that lists rejected siblings, each different token once.

    >>> _named([7, 5]), _named([7, 7]), _named([])
    ([[7, 5]], [[7], ' (drawn 2 times)'], [])
    """
    counts = Counter(failed)
    if len(counts) == len(failed):
        return [failed] if failed else []
    parts: Sentence = []
    for token_id, count in counts.items():
        parts += [[token_id], f" (drawn {count} times)" if count > 1 else ""]
    return [part for part in parts if part]


def _favourite(position: Position) -> tuple[int, float] | None:
    """Return the target's most probable token and its raw p, or None if no token is recorded.

    If two raw probabilities are equal, the processed ones decide: at temperature 0 one of them is
    1.
    """
    rows = zip(position.target_probs, position.raw_target_probs, position.token_ids, strict=True)
    best = max(rows, default=None)
    return None if best is None else (best[2], best[1])


def _threshold(verdict: Verdict) -> str:
    """Return the acceptance probability as text, with enough decimals to compare it with u."""
    accept, draw = verdict.acceptance_prob, verdict.uniform_draw
    return decimals(accept) if draw is None else drawn(accept, draw)[0]


def _listed(items: Sequence[Sentence], is_open: bool) -> Sentence:
    """Join texts to a list in a sentence: "a, b and c", or "a, b, c" if more texts will follow."""
    parts: Sentence = []
    for at, item in enumerate(items):
        is_last = at == len(items) - 1 and not is_open
        joint = "" if not at else " and " if is_last else ", "
        parts += [joint, *item] if joint else item
    return parts


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {nouns or noun + 's'}"


def _milliseconds(seconds: float) -> str:
    """Return seconds as a text in milliseconds.

    From 10 ms on, it is a whole number. Otherwise it has two significant digits, because the clock
    is not more precise.
    """
    value = seconds * 1000
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"
