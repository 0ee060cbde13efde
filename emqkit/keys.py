"""Builds every key of the protocol; no key is built anywhere else.

| key | type | written by |
| --- | --- | --- |
| `emq:{q}:pending` | zset | landing, promote, reap, reprocess, every release; emptied by claim |
| `emq:{q}:active` | zset | claim, extend_lock; score = lease deadline in server milliseconds |
| `emq:{q}:schedule` | zset | schedule, retry; score = due time in server milliseconds |
| `emq:{q}:dead` | zset | retry, flow_fail_deliver |
| `emq:{q}:job:<id>` | hash | the row: state, attempts, payload, and what flows and failures add |
| `…:dependencies` `…:processed` `…:failed` `…:unsuccessful` | string, 3 hashes | the fan-in of the parent `<id>` |
| `…:logs` | list | handlers |
| `emq:{q}:flow:outbox` | list | complete and retry of cross-queue children; trimmed by the Pump |
| `emq:{q}:meta` | hash | pause and resume |
| `emq:{q}:metrics:completed` `emq:{q}:metrics:failed` | hash | complete and retry |

Source: Flows dives 01 and 03.
"""

from __future__ import annotations

from dataclasses import dataclass

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from emqkit import ids
from emqkit.errors import IllFormedQueue

__all__ = [
    "SETS",
    "SLOTS",
    "ParsedKey",
    "base",
    "check_queue",
    "job",
    "job_prefix",
    "parse",
    "queue_key",
    "slot",
    "subkey",
    "text",
]

SLOTS = REDIS_CLUSTER_HASH_SLOTS

SETS = ("pending", "active", "schedule", "dead")
"""The four state sets of a queue."""


def check_queue(queue: object) -> str:
    """Return `queue` if it can be part of a key.

    Raises:
        IllFormedQueue: it is not text, is empty, or holds NUL, `{` or `}`.
    """
    if not isinstance(queue, str):
        raise IllFormedQueue(queue, f"it is {type(queue).__name__}, not text")
    if not queue:
        raise IllFormedQueue(queue, "it is empty")
    for character, name in (("\0", "NUL"), ("{", "'{'"), ("}", "'}'")):
        if character in queue:
            raise IllFormedQueue(queue, f"it holds {name}")
    if not is_writable(queue):
        raise IllFormedQueue(queue, "it holds half of a surrogate pair, which UTF-8 cannot encode")
    return queue


def is_writable(value: str) -> bool:
    """Whether `text` can encode it, which fails for half a surrogate pair that stands for no byte."""
    try:
        text(value)
    except UnicodeEncodeError:
        return False
    return True


def text(value: str) -> bytes:
    """Encode as UTF-8, lossless for text decoded from arbitrary bytes (`surrogateescape`)."""
    return value.encode("utf-8", "surrogateescape")


def base(queue: str) -> bytes:
    """`emq:{queue}:`, what every key of the queue begins with. Raises `IllFormedQueue`."""
    return text(f"emq:{{{check_queue(queue)}}}:")


def queue_key(queue: str, name: str) -> bytes:
    """A key of the queue itself, such as `pending` or `flow:outbox`. Raises `IllFormedQueue`."""
    return base(queue) + text(name)


def job_prefix(queue: str) -> bytes:
    """`emq:{queue}:job:`, what the claim script puts before an id it popped."""
    return base(queue) + b"job:"


def job(queue: str, id: str) -> bytes:
    """The row of a job. Raises `IllFormedId` or `IllFormedQueue`: the gate of dive 01, before anything is sent."""
    return job_prefix(queue) + text(ids.check(id))


def subkey(queue: str, id: str, name: str) -> bytes:
    """A flow subkey of a parent's row, such as `dependencies`."""
    return job(queue, id) + b":" + text(name)


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """A parsed key: its queue, and either the name of a queue's own key, or the id and name of a job's."""

    queue: str
    name: str
    id: str | None = None


def parse(key: bytes) -> ParsedKey | None:
    """Parse a key; None if it is not one of the protocol's.

    `emq:{q}:pending` has name `pending`; a row has name `row`; `…:processed` has name `processed`.
    """
    whole = key.decode("utf-8", "surrogateescape")
    if not whole.startswith("emq:{"):
        return None
    queue, closed, rest = whole[5:].partition("}:")
    if not closed or any(character in queue for character in "{}\0") or not queue:
        return None
    if not rest.startswith("job:"):
        return ParsedKey(queue, rest)
    id, colon, name = rest[4:].partition(":")
    if colon and name in ("", "row"):  # neither is the row (whose name is `row` here) nor any other key of a job
        return ParsedKey(queue, rest)
    return ParsedKey(queue, name or "row", id)


def slot(key: str | bytes) -> int:
    """The cluster slot of a key, 0–16383: CRC16-XMODEM of its hashtag, or of the whole key when it has none.

    The hashtag is what stands between the first `{` and the next `}`; an empty one does not count, and later braces
    are not tried (Valkey's cluster specification; Flows dive 03).
    """
    return key_slot(text(key) if isinstance(key, str) else key)
