"""Makes the bundled model family: corpus, tokenizer, target, draft, evaluation and model cards.

Knows nothing of decoding or of the app; `python -m specviz.training` runs all of it.
"""
