"""Every token text has one class, which depends on its form and on the text before it."""

import pytest

from specviz.acceptance_profile.token_classes import TokenClass, token_class

CLASSES = {
    TokenClass.LINE_BREAK: ["\n", "\n\n", "\r", "\r\n", "    \n", "\n\t"],
    TokenClass.WHITESPACE: [" ", "    ", "\t"],
    TokenClass.NUMBER: ["1", " 42", "3.14", "0"],
    TokenClass.PUNCTUATION: ["(", '"):', " +=", "...", "->", "€", '="'],
    TokenClass.KEYWORD: ["def", " return", " for", "None", "(lambda"],
    TokenClass.IDENTIFIER: ["_", "__", "_lines", " read_all", "utf8", "getItem", "URL", ".strip"],
    TokenClass.WORD_START: ["The", " house", "é", '"Once', "的", " a"],
    TokenClass.BYTES: ["⟨F0⟩", "⟨82⟩", "⟨9F⟩⟨A6⟩", " ⟨E2⟩"],
    TokenClass.CONTROL: ["<|endoftext|>", "<|im_end|>", "</s>", "<eos>", "⟨4095⟩"],
}


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind, texts in CLASSES.items() for text in texts]
)
def test_a_token_without_text_before_it_is_classed_by_its_form(text: str, kind: TokenClass) -> None:
    assert token_class(text) is kind


@pytest.mark.parametrize(
    ("before", "text", "kind"),
    [
        ("ret", "urn", TokenClass.WORD_CONTINUATION),
        ("(", "urn", TokenClass.WORD_START),
        (" be", "for", TokenClass.WORD_CONTINUATION),  # inside a word, "for" is not a keyword
        (" ", "for", TokenClass.KEYWORD),
        ("self.", "path", TokenClass.IDENTIFIER),
        ("self.", "is", TokenClass.IDENTIFIER),
        ("load_", "all", TokenClass.IDENTIFIER),
        ("12", "th", TokenClass.WORD_CONTINUATION),
        ("2", "if", TokenClass.WORD_CONTINUATION),
        ("end.", " The", TokenClass.WORD_START),
    ],
)
def test_the_text_before_a_token_decides_between_start_and_continuation(
    before: str, text: str, kind: TokenClass
) -> None:
    assert token_class(text, before) is kind


def test_markup_and_the_empty_text_have_a_class() -> None:
    assert token_class("<b>") is TokenClass.WORD_START
    assert token_class("") is TokenClass.OTHER
