"""The host half of a job's life: enqueue, claim, settle, extend, inspect.

    worker            server
      |-- meta paused? ->|
      |-- claim -------->|  the smallest pending id, under a lease and a fencing token
      |   …works…        |
      |-- its parent? -->|
      |-- complete ----->|  fenced by the token: a claim that was superseded cannot settle
      |-- del logs ----->|

Sources: Flows dives 01 and 03, Batches dive 02. Times are whole milliseconds; the server's clock decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from emqkit import keys, outbox, transitions
from emqkit.arguments import Data, check_data, to_bytes, to_text, whole
from emqkit.errors import BadArgument, EmqError, JobGone, LaneJob
from emqkit.ids import check
from emqkit.servers.base import Server, check_server
from emqkit.transitions import Claim, ParentLink
from emqkit.wire import Call, Flush, Reply, Steps, command, operation

__all__ = ["Claim", "Depths", "Enqueued", "Jobs", "State", "link_call", "node_call", "settling", "value_or_raise"]

T = TypeVar("T")

State = Literal["pending", "active", "scheduled", "dead", "awaiting_children", "absent"]

_SET_STATES: tuple[tuple[str, State], ...] = (
    ("pending", "pending"),
    ("active", "active"),
    ("schedule", "scheduled"),
    ("dead", "dead"),
)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of one job handed in: `landed`, `duplicate` (its row existed; nothing changed) or `refused`."""

    id: str
    outcome: Literal["landed", "duplicate", "refused"]
    error: EmqError | None = None

    @property
    def landed(self) -> bool:
        """Whether this call landed it."""
        return self.outcome == "landed"


@dataclass(frozen=True, slots=True)
class Depths:
    """How many jobs are in each of a queue's four sets. Held parents are in none."""

    pending: int
    active: int
    scheduled: int
    dead: int


@dataclass(frozen=True)
class Jobs:
    """The job verbs of one server: `emqkit.Jobs(server).claim("orders")`."""

    server: Server

    def __post_init__(self) -> None:
        check_server(self.server)

    # --- landing ----------------------------------------------------------------------------------------------------

    @operation
    def enqueue(self, queue: str, payload: Data, *, id: str | None = None) -> Steps[Enqueued]:
        """Land one job in pending. One round trip.

        Args:
            queue: where it goes.
            payload: text or bytes, for the worker.
            id: minted if omitted; the same id again is a `duplicate` and changes nothing.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            WrongNamespace: the script refused the id, before any write.
        """
        landed = yield from transitions.enqueue(queue, _given(id), to_bytes(payload))
        return Enqueued(_given(id), "landed" if landed else "duplicate")

    @enqueue.prepare
    def _enqueue(self, queue: str, payload: Data, *, id: str | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        check_data("payload", payload)
        return (queue, payload), {"id": self._mint(id)}

    @operation
    def enqueue_many(self, queue: str, items: Sequence[Data | tuple[str, Data]]) -> Steps[tuple[Enqueued, ...]]:
        """Land many jobs in one flush; returns what became of each, in input order (Batches dive 02).

        Args:
            queue: where they go.
            items: payloads, or (id, payload) pairs.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before the flush, so nothing landed. A well-formed id of another
            namespace does not raise: its outcome is `refused`, and the others land.
        """
        jobs = [(id, to_bytes(payload)) for id, payload in map(_as_pair, items)]
        answers = yield from Flush(tuple(transitions.enqueue(queue, id, payload) for id, payload in jobs))
        return tuple(_enqueued(id, answer) for (id, _), answer in zip(jobs, answers, strict=True))

    @enqueue_many.prepare
    def _enqueue_many(
        self, queue: str, items: Sequence[Data | tuple[str, Data]]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        if isinstance(items, str | bytes) or not isinstance(items, Sequence):
            raise BadArgument("items", items, "is not a list of payloads or (id, payload) pairs")
        complete = [
            _as_pair(item) if isinstance(item, tuple) else (None, check_data("payload", item)) for item in items
        ]
        return (queue, tuple((self._mint(id), payload) for id, payload in complete)), {}

    @operation
    def enqueue_in(self, queue: str, payload: Data, delay_ms: int, *, id: str | None = None) -> Steps[Enqueued]:
        """Land one job in schedule, due `delay_ms` milliseconds (0 or more) from the server's now. One round trip."""
        landed = yield from transitions.schedule(queue, _given(id), to_bytes(payload), "in", delay_ms)
        return Enqueued(_given(id), "landed" if landed else "duplicate")

    @enqueue_in.prepare
    def _enqueue_in(
        self, queue: str, payload: Data, delay_ms: int, *, id: str | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        check_data("payload", payload)
        whole("delay_ms", delay_ms, at_least=0, unit="milliseconds")
        return (queue, payload, delay_ms), {"id": self._mint(id)}

    @operation
    def enqueue_at(self, queue: str, payload: Data, at_ms: int, *, id: str | None = None) -> Steps[Enqueued]:
        """Land one job in schedule, due at `at_ms` unix milliseconds as the caller computed it. One round trip."""
        landed = yield from transitions.schedule(queue, _given(id), to_bytes(payload), "at", at_ms)
        return Enqueued(_given(id), "landed" if landed else "duplicate")

    @enqueue_at.prepare
    def _enqueue_at(
        self, queue: str, payload: Data, at_ms: int, *, id: str | None = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        check_data("payload", payload)
        whole("at_ms", at_ms, at_least=0, unit="unix milliseconds")
        return (queue, payload, at_ms), {"id": self._mint(id)}

    def _mint(self, id: str | None) -> str:
        return self.server.minter.mint() if id is None else check(id)

    # --- claiming and settling --------------------------------------------------------------------------------------

    @operation
    def claim(self, queue: str, lease_ms: int = 30_000) -> Steps[Claim | None]:
        """Take the smallest pending id under a lease of `lease_ms` milliseconds (1 or more). Two round trips.

        Returns:
            The claim, or None: nothing is pending, or the queue is paused.

        Raises:
            BadArgument, IllFormedQueue: before anything is sent.
        """
        whole("lease_ms", lease_ms, at_least=1, unit="milliseconds")
        paused = yield from _paused_call(queue)
        if paused:
            return None
        claim = yield from transitions.claim(queue, lease_ms)
        return claim

    @operation
    def complete(
        self, queue: str, job: Claim | str, token: int | None = None, result: Data | None = None
    ) -> Steps[bool]:
        """Settle a claim: the job is done, and a flow child counts for its parent (Flows dive 01).

        At most 3 round trips.

        Args:
            queue: where the job was claimed.
            job: the claim, or an id with `token` beside it.
            token: the claim's fencing token.
            result: what the parent reads for this child; the child's own id if omitted.

        Returns:
            True.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            JobGone: no row; the job was already settled or removed.
            StaleToken: the job has been claimed again since; nothing was written.
            LaneJob: its row belongs to a lane of the real system; nothing was written.
        """
        id, token = settling(queue, job, token)
        outcome = to_bytes(id if result is None else check_data("result", result))
        link = yield from link_call(queue, id, (*_PARENT, "group"))
        done = yield from transitions.complete(queue, id, token, link, outcome)
        if not done:
            raise JobGone(queue, id)
        try:
            yield from command("DEL", [keys.subkey(queue, id, "logs")], [], lambda reply: reply)
        except EmqError:
            pass  # best effort: the completion was answered, so a failed delete (a lost connection too) does not matter
        return True

    @operation
    def retry(
        self,
        queue: str,
        job: Claim | str,
        token: int | None = None,
        *,
        error: Data,
        max_attempts: int = 3,
        delay_ms: int = 1000,
    ) -> Steps[Literal["scheduled", "dead"]]:
        """Settle a claim as failed (Flows dive 03): the job is scheduled again, or dead after its last attempt.

        The death of a flow child affects its parent as its policy says. If that parent is an inner node of a tree and
        dies too, a fail entry for the level above goes into this queue's outbox. Two to four round trips.

        Args:
            queue: where the job was claimed.
            job: the claim, or an id with `token` beside it.
            token: the claim's fencing token.
            error: what went wrong, text or bytes.
            max_attempts: how many claims the job gets in all, 1 or more.
            delay_ms: milliseconds until it is due again, 0 or more.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            JobGone, StaleToken, LaneJob: as in `complete`; nothing was written.
        """
        id, token = settling(queue, job, token)
        why = to_bytes(check_data("error", error))
        whole("max_attempts", max_attempts, at_least=1)
        whole("delay_ms", delay_ms, at_least=0, unit="milliseconds")
        link = yield from link_call(queue, id, (*_PARENT_AND_POLICY, "group"))
        outcome = yield from transitions.retry(queue, id, token, delay_ms, max_attempts, why, link)
        if outcome == "dead" and link is not None and link.queue is None and link.policy == "fp":
            state, above = yield from node_call(queue, link.id)
            if state == "dead" and above is not None:
                yield from outbox.signal_death(queue, link.id, above, why)
        return outcome

    # --- leases -----------------------------------------------------------------------------------------------------

    @operation
    def extend_lock(
        self, queue: str, job: Claim | str, token: int | None = None, *, lease_ms: int = 30_000
    ) -> Steps[bool]:
        """Extend the lease to the server's now plus `lease_ms` milliseconds. One round trip.

        Raises `JobGone` or `StaleToken` if the claim is no longer ours.
        """
        id, token = settling(queue, job, token)
        whole("lease_ms", lease_ms, at_least=1, unit="milliseconds")
        answer = yield from transitions.extend_lock(queue, id, token, lease_ms)
        if answer != 1:
            raise JobGone(queue, id)
        return True

    @operation
    def extend_locks(
        self, queue: str, jobs: Sequence[Claim | tuple[str, int]], *, lease_ms: int = 30_000
    ) -> Steps[tuple[str, ...]]:
        """Extend many leases by one clock reading; returns the ids not extended, in argument order. One round trip."""
        whole("lease_ms", lease_ms, at_least=1, unit="milliseconds")
        pairs = [settling(queue, *_as_claimed(job)) for job in jobs]
        failed = yield from transitions.extend_locks(queue, lease_ms, pairs)
        return failed

    @extend_locks.prepare
    def _extend_locks(
        self, queue: str, jobs: Sequence[Claim | tuple[str, int]], *, lease_ms: int = 30_000
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if isinstance(jobs, str | bytes | Claim) or not isinstance(jobs, Sequence):
            raise BadArgument("jobs", jobs, "is not a list of claims or (id, token) pairs")
        return (queue, tuple(jobs)), {"lease_ms": lease_ms}

    # --- what time and operators do ---------------------------------------------------------------------------------

    @operation
    def promote(self, queue: str, limit: int = 100) -> Steps[int]:
        """Move up to `limit` due jobs from schedule to pending; returns how many. One round trip."""
        whole("limit", limit, at_least=1)
        moved = yield from transitions.promote(queue, limit)
        return moved

    @operation
    def reap(self, queue: str) -> Steps[int]:
        """Put up to 100 jobs whose lease lapsed back into pending; returns how many. One round trip."""
        moved = yield from transitions.reap(queue)
        return moved

    @operation
    def reprocess(self, queue: str, id: str) -> Steps[bool]:
        """Put a dead job back into pending, its attempts kept. Raises `NotDead` or `JobGone`. One round trip."""
        answer = yield from transitions.reprocess(queue, id)
        if answer != 1:
            raise JobGone(queue, id)
        return True

    @operation
    def remove(self, queue: str, id: str, *, dedup_id: str = "") -> Steps[bool]:
        """Delete a job and its logs, whatever set it is in. Raises `JobLocked` or `JobGone`. One round trip."""
        if not isinstance(dedup_id, str):
            raise BadArgument("dedup_id", dedup_id, f"is {type(dedup_id).__name__}, not text")
        check_data("dedup_id", dedup_id)
        answer = yield from transitions.remove_job(queue, id, dedup_id)
        if answer != 1:
            raise JobGone(queue, id)
        return True

    @operation
    def pause(self, queue: str) -> Steps[None]:
        """Stop claims of this queue, and nothing else. One round trip."""
        yield from command("HSET", [keys.queue_key(queue, "meta")], [b"paused", b"1"], lambda reply: reply)

    @operation
    def resume(self, queue: str) -> Steps[None]:
        """Allow claims of this queue again. One round trip."""
        yield from command("HDEL", [keys.queue_key(queue, "meta")], [b"paused"], lambda reply: reply)

    @operation
    def paused(self, queue: str) -> Steps[bool]:
        """Whether this queue is paused. One round trip, no write."""
        stopped = yield from _paused_call(queue)
        return stopped

    # --- looking ----------------------------------------------------------------------------------------------------

    @operation
    def state(self, queue: str, id: str) -> Steps[State]:
        """A job's state: by the set it is in (pending, active, scheduled, dead), else by its row. One round trip.

        In no set, it is `awaiting_children` if its row says so, otherwise `absent`.
        """
        member = keys.text(check(id))
        calls: list[Call[Any]] = [
            command("ZSCORE", [keys.queue_key(queue, name)], [member], lambda reply: reply is not None)
            for name, _ in _SET_STATES
        ]
        calls.append(command("HGET", [keys.job(queue, id)], [b"state"], lambda reply: reply))
        *members, row = map(value_or_raise, (yield from Flush(tuple(calls))))
        for (_, state), there in zip(_SET_STATES, members, strict=True):
            if there:
                return state
        return "awaiting_children" if row == b"awaiting_children" else "absent"

    @operation
    def depths(self, queue: str) -> Steps[Depths]:
        """How many jobs are in each of the four sets. One round trip."""
        calls = tuple(
            command("ZCARD", [keys.queue_key(queue, name)], [], lambda reply: reply if isinstance(reply, int) else 0)
            for name, _ in _SET_STATES
        )
        counts = [value_or_raise(answer) for answer in (yield from Flush(calls))]
        return Depths(*counts)


def _paused_call(queue: str) -> Call[bool]:
    return command("HEXISTS", [keys.queue_key(queue, "meta")], [b"paused"], lambda reply: reply == 1)


def value_or_raise(answer: T | EmqError) -> T:
    """Return one value of a flush, or raise it if it is a refusal."""
    if isinstance(answer, EmqError):
        raise answer
    return answer


def _as_pair(item: Data | tuple[str, Data]) -> tuple[str, Data]:
    if not isinstance(item, tuple) or len(item) != 2:
        raise BadArgument("item", item, "is not a payload or an (id, payload) pair")
    return check(item[0]), check_data("payload", item[1])


def _as_claimed(job: Claim | tuple[str, int]) -> tuple[Claim | str, int | None]:
    if isinstance(job, Claim):
        return job, None
    if not isinstance(job, tuple) or len(job) != 2:
        raise BadArgument("job", job, "is not a claim or an (id, token) pair")
    return job


def _given(id: str | None) -> str:
    if id is None:  # the prepare step mints ids; only a hand-made Program can lack one
        raise BadArgument("id", id, "is missing: an operation takes all its input as arguments")
    return id


def _enqueued(id: str, answer: bool | EmqError) -> Enqueued:
    if isinstance(answer, EmqError):
        return Enqueued(id, "refused", answer)
    return Enqueued(id, "landed" if answer else "duplicate")


def settling(queue: str, job: Claim | str, token: int | None) -> tuple[str, int]:
    """The id and token to settle with; refuses a claim of another queue, before anything is sent."""
    keys.check_queue(queue)
    if isinstance(job, Claim):
        if job.queue != queue:
            raise BadArgument("queue", queue, f"is not where {job.id} was claimed, which is {job.queue!r}")
        if token is not None and token != job.token:
            raise BadArgument("token", token, f"is not the claim's token, {job.token}; leave it out")
        return job.id, job.token
    if job is None:
        why = "is no claim: there was nothing to hand out. Run the cell that lands the jobs again, then this one"
        raise BadArgument("job", job, why)
    if token is None:
        raise BadArgument("token", token, f"is missing: settling {job!r} by id needs the token of its claim")
    return check(job), whole("token", token, at_least=0)


_PARENT = ("parent", "parent_queue")
_PARENT_AND_POLICY = (*_PARENT, "parent_policy")


def link_call(queue: str, id: str, fields: Sequence[str]) -> Call[ParentLink | None]:
    """One HMGET: the parent link on a row; None if there is no row, or it is not a flow child's.

    The queue's own name counts as absent, and any policy but `id` is `fp` (Flows dive 03). If `group` is among the
    fields read, raises `LaneJob` for a row that belongs to a lane.
    """

    def read(reply: Reply) -> ParentLink | None:
        values = reply if isinstance(reply, tuple) else ()
        row = {field: to_text(value) for field, value in zip(fields, values, strict=False) if isinstance(value, bytes)}
        if "group" in row:
            raise LaneJob(queue, id, row["group"])
        if "parent" not in row:
            return None
        parent_queue = row.get("parent_queue")
        elsewhere = parent_queue if parent_queue and parent_queue != queue else None
        return ParentLink(row["parent"], elsewhere, "id" if row.get("parent_policy") == "id" else "fp")

    return command("HMGET", [keys.job(queue, id)], [keys.text(field) for field in fields], read)


def node_call(queue: str, id: str) -> Call[tuple[str | None, ParentLink | None]]:
    """One HMGET: an inner node's state, and the link to the parent above it."""
    above = link_call(queue, id, _PARENT_AND_POLICY)

    def read(reply: Reply) -> tuple[str | None, ParentLink | None]:
        state, *rest = reply if isinstance(reply, tuple) else (None,)
        return to_text(state) if isinstance(state, bytes) else None, above.read(tuple(rest))

    return command("HMGET", above.keys, [b"state", *above.args], read)
