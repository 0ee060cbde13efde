"""A Worker settles what its handler made of each claim, and knows when there is nothing left to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from watch import EVERY_BYTE, A, B, C, P, Q, at, everything, fall_due, fault, lapse, metric, refused_unsent, row, wire

import emqkit
from emqkit.errors import BadArgument, IllFormedQueue, ReplyLost, Unreachable
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Claim, Depths, Jobs
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.worker import Ran, Worked, Worker


@pytest.fixture
def jobs(server: Server) -> Jobs:
    return Jobs(server)


def echo(claim: Claim) -> str:
    return f"{claim.payload} done"


def breaks(claim: Claim) -> str:
    raise RuntimeError(f"{claim.payload} broke")


class Waits:
    """A sleep that takes no time: it does the next thing of a list instead, and counts."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self.things = list(things)
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if not self.things:
            raise AssertionError("the worker waits for something that will not come")
        self.things.pop(0)()


NEVER = Waits()


def worked(**counts: Any) -> Worked:
    return replace(Worked(completed=0, scheduled=0, dead=0, lost=0, reaped=0, promoted=0, ended="empty"), **counts)


# --- one job ----------------------------------------------------------------------------------------------------------


def test_what_the_handler_returns_is_the_result(jobs: Jobs, queue: str) -> None:
    Flows(jobs.server).add(queue, Flow("p", [Child("x", id=A)], id=P))
    ran = Worker(jobs.server, queue, echo).run_one()
    assert ran == Ran(Claim(queue, A, b"x", 1), "completed")
    assert Flows(jobs.server).children_values(queue, P) == {A: "x done"}


@pytest.mark.parametrize("result, recorded", [(None, A.encode()), ("", b""), (EVERY_BYTE, EVERY_BYTE)])
def test_nothing_returned_is_the_jobs_own_id_and_any_bytes_are_kept(
    jobs: Jobs, queue: str, result: Any, recorded: bytes
) -> None:
    Flows(jobs.server).add(queue, Flow("p", [Child("x", id=A)], id=P))
    Worker(jobs.server, queue, lambda claim: result).run_one()
    assert everything(jobs.server).hash(f"emq:{{{queue}}}:job:{P}:processed".encode()) == {A.encode(): recorded}


def test_what_the_handler_raises_is_the_error_of_a_retry(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, breaks, max_attempts=2, delay_ms=60_000).run_one()
    assert ran is not None
    assert ran.outcome == "scheduled"
    assert isinstance(ran.error, RuntimeError)
    assert row(jobs.server, queue, A)[b"last_error"] == b"pick broke"
    fall_due(jobs.server, queue)
    jobs.promote(queue)
    ran = Worker(jobs.server, queue, breaks, max_attempts=2).run_one()
    assert ran is not None and ran.outcome == "dead"


class Mute(Exception):
    pass


@pytest.mark.parametrize(
    "error, text",
    [
        (RuntimeError(EVERY_BYTE), EVERY_BYTE),
        (RuntimeError("é"), "é".encode()),
        (RuntimeError(EVERY_BYTE.decode("utf-8", "surrogateescape")), EVERY_BYTE),
        (RuntimeError("\ud800"), b"\\ud800"),
        (Mute(), b"Mute"),
        (KeyError("x"), b"'x'"),
        (RuntimeError("a", b"b"), b"('a', b'b')"),
    ],
    ids=["bytes", "text", "escaped bytes", "half a pair", "no text", "key error", "two arguments"],
)
def test_the_error_text_may_be_any_bytes(jobs: Jobs, queue: str, error: Exception, text: bytes) -> None:
    def handler(claim: Claim) -> None:
        raise error

    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, handler).run_one()
    assert ran is not None and ran.error is error
    assert row(jobs.server, queue, A)[b"last_error"] == text


@pytest.mark.parametrize("result", [7, True, ["x"], object, "\ud800"], ids=repr)
def test_a_result_that_cannot_be_sent_is_a_failure_of_the_job(jobs: Jobs, queue: str, result: Any) -> None:
    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, lambda claim: result).run_one()
    assert ran is not None and ran.outcome == "scheduled"
    assert isinstance(ran.error, BadArgument)
    assert b"result" in row(jobs.server, queue, A)[b"last_error"]


def test_nothing_to_claim_is_none(jobs: Jobs, queue: str) -> None:
    assert Worker(jobs.server, queue, echo).run_one() is None
    jobs.enqueue(queue, "pick")
    jobs.pause(queue)
    assert Worker(jobs.server, queue, echo).run_one() is None


def test_the_lease_is_as_long_as_asked(jobs: Jobs, queue: str) -> None:
    seen: list[float] = []

    def handler(claim: Claim) -> None:
        snapshot = everything(jobs.server)
        seen.append(snapshot.ranked(f"emq:{{{queue}}}:active".encode())[claim.id.encode()] - snapshot.now)

    jobs.enqueue(queue, "pick")
    Worker(jobs.server, queue, handler, lease_ms=10**12).run_one()
    assert 10**12 - 10**9 < seen[0] <= 10**12


@pytest.mark.parametrize("handler", [echo, breaks])
def test_a_claim_lost_meanwhile_is_counted_and_not_fatal(
    jobs: Jobs, queue: str, handler: Callable[[Claim], str]
) -> None:
    def slow(claim: Claim) -> str:
        if claim.token == 1:
            lapse(jobs.server, queue)
            jobs.reap(queue)
            other = jobs.claim(queue)  # somebody else has it now
            assert other is not None and other.token == 2
        return handler(claim)

    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, slow).run_one()
    assert ran is not None and ran.outcome == "lost"
    assert jobs.state(queue, A) == "active"
    assert jobs.complete(queue, A, 2)


@pytest.mark.parametrize("handler", [echo, breaks])
def test_a_job_gone_meanwhile_is_counted_and_not_fatal(jobs: Jobs, queue: str, handler: Callable[[Claim], str]) -> None:
    def removing(claim: Claim) -> str:
        jobs.remove(queue, claim.id)
        return handler(claim)

    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, removing).run_one()
    assert ran is not None and ran.outcome == "lost"


# --- until the queue is empty -----------------------------------------------------------------------------------------


def test_a_run_drains_the_queue_and_says_what_it_did(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_many(queue, ["a", "b", "c"])
    result = Worker(jobs.server, queue, echo, sleep=NEVER).run(until_empty=True)
    assert result == worked(completed=3)
    assert result.claimed == 3
    assert jobs.depths(queue) == Depths(0, 0, 0, 0)


def test_until_empty_is_the_default(jobs: Jobs, queue: str) -> None:
    assert Worker(jobs.server, queue, echo).run() == worked()


def test_a_flow_of_one_queue_runs_to_its_parent(jobs: Jobs, queue: str) -> None:
    Flows(jobs.server).add(queue, Flow("p", [Child("x"), Child("y")]))
    seen: list[str] = []

    def handler(claim: Claim) -> None:
        seen.append(claim.payload)

    assert Worker(jobs.server, queue, handler).run(until_empty=True) == worked(completed=3)
    assert seen == ["x", "y", "p"]


def test_a_held_parent_does_not_keep_a_run_going(jobs: Jobs, queue: str, queues: Callable[..., str]) -> None:
    labels = queues("labels")
    flow = Flow("p", [Child("x", id=A), Child("y", id=B, queue=labels)], id=P)
    Flows(jobs.server).add(queue, flow)
    assert Worker(jobs.server, queue, echo, sleep=NEVER).run(until_empty=True) == worked(completed=1)
    assert jobs.state(queue, P) == "awaiting_children"
    assert Worker(jobs.server, labels, echo, sleep=NEVER).run(until_empty=True) == worked(completed=1)
    Pump(jobs.server, labels).sweep()
    assert Worker(jobs.server, queue, echo, sleep=NEVER).run(until_empty=True) == worked(completed=1)


def test_the_dead_do_not_keep_a_run_going(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    assert Worker(jobs.server, queue, breaks, max_attempts=1).run() == worked(dead=1)
    assert jobs.depths(queue) == Depths(0, 0, 0, 1)


def test_a_run_waits_for_what_is_scheduled_and_promotes_it(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_in(queue, "later", 60_000)
    waits = Waits(lambda: None, lambda: fall_due(jobs.server, queue))
    worker = Worker(jobs.server, queue, echo, poll_ms=250, sleep=waits)
    assert worker.run(until_empty=True) == worked(completed=1, promoted=1)
    assert waits.seconds == [0.25, 0.25]


def test_a_failing_job_is_tried_as_often_as_allowed(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    due = lambda: fall_due(jobs.server, queue)  # noqa: E731
    worker = Worker(jobs.server, queue, breaks, max_attempts=3, delay_ms=60_000, sleep=Waits(due, due))
    assert worker.run() == worked(scheduled=2, dead=1, promoted=2)
    assert row(jobs.server, queue, A)[b"attempts"] == b"3"
    assert metric(jobs.server, queue, "failed") == 1


def test_a_delay_of_nothing_needs_no_wait(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick")
    result = Worker(jobs.server, queue, breaks, max_attempts=2, delay_ms=0, sleep=NEVER).run()
    assert result == worked(scheduled=1, dead=1, promoted=1)


def test_a_run_waits_for_a_claim_of_somebody_else_and_takes_it_back_when_it_lapses(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    jobs.claim(queue)  # by a worker that is never heard of again
    waits = Waits(lambda: None, lambda: lapse(jobs.server, queue))
    assert Worker(jobs.server, queue, echo, sleep=waits).run() == worked(completed=1, reaped=1)


def test_a_paused_queue_ends_the_run_rather_than_hold_it(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick")
    jobs.pause(queue)
    assert Worker(jobs.server, queue, echo, sleep=NEVER).run(until_empty=True) == worked(ended="paused")
    jobs.resume(queue)
    assert Worker(jobs.server, queue, echo, sleep=NEVER).run(until_empty=True) == worked(completed=1)


def test_a_paused_queue_that_is_empty_is_empty(jobs: Jobs, queue: str) -> None:
    jobs.pause(queue)
    assert Worker(jobs.server, queue, echo, sleep=NEVER).run() == worked(ended="empty")


def test_a_job_in_hand_when_the_pause_comes_is_settled(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_many(queue, ["a", "b"])

    def pausing(claim: Claim) -> None:
        jobs.pause(queue)

    assert Worker(jobs.server, queue, pausing).run() == worked(completed=1, ended="paused")
    assert jobs.depths(queue) == Depths(1, 0, 0, 0)


# --- until stopped ----------------------------------------------------------------------------------------------------


def test_a_worker_serves_until_it_is_stopped_and_through_a_pause(jobs: Jobs, queue: str) -> None:
    jobs.pause(queue)
    jobs.enqueue(queue, "a")
    waits = Waits(
        lambda: None,
        lambda: jobs.resume(queue),
        lambda: jobs.enqueue(queue, "b"),
        lambda: worker.stop(),
    )
    worker = Worker(jobs.server, queue, echo, sleep=waits)
    assert worker.run(until_empty=False) == worked(completed=2, ended="stopped")


def test_stop_from_another_thread_ends_a_wait_at_once(jobs: Jobs, queue: str) -> None:
    worker = Worker(jobs.server, queue, echo, poll_ms=2**53 - 1)
    ended: list[Worked] = []
    with wire(jobs.server) as sent:
        thread = threading.Thread(target=lambda: ended.append(worker.run(until_empty=False)))
        thread.start()
        while not sent:  # it is at work
            thread.join(0.001)
        worker.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert ended == [worked(ended="stopped")]


def test_stop_lets_the_job_in_hand_be_settled(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_many(queue, ["a", "b"])

    def stopping(claim: Claim) -> None:
        worker.stop()

    worker = Worker(jobs.server, queue, stopping)
    assert worker.run(until_empty=True) == worked(completed=1, ended="stopped")
    assert jobs.depths(queue) == Depths(1, 0, 0, 0)


def test_a_stop_before_the_run_is_not_lost_and_the_run_after_is_free(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "a")
    worker = Worker(jobs.server, queue, echo)
    worker.stop()
    assert worker.run() == worked(ended="stopped")
    assert worker.run() == worked(completed=1)


def test_two_workers_share_a_queue_and_no_job_runs_twice(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_many(queue, [f"{n}" for n in range(60)])
    seen: list[str] = []
    results: list[Worked] = []

    def handler(claim: Claim) -> None:
        seen.append(claim.payload)

    threads = [
        threading.Thread(target=lambda: results.append(Worker(jobs.server, queue, handler, poll_ms=1).run()))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen, key=int) == [f"{n}" for n in range(60)]
    assert sum(result.completed for result in results) == 60
    assert [result.lost for result in results] == [0, 0, 0]


# --- what ends a run --------------------------------------------------------------------------------------------------


def test_an_interrupt_in_the_handler_ends_the_run_and_the_job_is_taken_back(jobs: Jobs, queue: str) -> None:
    def interrupted(claim: Claim) -> None:
        raise KeyboardInterrupt

    jobs.enqueue(queue, "pick", id=A)
    with pytest.raises(KeyboardInterrupt):
        Worker(jobs.server, queue, interrupted).run()
    assert jobs.state(queue, A) == "active"
    lapse(jobs.server, queue)
    assert Worker(jobs.server, queue, echo).run() == worked(completed=1, reaped=1)


@pytest.mark.parametrize("which, error", [("cut", Unreachable), ("lost", ReplyLost)])
@pytest.mark.parametrize("verb", ["reap", "claim", "complete"])
def test_a_server_that_goes_away_ends_the_run(jobs: Jobs, queue: str, verb: str, which: str, error: Any) -> None:
    jobs.enqueue(queue, "pick", id=A)
    worker = Worker(jobs.server, queue, echo)
    with fault(jobs.server, at(1, which, verb)), pytest.raises(error):
        worker.run()
    lapse(jobs.server, queue)
    worker.run()
    assert metric(jobs.server, queue, "completed") == 1


def test_an_error_of_ours_raised_by_the_handler_is_the_jobs_and_not_the_workers(jobs: Jobs, queue: str) -> None:
    def settles_another(claim: Claim) -> None:
        jobs.complete(queue, B, 1)  # JobGone, inside the handler

    jobs.enqueue(queue, "pick", id=A)
    ran = Worker(jobs.server, queue, settles_another).run_one()
    assert ran is not None and ran.outcome == "scheduled"
    assert B.encode() in row(jobs.server, queue, A)[b"last_error"]


def test_a_dead_child_that_is_ignored_lets_its_parent_run(jobs: Jobs, queue: str) -> None:
    flow = Flow("p", [Child("q", id=Q, children=[Child("bad", id=A, on_failure="ignore"), Child("good", id=C)])], id=P)
    Flows(jobs.server).add(queue, flow)

    def handler(claim: Claim) -> str:
        return breaks(claim) if claim.payload == "bad" else echo(claim)

    result = Worker(jobs.server, queue, handler, max_attempts=1, sleep=NEVER).run()
    assert result == worked(completed=3, dead=1)
    assert Flows(jobs.server).children_values(queue, P) == {Q: "q done"}


# --- what is refused where it is made ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, bad",
    [
        ("lease_ms", [0, -1, 1.5, True, None, "1"]),
        ("max_attempts", [0, -1, 1.5, True, None, "1"]),
        ("delay_ms", [-1, 1.5, True, None, "1"]),
        ("poll_ms", [0, -1, 1.5, True, None, "1"]),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(server: Server, name: str, bad: list[Any]) -> None:
    for value in bad:
        with refused_unsent(server, BadArgument, match=name):
            Worker(server, "orders", echo, **{name: value})


@pytest.mark.parametrize("queue", ["", "a{b", b"orders", None])
def test_a_worker_of_an_ill_formed_queue_is_refused(server: Server, queue: Any) -> None:
    with refused_unsent(server, IllFormedQueue):
        Worker(server, queue, echo)


def test_a_handler_is_a_function(server: Server) -> None:
    with refused_unsent(server, BadArgument, match="handler"):
        Worker(server, "orders", "echo")  # type: ignore[arg-type]


def test_the_defaults_and_the_public_names(server: Server) -> None:
    worker = emqkit.Worker(server, "orders", echo)
    assert (worker.lease_ms, worker.max_attempts, worker.delay_ms, worker.poll_ms) == (30_000, 3, 1000, 100)
    assert (emqkit.Worked, emqkit.Ran) == (Worked, Ran)


def test_every_claim_counts_however_it_ended() -> None:
    assert Worked(completed=1, scheduled=2, dead=4, lost=8, reaped=16, promoted=32, ended="empty").claimed == 15
