"""Where a world may settle: what is owed in every state of an end, what is excused, and what has to be there for it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hands import Hands, Hoarder, Pauser

from emqkit.flows import Child, Flow
from emqkit.servers import Server, open_server
from emqkit.sim import (
    Faults,
    Producer,
    Promoter,
    PumpActor,
    Reaper,
    Repeating,
    Result,
    Worker,
    World,
    explore,
    scenario,
)
from emqkit.sim.promises import PROMISES
from emqkit.sim.search.bench import place_for
from emqkit.sim.search.ends import ends, owing
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.walk import walk_along
from emqkit.sim.worlds.actors import Actor, Choice, Kit
from emqkit.sim.worlds.world import planned
from emqkit.wire import Done, Program

ONE = planned("orders", Flow("order", [Child("pick")]))
TWO = planned("orders", Flow("order", [Child("pick"), Child("pack")]))
ELSEWHERE = planned("orders", Flow("order", [Child("pick", "stock")]))


def own(name: str, *args: str) -> Repeating:
    return Repeating(name, lambda kit: getattr(Hands(kit.server), name).program(*args))


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def told(result: Result) -> tuple[str, str]:
    verdict = result.verdicts["P3"]
    return verdict.word, verdict.reason


def owed(result: Result) -> str:
    """What P3 says, and that its history does it again."""
    (violation,) = (one for one in result.violations if one.promise == "P3")
    history = violation.history
    again = walk_along(result.world, history.as_json()["moves"], "P3", history.scripts, "fake://")
    assert (again.confirmed, again.says) == (True, violation.says)
    return violation.says


# --- the same one owed in every state, whoever goes on ----------------------------------------------------------------


def test_a_parent_that_nobody_will_release_is_owed_whoever_pauses_and_resumes(fake: Server) -> None:
    climbing = replace(scenario("climbing"), faults=Faults(crashes=1), witnesses=())
    assert owed(explore(climbing, server=fake)) == "root stays held for ever"
    paused = replace(climbing, name="climbing under a pauser", actors=(*climbing.actors, Pauser("orders")))
    assert owed(explore(paused, server=fake)) == "root stays held for ever"


def test_a_queue_that_stays_paused_owes_nothing_and_one_that_is_resumed_does_its_work(fake: Server) -> None:
    calm = (Worker("orders"), Reaper("orders"))
    for resumes in (False, True):
        world = World("paused", (*calm, Pauser("orders", resumes)), ONE)
        assert explore(world, server=fake).verdicts["P3"].word == "holds"


@dataclass(frozen=True)
class Swapper(Actor):
    """Holds one of two parents and lets the other go, in turn, for ever."""

    ids: tuple[str, str]

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(Hands(kit.server).swap.program("orders", *self.ids), 0),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        turn = 1 - int(memory == 1)
        return (Choice(Hands(kit.server).swap.program("orders", *self.ids[:: 1 if not turn else -1]), turn),)


def test_one_parent_or_another_is_not_the_same_parent(fake: Server) -> None:
    flows = planned("orders", Flow("one", [Child("pick")]), Flow("other", [Child("pack")]))
    ids = str(flows[0].flow.id), str(flows[1].flow.id)
    kept = next(promise for promise in PROMISES if promise.name == "P3")
    for actors, held in (((Swapper(ids),), []), ((), ["one stays held for ever"])):
        world = World("swapped", actors, flows)
        with place_for(world, fake) as place:
            explorer = Explorer(world, place)
            explorer.search()
            assert [one.says for one in owing(explorer.model, explorer.graph, [(0, kept)])] == held


# --- the passing of a deadline that somebody keeps renewing -----------------------------------------------------------


def test_a_lease_that_is_renewed_for_ever_need_not_lapse(fake: Server) -> None:
    crashing = World("crashing", (Worker("orders"), Reaper("orders")), ONE, Faults(crashes=1))
    assert explore(crashing, server=fake).verdicts["P3"].word == "holds"
    renewed = replace(crashing, actors=(*crashing.actors, own("renew", "orders")))
    assert owed(explore(renewed, server=fake)) == "order stays held for ever"


def test_a_due_time_that_is_put_off_for_ever_need_not_come(fake: Server) -> None:
    again = World("again", (Worker("orders", "either", max_attempts=2), Promoter("orders"), Reaper("orders")), ONE)
    assert explore(again, server=fake).verdicts["P3"].word == "holds"
    late = replace(again, actors=(*again.actors, own("put_off", "orders")))
    assert owed(explore(late, server=fake)) == "order stays held for ever"


@pytest.mark.parametrize(("who", "waits"), [("look", False), ("put_off", True), ("put_off_in_two", True)])
def test_a_world_may_settle_where_a_deadline_never_passes(fake: Server, who: str, waits: bool) -> None:
    world = World(
        "waiting",
        (Promoter("orders"), own(who, "orders")),
        setup=lambda kit: [kit.jobs.enqueue_in.program("orders", "later", 10**14)],
    )
    with place_for(world, fake) as place:
        explorer = Explorer(world, place)
        explorer.search()
        pending = [
            {bool(explorer.model.view(explorer.graph.side(state))["orders"].members("pending")) for state in end}
            for end in ends(explorer.model, explorer.graph)
        ]
    assert ({False} in pending, {True} in pending) == (waits, True)


def test_a_lease_that_its_own_holder_extends_is_settled_in_the_end(fake: Server) -> None:
    beating = World("beating", (Worker("orders", heartbeats=True), Reaper("orders")), ONE, Faults(crashes=1))
    assert explore(beating, server=fake).verdicts["P3"].word == "holds"


# --- what is presupposed ----------------------------------------------------------------------------------------------

RETRYING = Worker("orders", "either", max_attempts=2)


@pytest.mark.parametrize(
    ("actors", "flows", "faults", "why"),
    [
        ((RETRYING, Reaper("orders")), ONE, Faults(), "queue orders has no promoter"),
        ((Worker("orders"),), ONE, Faults(crashes=1), "queue orders has no reaper"),
        ((Hoarder("orders"), Reaper("orders")), ONE, Faults(), "queue orders has no worker that settles"),
        (
            (Worker("stock"), Worker("orders"), Reaper("stock"), Reaper("orders")),
            ELSEWHERE,
            Faults(),
            "queue stock has no pump",
        ),
        (
            (Worker("orders"), replace(own("look", "orders"), serves=("orders",), as_role="reaper")),
            ONE,
            Faults(crashes=1),
            "queue orders has no reaper",
        ),
        (
            (
                Worker("stock"),
                Worker("orders"),
                Reaper("stock"),
                Reaper("orders"),
                replace(own("look", "stock"), serves=("stock",), as_role="pump"),
            ),
            ELSEWHERE,
            Faults(),
            "queue stock has no pump",
        ),
        ((), ONE, Faults(), "queue orders has no worker that settles and no reaper"),
    ],
)
def test_what_is_missing_is_unknown_by_name(
    fake: Server, actors: tuple[Actor, ...], flows: Any, faults: Faults, why: str
) -> None:
    word, reason = told(explore(World("lacking", actors, flows, faults), server=fake))
    assert (word, reason.rstrip(".").split("; ")[-1].removeprefix("Not met anywhere: ")) == ("unknown", why)


def test_whoever_does_a_role_has_it_whatever_it_is_called(fake: Server) -> None:
    world = World("own reaper", (Worker("orders"), own("take_back", "orders")), ONE, Faults(crashes=1))
    assert told(explore(world, server=fake))[0] == "holds"
    # A Pump promotes as well.
    sweeping = World("swept", (RETRYING, Reaper("orders"), PumpActor("orders")), ONE)
    assert told(explore(sweeping, server=fake))[0] == "holds"


def test_whoever_never_had_anything_to_do_is_what_it_is_called(fake: Server) -> None:
    idle = replace(own("look", "orders"), serves=("orders",), as_role="reaper")
    world = World("idle", (Worker("orders"), idle), ONE)
    assert told(explore(world, server=fake))[0] == "holds"


def test_nothing_is_said_of_who_is_missing_before_all_is_seen(fake: Server) -> None:
    world = World("large", (Producer("orders", (TWO[0].flow,)), Worker("orders"), Reaper("orders")), TWO, landed=False)
    assert told(explore(world, server=fake, max_states=3)) == (
        "unknown",
        "No violation up to depth 1; deeper states were not explored.",
    )
