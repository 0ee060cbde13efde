"""Operations of one's own are owed what shipped ones are: they are known by what they do to the keyspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hands import Finisher, Hands, Once, Taker

from emqkit.flows import Child, Flow
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, PumpActor, Reaper, Repeating, Result, Worker, World, explore, scenario
from emqkit.sim.promises import PROMISES
from emqkit.sim.worlds.actors import Deed, Kit
from emqkit.sim.worlds.world import planned
from emqkit.wire import Program

ONE = planned("orders", Flow("order", [Child("pick")]))
TWO = planned("orders", Flow("order", [Child("pick"), Child("pack")]))
ELSEWHERE = planned("orders", Flow("order", [Child("pick", "stock")]))
PARENT, PICK = str(ONE[0].flow.id), str(ONE[0].flow.children[0].id)


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def says(result: Result, promise: str) -> str:
    return result.verdicts[promise].reason


def test_a_completion_of_ones_own_owes_its_parent_the_outcome(fake: Server) -> None:
    world = World("finishing", (Finisher("orders"), Reaper("orders")), ONE)
    assert says(explore(world, server=fake), "P3") == (
        "pick completed, and neither the hashes of order nor an outbox know it."
    )


def test_a_completion_of_ones_own_is_fenced_like_any_other(fake: Server) -> None:
    world = World("late", (Finisher("orders"), Worker("orders"), Reaper("orders")), ONE, Faults(lapses=1))
    fenced = next(promise for promise in PROMISES if promise.name == "P9")
    last = replace(fenced, clauses=tuple(one for one in fenced.clauses if one.name == "the last token settles"))
    assert says(explore(world, server=fake, promises=(last,)), "P9") == (
        "hands.finish settled pick with token 1 after token 2 was handed out."
    )


def test_a_death_of_ones_own_is_recorded_and_signalled_like_any_other(fake: Server) -> None:
    world = World("burying", (Finisher("orders", by="bury"), Reaper("orders")), ONE)
    assert says(explore(world, server=fake), "P13") == "pick died with policy fp, and failed does not know it."
    elsewhere = replace(world, actors=(Finisher("stock", by="bury"), Reaper("stock")), flows=ELSEWHERE)
    assert says(explore(elsewhere, server=fake), "P13") == "pick died and left no signal to order."


def test_claims_are_judged_whoever_makes_them(fake: Server) -> None:
    result = explore(World("taking", (Taker("orders"), Reaper("orders")), TWO), server=fake)
    assert says(result, "P14") == "pack was claimed before pick."
    assert result.verdicts["P9"].word == "holds"
    pausing = World("paused", (Taker("orders"), Once("erase", ("orders", "JOB"))), ONE, setup=_paused)
    assert says(explore(pausing, server=fake), "P14") == "pick was claimed by a claim that began in a paused orders."


def _paused(kit: Kit) -> list[Program[Any]]:
    return [kit.jobs.pause.program("orders")]


def test_a_delivery_of_ones_own_counts_once(fake: Server) -> None:
    delivering = Repeating("own pump", lambda kit: Hands(kit.server).deliver.program("stock"))
    world = World("delivering", (Worker("stock"), delivering), ELSEWHERE, Faults(crashes=1))
    result = explore(world, server=fake)
    assert says(result, "P11") == "delivering the entry of pick again changed something again."


def test_whatever_lands_and_ends_without_an_error_has_landed(fake: Server) -> None:
    half = Once("add_half", ("orders", TWO[0].flow))
    world = World("half", (half, Worker("orders"), Reaper("orders")), TWO, landed=False)
    assert says(explore(world, server=fake), "P3") == "order stays held for ever."


REMOVING = World("removing", (Worker("orders"), Reaper("orders"), Once("erase", ("orders", PICK))), ONE)
REVIVING = World("reviving", (Worker("orders", "fail"), Reaper("orders")), scenario("failures").flows)


def test_what_may_be_a_removal_or_not_is_unknown_until_it_is_declared(fake: Server) -> None:
    result = explore(REMOVING, server=fake)
    assert {verdict.word for verdict in result.judged} == {"unknown"}
    assert "hands.erase takes pick out, holds no claim of it and declares no removal" in says(result, "P3")
    declared = Once("erase", ("orders", PICK), declares=(Deed("remove", "orders", PICK),))
    result = explore(replace(REMOVING, actors=(*REMOVING.actors[:2], declared)), server=fake)
    assert (result.verdicts["P3"].word, result.verdicts["P15"].word) == ("holds", "holds")


def test_what_may_be_a_reprocess_or_not_is_unknown_until_it_is_declared(fake: Server) -> None:
    pick = str(REVIVING.flows[0].flow.children[0].id)
    undeclared = Once("revive", ("orders", pick))
    declared = replace(undeclared, declares=(Deed("reprocess", "orders", pick),))
    result = explore(replace(REVIVING, actors=(*REVIVING.actors, undeclared)), server=fake)
    assert "brings pick back from dead and declares no reprocessing" in says(result, "P8")
    result = explore(replace(REVIVING, actors=(*REVIVING.actors, declared)), server=fake)
    assert result.verdicts["P8"].word == "holds" and "a dead job was reprocessed" in result.witnesses


@pytest.mark.parametrize("kind", ["list", "zset", "hash", "string"])
def test_poison_may_be_put_aside_in_a_value_of_any_type(fake: Server, kind: str) -> None:
    base = scenario("poison")
    careful = Repeating("careful pump", lambda kit: Hands(kit.server).sweep.program("stock", kind), ("stock",), "pump")
    actors = tuple(careful if isinstance(actor, PumpActor) else actor for actor in base.actors)
    result = explore(replace(base, name="careful", actors=actors, witnesses=()), server=fake, until="P10")
    assert result.verdicts["P10"].word == ("broken" if kind == "string" else "holds")


@pytest.mark.usefixtures("wheel")
def test_a_refusal_is_what_the_header_says(fake: Server) -> None:
    published = ScriptSet.load("published")
    source = published["reprocess"].source.replace(
        "  return -1", "  redis.call('HSET', row, 'asked', '1')\n  return -1"
    )
    for replies, broken in (("1 pending again · -1 gone", True), ("count of those that came back", False)):
        text = source.replace("1 pending again · -1 gone", replies)
        scripts = published.overlay(ScriptSet("own", {"reprocess": Script.parse(text, "reprocess.lua")}))
        actors = (Worker("orders"), Reaper("orders"), *scenario("reprocessed-parent").actors[2:])
        world = World("refusing", actors, TWO)
        result = explore(world, server=fake, scripts=scripts, max_states=3000)
        assert ("P12" in {violation.promise for violation in result.violations}) == broken
