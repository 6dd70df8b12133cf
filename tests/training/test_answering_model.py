import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.training.answering_model import AnsweringModel, ConversationRows

VOCABULARY = 64
OPENING = [1, 2, 3]


@pytest.fixture(scope="module")
def library() -> LlamaForCausalLM:
    """Return a model in which three query heads share a key head.

    Its distribution differs at every position.
    """
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=96,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return model


@pytest.fixture(scope="module")
def model(library: LlamaForCausalLM) -> AnsweringModel:
    return AnsweringModel(library, torch.float32)


@torch.no_grad()
def test_whole_conversations_get_the_states_and_logits_of_transformers(
    library: LlamaForCausalLM, model: AnsweringModel
) -> None:
    tokens = torch.randint(VOCABULARY, (2, 9))
    output = library(tokens, output_hidden_states=True)
    features = model.features(tokens)
    assert torch.allclose(features, output.hidden_states[-1], atol=1e-4)
    assert torch.allclose(model.logits(features), output.logits, atol=1e-3)


@torch.no_grad()
def test_rows_that_begin_at_different_times_get_the_logits_of_transformers(
    library: LlamaForCausalLM, model: AnsweringModel
) -> None:
    rows = ConversationRows(model, OPENING, blocks=2, block_rows=2, slots=16)
    held = [[*OPENING, 7, 8, 9], OPENING, [*OPENING, 5], [*OPENING, 6, 6, 6, 6]]
    rows.begin([0, 2, 3], [held[0], held[2], held[3]])
    rows.begin([1], [held[1]])
    for step in range(6):
        logits = model.logits(rows.step(torch.tensor([tokens[-1] for tokens in held])))
        for row, tokens in enumerate(held):
            wanted = library(torch.tensor([tokens])).logits[0, -1]
            assert torch.allclose(logits[row], wanted, atol=1e-3)
            tokens.append(int(wanted.argmax()))
        if step == 2:
            rows.empty([2])
            held[2] = [*OPENING, 11, 12]
            rows.begin([2], [held[2]])
