"""Where a world may settle once faults stop, and what promises say there.

Fairness: once faults stop, every transition that stays possible is made eventually, except the passing of a deadline
that is kept renewed. So a world settles in an *end*: a strongly connected set of states that no fault-free transition
leaves, except the passing of deadlines that transitions inside the end renew. What is owed in every state of an end is
owed forever, whoever pauses, extends or retries.

A promise's preconditions (a worker that settles, a reaper, a Pump, a promoter) are recognised by what actors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from emqkit import keys
from emqkit.keyspace import FUTURE, PAST, TIMED
from emqkit.sim.promises import Promise
from emqkit.sim.promises.clauses import Lacks
from emqkit.sim.search.bench import Deadline
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.model import Label, Local, Model

__all__ = ["Owing", "ends", "lacks", "owing"]


class Owing(NamedTuple):
    """A promise, by its position, that is broken in an end, with the end's first state."""

    promise: int
    state: int
    says: str


# --- ends -------------------------------------------------------------------------------------------------------------


def ends(model: Model, graph: Graph) -> Iterator[list[int]]:
    """All ends of a complete graph, each as its states."""
    faults = bytearray(label.fault is not None for label in model.labels)
    deadlines = [_passes(label) for label in model.labels]
    component, leaves = graph.components(faults)
    settled = _members(component, leaves)
    yield from settled.values()
    everywhere = _renewed(model, graph, component)
    waiting = [frozenset().union(*everywhere.values()) & frozenset(d for d in deadlines if d is not None)]
    tried: set[frozenset[Deadline]] = {frozenset()}
    while waiting:
        excused = waiting.pop()
        if excused in tried:
            continue
        tried.add(excused)
        skip = bytearray(fault or deadline in excused for fault, deadline in zip(faults, deadlines, strict=True))
        component, leaves = graph.components(skip)
        settled = _members(component, leaves)
        renewed = _renewed(model, graph, component)
        for number, states in settled.items():
            passing = {
                deadline
                for state in states
                for target, label in graph.moves(state)
                if skip[label] and not faults[label] and component[target] != number
                if (deadline := deadlines[label]) is not None
            }
            if unexcused := passing - renewed.get(number, set()):
                waiting.append(excused - unexcused)
            elif passing:
                yield states


def _passes(label: Label) -> Deadline | None:
    """The deadline whose passing a move is; None for any other move."""
    sets = {"lapse": "active", "due": "schedule"}
    return (label.queue, sets[label.kind], label.id) if label.kind in sets else None


def _members(component: Iterable[int], leaves: bytearray) -> dict[int, list[int]]:
    """The states of each strongly connected component that no move leaves."""
    found: dict[int, list[int]] = {}
    for state, number in enumerate(component):
        if not leaves[number]:
            found.setdefault(number, []).append(state)
    return found


def _renewed(model: Model, graph: Graph, component: Iterable[int]) -> dict[int, set[Deadline]]:
    """The deadlines that moves inside each component renew, at once or over several moves."""
    found: dict[int, set[Deadline]] = {}
    of = list(component)
    written: dict[tuple[int, int], frozenset[Deadline]] = {}
    sides = model.sides.sides
    for state, number in enumerate(of):
        side = graph.side(state)
        again = model.renewals.get(side)
        for target, label in graph.moves(state):
            if of[target] != number:
                continue
            if again is not None and label in again:
                found.setdefault(number, set()).update(again[label])
            before, after = sides[side][0], sides[graph.side(target)][0]
            if before != after:
                if (before, after) not in written:
                    written[before, after] = frozenset(_written(model, before, after))
                if written[before, after]:
                    found.setdefault(number, set()).update(written[before, after])
    return found


def _written(model: Model, before: int, after: int) -> Iterator[Deadline]:
    """The deadlines that are in the future in one keyspace but not in the one before."""
    old, new = model.sides.view(before), model.sides.view(after)
    for part in new.parts:
        for name in TIMED:
            held = old[part.queue].members(name)
            for id, score in part.members(name).items():
                if score == FUTURE != held.get(id):
                    yield part.queue, name, id


def owing(model: Model, graph: Graph, asked: list[tuple[int, Promise]]) -> Iterator[Owing]:
    """What is owed in every state of an end; the nearest end of each promise comes first."""
    known: dict[tuple[int, int, int], tuple[tuple[str, ...], frozenset[str]]] = {}

    def says(n: int, promise: Promise, place: int, side: int) -> tuple[tuple[str, ...], frozenset[str]]:
        key = (n, place, side)
        if key not in known:
            clause, view = promise.at_ends[place], model.view(side)
            facts = model.sides.facts[model.sides.sides[side][2]]
            known[key] = tuple(clause.check(model.world, view, facts)), clause.unmet(model.world, view)
        return known[key]

    for states in sorted(ends(model, graph), key=min) if asked else ():
        first = min(states)
        sides = sorted({graph.side(state) for state in states})
        for n, promise in asked:
            for place in range(len(promise.at_ends)):
                said, unmet = says(n, promise, place, graph.side(first))
                owed = list(said)
                for side in sides:
                    if not owed:
                        break
                    said, less = says(n, promise, place, side)
                    owed = [one for one in owed if one in said]
                    unmet &= less  # each precondition must be met in some state
                if owed and not unmet:
                    yield Owing(n, first, owed[0])
                    break


# --- what is presupposed ----------------------------------------------------------------------------------------------

ASKING = {"complete": "worker", "retry": "worker", "reap": "reaper", "promote": "promoter"}
"""The shipped scripts that perform a role, even if they find nothing to do."""

DELIVERING = ("flow_deliver", "flow_fail_deliver")


def lacks(model: Model, graph: Graph) -> Lacks:
    """The roles that each queue of the flows lacks, judged by what was done in the whole graph.

    An actor that never had anything to do counts as what the world declares it to be.
    """
    done = model.deeds | {deed for local in model.locals for deed in _asked(local)}
    sides = model.sides
    keyspaces = {sides.sides[side][0] for side in {graph.side(state) for state in range(len(graph))}}
    parts = [sides.parts[part] for part in {part for keyspace in keyspaces for part in sides.keyspaces[keyspace]}]
    work = {
        "worker": {part.queue for part in parts if part.members("pending") or part.members("active")},
        "reaper": {part.queue for part in parts if PAST in part.members("active").values()},
        "promoter": {part.queue for part in parts if part.members("schedule")},
        "pump": {part.queue for part in parts if part.entries},
    }
    found: dict[str, tuple[str, ...]] = {}
    for queue in model.world.queues:
        declared = {actor.role for actor in model.world.actors if queue in actor.queues}
        needs = ["worker", "reaper"]
        needs += ["pump"] if model.world.signals(queue) or queue in work["pump"] else []
        needs += ["promoter"] if queue in work["promoter"] else []
        idle = {role for role, queues in work.items() if role in declared and queue not in queues}
        missing = tuple(role for role in needs if (role, queue) not in done and role not in idle)
        if missing:
            found[queue] = missing
    return found


def _asked(local: Local) -> Iterator[tuple[str, str]]:
    """The role that a local's next call performs, by the shipped script it runs: role and queue."""
    for call in local.request.calls if local.request is not None else ():
        named = [key for key in map(keys.parse, call.keys) if key is not None]
        if call.kind == "script" and call.verb in ASKING and named:
            yield ASKING[call.verb], named[0].queue
        elif call.kind == "script" and call.verb in DELIVERING:
            read = (keys.parse(name) for flush in local.past for before in flush.calls for name in before.keys)
            yield from (("pump", key.queue) for key in read if key is not None and key.name == "flow:outbox")
