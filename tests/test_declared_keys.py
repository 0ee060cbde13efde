"""Every key a script touches is declared or derived on its own slot: run on a node that serves one slot only."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch import EVERY_BYTE, A, B, C, D, E, F, P, Q, everything, fall_due, lapse, wire

from emqkit import keys, transitions
from emqkit.errors import FlowNotNative, Refused, UnsuitableServer
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.native import Native
from emqkit.outbox import Completion, Failure, encode
from emqkit.pump import Pump
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server
from emqkit.servers.cluster import open_one_slot_node
from emqkit.transitions import ParentLink
from emqkit.wire import Call, ErrorReply, Flush, run

QUEUE = "orders"
ELSEWHERE = "labels"  # its slot is another one, and nobody serves it


@pytest.fixture(scope="module")
def node() -> Iterator[Server]:
    try:
        node = open_one_slot_node(QUEUE)
    except UnsuitableServer as missing:
        pytest.skip(f"no cluster node here: {missing}")
    with node:
        yield node


@pytest.fixture(autouse=True)
def as_new(node: Server) -> None:
    node.client.flushdb()
    node.scripts = ScriptSet.load("published")


def settle(node: Server, *, fails: bool = False, **more: Any) -> None:
    """Claim one job and settle it."""
    jobs = Jobs(node)
    claim = jobs.claim(QUEUE)
    assert claim is not None
    if fails:
        jobs.retry(QUEUE, claim, error=EVERY_BYTE, **more)
    else:
        jobs.complete(QUEUE, claim, result=EVERY_BYTE)


# --- every transition, every layout -----------------------------------------------------------------------------------


def every_transition(node: Server) -> None:
    """Run all of them, in all their layouts and legs, with keys of one queue."""
    jobs, flows, native, pump = Jobs(node), Flows(node), Native(node), Pump(node, QUEUE)
    client, base = node.client, f"emq:{{{QUEUE}}}:"
    # enqueue, schedule (both), promote, claim, extend, reap, complete and retry of flat jobs, reprocess, remove
    jobs.enqueue(QUEUE, "x", id=A)
    jobs.enqueue_in(QUEUE, "x", 0, id=B)
    jobs.enqueue_at(QUEUE, "x", 1, id=C)
    jobs.promote(QUEUE)
    first = jobs.claim(QUEUE)
    assert first is not None
    jobs.extend_lock(QUEUE, first)
    jobs.extend_locks(QUEUE, [first, (D, 1)])
    lapse(node, QUEUE)
    assert jobs.reap(QUEUE) == 1
    settle(node)
    settle(node, fails=True, delay_ms=0)
    settle(node, fails=True, max_attempts=1)
    jobs.reprocess(QUEUE, C)
    client.rpush(f"{base}job:{C}:logs", "a line")
    jobs.remove(QUEUE, C, dedup_id="once")
    fall_due(node, QUEUE)
    jobs.promote(QUEUE)
    jobs.remove(QUEUE, B)
    # a flow of one queue: fan-in, an ignored death, a release
    flows.add(QUEUE, Flow("p", [Child("x", id=A), Child("y", id=B, on_failure="ignore")], id=P))
    settle(node)
    settle(node, fails=True, max_attempts=1)
    settle(node)
    flows.add(QUEUE, Flow("p", [Child("x", id=A)], id=P))
    settle(node)
    settle(node)
    # a failure of the parent, and a death that climbs through the Pump
    flows.add(QUEUE, Flow("p", [Child("q", id=Q, children=[Child("x", id=C)])], id=P))
    settle(node, fails=True, max_attempts=1)
    pump.sweep()
    # children of a parent elsewhere: they leave signals, both kinds, and touch nothing of their parent's
    for id, policy in ((D, "fp"), (E, "fp"), (F, "id")):
        run(node, iterate(transitions.enqueue_flow_child(QUEUE, id, b"x", P, ELSEWHERE)))
        client.hset(f"{base}job:{id}", "parent_policy", policy)
    settle(node)
    settle(node, fails=True, max_attempts=1)
    settle(node, fails=True, max_attempts=1)
    # signals from elsewhere, delivered on this slot: a completion, an ignored death, a failure
    client.delete(f"{base}flow:outbox")
    client.set(f"{base}job:{P}:dependencies", 1)
    died = (Failure(QUEUE, P, E, "id", b"e"), Failure(QUEUE, P, F, "fp", b"e"))
    client.rpush(f"{base}flow:outbox", encode(Completion(QUEUE, P, D, b"r")), *map(encode, died))
    assert pump.sweep().delivered == 3
    # the native models, done and refused
    for id in (A, B):
        client.delete(f"{base}job:{id}")
        jobs.enqueue(QUEUE, "x", id=id)
        claim = jobs.claim(QUEUE)
        assert claim is not None
        for link in (ParentLink(P), ParentLink(P, ELSEWHERE)):
            with pytest.raises(FlowNotNative):
                native.complete(QUEUE, claim, parent=link)
            with pytest.raises(FlowNotNative):
                native.fail(QUEUE, claim, error="e", parent=link)
        lapse(node, QUEUE)
        jobs.reap(QUEUE)  # it waits in pending, and its token still fits
        if id == A:
            native.complete(QUEUE, claim)
        else:
            native.fail(QUEUE, claim, error="e", delay_ms=0)
            jobs.promote(QUEUE)
            again = jobs.claim(QUEUE)
            assert again is not None
            native.fail(QUEUE, again, error="e", max_attempts=1)


def iterate(call: Call[Any]) -> Any:
    value = yield from call
    return value


def layouts_run(sent: list[Any], scripts: ScriptSet) -> set[tuple[str, str]]:
    """Which script ran in which of its layouts."""
    by_sha = {script.sha.encode(): script for script in scripts}
    ran = set()
    for commands in sent:
        for verb, *rest in commands:
            if verb == b"EVALSHA" and rest[0] in by_sha:
                count = int(rest[1])
                script = by_sha[rest[0]]
                layout = script.layout_for(rest[2 : 2 + count], rest[2 + count :])
                ran.add((script.name, layout.name))
    return ran


def test_every_transition_runs_in_every_layout_where_one_slot_is_served(node: Server) -> None:
    with wire(node) as sent:
        every_transition(node)
    assert layouts_run(sent, node.scripts) == {
        (script.name, layout.name) for script in node.scripts for layout in script.layouts
    }
    assert {keys.slot(key) for key in everything(node).keys} == {keys.slot(QUEUE)}


# --- and in each of them nothing else is touched ----------------------------------------------------------------------


def touched(node: Server, does: Callable[[Server], None]) -> list[tuple[tuple[bytes, ...], list[tuple[bytes, ...]]]]:
    """Every script call meanwhile, as the server's own monitor saw it, and the commands inside it."""
    pool: Any = node.client.connection_pool
    monitor = pool.make_connection()  # not redis-py's own monitor: that one loses where a word ends
    monitor.connect()
    monitor.send_command("MONITOR")
    assert monitor.read_response() == b"OK"
    does(node)
    node.client.echo("that was all")
    seen: list[tuple[tuple[bytes, ...], list[tuple[bytes, ...]]]] = []
    while True:
        head, _, line = monitor.read_response().partition(b"] ")
        words = tuple(codecs.escape_decode(word)[0] for word in re.findall(rb'"((?:[^"\\]|\\.)*)"', line))
        if words[-1] == b"that was all":
            monitor.disconnect()
            return seen
        if head.endswith(b" lua"):
            seen[-1][1].append(words)
        elif words[0] == b"EVALSHA":
            seen.append((words, []))


def derived(script: Script, given: tuple[bytes, ...], args: tuple[bytes, ...]) -> dict[str, re.Pattern[bytes]]:
    """What the keys look like that the header says are derived, for a call with these keys and arguments."""
    view = script.view(given, args)
    values = dict(view.args.pairs) | dict(view.keys.pairs)
    patterns = {}
    for name in script.derives:
        start, rest = name.split("..", 1)
        if start in values:
            pattern = re.escape(rest.encode()).replace(re.escape(b"<id>"), b"[A-Z]{3}[0-9A-Za-z]{11}")
            patterns[name] = re.compile(re.escape(values[start]) + pattern)
    return patterns


def test_a_script_touches_the_keys_it_declares_those_its_header_derives_and_no_others(node: Server) -> None:
    by_sha = {script.sha.encode(): script for script in node.scripts}
    used: dict[str, set[str]] = {script.name: set() for script in node.scripts}
    for (_, sha, count, *rest), inside in touched(node, every_transition):
        if sha not in by_sha:
            continue  # a look of this test's own
        script, number = by_sha[sha], int(count)
        given = tuple(rest[:number])
        patterns = derived(script, given, tuple(rest[number:]))
        for verb, *words in inside:
            for key in words if verb in (b"DEL", b"EXISTS") else words[:1]:
                names = {name for name, pattern in patterns.items() if pattern.fullmatch(key)}
                assert key in given or names, f"{script.name} touches {key!r}"
                used[script.name] |= names
    assert used == {script.name: set(script.derives) for script in node.scripts}  # nor does a header derive in vain


# --- the node would say so if one reached out -------------------------------------------------------------------------


def reaching_out(scripts: ScriptSet, name: str, old: str, new: str) -> ScriptSet:
    """The set with one script changed so that it builds a key of another queue."""
    script = scripts[name]
    assert script.source.count(old) >= 1
    changed = Script.parse(script.source.replace(old, new), script.path)
    return ScriptSet("reaching out", {**{each.name: each for each in scripts}, name: changed})


def kill(jobs: Jobs) -> object:
    jobs.claim(QUEUE)
    return jobs.retry(QUEUE, A, 1, error="e", max_attempts=1)


@pytest.mark.parametrize(
    "name, old, new, does",
    [
        ("claim", "prefix .. id", "'emq:{labels}:job:' .. id", lambda jobs: jobs.claim(QUEUE)),
        ("complete", "base .. 'metrics:completed'", "'emq:{labels}:x'", lambda jobs: jobs.complete(QUEUE, A, 0)),
        ("retry", "base .. 'metrics:failed'", "'emq:{labels}:x'", kill),
        ("enqueue", "EXISTS', row", "EXISTS', 'emq:{labels}:x'", lambda jobs: jobs.enqueue(QUEUE, "x", id=B)),
    ],
    ids=["claim", "complete", "retry", "enqueue"],
)
def test_a_script_that_builds_a_key_of_another_queue_is_refused_by_the_server(
    node: Server, name: str, old: str, new: str, does: Callable[[Jobs], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emqkit.servers.base.is_released", lambda script: True)  # a sandbox has no slots
    Jobs(node).enqueue(QUEUE, "x", id=A)
    node.scripts = reaching_out(node.scripts, name, old, new)
    with pytest.raises(Refused, match="key"):
        does(Jobs(node))


@pytest.mark.parametrize("name", ["promote", "reap", "extend_locks"])
def test_a_published_script_handed_the_base_of_another_queue_is_refused_by_the_server(node: Server, name: str) -> None:
    jobs = Jobs(node)
    jobs.enqueue(QUEUE, "x", id=A)
    jobs.enqueue_at(QUEUE, "x", 1, id=B)
    jobs.claim(QUEUE)
    lapse(node, QUEUE)
    call = {
        "promote": transitions.promote(QUEUE, 10),
        "reap": transitions.reap(QUEUE),
        "extend_locks": transitions.extend_locks(QUEUE, 1, [(A, 1)]),
    }[name]
    wrong = Call(call.verb, call.keys, (keys.base(ELSEWHERE), *call.args[1:]), call.read, call.refusal, call.kind)
    (reply,) = node.round_trip(Flush((wrong,)))
    assert isinstance(reply, ErrorReply)


def test_a_flow_of_two_queues_cannot_be_one_script(node: Server) -> None:
    call = transitions.enqueue_flow(QUEUE, P, b"p", [(A, b"x"), (B, b"y")])
    crossing = (*call.keys[:-1], keys.job(ELSEWHERE, B))
    (reply,) = node.round_trip(Flush((Call(call.verb, crossing, call.args, call.read, call.refusal, call.kind),)))
    assert isinstance(reply, ErrorReply)
    assert reply.code == "CROSSSLOT"
    assert list(everything(node).keys) == []


def test_a_child_elsewhere_is_out_of_reach_for_its_parents_node(node: Server) -> None:
    with pytest.raises(Refused, match="MOVED|CLUSTERDOWN"):
        Flows(node).add(QUEUE, Flow("p", [Child("x", id=A, queue=ELSEWHERE)], id=P))
    assert Jobs(node).state(QUEUE, P) == "awaiting_children"  # parent first, and held


@given(key=st.binary(max_size=40) | st.text("{}ab", max_size=12).map(str.encode))
def test_slots_are_what_the_server_computes(node: Server, key: bytes) -> None:
    assert keys.slot(key) == node.client.execute_command("CLUSTER KEYSLOT", key)
