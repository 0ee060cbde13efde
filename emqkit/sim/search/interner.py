"""Numbers for contents: equal contents have one number, from 0 in the order in which they are first met.

A state is a few such numbers packed into one. `Widths` says how wide each may be, and every new number is checked
against it: no two can overlap, and a search that needs more stops and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from emqkit.errors import EmqError
from emqkit.keyspace import Keyspace, Part
from emqkit.sim.promises import Facts, Promise
from emqkit.sim.worlds.actors import Actor
from emqkit.sim.worlds.world import World

__all__ = ["WIDTHS", "Budgets", "Held", "Interner", "Sides", "TooMany", "Vectors", "Widths"]

T = TypeVar("T")
Held = tuple[str, str, int]
"""A claim that an actor holds: queue, id, token."""


class TooMany(EmqError):
    """A world has more of something than can be distinguished."""

    def __init__(self, what: str, bits: int) -> None:
        self.most = f"{1 << bits:,} {what}"
        super().__init__(f"The world has more than {self.most}, the most that can be distinguished.")


class Interner(list[T]):
    """Contents by their number.

    Args:
        what: what they are, in the plural, for `TooMany`.
        bits: how wide a number may be.
    """

    def __init__(self, what: str, bits: int = 32) -> None:
        super().__init__()
        self._what = what
        self._bits = bits
        self._numbers: dict[Hashable, int] = {}

    def number(self, content: T) -> int:
        """The number of a content that can be hashed. Raises `TooMany`."""
        number = self._numbers.get(content)
        return self.add(content, content) if number is None else number

    def find(self, key: Hashable) -> int | None:
        """The number of what was added under a key; None if nothing was."""
        return self._numbers.get(key)

    def add(self, key: Hashable, content: T) -> int:
        """Give a new content its number. Raises `TooMany`."""
        number = len(self)
        if number >> self._bits:
            raise TooMany(self._what, self._bits)
        self._numbers[key] = number
        self.append(content)
        return number


@dataclass(frozen=True, slots=True)
class Widths:
    """How many bits each number has when several are packed into one.

    A state is its world-side, its vector of locals and its budget, in 64 bits. The cache keys of moves are a vector, a
    slot and the local there afterwards, or a world-side and a local.
    """

    side: int = 26
    vector: int = 26
    budget: int = 12
    slot: int = 8
    local: int = 24
    state: int = 32


WIDTHS = Widths()


class Sides:
    """The world's side of a state: the keyspace (split by queue), the flushed scripts, the facts; each a number.

    The violations of a part or a side are computed when it is first met.

    Attributes:
        parts: contents of one queue.
        keyspaces: the numbers of a keyspace's parts.
        caches: sets of flushed scripts, by their numbers.
        facts: sets of facts.
        sides: keyspace, cache and facts, by number.
        violations: a promise, by its position, with a sentence.
        wrong: the violations of a side, if it has any.
    """

    def __init__(self, world: World, promises: tuple[Promise, ...], widths: Widths) -> None:
        self.parts: Interner[Part] = Interner("contents of a queue")
        self.keyspaces: Interner[tuple[int, ...]] = Interner("keyspaces")
        self.caches: Interner[frozenset[int]] = Interner("script caches")
        self.facts: Interner[Facts] = Interner("sets of facts")
        self.sides: Interner[tuple[int, int, int]] = Interner("world-sides", widths.side)
        self.violations: Interner[tuple[int, str]] = Interner("violations")
        self.wrong: dict[int, tuple[int, ...]] = {}
        self._world = world
        self._views: list[Keyspace] = []
        self._part_wrong: list[tuple[int, ...]] = []
        self._part_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("part")]
        self._state_promises = [(n, p) for n, p in enumerate(promises) if p.looks_at("state")]

    def part(self, part: Part) -> int:
        """The number of a part."""
        number = self.parts.number(part)
        if number == len(self._part_wrong):
            said = ((n, says) for n, promise in self._part_promises for says in promise.part(self._world, part))
            self._part_wrong.append(tuple(map(self.violations.number, said)))
        return number

    def keyspace(self, parts: Iterable[int]) -> int:
        """The number of a keyspace, without empty parts."""
        held = sorted((n for n in parts if self.parts[n].snapshot.entries), key=lambda n: self.parts[n].queue)
        number = self.keyspaces.number(tuple(held))
        if number == len(self._views):
            self._views.append(Keyspace(tuple(self.parts[n] for n in held)))
        return number

    def replaced(self, keyspace: int, old: int, new: int) -> int:
        """The keyspace with one part replaced."""
        return keyspace if old == new else self.keyspace([*(n for n in self.keyspaces[keyspace] if n != old), new])

    def view(self, keyspace: int) -> Keyspace:
        """A keyspace as promises read it."""
        return self._views[keyspace]

    def number(self, keyspace: int, cache: int, facts: int) -> int:
        """The number of a side."""
        met = len(self.sides)
        number = self.sides.number((keyspace, cache, facts))
        if number == met:
            wrong = [v for part in self.keyspaces[keyspace] for v in self._part_wrong[part]]
            view, known = self._views[keyspace], self.facts[facts]
            for n, promise in self._state_promises:
                # Facts have no order, so their sentences are sorted.
                wrong += [self.violations.number((n, says)) for says in sorted(promise.state(self._world, view, known))]
            if wrong:
                self.wrong[number] = tuple(wrong)
        return number


class Vectors:
    """The local of each actor, by number.

    Equal actors are interchangeable: swapping two gives the same vector, and of those at the same local only one needs
    to be moved.

    Attributes:
        vectors: locals, in order of the actors.
        groups: the ranges of equal actors; within each the locals are sorted.
        slots: for each vector the actors to move, with their locals.
        holds: for each vector the claims of live actors.
    """

    def __init__(self, actors: Sequence[Actor], holds: Callable[[int], frozenset[Held]], widths: Widths) -> None:
        if len(actors) >> widths.slot:
            raise TooMany("actors", widths.slot)
        self.vectors: Interner[tuple[int, ...]] = Interner("vectors of locals", widths.vector)
        ends = [n for n in range(1, len(actors) + 1) if n == len(actors) or actors[n] != actors[n - 1]]
        self.groups = tuple(range(start, end) for start, end in zip([0, *ends], ends, strict=False))
        self.slots: list[tuple[tuple[int, int], ...]] = []
        self.holds: list[frozenset[Held]] = []
        self._holds = holds

    def number(self, places: Sequence[int]) -> int:
        """The number of a vector, whatever the order of equal actors."""
        ordered = tuple(place for group in self.groups for place in sorted(places[group.start : group.stop]))
        number = self.vectors.number(ordered)
        if number == len(self.slots):
            starts = {group.start for group in self.groups}
            firsts = (n for n, place in enumerate(ordered) if n in starts or place != ordered[n - 1])
            self.slots.append(tuple((n, ordered[n]) for n in firsts))
            self.holds.append(frozenset().union(*map(self._holds, ordered)))
        return number

    def hop(self, vector: int, slot: int, local: int) -> int:
        """The vector after one actor has moved."""
        places = self.vectors[vector]
        return self.number((*places[:slot], local, *places[slot + 1 :]))


class Budgets(Interner[tuple[int, ...]]):
    """Budgets by number: how often each fault may still happen."""

    def __init__(self, widths: Widths) -> None:
        super().__init__("budgets", widths.budget)

    def spend(self, budget: int, fault: int) -> int:
        """The budget with one fault less; -1 if there is none left."""
        left = tuple(n - (place == fault) for place, n in enumerate(self[budget]))
        return self.number(left) if left[fault] >= 0 else -1
