"""The words of the drafting methods, one definition each."""

from __future__ import annotations

from specviz.glossary.definition import Term

METHOD_TERMS = (
    Term(
        "dynamic_tree",
        "dynamic draft tree",
        "A draft tree that grows where the drafter's own paths are most probable. Nothing in it is "
        "drawn, so each of its tokens counts as a point mass.",
    ),
    Term(
        "node_budget",
        "node budget",
        "How many nodes of a tree are verified. More nodes are more chances, and a slower forward; "
        "the best number follows from measured forward times.",
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
        "quantised (int8)",
        "Weights rounded to 256 steps, in a quarter of the memory of float32. Where reading "
        "weights is what takes the time, such a copy is faster.",
    ),
    Term(
        "feature",
        "feature",
        "The target's hidden state after its last norm: what the output matrix turns into logits.",
    ),
    Term(
        "medusa_head",
        "Medusa head",
        "A small network that guesses, from one feature, the token several places ahead. All heads "
        "run at once, so none knows what the others chose.",
    ),
    Term(
        "eagle_head",
        "EAGLE head",
        "One layer that foretells the target's next feature from the last ones. It can go on from "
        "its own guesses, so it drafts whole paths.",
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
        "total variation, 0 for equal laws and 1 for disjoint ones.",
    ),
    Term(
        "jacobi_window",
        "Jacobi window",
        "Guessed tokens that ride along in each target forward and are refined from round to "
        "round. What they turn into becomes the n-grams of the pool.",
    ),
    Term(
        "ngram_pool",
        "n-gram pool",
        "Short runs of tokens that the target was seen to guess, filed by their first token. Those "
        "that fit behind the text are verified as guesses.",
    ),
    Term(
        "lookahead_guess",
        "guess (lookahead)",
        "An n-gram of the pool that begins with the last token of the text. Its other tokens are "
        "verified as a draft; at most G of them are in one round.",
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
        "While the target verifies one round, the draft already drafts the next for the outcomes "
        "that are likely. If one of them comes true, drafting took no time.",
    ),
    Term(
        "speculation_hit",
        "hit",
        "The round ended as one of the prepared outcomes said, so its draft was ready. After a "
        "miss the draft begins anew.",
    ),
    Term(
        "slot_waste",
        "slot waste",
        "In a batch all rows of a forward are as wide as the widest. The share of places that "
        "hold no token is waste.",
    ),
)
