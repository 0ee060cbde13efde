"""A trace is what an operation did, call by call, with the keyspace around each; everything shown is read from it."""

from __future__ import annotations

import contextlib
import linecache
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from watch import FOREIGN, A, B, C, P, Q, at, everything, fault, wire

from emqkit.errors import BadArgument, JobGone, ReplyLost, ScriptArity, Stopped, Unreachable, WrongNamespace
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.snapshot import Snapshot, capture, diff
from emqkit.trace import Trace, record
from emqkit.wire import Call, ErrorReply, Flush, Reply, Steps, command, run

FLOW = Flow("p", [Child("x", id=A), Child("y", id=B, on_failure="ignore")], id=P)


@pytest.fixture
def server(private_server: Server) -> Server:
    """One of our own: a recording sees whatever others write."""
    return private_server


def as_is(reply: Reply) -> Reply:
    return reply


def verbs(trace: Trace) -> list[list[str]]:
    return [[record.call.verb for record in step.calls] for step in trace.steps]


# --- of one operation -------------------------------------------------------------------------------------------------


def test_a_trace_of_an_operation_has_its_round_trips_and_its_result(server: Server, queue: str) -> None:
    trace = Trace.of(Flows(server).add.program(queue, FLOW), server)
    assert verbs(trace) == [["enqueue_flow"], ["HSET", "HSET"]]
    assert [(step.operation, step.run, step.number) for step in trace.steps] == [
        ("flows.add", 0, 1),
        ("flows.add", 0, 2),
    ]
    assert trace.result.child_ids == (A, B)
    assert trace.error is None
    assert trace.scripts is server.scripts
    assert trace.server_kind == server.kind
    assert len(trace) == 2
    assert list(trace) == list(trace.steps)
    assert repr(trace) == "<trace of flows.add: 2 round trips>"


def test_every_call_has_its_reply_and_the_keyspace_before_and_after(server: Server, queue: str) -> None:
    before = everything(server)
    trace = Trace.of(Flows(server).add.program(queue, FLOW), server)
    assert trace.initial == before
    assert trace.final == everything(server)
    assert [call.reply for call in trace.calls] == [2, 1, 1]
    place = trace.initial
    for step in trace.steps:
        assert step.before == place
        for call in step.calls:
            assert call.before == place
            place = call.after
        assert step.after == place
    assert [len(call.diff) for call in trace.calls] == [14, 1, 1]
    assert {change.part for change in trace.steps[1].diff} == {b"parent_policy"}
    assert trace.steps[0].lost is None


def test_a_refusal_is_kept_with_an_empty_diff(server: Server, queue: str) -> None:
    flow = Flow("p", [Child("x", id=FOREIGN)], id=P)
    trace = Trace.of(Flows(server).add.program(queue, flow), server)
    assert isinstance(trace.error, WrongNamespace)
    assert trace.result is None
    (step,) = trace.steps
    assert step.calls[0].reply == ErrorReply("EMQKIND", "job id must be JOB-namespaced")
    assert step.diff == step.calls[0].diff == ()
    assert trace.initial == trace.final


def test_a_host_refusal_has_no_round_trip_at_all(server: Server, queue: str) -> None:
    program = Jobs(server).claim.program(queue, lease_ms=0)
    trace = Trace.of(program, server)
    assert isinstance(trace.error, BadArgument)
    assert (len(trace), trace.final) == (0, trace.initial)
    assert repr(trace) == "<trace of nothing yet: 0 round trips>"


def test_a_call_that_fits_no_script_is_no_step(server: Server, queue: str) -> None:
    def steps() -> Steps[Any]:
        value = yield from Flush((get(queue), Call("claim", (b"one",), (), as_is, never, "script")))
        return value

    with record(server) as trace, pytest.raises(ScriptArity):
        run(server, steps(), "test.misfit")
    assert len(trace) == 0


def never(error: ErrorReply) -> Any:
    raise AssertionError(error)


def get(queue: str) -> Call[Reply]:
    return command("GET", [f"emq:{{{queue}}}:x".encode()], [], as_is)


def test_traced_and_untraced_an_operation_does_the_same(server: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    flow = Flow("p", [Child("x", id=A, queue=labels), Child("y", id=B)], id=P)
    Trace.of(Flows(server).add.program(orders, flow), server)
    with server.scratch() as untraced:
        Flows(untraced).add(orders, flow)
        assert everything(untraced) == everything(server)


# --- what happens meanwhile -------------------------------------------------------------------------------------------


def test_a_recording_holds_every_operation_of_its_block_in_order(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "before")
    with record(server) as trace:
        claim = jobs.claim(queue)
        assert claim is not None
        assert len(trace) == 2  # it can be read meanwhile
        jobs.complete(queue, claim)
        with pytest.raises(JobGone):
            jobs.complete(queue, claim)
    jobs.enqueue(queue, "after")
    assert [(step.operation, step.run, step.number) for step in trace.steps] == [
        ("jobs.claim", 0, 1),
        ("jobs.claim", 0, 2),
        ("jobs.complete", 1, 1),
        ("jobs.complete", 1, 2),
        ("jobs.complete", 1, 3),
        ("jobs.complete", 2, 1),
        ("jobs.complete", 2, 2),
    ]
    assert repr(trace) == "<trace of jobs.claim, jobs.complete: 7 round trips>"


def test_a_recording_ends_with_its_block_whatever_was_raised(server: Server, queue: str) -> None:
    with pytest.raises(ZeroDivisionError), record(server):
        raise ZeroDivisionError
    assert server.recorder is None


def test_a_recording_inside_another_takes_over_for_its_block(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    with record(server) as outer:
        jobs.depths(queue)
        with record(server) as inner:
            jobs.reap(queue)
        jobs.promote(queue)
    assert verbs(outer) == [["ZCARD"] * 4, ["promote"]]
    assert verbs(inner) == [["reap"]]


def test_threads_recorded_together_keep_their_own_numbers(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    with record(server) as trace:
        threads = [threading.Thread(target=lambda: jobs.claim(queue)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = [(step.run, step.number) for step in trace.steps]
    assert sorted(seen) == [(run, number) for run in range(6) for number in (1, 2)]
    place = trace.initial
    for step in trace.steps:
        assert step.before == place  # one at a time
        place = step.after


def test_what_somebody_else_did_between_two_round_trips_is_seen_between_them(server: Server, queue: str) -> None:
    with record(server) as trace:
        Jobs(server).depths(queue)
        server.client.set(f"emq:{{{queue}}}:x", "from elsewhere")
        Jobs(server).depths(queue)
    first, second = trace.steps
    assert first.after != second.before
    assert first.diff == second.diff == ()


def test_a_pattern_narrows_what_a_trace_looks_at(server: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    flow = Flow("p", [Child("x", id=A, queue=labels)], id=P)
    trace = Trace.of(Flows(server).add.program(orders, flow), server, pattern=f"emq:{{{labels}}}:*".encode())
    assert trace.final.queues == (labels,)
    assert trace.steps[0].diff == ()


# --- looking only at what was written ---------------------------------------------------------------------------------


def test_each_look_at_the_written_keys_sees_what_a_look_at_everything_would(
    server: Server, queues: Callable[..., str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    flows, jobs, pump = Flows(server), Jobs(server), Pump(server, labels)
    with record(server) as trace:
        flows.add(orders, Flow("p", [Child("x", queue=labels), Child("y", on_failure="ignore"), Child("z")]))
        assert trace.final == everything(server)
        for queue in (orders, labels, orders, orders):
            claim = jobs.claim(queue)
            assert trace.final == everything(server)
            if claim is not None and claim.payload == "y":
                jobs.retry(queue, claim, error="boom", max_attempts=1)
            elif claim is not None:
                jobs.complete(queue, claim)
            assert trace.final == everything(server)
            pump.sweep()
            assert trace.final == everything(server)
    place = trace.initial
    for call in trace.calls:
        assert call.before == place
        assert call.diff == diff(Snapshot(call.before.entries), Snapshot(call.after.entries))
        place = call.after


def test_keys_that_go_without_a_word_are_missed_at_the_next_look(server: Server, queue: str) -> None:
    if server.kind == "live":
        pytest.skip("a live server is somebody's own: nothing is flushed there")
    jobs = Jobs(server)
    with record(server) as trace:
        jobs.enqueue(queue, "x", id=A)
        jobs.enqueue(queue, "y", id=B)
        server.client.execute_command("FLUSHALL")
        jobs.enqueue(queue, "z", id=C)
        assert trace.final == everything(server)


def test_a_key_that_will_expire_makes_every_look_whole(server: Server, queue: str) -> None:
    jobs, key = Jobs(server), f"emq:{{{queue}}}:x"
    with record(server) as trace:
        server.client.execute_command("SET", key, "1")
        server.client.execute_command("PEXPIRE", key, 3_600_000)
        jobs.depths(queue)
        assert trace.final.entries == everything(server).entries and trace.final.text(key.encode()) == b"1"
        server.client.execute_command("PEXPIRE", key, 10)
        time.sleep(0.04)
        jobs.depths(queue)
        assert trace.final == everything(server) == Snapshot()


def test_a_server_that_refuses_the_setting_is_looked_at_whole(
    server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emqkit.servers.touched.Touched.__init__", lambda self, *_: setattr(self, "_connection", None))
    monkeypatch.setattr("emqkit.servers.touched.Touched.close", lambda self: None)
    with record(server) as trace:
        Jobs(server).enqueue(queue, "x", id=A)
        assert trace.final == everything(server)
    assert len(trace.steps[0].diff) == 4


def setting(server: Server) -> bytes:
    (reply,) = server.exchange([(b"CONFIG", b"GET", b"notify-keyspace-events")], "CONFIG GET")
    assert isinstance(reply, tuple) and isinstance(reply[1], bytes)
    return reply[1]


def test_the_servers_setting_is_put_back_and_a_second_recording_outlives_the_first(server: Server, queue: str) -> None:
    if server.kind == "fake":
        pytest.skip("the fake server has no such setting: it tells whoever listens")
    before = setting(server)
    other = server.scratch() if server.kind == "embedded" else server  # the setting is the whole process's
    first, second = record(server), record(other)
    with contextlib.ExitStack() as later:
        first.__enter__()
        trace = later.enter_context(second)
        assert set(setting(server)) == set(b"AK") | set(before)
        first.__exit__(None, None, None)
        assert setting(server) == before
        Jobs(other).enqueue(queue, "x", id=A)
        assert trace.final == everything(other)
        Jobs(other).enqueue(queue, "y", id=B)
        assert trace.final == everything(other)
    assert setting(server) == before


def test_a_step_knows_the_lines_of_the_operation_that_sent_it(server: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    trace = Trace.of(Flows(server).add.program(orders, Flow("p", [Child("x", id=A, queue=labels)], id=P)), server)
    for step in trace.steps:
        assert step.host[0].code.co_qualname == "Flows.add"
        assert all(spot.code.co_filename.endswith("flows.py") for spot in step.host)
        lines = [linecache.getline(spot.code.co_filename, spot.line) for spot in step.host]
        assert all("yield" in line for line in lines), lines
    assert len({step.host for step in trace.steps}) > 1


# --- a flush is no atom -----------------------------------------------------------------------------------------------


def test_a_recorded_flush_runs_call_by_call_and_multi_stays_one_step(server: Server, queue: str) -> None:
    key = f"emq:{{{queue}}}:n".encode()
    count = command("INCR", [key], [], as_is)

    def steps(atomic: bool) -> Steps[Any]:
        values = yield from Flush((count, count, count), atomic)
        return values

    with record(server) as trace, wire(server) as sent:
        assert run(server, steps(False)) == (1, 2, 3)
        apart = [commands for commands in sent if commands[0][0] == b"INCR"]
        assert run(server, steps(True)) == (4, 5, 6)
    assert len(apart) == 3
    assert sum(commands[0][0] == b"MULTI" for commands in sent) == 1
    loose, atomic = trace.steps
    assert [record.reply for record in loose.calls] == [1, 2, 3]
    assert [len(record.diff) for record in loose.calls] == [1, 1, 1]
    assert [record.reply for record in atomic.calls] == [4, 5, 6]
    assert [len(record.diff) for record in atomic.calls] == [1, 0, 0]  # all at once, so shown at the first
    assert atomic.diff[0].after == b"6"


# --- stopped on the way -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", range(4))
def test_an_operation_is_stopped_after_any_of_its_calls(server: Server, queue: str, calls: int) -> None:
    program = Flows(server).add.program(queue, Flow("p", [Child("x", id=A), Child("y", id=B)], id=P))
    trace = Trace.of(program, server, stop_after=calls)
    whole = Trace.of(program, server.scratch()) if calls == 3 else None
    assert [record.call.verb for record in trace.calls] == ["enqueue_flow", "HSET", "HSET"][:calls]
    if calls < 3:
        assert isinstance(trace.error, Stopped)
        assert (trace.error.operation, trace.error.calls) == ("flows.add", calls)
        assert [len(step.calls) for step in trace.steps] == [[], [1], [1, 1]][calls]
    else:
        assert whole is not None
        assert (trace.error, trace.final) == (None, whole.final)


def test_a_stopped_bulk_add_stops_altogether(server: Server, queue: str) -> None:
    batch = [Flow("p", [Child("x", id=A)], id=P), Flow("q", [Child("y", id=B)], id=Q)]
    trace = Trace.of(Flows(server).add_bulk.program(queue, batch), server, stop_after=1)
    assert isinstance(trace.error, Stopped)
    assert verbs(trace) == [["enqueue_flow"]]


@pytest.mark.parametrize("calls", [-1, 1.0, True, "1"])
def test_a_number_of_calls_that_is_none_is_refused(server: Server, queue: str, calls: Any) -> None:
    with pytest.raises(BadArgument, match="stop_after"):
        Trace.of(Jobs(server).reap.program(queue), server, stop_after=calls)


@pytest.mark.parametrize("which, error", [("lost", ReplyLost), ("cut", Unreachable)])
def test_a_round_trip_that_was_lost_is_kept_as_far_as_it_came(
    server: Server, queue: str, which: str, error: type[Exception]
) -> None:
    with fault(server, at(2, which, "ZCARD")):
        trace = Trace.of(Jobs(server).depths.program(queue), server)
    assert isinstance(trace.error, error)
    (step,) = trace.steps
    assert step.lost is trace.error
    assert len(step.flush.calls) == 4
    assert len(step.calls) == 1


def test_a_server_that_goes_after_a_call_was_answered_leaves_it_unknown(server: Server, queue: str) -> None:
    # The look that follows the call cannot be had: the call itself was sent, so it is no `Unreachable`.
    with fault(server, at(2, "cut")):  # the first look, the call, the look after
        trace = Trace.of(Jobs(server).enqueue.program(queue, "x", id=A), server)
    assert isinstance(trace.error, Unreachable)
    assert everything(server) == trace.initial
    with fault(server, at(3, "cut")):
        trace = Trace.of(Jobs(server).enqueue.program(queue, "x", id=A), server)
    assert isinstance(trace.error, ReplyLost)
    assert everything(server) != trace.initial


def test_a_trace_of_a_server_that_is_gone_says_so(server: Server, queue: str) -> None:
    scratch = server.scratch()
    scratch.close()
    with pytest.raises(Unreachable):
        Trace.of(Jobs(scratch).reap.program(queue), scratch)


# --- others' programs -------------------------------------------------------------------------------------------------


def test_a_program_is_traced_on_another_server_than_its_own(server: Server, queue: str) -> None:
    program = Jobs(server).enqueue.program(queue, "x", id=A)
    with server.scratch() as scratch:
        trace = Trace.of(program, scratch)
        assert trace.final == everything(scratch)
    assert everything(server) == Snapshot()


def test_a_pump_is_traced_like_anything_else(server: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    Flows(server).add(orders, Flow("p", [Child("x", id=A, queue=labels)], id=P))
    Jobs(server).claim(labels)
    Jobs(server).complete(labels, A, 1)
    trace = Trace.of(Pump(server, labels).sweep.program(), server)
    assert verbs(trace) == [["promote", "LRANGE"], ["flow_deliver"], ["LTRIM"]]
    assert [step.operation for step in trace.steps] == ["pump.sweep"] * 3


def test_looking_takes_no_part_in_what_is_recorded(server: Server, queue: str) -> None:
    with record(server) as trace:
        capture(server)
        server.client.get("x")
    assert len(trace) == 0


def test_what_an_operation_answered_is_no_program(server: Server, queue: str) -> None:
    answered = Jobs(server).enqueue(queue, "payload")
    with pytest.raises(BadArgument, match="is Enqueued, not a program: pass flows.add.program"):
        Trace.of(answered, server)  # type: ignore[arg-type]
