"""Operations and actors of one's own, without a script: some as they should be, some that break a promise."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from emqkit import keys, outbox
from emqkit.flows import Flow
from emqkit.keyspace import FAR_MS
from emqkit.outbox import Completion
from emqkit.sim import Worker
from emqkit.sim.worlds.actors import Actor, Choice, Kit
from emqkit.transitions import Claim, flow_deliver, hold_parent
from emqkit.wire import Call, Done, Flush, Program, Steps, command, operation


def told(verb: str, key: bytes, *args: str | bytes) -> Call[Any]:
    return command(verb, [key], [a if isinstance(a, bytes) else a.encode() for a in args], lambda reply: reply)


def at(queue: str, name: str) -> bytes:
    return keys.queue_key(queue, name)


def _items(reply: Any) -> tuple[bytes, ...]:
    return tuple(reply)


def _pairs(reply: Any) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(zip(reply[::2], reply[1::2], strict=True))


@dataclass(frozen=True)
class Hands:
    """Operations of one's own, some as they should be, some not."""

    server: Any

    @operation
    def renew(self, queue: str) -> Steps[None]:
        """Give every lease of a queue a new deadline, whoever holds it."""
        active = keys.queue_key(queue, "active")
        for id in (yield from command("ZRANGE", [active], [b"0", b"-1"], _items)):
            yield from command("ZADD", [active], [b"XX", b"%d" % 10**14, id], lambda reply: reply)

    @operation
    def put_off(self, queue: str) -> Steps[None]:
        """Put off every delayed job."""
        schedule = keys.queue_key(queue, "schedule")
        for id in (yield from command("ZRANGE", [schedule], [b"0", b"-1"], _items)):
            yield from command("ZADD", [schedule], [b"XX", b"%d" % 10**14, id], lambda reply: reply)

    @operation
    def put_off_in_two(self, queue: str) -> Steps[None]:
        """Take the first delayed job out, and put it back for later."""
        schedule = keys.queue_key(queue, "schedule")
        for id, _ in (yield from command("ZPOPMIN", [schedule], [], _pairs)):
            yield from command("ZADD", [schedule], [b"%d" % 10**14, id], lambda reply: reply)

    @operation
    def swap(self, queue: str, held: str, free: str) -> Steps[None]:
        """Hold one job and let another go, in one step."""
        states = ((held, b"awaiting_children"), (free, b"pending"))
        sets = tuple(told("HSET", keys.job(queue, id), b"state", state) for id, state in states)
        yield from Flush(sets, atomic=True)

    @operation
    def look(self, queue: str) -> Steps[None]:
        """Look at a queue, and do nothing."""
        yield from command("ZCARD", [keys.queue_key(queue, "active")], [], lambda reply: reply)

    @operation
    def take_back(self, queue: str) -> Steps[None]:
        """A reaper without a script: what lapsed goes to pending, in MULTI."""
        active, pending = keys.queue_key(queue, "active"), keys.queue_key(queue, "pending")
        for id in (yield from command("ZRANGEBYSCORE", [active], [b"-inf", b"1000"], _items)):
            yield from Flush(
                (
                    command("ZREM", [active], [id], lambda reply: reply),
                    command("ZADD", [pending], [b"0", id], lambda reply: reply),
                    command("HSET", [keys.job(queue, id.decode())], [b"state", b"pending"], lambda reply: reply),
                ),
                atomic=True,
            )

    @operation
    def finish(self, queue: str, id: str) -> Steps[str]:
        """A completion that looks at no token and tells no parent."""
        yield from Flush((told("ZREM", at(queue, "active"), id), told("DEL", keys.job(queue, id))), atomic=True)
        return id

    @operation
    def bury(self, queue: str, id: str) -> Steps[str]:
        """A failure that tells no parent."""
        died = told("HSET", keys.job(queue, id), "state", "dead")
        buried = (told("ZREM", at(queue, "active"), id), died, told("ZADD", at(queue, "dead"), "0", id))
        yield from Flush(buried, atomic=True)
        return id

    @operation
    def take_last(self, queue: str) -> Steps[Claim | None]:
        """A claim of the largest id, whatever is paused."""
        pending = at(queue, "pending")
        for raw in (yield from told("ZRANGE", pending, "-1", "-1")):
            id = raw.decode()
            made = yield from Flush(
                (
                    told("ZREM", pending, id),
                    told("HINCRBY", keys.job(queue, id), "attempts", "1"),
                    told("HSET", keys.job(queue, id), "state", "active"),
                    told("ZADD", at(queue, "active"), b"%d" % FAR_MS, id),
                ),
                atomic=True,
            )
            return Claim(queue, id, b"", int(str(made[1])))
        return None

    @operation
    def erase(self, queue: str, id: str) -> Steps[None]:
        """A removal."""
        taken = tuple(told("ZREM", at(queue, name), id) for name in keys.SETS)
        yield from Flush((*taken, told("DEL", keys.job(queue, id))), atomic=True)

    @operation
    def revive(self, queue: str, id: str) -> Steps[None]:
        """Another life for a dead job."""
        dead = yield from told("ZSCORE", at(queue, "dead"), id)
        if dead is not None:
            back = told("HSET", keys.job(queue, id), "state", "pending")
            revived = (told("ZREM", at(queue, "dead"), id), back, told("ZADD", at(queue, "pending"), "0", id))
            yield from Flush(revived, atomic=True)

    @operation
    def deliver(self, queue: str) -> Steps[None]:
        """A Pump's pass that counts whenever it delivers: no first record."""
        box = at(queue, "flow:outbox")
        for raw in (yield from told("LRANGE", box, "0", "-1")):
            parent_queue, parent, child, result = raw.decode().split("\0")
            yield from Flush(
                (
                    told("HSET", keys.subkey(parent_queue, parent, "processed"), child, result),
                    told("DECR", keys.subkey(parent_queue, parent, "dependencies")),
                ),
                atomic=True,
            )
            yield from told("LREM", box, "1", raw)

    @operation
    def add_half(self, queue: str, flow: Flow) -> Steps[str]:
        """An add that forgets the children."""
        yield from hold_parent(queue, str(flow.id), b"order", len(flow.children))
        return "added"

    @operation
    def sweep(self, queue: str, kind: str) -> Steps[None]:
        """A Pump that puts aside what it cannot deliver; as a string only its length."""
        box, aside = at(queue, "flow:outbox"), at(queue, "flow:poison")
        for raw in (yield from told("LRANGE", box, "0", "0")):
            entry = outbox.decode(raw)
            if isinstance(entry, Completion):
                yield from flow_deliver(entry.parent_queue, entry.parent_id, entry.child_id, entry.result)
                yield from told("LREM", box, "1", raw)
            else:
                put = {
                    "list": told("RPUSH", aside, raw),
                    "zset": told("ZADD", aside, "1", raw),
                    "hash": told("HSET", aside, raw, "1"),
                    "string": told("SET", aside, b"%d bytes" % len(raw)),
                }
                yield from Flush((put[kind], told("LREM", box, "1", raw)), atomic=True)


@dataclass(frozen=True)
class Finisher(Worker):
    """Settles by an operation of its own."""

    by: str = "finish"

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        if isinstance(done.value, Claim):
            return (Choice(getattr(Hands(kit.server), self.by).program(self.queue, done.value.id), done.value),)
        return self.begin(kit)


@dataclass(frozen=True)
class Taker(Worker):
    """Claims by an operation of its own."""

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(Hands(kit.server).take_last.program(self.queue)),)


@dataclass(frozen=True)
class Once(Actor):
    """Does one thing of its own, once."""

    what: str
    args: tuple[Any, ...]

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(getattr(Hands(kit.server), self.what).program(*self.args)),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        return (Choice(None),)


@dataclass(frozen=True)
class Pauser(Actor):
    """Pauses a queue and resumes it, for ever."""

    queue: str
    resumes: bool = True

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(kit.jobs.pause.program(self.queue), "paused"),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        if not self.resumes:
            return (Choice(None),)
        return (Choice(kit.jobs.resume.program(self.queue)),) if memory == "paused" else self.begin(kit)


@dataclass(frozen=True)
class Hoarder(Worker):
    """Keeps what it claims."""

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        return self.begin(kit) if done.value is None else (Choice(None, done.value),)


@dataclass(frozen=True)
class Falling(Worker):
    """Goes down with what it claims, and comes up again knowing nothing of it."""

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        return self.begin(kit)
