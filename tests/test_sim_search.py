"""The engine's pieces: numbers for contents, the packed graph, fingerprints; and fleets with several script sets."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from emqkit.flows import Child, Flow
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, Reaper, Result, Worker, World, explore, scenario
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.interner import Budgets, Interner, TooMany, Vectors, Widths
from emqkit.sim.search.walk import walk_along
from emqkit.sim.worlds.actors import Choice, Kit
from emqkit.sim.worlds.faults import BUDGETS, Fault
from emqkit.sim.worlds.world import planned
from emqkit.viz.film import Film

CRASHING = scenario("same-queue").with_faults(crashes=1, lost_replies=1)


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def explored(world: World, server: Server, widths: Widths) -> tuple[Explorer, Result]:
    with server.scratch() as place:
        explorer = Explorer(world, place, widths=widths)
        explorer.search()
        return explorer, Result.of(explorer)


# --- numbers for contents ---------------------------------------------------------------------------------------------


def test_equal_contents_have_one_number_and_a_number_is_given_only_while_it_fits() -> None:
    numbers: Interner[str] = Interner("names", 1)
    assert [numbers.number(name) for name in ("a", "b", "a")] == [0, 1, 0]
    assert list(numbers) == ["a", "b"] and numbers.find("b") == 1 and numbers.find("c") is None
    with pytest.raises(TooMany, match="more than 2 names, the most that can be distinguished"):
        numbers.number("c")
    assert numbers.number("b") == 1 and len(numbers) == 2


def test_a_content_may_have_a_key_of_its_own() -> None:
    numbers: Interner[list[int]] = Interner("lists")
    assert numbers.add("key", [1]) == 0 and numbers.find("key") == 0 and numbers[0] == [1]


def test_a_vector_forgets_which_of_equal_actors_is_where() -> None:
    one, other = Worker("orders"), Worker("orders", "fail")
    vectors = Vectors((one, one, other, one), lambda local: frozenset({("q", "id", local)}), Widths())
    assert vectors.groups == (range(2), range(2, 3), range(3, 4))
    first = vectors.number((7, 3, 7, 7))
    assert vectors.vectors[first] == (3, 7, 7, 7) and vectors.number((3, 7, 7, 7)) == first
    assert vectors.slots[first] == ((0, 3), (1, 7), (2, 7), (3, 7))  # unequal actors at one local both move
    assert vectors.holds[first] == {("q", "id", 3), ("q", "id", 7)}
    second = vectors.hop(first, 0, 7)
    assert vectors.vectors[second] == (7, 7, 7, 7) and vectors.slots[second] == ((0, 7), (2, 7), (3, 7))
    with pytest.raises(TooMany, match="4 actors"):
        Vectors((one,) * 4, lambda local: frozenset(), Widths(slot=2))


def test_a_budget_is_spent_until_none_is_left() -> None:
    budgets = Budgets(Widths())
    first = budgets.number(Faults(crashes=1, lapses=2).budget)
    once = budgets.spend(first, Fault.CRASH)
    assert budgets[once] == (0, 0, 2, 0, 0, 0) and budgets.spend(once, Fault.CRASH) == -1
    assert budgets.spend(first, Fault.POISON) == -1
    assert budgets.spend(budgets.spend(first, Fault.LAPSE), Fault.CRASH) == budgets.spend(once, Fault.LAPSE)


def test_the_faults_stand_in_the_order_of_their_budgets() -> None:
    assert [fault.value for fault in Fault] == list(range(6))
    for place, (name, fault) in enumerate(zip(BUDGETS, Fault, strict=True)):
        one, two = Faults(poison=(), **{name: 1}), Faults(poison=(), **{name: 2})
        assert one.budget[place] == 1 and sum(one.budget) == 1
        assert str(one) == f"1 {fault.word}" and str(two) == f"2 {fault.plural}"
    assert str(Faults()) == "none" and str(Faults(3, 1)) == "3 crashes, 1 lost reply"


# --- packed, and checked where it is packed ---------------------------------------------------------------------------


def widths_of(explorer: Explorer) -> dict[str, int]:
    """How many bits each number needs in a world that was seen whole."""
    met = {
        "side": len(explorer.model.sides.sides),
        "vector": len(explorer.vectors.vectors),
        "budget": len(explorer.budgets),
        "local": len(explorer.model.locals),
        "state": len(explorer.graph),
    }
    return {name: (count - 1).bit_length() for name, count in met.items()}


def test_a_world_fits_exactly_and_with_one_bit_less_nothing_is_said_to_hold(fake: Server) -> None:
    explorer, whole = explored(CRASHING, fake, Widths())
    needed = widths_of(explorer)
    _, tight = explored(CRASHING, fake, Widths(**needed, slot=2))
    assert (tight.states, tight.transitions, tight.word) == (whole.states, whole.transitions, "holds")
    assert [str(verdict) for verdict in tight.verdicts.values()] == [str(v) for v in whole.verdicts.values()]
    says = {
        "side": "world-sides",
        "vector": "vectors of locals",
        "budget": "budgets",
        "local": "places of an actor",
        "state": "states",
    }
    for name, bits in needed.items():
        _, less = explored(CRASHING, fake, Widths(**{name: bits - 1}))
        assert less.stopped == f"at {1 << bits - 1:,} {says[name]}, the most that can be distinguished"
        assert not less.complete and less.states <= whole.states
        assert {verdict.word for verdict in less.verdicts.values()} == {"unknown"} and less.exit_status == 2
        assert f"  stopped {less.stopped}: what follows is what was known by then" in less.text.splitlines()


def test_a_state_is_packed_and_unpacked() -> None:
    graph = Graph(Widths(side=3, vector=4, budget=2))
    packed = graph.packed(side=5, vector=9, budget=3)
    assert packed == 0b101_1001_11 and graph.meet(packed, 0, 0, 0) == 0
    assert (graph.side(0), graph.vector(0), packed & graph.budget_mask) == (5, 9, 3)
    assert graph.number_of == {packed: 0} and len(graph) == 1
    assert graph.packed(0, 16, 0) == graph.packed(1, 0, 0)  # what a vector of more than 4 bits would come to


def test_the_way_to_a_state_is_that_by_which_it_was_first_met() -> None:
    graph = Graph()
    for packed, (parent, slot, label) in enumerate([(0, 0, 0), (1, 0, 0), (0, 2, 5), (2, 1, 7)]):
        graph.meet(packed, parent, slot, label)
    assert graph.path(3) == (0, [(2, 5), (1, 7)]) and graph.path(1) == (1, [])


def test_the_half_of_a_state_that_was_interrupted_is_forgotten() -> None:
    graph = Graph()
    graph.targets.extend([1, 2, 3])
    graph.labels.extend([4, 5, 6])
    graph.starts.append(2)
    graph.forget_half()
    assert list(graph.targets) == [1, 2] and list(graph.labels) == [4, 5]


def test_bottom_components_are_what_no_fault_free_transition_leaves() -> None:
    def bottoms(edges: dict[int, list[int]], faults: Collection[tuple[int, int]] = ()) -> list[list[int]]:
        graph = Graph()
        for node, targets in edges.items():
            graph.targets.extend(targets)
            graph.labels.extend(int((node, target) in faults) for target in targets)
            graph.starts.append(len(graph.targets))
        return sorted(sorted(component) for component in graph.bottoms(bytearray([0, 1])))

    # 0 → 1 ⇄ 2, 0 → 3 → 3, 2 → 4 by a fault only, 4 → 4
    assert bottoms({0: [1, 3], 1: [2], 2: [1, 4], 3: [3], 4: [4]}, {(2, 4)}) == [[1, 2], [3], [4]]
    assert bottoms({0: [1, 3], 1: [2], 2: [1, 4], 3: [3], 4: [4]}) == [[3], [4]]
    assert bottoms({0: [], 1: [0]}) == [[0]]  # met from a later state
    assert bottoms({0: [1], 1: [2], 2: [0, 3], 3: [4], 4: [3]}) == [[3, 4]]
    assert bottoms({0: [1], 1: [2], 2: [3], 3: [1]}) == [[1, 2, 3]]  # a circle met in the middle
    assert bottoms({0: [1, 2], 1: [3], 2: [3], 3: [2]}) == [[2, 3]]  # two ways into one
    assert bottoms({0: [1], 1: [0, 2], 2: [1]}) == [[0, 1, 2]]  # two circles that share a state
    assert bottoms({0: [1, 2], 1: [0], 2: [2]}, {(0, 2)}) == [[0, 1], [2]]
    assert bottoms({0: [0]}) == [[0]] and bottoms({}) == []


def test_what_a_state_costs_in_memory_is_counted(fake: Server) -> None:
    graph = Graph()
    for packed in range(4):
        graph.meet(packed, 0, 0, 0)
    graph.targets.extend([1, 2, 3])
    graph.labels.extend([4, 5, 6])
    whole_numbers = 4 * (sys.getsizeof(1 << 60) + sys.getsizeof(1 << 20))
    arrays = 4 * (8 + 4 + 1 + 4) + 3 * (4 + 4) + 8
    assert graph.bytes_per_state() == (arrays + sys.getsizeof(graph.number_of) + whole_numbers) / 4
    assert Graph().bytes_per_state() == 8 + sys.getsizeof({})
    assert 100 < explore(CRASHING, server=fake).bytes_per_state < 300


# --- fingerprints -----------------------------------------------------------------------------------------------------

TELL = """
from emqkit.sim import explore
for name in ("poison", "landing-and-dying", "reprocessed-parent"):
    result = explore(name)
    print(name, result.fingerprint, result.text)
"""


def test_neither_what_is_found_nor_its_order_depends_on_the_seed_of_hashes() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", TELL],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1 and "P10 broken" in told.pop()


@dataclasses.dataclass(frozen=True)
class Wordy(Worker):
    """A worker that acts as every other and calls everything by other names."""

    @property
    def title(self) -> str:
        return "somebody"

    def _with(self, kit: Kit, claim: Any) -> tuple[Choice, ...]:
        return tuple(dataclasses.replace(choice, label=choice.label.upper()) for choice in super()._with(kit, claim))


def test_a_fingerprint_is_of_what_is_there_and_not_of_what_it_is_called(fake: Server) -> None:
    def fingerprint(*actors: Any, payload: str = "order", **faults: int) -> str:
        flows = planned("orders", Flow(payload, [Child("pick"), Child("pack")]))
        return explore(World("a", actors, flows, Faults(poison=(), **faults)), server=fake).fingerprint

    plain = fingerprint(Worker("orders", "either"), Reaper("orders"))
    assert plain == fingerprint(Wordy("orders", "either"), Reaper("orders"))
    others = {
        fingerprint(Worker("orders", "either"), Reaper("orders"), payload="other"),
        fingerprint(Worker("orders", "either"), Reaper("orders"), crashes=1),
        fingerprint(Worker("orders", "either"), Reaper("orders"), lapses=1),
        fingerprint(Worker("orders", "fail"), Reaper("orders")),
        fingerprint(Worker("orders", "either", heartbeats=True), Reaper("orders")),
        fingerprint(Worker("orders", "either", heartbeats=True, together=True), Reaper("orders")),
        fingerprint(Worker("orders", "either")),
    }
    assert len(others) == 7 and plain not in others


# --- mixed fleets -----------------------------------------------------------------------------------------------------

ONE = planned("orders", Flow("order", [Child("pick")]))
NO_FENCE = ScriptSet.load("zoo/no-fence")


def fleet(first: ScriptSet | None, second: ScriptSet | None, **faults: int) -> World:
    workers = (Worker("orders", "either", scripts=first), Worker("orders", scripts=second))
    return World("fleet", (*workers, Reaper("orders")), ONE, Faults(poison=(), **faults))


def broken(world: World, server: Server, scripts: str = "published") -> list[str]:
    return [violation.promise for violation in explore(world, scripts=scripts, server=server).violations]


def test_a_mixed_fleet_breaks_neither_what_the_one_set_breaks_nor_what_the_other_does(fake: Server) -> None:
    assert broken(fleet(None, None, lapses=1), fake) == ["P3"]
    assert broken(fleet(None, None, lapses=1), fake, "zoo/no-fence") == ["P3", "P7", "P9", "P16"]
    assert broken(fleet(NO_FENCE, None, lapses=1), fake) == ["P3", "P9"]
    published = ScriptSet.load("published")  # and the same told the other way round
    assert broken(fleet(None, published, lapses=1), fake, "zoo/no-fence") == ["P3", "P9"]


def test_a_history_of_a_mixed_fleet_is_replayed_and_stepped_with_the_text_that_each_actor_runs(fake: Server) -> None:
    world = fleet(NO_FENCE, None, lapses=1)
    violation = explore(world, server=fake).verdicts["P9"].violation
    assert violation is not None
    history = violation.history
    assert world.names == ("worker of orders on zoo/no-fence", "worker of orders", "reaper of orders")
    assert history.sentences[-2].startswith("8. Worker of orders on zoo/no-fence, jobs.complete: complete retires pick")
    again = walk_along(world, history.as_json()["moves"], "P9", ScriptSet.load("published"), fake)
    assert again.confirmed and again.history.sentences == history.sentences
    film = Film.of(history.trace, lines=["complete"])
    sources = {source.name: "\n".join(source.lines) for source in film.sources}
    assert sources["complete"].rstrip() == NO_FENCE["complete"].source.rstrip()
    stepped = [frame for frame in film.frames if frame.depth == 2]
    assert {film.sources[frame.source].name for frame in stepped if frame.source is not None} == {"complete"}


def test_equal_texts_are_one_script_whichever_set_they_are_in(fake: Server) -> None:
    twin = ScriptSet("twin", ScriptSet.load("published").scripts)
    plain = explore(fleet(None, None, script_flushes=1), server=fake)
    mixed = explore(fleet(twin, None, script_flushes=1), server=fake)
    assert mixed.real_calls == plain.real_calls and mixed.fingerprint == plain.fingerprint
    other = explore(fleet(NO_FENCE, None, script_flushes=1), server=fake)
    assert other.real_calls > plain.real_calls and other.states > plain.states


def test_an_actor_with_scripts_that_are_not_the_kits_own_is_explored_in_a_sandbox(fake: Server, tmp_path: Path) -> None:
    (tmp_path / "claim.lua").write_text(ScriptSet.load("published")["claim"].source + "\n-- mine\n")
    result = explore(fleet(ScriptSet.load(tmp_path), None), server=fake)
    assert (result.server, result.scripts) == ("sandbox", "published") and result.complete
