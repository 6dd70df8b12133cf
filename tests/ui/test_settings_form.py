"""A form becomes a request; every broken rule is named, and nothing is corrected silently."""

import math
import re
from typing import Any

import pytest

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError
from specviz.models.pair_catalog import custom_pair, models_folder
from specviz.models.pair_check import needs_missing
from specviz.records import Conversation, DecodingConfig, Drawing, RawText, Turn
from specviz.ui.settings_form import form_pair, race_request, refusal

LOOKUP = {"method": "prompt-lookup"}


def test_a_form_of_texts_becomes_a_request() -> None:
    request = race_request(
        {
            "prompt": " def f():\n",
            "task": "code",
            "pair": "bundled",
            "method": "draft-tree",
            "draft_length": "4",
            "branching": " 3, 2 ",
            "drawing": "without-replacement",
            "temperature": "0.7",
            "top_k": "50",
            "top_p": "0.9",
            "min_p": "0.05",
            "seed": "9007199254740991",
            "max_new_tokens": "64",
            "device": "auto",
            "dtype": "bfloat16",
        }
    )
    kind = Drawing.WITHOUT_REPLACEMENT
    config = DecodingConfig(
        "draft-tree", 4, (3, 2), kind, "token", 0.7, 50, 0.9, 0.05, 2**53 - 1, 64
    )
    assert request.config == config
    assert (request.prompt, request.task) == (" def f():\n", "code")
    assert (request.pair.name, request.dtype) == ("bundled", "bfloat16")


def test_a_prompt_may_have_a_system_prompt_or_be_raw_but_not_both() -> None:
    system, user = Turn("system", "Be brief."), Turn("user", "Why?")
    framed = race_request({**LOOKUP, "prompt": "Why?", "system": " Be brief. ", "raw": ""})
    assert framed.prompt == Conversation((system, user))
    assert race_request({**LOOKUP, "prompt": "Why?", "raw": "yes"}).prompt == RawText("Why?")
    for change, message in (
        ({"system": "x", "raw": "yes"}, "raw must not be given with a system prompt, got 'x'"),
        ({"raw": "true"}, "raw must be yes or empty, got 'true'"),
        ({"system": "\ud83d"}, "system must be valid Unicode, got half a surrogate pair"),
        ({"system": "x", "prompt": " "}, "prompt must have some text, got an empty one"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            race_request({**LOOKUP, "prompt": "Why?", **change})


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_options_are_read_by_name_and_checked_by_the_method(method: Method) -> None:
    form = {"prompt": "x", "method": method.name, "pair": "custom", "target": "a", "draft": "b"}
    if refusal(form_pair(form), method):
        form |= {"pair": "bundled"}
    typed = {option.name: str(option.high) for option in method.options}
    options = tuple((option.name, option.high) for option in method.options)
    try:
        assert race_request({**form, "options": typed}).config.options == options
    except InputError as error:
        assert str(error) == f"method {refusal(form_pair(form), method)}"
        pytest.skip("no pair at hand can do it")
    with pytest.raises(InputError, match="^options of method .* 'no_such_option'$"):
        race_request({**form, "options": {"no_such_option": "1"}})
    for option in method.options:
        for value in (option.high + 1, option.low - 1):
            with pytest.raises(InputError, match=f"^{option.name} must be .*, got {value}$"):
                race_request({**form, "options": {option.name: str(value)}})
        with pytest.raises(InputError, match=f"^{option.name} must be a whole number"):
            race_request({**form, "options": {option.name: "many"}})


def test_options_must_be_values_by_name() -> None:
    with pytest.raises(InputError, match="^options must map names to values, got 'nodes'"):
        race_request({"prompt": "x", "options": "nodes"})


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_without_a_chosen_rule_a_method_uses_its_first(method: Method) -> None:
    form = {"prompt": "x", "method": method.name}
    if refusal(form_pair(form), method):
        pytest.skip("the bundled pair cannot do it")
    assert race_request(form).config.drawing is method.drawings[0]


def test_block_verification_is_a_choice_for_chains_and_is_refused_for_siblings() -> None:
    form = {"prompt": "x", "rule": "block"}
    assert race_request({**form, "method": "draft-model"}).config.rule == "block"
    chain = race_request({**form, "method": "early-exit", "branching": "1, 1"}).config
    assert (chain.rule, chain.branching) == ("block", (1, 1))
    for changes in ({"branching": "2"}, {"method": "medusa"}, {"method": "eagle"}):
        with pytest.raises(InputError, match=r"^rule (block )?must be "):
            race_request({**form, "method": "early-exit", **changes})


def test_the_form_chooses_how_much_is_drafted() -> None:
    form = {"prompt": "x", "length_policy": "adaptive", "entropy_threshold": "0.4"}
    config = race_request({**form, "method": "draft-model"}).config
    assert (config.length_policy, config.entropy_threshold) == ("adaptive", 0.4)
    with pytest.raises(InputError, match="^entropy_threshold must be 0 for method prompt-lookup"):
        race_request({**form, "method": "prompt-lookup"})
    with pytest.raises(InputError, match="^length_policy must be one of fixed, adaptive, got 'x'$"):
        race_request({**form, "length_policy": "x"})


def test_omitted_settings_have_their_defaults() -> None:
    assert race_request({"prompt": "x"}).config == DecodingConfig()
    assert race_request({"prompt": "x", "task": None}).task is None


def test_a_custom_pair_consists_of_two_sources() -> None:
    pair = race_request({"prompt": "x", "pair": "custom", "target": " a ", "draft": "b"}).pair
    assert (pair.target, pair.draft) == ("a", "b")


def test_a_custom_pair_may_have_heads_that_make_their_methods_possible() -> None:
    form = {"prompt": "x", "pair": "custom", "target": "a"}
    for method in ("eagle", "medusa"):
        with pytest.raises(InputError, match=f"(?i)method needs .*{method} head"):
            race_request(form | {"method": method, "drawing": "chosen"})
        chosen = form | {"method": method, "drawing": "chosen", method: " heads "}
        assert getattr(race_request(chosen).pair, method) == "heads"


BAD: list[tuple[str, Any]] = [
    ("prompt", ""),
    ("prompt", " \n\t"),
    ("prompt", None),
    ("prompt", "half \ud83d"),
    ("prompt", "x" * 1_000_000),
    ("task", "poems"),
    ("pair", "nothing"),
    ("pair", 3),
    ("draft_length", "0"),
    ("draft_length", "1000000"),
    ("draft_length", "2.5"),
    ("draft_length", None),
    ("draft_length", [1]),
    ("draft_length", math.inf),
    ("temperature", "-1"),
    ("temperature", "NaN"),
    ("temperature", math.nan),
    ("temperature", "1e999"),
    ("temperature", "warm"),
    ("top_k", "-1"),
    ("top_p", "0"),
    ("top_p", "1.01"),
    ("min_p", "-0.1"),
    ("min_p", "1"),
    ("seed", "-1"),
    ("seed", "9007199254740992"),
    ("max_new_tokens", "0"),
    ("max_new_tokens", "100000"),
    ("branching", "3;2"),
    ("branching", "0"),
    ("branching", "9,9,9"),
    ("branching", "1,1,1,1,1,1"),
    ("drawing", "odd"),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_value_is_named_in_one_sentence(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        race_request({"prompt": "x", field: value})
    message = str(caught.value)
    assert message.startswith(field)
    assert "\n" not in message and len(message) < 300


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(InputError, match="form must have only settings of a race .*, got 'speed'"):
        race_request({"prompt": "x", "speed": "fast"})


def test_a_custom_pair_needs_a_target() -> None:
    form = {"prompt": "x", "pair": "custom", "target": " ", "draft": "b"}
    with pytest.raises(InputError, match="target"):
        race_request(form)


@pytest.mark.parametrize("method", list(DRAFTERS))
def test_a_target_without_a_draft_can_use_methods_that_need_none(method: str) -> None:
    form = {"prompt": "x", "pair": "custom", "target": str(models_folder() / "target")}
    form |= {"draft": "", "method": method}
    title = needs_missing(custom_pair(form["target"]), DRAFTERS[method].needs)
    if not title:
        assert race_request(form).pair.draft == ""
        return
    with pytest.raises(InputError, match=f"^method needs .*{title[0].title}.* has none$"):
        race_request(form)
