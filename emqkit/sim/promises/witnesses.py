"""The witnesses of a move: what really happened, so that a clause about it was really tried."""

from __future__ import annotations

from collections.abc import Iterator

from emqkit.flows import BulkAdded
from emqkit.keyspace import PAST, Part
from emqkit.sim.promises.events import LANDS, SETTLING, UNSENT, Answered, Transition, changed_parents, recorded
from emqkit.sim.promises.facts import Delivered, Facts, Landed, Revived, Settled
from emqkit.sim.worlds.actors import Role
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World
from emqkit.wire import ErrorReply

__all__ = ["seen", "work_done"]


def seen(world: World, move: Transition, facts: Facts) -> Iterator[Witness]:
    """The witnesses of a move; `facts` are those before it."""
    did = move.did
    if did.answers or move.foreign:
        yield from _of_scripts(world, move, facts)
    if did.landed and any(Landed(row.id) in facts for row in did.landed):
        yield Witness.LANDED_AGAIN
    if did.changed:
        yield from _of_parents(world, move)
    if did.ended:
        yield from _of_ends(move)
    if move.program is not None and move.program.function.__name__ == "claim":
        looks = (call.verb == "HEXISTS" and call.args == (b"paused",) and reply == 1 for call, reply in move.calls)
        if any(looks):
            yield Witness.PAUSED


def work_done(move: Transition) -> Iterator[tuple[Role, str]]:
    """The roles that a move performs, judged by what it changes: role and queue."""
    for before in move.before.queues:
        after = move.after[before.queue]
        if after is before:
            continue
        pending = after.members("pending")
        if any(score == PAST and id in pending for id, score in _gone(before, after, "active")):
            yield "reaper", before.queue
        if any(id in pending for id, _ in _gone(before, after, "schedule")):
            yield "promoter", before.queue
        settled = any(id not in pending for id, _ in _gone(before, after, "active"))
        if settled and not move.did.removed:
            yield "worker", before.queue
        if set(before.entries) - set(after.entries):
            yield "pump", before.queue


def _gone(before: Part, after: Part, name: str) -> list[tuple[str, float]]:
    """The members removed from a set."""
    return [(id, score) for id, score in before.members(name).items() if id not in after.members(name)]


def _of_scripts(world: World, move: Transition, facts: Facts) -> Iterator[Witness]:
    did = move.did
    for claim in did.claims:
        yield Witness.CLAIMED
        if claim.token > 1:
            yield Witness.CLAIMED_AGAIN
        owed = world.owed.get(claim.id)
        if owed is not None and owed.queue == claim.queue:
            yield Witness.PARENT_CLAIMED
    for settle in did.settles:
        yield Witness.SETTLED
        if Settled(settle.id, settle.token, settle.verb) in facts:
            yield Witness.SETTLED_AGAIN
        if settle.answer == "dead" and settle.id in world.links:
            yield Witness.CHILD_DIED
        if Revived(settle.id) in facts:
            yield Witness.RAN_AGAIN
    for delivery in did.deliveries:
        if isinstance(delivery.reply, ErrorReply):
            yield Witness.UNHEARD
        if delivery.reply == 1:
            yield Witness.DELIVERED
            if Delivered(delivery.verb, delivery.child, delivery.parent) in facts:
                yield Witness.DELIVERED_AGAIN
    if did.fatal:
        yield Witness.PARENT_FAILED
    if any(extension.ids for extension in did.extensions):
        yield Witness.EXTENDED
    if did.revived:
        yield Witness.REPROCESSED
    if did.removed:
        yield Witness.REMOVED
    for one in did.answers:
        yield from _of_answer(move, one, facts)


def _of_answer(move: Transition, one: Answered, facts: Facts) -> Iterator[Witness]:
    if one.refused:
        yield Witness.REFUSED
        if one.verb in SETTLING:
            id = one.args.text("id")
            if any(isinstance(fact, Settled) and fact.id == id for fact in facts):
                yield Witness.SETTLED_AGAIN
    if one.verb == "reap" and isinstance(one.reply, int) and one.reply > 0:
        yield Witness.REAPED
    if one.verb == "claim" and move.began_paused and move.before[one.queue].paused:
        yield Witness.PAUSED


def _of_parents(world: World, move: Transition) -> Iterator[Witness]:
    for owed, before, after in changed_parents(world, move):
        if before.row(owed.id) is None and after.row(owed.id) is not None and move.did.lands:
            yield Witness.LANDED
        if before.state(owed.id) == "awaiting_children" and owed.id in after.members("pending"):
            yield Witness.RELEASED
        if before.row(owed.id) is not None and after.row(owed.id) is None:
            yield Witness.FINISHED
        for link in owed.links:
            if not recorded(before, owed.id, link.id) and recorded(after, owed.id, link.id):
                yield Witness.RECORDED


def _of_ends(move: Transition) -> Iterator[Witness]:
    for program, done in move.ended:
        if isinstance(done.value, BulkAdded):
            if done.value.failed:
                yield Witness.NOT_LANDED
        elif done.error is not None and any(call.verb in LANDS for call, _ in move.calls):
            yield Witness.NOT_LANDED
        if program != move.program and isinstance(done.error, UNSENT):
            yield Witness.NOT_SENT
