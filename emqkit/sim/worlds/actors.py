"""The actors of a world: each runs real operations one after the other, and chooses between them.

An actor's state is a program, its replies so far, and a little memory (the claim a worker holds). When a program ends,
the actor says what may come next; if that is several things, all are tried. A crash discards the replies and the memory
and the actor restarts, except for what it would know anyway: a producer knows what it wanted to add.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from emqkit.errors import JobGone, NotDead, ReplyLost
from emqkit.flows import Flow, Flows
from emqkit.jobs import Claim, Jobs
from emqkit.keyspace import FAR_MS
from emqkit.pump import Pump
from emqkit.scripts import ScriptSet
from emqkit.servers.base import Server
from emqkit.wire import Done, Program

__all__ = [
    "Actor",
    "Choice",
    "Deed",
    "Kit",
    "Operator",
    "Producer",
    "Promoter",
    "PumpActor",
    "Reaper",
    "Repeating",
    "Role",
    "Worker",
    "WorkerActor",
]

Role = Literal["worker", "reaper", "pump", "promoter", "producer", "operator", "other"]


class Kit:
    """The operations of one server, for actors; always the same objects, so that programs compare equal.

    Args:
        server: where the actor's calls are made.
        scripts: their script set, if not the server's.
    """

    def __init__(self, server: Server, scripts: ScriptSet | None = None) -> None:
        self.server = server
        if scripts is not None:
            self.server = copy(server)  # the same place, with other scripts
            self.server.scripts = scripts
        self.jobs = Jobs(self.server)
        self.flows = Flows(self.server)
        self._pumps: dict[tuple[str, int], Pump] = {}

    def pump(self, queue: str, batch: int = 100) -> Pump:
        """The Pump of a queue."""
        return self._pumps.setdefault((queue, batch), Pump(self.server, queue, batch=batch))


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing an actor may do next.

    Attributes:
        program: what it runs; None if it stops for good.
        memory: what it remembers meanwhile; hashable, and equal in equal situations.
        label: the name of the choice in a history; empty if there is no other.
    """

    program: Program[Any] | None
    memory: Hashable = None
    label: str = ""


REST = (Choice(None),)


@dataclass(frozen=True)
class Actor(ABC):
    """The base of all actors, also of your own; they are frozen, so that equal actors are interchangeable.

    Attributes:
        scripts: the script set of its calls, if not the explored one: a fleet may be mixed.
        declares: what its own operations do on an operator's word, `remove` and `reprocess` with their ids: by what
            they do to the keyspace it might be something else. (An `Operator` has deeds.)
    """

    role: ClassVar[Role] = "other"

    scripts: ScriptSet | None = field(default=None, kw_only=True)
    declares: tuple[Deed, ...] = field(default=(), kw_only=True)

    @property
    def title(self) -> str:
        """Its name in a history."""
        return type(self).__name__.lower()

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues it serves in its role."""
        return ()

    @abstractmethod
    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        """What it may do first, and after a crash."""

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        """What it may do after a program ended: `done` has its value or its error."""
        return self.begin(kit)

    def crashed(self, kit: Kit, memory: Hashable) -> tuple[Choice, ...]:
        """What it may do after a crash; by default it remembers nothing."""
        return self.begin(kit)


@dataclass(frozen=True)
class Repeating(Actor):
    """An actor that repeats one operation forever: `Repeating("auditor", lambda kit: Audit(kit.server).run.program())`.

    Attributes:
        name: its name in a history.
        program: makes the program from the kit; the operation's owner must compare equal from call to call.
        serves: the queues it serves, if it stands in for a role.
        as_role: the role it stands in for.
    """

    name: str
    program: Callable[[Kit], Program[Any]]
    serves: tuple[str, ...] = ()
    as_role: Role = "other"

    @property
    def role(self) -> Role:  # type: ignore[override]
        return self.as_role

    @property
    def title(self) -> str:
        return self.name

    @property
    def queues(self) -> tuple[str, ...]:
        return self.serves

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(self.program(kit)),)


@dataclass(frozen=True)
class _OfQueue(Actor):
    queue: str

    @property
    def title(self) -> str:
        return f"{self.role} of {self.queue}"

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.queue,)


@dataclass(frozen=True)
class WorkerActor(_OfQueue):
    """Claims a job and settles it; after a lost reply it settles again with the same token.

    Attributes:
        queue: where it claims.
        outcome: `complete`, `fail`, or `either`: both are tried.
        max_attempts: how many claims a job gets before a failure makes it dead, 1 or more.
        heartbeats: whether it may extend its lease, any number of times, before it settles.
        together: whether it extends by `extend_locks`, like a worker with many claims.
    """

    role: ClassVar[Role] = "worker"

    outcome: Literal["complete", "fail", "either"] = "complete"
    max_attempts: int = 1
    heartbeats: bool = False
    together: bool = False

    @property
    def title(self) -> str:
        return f"{'heartbeating ' if self.heartbeats else ''}worker of {self.queue}"

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(kit.jobs.claim.program(self.queue, FAR_MS)),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        if isinstance(done.value, Claim):
            return self._with(kit, done.value)
        if isinstance(memory, Claim):
            extended = ended.function.__name__ in ("extend_lock", "extend_locks")
            if isinstance(done.error, ReplyLost):
                return self._with(kit, memory) if extended else (Choice(ended, memory, "again"),)
            if extended and done.error is None and done.value != (memory.id,):
                return self._with(kit, memory)
        return self.begin(kit)

    def _with(self, kit: Kit, claim: Claim) -> tuple[Choice, ...]:
        choices = []
        if self.outcome != "fail":
            choices.append(Choice(kit.jobs.complete.program(self.queue, claim), claim, "it succeeds"))
        if self.outcome != "complete":
            failing = kit.jobs.retry.program(
                self.queue, claim, error="boom", max_attempts=self.max_attempts, delay_ms=FAR_MS
            )
            choices.append(Choice(failing, claim, "it fails"))
        if self.heartbeats:
            extending: Program[Any] = kit.jobs.extend_lock.program(self.queue, claim, lease_ms=FAR_MS)
            if self.together:
                extending = kit.jobs.extend_locks.program(self.queue, [claim], lease_ms=FAR_MS)
            choices.append(Choice(extending, claim, "a heartbeat"))
        return tuple(choices)


Worker = WorkerActor
"""Its name of old; `emqkit.Worker` is the real one."""


@dataclass(frozen=True)
class Reaper(_OfQueue):
    """Reaps the lapsed leases of a queue, forever."""

    role: ClassVar[Role] = "reaper"

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(kit.jobs.reap.program(self.queue)),)


@dataclass(frozen=True)
class Promoter(_OfQueue):
    """Promotes the due jobs of a queue, forever. (A Pump does that too.)"""

    role: ClassVar[Role] = "promoter"

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(kit.jobs.promote.program(self.queue)),)


@dataclass(frozen=True)
class PumpActor(_OfQueue):
    """Sweeps a queue, forever; `batch` entries per pass."""

    role: ClassVar[Role] = "pump"

    batch: int = 100

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return (Choice(kit.pump(self.queue, self.batch).sweep.program()),)


@dataclass(frozen=True)
class Producer(Actor):
    """Lands flows by `flows.add` one after the other, or by one `flows.add_bulk`.

    After a crash anywhere, or a lost reply, it repeats the same with the same ids.

    Attributes:
        queue: the parents' queue.
        flows: what it lands, with all ids given.
        bulk: whether by one `add_bulk`.
        gives_up: whether it may also give up instead.
        repeats: how often it repeats an add that was answered, like a caller behind a retrying proxy.
    """

    role: ClassVar[Role] = "producer"

    queue: str
    flows: tuple[Flow, ...]
    bulk: bool = False
    gives_up: bool = False
    repeats: int = 0

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.queue,)

    @property
    def title(self) -> str:
        return "producer"

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return self._adding(kit, 0, 0)

    def _adding(self, kit: Kit, at: int, repeated: int, label: str = "") -> tuple[Choice, ...]:
        if at >= (1 if self.bulk else len(self.flows)):
            return REST
        if self.bulk:
            return (Choice(kit.flows.add_bulk.program(self.queue, self.flows), (at, repeated), label),)
        return (Choice(kit.flows.add.program(self.queue, self.flows[at]), (at, repeated), label),)

    def _again(self, kit: Kit, memory: Hashable) -> tuple[Choice, ...]:
        at, repeated = memory if isinstance(memory, tuple) else (0, 0)
        again = self._adding(kit, at, repeated, "the same add again")
        return (*again, Choice(None, None, "it gives up")) if self.gives_up else again

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        if isinstance(done.error, ReplyLost):
            return self._again(kit, memory)
        at, repeated = memory if isinstance(memory, tuple) else (0, 0)
        following = self._adding(kit, at + 1, 0)
        if repeated < self.repeats:
            return (*self._adding(kit, at, repeated + 1, "the same add once more"), *following)
        return following

    def crashed(self, kit: Kit, memory: Hashable) -> tuple[Choice, ...]:
        return self._again(kit, memory)


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing an operator does: `reprocess`, `remove` (with an id), `pause` or `resume`."""

    verb: Literal["reprocess", "remove", "pause", "resume"]
    queue: str
    id: str = ""


@dataclass(frozen=True)
class Operator(Actor):
    """Does its deeds in order, each when possible: if a job is not dead yet, it tries again later.

    After a crash or a lost reply it repeats the deed.
    """

    role: ClassVar[Role] = "operator"

    deeds: tuple[Deed, ...]

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        return self._doing(kit, 0)

    def _doing(self, kit: Kit, at: int) -> tuple[Choice, ...]:
        if at >= len(self.deeds):
            return REST
        deed = self.deeds[at]
        if deed.verb == "reprocess":
            return (Choice(kit.jobs.reprocess.program(deed.queue, deed.id), at),)
        if deed.verb == "remove":
            return (Choice(kit.jobs.remove.program(deed.queue, deed.id), at),)
        verb = kit.jobs.pause if deed.verb == "pause" else kit.jobs.resume
        return (Choice(verb.program(deed.queue), at),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        at = memory if isinstance(memory, int) else 0
        if isinstance(done.error, ReplyLost | NotDead | JobGone):
            return self._doing(kit, at)
        return self._doing(kit, at + 1)

    def crashed(self, kit: Kit, memory: Hashable) -> tuple[Choice, ...]:
        return self._doing(kit, memory if isinstance(memory, int) else 0)
