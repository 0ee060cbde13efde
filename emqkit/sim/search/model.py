"""The pieces of a state, each known by a small number, and what one move makes of them.

    state = world-side (keyspace, forgotten scripts, facts) · what every actor is at · budgets left

An actor is at a *local*: its program, the replies so far (those of the flush in flight included), its memory. What a
call does depends on one queue's contents and the call alone, so it is really made once, and remembered; what a local
becomes depends on the reply alone. So a graph of millions of moves needs a few thousand real calls.

A call is made where its own queue's part is and nothing else, as on a cluster, where a script sees no other slot; one
that writes elsewhere all the same is caught (`StrayWrite`). `confined=False` makes every call on the whole keyspace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from emqkit import keys, outbox
from emqkit.errors import EmqError, ReplyLost
from emqkit.jobs import Claim
from emqkit.keyspace import FUTURE, PAST, Keyspace, Part, canonical_reply, home, moved, parts_of
from emqkit.outbox import Completion, Failure
from emqkit.sim.promises import PROMISES, Facts, Move, Promise, at_start, remember, seen, trimmed
from emqkit.sim.search.bench import Bench
from emqkit.sim.worlds.actors import Actor, Choice, Kit
from emqkit.sim.worlds.faults import WORDS, Poison
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Snapshot, capture
from emqkit.transitions import flow_deliver, flow_fail_deliver
from emqkit.wire import Call, Done, ErrorReply, Flush, Program, Reply, command

__all__ = ["CRASH", "LAPSE", "LOST", "POISON", "REDELIVERY", "SCRIPT_FLUSH", "Label", "Local", "Machine", "Outcome"]

CRASH, LOST, LAPSE, REDELIVERY, POISON, SCRIPT_FLUSH = range(6)
"""The faults by their place in a budget."""

NOSCRIPT = ErrorReply("NOSCRIPT", "the server has forgotten this script")

Ended = tuple[tuple[Program[Any], Done[Any]], ...]


@dataclass(frozen=True, slots=True)
class Local:
    """Where an actor is.

    Attributes:
        kind: which of the distinct actors of the world.
        memory: what the actor remembers.
        program: what it runs; None when it rests.
        replies: what each round trip so far was answered; an exception for one whose replies were lost.
        inflight: the replies of the flush in flight that have been made, not yet seen by the program.
        flush: the flush in flight.
        past: the flushes answered.
        calls: what it calls next: one call, or all of a MULTI.
        number: the number of these calls, for remembering their effect.
        again: whether the next call is one that answered NOSCRIPT, sent once more, whole.
        place: which call of the flush is next.
        holds: the claims it holds: queue, id, token.
    """

    kind: int
    memory: Hashable
    program: Program[Any] | None
    replies: tuple[tuple[Reply, ...] | Exception, ...]
    inflight: tuple[Reply, ...]
    flush: Flush[Any] | None
    past: tuple[Flush[Any], ...]
    calls: tuple[Call[Any], ...]
    number: int
    again: bool
    place: int
    holds: frozenset[tuple[str, str, int]]

    @property
    def gap(self) -> tuple[str, str, str]:
        """The operation, the call before and the call after this place."""
        if self.program is None or self.flush is None:
            return ("at rest", "", "")
        if self.inflight:
            before = self.flush.calls[len(self.inflight) - 1].verb
        elif self.past:
            before = self.past[-1].calls[-1].verb
        else:
            before = "start"
        return (self.program.name, before, self.calls[0].verb)


@dataclass(frozen=True, slots=True)
class Label:
    """What kind of move an edge of the graph is.

    Attributes:
        kind: `call`, `lost` (the replies of a flush), `crash`, `lapse`, `due`, `re-delivery`, `poison`, `script flush`.
        local: the number of the local that moved; -1 where nobody did.
        choice: which of several continuations, as the actor calls it.
        what: more, such as the id whose lease lapsed.
        made: whether the local's next call was made.
        fault: the place of the budget it costs; None for a move that costs nothing.
        call: the call of a move nobody made (a re-delivery, a poison).
        queue, id: whose score a lapse or a due time is about.
    """

    kind: str
    local: int = -1
    choice: str = ""
    what: str = ""
    made: bool = False
    fault: int | None = None
    call: Call[Any] | None = None
    queue: str = ""
    id: str = ""


Outcome = tuple[int, int, int, tuple[int, ...]]
"""World-side and local afterwards, the label, and the violations of the move."""

Outside = tuple[int, int, tuple[int, ...], int | None, tuple[str, str, int] | None]
"""World-side afterwards, label, violations, budget (None: free), and the claim that must be (un)held."""


class Machine:
    """Everything that is interned, and the memory of effects; it makes no decision about what to explore.

    Args:
        world: what is explored.
        bench: where calls are made.
        promises: which promises are checked.
        flush_is_one_move: the weaker atom, kept to be caught by tests: a flush taken as one move.
        remembers: whether an effect known already is not made again; without it every call is really made.
        confined: whether a call is made on its own queue's part alone; without it on the whole keyspace.
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
    ) -> None:
        self.world = world
        self.bench = bench
        self.kit = Kit(bench.server)
        self.promises = promises
        self.flush_is_one_move = flush_is_one_move
        self.remembers = remembers
        self.confined = confined
        self.kinds: tuple[Actor, ...] = tuple(dict.fromkeys(world.actors))
        self.parts: list[Part] = []
        self._part_ids: dict[Part, int] = {}
        self._part_wrong: list[tuple[int, ...]] = []
        self.keyspaces: list[tuple[int, ...]] = []
        self._keyspace_ids: dict[tuple[int, ...], int] = {}
        self._views: list[Keyspace] = []
        self.facts: list[Facts] = []
        self._facts_ids: dict[Facts, int] = {}
        self.caches: list[frozenset[str]] = []
        self._cache_ids: dict[frozenset[str], int] = {}
        self.sides: list[tuple[int, int, int]] = []
        self._side_ids: dict[tuple[int, int, int], int] = {}
        self.wrong_sides: dict[int, tuple[int, ...]] = {}
        self.locals: list[Local] = []
        self._local_ids: dict[Hashable, int] = {}
        self._call_ids: dict[Hashable, int] = {}
        self.labels: list[Label] = []
        self._label_ids: dict[Label, int] = {}
        self.violations: list[tuple[int, str]] = []
        self._violation_ids: dict[tuple[int, str], int] = {}
        self.witnesses: set[str] = set()
        self._effects: dict[tuple[Hashable, int], tuple[tuple[Reply, ...], Hashable, bool]] = {}
        self._trims = world.faults.redeliveries > 0
        self._state_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("state")]
        self._part_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("part")]
        self._move_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("move")]

    # --- interning --------------------------------------------------------------------------------------------------

    def part_id(self, part: Part) -> int:
        """The number of a part; its contents are checked when they are first met."""
        number = self._part_ids.get(part)
        if number is None:
            number = self._part_ids[part] = len(self.parts)
            self.parts.append(part)
            wrong = [
                self._violation(n, says)
                for n, promise in self._part_promises
                for says in promise.part(self.world, part)
            ]
            self._part_wrong.append(tuple(wrong))
        return number

    def keyspace_id(self, parts: Iterable[int]) -> int:
        """The number of a keyspace; parts that hold nothing are left out."""
        held = sorted((n for n in parts if self.parts[n].snapshot.entries), key=lambda n: self.parts[n].queue)
        key = tuple(held)
        number = self._keyspace_ids.get(key)
        if number is None:
            number = self._keyspace_ids[key] = len(self.keyspaces)
            self.keyspaces.append(key)
            self._views.append(Keyspace(tuple(self.parts[n] for n in key)))
        return number

    def view(self, keyspace: int) -> Keyspace:
        """A keyspace as promises read it."""
        return self._views[keyspace]

    def facts_id(self, facts: Facts) -> int:
        """The number of a set of facts."""
        number = self._facts_ids.get(facts)
        if number is None:
            number = self._facts_ids[facts] = len(self.facts)
            self.facts.append(facts)
        return number

    def cache_id(self, forgotten: frozenset[str]) -> int:
        """The number of a set of forgotten scripts."""
        number = self._cache_ids.get(forgotten)
        if number is None:
            number = self._cache_ids[forgotten] = len(self.caches)
            self.caches.append(forgotten)
        return number

    def side(self, keyspace: int, cache: int, facts: int) -> int:
        """The number of a world-side; what is wrong with it is worked out when it is first met."""
        key = (keyspace, cache, facts)
        number = self._side_ids.get(key)
        if number is None:
            number = self._side_ids[key] = len(self.sides)
            self.sides.append(key)
            wrong = [v for part in self.keyspaces[keyspace] for v in self._part_wrong[part]]
            for n, promise in self._state_promises:
                for says in promise.state(self.world, self._views[keyspace], self.facts[facts]):
                    wrong.append(self._violation(n, says))
            if wrong:
                self.wrong_sides[number] = tuple(wrong)
        return number

    def label(self, label: Label) -> int:
        """The number of a label."""
        number = self._label_ids.get(label)
        if number is None:
            number = self._label_ids[label] = len(self.labels)
            self.labels.append(label)
        return number

    def _violation(self, promise: int, says: str) -> int:
        key = (promise, says)
        number = self._violation_ids.get(key)
        if number is None:
            number = self._violation_ids[key] = len(self.violations)
            self.violations.append(key)
        return number

    # --- locals -----------------------------------------------------------------------------------------------------

    def begin(self, kind: int) -> list[tuple[int, str, Ended]]:
        """Where an actor of this kind may start."""
        return self._choose(kind, self.kinds[kind].begin(self.kit))

    def crash(self, number: int) -> list[tuple[int, str, Ended]]:
        """Where an actor may go on after a crash here; empty where a crash changes nothing."""
        local = self.locals[number]
        if local.program is None:
            return []
        after = self._choose(local.kind, self.kinds[local.kind].crashed(self.kit, local.memory))
        return [] if [n for n, _, _ in after] == [number] else after

    def deliver(self, number: int, replies: tuple[Reply, ...] | Exception) -> list[tuple[int, str, Ended]]:
        """Where an actor may go on once the flush in flight is answered, or its replies are lost."""
        local = self.locals[number]
        assert local.program is not None and local.flush is not None
        given = (*local.replies, replies)
        following = local.program.after(given)
        if isinstance(following, Flush):
            past = (*local.past, local.flush)
            return [(self._local(local.kind, local.memory, local.program, given, (), following, past), "", ())]
        choices = self.kinds[local.kind].after(self.kit, local.memory, local.program, following)
        return self._choose(local.kind, choices, ((local.program, following),))

    def _choose(self, kind: int, choices: tuple[Choice, ...], ended: Ended = ()) -> list[tuple[int, str, Ended]]:
        found: list[tuple[int, str, Ended]] = []
        labels: Counter[str] = Counter()
        for choice in choices:
            labels[choice.label] += 1
            if labels[choice.label] > 1:  # a label must tell the ways apart
                choice = Choice(choice.program, choice.memory, f"{choice.label} {labels[choice.label]}".strip())
            if choice.program is None:
                found.append((self._local(kind, choice.memory, None, (), (), None, ()), choice.label, ended))
                continue
            following = choice.program.after(())
            if isinstance(following, Flush):
                number = self._local(kind, choice.memory, choice.program, (), (), following, ())
                found.append((number, choice.label, ended))
                continue
            if len(ended) > 50:
                raise SilentActor(self.kinds[kind].title)
            then = self.kinds[kind].after(self.kit, choice.memory, choice.program, following)
            found += self._choose(kind, then, (*ended, (choice.program, following)))
        return found

    def _local(
        self,
        kind: int,
        memory: Hashable,
        program: Program[Any] | None,
        replies: tuple[tuple[Reply, ...] | Exception, ...],
        inflight: tuple[Reply, ...],
        flush: Flush[Any] | None,
        past: tuple[Flush[Any], ...],
    ) -> int:
        flushes = (*past, flush) if flush is not None else past
        seen_so_far = [
            "lost" if isinstance(r, Exception) else tuple(map(canonical_reply, f.calls, r))
            for f, r in zip(past, replies, strict=True)
        ]
        partly = tuple(map(canonical_reply, flush.calls, inflight)) if flush is not None else ()
        key = (kind, memory, program, tuple(seen_so_far), partly)
        number = self._local_ids.get(key)
        if number is None:
            number = self._local_ids[key] = len(self.locals)
            calls: tuple[Call[Any], ...] = ()
            again, place = False, 0
            if flush is not None:
                whole = flush.atomic or self.flush_is_one_move
                place = len(inflight)
                if place == len(flush.calls):  # the first pass is over; what answered NOSCRIPT is sent once more
                    place, again = inflight.index(NOSCRIPT), True
                calls = flush.calls if whole else (flush.calls[place],)
            holds = frozenset(_claims(memory, flushes, replies))
            atomic = flush is not None and flush.atomic
            call_number = self._call_ids.setdefault((calls, atomic), len(self._call_ids))
            self.locals.append(
                Local(kind, memory, program, replies, inflight, flush, past, calls, call_number, again, place, holds)
            )
        return number

    # --- moves ------------------------------------------------------------------------------------------------------

    def start(self) -> tuple[int, list[list[int]]]:
        """The world-side in the beginning, and where each actor may start."""
        server = self.bench.server
        for plan in self.world.flows if self.world.landed else ():
            self.kit.flows.add.program(plan.queue, plan.flow).run(server)
        for program in self.world.setup(self.kit) if self.world.setup is not None else ():
            program.run(server)
        parts, _ = parts_of(capture(server))
        keyspace = self.keyspace_id([self.part_id(part) for part in parts])
        side = self.side(keyspace, self.cache_id(frozenset()), self.facts_id(at_start(self.world)))
        kinds = [self.kinds.index(actor) for actor in self.world.actors]
        return side, [[number for number, _, _ in self.begin(kind)] for kind in kinds]

    def step(self, side: int, number: int) -> tuple[Outcome, ...]:
        """An actor makes its next call: everything that may come of it."""
        local = self.locals[number]
        if local.flush is None:
            return ()
        keyspace, cache, _ = self.sides[side]
        forgotten = self.caches[cache]
        script = local.calls[0].verb if len(local.calls) == 1 and local.calls[0].kind == "script" else ""
        whole = local.flush.atomic or self.flush_is_one_move
        if script in forgotten and not local.again and not whole:
            self.witnesses.add("a call answered NOSCRIPT")
            return self._answered(
                number, local, (*local.inflight, NOSCRIPT), side, (), Label("call", number, made=True)
            )
        replies, after, metrics = self._effect(keyspace, local.calls, local.number, local.flush.atomic)
        cache_after = self.cache_id(forgotten - {script}) if script in forgotten else cache
        if whole:
            inflight = replies
        elif local.again:
            inflight = (*local.inflight[: local.place], *replies, *local.inflight[local.place + 1 :])
        else:
            inflight = (*local.inflight, *replies)
        move = self._move(local, replies, keyspace, after, metrics)
        return self._answered(
            number, local, inflight, side, (move, after, cache_after), Label("call", number, made=True)
        )

    def _answered(
        self,
        number: int,
        local: Local,
        inflight: tuple[Reply, ...],
        side: int,
        made: tuple[()] | tuple[Move, int, int],
        label: Label,
    ) -> tuple[Outcome, ...]:
        assert local.flush is not None
        if len(inflight) < len(local.flush.calls) or NOSCRIPT in inflight:
            following = self._local(
                local.kind, local.memory, local.program, local.replies, inflight, local.flush, local.past
            )
            ways: list[tuple[int, str, Ended]] = [(following, "", ())]
        else:
            ways = self.deliver(number, inflight)
        return tuple(self._outcome(side, made, label, way) for way in ways)

    def _outcome(
        self, side: int, made: tuple[()] | tuple[Move, int, int], label: Label, way: tuple[int, str, Ended]
    ) -> Outcome:
        following, choice, ended = way
        if choice:
            label = Label(label.kind, label.local, choice, label.what, label.made, label.fault)
        if not made:
            return side, following, self.label(label), ()
        move, after, cache = made
        if ended:
            move = replace(move, ended=ended)
        side_after, wrong = self._judge(side, move, after, cache)
        return side_after, following, self.label(label), wrong

    def lose(self, side: int, number: int) -> tuple[Outcome, ...]:
        """The replies of an actor's flush are lost: before its next call took effect, or after its last one did."""
        local = self.locals[number]
        if local.flush is None:
            return ()
        lost = ReplyLost("sim://", local.flush.calls[0].verb)
        keyspace, cache, _ = self.sides[side]
        outcomes = [
            self._outcome(side, (), Label("lost", number, what="before", fault=LOST), way)
            for way in self.deliver(number, lost)
        ]
        forgotten = self.caches[cache]
        last = len(local.calls) == len(local.flush.calls) or (
            len(local.inflight) == len(local.flush.calls) - 1 and NOSCRIPT not in local.inflight
        )
        last = last or (local.again and local.inflight.count(NOSCRIPT) == 1)
        if last and (local.again or local.flush.atomic or not any(call.verb in forgotten for call in local.calls)):
            replies, after, metrics = self._effect(keyspace, local.calls, local.number, local.flush.atomic)
            cache_after = self.cache_id(forgotten - {call.verb for call in local.calls})
            move = self._move(local, replies, keyspace, after, metrics)
            made = (move, after, cache_after)
            outcomes += [
                self._outcome(side, made, Label("lost", number, what="after", made=True, fault=LOST), way)
                for way in self.deliver(number, lost)
            ]
        return tuple(outcomes)

    def crashes(self, number: int) -> tuple[tuple[int, int], ...]:
        """Where a crash leads: the local afterwards, and the label."""
        return tuple(
            (following, self.label(Label("crash", number, choice, fault=CRASH)))
            for following, choice, _ in self.crash(number)
        )

    def outside(self, side: int) -> tuple[Outside, ...]:
        """What may happen without any actor: time, and the faults of the server and the wire."""
        keyspace, cache, facts = self.sides[side]
        view = self.view(keyspace)
        found: list[Outside] = []
        for number in self.keyspaces[keyspace]:
            part = self.parts[number]
            for name, kind in (("active", "lapse"), ("schedule", "due")):
                for id, score in part.members(name).items():
                    if score != FUTURE:
                        continue
                    later = self._replaced(keyspace, number, moved(part, name, id, PAST))
                    after = self.side(later, cache, facts)
                    holder = (part.queue, id, _token(part, id)) if kind == "lapse" else None
                    free = self.label(Label(kind, what=id, queue=part.queue, id=id))
                    if holder is None:
                        found.append((after, free, (), None, None))
                        continue
                    found.append((after, free, (), None, holder))
                    cost = self.label(Label(kind, what=id, queue=part.queue, id=id, fault=LAPSE))
                    found.append((after, cost, (), LAPSE, holder))
        faults = self.world.faults
        if faults.redeliveries:
            for entry in trimmed(self.facts[facts]):
                if (call := _delivery(entry)) is not None:
                    told = entry.decode("utf-8", "replace")
                    found.append(self._outside_call(side, "re-delivery", call, REDELIVERY, told))
        for poison in faults.poison if faults.poisons else ():
            if (call := _poisoning(poison, view)) is not None:
                found.append(self._outside_call(side, "poison", call, POISON, poison.what))
        if faults.script_flushes:
            everything = frozenset(script.name for script in self.bench.server.scripts)
            if self.caches[cache] != everything:
                after = self.side(keyspace, self.cache_id(everything), facts)
                found.append((after, self.label(Label("script flush", fault=SCRIPT_FLUSH)), (), SCRIPT_FLUSH, None))
        return tuple(found)

    def _outside_call(self, side: int, kind: str, call: Call[Any], fault: int, what: str) -> Outside:
        keyspace, cache, _ = self.sides[side]
        number = self._call_ids.setdefault(((call,), False), len(self._call_ids))
        replies, after, metrics = self._effect(keyspace, (call,), number, False)
        move = Move(
            kind, None, ((call, replies[0]),), self.view(keyspace), self.view(after), self.bench.server.scripts, metrics
        )
        if kind == "poison":
            self.witnesses.add("a poison appeared")
        side_after, wrong = self._judge(side, move, after, cache)
        return side_after, self.label(Label(kind, what=what, fault=fault, call=call)), wrong, fault, None

    # --- effects and judgement --------------------------------------------------------------------------------------

    def effect_of(self, side: int, calls: tuple[Call[Any], ...], atomic: bool) -> tuple[tuple[Reply, ...], int]:
        """The replies of calls made in a world-side, and the keyspace afterwards."""
        number = self._call_ids.setdefault((calls, atomic), len(self._call_ids))
        replies, after, _ = self._effect(self.sides[side][0], calls, number, atomic)
        return replies, after

    def answers(self, side: int, local: Local) -> tuple[tuple[Reply, ...], int]:
        """The replies of a local's next call made in a world-side, and the keyspace afterwards."""
        keyspace, cache, _ = self.sides[side]
        whole = local.again or self.flush_is_one_move or (local.flush is not None and local.flush.atomic)
        if not whole and local.calls[0].kind == "script" and local.calls[0].verb in self.caches[cache]:
            return (NOSCRIPT,), keyspace
        replies, after, _ = self._effect(keyspace, local.calls, local.number, bool(local.flush and local.flush.atomic))
        return replies, after

    def _effect(
        self, keyspace: int, calls: tuple[Call[Any], ...], number: int, atomic: bool
    ) -> tuple[tuple[Reply, ...], int, bool]:
        own = home(calls) if self.confined else None
        if own is None:
            key: tuple[Hashable, int] = (self.keyspaces[keyspace], number)
            known = self._effects.get(key)
            if known is None or not self.remembers:
                made = self.bench.make(tuple(self.parts[n] for n in self.keyspaces[keyspace]), calls, atomic)
                known = (made.replies, tuple(self.part_id(part) for part in made.parts), made.metrics)
                self._effects[key] = known
            replies, parts, metrics = known
            assert isinstance(parts, tuple)
            return replies, self.keyspace_id(parts), metrics
        held = next((n for n in self.keyspaces[keyspace] if self.parts[n].queue == own), -1)
        if held < 0:
            held = self.part_id(Part(own, Snapshot()))
        key = (held, number)
        known = self._effects.get(key)
        if known is None or not self.remembers:
            made = self.bench.make((self.parts[held],), calls, atomic)
            after = made.parts[0] if made.parts else Part(own, Snapshot())
            known = (made.replies, self.part_id(after), made.metrics)
            self._effects[key] = known
        replies, then, metrics = known
        assert isinstance(then, int)
        if then == held:
            return replies, keyspace, metrics
        return replies, self.keyspace_id([*(n for n in self.keyspaces[keyspace] if n != held), then]), metrics

    def _replaced(self, keyspace: int, number: int, part: Part) -> int:
        return self.keyspace_id([*(n for n in self.keyspaces[keyspace] if n != number), self.part_id(part)])

    def _move(self, local: Local, replies: tuple[Reply, ...], before: int, after: int, metrics: bool) -> Move:
        began_paused = False
        if local.program is not None and local.flush is not None and local.calls[0].verb == "claim":
            first = local.past[0].calls[0] if local.past else local.calls[0]
            first_reply = local.replies[0] if local.replies else None
            if first.verb == "HEXISTS" and isinstance(first_reply, tuple):
                began_paused = first_reply[0] == 1
            elif first.verb == "claim":
                began_paused = True  # it looked at nothing before, so it begins now
        calls = tuple(zip(local.calls, replies, strict=True))
        return Move(
            "call",
            local.program,
            calls,
            self.view(before),
            self.view(after),
            self.bench.server.scripts,
            metrics,
            began_paused,
        )

    def _judge(self, side: int, move: Move, after: int, cache: int) -> tuple[int, tuple[int, ...]]:
        """The world-side after a move, and what it broke."""
        keyspace, _, facts = self.sides[side]
        if keyspace == after and not move.metrics and not move.ended and _plain(move):
            return (side if self.sides[side][1] == cache else self.side(after, cache, facts)), ()
        known = self.facts[facts]
        wrong = [
            self._violation(n, says)
            for n, promise in self._move_promises
            for says in promise.move(self.world, move, known)
        ]
        self.witnesses.update(seen(self.world, move, known))
        later = remember(self.world, move, known, trims=self._trims)
        return self.side(after, cache, facts if later == known else self.facts_id(later)), tuple(wrong)


class SilentActor(EmqError):
    """An actor goes from program to program and sends nothing."""

    def __init__(self, title: str) -> None:
        super().__init__(f"{title} runs programs for ever that send nothing; let it rest (a Choice without a program).")


def _plain(move: Move) -> bool:
    """Whether a move that changed no key cannot concern any promise: a command, or a script that found nothing."""
    return all(
        call.kind == "command" or (reply in (0, ()) and call.verb in ("claim", "promote", "reap"))
        for call, reply in move.calls
    )


def _claims(
    memory: Hashable, flushes: tuple[Flush[Any], ...], replies: tuple[tuple[Reply, ...] | Exception, ...]
) -> Iterator[tuple[str, str, int]]:
    held = memory if isinstance(memory, tuple) else (memory,)
    for item in held:
        if isinstance(item, Claim):
            yield item.queue, item.id, item.token
    for flush, answers in zip(flushes, replies, strict=False):
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


def _poisoning(poison: Poison, view: Keyspace) -> Call[Any] | None:
    if poison.entry is not None:
        return command("RPUSH", [keys.queue_key(poison.queue, "flow:outbox")], [poison.entry], lambda reply: reply)
    if poison.spoil is None or poison.spoil in view.snapshot.keys:
        return None
    return command("SET", [poison.spoil], [b"spoilt"], lambda reply: reply)


assert len(WORDS) == 6
