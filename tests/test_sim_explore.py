"""The search itself: what it counts, that it is the same everywhere, and what would be missed if it were weaker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from emqkit import keys, outbox, transitions
from emqkit.errors import BadArgument, EmqError
from emqkit.flows import Child, Flow
from emqkit.keyspace import FUTURE, Part, parts_of
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, Promoter, Reaper, Repeating, Worker, World, explore, scenario
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.report import Result
from emqkit.sim.search import bench as bench_room
from emqkit.sim.search import model as model_room
from emqkit.sim.search.explore import Explorer, Progress
from emqkit.sim.search.graph import Graph
from emqkit.sim.search.judge import Evidence, Verdict, judge
from emqkit.sim.worlds.actors import Choice, Deed, Kit, Operator, Producer
from emqkit.sim.worlds.world import planned
from emqkit.snapshot import Ranked, Snapshot
from emqkit.wire import Flush, Steps, command, operation

LAPSING = scenario("lapses").with_faults(lapses=1)


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


# --- the same everywhere ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reprocessed-child", "landing-and-dying"])
def test_the_graph_and_its_histories_are_the_same_on_the_fake_and_on_an_embedded_server(
    name: str, fake: Server, embedded_server: Server
) -> None:
    one, other = explore(name, server=fake), explore(name, server=embedded_server)
    assert (one.server, other.server) == ("fake", "embedded")
    assert one.fingerprint == other.fingerprint
    assert (one.states, one.transitions, one.depth) == (other.states, other.transitions, other.depth)
    assert [v.history.sentences for v in one.violations] == [v.history.sentences for v in other.violations]


def test_exploring_twice_gives_the_same_fingerprint_and_another_world_another(fake: Server) -> None:
    first, second = explore("lapses", server=fake), explore("lapses", server=fake)
    assert first.fingerprint == second.fingerprint
    assert explore("lapses", server=fake, lapses=1).fingerprint != first.fingerprint


def test_making_calls_on_the_whole_keyspace_finds_the_same_graph(fake: Server) -> None:
    world = scenario("two-pumps")
    with fake.scratch() as place:
        whole = Explorer(world, place)
        whole.model.confined = False
        whole.search()
        result = Result.of(whole)
    confined = explore(world, server=fake)
    assert (result.states, result.transitions) == (confined.states, confined.transitions)
    assert {v.promise for v in result.violations} == {v.promise for v in confined.violations}
    assert result.real_calls > confined.real_calls


def test_equal_actors_are_interchangeable_and_unequal_ones_are_not(fake: Server) -> None:
    def world(*workers: Worker) -> World:
        return World("pair", (*workers, Reaper("orders")), planned("orders", Flow("order", [Child("a"), Child("b")])))

    equal = explore(world(Worker("orders"), Worker("orders")), server=fake)
    told_apart = explore(world(Worker("orders"), Worker("orders", max_attempts=2)), server=fake)
    assert equal.states < told_apart.states < 2 * equal.states


# --- what a weaker explorer would miss -------------------------------------------------------------------------------


def _forgets_counters(snapshot: Snapshot, **_: int) -> Any:
    kept = [(name, value) for name, value in snapshot.entries if not name.endswith(b":dependencies")]
    return parts_of(Snapshot(tuple(kept), snapshot.now))


def _sees_no_past(snapshot: Snapshot, **_: int) -> Any:
    return parts_of(Snapshot(snapshot.entries, 0))


def _sorts_before_it_maps(snapshot: Snapshot, **_: int) -> Any:
    parts, metrics = parts_of(snapshot)
    found = []
    for part in parts:
        entries = []
        for name, value in part.snapshot.entries:
            if name.endswith(b":active") and isinstance(value, Ranked):
                order = list(snapshot.ranked(name))
                value = Ranked(tuple(sorted(value.members, key=lambda pair: order.index(pair[0]))))
            entries.append((name, value))
        found.append(Part(part.queue, Snapshot(tuple(entries), part.snapshot.now)))
    return tuple(found), metrics


def _keeps_deadlines(snapshot: Snapshot, **_: int) -> Any:
    parts, metrics = parts_of(snapshot)
    raw = dict(snapshot.entries)
    found = [
        Part(part.queue, Snapshot(tuple((name, raw[name]) for name, _ in part.snapshot.entries), part.snapshot.now))
        for part in parts
    ]
    return tuple(found), metrics


@pytest.mark.parametrize("weakened", [_forgets_counters, _sees_no_past, _sorts_before_it_maps, _keeps_deadlines])
def test_a_weakened_digest_no_longer_agrees_with_the_plain_enumerator(
    weakened: Callable[[Snapshot], Any], fake: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LAPSING
    honest = explore(world, server=fake)
    monkeypatch.setattr(bench_room, "parts_of", weakened)
    result = explore(world, server=fake, max_states=3 * honest.states)
    assert (result.states, result.transitions) != (honest.states, honest.transitions)


class Together:
    """A user's own operation, wrongly written: the land and what relies on it share a flush."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Together) and other.server is self.server

    def __hash__(self) -> int:
        return hash(id(self.server))

    @operation
    def land(self, flow: Flow, atomic: bool) -> Steps[None]:
        parent, (child,) = str(flow.id), flow.children
        id = str(child.id)
        call: Any = transitions.enqueue_flow("orders", parent, b"order", [(id, b"pick")])
        policy: Any = command("HSET", [keys.job("orders", id)], [b"parent_policy", b"id"], lambda reply: reply)
        yield from Flush((call, policy), atomic=atomic)


def _together(*, atomic: bool = False) -> World:
    flows = planned("orders", Flow("order", [Child("pick", on_failure="ignore")]))

    @dataclasses.dataclass(frozen=True)
    class Lander(Producer):
        def _adding(self, kit: Kit, at: int, repeated: int, label: str = "") -> tuple[Any, ...]:
            land = Together(kit.server).land
            choices = super()._adding(kit, at, repeated, label)
            return tuple(
                c if c.program is None else dataclasses.replace(c, program=land.program(flows[0].flow, atomic))
                for c in choices
            )

    return World(
        "together",
        (Lander("orders", (flows[0].flow,)), Worker("orders"), Reaper("orders")),
        flows,
        landed=False,
    )


def test_a_flush_taken_as_one_move_misses_what_happens_between_its_calls(fake: Server) -> None:
    result = explore(_together(), server=fake)
    assert result.verdicts["P7"].word == "broken"
    assert "row of pick has no state" in result.verdicts["P7"].reason
    with fake.scratch() as place:
        weak = Explorer(_together(), place, flush_is_one_move=True)
        weak.search()
        weakly = Result.of(weak)
    assert weakly.verdicts["P7"].word == "holds"
    assert weakly.states < result.states


def test_a_multi_is_one_move(fake: Server) -> None:
    apart, together = explore(_together(), server=fake), explore(_together(atomic=True), server=fake)
    assert together.verdicts["P7"].word == "holds" and together.verdicts["P1"].word == "holds"
    assert together.states < apart.states
    assert [gap for gap in together.gaps if gap.before == "enqueue_flow" and gap.after == "HSET"] == []


@pytest.mark.usefixtures("wheel")
def test_a_weakened_promise_is_caught_by_the_mistake_it_should_have_seen(fake: Server) -> None:
    def weakened_promise(promise: Promise) -> Promise:
        kept = tuple(c for c in promise.clauses if c.name not in ("tokens grow", "the last token settles"))
        return dataclasses.replace(promise, clauses=kept)

    weak = tuple(weakened_promise(p) if p.name == "P9" else p for p in PROMISES)
    world = LAPSING
    honest = explore(world, scripts="zoo/same-token", server=fake)
    weakened = explore(world, scripts="zoo/same-token", server=fake, promises=weak)
    assert honest.verdicts["P9"].word == "broken"
    seen = honest.verdicts["P9"].violation
    assert seen is not None and len(seen.history) == 6
    assert weakened.verdicts["P9"].violation != honest.verdicts["P9"].violation


# --- bounds, interrupts, verdicts ------------------------------------------------------------------------------------


def test_a_bound_makes_every_verdict_that_is_not_broken_unknown(fake: Server) -> None:
    result = explore("same-queue", server=fake, max_depth=4)
    assert not result.complete and result.stopped == "at depth 4"
    assert {verdict.word for verdict in result.verdicts.values()} == {"unknown"}
    assert "up to depth 4" in result.verdicts["P2"].reason
    assert result.exit_status == 2
    assert explore("same-queue", server=fake, max_states=50).word == "unknown"


def test_a_violation_met_before_the_bound_is_broken_all_the_same(fake: Server) -> None:
    result = explore("heartbeats", server=fake, max_depth=5)
    assert result.verdicts["P14"].word == "broken" and result.exit_status == 1
    assert result.verdicts["P3"].word == "unknown"


def test_exploring_goes_on_after_a_violation(fake: Server) -> None:
    whole = explore("heartbeats", server=fake)
    first = explore("heartbeats", server=fake, until="P14")
    assert whole.complete and first.states < whole.states
    assert [len(v.history) for v in first.violations if v.promise == "P14"] == [5]


def test_an_interrupt_leaves_what_is_known(fake: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = model_room.Model.moves
    made = 0

    def interrupted(self: Any, *given: Any) -> Any:
        nonlocal made
        made += 1
        if made > 150:
            raise KeyboardInterrupt
        return steps(self, *given)

    monkeypatch.setattr(model_room.Model, "moves", interrupted)
    with fake.scratch() as place:
        explorer = Explorer(scenario("heartbeats"), place)
        explorer.search()
        monkeypatch.undo()
        result = Result.of(explorer)
    assert result.stopped == "interrupted" and not result.complete and result.states > 20
    assert len(explorer.graph.starts) - 1 <= result.states and explorer.graph.starts[-1] == result.transitions
    assert result.verdicts["P14"].word == "broken"  # met before the interrupt
    assert result.verdicts["P2"].word == "unknown"


def test_progress_is_told_while_it_runs(fake: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Progress] = []
    clock = iter(range(1, 10**6))
    monkeypatch.setattr("time.monotonic", lambda: float(2 * next(clock)))
    explore("same-queue", server=fake, progress=told.append)
    assert told and told[-1].states > 0 and "states" in str(told[-1])


def test_only_the_judge_says_holds() -> None:
    with pytest.raises(TypeError, match="only judge"):
        Verdict("P2", "held", "holds", "because I say so")
    assert judge("P2", "held", Evidence(9, True, 3)).word == "holds"
    assert "of a small world" in str(judge("P2", "held", Evidence(9, True, 3, (), "a small world")))
    assert judge("P2", "held", Evidence(9, False, 3)).word == "unknown"
    doubted = judge("P2", "held", Evidence(9, True, 3, doubts=("claim draws chance (SPOP)",)))
    assert str(doubted) == "P2 held: unknown. Nothing seen is all there is: claim draws chance (SPOP)."
    assert "at 3 instants" in judge("P2", "held", Evidence(9, True, 3, instants=3)).reason
    assert judge("P2", "held", Evidence(9, True, 3, ("a parent was claimed",))).reason == (
        "Not met anywhere: a parent was claimed."
    )
    assert judge("P2", "held", Evidence(9, True, 3), unconcerned="no flow").concerns is False


def test_a_witness_that_never_turns_up_makes_the_verdict_unknown(fake: Server) -> None:
    world = dataclasses.replace(scenario("same-queue"), witnesses=("a re-delivery really happened",))
    result = explore(world, server=fake, crashes=0, lost_replies=0)
    assert result.verdicts["P2"].word == "unknown" and result.exit_status == 2
    assert "a re-delivery really happened" in result.verdicts["P2"].reason


def test_the_count_of_an_idle_reaper_is_no_refusal(fake: Server) -> None:
    flows = planned("orders", Flow("order", [Child("pick")]))
    result = explore(World("calm", (Worker("orders"), Reaper("orders")), flows), server=fake)
    assert "a transition refused" not in result.witnesses
    refusal = result.verdicts["P12"]
    assert refusal.word == "unknown" and not refusal.concerns and result.exit_status == 0
    assert refusal.reason == "Not tried: nobody in this world asks for what was done or taken away before."
    lossy = explore("climbing", server=fake)  # its lost replies meet no transition that refuses
    assert lossy.verdicts["P12"].reason == "Not met anywhere: a transition refused."


def test_the_clauses_of_the_turn_that_were_not_tried_are_named_and_not_promised(fake: Server) -> None:
    flows = planned("orders", Flow("order", [Child("pick")]))
    calm = explore(World("calm", (Worker("orders"), Reaper("orders")), flows), server=fake)
    assert str(calm.verdicts["P14"]).endswith(" Not tried here: a pause, reaping, an extension.")
    assert "deadline only (not tried here: a pause, reaping, an extension)" in calm.text
    crashing = explore(World("crashing", (Worker("orders"), Reaper("orders")), flows, Faults(crashes=1)), server=fake)
    assert crashing.verdicts["P14"].untried == ("a pause", "an extension")
    assert explore("pause", server=fake).verdicts["P14"].untried == ("an extension",)


def test_a_pause_that_no_claim_met_leaves_the_turn_unknown(fake: Server) -> None:
    @dataclasses.dataclass(frozen=True)
    class Blind(Worker):
        def begin(self, kit: Kit) -> tuple[Any, ...]:
            return (Choice(Taker(kit.server).take.program(self.queue)),)

    @dataclasses.dataclass(frozen=True)
    class Taker:
        server: Server

        @operation
        def take(self, queue: str) -> Steps[Any]:
            paused = yield from command("HGET", [keys.queue_key(queue, "meta")], [b"paused"], lambda reply: reply)
            return None if paused else (yield from transitions.claim(queue, 10**14))

    def word(worker: Worker) -> str:
        flows = planned("orders", Flow("order", [Child("pick")]))
        world = World("pausing", (worker, Operator((Deed("pause", "orders"),))), flows)
        return explore(world, server=fake).verdicts["P14"].reason

    assert word(Worker("orders")).startswith("In each of")
    assert word(Blind("orders")) == "Not met anywhere: a claim found its queue paused."


def test_a_pump_that_trims_what_a_script_answered_with_an_error_has_dropped_it(fake: Server) -> None:
    @dataclasses.dataclass(frozen=True)
    class Careless:
        server: Server

        @operation
        def sweep(self, queue: str) -> Steps[None]:
            key = keys.queue_key(queue, "flow:outbox")
            entries: Any = yield from command("LRANGE", [key], [b"0", b"0"], lambda reply: reply)
            for entry in map(outbox.decode, entries):
                assert isinstance(entry, outbox.Completion)
                try:
                    yield from transitions.flow_deliver(
                        entry.parent_queue, entry.parent_id, entry.child_id, entry.result
                    )
                except EmqError:
                    pass  # the next entry, please
                yield from command("LTRIM", [key], [b"1", b"-1"], lambda reply: reply)

    def sweeping(kit: Kit) -> Any:
        return Careless(kit.server).sweep.program("stock")

    listed = scenario("poison-wrong-type")
    careless = Repeating("careless pump", sweeping, ("stock",), "pump")
    actors = tuple(careless if actor.role == "pump" else actor for actor in listed.actors)
    world = dataclasses.replace(listed, actors=actors)
    result = explore(world, server=fake, until="P10")
    assert result.verdicts["P10"].reason == (
        "the entry of first was dropped, whose delivery was answered with an error."
    )
    kept = explore(world, server=fake, poisons=0)
    assert kept.complete and kept.verdicts["P10"].word != "broken"


def test_bounds_of_the_search_are_whole_numbers_of_one_or_more() -> None:
    for bounds in ({"max_states": 0}, {"max_states": -1}, {"max_depth": -1}, {"max_depth": 0}):
        with pytest.raises(BadArgument, match="is not a whole number from 1"):
            explore("same-queue", **bounds)  # type: ignore[arg-type]


def test_a_budget_that_cannot_be_spent_makes_the_verdict_unknown(fake: Server) -> None:
    result = explore("same-queue", server=fake, crashes=0, lost_replies=0, redeliveries=1)
    assert "a re-delivery (the world allows 1)" in result.verdicts["P2"].reason


def test_an_unknown_scenario_is_refused_by_name() -> None:
    with pytest.raises(BadArgument, match="is not listed"):
        explore("no-such-world")


def test_budgets_are_whole_numbers_up_to_fifteen() -> None:
    for wrong in (-1, 16, True, "2"):
        with pytest.raises(BadArgument, match="crashes"):
            Faults(crashes=wrong)  # type: ignore[arg-type]


def test_bottom_components_are_what_no_fault_free_move_leaves() -> None:
    # 0 → 1 ⇄ 2, 0 → 3 → 3, 2 → 4 by a fault only, 4 → 4
    edges = {0: [1, 3], 1: [2], 2: [1, 4], 3: [3], 4: [4]}
    graph = Graph()
    for node, targets in edges.items():
        graph.targets.extend(targets)
        graph.labels.extend(int((node, target) == (2, 4)) for target in targets)
        graph.starts.append(len(graph.targets))
    found = graph.bottoms(bytearray([0, 1]))
    assert sorted(sorted(component) for component in found) == [[1, 2], [3], [4]]


# --- worlds of one's own ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("wheel")
def test_a_folder_of_ones_own_lua_is_explored_with_the_same_call(fake: Server, tmp_path: Any) -> None:
    source = ScriptSet.load("published")["claim"].source.replace("ZPOPMIN", "ZPOPMAX")
    (tmp_path / "claim.lua").write_text(source)
    result = explore("same-queue", scripts=str(tmp_path), server=fake, until="P14")
    assert result.verdicts["P14"].word == "broken"
    violation = result.verdicts["P14"].violation
    assert violation is not None and len(violation.history) == 2


def test_an_operation_of_ones_own_stands_in_for_a_role(fake: Server) -> None:
    @dataclasses.dataclass(frozen=True)
    class Sweeper:
        server: Server

        @operation
        def sweep(self, queue: str) -> Steps[int]:
            moved = yield from transitions.reap(queue)
            return moved

    def sweeping(kit: Kit) -> Any:
        return Sweeper(kit.server).sweep.program("orders")

    flows = planned("orders", Flow("order", [Child("pick")]))
    world = World(
        "own", (Worker("orders"), Repeating("sweeper", sweeping, ("orders",), "reaper")), flows, Faults(crashes=1)
    )
    result = explore(world, server=fake)
    assert result.verdicts["P3"].word == "holds"
    assert any(gap.operation == "sweeper.sweep" for gap in result.gaps)


def test_a_world_may_begin_with_more_than_flows(fake: Server) -> None:
    def delayed(kit: Kit) -> list[Any]:
        id = planned("orders", Flow("x", [Child("y")]))[0].flow.id
        return [kit.jobs.enqueue_in.program("orders", "later", 10**14, id=id)]

    world = World("delayed", (Worker("orders"), Promoter("orders")), setup=delayed)
    result = explore(world, server=fake)
    assert (result.verdicts["P6"].word, result.verdicts["P14"].word) == ("holds", "holds")
    assert not result.verdicts["P3"].concerns
    assert "0 states" not in result.text and "not tried here: P1, P2, P3" in result.text


def test_coverage_names_every_gap_of_the_pump(fake: Server) -> None:
    result = explore("pump-crashes", server=fake, crashes=1)
    gaps = {(gap.before, gap.after): gap for gap in result.gaps if gap.operation == "pump.sweep"}
    assert set(gaps) == {
        ("start", "promote"),
        ("promote", "LRANGE"),
        ("LRANGE", "flow_deliver"),
        ("flow_deliver", "flow_deliver"),
        ("flow_deliver", "LTRIM"),
    }
    assert all(gap.crashes > 0 and gap.visits > 0 for key, gap in gaps.items() if key != ("start", "promote"))
    assert gaps["start", "promote"].crashes == 0  # there is nothing to lose yet


def test_a_score_in_a_world_is_past_or_future() -> None:
    snapshot = Snapshot(((b"emq:{q}:active", Ranked(((b"JOB00000000001", 5.0), (b"JOB00000000000", 9.0)))),), now=7)
    (part,), metrics = parts_of(snapshot)
    assert part.members("active") == {"JOB00000000001": 1.0, "JOB00000000000": FUTURE}
    assert not metrics


def test_holds_says_of_which_world_scripts_and_faults() -> None:
    result = explore("same-queue")
    said = str(result.verdicts["P3"])
    assert said == (
        f"P3 no drop: holds. In each of the {result.states:,} states of same-queue on published: every order of calls, "
        f"every placement of 2 crashes, 1 lost reply."
    )
    assert "faults: 2 crashes, 1 lost reply" in result.text and "\n  P3 no drop: holds — a child" in result.text
