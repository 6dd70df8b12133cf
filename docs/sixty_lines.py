"""Speculative decoding in sixty lines (Leviathan 2211.17192, Chen 2302.01318).

A small model drafts a few tokens, one after the other. The large one, whose text we want, then runs
once over all of them and keeps as many as its own distribution allows. Run it:

    python docs/sixty_lines.py "def fibonacci(n):" --temperature 0.8 --seed 1
"""

import argparse
import random

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache


def next_probs(model, cache, tokens, temperature):
    """Run the tokens that the cache lacks; return the distribution after each of them, [new, V]."""
    new = torch.tensor([tokens[cache.get_seq_length() :]])
    logits = model(new, past_key_values=cache).logits[0].float()
    if temperature == 0:  # greedy decoding: the best token has probability 1
        return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).float()
    return (logits / temperature).softmax(-1)


def pick(weights, uniform):
    """Draw the first token at which the running sum exceeds the fraction `uniform` of the total."""
    running_sum = weights.double().cumsum(-1)
    return int((running_sum > uniform * running_sum[-1]).int().argmax())


@torch.inference_mode()
def generate(target, draft, prompt, temperature, uniform, new_tokens=64, draft_length=4):
    """Return the new token ids. `uniform` returns a random number in [0, 1) for each draw."""
    caches = DynamicCache(), DynamicCache()
    tokens, end, round_index = list(prompt), len(prompt) + new_tokens, 0
    p = next_probs(target, caches[0], tokens, temperature)
    tokens.append(pick(p[-1], uniform("extra", len(tokens))))
    while len(tokens) < end:
        # Draft: the small model writes up to draft_length tokens, each drawn from its own q.
        known, q = len(tokens), []
        for depth in range(1, min(draft_length, end - known - 1) + 1):
            q.append(next_probs(draft, caches[1], tokens, temperature)[-1])
            tokens.append(pick(q[-1], uniform("draft", round_index, depth)))
        drafted = tokens[known:]
        # Verify: one forward of the large model gives its p for every drafted token and one more.
        p = next_probs(target, caches[0], tokens, temperature)
        # Accept token x with probability min(1, p(x) / q(x)), until one is rejected.
        n = 0
        for x in drafted:
            if uniform("verify", known + n) >= min(1, p[n][x] / q[n][x]):
                break
            n += 1
        # One more token is free: after a rejection from the residual max(0, p - q), which makes up
        # exactly for what was rejected; otherwise from p itself (the bonus).
        rest = (p[n] - q[n]).clamp(min=0) if n < len(drafted) else p[n]
        tokens = tokens[: known + n] + [pick(rest, uniform("extra", known + n))]
        for cache in caches:  # forget the rejected tokens
            if (rejected := cache.get_seq_length() - known - n) > 0:
                cache.crop(-rejected)
        round_index += 1
    return tokens[len(prompt) :]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompt", nargs="?", default="def fibonacci(n):")
    parser.add_argument("--target", default="assets/models/target")
    parser.add_argument("--draft", default="assets/models/draft")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draws = random.Random(asked.seed)
    target = AutoModelForCausalLM.from_pretrained(asked.target, dtype=torch.float32)
    draft = AutoModelForCausalLM.from_pretrained(asked.draft, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(asked.target)
    prompt = tokenizer(asked.prompt)["input_ids"]
    new = generate(target, draft, prompt, asked.temperature, lambda *place: draws.random())
    print(asked.prompt + tokenizer.decode(new))
