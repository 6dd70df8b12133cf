"""One recorded call of `generate`, and the options by which it chooses tokens."""

import torch

import specviz
from tests.models.conftest import build_tokenizer

TOKENIZER = build_tokenizer()
PROMPT = "aba abab "
WAYS = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True, "temperature": 0.9, "top_k": 0},
    "nucleus": {"do_sample": True, "top_p": 0.8, "top_k": 20},
}


def inputs(text=PROMPT):
    return TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)


def watched(target, seed=0, text=PROMPT, **options):
    """Return the trace of one call; check that its text equals the call's result."""
    torch.manual_seed(seed)
    given = inputs(text)
    with specviz.record(target, TOKENIZER) as recording:
        output = target.generate(**given, **({"max_new_tokens": 40} | options))
    trace = recording.trace
    length = given["input_ids"].shape[1]
    assert list(trace.prompt_ids) == output[0, :length].tolist()
    assert list(trace.emitted_ids) == output[0, length:].tolist()
    return trace


def state(model):
    """Return the attributes of the model that a recording may change and must restore."""
    return dict(vars(model)), len(model._forward_hooks), model.generation_config.to_dict()
