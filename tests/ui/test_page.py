"""The page loads everything from its own server and never uses a model's text as markup."""

import json
import re
import shutil
from functools import cache
from inspect import iscoroutinefunction
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from specviz.decoding.drafters.registry import DRAFTERS
from specviz.environment import Environment
from specviz.figures.plotly_script import plotly_script
from specviz.figures.theme import PALETTES
from specviz.folders import ASSETS
from specviz.lessons import LessonGroup, read_lessons
from specviz.models.pair_catalog import BUNDLED, pairs
from specviz.models.parts import Need
from specviz.records import SETTINGS
from specviz.ui import page_files
from specviz.ui.answers import asked_by
from specviz.ui.api import ENDPOINTS
from specviz.ui.handlers import Handlers
from specviz.ui.page import (
    FOLDER,
    HEAD,
    MOUNT,
    build_page,
    launch_options,
    routes,
)
from specviz.ui.settings_form import CUSTOM, race_request, refusals
from specviz.ui.setup import page_setup
from tests.ui.heard import heard

PLAYER = sorted(path for path in (ASSETS / "player").rglob("*") if path.is_file())
asked_once = cache(page_setup)
SCRIPTS = [path for path in PLAYER if path.suffix == ".js"]
# The view library is a copy. Its tests are in test_vendor.py.
OURS = [path for path in PLAYER if path.parent.name != "vendor"]
OUR_SCRIPTS = [path for path in OURS if path.suffix == ".js"]


def test_the_menus_contain_what_the_server_has() -> None:
    setup = asked_once()
    assert [each["name"] for each in setup["methods"]] == list(DRAFTERS)
    assert setup["palettes"] == PALETTES
    json.dumps(setup, allow_nan=False)


def test_every_method_describes_its_fields() -> None:
    for shown, method in zip(asked_once()["methods"], DRAFTERS.values(), strict=True):
        assert shown["title"] and shown["summary"] and shown["group"]
        assert shown["tree"] == method.takes_branching
        assert shown["drawings"] == [drawing.value for drawing in method.drawings]
        assert shown["rules"] == [rule.name for rule in method.rules]
        assert shown["length_policies"] == [policy.name for policy in method.length_policies]
        assert shown["can_stop"] == method.can_stop
        assert [option["name"] for option in shown["options"]] == [o.name for o in method.options]


def test_block_verification_is_in_the_menu_of_methods_that_can_draft_a_chain() -> None:
    offering = {each["name"] for each in asked_once()["methods"] if "block" in each["rules"]}
    assert {"draft-model", "early-exit", "prompt-lookup", "eagle"} <= offering
    assert offering.isdisjoint({"medusa", "lookahead", "dynamic-tree"})


def test_a_lossy_rule_is_called_lossy_in_the_menu() -> None:
    for rule in asked_once()["rules"]:
        assert ("(lossy)" in rule["title"]) == (not rule["lossless"])


def test_for_a_single_target_exactly_the_methods_that_need_a_draft_are_refused() -> None:
    (custom,) = (each for each in asked_once()["pairs"] if each["name"] == CUSTOM)
    drafts = {Need.DRAFT, Need.FOREIGN_DRAFT}
    needing = {name for name, method in DRAFTERS.items() if method.needs & drafts}
    assert custom["refusals_alone"].keys() == custom["refusals"].keys() | needing
    sentence = custom["refusals_alone"]["draft-model"]
    assert sentence == "needs a draft model; the pair without a draft has none"


def test_every_pair_says_what_it_cannot_do_and_what_is_claimed_of_it() -> None:
    named = asked_once()["pairs"]
    assert [each["name"] for each in named] == [*(pair.name for pair in pairs()), CUSTOM]
    for shown, pair in zip(named, pairs(), strict=False):
        assert shown["refusals"] == refusals(pair)
        assert shown["claim"] == pair.claim
    here = [each["name"] for each in named if each["is_here"]]
    assert BUNDLED in here and here == [pair.name for pair in pairs() if pair.is_here]


def test_the_default_form_is_a_valid_request() -> None:
    table = asked_once()["settings"]
    assert [each["name"] for each in table] == list(SETTINGS)
    form = {each["name"]: each["default"] for each in table if each["default"] != ""}
    assert race_request({"prompt": "x", **form})


def test_requests_go_to_the_page_s_own_queue_and_carry_the_visitor_s_address() -> None:
    page = build_page(Handlers())
    assert {each.name for each in page.fns.values()} == {
        *(endpoint.name for endpoint in ENDPOINTS),
        *("claims", "theory"),
    }
    (player,) = (each for each in page.blocks.values() if isinstance(each, gr.HTML))
    assert iscoroutinefunction(player.hear) and not iscoroutinefunction(player.look)
    request = SimpleNamespace(client=SimpleNamespace(host="10.0.0.1"))
    assert asked_by({"address": "mine"}, request) == {"address": "10.0.0.1"}
    assert asked_by("nonsense", request) == "nonsense"


def test_a_chosen_address_is_used_and_otherwise_the_space_decides() -> None:
    chosen = launch_options(Environment(host="0.0.0.0", port=8000), Handlers())
    assert (chosen["server_name"], chosen["server_port"]) == ("0.0.0.0", 8000)
    left = launch_options(Environment(), Handlers())
    assert (left["server_name"], left["server_port"]) == ("127.0.0.1", None)


def test_a_page_that_is_closed_ends_its_run_and_sends_only_a_ticket() -> None:
    handlers, ticket = Handlers(), "a-word-long-enough-to-be-secret"
    form = {"prompt": "x", "method": "prompt-lookup"}
    assert handlers.join({"ticket": ticket, "form": form})["error"] is None
    client = TestClient(Starlette(routes=routes(handlers)))
    assert client.post("/specviz-page/left", content=ticket * 9).status_code == 413
    assert handlers.look({"ticket": ticket, "after": 0})["state"] == "waiting"
    assert client.post("/specviz-page/left", content=ticket).status_code == 204
    heard(handlers, ticket)
    assert handlers.look({"ticket": ticket, "after": 0})["state"] == "done"
    assert client.post("/specviz-page/left", content=b"\xff").status_code == 204


def test_browsers_keep_the_files_of_a_version_and_changed_files_are_a_new_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = TestClient(Starlette(routes=routes(Handlers())))
    for file in ("player/main.js", "plotly.min.js"):
        assert "immutable" in client.get(f"/{FOLDER}/{file}").headers["cache-control"]
    assert "javascript" in client.get(f"/{FOLDER}/player/main.js").headers["content-type"]
    assert "cache-control" not in client.get(f"/{FOLDER}/setup.json").headers
    for lesson in read_lessons():
        if lesson.notebook:
            assert lesson.group is LessonGroup.EXERCISE
            notebook = client.get(f"/{FOLDER}/exercises/{lesson.notebook}")
            assert notebook.json()["nbformat"] == 4
    assert client.get(f"/{FOLDER}/player/../page.py").status_code == 404
    before = client.get(f"/{FOLDER}/player/main.js").content
    shutil.copytree(page_files.PLAYER, tmp_path / "player")
    monkeypatch.setattr(page_files, "PLAYER", tmp_path / "player")
    with (tmp_path / "player" / "main.js").open("a") as file:
        file.write("// changed")
    # A running server keeps the files in memory, so it still sends the old content of the changed
    # file.
    assert client.get(f"/{FOLDER}/player/main.js").content == before
    monkeypatch.setattr(page_files, "page_files", page_files.page_files.__wrapped__)
    assert not FOLDER.endswith(page_files.version())


def test_plotly_is_served() -> None:
    assert plotly_script().stat().st_size > 1_000_000


def test_every_module_of_the_page_is_requested_at_once() -> None:
    asked = set(re.findall(f'rel="modulepreload" href="{FOLDER}/player/([^"]+)"', HEAD))
    assert asked == {str(path.relative_to(ASSETS / "player")) for path in SCRIPTS} - {
        "report_main.js"
    }


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_no_file_of_the_page_requests_another_server(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    addresses = re.findall(
        r"(?:https?:)?//[\w.-]+\.\w{2,}", re.sub(r"^\s*//.*$", "", text, flags=re.M)
    )
    assert addresses == []
    assert "//" not in HEAD and "http" not in MOUNT


@pytest.mark.parametrize("path", OUR_SCRIPTS, ids=lambda path: path.name)
def test_scripts_describe_themselves_and_never_insert_text_as_markup(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("//"), "says what it is for"
    allowed = 1 if path.name == "main.js" else 0  # main.js inserts the page's own HTML once
    assert (
        len(re.findall(r"(?i)innerHTML|insertAdjacentHTML|outerHTML|document\.write", text))
        == allowed
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_contains_the_name_of_a_method(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [name for name in DRAFTERS if f'"{name}"' in text]


def test_every_reference_in_the_scripts_exists_in_the_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in PLAYER if path.suffix == ".html")
    there = set(re.findall(r'data-ref="(\w+)"', pages))
    (fields,) = re.findall(r"<template data-model-fields>(.*?)</template>", pages, re.S)
    # The browser copies the template's elements once for each prefix, so these names are not in the
    # HTML.
    for prefix in re.findall(r'data-prefix="(\w+)"', pages):
        names = re.findall(r'data-ref="(\w)(\w*)"', fields)
        there |= {prefix + first.upper() + rest for first, rest in names}
    used = {
        name
        for path in SCRIPTS
        for name in re.findall(r"\brefs\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert used <= there


def test_a_public_page_does_not_let_visitors_name_models_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    assert CUSTOM not in {pair["name"] for pair in page_setup()["pairs"]}
    assert "public" in page_setup()["models_note"]
    monkeypatch.setenv("SPECVIZ_MODELS_ALLOWED", "owner/model")
    (custom,) = (each for each in page_setup()["pairs"] if each["name"] == CUSTOM)
    assert "owner/model" in custom["note"]


@pytest.mark.parametrize("path", ["", "/specviz", "/demo"])
def test_the_files_are_found_under_any_path_of_a_proxy(path: str) -> None:
    client = TestClient(Starlette(routes=routes(Handlers())), root_path=path)
    assert client.get(f"/{FOLDER}/player/main.js").status_code == 200
