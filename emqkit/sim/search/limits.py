"""How far a search may go: how much memory it takes, as estimated, and what goes on growing in a world without end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from emqkit.keyspace import Part
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.interner import Vectors
from emqkit.sim.search.model import Model
from emqkit.sim.worlds.world import World
from emqkit.snapshot import flat

__all__ = ["MEGABYTE", "Memory", "growing", "most_memory"]

MEGABYTE = 1 << 20
OF_A_SIDE, OF_A_VECTOR, OF_A_LOCAL, OF_AN_EFFECT, OF_AN_OUTCOME, OF_A_VALUE = 600, 700, 2_000, 500, 350, 120
"""About how many bytes CPython takes for each, with what is kept to find it; of a value beside its own bytes."""


def most_memory() -> int:
    """Half of the memory there is, in bytes: of this machine, or of the container it is in; at least 256 MB."""
    found = [4 << 30]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    container = Path("/sys/fs/cgroup/memory.max")
    if container.exists() and (limit := container.read_text().strip()).isdigit():
        found.append(int(limit))
    return max(min(found) // 2, 256 * MEGABYTE)


class Memory:
    """About how many bytes a search takes; the contents of queues are looked at once, when they are new."""

    def __init__(self, model: Model, graph: Graph, vectors: Vectors) -> None:
        self._model, self._graph, self._vectors = model, graph, vectors
        self._parts = 0
        self._contents = 0

    def estimate(self, outcomes: int) -> int:
        """The bytes it takes now, with so many outcomes of moves remembered."""
        model, sides = self._model, self._model.sides
        for part in sides.parts[self._parts :]:
            values = [item for _, value in part.snapshot.entries for item in flat(value)]
            # Beside the value itself: the reading of it, which promises ask for.
            self._contents += 2 * sum(map(len, values)) + OF_A_VALUE * (len(values) + 4 * len(part.snapshot.entries))
        self._parts = len(sides.parts)
        return (
            int(self._graph.bytes_per_state() * len(self._graph))
            + self._contents
            + OF_A_SIDE * (len(sides.sides) + len(sides.keyspaces) + len(sides.facts))
            + OF_A_VECTOR * len(self._vectors.vectors)
            + OF_A_LOCAL * (len(model.locals) + len(model.labels))
            + OF_AN_EFFECT * model.effects
            + OF_AN_OUTCOME * outcomes
        )


# --- what grows -------------------------------------------------------------------------------------------------------

SEEN_OFTEN = 10


def growing(world: World, parts: list[Part]) -> tuple[str, ...]:
    """What was still growing in the queues' contents, in the order they were met, when a search was stopped; phrases.

    That is what became ten or more, and was never as large before the last tenth of them.
    """
    before, whole = (_largest(world, some) for some in (parts[: len(parts) * 9 // 10], parts))
    return tuple(
        f"{what} ({most:,} by then)"
        for what, most in sorted(whole.items())
        if most >= SEEN_OFTEN and most > before.get(what, 0)
    )


def _largest(world: World, parts: Iterable[Part]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for what, size in _sizes(world, part):
            found[what] = max(found.get(what, 0), size)
    return found


def _sizes(world: World, part: Part) -> Iterator[tuple[str, int]]:
    yield f"how many ids {part.queue} holds", len(part.ids)
    for id, row in part.rows.items():
        if (attempts := row.get("attempts", b"")).isdigit():
            yield f"the attempts of {world.label(id)}", int(attempts)
    for name, value in part.of(None).items():
        yield f"what {name} of {part.queue} holds", sum(1 for _ in flat(value))
