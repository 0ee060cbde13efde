"""How many round trips each operation takes, by trace, with the published scripts on a warm script cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from watch import A, B, C, P, wire

from emqkit.errors import EmqError
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Claim, Jobs
from emqkit.native import Native
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.trace import Trace
from emqkit.transitions import ParentLink
from emqkit.wire import Program


@pytest.fixture
def warm(server: Server) -> Server:
    """A server that has been given every script, so that none is loaded on the way."""
    pipeline = [(b"SCRIPT", b"LOAD", script.source.encode()) for script in server.scripts]
    server.exchange(pipeline, "SCRIPT LOAD")
    server._loaded.update(script.sha for script in server.scripts)
    return server


def trips(program: Program[object], server: Server) -> int:
    """Its round trips by trace; raises what the program raised."""
    trace = Trace.of(program, server)
    if trace.error is not None and not isinstance(trace.error, EmqError):
        raise trace.error
    assert [step.number for step in trace.steps] == list(range(1, len(trace) + 1))
    return len(trace)


def claim(server: Server, queue: str) -> Claim:
    claim = Jobs(server).claim(queue)
    assert claim is not None
    return claim


def on_the_wire(program: Program[object], server: Server) -> int:
    """Its round trips as they go out untraced: writes to the server."""
    with wire(server) as sent:
        program.run(server)
    return len(sent)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_flow_of_one_queue_takes_two(warm: Server, queue: str, k: int) -> None:
    flow = Flow("p", [Child("x", on_failure="ignore") for _ in range(k)])
    assert trips(Flows(warm).add.program(queue, flow), warm) == 2
    assert on_the_wire(Flows(warm).add.program(queue, flow), warm) == 2


@pytest.mark.parametrize("k", [1, 3])
def test_a_flow_across_queues_takes_one_and_two_a_child(warm: Server, queues: Callable[..., str], k: int) -> None:
    orders, labels = queues("orders"), queues("labels")
    program = Flows(warm).add.program(orders, Flow("p", [Child("x", queue=labels) for _ in range(k)]))
    assert trips(program, warm) == 1 + 2 * k
    assert on_the_wire(program, warm) == 1 + 2 * k


def test_a_tree_takes_one_for_the_root_and_two_for_every_other_node(warm: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    flow = Flow("p", [Child("q", children=[Child("x"), Child("y", queue=labels)]), Child("z")])
    assert trips(Flows(warm).add.program(orders, flow), warm) == 1 + 2 * 4


def test_a_bulk_takes_what_its_flows_take(warm: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    batch = [Flow("p", [Child("x")]), Flow("q", []), Flow("r", [Child("y", queue=labels)])]
    assert trips(Flows(warm).add_bulk.program(orders, batch), warm) == 2 + 0 + (1 + 1 + 1)


@pytest.mark.parametrize("read", ["children_values", "dependencies", "ignored_failures"])
def test_each_read_takes_one(warm: Server, queue: str, read: str) -> None:
    assert trips(getattr(Flows(warm), read).program(queue, P), warm) == 1


def test_a_claim_takes_two_and_one_of_a_paused_queue(warm: Server, queue: str) -> None:
    jobs = Jobs(warm)
    jobs.enqueue(queue, "x")
    assert trips(jobs.claim.program(queue), warm) == 2
    assert trips(jobs.claim.program(queue), warm) == 2  # also when nothing is pending
    jobs.pause(queue)
    assert trips(jobs.claim.program(queue), warm) == 1


def test_a_completion_takes_at_most_three(warm: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    jobs, flows = Jobs(warm), Flows(warm)
    jobs.enqueue(orders, "flat", id=A)
    assert trips(jobs.complete.program(orders, claim(warm, orders)), warm) == 3
    flows.add(orders, Flow("p", [Child("x", id=B), Child("y", id=C, queue=labels)], id=P))
    beside, across = claim(warm, orders), claim(warm, labels)
    assert trips(jobs.complete.program(orders, beside, result="r"), warm) == 3
    assert trips(jobs.complete.program(labels, across, result="r"), warm) == 3
    assert trips(jobs.complete.program(labels, across), warm) == 2  # gone: there are no logs to delete
    assert trips(jobs.complete.program(labels, C, 9), warm) == 2


def test_a_failure_takes_two_and_four_where_its_death_climbs(warm: Server, queue: str) -> None:
    jobs, flows = Jobs(warm), Flows(warm)
    jobs.enqueue(queue, "flat")
    assert trips(jobs.retry.program(queue, claim(warm, queue), error="e"), warm) == 2
    flows.add(queue, Flow("p", [Child("x", on_failure="ignore"), Child("y")]))
    assert trips(jobs.retry.program(queue, claim(warm, queue), error="e", max_attempts=1), warm) == 2
    assert trips(jobs.retry.program(queue, claim(warm, queue), error="e", max_attempts=1), warm) == 3  # looks above
    flows.add(queue, Flow("p", [Child("q", children=[Child("x")])]))
    assert trips(jobs.retry.program(queue, claim(warm, queue), error="e", max_attempts=1), warm) == 4


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_a_pass_over_n_entries_takes_two_and_n_and_one_when_there_are_none(
    warm: Server, queues: Callable[..., str], n: int
) -> None:
    orders, labels = queues("orders"), queues("labels")
    if n:
        Flows(warm).add(orders, Flow("p", [Child("x", queue=labels, on_failure="ignore") for _ in range(n)]))
        for place in range(n):
            if place % 2:
                Jobs(warm).retry(labels, claim(warm, labels), error="e", max_attempts=1)
            else:
                Jobs(warm).complete(labels, claim(warm, labels))
    pump = Pump(warm, labels)
    trace = Trace.of(pump.sweep.program(), warm)
    assert trace.result.delivered == n
    assert len(trace) == (2 + n if n else 1)
    assert on_the_wire(pump.sweep.program(), warm) == 1  # the next finds nothing


def test_a_pass_with_a_failure_in_it_takes_no_more_and_one_for_each_death_that_climbs(
    warm: Server, queues: Callable[..., str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    jobs = Jobs(warm)
    Flows(warm).add(orders, Flow("p", [Child("q", children=[Child("x", queue=labels)])]))
    jobs.retry(labels, claim(warm, labels), error="e", max_attempts=1)
    assert trips(Pump(warm, labels).sweep.program(), warm) == 2 + 1 + 1
    assert trips(Pump(warm, orders).sweep.program(), warm) == 2 + 1  # the root has nowhere to climb


def test_every_other_verb_takes_one(warm: Server, queue: str) -> None:
    jobs, native = Jobs(warm), Native(warm)
    jobs.enqueue(queue, "x", id=A)
    held = claim(warm, queue)
    for program in (
        jobs.enqueue.program(queue, "x", id=B),
        jobs.enqueue_many.program(queue, ["x"] * 20),
        jobs.enqueue_in.program(queue, "x", 1),
        jobs.enqueue_at.program(queue, "x", 1),
        jobs.extend_lock.program(queue, held),
        jobs.extend_locks.program(queue, [held, (B, 1), (C, 1)]),
        jobs.promote.program(queue),
        jobs.reap.program(queue),
        jobs.reprocess.program(queue, A),
        jobs.remove.program(queue, B),
        jobs.pause.program(queue),
        jobs.resume.program(queue),
        jobs.paused.program(queue),
        jobs.state.program(queue, A),
        jobs.depths.program(queue),
        native.fail.program(queue, held, error="e", parent=ParentLink(P)),
        native.complete.program(queue, held),
    ):
        assert trips(program, warm) == 1, program.name


def test_a_cold_script_costs_no_round_trip_more(server: Server) -> None:
    with server.scratch() as cold:
        assert on_the_wire(Flows(cold).add.program("orders", Flow("p", [Child("x")])), cold) == 2
