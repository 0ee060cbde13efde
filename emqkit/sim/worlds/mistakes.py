"""The zoo: deliberate, named mistakes, each with the world that shows it and the promise it breaks.

A mistake in a script is a file `lua/zoo/<mistake>.lua`: the moves it replaces in the published script. A mistake in the
host's half is an operation here. The explorer proves its worth by finding every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from emqkit import keys, outbox, transitions
from emqkit.flows import Child, Flow
from emqkit.jobs import value_or_raise
from emqkit.outbox import Completion
from emqkit.servers.base import Server
from emqkit.sim.worlds.actors import Kit, Producer, PumpActor, Reaper, Repeating, WorkerActor
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.scenarios import SCENARIOS
from emqkit.sim.worlds.world import World, planned
from emqkit.wire import Program, Reply, Steps, command, operation, pair

__all__ = ["MISTAKES", "HostileHabits", "Mistake"]


@dataclass(frozen=True)
class Mistake:
    """A mistake of the zoo.

    Attributes:
        name: such as `no-fence`; a mistake in a script is in `lua/zoo/<name>.lua`.
        says: what is wrong, as a sentence.
        world: where it shows.
        breaks: the promise it breaks there, which the published scripts keep in the same world.
        scripts: the script set with the mistake.
    """

    name: str
    says: str
    world: World
    breaks: str
    scripts: str


@dataclass(frozen=True)
class HostileHabits:
    """Host operations as they should not be written."""

    server: Server

    @operation
    def trim_first(self, queue: str) -> Steps[int]:
        """A Pump's pass that removes the entries it read before it delivers them: a crash in between loses them."""
        box = keys.queue_key(queue, "flow:outbox")
        head = command("LRANGE", [box], [b"0", b"99"], _items)
        promoting, reading = yield from pair(transitions.promote(queue, 100), head)
        value_or_raise(promoting)
        entries = value_or_raise(reading)
        if entries:
            yield from command("LTRIM", [box], [b"%d" % len(entries), b"-1"], lambda reply: reply)
        for entry in map(outbox.decode, entries):
            if isinstance(entry, Completion):
                yield from transitions.flow_deliver(entry.parent_queue, entry.parent_id, entry.child_id, entry.result)
        return len(entries)

    @operation
    def claim_unasked(self, queue: str, lease_ms: int) -> Steps[transitions.Claim | None]:
        """A claim that does not check whether the queue is paused."""
        claim = yield from transitions.claim(queue, lease_ms)
        return claim

    @operation
    def add_children_first(self, queue: str, flow: Flow) -> Steps[str]:
        """A cross-queue add that lands the children before the parent: they may finish before the counter exists."""
        parent = str(flow.id)
        for child in flow.children:
            own = child.queue or queue
            payload = child.payload if isinstance(child.payload, bytes) else child.payload.encode()
            yield from transitions.enqueue_flow_child(
                own, str(child.id), payload, parent, queue if own != queue else None
            )
        payload = flow.payload if isinstance(flow.payload, bytes) else flow.payload.encode()
        yield from transitions.hold_parent(queue, parent, payload, len(flow.children))
        return parent


def _items(reply: Reply) -> tuple[bytes, ...]:
    return tuple(item for item in reply if isinstance(item, bytes)) if isinstance(reply, tuple) else ()


@dataclass(frozen=True)
class _Unasking(WorkerActor):
    """A worker that ignores a pause when it claims."""

    def begin(self, kit: Kit) -> tuple[Any, ...]:
        (choice,) = super().begin(kit)
        return (replace(choice, program=HostileHabits(kit.server).claim_unasked.program(self.queue, 10**14)),)


@dataclass(frozen=True)
class _ChildrenFirst(Producer):
    """A producer that lands children before their parent."""

    def _adding(self, kit: Kit, at: int, repeated: int, label: str = "") -> tuple[Any, ...]:
        adding = HostileHabits(kit.server).add_children_first
        return tuple(
            choice if choice.program is None else replace(choice, program=adding.program(self.queue, self.flows[at]))
            for choice in super()._adding(kit, at, repeated, label)
        )


def _trim_first(kit: Kit) -> Program[Any]:
    return HostileHabits(kit.server).trim_first.program("stock")


def _mistakes() -> Iterator[Mistake]:
    def of_script(name: str, world: World, breaks: str, says: str) -> Mistake:
        return Mistake(name, says, world, breaks, f"zoo/{name}")

    two = planned("orders", Flow("order", [Child("pick"), Child("pack")]))
    landing = World(
        "landing-calmly",
        (Producer("orders", (two[0].flow,)), WorkerActor("orders"), Reaper("orders")),
        two,
        landed=False,
    )
    lapsing = SCENARIOS["lapses"]
    dying = SCENARIOS["failures"]
    pumping = replace(SCENARIOS["pump-crashes"], faults=Faults(crashes=1))
    yield of_script("no-fence", lapsing, "P9", "a completion does not look at its token")
    yield of_script("no-first-record", pumping, "P5", "a delivery counts every time it is made")
    yield of_script("early-release", SCENARIOS["same-queue"], "P2", "the parent is released at one, not at zero")
    yield of_script("no-signal", pumping, "P3", "a child of another queue leaves no signal")
    yield of_script("parent-not-held", landing, "P1", "a flow lands with its parent in pending")
    yield of_script("late-gate", SCENARIOS["bulk"], "P12", "an id is looked at after others were written")
    yield of_script("same-token", lapsing, "P9", "every claim of a job hands out the same token")
    yield of_script("newest-first", SCENARIOS["same-queue"], "P14", "a claim takes the largest id")
    yield of_script("impatient-reaper", lapsing, "P14", "the reaper does not look at the deadline")
    yield of_script("every-death-counts", dying, "P5", "a death that fails the parent is counted as well")
    yield of_script("deaf-to-policy", dying, "P13", "every death is ignored, whatever was declared")
    yield of_script("half-removed", SCENARIOS["removed-child"], "P15", "a removed job stays in pending")
    yield of_script("lapsed-is-lost", replace(lapsing, faults=Faults(crashes=1)), "P6", "a lapsed job is put nowhere")
    yield Mistake(
        "trim-before-delivery",
        "the Pump trims what it read, and delivers then",
        replace(
            pumping,
            name="trim-before-delivery",
            actors=tuple(
                Repeating("hasty pump", _trim_first, ("stock",), "pump") if isinstance(actor, PumpActor) else actor
                for actor in pumping.actors
            ),
            witnesses=(),
        ),
        "P3",
        "published",
    )
    pause = SCENARIOS["pause"]
    yield Mistake(
        "claim-unasked",
        "a claim does not ask whether the queue is paused",
        replace(
            pause,
            name="claim-unasked",
            actors=tuple(_Unasking(a.queue) if isinstance(a, WorkerActor) else a for a in pause.actors),
            faults=Faults(),
        ),
        "P14",
        "published",
    )
    crossing = SCENARIOS["landing-cross-queue"]
    yield Mistake(
        "children-first",
        "a cross-queue add lands the children before their parent",
        replace(
            crossing,
            name="children-first",
            actors=tuple(_ChildrenFirst(a.queue, a.flows) if isinstance(a, Producer) else a for a in crossing.actors),
            faults=Faults(),
            witnesses=(),
        ),
        "P5",
        "published",
    )


MISTAKES = MappingProxyType({one.name: one for one in _mistakes()})
"""Every mistake by name."""
