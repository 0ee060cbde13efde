"""A snapshot read the way a person would: queue by queue, who is where, and what waits for whom.

Everything that draws or words a keyspace starts here, so that a picture and its sentence cannot disagree. Nothing is
left out: a key that is not the protocol's, or holds another type than it should, is a `Stranger`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from emqkit import keys
from emqkit.errors import IllFormedId
from emqkit.ids import check
from emqkit.snapshot import Change, Hash, Items, Ranked, Snapshot, Text, Value

__all__ = [
    "POLICIES",
    "SETS",
    "FanIn",
    "Queue",
    "Stranger",
    "elided",
    "is_whole",
    "known",
    "plain",
    "queues",
    "quoted",
    "score",
    "short",
    "telling",
    "width",
]

SETS = ("pending", "active", "schedule", "dead")
"""The four sets a job can be in."""

POLICIES = {b"fp": "fail", b"id": "ignore"}
"""What the protocol's two policy codes tell a parent's queue to do with a child's death."""

# --- bytes as people read them ---------------------------------------------------------------------------------------


def plain(value: bytes | str) -> str:
    """Bytes as text on one line: UTF-8 where it is, and `\\x..` for every byte or character that cannot be shown."""
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    text = value.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return text
    shown = []
    for character in text:
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            shown.append(f"\\x{code - 0xDC00:02x}")
        elif character.isprintable():
            shown.append(character)
        else:
            shown.append("".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")))
    return "".join(shown)


def width(text: str) -> int:
    """How many columns of a monospaced font the text takes: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def elided(text: str, columns: int) -> str:
    """The text, cut with an ellipsis where it is wider than `columns`."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += width(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def quoted(value: bytes | str, columns: int = 40) -> str:
    """A value inside a sentence: in quotation marks, escaped and elided."""
    return f'"{elided(plain(value), columns)}"'


def short(id: str | bytes) -> str:
    """An id as sentences name it, `JOB…LuC9`; what is not an id stays whole, elided."""
    text = id.decode("utf-8", "surrogateescape") if isinstance(id, bytes) else id
    try:
        check(text)
    except IllFormedId:
        return elided(plain(text), 24) or '""'
    return f"{text[:3]}…{text[-4:]}"


# --- queues ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FanIn:
    """What a parent waits for and what it has: its counter as stored, and three hashes, child id → bytes."""

    counter: bytes | None = None
    processed: Mapping[str, bytes] = field(default_factory=dict)
    unsuccessful: Mapping[str, bytes] = field(default_factory=dict)
    failed: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stranger:
    """A key that is not the protocol's, or whose type is not the one the protocol gives it."""

    key: bytes
    value: Value
    why: str


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue as a snapshot has it. Ids are text, lossless; `sets` gives id → score in server milliseconds."""

    name: str
    sets: Mapping[str, Mapping[str, float]]
    rows: Mapping[str, Mapping[str, bytes]]
    parents: Mapping[str, FanIn]
    logs: Mapping[str, tuple[bytes, ...]]
    outbox: tuple[bytes, ...]
    paused: bool
    completed: bytes | None
    failed: bytes | None
    strangers: tuple[Stranger, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id the queue knows of, rows and members of sets and parents, sorted."""
        members = (id for members in self.sets.values() for id in members)
        return tuple(sorted({*self.rows, *members, *self.parents}, key=keys.text))

    def places(self, id: str) -> tuple[str, ...]:
        """The sets the id is in: one, or none; more only where something went wrong."""
        return tuple(name for name in SETS if id in self.sets[name])

    @property
    def unplaced(self) -> tuple[str, ...]:
        """Ids that have a row and are in no set, sorted: held parents, and whatever was lost."""
        return tuple(id for id in sorted(self.rows, key=keys.text) if not self.places(id))


_WHOLE = ("state", "attempts", "payload")


def is_whole(row: Mapping[str, bytes]) -> bool:
    """Has the row the three fields every row has?"""
    return all(name in row for name in _WHOLE)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _hash(value: Hash) -> dict[str, bytes]:
    return {_text(name): content for name, content in value.fields}


@dataclass
class _Fan:
    counter: bytes | None = None
    hashes: dict[str, dict[str, bytes]] = field(default_factory=dict)


@dataclass
class _Gathered:
    sets: dict[str, dict[str, float]] = field(default_factory=lambda: {name: {} for name in SETS})
    rows: dict[str, dict[str, bytes]] = field(default_factory=dict)
    fans: dict[str, _Fan] = field(default_factory=dict)
    logs: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    outbox: tuple[bytes, ...] = ()
    meta: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, bytes | None] = field(default_factory=dict)
    strangers: list[Stranger] = field(default_factory=list)

    def take(self, key: bytes, at: keys.ParsedKey, value: Value) -> None:
        match at, value:
            case keys.ParsedKey(name=("pending" | "active" | "schedule" | "dead") as name, id=None), Ranked():
                self.sets[name] = {_text(member): score for member, score in value.members}
            case keys.ParsedKey(name="flow:outbox", id=None), Items():
                self.outbox = value.items
            case keys.ParsedKey(name="meta", id=None), Hash() if {name for name, _ in value.fields} == {b"paused"}:
                self.meta = _hash(value)
            case keys.ParsedKey(name=("metrics:completed" | "metrics:failed") as name, id=None), Hash() if {
                name for name, _ in value.fields
            } == {b"count"}:
                self.metrics[name] = _hash(value)["count"]
            case keys.ParsedKey(name="row", id=str(id)), Hash():
                self.rows[id] = _hash(value)
            case keys.ParsedKey(name="dependencies", id=str(id)), Text():
                self.fans.setdefault(id, _Fan()).counter = value.value
            case keys.ParsedKey(name=("processed" | "failed" | "unsuccessful") as name, id=str(id)), Hash():
                self.fans.setdefault(id, _Fan()).hashes[name] = _hash(value)
            case keys.ParsedKey(name="logs", id=str(id)), Items():
                self.logs[id] = value.items
            case _:
                self.strangers.append(Stranger(key, value, _why(at, value)))


_OF_A_QUEUE = dict.fromkeys(SETS, "zset") | {
    "flow:outbox": "list",
    "meta": "hash",
    "metrics:completed": "hash",
    "metrics:failed": "hash",
}
_OF_A_JOB = dict.fromkeys(("row", "processed", "failed", "unsuccessful"), "hash") | {
    "dependencies": "string",
    "logs": "list",
}


def _why(at: keys.ParsedKey, value: Value) -> str:
    wanted = (_OF_A_QUEUE if at.id is None else _OF_A_JOB).get(at.name)
    if wanted is None:
        return f"a {value.type}, not one of the protocol's keys"
    if wanted != value.type:
        return f"a {value.type} where the protocol has a {wanted}"
    return f"a {value.type} with other fields than the protocol gives it"


def queues(snapshot: Snapshot) -> tuple[tuple[Queue, ...], tuple[Stranger, ...]]:
    """The queues of a snapshot sorted by name, and the keys that belong to none."""
    gathered: dict[str, _Gathered] = {}
    outside: list[Stranger] = []
    for key, value in snapshot.keys.items():
        at = keys.parse(key)
        if at is None:
            outside.append(Stranger(key, value, f"a {value.type}, not one of the protocol's keys"))
        else:
            gathered.setdefault(at.queue, _Gathered()).take(key, at, value)
    return (
        tuple(
            Queue(
                name=name,
                sets=one.sets,
                rows=one.rows,
                parents={id: FanIn(fan.counter, **fan.hashes) for id, fan in one.fans.items()},
                logs=one.logs,
                outbox=one.outbox,
                paused="paused" in one.meta,
                completed=one.metrics.get("metrics:completed"),
                failed=one.metrics.get("metrics:failed"),
                strangers=tuple(one.strangers),
            )
            for name, one in sorted(gathered.items())
        ),
        tuple(outside),
    )


def known(at: keys.ParsedKey) -> bool:
    """Is the key one of the protocol's?"""
    return at.name in (_OF_A_QUEUE if at.id is None else _OF_A_JOB)


def telling(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes worth showing: all but a deadline or due time that moved by less than a second.

    Such a move is the clock between two calls of one notebook cell. It is there or not from run to run, and a picture
    that is compared from run to run cannot hold it; what an extension did is said by the sentence of its call.
    """
    for change in changes:
        at = keys.parse(change.key)
        if change.kind == "changed" and at is not None and at.id is None and at.name in ("active", "schedule"):
            if abs(score(change.after) - score(change.before)) < 1000:  # milliseconds
                continue
        yield change


def score(value: bytes | None) -> float:
    """A score as a number; what is none counts as infinitely far away."""
    try:
        return float(value or b"0")
    except ValueError:  # a list or string where the sorted set should be
        return float("inf")
