"""The outbox is a queue's durable list of signals to parents elsewhere; this is its only codec.

    completion   parent_queue NUL parent_id NUL child_id NUL result            (the result may hold any byte)
    failure      NUL fail NUL parent_queue NUL parent_id NUL child_id NUL policy NUL error     (so may the error)

The empty first field tells them apart, since no queue name is empty. Source: Flows dive 03.
"""

from __future__ import annotations

from dataclasses import dataclass

from emqkit import ids, keys
from emqkit.arguments import to_text
from emqkit.errors import IllFormedId, IllFormedQueue
from emqkit.transitions import ParentLink
from emqkit.wire import Steps, command

__all__ = ["Completion", "Entry", "Failure", "Poison", "decode", "encode", "signal_death"]

NUL = b"\0"


@dataclass(frozen=True, slots=True)
class Completion:
    """A cross-queue child is done: deliver its result and count it once."""

    parent_queue: str
    parent_id: str
    child_id: str
    result: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """A child died, or an inner node did: apply the policy (`fp`, or anything else for ignore) once."""

    parent_queue: str
    parent_id: str
    child_id: str
    policy: str
    error: bytes


@dataclass(frozen=True, slots=True)
class Poison:
    """An entry that can never be delivered as it stands, and why."""

    entry: bytes
    why: str


Entry = Completion | Failure | Poison


def encode(entry: Completion | Failure) -> bytes:
    """Encode an entry. Raises `IllFormedId` or `IllFormedQueue` rather than write poison."""
    keys.check_queue(entry.parent_queue)
    ids.check(entry.parent_id)
    ids.check(entry.child_id)
    head = (entry.parent_queue, entry.parent_id, entry.child_id)
    if isinstance(entry, Completion):
        return NUL.join([*map(keys.text, head), entry.result])
    return NUL.join([b"", b"fail", *map(keys.text, (*head, entry.policy)), entry.error])


def decode(entry: bytes) -> Entry:
    """Decode an entry; one that cannot be decoded is `Poison` with the reason, never an exception."""
    failure = entry.startswith(NUL)
    fields = entry.split(NUL, 6 if failure else 3)
    if len(fields) < (7 if failure else 4):
        return Poison(
            entry, f"it has {len(fields) - 1} NULs, and {'a failure has 6' if failure else 'a completion has 3'}"
        )
    rest = fields[-1]
    texts = [to_text(field) for field in fields[:-1]]
    if failure and texts[1] != "fail":
        return Poison(entry, f"its tag is {texts[1]!r}, not 'fail'")
    parent_queue, parent_id, child_id = texts[2:5] if failure else texts
    try:
        keys.check_queue(parent_queue)
        ids.check(parent_id)
        ids.check(child_id)
    except (IllFormedId, IllFormedQueue) as error:
        return Poison(entry, str(error))
    if failure:
        return Failure(parent_queue, parent_id, child_id, texts[5], rest)
    return Completion(parent_queue, parent_id, child_id, rest)


def signal_death(queue: str, id: str, link: ParentLink, error: bytes) -> Steps[None]:
    """Put a fail entry for a dead inner node into its own queue's outbox, to fail the level above. One round trip."""
    entry = encode(Failure(link.queue or queue, link.id, id, link.policy, error))
    yield from command("RPUSH", [keys.queue_key(queue, "flow:outbox")], [entry], lambda reply: reply)
