"""One call of `generate` under `specviz.record`, and the ways of choosing a token in it."""

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
    """The trace of one call, whose text must be what the call gave back."""
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
    """What a recording could leave behind on it."""
    return dict(vars(model)), len(model._forward_hooks), model.generation_config.to_dict()
