"""A keyspace as the explorer holds it: cut by queue, without clock readings, each part interned and parsed once.

A lease or a due time is only past or future here. Worlds ask for leases far away (`FAR_MS`), so nothing lapses by
itself: a lapse is a move that puts one score into the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from emqkit import keys, outbox
from emqkit.outbox import Completion, Failure, Poison
from emqkit.snapshot import Hash, Items, Ranked, Snapshot, Text, Value
from emqkit.wire import Call, ErrorReply, Reply

__all__ = ["FAR_MS", "FUTURE", "PAST", "Keyspace", "Part", "canonical_reply", "home", "moved", "parts_of"]

FAR_MS = 10**14
"""A lease or delay no run outlives, in milliseconds (three thousand years)."""

PAST = 1.0
FUTURE = 2.0 * FAR_MS
"""The two scores a lease or a due time has here."""

NOW_MS = 1_704_067_200_000
"""The instant snapshots of a world are shown at: between `PAST` and `FUTURE`, and always the same."""

TIMED = ("active", "schedule")


@dataclass(frozen=True)
class Part:
    """Everything one queue holds, canonical: equal for equal contents, whatever the clock, metrics left out."""

    queue: str
    snapshot: Snapshot
    _parsed: dict[str, dict[str, Value]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parsed: dict[str, dict[str, Value]] = {"": {}}
        for name, value in self.snapshot.entries:
            key = keys.parse(name)
            if key is not None:
                parsed.setdefault(key.id or "", {})[key.name] = value
        object.__setattr__(self, "_parsed", parsed)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.queue, self.snapshot.entries))

    def members(self, name: str) -> Mapping[str, float]:
        """A state set: id → score."""
        return self._sets[name]

    @cached_property
    def _sets(self) -> dict[str, dict[str, float]]:
        sets: dict[str, dict[str, float]] = {}
        for name in keys.SETS:
            value = self._parsed[""].get(name)
            pairs = value.members if isinstance(value, Ranked) else ()
            sets[name] = {_text(member): score for member, score in pairs}
        return sets

    def places(self, id: str) -> tuple[str, ...]:
        """Which of the four sets hold an id."""
        return tuple(name for name, members in self._sets.items() if id in members)

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, bytes]]:
        """Every row: id → field → value."""
        return {
            id: {_text(name): content for name, content in row.fields}
            for id, named in self._parsed.items()
            if id and isinstance(row := named.get("row"), Hash)
        }

    def row(self, id: str) -> Mapping[str, bytes] | None:
        """One row, or None."""
        return self.rows.get(id)

    def state(self, id: str) -> str | None:
        """What a row says of its state; None without a row, or without that field."""
        value = self.rows.get(id, {}).get("state")
        return None if value is None else _text(value)

    def hash(self, id: str, name: str) -> Mapping[str, bytes]:
        """A parent's `processed`, `failed` or `unsuccessful`: child id → value."""
        value = self._parsed.get(id, {}).get(name)
        return {_text(name): content for name, content in value.fields} if isinstance(value, Hash) else {}

    def counter(self, id: str) -> int | None:
        """A parent's `dependencies`; None when there is none, or it is no number."""
        value = self._parsed.get(id, {}).get("dependencies")
        if not isinstance(value, Text):
            return None
        try:
            return int(value.value)
        except ValueError:
            return None

    def of(self, id: str) -> Mapping[str, Value]:
        """Every key of an id: `row`, `dependencies` and so on."""
        return self._parsed.get(id, {})

    def own(self, name: str) -> Value | None:
        """A key of the queue itself, such as `meta`."""
        return self._parsed[""].get(name)

    @cached_property
    def paused(self) -> bool:
        """Whether the queue is paused."""
        meta = self.own("meta")
        return isinstance(meta, Hash) and meta.get(b"paused") is not None

    @cached_property
    def entries(self) -> tuple[bytes, ...]:
        """What stands in the outbox, oldest first."""
        value = self.own("flow:outbox")
        return value.items if isinstance(value, Items) else ()

    @cached_property
    def signals(self) -> tuple[Completion | Failure | Poison, ...]:
        """The outbox, decoded."""
        return tuple(outbox.decode(entry) for entry in self.entries)

    @cached_property
    def kept(self) -> frozenset[bytes]:
        """Every entry in any list of the queue: the outbox, and wherever a set puts poison aside."""
        lists = (value for value in self._parsed[""].values() if isinstance(value, Items))
        return frozenset(item for value in lists for item in value.items)

    @cached_property
    def ids(self) -> frozenset[str]:
        """Every id that has a row or stands in a set."""
        return frozenset(self.rows).union(*self._sets.values())


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Keyspace:
    """The parts of all queues, in order of their names."""

    parts: tuple[Part, ...]

    @cached_property
    def _by_queue(self) -> dict[str, Part]:
        return {part.queue: part for part in self.parts}

    def __getitem__(self, queue: str) -> Part:
        return self._by_queue.get(queue) or Part(queue, Snapshot())

    @cached_property
    def snapshot(self) -> Snapshot:
        """All of it as one snapshot, its clock standing at `NOW_MS`."""
        entries = sorted((entry for part in self.parts for entry in part.snapshot.entries), key=lambda entry: entry[0])
        return Snapshot(tuple(entries), NOW_MS)


def parts_of(snapshot: Snapshot) -> tuple[tuple[Part, ...], frozenset[bytes]]:
    """A captured snapshot cut by queue and made canonical, and its metrics as `key=count`, left out of the parts."""
    entries: dict[str, list[tuple[bytes, Value]]] = {}
    metrics: set[bytes] = set()
    for name, value in snapshot.entries:
        key = keys.parse(name)
        if key is not None and key.id is None and key.name.startswith("metrics:"):
            metrics.add(name)
            continue
        if key is not None and key.id is None and key.name in TIMED and isinstance(value, Ranked):
            coarse = ((member, FUTURE if score > snapshot.now else PAST) for member, score in value.members)
            value = Ranked(tuple(sorted(coarse, key=lambda pair: (pair[1], pair[0]))))
        entries.setdefault("" if key is None else key.queue, []).append((name, value))
    parts = tuple(Part(queue, Snapshot(tuple(held), NOW_MS)) for queue, held in sorted(entries.items()))
    return parts, frozenset(metrics)


def moved(part: Part, name: str, id: str, score: float) -> Part:
    """The part with one score of `active` or `schedule` put into the past or the future."""
    entries: list[tuple[bytes, Value]] = []
    key = keys.queue_key(part.queue, name)
    for entry, value in part.snapshot.entries:
        if entry == key and isinstance(value, Ranked):
            scores = ((member, score if _text(member) == id else old) for member, old in value.members)
            value = Ranked(tuple(sorted(scores, key=lambda pair: (pair[1], pair[0]))))
        entries.append((entry, value))
    return Part(part.queue, Snapshot(tuple(entries), NOW_MS))


def home(calls: Iterable[Call[Any]]) -> str | None:
    """The one queue whose keys these calls take; None when there is no such queue."""
    queues = {key.queue if (key := keys.parse(name)) is not None else "" for call in calls for name in call.keys}
    return queues.pop() if len(queues) == 1 and "" not in queues else None


def canonical_reply(call: Call[Any], reply: Reply) -> object:
    """A reply without what two servers, or two runs, word or time differently: error texts, deadlines."""
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
