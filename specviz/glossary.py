"""The definition of every term, and the pages of the app that show an example of the term.

Tooltips, lessons and the glossary page show these definitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import InputError


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the glossary. `key` is its name in the code, and `title` its name on screen.

    `formula` is "" if the term has no formula.
    """

    key: str
    title: str
    definition: str
    formula: str = ""


@dataclass(frozen=True, slots=True)
class Sight:
    """A page of the app that shows an example of a term.

    `address` is the query part of the page's address, such as view=learn&lesson=one-token.
    """

    title: str
    address: str


_GENERAL_TERMS = (
    Term(
        "token",
        "token",
        "A piece of text as a model reads and writes it: a word, a part of one, or a mark. Each "
        "has a number in the model’s vocabulary.",
    ),
    Term(
        "inference",
        "inference",
        "Running a trained model to get its output: here, writing text token by token. Its weights "
        "stay as they are; changing them is training.",
    ),
    Term(
        "memory_bound",
        "memory-bound",
        "A forward is memory-bound while reading the weights from memory takes longer than "
        "computing with them. Further tokens in the same forward then cost little.",
        "bytes read / bandwidth > operations / peak",
    ),
    Term(
        "reading_limit",
        "reading limit",
        "The shortest possible time of a step: reading every weight once, at the highest speed "
        "at which this process has read memory. A baseline that is much slower makes every "
        "speedup too large.",
        "weight bytes / memory bandwidth",
    ),
    Term(
        "mixture_of_experts",
        "mixture of experts",
        "A model whose layers hold several sets of weights, the experts, and send each token to a "
        "few. Tokens that are checked together read more of them than one token does.",
    ),
    Term(
        "speculative_decoding",
        "speculative decoding",
        "Something cheap proposes several tokens, and the target model checks them all in a single "
        "forward. The text is distributed as if the target had written it alone.",
    ),
    Term(
        "target",
        "target",
        "The model whose text we want, usually a large one. Its distribution over the next token "
        "is called p.",
    ),
    Term(
        "draft",
        "draft",
        "The cheap model that guesses what the target would say: a smaller model, or the target "
        "with rounded weights or fewer layers. Its distribution over the next token is called q.",
    ),
    Term(
        "drafter",
        "drafter",
        "Whatever proposes tokens. It may be a draft model, a part of the target itself, or no "
        "model at all, such as a search in the prompt.",
    ),
    Term(
        "draft_length",
        "draft length (K)",
        "The largest number of tokens that are proposed along one path. Papers also write gamma.",
    ),
    Term(
        "draft_tree",
        "draft tree",
        "The guesses of a round. In a chain they follow one another; in a tree a position may "
        "have several guesses, and each path from the root is one way in which the text may "
        "continue.",
    ),
    Term("node", "node", "One guess: a drafted token of a chain, or of a draft tree."),
    Term(
        "root",
        "root",
        "The last token that is already certain: a chain of guesses begins after it, and a draft "
        "tree grows from it.",
    ),
    Term(
        "siblings",
        "siblings",
        "Several guesses for one position of the text: nodes of the draft tree with the same "
        "parent. They are examined one after another until one is accepted.",
    ),
    Term(
        "level",
        "level",
        "The children of one node. A level is reached when they are examined, and passed when one "
        "of them is accepted.",
    ),
    Term(
        "round",
        "round",
        "One turn: the drafter proposes, the target verifies, the accepted tokens and one more "
        "are added to the text.",
    ),
    Term(
        "target_forward",
        "target forward",
        "One pass through the target. It takes almost as long for one token as for a few, which "
        "is why speculation pays.",
    ),
    Term(
        "verification",
        "verification",
        "The target computes p for every guess in one forward. Then each is accepted or rejected: "
        "those of a chain in order, up to the first that fails; those of a tree from the root "
        "down, along what is accepted.",
    ),
    Term(
        "attention_mask",
        "attention mask",
        "A table that says which tokens each token may look at. With the mask of a draft tree, "
        "each token sees only the text and its own path, so one forward judges all branches.",
    ),
    Term(
        "acceptance_prob",
        "acceptance probability",
        "The chance that a drafted token is kept. It is 1 if the target gives the token at least"
        " as much probability as the draft did.",
        "min(1, p/q)",
    ),
    Term(
        "block_verification",
        "block verification",
        "A rule that judges a chain as a whole and reads the draws from its end. A likely guess "
        "can make up for an unlikely one before it, and the text stays the target's.",
    ),
    Term(
        "traversal_verification",
        "traversal verification",
        "A rule that judges a tree from its leaves to the root: a leaf that passes keeps its whole "
        "path, otherwise the guess before it is judged. On a chain, it is block verification.",
    ),
    Term(
        "uniform_draw",
        "uniform draw (u)",
        "A random number from 0 to 1 that decides the verdict: the token is accepted if u is "
        "below its acceptance probability.",
        "accepted if u < min(1, p/q)",
    ),
    Term("accepted", "accepted", "A drafted token that passed the check and stays in the text."),
    Term(
        "rejected",
        "rejected",
        "A drafted token that failed the check. It is dropped, with everything drafted after it.",
    ),
    Term(
        "unreached",
        "never examined",
        "In a chain, a guess after a rejected one: it depends on that one, so it is not checked."
        " In a tree, also a guess whose sibling was accepted first.",
    ),
    Term(
        "overlap",
        "overlap",
        "How much the two distributions have in common: the expected acceptance of one token "
        "sampled from the draft. For a token proposed with certainty it is the target's "
        "p of that token.",
        "sum of min(p, q) = 1 - total variation",
    ),
    Term(
        "acceptance_rate",
        "acceptance rate (α)",
        "The share of the reached levels that passed; for a chain, the share of the examined "
        "tokens that were accepted. Tokens that were never examined do not count.",
        "levels passed / levels reached",
    ),
    Term(
        "draft_utilization",
        "draft utilization",
        "The share of all drafted tokens that were accepted. Several tools call this the "
        "acceptance rate; it is lower, because it also counts the tokens that were never "
        "examined.",
        "accepted / drafted",
    ),
    Term(
        "rejection_rate",
        "rejection rate",
        "The share of the examined tokens that failed: 1 minus the acceptance rate. It is not 1 "
        "minus the draft utilization, because tokens after a rejection are never examined.",
        "1 - α; of all drafted: accepted + rejected + never examined = 1",
    ),
    Term(
        "block_efficiency",
        "tokens per target forward (τ)",
        "Tokens added to the text per target forward that verifies a draft. Also called block "
        "efficiency, and by engines the mean acceptance length.",
        "accepted + 1 per round",
    ),
    Term(
        "residual_distribution",
        "residual distribution",
        "What is left of the target's distribution after the draft's share is taken out. Drawing "
        "from it after a rejection is what makes the output exact.",
        "normalize(max(0, p - q))",
    ),
    Term(
        "recovered_token",
        "recovered token",
        "The token drawn from the residual after a rejection, so that even a failed round adds "
        "one token.",
    ),
    Term(
        "residual_prob",
        "r",
        "How probable the recovered token was in the residual distribution that it was drawn from.",
        "max(0, p - q) / sum of max(0, p - q)",
    ),
    Term(
        "bonus_token",
        "bonus token",
        "The extra token after full acceptance. The forward that verifies the guesses also gives"
        " the target's distribution after the last guess, from which this token is drawn.",
    ),
    Term(
        "forced_token",
        "forced token",
        "The only token that a grammar, such as a JSON schema, allows at a position. The target "
        "gives it the probability 1, so as a draft it is always accepted, and it is free.",
    ),
    Term(
        "first_token",
        "first token",
        "The token that the target draws right after reading the prompt, before any drafting. "
        "Speculation does not make it faster.",
    ),
    Term(
        "lossless",
        "lossless",
        "The output has exactly the target's distribution. At temperature 0 that means the same "
        "text, except for ties that rounding decides; above it the texts differ by chance, like "
        "two runs of the target.",
    ),
    Term(
        "total_variation",
        "total variation",
        "How far two distributions are apart: 0 if they are equal, 1 if they have no token in "
        "common.",
        "half the sum of |p - q|",
    ),
    Term(
        "chi_square",
        "chi-square",
        "A number that says how far counts are from the expected ones: the sum of all squared "
        "differences. Exact draws give about its degrees of freedom, the number of counts that "
        "are free to differ.",
        "sum of (count - expected)² / expected",
    ),
    Term(
        "noise_floor",
        "noise floor",
        "How far the counts of exact draws are from their own distribution by chance alone. It "
        "falls as draws are added; a wrong rule stays above it.",
    ),
    Term(
        "drafter_memory",
        "memory of the method",
        "The weights and the caches of keys and values that the method needs in addition to the "
        "target's own.",
    ),
    Term(
        "cost_ratio",
        "cost ratio (c)",
        "The time of one draft forward, in target forwards. The smaller it is, the more guesses "
        "are worth their time.",
        "draft forward / target forward",
    ),
    Term(
        "verify_overhead",
        "verify overhead (v)",
        "What a round costs beyond its drafting and one plain target forward, in target forwards: "
        "checking several tokens at once, and the bookkeeping.",
        "(verify + rest) / target forward - 1",
    ),
    Term(
        "speedup",
        "speedup",
        "The ratio of the lanes' tokens per second after equally many tokens, in whole rounds: "
        "the baseline's time divided by that of speculation. Below 1, speculation is slower.",
        "T / (1 + K·c + v), T = (1 - α^(K+1)) / (1 - α)",
    ),
    Term(
        "baseline",
        "baseline",
        "The same target, which decodes one token per forward, on the same machine and equally "
        "optimised.",
    ),
    Term(
        "own_time",
        "own time",
        "A lane's clock counts only its own work, so a race on one machine is fair. The lane "
        "whose clock is behind runs next, so live lanes stay within a round of each other; a "
        "replay shows them at equal times.",
    ),
    Term(
        "tokens_per_second",
        "tokens per second",
        "New tokens divided by the lane's own time, which includes reading the prompt.",
    ),
    Term(
        "ttft",
        "time to first token",
        "The time until the first new token: the time to read the prompt.",
    ),
    Term(
        "prefill",
        "prefill",
        "Reading the prompt before the first new token: many tokens in one forward, or in several "
        "if the prompt is long.",
    ),
    Term(
        "rollback",
        "rollback",
        "Removing the cache entries of drafted tokens that were not accepted, as if the model "
        "had never read these tokens.",
    ),
    Term(
        "cache",
        "key-value cache",
        "What the model remembers of the tokens it has read, so that none is computed twice.",
    ),
    Term(
        "temperature",
        "temperature",
        "How freely tokens are drawn: 0 always takes the most probable one, 1 follows the "
        "model's distribution, and higher values flatten it.",
        "softmax(logits / temperature)",
    ),
    Term(
        "top_k",
        "top-k",
        "Draw only among the k most probable tokens and those that tie with the last; 0 is off.",
    ),
    Term(
        "top_p",
        "top-p",
        "Draw only among the most probable tokens that together reach probability p; 1 is off.",
    ),
    Term(
        "min_p",
        "min-p",
        "Draw only among the tokens with at least this share of the best one's probability; "
        "0 is off.",
    ),
    Term("greedy", "greedy decoding", "Always taking the most probable token: temperature 0."),
    Term(
        "entropy",
        "entropy",
        "How undecided the target is about the next token, in nats: 0 if it is sure.",
        "- sum of p · ln p",
    ),
    Term(
        "kl_divergence",
        "KL divergence",
        "How much is lost by taking the draft's distribution for the target's, in nats: 0 if "
        "equal.",
        "sum of p · ln(p / q)",
    ),
    Term(
        "margin",
        "margin",
        "The gap between the target's two best logits. Where it is nearly 0, rounding may decide "
        "which token comes first.",
    ),
    Term(
        "point_mass",
        "point mass",
        "A proposal made with certainty (the best k tokens, a match in the prompt): for the rule "
        "its q is 1, so it is accepted with the target's p.",
        "accept with p",
    ),
    Term(
        "divergence",
        "first divergence",
        "The first token in which two texts differ. At temperature 0 only a numerical tie can "
        "cause one.",
    ),
    Term(
        "break_even",
        "break-even acceptance",
        "The acceptance rate above which speculation pays for its drafting.",
        "solve T(α, K) = 1 + K·c + v",
    ),
)

# Terms of the drafting methods.

_METHOD_TERMS = (
    Term(
        "dynamic_tree",
        "dynamic draft tree",
        "A draft tree that grows where the drafter's own paths are most probable. Nothing in it is "
        "drawn, so each of its tokens counts as a point mass.",
    ),
    Term(
        "node_budget",
        "node budget",
        "The number of a tree's nodes that are verified. More nodes give more chances but a "
        "slower forward; the best number follows from measured forward times.",
    ),
    Term(
        "self_drafting",
        "self-drafting",
        "A cheaper form of the target drafts for it: its first layers, all but some of its layers, "
        "or a copy in small numbers.",
    ),
    Term(
        "early_exit",
        "early exit",
        "The target's first layers propose a token; verification later runs only the layers that "
        "are left. Nothing is computed twice and no memory is added.",
    ),
    Term(
        "quantised",
        "quantised (int8, int4)",
        "Weights rounded to 256 steps, in a quarter of the memory of float32, or in groups to 16"
        " steps, in slightly more than an eighth. If reading weights limits the speed, such a "
        "copy is faster.",
    ),
    Term(
        "feature",
        "feature",
        "The target's hidden state after its last norm: what the output matrix turns into logits.",
    ),
    Term(
        "medusa_head",
        "Medusa head",
        "A small network that guesses, from one feature, the token several positions ahead. All "
        "heads run at once, so none knows what the others chose.",
    ),
    Term(
        "eagle_head",
        "EAGLE head",
        "One layer that predicts the target's next feature from the previous ones. It can "
        "continue from its own predictions, so it drafts whole paths.",
    ),
    Term(
        "typical_acceptance",
        "typical acceptance",
        "A rule of Medusa that accepts every token the target finds likely enough. It is lossy: "
        "the text no longer has the target's distribution.",
        "accept if p > min(ε, δ·exp(-H(p)))",
    ),
    Term(
        "lossy",
        "lossy",
        "Not lossless: the output's distribution differs from the target's. How far is measured as "
        "total variation, 0 for equal distributions and 1 for disjoint ones.",
    ),
    Term(
        "jacobi_window",
        "Jacobi window",
        "Guessed tokens that run in each target forward and are refined from round to round. "
        "They become the n-grams of the pool.",
    ),
    Term(
        "ngram_pool",
        "n-gram pool",
        "Short sequences of tokens that the target has guessed, stored by their first token. "
        "Those that fit after the text are verified as guesses.",
    ),
    Term(
        "lookahead_guess",
        "guess (lookahead)",
        "An n-gram of the pool that begins with the last token of the text. Its other tokens are "
        "verified as a draft; at most G of them are in one round.",
    ),
    Term(
        "suffix_tree",
        "suffix tree",
        "Counts how often each short sequence of tokens occurs in a text. Suffix decoding looks up "
        "the last tokens in it and drafts what followed them most often.",
    ),
    Term(
        "successor_table",
        "table of successors",
        "Keeps the target's most probable next tokens after each token that it has verified. Token "
        "recycling drafts a tree of them.",
    ),
    Term(
        "vocabulary_share",
        "shared vocabulary",
        "The tokens that mean the same bytes in two vocabularies. Only these can a draft with "
        "another tokenizer propose directly.",
    ),
    Term(
        "reencoding",
        "re-encoding",
        "A draft with another tokenizer writes text, and the target's tokenizer cuts that text "
        "into its own tokens. They count as point masses.",
    ),
    Term(
        "pre_speculation",
        "pre-speculation",
        "While the target verifies one round, the draft already drafts the next one for the "
        "likely outcomes. If one of them happens, drafting took no time.",
    ),
    Term(
        "speculation_hit",
        "hit",
        "The round ended with one of the prepared outcomes, so the next draft was ready. After a"
        " miss, the draft has to start from the beginning.",
    ),
    Term(
        "slot_waste",
        "slot waste",
        "The share of positions in a batch's forwards that hold no token, because this app gives"
        " every row as many positions as the widest row needs. Engines that pack their rows "
        "waste none.",
    ),
)

# Terms of servers, which decode many texts at once.

_SERVING_TERMS = (
    Term(
        "batch",
        "batch",
        "Several texts decoded together: one forward takes the next tokens of all, and reads the"
        " weights once. The more texts it has, the less arithmetic is left for guesses.",
    ),
    Term(
        "continuous_batching",
        "continuous batching",
        "A server refills its batch at every step: when a text ends, another takes its row at "
        "once. With speculation, the rows grow by different numbers of tokens.",
    ),
    Term(
        "paged_attention",
        "PagedAttention",
        "The key-value cache in small blocks, like the pages of an operating system, so that no "
        "memory is reserved for text that may follow. More texts fit at once, but a single text "
        "does not get faster.",
    ),
    Term(
        "token_budget",
        "token budget",
        "How many tokens a server processes in one forward, over all its texts. Drafted tokens "
        "count as well, so a full budget leaves no room for drafts.",
    ),
    Term(
        "quantisation",
        "quantisation",
        "Storing weights, or the cache, in fewer bits. Less is read for each token, but the "
        "outputs are those of another model; a quantised draft costs only acceptance, never the "
        "text.",
    ),
)

TERMS = (*_GENERAL_TERMS, *_METHOD_TERMS, *_SERVING_TERMS)

# The addresses of pages that show an example of a term.

_CHAIN = "view=step&trace=draft-model.code"
_TREE = "view=step&trace=draft-tree.story"


def _lesson(title: str, name: str, step: str = "") -> Sight:
    return Sight(
        f"Lesson: {title}", f"view=learn&lesson={name}" + (f"&step={step}" if step else "")
    )


_PLACES: dict[str, Sight] = {
    "race": Sight("A race of both", "view=race"),
    "lab": Sight("The lab", "view=lab"),
    "claims": Sight("The lab: what others claim", "view=lab"),
    "one-token": _lesson("Why is one token slow?", "one-token"),
    "roofline": _lesson("Why is one token slow?", "one-token", "what-takes-time"),
    "guess": _lesson("Guess and check", "guess-and-check", "your-turn"),
    "thrown-rest": _lesson("Guess and check", "guess-and-check", "the-rest"),
    "bonus": _lesson("Guess and check", "guess-and-check", "a-bonus"),
    "score": _lesson("Guess and check", "guess-and-check", "the-score"),
    "certain": _lesson("Guess and check", "guess-and-check", "certain"),
    "rule": _lesson("Accept or reject?", "accept-or-reject", "the-rule"),
    "overlap": _lesson("Accept or reject?", "accept-or-reject", "overlap"),
    "residual": _lesson("Accept or reject?", "accept-or-reject", "from-the-rest"),
    "distance": _lesson("Exactly the same?", "exactly-the-same", "draw"),
    "zoo": _lesson("Exactly the same?", "exactly-the-same", "zoo"),
    "price": _lesson("How far ahead?", "how-far-ahead", "the-price"),
    "best": _lesson("How far ahead?", "how-far-ahead", "find-it"),
    "mask": _lesson("Trees, and who drafts", "trees-and-drafters", "the-mask"),
    "batches": _lesson("When not to", "when-not-to", "many"),
    "experts": _lesson("Memory, and many experts", "many-experts", "which-weights"),
    "ties": _lesson("Ties and rounding", "ties-and-rounding", "measure"),
    "ragged": _lesson("A ragged batch", "ragged-batch", "row-by-row"),
    "inside-eagle": _lesson("Inside EAGLE", "inside-eagle", "the-pair"),
    "on-the-clock": _lesson("Drafting ahead", "ahead-of-time", "on-the-clock"),
    "names": _lesson("Three numbers with one name", "exercise-names", "names"),
    "block": _lesson("Judge the block", "judge-the-block", "from-the-end"),
    "free-tokens": _lesson("Which tokens were free?", "free-tokens", "mark"),
    "copied": _lesson("Copy what came before", "copy-what-came-before", "suffix"),
    "stop": _lesson("When to stop guessing", "when-to-stop", "waste"),
    "exercise-rates": _lesson("Acceptance, token by token", "exercise-hundred", "acceptance"),
    "judged": Sight(
        "A draft judged as a block, recorded", "view=step&trace=draft-model.block&round=9"
    ),
    "rejection": Sight("A recorded rejection", f"{_CHAIN}&round=1"),
    "all-kept": Sight("A recorded round that is kept whole", f"{_CHAIN}&round=2"),
    "tree": Sight("A recorded draft tree", f"{_TREE}&round=1"),
    "dynamic": Sight(
        "A recorded dynamic tree", "view=step&trace=dynamic-tree.chat.smollm2&round=2"
    ),
    "early-exit": Sight("Early exit, recorded", "view=step&trace=early-exit.chat.smollm2&round=2"),
    "quantised": Sight(
        "A copy in small numbers drafts", "view=step&trace=quantised-self.chat.smollm2&round=2"
    ),
    "medusa": Sight("Medusa, recorded", "view=step&trace=medusa.chat.smollm2&round=2"),
    "eagle": Sight("EAGLE, recorded", "view=step&trace=eagle.chat.smollm2&round=2"),
    "lookahead": Sight("Lookahead, recorded", "view=step&trace=lookahead.chat.smollm2&round=4"),
    "lookup": Sight(
        "Prompt lookup, recorded", "view=step&trace=prompt-lookup.chat.smollm2&round=4"
    ),
    "suffix": Sight(
        "Suffix decoding, recorded", "view=step&trace=suffix.summarise.smollm2&round=10"
    ),
    "recycling": Sight(
        "Token recycling, recorded", "view=step&trace=token-recycling.code.smollm2&round=34"
    ),
    "vocabulary": Sight(
        "Two tokenizers, recorded", "view=step&trace=cross-vocabulary.code&round=1"
    ),
    "ahead": Sight("Pre-speculation, recorded", "view=step&trace=pre-speculation.story&round=2"),
}

# term -> names in _PLACES of the pages that show it, the best example first
_SEEN: dict[str, str] = {
    "token": "guess rejection",
    "inference": "one-token race",
    "memory_bound": "roofline",
    "speculative_decoding": "race guess",
    "target": "guess rejection",
    "draft": "guess rejection",
    "drafter": "guess lookup",
    "draft_length": "best stop race",
    "draft_tree": "tree",
    "node": "tree",
    "root": "rejection tree",
    "level": "tree",
    "round": "rejection guess",
    "target_forward": "one-token rejection",
    "verification": "rejection rule",
    "acceptance_prob": "rule rejection",
    "block_verification": "block judged",
    "traversal_verification": "zoo tree",
    "uniform_draw": "rule rejection",
    "accepted": "guess all-kept",
    "rejected": "rejection thrown-rest",
    "unreached": "rejection thrown-rest",
    "overlap": "overlap",
    "acceptance_rate": "score race exercise-rates",
    "rejection_rate": "score rejection exercise-rates",
    "draft_utilization": "race names exercise-rates",
    "block_efficiency": "race price",
    "residual_distribution": "residual rejection",
    "recovered_token": "rejection residual",
    "residual_prob": "rejection",
    "bonus_token": "bonus all-kept",
    "first_token": "race",
    "lossless": "distance",
    "total_variation": "distance",
    "noise_floor": "distance",
    "siblings": "tree zoo",
    "chi_square": "distance",
    "attention_mask": "mask tree",
    "mixture_of_experts": "experts",
    "batch": "batches ragged lab",
    "drafter_memory": "lab race",
    "cost_ratio": "price",
    "verify_overhead": "lab roofline",
    "speedup": "price race",
    "baseline": "race",
    "reading_limit": "race roofline",
    "own_time": "race",
    "tokens_per_second": "race",
    "ttft": "race lab",
    "prefill": "race",
    "rollback": "rejection",
    "cache": "rejection",
    "temperature": "distance race",
    "top_k": "race zoo",
    "top_p": "race",
    "min_p": "race",
    "greedy": "race",
    "entropy": "rejection",
    "kl_divergence": "rejection",
    "margin": "rejection ties",
    "point_mass": "certain lookup",
    "divergence": "race",
    "break_even": "price",
    "dynamic_tree": "dynamic",
    "node_budget": "dynamic",
    "self_drafting": "early-exit quantised",
    "early_exit": "early-exit",
    "quantised": "quantised",
    "feature": "eagle medusa inside-eagle",
    "medusa_head": "medusa",
    "eagle_head": "eagle inside-eagle",
    "typical_acceptance": "zoo",
    "lossy": "zoo",
    "jacobi_window": "lookahead",
    "ngram_pool": "lookahead",
    "lookahead_guess": "lookahead",
    "suffix_tree": "copied suffix",
    "forced_token": "free-tokens race",
    "successor_table": "recycling",
    "vocabulary_share": "vocabulary",
    "reencoding": "vocabulary",
    "pre_speculation": "ahead on-the-clock",
    "speculation_hit": "ahead on-the-clock",
    "slot_waste": "lab ragged",
    "continuous_batching": "lab",
    "paged_attention": "claims",
    "token_budget": "lab",
    "quantisation": "quantised",
}


def term(key: str) -> Term:
    """Return the term with this key. Raises InputError for an unknown key."""
    for each in TERMS:
        if each.key == key:
            return each
    raise InputError(f"term must be one of {', '.join(t.key for t in TERMS)}, got {key!r}")


def tooltips() -> dict[str, dict[str, str]]:
    """Return the title, the definition and the formula of every term by its key, for the page."""
    return {
        each.key: {"title": each.title, "definition": each.definition, "formula": each.formula}
        for each in TERMS
    }


def seen(key: str) -> tuple[Sight, ...]:
    """Return the pages that show an example of a term. Raises InputError for an unknown term."""
    return tuple(_PLACES[name] for name in _SEEN[term(key).key].split())


def places() -> dict[str, list[dict[str, str]]]:
    """Return, for each term, the pages that show an example of it, as JSON values."""
    return {
        each.key: [{"title": place.title, "address": place.address} for place in seen(each.key)]
        for each in TERMS
    }
