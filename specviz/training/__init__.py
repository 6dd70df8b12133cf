"""Makes the bundled model family: corpus, tokenizer, target, draft, evaluation and model cards.

Imports nothing of decoding or the app. `python -m specviz.training` runs all of it.
"""
