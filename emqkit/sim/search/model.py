"""What one move does to an actor and to the world around it; everything met is interned and cached.

    state = world-side (keyspace, flushed scripts, facts) · the local of every actor · budgets left

An actor's *local* is its program, the replies so far (including those of the flush in flight) and its memory. The
effect of a call depends only on one queue's contents and the call, so it is really made once, and cached; the next
local depends only on the reply. So a graph of millions of moves needs a few thousand real calls.

A call is made on its own queue's part only, as on a cluster, where a script sees no other slot; if it writes elsewhere
anyway, that is caught (`StrayWrite`). `confined=False` makes every call on the whole keyspace.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from emqkit import keys, outbox
from emqkit.errors import EmqError, ReplyLost
from emqkit.jobs import Claim
from emqkit.keyspace import FUTURE, PAST, Keyspace, Part, canonical_reply, groups, home, moved, run_out
from emqkit.outbox import Completion, Failure
from emqkit.scripts import Script, ScriptSet
from emqkit.sim.history import History, HistoryStep
from emqkit.sim.promises import PROMISES, Promise, Transition, at_start, remember, seen, trimmed, work_done
from emqkit.sim.search.bench import Bench, Deadline, Doubt
from emqkit.sim.search.interner import WIDTHS, Held, Interner, Sides, Widths
from emqkit.sim.worlds.actors import Actor, Choice, Kit, Role
from emqkit.sim.worlds.faults import Fault, Poisoning
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World
from emqkit.transitions import flow_deliver, flow_fail_deliver
from emqkit.wire import Call, Done, ErrorReply, Flush, Program, Reply, command
from emqkit.words.text import lasting, listed, plain

__all__ = ["FROM_OUTSIDE", "OF_ACTORS", "ActorFailed", "Edge", "Label", "Local", "Model", "Unrepeatable"]

OF_ACTORS = (Fault.LOST_REPLY, Fault.CRASH)
FROM_OUTSIDE = tuple(fault for fault in Fault if fault not in OF_ACTORS)
"""The faults that hit an actor, and those that do not."""

NOSCRIPT = ErrorReply("NOSCRIPT", "the server has forgotten this script")

Written = tuple[tuple[Deadline, float], ...]
Ended = tuple[tuple[Program[Any], Done[Any]], ...]
Replies = tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """Calls that are made at once: one, or all of a MULTI. Their effects are cached under their number.

    Attributes:
        number: equal for equal calls of equal scripts.
        calls: what is sent.
        atomic: whether in MULTI.
        scripts: the script set of the calls.
        texts: the numbers of the scripts they run.
        home: the one queue of all their keys, if there is one.
    """

    number: int
    calls: tuple[Call[Any], ...]
    atomic: bool
    scripts: ScriptSet
    texts: frozenset[int]
    home: str | None


@dataclass(frozen=True, slots=True)
class Local:
    """The state of one actor.

    Attributes:
        kind: which of the distinct actors of the world.
        memory: what the actor remembers.
        program: what it runs; None if it has stopped.
        replies: the replies of each round trip so far; an exception if they were lost.
        inflight: the replies so far of the flush in flight, not yet seen by the program.
        flush: the flush in flight.
        past: the flushes answered.
        request: what it sends next.
        place: which reply of the flush in flight comes next.
        holds: the claims it holds.
    """

    kind: int
    memory: Hashable
    program: Program[Any] | None
    replies: tuple[Replies | Exception, ...] = ()
    inflight: Replies = ()
    flush: Flush[Any] | None = None
    past: tuple[Flush[Any], ...] = ()
    request: Request | None = None
    place: int = 0
    holds: frozenset[Held] = frozenset()

    @property
    def again(self) -> bool:
        """Whether the next call answered NOSCRIPT and is sent again, with the whole script."""
        return self.place < len(self.inflight)

    @property
    def last(self) -> bool:
        """Whether the next reply completes the flush in flight."""
        assert self.request is not None and self.flush is not None
        missing = len(self.flush.calls) - len(self.inflight) + self.inflight.count(NOSCRIPT)
        return missing == len(self.request.calls)

    @property
    def answers(self) -> tuple[object, ...]:
        """The replies so far, without what may differ between two servers or two runs."""
        met: list[object] = [
            "lost" if isinstance(replies, Exception) else tuple(map(canonical_reply, past.calls, replies))
            for past, replies in zip(self.past, self.replies, strict=True)
        ]
        return (*met, () if self.flush is None else tuple(map(canonical_reply, self.flush.calls, self.inflight)))

    @property
    def wire(self) -> tuple[object, ...]:
        """What it has sent and is sending, and the replies."""
        flushes = (*self.past, *(() if self.flush is None else (self.flush,)))
        sent = tuple(tuple((call.verb, call.keys, call.args) for call in flush.calls) for flush in flushes)
        return (self.kind, sent, self.answers, self.place)

    @property
    def gap(self) -> tuple[str, str, str]:
        """The operation, the call before and the call after this place."""
        if self.program is None or self.flush is None or self.request is None:
            return ("at rest", "", "")
        if self.inflight:
            before = self.flush.calls[len(self.inflight) - 1].verb
        elif self.past:
            before = self.past[-1].calls[-1].verb
        else:
            before = "start"
        return (self.program.name, before, self.request.calls[0].verb)


@dataclass(frozen=True, slots=True)
class Label:
    """The kind of move that an edge of the graph is.

    Attributes:
        kind: `call`, `lost` (the replies of a flush), `crash`, `lapse`, `due`, `expiry`, `re-delivery`, `poison`,
            `script flush`.
        local: the number of the local that moved; -1 if no actor did.
        choice: which of several continuations, by the actor's label.
        what: details, such as the id whose lease lapsed.
        made: whether the local's next call was made.
        fault: the fault it costs; None if it costs nothing.
        request: the call of a move without an actor (a re-delivery, a poison).
        queue, id: whose score it is, for a lapse or a due time.
    """

    kind: str
    local: int = -1
    choice: str = ""
    what: str = ""
    made: bool = False
    fault: Fault | None = None
    request: Request | None = None
    queue: str = ""
    id: str = ""


class Edge(NamedTuple):
    """The result of a move.

    Attributes:
        side: the world-side afterwards.
        local: the local of the actor that moved; -1 if none did.
        label: the kind of move, by number.
        wrong: the violations of the move itself.
        holder: the claim whose lease lapses. That costs budget while a live actor holds the claim, and is free
            otherwise.
    """

    side: int
    local: int
    label: int
    wrong: tuple[int, ...] = ()
    holder: Held | None = None

    def possible(self, held: frozenset[Held], fault: Fault | None) -> bool:
        """Whether it may happen at the cost of this fault while these claims are held."""
        return self.holder is None or (self.holder in held) == (fault is not None)


class Way(NamedTuple):
    """A local where an actor may go on, the name of its choice, and the programs that ended on the way."""

    local: int
    choice: str = ""
    ended: Ended = ()


class Made(NamedTuple):
    """The effect of a request: its replies, keyspace and script cache afterwards, and what these do not show."""

    replies: Replies
    keyspace: int
    cache: int
    metrics: bool = False
    written: Written = ()

    @property
    def forgotten(self) -> bool:
        """Whether the server did not have the script: nothing was done, and the call is sent again."""
        return self.replies == (NOSCRIPT,)


class Model:
    """What can happen in a world, move by move; it does not decide what to explore.

    Args:
        world: what is explored.
        bench: where calls are made.
        promises: which promises to check.
        flush_is_one_move: treat a flush as one move: the coarser atom, kept for tests to catch.
        remembers: whether known effects are taken from the cache; otherwise every call is really made.
        confined: whether a call is made on its own queue's part only; otherwise on the whole keyspace.
        widths: how many of each thing can be distinguished.

    Attributes:
        deeds: the roles seen to be performed somewhere, by what they change: roles and queues.
        renewals: the future deadlines that moves renew, by world-side and label.
    """

    def __init__(
        self,
        world: World,
        bench: Bench,
        promises: tuple[Promise, ...] = PROMISES,
        *,
        flush_is_one_move: bool = False,
        remembers: bool = True,
        confined: bool = True,
        widths: Widths = WIDTHS,
    ) -> None:
        self.world = world
        self.bench = bench
        self.promises = promises
        self.flush_is_one_move = flush_is_one_move
        self.remembers = remembers
        self.confined = confined
        self.kinds: tuple[Actor, ...] = tuple(dict.fromkeys(world.actors))
        self.kits = [Kit(bench.server, actor.scripts) for actor in self.kinds]
        self.sides = Sides(world, promises, widths)
        self.locals: Interner[Local] = Interner("places of an actor", widths.local)
        self.labels: Interner[Label] = Interner("kinds of moves")
        self.requests: Interner[Request] = Interner("calls")
        self.texts: Interner[Script] = Interner("scripts")
        self.witnesses: set[str] = set()
        self.deeds: set[tuple[Role, str]] = set()
        self.renewals: dict[int, dict[int, tuple[Deadline, ...]]] = {}
        self._effects: dict[tuple[tuple[int, ...], int], tuple[Replies, tuple[int, ...], bool, Written]] = {}
        self._delivered: dict[tuple[int, Replies | None], list[Way]] = {}
        self._crashes: dict[int, tuple[tuple[int, int], ...]] = {}
        self._trims = world.faults.redeliveries > 0
        self._move_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("move")]

    @property
    def effects(self) -> int:
        """How many effects of calls, and ways of actors to go on, are remembered."""
        return len(self._effects) + len(self._delivered) + sum(map(len, self.renewals.values()))

    # --- locals -----------------------------------------------------------------------------------------------------

    def begin(self, kind: int) -> list[Way]:
        """Where an actor of this kind may start."""
        return self._choose(kind, self._ask(kind, lambda actor, kit: actor.begin(kit)))

    def _ask(self, kind: int, ask: Callable[[Actor, Kit], tuple[Choice, ...]]) -> tuple[Choice, ...]:
        """An actor's choices, asked twice: they must depend only on the question.

        Raises `ActorFailed` or `Unrepeatable`.
        """
        actor, kit = self.kinds[kind], self.kits[kind]
        try:
            choices, again = ask(actor, kit), ask(actor, kit)
        except (EmqError, MemoryError):
            raise
        except Exception as error:
            raise ActorFailed(actor.title, error) from error
        for one, other in zip_longest(choices, again):
            if one != other:
                raise Unrepeatable(actor.title, _difference(one, other))
            if one is not None:
                try:
                    hash(one)
                except TypeError as error:
                    raise Unrepeatable(actor.title, f"{_named(one)} cannot be remembered ({error})") from None
        return choices

    def _after(
        self, kind: int, program: Program[Any], replies: Sequence[Replies | Exception]
    ) -> Flush[Any] | Done[Any]:
        """What a program does next; a program that is not the kit's own is asked twice.

        Raises `ActorFailed` if it raised something other than an `EmqError`, and `Unrepeatable`.
        """
        following = program.after(replies)
        if isinstance(following, Done) and following.error is not None:
            if isinstance(following.error, MemoryError):
                raise following.error
            if not isinstance(following.error, EmqError):
                raise ActorFailed(f"{self.kinds[kind].title}, {program.name}", following.error) from following.error
        if not program.function.__module__.startswith("emqkit.") and not _alike(following, program.after(replies)):
            raise Unrepeatable(self.kinds[kind].title, f"{program.name} goes on differently after the same replies")
        return following

    def _deliver(self, number: int, local: Local, replies: Replies | ReplyLost) -> list[Way]:
        """Where an actor may go on once the flush in flight is answered, or its replies are lost. Cached."""
        key = (number, None if isinstance(replies, ReplyLost) else replies)
        ways = self._delivered.get(key)
        if ways is None:
            assert local.program is not None and local.flush is not None
            given = (*local.replies, replies)
            following = self._after(local.kind, local.program, given)
            if isinstance(following, Flush):
                past = (*local.past, local.flush)
                going_on = Local(local.kind, local.memory, local.program, given, flush=following, past=past)
                ways = [Way(self._local(going_on))]
            else:
                ways = self._settled(local.kind, local.memory, local.program, following, ())
            self._delivered[key] = ways
        return ways

    def _settled(self, kind: int, memory: Hashable, program: Program[Any], done: Done[Any], ended: Ended) -> list[Way]:
        """Where an actor may go on after one of its programs has ended."""
        choices = self._ask(kind, lambda actor, kit: actor.after(kit, memory, program, done))
        return self._choose(kind, choices, (*ended, (program, done)))

    def _choose(self, kind: int, choices: tuple[Choice, ...], ended: Ended = ()) -> list[Way]:
        found: list[Way] = []
        named: Counter[str] = Counter()
        for program, memory, name in ((choice.program, choice.memory, choice.label) for choice in choices):
            named[name] += 1
            name = name if named[name] == 1 else f"{name} {named[name]}".strip()  # names must be distinct
            following = None if program is None else self._after(kind, program, ())
            if not isinstance(following, Done):
                found.append(Way(self._local(Local(kind, memory, program, flush=following)), name, ended))
                continue
            assert program is not None
            if len(ended) > 50:
                raise SilentActor(self.kinds[kind].title)
            found += self._settled(kind, memory, program, following, ended)
        return found

    def _local(self, local: Local) -> int:
        """The number of a local; its request and its claims are computed when it is first met."""
        flush, inflight = local.flush, local.inflight
        key = (local.kind, local.memory, local.program, local.answers)
        number = self.locals.find(key)
        if number is None:
            if flush is not None:
                whole = flush.atomic or self.flush_is_one_move
                # After the first pass, calls that answered NOSCRIPT are sent again.
                place = inflight.index(NOSCRIPT) if len(inflight) == len(flush.calls) else len(inflight)
                calls = flush.calls if whole else (flush.calls[place],)
                request = self._request(calls, flush.atomic, self.kits[local.kind].server.scripts)
                local = replace(local, request=request, place=place)
            number = self.locals.add(key, replace(local, holds=frozenset(_claims(local))))
        return number

    def _request(self, calls: tuple[Call[Any], ...], atomic: bool, scripts: ScriptSet) -> Request:
        texts = tuple(self.texts.number(scripts[call.verb]) for call in calls if call.kind == "script")
        key = (calls, atomic, texts)
        number = self.requests.find(key)
        if number is None:
            request = Request(len(self.requests), calls, atomic, scripts, frozenset(texts), home(calls))
            number = self.requests.add(key, request)
        return self.requests[number]

    # --- moves ------------------------------------------------------------------------------------------------------

    def start(self) -> tuple[int, list[list[int]]]:
        """The initial world-side, and where each actor may start."""
        sides = self.sides
        keyspace = sides.keyspace(sides.part(part) for part in self.bench.begin(self._from_the_start()))
        side = sides.number(keyspace, sides.caches.number(frozenset()), sides.facts.number(at_start(self.world)))
        kinds = [self.kinds.index(actor) for actor in self.world.actors]
        return side, [[way.local for way in self.begin(kind)] for kind in kinds]

    def _from_the_start(self) -> Iterator[Program[Any]]:
        """The programs that set up what exists from the start."""
        kit = Kit(self.bench.server)
        for plan in self.world.flows if self.world.landed else ():
            yield kit.flows.add.program(plan.queue, plan.flow)
        yield from self.world.setup(kit) if self.world.setup is not None else ()

    def moves(self, side: int, number: int, fault: Fault | None = None) -> tuple[Edge, ...]:
        """What an actor at a local may do next, or what a crash or a lost reply does to it."""
        if fault is Fault.CRASH:
            return tuple(Edge(side, local, label) for local, label in self._crash(number))
        local = self.locals[number]
        if local.request is None:
            return ()
        return self._step(side, number, local) if fault is None else self._lose(side, number, local)

    def _step(self, side: int, number: int, local: Local) -> tuple[Edge, ...]:
        """Make its next call: all possible results."""
        made = self._make(side, local)
        inflight = (*local.inflight[: local.place], *made.replies, *local.inflight[local.place + 1 :])
        if made.forgotten:
            self.witnesses.add(Witness.FORGOTTEN)
        if local.last and not made.forgotten:
            ways = self._deliver(number, local, inflight)
        else:
            ways = [Way(self._local(replace(local, inflight=inflight, request=None, holds=frozenset())))]
        return self._outcomes(side, local, made, Label("call", number, made=True), ways)

    def _lose(self, side: int, number: int, local: Local) -> tuple[Edge, ...]:
        """Lose the replies of its flush: before its next call took effect, or after the last one did."""
        assert local.flush is not None
        ways = self._deliver(number, local, ReplyLost("sim://", local.flush.calls[0].verb))
        label = Label("lost", number, what="before", fault=Fault.LOST_REPLY)
        outcomes = self._outcomes(side, local, None, label, ways)
        if local.last and not (made := self._make(side, local)).forgotten:
            outcomes += self._outcomes(side, local, made, replace(label, what="after", made=True), ways)
        return outcomes

    def _crash(self, number: int) -> tuple[tuple[int, int], ...]:
        """Where a crash leads: the local afterwards, and the label; empty if it changes nothing."""
        found = self._crashes.get(number)
        if found is None:
            local = self.locals[number]
            resting = local.program is None
            ways = []
            if not resting:
                crashed = self._ask(local.kind, lambda actor, kit: actor.crashed(kit, local.memory))
                ways = self._choose(local.kind, crashed)
            label = Label("crash", number, fault=Fault.CRASH)
            found = tuple((way.local, self.labels.number(replace(label, choice=way.choice))) for way in ways)
            found = self._crashes[number] = () if [way.local for way in ways] == [number] else found
        return found

    def _outcomes(self, side: int, local: Local, made: Made | None, label: Label, ways: list[Way]) -> tuple[Edge, ...]:
        assert local.request is not None
        found = []
        for way in ways:
            number = self.labels.number(replace(label, choice=way.choice))
            if made is None or made.forgotten:
                found.append(Edge(side, way.local, number))
            else:
                move = self._move(side, made, local.request, local, ended=way.ended)
                after, wrong = self._judge(side, move, made)
                found.append(Edge(after, way.local, number, wrong))
                if renewed := self._renewed(side, made):
                    self.renewals.setdefault(side, {})[number] = renewed
        return tuple(found)

    def _renewed(self, side: int, made: Made) -> tuple[Deadline, ...]:
        """The deadlines that stood ahead already."""
        view = self.view(side) if made.written else None
        return tuple(
            (queue, name, id)
            for (queue, name, id), _ in made.written
            if view is not None and view[queue].members(name).get(id) == FUTURE
        )

    def outside(self, side: int, fault: Fault | None = None) -> tuple[Edge, ...]:
        """What may happen without an actor: time passes, or a fault that hits none."""
        sides = self.sides
        keyspace, cache, facts = sides.sides[side]
        found: list[Edge] = []
        if fault in (None, Fault.LAPSE):
            for number in sides.keyspaces[keyspace]:
                part = sides.parts[number]
                for name, kind in (("active", "lapse"), ("schedule", "due")):
                    for id in (id for id, score in part.members(name).items() if score == FUTURE):
                        holder = (part.queue, id, _token(part, id)) if kind == "lapse" else None
                        if holder is None and fault is not None:
                            continue
                        later = sides.replaced(keyspace, number, sides.part(moved(part, name, id, PAST)))
                        label = self.labels.number(Label(kind, what=id, queue=part.queue, id=id, fault=fault))
                        found.append(Edge(sides.number(later, cache, facts), -1, label, holder=holder))
                if fault is None and part.snapshot.deadlines:
                    found += self._expiries(side, number)
        elif fault is Fault.REDELIVERY:
            for entry in trimmed(sides.facts[facts]):
                if (call := _delivery(entry)) is not None:
                    told = entry.decode("utf-8", "replace")
                    found.append(self._outside_call(side, Label("re-delivery", what=told, fault=fault), call))
        elif fault is Fault.POISON:
            for poison in self.world.faults.poison:
                if (call := _poisoning(poison, sides.view(keyspace))) is not None:
                    self.witnesses.add(Witness.POISONED)
                    found.append(self._outside_call(side, Label("poison", what=poison.what, fault=fault), call))
        elif fault is Fault.SCRIPT_FLUSH:
            sets = [self.bench.server.scripts, *(kit.server.scripts for kit in self.kits)]
            texts = frozenset(self.texts.number(script) for scripts in sets for script in scripts)
            everything = sides.caches.number(texts)
            if cache != everything:
                label = self.labels.number(Label("script flush", fault=fault))
                found.append(Edge(sides.number(keyspace, everything, facts), -1, label))
        return tuple(found)

    def _expiries(self, side: int, number: int) -> Iterator[Edge]:
        """Keys of one queue with the same deadline expire together; the groups expire in any order."""
        sides = self.sides
        keyspace, cache, _ = sides.sides[side]
        part = sides.parts[number]
        for deadline, names in groups(part).items():
            later = sides.replaced(keyspace, number, sides.part(run_out(part, deadline)))
            move = Transition("expiry", None, (), self.view(side), sides.view(later), self.bench.server.scripts)
            after, wrong = self._judge(side, move, Made((), later, cache))
            life_ms = min(self.bench.lives.get(name, 0) for name in names)
            told = f"{listed(sorted(map(self._key_name, names)))} ({lasting(life_ms)})"
            yield Edge(after, -1, self.labels.number(Label("expiry", what=told, queue=part.queue)), wrong)

    def _key_name(self, name: bytes) -> str:
        """The name of a key in sentences."""
        at = keys.parse(name)
        if at is None:
            return plain(name)
        return at.name if at.id is None else f"{at.name} of {self.world.label(at.id)}"

    def _outside_call(self, side: int, label: Label, call: Call[Any]) -> Edge:
        request = self._request((call,), False, self.bench.server.scripts)
        made = self._effect(side, request)
        after, wrong = self._judge(side, self._move(side, made, request, None, label.kind), made)
        return Edge(after, -1, self.labels.number(replace(label, request=request)), wrong)

    # --- moves that are known already -------------------------------------------------------------------------------

    def follow(self, side: int, number: int) -> tuple[int, int]:
        """Where a move from a world-side leads: the world-side, and the local of the actor that moved (-1: none)."""
        label = self.labels[number]
        acts = label.local >= 0
        outcomes = self.moves(side, label.local, label.fault) if acts else self.outside(side, label.fault)
        return next((outcome.side, outcome.local) for outcome in outcomes if outcome.label == number)

    def moved(self, actor: str, label: Label, before: int, after: int) -> HistoryStep:
        """A move from one world-side to another, as a history tells it."""
        local = self.locals[label.local] if label.local >= 0 else None
        request = label.request
        replies: Replies = ()
        if local is not None and label.made:
            request, replies = local.request, self._make(before, local).replies
        elif request is not None:
            replies = self._effect(before, request).replies
        return HistoryStep(
            actor=actor,
            kind=label.kind,
            operation="" if local is None or local.program is None else local.program.name,
            trip=0 if local is None else len(local.past) + 1,
            calls=() if request is None else tuple(zip(request.calls, replies, strict=True)),
            scripts=self.bench.server.scripts if request is None else request.scripts,
            before=self.view(before).snapshot,
            after=self.view(after).snapshot,
            choice=label.choice,
            what=self.world.label(label.id) if label.id else label.what,
            fault=label.fault is not None,
            fresh=local is not None and not local.past and not local.inflight,
            atomic=local is not None and local.flush is not None and local.flush.atomic,
            queue=label.queue,
        )

    def view(self, side: int) -> Keyspace:
        """The keyspace of a world-side."""
        return self.sides.view(self.sides.sides[side][0])

    # --- effects and judgement --------------------------------------------------------------------------------------

    def _make(self, side: int, local: Local) -> Made:
        """The effect of an actor's next call: NOSCRIPT if the server has lost its script."""
        request = local.request
        assert request is not None
        keyspace, cache, _ = self.sides.sides[side]
        one_by_one = not (request.atomic or self.flush_is_one_move or local.again)
        if one_by_one and request.texts & self.sides.caches[cache]:
            return Made((NOSCRIPT,), keyspace, cache)
        return self._effect(side, request)

    def _effect(self, side: int, request: Request) -> Made:
        """The effect of a request: really made once for each contents of its queue, and cached."""
        sides = self.sides
        keyspace, cache, _ = sides.sides[side]
        given = sides.keyspaces[keyspace]
        if self.confined and request.home is not None:
            given = tuple(n for n in given if sides.parts[n].queue == request.home)
        key = (given, request.number)
        known = self._effects.get(key)
        if known is None or not self.remembers:
            parts = tuple(sides.parts[n] for n in given)
            made = self.bench.make(parts, request.calls, atomic=request.atomic, scripts=request.scripts)
            known = (made.replies, tuple(map(sides.part, made.parts)), made.metrics, made.written)
            self._effects[key] = known
        replies, then, metrics, written = known
        if then != given:
            keyspace = sides.keyspace((*(n for n in sides.keyspaces[keyspace] if n not in given), *then))
        if request.texts & sides.caches[cache]:
            cache = sides.caches.number(sides.caches[cache] - request.texts)
        return Made(replies, keyspace, cache, metrics, written)

    def _move(
        self, side: int, made: Made, request: Request, local: Local | None, kind: str = "call", ended: Ended = ()
    ) -> Transition:
        return Transition(
            kind,
            None if local is None else local.program,
            tuple(zip(request.calls, made.replies, strict=True)),
            self.view(side),
            self.sides.view(made.keyspace),
            request.scripts,
            made.metrics,
            local is not None and _began_paused(local),
            ended,
            frozenset() if local is None else local.holds,
            () if local is None else self.kinds[local.kind].declares,
            _earlier(local) if ended and local is not None else (),
            dict(made.written),
        )

    def _judge(self, side: int, move: Transition, made: Made) -> tuple[int, tuple[int, ...]]:
        """The world-side after a move, and its violations."""
        sides = self.sides
        keyspace, cache, facts = sides.sides[side]
        if keyspace == made.keyspace and not (move.metrics or move.ended or move.written) and _plain(move):
            return (side if cache == made.cache else sides.number(keyspace, made.cache, facts)), ()
        known = sides.facts[facts]
        wrong = [
            sides.violations.number((n, says))
            for n, promise in self._move_promises
            for says in promise.move(self.world, move, known)
        ]
        self.witnesses.update(seen(self.world, move, known))
        if move.kind == "call":
            self.deeds.update(work_done(move))
        for who, what, id in move.did.doubts:
            self.bench.doubts.add(Doubt("roles", f"{who} {what.format(self.world.label(id))}"))
        later = remember(self.world, move, known, trims=self._trims)
        facts = facts if later == known else sides.facts.number(later)
        return sides.number(made.keyspace, made.cache, facts), tuple(wrong)


class SilentActor(EmqError):
    """An actor runs one program after another without sending anything."""

    def __init__(self, title: str) -> None:
        super().__init__(f"{title} keeps running programs that send nothing; let it stop (a Choice without a program).")


class Unrepeatable(EmqError):
    """An actor, or an operation, is not deterministic."""

    def __init__(self, who: str, how: str) -> None:
        super().__init__(
            f"{who} cannot be repeated: {how}. The explorer needs code that depends only on its arguments and replies; "
            "an operation's owner must compare equal to another made the same way (a frozen dataclass does)."
        )


class ActorFailed(EmqError):
    """Your own code raised something other than an `EmqError`; says where, and which moves led there.

    Attributes:
        who: the actor, and its operation.
        error: what it raised.
        history: the moves before it; None if not yet known.
    """

    def __init__(self, who: str, error: Exception, history: History | None = None) -> None:
        self.who, self.error, self.history = who, error, history
        traced = "".join(traceback.format_exception(error)).rstrip()
        moves = ("The moves that led there:", *history.sentences) if history is not None and history.moves else ()
        super().__init__("\n".join((f"{who} raised {type(error).__name__}, which is not an EmqError:", traced, *moves)))


def _alike(one: Flush[Any] | Done[Any], other: Flush[Any] | Done[Any]) -> bool:
    """Whether two results of a program are the same, as far as their values can be compared."""
    if isinstance(one, Flush) or isinstance(other, Flush):
        return one == other
    comparable = getattr(type(one.value), "__eq__", None) is not object.__eq__
    return type(one.error) is type(other.error) and (one.value == other.value or not comparable)


def _named(choice: Choice) -> str:
    return "its rest" if choice.program is None else choice.program.name


def _difference(one: Choice | None, other: Choice | None) -> str:
    """How two answers to one question differ."""
    if one is None or other is None:
        return "asked twice, it has different numbers of choices"
    if one.program is not None and other.program is not None and one.program.function is other.program.function:
        for what, first, second in (
            (
                f"the owner of {_named(one)}, a {type(one.program.owner).__name__},",
                one.program.owner,
                other.program.owner,
            ),
            (f"an argument of {_named(one)}", one.program.args, other.program.args),
            (f"an argument of {_named(one)}", one.program.kwargs, other.program.kwargs),
        ):
            if first != second:
                return f"{what} does not compare equal to the one it is given when asked again"
    return f"asked twice, it first chooses {_named(one)} and then {_named(other)}, or remembers something else"


def _plain(move: Transition) -> bool:
    """Whether a move that changed no key cannot concern any promise: a command, or a script that found nothing."""
    return all(
        call.kind == "command" or (reply in (0, ()) and call.verb in ("claim", "promote", "reap"))
        for call, reply in move.calls
    )


def _began_paused(local: Local) -> bool:
    """Whether a claim that comes next began while its queue was paused, as far as its program asked."""
    for call, reply in _earlier(local):
        if call.kind == "command" and any(name.endswith(b":meta") for name in call.keys):
            return reply == 1
    return True  # it never looked, so it may as well have begun just now


def _earlier(local: Local) -> tuple[tuple[Call[Any], Reply], ...]:
    """The calls that a program has made, each with its reply."""
    flushes = (*zip(local.past, local.replies, strict=True), *(((local.flush, local.inflight),) if local.flush else ()))
    answered = ((flush, replies) for flush, replies in flushes if not isinstance(replies, Exception))
    return tuple(pair for flush, replies in answered for pair in zip(flush.calls, replies, strict=False))


def _claims(local: Local) -> Iterator[Held]:
    """The claims an actor holds: those it remembers, and those its program has received."""
    for item in local.memory if isinstance(local.memory, tuple) else (local.memory,):
        if isinstance(item, Claim):
            yield item.queue, item.id, item.token
    for flush, answers in zip(local.past, local.replies, strict=True):
        if isinstance(answers, Exception):
            continue
        for call, reply in zip(flush.calls, answers, strict=True):
            if call.verb == "claim" and call.kind == "script" and isinstance(reply, tuple) and reply:
                claim = call.read(reply)
                if isinstance(claim, Claim):
                    yield claim.queue, claim.id, claim.token


def _token(part: Part, id: str) -> int:
    attempts = (part.row(id) or {}).get("attempts", b"")
    return int(attempts) if attempts.isdigit() else -1


def _delivery(entry: bytes) -> Call[Any] | None:
    decoded = outbox.decode(entry)
    if isinstance(decoded, Completion):
        return flow_deliver(decoded.parent_queue, decoded.parent_id, decoded.child_id, decoded.result)
    if isinstance(decoded, Failure):
        return flow_fail_deliver(
            decoded.parent_queue, decoded.parent_id, decoded.child_id, decoded.error, decoded.policy
        )
    return None


def _poisoning(poison: Poisoning, view: Keyspace) -> Call[Any] | None:
    if poison.entry is not None:
        return command("RPUSH", [keys.queue_key(poison.queue, "flow:outbox")], [poison.entry], lambda reply: reply)
    if poison.spoil is None or poison.spoil in view.snapshot.keys:
        return None
    return command("SET", [poison.spoil], [b"spoilt"], lambda reply: reply)
