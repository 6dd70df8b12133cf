"""The server of a class protects secrets, counts votes, obeys limits, and ends classes."""

import inspect
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.ui import room, spending
from specviz.ui.answers import UNEXPECTED
from specviz.ui.guard import PER_MINUTE
from specviz.ui.page import ROOM_ASKED, _plain
from specviz.ui.room import Rooms
from specviz.ui.spending import TOO_MUCH, Spending
from tests.ui.heard import awaited

HOME = "https://example.org/specviz/"
FACTS = {"p": 0.3, "q": 0.4, "accept": 0.75, "u": 0.8, "accepted": False}
VERDICT = {
    "kind": "verdict",
    "place": "round 3",
    "words": "The cat",
    "guess": " sat",
    "facts": FACTS,
}
GUESS = {
    "kind": "prediction",
    "place": "a-lesson/a-step",
    "words": "How many?",
    "guess": "",
    "options": [{"name": "few", "text": "few"}, {"name": "many", "text": "many"}],
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Class:
    """An open class with its teacher."""

    def __init__(self, rooms: Rooms) -> None:
        self.rooms = rooms
        opened = rooms.open_room({"home": HOME})
        assert opened["error"] is None
        self.opened = opened
        self.name, self.secret = opened["room"], opened["secret"]

    def lead(self, do: str, **question: Any) -> Any:
        led = {"room": self.name, "secret": self.secret, "do": do, **question}
        return self.rooms.lead_room(led)["error"]

    def watch(self, version: int = 0) -> Any:
        return self.rooms.watch_room({"room": self.name, "secret": self.secret, "version": version})

    def join(self, address: str = "") -> str:
        asked = {"room": self.name, "address": address}
        return str(self.rooms.join_room(asked).get("member", ""))

    def look(self, member: str, version: int = 0) -> Any:
        return self.rooms.look_room({"room": self.name, "member": member, "version": version})

    def vote(self, member: str, choice: object, number: int = 1) -> Any:
        voted = {"room": self.name, "member": member, "number": number, "choice": choice}
        return self.rooms.vote(voted)["error"]

    def counts(self) -> Any:
        return self.watch()["state"]["poll"]["counts"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lesson(clock: Clock) -> Class:
    return Class(Rooms(clock))


def test_a_class_has_a_link_of_plain_words_and_its_qr_code_is_drawn_on_this_server(
    lesson: Class,
) -> None:
    assert lesson.opened["link"] == f"{HOME}?class={lesson.name}"
    assert len(lesson.name.split("-")) == room.WORDS and lesson.name.replace("-", "").isalpha()
    assert lesson.opened["qr"].startswith("data:image/svg+xml")


def test_members_see_the_teacher_s_page_and_an_answer_without_news_is_tiny(
    lesson: Class,
) -> None:
    ann = lesson.join()
    assert lesson.lead("show", page="view=learn&lesson=x") is None
    seen = lesson.look(ann)
    assert seen["state"]["page"] == "view=learn&lesson=x" and seen["state"]["follows"]
    again = lesson.look(ann, seen["version"])
    assert again == {"error": None, "version": seen["version"], "wait": room.LOOK_SECONDS}
    lesson.lead("show", page="view=learn&lesson=x")
    assert lesson.look(ann, seen["version"]) == again
    lesson.lead("show", page="view=learn&lesson=x", unseen=True)
    assert lesson.look(ann, seen["version"])["state"]["unseen"]
    lesson.lead("follow", on=False)
    assert not lesson.look(ann, seen["version"])["state"]["follows"]


def test_a_visitor_s_address_is_sent_to_nobody(lesson: Class) -> None:
    teacher, ann = "203.0.113.7", lesson.join()
    shown = {"room": lesson.name, "secret": lesson.secret, "do": "show", "page": "?view=lab"}
    # On a real server, `asked_by` adds the teacher's address to the request in this way.
    assert lesson.rooms.lead_room(shown | {"address": teacher})["error"] is None
    assert lesson.look(ann)["state"]["page"] == "?view=lab"
    assert teacher not in str(lesson.look(ann)) + str(lesson.watch())


def test_only_the_person_who_knows_the_secret_leads_the_class(lesson: Class) -> None:
    member = lesson.join()
    for secret in ("", member, lesson.secret[:-1], lesson.secret + "é", "\ud800", None, 7):
        asked = {"room": lesson.name, "secret": secret, "do": "end", "version": 0}
        assert "only the teacher" in lesson.rooms.lead_room(asked)["error"]
        assert "only the teacher" in lesson.rooms.watch_room(asked)["error"]
    assert lesson.secret not in str(lesson.look(member))
    assert lesson.look(member)["error"] is None


def test_each_member_has_one_vote_which_may_change_until_the_reveal(lesson: Class) -> None:
    ann, bob = lesson.join(), lesson.join()
    lesson.lead("ask", **VERDICT)
    for member, choice in ((ann, "accept"), (ann, "reject"), (bob, "accept"), (ann, "accept")):
        assert lesson.vote(member, choice) is None
    assert lesson.watch()["votes"] == 2
    assert lesson.look(ann)["state"]["mine"] == "accept"
    assert lesson.lead("reveal") is None
    assert lesson.counts() == {"accept": 2, "reject": 0}
    assert lesson.vote(ann, "reject") == "this vote is over"
    assert lesson.counts() == {"accept": 2, "reject": 0}


def test_no_hidden_number_and_no_count_is_sent_before_the_reveal(lesson: Class) -> None:
    ann = lesson.join()
    lesson.lead("ask", **VERDICT)
    lesson.vote(ann, "accept")
    asked = lesson.look(ann)["state"]["poll"]
    assert not {"facts", "counts"} & asked.keys() and asked["greedy"] is False
    lesson.lead("reveal")
    shown = lesson.look(ann)["state"]["poll"]
    assert shown["facts"] == FACTS | {"greedy": False, "residual": False, "chosen": False}
    lesson.lead("drop")
    assert lesson.look(ann)["state"]["poll"] is None
    lesson.lead("ask", **VERDICT | {"facts": FACTS | {"greedy": True}})
    # Students may know, before the result of a vote is shown, that a greedy run uses no random
    # numbers.
    assert lesson.look(ann)["state"]["poll"]["greedy"] is True


def test_p_and_q_are_shown_before_the_reveal_only_if_the_teacher_chooses_so(
    lesson: Class,
) -> None:
    ann = lesson.join()
    told = {"p": 0.3, "q": 0.4, "greedy": False, "residual": True, "chosen": False}
    asked = VERDICT | {"facts": FACTS | {"residual": True}}
    lesson.lead("ask", **asked)
    assert lesson.look(ann)["state"]["poll"]["hint"] is None
    lesson.vote(ann, "accept")
    assert lesson.lead("hint") is None
    seen = lesson.look(ann)["state"]
    assert seen["poll"]["hint"] == told and seen["mine"] == "accept"
    lesson.lead("ask", **asked, hinted=True)
    assert lesson.look(ann)["state"]["poll"]["hint"] == told
    lesson.lead("ask", **asked | {"facts": FACTS | {"p": None}}, hinted=True)
    assert lesson.look(ann)["state"]["poll"]["hint"] is None
    assert "hinted must be true or false" in lesson.lead("ask", **asked, hinted=[0.3])
    lesson.lead("reveal")
    assert "no open question" in lesson.lead("hint")
    lesson.lead("ask", **GUESS)
    assert "no open question" in lesson.lead("hint")


def test_the_result_belongs_to_the_guess_of_the_question_wherever_the_teacher_is_now(
    lesson: Class,
) -> None:
    """A reloaded page, or a second tab that shows another moment, cannot change the result."""
    ann = lesson.join()
    lesson.lead("ask", **VERDICT)
    other = {"p": 0.9, "q": 0.1, "accept": 1, "u": 0.1, "accepted": True}
    assert lesson.lead("reveal", facts=other) is None
    for state in (lesson.watch()["state"], lesson.look(ann)["state"]):
        assert state["poll"]["facts"] == FACTS | {
            "greedy": False,
            "residual": False,
            "chosen": False,
        }


def test_a_question_whose_options_arrive_later_keeps_its_votes(
    lesson: Class,
) -> None:
    ann = lesson.join()
    full = [{"name": "few", "text": "Fewer than 3"}, {"name": "many", "text": "More than 3"}]
    lesson.lead("ask", **GUESS)
    lesson.vote(ann, "many")
    before = lesson.look(ann)["version"]
    lesson.lead("ask", **GUESS | {"words": "How many of 3?", "options": full})
    seen = lesson.look(ann, before)["state"]
    assert seen["poll"]["options"] == full and seen["poll"]["words"] == "How many of 3?"
    assert seen["mine"] == "many"
    lesson.lead("reveal")
    lesson.lead("ask", **GUESS)
    # The result of a vote keeps the options that the voters saw.
    assert lesson.watch()["state"]["poll"]["options"] == full


def test_a_chart_of_answers_counts_late_votes_and_is_sent_only_on_request(lesson: Class) -> None:
    ann = lesson.join()
    lesson.lead("ask", **GUESS)
    lesson.lead("reveal")
    before = lesson.watch()["version"]
    lesson.vote(ann, "many")
    assert lesson.watch(before)["state"]["poll"]["counts"] == {"few": 0, "many": 1}
    lesson.lead("reveal", on=False)
    assert "counts" not in lesson.watch()["state"]["poll"]
    lesson.lead("reveal")
    lesson.lead("drop")
    lesson.lead("ask", **GUESS)
    assert not lesson.watch()["state"]["poll"]["revealed"]


def test_a_vote_for_another_question_or_by_a_stranger_is_refused(lesson: Class) -> None:
    ann = lesson.join()
    # The teacher has not asked anything yet.
    assert lesson.vote(ann, "accept") == "this vote is over"
    lesson.lead("ask", **VERDICT)
    assert lesson.vote(ann, "accept", number=2) == "this vote is over"
    assert "choice must be one of accept, reject" in lesson.vote(ann, "maybe")
    assert "choice must be one of accept, reject" in lesson.vote(ann, ["accept"])
    assert "join it again" in lesson.vote("stranger", "accept")
    assert lesson.watch()["votes"] == 0


def test_guesses_in_a_lesson_are_kept_per_step_while_the_class_continues(
    lesson: Class,
) -> None:
    ann, bob = lesson.join(), lesson.join()
    lesson.lead("ask", **GUESS)
    lesson.vote(ann, "many")
    lesson.lead("ask", **VERDICT)
    assert lesson.watch()["votes"] == 0
    lesson.lead("ask", **GUESS)
    lesson.vote(bob, "few")
    lesson.lead("reveal")
    assert lesson.counts() == {"few": 1, "many": 1}
    for step in range(room.MAX_POLLS + 5):
        lesson.lead("ask", **GUESS | {"place": f"step {step}"})
    lesson.lead("ask", **GUESS)
    # The class keeps only the last MAX_POLLS polls, so the first poll and its votes are gone.
    assert lesson.watch()["votes"] == 0


def test_a_member_who_leaves_is_not_counted_and_their_open_vote_is_removed(lesson: Class) -> None:
    ann, bob = lesson.join(), lesson.join()
    lesson.lead("ask", **VERDICT)
    lesson.vote(ann, "accept")
    lesson.vote(bob, "reject")
    assert lesson.rooms.leave_room({"room": lesson.name, "member": ann})["error"] is None
    assert (lesson.watch()["here"], lesson.watch()["votes"]) == (1, 1)
    assert "join it again" in lesson.look(ann)["error"]


def test_a_silent_member_is_not_counted_as_present_until_the_next_request(
    lesson: Class, clock: Clock
) -> None:
    ann, bob = lesson.join(), lesson.join()
    clock.now += room.HERE_SECONDS
    lesson.look(ann)
    assert lesson.watch()["here"] == 1
    assert lesson.look(bob)["error"] is None  # bob's phone was asleep and woke up
    assert lesson.watch()["here"] == 2
    clock.now += room.AWAY_SECONDS
    assert lesson.look(ann)["away"]
    lesson.watch()
    assert "away" not in lesson.look(ann)


def test_a_class_ends_when_its_teacher_ends_it(lesson: Class) -> None:
    ann = lesson.join()
    assert lesson.lead("end") is None
    assert lesson.look(ann)["error"] == room.GONE
    assert lesson.rooms.join_room({"room": lesson.name})["error"] == room.GONE
    assert lesson.lead("show", page="") == room.GONE


def test_a_class_ends_if_nobody_was_there_or_its_teacher_stays_away(
    lesson: Class, clock: Clock
) -> None:
    ann = lesson.join()
    clock.now += room.IDLE_SECONDS - 1
    assert lesson.look(ann)["error"] is None
    clock.now += room.IDLE_SECONDS
    assert lesson.look(ann)["error"] == room.GONE
    other = Class(lesson.rooms)
    bob = other.join()
    for _ in range(7):
        clock.now += room.ABANDONED_SECONDS / 7
        left = other.look(bob)["error"]
    assert left == room.GONE


def test_classes_and_members_are_limited_and_absent_members_lose_their_seats(
    lesson: Class, clock: Clock
) -> None:
    for _ in range(room.MAX_ROOMS - 1):
        Class(lesson.rooms)
    assert (
        "classes are open on this server already" in lesson.rooms.open_room({"home": HOME})["error"]
    )
    first = [lesson.join() for _ in range(room.MAX_MEMBERS)]
    assert "this class is full" in lesson.rooms.join_room({"room": lesson.name})["error"]
    clock.now += room.HERE_SECONDS
    lesson.look(first[0])
    lesson.join()
    assert lesson.look(first[0])["error"] is None
    assert "join it again" in lesson.look(first[1])["error"]
    clock.now += room.IDLE_SECONDS
    assert lesson.rooms.open_room({"home": HOME})["error"] is None


def test_one_address_cannot_take_all_classes_or_all_seats_of_a_class(
    lesson: Class, clock: Clock
) -> None:
    asked = {"home": HOME, "address": "one"}
    errors = [lesson.rooms.open_room(asked)["error"] for _ in range(room.ROOMS_OF_ADDRESS + 1)]
    assert errors[:-1] == [None] * room.ROOMS_OF_ADDRESS and "from your address" in errors[-1]
    assert 9 * room.ROOMS_OF_ADDRESS < room.MAX_ROOMS / 2, "nor do nine"
    assert lesson.rooms.open_room(asked | {"address": "another"})["error"] is None
    asked = {"room": lesson.name, "address": "one"}
    told = [lesson.rooms.join_room(asked)["error"] for _ in range(room.MEMBERS_OF_ADDRESS + 1)]
    assert told[:-1] == [None] * room.MEMBERS_OF_ADDRESS and "from your network" in told[-1]
    clock.now += room.HERE_SECONDS
    assert lesson.rooms.join_room(asked)["error"] is None, "those who have gone leave room"
    assert lesson.rooms.join_room(asked | {"address": "another"})["error"] is None


def test_a_few_addresses_that_open_all_classes_lose_empty_ones_to_another_teacher(
    lesson: Class, clock: Clock
) -> None:
    """Without this rule, a few addresses could keep all teachers from opening a class."""
    greedy = [f"10.0.0.{at % 25}" for at in range(room.MAX_ROOMS - 1)]
    for address in greedy:
        last = lesson.rooms.open_room({"home": HOME, "address": address})
        assert last["error"] is None
    clock.now += room.AWAY_SECONDS
    lesson.join()
    lesson.rooms.watch_room(last | {"version": 0})
    teachers = [{"home": HOME, "address": f"10.1.0.{number}"} for number in range(9)]
    for teacher in teachers:
        opened = lesson.rooms.open_room(teacher)
        assert opened["error"] is None
        assert lesson.rooms.join_room({"room": opened["room"], "address": "10.2.0.1"})["member"]
    counts = Counter(each.address for each in lesson.rooms._rooms.values())
    left = sorted(counts[address] for address in set(greedy))
    assert left == [7] * 10 + [8] * 15, "whoever has most gives first"
    assert all(counts[str(each["address"])] == 1 for each in teachers)
    assert lesson.watch()["error"] is None, "a class that somebody is in stays"
    assert lesson.rooms.watch_room(last | {"version": 0})["error"] is None
    again = lesson.rooms.open_room({"home": HOME, "address": "10.0.0.0"})
    assert "classes are open on this server already" in again["error"], (
        "whoever has most gets no more"
    )


def test_strangers_who_fill_a_class_exclude_nobody_and_delete_no_vote(
    lesson: Class, clock: Clock
) -> None:
    lesson.lead("ask", **VERDICT)
    poll = lesson.rooms._rooms[lesson.name].poll
    for _ in range(25):
        lesson.vote(pupil := lesson.join("school"), "".join(["acc", "ept"]))
    assert poll and {*map(id, poll.votes.values())} <= {*map(id, poll.options)}
    clock.now += room.HERE_SECONDS
    for _ in range(room.MEMBERS_OF_ADDRESS + 1):
        lesson.join("one")
    assert lesson.look(pupil)["error"] is None
    for _ in range(room.MAX_MEMBERS - room.MEMBERS_OF_ADDRESS):
        lesson.join("another")
    assert lesson.watch()["votes"] == 25
    assert "" not in [lesson.join("school") for _ in range(25)]
    assert lesson.join("one") == "", "whoever has most gets no more"
    for member in lesson.rooms._rooms[lesson.name].members:
        lesson.vote(member, "reject")
    assert len(poll.votes) == room.MAX_MEMBERS


def test_a_member_who_lost_a_seat_gets_it_back_with_the_vote_and_nobody_else_does(
    lesson: Class,
) -> None:
    ann = lesson.join()
    lesson.lead("ask", **VERDICT)
    lesson.vote(ann, "accept")
    lesson.rooms._rooms[lesson.name].give_away(ann)
    joined = [
        lesson.rooms.join_room({"room": lesson.name, "was": was})["member"]
        for was in ("stranger", [], ann, ann)
    ]
    assert [member == ann for member in joined] == [False, False, True, False]
    assert lesson.look(ann)["state"]["mine"] == "accept"


def test_on_a_public_server_the_qr_codes_per_address_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Drawing one code takes 15 ms or more, during which the server answers nobody."""
    monkeypatch.setenv("SPECVIZ_PUBLIC", "1")
    monkeypatch.setattr(spending, "spending", Spending(Clock()))
    spending.spending.add("one", 5.5)  # the address has already used 5.5 s of CPU time
    rooms = Rooms()

    def asked(name: str, host: str, **question: Any) -> Any:
        request = SimpleNamespace(client=SimpleNamespace(host=host))
        found = _plain(getattr(rooms, name))(question, request)
        return awaited(found) if inspect.isawaitable(found) else found

    opened = 0
    while (found := asked("open_room", "one", home=f"{HOME}{'é' * 200}"))["error"] is None:
        opened += 1
        assert opened < 5000
        asked("lead_room", "one", room=found["room"], secret=found["secret"], do="end")
    assert found["error"] == TOO_MUCH and opened > 0
    ours = asked("open_room", "another", home=HOME)
    assert ours["error"] is None
    # Joining a class that is open costs almost no CPU time.
    joined = asked("join_room", "one", room=ours["room"])
    assert joined["error"] is None


def test_the_cost_of_a_request_does_not_grow_with_other_classes(
    lesson: Class, clock: Clock
) -> None:
    looks = 0

    class Counted(dict[str, float]):
        def values(self) -> Any:
            nonlocal looks
            looks += 1
            return super().values()

    for _ in range(room.ROOMS_OF_ADDRESS):
        other = Class(lesson.rooms)
        other.rooms._rooms[other.name].members = Counted()
    for _ in range(100):
        assert lesson.rooms.join_room({"room": "no-such-class"})["error"] == room.GONE
    assert looks <= room.ROOMS_OF_ADDRESS
    clock.now += room.SWEEP_SECONDS
    lesson.rooms.join_room({"room": "no-such-class"})
    assert looks >= room.ROOMS_OF_ADDRESS


def test_a_class_name_cannot_be_guessed_within_a_lesson() -> None:
    assert len(set(room._WORDS)) == len(room._WORDS)
    tries = PER_MINUTE * 90
    assert tries * room.MAX_ROOMS / len(room._WORDS) ** room.WORDS < 1 / 500


def test_wrong_class_names_do_not_lock_out_others_at_the_same_address(lesson: Class) -> None:
    guess = {"room": "sun-moon-star", "member": "x", "version": 0, "address": "one"}
    told = {lesson.rooms.join_room(guess)["error"] for _ in range(1000)}
    assert told == {room.GONE}
    assert lesson.rooms.join_room(guess | {"room": lesson.name})["error"] is None


def test_members_of_a_large_class_or_behind_one_router_poll_less_often(
    lesson: Class, clock: Clock
) -> None:
    members = [lesson.join() for _ in range(2 * room.LOOKS_A_SECOND)]
    assert lesson.look(members[0])["wait"] == pytest.approx(2.0)
    clock.now += room.SWEEP_SECONDS
    other = Class(lesson.rooms)
    assert other.look(other.join())["wait"] == pytest.approx(2.0)
    teachers = room.ROOMS_OF_ADDRESS / room.LOOK_SECONDS
    assert (room.LOOKS_A_SECOND + teachers) * 60 < PER_MINUTE


@pytest.mark.parametrize(
    ("do", "question", "told"),
    [
        ("dance", {}, "'do' must be one of show, follow"),
        ("show", {"page": "x" * (room.MOST_PAGE + 1)}, "page must be Unicode text"),
        ("show", {}, "'page' must be given in the request, got nothing"),
        ("follow", {"on": 1}, "'on' must be true or false, got 1"),
        ("ask", VERDICT | {"kind": "exam"}, "kind must be one of verdict, prediction"),
        ("ask", VERDICT | {"kind": ["verdict"]}, "kind must be one of verdict, prediction"),
        ("ask", VERDICT | {"words": "x" * (room.MOST_WORDS + 1)}, "words must be Unicode text"),
        ("ask", GUESS | {"options": []}, "options must be an array of 2 to 8"),
        (
            "ask",
            GUESS | {"options": [{"name": "a", "text": "A"}] * 2},
            "options must have different names",
        ),
        ("ask", GUESS | {"options": [1, 2]}, "options must hold objects, got 1"),
        ("ask", GUESS | {"options": [{"name": "a"}] * 2}, "options.text must be Unicode text"),
        ("reveal", {}, "there is no question"),
    ],
)
def test_invalid_actions_in_a_class_are_refused_in_one_line(
    lesson: Class, do: str, question: dict[str, Any], told: str
) -> None:
    assert lesson.lead(do, **question).startswith(told)
    assert lesson.watch()["state"]["poll"] is None


def test_revealed_numbers_must_be_probabilities(lesson: Class) -> None:
    told = lesson.lead("ask", **VERDICT | {"facts": FACTS | {"u": 2}})
    assert told == "facts.u must be a number from 0 to 1, got 2"
    assert "facts must be an object" in lesson.lead("ask", **VERDICT | {"facts": [0.3]})
    assert lesson.lead("ask", **VERDICT | {"facts": FACTS | {"u": None}}) is None


@pytest.mark.parametrize("name", ROOM_ASKED)
@pytest.mark.parametrize("given", [None, {}, [], "x" * 10_000, -1, {"room": []}])
def test_an_invalid_request_is_answered_with_one_line(lesson: Class, name: str, given: Any) -> None:
    fields = ("version", "member", "secret", "number", "choice", "do", "home")
    for question in (given, {"room": lesson.name} | {field: given for field in fields}):
        error = getattr(lesson.rooms, name)(question)["error"]
        assert error != UNEXPECTED
        assert error is None or ("\n" not in error and len(error) < 300)


@pytest.mark.parametrize("home", ["javascript:alert(1)", "https://x/?a=1", "https://x/#a", "", 7])
def test_a_link_can_lead_only_to_a_page_of_the_app(home: object) -> None:
    told = Rooms().open_room({"home": home})["error"]
    assert told.startswith("home must be")
