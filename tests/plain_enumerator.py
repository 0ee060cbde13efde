"""The explorer's other half for its own tests: depth first, one real call a move, every key dumped, nothing remembered.

It shares the operations, the actors' choices and the promises' checks with the explorer, and none of its machinery: no
numbers for states, no memory of effects, no cutting by queue, no symmetry, no order of search.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from emqkit.errors import ReplyLost
from emqkit.keyspace import FUTURE, PAST, Keyspace, Part, canonical_reply, parts_of
from emqkit.servers import Server
from emqkit.sim.promises import PROMISES, Facts, Move, Promise, at_start, remember
from emqkit.sim.worlds.actors import Choice, Kit
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Ranked, Snapshot, capture, restore
from emqkit.wire import Call, Done, Flush, Program

CRASH, LOST, LAPSE = 0, 1, 2


@dataclass(frozen=True)
class Place:
    """Where one actor is: like the explorer's, kept whole."""

    actor: int
    memory: Any
    program: Program[Any] | None
    replies: tuple[Any, ...] = ()
    inflight: tuple[Any, ...] = ()

    @property
    def flush(self) -> Flush[Any] | None:
        if self.program is None:
            return None
        following = self.program.after(self.replies)
        assert isinstance(following, Flush)
        return following

    def key(self, world: World) -> object:
        told = []
        for n, replies in enumerate(self.replies):
            if isinstance(replies, Exception):
                told.append("lost")
                continue
            assert self.program is not None
            asked = self.program.after(self.replies[:n])
            assert isinstance(asked, Flush)
            told.append(tuple(map(canonical_reply, asked.calls, replies)))
        partly = tuple(map(canonical_reply, self.flush.calls, self.inflight)) if self.flush else ()
        return (world.actors.index(world.actors[self.actor]), self.memory, self.program, tuple(told), partly)


@dataclass
class Plain:
    """What it found."""

    states: set[object] = field(default_factory=set)
    transitions: int = 0
    calls: int = 0
    broken: set[str] = field(default_factory=set)
    made: list[tuple[Snapshot, Call[Any]]] = field(default_factory=list)


def enumerate_plainly(
    world: World, server: Server, *, promises: tuple[Promise, ...] = PROMISES, most_calls: int | None = None
) -> Plain:
    """Every state of a world with crashes, lost replies and lapses; `most_calls` ends it early, for a benchmark."""
    kit = Kit(server)
    for plan in world.flows if world.landed else ():
        kit.flows.add.program(plan.queue, plan.flow).run(server)
    found = Plain()
    start = [_choose(world, kit, n, actor.begin(kit))[0][0] for n, actor in enumerate(world.actors)]
    stack = [(_look(server), at_start(world), tuple(start), world.faults.budget[:3])]
    while stack:
        if most_calls is not None and found.calls >= most_calls:
            break
        keyspace, known, places, left = stack.pop()
        key = (keyspace, known, _ordered(world, places), left)
        if key in found.states:
            continue
        found.states.add(key)
        _states(world, promises, keyspace, known, found)
        for n, place in enumerate(places):
            if any(places[m].key(world) == place.key(world) for m in range(n) if world.actors[m] == world.actors[n]):
                continue  # an equal actor in the same place makes the same moves
            for after, facts_after, following, cost in _moves(
                world, kit, server, promises, keyspace, known, place, found
            ):
                if cost is not None and not left[cost]:
                    continue
                found.transitions += 1
                stack.append((after, facts_after, _with(places, n, following), _spent(left, cost)))
        for after, cost in _time(keyspace, places, left):
            found.transitions += 1
            stack.append((after, known, places, _spent(left, cost)))
    return found


def _ordered(world: World, places: tuple[Place, ...]) -> object:
    """The places with equal actors in any order."""
    return frozenset(
        (key, sum(place.key(world) == key for place in places)) for key in {place.key(world) for place in places}
    )


def _with(places: tuple[Place, ...], n: int, place: Place) -> tuple[Place, ...]:
    return (*places[:n], place, *places[n + 1 :])


def _spent(left: tuple[int, ...], cost: int | None) -> tuple[int, ...]:
    return left if cost is None else tuple(n - (place == cost) for place, n in enumerate(left))


def _look(server: Server) -> Keyspace:
    return Keyspace(parts_of(capture(server))[0])


def _choose(
    world: World, kit: Kit, n: int, choices: tuple[Choice, ...], ended: tuple[Any, ...] = ()
) -> list[tuple[Place, tuple[Any, ...]]]:
    found: list[tuple[Place, tuple[Any, ...]]] = []
    for choice in choices:
        following = None if choice.program is None else choice.program.after(())
        if isinstance(following, Done):
            assert choice.program is not None
            then = world.actors[n].after(kit, choice.memory, choice.program, following)
            found += _choose(world, kit, n, then, (*ended, (choice.program, following)))
        else:
            found.append((Place(n, choice.memory, choice.program), ended))
    return found


def _moves(
    world: World,
    kit: Kit,
    server: Server,
    promises: tuple[Promise, ...],
    keyspace: Keyspace,
    known: Facts,
    place: Place,
    found: Plain,
) -> list[tuple[Keyspace, Facts, Place, int | None]]:
    flush = place.flush
    if flush is None:
        return []
    assert place.program is not None
    actor = world.actors[place.actor]
    out: list[tuple[Keyspace, Facts, Place, int | None]] = []
    call = flush.calls[len(place.inflight)]
    restore(server, keyspace.snapshot)
    (reply,) = server.round_trip(Flush((call,)))
    found.calls += 1
    found.made.append((keyspace.snapshot, call))
    snapshot = capture(server)
    parts, metrics = parts_of(snapshot)
    after = Keyspace(parts)
    inflight = (*place.inflight, reply)
    last = len(inflight) == len(flush.calls)
    lost = ReplyLost("sim://", flush.calls[0].verb)

    def goes_on(given: Any) -> list[tuple[Place, tuple[Any, ...]]]:
        replies = (*place.replies, given)
        assert place.program is not None
        following = place.program.after(replies)
        if isinstance(following, Flush):
            return [(Place(place.actor, place.memory, place.program, replies), ())]
        choices = actor.after(kit, place.memory, place.program, following)
        return _choose(world, kit, place.actor, choices, ((place.program, following),))

    def made(ways: list[tuple[Place, tuple[Any, ...]]], cost: int | None) -> None:
        for following, ended in ways:
            paused = False
            if call.verb == "claim":
                paused = bool(place.replies) and place.replies[0] == (1,)
            move = Move(
                "call", place.program, ((call, reply),), keyspace, after, server.scripts, bool(metrics), paused, ended
            )
            if cost is None or world.faults.budget[cost]:
                for promise in promises:
                    if any(promise.move(world, move, known)):
                        found.broken.add(promise.name)
            out.append((after, remember(world, move, known, trims=False), following, cost))

    partly = [(Place(place.actor, place.memory, place.program, place.replies, inflight), ())]
    made(goes_on(inflight) if last else partly, None)
    out.extend((keyspace, known, following, LOST) for following, _ in goes_on(lost))
    if last:
        made(goes_on(lost), LOST)
    restarted = _choose(world, kit, place.actor, actor.crashed(kit, place.memory))
    if [way.key(world) for way, _ in restarted] != [place.key(world)]:
        out.extend((keyspace, known, following, CRASH) for following, _ in restarted)
    return out


def _states(world: World, promises: tuple[Promise, ...], keyspace: Keyspace, known: Facts, found: Plain) -> None:
    for promise in promises:
        if any(any(promise.part(world, part)) for part in keyspace.parts) or any(promise.state(world, keyspace, known)):
            found.broken.add(promise.name)


def _time(keyspace: Keyspace, places: tuple[Place, ...], left: tuple[int, ...]) -> list[tuple[Keyspace, int | None]]:
    held = {(claim.queue, claim.id, claim.token) for place in places if (claim := place.memory) and _is_claim(claim)}
    out: list[tuple[Keyspace, int | None]] = []
    for part in keyspace.parts:
        for name in ("active", "schedule"):
            for id, score in part.members(name).items():
                if score != FUTURE:
                    continue
                attempts = (part.row(id) or {}).get("attempts", b"-1")
                alive = name == "active" and (part.queue, id, int(attempts)) in held
                if not alive:
                    out.append((_later(keyspace, part, name, id), None))
                elif left[LAPSE]:
                    out.append((_later(keyspace, part, name, id), LAPSE))
    return out


def _is_claim(memory: object) -> bool:
    return type(memory).__name__ == "Claim"


def _later(keyspace: Keyspace, part: Part, name: str, id: str) -> Keyspace:
    entries = []
    for key, value in part.snapshot.entries:
        if key.endswith(b":" + name.encode()) and isinstance(value, Ranked):
            scores = [(member, PAST if member == id.encode() else score) for member, score in value.members]
            value = Ranked(tuple(sorted(scores, key=lambda pair: (pair[1], pair[0]))))
        entries.append((key, value))
    moved = Part(part.queue, Snapshot(tuple(entries), part.snapshot.now))
    return Keyspace(tuple(moved if one is part else one for one in keyspace.parts))
