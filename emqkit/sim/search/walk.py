"""Walking a world by hand, one move at a time: to replay a history, to wander where searching would take too long.

    walker = Walker(scenario("pump-crashes"), server)
    for option in walker.options(): print(option)
    walker.take(option)

Every call of a walk is really made, on a server that holds the whole keyspace; nothing is remembered.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emqkit.errors import BadArgument
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim.history import History, Moved
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.search.bench import Bench
from emqkit.sim.search.model import CRASH, LAPSE, LOST, Label, Machine
from emqkit.sim.worlds.world import World

__all__ = ["Option", "Replay", "Walker", "walk_along", "wander"]


@dataclass(frozen=True, slots=True)
class Option:
    """A move that can be made now.

    Attributes:
        actor: who would move; empty for time and the server's own faults.
        label: what kind of move it is.
        slot: which of the world's actors; -1 for nobody.
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
        """Whether it costs a budget."""
        return self.label.fault is not None


class Walker:
    """A world at one moment of one history.

    Args:
        world: whose walk it is.
        server: where calls are made: its scratch place is taken, and given back by `close`.
        promises: which promises are looked at.
    """

    def __init__(self, world: World, server: Server, promises: tuple[Promise, ...] = PROMISES) -> None:
        self.world = world
        self.promises = promises
        self.place = server.scratch()
        self.place.scripts = server.scripts
        self.machine = Machine(world, Bench(self.place), promises, remembers=False, confined=False)
        self.side, begins = self.machine.start()
        self.places = [ways[0] for ways in begins]
        self.left = list(world.faults.budget)
        self.moves: list[Moved] = []
        self.initial = self.machine.view(self.machine.sides[self.side][0]).snapshot

    def close(self) -> None:
        """Give the scratch place back."""
        self.place.close()

    def __enter__(self) -> Walker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def options(self) -> list[Option]:
        """Every move that can be made now, the actors' first."""
        machine, found = self.machine, []
        for slot, local in enumerate(self.places):
            name = self.world.names[slot]
            outcomes = list(machine.step(self.side, local))
            if self.left[LOST]:
                outcomes += machine.lose(self.side, local)
            if self.left[CRASH]:
                outcomes += [(self.side, after, label, ()) for after, label in machine.crashes(local)]
            found += [self._option(name, slot, *outcome) for outcome in outcomes]
        held = {claim for local in self.places for claim in machine.locals[local].holds}
        for side, number, wrong, fault, holder in machine.outside(self.side):
            if fault is None:
                possible = holder is None or holder not in held
            else:
                possible = self.left[fault] > 0 and (fault != LAPSE or holder in held)
            if possible:
                found.append(self._option("", -1, side, -1, number, wrong))
        return found

    def _option(self, name: str, slot: int, side: int, local: int, number: int, wrong: tuple[int, ...]) -> Option:
        machine = self.machine
        broken = (*wrong, *machine.wrong_sides.get(side, ()))
        said = tuple(
            (self.promises[promise].name, says) for promise, says in map(machine.violations.__getitem__, broken)
        )
        return Option(name, machine.labels[number], slot, side, local, said)

    def take(self, option: Option) -> Moved:
        """Make a move that `options` offered."""
        machine, label = self.machine, option.label
        mover = machine.locals[self.places[option.slot]] if option.slot >= 0 else None
        moved = Moved.of(machine, option.actor, label, mover, self.side, option.side)
        self.moves.append(moved)
        self.side = option.side
        if option.slot >= 0:
            self.places[option.slot] = option.local
        if label.fault is not None:
            self.left[label.fault] -= 1
        return moved

    def history(self, promise: str = "", says: str = "") -> History:
        """The walk so far."""
        return History(
            self.world, self.place.scripts, self.place.kind, self.initial, tuple(self.moves), promise=promise, says=says
        )


@dataclass(frozen=True)
class Replay:
    """What came of replaying a history.

    Attributes:
        history: the moves as they were made this time.
        confirmed: whether the promise broke again.
        says: what is broken, or at which move the replay could not go on.
    """

    history: History
    confirmed: bool
    says: str


def walk_along(
    world: World,
    moves: Sequence[dict[str, Any]],
    promise: str,
    scripts: ScriptSet,
    server: Server | str | None = None,
) -> Replay:
    """Make these moves, as `History.as_json` writes them, in a world of any kind."""
    opened = None if isinstance(server, Server) else open_server(server or "fake://", scripts=scripts)
    base = server if isinstance(server, Server) else opened
    assert base is not None
    try:
        with base.scratch() as place:
            place.scripts = scripts
            with Walker(world, place) as walker:
                broken = ""
                for n, move in enumerate(moves, start=1):
                    option = next((option for option in walker.options() if _fits(option, move, walker)), None)
                    if option is None:
                        says = f"move {n} cannot be made: {move['actor'] or move['kind']} goes another way here"
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
    """What a promise about ends says here, if it goes on saying so wherever fault-free moves lead from here."""
    asked = [one for one in walker.promises if one.name == promise and one.looks_at("end")]
    if not asked or asked[0].ends(walker.world) is not None:
        return ""
    machine = walker.machine
    machine.remembers = True  # from here on it is asked what may follow, not what did
    says = ""
    first = (walker.side, tuple(walker.places))
    met, waiting = {first}, [first]
    while waiting:
        side, places = waiting.pop()
        keyspace, _, facts = machine.sides[side]
        broken = next(asked[0].end(walker.world, machine.view(keyspace), machine.facts[facts]), "")
        if not broken or len(met) > MOST_ENDS:
            return ""
        says = says or broken
        held = {claim for local in places for claim in machine.locals[local].holds}
        following = [
            (after, (*places[:slot], local, *places[slot + 1 :]))
            for slot, place in enumerate(places)
            for after, local, _, _ in machine.step(side, place)
        ]
        following += [
            (after, places)
            for after, _, _, fault, holder in machine.outside(side)
            if fault is None and (holder is None or holder not in held)
        ]
        for state in following:
            if state not in met:
                met.add(state)
                waiting.append(state)
    return says


def wander(
    world: World,
    server: Server,
    *,
    seed: int = 0,
    moves: int = 200,
    promises: tuple[Promise, ...] = PROMISES,
) -> tuple[History, ...]:
    """Walk at random from the beginning, and return a history for each promise met broken on the way.

    For worlds too big to be explored whole: it finds, and never shows that something holds.

    Args:
        world: where.
        server: its scratch place is used.
        seed: the same seed walks the same way.
        moves: how many, 1 or more.
        promises: which are looked at.
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
