"""What a flow is owed, P1 to P16: each promise is checked on its own, wherever a breach can be seen.

A promise is a tuple of named clauses (`clauses`), which are in `landing`, `parents` and `jobs`. `events` reads what a
transition did, `facts` remembers the past, and `witnesses` says what was really tried.
"""

from __future__ import annotations

from emqkit.sim.promises.clauses import Clause, Promise
from emqkit.sim.promises.events import Transition
from emqkit.sim.promises.facts import Facts, at_start, remember, trimmed
from emqkit.sim.promises.jobs import FENCED, NO_GHOSTS, ONE_PLACE, OPERATORS, TURN_AND_LEASE
from emqkit.sim.promises.landing import ALL_OR_NOTHING, CLEAN_REFUSAL, ISOLATED, REPEATABLE
from emqkit.sim.promises.parents import COUNT, HELD, LEFTOVERS, NO_DROP, ONCE, ONE_OUTCOME, POLICY
from emqkit.sim.promises.witnesses import seen, work_done

__all__ = [
    "PROMISES",
    "Clause",
    "Facts",
    "Promise",
    "Transition",
    "at_start",
    "names",
    "remember",
    "seen",
    "trimmed",
    "work_done",
]

PROMISES: tuple[Promise, ...] = (
    ALL_OR_NOTHING,
    HELD,
    NO_DROP,
    ONCE,
    COUNT,
    ONE_PLACE,
    NO_GHOSTS,
    ONE_OUTCOME,
    FENCED,
    ISOLATED,
    REPEATABLE,
    CLEAN_REFUSAL,
    POLICY,
    TURN_AND_LEASE,
    OPERATORS,
    LEFTOVERS,
)
"""All promises, in order of their names."""


def names() -> tuple[str, ...]:
    """`P1` to `P16`."""
    return tuple(promise.name for promise in PROMISES)
