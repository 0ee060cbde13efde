"""How far a search goes: what is known when it ends early, and what would have gone on growing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import made
import pytest
from hands import Falling

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow
from emqkit.keyspace import Part
from emqkit.servers import Server, open_server
from emqkit.sim import Reaper, Worker, World, explore, planned, scenario
from emqkit.sim.cli import declare_explore, run_explore
from emqkit.sim.search import explore as searching
from emqkit.sim.search.bench import place_for
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.limits import MEGABYTE, growing, most_memory
from emqkit.sim.search.model import Model

ONE = planned("orders", Flow("order", [Child("pick")]))
CALM = World("calm", (Worker("orders"), Reaper("orders")), ONE)


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def test_a_world_without_end_is_unknown_and_what_grows_in_it_is_named(fake: Server) -> None:
    result = explore(World("falling", (Falling("orders"), Reaper("orders")), ONE), server=fake, max_states=400)
    assert result.stopped == "after 401 states"
    depth, grown = result.depth, result.verdicts["P3"].reason
    assert grown.startswith(
        f"No violation up to depth {depth}; deeper states were not explored. Still growing: the attempts of pick ("
    )
    assert grown.count("(") == 1 and depth > 50


def test_a_world_that_ends_grows_nothing(fake: Server) -> None:
    result = explore("pause", server=fake, max_states=100)
    assert result.verdicts["P3"].reason == f"No violation up to depth {result.depth}; deeper states were not explored."


def test_what_stopped_growing_long_ago_is_not_named() -> None:
    def part(attempts: int) -> Part:
        return Part("orders", made.snapshot({keys.job("orders", made.A): made.row("active", attempts)}))

    once, still = ([part(n) for n in (*range(20), *after)] for after in ([19] * 20, range(20, 40)))
    assert growing(CALM, once) == () and growing(CALM, still[:10]) == ()
    assert growing(CALM, still) == (f"the attempts of {CALM.label(made.A)} (39 by then)",)


def test_memory_is_bounded_as_estimated(fake: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with place_for(scenario("pause"), fake) as place:
        explorer = Explorer(scenario("pause"), place)
        explorer.search(max_memory=MEGABYTE)
        assert not explorer.complete and explorer.stopped == "at 1 MB of memory, as estimated"
        assert explorer.memory.estimate(0) < 3 * MEGABYTE and len(explorer.graph) > 500
        assert explorer.verdicts()["P3"].word == "unknown"
    monkeypatch.setattr("emqkit.sim.catalogue.most_memory", lambda: 1)
    assert explore(CALM, server=fake).stopped == "at 0 MB of memory, as estimated"
    assert explore(CALM, server=fake, max_memory=500).complete


def test_the_bound_is_half_of_what_there_is() -> None:
    assert 256 * MEGABYTE <= most_memory() < 1 << 50
    with pytest.raises(BadArgument, match="max_memory"):
        explore("pause", max_memory=0)


def test_the_estimate_grows_with_what_is_kept(fake: Server) -> None:
    sizes = []
    for states in (20, 200):
        with place_for(scenario("pause"), fake) as place:
            explorer = Explorer(scenario("pause"), place)
            explorer.search(max_states=states)
            sizes.append(explorer.memory.estimate(0))
            assert sizes[-1] < explorer.memory.estimate(1000) < sizes[-1] + MEGABYTE
    assert sizes[1] > 2 * sizes[0]


def test_without_memory_what_is_known_so_far_is_told(fake: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    moves, made = Model.moves, 0

    def short(self: Model, *args: Any) -> Any:
        nonlocal made
        made += 1
        if made > 300:
            raise MemoryError
        return moves(self, *args)

    monkeypatch.setattr(Model, "moves", short)
    result = explore("pause", server=fake)
    assert (result.complete, result.stopped) == (False, "as there was no memory left")
    assert result.states > 10 and result.verdicts["P3"].reason.startswith(f"No violation up to depth {result.depth}")


@pytest.mark.parametrize(
    ("end", "told"), [(KeyboardInterrupt, "interrupted"), (MemoryError, "as there was no memory left")]
)
def test_ends_that_could_not_be_looked_at_are_unknown(
    fake: Server, monkeypatch: pytest.MonkeyPatch, end: type[BaseException], told: str
) -> None:
    def ends(*_: object) -> Any:
        raise end

    monkeypatch.setattr(searching, "owing", ends)
    result = explore(CALM, server=fake)
    assert (result.complete, result.stopped, result.word) == (False, told, "unknown")


def test_the_command_line_takes_a_bound_in_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    declare_explore(parser)
    assert run_explore(parser.parse_args(["pause", "--max-memory", "1"])) == 2
    assert "stopped at 1 MB of memory, as estimated: what follows" in capsys.readouterr().out
