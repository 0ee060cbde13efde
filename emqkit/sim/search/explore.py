"""The search: breadth first over every state of a world, so that the first violation met is the shortest.

Deterministic: actors act in the order the world names them, states are numbered as they are met, and nothing asks a
clock. So one world has one graph, one set of counts and one fingerprint, whichever server its calls are made on.
"""

from __future__ import annotations

import hashlib
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from emqkit.errors import BadArgument
from emqkit.servers import Server
from emqkit.sim.history import History, Moved
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.search.bench import Bench
from emqkit.sim.search.judge import Evidence, Gap, Result, Verdict, Violation, judge
from emqkit.sim.search.model import CRASH, LAPSE, LOST, Machine, Outcome
from emqkit.sim.worlds.faults import WORDS
from emqkit.sim.worlds.world import World

__all__ = ["MOST_STATES", "Explorer", "Progress"]

B_BITS, A_BITS = 12, 26
A_MASK, B_MASK = (1 << A_BITS) - 1, (1 << B_BITS) - 1

MOST_STATES = 10_000_000
"""Where `explore` stops unless told otherwise: about two gigabytes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is: handed to `progress` every so often."""

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
    """One search, with everything it knows; `catalogue.explore` is the usual way to it.

    Args:
        world: what is explored.
        server: a private server with the script set; it is emptied.
        promises: which promises are checked.
        flush_is_one_move: the weaker atom, kept so that tests can show what it misses.
    """

    def __init__(
        self,
        world: World,
        server: Server,
        promises: tuple[Promise, ...] = PROMISES,
        *,
        flush_is_one_move: bool = False,
        bench: Bench | None = None,
    ) -> None:
        self.world = world
        self.server = server
        self.promises = promises
        self.bench = bench or Bench(server)
        self.machine = Machine(world, self.bench, promises, flush_is_one_move=flush_is_one_move)
        self.states: array[int] = array("Q")
        self.parents: array[int] = array("I")
        self.parent_slots: array[int] = array("B")
        self.parent_labels: array[int] = array("I")
        self.targets: array[int] = array("I")
        self.target_labels: array[int] = array("I")
        self.starts: array[int] = array("Q")
        self.vectors: list[tuple[int, ...]] = []
        self.budgets: list[tuple[int, ...]] = []
        self.depth = 0
        self.complete = False
        self.stopped = ""
        self.seconds = 0.0
        self._seen: dict[int, int] = {}
        self._vector_ids: dict[tuple[int, ...], int] = {}
        self._budget_ids: dict[tuple[int, ...], int] = {}
        self._spent: dict[tuple[int, int], int] = {}
        self._levels: list[int] = []
        self._broken: dict[int, tuple[int, int, int, str]] = {}
        self._until: str | None = None
        self._enough = False
        self._groups = self._grouped()
        self._slots: list[tuple[tuple[int, int], ...]] = []
        self._holds: list[frozenset[tuple[str, str, int]]] = []
        self._hops: dict[int, int] = {}

    # --- vectors and budgets ----------------------------------------------------------------------------------------

    def _grouped(self) -> tuple[range, ...]:
        """The stretches of equal actors: they are interchangeable, so their places are kept in order."""
        actors = self.world.actors
        groups: list[range] = []
        start = 0
        for n in range(1, len(actors) + 1):
            if n == len(actors) or actors[n] != actors[start]:
                groups.append(range(start, n))
                start = n
        return tuple(groups)

    def _vector(self, places: list[int]) -> int:
        for group in self._groups:
            if len(group) > 1:
                places[group.start : group.stop] = sorted(places[group.start : group.stop])
        key = tuple(places)
        number = self._vector_ids.get(key)
        if number is None:
            number = self._vector_ids[key] = len(self.vectors)
            self.vectors.append(key)
            slots = []
            for group in self._groups:
                met: set[int] = set()
                for slot in group:
                    if key[slot] not in met:
                        met.add(key[slot])
                        slots.append((slot, key[slot]))
            self._slots.append(tuple(slots))
            locals_ = self.machine.locals
            self._holds.append(frozenset().union(*(locals_[n].holds for n in key)))
        return number

    def _hop(self, vector: int, slot: int, local: int) -> int:
        places = list(self.vectors[vector])
        places[slot] = local
        return self._vector(places)

    def _budget(self, left: tuple[int, ...]) -> int:
        number = self._budget_ids.get(left)
        if number is None:
            number = self._budget_ids[left] = len(self.budgets)
            if number > B_MASK:
                raise BadArgument("faults", self.world.faults, "allow more combinations than are explored")
            self.budgets.append(left)
        return number

    def _spend(self, budget: int, fault: int) -> int:
        """The budget with one fault less; -1 when there is none left."""
        number = self._spent.get((budget, fault))
        if number is None:
            left = list(self.budgets[budget])
            left[fault] -= 1
            number = self._spent[budget, fault] = -1 if left[fault] < 0 else self._budget(tuple(left))
        return number

    # --- the search -------------------------------------------------------------------------------------------------

    def search(
        self,
        *,
        max_states: int | None = None,
        max_depth: int | None = None,
        until: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Expand every state, nearest first; stops early at a bound or at Ctrl-C, and says so in `stopped`."""
        began = time.monotonic()
        self._until = until
        try:
            self._begin()
            self._expand(max_states, max_depth, progress, began)
        except KeyboardInterrupt:
            self.stopped = "interrupted"
        # A state of which only some moves were followed is not expanded: its edges are forgotten.
        whole = self.starts[-1] if self.starts else 0
        if len(self.starts) <= len(self.states) and not self.complete:
            del self.targets[whole:], self.target_labels[whole:]
        self.seconds = time.monotonic() - began

    def _begin(self) -> None:
        side, begins = self.machine.start()
        budget = self._budget(self.world.faults.budget)
        firsts: list[list[int]] = [[]]
        for ways in begins:
            firsts = [[*first, way] for first in firsts for way in ways]
        self.starts.append(0)
        for first in firsts:
            key = (side << (A_BITS + B_BITS)) | (self._vector(first) << B_BITS) | budget
            if key not in self._seen:
                self._meet(key, len(self.states), 0, 0)
        self._levels = [len(self.states)]
        for violation in self.machine.wrong_sides.get(side, ()):
            self._note(violation, 0, -1, 0)

    def _meet(self, key: int, parent: int, slot: int, label: int) -> int:
        number = self._seen[key] = len(self.states)
        self.states.append(key)
        self.parents.append(parent)
        self.parent_slots.append(slot)
        self.parent_labels.append(label)
        return number

    def _note(self, violation: int, source: int, slot: int, label: int) -> None:
        promise, says = self.machine.violations[violation]
        if promise not in self._broken:
            self._broken[promise] = (source, slot, label, says)
            self._enough = self._enough or self.promises[promise].name == self._until

    def _expand(
        self,
        max_states: int | None,
        max_depth: int | None,
        progress: Callable[[Progress], None] | None,
        began: float,
    ) -> None:
        machine = self.machine
        states, seen, targets, target_labels = self.states, self._seen, self.targets, self.target_labels
        parents, parent_slots, parent_labels = self.parents, self.parent_slots, self.parent_labels
        wrong_sides, hops, slots_of, holds_of = machine.wrong_sides, self._hops, self._slots, self._holds
        steps: dict[int, tuple[Outcome, ...]] = {}
        loses: dict[int, tuple[Outcome, ...]] = {}
        crashes: dict[int, tuple[tuple[int, int], ...]] = {}
        outsides: dict[int, tuple[tuple[int, int, tuple[int, ...], int | None, tuple[str, str, int] | None], ...]] = {}
        at = 0
        tick = time.monotonic()
        no_slot = len(self.world.actors)
        while at < len(states):
            if at == self._levels[-1]:
                self._levels.append(len(states))
                self.depth += 1
            if max_depth is not None and self.depth >= max_depth:
                self.stopped = f"at depth {max_depth}"
                return
            if self._enough:
                self.stopped = f"as {self._until} is broken"
                return
            if max_states is not None and len(states) > max_states:
                self.stopped = f"after {len(states):,} states"
                return
            if not at & 1023 and progress is not None and time.monotonic() - tick > 1:
                tick = time.monotonic()
                names = tuple(sorted((self.promises[n].name for n in self._broken), key=lambda name: int(name[1:])))
                progress(Progress(len(states), len(targets), self.depth, len(states) - at, tick - began, names))
            key = states[at]
            budget = key & B_MASK
            vector = (key >> B_BITS) & A_MASK
            side = key >> (A_BITS + B_BITS)
            side_high = side << 32
            vector_high = vector << 32
            losing = self._spend(budget, LOST)
            crashing = self._spend(budget, CRASH)
            for slot, local in slots_of[vector]:
                outcomes = steps.get(side_high | local)
                if outcomes is None:
                    outcomes = steps[side_high | local] = machine.step(side, local)
                for side2, local2, label, wrong in outcomes:
                    hop = vector_high | slot << 24 | local2
                    vector2 = hops.get(hop)
                    if vector2 is None:
                        vector2 = hops[hop] = self._hop(vector, slot, local2)
                    key2 = side2 << 38 | vector2 << 12 | budget
                    number = seen.get(key2)
                    if number is None:
                        number = seen[key2] = len(states)
                        states.append(key2)
                        parents.append(at)
                        parent_slots.append(slot)
                        parent_labels.append(label)
                        if side2 in wrong_sides:
                            for violation in wrong_sides[side2]:
                                self._note(violation, at, slot, label)
                    targets.append(number)
                    target_labels.append(label)
                    for violation in wrong:
                        self._note(violation, at, slot, label)
                if losing >= 0:
                    lost = loses.get(side_high | local)
                    if lost is None:
                        lost = loses[side_high | local] = machine.lose(side, local)
                    for side2, local2, label, wrong in lost:
                        self._reach(at, slot, side2, self._moved(vector, slot, local2), losing, label, wrong)
                if crashing >= 0:
                    crashed = crashes.get(local)
                    if crashed is None:
                        crashed = crashes[local] = machine.crashes(local)
                    for local2, label in crashed:
                        self._reach(at, slot, side, self._moved(vector, slot, local2), crashing, label, ())
            outside = outsides.get(side)
            if outside is None:
                outside = outsides[side] = machine.outside(side)
            for side2, label, wrong, fault, holder in outside:
                if fault is None:
                    if holder is None or holder not in holds_of[vector]:
                        self._reach(at, no_slot, side2, vector, budget, label, wrong)
                elif fault != LAPSE or holder in holds_of[vector]:
                    left = self._spend(budget, fault)
                    if left >= 0:
                        self._reach(at, no_slot, side2, vector, left, label, wrong)
            at += 1
            self.starts.append(len(targets))
        self.complete = True

    def _moved(self, vector: int, slot: int, local: int) -> int:
        hop = vector << 32 | slot << 24 | local
        number = self._hops.get(hop)
        if number is None:
            number = self._hops[hop] = self._hop(vector, slot, local)
        return number

    def _reach(
        self, source: int, slot: int, side: int, vector: int, budget: int, label: int, wrong: tuple[int, ...]
    ) -> None:
        key = side << (A_BITS + B_BITS) | vector << B_BITS | budget
        number = self._seen.get(key)
        if number is None:
            number = self._meet(key, source, slot, label)
            for violation in self.machine.wrong_sides.get(side, ()):
                self._note(violation, source, slot, label)
        self.targets.append(number)
        self.target_labels.append(label)
        for violation in wrong:
            self._note(violation, source, slot, label)

    # --- ends -------------------------------------------------------------------------------------------------------

    def bottoms(self) -> list[list[int]]:
        """The bottom components of the fault-free moves: where a world that nothing disturbs any more may settle.

        Everything reachable is asked, so each answers: "once faults stop here, and everybody goes on, what stays?"
        """
        fault = bytearray(len(self.machine.labels))
        for n, label in enumerate(self.machine.labels):
            fault[n] = label.fault is not None
        return _bottoms(len(self.states), self.starts, self.targets, self.target_labels, fault)

    def _judge_ends(self) -> None:
        asked = [
            (n, promise)
            for n, promise in enumerate(self.promises)
            if promise.looks_at("end") and promise.concerns(self.world) is None and promise.ends(self.world) is None
        ]
        if not asked or not self.complete:
            return
        known: dict[tuple[int, int], str] = {}

        def says(n: int, promise: Promise, side: int) -> str:
            if (n, side) not in known:
                keyspace, _, facts = self.machine.sides[side]
                broken = promise.end(self.world, self.machine.view(keyspace), self.machine.facts[facts])
                known[n, side] = next(broken, "")
            return known[n, side]

        for component in sorted(self.bottoms(), key=min):
            sides = sorted({self.states[state] >> (A_BITS + B_BITS) for state in component})
            state = min(component)
            for n, promise in asked:
                if n not in self._broken and all(says(n, promise, side) for side in sides):
                    self._broken[n] = (state, -1, 0, says(n, promise, self.states[state] >> (A_BITS + B_BITS)))

    # --- the answer -------------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """What is known now."""
        began = time.monotonic()
        self._judge_ends()
        self.seconds += time.monotonic() - began
        unspent = [
            f"a {word} (the world allows {most})"
            for word, most, place in zip(WORDS, self.world.faults.budget, range(len(WORDS)), strict=True)
            if most and not any(left[place] < most for left in self.budgets)
        ]
        gaps = self._gaps()
        witnesses = frozenset(self.machine.witnesses) | {
            f"a crash hit {gap.operation} between {gap.before} and {gap.after}" for gap in gaps if gap.crashes
        }
        placed = f", every placement of {self.world.faults}" if any(self.world.faults.budget) else ", no fault"
        where = f"{self.world.name} on {self.server.scripts.name}: every order of calls{placed}"
        verdicts: dict[str, Verdict] = {}
        for n, promise in enumerate(self.promises):
            missing = [
                need
                for need in (*promise.needed(self.world), *self.world.witnesses)
                if not any(way in witnesses for way in need.split(" or "))
            ]
            ended = promise.ends(self.world)
            if promise.looks_at("end") and ended is not None:
                missing.append(ended)
            untried = promise.untried(self.world)
            evidence = Evidence(len(self.states), self.complete, self.depth, (*missing, *unspent), where, untried)
            verdicts[promise.name] = judge(
                promise.name,
                promise.title,
                evidence,
                violation=self._violation(n),
                unconcerned=promise.concerns(self.world),
                lacks=promise.lacks(self.world, self.server.scripts),
            )
        return Result(
            world=self.world,
            scripts=self.server.scripts.name,
            server=self.server.kind,
            verdicts=verdicts,
            states=len(self.states),
            transitions=len(self.targets),
            real_calls=self.bench.calls,
            depth=self.depth,
            complete=self.complete,
            stopped=self.stopped,
            seconds=self.seconds,
            fingerprint=self.fingerprint(),
            gaps=gaps,
            witnesses=witnesses,
            bytes_per_state=self.bytes_per_state(),
        )

    def _violation(self, promise: int) -> Violation | None:
        found = self._broken.get(promise)
        if found is None:
            return None
        source, slot, label, says = found
        root, path = self.path(source)
        if slot >= 0:
            path.append((slot, label))
        history = self.history(root, path, self.promises[promise].name, says)
        return Violation(self.promises[promise].name, says, history)

    def path(self, state: int) -> tuple[int, list[tuple[int, int]]]:
        """The shortest way to a state: where it begins, and the slots and labels of its moves."""
        path: list[tuple[int, int]] = []
        while self.parents[state] != state:
            path.append((self.parent_slots[state], self.parent_labels[state]))
            state = self.parents[state]
        path.reverse()
        return state, path

    def history(self, root: int, path: list[tuple[int, int]], promise: str = "", says: str = "") -> History:
        """A way through the graph as a history: who did what, with what effect."""
        machine = self.machine
        side = self.states[root] >> (A_BITS + B_BITS)
        places = list(self.vectors[(self.states[root] >> B_BITS) & A_MASK])
        names = list(self.world.names)
        moves: list[Moved] = []
        initial = machine.view(machine.sides[side][0]).snapshot
        for slot, number in path:
            label = machine.labels[number]
            before = side
            if label.kind in ("call", "lost", "crash"):
                local = label.local if label.local >= 0 else places[slot]
                outcomes: tuple[Outcome, ...]
                if label.kind == "call":
                    outcomes = machine.step(side, local)
                elif label.kind == "lost":
                    outcomes = machine.lose(side, local)
                else:
                    outcomes = tuple((side, local2, n, ()) for local2, n in machine.crashes(places[slot]))
                side, following = next((s, f) for s, f, n, _ in outcomes if n == number)
                mover = machine.locals[places[slot]]
                moves.append(Moved.of(machine, names[slot], label, mover, before, side))
                places[slot] = following
                for group in self._groups:
                    if slot in group:
                        pairs = sorted(
                            zip(places[group.start : group.stop], names[group.start : group.stop], strict=True)
                        )
                        places[group.start : group.stop] = [place for place, _ in pairs]
                        names[group.start : group.stop] = [name for _, name in pairs]
            else:
                side = next(after for after, n, *_ in machine.outside(side) if n == number)
                moves.append(Moved.of(machine, "", label, None, before, side))
        return History(
            self.world, self.server.scripts, self.server.kind, initial, tuple(moves), promise=promise, says=says
        )

    def _gaps(self) -> tuple[Gap, ...]:
        machine = self.machine
        vectors: Counter[int] = Counter((key >> B_BITS) & A_MASK for key in self.states)
        visits: Counter[tuple[str, str, str]] = Counter()
        for vector, n in vectors.items():
            for local in set(self.vectors[vector]):
                visits[machine.locals[local].gap] += n
        crashes: Counter[tuple[str, str, str]] = Counter()
        lost: Counter[tuple[str, str, str]] = Counter()
        for number, n in Counter(self.target_labels).items():
            label = machine.labels[number]
            if label.kind == "crash":
                crashes[machine.locals[label.local].gap] += n
            elif label.kind == "lost":
                lost[machine.locals[label.local].gap] += n
        return tuple(
            Gap(*gap, visits=n, crashes=crashes[gap], lost=lost[gap])
            for gap, n in sorted(visits.items())
            if gap[0] != "at rest"
        )

    def fingerprint(self) -> str:
        """64 hex digits of the whole graph: its states by content, its moves, in the order they were met."""
        machine = self.machine
        sha = hashlib.sha256()
        for numbers in (self.states, self.starts, self.targets, self.target_labels):
            sha.update(numbers.tobytes() if sys.byteorder == "little" else _swapped(numbers))
        for part in machine.parts:
            sha.update(repr((part.queue, part.snapshot.entries)).encode())
        sha.update(repr((machine.keyspaces, machine.sides, self.vectors, self.budgets)).encode())
        sha.update(repr([sorted(map(repr, facts)) for facts in machine.facts]).encode())
        sha.update(repr([sorted(cache) for cache in machine.caches]).encode())
        for label in machine.labels:
            sha.update(repr((label.kind, label.local, label.choice, label.what, label.made, label.fault)).encode())
        for local in machine.locals:
            sha.update(repr((local.kind, local.memory, local.gap, local.place, local.again, local.number)).encode())
        return sha.hexdigest()

    def bytes_per_state(self) -> float:
        """How much memory a state takes in all: its key, its way back, and its moves."""
        arrays = (self.states, self.parents, self.parent_slots, self.parent_labels)
        edges = (self.targets, self.target_labels, self.starts)
        held = sum(numbers.itemsize * len(numbers) for numbers in (*arrays, *edges))
        # A dict entry, and the two whole numbers it holds.
        held += sys.getsizeof(self._seen) + len(self._seen) * (sys.getsizeof(1 << 60) + sys.getsizeof(1 << 20))
        return held / max(len(self.states), 1)


def _swapped(numbers: array[int]) -> bytes:
    copy = array(numbers.typecode, numbers)
    copy.byteswap()
    return copy.tobytes()


def _bottoms(
    count: int, starts: array[int], targets: array[int], labels: array[int], fault: bytearray
) -> list[list[int]]:
    """The strongly connected components that no fault-free move leaves (Tarjan's algorithm, without recursion)."""
    index = array("I", bytes(4 * count))  # 0: not met yet
    low = array("I", bytes(4 * count))
    closed = bytearray(count)
    leaves = bytearray(count)  # whether something below leads out of its component
    cursor = array("Q", starts[:count])
    stack: list[int] = []
    path: list[int] = []
    found: list[list[int]] = []
    clock = 0
    for root in range(count):
        if index[root]:
            continue
        path.append(root)
        while path:
            node = path[-1]
            if not index[node]:
                clock += 1
                index[node] = low[node] = clock
                stack.append(node)
            at, stop = cursor[node], starts[node + 1]
            deeper = -1
            lowest = low[node]
            while at < stop:
                if fault[labels[at]]:
                    at += 1
                    continue
                target = targets[at]
                if not index[target]:
                    deeper = target
                    break  # looked at again once it is known
                if closed[target]:
                    leaves[node] = 1
                elif low[target] < lowest:
                    lowest = low[target]
                at += 1
            low[node] = lowest
            cursor[node] = at
            if deeper >= 0:
                path.append(deeper)
                continue
            path.pop()
            if lowest == index[node]:
                component = []
                out = 0
                while True:
                    member = stack.pop()
                    closed[member] = 1
                    component.append(member)
                    out |= leaves[member]
                    if member == node:
                        break
                if not out:
                    found.append(component)
    return found
