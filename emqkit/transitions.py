"""One typed function for each Lua file: its arguments become a `Call`, its reply a value or an error.

The decisions are made by the host operations in `jobs`, `flows` and `pump`, not here. Every id and queue goes through
the key builder, so an ill-formed one raises here, before anything is sent. Times are whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.errors import (
    EmqError,
    FlowNotNative,
    JobGone,
    JobLocked,
    NotDead,
    Refused,
    StaleToken,
    WrongNamespace,
)
from emqkit.wire import Call, ErrorReply, Reply

__all__ = ["Claim", "ParentLink", "Policy"]

T = TypeVar("T")

Policy = Literal["fp", "id"]
"""A child's failure policy on the wire: fail the parent, or ignore the dependency (Flows dive 03)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job handed out under a lease: settle it with this token before the lease lapses, or lose it.

    Attributes:
        queue: where it was claimed.
        id: the job.
        payload_bytes: its payload; empty for an id that was in pending without a row.
        token: the fencing token, 1 for the first claim; it grows with every claim of the job.
    """

    queue: str
    id: str
    payload_bytes: bytes
    token: int

    @property
    def payload(self) -> str:
        """The payload as text (UTF-8, other bytes kept by `surrogateescape`)."""
        return to_text(self.payload_bytes)


@dataclass(frozen=True, slots=True)
class ParentLink:
    """The link on a child's row to its parent: its id, its queue (None: the child's own), and the policy."""

    id: str
    queue: str | None = None
    policy: Policy = "fp"


def _bytes(*values: str | bytes | int) -> tuple[bytes, ...]:
    return tuple(v if isinstance(v, bytes) else keys.text(str(v)) for v in values)


def _script(
    verb: str,
    key_list: Sequence[bytes],
    args: Sequence[bytes],
    read: Callable[[Reply], T],
    refusal: Callable[[ErrorReply], EmqError | None] = lambda error: None,
) -> Call[T]:
    def refused(error: ErrorReply) -> EmqError:
        return refusal(error) or Refused(verb, error.code, error.text)

    return Call(verb, tuple(key_list), tuple(args), read, refused, "script")


def _number(reply: Reply) -> int:
    if not isinstance(reply, int):
        raise TypeError(f"expected a whole number from the script, not {reply!r}")
    return reply


def _flag(reply: Reply) -> bool:
    return _number(reply) == 1


def _outcome(reply: Reply) -> Literal["scheduled", "dead"]:
    if reply == b"scheduled":
        return "scheduled"
    if reply == b"dead":
        return "dead"
    raise TypeError(f"expected scheduled or dead from the script, not {reply!r}")


def _kind(ids: Sequence[str]) -> Callable[[ErrorReply], EmqError | None]:
    foreign = [id for id in ids if not id.startswith("JOB")]
    return lambda error: WrongNamespace(foreign, error.text) if error.code == "EMQKIND" else None


def _stale(queue: str, id: str, token: int) -> Callable[[ErrorReply], EmqError | None]:
    def refusal(error: ErrorReply) -> EmqError | None:
        if error.code != "EMQSTALE":
            return None
        return JobGone(queue, id) if error.text == "job gone" else StaleToken(queue, id, token)

    return refusal


# --- landing single jobs ----------------------------------------------------------------------------------------------


def enqueue(queue: str, id: str, payload: bytes) -> Call[bool]:
    """Land a job in pending; False if its row already exists."""
    return _script(
        "enqueue",
        [keys.job(queue, id), keys.queue_key(queue, "pending")],
        _bytes(id, payload),
        _flag,
        _kind([id]),
    )


def schedule(queue: str, id: str, payload: bytes, mode: Literal["in", "at"], ms: int) -> Call[bool]:
    """Land a job in schedule, due at server now + `ms` (`in`) or at `ms` unix milliseconds (`at`)."""
    return _script(
        "schedule",
        [keys.job(queue, id), keys.queue_key(queue, "schedule")],
        _bytes(id, payload, mode, ms),
        _flag,
        _kind([id]),
    )


# --- a job's life -----------------------------------------------------------------------------------------------------


def claim(queue: str, lease_ms: int) -> Call[Claim | None]:
    """Pop the smallest pending id under a lease; None if nothing is pending."""

    def read(reply: Reply) -> Claim | None:
        if reply == ():
            return None
        if not isinstance(reply, tuple) or len(reply) < 3:
            raise TypeError(f"expected id, payload and attempts from claim, not {reply!r}")
        id, payload, attempts = reply[:3]
        if not isinstance(id, bytes) or not isinstance(payload, bytes | None):
            raise TypeError(f"expected id and payload from claim, not {reply!r}")
        token = int(attempts) if isinstance(attempts, bytes | int) else 0
        return Claim(queue, to_text(id), payload or b"", token)  # an id without a row has no payload either

    return _script(
        "claim",
        [keys.queue_key(queue, "pending"), keys.queue_key(queue, "active")],
        _bytes(keys.job_prefix(queue), lease_ms),
        read,
    )


def complete(queue: str, id: str, token: int, parent: ParentLink | None, result: bytes) -> Call[bool]:
    """Retire a claimed job; False if it has no row. A flow child also counts for its parent, or leaves it a signal."""
    key_list = [keys.queue_key(queue, "active"), keys.job(queue, id)]
    args: tuple[bytes, ...] = _bytes(id, token, keys.base(queue))
    if parent is not None and parent.queue is None:
        key_list += [
            keys.subkey(queue, parent.id, "dependencies"),
            keys.subkey(queue, parent.id, "processed"),
            keys.job(queue, parent.id),
        ]
        args += _bytes(parent.id, result)
    elif parent is not None and parent.queue is not None:
        key_list += [keys.queue_key(queue, "flow:outbox")]
        args += _bytes(parent.id, result, "xq", parent.queue)
    return _script("complete", key_list, args, _flag, _stale(queue, id, token))


def retry(
    queue: str, id: str, token: int, delay_ms: int, max_attempts: int, error: bytes, parent: ParentLink | None
) -> Call[Literal["scheduled", "dead"]]:
    """Settle a claim as failed: schedule the job again, or mark it dead at `max_attempts` and apply its policy."""
    key_list = [
        keys.queue_key(queue, "active"),
        keys.queue_key(queue, "schedule"),
        keys.queue_key(queue, "dead"),
        keys.job(queue, id),
    ]
    args = _bytes(id, token, delay_ms, max_attempts, error, keys.base(queue))
    if parent is not None and parent.queue is None:
        key_list += [
            keys.subkey(queue, parent.id, "failed"),
            keys.subkey(queue, parent.id, "unsuccessful"),
            keys.subkey(queue, parent.id, "dependencies"),
            keys.job(queue, parent.id),
        ]
        args += _bytes(f"sq:{parent.policy}", parent.id)
    elif parent is not None and parent.queue is not None:
        key_list += [keys.queue_key(queue, "flow:outbox")]
        args += _bytes(f"xq:{parent.policy}", parent.queue, parent.id)

    return _script("retry", key_list, args, _outcome, _stale(queue, id, token))


def promote(queue: str, limit: int) -> Call[int]:
    """Move up to `limit` due jobs from schedule to pending; returns how many."""
    return _script(
        "promote",
        [keys.queue_key(queue, "schedule"), keys.queue_key(queue, "pending")],
        _bytes(keys.base(queue), limit),
        _number,
    )


def reap(queue: str) -> Call[int]:
    """Put up to 100 jobs whose lease lapsed back into pending; returns how many. Their attempts stay."""
    return _script(
        "reap", [keys.queue_key(queue, "active"), keys.queue_key(queue, "pending")], _bytes(keys.base(queue)), _number
    )


def extend_lock(queue: str, id: str, token: int, lease_ms: int) -> Call[int]:
    """Extend a claim's lease to server now + `lease_ms`; 1, or -1 if the job is gone."""
    return _script(
        "extend_lock",
        [keys.queue_key(queue, "active"), keys.job(queue, id)],
        _bytes(id, token, lease_ms),
        _number,
        _stale(queue, id, token),
    )


def extend_locks(queue: str, lease_ms: int, claims: Sequence[tuple[str, int]]) -> Call[tuple[str, ...]]:
    """Extend the leases of many (id, token) pairs by one clock reading; the ids not extended, in argument order."""
    pairs: list[str | int] = []
    for id, token in claims:
        keys.job(queue, id)
        pairs += [id, token]

    def read(reply: Reply) -> tuple[str, ...]:
        if not isinstance(reply, tuple):
            raise TypeError(f"expected a list of ids from extend_locks, not {reply!r}")
        return tuple(to_text(id) for id in reply if isinstance(id, bytes))

    return _script("extend_locks", [keys.queue_key(queue, "active")], _bytes(keys.base(queue), lease_ms, *pairs), read)


def reprocess(queue: str, id: str) -> Call[int]:
    """Put a dead job back into pending, its attempts kept; 1, or -1 if it is gone."""
    return _script(
        "reprocess",
        [keys.job(queue, id), keys.queue_key(queue, "dead"), keys.queue_key(queue, "pending")],
        _bytes(id),
        _number,
        lambda error: NotDead(queue, id) if error.code == "EMQSTATE" else None,
    )


def remove_job(queue: str, id: str, dedup_id: str = "") -> Call[int]:
    """Take a job out of every set and delete its row and logs; 1, or -1 if it is gone."""
    return _script(
        "remove_job",
        [
            keys.job(queue, id),
            *(keys.queue_key(queue, name) for name in ("pending", "active", "schedule", "dead")),
            keys.queue_key(queue, f"de:{dedup_id}"),
        ],
        _bytes(id, dedup_id),
        _number,
        lambda error: JobLocked(queue, id) if error.code == "EMQLOCK" else None,
    )


# --- flows ------------------------------------------------------------------------------------------------------------


def enqueue_flow(
    queue: str,
    parent_id: str,
    payload: bytes,
    children: Sequence[tuple[str, bytes]],
    policies: Sequence[Policy] | None = None,
) -> Call[int]:
    """Land a whole same-queue flow in one step: children claimable, parent held, counter set; returns how many."""
    args: list[str | bytes | int] = [parent_id, payload, len(children)]
    for child_id, child_payload in children:
        args += [child_id, child_payload]
    return _script(
        "enqueue_flow",
        [
            keys.job(queue, parent_id),
            keys.subkey(queue, parent_id, "dependencies"),
            keys.queue_key(queue, "pending"),
            *(keys.job(queue, child_id) for child_id, _ in children),
        ],
        _bytes(*args, *(policies or ())),
        _number,
        _kind([parent_id, *(child_id for child_id, _ in children)]),
    )


def hold_parent(queue: str, id: str, payload: bytes, n: int, link: ParentLink | None = None) -> Call[bool]:
    """Land a parent held, its counter at `n`; `link` is the link to its own parent, for a set that takes one."""
    above = () if link is None else _bytes(link.id, link.queue or "", link.policy)
    return _script(
        "hold_parent",
        [keys.job(queue, id), keys.subkey(queue, id, "dependencies")],
        _bytes(id, payload, n) + above,
        _flag,
        _kind([id]),
    )


def enqueue_flow_child(
    queue: str, id: str, payload: bytes, parent_id: str, parent_queue: str | None, policy: Policy | None = None
) -> Call[bool]:
    """Land one child claimable in its own queue; `parent_queue` is None if the parent is in the same one."""
    return _script(
        "enqueue_flow_child",
        [keys.job(queue, id), keys.queue_key(queue, "pending")],
        _bytes(id, payload, parent_id, parent_queue or "", *([] if policy is None else [policy])),
        _flag,
        _kind([id]),
    )


def flow_deliver(parent_queue: str, parent_id: str, child_id: str, result: bytes) -> Call[bool]:
    """Deliver a cross-queue child's completion on its parent's slot; idempotent: however often, it counts once."""
    keys.job(parent_queue, child_id)
    return _script(
        "flow_deliver",
        [
            keys.subkey(parent_queue, parent_id, "dependencies"),
            keys.subkey(parent_queue, parent_id, "processed"),
            keys.job(parent_queue, parent_id),
        ],
        _bytes(child_id, result, parent_id, keys.base(parent_queue)),
        _flag,
    )


def flow_fail_deliver(parent_queue: str, parent_id: str, child_id: str, error: bytes, policy: str) -> Call[bool]:
    """Deliver a child's death on its parent's slot and apply its policy; idempotent, like `flow_deliver`."""
    keys.job(parent_queue, child_id)
    return _script(
        "flow_fail_deliver",
        [
            keys.subkey(parent_queue, parent_id, "dependencies"),
            keys.subkey(parent_queue, parent_id, "failed"),
            keys.subkey(parent_queue, parent_id, "unsuccessful"),
            keys.job(parent_queue, parent_id),
        ],
        _bytes(child_id, error, policy, keys.base(parent_queue), parent_id),
        _flag,
    )


# --- the native commands, as models -----------------------------------------------------------------------------------


def native_complete(queue: str, id: str, token: int, key_list: Sequence[bytes], args: Sequence[bytes]) -> Call[bool]:
    """The line of `EMQ.COMPLETE` with these keys and arguments."""
    return _script("native_complete", key_list, args, _flag, _native("EMQ.COMPLETE", queue, id, token))


def native_fail(
    queue: str, id: str, token: int, key_list: Sequence[bytes], args: Sequence[bytes]
) -> Call[Literal["scheduled", "dead"]]:
    """The line of `EMQ.FAIL` with these keys and arguments."""
    return _script("native_fail", key_list, args, _outcome, _native("EMQ.FAIL", queue, id, token))


def _native(name: str, queue: str, id: str, token: int) -> Callable[[ErrorReply], EmqError | None]:
    stale = _stale(queue, id, token)

    def refusal(error: ErrorReply) -> EmqError | None:
        if error.code == "EMQSTATE":
            return FlowNotNative(name, f"{error.code} {error.text}")
        return stale(error)

    return refusal
