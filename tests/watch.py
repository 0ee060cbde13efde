"""What tests need to see: what goes over the wire, what is left behind, and time gone by without waiting for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from emqkit import keys
from emqkit.errors import EmqError, ReplyLost, Unreachable
from emqkit.servers import Server
from emqkit.snapshot import Snapshot, capture
from emqkit.wire import Flush, Reply

P, Q, R, A, B, C, D, E, F = (f"JOB0000000000{letter}" for letter in "PQRABCDEF")
FOREIGN = "USR0000000000A"
"""Well-formed, and no job's."""
ILL_FORMED = (
    "",
    "JOB",
    "JOB0000000000",
    "JOB0000000000-",
    "job0000000000A",
    "JOBAzL8n0Y58m8",
    "JOB0000000000é",
    b"JOB",
    7,
)
EVERY_BYTE = bytes(range(256)) + b"\xff\0\r\n\0"

Commands = tuple[tuple[bytes, ...], ...]


@contextlib.contextmanager
def wire(server: Server) -> Iterator[list[Commands]]:
    """Every write to the server meanwhile: the commands that went out together."""
    sent: list[Commands] = []
    exchange = server.exchange

    def watched(commands: Sequence[tuple[bytes, ...]], what: str) -> list[Reply]:
        sent.append(tuple(commands))
        return exchange(commands, what)

    server.exchange = watched  # type: ignore[method-assign]
    try:
        yield sent
    finally:
        del server.exchange


@contextlib.contextmanager
def refused_unsent(server: Server, *kinds: type[EmqError], match: str | None = None) -> Iterator[list[EmqError]]:
    """The block raises one of these before anything is sent, so that no key changes."""
    before = everything(server)
    caught: list[EmqError] = []
    with wire(server) as sent, pytest.raises(kinds, match=match) as info:
        yield caught
    caught.append(info.value)
    assert sent == []
    assert everything(server) == before


@contextlib.contextmanager
def unchanged(server: Server, *kinds: type[EmqError], match: str | None = None) -> Iterator[None]:
    """The block may send, and changes no key; it raises one of these, if any are given."""
    before = everything(server)
    if kinds:
        with pytest.raises(kinds, match=match):
            yield
    else:
        yield
    assert everything(server) == before


@contextlib.contextmanager
def fault(server: Server, happens: Callable[[Flush[Any]], str | None]) -> Iterator[None]:
    """For each flush `happens` may name a fault: `cut` (not sent: Unreachable), or `lost` (done, and ReplyLost)."""
    round_trip = server.round_trip

    def faulty(flush: Flush[Any]) -> tuple[Reply, ...]:
        which = happens(flush)
        if which == "cut":
            raise Unreachable(server.url, "cut by the test")
        replies = round_trip(flush)
        if which == "lost":
            raise ReplyLost(server.url, flush.calls[0].verb)
        return replies

    server.round_trip = faulty  # type: ignore[method-assign]
    try:
        yield
    finally:
        del server.round_trip


def at(place: int, which: str, verb: str | None = None) -> Callable[[Flush[Any]], str | None]:
    """This fault at the nth flush (from 1), of those with this verb if one is given."""
    seen = 0

    def happens(flush: Flush[Any]) -> str | None:
        nonlocal seen
        if verb is None or any(call.verb == verb for call in flush.calls):
            seen += 1
            if seen == place:
                return which
        return None

    return happens


def lapse(server: Server, queue: str) -> None:
    """Every lease of the queue lies in the past."""
    _into_the_past(server, f"emq:{{{queue}}}:active")


def fall_due(server: Server, queue: str) -> None:
    """Everything scheduled in the queue is due, in the order it was."""
    _into_the_past(server, f"emq:{{{queue}}}:schedule")


def _into_the_past(server: Server, key: str) -> None:
    for place, member in enumerate(server.client.execute_command("ZRANGE", key, 0, -1), start=1):
        server.client.zadd(key, {member: place})


def row(server: Server, queue: str, id: str) -> dict[bytes, bytes]:
    """The fields of a job's row; empty without one."""
    return dict(capture(server).hash(f"emq:{{{queue}}}:job:{id}".encode()))


def outbox(server: Server, queue: str) -> tuple[bytes, ...]:
    """The queue's signals to parents elsewhere, oldest first."""
    return capture(server).items(f"emq:{{{queue}}}:flow:outbox".encode())


def members(server: Server, queue: str, name: str) -> list[str]:
    """Who stands in one of the queue's sets, in its order."""
    return [member.decode() for member in capture(server).ranked(f"emq:{{{queue}}}:{name}".encode())]


def counter(server: Server, queue: str, id: str) -> int | None:
    """A parent's counter of outstanding children; None without one."""
    text = capture(server).text(f"emq:{{{queue}}}:job:{id}:dependencies".encode())
    return None if text is None else int(text)


def metric(server: Server, queue: str, name: str) -> int:
    """How many jobs completed, or failed, by the queue's metrics."""
    return int(capture(server).hash(f"emq:{{{queue}}}:metrics:{name}".encode()).get(b"count", 0))


OURS: set[str] = set()
"""The queues that the running test made up, for servers where others have keys, too."""


def everything(server: Server) -> Snapshot:
    """The whole keyspace; of somebody's server, what is the test's."""
    seen = capture(server)
    if server.kind != "live":
        return seen
    return replace(seen, entries=tuple((key, value) for key, value in seen.entries if _queue_of(key) in OURS))


def _queue_of(key: bytes) -> str | None:
    parsed = keys.parse(key)
    return None if parsed is None else parsed.queue
