"""What one transition did: claims, settles, deliveries, landings, extensions.

Read from its calls by the names in their scripts' headers, and from the keyspace before and after. A script is
recognised by its file name; if its header lacks a name needed here it cannot be judged, and `NotInCall` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.errors import BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing
from emqkit.keyspace import Keyspace, Part
from emqkit.scripts import Named, ScriptSet
from emqkit.sim.worlds.world import Owed, World
from emqkit.snapshot import Hash, Text
from emqkit.wire import Call, Done, ErrorReply, Program, Reply

__all__ = [
    "RECORDS",
    "SETTLING",
    "Answer",
    "Delivery",
    "Events",
    "Extension",
    "HandedOut",
    "Move",
    "Row",
    "Settle",
    "changed_parents",
    "placed",
    "recorded",
    "spoilt",
]

LANDS = {
    "enqueue": "id",
    "schedule": "id",
    "enqueue_flow": "parent_id",
    "hold_parent": "parent_id",
    "enqueue_flow_child": "child_id",
}
"""The scripts that land a job, and the name of its id in their headers; `enqueue_flow` also lands each `child_id`."""

SETTLING = frozenset({"complete", "retry"})
COUNTING = frozenset({"reap", "promote"})
"""The scripts that answer how many jobs they moved: 0 means that there was nothing to do, not a refusal."""

ANSWERS: Mapping[Reply, str] = {1: "done", b"scheduled": "scheduled", b"dead": "dead"}
"""What the replies of a successful settle mean."""

RECORDS = ("processed", "unsuccessful", "failed")
"""Where outcomes are recorded at a parent."""

UNSENT = (BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing)
"""The errors that mean that nothing was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A script call and its reply.

    Attributes:
        verb: the script's name.
        queue: whose keys it takes.
        args: its arguments, by name.
        reply: its reply.
    """

    verb: str
    queue: str
    args: Named
    reply: Reply

    @property
    def refused(self) -> bool:
        """Whether it says that it did nothing: an EMQ error, 0 or −1, unless that is a count."""
        if isinstance(self.reply, ErrorReply):
            return self.reply.code.startswith("EMQ")
        return self.reply in (0, -1) and self.verb not in COUNTING


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A claim handed out a job."""

    queue: str
    id: str
    token: int


@dataclass(frozen=True, slots=True)
class Settle:
    """A claim was settled: `answer` is `done`, `scheduled` or `dead`."""

    verb: str
    queue: str
    id: str
    token: int
    answer: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A signal was delivered to its parent, with this reply: 1 if all is well."""

    verb: str
    queue: str
    parent: str
    child: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class Extension:
    """The leases of these ids were extended."""

    queue: str
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Row:
    """A row that a move names, whether or not it was written."""

    queue: str
    id: str


@dataclass(slots=True)
class Events:
    """What a move did.

    Attributes:
        answers: its script calls.
        claims: what its claims handed out.
        settles: the claims it settled.
        deliveries: the signals it delivered to their parents.
        reported: the children it settled, or whose signal it delivered.
        extensions: the leases it extended.
        landed: the rows it names if it lands something.
        lands: whether it is part of a landing: a landing script, or a command of an operation that adds.
        fatal: the parents to which it applies a death that fails them (policy `fp`).
        changed: whether any key changed, including metrics.
        ended: the programs that ended with it, and how.
    """

    answers: list[Answer] = field(default_factory=list)
    claims: list[HandedOut] = field(default_factory=list)
    settles: list[Settle] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    landed: list[Row] = field(default_factory=list)
    fatal: list[Row] = field(default_factory=list)
    lands: bool = False
    changed: bool = False
    ended: tuple[tuple[Program[Any], Done[Any]], ...] = ()

    def done_to(self, verb: str) -> Iterator[Row]:
        """The rows that an operator's script (`reprocess`, `remove_job`) really changed."""
        return (Row(one.queue, one.args.text("id")) for one in self.answers if one.verb == verb and one.reply == 1)


@dataclass(frozen=True)
class Move:
    """One transition as promises see it.

    Attributes:
        kind: `call`, or `lapse`, `due`, `poison`, `re-delivery`, `script flush`.
        program: the operation the call belongs to, or None.
        calls: the calls, with their replies: one, unless they were in MULTI.
        before, after: the keyspace before and after it.
        scripts: the set its calls ran with.
        metrics: whether a metric changed.
        began_paused: whether its operation began while its queue was paused.
        ended: the programs that ended with it, and how.
    """

    kind: str
    program: Program[Any] | None
    calls: tuple[tuple[Call[Any], Reply], ...]
    before: Keyspace
    after: Keyspace
    scripts: ScriptSet
    metrics: bool = False
    began_paused: bool = False
    ended: tuple[tuple[Program[Any], Done[Any]], ...] = ()

    @property
    def name(self) -> str:
        """Its name in sentences: its call if it has one, else its kind."""
        return self.calls[0][0].verb if len(self.calls) == 1 else self.kind

    @cached_property
    def did(self) -> Events:
        """What it did."""
        did = Events(changed=self.metrics or self.before != self.after, ended=self.ended)
        for call, reply in self.calls:
            if call.kind == "script":
                one = Answer(call.verb, _queue(call.keys), self.scripts.view(call).args, reply)
                did.answers.append(one)
                for read in _READ.get(call.verb, ()):
                    read(did, one)
        adds = self.program is not None and self.program.function.__name__ in ("add", "add_bulk")
        if did.lands or (adds and not did.answers):
            did.lands = True
            did.landed += [row for call, _ in self.calls if call.kind == "command" for row in _rows(call.keys)]
        return did


@lru_cache(maxsize=1 << 14)
def _queue(named: tuple[bytes, ...]) -> str:
    """The queue of a call's keys. They all share a slot, so any of them tells."""
    return next((key.queue for key in map(keys.parse, named) if key is not None), "")


@lru_cache(maxsize=1 << 14)
def _rows(named: tuple[bytes, ...]) -> tuple[Row, ...]:
    """The rows among a command's keys."""
    found = [key for key in map(keys.parse, named) if key is not None]
    return tuple(Row(key.queue, key.id) for key in found if key.id is not None and key.name == "row")


# --- one script each --------------------------------------------------------------------------------------------------


def _claim(did: Events, one: Answer) -> None:
    if isinstance(one.reply, tuple) and len(one.reply) >= 3:
        id, _, attempts = one.reply[:3]
        if isinstance(id, bytes) and isinstance(attempts, bytes | int):
            did.claims.append(HandedOut(one.queue, to_text(id), int(attempts)))


def _settle(did: Events, one: Answer) -> None:
    answer = ANSWERS.get(one.reply)
    if answer is not None:
        id, token = one.args.text("id"), one.args["token"]
        did.settles.append(Settle(one.verb, one.queue, id, int(token) if token.isdigit() else -1, answer))
        did.reported.append(id)


def _death(did: Events, one: Answer) -> None:
    fails = one.reply == b"dead" and one.args.get("leg") == b"sq:fp"
    if fails or (one.verb == "flow_fail_deliver" and one.reply == 1 and one.args["policy"] == b"fp"):
        did.fatal.append(Row(one.queue, one.args.text("parent_id")))


def _delivery(did: Events, one: Answer) -> None:
    parent, child = one.args.text("parent_id"), one.args.text("child_id")
    did.deliveries.append(Delivery(one.verb, one.queue, parent, child, one.reply))
    if one.reply == 1:
        did.reported.append(child)


def _extension(did: Events, one: Answer) -> None:
    if one.reply == 1:
        did.extensions.append(Extension(one.queue, frozenset({one.args.text("id")})))


def _extensions(did: Events, one: Answer) -> None:
    if isinstance(one.reply, tuple):
        not_extended = {id for id in one.reply if isinstance(id, bytes)}
        ids = frozenset(to_text(id) for id in _rounds(one.args, "id") if id not in not_extended)
        did.extensions.append(Extension(one.queue, ids))


def _landing(did: Events, one: Answer) -> None:
    did.lands = True
    did.landed.append(Row(one.queue, one.args.text(LANDS[one.verb])))


def _landing_children(did: Events, one: Answer) -> None:
    did.landed += [Row(one.queue, to_text(id)) for id in _rounds(one.args, "child_id")]


def _rounds(args: Named, name: str) -> tuple[bytes, ...]:
    """The values of a repeated name, which the header must have."""
    return args.all(name) if name in args.declared else (args[name],)


_READ: Mapping[str, tuple[Callable[[Events, Answer], None], ...]] = {
    **dict.fromkeys(LANDS, (_landing,)),
    "enqueue_flow": (_landing, _landing_children),
    "claim": (_claim,),
    "complete": (_settle,),
    "retry": (_settle, _death),
    "flow_deliver": (_delivery,),
    "flow_fail_deliver": (_delivery, _death),
    "extend_lock": (_extension,),
    "extend_locks": (_extensions,),
}
"""The reader for each script's calls."""


# --- parents ----------------------------------------------------------------------------------------------------------


def changed_parents(world: World, move: Move) -> Iterator[tuple[Owed, Part, Part]]:
    """The declared parents in queues that a move changed, with their queue before and after."""
    for owed in world.owed.values():
        before, after = move.before[owed.queue], move.after[owed.queue]
        if before is not after:
            yield owed, before, after


def placed(part: Part, id: str) -> str:
    """The sets that hold an id, as words to follow `in`."""
    return " and in ".join(part.places(id)) or "no set"


def recorded(part: Part, parent: str, child: str, among: Iterable[str] = RECORDS) -> bool:
    """Whether a child's outcome is in one of these hashes of its parent."""
    return any(child in part.hash(parent, name) for name in among)


def spoilt(keyspace: Keyspace, queue: str, parent: str) -> bool:
    """Whether a parent's own keys have wrong types, so that nothing can be delivered to it: that is not a drop."""
    of = keyspace[queue].of(parent)
    return any(name in of and not isinstance(of[name], Hash) for name in (*RECORDS, "row")) or (
        "dependencies" in of and not isinstance(of["dependencies"], Text)
    )
