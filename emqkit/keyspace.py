"""Reads a snapshot queue by queue: which job is in which set, what each row says, what each parent waits for.

    held = Keyspace.of(capture(server))
    held["orders"].state("JOB…"), held["orders"].places("JOB…"), held["orders"].parents

Sentences, pictures, labs and promises all read a keyspace through this module, so they cannot disagree about it.
Nothing is left out: a key that is not the protocol's, or that has the wrong type, is a `Stranger`.

`parts_of` makes it canonical, for the explorer and for fingerprints: metrics are dropped, and a lease or a due time
is only past or future. Worlds use leases far in the future (`FAR_MS`), so nothing lapses by itself: a lapse is a
transition that puts one score into the past.
Of times to live, it keeps which keys of a queue share a deadline and so run out together; the groups may run out in
any order, so that is a transition, too (`run_out`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from emqkit import keys, outbox
from emqkit.arguments import to_text
from emqkit.outbox import Completion, Failure, Poison
from emqkit.snapshot import Hash, Items, Ranked, Snapshot, Text, Value, flat
from emqkit.wire import Call, ErrorReply, Reply

__all__ = [
    "EXPIRES",
    "FAR_MS",
    "FUTURE",
    "OF_A_JOB",
    "OF_A_QUEUE",
    "PAST",
    "POLICIES",
    "TIMED",
    "WHOLE",
    "FanIn",
    "Keyspace",
    "Part",
    "Stranger",
    "canonical_reply",
    "digest",
    "groups",
    "home",
    "known",
    "moved",
    "parts_of",
    "run_out",
]

FAR_MS = 10**14
"""A lease or delay that outlives any run, in milliseconds (three thousand years)."""

PAST = 1.0
FUTURE = 2.0 * FAR_MS
"""The two scores a lease or a due time has in a canonical keyspace."""

EXPIRES = 2 * FAR_MS
"""The first of the deadlines that keys with a time to live have in a canonical keyspace."""

NOW_MS = 1_704_067_200_000
"""The time of every snapshot of a world: between `PAST` and `FUTURE`, and always the same."""

WHOLE = ("state", "attempts", "payload")
"""The three fields every row has."""

POLICIES = {b"fp": "fail", b"id": "ignore"}
"""The protocol's two policy codes: what a child's death does to its parent."""

TIMED = ("active", "schedule")
"""The sets whose scores are deadlines."""

_FANS = ("processed", "unsuccessful", "failed")
OF_A_QUEUE = dict.fromkeys(keys.SETS, "zset") | {
    "flow:outbox": "list",
    "meta": "hash",
    "metrics:completed": "hash",
    "metrics:failed": "hash",
}
"""The keys a queue has itself, and their types."""

OF_A_JOB = dict.fromkeys(("row", *_FANS), "hash") | {"dependencies": "string", "logs": "list"}
"""The keys of a job, and their types; its `row` is the one without a name of its own."""
_ONLY_FIELD = {"meta": b"paused", "metrics:completed": b"count", "metrics:failed": b"count"}


def known(at: keys.ParsedKey) -> bool:
    """Whether the key is one the protocol knows."""
    return at.name in (OF_A_QUEUE if at.id is None else OF_A_JOB)


@dataclass(frozen=True, slots=True)
class FanIn:
    """What a parent waits for and what it has: its counter as stored, and three hashes, child id → bytes."""

    counter: bytes | None = None
    processed: Mapping[str, bytes] = field(default_factory=dict)
    unsuccessful: Mapping[str, bytes] = field(default_factory=dict)
    failed: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A key that is not the protocol's, or that does not have the type the protocol gives it."""

    key: bytes
    value: Value
    why: str


# --- one queue --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Everything one queue holds, parsed lazily and once. Ids and field names are text, lossless.

    Attributes:
        queue: its name; empty for the keys that belong to no queue.
        snapshot: the keys as captured, or canonical (`parts_of`). Parts are equal when these are.
    """

    queue: str
    snapshot: Snapshot

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.queue, self.snapshot.entries))

    @cached_property
    def _parsed(self) -> Mapping[str | None, Mapping[str, Value]]:
        """The queue's own keys under None and each job's under its id, by their names in the protocol."""
        parsed: dict[str | None, dict[str, Value]] = {None: {}}
        for name, value in self.snapshot.entries:
            if (key := keys.parse(name)) is not None:
                parsed.setdefault(key.id, {})[key.name] = value
        return parsed

    def of(self, id: str | None) -> Mapping[str, Value]:
        """All keys of an id (`row`, `dependencies`, …) by name; for None the queue's own, such as `meta`."""
        return self._parsed.get(id, {})

    # --- its sets -------------------------------------------------------------------------------------------------

    @cached_property
    def sets(self) -> Mapping[str, Mapping[str, float]]:
        """The four state sets by name: id → score."""
        sets: dict[str, dict[str, float]] = {}
        for name in keys.SETS:
            value = self.of(None).get(name)
            pairs = value.members if isinstance(value, Ranked) else ()
            sets[name] = {to_text(member): score for member, score in pairs}
        return sets

    def members(self, name: str) -> Mapping[str, float]:
        """A state set: id → score."""
        return self.sets[name]

    def places(self, id: str) -> tuple[str, ...]:
        """Which of the four sets hold an id: one or none, unless something went wrong."""
        return tuple(name for name, members in self.sets.items() if id in members)

    # --- its jobs -------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, bytes]]:
        """Every row: id → field → value."""
        return {
            id: {to_text(name): content for name, content in row.fields}
            for id, named in self._parsed.items()
            if id is not None and isinstance(row := named.get("row"), Hash)
        }

    def row(self, id: str) -> Mapping[str, bytes] | None:
        """One row, or None."""
        return self.rows.get(id)

    def state(self, id: str) -> str | None:
        """The state on a row; None without a row, or without that field."""
        value = self.rows.get(id, {}).get("state")
        return None if value is None else to_text(value)

    @cached_property
    def ids(self) -> frozenset[str]:
        """Every id that has a row or is in a set."""
        return frozenset(self.rows).union(*self.sets.values())

    @cached_property
    def logs(self) -> Mapping[str, tuple[bytes, ...]]:
        """What handlers logged, by id."""
        return {
            id: lines.items
            for id, named in self._parsed.items()
            if id is not None and isinstance(lines := named.get("logs"), Items)
        }

    # --- its parents ----------------------------------------------------------------------------------------------

    @cached_property
    def parents(self) -> Mapping[str, FanIn]:
        """The fan-in of every id that has a counter or one of the three hashes."""
        found = {}
        for id, named in self._parsed.items():
            counter = named.get("dependencies")
            hashes = {name: self.hash(id, name) for name in _FANS if isinstance(named.get(name), Hash)}
            if id is not None and (hashes or isinstance(counter, Text)):
                found[id] = FanIn(counter.value if isinstance(counter, Text) else None, **hashes)
        return found

    def hash(self, id: str | None, name: str) -> Mapping[str, bytes]:
        """A hash of an id, such as a parent's `processed` (child id → value); for None one of the queue's own."""
        value = self.of(id).get(name)
        return {to_text(name): content for name, content in value.fields} if isinstance(value, Hash) else {}

    def counter(self, id: str) -> int | None:
        """A parent's `dependencies`; None if it is missing or not a number."""
        value = self.of(id).get("dependencies")
        if not isinstance(value, Text):
            return None
        try:
            return int(value.value)
        except ValueError:
            return None

    # --- the queue's own keys -------------------------------------------------------------------------------------

    @cached_property
    def paused(self) -> bool:
        """Whether the queue is paused."""
        return "paused" in self.hash(None, "meta")

    @cached_property
    def counts(self) -> Mapping[str, bytes]:
        """The metrics as stored: `completed` and `failed`, if present. A canonical part has none."""
        stored = {name: self.hash(None, f"metrics:{name}").get("count") for name in ("completed", "failed")}
        return {name: count for name, count in stored.items() if count is not None}

    @cached_property
    def entries(self) -> tuple[bytes, ...]:
        """The outbox entries, oldest first."""
        value = self.of(None).get("flow:outbox")
        return value.items if isinstance(value, Items) else ()

    @cached_property
    def signals(self) -> tuple[Completion | Failure | Poison, ...]:
        """The outbox, decoded."""
        return tuple(outbox.decode(entry) for entry in self.entries)

    @cached_property
    def kept(self) -> frozenset[bytes]:
        """What any other key of the queue's own holds: the outbox, and wherever poison is put aside, of any type."""
        held = (value for name, value in self.of(None).items() if name not in (*keys.SETS, "meta"))
        return frozenset(item for value in held for item in flat(value))

    @cached_property
    def strangers(self) -> tuple[Stranger, ...]:
        """The keys here that are not the protocol's, or do not hold what it says."""
        strange = ((key, value, _strange(key, value)) for key, value in self.snapshot.entries)
        return tuple(Stranger(key, value, why) for key, value, why in strange if why)


def _strange(key: bytes, value: Value) -> str:
    """Why a key is a stranger; empty if it is as the protocol says."""
    at = keys.parse(key)
    if at is None or not known(at):
        return f"a {value.type}, not one of the protocol's keys"
    wanted = (OF_A_QUEUE if at.id is None else OF_A_JOB)[at.name]
    if value.type != wanted:
        return f"a {value.type} where the protocol has a {wanted}"
    only = _ONLY_FIELD.get(at.name) if at.id is None else None
    if only is not None and isinstance(value, Hash) and [name for name, _ in value.fields] != [only]:
        return f"a {value.type} with fields that the protocol does not give it"
    return ""


# --- all of them ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keyspace:
    """The parts of all queues, sorted by name; keys of no queue form a nameless part, which comes first."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Keyspace:
        """A snapshot as captured, with its metrics and clock readings."""
        return cls(_cut(snapshot.entries, snapshot.now, dict(snapshot.deadlines)))

    @cached_property
    def _by_queue(self) -> dict[str, Part]:
        return {part.queue: part for part in self.parts}

    def __getitem__(self, queue: str) -> Part:
        return self._by_queue.get(queue) or Part(queue, Snapshot())

    @property
    def queues(self) -> tuple[Part, ...]:
        """The parts that are queues."""
        return tuple(part for part in self.parts if part.queue)

    @property
    def strangers(self) -> tuple[Stranger, ...]:
        """The keys that belong to no queue."""
        return self[""].strangers

    @cached_property
    def snapshot(self) -> Snapshot:
        """All of it as one snapshot, taken at `NOW_MS`."""
        entries = sorted((entry for part in self.parts for entry in part.snapshot.entries), key=lambda entry: entry[0])
        deadlines = sorted(one for part in self.parts for one in part.snapshot.deadlines)
        return Snapshot(tuple(entries), NOW_MS, tuple(deadlines))


def _cut(entries: Iterable[tuple[bytes, Value]], now: int, deadlines: Mapping[bytes, int]) -> tuple[Part, ...]:
    """One part for each queue that has a key here."""
    held: dict[str, list[tuple[bytes, Value]]] = {}
    for name, value in entries:
        key = keys.parse(name)
        held.setdefault("" if key is None else key.queue, []).append((name, value))
    return tuple(Part(queue, _living(own, now, deadlines)) for queue, own in sorted(held.items()))


def _living(entries: Iterable[tuple[bytes, Value]], now: int, deadlines: Mapping[bytes, int]) -> Snapshot:
    """A snapshot of these entries, with those of the deadlines that are theirs."""
    own = tuple(entries)
    return Snapshot(own, now, tuple((name, deadlines[name]) for name, _ in own if name in deadlines))


# --- canonical --------------------------------------------------------------------------------------------------------


def parts_of(snapshot: Snapshot, *, slack_ms: int = 0) -> tuple[tuple[Part, ...], frozenset[bytes]]:
    """Split a captured snapshot by queue and make it canonical; returns the parts, and the metrics' keys they omit.

    Args:
        snapshot: what was captured.
        slack_ms: deadlines this close count as one, on a server whose clock advances during a call.
    """
    entries: list[tuple[bytes, Value]] = []
    metrics: set[bytes] = set()
    for name, value in snapshot.entries:
        key = keys.parse(name)
        if key is not None and key.id is None and key.name.startswith("metrics:"):
            metrics.add(name)
            continue
        if key is not None and key.id is None and key.name in TIMED and isinstance(value, Ranked):
            coarse = ((member, FUTURE if score > snapshot.now else PAST) for member, score in value.members)
            value = Ranked(tuple(sorted(coarse, key=lambda pair: (pair[1], pair[0]))))
        entries.append((name, value))
    parts = _cut(entries, NOW_MS, dict(snapshot.deadlines))
    return tuple(_grouped(part, slack_ms) for part in parts), frozenset(metrics)


def _grouped(part: Part, slack_ms: int = 0) -> Part:
    """The part with a canonical deadline for each group of keys that run out together."""
    if not part.snapshot.deadlines:
        return part
    groups: list[list[bytes]] = []
    last = 0
    for name, deadline in sorted(part.snapshot.deadlines, key=lambda one: one[1]):
        if not groups or deadline - last > (slack_ms if deadline < EXPIRES else 0):
            groups.append([])
        groups[-1].append(name)
        last = deadline
    deadlines = {name: EXPIRES + n for n, group in enumerate(sorted(groups, key=min)) for name in group}
    return Part(part.queue, _living(part.snapshot.entries, NOW_MS, deadlines))


def groups(part: Part) -> Mapping[int, frozenset[bytes]]:
    """The keys of a part that run out together, by their deadline."""
    found: dict[int, set[bytes]] = {}
    for name, deadline in part.snapshot.deadlines:
        found.setdefault(deadline, set()).add(name)
    return {deadline: frozenset(names) for deadline, names in found.items()}


def run_out(part: Part, deadline: int) -> Part:
    """A canonical part once the keys of one deadline have run out."""
    lives = dict(part.snapshot.deadlines)
    kept = [entry for entry in part.snapshot.entries if lives.get(entry[0]) != deadline]
    return _grouped(Part(part.queue, _living(kept, NOW_MS, lives)))


def moved(part: Part, name: str, id: str, score: float) -> Part:
    """The part with one score of `active` or `schedule` set to the past or the future."""
    entries: list[tuple[bytes, Value]] = []
    key = keys.queue_key(part.queue, name)
    for entry, value in part.snapshot.entries:
        if entry == key and isinstance(value, Ranked):
            scores = ((member, score if to_text(member) == id else old) for member, old in value.members)
            value = Ranked(tuple(sorted(scores, key=lambda pair: (pair[1], pair[0]))))
        entries.append((entry, value))
    return Part(part.queue, Snapshot(tuple(entries), NOW_MS, part.snapshot.deadlines))


def digest(snapshot: Snapshot, *, rename: Mapping[str, str] | None = None) -> str:
    """A fingerprint (64 hex digits): equal for equal histories, whatever the clock, the server and its kind.

    Args:
        snapshot: what to fingerprint.
        rename: queue names to replace first, so that two runs with uuid-named queues compare equal.
    """
    names = rename or {}
    sha = hashlib.sha256()
    parts = parts_of(snapshot)[0]
    entries = (_renamed(entry, names) for part in parts for entry in part.snapshot.entries)
    for name, value in sorted(entries, key=lambda entry: entry[0]):
        for item in (name, value.type.encode(), *flat(value)):
            sha.update(b"%d:" % len(item) + item)
        sha.update(b";")
    for part in parts:
        for name, deadline in part.snapshot.deadlines:
            sha.update(b"%d:" % deadline + _renamed((name, Text(b"")), names)[0] + b";")
    return sha.hexdigest()


def _renamed(entry: tuple[bytes, Value], names: Mapping[str, str]) -> tuple[bytes, Value]:
    """A key and its value with every queue name replaced, also in a row's `parent_queue` and in outbox entries."""
    name, value = entry
    key = keys.parse(name)
    if key is None or not names:
        return entry
    if key.queue in names:
        name = name.replace(keys.base(key.queue), keys.base(names[key.queue]), 1)
    if isinstance(value, Hash) and key.name == "row":
        known = {keys.text(old): keys.text(new) for old, new in names.items()}
        value = Hash(tuple((f, known.get(v, v) if f == b"parent_queue" else v) for f, v in value.fields))
    if isinstance(value, Items) and key.id is None and key.name == "flow:outbox":
        value = Items(tuple(_renamed_signal(item, names) for item in value.items))
    return name, value


def _renamed_signal(item: bytes, names: Mapping[str, str]) -> bytes:
    entry = outbox.decode(item)
    if isinstance(entry, Poison) or entry.parent_queue not in names:
        return item
    return outbox.encode(replace(entry, parent_queue=names[entry.parent_queue]))


def home(calls: Iterable[Call[Any]]) -> str | None:
    """The one queue that all keys of these calls belong to; None if there is no such queue."""
    queues = {key.queue if (key := keys.parse(name)) is not None else "" for call in calls for name in call.keys}
    return queues.pop() if len(queues) == 1 and "" not in queues else None


def canonical_reply(call: Call[Any], reply: Reply) -> object:
    """A reply without what may differ between two servers or two runs: error texts, deadlines."""
    if isinstance(reply, ErrorReply):
        return ("error", reply.code, reply.text if reply.code.startswith("EMQ") else "")
    if (
        call.verb == "ZSCORE"
        and call.keys
        and isinstance(reply, bytes)
        and call.keys[0].endswith((b":active", b":schedule"))
    ):
        return b"a score"
    if isinstance(reply, tuple):
        return tuple(item if not isinstance(item, ErrorReply) else ("error", item.code) for item in reply)
    return reply
