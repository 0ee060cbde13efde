"""The stage is a keyspace as facts that a page can draw: who is in which lane, what each parent waits for, each outbox.

A fact is a place with a text in it, such as `("set", "orders", "pending", "JOB…")` with `attempts 1`. The stage follows
a keyspace from change to change, and says of each which facts became others: that is all a player has to be sent. It
shows no clock reading: a lease is running or lapsed, a delayed job is due now or later.

    set QUEUE LANE ID        a chip: its note; one that starts with `!` is a warning
    fan QUEUE ID             a parent's fan-in: its counter, then how many are processed, unsuccessful and failed
    in QUEUE ID HASH CHILD   an entry of one of the three hashes
    row QUEUE ID FIELD       a field of a row
    box QUEUE NUMBER         an outbox entry: kind, child, for whom, and more
    queue QUEUE NAME         `paused`, `completed`, `failed`
    other QUEUE KEY          a key that is not the protocol's, or holds what it should not; the queue may be empty
    key KEY                  a key as the server has it: its type and its size
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from emqkit import keys, outbox
from emqkit.arguments import to_text
from emqkit.keyspace import POLICIES, WHOLE, Part, known
from emqkit.outbox import Completion, Failure, Poison
from emqkit.snapshot import Change, Hash, Items, Members, Ranked, Snapshot, Text, Value, diff
from emqkit.words.text import elided, many, plain

__all__ = ["LANES", "Fact", "Op", "Stage"]

Fact = tuple[str, ...]
Op = tuple[Fact, str | None]
"""A fact that became another: its new text, None when it is no more."""

LANES = ("held", *keys.SETS)
"""Where a chip can be: in one of the four sets, or, with a row and in no set, held."""

LONGEST = 80
"""How many columns of a value are shown, wherever it is shown."""

_STATES = {"pending": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead"}
_HASHES = ("processed", "unsuccessful", "failed")
_NOUNS = {"string": "byte", "hash": "field", "list": "entry", "zset": "member"}


@dataclass
class _Queue:
    sets: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in keys.SETS})
    rows: dict[str, dict[str, bytes]] = field(default_factory=dict)
    counters: dict[str, bytes] = field(default_factory=dict)
    hashes: dict[str, dict[str, int]] = field(default_factory=dict)
    box: list[int] = field(default_factory=list)
    boxed: int = 0


class Stage:
    """A keyspace followed from change to change.

    Args:
        name: how an id is called on a chip.

    Attributes:
        facts: what there is now.
        queues: the queues met so far, in order.
        jobs: each (queue, id) met so far.
        peaks: the most chips each (queue, lane) ever had.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self.name = name
        self.facts: dict[Fact, str] = {}
        self.queues: dict[str, None] = {}
        self.jobs: dict[tuple[str, str], None] = {}
        self.peaks: dict[tuple[str, str], int] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._held: dict[str, _Queue] = {}
        self._deadlines: list[tuple[float, str, str, str]] = []
        self._now = 0
        self._ops: dict[Fact, str | None] = {}

    def begin(self, snapshot: Snapshot) -> tuple[Op, ...]:
        """Everything a snapshot holds, as the first facts."""
        return self.move(diff(Snapshot(), snapshot), snapshot)

    def move(self, changes: Iterable[Change], after: Snapshot) -> tuple[Op, ...]:
        """Follow the keyspace through these changes to `after`. Returns the facts that became others."""
        self._ops = {}
        self._now = after.now
        touched: set[tuple[str, str]] = set()
        by_key: dict[bytes, list[Change]] = {}
        for change in changes:
            by_key.setdefault(change.key, []).append(change)
        for key, made in by_key.items():
            self._key(key, made, after.value(key), touched)
        while self._deadlines and self._deadlines[0][0] <= self._now:
            score, queue, name, id = heapq.heappop(self._deadlines)
            if self._held[queue].sets[name].get(id) == score:
                touched.add((queue, id))
        for queue, id in touched:
            self._job(queue, id)
        return tuple(self._ops.items())

    # --- one key ------------------------------------------------------------------------------------------------------

    def _put(self, fact: Fact, value: str | None) -> None:
        if self.facts.get(fact) == value:
            return
        if fact[0] == "set":
            lane = (fact[1], fact[2])
            self._counts[lane] = self._counts.get(lane, 0) + (value is not None) - (fact in self.facts)
            self.peaks[lane] = max(self.peaks.get(lane, 0), self._counts[lane])
        if value is None:
            del self.facts[fact]
        else:
            self.facts[fact] = value
        self._ops[fact] = value

    def _key(self, key: bytes, made: Sequence[Change], value: Value | None, touched: set[tuple[str, str]]) -> None:
        at = keys.parse(key)
        shown = plain(key)
        self._put(("key", shown), None if value is None else _size(value))
        queue = "" if at is None else at.queue
        if at is not None and queue not in self._held:
            self._held[queue] = _Queue()
            self.queues[queue] = None
        why = ""
        if value is not None:
            strangers = Part(queue, Snapshot(((key, value),))).strangers
            why = strangers[0].why if strangers else ""
        was_strange = ("other", queue, shown) in self.facts
        other = f"{why} · {elided(value_words(value), LONGEST)}" if why and value is not None else None
        self._put(("other", queue, shown), other)
        if at is None or not known(at):
            return
        held = self._held[queue]
        parts = [(to_text(one.part or b""), None if why else one.after) for one in made]
        if at.id is not None:
            self._of_a_job(held, at.queue, at.id, at.name, parts)
            touched.add((at.queue, at.id))
        elif at.name in keys.SETS:
            members = held.sets[at.name]
            for id, score in parts:
                touched.add((queue, id))
                if score is None:
                    members.pop(id, None)
                    continue
                members[id] = float(score)
                if at.name in ("active", "schedule") and members[id] > self._now:
                    heapq.heappush(self._deadlines, (members[id], queue, at.name, id))
        elif at.name == "flow:outbox":
            gone = () if was_strange else tuple(one for one in made if one.before is not None)
            self._outbox(held, queue, len(gone), [one.after for one in made if one.after is not None and not why])
        else:
            name = "paused" if at.name == "meta" else at.name.removeprefix("metrics:")
            for _, count in parts:
                self._put(
                    ("queue", queue, name), None if count is None else "yes" if name == "paused" else plain(count)
                )

    def _of_a_job(
        self, held: _Queue, queue: str, id: str, name: str, parts: Sequence[tuple[str, bytes | None]]
    ) -> None:
        if name == "row":
            row = held.rows.setdefault(id, {})
            for part, value in parts:
                self._put(("row", queue, id, part), None if value is None else self._field(part, value))
                if value is None:
                    row.pop(part, None)
                else:
                    row[part] = value
            if not row:
                del held.rows[id]
        elif name == "dependencies":
            for _, value in parts:
                if value is None:
                    held.counters.pop(id, None)
                else:
                    held.counters[id] = value
        elif name in _HASHES:
            for child, value in parts:
                fact = ("in", queue, id, name, child)
                counts = held.hashes.setdefault(id, dict.fromkeys(_HASHES, 0))
                counts[name] += (value is not None) - (fact in self.facts)
                own = value == keys.text(child)
                self._put(fact, None if value is None else "its own id" if own else elided(plain(value), LONGEST))
            if not any(held.hashes[id].values()):
                del held.hashes[id]

    def _field(self, name: str, value: bytes) -> str:
        if name == "parent":
            return self.name(to_text(value))
        if name == "parent_policy" and value in POLICIES:
            return POLICIES[value]
        return elided(plain(value), LONGEST)

    def _outbox(self, held: _Queue, queue: str, gone: int, came: Sequence[bytes]) -> None:
        for number in held.box[:gone]:
            self._put(("box", queue, str(number)), None)
        del held.box[:gone]
        for entry in came:
            self._put(("box", queue, str(held.boxed)), self._signal(entry))
            held.box.append(held.boxed)
            held.boxed += 1

    def _signal(self, raw: bytes) -> str:
        match outbox.decode(raw):
            case Completion() as one:
                own = one.result == keys.text(one.child_id)
                rest = "its own id" if own else elided(plain(one.result), LONGEST)
                said = ("completed", self.name(one.child_id), self.name(one.parent_id), plain(one.parent_queue), rest)
            case Failure() as one:
                policy = POLICIES.get(one.policy.encode(), plain(one.policy))
                rest = f"{policy} · {elided(plain(one.error), LONGEST)}"
                said = ("died", self.name(one.child_id), self.name(one.parent_id), plain(one.parent_queue), rest)
            case Poison(why=why):
                said = ("poison", elided(plain(raw), LONGEST), "", "", why)
        return "\t".join(part.replace("\t", " ") for part in said)

    # --- one job ------------------------------------------------------------------------------------------------------

    def _job(self, queue: str, id: str) -> None:
        held = self._held[queue]
        self.jobs[queue, id] = None
        row = held.rows.get(id)
        placed = False
        for name in keys.SETS:
            score = held.sets[name].get(id)
            placed = placed or score is not None
            self._put(("set", queue, name, id), None if score is None else self._note(name, score, row))
        is_held = row is not None and not placed
        self._put(("set", queue, "held", id), _held_note(row, held.counters.get(id)) if is_held and row else None)
        counts = held.hashes.get(id)
        fan = None
        if id in held.counters or counts is not None:
            done = [str(counts[name]) if counts else "0" for name in _HASHES]
            fan = "\t".join([elided(plain(held.counters.get(id, b"none")), 12), *done])
        self._put(("fan", queue, id), fan)

    def _note(self, lane: str, score: float, row: dict[str, bytes] | None) -> str:
        if row is None:
            return "!no row"
        if not all(name in row for name in WHOLE):
            return "!row not whole"
        if row["state"] != _STATES[lane]:
            return f"!says {elided(plain(row['state']), 20)}"
        if lane == "active":
            return f"token {plain(row['attempts'])}{'' if score > self._now else ', lease lapsed'}"
        if lane == "schedule":
            return "due later" if score > self._now else "due now"
        if lane == "dead" and "last_error" in row:
            return elided(plain(row["last_error"]), 40)
        tried = elided(plain(row["attempts"]), 12)
        return "" if tried == "0" else "tried once" if tried == "1" else f"tried {tried} times"


def _held_note(row: dict[str, bytes], counter: bytes | None) -> str:
    if not all(name in row for name in WHOLE):
        return "!row not whole"
    if row["state"] != b"awaiting_children":
        return f"!says {elided(plain(row['state']), 20)}"
    return "!no counter" if counter is None else f"waits for {elided(plain(counter), 12)}"


def _size(value: Value) -> str:
    match value:
        case Text():
            count = len(value.value)
        case Hash():
            count = len(value.fields)
        case Items():
            count = len(value.items)
        case Ranked() | Members():
            count = len(value.members)
    noun = _NOUNS.get(value.type, "member")
    return f"{value.type}, {many(count, noun, 'entries' if noun == 'entry' else '')}"


def value_words(value: Value) -> str:
    """A value of any type on one line; the scores of a sorted set are left out, they may be clock readings."""
    match value:
        case Text():
            return plain(value.value)
        case Hash():
            return ", ".join(f"{plain(name)}={plain(content)}" for name, content in value.fields[:20])
        case Items():
            return ", ".join(plain(item) for item in value.items[:20])
        case Ranked():
            return ", ".join(plain(member) for member, _ in value.members[:20])
        case Members():
            return ", ".join(plain(member) for member in value.members[:20])
