"""Code of one's own in a world: its errors end a search, what cannot be repeated is refused, ids are given once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.servers import Server, open_server
from emqkit.sim import PumpActor, Reaper, Repeating, Worker, World, explore
from emqkit.sim.search.model import ActorFailed, Unrepeatable
from emqkit.sim.search.walk import wander
from emqkit.sim.worlds.actors import Actor, Choice, Kit
from emqkit.sim.worlds.world import planned
from emqkit.wire import Steps, command, operation

FLOWS = planned("orders", Flow("order", [Child("pick", "stock")]))
PARENT = str(FLOWS[0].flow.id)
CREW: tuple[Actor, ...] = (Worker("stock"), Worker("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders"))
COUNT = itertools.count()
UNHASHABLE: Any = ["orders"]


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def world(*actors: Actor) -> World:
    return World("own", (*CREW, *actors), FLOWS)


@dataclass(frozen=True)
class Janitor:
    server: Server

    @operation
    def sweep(self, queue: str, parent: str) -> Steps[None]:
        if not (yield from command("EXISTS", [keys.job(queue, parent)], [], lambda reply: reply)):
            raise AttributeError("no such thing")

    @operation
    def dither(self, queue: str) -> Steps[None]:
        yield from command("EXISTS", [keys.queue_key(queue, f"x{next(COUNT)}")], [], lambda reply: reply)

    @operation
    def look(self, queue: str) -> Steps[None]:
        yield from command("EXISTS", [keys.queue_key(queue, "meta")], [], lambda reply: reply)


class Unequal:
    """An owner that equals none but itself."""

    def __init__(self, server: Server) -> None:
        self.server = server

    look = Janitor.__dict__["look"]


def test_an_error_in_an_operation_of_ones_own_ends_the_search_with_the_way_there(fake: Server) -> None:
    janitor = Repeating("janitor", lambda kit: Janitor(kit.server).sweep.program("orders", PARENT))
    with pytest.raises(
        ActorFailed, match="janitor, janitor.sweep raised AttributeError, which is not an EmqError"
    ) as told:
        explore(world(janitor), server=fake)
    assert "in sweep" in str(told.value) and "no such thing" in str(told.value)
    assert told.value.history is not None and len(told.value.history.moves) == 11
    assert "\n11. Worker of orders, jobs.complete: complete retires order of orders" in str(told.value)
    assert isinstance(told.value.__cause__, AttributeError)


def test_so_does_one_that_is_met_by_wandering(fake: Server) -> None:
    janitor = Repeating("janitor", lambda kit: Janitor(kit.server).sweep.program("orders", PARENT))
    with pytest.raises(ActorFailed, match="The moves that led there:\n1. ") as told:
        wander(world(janitor), fake, seed=1, moves=400)
    assert told.value.history is not None and told.value.history.moves


def test_so_does_an_error_of_an_actor_that_is_asked_what_it_does(fake: Server) -> None:
    class Broken(Repeating):
        def after(self, *_: Any) -> tuple[Choice, ...]:
            raise ZeroDivisionError("by nothing")

    broken = Broken("broken", lambda kit: Janitor(kit.server).look.program("orders"))
    with pytest.raises(ActorFailed, match=r"broken raised ZeroDivisionError.*\n(.*\n)*.*by nothing"):
        explore(world(broken), server=fake)


@pytest.mark.parametrize(
    ("program", "how"),
    [
        (lambda kit: Janitor(kit.server).dither.program("orders"), "janitor.dither goes on differently after the same"),
        (lambda kit: Unequal(kit.server).look.program("orders"), "the owner of unequal.look, a Unequal, does not comp"),
        (lambda kit: Janitor(kit.server).look.program(f"q{next(COUNT)}"), "an argument of janitor.look does not comp"),
        (lambda kit: Janitor(kit.server).look.program(UNHASHABLE), "janitor.look cannot be remembered"),
    ],
    ids=["operation", "owner", "argument", "unhashable"],
)
def test_what_does_not_repeat_is_refused(program: Any, how: str, fake: Server) -> None:
    with pytest.raises(Unrepeatable, match=f"fickle cannot be repeated: {how}"):
        explore(world(Repeating("fickle", program)), server=fake)


def test_an_actor_that_chooses_by_chance_is_refused(fake: Server) -> None:
    class Fickle(Worker):
        def begin(self, kit: Kit) -> tuple[Choice, ...]:
            return super().begin(kit) * (1 + next(COUNT) % 2)

    with pytest.raises(
        Unrepeatable, match="worker of orders cannot be repeated: asked twice, it has different numbers of choices"
    ):
        explore(world(Fickle("orders")), server=fake)


def test_ids_given_twice_are_refused_and_one_minter_for_several_plans_gives_none() -> None:
    twice = (*FLOWS, *planned("late", Flow("late", [Child("pack", "stock")])))
    with pytest.raises(BadArgument, match="is in flows 1 and 2 of two, which would be taken for one"):
        World("two", CREW, twice)
    minter = Minter.fixed()
    early = planned("orders", Flow("order", [Child("pick")]), minter=minter)
    late = planned("late", Flow("late", [Child("pack")]), minter=minter)
    assert len(World("two", CREW, (*early, *late)).flow_of) == 4


def test_more_actors_than_can_be_numbered_are_refused(fake: Server) -> None:
    with pytest.raises(Exception, match="more than 256 actors, the most that can be distinguished"):
        explore(world(*[Worker("orders")] * 256), server=fake)
