"""The promises to a parent, and through it to its children: P2, P3, P4, P5, P8, P13 and P16."""

from __future__ import annotations

from collections.abc import Iterator

from emqkit import keys, outbox
from emqkit.keyspace import Keyspace, Part
from emqkit.outbox import Failure, Poison
from emqkit.sim.promises.clauses import Lacks, Promise, of_end, of_move, of_part, of_state
from emqkit.sim.promises.events import (
    LANDS,
    RECORDS,
    HandedOut,
    Row,
    Settle,
    Transition,
    changed_parents,
    recorded,
    spoilt,
)
from emqkit.sim.promises.facts import Added, Facts, Outcome, Released, Removed, Revived, Settled
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import Link, Owed, World

__all__ = ["COUNT", "HELD", "LEFTOVERS", "NO_DROP", "ONCE", "ONE_OUTCOME", "POLICY"]


# --- P2 ---------------------------------------------------------------------------------------------------------------


@of_move("a claim of a parent", Witness.PARENT_CLAIMED, on="claims", required=True)
def _claimed_whole(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for claim in move.did.claims:
        owed = world.owed.get(claim.id)
        if owed is None or owed.queue != claim.queue:
            continue
        part = move.before[owed.queue]
        left = [
            world.label(link.id)
            for link in owed.links
            if not recorded(part, owed.id, link.id, ("processed", "unsuccessful"))
        ]
        if left:
            yield f"{world.label(owed.id)} was claimed while {_listed(left)} outstanding"


def _listed(words: list[str]) -> str:
    return f"{words[0]} is" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]} are"


HELD = Promise("P2", "held", "No claim hands out a parent with an outstanding child.", (_claimed_whole,))


# --- P3 ---------------------------------------------------------------------------------------------------------------


@of_state("an outcome is kept", Witness.RECORDED, required=True)
def _outcome_kept(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for link in world.links.values():
        how = next((fact.what for fact in facts if isinstance(fact, Outcome) and fact.child == link.id), None)
        parent = keyspace[link.parent_queue]
        if how is None or parent.row(link.parent_id) is None or recorded(parent, link.parent_id, link.id):
            continue
        if not _signalled(keyspace, link):
            yield (
                f"{world.label(link.id)} {'died' if how == 'dead' else how}, and neither the hashes of "
                f"{world.label(link.parent_id)} nor an outbox know it"
            )


def _signalled(keyspace: Keyspace, link: Link) -> bool:
    signals = (outbox.decode(entry) for part in keyspace.parts for entry in part.kept)
    return any(
        not isinstance(signal, Poison) and (signal.child_id, signal.parent_id) == (link.id, link.parent_id)
        for signal in signals
    )


def _served(world: World, lacks: Lacks) -> str | None:
    for queue in world.queues:
        if roles := lacks.get(queue):
            named = ("worker that settles" if role == "worker" else role for role in roles)
            return f"queue {queue} has no {' and no '.join(named)}"
    return None


def _paused(world: World, keyspace: Keyspace) -> frozenset[str]:
    return frozenset(queue for queue in world.queues if keyspace[queue].paused)


@of_end("a parent does not stay held", Witness.RELEASED, ends=_served, unmet=_paused, required=True)
def _not_for_ever(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for owed in world.owed.values():
        removed = any(Removed(id) in facts for id in world.ids_of(owed.flow))
        if Added(owed.flow) not in facts or removed or spoilt(keyspace, owed.queue, owed.id):
            continue
        if keyspace[owed.queue].state(owed.id) == "awaiting_children":
            yield f"{world.label(owed.id)} stays held for ever"


NO_DROP = Promise(
    "P3",
    "no drop",
    "A child's outcome is in its parent's hashes, in an outbox or set aside, and no parent stays held for ever.",
    (_outcome_kept, _not_for_ever),
)


# --- P4 ---------------------------------------------------------------------------------------------------------------

OPENLY = frozenset({*LANDS, "reprocess", "claim", "remove_job"})
"""The scripts that move or remove a parent because a caller asked for that."""


def _touched(world: World, move: Transition) -> Iterator[tuple[str, Owed, Part, Part]]:
    """The parents whose queue a move changed that was not asked to move them: each with the move's name."""
    did = move.did
    if not did.changed or not move.calls or (len(move.calls) > 1 and not move.foreign) or move.name in OPENLY:
        return
    rows: tuple[HandedOut | Row, ...] = (*did.claims, *did.landed, *did.removed, *did.revived)
    openly = {one.id for one in rows} if move.foreign else set()
    for owed, before, after in changed_parents(world, move) if did.answers or move.foreign else ():
        if owed.id not in openly:
            yield move.name, owed, before, after


def _entering(world: World, move: Transition) -> Iterator[tuple[str, Owed, str | None, bool]]:
    """The parents that such a script put into pending, with the state each was in, and whether it was dead."""
    for verb, owed, before, after in _touched(world, move):
        state = before.state(owed.id)
        if before.row(owed.id) is None or owed.id not in after.members("pending"):
            continue
        if move.foreign and {"active", "schedule"}.intersection(before.places(owed.id)):
            continue  # its own lapsed lease, or its own retry
        stayed = owed.id in before.members("pending") and (state == "pending" or after.state(owed.id) != "pending")
        if not stayed:
            yield verb, owed, state, state == "dead" or "dead" in before.places(owed.id)


@of_move("the gone stay gone", Witness.FINISHED, on="changed")
def _gone(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for verb, owed, before, after in _touched(world, move):
        enters = owed.id in after.members("pending") and owed.id not in before.members("pending")
        appears = owed.id in after.ids and not before.places(owed.id)
        if before.row(owed.id) is None and (enters or appears):
            yield f"{verb} brought {world.label(owed.id)} back, whose row is gone"


@of_move("the dead stay dead", Witness.PARENT_FAILED, on="changed")
def _dead(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for verb, owed, _, dead in _entering(world, move):
        if dead:
            yield f"{verb} brought {world.label(owed.id)} back, which was dead"


@of_move("one release a life", Witness.RELEASED, on="changed", required=True)
def _again(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for verb, owed, _, dead in _entering(world, move):
        if not dead and verb not in ("reap", "promote") and Released(owed.id) in facts:
            yield f"{verb} released {world.label(owed.id)} a second time in one life"


@of_move("only the held are released", Witness.RELEASED, on="changed")
def _unheld(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for verb, owed, state, dead in _entering(world, move):
        if dead or verb in ("reap", "promote") or Released(owed.id) in facts:
            continue
        if state != "awaiting_children":
            yield f"{verb} put {world.label(owed.id)} into pending, which was {state} and not held"


ONCE = Promise(
    "P4",
    "once",
    "In one life a parent is released at most once, and nothing brings back a dead one.",
    (_gone, _dead, _again, _unheld),
)


# --- P5 ---------------------------------------------------------------------------------------------------------------


@of_part("the counts add up", Witness.RECORDED, required=True)
def _adds_up(world: World, part: Part) -> Iterator[str]:
    for owed in world.owed.values():
        counter = part.counter(owed.id) if owed.queue == part.queue else None
        outcomes = len(part.hash(owed.id, "processed")) + len(part.hash(owed.id, "unsuccessful"))
        if counter is not None and counter + outcomes != len(owed.links):
            yield _counts(world, owed, part)


@of_part("no counter is below zero", Witness.RECORDED)
def _not_negative(world: World, part: Part) -> Iterator[str]:
    for owed in world.owed.values():
        if owed.queue == part.queue and (part.counter(owed.id) or 0) < 0:
            yield _counts(world, owed, part)


def _counts(world: World, owed: Owed, part: Part) -> str:
    return (
        f"the counter of {world.label(owed.id)} is {part.counter(owed.id)} beside "
        f"{len(part.hash(owed.id, 'processed'))} processed and {len(part.hash(owed.id, 'unsuccessful'))} unsuccessful "
        f"of {len(owed.links)} children"
    )


@of_move("a death that fails the parent is not counted", Witness.PARENT_FAILED, on="fatal")
def _fatal_uncounted(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for parent in move.did.fatal:
        before, after = move.before[parent.queue].counter(parent.id), move.after[parent.queue].counter(parent.id)
        if before != after:
            yield f"a death that fails {world.label(parent.id)} moved its counter from {before} to {after}"


COUNT = Promise(
    "P5",
    "count",
    "Counter, processed and unsuccessful add up to N.",
    (_adds_up, _not_negative, _fatal_uncounted),
)


# --- P8 ---------------------------------------------------------------------------------------------------------------


@of_part("one record", Witness.RECORDED, required=True)
def _one_record(world: World, part: Part) -> Iterator[str]:
    for link in world.links.values():
        if link.parent_queue != part.queue:
            continue
        where = [name for name in RECORDS if link.id in part.hash(link.parent_id, name)]
        if len(where) > 1:
            yield f"{world.label(link.id)} is in {' and in '.join(where)} of {world.label(link.parent_id)}"


@of_move("a record stays as it is", Witness.RECORDED, on="changed")
def _unchanged(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for owed, before, after in changed_parents(world, move):
        over = after.row(owed.id) is None  # once the parent's life is over, its records may be deleted, but not changed
        for name in RECORDS:
            new = after.hash(owed.id, name)
            for child, value in before.hash(owed.id, name).items():
                if new.get(child, value if over else None) != value:
                    yield f"what {name} of {world.label(owed.id)} says of {world.label(child)} changed"


ONE_OUTCOME = Promise(
    "P8", "one outcome", "A child has one outcome, and what is recorded never changes.", (_one_record, _unchanged)
)


# --- P13 --------------------------------------------------------------------------------------------------------------


def _may_die(world: World) -> str | None:
    fails = any(getattr(actor, "outcome", "fail") != "complete" for actor in world.actors if actor.role == "worker")
    return None if fails and world.links else "no child can die in this world"


def _deaths(world: World, move: Transition, facts: Facts) -> Iterator[tuple[Link, Settle]]:
    """The children that a move made dead, unless this death, or another outcome, has already taken effect."""
    for settle in move.did.settles:
        link = world.links.get(settle.id)
        if link is None or settle.answer != "dead" or link.queue != settle.queue:
            continue
        if Settled(settle.id, settle.token, settle.verb) not in facts and Revived(settle.id) not in facts:
            yield link, settle


@of_move("a death is recorded", Witness.CHILD_DIED, on="settles", concerns=_may_die, required=True)
def _death_recorded(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link, _ in _deaths(world, move, facts):
        where = "unsuccessful" if link.policy == "id" else "failed"
        if link.queue == link.parent_queue and not recorded(
            move.after[link.parent_queue], link.parent_id, link.id, (where,)
        ):
            yield f"{world.label(link.id)} died with policy {link.policy}, and {where} does not know it"


def _newly_amiss(link: Link, move: Transition) -> str | None:
    """The hash that has this child's death by this move, although its policy names the other one."""
    other = "failed" if link.policy == "id" else "unsuccessful"
    before, after = move.before[link.parent_queue], move.after[link.parent_queue]
    new = recorded(after, link.parent_id, link.id, (other,)) and not recorded(before, link.parent_id, link.id, (other,))
    return other if new else None


@of_move("a death follows its own policy alone", Witness.CHILD_DIED, on="settles", concerns=_may_die)
def _not_the_other(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link, _ in _deaths(world, move, facts):
        if link.queue == link.parent_queue and _newly_amiss(link, move):
            yield f"{world.label(link.id)} died with policy {link.policy} and was treated as the other one"


@of_move("a death is signalled", Witness.CHILD_DIED, on="settles", concerns=_may_die)
def _death_signalled(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link, settle in _deaths(world, move, facts):
        # An entry that was there before says the same: the child died before, in an earlier life.
        signals = (*move.before[settle.queue].signals, *move.after[settle.queue].signals)
        if link.queue != link.parent_queue and not any(
            isinstance(signal, Failure) and signal.child_id == link.id for signal in signals
        ):
            yield f"{world.label(link.id)} died and left no signal to {world.label(link.parent_id)}"


@of_move("a signal carries the policy", Witness.CHILD_DIED, on="changed", concerns=_may_die)
def _signal_policy(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for entry in _new_entries(world, move, facts):
        signal = outbox.decode(entry)
        if isinstance(signal, Failure) and (link := world.links.get(signal.child_id)) is not None:
            if (signal.policy == "id") != (link.policy == "id"):
                yield f"the death of {world.label(link.id)} was signalled with {signal.policy}, not {link.policy}"


def _new_entries(world: World, move: Transition, facts: Facts) -> Iterator[bytes]:
    """The signals that a death, or a host that lets one climb, put into an outbox."""
    for link, settle in _deaths(world, move, facts):
        if link.queue != link.parent_queue:
            yield from sorted(set(move.after[settle.queue].entries) - set(move.before[settle.queue].entries))
    for call, _ in move.calls:
        key = keys.parse(call.keys[0]) if call.verb == "RPUSH" else None
        if key is not None and key.id is None and key.name == "flow:outbox":
            yield from call.args


@of_move("a delivered death follows its policy", Witness.CHILD_DIED, on="changed", concerns=_may_die)
def _delivered_by_policy(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link in world.links.values():
        if link.queue != link.parent_queue and (other := _newly_amiss(link, move)):
            yield f"{world.label(link.id)} died with policy {link.policy}, and its delivery put it into {other}"


POLICY = Promise(
    "P13",
    "policy",
    "A child's death does to its parent what its flow declared.",
    (_death_recorded, _not_the_other, _death_signalled, _signal_policy, _delivered_by_policy),
)


# --- P16 --------------------------------------------------------------------------------------------------------------

STAYS = frozenset({"dependencies", *RECORDS})
"""The keys of a parent that outlive it in every script set."""


def _finished(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[Owed]:
    """The parents whose flow landed completely and whose row is gone."""
    for owed in world.owed.values():
        if Added(owed.flow) in facts and keyspace[owed.queue].row(owed.id) is None:
            yield owed


@of_end("nothing else of a parent stays", Witness.FINISHED, required=True)
def _own_leftovers(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for owed in _finished(world, keyspace, facts):
        part = keyspace[owed.queue]
        if left := [*(name for name in part.of(owed.id) if name not in STAYS), *part.places(owed.id)]:
            yield f"{world.label(owed.id)} is finished, and {', '.join(left)} of it stay"


@of_end("no child outlives its parent, unless it is dead", Witness.FINISHED)
def _children_left(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for owed in _finished(world, keyspace, facts):
        for link in owed.links:
            home = keyspace[link.queue]
            if link.id not in world.owed and home.of(link.id) and home.state(link.id) != "dead":
                yield f"{world.label(owed.id)} is finished, and its child {world.label(link.id)} is still there"


LEFTOVERS = Promise(
    "P16",
    "leftovers",
    "After a flow only the keys its set names remain, for a stated time, removed by a stated means.",
    (_own_leftovers, _children_left),
    # A script's header names its keys and its moves; it cannot state a time, or who removes what.
    unstated="The script set {scripts} states neither for how long anything stays nor what removes it; "
    "only the names of what stays were checked",
)
