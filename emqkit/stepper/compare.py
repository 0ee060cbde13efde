"""Whether two runs of a script ended alike, apart from clock readings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from emqkit.arguments import to_text
from emqkit.snapshot import Snapshot, diff
from emqkit.stepper.result import shown
from emqkit.wire import ErrorReply, Reply

__all__ = ["Clock", "key_differences", "reply_differences"]


@dataclass(frozen=True, slots=True)
class Clock:
    """When the stepped run read the clock, and the interval in which the other run did; unix microseconds."""

    ours: int
    earliest: int
    latest: int

    def explains(self, mine: float, other: float) -> bool:
        """Whether two numbers differ only as the two readings do, in seconds, milliseconds or microseconds.

        A lease deadline is the reading plus a constant: each number minus its reading must give the same constant.
        """
        for unit in (1_000_000, 1_000, 1):
            ours = self.ours / unit
            if min(mine, other) > ours / 2:
                reading = other - (mine - ours)
                if self.earliest / unit - 1 <= reading <= self.latest / unit + 1:
                    return True
        return False


def _same(mine: bytes, other: bytes, clock: Clock | None) -> bool:
    if mine == other:
        return True
    if clock is None:
        return False
    try:
        return clock.explains(float(mine), float(other))
    except ValueError:
        return False


def reply_differences(mine: Reply, other: Reply, clock: Clock | None) -> Iterator[str]:
    if not _same_reply(mine, other, clock):
        yield f"the reply is {shown(mine)} here and {shown(other)} there"


def _same_reply(mine: Reply, other: Reply, clock: Clock | None) -> bool:
    if isinstance(mine, tuple) and isinstance(other, tuple):
        return len(mine) == len(other) and all(_same_reply(*pair, clock) for pair in zip(mine, other, strict=True))
    if isinstance(mine, ErrorReply) and isinstance(other, ErrorReply):
        # Servers word their errors differently, so only the code is compared; a script's own errors are compared whole.
        ours = mine.code.startswith("EMQ")
        return mine.code == other.code and (not ours or mine.text == _WHERE.sub("", other.text))
    if isinstance(mine, bytes) and isinstance(other, bytes):
        return _same(mine, other, clock)
    if isinstance(mine, int) and isinstance(other, int):
        return mine == other or (clock is not None and clock.explains(mine, other))
    return mine is None and other is None


# What a live server appends to an error raised by a script.
_WHERE = re.compile(r" script: (?:[0-9a-f]{40}, )?on @?user_script:\d+\.$")


def key_differences(mine: Snapshot, other: Snapshot, clock: Clock | None) -> Iterator[str]:
    for change in diff(mine, other):
        here, there = change.before, change.after
        if here is not None and there is not None and _same(here, there, clock):
            continue
        if _same_list(mine.items(change.key), other.items(change.key), clock):
            continue
        part = f" {to_text(change.part)!r}" if change.part is not None else ""
        yield f"{to_text(change.key)}{part} is {shown(here)} here and {shown(there)} there"


def _same_list(mine: tuple[bytes, ...], other: tuple[bytes, ...], clock: Clock | None) -> bool:
    """Whether two lists differ only in clock readings: their diff lists items that left and items that came."""
    return 0 < len(mine) == len(other) and all(_same(*pair, clock) for pair in zip(mine, other, strict=True))
