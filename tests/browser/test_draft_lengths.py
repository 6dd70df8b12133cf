"""The form shows the fields for the draft length that a method obeys, and a link keeps them."""

from __future__ import annotations

from collections.abc import Callable

from specviz.decoding.draft_lengths import ADAPTIVE
from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.models.pair_catalog import CHAT, pair_named
from specviz.records import SETTINGS
from tests.browser.race_driver import RaceDriver

Open = Callable[..., RaceDriver]


def a_method(holds: Callable[[Method], bool]) -> Method:
    """Return the first method for which `holds` is true; the tests know no method by name."""
    return next(method for method in DRAFTERS.values() if holds(method))


STOPS = a_method(lambda method: method.can_stop)
AHEAD = a_method(lambda method: method.drafts_ahead)
COPIES = a_method(lambda method: not method.can_stop and not method.drafts_ahead)


def test_a_link_keeps_the_length_policy_and_the_threshold(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, f"?method={STOPS.name}&length={ADAPTIVE.name}&entropy=0.4")
    assert tab.ref("lengthPolicy").input_value() == ADAPTIVE.name
    assert tab.ref("entropyThreshold").input_value() == "0.4"
    assert tab.text("lengthNote") == ADAPTIVE.summary
    query = tab.evaluate("String(specviz.race.address.query)")
    assert f"length={ADAPTIVE.name}" in query and "entropy=0.4" in query
    folded = tab.text("foldedSettings")
    assert f"{ADAPTIVE.title} length" in folded and "entropy threshold 0.4" in folded


def test_a_method_shows_only_the_fields_that_it_obeys(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url)
    for method, shows in ((STOPS, (True, True)), (COPIES, (True, False)), (AHEAD, (False, False))):
        tab.ref("method").select_option(method.name)
        fields = tab.ref("lengthField"), tab.ref("entropyField")
        assert tuple(field.is_visible() for field in fields) == shows


def test_a_wrong_threshold_is_refused_next_to_its_field(random_url: str, turn_page: Open) -> None:
    tab = turn_page(random_url, f"?method={STOPS.name}")
    tab.ref("entropyThreshold").fill("2")
    error = tab.page.locator("#sv-entropy-error")
    assert error.is_visible() and "must be a number of at least 0 and below 1" in error.inner_text()


def test_the_draft_length_follows_the_method_until_the_user_changes_it(
    random_url: str, turn_page: Open
) -> None:
    pair = pair_named(CHAT)
    trained = a_method(lambda method: method.usual_length(pair) != COPIES.usual_length(pair))
    tab = turn_page(random_url, f"?pair={CHAT}&method={COPIES.name}")
    length = tab.ref("draftLength")
    for method in (trained, COPIES):
        tab.ref("method").select_option(method.name)
        assert length.input_value() == str(method.usual_length(pair))
    length.fill("7")
    tab.ref("method").select_option(trained.name)
    assert length.input_value() == "7"


def test_a_link_without_a_draft_length_means_the_default_of_all_methods(
    random_url: str, turn_page: Open
) -> None:
    pair = pair_named(CHAT)
    trained = a_method(lambda method: method.usual_length(pair) != COPIES.usual_length(pair))
    tab = turn_page(random_url, f"?pair={CHAT}&method={trained.name}")
    assert tab.ref("draftLength").input_value() == str(SETTINGS["draft_length"].default)
