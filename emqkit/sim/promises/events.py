"""What one move did: claims, settles, deliveries, landings, extensions.

Read from its calls by the names their scripts' headers give, wherever these stand, and from the keyspace before and
after. A script is known by its file's name; one whose header lacks a name that is needed here cannot be judged, and
`NotInCall` says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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
    "Extension",
    "HandedOut",
    "Landed",
    "Move",
    "Settle",
    "changed_parents",
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
"""The scripts that land a job, and what their headers call its id; `enqueue_flow` lands each `child_id` as well."""

SETTLING = frozenset({"complete", "retry"})
DELIVERING = frozenset({"flow_deliver", "flow_fail_deliver"})
COUNTING = frozenset({"reap", "promote"})
"""What answers how many it moved: its 0 says that there was nothing to do, not that it refused."""

RECORDS = ("processed", "unsuccessful", "failed")
"""Where a parent's outcomes are recorded."""

UNSENT = (BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing)
"""The errors that say that nothing was sent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A script call and its reply.

    Attributes:
        verb: the script's name.
        queue: whose keys it takes.
        args: its arguments, by name.
        reply: what it was answered.
    """

    verb: str
    queue: str
    args: Named
    reply: Reply

    @property
    def refused(self) -> bool:
        """Whether it says that it did nothing: an EMQ error, 0 or −1, where that is not a count."""
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
    """A signal was brought to its parent, and this was the reply: 1 where all is well."""

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
class Landed:
    """A row that a landing move names, whether or not it wrote it."""

    queue: str
    id: str


@dataclass(frozen=True)
class Move:
    """One move as promises see it.

    Attributes:
        kind: `call`, or `lapse`, `due`, `poison`, `re-delivery`, `script flush`.
        program: the operation the call belongs to, or None.
        calls: the calls, with their replies: one, unless they stood in MULTI.
        before, after: the keyspace around it.
        scripts: the set its calls were made with.
        metrics: whether a metric moved.
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
    def changed(self) -> bool:
        """Whether any key is not as it was, metrics among them."""
        return self.before != self.after or self.metrics

    @property
    def did(self) -> str:
        """What a sentence calls it: its call, where it is one, else its kind."""
        return self.calls[0][0].verb if len(self.calls) == 1 else self.kind

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Its script calls."""
        return tuple(
            Answer(call.verb, _queue(call), self.scripts.view(call).args, reply)
            for call, reply in self.calls
            if call.kind == "script"
        )

    @cached_property
    def claims(self) -> tuple[HandedOut, ...]:
        """What its claims handed out."""
        return tuple(
            HandedOut(one.queue, to_text(id), int(attempts))
            for one in self.answers
            if one.verb == "claim" and isinstance(one.reply, tuple) and len(one.reply) >= 3
            for id, attempts in [(one.reply[0], one.reply[2])]
            if isinstance(id, bytes) and isinstance(attempts, bytes | int)
        )

    @cached_property
    def settles(self) -> tuple[Settle, ...]:
        """The claims it settled."""
        found = []
        for one in self.answers:
            answer = "done" if one.reply == 1 else to_text(one.reply) if isinstance(one.reply, bytes) else ""
            if one.verb in SETTLING and answer in ("done", "scheduled", "dead"):
                id, token = one.args.text("id"), one.args["token"]
                found.append(Settle(one.verb, one.queue, id, int(token) if token.isdigit() else -1, answer))
        return tuple(found)

    @cached_property
    def deliveries(self) -> tuple[Delivery, ...]:
        """The signals it brought to their parents."""
        return tuple(
            Delivery(one.verb, one.queue, one.args.text("parent_id"), one.args.text("child_id"), one.reply)
            for one in self.answers
            if one.verb in DELIVERING
        )

    @cached_property
    def extensions(self) -> tuple[Extension, ...]:
        """The leases it extended."""
        found = []
        for one in self.answers:
            if one.verb == "extend_lock" and one.reply == 1:
                found.append(Extension(one.queue, frozenset({one.args.text("id")})))
            elif one.verb == "extend_locks" and isinstance(one.reply, tuple):
                asked = frozenset(map(to_text, _rounds(one.args, "id")))
                found.append(Extension(one.queue, asked - {to_text(id) for id in one.reply if isinstance(id, bytes)}))
        return tuple(found)

    @cached_property
    def fatal(self) -> tuple[Landed, ...]:
        """The parents that it applies a death to which fails them (policy `fp`)."""
        return tuple(
            Landed(one.queue, one.args.text("parent_id"))
            for one in self.answers
            if (one.verb == "retry" and one.reply == b"dead" and one.args.get("leg") == b"sq:fp")
            or (one.verb == "flow_fail_deliver" and one.reply == 1 and one.args["policy"] == b"fp")
        )

    def done_to(self, verb: str) -> Iterator[tuple[str, str]]:
        """What an operator's script (`reprocess`, `remove_job`) really did: queue and id."""
        return ((one.queue, one.args.text("id")) for one in self.answers if one.verb == verb and one.reply == 1)

    @cached_property
    def lands(self) -> bool:
        """Whether it is part of landing something: a landing script, or a command of an operation that adds."""
        if any(one.verb in LANDS for one in self.answers):
            return True
        adds = self.program is not None and self.program.function.__name__ in ("add", "add_bulk")
        return adds and not self.answers

    @cached_property
    def landed(self) -> tuple[Landed, ...]:
        """The rows it names where it lands something."""
        if not self.lands:
            return ()
        found = []
        for one in self.answers:
            if one.verb in LANDS:
                found.append(Landed(one.queue, one.args.text(LANDS[one.verb])))
            if one.verb == "enqueue_flow":
                found += [Landed(one.queue, to_text(id)) for id in _rounds(one.args, "child_id")]
        for call, _ in self.calls:
            if call.kind == "command":
                named = filter(None, map(keys.parse, call.keys))
                found += [Landed(key.queue, key.id) for key in named if key.id is not None and key.name == "row"]
        return tuple(found)


def _queue(call: Call[Any]) -> str:
    """Whose keys a call takes. They all share a slot, so any of them says it."""
    return next((key.queue for key in map(keys.parse, call.keys) if key is not None), "")


def _rounds(args: Named, name: str) -> tuple[bytes, ...]:
    """The values of a repeated name, which the header must have."""
    return args.all(name) if name in args.declared else (args[name],)


# --- parents ----------------------------------------------------------------------------------------------------------


def changed_parents(world: World, move: Move) -> Iterator[tuple[Owed, Part, Part]]:
    """The declared parents whose queue a move changed, with that queue before and after."""
    for owed in world.owed.values():
        before, after = move.before[owed.queue], move.after[owed.queue]
        if before is not after:
            yield owed, before, after


def recorded(part: Part, parent: str, child: str, among: Iterable[str] = RECORDS) -> bool:
    """Whether a child's outcome is in one of these hashes of its parent."""
    return any(child in part.hash(parent, name) for name in among)


def spoilt(keyspace: Keyspace, queue: str, parent: str) -> bool:
    """Whether a parent's own keys are of other types, so that nothing can be delivered to it: that is no drop."""
    of = keyspace[queue].of(parent)
    return any(name in of and not isinstance(of[name], Hash) for name in (*RECORDS, "row")) or (
        "dependencies" in of and not isinstance(of["dependencies"], Text)
    )
