"""The promises about landing, repeating and being refused: P1, P10, P11 and P12."""

from __future__ import annotations

from collections.abc import Iterator

from emqkit import outbox
from emqkit.keyspace import Keyspace, Part
from emqkit.outbox import Poison
from emqkit.sim.promises.clauses import Lacks, Promise, of_end, of_move
from emqkit.sim.promises.events import UNSENT, Transition, changed_parents, placed, spoilt
from emqkit.sim.promises.facts import Delivered, Facts, Landed, Removed, Settled, Unheard
from emqkit.sim.worlds.actors import Operator
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World

__all__ = ["ALL_OR_NOTHING", "CLEAN_REFUSAL", "ISOLATED", "REPEATABLE"]


# --- P1 ---------------------------------------------------------------------------------------------------------------


def _lands_in_one_step(world: World) -> str | None:
    if not any(owed.one_step for owed in world.owed.values()):
        return "no flow of this world is one level in one queue"
    return None if world.lands_later else "no flow lands while this world runs"


@of_move("a flow lands whole", Witness.LANDED, on="changed", concerns=_lands_in_one_step, required=True)
def _whole(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for owed, before, after in changed_parents(world, move):
        ids = (owed.id, *(link.id for link in owed.links))
        if not owed.one_step or any(_there(before, id) for id in ids) or not any(_there(after, id) for id in ids):
            continue
        held = after.state(owed.id) == "awaiting_children" and not after.places(owed.id)
        counted = after.counter(owed.id) == len(owed.links)
        rows = [after.row(link.id) or {} for link in owed.links]
        linked = all(row.get("state") == b"pending" and row.get("parent") == owed.id.encode() for row in rows)
        claimable = all(after.places(link.id) == ("pending",) for link in owed.links)
        if not (held and counted and linked and claimable):
            yield f"one move landed the flow of {world.label(owed.id)} otherwise than held, counted and linked"


def _there(part: Part, id: str) -> bool:
    return bool(part.of(id) or part.places(id))


ALL_OR_NOTHING = Promise(
    "P1",
    "all or nothing",
    "One move takes a one-level same-queue flow from no key to held parent, counter and pending children.",
    (_whole,),
)


# --- P10 --------------------------------------------------------------------------------------------------------------


def _lands_beside_another(world: World) -> str | None:
    return None if len(world.flows) > 1 and world.lands_later else "no second flow lands in this world"


def _poisoned(world: World) -> str | None:
    return None if world.faults.poisons else "there is no poison in this world"


def _pumped(world: World, lacks: Lacks) -> str | None:
    unpumped = [queue for queue, roles in lacks.items() if "pump" in roles]
    return f"queue {unpumped[0]} has no pump" if unpumped and world.faults.poisons else None


@of_move("another flow is left alone", Witness.NOT_LANDED, on="landed", concerns=_lands_beside_another, required=True)
def _others(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    rows = [row.id for row in move.did.landed if row.id in world.flow_of]
    if not rows:
        return
    own = frozenset.intersection(*(world.flow_of[id] for id in rows))
    for after in move.after.parts:
        before = move.before[after.queue]
        for id, flows in world.flow_of.items() if before is not after else ():
            if not flows & own and (before.of(id), before.places(id)) != (after.of(id), after.places(id)):
                yield f"landing {world.label(rows[0])} changed {world.label(id)}, of another flow"


@of_move("poison is kept", Witness.POISONED, on="changed", concerns=_poisoned, required=True)
def _poison_kept(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for queue, entry in _dropped(move):
        if isinstance(outbox.decode(entry), Poison):
            yield f"a poison entry of {queue} was dropped"


@of_move("what met an error is kept", Witness.UNHEARD, on="changed", concerns=_poisoned)
def _unheard_kept(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for _, entry in _dropped(move):
        signal = outbox.decode(entry)
        if not isinstance(signal, Poison) and Unheard(signal.child_id, signal.parent_id) in facts:
            yield (
                f"the entry of {world.label(signal.child_id)} was dropped, whose delivery was answered with an error"
            )


def _dropped(move: Transition) -> Iterator[tuple[str, bytes]]:
    """The outbox entries that a move removed from their queue: no value of any type holds them any more."""
    for part in move.before.parts:
        if part.entries and (after := move.after[part.queue]) is not part:
            yield from ((part.queue, entry) for entry in sorted(set(part.entries) - after.kept))


@of_end("what is behind poison arrives", Witness.POISONED, concerns=_poisoned, ends=_pumped)
def _behind(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for part in keyspace.queues:
        for signal in part.signals:
            if not isinstance(signal, Poison) and not spoilt(keyspace, signal.parent_queue, signal.parent_id):
                yield f"the entry of {world.label(signal.child_id)} waits in the outbox of {part.queue} for ever"


ISOLATED = Promise(
    "P10",
    "isolated",
    "A flow that fails leaves others alone; poison is kept, and what is behind it arrives.",
    (_others, _poison_kept, _unheard_kept, _behind),
    unconcerned="there is no poison here, and no second flow that lands",
    one_is_enough=True,
)


# --- P11 --------------------------------------------------------------------------------------------------------------


def _adds_again(world: World) -> str | None:
    faults = world.faults
    again = world.lands_later and bool(faults.lost_replies or faults.crashes)
    again = again or any(getattr(actor, "repeats", 0) for actor in world.actors)
    return None if again else "nobody adds anything again in this world"


def _settles_again(world: World) -> str | None:
    return None if world.faults.lost_replies else "nobody settles anything again in this world"


def _delivers_again(world: World) -> str | None:
    pumped = any(actor.role == "pump" for actor in world.actors)
    again = world.faults.redeliveries or (world.faults.crashes and pumped)
    return None if again else "nobody delivers anything again in this world"


def _added_again(move: Transition, facts: Facts) -> Iterator[tuple[str, Part, Part]]:
    """The ids that a move lands again, each with its queue before and after."""
    for row in move.did.landed if move.did.changed else ():
        if Landed(row.id) in facts and Removed(row.id) not in facts:
            yield row.id, move.before[row.queue], move.after[row.queue]


@of_move("an add brings no row back", Witness.LANDED_AGAIN, on="landed", concerns=_adds_again, required=True)
def _row_back(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for id, before, after in _added_again(move, facts):
        if before.row(id) is None and after.row(id) is not None:
            yield f"adding {world.label(id)} again brought back its row, which was gone"


@of_move("an add changes no row", Witness.LANDED_AGAIN, on="landed", concerns=_adds_again)
def _row_changed(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for id, before, after in _added_again(move, facts):
        row = after.row(id) or {}
        if any(row.get(name) != value for name, value in (before.row(id) or {}).items()):
            yield f"adding {world.label(id)} again changed its row"


@of_move("an add moves nothing", Witness.LANDED_AGAIN, on="landed", concerns=_adds_again)
def _row_moved(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for id, before, after in _added_again(move, facts):
        if before.row(id) is not None and before.places(id) != after.places(id):
            yield f"adding {world.label(id)} again moved it from {placed(before, id)} to {placed(after, id)}"


@of_move("an add changes nothing collected", Witness.LANDED_AGAIN, on="landed", concerns=_adds_again)
def _collected(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for id, before, after in _added_again(move, facts):
        kept = {name: value for name, value in before.of(id).items() if name != "row"}
        if before.row(id) is not None and any(after.of(id).get(name) != value for name, value in kept.items()):
            yield f"adding {world.label(id)} again changed what it has collected"


@of_move("a settle again", Witness.SETTLED_AGAIN, on="settles", concerns=_settles_again, required=True)
def _settled_again(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for settle in move.did.settles if move.did.changed else ():
        if Settled(settle.id, settle.token, settle.verb) in facts:
            yield (
                f"{settle.verb} of {world.label(settle.id)} with token {settle.token}, repeated, "
                "changed something again"
            )


@of_move("a delivery again", Witness.DELIVERED_AGAIN, on="deliveries", concerns=_delivers_again, required=True)
def _delivered_again(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for delivery in move.did.deliveries if move.did.changed else ():
        if delivery.reply == 1 and Delivered(delivery.verb, delivery.child, delivery.parent) in facts:
            yield f"delivering the entry of {world.label(delivery.child)} again changed something again"


REPEATABLE = Promise(
    "P11",
    "repeatable",
    "The same add, settle or delivery again changes nothing but what was missing.",
    (_row_back, _row_changed, _row_moved, _collected, _settled_again, _delivered_again),
    unconcerned="nobody has a reason to repeat anything in this world",
    one_is_enough=True,
)


# --- P12 --------------------------------------------------------------------------------------------------------------


def _asks_in_vain(world: World) -> str | None:
    faults = world.faults
    if faults.lost_replies or faults.lapses:  # a settle that is repeated or late
        return None
    for actor in world.actors:
        if isinstance(actor, Operator):
            if any(deed.verb in ("reprocess", "remove") for deed in actor.deeds):
                return None
        elif actor.role == "producer" and (faults.crashes or getattr(actor, "repeats", 0) or len(world.flows) > 1):
            return None
    return "nobody in this world asks for what was done or taken away before"


@of_move("a refusal changes nothing", Witness.REFUSED, on="answers", concerns=_asks_in_vain, required=True)
def _refusal(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    if len(move.calls) == 1 and move.did.changed:
        for one in move.did.answers:
            if one.refused:
                yield f"{one.verb} answered {one.reply!s} and changed something"


@of_move("a host refusal sends nothing", Witness.NOT_SENT, on="ended", concerns=_asks_in_vain)
def _sent(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for program, done in move.ended:
        if program == move.program and isinstance(done.error, UNSENT):
            yield f"{program.name} says that nothing was sent, after it had sent something"


CLEAN_REFUSAL = Promise(
    "P12",
    "clean refusal",
    "What answers 0, −1 or an EMQ error leaves every key as it was, and a host refusal sends nothing.",
    (_refusal, _sent),
)
