"""Classes of students: a teacher shows pages; members open a link, follow the pages and vote.

Everything is in memory and anonymous. A class disappears when its teacher ends it, or when nobody
was in it for a while. Every table has a limited size. The pages of members and of the teacher poll
for news, so an answer without news has only a few bytes. The class `Poll` is something else: a
question to the class. This module knows the addresses of pages as text, not their content.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import segno

from specviz.errors import InputError, short, whole_between
from specviz.records.field_types import MAX_INTEGER
from specviz.trace_file.values import boolean, number, text
from specviz.ui.answers import Question, answers, asker
from specviz.ui.visitors import VisitorCounts, account_word, accounts_of, last_of_most

# The largest number of classes at the same time. It is so large that a few addresses together
# cannot open so many.
MAX_ROOMS = 200
ROOMS_OF_ADDRESS = 8  # largest number of classes from one address, which a school may share
MAX_MEMBERS = 200  # largest number of members of a class
MEMBERS_OF_ADDRESS = 150
# Number of words in a class's name. There are 142 ** 5 names, so guessing one is hard. Suppose that
# 200 classes are open, and that an address tries 6,000 names a minute for 90 minutes. The
# probability that it finds a class is 1 in 530. With 40 open classes, it is 1 in 2,700.
WORDS = 5
# The largest number of questions in lessons whose votes a class keeps; the oldest are forgotten.
MAX_POLLS = 20
MAX_OPTIONS = 8
# The largest number of characters in the address of a page, in the address of the start page, in a
# question's words, and in an option.
MOST_PAGE, MOST_HOME, MOST_WORDS, MOST_OPTION = 4000, 300, 600, 240

# The time after a poll for which a member counts as present. It is long, because browsers slow down
# the timers of background pages.
HERE_SECONDS = 15.0
# The number of seconds after the last poll from which the teacher counts as away. A hidden page
# polls only once a minute.
AWAY_SECONDS = 75.0
IDLE_SECONDS = 300.0  # number of seconds after which an empty class is deleted
ABANDONED_SECONDS = 1800.0  # number of seconds after which a class without its teacher is deleted
SWEEP_SECONDS = 1.0  # shortest time between two searches for classes to delete
LOOK_SECONDS = 1.0  # time between two polls of one member
# The largest number of polls per second from a class or an address. Members of a larger class poll
# less often.
LOOKS_A_SECOND = 50

GONE = "This class has ended, or its link was mistyped."
# Kind of question -> its fixed options. A verdict asks whether the target accepts a drafted token.
# A prediction is a question of a lesson, which brings its own options.
OPTIONS = {"verdict": ("accept", "reject")}
KINDS = ("verdict", "prediction")
HINTED = ("p", "q", "greedy", "residual", "chosen")
_WORDS = tuple(
    "acorn amber apple arrow aspen badge basil beach berry birch bloom board brick brook brush "
    "cabin cable candy canoe cedar chalk cherry chess cliff cloud clover coast cocoa comet copper "
    "coral cotton crane creek daisy delta dune eagle ember fern field finch flint flute forest "
    "frost garden ginger globe grape grove harbor hazel heron honey island ivory jade kayak kite "
    "lagoon lake lamp lemon lilac linen lotus maple marble meadow melon mint mosaic moss nectar "
    "oasis ocean olive onyx orbit orchid otter owl paper pearl pebble pepper piano pine planet "
    "plum pollen pond poppy quartz quill rain raven reed ribbon river robin rocket rose ruby "
    "saddle sage sail sand shell silk silver sky slate snow sparrow spice spring spruce star stone "
    "storm summit sun swan tea thistle tide tiger topaz tulip valley velvet violet walnut wave "
    "willow wind winter wren yarn zebra".split()
)


@dataclass(slots=True)
class Poll:
    """A question to the class, and each member's choice."""

    number: int
    kind: str  # the kind of question, one of KINDS
    # The question's subject, such as a step of a lesson. Two predictions with the same subject
    # count as the same question.
    place: str
    words: str
    guess: str  # the drafted token that a verdict is about, or ""
    options: dict[str, str]  # short name of an option -> the words that members read
    votes: dict[str, str] = field(default_factory=dict)  # member -> name of the chosen option
    # The numbers of a verdict, which the teacher's page sends; they stay hidden until the reveal.
    facts: dict[str, Any] | None = None
    is_hinted: bool = False  # True if the class sees p and q of the drafted token before it votes
    is_revealed: bool = False

    def shown(self) -> Question:
        """Return the parts of the question that everyone may see."""
        asked = {
            "number": self.number,
            "kind": self.kind,
            "place": self.place,
            "words": self.words,
            "guess": self.guess,
            "options": [{"name": name, "text": words} for name, words in self.options.items()],
            # At temperature 0, a verdict uses no random draw that must stay hidden.
            "greedy": bool((self.facts or {}).get("greedy")),
            "hint": self.hint if self.is_hinted else None,
            "revealed": self.is_revealed,
        }
        return asked | ({"counts": self.counts(), "facts": self.facts} if self.is_revealed else {})

    @property
    def is_over(self) -> bool:
        return self.is_revealed and self.kind == "verdict"

    @property
    def hint(self) -> Question | None:
        """Return p and q of a guess without its random draw, or None if p is unknown."""
        facts = self.facts or {"p": None}
        return None if facts["p"] is None else {name: facts[name] for name in HINTED}

    def counts(self) -> dict[str, int]:
        return {name: 0 for name in self.options} | Counter(self.votes.values())


@dataclass(slots=True)
class Room:
    # A random word that only the teacher's page knows, and that proves who leads the class.
    secret: str
    teacher_seen: float
    address: str = ""  # network address of the teacher
    version: int = 1  # changes whenever members have something new to see
    page: str = ""  # address of the page that the teacher shows, from "?" on
    unseen: bool = False  # the teacher's screen shows parts of the page that members cannot open
    follows: bool = True
    poll: Poll | None = None
    # Subject of a lesson's question -> the question.
    kept: dict[str, Poll] = field(default_factory=dict)
    # Member -> time of the last poll, in seconds.
    members: dict[str, float] = field(default_factory=dict)
    # Member -> network address of the member.
    addresses: dict[str, str] = field(default_factory=dict)
    polls: int = 0  # number of questions that the teacher has asked in this class

    @property
    def seen(self) -> float:
        return max([self.teacher_seen, *self.members.values()])

    @property
    def asked(self) -> list[Poll]:
        return [each for each in (*self.kept.values(), self.poll) if each]

    def knows(self, name: object) -> bool:
        """Return whether `name` belongs to a former member who has voted."""
        voted = {member for poll in self.asked for member in poll.votes}
        return isinstance(name, str) and name in voted - self.members.keys()

    def here(self, now: float) -> set[str]:
        return {member for member, seen in self.members.items() if now - seen < HERE_SECONDS}

    def is_away(self, now: float) -> bool:
        """Return whether the teacher counts as away, because the last poll was too long ago."""
        return now - self.teacher_seen >= AWAY_SECONDS

    def is_full(self) -> bool:
        return len(self.members) >= MAX_MEMBERS

    def is_full_of(self, address: str) -> bool:
        return list(self.addresses.values()).count(address) >= MEMBERS_OF_ADDRESS

    def state(self, member: str = "") -> Question:
        poll = self.poll
        mine = poll.votes.get(member) if poll else None
        return {
            "page": self.page,
            "unseen": self.unseen,
            "follows": self.follows,
            "poll": poll and poll.shown(),
            "mine": mine,
        }

    def give_away(self, member: str) -> None:
        """Remove a member, but keep the member's votes.

        If the member returns, the votes belong to the member again.
        """
        del self.members[member], self.addresses[member]

    def give_away_absent(self, now: float, address: str = "") -> None:
        """Remove all absent members, or only those of one address."""
        for member in self.members.keys() - self.here(now):
            if address in ("", self.addresses[member]):
                self.give_away(member)

    def take_from_most(self, address: str) -> None:
        """Remove the newest member of the address that has the largest number of members.

        This happens only if that address has more members than `address` would have with a further
        one. It makes room for a new member from `address`.
        """
        if newest := last_of_most(self.addresses, self.addresses, address):
            self.give_away(newest)

    def forget_member(self, member: str) -> None:
        self.give_away(member)
        for poll in self.asked:
            if not poll.is_over:
                poll.votes.pop(member, None)


class Rooms:
    """All classes of students on this server.

    `clock` returns monotonic seconds. `look_seconds` is the time between two polls of a member.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._clock = clock
        self._look_seconds = look_seconds
        self._rooms: dict[str, Room] = {}
        # Network address -> number of class members who are present.
        self._near = VisitorCounts()
        self._swept = clock()
        self._lock = threading.Lock()

    @answers
    def open_room(self, question: Question) -> Question:
        """Open a class for {"home": address of the page}.

        The answer is {"room", "secret", "link", "qr": an SVG as a data address}. The link is the
        home address with the class's name.
        """
        home = text(question["home"], "home", MOST_HOME)
        if not home.startswith(("http://", "https://")) or "?" in home or "#" in home:
            raise InputError(f"home must be the page's own address, got {short(home)}")
        with self._lock:
            self._sweep()
            address = asker(question)
            if len(self._rooms) >= MAX_ROOMS and not self._take_from_most(address):
                raise InputError(
                    f"{MAX_ROOMS} classes are open on this server already: try again later"
                )
            self._check_rooms(address)
            name = self._new_name()
            room = Room(secrets.token_urlsafe(24), self._clock(), address)
            self._rooms[name] = room
        link = f"{home}?class={name}"
        code = segno.make(link, error="m", micro=False)
        qr = code.svg_data_uri(border=2, omitsize=True, light="#fff")
        return {"room": name, "secret": room.secret, "link": link, "qr": qr}

    @answers
    def lead_room(self, question: Question) -> Question:
        """Carry out an action of the teacher, {"do": a name in `_MOVES`, …}."""
        move = _MOVES.get(str(question["do"]))
        if move is None:
            raise InputError(
                f"'do' must be one of {', '.join(_MOVES)}, got {short(question['do'])}"
            )
        with self._lock:
            name, room = self._led(question)
            if move(room, question):
                room.version += 1
            if question["do"] == "end":
                del self._rooms[name]
        return {}

    @answers
    def watch_room(self, question: Question) -> Question:
        """Answer the teacher's poll with the numbers of members and votes.

        The answer also has the state of the class if it is new.
        """
        after = whole_between(question["version"], "version", 0, MAX_INTEGER)
        with self._lock:
            _, room = self._led(question)
            counted = len(room.poll.votes) if room.poll else 0
            counts: Question = {"here": len(room.here(self._clock())), "votes": counted}
            return counts | self._news(room, after, "") | {"wait": self._look_seconds}

    @answers
    def join_room(self, question: Question) -> Question:
        """Join the class {"room", "was": the former member's name, if any}.

        The answer is {"member": a name}.
        """
        with self._lock:
            room, now = self._room(question), self._clock()
            address = asker(question)
            if address and room.is_full_of(address):
                room.give_away_absent(now, address)
            if address and room.is_full_of(address):
                raise InputError(
                    f"{MEMBERS_OF_ADDRESS} members from your network are in this class already: "
                    "try again later"
                )
            if room.is_full():
                room.give_away_absent(now)
            if room.is_full():
                room.take_from_most(address)
            if room.is_full():
                raise InputError(f"this class is full: it can have at most {MAX_MEMBERS} members")
            was = question.get("was")
            member = str(was) if room.knows(was) else secrets.token_urlsafe(12)
            room.members[member], room.addresses[member] = now, address
            return {"member": member}

    @answers
    def look_room(self, question: Question) -> Question:
        """Answer a member's poll with {"version", "wait": seconds}.

        The answer also has "state" if the state of the class is new, and "away" if the teacher is
        away.
        """
        after = whole_between(question["version"], "version", 0, MAX_INTEGER)
        with self._lock:
            room, member = self._membership(question)
            room.members[member] = now = self._clock()
            crowd = max(len(room.here(now)), self._near[room.addresses[member]])
            wait = max(self._look_seconds, crowd / LOOKS_A_SECOND)
            timing = {"wait": wait} | ({"away": True} if room.is_away(now) else {})
            return self._news(room, after, member) | timing

    @answers
    def vote(self, question: Question) -> Question:
        """Record a member's choice, which the member can change later.

        The vote on a verdict ends when its result is shown. The vote on a prediction stays open.
        """
        asked = whole_between(question["number"], "number", 0, MAX_INTEGER)
        with self._lock:
            room, member = self._membership(question)
            poll = room.poll
            if poll is None or poll.number != asked or poll.is_over:
                raise InputError("this vote is over")
            given = question["choice"]
            # Store the text object of the poll, not the equal text from the request. All votes then
            # share one object, which saves memory.
            choice = next((name for name in poll.options if name == given), None)
            if choice is None:
                names = ", ".join(poll.options)
                raise InputError(f"choice must be one of {names}, got {short(given)}")
            poll.votes[member] = choice
            if len(poll.votes) > MAX_MEMBERS:
                del poll.votes[next(each for each in poll.votes if each not in room.members)]
            # If the result is shown, a new vote changes the teacher's chart, so members get a new
            # version.
            room.version += poll.is_revealed
        return {}

    @answers
    def leave_room(self, question: Question) -> Question:
        """Remove a member, together with the member's votes on questions that are still open."""
        with self._lock:
            room, member = self._membership(question)
            room.forget_member(member)
        return {}

    # ---- internal functions; the caller must hold the lock

    def _news(self, room: Room, after: int, member: str) -> Question:
        if room.version == after:
            return {"version": after}
        return {"version": room.version, "state": room.state(member)}

    def _room(self, question: Question) -> Room:
        self._sweep()
        name = question["room"]
        room = self._rooms.get(name) if isinstance(name, str) else None
        if room is None:
            raise InputError(GONE)
        return room

    def _led(self, question: Question) -> tuple[str, Room]:
        room, secret = self._room(question), question["secret"]
        known = room.secret.encode()
        if not isinstance(secret, str) or not secrets.compare_digest(
            secret.encode("utf-8", "surrogatepass"), known
        ):
            raise InputError("only the teacher of this class may do this")
        room.teacher_seen = self._clock()
        return question["room"], room

    def _membership(self, question: Question) -> tuple[Room, str]:
        room, member = self._room(question), question["member"]
        if not isinstance(member, str) or member not in room.members:
            raise InputError("this class does not know you any more: join it again")
        return room, member

    def _check_rooms(self, address: str) -> None:
        """Raise InputError if too many classes are open from this address or its network."""
        for name, visitors in accounts_of(address).items():
            near = sum(name in accounts_of(each.address) for each in self._rooms.values())
            if address and near >= ROOMS_OF_ADDRESS * visitors:
                raise InputError(
                    f"{near} classes from your {account_word(visitors)} are open already: end one "
                    "of them first"
                )

    def _take_from_most(self, address: str) -> bool:
        """Delete an empty class of the address that has the largest number of classes.

        This happens only if that address has more classes than `address` would have with a further
        one. The newest class whose members and teacher are all absent is deleted. Returns whether a
        class was deleted.
        """
        now = self._clock()
        addresses = {name: each.address for name, each in self._rooms.items()}
        empty = [
            name for name, each in self._rooms.items() if each.is_away(now) and not each.here(now)
        ]
        last = last_of_most(addresses, empty, address)
        return self._rooms.pop(last, None) is not None

    def _new_name(self) -> str:
        while (name := "-".join(secrets.choice(_WORDS) for _ in range(WORDS))) in self._rooms:
            pass
        return name

    def _sweep(self) -> None:
        """Delete abandoned classes and count present members, at most once per SWEEP_SECONDS."""
        now = self._clock()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        for name, room in list(self._rooms.items()):
            is_idle = now - room.seen >= IDLE_SECONDS
            if is_idle or now - room.teacher_seen >= ABANDONED_SECONDS:
                del self._rooms[name]
        self._near = VisitorCounts(
            each.addresses[member] for each in self._rooms.values() for member in each.here(now)
        )


# ---- the teacher's actions: each returns whether members have something new to see


def _show(room: Room, question: Question) -> bool:
    before = room.page, room.unseen
    room.page = text(question["page"], "page", MOST_PAGE)
    room.unseen = boolean(question.get("unseen", False), "unseen")
    return (room.page, room.unseen) != before


def _follow(room: Room, question: Question) -> bool:
    room.follows = boolean(question["on"], "'on'")
    return True


def _ask(room: Room, question: Question) -> bool:
    """Open a question.

    If a lesson's question was asked before, it keeps its votes, and its result is hidden again. A
    verdict brings its hidden numbers as "facts", so that the teacher's page can be reloaded, or can
    show another step, before the reveal. "hinted" shows p and q at once.
    """
    kind, place = question["kind"], text(question["place"], "place", MOST_OPTION)
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {short(kind)}")
    words = text(question["words"], "words", MOST_WORDS)
    guess = text(question["guess"], "guess", MOST_OPTION)
    options = _options(kind, question)
    facts = _facts(question["facts"]) if kind == "verdict" else None
    is_hinted = boolean(question.get("hinted", False), "hinted")
    known = room.kept.get(place) if kind == "prediction" else None
    if known is not None:
        is_new, room.poll = room.poll is not known, known
        known.is_revealed &= not is_new
        return _word(known, words, options) or is_new
    room.polls += 1
    room.poll = Poll(room.polls, kind, place, words, guess, options, {}, facts, is_hinted)
    if kind == "prediction":
        room.kept[place] = room.poll
        while len(room.kept) > MAX_POLLS:
            del room.kept[next(iter(room.kept))]
    return True


def _word(poll: Poll, words: str, options: dict[str, str]) -> bool:
    """Update the words of a question, because the numbers in them may arrive late.

    Returns whether the words changed.
    """
    is_same = (words, options) == (poll.words, poll.options)
    if is_same or poll.is_revealed or options.keys() != poll.options.keys():
        return False
    poll.words, poll.options = words, options
    return True


def _options(kind: str, question: Question) -> dict[str, str]:
    if kind in OPTIONS:
        return {name: name for name in OPTIONS[kind]}
    given = question["options"]
    if not isinstance(given, list) or not 2 <= len(given) <= MAX_OPTIONS:
        raise InputError(f"options must be an array of 2 to {MAX_OPTIONS}, got {short(given)}")
    options = {}
    for each in given:
        if not isinstance(each, dict):
            raise InputError(f"options must hold objects, got {short(each)}")
        name = text(each.get("name"), "options.name", MOST_OPTION)
        options[name] = text(each.get("text"), "options.text", MOST_OPTION)
    if len(options) < len(given):
        raise InputError(
            f"options must have different names, got {len(given) - len(options)} repeated"
        )
    return options


def _reveal(room: Room, question: Question) -> bool:
    """Show the result, with the hidden numbers of a verdict.

    The result of a lesson's question can be hidden again.
    """
    if room.poll is None:
        raise InputError("there is no question whose result could be shown")
    is_on = boolean(question.get("on", True), "'on'")
    room.poll.is_revealed = is_on or room.poll.kind == "verdict"
    return True


def _show_hint(room: Room, _: Question) -> bool:
    """Show p and q of the guess; the random draw stays hidden."""
    if room.poll is None or room.poll.kind != "verdict" or room.poll.is_revealed:
        raise InputError("there is no open question about a verdict")
    is_new, room.poll.is_hinted = not room.poll.is_hinted, True
    return is_new


def _facts(given: object) -> Question:
    """Read the facts of a verdict: numbers from 0 to 1, null if unknown, and flags."""
    if not isinstance(given, dict):
        raise InputError(f"facts must be an object, got {short(given)}")
    numbers: Question = {
        name: None if given.get(name) is None else number(given[name], f"facts.{name}", 0, 1)
        for name in ("p", "q", "accept", "u")
    }
    flags = ("accepted", "greedy", "residual", "chosen")
    return numbers | {name: given.get(name) is True for name in flags}


def _drop(room: Room, _: Question) -> bool:
    is_new, room.poll = room.poll is not None, None
    return is_new


def _end(room: Room, _: Question) -> bool:
    return False


_MOVES: dict[str, Callable[[Room, Question], bool]] = {
    "show": _show,
    "follow": _follow,
    "ask": _ask,
    "hint": _show_hint,
    "reveal": _reveal,
    "drop": _drop,
    "end": _end,
}
