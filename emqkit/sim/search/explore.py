"""The search: breadth first over every state of a world, so the first violation met is the shortest.

It is deterministic: actors act in the order in which the world names them, states are numbered as they are met, and
nothing reads a clock. So one world has one graph, one set of counts and one fingerprint, on any server.
"""

from __future__ import annotations

import hashlib
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from emqkit.keyspace import digest
from emqkit.servers import Server
from emqkit.sim.history import History, HistoryStep
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.promises.clauses import Lacks
from emqkit.sim.search.bench import Bench
from emqkit.sim.search.ends import lacks, owing
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.interner import WIDTHS, Budgets, TooMany, Vectors, Widths
from emqkit.sim.search.judge import Evidence, Gap, Verdict, Violation, judge
from emqkit.sim.search.limits import MEGABYTE, Memory, growing
from emqkit.sim.search.model import FROM_OUTSIDE, OF_ACTORS, ActorFailed, Edge, Model
from emqkit.sim.worlds.faults import Fault
from emqkit.sim.worlds.witness import crash_between, met
from emqkit.sim.worlds.world import World

__all__ = ["MOST_STATES", "Explorer", "Progress"]

Known = dict[Fault | None, dict[int, tuple[Edge, ...]]]
"""The known successors, for each fault and for none: by world-side and local, or by world-side alone."""

Ways = list[tuple[Fault | None, int, dict[int, tuple[Edge, ...]]]]

MOST_STATES = 10_000_000
"""Where `explore` stops by default: about two gigabytes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is: passed to `progress` every so often."""

    states: int
    transitions: int
    depth: int
    waiting: int
    seconds: float
    broken: tuple[str, ...]

    def __str__(self) -> str:
        broken = f", broken: {' '.join(self.broken)}" if self.broken else ""
        return (
            f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}, "
            f"{self.waiting:,} waiting, {self.seconds:.0f} s{broken}"
        )


class Explorer:
    """One search, with all it knows; usually run by `catalogue.explore`.

    Args:
        world: what is explored.
        server: a private server with the script set; it is emptied.
        promises: which promises to check.
        flush_is_one_move: the coarser atom, kept so that tests can show what it misses.
        widths: how many of each thing can be distinguished.

    Attributes:
        model: what each move does.
        graph: the states met, and the moves of expanded ones.
        depth: to how many moves deep every state was expanded.
        complete: whether the whole graph was seen; if not, `stopped` says why.
        seconds: how long it took.
    """

    def __init__(
        self,
        world: World,
        server: Server,
        promises: tuple[Promise, ...] = PROMISES,
        *,
        flush_is_one_move: bool = False,
        widths: Widths = WIDTHS,
    ) -> None:
        self.world = world
        self.server = server
        self.promises = promises
        self.bench = Bench(server)
        self.model = Model(world, self.bench, promises, flush_is_one_move=flush_is_one_move, widths=widths)
        self.graph = Graph(widths)
        self.vectors = Vectors(world.actors, lambda local: self.model.locals[local].holds, widths)
        self.budgets = Budgets(widths)
        self.depth = 0
        self.complete = False
        self.stopped = ""
        self.seconds = 0.0
        self.memory = Memory(self.model, self.graph, self.vectors)
        self._widths = widths
        self._level_ends = 0
        self._broken: dict[int, tuple[int, int, int, str]] = {}
        self._until: int | None = None

    # --- the search -------------------------------------------------------------------------------------------------

    def search(
        self,
        *,
        max_states: int | None = None,
        max_depth: int | None = None,
        max_calls: int | None = None,
        max_memory: int | None = None,
        until: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Expand every state, nearest first; stops early at a bound, at Ctrl-C or without memory; `stopped` says so."""
        began = time.monotonic()
        self._until = next((n for n, promise in enumerate(self.promises) if promise.name == until), None)
        try:
            self._begin()
            self._expand(max_states, max_depth, max_calls, max_memory, progress, began)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        except MemoryError:
            self.stopped = "as there was no memory left"
        except TooMany as full:
            self.stopped = f"at {full.most}, the most that can be distinguished"
        except ActorFailed as failed:
            history = self.history(*self.graph.path(len(self.graph.starts) - 1)) if self.graph.states else None
            raise ActorFailed(failed.who, failed.error, history) from failed.error
        self.graph.forget_half()
        self.seconds = time.monotonic() - began

    def _begin(self) -> None:
        side, begins = self.model.start()
        budget = self.budgets.number(self.world.faults.budget)
        firsts: list[tuple[int, ...]] = [()]
        for ways in begins:
            firsts = [(*first, way) for first in firsts for way in ways]
        for first in firsts:
            packed = self.graph.packed(side, self.vectors.number(first), budget)
            if packed not in self.graph.number_of:
                self.graph.meet(packed, len(self.graph), 0, 0)
        self._level_ends = len(self.graph)
        self._note(self.model.sides.wrong.get(side, ()), 0, -1, 0)

    def _note(self, violations: tuple[int, ...], source: int, slot: int, label: int) -> None:
        for violation in violations:
            promise, says = self.model.sides.violations[violation]
            self._broken.setdefault(promise, (source, slot, label, says))

    def _expand(
        self,
        max_states: int | None,
        max_depth: int | None,
        max_calls: int | None,
        max_memory: int | None,
        progress: Callable[[Progress], None] | None,
        began: float,
    ) -> None:
        model, graph, vectors = self.model, self.graph, self.vectors
        states, number_of, targets, target_labels = graph.states, graph.number_of, graph.targets, graph.labels
        side_at, vector_at = graph.side_at, graph.vector_at
        vector_mask, budget_mask = graph.vector_mask, graph.budget_mask
        slot_at, hop_at = self._widths.local, self._widths.local + self._widths.slot
        wrong_sides, slots_of, holds_of = model.sides.wrong, vectors.slots, vectors.holds
        nobody = len(self.world.actors)
        hops: dict[int, int] = {}
        by_actors: Known = {fault: {} for fault in (None, *OF_ACTORS)}
        by_nobody: Known = {fault: {} for fault in (None, *FROM_OUTSIDE)}
        ways_of: dict[int, tuple[Ways, Ways]] = {}
        found: list[tuple[int, int, int, tuple[int, ...]]] = []
        at = 0
        tick = time.monotonic()
        while at < len(states):
            if at == self._level_ends:
                self._level_ends = len(states)
                self.depth += 1
            if self._stops(max_states, max_depth, max_calls):
                return
            if not at & 1023 and max_memory is not None:
                met = sum(len(known) for known in (*by_actors.values(), *by_nobody.values())) + len(hops)
                if self.memory.estimate(met) > max_memory:
                    self.stopped = f"at {max_memory // MEGABYTE:,} MB of memory, as estimated"
                    return
            if not at & 1023 and progress is not None and time.monotonic() - tick > 1:
                tick = time.monotonic()
                broken = tuple(self.promises[n].name for n in sorted(self._broken))
                progress(Progress(len(states), len(targets), self.depth, len(states) - at, tick - began, broken))
            state = states[at]
            budget = state & budget_mask
            vector = state >> vector_at & vector_mask
            side = state >> side_at
            if budget not in ways_of:
                ways_of[budget] = self._ways(budget, by_actors), self._ways(budget, by_nobody)
            of_actors, from_outside = ways_of[budget]
            found.clear()
            for slot, local in slots_of[vector]:
                key = side << slot_at | local
                for fault, left, outcomes_of in of_actors:
                    outcomes = outcomes_of.get(key)
                    if outcomes is None:
                        outcomes = outcomes_of[key] = model.moves(side, local, fault)
                    for after, place, label, wrong, _ in outcomes:
                        hop = vector << hop_at | slot << slot_at | place
                        places = hops.get(hop)
                        if places is None:
                            places = hops[hop] = vectors.hop(vector, slot, place)
                        found.append((after << side_at | places << vector_at | left, slot, label, wrong))
            for fault, left, outcomes_of in from_outside:
                outcomes = outcomes_of.get(side)
                if outcomes is None:
                    outcomes = outcomes_of[side] = model.outside(side, fault)
                for outcome in outcomes:
                    if outcome.possible(holds_of[vector], fault):
                        packed = outcome.side << side_at | vector << vector_at | left
                        found.append((packed, nobody, outcome.label, outcome.wrong))
            for packed, slot, label, wrong in found:
                number = number_of.get(packed)
                if number is None:
                    number = graph.meet(packed, at, slot, label)
                    if (side := packed >> side_at) in wrong_sides:
                        self._note(wrong_sides[side], at, slot, label)
                targets.append(number)
                target_labels.append(label)
                if wrong:
                    self._note(wrong, at, slot, label)
            at += 1
            graph.starts.append(len(targets))
        self.complete = True

    def _ways(self, budget: int, known: Known) -> Ways:
        """What a budget allows: no fault, or a fault; each with the remaining budget."""
        spend = self.budgets.spend
        ways = [(fault, budget if fault is None else spend(budget, fault), met) for fault, met in known.items()]
        return [way for way in ways if way[1] >= 0]

    def _stops(self, max_states: int | None, max_depth: int | None, max_calls: int | None) -> str:
        if max_depth is not None and self.depth >= max_depth:
            self.stopped = f"at depth {max_depth}"
        elif self._until in self._broken:
            self.stopped = f"as {self.promises[self._until].name} is broken"
        elif max_states is not None and len(self.graph) > max_states:
            self.stopped = f"after {len(self.graph):,} states"
        elif max_calls is not None and self.bench.calls > max_calls:
            self.stopped = f"after {self.bench.calls:,} real calls"
        return self.stopped

    # --- ends -------------------------------------------------------------------------------------------------------

    @cached_property
    def lacks(self) -> Lacks:
        """The roles that each queue lacks at the ends."""
        return lacks(self.model, self.graph)

    def _judge_ends(self) -> None:
        if not self.complete or self.bench.doubts:
            return  # what may go another way than it was seen to go proves no end
        asked = [
            (n, promise)
            for n, promise in enumerate(self.promises)
            if promise.at_ends and n not in self._broken
            if promise.concerns(self.world) is None and promise.ends(self.world, self.lacks) is None
        ]
        for n, state, says in owing(self.model, self.graph, asked):
            self._broken.setdefault(n, (state, -1, 0, says))

    # --- the answer -------------------------------------------------------------------------------------------------

    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each promise, by name."""
        began = time.monotonic()
        try:
            self._judge_ends()
        except (KeyboardInterrupt, MemoryError) as end:
            self.complete = False  # where it ends was not seen
            self.stopped = "interrupted" if isinstance(end, KeyboardInterrupt) else "as there was no memory left"
        self.seconds += time.monotonic() - began
        grows = () if self.complete else growing(self.world, self.model.sides.parts)
        faults, scripts = self.world.faults, self.server.scripts
        spent = {self.model.labels[number].fault for number in self._taken}
        unspent = [
            f"a {fault.word} (the world allows {most})"
            for fault, most in zip(Fault, faults.budget, strict=True)
            if most and fault not in spent
        ]
        placed = f", every placement of {faults}" if any(faults.budget) else ", no fault"
        where = f"{self.world.name} on {scripts.name}: every order of calls{placed}"
        witnesses = self.witnesses()
        found: dict[str, Verdict] = {}
        for n, promise in enumerate(self.promises):
            missing = [
                need for need in (*promise.needed(self.world), *self.world.witnesses) if not met(need, witnesses)
            ]
            if (ended := promise.ends(self.world, self.lacks)) is not None:
                missing.append(ended)
            found[promise.name] = judge(
                promise.name,
                promise.title,
                Evidence(
                    len(self.graph),
                    self.complete,
                    self.depth,
                    (*missing, *unspent),
                    where,
                    promise.untried(witnesses),
                    tuple(doubt.says for doubt in sorted(self.bench.doubts)),
                    self.bench.instants,
                    grows,
                ),
                violation=self._violation(n),
                unconcerned=promise.concerns(self.world),
                lacks=promise.lacks(self.world, scripts),
            )
        return found

    def _violation(self, promise: int) -> Violation | None:
        if promise not in self._broken:
            return None
        source, slot, label, says = self._broken[promise]
        root, path = self.graph.path(source)
        if slot >= 0:
            path.append((slot, label))
        name = self.promises[promise].name
        return Violation(name, says, self.history(root, path, name, says))

    def history(self, root: int, path: list[tuple[int, int]], promise: str = "", says: str = "") -> History:
        """A path through the graph as a history: who did what, with what effect."""
        model = self.model
        side = self.graph.side(root)
        places = list(self.vectors.vectors[self.graph.vector(root)])
        names = list(self.world.names)
        initial = model.view(side).snapshot
        moves: list[HistoryStep] = []
        for slot, number in path:
            after, local = model.follow(side, number)
            actor = names[slot] if local >= 0 else ""
            moves.append(model.moved(actor, model.labels[number], side, after))
            side = after
            if local >= 0:
                places[slot] = local
                for group in self.vectors.groups:
                    pairs = sorted((places[n], names[n]) for n in group)
                    places[group.start : group.stop] = [place for place, _ in pairs]
                    names[group.start : group.stop] = [name for _, name in pairs]
        return History(
            self.world, self.server.scripts, self.server.kind, initial, tuple(moves), promise=promise, says=says
        )

    def witnesses(self) -> frozenset[str]:
        """What really happened somewhere."""
        crashed = (gap for gap in self.gaps if gap.crashes)
        return frozenset(self.model.witnesses) | {
            crash_between(gap.operation, gap.before, gap.after) for gap in crashed
        }

    @cached_property
    def _taken(self) -> Counter[int]:
        """How many transitions each label has."""
        return Counter(self.graph.labels)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The places between calls, with the faults tried there."""
        model, graph = self.model, self.graph
        vectors: Counter[int] = Counter(graph.vector(state) for state in range(len(graph)))
        visits: Counter[tuple[str, str, str]] = Counter()
        for vector, n in vectors.items():
            for local in set(self.vectors.vectors[vector]):
                visits[model.locals[local].gap] += n
        tried: dict[str, Counter[tuple[str, str, str]]] = {"crash": Counter(), "lost": Counter()}
        for number, n in self._taken.items():
            label = model.labels[number]
            if label.kind in tried:
                tried[label.kind][model.locals[label.local].gap] += n
        return tuple(
            Gap(*gap, visits=n, crashes=tried["crash"][gap], lost=tried["lost"][gap])
            for gap, n in sorted(visits.items())
            if gap[0] != "at rest"
        )

    def fingerprint(self) -> str:
        """64 hex digits of the whole graph, from what its states hold and where its moves lead: equal for equal graphs.

        Names do not enter into it: no label, no class, no actor, and no wording of the facts.
        """
        model, sides, graph = self.model, self.model.sides, self.graph
        sha = hashlib.sha256()
        for numbers in (graph.states, graph.starts, graph.targets, graph.labels):
            sha.update(numbers.tobytes() if sys.byteorder == "little" else _swapped(numbers))
        tables: tuple[list[Any], ...] = (
            [digest(part.snapshot) for part in sides.parts],
            sides.keyspaces,
            sides.sides,
            self.vectors.vectors,
            self.budgets,
            [(label.local, label.made, label.fault) for label in model.labels],
            [local.wire for local in model.locals],
        )
        for table in tables:
            for content in chain((len(table),), table):
                sha.update(_spelt(content))
        return sha.hexdigest()


def _swapped(numbers: array[int]) -> bytes:
    copy = array(numbers.typecode, numbers)
    copy.byteswap()
    return copy.tobytes()


def _spelt(content: object) -> bytes:
    """A unique encoding of a content as bytes: numbers, bytes, text, None, and tuples of them."""
    if isinstance(content, tuple):
        return b"(%s)" % b"".join(map(_spelt, content))
    if isinstance(content, int):
        return b"%d;" % content
    if content is None:
        return b"-"
    text = content if isinstance(content, bytes) else str(content).encode("utf-8", "surrogateescape")
    return b"%s%d:%s" % (b"b" if isinstance(content, bytes) else b"t", len(text), text)
