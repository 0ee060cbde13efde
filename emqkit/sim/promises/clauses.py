"""A promise is a tuple of clauses; each clause is a small function that yields a sentence for each breach.

A clause looks at one of four things:

* a part: the contents of one queue, once for each distinct contents;
* a state: the whole keyspace with the facts remembered of the past;
* a move: one transition (a call with its reply), the keyspace before and after, and the facts before it;
* an end: where the world may settle once faults stop (`search.ends`). A sentence said in every state of an end is a
  breach, if the clause's preconditions are met in some state.

    @of_move("a claim of a parent", Witness.PARENT_CLAIMED, on="claims", required=True)
    def claimed_whole(world: World, move: Transition, facts: Facts) -> Iterator[str]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from emqkit.keyspace import Keyspace, Part
from emqkit.scripts import ScriptSet
from emqkit.sim.promises.events import Transition
from emqkit.sim.promises.facts import Facts
from emqkit.sim.worlds.witness import OR, Witness
from emqkit.sim.worlds.world import World

__all__ = ["Clause", "Lacks", "Promise", "always", "of_end", "of_move", "of_part", "of_state", "with_flows"]

What = Literal["part", "state", "move", "end"]
On = Literal[
    "answers",
    "claims",
    "settles",
    "deliveries",
    "reported",
    "extensions",
    "landed",
    "fatal",
    "removed",
    "changed",
    "ended",
]
OfPart = Callable[[World, Part], Iterator[str]]
OfState = Callable[[World, Keyspace, Facts], Iterator[str]]
OfMove = Callable[[World, Transition, Facts], Iterator[str]]
Concerns = Callable[[World], str | None]
"""None if a world can try something; else why not."""


Lacks = Mapping[str, tuple[str, ...]]
"""The roles that each queue lacks at the ends, as far as transitions show."""

Ends = Callable[[World, Lacks], str | None]
"""None if ends can be judged in a world with these missing roles; else why not."""

Unmet = Callable[[World, Keyspace], frozenset[str]]
"""The preconditions of a clause that a state does not meet."""


def always(world: World) -> None:
    """Every world can try it."""


def anyway(world: World, lacks: Lacks) -> None:
    """Its ends can be judged whatever role is missing."""


def nothing(world: World, keyspace: Keyspace) -> frozenset[str]:
    """It has no precondition."""
    return frozenset()


def with_flows(world: World) -> str | None:
    """Every world with flows can try it."""
    return None if world.owed else "no flow is declared in this world"


@dataclass(frozen=True)
class Clause:
    """One part of a promise.

    Attributes:
        name: what it is about, in a few words; unique within a promise.
        witness: what must really have happened for it to have been tried.
        looks_at: which of the four things.
        check: takes the world and that thing, yields a sentence for each breach.
        concerns: None if a world can try it; else why not.
        required: whether the promise cannot hold if this clause could have been tried but was not.
        on: for a clause about moves, which of their `Events` it looks at; moves without any are skipped.
        ends: for a clause about ends, None if ends can be judged in a world; else why not.
        unmet: for a clause about ends, the preconditions a state does not meet; each must be met somewhere in an end.
    """

    name: str
    witness: Witness
    looks_at: What
    check: Callable[..., Iterator[str]]
    concerns: Concerns
    required: bool
    on: On = "changed"
    ends: Ends = anyway
    unmet: Unmet = nothing


def of_part(
    name: str, witness: Witness, *, concerns: Concerns = with_flows, required: bool = False
) -> Callable[[OfPart], Clause]:
    """Make a clause from a function of the world and one queue's contents; the arguments are those of `Clause`."""
    return lambda check: Clause(name, witness, "part", check, concerns, required)


def of_state(
    name: str, witness: Witness, *, concerns: Concerns = with_flows, required: bool = False
) -> Callable[[OfState], Clause]:
    """Make a clause from a function of the world, its keyspace and the facts."""
    return lambda check: Clause(name, witness, "state", check, concerns, required)


def of_move(
    name: str, witness: Witness, *, on: On, concerns: Concerns = with_flows, required: bool = False
) -> Callable[[OfMove], Clause]:
    """Make a clause from a function of the world, a move, and the facts before it."""
    return lambda check: Clause(name, witness, "move", check, concerns, required, on=on)


def of_end(
    name: str,
    witness: Witness,
    *,
    concerns: Concerns = with_flows,
    ends: Ends = anyway,
    unmet: Unmet = nothing,
    required: bool = False,
) -> Callable[[OfState], Clause]:
    """Make a clause from a function of the world, a keyspace in which it may settle, and the facts.

    Each sentence is one thing owed; if it is said in every state of an end, it is a breach.
    """
    return lambda check: Clause(name, witness, "end", check, concerns, required, ends=ends, unmet=unmet)


@dataclass(frozen=True)
class Promise:
    """One promise.

    Attributes:
        name: `P1` to `P16`.
        title: a few words.
        says: the promise in one sentence.
        clauses: its clauses.
        unconcerned: why no clause can be tried in a world, if one sentence says it for all of them.
        one_is_enough: whether one of the required clauses is enough for it to have been tried.
        unstated: what it requires a script set to state and no set does, as a sentence with the set's name. A verdict
        that is not `broken` is then `unknown` and does not count in the overall verdict: no world could settle it.
    """

    name: str
    title: str
    says: str
    clauses: tuple[Clause, ...]
    unconcerned: str = ""
    one_is_enough: bool = False
    unstated: str = ""

    @cached_property
    def _of(self) -> dict[What, tuple[Clause, ...]]:
        whats: tuple[What, ...] = ("part", "state", "move", "end")
        return {what: tuple(clause for clause in self.clauses if clause.looks_at == what) for what in whats}

    def looks_at(self, what: What) -> bool:
        """Whether it has a clause about one of the four things."""
        return bool(self._of[what])

    def part(self, world: World, part: Part) -> Iterator[str]:
        """Its breaches in one queue's contents."""
        for clause in self._of["part"]:
            yield from clause.check(world, part)

    def state(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        """Its breaches in a state."""
        for clause in self._of["state"]:
            yield from clause.check(world, keyspace, facts)

    def move(self, world: World, move: Transition, facts: Facts) -> Iterator[str]:
        """Its breaches in a move; `facts` are those before it."""
        for clause in self._of["move"]:
            if getattr(move.did, clause.on):
                yield from clause.check(world, move, facts)

    @property
    def at_ends(self) -> tuple[Clause, ...]:
        """Its clauses about ends."""
        return self._of["end"]

    def concerns(self, world: World) -> str | None:
        """None if this world can try one of its clauses; else why not."""
        reasons = [clause.concerns(world) for clause in self.clauses]
        return None if None in reasons else self.unconcerned or reasons[0]

    def ends(self, world: World, lacks: Lacks) -> str | None:
        """None if ends can be judged in this world with these missing roles; else why not."""
        return next((why for clause in self.at_ends if (why := clause.ends(world, lacks)) is not None), None)

    def needed(self, world: World) -> tuple[str, ...]:
        """The witnesses it needs in this world to hold; alternatives are joined by ` or `."""
        required = [clause for clause in self.clauses if clause.required]
        if self.one_is_enough:
            return (OR.join(dict.fromkeys(clause.witness for clause in required)),)
        return tuple(dict.fromkeys(clause.witness for clause in required if clause.concerns(world) is None))

    def untried(self, happened: Collection[str]) -> tuple[str, ...]:
        """The untried clauses, by what happened, the first of each kind: `holds` does not cover them."""
        first = {clause.witness: clause.name for clause in reversed(self.clauses)}
        return tuple(c.name for c in self.clauses if c.witness not in happened and first[c.witness] == c.name)

    def lacks(self, world: World, scripts: ScriptSet) -> str | None:
        """None if the script set states what the promise requires; else what is not stated."""
        return self.unstated.format(scripts=scripts.name) or None
