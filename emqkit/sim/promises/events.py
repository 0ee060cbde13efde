"""What one transition did: claims, settles, deliveries, landings, extensions.

Read from its calls by the names in their scripts' headers, and from the keyspace before and after. A script is
recognised by its file name; if its header lacks a name needed here it cannot be judged, and `NotInCall` says which.

What is done otherwise, by scripts or commands of one's own, is known by what it does to the keyspace: an id that goes
from pending to active is claimed; one that somebody claimed, and takes out of its queue, is settled; a row that appears
whole is landed; a parent that changes is delivered to. Removing and reprocessing look like other things, so an actor
declares them (`Actor.declares`); what might be either is a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from emqkit import keys
from emqkit.arguments import to_bytes, to_text
from emqkit.errors import BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing
from emqkit.keyspace import WHOLE, Keyspace, Part
from emqkit.outbox import Poison
from emqkit.scripts import Named, ScriptSet
from emqkit.sim.worlds.actors import Deed
from emqkit.sim.worlds.world import Owed, World
from emqkit.snapshot import Hash, Text
from emqkit.wire import Call, Done, ErrorReply, Program, Reply

__all__ = [
    "RECORDS",
    "SETTLING",
    "Answered",
    "Delivery",
    "Events",
    "Extension",
    "HandedOut",
    "Row",
    "Settle",
    "Transition",
    "changed_parents",
    "landings",
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

READ_BY_NAME = frozenset(
    {*LANDS, *SETTLING, "claim", "flow_deliver", "flow_fail_deliver", "extend_lock", "extend_locks"}
    | {"reap", "promote", "reprocess", "remove_job"}
)
"""The scripts whose calls and replies say what they did."""

ANSWERS: Mapping[Reply, str] = {1: "done", b"scheduled": "scheduled", b"dead": "dead"}
"""What the replies of a successful settle mean."""

RECORDS = ("processed", "unsuccessful", "failed")
"""Where outcomes are recorded at a parent."""

UNSENT = (BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing)
"""The errors that mean that nothing was sent."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A script call and its reply.

    Attributes:
        verb: the script's name.
        queue: whose keys it takes.
        args: its arguments, by name.
        reply: its reply.
        listed: the replies that its header lists.
    """

    verb: str
    queue: str
    args: Named
    reply: Reply
    listed: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether it says that it did nothing: an EMQ error; 0 or −1 too, unless its header lists no number."""
        if isinstance(self.reply, ErrorReply):
            return self.reply.code.startswith("EMQ")
        return self.reply in (0, -1) and any(re.match(r"-?\d+\b", text) for text in self.listed)


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
    """The leases of these ids were extended, by so many milliseconds from now where that was asked for."""

    queue: str
    ids: frozenset[str]
    lease_ms: int | None = None


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
        removed: the rows that an operator removed.
        revived: the rows that an operator reprocessed.
        doubts: what it may have done without anybody being able to tell: who, what, and to which id.
        changed: whether any key changed, including metrics.
        ended: the programs that ended with it, and how.
    """

    answers: list[Answered] = field(default_factory=list)
    claims: list[HandedOut] = field(default_factory=list)
    settles: list[Settle] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    landed: list[Row] = field(default_factory=list)
    fatal: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    revived: list[Row] = field(default_factory=list)
    doubts: list[tuple[str, str, str]] = field(default_factory=list)
    lands: bool = False
    changed: bool = False
    ended: tuple[tuple[Program[Any], Done[Any]], ...] = ()


@dataclass(frozen=True)
class Transition:
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
        held: the claims that whoever moves holds: queue, id, token.
        declared: what whoever moves declares to do on an operator's word.
        earlier: the calls that its operation made before, with their replies, where it ended with this move.
        written: the deadlines ahead that it wrote, each with how far ahead in milliseconds; None when nobody looked.
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
    held: frozenset[tuple[str, str, int]] = frozenset()
    declared: tuple[Deed, ...] = ()
    earlier: tuple[tuple[Call[Any], Reply], ...] = ()
    written: Mapping[tuple[str, str, str], float] | None = None

    @property
    def foreign(self) -> bool:
        """Whether an actor moved by a command, or by a script that is none of those that are read by name."""
        return self.program is not None and any(
            call.kind == "command" or call.verb not in READ_BY_NAME for call, _ in self.calls
        )

    @property
    def name(self) -> str:
        """Its name in sentences: its operation if it is foreign, its call if it has one, else its kind."""
        if self.foreign and self.program is not None:
            return self.program.name
        return self.calls[0][0].verb if len(self.calls) == 1 else self.kind

    @cached_property
    def did(self) -> Events:
        """What it did."""
        did = Events(changed=self.metrics or self.before != self.after, ended=self.ended)
        for call, reply in self.calls:
            if call.kind == "script":
                listed = self.scripts[call.verb].replies
                one = Answered(call.verb, _queue(call.keys), self.scripts.view(call).args, reply, listed)
                did.answers.append(one)
                for read in _READ.get(call.verb, ()):
                    read(did, one)
        adds = self.program is not None and self.program.function.__name__ in ("add", "add_bulk")
        if did.lands or (adds and not did.answers):
            did.lands = True
            did.landed += [row for call, _ in self.calls if call.kind == "command" for row in _rows(call.keys)]
        if self.kind == "call" and self.before != self.after:
            _by_effect(did, self)
        elif self.foreign and self.written:
            _extended(did, self)
        return did


def landings(move: Transition) -> Iterator[Row]:
    """The rows that the calls before it, of the same operation, landed: by a landing script, or by a payload."""
    for call, reply in move.earlier:
        if call.kind == "script" and call.verb in LANDS and not isinstance(reply, ErrorReply):
            yield Row(_queue(call.keys), move.scripts.view(call).args.text(LANDS[call.verb]))
        elif call.kind == "command" and b"payload" in call.args:
            yield from _rows(call.keys)


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


def _claim(did: Events, one: Answered) -> None:
    if isinstance(one.reply, tuple) and len(one.reply) >= 3:
        id, _, attempts = one.reply[:3]
        if isinstance(id, bytes) and isinstance(attempts, bytes | int):
            did.claims.append(HandedOut(one.queue, to_text(id), int(attempts)))


def _settle(did: Events, one: Answered) -> None:
    answer = ANSWERS.get(one.reply)
    if answer is not None:
        id, token = one.args.text("id"), one.args["token"]
        did.settles.append(Settle(one.verb, one.queue, id, int(token) if token.isdigit() else -1, answer))
        did.reported.append(id)


def _death(did: Events, one: Answered) -> None:
    fails = one.reply == b"dead" and one.args.get("leg") == b"sq:fp"
    if fails or (one.verb == "flow_fail_deliver" and one.reply == 1 and one.args["policy"] == b"fp"):
        did.fatal.append(Row(one.queue, one.args.text("parent_id")))


def _delivery(did: Events, one: Answered) -> None:
    parent, child = one.args.text("parent_id"), one.args.text("child_id")
    did.deliveries.append(Delivery(one.verb, one.queue, parent, child, one.reply))
    if one.reply == 1:
        did.reported.append(child)


def _extension(did: Events, one: Answered) -> None:
    if one.reply == 1:
        did.extensions.append(Extension(one.queue, frozenset({one.args.text("id")}), _lease(one)))


def _extensions(did: Events, one: Answered) -> None:
    if isinstance(one.reply, tuple):
        not_extended = {id for id in one.reply if isinstance(id, bytes)}
        ids = frozenset(to_text(id) for id in _rounds(one.args, "id") if id not in not_extended)
        did.extensions.append(Extension(one.queue, ids, _lease(one)))


def _lease(one: Answered) -> int | None:
    lease = one.args.get("lease") or b""
    return int(lease) if lease.isdigit() else None


def _operators(did: Events, one: Answered) -> None:
    if one.reply == 1:
        (did.removed if one.verb == "remove_job" else did.revived).append(Row(one.queue, one.args.text("id")))


def _landing(did: Events, one: Answered) -> None:
    did.lands = True
    did.landed.append(Row(one.queue, one.args.text(LANDS[one.verb])))


def _landing_children(did: Events, one: Answered) -> None:
    did.landed += [Row(one.queue, to_text(id)) for id in _rounds(one.args, "child_id")]


def _rounds(args: Named, name: str) -> tuple[bytes, ...]:
    """The values of a repeated name, which the header must have."""
    return args.all(name) if name in args.declared else (args[name],)


_READ: Mapping[str, tuple[Callable[[Events, Answered], None], ...]] = {
    **dict.fromkeys(LANDS, (_landing,)),
    "enqueue_flow": (_landing, _landing_children),
    "claim": (_claim,),
    "complete": (_settle,),
    "retry": (_settle, _death),
    "flow_deliver": (_delivery,),
    "flow_fail_deliver": (_delivery, _death),
    "extend_lock": (_extension,),
    "extend_locks": (_extensions,),
    "reprocess": (_operators,),
    "remove_job": (_operators,),
}
"""The reader for each script's calls."""


# --- by what it does to the keyspace ----------------------------------------------------------------------------------


def _by_effect(did: Events, move: Transition) -> None:
    """Read what calls and replies did not say."""
    claimed, landed = {(one.queue, one.id) for one in did.claims}, set(did.landed)
    for after in move.after.queues:
        before = move.before[after.queue]
        if after is before:
            continue
        for id in sorted(after.members("active").keys() - before.members("active").keys()):
            taken = id in before.members("pending") and id not in after.members("pending")
            if taken and (after.queue, id) not in claimed:
                attempts = (after.row(id) or {}).get("attempts", b"")
                did.claims.append(HandedOut(after.queue, id, int(attempts) if attempts.isdigit() else -1))
        if move.foreign:
            for id in sorted(after.rows.keys() - before.rows.keys()):
                if Row(after.queue, id) not in landed and all(name in after.rows[id] for name in WHOLE):
                    did.lands = True
                    did.landed.append(Row(after.queue, id))
    if move.foreign:
        _taken_out(did, move)
        _extended(did, move)
        _delivered(did, move)


def _taken_out(did: Events, move: Transition) -> None:
    """What an actor settles, removes, brings back: known by who holds the claim, and by what is declared."""
    tokens = {(queue, id): token for queue, id, token in move.held}
    declared = {(deed.verb, deed.queue, deed.id) for deed in move.declared}
    known = {one.id for one in did.settles} | {row.id for row in (*did.removed, *did.revived)}
    who = "" if move.program is None else move.program.name
    for before in move.before.queues:
        after = move.after[before.queue]
        for id in sorted(before.ids - known) if after is not before else ():
            queue, row = before.queue, Row(before.queue, id)
            answer = _left(before, after, id)
            if answer and (queue, id) in tokens:
                did.settles.append(Settle(move.name, queue, id, tokens[queue, id], answer))
                did.reported.append(id)
            elif answer == "done" and ("remove", queue, id) in declared:
                did.removed.append(row)
            elif answer == "done" or (answer and id in before.members("active")):
                did.doubts.append((who, "takes {} out, holds no claim of it and declares no removal", id))
            elif id in before.members("dead") and id in after.members("pending"):
                if ("reprocess", queue, id) in declared:
                    did.revived.append(row)
                else:
                    did.doubts.append((who, "brings {} back from dead and declares no reprocessing", id))


def _left(before: Part, after: Part, id: str) -> str:
    """How an id left what can be worked on, as a settle would answer it; empty when it did not."""
    if before.row(id) is not None and after.row(id) is None:
        return "done"
    for name, answer in (("dead", "dead"), ("schedule", "scheduled")):
        if id in after.members(name) and id not in before.members(name):
            return answer
    gone = before.places(id) and not after.places(id)
    return "done" if gone and after.state(id) not in ("pending", "active", before.state(id)) else ""


def _delivered(did: Events, move: Transition) -> None:
    """The signals that an actor brought to parents: an argument names the child, and the parent changed."""
    rows: tuple[HandedOut | Settle | Row, ...] = (*did.claims, *did.settles, *did.landed, *did.removed, *did.revived)
    known = {(one.queue, one.id) for one in rows}
    named = {argument for call, _ in move.calls for argument in call.args}
    signals = (signal for part in move.before.queues for signal in part.signals if not isinstance(signal, Poison))
    for signal in dict.fromkeys(signals):
        queue, parent, child = signal.parent_queue, signal.parent_id, signal.child_id
        before, after = move.before[queue], move.after[queue]
        changed = (before.of(parent), before.places(parent)) != (after.of(parent), after.places(parent))
        if changed and to_bytes(child) in named and (queue, parent) not in known:
            did.deliveries.append(Delivery(move.name, queue, parent, child, 1))
            did.reported.append(child)


def _extended(did: Events, move: Transition) -> None:
    """The deadlines that an actor wrote again of leases it holds."""
    for queue in sorted({queue for queue, _, _ in move.held}):
        ids = frozenset(
            id
            for where, id, _ in move.held
            if where == queue and (queue, "active", id) in (move.written or {})
            if id in move.before[queue].members("active")
        )
        if ids:
            did.extensions.append(Extension(queue, ids))


# --- parents ----------------------------------------------------------------------------------------------------------


def changed_parents(world: World, move: Transition) -> Iterator[tuple[Owed, Part, Part]]:
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
