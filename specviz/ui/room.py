"""Classes: a teacher shows pages, those who came by the link follow them, guess and vote.

In memory only and without names; a class goes when its teacher ends it, or when nobody was in it
for a while. Every table is bounded. Members ask again and again, so an answer that says nothing new
is a few bytes. Knows addresses of pages as text, and nothing of what they show.
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
from specviz.ui.visitors import last_of_most

MAX_ROOMS = 200  # so many that a handful of addresses cannot have them all
ROOMS_OF_ADDRESS = 8  # a school shares an address; the other classes are for others
MAX_MEMBERS = 200  # of a room
MEMBERS_OF_ADDRESS = 150
# Of a name. With 200 classes open, an address that asks 6,000 times a minute finds one of 142 ** 5
# names within 90 minutes with a chance of 1 in 530; with 40, of 1 in 2,700.
WORDS = 5
MAX_POLLS = 20  # of a room: answers to the questions of lessons, the oldest are forgotten
MAX_OPTIONS = 8
MOST_PAGE, MOST_HOME, MOST_WORDS, MOST_OPTION = 4000, 300, 600, 240  # characters

HERE_SECONDS = 15.0  # since the last look; a browser lets a page in the background look rarely
AWAY_SECONDS = 75.0  # of a teacher; a page behind others looks once a minute
IDLE_SECONDS = 300.0  # without anybody, until a room is gone
ABANDONED_SECONDS = 1800.0  # without its teacher
SWEEP_SECONDS = 1.0  # from one search for classes that are gone to the next
LOOK_SECONDS = 1.0  # from one look of a member to the next
LOOKS_A_SECOND = 50  # of one room, and of one address: where more are, each looks more rarely

GONE = "This class has ended, or its link was mistyped."
OPTIONS = {"verdict": ("accept", "reject")}  # a kind of question -> its options; else its own
KINDS = ("verdict", "prediction")
HINTED = ("p", "q", "greedy", "residual")
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
    """One question to the class, and who chose what."""

    number: int
    kind: str  # of KINDS
    place: str  # what it is about, such as a lesson's step; the same place asks the same
    words: str
    guess: str  # the token that is judged, or ""
    options: dict[str, str]  # name -> words
    votes: dict[str, str] = field(default_factory=dict)  # member -> name of an option
    facts: dict[str, Any] | None = None  # of a verdict: its teacher's, hidden until the reveal
    is_hinted: bool = False  # p and q of a verdict are shown beforehand
    is_revealed: bool = False

    def shown(self) -> Question:
        """What everyone may see of it."""
        asked = {
            "number": self.number,
            "kind": self.kind,
            "place": self.place,
            "words": self.words,
            "guess": self.guess,
            "options": [{"name": name, "text": words} for name, words in self.options.items()],
            "greedy": bool((self.facts or {}).get("greedy")),  # no draw is hidden then
            "hint": self.hint if self.is_hinted else None,
            "revealed": self.is_revealed,
        }
        return asked | ({"counts": self.counts(), "facts": self.facts} if self.is_revealed else {})

    @property
    def is_over(self) -> bool:
        return self.is_revealed and self.kind == "verdict"

    @property
    def hint(self) -> Question | None:
        """p and q of a guess without its draw, None where p is not known."""
        facts = self.facts or {"p": None}
        return None if facts["p"] is None else {name: facts[name] for name in HINTED}

    def counts(self) -> dict[str, int]:
        return {name: 0 for name in self.options} | Counter(self.votes.values())


@dataclass(slots=True)
class Room:
    secret: str  # whoever knows it is the teacher
    teacher_seen: float
    address: str = ""  # of the teacher
    version: int = 1  # another one wherever members have something new to see
    page: str = ""  # that the teacher shows: what its address has from "?" on
    unseen: bool = False  # the teacher's screen shows more than others of that page
    follows: bool = True
    poll: Poll | None = None
    kept: dict[str, Poll] = field(default_factory=dict)  # lessons' questions, by their places
    members: dict[str, float] = field(default_factory=dict)  # -> when they looked last
    addresses: dict[str, str] = field(default_factory=dict)  # of the members
    polls: int = 0  # so far

    @property
    def seen(self) -> float:
        return max([self.teacher_seen, *self.members.values()])

    @property
    def asked(self) -> list[Poll]:
        return [each for each in (*self.kept.values(), self.poll) if each]

    def knows(self, name: object) -> bool:
        """Whether it is of somebody who has voted and has no place."""
        voted = {member for poll in self.asked for member in poll.votes}
        return isinstance(name, str) and name in voted - self.members.keys()

    def here(self, now: float) -> set[str]:
        return {member for member, seen in self.members.items() if now - seen < HERE_SECONDS}

    def is_away(self, now: float) -> bool:
        """The teacher."""
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
        """Their place; what they have voted stays, and is theirs again when they come back."""
        del self.members[member], self.addresses[member]

    def give_away_absent(self, now: float, address: str = "") -> None:
        """The places of all who are silent, or of those of an address."""
        for member in self.members.keys() - self.here(now):
            if address in ("", self.addresses[member]):
                self.give_away(member)

    def take_from_most(self, address: str) -> None:
        """The newest of the address that has most gives way to one that has fewer."""
        if newest := last_of_most(self.addresses, self.addresses, address):
            self.give_away(newest)

    def forget_member(self, member: str) -> None:
        self.give_away(member)
        for poll in self.asked:
            if not poll.is_over:
                poll.votes.pop(member, None)


class Rooms:
    """All classes of this app.

    `clock` gives seconds that only grow; `look_seconds` lie between two looks of a member.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._clock = clock
        self._look_seconds = look_seconds
        self._rooms: dict[str, Room] = {}
        self._near: Counter[str] = Counter()  # members who are here, by address
        self._swept = clock()
        self._lock = threading.Lock()

    # ---- the teacher

    @answers
    def open_room(self, question: Question) -> Question:
        """{"home": address of the page} -> {"room", "secret", "link", "qr": an SVG's data address}.

        The link is the home with the room's words behind it.
        """
        home = text(question["home"], "home", MOST_HOME)
        if not home.startswith(("http://", "https://")) or "?" in home or "#" in home:
            raise InputError(f"home must be the page's own address, got {short(home)}")
        with self._lock:
            self._sweep()
            address = asker(question)
            near = sum(each.address == address for each in self._rooms.values())
            if len(self._rooms) >= MAX_ROOMS and not self._take_from_most(address):
                raise InputError(f"{MAX_ROOMS} classes are open here already: try again later")
            if address and near >= ROOMS_OF_ADDRESS:
                raise InputError(f"{near} classes of your address are open already: end one first")
            name = self._new_name()
            room = Room(secrets.token_urlsafe(24), self._clock(), address)
            self._rooms[name] = room
        link = f"{home}?class={name}"
        code = segno.make(link, error="m", micro=False)
        qr = code.svg_data_uri(border=2, omitsize=True, light="#fff")
        return {"room": name, "secret": room.secret, "link": link, "qr": qr}

    @answers
    def lead_room(self, question: Question) -> Question:
        """What the teacher does, {"do": a name of `_MOVES`, …}."""
        move = _MOVES.get(str(question["do"]))
        if move is None:
            raise InputError(f"do must be one of {', '.join(_MOVES)}, got {short(question['do'])}")
        with self._lock:
            name, room = self._led(question)
            if move(room, question):
                room.version += 1
            if question["do"] == "end":
                del self._rooms[name]
        return {}

    @answers
    def watch_room(self, question: Question) -> Question:
        """The teacher's look: how many are here and have voted, the state if it is a new one."""
        after = whole_between(question["version"], "version", 0, MAX_INTEGER)
        with self._lock:
            _, room = self._led(question)
            counted = len(room.poll.votes) if room.poll else 0
            told: Question = {"here": len(room.here(self._clock())), "votes": counted}
            return told | self._news(room, after, "") | {"wait": self._look_seconds}

    # ---- the class

    @answers
    def join_room(self, question: Question) -> Question:
        """{"room", perhaps "was": the member before} -> {"member": what looks and votes carry}."""
        with self._lock:
            room, now = self._room(question), self._clock()
            address = asker(question)
            if address and room.is_full_of(address):
                room.give_away_absent(now, address)
            if address and room.is_full_of(address):
                raise InputError(
                    f"{MEMBERS_OF_ADDRESS} of your network are in this class already: try later"
                )
            if room.is_full():
                room.give_away_absent(now)
            if room.is_full():
                room.take_from_most(address)
            if room.is_full():
                raise InputError(f"this class is full: it has room for {MAX_MEMBERS}")
            was = question.get("was")
            member = str(was) if room.knows(was) else secrets.token_urlsafe(12)
            room.members[member], room.addresses[member] = now, address
            return {"member": member}

    @answers
    def look_room(self, question: Question) -> Question:
        """A member's look: {"version", "wait": seconds}, "state" if new, "away": the teacher."""
        after = whole_between(question["version"], "version", 0, MAX_INTEGER)
        with self._lock:
            room, member = self._membership(question)
            room.members[member] = now = self._clock()
            crowd = max(len(room.here(now)), self._near[room.addresses[member]])
            wait = max(self._look_seconds, crowd / LOOKS_A_SECOND)
            told = {"wait": wait} | ({"away": True} if room.is_away(now) else {})
            return self._news(room, after, member) | told

    @answers
    def vote(self, question: Question) -> Question:
        """A member's choice, which may be another one until the result is shown."""
        asked = whole_between(question["number"], "number", 0, MAX_INTEGER)
        with self._lock:
            room, member = self._membership(question)
            poll = room.poll
            if poll is None or poll.number != asked or poll.is_over:
                raise InputError("this vote is over")
            given = question["choice"]
            choice = next((name for name in poll.options if name == given), None)  # no copy
            if choice is None:
                names = ", ".join(poll.options)
                raise InputError(f"choice must be one of {names}, got {short(given)}")
            poll.votes[member] = choice
            if len(poll.votes) > MAX_MEMBERS:
                del poll.votes[next(each for each in poll.votes if each not in room.members)]
            room.version += poll.is_revealed  # its chart is on the screen
        return {}

    @answers
    def leave_room(self, question: Question) -> Question:
        """A member goes, and an open vote of theirs with them."""
        with self._lock:
            room, member = self._membership(question)
            room.forget_member(member)
        return {}

    # ---- inside, under the lock

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

    def _take_from_most(self, address: str) -> bool:
        """Whether the address that has most classes, and more than this one, has given its last in
        which there is nobody, its teacher neither.
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
        """Forget classes that are gone, count who is here. It looks at all, so not each time."""
        now = self._clock()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        for name, room in list(self._rooms.items()):
            is_idle = now - room.seen >= IDLE_SECONDS
            if is_idle or now - room.teacher_seen >= ABANDONED_SECONDS:
                del self._rooms[name]
        self._near = Counter(
            each.addresses[member] for each in self._rooms.values() for member in each.here(now)
        )


# ---- what a teacher can do: each returns whether members have something new to see


def _show(room: Room, question: Question) -> bool:
    before = room.page, room.unseen
    room.page = text(question["page"], "page", MOST_PAGE)
    room.unseen = boolean(question.get("unseen", False), "unseen")
    return (room.page, room.unseen) != before


def _follow(room: Room, question: Question) -> bool:
    room.follows = boolean(question["on"], "on")
    return True


def _ask(room: Room, question: Question) -> bool:
    """Open a question; a lesson's that was asked before goes on with its votes, unrevealed.

    What hides behind a verdict comes with it, so that its teacher's page may be reloaded meanwhile,
    or be at another place: "facts", and "hinted" where p and q are to be seen at once.
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
    """The same question in other words, as its numbers come late; whether they are other ones."""
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
    return options


def _reveal(room: Room, question: Question) -> bool:
    """Show what the class chose, and with a verdict what was hidden. A lesson's can be put away."""
    if room.poll is None:
        raise InputError("there is no question to show the result of")
    is_on = boolean(question.get("on", True), "on")
    room.poll.is_revealed = is_on or room.poll.kind == "verdict"
    return True


def _show_hint(room: Room, _: Question) -> bool:
    """Show p and q of the guess while the draw stays hidden."""
    if room.poll is None or room.poll.kind != "verdict" or room.poll.is_revealed:
        raise InputError("there is no open question about a verdict")
    is_new, room.poll.is_hinted = not room.poll.is_hinted, True
    return is_new


def _facts(given: object) -> Question:
    """Of a verdict: numbers from 0 to 1, null where nobody knows one, and flags."""
    if not isinstance(given, dict):
        raise InputError(f"facts must be an object, got {short(given)}")
    told: Question = {
        name: None if given.get(name) is None else number(given[name], f"facts.{name}", 0, 1)
        for name in ("p", "q", "accept", "u")
    }
    return told | {name: given.get(name) is True for name in ("accepted", "greedy", "residual")}


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
