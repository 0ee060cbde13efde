"""The explorer and a plain enumerator, which remembers nothing, find the same: states, transitions, and what is broken.

Small worlds, each with a fault or a habit of its own. The counts are written down: both could be wrong together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from plain_enumerator import Plain, enumerate_plainly

from emqkit import transitions
from emqkit.flows import Child, Flow
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, Promoter, PumpActor, Reaper, Repeating, Worker, World, explore
from emqkit.sim.report import Result
from emqkit.sim.worlds.actors import Deed, Kit, Operator, Producer
from emqkit.sim.worlds.faults import Poisoning
from emqkit.sim.worlds.world import Planned, planned
from emqkit.wire import Flush, Steps, operation

ONE = planned("orders", Flow("order", [Child("pick")]))
TWO = planned("orders", Flow("order", [Child("pick"), Child("pack", on_failure="ignore")]))
FAR = planned("orders", Flow("order", [Child("pick", "stock")]))
NO_FENCE = ScriptSet.load("zoo/no-fence")


@dataclasses.dataclass(frozen=True)
class Caretaker:
    """A user's own operation: two scripts in one flush, or in MULTI."""

    server: Server

    @operation
    def tidy(self, queue: str, atomic: bool) -> Steps[None]:
        scripts: Any = (transitions.promote(queue, 100), transitions.reap(queue))
        yield from Flush(tuple(scripts), atomic=atomic)


def tidying(atomic: bool) -> Callable[[Kit], Any]:
    return lambda kit: Caretaker(kit.server).tidy.program("orders", atomic)


def delayed(kit: Kit) -> list[Any]:
    return [kit.jobs.enqueue_in.program("orders", "later", 10**14, id=str(ONE[0].flow.children[0].id))]


def world(flows: tuple[Planned, ...], faults: Faults, *actors: Any, **more: Any) -> World:
    return World("small", actors, flows, faults, **more)


UNDELIVERABLE = Poisoning("an entry with too few fields", "stock", entry=b"orders\0nobody")
SPOILT = Poisoning("a counter that is a string", "orders", spoil=b"emq:{orders}:job:x:dependencies")
ADDING = Producer("orders", (ONE[0].flow,), gives_up=True)
ADDING_FAR = Producer("orders", (FAR[0].flow,), repeats=1)
DEEDS = (Deed("pause", "orders"), Deed("resume", "orders"), Deed("reprocess", "orders", str(ONE[0].flow.id)))
SMALL: dict[str, tuple[World, int, int]] = {
    "crashes": (world(TWO, Faults(crashes=1), Worker("orders"), Reaper("orders")), 100, 224),
    "crashes beside a Pump": (
        world(FAR, Faults(crashes=1), Worker("stock"), PumpActor("stock"), Reaper("stock")),
        95,
        323,
    ),
    "a lost reply": (world(TWO, Faults(lost_replies=1), Worker("orders", "either"), Reaper("orders")), 307, 852),
    "a lost reply of an add": (
        world(ONE, Faults(lost_replies=1), ADDING, Worker("orders"), landed=False),
        304,
        630,
    ),
    "a crash of an add": (
        world(FAR, Faults(crashes=1), ADDING_FAR, Worker("stock"), landed=False),
        336,
        787,
    ),
    "a lapse": (world(ONE, Faults(lapses=1), Worker("orders"), Worker("orders"), Reaper("orders")), 140, 412),
    "a lapse under a heartbeat": (
        world(ONE, Faults(lapses=1), Worker("orders", heartbeats=True, together=True), Reaper("orders")),
        67,
        159,
    ),
    "a delay that falls due": (
        world(ONE, Faults(crashes=1), Worker("orders", "fail", max_attempts=2), Promoter("orders")),
        38,
        94,
    ),
    "re-deliveries": (
        world(FAR, Faults(redeliveries=2), Worker("stock", "either"), PumpActor("stock"), Worker("orders")),
        233,
        803,
    ),
    "a script flush": (world(FAR, Faults(script_flushes=1), Worker("stock"), PumpActor("stock")), 338, 702),
    "a script flush and a lost reply": (
        world(ONE, Faults(script_flushes=1, lost_replies=1), Worker("orders"), Reaper("orders")),
        612,
        1791,
    ),
    "two scripts in a flush": (
        world(ONE, Faults(script_flushes=1, lost_replies=1, crashes=1), Repeating("caretaker", tidying(False))),
        58,
        123,
    ),
    "two scripts in MULTI": (
        world(
            ONE,
            Faults(script_flushes=1, lost_replies=1),
            Repeating("caretaker", tidying(True)),
            Worker("orders", "fail"),
        ),
        195,
        623,
    ),
    "poison": (
        world(FAR, Faults(poisons=1, poison=(UNDELIVERABLE, SPOILT)), Worker("stock"), PumpActor("stock")),
        90,
        232,
    ),
    "an operator": (world(ONE, Faults(crashes=1), Worker("orders", "fail"), Operator(DEEDS)), 72, 154),
    "more than flows to begin with": (
        world((), Faults(crashes=1), Worker("orders"), Promoter("orders"), setup=delayed),
        26,
        65,
    ),
    "a mixed fleet": (
        world(ONE, Faults(lapses=1), Worker("orders", "either", scripts=NO_FENCE), Worker("orders"), Reaper("orders")),
        503,
        1562,
    ),
    "a mixed fleet and a script flush": (
        world(ONE, Faults(script_flushes=1), Worker("orders", scripts=NO_FENCE), Worker("orders")),
        351,
        748,
    ),
}


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def both(name: str, server: Server) -> tuple[Result, Plain]:
    small, _, _ = SMALL[name]
    with server.scratch() as place:
        plain = enumerate_plainly(small, place)
    return explore(small, server=server), plain


def compare(result: Result, plain: Plain) -> None:
    assert (result.states, result.transitions) == (len(plain.states), plain.transitions)
    assert result.depth == max(plain.distance.values())
    assert {v.promise: len(v.history) for v in result.violations} == plain.shortest
    assert {one for one in result.witnesses if not one.startswith("a crash hit")} == plain.witnesses
    gaps = {(gap.operation, gap.before, gap.after): (gap.visits, gap.crashes, gap.lost) for gap in result.gaps}
    assert gaps == plain.gaps
    assert result.real_calls <= 2 * plain.calls


@pytest.mark.parametrize("name", SMALL)
def test_a_plain_enumerator_finds_the_same_states_transitions_and_violations(name: str, fake: Server) -> None:
    result, plain = both(name, fake)
    compare(result, plain)
    _, states, transitions = SMALL[name]
    assert (result.states, result.transitions) == (states, transitions) and transitions <= 2_000


@pytest.mark.parametrize("name", ["a script flush and a lost reply", "two scripts in MULTI"])
def test_and_so_it_does_where_a_real_server_forgets_its_scripts(name: str, embedded_server: Server) -> None:
    compare(*both(name, embedded_server))
