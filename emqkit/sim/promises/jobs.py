"""The promises to a job, in a flow or not: P6, P7, P9, P14 and P15."""

from __future__ import annotations

from collections.abc import Iterator

from emqkit import keys
from emqkit.keyspace import FUTURE, Part
from emqkit.sim.promises.clauses import Promise, always, of_move, of_part
from emqkit.sim.promises.events import Transition, placed
from emqkit.sim.promises.facts import Facts, Removed, Revived, Settled, Token
from emqkit.sim.worlds.actors import Deed, Operator
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import Link, World

__all__ = ["FENCED", "NO_GHOSTS", "ONE_PLACE", "OPERATORS", "TURN_AND_LEASE"]


# --- P6 ---------------------------------------------------------------------------------------------------------------

SET_OF = {"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}
"""The set that a row's state names; `awaiting_children` names none."""


@of_part("one set at most", Witness.CLAIMED, concerns=always, required=True)
def _one_set(world: World, part: Part) -> Iterator[str]:
    for id in sorted(part.ids):
        if len(part.places(id)) > 1:
            yield f"{world.label(id)} is in {placed(part, id)} at once"


@of_part("the set that the row names", Witness.CLAIMED, concerns=always)
def _named_set(world: World, part: Part) -> Iterator[str]:
    for id in sorted(part.rows):
        state, places = part.state(id), part.places(id)
        named = SET_OF.get(state or "")
        if state is not None and len(places) < 2 and places != ((named,) if named else ()):
            yield f"{world.label(id)} says {state} and is in {placed(part, id)}"


ONE_PLACE = Promise("P6", "one place", "An id is in exactly the set its row's state names.", (_one_set, _named_set))


# --- P7 ---------------------------------------------------------------------------------------------------------------


@of_part("a row for each id", Witness.CLAIMED, concerns=always, required=True)
def _has_row(world: World, part: Part) -> Iterator[str]:
    for id in sorted(part.ids):
        if part.row(id) is None:
            yield f"{world.label(id)} is in {placed(part, id)} and has no row"


@of_part("whole rows", Witness.CLAIMED, concerns=always)
def _whole_row(world: World, part: Part) -> Iterator[str]:
    for id, row in sorted(part.rows.items()):
        if lacks := [name for name in ("state", "attempts", "payload") if name not in row]:
            yield f"the row of {world.label(id)} has no {' and no '.join(lacks)}"


NO_GHOSTS = Promise("P7", "no ghosts", "Every id in a set has a row, and every row is whole.", (_has_row, _whole_row))


# --- P9 ---------------------------------------------------------------------------------------------------------------


def _last_token(facts: Facts, id: str) -> int | None:
    return next((fact.number for fact in facts if isinstance(fact, Token) and fact.id == id), None)


@of_move("tokens grow", Witness.CLAIMED_AGAIN, on="claims", concerns=always)
def _tokens_grow(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for claim in move.did.claims:
        last = _last_token(facts, claim.id)
        if last is not None and claim.token <= last:
            yield f"{world.label(claim.id)} was handed out with token {claim.token} after token {last}"


@of_move("the last token settles", Witness.SETTLED, on="settles", concerns=always, required=True)
def _last_settles(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for settle in move.did.settles:
        last = _last_token(facts, settle.id)
        if last is not None and settle.token < last:
            yield (
                f"{settle.verb} settled {world.label(settle.id)} with token {settle.token} after token {last} was "
                "handed out"
            )


@of_move("a token settles once", Witness.SETTLED, on="settles", concerns=always)
def _settles_once(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    settled = {(fact.id, fact.token) for fact in facts if isinstance(fact, Settled)}
    for settle in move.did.settles:
        if (settle.id, settle.token) in settled:
            yield f"token {settle.token} of {world.label(settle.id)} was settled twice"


FENCED = Promise(
    "P9",
    "fenced",
    "An id's tokens grow, and each is settled at most once and not after a later claim.",
    (_tokens_grow, _last_settles, _settles_once),
)


# --- P14 --------------------------------------------------------------------------------------------------------------


def _deeds(world: World) -> Iterator[Deed]:
    for actor in world.actors:
        yield from actor.declares
        yield from actor.deeds if isinstance(actor, Operator) else ()


def _queues(world: World, role: str) -> set[str]:
    return {queue for actor in world.actors if actor.role == role for queue in actor.queues}


def _pauses(world: World) -> str | None:
    working = _queues(world, "worker")
    paused = any(deed.verb == "pause" and deed.queue in working for deed in _deeds(world))
    return None if paused else "nobody pauses a queue that is worked on in this world"


def _reaps(world: World) -> str | None:
    # A lease lapses under a live holder by a fault; otherwise only once its holder has crashed or never got the reply.
    faults = world.faults
    lapsing = faults.lapses or faults.crashes or faults.lost_replies
    reaped = _queues(world, "worker") & _queues(world, "reaper")
    return None if lapsing and reaped else "no lease lapses and is reaped in this world"


def _extends(world: World) -> str | None:
    extends = any(getattr(actor, "heartbeats", False) for actor in world.actors)
    return None if extends else "nobody extends a lease in this world"


@of_move("the turn", Witness.CLAIMED, on="claims", concerns=always, required=True)
def _turn(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for claim in move.did.claims:
        pending = move.before[claim.queue].members("pending")
        if pending and claim.id != min(pending):
            yield f"{world.label(claim.id)} was claimed before {world.label(min(pending))}"


@of_move("a pause", Witness.PAUSED, on="claims", concerns=_pauses, required=True)
def _paused(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for claim in move.did.claims:
        if move.began_paused and move.before[claim.queue].paused:
            yield f"{world.label(claim.id)} was claimed by a claim that began in a paused {claim.queue}"


@of_move("reaping", Witness.REAPED, on="answers", concerns=_reaps, required=True)
def _live_lease(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for one in move.did.answers:
        if one.verb == "reap":
            left = move.after[one.queue].members("active")
            for id, score in move.before[one.queue].members("active").items():
                if score == FUTURE and id not in left:
                    yield f"the live lease of {world.label(id)} was reaped"


@of_move("an extension", Witness.EXTENDED, on="extensions", concerns=_extends, required=True)
def _extends_active(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for extension in move.did.extensions:
        before = move.before[extension.queue]
        for id in sorted(extension.ids):
            if id not in before.members("active"):
                yield f"an extension put {world.label(id)} into active, which was in {placed(before, id)}"


SLACK_MS = 60_000
"""How far a deadline may be from the lease that was asked for: calls take time."""


@of_move("an extension moves the deadline", Witness.EXTENDED, on="extensions", concerns=_extends)
def _extends_really(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    if move.written is None:
        return
    for extension in move.did.extensions:
        for id in sorted(extension.ids):
            ahead = move.written.get((extension.queue, "active", id))
            if ahead is None:
                yield f"an extension left the deadline of {world.label(id)} as it was"
            elif extension.lease_ms is not None and abs(ahead - extension.lease_ms) > SLACK_MS:
                yield f"an extension gave {world.label(id)} another lease than it was asked for"


@of_move("an extension changes deadlines only", Witness.EXTENDED, on="extensions", concerns=_extends)
def _extends_only(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for extension in move.did.extensions:
        active = keys.queue_key(extension.queue, "active")
        old, new = (dict(keyspace[extension.queue].snapshot.entries) for keyspace in (move.before, move.after))
        old.pop(active, None)
        new.pop(active, None)
        if old != new:
            yield "an extension changed more than deadlines"


@of_move("an extension of one lease is of no other", Witness.EXTENDED, on="extensions", concerns=_extends)
def _extends_asked(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for extension in move.did.extensions:
        after = move.after[extension.queue].members("active")
        for id, score in move.before[extension.queue].members("active").items():
            rewritten = (extension.queue, "active", id) in (move.written or ())
            if id not in extension.ids and (rewritten or after.get(id) != score):
                yield f"an extension moved the deadline of {world.label(id)}, which was not asked for"


TURN_AND_LEASE = Promise(
    "P14",
    "turn and lease",
    "A claim takes the smallest id, a pause is kept, no live lease is reaped, an extension moves a deadline only.",
    (_turn, _paused, _live_lease, _extends_active, _extends_really, _extends_only, _extends_asked),
)


# --- P15 --------------------------------------------------------------------------------------------------------------


def _removes(world: World) -> str | None:
    return None if any(deed.verb == "remove" for deed in _deeds(world)) else "nobody removes a job in this world"


def _reprocesses(world: World) -> str | None:
    again = any(deed.verb == "reprocess" for deed in _deeds(world))
    return None if again else "nobody reprocesses a job in this world"


@of_move("what is removed is gone", Witness.REMOVED, on="removed", concerns=_removes, required=True)
def _is_gone(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for row in move.did.removed:
        if row.id in move.after[row.queue].ids:
            yield f"{world.label(row.id)} was removed and is still there"


@of_move("what is removed stays away", Witness.REMOVED, on="changed", concerns=_removes)
def _stays_away(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    removed = () if move.did.lands else sorted(fact.id for fact in facts if isinstance(fact, Removed))
    for id in removed:
        queue = _home(world, id)
        if queue is not None and id not in move.before[queue].ids and id in move.after[queue].ids:
            yield f"{move.name} brought {world.label(id)} back, which an operator removed"


def _home(world: World, id: str) -> str | None:
    """The queue of a declared parent or child."""
    if id in world.owed:
        return world.owed[id].queue
    return world.links[id].queue if id in world.links else None


def _ran_again(world: World, move: Transition, facts: Facts) -> Iterator[Link]:
    """The children that a move settles, or whose signal it delivers, although their outcome was already recorded."""
    for child in move.did.reported:
        if Revived(child) in facts and child in world.links:
            yield world.links[child]


@of_move("a child run again is not counted", Witness.RAN_AGAIN, on="reported", concerns=_reprocesses, required=True)
def _not_counted(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link in _ran_again(world, move, facts):
        before, after = (k[link.parent_queue].counter(link.parent_id) for k in (move.before, move.after))
        if before != after:
            yield (
                f"{world.label(link.id)}, reprocessed after its outcome was recorded, moved the counter of "
                f"{world.label(link.parent_id)}"
            )


@of_move("a child run again moves no parent", Witness.RAN_AGAIN, on="reported", concerns=_reprocesses)
def _not_moved(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for link in _ran_again(world, move, facts):
        before, after = (k[link.parent_queue].places(link.parent_id) for k in (move.before, move.after))
        if before != after:
            yield (
                f"{world.label(link.id)}, reprocessed after its outcome was recorded, moved "
                f"{world.label(link.parent_id)}"
            )


OPERATORS = Promise(
    "P15",
    "operators",
    "What is removed stays away; a child run again moves neither parent nor counter.",
    (_is_gone, _stays_away, _not_counted, _not_moved),
    unconcerned="nobody reprocesses or removes in this world",
    one_is_enough=True,
)
