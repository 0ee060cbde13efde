"""A job's id is fourteen bytes that sort in minting order: a namespace and a snowflake in base62.

The layout (protocol page, "Ids"): three letters A-Z, then eleven digits of ``0-9A-Za-z`` padded on the left with ``0``.
The digits hold 63 bits: 41 of milliseconds since 2024-01-01T00:00:00Z, 10 of node, 12 of sequence.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from emqkit.errors import BadArgument, IllFormedId

__all__ = [
    "EPOCH_MS",
    "FIXED_INSTANT_MS",
    "ID_LENGTH",
    "JOB",
    "LARGEST_NODE",
    "LARGEST_SEQUENCE",
    "LARGEST_SNOWFLAKE",
    "Minter",
    "Parts",
    "SharedMinter",
    "Stretch",
    "check",
    "encode",
    "parse",
    "process_minter",
    "unix_milliseconds",
]

EPOCH_MS = 1_704_067_200_000
"""2024-01-01T00:00:00Z in unix milliseconds: the instant a snowflake counts from."""
FIXED_INSTANT_MS = 1_769_526_697_641
"""2026-01-27T15:11:37.641Z, the fixed instant of ``Minter.fixed()``: its first id is ``JOB0KHTOWnGLuC``."""
ID_LENGTH = 14
JOB = "JOB"
LARGEST_NODE = 2**10 - 1
LARGEST_SEQUENCE = 2**12 - 1
LARGEST_SNOWFLAKE = 2**63 - 1
SHORTEST_STRETCH_MS = 1_000
LONGEST_STRETCH_MS = 60_000
"""How long a stretch a shared minter asks for: its first is short, since many processes mint only a few ids."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_PAYLOAD_LENGTH = 11
_NAMESPACE_LENGTH = ID_LENGTH - _PAYLOAD_LENGTH
_LARGEST_PAYLOAD = "AzL8n0Y58m7"
_LARGEST_MS = LARGEST_SNOWFLAKE >> 22


def unix_milliseconds() -> int:
    """Return this machine's wall clock in unix milliseconds: the only clock used for ids."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Parts:
    """What an id says about itself: the node, the millisecond and the sequence number it was minted with."""

    namespace: str
    milliseconds: int
    """Unix milliseconds (not milliseconds since the ids' own epoch)."""
    node: int
    sequence: int
    snowflake: int

    @property
    def id(self) -> str:
        """The id these parts were read from."""
        return encode(self.snowflake, self.namespace)

    @property
    def instant(self) -> datetime:
        """When it was minted, as an aware datetime in UTC, exact to the millisecond."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.milliseconds)


def encode(snowflake: int, namespace: str = JOB) -> str:
    """Write a snowflake as an id.

    Args:
        snowflake: 0 to 2**63 - 1.
        namespace: three letters A-Z.

    Returns:
        The fourteen-byte id.

    Raises:
        BadArgument: the snowflake is out of range, or the namespace is not three letters A-Z.
    """
    _check_namespace(namespace)
    if not _is_int(snowflake) or not 0 <= snowflake <= LARGEST_SNOWFLAKE:
        raise BadArgument("snowflake", snowflake, f"is not a whole number from 0 to {LARGEST_SNOWFLAKE}")
    digits: list[str] = []
    rest = snowflake
    for _ in range(_PAYLOAD_LENGTH):
        rest, value = divmod(rest, len(_DIGITS))
        digits.append(_DIGITS[value])
    return namespace + "".join(reversed(digits))


def parse(id: str) -> Parts:
    """Read an id of any namespace.

    Args:
        id: the text to read.

    Returns:
        Its parts; ``encode(parts.snowflake, parts.namespace)`` is the id again.

    Raises:
        IllFormedId: with the exact reason: its type, its length, its namespace, a foreign character, or a payload
            above the largest one. (An id of a namespace other than ``JOB`` is well-formed; the scripts refuse it.)
    """
    if not isinstance(id, str):
        raise IllFormedId(id, f"an id is text (str), this is {type(id).__name__}")
    if len(id) != ID_LENGTH:
        raise IllFormedId(id, f"it has {len(id)} characters, an id has {ID_LENGTH}")
    namespace, payload = id[:_NAMESPACE_LENGTH], id[_NAMESPACE_LENGTH:]
    if not _LETTERS.issuperset(namespace):
        raise IllFormedId(id, f"its namespace is {namespace!r}, a namespace is three letters A-Z")
    snowflake = 0
    for offset, digit in enumerate(payload):
        value = _VALUES.get(digit)
        if value is None:
            position = _NAMESPACE_LENGTH + offset + 1
            raise IllFormedId(id, f"character {position} is {digit!r}, which is not one of 0-9, A-Z, a-z")
        snowflake = snowflake * len(_DIGITS) + value
    if snowflake > LARGEST_SNOWFLAKE:
        raise IllFormedId(id, f"its payload {payload!r} is above the largest one, {_LARGEST_PAYLOAD!r} (2^63-1)")
    return Parts(
        namespace=namespace,
        milliseconds=EPOCH_MS + (snowflake >> 22),
        node=snowflake >> 12 & LARGEST_NODE,
        sequence=snowflake & LARGEST_SEQUENCE,
        snowflake=snowflake,
    )


def check(id: str) -> str:
    """Return the id if it is well-formed, whatever its namespace.

    Raises:
        IllFormedId: as :func:`parse` does.
    """
    parse(id)
    return id


class Minter:
    """Mints ids that never repeat and never go backwards, whatever its clock does; safe to share between threads.

    This holds within one minter. Two minters with the same node, in one process or in two, can mint the same id:
    give each its own node, or use a server's own minter (`SharedMinter`), which takes care of that. ::

        clock says   100   100   100    99   101
        minted     100/0 100/1 100/2 100/3 101/0      (millisecond / sequence)

    If the clock stands still or steps back, it goes on counting in the last millisecond; after 4096 ids in one
    millisecond it borrows the next. A clock set before 2024 is read as 2024-01-01.
    """

    def __init__(
        self,
        node: int = 0,
        *,
        clock: Callable[[], int] = unix_milliseconds,
        namespace: str = JOB,
        start: str | None = None,
    ) -> None:
        """Prepare a minter; the clock is not read before the first :meth:`mint`.

        Args:
            node: 0 to 1023, unique among the minters that mint for the same queues.
            clock: returns unix milliseconds.
            namespace: three letters A-Z.
            start: an id to stay above, such as the last one an earlier process minted. The first id falls in a later
                millisecond, so it is larger whatever node minted ``start``.

        Raises:
            BadArgument: the node or the namespace is out of range.
            IllFormedId: ``start`` is not an id.
        """
        if not _is_int(node) or not 0 <= node <= LARGEST_NODE:
            raise BadArgument("node", node, f"is not a whole number from 0 to {LARGEST_NODE}")
        _check_namespace(namespace)
        self._node = node
        self._clock = clock
        self._namespace = namespace
        self._lock = threading.Lock()
        _MINTERS.add(self)
        self._milliseconds = -1 if start is None else parse(start).milliseconds - EPOCH_MS
        # A full millisecond: the first id opens the next one.
        self._sequence = LARGEST_SEQUENCE

    @classmethod
    def fixed(cls, *, instant_ms: int = FIXED_INSTANT_MS, node: int = 0, namespace: str = JOB) -> Minter:
        """Return a minter whose clock stands still, so it mints the same ids on every run (for notebooks and tests).

        Args:
            instant_ms: where the clock stands, in unix milliseconds.
            node: 0 to 1023.
            namespace: three letters A-Z.

        Raises:
            BadArgument: the instant, the node or the namespace is out of range.
        """
        _check_reading("instant_ms", instant_ms)
        return cls(node, clock=lambda: instant_ms, namespace=namespace)

    @property
    def node(self) -> int:
        """The node every id of this minter carries."""
        return self._node

    @property
    def namespace(self) -> str:
        """The namespace every id of this minter carries."""
        return self._namespace

    def mint(self) -> str:
        """Return the next id: larger, as bytes and as a number, than every id this minter has minted.

        Raises:
            BadArgument: the clock reads a millisecond beyond what an id can hold (in 2093), or all of them are used up.
                Nothing is minted, and a later call with a sane clock works again.
        """
        milliseconds, sequence = self._tick()
        return encode(milliseconds << 22 | self._node << 12 | sequence, self._namespace)

    def _tick(self, at_least: int = 0) -> tuple[int, int]:
        """The next millisecond (since the ids' epoch) and sequence: after all earlier ones, and at least `at_least`."""
        with self._lock:
            now = _check_reading("clock", self._clock()) - EPOCH_MS
            milliseconds, sequence = self._milliseconds, self._sequence + 1
            if sequence > LARGEST_SEQUENCE:
                milliseconds, sequence = milliseconds + 1, 0
            if max(now, at_least) > milliseconds:
                milliseconds, sequence = max(now, at_least), 0
            if milliseconds > _LARGEST_MS:
                raise BadArgument(
                    "clock", EPOCH_MS + now, "comes too late: this minter has used up every millisecond an id can hold"
                )
            self._milliseconds, self._sequence = milliseconds, sequence
            return milliseconds, sequence

    def _forked(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it, and the child does not have that thread

    def __repr__(self) -> str:
        return f"Minter(node={self._node}, namespace={self._namespace!r})"


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of unix milliseconds, both ends included, in which one minter owns a node."""

    node: int
    first: int
    last: int


class SharedMinter(Minter):
    """Mints ids that are unique across all processes, threads and forks that mint for one server.

    It asks the server for a node and a stretch of milliseconds, mints in that stretch, and asks for the next one once
    it is used up or its clock has passed it. Stretches of one node never overlap and are never given out twice, so it
    does not matter how long a minter sleeps, what its clock says, or whether it crashed: ::

        node 0   |--- A ---|         |--- C ---|        each stretch has one owner forever
        node 1   |------- B -------|

    A forked process asks for its own. With more minters than nodes (1024), stretches begin in the future: ids run ahead
    of the clock by at most the length of one stretch for every 1024 minters.

    Within a process all shared minters count milliseconds and sequences together, so ids minted for two servers differ
    too.
    """

    def __init__(self, reserve: Callable[[int, int], Stretch]) -> None:
        """Prepare a minter; it asks for nothing before the first :meth:`mint`.

        Args:
            reserve: takes a unix millisecond and a length in milliseconds; returns a stretch of at least that length
                that begins then or later. `mint` raises whatever it raises.
        """
        super().__init__()
        self._reserve = reserve
        self._stretch: Stretch | None = None
        self._length = SHORTEST_STRETCH_MS

    @property
    def node(self) -> int:
        """The node of the current stretch; asks for a stretch if it has none."""
        with self._lock:
            return (self._stretch or self._next(unix_milliseconds())).node

    def mint(self) -> str:
        """Return the next id: its millisecond and sequence are above those of every id this process has minted.

        Raises whatever `reserve` raises; nothing is minted then.
        """
        with self._lock:
            at_least = 0
            while True:
                milliseconds, sequence = _of_this_process._tick(at_least - EPOCH_MS)
                now, stretch = EPOCH_MS + milliseconds, self._stretch
                if stretch is None or now > stretch.last:
                    stretch = self._next(now)
                if stretch.first <= now <= stretch.last:
                    return encode(milliseconds << 22 | stretch.node << 12 | sequence, self._namespace)
                at_least = stretch.first

    def _next(self, now: int) -> Stretch:
        self._stretch = self._reserve(now, self._length)
        self._length = min(self._length * 2, LONGEST_STRETCH_MS)
        return self._stretch

    def _forked(self) -> None:
        super()._forked()
        self._stretch = None  # it is the parent's

    def __repr__(self) -> str:
        return f"SharedMinter(namespace={self._namespace!r})"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_namespace(namespace: str) -> None:
    if not isinstance(namespace, str) or len(namespace) != _NAMESPACE_LENGTH or not _LETTERS.issuperset(namespace):
        raise BadArgument("namespace", namespace, "is not three letters A-Z")


def _check_reading(name: str, unix_ms: int) -> int:
    if not _is_int(unix_ms) or unix_ms - EPOCH_MS > _LARGEST_MS:
        raise BadArgument(
            name, unix_ms, f"is not whole unix milliseconds up to {EPOCH_MS + _LARGEST_MS}, the last an id can hold"
        )
    return unix_ms


_MINTERS: weakref.WeakSet[Minter] = weakref.WeakSet()


def _after_fork() -> None:
    for minter in list(_MINTERS):
        minter._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_of_this_process = Minter()  # made here, since two threads may make the first call at once


def process_minter() -> Minter:
    """The one minter (node 0) that all fake servers of this process share, so no id repeats."""
    return _of_this_process
