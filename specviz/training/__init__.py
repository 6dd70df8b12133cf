"""The training of the bundled models: corpus, tokenizer, target, drafters and model cards.

This package imports nothing of the decoder or the app. `python -m specviz.training` makes all of
the models.
"""
