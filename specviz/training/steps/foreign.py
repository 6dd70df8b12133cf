"""The foreign draft: tokenizer, training, folder, evaluation and card.

Knows nothing of the other steps.
"""

from pathlib import Path

from specviz.training.card import CardFacts
from specviz.training.corpus import read_corpus
from specviz.training.foreign_card import write_foreign_card
from specviz.training.foreign_draft import foreign_mixture, prepare_foreign, train_foreign
from specviz.training.foreign_evaluation import ForeignEvaluation, Reader, evaluate_foreign
from specviz.training.library_code import standard_library
from specviz.training.model_folder import load_network, save_model
from specviz.training.plan import FamilyPlan, Share
from specviz.training.preparation import Material
from specviz.training.steps.teacher import kept, teacher_cache
from specviz.training.tokenizer import open_tokenizer


def make_foreign_draft(plan: FamilyPlan, material: Material) -> ForeignEvaluation:
    """The folder `foreign-draft`."""
    texts = _prepared(plan, material)
    network, progress = train_foreign(
        plan.foreign,
        foreign_mixture(texts, seed=4),
        kept(plan, "foreign-draft.pt"),
        plan.seconds(Share.FOREIGN_DRAFT),
        plan.device,
        plan.compiled,
    )
    folder = plan.output / "foreign-draft"
    save_model(network.cpu(), open_tokenizer(texts / "tokenizer"), folder)
    target, draft, foreign = map(_reader, (plan.output / "target", plan.output / "draft", folder))
    evaluation = evaluate_foreign(target, draft, foreign, material.held_out)
    write_foreign_card(folder, CardFacts.of(plan, plan.foreign, network, progress), evaluation)
    return evaluation


def _prepared(plan: FamilyPlan, material: Material) -> Path:
    folder = kept(plan, "foreign")
    if not (folder / "tokenizer").exists():
        corpus = read_corpus(plan.corpus, plan.library or standard_library())
        written = teacher_cache(plan, material).written(plan.cache_rows)
        prepare_foreign(corpus, material.tokenizer, written, folder)
    return folder


def _reader(folder: Path) -> Reader:
    return Reader(load_network(folder), open_tokenizer(folder))
