"""Each clause of each promise has a mistake that it alone tells of: without the clause, the sentence is gone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from emqkit import keys, outbox, transitions
from emqkit.errors import BadFlow, EmqError
from emqkit.flows import Child, Flow
from emqkit.keyspace import FAR_MS
from emqkit.scripts import Script, ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers import Server, open_server
from emqkit.sim import Faults, Operator, Producer, PumpActor, Reaper, Repeating, Worker, World, scenario
from emqkit.sim.promises import PROMISES, Clause, Promise
from emqkit.sim.search.bench import place_for
from emqkit.sim.search.explore import Explorer
from emqkit.sim.worlds.actors import Deed, Role
from emqkit.sim.worlds.mistakes import MISTAKES
from emqkit.sim.worlds.world import Planned, planned
from emqkit.wire import Program, Steps, command, operation

PUBLISHED = ScriptSet.load("published")


@dataclasses.dataclass(frozen=True)
class Row:
    """A world in which one clause, and no other of its promise, says these sentences."""

    promise: str
    clause: str
    says: tuple[str, ...]
    world: World
    scripts: ScriptSet = PUBLISHED
    most: int = 1000

    def __str__(self) -> str:
        return f"{self.promise} {self.clause}, {self.scripts.name}, {self.world.name}"


@pytest.fixture(scope="module")
def fake() -> Iterator[Server]:
    with open_server("fake://") as server:
        yield server


def mistaken(script: str, *changes: tuple[str, str]) -> ScriptSet:
    """The published set with one script written otherwise."""
    source = PUBLISHED[script].source
    for old, new in changes:
        assert source.count(old) == 1, (script, old)
        source = source.replace(old, new)
    return PUBLISHED.overlay(ScriptSet("mistaken", {script: Script.parse(source, f"{script}.lua")}))


def zoo(name: str) -> ScriptSet:
    return ScriptSet.load(f"zoo/{name}")


# --- worlds -----------------------------------------------------------------------------------------------------------

SAME = planned("orders", Flow("order", [Child("pick"), Child("pack")]))
MIXED = planned("orders", Flow("order", [Child("pick"), Child("pack", on_failure="ignore")]))
CROSSING = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock")]))
MIXED_CROSSING = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock", "ignore")]))
THREE = planned("orders", Flow("order", [Child("pick"), Child("pack"), Child("label")]))
PARENT = str(SAME[0].flow.id)
PICK, PACK = (str(child.id) for child in SAME[0].flow.children)

WORKING = World("working", (Worker("orders"), Worker("orders"), Reaper("orders")), SAME)
DYING = World("dying", (Worker("orders", "either"), Reaper("orders")), MIXED)
PUMPING = World("pumping", (Worker("stock"), Worker("orders"), PumpActor("stock"), Reaper("stock")), CROSSING)
DYING_ELSEWHERE = World(
    "dying elsewhere", (Worker("stock", "either"), Worker("orders"), PumpActor("stock")), MIXED_CROSSING
)
SETTLING_AGAIN = World("settling again", (Worker("orders", "fail"), Worker("orders")), MIXED, Faults(lost_replies=1))
BEATING = World("beating", (Worker("orders", heartbeats=True), Reaper("orders")), SAME, Faults(lapses=1))
LAPSING = dataclasses.replace(WORKING, name="lapsing", faults=Faults(lapses=1))


def landing(*plans: Planned, repeats: int = 0, worker: Worker | None = None) -> World:
    flows = tuple(plan.flow for plan in plans)
    actors = (Producer("orders", flows, repeats=repeats), worker or Worker("orders"))
    return World("landing", actors, plans, landed=False)


@dataclasses.dataclass(frozen=True)
class Hosts:
    """Operations of a host that are written wrongly."""

    server: Server

    @operation
    def land_in_parts(self, flow: Flow) -> Steps[None]:
        yield from transitions.hold_parent("orders", str(flow.id), b"order", len(flow.children))
        for child in flow.children:
            yield from transitions.enqueue_flow_child("orders", str(child.id), b"child", str(flow.id), None)

    @operation
    def drop_poison(self, queue: str) -> Steps[None]:
        yield from command("LTRIM", [keys.queue_key(queue, "flow:outbox")], [b"0", b"-2"], lambda reply: reply)

    @operation
    def drop_unheard(self, queue: str) -> Steps[None]:
        key = keys.queue_key(queue, "flow:outbox")
        entries: Any = yield from command("LRANGE", [key], [b"0", b"0"], lambda reply: reply)
        for entry in map(outbox.decode, entries):
            assert isinstance(entry, outbox.Completion)
            try:
                yield from transitions.flow_deliver(entry.parent_queue, entry.parent_id, entry.child_id, entry.result)
            except EmqError:
                pass  # the next entry, please
            yield from command("LTRIM", [key], [b"1", b"-1"], lambda reply: reply)

    @operation
    def refuse_too_late(self, queue: str) -> Steps[None]:
        yield from command("HDEL", [keys.queue_key(queue, "meta")], [b"paused"], lambda reply: reply)
        raise BadFlow("no_children", "It has no children.")

    @operation
    def climb_with_another_policy(self, queue: str, id: str, parent: str) -> Steps[None]:
        yield from outbox.signal_death(queue, id, transitions.ParentLink(parent, policy="id"), b"boom")

    @operation
    def claim_unasked(self, queue: str) -> Steps[Any]:
        return (yield from transitions.claim(queue, FAR_MS))


def host(name: str, program: Callable[[Hosts], Program[Any]], as_role: Role = "other", *serves: str) -> Repeating:
    return Repeating(name, lambda kit: program(Hosts(kit.server)), serves, as_role)


TWO_FLOWS = planned("orders", Flow("early", [Child("pick")]), Flow("late", [Child("pack")]))
POISONED = dataclasses.replace(scenario("poison"), name="poisoned")
SPOILT = scenario("poison-wrong-type")
TREE = planned("orders", Flow("root", [Child("branch", children=[Child("leaf")])]))
ROOT, BRANCH = str(TREE[0].flow.id), str(TREE[0].flow.children[0].id)


def with_actors(world: World, *actors: Any, without: str = "", **more: Any) -> World:
    """The world with these actors besides, and without those of a role."""
    kept = tuple(actor for actor in world.actors if actor.role != without)
    return dataclasses.replace(world, actors=(*kept, *actors), **more)


WHOLE = ("one move landed the flow of order otherwise than held, counted and linked",)
LANDS_CHILD = """\
  redis.call('HSET', child, 'state', 'pending', 'attempts', '0', 'payload', child_payload, 'parent', parent_id)
  redis.call('ZADD', pending, 0, child_id)
"""
COUNTS = "redis.call('SET', dependencies, n)\n"
SIGNALS = "redis.call('RPUSH', outbox, head .. '\\0' .. policy .. '\\0' .. failure)\n"
EXTENDS = "redis.call('ZADD', active, now + tonumber(lease), id)\n"
FIRST = "if redis.call('HSETNX', processed, child_id, result) == 0 then\n  return 1\nend\n"
RETIRES = "redis.call('DEL', row)\n"
RENAMES = "redis.call('RENAME', row, row .. ':done')\n"
FORGETS = """\
if KEYS[4] and redis.call('HLEN', KEYS[4]) == 2 then
  redis.call('HDEL', KEYS[4], redis.call('HKEYS', KEYS[4])[1])
end
"""
REMOVED = World("removed", (Worker("orders", "either"), Operator((Deed("remove", "orders", PARENT),))), SAME)
REVIVED = scenario("reprocessed-child")
TWICE = landing(*SAME, repeats=1)
LANDER = host("lander", lambda hosts: hosts.land_in_parts.program(SAME[0].flow), "producer")
DROPPER = host("cleaner", lambda hosts: hosts.drop_poison.program("stock"))
CARELESS = host("careless pump", lambda hosts: hosts.drop_unheard.program("stock"))
RESUMER = host("resumer", lambda hosts: hosts.refuse_too_late.program("orders"))
CLIMBER = host("climber", lambda hosts: hosts.climb_with_another_policy.program("orders", BRANCH, ROOT))


def lands_child(*changed: str) -> ScriptSet:
    """An `enqueue_flow` that lands its children otherwise: a part of the text, and what stands there instead."""
    old, new = changed
    assert LANDS_CHILD.count(old) == 1
    return mistaken("enqueue_flow", (LANDS_CHILD, LANDS_CHILD.replace(old, new)))


def each(says: str, *names: str) -> tuple[str, ...]:
    return tuple(says.replace("…", name) for name in names)


ALL = ("order", "pack", "pick")
ROWS = (
    # --- P1 all or nothing
    Row("P1", "a flow lands whole", WHOLE, landing(*SAME), zoo("parent-not-held"), 40),
    Row(
        "P1",
        "a flow lands whole",
        WHOLE,
        landing(*SAME),
        mistaken("enqueue_flow", (COUNTS, COUNTS + "redis.call('ZADD', pending, 0, parent_id)\n")),
        40,
    ),
    Row(
        "P1",
        "a flow lands whole",
        WHOLE,
        landing(*SAME),
        mistaken("enqueue_flow", (COUNTS, "redis.call('SET', dependencies, n + 1)\n")),
        40,
    ),
    Row(
        "P1",
        "a flow lands whole",
        WHOLE,
        landing(*SAME),
        lands_child("'parent', parent_id)", "'parent', child_id)"),
        40,
    ),
    Row("P1", "a flow lands whole", WHOLE, landing(*SAME), lands_child("'state', 'pending'", "'state', 'active'"), 40),
    Row(
        "P1",
        "a flow lands whole",
        WHOLE,
        landing(*SAME),
        lands_child("redis.call('ZADD', pending, 0, child_id)", ""),
        40,
    ),
    Row("P1", "a flow lands whole", WHOLE, with_actors(landing(*SAME), LANDER, without="producer"), most=40),
    # --- P2 held
    Row(
        "P2",
        "a claim of a parent",
        each("order was claimed while … is outstanding", "pack", "pick"),
        WORKING,
        zoo("early-release"),
    ),
    Row(
        "P2",
        "a claim of a parent",
        ("order was claimed while pick, pack and label are outstanding",),
        landing(*THREE),
        zoo("parent-not-held"),
        40,
    ),
    Row(
        "P2",
        "a claim of a parent",
        (
            "order was claimed while pick and pack are outstanding",
            *each("order was claimed while … is outstanding", "pack", "pick"),
        ),
        scenario("reprocessed-parent"),
    ),
    # --- P3 no drop
    Row(
        "P3",
        "an outcome is kept",
        each("… completed, and neither the hashes of order nor an outbox know it", "pack", "pick"),
        PUMPING,
        zoo("no-signal"),
    ),
    Row(
        "P3",
        "an outcome is kept",
        each("… died, and neither the hashes of order nor an outbox know it", "pack", "pick"),
        DYING_ELSEWHERE,
        mistaken("retry", (SIGNALS, "")),
    ),
    Row(
        "P3",
        "a parent does not stay held",
        ("root stays held for ever",),
        scenario("climbing").with_faults(lost_replies=0),
    ),
    # --- P4 once
    Row("P4", "the gone stay gone", each("… brought order back, whose row is gone", "complete", "retry"), REMOVED),
    Row("P4", "the dead stay dead", each("… brought order back, which was dead", "complete", "retry"), SETTLING_AGAIN),
    Row(
        "P4",
        "one release a life",
        ("flow_deliver released order a second time in one life",),
        scenario("two-pumps"),
        zoo("no-first-record"),
    ),
    Row(
        "P4",
        "only the held are released",
        ("complete put order into pending, which was active and not held",),
        with_actors(landing(*SAME), Worker("orders")),
        zoo("parent-not-held"),
    ),
    # --- P5 count
    Row(
        "P5",
        "the counts add up",
        (
            "the counter of order is 0 beside 1 processed and 0 unsuccessful of 2 children",
            "the counter of order is 1 beside 0 processed and 0 unsuccessful of 2 children",
        ),
        landing(*SAME),
        mistaken("enqueue_flow", (COUNTS, "redis.call('SET', dependencies, n - 1)\n")),
    ),
    Row(
        "P5",
        "no counter is below zero",
        ("the counter of order is -1 beside 2 processed and 1 unsuccessful of 2 children",),
        REVIVED,
    ),
    Row(
        "P5",
        "a death that fails the parent is not counted",
        ("a death that fails order moved its counter from 2 to 1",),
        DYING,
        zoo("every-death-counts"),
    ),
    Row(
        "P5",
        "a death that fails the parent is not counted",
        ("a death that fails order moved its counter from 2 to 1",),
        DYING_ELSEWHERE,
        mistaken(
            "flow_fail_deliver",
            (
                "redis.call('HSET', parent, 'state', 'dead')\n",
                "redis.call('HSET', parent, 'state', 'dead')\n    redis.call('DECR', dependencies)\n",
            ),
        ),
    ),
    # --- P6 one place
    Row("P6", "one set at most", each("… is in pending and in active at once", *ALL), BEATING),
    Row(
        "P6",
        "the set that the row names",
        each("… says pending and is in active", *ALL),
        WORKING,
        mistaken("claim", ("redis.call('HSET', row, 'state', 'active')\n", "")),
    ),
    Row(
        "P6",
        "the set that the row names",
        each("… says pending and is in no set", *ALL),
        dataclasses.replace(WORKING, faults=Faults(crashes=1)),
        zoo("lapsed-is-lost"),
    ),
    Row(
        "P6",
        "the set that the row names",
        ("order says awaiting_children and is in pending",),
        landing(*SAME),
        mistaken("enqueue_flow", (COUNTS, COUNTS + "redis.call('ZADD', pending, 0, parent_id)\n")),
        40,
    ),
    # --- P7 no ghosts
    Row("P7", "a row for each id", each("… is in pending and has no row", *ALL), BEATING),
    Row(
        "P7",
        "whole rows",
        each("the row of … has no state and no attempts and no payload", "pack", "pick"),
        landing(*MIXED),
    ),
    # --- P8 one outcome
    Row("P8", "one record", ("pack is in processed and in unsuccessful of order",), REVIVED),
    Row(
        "P8",
        "a record stays as it is",
        each("what processed of order says of … changed", "pack", "pick"),
        scenario("two-pumps"),
        mistaken("flow_deliver", (FIRST, "redis.call('HSET', processed, child_id, redis.call('HLEN', processed))\n")),
    ),
    Row(
        "P8",
        "a record stays as it is",
        each("what processed of order says of … changed", "pack", "pick"),
        WORKING,
        mistaken(
            "complete",
            (
                RETIRES,
                RETIRES + FORGETS,
            ),
        ),
    ),
    # --- P9 fenced
    Row("P9", "tokens grow", each("… was handed out with token 1 after token 1", *ALL), LAPSING, zoo("same-token")),
    Row(
        "P9",
        "the last token settles",
        each("complete settled … with token 1 after token 2 was handed out", *ALL),
        LAPSING,
        zoo("no-fence"),
    ),
    Row("P9", "a token settles once", each("token 1 of … was settled twice", *ALL), SETTLING_AGAIN),
    # --- P10 isolated
    Row(
        "P10",
        "another flow is left alone",
        each("landing late changed …, of another flow", "early", "pick"),
        landing(*TWO_FLOWS),
        mistaken(
            "enqueue_flow",
            (COUNTS, COUNTS + "redis.call('ZREM', pending, (redis.call('ZRANGE', pending, 0, -2)[1] or ''))\n"),
        ),
    ),
    Row(
        "P10",
        "poison is kept",
        ("a poison entry of stock was dropped",),
        with_actors(POISONED, DROPPER, without="pump"),
    ),
    Row(
        "P10",
        "what met an error is kept",
        ("the entry of first was dropped, whose delivery was answered with an error",),
        with_actors(SPOILT, CARELESS, without="pump"),
    ),
    Row("P10", "what is behind poison arrives", ("the entry of pick waits in the outbox of stock for ever",), POISONED),
    # --- P11 repeatable
    Row(
        "P11",
        "an add brings no row back",
        each("adding … again brought back its row, which was gone", *ALL),
        TWICE,
        most=400,
    ),
    Row("P11", "an add changes no row", each("adding … again changed its row", *ALL), TWICE, most=400),
    Row(
        "P11",
        "an add moves nothing",
        (
            *each("adding … again moved it from active to pending and in active", "pack", "pick"),
            *each("adding … again moved it from no set to pending", "pack", "pick"),
        ),
        TWICE,
        most=400,
    ),
    Row(
        "P11",
        "an add changes nothing collected",
        ("adding order again changed what it has collected",),
        TWICE,
        most=400,
    ),
    Row(
        "P11",
        "a settle again",
        each("retry of … with token 1, repeated, changed something again", *ALL),
        SETTLING_AGAIN,
    ),
    Row(
        "P11",
        "a delivery again",
        each("delivering the entry of … again changed something again", "pack", "pick"),
        PUMPING.with_faults(crashes=1),
        zoo("no-first-record"),
    ),
    # --- P12 clean refusal
    Row(
        "P12",
        "a refusal changes nothing",
        ("enqueue_flow answered EMQKIND job id must be JOB-namespaced and changed something",),
        scenario("bulk"),
        zoo("late-gate"),
        200,
    ),
    Row(
        "P12",
        "a refusal changes nothing",
        ("complete answered 0 and changed something",),
        dataclasses.replace(WORKING, faults=Faults(lost_replies=1)),
        mistaken(
            "complete",
            ("  return 0\n", "  redis.call('HINCRBY', base .. 'metrics:completed', 'count', 1)\n  return 0\n"),
        ),
    ),
    Row(
        "P12",
        "a refusal changes nothing",
        ("remove_job answered -1 and changed something",),
        with_actors(REMOVED, faults=Faults(lost_replies=1)),
        mistaken(
            "remove_job",
            (
                "  return -1\n",
                "  redis.call('ZREM', KEYS[2], redis.call('ZRANGE', KEYS[2], 0, 0)[1] or '')\n  return -1\n",
            ),
        ),
    ),
    Row(
        "P12",
        "a host refusal sends nothing",
        ("hosts.refuse_too_late says that nothing was sent, after it had sent something",),
        with_actors(landing(*TWO_FLOWS), RESUMER),
        most=40,
    ),
    # --- P13 policy
    Row(
        "P13",
        "a death is recorded",
        ("pick died with policy fp, and failed does not know it",),
        DYING,
        zoo("deaf-to-policy"),
    ),
    Row(
        "P13",
        "a death is recorded",
        ("pack died with policy id, and unsuccessful does not know it",),
        DYING,
        mistaken("retry", ("if policy == 'id' then", "if policy == 'xx' then")),
    ),
    Row(
        "P13",
        "a death follows its own policy alone",
        ("pick died with policy fp and was treated as the other one",),
        DYING,
        zoo("deaf-to-policy"),
    ),
    Row(
        "P13",
        "a death follows its own policy alone",
        ("pack died with policy id and was treated as the other one",),
        DYING,
        mistaken("retry", ("if policy == 'id' then", "if policy == 'xx' then")),
    ),
    Row(
        "P13",
        "a death is signalled",
        each("… died and left no signal to order", "pack", "pick"),
        DYING_ELSEWHERE,
        mistaken("retry", (SIGNALS, "")),
    ),
    Row(
        "P13",
        "a signal carries the policy",
        ("the death of pack was signalled with fp, not id",),
        DYING_ELSEWHERE,
        mistaken("retry", (SIGNALS, SIGNALS.replace("policy", "'fp'"))),
    ),
    Row(
        "P13",
        "a signal carries the policy",
        ("the death of branch was signalled with id, not fp",),
        with_actors(World("climbing", (Worker("orders", "fail"),), TREE), CLIMBER),
        most=40,
    ),
    Row(
        "P13",
        "a delivered death follows its policy",
        ("pack died with policy id, and its delivery put it into failed",),
        DYING_ELSEWHERE,
        mistaken("flow_fail_deliver", ("if policy == 'fp' then", "if true then")),
    ),
    Row(
        "P13",
        "a delivered death follows its policy",
        ("pick died with policy fp, and its delivery put it into unsuccessful",),
        DYING_ELSEWHERE,
        mistaken("flow_fail_deliver", ("if policy == 'fp' then", "if false then")),
    ),
    # --- P14 turn and lease
    Row("P14", "the turn", ("pack was claimed before pick",), WORKING, zoo("newest-first")),
    Row(
        "P14",
        "a pause",
        each("… was claimed by a claim that began in a paused orders", *ALL),
        MISTAKES["claim-unasked"].world,
    ),
    Row(
        "P14", "reaping", each("the live lease of … was reaped", "pack", "pick"), LAPSING, zoo("impatient-reaper"), 300
    ),
    Row("P14", "an extension", each("an extension put … into active, which was in pending", *ALL), BEATING),
    Row(
        "P14",
        "an extension",
        each("an extension put … into active, which was in pending", *ALL),
        with_actors(BEATING, Worker("orders", heartbeats=True, together=True), without="worker"),
    ),
    Row(
        "P14",
        "an extension moves the deadline",
        each("an extension left the deadline of … as it was", *ALL),
        BEATING,
        mistaken("extend_lock", (EXTENDS, "")),
    ),
    Row(
        "P14",
        "an extension changes deadlines only",
        ("an extension changed more than deadlines",),
        BEATING,
        mistaken("extend_lock", (EXTENDS, EXTENDS + "redis.call('HSET', row, 'extended', '1')\n")),
    ),
    Row(
        "P14",
        "an extension of one lease is of no other",
        each("an extension moved the deadline of …, which was not asked for", "pack", "pick"),
        with_actors(BEATING, Worker("orders")),
        mistaken(
            "extend_lock", (EXTENDS, f"for _, id in ipairs(redis.call('ZRANGE', active, 0, -1)) do\n  {EXTENDS}end\n")
        ),
    ),
    # --- P15 operators
    Row(
        "P15",
        "what is removed is gone",
        ("pick was removed and is still there",),
        scenario("removed-child"),
        zoo("half-removed"),
        40,
    ),
    Row(
        "P15",
        "what is removed stays away",
        each("… brought order back, which an operator removed", "complete", "retry"),
        REMOVED,
    ),
    Row(
        "P15",
        "a child run again is not counted",
        ("pack, reprocessed after its outcome was recorded, moved the counter of order",),
        REVIVED,
    ),
    Row(
        "P15",
        "a child run again moves no parent",
        ("pack, reprocessed after its outcome was recorded, moved order",),
        REVIVED,
    ),
    # --- P16 leftovers
    Row(
        "P16",
        "nothing else of a parent stays",
        ("order is finished, and done of it stay",),
        WORKING,
        mistaken(
            "complete",
            ("-- derives  base..pending", "-- derives  row..:done  base..pending"),
            (RETIRES, f"if parent_id then\n  {RETIRES}else\n  {RENAMES}end\n"),
        ),
    ),
    Row(
        "P16",
        "no child outlives its parent, unless it is dead",
        ("order is finished, and its child pick is still there",),
        WORKING,
        mistaken("complete", (RETIRES, f"if not parent_id then\n  {RETIRES}end\n")),
    ),
)


def explored(row: Row, fake: Server, *promises: Promise) -> Explorer:
    with place_for(row.world, fake, row.scripts) as place:
        explorer = Explorer(row.world, place, promises)
        explorer.search(max_states=row.most)
        return explorer


def sentences(explorer: Explorer) -> dict[str, set[str]]:
    """Everything that each promise says somewhere in a world."""
    verdicts = explorer.verdicts()  # ends are judged by then
    said: dict[str, set[str]] = {promise.name: set() for promise in explorer.promises}
    for number, says in explorer.model.sides.violations:
        said[explorer.promises[number].name].add(says)
    for name, verdict in verdicts.items():
        said[name] |= {verdict.violation.says} if verdict.violation is not None else set()
    return said


def clause_of(promise: str, name: str) -> Clause:
    (found,) = (clause for clause in BY_NAME[promise].clauses if clause.name == name)
    return found


BY_NAME = {promise.name: promise for promise in PROMISES}


def alone(promise: Promise, clause: Clause) -> Promise:
    return dataclasses.replace(promise, name=f"{promise.name} {clause.name}", clauses=(clause,))


def without(promise: Promise, clause: Clause) -> Promise:
    others = tuple(one for one in promise.clauses if one is not clause)
    return dataclasses.replace(promise, name="the others", clauses=others)


def test_every_clause_has_a_mistake_and_a_name_of_its_own() -> None:
    clauses = [(promise.name, clause.name) for promise in PROMISES for clause in promise.clauses]
    assert len(clauses) == len(set(clauses)) == 50
    assert list(dict.fromkeys((row.promise, row.clause) for row in ROWS)) == clauses


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_clause_alone_tells_of_its_mistake(row: Row, fake: Server, request: pytest.FixtureRequest) -> None:
    if foreign(row.scripts):
        request.getfixturevalue("wheel")
    promise, clause = BY_NAME[row.promise], clause_of(row.promise, row.clause)
    others = without(promise, clause)
    said = sentences(explored(row, fake, promise, *([others] if others.clauses else [])))
    assert said[row.promise] - said.get(others.name, set()) == set(row.says)
    assert said.get(others.name, set()) <= said[row.promise]
    assert clause.concerns(row.world) is None
