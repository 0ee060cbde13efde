"""What is remembered of the past: a small set of facts, each saturating, so that state spaces stay finite.

An *outcome* of a child is *recorded* in its parent's processed, unsuccessful or failed. A parent's *life* lasts from
its land to the end of its row; then the facts about its release and its children's outcomes are forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from emqkit import keys
from emqkit.flows import AddedFlow, BulkAdded
from emqkit.sim.promises.events import Transition, changed_parents, landings, recorded
from emqkit.sim.worlds.world import World
from emqkit.wire import Done, ErrorReply, Program

__all__ = [
    "Added",
    "Delivered",
    "Fact",
    "Facts",
    "Landed",
    "Outcome",
    "Released",
    "Removed",
    "Revived",
    "Settled",
    "Token",
    "Trimmed",
    "Unheard",
    "at_start",
    "remember",
    "trimmed",
]


@dataclass(frozen=True, slots=True)
class Token:
    """The last token handed out for an id."""

    id: str
    number: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The last token of an id was settled, by `complete` or `retry`."""

    id: str
    token: int
    verb: str


@dataclass(frozen=True, slots=True)
class Landed:
    """The id was landed."""

    id: str


@dataclass(frozen=True, slots=True)
class Added:
    """A producer was told that a flow of the world has landed."""

    flow: int


@dataclass(frozen=True, slots=True)
class Released:
    """In this life the parent left held for pending."""

    parent: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """In its parent's life the child was completed, or made dead by a retry."""

    child: str
    what: Literal["completed", "dead"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The child's entry was delivered, by this script."""

    verb: str
    child: str
    parent: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """The child's last delivery was answered with an error."""

    child: str
    parent: str


@dataclass(frozen=True, slots=True)
class Removed:
    """An operator removed the id."""

    id: str


@dataclass(frozen=True, slots=True)
class Revived:
    """An operator reprocessed the child after its outcome was recorded."""

    child: str


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The entry was delivered and trimmed. (Only where re-deliveries are explored.)"""

    queue: str
    entry: bytes


Fact = Token | Settled | Landed | Added | Released | Outcome | Delivered | Unheard | Removed | Revived | Trimmed
Facts = frozenset[Fact]


def at_start(world: World) -> Facts:
    """The facts before the first transition: which flows exist from the start."""
    if not world.landed:
        return frozenset()
    flows = range(len(world.flows))
    landed: set[Fact] = {Landed(id) for index in flows for id in world.ids_of(index)}
    return frozenset(landed | {Added(index) for index in flows})


def trimmed(facts: Facts) -> list[bytes]:
    """The outbox entries that were delivered and trimmed, in a fixed order: those that may be re-delivered."""
    return [entry for _, entry in sorted((fact.queue, fact.entry) for fact in facts if isinstance(fact, Trimmed))]


def remember(world: World, move: Transition, facts: Facts, *, trims: bool) -> Facts:
    """The facts after a move.

    Args:
        world: the world of the flows.
        move: what happened.
        facts: the facts before it.
        trims: whether to remember trimmed entries, for re-delivery.
    """
    new = set(facts)
    for claim in move.did.claims:
        new = {fact for fact in new if not (isinstance(fact, Token | Settled) and fact.id == claim.id)}
        new.add(Token(claim.id, claim.token))
    for settle in move.did.settles:
        new.add(Settled(settle.id, settle.token, settle.verb))
        link = world.links.get(settle.id)
        if link is not None and move.before[link.parent_queue].row(link.parent_id) is not None:
            completed, dead = Outcome(settle.id, "completed"), Outcome(settle.id, "dead")
            if settle.answer == "done":
                new.discard(dead)
                new.add(completed)
            elif settle.answer == "dead" and completed not in new:
                new.add(dead)
    for delivery in move.did.deliveries:
        unheard = Unheard(delivery.child, delivery.parent)
        if isinstance(delivery.reply, ErrorReply):
            new.add(unheard)
        else:
            new.discard(unheard)
        if delivery.reply == 1:
            new.add(Delivered(delivery.verb, delivery.child, delivery.parent))
    for row in move.did.landed:
        if move.after[row.queue].row(row.id) is not None:
            new.add(Landed(row.id))
            new.discard(Removed(row.id))
    for program, done in move.ended:
        new.update(_added(world, move, program, done))
    new.update(Removed(row.id) for row in move.did.removed)
    for row in move.did.revived:
        link = world.links.get(row.id)
        if link is not None and recorded(move.before[link.parent_queue], link.parent_id, link.id):
            new.add(Revived(link.id))
    for owed, before, after in changed_parents(world, move):
        if before.row(owed.id) is not None and after.row(owed.id) is None:
            new.discard(Released(owed.id))
            new.difference_update(Outcome(link.id, what) for link in owed.links for what in ("completed", "dead"))
        elif before.state(owed.id) == "awaiting_children" and owed.id in after.members("pending"):
            new.add(Released(owed.id))
    if trims:
        new.update(_trimmed(move))
    return frozenset(new)


def _added(world: World, move: Transition, program: Program[Any], done: Done[Any]) -> Iterator[Added]:
    """The flows of the world that an operation landed, and ended without an error; a batch says which."""
    parents: list[str] = []
    if isinstance(done.value, AddedFlow):
        parents = [done.value.parent_id]
    elif isinstance(done.value, BulkAdded):
        parents = [flow.parent_id for flow in done.value.landed]
    elif done.error is None and program == move.program:
        parents = [row.id for row in (*landings(move), *move.did.landed)]
    for index, plan in enumerate(world.flows):
        if plan.flow.id in parents:
            yield Added(index)


def _trimmed(move: Transition) -> Iterator[Trimmed]:
    for call, _ in move.calls:
        key = keys.parse(call.keys[0]) if call.verb == "LTRIM" else None
        if key is not None:
            entries = move.before[key.queue].entries
            gone = len(entries) - len(move.after[key.queue].entries)
            yield from (Trimmed(key.queue, entry) for entry in entries[: max(gone, 0)])
