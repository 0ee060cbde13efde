"""A snapshot is everything a keyspace holds at one moment. It can be captured, compared and restored.

It also carries the server's time, which equality ignores. `emqkit.keyspace` reads what the keys mean.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from emqkit import keys
from emqkit.errors import EmqError, Refused
from emqkit.wire import Call, ErrorReply, Flush, Reply, Runner

__all__ = [
    "Change",
    "Hash",
    "Items",
    "Members",
    "Ranked",
    "Snapshot",
    "Text",
    "Timeline",
    "Value",
    "capture",
    "diff",
    "flat",
    "restore",
]

EVERYTHING = b"emq:*"


# --- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A string key."""

    value: bytes
    type: Literal["string"] = "string"


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash: its fields in byte order."""

    fields: tuple[tuple[bytes, bytes], ...]
    type: Literal["hash"] = "hash"

    def get(self, name: bytes) -> bytes | None:
        """The value of a field, or None."""
        return next((value for field, value in self.fields if field == name), None)


@dataclass(frozen=True, slots=True)
class Items:
    """A list, head first."""

    items: tuple[bytes, ...]
    type: Literal["list"] = "list"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A sorted set: (member, score), by score and then member."""

    members: tuple[tuple[bytes, float], ...]
    type: Literal["zset"] = "zset"

    def get(self, member: bytes) -> float | None:
        """A member's score, or None."""
        return next((score for name, score in self.members if name == member), None)


@dataclass(frozen=True, slots=True)
class Members:
    """A plain set, or another type the protocol does not use; only foreign keys have it."""

    members: tuple[bytes, ...]
    type: str = "set"


Value = Text | Hash | Items | Ranked | Members


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The contents of a keyspace, sorted by key; hashable, and equal when the contents are.

    Attributes:
        entries: (key, value) pairs in byte order of the keys.
        now: the server's time at the capture, unix milliseconds; ignored by equality.
        deadlines: when keys that have a time to live run out, unix milliseconds, in byte order of the keys; a capture
            reads them, a recording does not.
    """

    entries: tuple[tuple[bytes, Value], ...] = ()
    now: int = 0
    deadlines: tuple[tuple[bytes, int], ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Snapshot):
            return self is other
        return self.entries == other.entries and self.deadlines == other.deadlines

    def __hash__(self) -> int:
        return hash(self.entries)

    @cached_property
    def keys(self) -> Mapping[bytes, Value]:
        """The entries as a mapping, in order."""
        return MappingProxyType(dict(self.entries))

    def value(self, key: bytes) -> Value | None:
        """What a key holds, or None."""
        return self.keys.get(key)

    def unlike(self, other: Snapshot) -> list[bytes]:
        """The keys whose values differ in the other snapshot, in byte order."""
        theirs = other.keys
        gone = [key for key in theirs if key not in self.keys]
        return sorted([key for key, value in self.entries if theirs.get(key) != value] + gone)

    def hash(self, key: bytes) -> Mapping[bytes, bytes]:
        """A hash's fields; empty if the key is missing or not a hash."""
        value = self.value(key)
        return dict(value.fields) if isinstance(value, Hash) else {}

    def ranked(self, key: bytes) -> Mapping[bytes, float]:
        """A sorted set's members with their scores; empty if the key is missing or not a sorted set."""
        value = self.value(key)
        return dict(value.members) if isinstance(value, Ranked) else {}

    def items(self, key: bytes) -> tuple[bytes, ...]:
        """A list's items; empty if the key is missing or not a list."""
        value = self.value(key)
        return value.items if isinstance(value, Items) else ()

    def text(self, key: bytes) -> bytes | None:
        """A string's value, or None."""
        value = self.value(key)
        return value.value if isinstance(value, Text) else None

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues that have a key here, in order of name."""
        parsed = (keys.parse(key) for key, _ in self.entries)
        return tuple(sorted({key.queue for key in parsed if key is not None}))


# --- over time --------------------------------------------------------------------------------------------------------


class Timeline:
    """The values of keys over time, each stored once; its snapshots are places on it, built only on demand.

    Args:
        start: the first place.
    """

    def __init__(self, start: Snapshot) -> None:
        self._values: dict[bytes, tuple[list[int], list[Value | None]]] = {
            key: ([0], [value]) for key, value in start.entries
        }
        self._changed: list[tuple[bytes, ...]] = [()]
        self.count = len(start.entries)
        self.end: Snapshot = _Place(self, 0, start.now)

    def move(self, values: Mapping[bytes, Value | None], now: int) -> Snapshot:
        """Add a place, where these keys have these values (None: the key is gone) and the time is `now`; returns it."""
        place = len(self._changed)
        changed = []
        for key, value in values.items():
            places, held = self._values.setdefault(key, ([-1], [None]))
            old = held[-1]
            if value == old:
                continue
            self.count += (value is not None) - (old is not None)
            places.append(place)
            held.append(_sharing(old, value))
            changed.append(key)
        if changed:
            self._changed.append(tuple(changed))
        self.end = _Place(self, len(self._changed) - 1, now)
        return self.end

    def known(self) -> list[bytes]:
        """Every key that exists at the last place."""
        return [key for key, (_, held) in self._values.items() if held[-1] is not None]

    def at(self, key: bytes, place: int) -> Value | None:
        """What a key held at a place."""
        places, held = self._values.get(key, ((), ()))
        found = bisect_right(places, place) - 1
        return held[found] if found >= 0 else None

    def entries(self, place: int) -> tuple[tuple[bytes, Value], ...]:
        """Everything at a place."""
        found = ((key, self.at(key, place)) for key in sorted(self._values))
        return tuple((key, value) for key, value in found if value is not None)

    def changed(self, one: int, other: int) -> list[bytes]:
        """The keys whose values differ between two places, in byte order."""
        first, last = sorted((one, other))
        keys = {key for changed in self._changed[first + 1 : last + 1] for key in changed}
        return sorted(key for key in keys if self.at(key, first) != self.at(key, last))


def _sharing(old: Value | None, new: Value | None) -> Value | None:
    """The new value, sharing its parts with the old one where they are equal, so a big set is not copied every step."""
    if isinstance(old, Ranked) and isinstance(new, Ranked):
        ranked = {member: member for member in old.members}
        return Ranked(tuple(ranked.get(member, member) for member in new.members))
    if isinstance(old, Hash) and isinstance(new, Hash):
        fields = {field: field for field in old.fields}
        return Hash(tuple(fields.get(field, field) for field in new.fields))
    if isinstance(old, Items) and isinstance(new, Items):
        items = {item: item for item in old.items}
        return Items(tuple(items.get(item, item) for item in new.items))
    return new


class _Place(Snapshot):
    """A snapshot that is a place on a timeline."""

    def __init__(self, timeline: Timeline, place: int, now: int) -> None:
        for name, value in (("_timeline", timeline), ("_place", place), ("now", now)):
            object.__setattr__(self, name, value)

    _timeline: Timeline
    _place: int

    @cached_property
    def entries(self) -> tuple[tuple[bytes, Value], ...]:
        return self._timeline.entries(self._place)

    def value(self, key: bytes) -> Value | None:
        return self._timeline.at(key, self._place)

    def unlike(self, other: Snapshot) -> list[bytes]:
        if isinstance(other, _Place) and other._timeline is self._timeline:
            return self._timeline.changed(self._place, other._place)
        return super().unlike(other)


# --- reading and writing a server -------------------------------------------------------------------------------------


def _tool(verb: str, args: Iterable[bytes], read: object = None) -> Call[Reply]:
    def refusal(error: ErrorReply) -> EmqError:
        return Refused(verb, error.code, error.text)

    return Call(verb, (), tuple(args), lambda reply: reply, refusal, "tool")


def capture(server: Runner, pattern: bytes = EVERYTHING) -> Snapshot:
    """Everything the server holds under `pattern` (a glob), read in one atomic step. One round trip, no write."""
    (reply,) = server.round_trip(Flush((capture_call(pattern),)))
    return read_capture(reply)


def capture_call(pattern: bytes = EVERYTHING) -> Call[Reply]:
    """The call that captures, for use in a flush with others; `read_capture` reads its reply."""
    return _tool("capture", [pattern])


def read_capture(reply: Reply) -> Snapshot:
    """The snapshot in a capture's raw reply. Raises `Refused` for an error reply."""
    found = _read("capture", reply)
    entries = [(name, value) for name, value in found.values.items() if value is not None]
    return Snapshot(tuple(sorted(entries, key=lambda entry: entry[0])), found.now, found.deadlines)


@dataclass(frozen=True)
class Found:
    """The reply to `look_call`: the keys' values (None: missing), the time, and how many keys the database has.

    A capture also finds when they run out; it counts nothing.
    """

    values: Mapping[bytes, Value | None]
    now: int
    count: int
    deadlines: tuple[tuple[bytes, int], ...] = ()


def look_call(keys: Iterable[bytes]) -> Call[Found]:
    """The call that reads these keys, and counts all keys of the database, in one atomic step."""

    def refusal(error: ErrorReply) -> EmqError:
        return Refused("look", error.code, error.text)

    return Call("look", (), tuple(keys), lambda reply: _read("look", reply), refusal, "tool")


def _read(verb: str, reply: Reply) -> Found:
    if isinstance(reply, ErrorReply):
        raise Refused(verb, reply.code, reply.text)
    if not isinstance(reply, tuple):
        raise TypeError(f"expected a list from {verb}, not {reply!r}")
    seconds, microseconds, *flat = reply
    count = _int(flat.pop(0)) if verb == "look" else 0
    values: dict[bytes, Value | None] = {}
    deadlines: list[tuple[bytes, int]] = []
    if verb == "capture":
        lives = [_int(flat[place]) for place in range(3, len(flat), 4)]
        del flat[3::4]
        deadlines = [(name, life) for name, life in zip(flat[::3], lives, strict=True) if life > 0]  # type: ignore[misc]
    for name, kind, contents in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if not isinstance(name, bytes) or not isinstance(kind, bytes) or not isinstance(contents, tuple):
            raise TypeError(f"expected name, type and contents from {verb}, not {(name, kind, contents)!r}")
        items = [item for item in contents if isinstance(item, bytes)]
        values[name] = None if kind == b"none" else value_of(kind.decode(), items)
    return Found(values, _int(seconds) * 1000 + _int(microseconds) // 1000, count, tuple(sorted(deadlines)))


def _int(reply: Reply) -> int:
    if not isinstance(reply, bytes | int):
        raise TypeError(f"expected a number, not {reply!r}")
    return int(reply)


def value_of(kind: str, contents: list[bytes]) -> Value:
    """Build the value of a key of this type from its contents, a flat list of items or pairs."""
    pairs = list(zip(contents[::2], contents[1::2], strict=False))
    if kind == "string":
        return Text(contents[0])
    if kind == "hash":
        return Hash(tuple(sorted(pairs)))
    if kind == "list":
        return Items(tuple(contents))
    if kind == "zset":
        return Ranked(tuple(sorted(((member, float(score)) for member, score in pairs), key=lambda m: (m[1], m[0]))))
    return Members(tuple(sorted(contents)), kind)


def restore(server: Runner, snapshot: Snapshot, *, current: Snapshot | None = None) -> None:
    """Make the server hold exactly this snapshot. One round trip.

    Args:
        server: a private one: every key of the protocol that the snapshot lacks is deleted.
        snapshot: what it should hold.
        current: what it is known to hold; if given, only the keys that differ are written.
    """
    call = restore_call(snapshot, current)
    (reply,) = server.round_trip(Flush((call,)))
    if isinstance(reply, ErrorReply):
        raise call.refusal(reply)


def restore_call(snapshot: Snapshot, current: Snapshot | None = None, *, pattern: bytes = EVERYTHING) -> Call[Reply]:
    """The call that restores, for use in a flush with others.

    The arguments are those of `restore`; without `current`, what fits the pattern is deleted first.
    """
    args: list[bytes] = [pattern if current is None else b""]
    held: Mapping[bytes, Value] = {} if current is None else current.keys
    lived = {} if current is None else dict(current.deadlines)
    lives = dict(snapshot.deadlines)
    for name in held.keys() - snapshot.keys.keys():
        args += [name, b"none", b"0", b"0"]
    for name, value in snapshot.entries:
        if held.get(name) != value or lived.get(name) != lives.get(name):
            items = list(flat(value))
            args += [name, value.type.encode(), b"%d" % lives.get(name, 0), b"%d" % len(items), *items]
    return _tool("restore", args)


def flat(value: Value) -> Iterator[bytes]:
    """A value as a flat list of items or pairs; in a sorted set each score precedes its member."""
    if isinstance(value, Text):
        yield value.value
    elif isinstance(value, Hash):
        for pair in value.fields:
            yield from pair
    elif isinstance(value, Ranked):
        for member, score in value.members:
            yield from (score_text(score), member)
    elif isinstance(value, Items):
        yield from value.items
    else:
        yield from value.members


def score_text(score: float) -> bytes:
    """A score as the server writes it: whole numbers without a decimal point."""
    return b"%d" % score if score.is_integer() else repr(score).encode()


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs between two snapshots.

    Attributes:
        key: which key.
        part: which hash field, set member or list position (as digits); None for a string key.
        before: its value or score before, None if it was missing.
        after: its value or score after, None if it is gone.
    """

    key: bytes
    part: bytes | None
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        """`added`, `removed` or `changed`."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def diff(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """What changed, key by key in byte order, part by part; empty if nothing did.

    A list that lost its head and gained a tail shows just that: each position counts in its own list, old or new.
    """
    changes: list[Change] = []
    for key in before.unlike(after):
        old, new = before.value(key), after.value(key)
        if isinstance(old, Items | None) and isinstance(new, Items | None):
            changes += _list_changes(key, old.items if old else (), new.items if new else ())
            continue
        if old is not None and new is not None and old.type != new.type:
            changes += [Change(key, part, value, None) for part, value in _parts(old).items()]
            changes += [Change(key, part, None, value) for part, value in _parts(new).items()]
            continue
        one, other = _parts(old), _parts(new)
        for part in sorted(one.keys() | other.keys(), key=lambda part: part or b""):
            if one.get(part) != other.get(part):
                changes.append(Change(key, part, one.get(part), other.get(part)))
    return tuple(changes)


def _parts(value: Value | None) -> dict[bytes | None, bytes]:
    """A value by its parts, as a `Change` names them; empty for a missing key."""
    if value is None:
        return {}
    if isinstance(value, Text):
        return {None: value.value}
    if isinstance(value, Hash):
        return dict(value.fields)
    if isinstance(value, Ranked):
        return {member: score_text(score) for member, score in value.members}
    if isinstance(value, Items):
        return {b"%d" % n: item for n, item in enumerate(value.items)}
    return dict.fromkeys(value.members, b"")


def _list_changes(key: bytes, old: tuple[bytes, ...], new: tuple[bytes, ...]) -> Iterator[Change]:
    gone = next(n for n in range(len(old) + 1) if old[n:] == new[: len(old) - n])
    for n, item in enumerate(old[:gone]):
        yield Change(key, b"%d" % n, item, None)
    for n, item in enumerate(new[len(old) - gone :], start=len(old) - gone):
        yield Change(key, b"%d" % n, None, item)
