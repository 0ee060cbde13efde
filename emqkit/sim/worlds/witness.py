"""Witnesses: what must really have happened somewhere in a world before a promise may be said to hold.

A world names those it needs (`World.witnesses`), and so does each clause of a promise. They are plain text, so
`"a parent was released"` will do; unknown text is refused. `crash_between` names the place of a crash.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from enum import StrEnum

from emqkit.errors import BadArgument

__all__ = ["Witness", "check", "crash_between", "met"]


class Witness(StrEnum):
    """Something that happens in a world."""

    CLAIMED = "a job was claimed"
    CLAIMED_AGAIN = "a job was claimed again"
    PARENT_CLAIMED = "a parent was claimed"
    PAUSED = "a claim found its queue paused"
    SETTLED = "a claim was settled"
    SETTLED_AGAIN = "a settle was repeated"
    CHILD_DIED = "a child died"
    PARENT_FAILED = "a death failed its parent"
    RECORDED = "an outcome was recorded"
    RAN_AGAIN = "a child whose outcome was recorded ran again"
    RELEASED = "a parent was released"
    FINISHED = "a parent finished"
    LANDED = "a flow landed"
    LANDED_AGAIN = "an add was repeated"
    NOT_LANDED = "a flow failed to land"
    REFUSED = "a transition refused"
    NOT_SENT = "an operation was refused before it sent anything"
    REAPED = "a lapsed lease was reaped"
    EXTENDED = "a lease was extended"
    DELIVERED = "an entry was delivered"
    DELIVERED_AGAIN = "a re-delivery really happened"
    UNHEARD = "a delivery was answered with an error"
    POISONED = "a poison appeared"
    REPROCESSED = "a dead job was reprocessed"
    REMOVED = "a job was removed"
    FORGOTTEN = "a call answered NOSCRIPT"

    __repr__ = str.__repr__  # shown as its text


OR = " or "
_CRASH = re.compile(r"a crash hit \S+ between .+ and .+")


def crash_between(operation: str, before: str, after: str) -> str:
    """The witness of a crash in an operation such as `pump.sweep`, between two calls (`start`: before the first)."""
    return f"a crash hit {operation} between {before} and {after}"


def met(need: str, happened: Collection[str]) -> bool:
    """Whether a need is met: a witness, or several joined by ` or `, of which one is enough."""
    return any(way in happened for way in need.split(OR))


def check(need: str) -> None:
    """Raise `BadArgument` unless a need names known witnesses."""
    for way in need.split(OR):
        if way not in set(Witness) and not _CRASH.fullmatch(way):
            near = get_close_matches(way, list(Witness), n=1)
            meant = f"; did you mean {str(near[0])!r}?" if near else "; emqkit.sim.worlds.witness lists them"
            raise BadArgument("witnesses", way, f"is not a witness{meant}")
