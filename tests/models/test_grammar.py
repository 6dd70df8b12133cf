"""A grammar says which tokens may follow a text, and which ones must."""

import random
import re
import sys

import pytest

from specviz.errors import InputError
from specviz.models.text.grammar import compiled
from tests.decoding.tiny_codecs import tiny_codec

pytest.importorskip("llguidance")

END = "<|end|>"
PIECES = ("a", "b", "ab", END, "c", "Ã", "©", "Ã©", "abc", "Ġ", "Ġa", "d")
TEXTS = [p.replace("Ġ", " ").encode() for p in PIECES[:5]] + [b"\xc3", b"\xa9", "é".encode()]
TEXTS += [b"abc", b" ", b" a", b"d"]
CODEC = tiny_codec(PIECES, END)
REGEXES = ("(ab|c)*é( a|d)+", "a+", "(abc|abd)é?", "(é|a| )*")


def random_tree(generator, size):
    parents = [generator.randrange(-1, node) for node in range(size)]
    return [generator.randrange(len(PIECES)) for _ in parents], parents


def path_of(tokens, parents, node):
    path = []
    while node >= 0:
        path.insert(0, tokens[node])
        node = parents[node]
    return path


def follows(state, path):
    """Return whether the grammar allows the path, whose tokens are tried one after another."""
    for token in path:
        if token == PIECES.index(END) or not state.allowed()[0, token]:
            return False
        state.append([token])
    return True


@pytest.mark.parametrize("regex", REGEXES)
def test_the_mask_after_a_node_of_a_tree_is_the_mask_after_its_path(regex):
    generator = random.Random(1)
    grammar = compiled(regex, CODEC)
    state, seen = grammar.begin(), 0
    for _ in range(40):
        tokens, parents = random_tree(generator, 12)
        found = state.allowed(tokens, parents)
        for node in range(-1, len(tokens)):
            alone = grammar.begin()
            if follows(alone, path_of(tokens, parents, node)):
                assert found[node + 1].tolist() == alone.allowed()[0].tolist()
                seen += node >= 0
            else:
                assert found[node + 1].all()
    assert seen > 10


@pytest.mark.parametrize("regex", REGEXES)
def test_a_text_of_allowed_tokens_matches_the_grammar_where_it_may_end(regex):
    for seed in range(30):
        generator, state, data = random.Random(seed), compiled(regex, CODEC).begin(), b""
        for _ in range(12):
            allowed = [i for i, is_allowed in enumerate(state.allowed()[0].tolist()) if is_allowed]
            forced = state.forced(1)
            assert list(forced) == (allowed if len(allowed) == 1 else [])
            text = data.decode(errors="replace")
            may_end = PIECES.index(END) in allowed
            assert may_end == bool(re.fullmatch(regex, text))
            token = generator.choice(allowed)
            state.append([token])
            if token == PIECES.index(END):
                break
            data += TEXTS[token]


def test_forced_tokens_are_spelled_as_the_tokenizer_spells_them_and_include_the_end():
    state = compiled("abcé", CODEC).begin()
    assert [PIECES[token] for token in state.forced(9)] == ["abc", "Ã©", END]
    assert len(state.forced(2)) == 2 and state.forced(0) == ()
    assert state.allowed()[0].sum() == 1  # `forced` has not changed the state


def test_a_json_text_has_one_line_and_spaces_only_after_separators():
    codec = tiny_codec(("a", "b", "ab", END, "{", '"', ":", ",", "}", "Ġ", "1", "2"), END)
    schema = '{"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}'
    schema = schema.replace('"required"', '"additionalProperties": false, "required"')
    state = compiled(schema, codec).begin()
    forced = state.forced(20)
    assert [codec.token_text(token) for token in forced] == ["{", '"', "a", '"', ":", " "]
    state.append(forced)
    state.append([10])
    assert [codec.token_text(token) for token in state.forced(20)] == ["}", END]


@pytest.mark.parametrize(
    "grammar, sentence",
    [
        ("a(b", r"grammar must be a valid regular expression, got 'a\(b': unclosed group"),
        (
            r"(a)\1",
            "grammar must be a valid regular expression, .*backreferences are not supported",
        ),
        ("[^\\s\\S]", "grammar must allow at least one text"),
        ("{", "grammar must be valid JSON if it begins with {, got '{': Expecting property name"),
        ('{"type": "nonsense"}', "grammar must be a valid JSON schema, .*Invalid type: nonsense"),
        ("x", "grammar must allow at least one text in the vocabulary of the model, got 'x'"),
    ],
)
def test_a_bad_grammar_is_refused_with_its_fault(grammar, sentence):
    with pytest.raises(InputError, match=sentence):
        compiled(grammar, CODEC)


def test_a_grammar_needs_an_end_token():
    with pytest.raises(InputError, match="grammar must be empty for a model without an end token"):
        compiled("a+", tiny_codec(("a", "b")))


def test_without_the_library_a_grammar_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(InputError, match="grammar must be empty, because .* is not installed"):
        compiled("a+b", CODEC)


def test_a_text_that_no_token_can_continue_is_refused():
    state = compiled("ax", CODEC).begin()
    state.append([0])
    with pytest.raises(InputError, match="after 1 tokens: no token of the vocabulary can follow"):
        state.allowed()


def test_a_text_that_the_grammar_forbids_is_refused():
    with pytest.raises(InputError, match="grammar must allow the text so far, .* new token 2"):
        compiled("ab", CODEC).begin().append([0, 0])
