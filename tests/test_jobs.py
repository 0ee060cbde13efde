"""The life of a job by the host's verbs: what each answers, what it leaves, and what it refuses before it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from watch import (
    EVERY_BYTE,
    FOREIGN,
    ILL_FORMED,
    A,
    B,
    C,
    D,
    P,
    at,
    counter,
    everything,
    fall_due,
    fault,
    lapse,
    members,
    metric,
    outbox,
    refused_unsent,
    row,
    unchanged,
    wire,
)

from emqkit import keys
from emqkit.errors import (
    BadArgument,
    EmqError,
    IllFormedId,
    IllFormedQueue,
    JobGone,
    JobLocked,
    LaneJob,
    NotDead,
    Refused,
    ReplyLost,
    StaleToken,
    Unreachable,
    WrongNamespace,
)
from emqkit.ids import Minter
from emqkit.jobs import Claim, Depths, Enqueued, Jobs
from emqkit.outbox import Completion, Failure, encode
from emqkit.servers import Server
from emqkit.worker import Worker


@pytest.fixture
def jobs(server: Server) -> Jobs:
    return Jobs(server)


def claimed(jobs: Jobs, queue: str, id: str = A, **fields: str) -> Claim:
    """A job landed and claimed; extra fields on its row."""
    jobs.enqueue(queue, "pick", id=id)
    if fields:
        jobs.server.client.hset(f"emq:{{{queue}}}:job:{id}", mapping=dict(fields.items()))
    claim = jobs.claim(queue)
    assert claim is not None and claim.id == id
    return claim


# --- enqueue ----------------------------------------------------------------------------------------------------------


def test_an_enqueued_job_is_pending_whole_and_unclaimed(jobs: Jobs, queue: str) -> None:
    verdict = jobs.enqueue(queue, "pick", id=A)
    assert verdict == Enqueued(A, "landed")
    assert verdict.landed
    assert row(jobs.server, queue, A) == {b"state": b"pending", b"attempts": b"0", b"payload": b"pick"}
    assert members(jobs.server, queue, "pending") == [A]


def test_the_same_id_again_is_a_duplicate_and_changes_nothing(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    with unchanged(jobs.server):
        verdict = jobs.enqueue(queue, "other", id=A)
    assert verdict == Enqueued(A, "duplicate")
    assert not verdict.landed


def test_ids_left_out_are_minted_in_order(jobs: Jobs, queue: str) -> None:
    verdicts = [jobs.enqueue(queue, name) for name in ("a", "b", "c")]
    ids = [verdict.id for verdict in verdicts]
    assert ids == sorted(set(ids))
    assert members(jobs.server, queue, "pending") == ids


def test_ids_come_from_the_minter_of_the_server(server: Server, queue: str) -> None:
    with server.scratch() as scratch:
        scratch.minter = Minter.fixed()
        assert Jobs(scratch).enqueue(queue, "pick").id == Minter.fixed().mint()


@pytest.mark.parametrize(
    "land",
    [
        lambda jobs, queue, id: jobs.enqueue(queue, "pick", id=id),
        lambda jobs, queue, id: jobs.enqueue_in(queue, "pick", 5, id=id),
        lambda jobs, queue, id: jobs.enqueue_at(queue, "pick", 5, id=id),
    ],
    ids=["enqueue", "enqueue_in", "enqueue_at"],
)
def test_an_id_of_another_namespace_is_refused_by_the_script(
    jobs: Jobs, queue: str, land: Callable[[Jobs, str, str], Enqueued]
) -> None:
    with wire(jobs.server) as sent, unchanged(jobs.server, WrongNamespace, match=FOREIGN):
        land(jobs, queue, FOREIGN)
    assert len(sent) == 3  # two looks of this test, and the script that refused


def test_a_payload_of_any_bytes_comes_back_to_the_byte(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, EVERY_BYTE)
    claim = jobs.claim(queue)
    assert claim is not None
    assert claim.payload_bytes == EVERY_BYTE
    # As text it is lossless too: handed over again, it is the same bytes.
    jobs.enqueue(queue, claim.payload)
    again = jobs.claim(queue)
    assert again is not None
    assert again.payload_bytes == EVERY_BYTE


def test_many_are_enqueued_in_one_flush_with_a_verdict_each_in_input_order(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "there", id=B)
    jobs.server.minter.mint()  # a server is asked for ids now and then
    with wire(jobs.server) as sent:
        verdicts = jobs.enqueue_many(queue, [(C, "c"), (B, "b"), (FOREIGN, "f"), (A, b"\xff"), "minted"])
    assert len(sent) == 1
    assert [verdict.outcome for verdict in verdicts] == ["landed", "duplicate", "refused", "landed", "landed"]
    assert [verdict.id for verdict in verdicts[:4]] == [C, B, FOREIGN, A]
    assert isinstance(verdicts[2].error, WrongNamespace)
    assert [verdict.error for verdict in verdicts if verdict.outcome != "refused"] == [None] * 4
    assert members(jobs.server, queue, "pending") == [A, B, C, verdicts[4].id]
    assert row(jobs.server, queue, FOREIGN) == {}


def test_an_id_twice_in_one_batch_lands_once(jobs: Jobs, queue: str) -> None:
    assert [v.outcome for v in jobs.enqueue_many(queue, [(A, "1"), (A, "2")])] == ["landed", "duplicate"]
    assert row(jobs.server, queue, A)[b"payload"] == b"1"


def test_nobody_is_enqueued_without_a_round_trip(jobs: Jobs, queue: str) -> None:
    with wire(jobs.server) as sent:
        assert jobs.enqueue_many(queue, []) == ()
    assert sent == []


def test_one_ill_formed_id_keeps_the_whole_batch_off_the_wire(jobs: Jobs, queue: str) -> None:
    with refused_unsent(jobs.server, IllFormedId):
        jobs.enqueue_many(queue, [(A, "a"), ("JOB", "b"), (C, "c")])


def test_a_delayed_job_waits_until_it_is_due(jobs: Jobs, queue: str) -> None:
    assert jobs.enqueue_in(queue, "pick", 60_000, id=A) == Enqueued(A, "landed")
    assert row(jobs.server, queue, A)[b"state"] == b"scheduled"
    assert (jobs.claim(queue), jobs.promote(queue)) == (None, 0)
    assert everything(jobs.server).ranked(f"emq:{{{queue}}}:schedule".encode())[A.encode()] > 60_000
    fall_due(jobs.server, queue)
    assert jobs.promote(queue) == 1
    assert jobs.state(queue, A) == "pending"


def test_a_job_for_an_instant_stands_at_that_instant(jobs: Jobs, queue: str) -> None:
    assert jobs.enqueue_at(queue, "pick", 12_345, id=A).landed
    assert everything(jobs.server).ranked(f"emq:{{{queue}}}:schedule".encode()) == {A.encode(): 12_345}
    with unchanged(jobs.server):
        assert jobs.enqueue_at(queue, "pick", 99, id=A).outcome == "duplicate"
        assert jobs.enqueue_in(queue, "pick", 99, id=A).outcome == "duplicate"


def test_a_delay_of_nothing_is_due_at_once(jobs: Jobs, queue: str) -> None:
    jobs.enqueue_in(queue, "pick", 0, id=A)
    assert jobs.promote(queue) == 1


# --- claim ------------------------------------------------------------------------------------------------------------


def test_a_claim_takes_the_smallest_id_with_token_one(jobs: Jobs, queue: str) -> None:
    for id in (C, A, B):
        jobs.enqueue(queue, f"work {id}", id=id)
    claim = jobs.claim(queue, lease_ms=60_000)
    assert claim == Claim(queue, A, f"work {A}".encode(), 1)
    assert claim.payload == f"work {A}"
    assert jobs.state(queue, A) == "active"
    snapshot = everything(jobs.server)
    deadline = snapshot.ranked(f"emq:{{{queue}}}:active".encode())[A.encode()]
    assert snapshot.now < deadline <= snapshot.now + 60_000


def test_a_claim_of_nothing_is_none(jobs: Jobs, queue: str) -> None:
    with unchanged(jobs.server):
        assert jobs.claim(queue) is None


def test_a_paused_queue_hands_out_nothing_and_everything_else_goes_on(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue, A)
    jobs.pause(queue)
    assert jobs.paused(queue)
    assert jobs.enqueue(queue, "pack", id=B).landed
    with unchanged(jobs.server):
        assert jobs.claim(queue) is None
    assert jobs.complete(queue, claim)
    assert everything(jobs.server).hash(f"emq:{{{queue}}}:meta".encode()) == {b"paused": b"1"}
    jobs.resume(queue)
    assert not jobs.paused(queue)
    again = jobs.claim(queue)
    assert again is not None and again.id == B


def test_pause_and_resume_may_be_repeated(jobs: Jobs, queue: str) -> None:
    for verb in (jobs.pause, jobs.pause, jobs.resume, jobs.resume):
        assert verb(queue) is None
    assert jobs.claim(queue) is None


def test_the_pause_is_looked_at_in_a_round_trip_before_the_claim(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick")
    jobs.claim(queue)
    with wire(jobs.server) as sent:
        jobs.claim(queue)
    assert [commands[0][0] for commands in sent] == [b"HEXISTS", b"EVALSHA"]


def test_an_id_without_a_row_is_claimed_with_an_empty_payload(jobs: Jobs, queue: str) -> None:
    jobs.server.client.zadd(f"emq:{{{queue}}}:pending", {A: 0})
    assert jobs.claim(queue) == Claim(queue, A, b"", 1)


# --- complete ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["claim", "id and token"])
def test_a_completed_job_leaves_nothing_but_a_count(jobs: Jobs, queue: str, by: str) -> None:
    claim = claimed(jobs, queue)
    jobs.server.client.rpush(f"emq:{{{queue}}}:job:{A}:logs", "started")
    done = jobs.complete(queue, claim) if by == "claim" else jobs.complete(queue, A, 1)
    assert done is True
    assert list(everything(jobs.server).keys) == [f"emq:{{{queue}}}:metrics:completed".encode()]
    assert metric(jobs.server, queue, "completed") == 1
    assert jobs.state(queue, A) == "absent"


def test_a_completion_again_is_gone_and_changes_nothing(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    jobs.complete(queue, claim)
    with unchanged(jobs.server, JobGone, match=f"{A}.*{queue}.*drop the claim"):
        jobs.complete(queue, claim)


def test_a_stale_token_settles_nothing(jobs: Jobs, queue: str) -> None:
    stale = claimed(jobs, queue)
    lapse(jobs.server, queue)
    assert jobs.reap(queue) == 1
    fresh = jobs.claim(queue)
    assert fresh is not None and fresh.token == 2
    with unchanged(jobs.server, StaleToken, match=f"token 1 of job {A}.*Drop this claim"):
        jobs.complete(queue, stale)
    with unchanged(jobs.server, StaleToken):
        jobs.retry(queue, stale, error="boom")
    with unchanged(jobs.server, StaleToken):
        jobs.extend_lock(queue, stale)
    assert jobs.complete(queue, fresh)


def test_a_job_reaped_and_not_yet_claimed_again_may_still_be_completed(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    lapse(jobs.server, queue)
    jobs.reap(queue)
    assert jobs.complete(queue, claim)
    assert jobs.depths(queue) == Depths(0, 0, 0, 0)


@pytest.mark.parametrize(
    "given, recorded",
    [(None, A.encode()), ("", b""), (b"", b""), ("ok", b"ok"), (EVERY_BYTE, EVERY_BYTE), ("é", "é".encode())],
    ids=["none", "empty", "empty bytes", "text", "any bytes", "accent"],
)
def test_the_result_is_kept_as_given_and_the_own_id_stands_for_none(
    jobs: Jobs, queue: str, given: Any, recorded: bytes
) -> None:
    claim = claimed(jobs, queue, parent=P)
    jobs.complete(queue, claim, result=given)
    processed = everything(jobs.server).hash(f"emq:{{{queue}}}:job:{P}:processed".encode())
    assert processed == {A.encode(): recorded}


def test_a_child_whose_parent_is_elsewhere_leaves_a_signal(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue, parent=P, parent_queue="orders")
    jobs.complete(queue, claim, result=EVERY_BYTE)
    assert outbox(jobs.server, queue) == (encode(Completion("orders", P, A, EVERY_BYTE)),)
    assert counter(jobs.server, queue, P) is None


@pytest.mark.parametrize("named", ["", None])
def test_the_own_queue_as_parent_queue_counts_as_none(jobs: Jobs, queue: str, named: str | None) -> None:
    claim = claimed(jobs, queue, parent=P, parent_queue=queue if named is None else named)
    jobs.complete(queue, claim)
    assert outbox(jobs.server, queue) == ()
    assert counter(jobs.server, queue, P) == -1  # a counter that was never set: the row said so, the script obeys


def test_a_row_whose_parent_is_ill_formed_is_refused_before_the_transition(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue, parent="nobody")
    with unchanged(jobs.server, IllFormedId, match="nobody"):
        jobs.complete(queue, claim)


def test_logs_that_cannot_be_deleted_do_not_undo_a_completion(jobs: Jobs, queue: str) -> None:
    for which in ("lost", "cut"):
        claim = claimed(jobs, queue, parent=P)
        with fault(jobs.server, at(1, which, "DEL")):
            assert jobs.complete(queue, claim) is True
        with pytest.raises(JobGone):
            jobs.complete(queue, claim)


@pytest.mark.parametrize("which, error", [("lost", ReplyLost), ("cut", Unreachable)])
@pytest.mark.parametrize("place", [1, 2])
def test_a_completion_that_meets_a_dead_line_may_be_asked_again_with_the_same_token(
    jobs: Jobs, queue: str, place: int, which: str, error: type[EmqError]
) -> None:
    claim = claimed(jobs, queue)
    with fault(jobs.server, at(place, which)), pytest.raises(error):
        jobs.complete(queue, claim)
    try:
        assert jobs.complete(queue, claim) is True
    except JobGone:
        assert (place, which) == (2, "lost")
    assert metric(jobs.server, queue, "completed") == 1


# --- retry ------------------------------------------------------------------------------------------------------------


def test_a_failure_below_the_maximum_comes_again_later(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue, parent=P)
    assert jobs.retry(queue, claim, error=EVERY_BYTE, max_attempts=2, delay_ms=60_000) == "scheduled"
    assert jobs.state(queue, A) == "scheduled"
    assert row(jobs.server, queue, A)[b"last_error"] == EVERY_BYTE
    assert list(everything(jobs.server).keys) == [
        f"emq:{{{queue}}}:{name}".encode() for name in (f"job:{A}", "schedule")
    ]  # its parent hears nothing
    fall_due(jobs.server, queue)
    jobs.promote(queue)
    again = jobs.claim(queue)
    assert again is not None and again.token == 2
    assert jobs.retry(queue, again, error="boom", max_attempts=2) == "dead"
    assert jobs.state(queue, A) == "dead"
    assert metric(jobs.server, queue, "failed") == 1


def test_the_defaults_of_a_retry_are_three_attempts_and_a_second(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    assert jobs.retry(queue, claim, error="boom") == "scheduled"
    snapshot = everything(jobs.server)
    due = snapshot.ranked(f"emq:{{{queue}}}:schedule".encode())[A.encode()]
    assert snapshot.now - 60_000 < due - 1000 <= snapshot.now
    for expected in ("scheduled", "dead"):
        fall_due(jobs.server, queue)
        jobs.promote(queue)
        again = jobs.claim(queue)
        assert again is not None
        assert jobs.retry(queue, again, error="boom") == expected


def test_a_retry_of_a_job_that_is_gone_says_so(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    jobs.complete(queue, claim)
    with unchanged(jobs.server, JobGone, match=A):
        jobs.retry(queue, claim, error="boom")


@pytest.mark.parametrize("policy, ignored", [("fp", False), ("", False), ("ID", False), (None, False), ("id", True)])
def test_a_death_does_to_its_parent_what_its_row_says(
    jobs: Jobs, queue: str, policy: str | None, ignored: bool
) -> None:
    jobs.server.client.hset(
        f"emq:{{{queue}}}:job:{P}", mapping={"state": "awaiting_children", "attempts": "0", "payload": "p"}
    )
    jobs.server.client.set(f"emq:{{{queue}}}:job:{P}:dependencies", 1)
    claim = claimed(jobs, queue, parent=P, **({} if policy is None else {"parent_policy": policy}))
    assert jobs.retry(queue, claim, error=b"bo\xffom", max_attempts=1) == "dead"
    assert jobs.state(queue, P) == ("pending" if ignored else "dead")
    assert counter(jobs.server, queue, P) == (0 if ignored else 1)
    kept = everything(jobs.server).hash(f"emq:{{{queue}}}:job:{P}:{'unsuccessful' if ignored else 'failed'}".encode())
    assert kept == {A.encode(): b"bo\xffom"}


@pytest.mark.parametrize("policy, token", [("fp", "fp"), ("id", "id"), ("else", "fp")])
def test_a_death_whose_parent_is_elsewhere_leaves_a_fail_entry(jobs: Jobs, queue: str, policy: str, token: str) -> None:
    claim = claimed(jobs, queue, parent=P, parent_queue="orders", parent_policy=policy)
    assert jobs.retry(queue, claim, error=EVERY_BYTE, max_attempts=1) == "dead"
    assert outbox(jobs.server, queue) == (encode(Failure("orders", P, A, token, EVERY_BYTE)),)


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("which, error", [("lost", ReplyLost), ("cut", Unreachable)])
def test_a_failure_that_meets_a_dead_line_counts_one_attempt(
    jobs: Jobs, queue: str, place: int, which: str, error: type[EmqError]
) -> None:
    claim = claimed(jobs, queue)
    with fault(jobs.server, at(place, which)), pytest.raises(error):
        jobs.retry(queue, claim, error="boom")
    assert jobs.retry(queue, claim, error="boom") == "scheduled"
    assert row(jobs.server, queue, A)[b"attempts"] == b"1"


# --- leases -----------------------------------------------------------------------------------------------------------


def test_an_extension_moves_the_deadline_and_nothing_else(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    jobs.enqueue(queue, "other", id=B)
    before = everything(jobs.server)
    assert jobs.extend_lock(queue, claim, lease_ms=10**9) is True
    after = everything(jobs.server)
    active = f"emq:{{{queue}}}:active".encode()
    assert after.ranked(active)[A.encode()] > before.ranked(active)[A.encode()] + 10**8
    assert {key for key in after.keys if after.keys[key] != before.keys[key]} == {active}


def test_a_job_that_is_gone_is_not_extended(jobs: Jobs, queue: str) -> None:
    with unchanged(jobs.server, JobGone, match=A):
        jobs.extend_lock(queue, A, 1)


def test_many_leases_are_extended_in_one_call_and_the_others_are_named_in_order(jobs: Jobs, queue: str) -> None:
    first, second = claimed(jobs, queue, A), claimed(jobs, queue, B)
    lapse(jobs.server, queue)
    with wire(jobs.server) as sent:
        assert jobs.extend_locks(queue, [(D, 1), first, (B, 9), (C, 1)], lease_ms=60_000) == (D, B, C)
    assert len([command for commands in sent for command in commands if command[0] == b"EVALSHA"]) == 1
    assert jobs.reap(queue) == 1  # B's lapsed; A's runs
    assert members(jobs.server, queue, "active") == [A]
    assert jobs.extend_locks(queue, [second]) == ()


def test_nobodys_leases_are_extended(jobs: Jobs, queue: str) -> None:
    assert jobs.extend_locks(queue, []) == ()


def test_two_leases_extended_together_end_together(jobs: Jobs, queue: str) -> None:
    claims = [claimed(jobs, queue, A), claimed(jobs, queue, B)]
    assert jobs.extend_locks(queue, claims, lease_ms=77_777) == ()
    assert len(set(everything(jobs.server).ranked(f"emq:{{{queue}}}:active".encode()).values())) == 1


def test_reap_leaves_live_leases_alone_and_keeps_the_attempts(jobs: Jobs, queue: str) -> None:
    claimed(jobs, queue, A)
    lapse(jobs.server, queue)
    claimed(jobs, queue, B)
    assert jobs.reap(queue) == 1
    assert (jobs.state(queue, A), jobs.state(queue, B)) == ("pending", "active")
    assert row(jobs.server, queue, A)[b"attempts"] == b"1"
    with unchanged(jobs.server):
        assert jobs.reap(queue) == 0


def test_promote_moves_no_more_than_its_limit(jobs: Jobs, queue: str) -> None:
    for id in (C, B, A):
        jobs.enqueue_at(queue, "pick", 1, id=id)
    assert [jobs.promote(queue, limit=2), jobs.promote(queue, 2), jobs.promote(queue)] == [2, 1, 0]


# --- operators --------------------------------------------------------------------------------------------------------


def test_a_dead_job_is_reprocessed_with_its_attempts(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    jobs.retry(queue, claim, error="boom", max_attempts=1)
    assert jobs.reprocess(queue, A) is True
    assert row(jobs.server, queue, A) == {b"state": b"pending", b"attempts": b"1", b"payload": b"pick"}
    again = jobs.claim(queue)
    assert again is not None and again.token == 2


def test_only_a_dead_job_is_reprocessed(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    with unchanged(jobs.server, NotDead, match=f"{A}.*not dead"):
        jobs.reprocess(queue, A)
    with unchanged(jobs.server, JobGone, match=B):
        jobs.reprocess(queue, B)


@pytest.mark.parametrize("state", ["pending", "active", "scheduled", "dead"])
def test_a_removed_job_leaves_no_trace_wherever_it_stood(jobs: Jobs, queue: str, state: str) -> None:
    before = everything(jobs.server)
    if state == "scheduled":
        jobs.enqueue_in(queue, "pick", 60_000, id=A)
    else:
        jobs.enqueue(queue, "pick", id=A)
    if state in ("active", "dead"):
        jobs.claim(queue)
    if state == "dead":
        jobs.retry(queue, A, 1, error="boom", max_attempts=1)
        jobs.server.client.delete(f"emq:{{{queue}}}:metrics:failed")
    assert jobs.state(queue, A) == state
    jobs.server.client.rpush(f"emq:{{{queue}}}:job:{A}:logs", "a line")
    assert jobs.remove(queue, A) is True
    assert everything(jobs.server) == before
    with unchanged(jobs.server, JobGone, match=A):
        jobs.remove(queue, A)


def test_a_locked_job_is_not_removed(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "pick", id=A)
    jobs.server.client.set(f"emq:{{{queue}}}:job:{A}:lock", "somebody")
    with unchanged(jobs.server, JobLocked, match=f"{A}.*locked"):
        jobs.remove(queue, A)


@pytest.mark.parametrize("holder, stays", [(A, False), (B, True)])
def test_a_removed_job_takes_its_own_dedup_key_along(jobs: Jobs, queue: str, holder: str, stays: bool) -> None:
    jobs.enqueue(queue, "pick", id=A)
    jobs.server.client.set(f"emq:{{{queue}}}:de:once", holder)
    jobs.remove(queue, A, dedup_id="once")
    assert jobs.server.client.exists(f"emq:{{{queue}}}:de:once") == stays


# --- looking ----------------------------------------------------------------------------------------------------------


def test_state_goes_by_the_set_first_and_then_by_the_row(jobs: Jobs, queue: str) -> None:
    client, base = jobs.server.client, f"emq:{{{queue}}}:"
    assert jobs.state(queue, A) == "absent"
    client.hset(f"{base}job:{A}", "state", "awaiting_children")
    assert jobs.state(queue, A) == "awaiting_children"
    for name, state in (("dead", "dead"), ("schedule", "scheduled"), ("active", "active"), ("pending", "pending")):
        client.zadd(f"{base}{name}", {A: 0})
        assert jobs.state(queue, A) == state  # an earlier set in the order wins over a later one, and over the row
    for name in ("dead", "schedule", "active", "pending"):
        client.zrem(f"{base}{name}", A)
    client.hset(f"{base}job:{A}", "state", "pending")
    assert jobs.state(queue, A) == "absent"  # a row in no set that is not held is nowhere


def test_depths_count_the_four_sets_and_no_held_parent(jobs: Jobs, queue: str) -> None:
    for name, ids in (("pending", (A,)), ("active", (A, B)), ("schedule", (A, B, C)), ("dead", (A, B, C, D))):
        jobs.server.client.zadd(f"emq:{{{queue}}}:{name}", dict.fromkeys(ids, 0))
    jobs.server.client.hset(f"emq:{{{queue}}}:job:{P}", "state", "awaiting_children")
    with wire(jobs.server) as sent:
        assert jobs.depths(queue) == Depths(pending=1, active=2, scheduled=3, dead=4)
    assert len(sent) == 1


@pytest.mark.parametrize(
    "look", [lambda jobs, queue: jobs.state(queue, A), lambda jobs, queue: jobs.depths(queue)], ids=["state", "depths"]
)
def test_a_key_of_the_wrong_type_is_said_and_not_guessed_around(
    jobs: Jobs, queue: str, look: Callable[[Jobs, str], object]
) -> None:
    jobs.server.client.set(f"emq:{{{queue}}}:dead", "text")
    with pytest.raises(Refused, match="WRONGTYPE"):
        look(jobs, queue)


# --- what is refused before anything is sent --------------------------------------------------------------------------

NOT_DATA = [None, 7, True, 1.5, ["pick"], {"a": 1}, bytearray(b"x"), "\ud800"]
NOT_POSITIVE = [0, -1, 1.0, 1.5, "1", None, True, 2**53, float("nan")]
NEGATIVE = [-1, 1.0, "1", None, True, False, 2**53]
NO_QUEUE: list[Any] = ["", "a{b", "a}b", "a\0b", b"orders", None, 7]

Refusal = Callable[[Jobs, Any], object]

VERBS_OF_A_QUEUE: dict[str, Refusal] = {
    "enqueue": lambda jobs, queue: jobs.enqueue(queue, "x"),
    "enqueue_many": lambda jobs, queue: jobs.enqueue_many(queue, ["x"]),
    "enqueue_many of nobody": lambda jobs, queue: jobs.enqueue_many(queue, []),
    "enqueue_in": lambda jobs, queue: jobs.enqueue_in(queue, "x", 1),
    "enqueue_at": lambda jobs, queue: jobs.enqueue_at(queue, "x", 1),
    "claim": lambda jobs, queue: jobs.claim(queue),
    "complete": lambda jobs, queue: jobs.complete(queue, A, 1),
    "retry": lambda jobs, queue: jobs.retry(queue, A, 1, error="x"),
    "extend_lock": lambda jobs, queue: jobs.extend_lock(queue, A, 1),
    "extend_locks": lambda jobs, queue: jobs.extend_locks(queue, [(A, 1)]),
    "extend_locks of nobody": lambda jobs, queue: jobs.extend_locks(queue, []),
    "promote": lambda jobs, queue: jobs.promote(queue),
    "reap": lambda jobs, queue: jobs.reap(queue),
    "reprocess": lambda jobs, queue: jobs.reprocess(queue, A),
    "remove": lambda jobs, queue: jobs.remove(queue, A),
    "pause": lambda jobs, queue: jobs.pause(queue),
    "resume": lambda jobs, queue: jobs.resume(queue),
    "paused": lambda jobs, queue: jobs.paused(queue),
    "state": lambda jobs, queue: jobs.state(queue, A),
    "depths": lambda jobs, queue: jobs.depths(queue),
}

VERBS_OF_AN_ID: dict[str, Refusal] = {
    "enqueue": lambda jobs, id: jobs.enqueue("q", "x", id=id),
    "enqueue_many": lambda jobs, id: jobs.enqueue_many("q", [(A, "x"), (id, "x")]),
    "enqueue_in": lambda jobs, id: jobs.enqueue_in("q", "x", 1, id=id),
    "enqueue_at": lambda jobs, id: jobs.enqueue_at("q", "x", 1, id=id),
    "complete": lambda jobs, id: jobs.complete("q", id, 1),
    "retry": lambda jobs, id: jobs.retry("q", id, 1, error="x"),
    "extend_lock": lambda jobs, id: jobs.extend_lock("q", id, 1),
    "extend_locks": lambda jobs, id: jobs.extend_locks("q", [(A, 1), (id, 1)]),
    "reprocess": lambda jobs, id: jobs.reprocess("q", id),
    "remove": lambda jobs, id: jobs.remove("q", id),
    "state": lambda jobs, id: jobs.state("q", id),
}

ARGUMENTS: dict[str, tuple[list[Any], Refusal]] = {
    "enqueue payload": (NOT_DATA, lambda jobs, x: jobs.enqueue("q", x)),
    "enqueue_many payload": (NOT_DATA, lambda jobs, x: jobs.enqueue_many("q", ["x", x])),
    "enqueue_many paired payload": (NOT_DATA, lambda jobs, x: jobs.enqueue_many("q", [(A, x)])),
    "enqueue_many pair": ([(A,), (A, "x", "y"), ()], lambda jobs, x: jobs.enqueue_many("q", [x])),
    "enqueue_many items": (["pick", b"pick", None, 7], lambda jobs, x: jobs.enqueue_many("q", x)),
    "enqueue_in payload": (NOT_DATA, lambda jobs, x: jobs.enqueue_in("q", x, 1)),
    "enqueue_in delay": (NEGATIVE, lambda jobs, x: jobs.enqueue_in("q", "x", x)),
    "enqueue_at payload": (NOT_DATA, lambda jobs, x: jobs.enqueue_at("q", x, 1)),
    "enqueue_at instant": (NEGATIVE, lambda jobs, x: jobs.enqueue_at("q", "x", x)),
    "claim lease": (NOT_POSITIVE, lambda jobs, x: jobs.claim("q", lease_ms=x)),
    "complete token": (NEGATIVE, lambda jobs, x: jobs.complete("q", A, x)),
    "complete result": (NOT_DATA[1:], lambda jobs, x: jobs.complete("q", A, 1, result=x)),
    "retry token": (NEGATIVE, lambda jobs, x: jobs.retry("q", A, x, error="x")),
    "retry error": (NOT_DATA, lambda jobs, x: jobs.retry("q", A, 1, error=x)),
    "retry max_attempts": (NOT_POSITIVE, lambda jobs, x: jobs.retry("q", A, 1, error="x", max_attempts=x)),
    "retry delay": (NEGATIVE, lambda jobs, x: jobs.retry("q", A, 1, error="x", delay_ms=x)),
    "extend_lock token": (NEGATIVE, lambda jobs, x: jobs.extend_lock("q", A, x)),
    "extend_lock lease": (NOT_POSITIVE, lambda jobs, x: jobs.extend_lock("q", A, 1, lease_ms=x)),
    "extend_locks token": (NEGATIVE, lambda jobs, x: jobs.extend_locks("q", [(B, 1), (A, x)])),
    "extend_locks lease": (NOT_POSITIVE, lambda jobs, x: jobs.extend_locks("q", [(A, 1)], lease_ms=x)),
    "extend_locks pair": ([A, (A,), None, (A, 1, 1)], lambda jobs, x: jobs.extend_locks("q", [x])),
    "extend_locks jobs": ([A, None, Claim("q", A, b"", 1)], lambda jobs, x: jobs.extend_locks("q", x)),
    "promote limit": (NOT_POSITIVE, lambda jobs, x: jobs.promote("q", x)),
    "remove dedup_id": ([None, b"x", 7], lambda jobs, x: jobs.remove("q", A, dedup_id=x)),
}


@pytest.mark.parametrize("verb", VERBS_OF_A_QUEUE)
def test_an_ill_formed_queue_is_refused_before_anything_is_sent(jobs: Jobs, verb: str) -> None:
    for queue in NO_QUEUE:
        with refused_unsent(jobs.server, IllFormedQueue):
            VERBS_OF_A_QUEUE[verb](jobs, queue)


@pytest.mark.parametrize("verb", VERBS_OF_AN_ID)
def test_an_ill_formed_id_is_refused_before_anything_is_sent(jobs: Jobs, verb: str) -> None:
    for id in ILL_FORMED:
        with refused_unsent(jobs.server, IllFormedId):
            VERBS_OF_AN_ID[verb](jobs, id)


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_that_cannot_be_used_is_refused_before_anything_is_sent(jobs: Jobs, argument: str) -> None:
    values, refusal = ARGUMENTS[argument]
    for value in values:
        with refused_unsent(jobs.server, BadArgument, match="Nothing was sent"):
            refusal(jobs, value)


@pytest.mark.parametrize(
    "settle",
    [
        lambda jobs, queue, claim: jobs.complete(queue, claim),
        lambda jobs, queue, claim: jobs.retry(queue, claim, error="x"),
        lambda jobs, queue, claim: jobs.extend_lock(queue, claim),
        lambda jobs, queue, claim: jobs.extend_locks(queue, [claim]),
    ],
    ids=["complete", "retry", "extend_lock", "extend_locks"],
)
def test_a_claim_of_another_queue_is_refused(
    jobs: Jobs, queues: Callable[..., str], settle: Callable[[Jobs, str, Claim], object]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    claim = claimed(jobs, orders)
    with refused_unsent(jobs.server, BadArgument, match=f"{labels}.*is not where {A} was claimed.*{orders}"):
        settle(jobs, labels, claim)


def test_a_token_beside_a_claim_must_be_the_claims_own(jobs: Jobs, queue: str) -> None:
    claim = claimed(jobs, queue)
    with refused_unsent(jobs.server, BadArgument, match="token 2 is not the claim's token, 1"):
        jobs.complete(queue, claim, 2)
    assert jobs.complete(queue, claim, 1)


def test_an_id_without_a_token_is_refused(jobs: Jobs, queue: str) -> None:
    with refused_unsent(jobs.server, BadArgument, match="token None is missing"):
        jobs.complete(queue, A)


def test_an_id_of_another_namespace_finds_no_row_where_nothing_lands(jobs: Jobs, queue: str) -> None:
    for settle in (
        lambda: jobs.complete(queue, FOREIGN, 1),
        lambda: jobs.retry(queue, FOREIGN, 1, error="x"),
        lambda: jobs.extend_lock(queue, FOREIGN, 1),
        lambda: jobs.reprocess(queue, FOREIGN),
        lambda: jobs.remove(queue, FOREIGN),
    ):
        with unchanged(jobs.server, JobGone, match=FOREIGN):
            settle()
    assert jobs.extend_locks(queue, [(FOREIGN, 1)]) == (FOREIGN,)
    assert jobs.state(queue, FOREIGN) == "absent"


# --- a lane's job -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settle", ["complete", "retry"])
def test_a_row_with_a_group_is_a_lanes_and_is_left_alone_by_name(jobs: Jobs, queue: str, settle: str) -> None:
    jobs.enqueue(queue, "x", id=A)
    claim = jobs.claim(queue)
    assert claim is not None
    jobs.server.client.hset(keys.job(queue, A), "group", "acme")
    with unchanged(jobs.server), pytest.raises(LaneJob, match=f"job {A} in queue {queue} belongs to the lane 'acme'"):
        if settle == "complete":
            jobs.complete(queue, claim)
        else:
            jobs.retry(queue, claim, error="e", max_attempts=1)
    assert jobs.state(queue, A) == "active"


def test_a_worker_that_meets_a_lanes_job_ends_with_its_name(jobs: Jobs, queue: str) -> None:
    jobs.enqueue(queue, "x", id=A)
    jobs.server.client.hset(keys.job(queue, A), "group", "acme")
    with pytest.raises(LaneJob):
        Worker(jobs.server, queue, lambda job: "done").run(until_empty=True)
