"""Walks a world one move at a time: to replay a history, or to wander where a search would take too long.

    walker = Walker(scenario("pump-crashes"), server)
    for option in walker.options(): print(option)
    walker.take(option)

Every call of a walk is really made, on a server that holds the whole keyspace; nothing is cached.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emqkit.errors import BadArgument, printable
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim.history import History, HistoryStep
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.search.bench import Bench, place_for
from emqkit.sim.search.ends import ends, owing
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.interner import Held, Interner
from emqkit.sim.search.model import FROM_OUTSIDE, OF_ACTORS, ActorFailed, Edge, Label, Model
from emqkit.sim.worlds.faults import Fault
from emqkit.sim.worlds.world import World

__all__ = ["Option", "Replay", "Walker", "walk_along", "wander"]


@dataclass(frozen=True, slots=True)
class Option:
    """A move that is possible now.

    Attributes:
        actor: who would move; empty for time and the server's own faults.
        label: the kind of move.
        slot: which of the world's actors; -1 for none.
        side, local: where it leads.
        wrong: the promises it breaks, each with its sentence.
    """

    actor: str
    label: Label
    slot: int
    side: int
    local: int
    wrong: tuple[tuple[str, str], ...]

    @property
    def fault(self) -> bool:
        """Whether it costs budget."""
        return self.label.fault is not None


class Walker:
    """A world at one point of one history.

    Args:
        world: the world to walk.
        server: where calls are made: its scratch place is used, and released by `close`.
        promises: which promises to check.
        scripts: the script set to run; by default the server's own.
    """

    def __init__(
        self,
        world: World,
        server: Server,
        promises: tuple[Promise, ...] = PROMISES,
        scripts: ScriptSet | None = None,
    ) -> None:
        self.world = world
        self.promises = promises
        self.place = place_for(world, server, scripts)
        self.model = Model(world, Bench(self.place), promises, remembers=False, confined=False)
        self.side, begins = self.model.start()
        self.places = [ways[0] for ways in begins]
        self.left = list(world.faults.budget)
        self.moves: list[HistoryStep] = []
        self.initial = self.model.view(self.side).snapshot

    def close(self) -> None:
        """Release the scratch place."""
        self.place.close()

    def __enter__(self) -> Walker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def options(self) -> list[Option]:
        """Every move that is possible now, the actors' first. Raises `ActorFailed`, with the walk so far."""
        try:
            return self._options()
        except ActorFailed as failed:
            raise ActorFailed(failed.who, failed.error, self.history()) from failed.error

    def _options(self) -> list[Option]:
        found = [
            self._option(slot, outcome)
            for slot, local in enumerate(self.places)
            for fault in self._faults(OF_ACTORS)
            for outcome in self.model.moves(self.side, local, fault)
        ]
        held = _held(self.model, self.places)
        found += [
            self._option(-1, outcome)
            for fault in self._faults(FROM_OUTSIDE)
            for outcome in self.model.outside(self.side, fault)
            if outcome.possible(held, fault)
        ]
        return found

    def _faults(self, among: tuple[Fault, ...]) -> list[Fault | None]:
        """No fault, and those of these faults that the budget still allows."""
        return [None, *(fault for fault in among if self.left[fault])]

    def _option(self, slot: int, outcome: Edge) -> Option:
        sides, side = self.model.sides, outcome.side
        broken = (sides.violations[violation] for violation in (*outcome.wrong, *sides.wrong.get(side, ())))
        said = tuple((self.promises[promise].name, says) for promise, says in broken)
        name = self.world.names[slot] if slot >= 0 else ""
        return Option(name, self.model.labels[outcome.label], slot, side, outcome.local, said)

    def take(self, option: Option) -> HistoryStep:
        """Make a move that `options` offered."""
        moved = self.model.moved(option.actor, option.label, self.side, option.side)
        self.moves.append(moved)
        self.side = option.side
        if option.slot >= 0:
            self.places[option.slot] = option.local
        if option.label.fault is not None:
            self.left[option.label.fault] -= 1
        return moved

    def history(self, promise: str = "", says: str = "") -> History:
        """The walk so far."""
        return History(
            self.world, self.place.scripts, self.place.kind, self.initial, tuple(self.moves), promise=promise, says=says
        )


@dataclass(frozen=True)
class Replay:
    """The result of replaying a history.

    Attributes:
        history: the moves as they were made this time.
        confirmed: whether the promise broke again.
        says: what is broken, or at which move the replay could not go on.
        same_scripts: whether the scripts are those that the history was made with.
    """

    history: History
    confirmed: bool
    says: str
    same_scripts: bool = True


def walk_along(
    world: World,
    moves: Sequence[dict[str, Any]],
    promise: str,
    scripts: ScriptSet,
    server: Server | str | None = None,
) -> Replay:
    """Make these moves, as written by `History.as_json`, in any world."""
    opened = None if isinstance(server, Server) else open_server(server or "fake://")
    base = server if isinstance(server, Server) else opened
    assert base is not None
    try:
        with Walker(world, base, scripts=scripts) as walker:
            broken = ""
            for n, move in enumerate(moves, start=1):
                option = next((option for option in walker.options() if _fits(option, move, walker)), None)
                if option is None:
                    who = printable(move["actor"] or move["kind"])
                    says = f"move {n} cannot be made: {who} goes another way here"
                    return Replay(walker.history(), False, says)
                walker.take(option)
                broken = next((says for name, says in option.wrong if name == promise), "")
            broken = broken or _at_the_end(walker, promise)
            says = broken or f"all {len(moves)} moves were made, and {promise} is kept"
            return Replay(walker.history(promise if broken else "", broken), bool(broken), says)
    finally:
        if opened is not None:
            opened.close()


def _fits(option: Option, move: dict[str, Any], walker: Walker) -> bool:
    label = option.label
    what = walker.world.label(label.id) if label.id else label.what
    return (option.actor, label.kind, label.choice, what, option.fault) == (
        move["actor"],
        move["kind"],
        move["choice"],
        move["what"],
        move["fault"],
    )


MOST_ENDS = 100_000


def _at_the_end(walker: Walker, promise: str) -> str:
    """What a promise about ends says here, or in the ends that fault-free moves lead to from here."""
    asked = [(0, one) for one in walker.promises if one.name == promise and one.at_ends]
    model = walker.model
    model.remembers = True  # from here on the question is what may follow, not what did
    graph = _from_here(walker) if asked else None
    if graph is None:
        return ""
    found = list(ends(model, graph))
    owed = {one.state: one.says for one in owing(model, graph, asked)}
    here = next((owed.get(min(states), "") for states in found if 0 in states), "")
    return here or (owed[min(owed)] if len(owed) == len(found) else "")


def _from_here(walker: Walker) -> Graph | None:
    """The states reachable from here by fault-free moves, this one first; None if there are too many."""
    model, graph = walker.model, Graph()
    vectors: Interner[tuple[int, ...]] = Interner("vectors of locals")

    def meet(side: int, places: tuple[int, ...], label: int) -> int:
        packed = graph.packed(side, vectors.number(places), 0)
        return number if (number := graph.number_of.get(packed)) is not None else graph.meet(packed, 0, 0, label)

    meet(walker.side, tuple(walker.places), 0)
    while len(graph.starts) <= len(graph):
        at = len(graph.starts) - 1
        side, places = graph.side(at), vectors[graph.vector(at)]
        following = [
            (outcome.side, (*places[:slot], outcome.local, *places[slot + 1 :]), outcome.label)
            for slot, place in enumerate(places)
            for outcome in model.moves(side, place)
        ]
        held = _held(model, places)
        following += [(out.side, places, out.label) for out in model.outside(side) if out.possible(held, None)]
        for move in following:
            graph.targets.append(meet(*move))
            graph.labels.append(move[2])
        graph.starts.append(len(graph.targets))
        if len(graph) > MOST_ENDS:
            return None
    return graph


def _held(model: Model, places: Sequence[int]) -> frozenset[Held]:
    """The claims of live actors."""
    return frozenset().union(*(model.locals[place].holds for place in places))


def wander(
    world: World,
    server: Server,
    *,
    seed: int = 0,
    moves: int = 200,
    promises: tuple[Promise, ...] = PROMISES,
) -> tuple[History, ...]:
    """Walk at random from the start, and return a history for each promise that breaks on the way.

    For worlds too big to explore completely: it finds violations, but never shows that a promise holds.

    Args:
        world: the world to walk.
        server: its scratch place is used.
        seed: the same seed takes the same walk.
        moves: how many, 1 or more.
        promises: which promises to check.
    """
    if moves < 1:
        raise BadArgument("moves", moves, "is not a whole number of at least 1")
    chance = random.Random(seed)
    met: dict[str, History] = {}
    with Walker(world, server, promises) as walker:
        for _ in range(moves):
            options = walker.options()
            if not options:
                break
            option = chance.choice(options)
            walker.take(option)
            for name, says in option.wrong:
                if name not in met:
                    met[name] = walker.history(name, says)
    return tuple(met.values())
