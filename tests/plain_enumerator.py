"""The explorer's other half for its own tests: depth first, one real call a transition, every key dumped, no memory.

It shares the operations, the actors' choices and the promises' checks with the explorer, and none of its machinery: no
numbers for states, no remembered effects, no cutting by queue, no order of search; what a server has forgotten it asks
the server. What can be known only of the whole graph (how deep, how short, where it ends) is worked out at the end, the
slow way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

from emqkit import keys, outbox
from emqkit.errors import ReplyLost
from emqkit.keyspace import FUTURE, PAST, Keyspace, Part, canonical_reply, parts_of
from emqkit.outbox import Completion, Poison
from emqkit.servers import Server
from emqkit.sim.promises import PROMISES, Facts, Promise, Transition, at_start, remember, seen, trimmed
from emqkit.sim.worlds.actors import Choice, Kit
from emqkit.sim.worlds.faults import Fault
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Ranked, Snapshot, capture, restore
from emqkit.transitions import flow_deliver, flow_fail_deliver
from emqkit.wire import Call, Done, ErrorReply, Flush, Program, Reply, command

FORGOTTEN = ErrorReply("NOSCRIPT", "")


@dataclass(frozen=True)
class Place:
    """Where one actor is: like the explorer's, kept whole."""

    actor: int
    memory: Any
    program: Program[Any] | None
    replies: tuple[Any, ...] = ()
    inflight: tuple[Any, ...] = ()

    @cached_property
    def flush(self) -> Flush[Any] | None:
        if self.program is None:
            return None
        following = self.program.after(self.replies)
        assert isinstance(following, Flush)
        return following

    @property
    def past(self) -> list[Any]:
        """The flushes that were answered."""
        if self.program is None:
            return []
        return [self.program.after(self.replies[:n]) for n in range(len(self.replies))]

    @property
    def again(self) -> bool:
        """Whether every call of the flush was sent, and some have to be sent again."""
        return self.flush is not None and len(self.inflight) == len(self.flush.calls)

    @property
    def next(self) -> tuple[int, tuple[Call[Any], ...]]:
        """What it sends next, and at which place of its flush."""
        assert self.flush is not None
        if self.flush.atomic:
            return 0, self.flush.calls
        at = self.inflight.index(FORGOTTEN) if self.again else len(self.inflight)
        return at, (self.flush.calls[at],)

    @property
    def gap(self) -> tuple[str, str, str] | None:
        """The operation, the call before and the call after; None at rest."""
        if self.program is None or self.flush is None:
            return None
        sent = [call for flush in self.past for call in flush.calls] + list(self.flush.calls[: len(self.inflight)])
        return self.program.name, sent[-1].verb if sent else "start", self.next[1][0].verb

    def key(self, world: World) -> object:
        told = tuple(
            "lost" if isinstance(replies, Exception) else tuple(map(canonical_reply, flush.calls, replies))
            for flush, replies in zip(self.past, self.replies, strict=True)
        )
        partly = tuple(map(canonical_reply, self.flush.calls, self.inflight)) if self.flush else ()
        return (world.actors.index(world.actors[self.actor]), self.memory, self.program, told, partly)


@dataclass(frozen=True)
class State:
    """Everything at one moment. `loaded`: the scripts that the server knows, by sha, where it may forget them."""

    keyspace: Keyspace
    loaded: frozenset[str]
    facts: Facts
    places: tuple[Place, ...]
    left: tuple[int, ...]

    def key(self, world: World) -> object:
        at = Counter(place.key(world) for place in self.places)  # equal actors in any order
        return (self.keyspace, self.loaded, self.facts, frozenset(at.items()), self.left)


@dataclass(frozen=True)
class Edge:
    """One transition: from state to state, with what it broke, what really happened, and where an actor was hit."""

    source: object
    target: object
    fault: Fault | None
    broken: frozenset[str]
    witnesses: frozenset[str]
    gap: tuple[str, str, str] | None = None


@dataclass
class Plain:
    """What it found."""

    world: World
    promises: tuple[Promise, ...]
    states: dict[object, State] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    starts: list[object] = field(default_factory=list)
    calls: int = 0
    made: list[tuple[Snapshot, Call[Any]]] = field(default_factory=list)

    @property
    def transitions(self) -> int:
        return len(self.edges)

    @property
    def witnesses(self) -> set[str]:
        return {witness for edge in self.edges for witness in edge.witnesses}

    @cached_property
    def distance(self) -> dict[object, int]:
        """How many transitions the shortest way to each state has."""
        following: dict[object, list[object]] = {}
        for edge in self.edges:
            following.setdefault(edge.source, []).append(edge.target)
        distance = dict.fromkeys(self.starts, 0)
        level = list(distance)
        while level:
            level = [target for source in level for target in following.get(source, ())]
            level = [target for target in dict.fromkeys(level) if target not in distance]
            distance |= dict.fromkeys(level, 1 + max(distance.values()))
        return distance

    @cached_property
    def shortest(self) -> dict[str, int]:
        """Each broken promise, and the length of the shortest history that breaks it."""
        lengths: dict[str, list[int]] = {}
        for edge in self.edges:
            for name in edge.broken:
                lengths.setdefault(name, []).append(self.distance[edge.source] + 1)
        for key, state in self.states.items():
            for promise in self.promises:
                parts = (says for part in state.keyspace.parts for says in promise.part(self.world, part))
                if any(parts) or any(promise.state(self.world, state.keyspace, state.facts)):
                    lengths.setdefault(promise.name, []).append(self.distance[key])
        ended: dict[str, list[int]] = {}
        for name, component in self._ended():
            ended.setdefault(name, []).append(min(self.distance[key] for key in component))
        return {name: min(found) for name, found in (ended | lengths).items()}

    def _ended(self) -> Iterator[tuple[str, frozenset[object]]]:
        """Each promise that is broken in every state of a place that no fault-free transition leaves."""
        following: dict[object, set[object]] = {key: set() for key in self.states}
        for edge in self.edges:
            if edge.fault is None:
                following[edge.source].add(edge.target)
        reached = {}
        for key in self.states:
            met, waiting = {key}, [key]
            while waiting:
                new = following[waiting.pop()] - met
                met |= new
                waiting += new
            reached[key] = frozenset(met)
        bottoms = {met for key, met in reached.items() if all(key in reached[other] for other in met)}
        for promise in self.promises:
            judged = promise.concerns(self.world) is None and promise.ends(self.world, self._lacks) is None
            for clause in promise.at_ends if judged else ():
                for component in bottoms:
                    states = [self.states[key] for key in component]
                    owed = [set(clause.check(self.world, state.keyspace, state.facts)) for state in states]
                    unmet = [clause.unmet(self.world, state.keyspace) for state in states]
                    if set.intersection(*owed) and not frozenset.intersection(*unmet):
                        yield promise.name, component

    @property
    def _lacks(self) -> dict[str, tuple[str, ...]]:
        """What each queue lacks of what ends presuppose, by what actors call themselves."""
        found = {}
        for queue in self.world.queues:
            needs = {"worker", "reaper", *(["pump"] if self.world.signals(queue) else [])}
            found[queue] = tuple(needs - {actor.role for actor in self.world.actors if queue in actor.queues})
        return found

    @property
    def gaps(self) -> dict[tuple[str, str, str], tuple[int, int, int]]:
        """For each gap: the states in which somebody stands there, the crashes and the lost replies tried there."""
        visits: Counter[tuple[str, str, str] | None] = Counter()
        for state in self.states.values():
            visits.update({place.key(self.world): place.gap for place in state.places}.values())
        hit = Counter((edge.gap, edge.fault) for edge in self.edges)
        return {
            gap: (n, hit[gap, Fault.CRASH], hit[gap, Fault.LOST_REPLY]) for gap, n in visits.items() if gap is not None
        }


def enumerate_plainly(
    world: World, server: Server, *, promises: tuple[Promise, ...] = PROMISES, most_calls: int | None = None
) -> Plain:
    """Every state of a world, with every fault its budgets allow; `most_calls` ends it early, for a benchmark."""
    for plan in world.flows if world.landed else ():
        Kit(server).flows.add.program(plan.queue, plan.flow).run(server)
    for program in world.setup(Kit(server)) if world.setup is not None else ():
        program.run(server)
    found = Plain(world, promises)
    explorer = _Enumerator(world, server, found)
    kits = explorer.kits
    begins = [[place for place, _ in explorer.choose(n, actor.begin(kits[n]))] for n, actor in enumerate(world.actors)]
    keyspace, loaded = Keyspace(parts_of(capture(server))[0]), explorer.load(frozenset(explorer.sources))
    stack = [State(keyspace, loaded, at_start(world), places, world.faults.budget) for places in product(*begins)]
    found.starts = [state.key(world) for state in stack]
    while stack and (most_calls is None or found.calls < most_calls):
        state = stack.pop()
        key = state.key(world)
        if key in found.states:
            continue
        found.states[key] = state
        for target, fault, broken, witnesses, gap in explorer.transitions(state):
            found.edges.append(Edge(key, target.key(world), fault, broken, witnesses, gap))
            stack.append(target)
    return found


Found = tuple[State, Fault | None, frozenset[str], frozenset[str], "tuple[str, str, str] | None"]
Ways = list[tuple[Place, tuple[Any, ...]]]


class _Enumerator:
    def __init__(self, world: World, server: Server, found: Plain) -> None:
        self.world = world
        self.server = server
        self.found = found
        self.kits = [Kit(server, actor.scripts) for actor in world.actors]
        sets = [server.scripts, *(kit.server.scripts for kit in self.kits)]
        self.sources = {script.sha: script.source for scripts in sets for script in scripts}

    # --- the server -------------------------------------------------------------------------------------------------

    def load(self, loaded: frozenset[str]) -> frozenset[str]:
        """Have the server know these scripts and no other, where it may be made to forget some."""
        if not self.world.faults.script_flushes:
            return frozenset()
        sources = [self.sources[sha].encode() for sha in sorted(loaded)]
        self.server.exchange([(b"SCRIPT", b"FLUSH"), *((b"SCRIPT", b"LOAD", source) for source in sources)], "scripts")
        return loaded

    def really(
        self, state: State, kit: Kit, calls: tuple[Call[Any], ...], *, atomic: bool, again: bool
    ) -> tuple[tuple[Reply, ...], Keyspace, frozenset[str], bool]:
        """The replies of calls really made in a state, what is there afterwards, and whether metrics moved."""
        restore(self.server, state.keyspace.snapshot)
        self.found.calls += 1
        self.found.made.append((state.keyspace.snapshot, calls[0]))
        loaded = self.load(state.loaded)
        if not self.world.faults.script_flushes or atomic or calls[0].kind == "command":
            replies = kit.server.round_trip(Flush(calls, atomic=atomic))
        else:
            script = kit.server.scripts[calls[0].verb]
            sent = (b"EVAL", script.source.encode()) if again else (b"EVALSHA", script.sha.encode())
            numbered = b"%d" % len(calls[0].keys)
            replies = tuple(self.server.exchange([(*sent, numbered, *calls[0].keys, *calls[0].args)], calls[0].verb))
        replies = tuple(
            FORGOTTEN if isinstance(reply, ErrorReply) and reply.code == "NOSCRIPT" else reply for reply in replies
        )
        if self.world.faults.script_flushes:
            shas = sorted(self.sources)
            (known,) = self.server.exchange([(b"SCRIPT", b"EXISTS", *(sha.encode() for sha in shas))], "scripts")
            assert isinstance(known, tuple)
            loaded = frozenset(sha for sha, there in zip(shas, known, strict=True) if there)
        parts, metrics = parts_of(capture(self.server))
        return replies, Keyspace(parts), loaded, bool(metrics)

    def judged(self, state: State, move: Transition) -> tuple[Facts, frozenset[str], frozenset[str]]:
        """What is known after a move, what it broke, and what happened."""
        world, facts = self.world, state.facts
        broken = frozenset(p.name for p in self.found.promises if any(p.move(world, move, facts)))
        later = remember(world, move, facts, trims=world.faults.redeliveries > 0)
        return later, broken, frozenset(map(str, seen(world, move, facts)))

    # --- actors -----------------------------------------------------------------------------------------------------

    def choose(self, n: int, choices: tuple[Choice, ...], ended: tuple[Any, ...] = ()) -> Ways:
        found: Ways = []
        for choice in choices:
            following = None if choice.program is None else choice.program.after(())
            if isinstance(following, Done):
                assert choice.program is not None
                then = self.world.actors[n].after(self.kits[n], choice.memory, choice.program, following)
                found += self.choose(n, then, (*ended, (choice.program, following)))
            else:
                found.append((Place(n, choice.memory, choice.program), ended))
        return found

    def goes_on(self, place: Place, given: Any) -> Ways:
        """Where an actor may be once its flush is answered, or its replies are lost."""
        assert place.program is not None
        replies = (*place.replies, given)
        following = place.program.after(replies)
        if isinstance(following, Flush):
            return [(Place(place.actor, place.memory, place.program, replies), ())]
        actor, kit = self.world.actors[place.actor], self.kits[place.actor]
        choices = actor.after(kit, place.memory, place.program, following)
        return self.choose(place.actor, choices, ((place.program, following),))

    def transitions(self, state: State) -> Iterator[Found]:
        """Everything that may happen next."""
        for n, place in enumerate(state.places):
            equal = [m for m in range(n) if self.world.actors[m] == self.world.actors[n]]
            if place.flush is None or any(state.places[m].key(self.world) == place.key(self.world) for m in equal):
                continue  # an equal actor in the same place does the same
            for after, loaded, facts, following, fault, broken, witnesses in self.of_actor(state, place):
                if fault is None or state.left[fault]:
                    places = (*state.places[:n], following, *state.places[n + 1 :])
                    target = State(after, loaded, facts, places, _spent(state.left, fault))
                    yield target, fault, broken, witnesses, None if fault is None else place.gap
        for keyspace, fault in self.time(state):
            target = State(keyspace, state.loaded, state.facts, state.places, _spent(state.left, fault))
            yield target, fault, frozenset(), frozenset(), None
        yield from self.from_outside(state)

    def of_actor(self, state: State, place: Place) -> Iterator[Any]:
        flush, kit = place.flush, self.kits[place.actor]
        assert flush is not None
        at, calls = place.next
        replies, after, loaded, metrics = self.really(state, kit, calls, atomic=flush.atomic, again=place.again)
        inflight = (*place.inflight[:at], *replies, *place.inflight[at + 1 :])
        last = len(inflight) == len(flush.calls) and FORGOTTEN not in inflight
        here = (state.keyspace, state.loaded, state.facts)
        lost = ReplyLost("sim://", flush.calls[0].verb)

        def made(ways: Ways, fault: Fault | None) -> Iterator[Any]:
            paused = calls[0].verb == "claim" and (not place.replies or place.replies[0] == (1,))
            for following, ended in ways:
                if replies == (FORGOTTEN,):
                    yield *here, following, fault, frozenset(), frozenset({"a call answered NOSCRIPT"})
                    continue
                with_replies = tuple(zip(calls, replies, strict=True))
                scripts = kit.server.scripts
                move = Transition(
                    "call", place.program, with_replies, state.keyspace, after, scripts, metrics, paused, ended
                )
                facts, broken, witnesses = self.judged(state, move)
                yield after, loaded, facts, following, fault, broken, witnesses

        partly: Ways = [(Place(place.actor, place.memory, place.program, place.replies, inflight), ())]
        yield from made(self.goes_on(place, inflight) if last else partly, None)
        for following, _ in self.goes_on(place, lost):
            yield *here, following, Fault.LOST_REPLY, frozenset(), frozenset()
        if last:
            yield from made(self.goes_on(place, lost), Fault.LOST_REPLY)
        restarted = self.choose(place.actor, self.world.actors[place.actor].crashed(kit, place.memory))
        if [way.key(self.world) for way, _ in restarted] != [place.key(self.world)]:
            for following, _ in restarted:
                yield *here, following, Fault.CRASH, frozenset(), frozenset()

    # --- time and the wire ------------------------------------------------------------------------------------------

    def time(self, state: State) -> Iterator[tuple[Keyspace, Fault | None]]:
        held = set()
        for place in state.places:
            for item in (place.memory, *(done for done in _answers(place))):
                if type(item).__name__ == "Claim":
                    held.add((item.queue, item.id, item.token))
        for part in state.keyspace.parts:
            for name in ("active", "schedule"):
                for id in (id for id, score in part.members(name).items() if score == FUTURE):
                    attempts = (part.row(id) or {}).get("attempts", b"-1")
                    alive = name == "active" and (part.queue, id, int(attempts)) in held
                    if not alive or state.left[Fault.LAPSE]:
                        yield _later(state.keyspace, part, name, id), Fault.LAPSE if alive else None

    def from_outside(self, state: State) -> Iterator[Found]:
        world, left = self.world, state.left
        happening: list[tuple[Fault, Call[Any], frozenset[str]]] = []
        for raw in trimmed(state.facts) if left[Fault.REDELIVERY] else ():
            entry = outbox.decode(raw)
            assert not isinstance(entry, Poison)
            to = (entry.parent_queue, entry.parent_id, entry.child_id)
            again: Call[Any] = (
                flow_deliver(*to, entry.result)
                if isinstance(entry, Completion)
                else flow_fail_deliver(*to, entry.error, entry.policy)
            )
            happening.append((Fault.REDELIVERY, again, frozenset()))
        for poison in world.faults.poison if left[Fault.POISON] else ():
            if poison.entry is not None:
                box = keys.queue_key(poison.queue, "flow:outbox")
                call: Call[Any] = command("RPUSH", [box], [poison.entry], lambda reply: reply)
            elif poison.spoil is not None and poison.spoil not in state.keyspace.snapshot.keys:
                call = command("SET", [poison.spoil], [b"spoilt"], lambda reply: reply)
            else:
                continue
            happening.append((Fault.POISON, call, frozenset({"a poison appeared"})))
        for fault, call, also in happening:
            kit = Kit(self.server)
            # Nobody sends it, so it meets no NOSCRIPT: it is as if sent whole.
            replies, after, loaded, metrics = self.really(state, kit, (call,), atomic=False, again=True)
            kind, sent = fault.word, ((call, replies[0]),)
            move = Transition(kind, None, sent, state.keyspace, after, self.server.scripts, metrics)
            facts, broken, witnesses = self.judged(state, move)
            yield State(after, loaded, facts, state.places, _spent(left, fault)), fault, broken, witnesses | also, None
        if left[Fault.SCRIPT_FLUSH] and state.loaded:
            left = _spent(left, Fault.SCRIPT_FLUSH)
            target = State(state.keyspace, frozenset(), state.facts, state.places, left)
            yield target, Fault.SCRIPT_FLUSH, frozenset(), frozenset(), None


def _answers(place: Place) -> Iterator[Any]:
    """What the program of an actor was answered, read as it reads it."""
    for flush, replies in zip(place.past, place.replies, strict=True):
        if not isinstance(replies, Exception):
            yield from (
                call.read(reply)
                for call, reply in zip(flush.calls, replies, strict=True)
                if call.verb == "claim" and not isinstance(reply, ErrorReply)
            )


def _spent(left: tuple[int, ...], fault: Fault | None) -> tuple[int, ...]:
    return left if fault is None else tuple(n - (place == fault) for place, n in enumerate(left))


def _later(keyspace: Keyspace, part: Part, name: str, id: str) -> Keyspace:
    entries = []
    for key, value in part.snapshot.entries:
        if key.endswith(b":" + name.encode()) and isinstance(value, Ranked):
            scores = [(member, PAST if member == id.encode() else score) for member, score in value.members]
            value = Ranked(tuple(sorted(scores, key=lambda pair: (pair[1], pair[0]))))
        entries.append((key, value))
    moved = Part(part.queue, Snapshot(tuple(entries), part.snapshot.now))
    return Keyspace(tuple(moved if one is part else one for one in keyspace.parts))
