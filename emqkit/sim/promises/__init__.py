"""What a flow is owed, P1 to P16: each promise is checked on its own, wherever it can be seen to break.

A promise looks at one of four things:

* a part: what one queue holds, once for each content it ever has;
* a state: the whole keyspace with what is remembered of the past;
* a move: one call with its reply, the keyspace before and after, and what was remembered before;
* an end: where nothing more can change, whoever goes on trying (a bottom component of the graph of fault-free moves).

What is remembered is a small set of facts (`remember`), each saturating, so that worlds stay finite. An *outcome* of a
child is *recorded* in its parent's processed, unsuccessful or failed. A child is *outstanding* while neither of the
first two has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from emqkit import keys, outbox
from emqkit.errors import BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing
from emqkit.flows import AddedFlow, BulkAdded
from emqkit.keyspace import FUTURE, Keyspace, Part
from emqkit.outbox import Failure, Poison
from emqkit.scripts import ScriptSet
from emqkit.sim.worlds.actors import Operator
from emqkit.sim.worlds.world import Link, Owed, World
from emqkit.snapshot import Hash, Text
from emqkit.wire import Call, Done, ErrorReply, Program, Reply

__all__ = ["PROMISES", "Facts", "Move", "Promise", "at_start", "names", "remember", "seen", "trimmed"]

Fact = tuple[Any, ...]
Facts = frozenset[Fact]
"""What is remembered of the past:

("token", id, n)         the last token handed out for an id
("settled", id, n, verb) that token was settled, by `complete` or `retry`
("landed", id)           the id was landed once
("added", flow)          a producer was answered that the flow is landed
("released", parent)     in this life the parent left held for pending
("outcome", child, what) in its parent's life: `completed`, or made `dead` by a retry
("delivered", entry)     the entry was delivered
("unheard", child, parent) its delivery was answered with an error, and none was answered otherwise since
("removed", id)          an operator removed it
("revived", child)       an operator reprocessed it after its outcome was recorded
("trimmed", queue, entry) the entry was delivered and trimmed (only where re-deliveries are explored)
"""

LANDING = frozenset({"enqueue", "schedule", "enqueue_flow", "hold_parent", "enqueue_flow_child"})
SETTLING = frozenset({"complete", "retry"})
DELIVERING = frozenset({"flow_deliver", "flow_fail_deliver"})
COUNTING = frozenset({"reap", "promote"})
"""What answers how many it moved: its 0 says that there was nothing to do, not that it refused."""
RECORDS = ("processed", "unsuccessful", "failed")
UNSENT = (BadArgument, BadFlow, IllFormedId, IllFormedQueue, NotThisYet, ScriptArity, ScriptMissing)


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
    def call(self) -> Call[Any] | None:
        """The call, where it is one."""
        return self.calls[0][0] if len(self.calls) == 1 else None

    @property
    def lands(self) -> bool:
        """Whether this is part of landing something: a landing script, or a command of an operation that adds."""
        if any(call.kind == "script" and call.verb in LANDING for call, _ in self.calls):
            return True
        commands = all(call.kind == "command" for call, _ in self.calls)
        return commands and self.program is not None and self.program.function.__name__ in ("add", "add_bulk")


@dataclass(frozen=True)
class Promise:
    """One promise. A check yields a sentence for each way it is broken.

    Attributes:
        name: `P1` to `P16`.
        title: its two words.
        says: the promise in one sentence.
        needs: the witnesses without which nothing was really tried; one may name several, any of which will do.

    A promise may also ask for means that a script set has to state. Where it does not (`lacks`), the verdict that is
    not `broken` is `unknown` and takes no part in the whole one: no world could settle it.
    """

    name: str
    title: str
    says: str
    needs: tuple[str, ...] = ()

    def concerns(self, world: World) -> str | None:
        """None when this world can try it; else why not."""
        return None if world.owed else "no flow is declared in this world"

    def needed(self, world: World) -> tuple[str, ...]:
        """The witnesses it needs in this world."""
        return self.needs

    def untried(self, world: World) -> tuple[str, ...]:
        """The clauses of it that nothing in this world can try: `holds` is not said of them."""
        return ()

    def lacks(self, world: World, scripts: ScriptSet) -> str | None:
        """None when the script set states the means that it asks for; else what is not stated."""
        return None

    def looks_at(self, what: Literal["part", "state", "move", "end"]) -> bool:
        """Whether it has something to say of one of the four things."""
        return getattr(type(self), what) is not getattr(Promise, what)

    def part(self, world: World, part: Part) -> Iterator[str]:
        """How one queue's contents break it."""
        yield from ()

    def state(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        """How a state breaks it."""
        yield from ()

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        """How a move breaks it; `facts` are those of before."""
        yield from ()

    def end(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        """How a state, from which nothing more can change, breaks it."""
        yield from ()

    def ends(self, world: World) -> str | None:
        """None when ends can be judged in this world; else why not."""
        return None


# --- helpers ----------------------------------------------------------------------------------------------------------


def _recorded(part: Part, parent: str, child: str, among: Iterable[str] = RECORDS) -> bool:
    return any(child in part.hash(parent, name) for name in among)


def _outstanding(keyspace: Keyspace, owed: Owed) -> list[Link]:
    part = keyspace[owed.queue]
    return [link for link in owed.links if not _recorded(part, owed.id, link.id, ("processed", "unsuccessful"))]


def _claims(move: Move) -> Iterator[tuple[str, str, int]]:
    """The claims a move handed out: queue, id, token."""
    for call, reply in move.calls:
        if call.verb == "claim" and call.kind == "script" and isinstance(reply, tuple) and len(reply) >= 3:
            key = keys.parse(call.keys[0])
            id, attempts = reply[0], reply[2]
            if key is not None and isinstance(id, bytes) and isinstance(attempts, bytes | int):
                yield key.queue, _text(id), int(attempts)


def _settles(move: Move) -> Iterator[tuple[str, str, str, int, str]]:
    """The settles a move did: queue, verb, id, token, answer (`done`, `scheduled`, `dead`)."""
    for call, reply in move.calls:
        if call.kind != "script" or call.verb not in SETTLING:
            continue
        key = keys.parse(call.keys[0])
        answer = "done" if reply == 1 else _text(reply) if isinstance(reply, bytes) else ""
        if key is not None and answer in ("done", "scheduled", "dead"):
            yield key.queue, call.verb, _text(call.args[0]), _number(call.args[1]), answer


def _deliveries(move: Move) -> Iterator[tuple[str, str, str, str]]:
    """The deliveries a move did: verb, child, parent, the parent's queue."""
    for call, reply in move.calls:
        if call.kind != "script" or call.verb not in DELIVERING or reply != 1:
            continue
        key = keys.parse(call.keys[0])
        if key is not None and key.id is not None:
            yield call.verb, _text(call.args[0]), key.id, key.queue


def _rows(move: Move) -> Iterator[tuple[str, str]]:
    """The rows a landing move names: queue, id."""
    for call, _ in move.calls:
        for name in call.keys:
            key = keys.parse(name)
            if key is not None and key.id is not None and key.name == "row":
                yield key.queue, key.id


def _belongings(part: Part, id: str) -> tuple[object, ...]:
    """Everything of an id that a move may change: its keys, its places, its counter."""
    return dict(part.of(id)), part.places(id)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _number(value: bytes) -> int:
    return int(value) if value.isdigit() else -1


def _refused(call: Call[Any], reply: Reply) -> bool:
    """Whether a transition answered that it did nothing: an EMQ error, 0 or −1, where that is not a count."""
    if call.kind != "script":
        return False
    if isinstance(reply, ErrorReply):
        return reply.code.startswith("EMQ")
    return reply in (0, -1) and call.verb not in COUNTING


def _changed(move: Move) -> bool:
    return move.before != move.after or move.metrics


# --- memory -----------------------------------------------------------------------------------------------------------


def at_start(world: World) -> Facts:
    """What is known before the first move: which flows are there from the start."""
    if not world.landed:
        return frozenset()
    added: set[Fact] = {("added", index) for index in range(len(world.flows))}
    return frozenset(added | {("landed", id) for index in range(len(world.flows)) for id in world.ids_of(index)})


def trimmed(facts: Facts) -> list[bytes]:
    """The outbox entries that were delivered and trimmed, in a fixed order: what may be delivered once more."""
    return [fact[2] for fact in sorted(fact for fact in facts if fact[0] == "trimmed")]


def remember(world: World, move: Move, facts: Facts, *, trims: bool) -> Facts:
    """What is known after a move.

    Args:
        world: whose flows are watched.
        move: what happened.
        facts: what was known before.
        trims: whether trimmed entries are to be remembered, for re-delivery.
    """
    new = set(facts)
    for _, id, token in _claims(move):
        new = {fact for fact in new if fact[:2] not in (("token", id), ("settled", id))}
        new.add(("token", id, token))
    for _, verb, id, token, answer in _settles(move):
        new.add(("settled", id, token, verb))
        link = world.links.get(id)
        if link is not None and move.before[link.parent_queue].row(link.parent_id) is not None:
            if answer == "done":
                new.discard(("outcome", id, "dead"))
                new.add(("outcome", id, "completed"))
            elif answer == "dead" and ("outcome", id, "completed") not in new:
                new.add(("outcome", id, "dead"))
    for verb, child, parent, _ in _deliveries(move):
        new.add(("delivered", verb, child, parent))
    for asked, reply in move.calls:
        if asked.kind == "script" and asked.verb in DELIVERING and (key := keys.parse(asked.keys[0])) and key.id:
            unheard = ("unheard", _text(asked.args[0]), key.id)
            if isinstance(reply, ErrorReply):
                new.add(unheard)
            else:
                new.discard(unheard)
    if move.lands:
        for queue, id in _rows(move):
            if move.after[queue].row(id) is not None:
                new.add(("landed", id))
                new.discard(("removed", id))
    for program, done in move.ended:
        new.update(_added(world, program, done))
    call = move.call
    if call is not None and call.kind == "script" and move.calls[0][1] == 1:
        if call.verb == "remove_job":
            new.add(("removed", _text(call.args[0])))
        if call.verb == "reprocess":
            link = world.links.get(_text(call.args[0]))
            if link is not None and _recorded(move.before[link.parent_queue], link.parent_id, link.id):
                new.add(("revived", link.id))
    for owed in world.owed.values():
        before, after = move.before[owed.queue], move.after[owed.queue]
        if before is after:
            continue
        if before.row(owed.id) is not None and after.row(owed.id) is None:
            ended = {("released", owed.id)} | {
                ("outcome", link.id, what) for link in owed.links for what in ("completed", "dead")
            }
            new -= ended
        elif before.state(owed.id) == "awaiting_children" and owed.id in after.members("pending"):
            new.add(("released", owed.id))
    if trims and call is not None and call.verb == "LTRIM":
        key = keys.parse(call.keys[0])
        if key is not None:
            gone = len(move.before[key.queue].entries) - len(move.after[key.queue].entries)
            new.update(("trimmed", key.queue, entry) for entry in move.before[key.queue].entries[: max(gone, 0)])
    return frozenset(new)


def _added(world: World, program: Program[Any], done: Done[Any]) -> Iterator[Fact]:
    parents: list[str] = []
    if isinstance(done.value, AddedFlow):
        parents = [done.value.parent_id]
    elif isinstance(done.value, BulkAdded):
        parents = [flow.parent_id for flow in done.value.landed]
    for index, plan in enumerate(world.flows):
        if plan.flow.id in parents:
            yield "added", index


def seen(world: World, move: Move, facts: Facts) -> Iterator[str]:
    """The witnesses a move is: what really happened, so that a promise about it was really tried."""
    for queue, id, token in _claims(move):
        yield "a job was claimed"
        if token > 1:
            yield "a job was claimed again"
        owed = world.owed.get(id)
        if owed is not None and owed.queue == queue:
            yield "a parent was claimed"
    for _, verb, id, token, answer in _settles(move):
        yield "a claim was settled"
        if any(fact[:4] == ("settled", id, token, verb) for fact in facts):
            yield "a settle was repeated"
        if answer == "dead" and id in world.links:
            yield "a child died"
        if ("revived", id) in facts:
            yield "a child whose outcome was recorded ran again"
    looks = move.program is not None and move.program.function.__name__ == "claim"
    for call, reply in move.calls:
        if looks and call.verb == "HEXISTS" and call.args == (b"paused",) and reply == 1:
            yield PAUSED
        if call.kind != "script":
            continue
        if call.verb == "claim" and move.began_paused and (key := keys.parse(call.keys[0])) is not None:
            if move.before[key.queue].paused:
                yield PAUSED
        if _refused(call, reply):
            yield "a transition refused"
            if call.verb in SETTLING and any(fact[:2] == ("settled", _text(call.args[0])) for fact in facts):
                yield "a settle was repeated"
        if call.verb == "reap" and isinstance(reply, int) and reply > 0:
            yield "a lapsed lease was reaped"
        if (call.verb == "extend_lock" and reply == 1) or (call.verb == "extend_locks" and reply == ()):
            yield "a lease was extended"
        if call.verb == "reprocess" and reply == 1:
            yield "a dead job was reprocessed"
        if call.verb == "remove_job" and reply == 1:
            yield "a job was removed"
        if call.verb in DELIVERING and isinstance(reply, ErrorReply):
            yield "a delivery was answered with an error"
    for verb, child, parent, _ in _deliveries(move):
        yield "an entry was delivered"
        if ("delivered", verb, child, parent) in facts:
            yield "a re-delivery really happened"
    if move.lands and any(("landed", id) in facts for _, id in _rows(move)):
        yield "an add was repeated"
    for owed in world.owed.values():
        before, after = move.before[owed.queue], move.after[owed.queue]
        if before is after:
            continue
        if before.row(owed.id) is None and after.row(owed.id) is not None and move.lands:
            yield "a flow landed"
        if before.state(owed.id) == "awaiting_children" and owed.id in after.members("pending"):
            yield "a parent was released"
        if before.row(owed.id) is not None and after.row(owed.id) is None:
            yield "a parent finished"
        for link in owed.links:
            if not _recorded(before, owed.id, link.id) and _recorded(after, owed.id, link.id):
                yield "an outcome was recorded"
    for _, done in move.ended:
        if isinstance(done.value, BulkAdded) and done.value.failed:
            yield "a flow failed to land"
        elif done.error is not None and any(call.verb in LANDING for call, _ in move.calls):
            yield "a flow failed to land"


# --- the promises -----------------------------------------------------------------------------------------------------


class _AllOrNothing(Promise):
    def concerns(self, world: World) -> str | None:
        if not any(owed.one_step for owed in world.owed.values()):
            return "no flow of this world is one level in one queue"
        return None if world.lands_later else "no flow lands while this world runs"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for owed in world.owed.values():
            before, after = move.before[owed.queue], move.after[owed.queue]
            if not owed.one_step or before is after:
                continue
            ids = (owed.id, *(link.id for link in owed.links))
            if any(before.of(id) or before.places(id) for id in ids) or not any(
                after.of(id) or after.places(id) for id in ids
            ):
                continue
            whole = after.state(owed.id) == "awaiting_children" and after.counter(owed.id) == len(owed.links)
            whole = whole and not after.places(owed.id)
            for link in owed.links:
                row = after.row(link.id) or {}
                linked = row.get("state") == b"pending" and row.get("parent") == owed.id.encode()
                whole = whole and linked and after.places(link.id) == ("pending",)
            if not whole:
                yield f"one move landed the flow of {world.label(owed.id)} otherwise than held, counted and linked"


class _Held(Promise):
    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for queue, id, _ in _claims(move):
            owed = world.owed.get(id)
            if owed is not None and owed.queue == queue and (left := _outstanding(move.before, owed)):
                yield f"{world.label(id)} was claimed while {_listed(world, left)} outstanding"


def _listed(world: World, links: list[Link]) -> str:
    words = [world.label(link.id) for link in links]
    return f"{words[0]} is" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]} are"


class _NoDrop(Promise):
    def state(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        for fact in facts:
            if fact[0] != "outcome":
                continue
            link = world.links[fact[1]]
            parent = keyspace[link.parent_queue]
            if parent.row(link.parent_id) is None or _recorded(parent, link.parent_id, link.id):
                continue
            if not _signalled(keyspace, link):
                how = "completed" if fact[2] == "completed" else "died"
                yield (
                    f"{world.label(link.id)} {how}, and neither the hashes of {world.label(link.parent_id)} nor an "
                    f"outbox know it"
                )

    def ends(self, world: World) -> str | None:
        for queue in world.queues:
            if lacks := world.served(queue):
                return f"queue {queue} has no {' and no '.join(lacks)} that works for ever"
        return None

    def end(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        if any(keyspace[queue].paused for queue in world.queues):
            return
        for owed in world.owed.values():
            ids = world.ids_of(owed.flow)
            if ("added", owed.flow) not in facts or any(("removed", id) in facts for id in ids):
                continue
            if keyspace[owed.queue].state(owed.id) == "awaiting_children" and not _spoilt(
                keyspace, owed.queue, owed.id
            ):
                yield f"{world.label(owed.id)} stays held for ever"


def _spoilt(keyspace: Keyspace, queue: str, parent: str) -> bool:
    """Whether a parent's own keys are of other types, so that nothing can be delivered to it: that is no drop."""
    of = keyspace[queue].of(parent)
    return any(name in of and not isinstance(of[name], Hash) for name in (*RECORDS, "row")) or (
        "dependencies" in of and not isinstance(of["dependencies"], Text)
    )


def _signalled(keyspace: Keyspace, link: Link) -> bool:
    for part in keyspace.parts:
        for entry in part.kept:
            decoded = outbox.decode(entry)
            if not isinstance(decoded, Poison) and (decoded.child_id, decoded.parent_id) == (link.id, link.parent_id):
                return True
    return False


class _Once(Promise):
    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        call = move.call
        verb = call.verb if call is not None and call.kind == "script" else ""
        if not verb or verb in LANDING or verb in ("reprocess", "claim", "remove_job"):
            return
        for owed in world.owed.values():
            before, after = move.before[owed.queue], move.after[owed.queue]
            if before is after:
                continue
            gone = before.row(owed.id) is None
            enters = owed.id in after.members("pending") and owed.id not in before.members("pending")
            if gone and (enters or (not before.places(owed.id) and owed.id in after.ids)):
                yield f"{verb} brought {world.label(owed.id)} back, whose row is gone"
            if gone or owed.id not in after.members("pending"):
                continue
            state = before.state(owed.id)
            if owed.id in before.members("pending") and (state == "pending" or after.state(owed.id) != "pending"):
                continue
            who = world.label(owed.id)
            if "dead" in before.places(owed.id) or state == "dead":
                yield f"{verb} brought {who} back, which was dead"
            elif verb in ("reap", "promote"):
                continue
            elif ("released", owed.id) in facts:
                yield f"{verb} released {who} a second time in one life"
            elif state != "awaiting_children":
                yield f"{verb} put {who} into pending, which was {state} and not held"


class _Count(Promise):
    def part(self, world: World, part: Part) -> Iterator[str]:
        for owed in world.owed.values():
            if owed.queue != part.queue or (counter := part.counter(owed.id)) is None:
                continue
            done, ignored = len(part.hash(owed.id, "processed")), len(part.hash(owed.id, "unsuccessful"))
            if counter + done + ignored != len(owed.links) or counter < 0:
                yield (
                    f"the counter of {world.label(owed.id)} is {counter} beside {done} processed and {ignored} "
                    f"unsuccessful of {len(owed.links)} children"
                )

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for parent, queue in _fatal(world, move):
            before, after = move.before[queue].counter(parent), move.after[queue].counter(parent)
            if before != after:
                yield f"a death that fails {world.label(parent)} moved its counter from {before} to {after}"


def _fatal(world: World, move: Move) -> Iterator[tuple[str, str]]:
    """The parents a move applies an `fp` death to, with their queues."""
    for call, reply in move.calls:
        if call.kind != "script":
            continue
        if call.verb == "retry" and reply == b"dead" and len(call.args) > 7 and call.args[6] == b"sq:fp":
            key = keys.parse(call.keys[0])
            if key is not None:
                yield _text(call.args[7]), key.queue
        if call.verb == "flow_fail_deliver" and reply == 1 and call.args[2] == b"fp":
            key = keys.parse(call.keys[0])
            if key is not None and key.id is not None:
                yield key.id, key.queue


_SET_OF = {"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}


class _OnePlace(Promise):
    def concerns(self, world: World) -> str | None:
        return None

    def part(self, world: World, part: Part) -> Iterator[str]:
        for id in sorted(part.ids):
            places, state = part.places(id), part.state(id)
            who = world.label(id)
            if len(places) > 1:
                yield f"{who} is in {' and in '.join(places)} at once"
            elif state is not None:
                due = _SET_OF.get(state)
                if places != ((due,) if due else ()):
                    yield f"{who} says {state} and is in {places[0] if places else 'no set'}"


class _NoGhosts(Promise):
    def concerns(self, world: World) -> str | None:
        return None

    def part(self, world: World, part: Part) -> Iterator[str]:
        for id in sorted(part.ids):
            row = part.row(id)
            if row is None:
                yield f"{world.label(id)} is in {' and in '.join(part.places(id))} and has no row"
            elif lacks := [name for name in ("state", "attempts", "payload") if name not in row]:
                yield f"the row of {world.label(id)} has no {' and no '.join(lacks)}"


class _OneOutcome(Promise):
    def part(self, world: World, part: Part) -> Iterator[str]:
        for owed in world.owed.values():
            if owed.queue != part.queue:
                continue
            for link in owed.links:
                where = [name for name in RECORDS if link.id in part.hash(owed.id, name)]
                if len(where) > 1:
                    yield f"{world.label(link.id)} is in {' and in '.join(where)} of {world.label(owed.id)}"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for owed in world.owed.values():
            before, after = move.before[owed.queue], move.after[owed.queue]
            if before is after:
                continue
            for name in RECORDS:
                old, new = before.hash(owed.id, name), after.hash(owed.id, name)
                gone = after.row(owed.id) is None
                for child, value in old.items():
                    if new.get(child, value if gone else None) != value:
                        yield f"what {name} of {world.label(owed.id)} says of {world.label(child)} changed"


class _Fenced(Promise):
    def concerns(self, world: World) -> str | None:
        return None

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        tokens = {fact[1]: fact[2] for fact in facts if fact[0] == "token"}
        for _, id, token in _claims(move):
            if token <= tokens.get(id, 0):
                yield f"{world.label(id)} was handed out with token {token} after token {tokens[id]}"
        for _, verb, id, token, _ in _settles(move):
            if token < tokens.get(id, 0):
                yield f"{verb} settled {world.label(id)} with token {token} after token {tokens[id]} was handed out"
            elif any(fact[:3] == ("settled", id, token) for fact in facts):
                yield f"token {token} of {world.label(id)} was settled twice"


class _Isolated(Promise):
    def concerns(self, world: World) -> str | None:
        if world.faults.poisons or (len(world.flows) > 1 and world.lands_later):
            return None
        return "there is no poison here, and no second flow that lands"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        if move.lands and move.before != move.after:
            yield from self._others(world, move)
        for part in move.before.parts:
            after = move.after[part.queue]
            if part is after or part.entries == after.entries:
                continue
            for entry in sorted(set(part.entries) - after.kept):
                decoded = outbox.decode(entry)
                if isinstance(decoded, Poison):
                    yield f"a poison entry of {part.queue} was dropped"
                elif ("unheard", decoded.child_id, decoded.parent_id) in facts:
                    who = world.label(decoded.child_id)
                    yield f"the entry of {who} was dropped, whose delivery was answered with an error"

    def _others(self, world: World, move: Move) -> Iterator[str]:
        rows = [id for _, id in _rows(move) if id in world.flow_of]
        if not rows:
            return
        own = frozenset.intersection(*(world.flow_of[id] for id in rows))
        for part in move.after.parts:
            before = move.before[part.queue]
            if before is part:
                continue
            for id, flows in world.flow_of.items():
                if not flows & own and _belongings(before, id) != _belongings(part, id):
                    yield f"landing {world.label(rows[0])} changed {world.label(id)}, of another flow"

    def ends(self, world: World) -> str | None:
        roles = {queue for actor in world.actors if actor.role == "pump" for queue in actor.queues}
        return None if roles or not world.faults.poisons else "there is no Pump in this world"

    def end(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        pumped = {queue for actor in world.actors if actor.role == "pump" for queue in actor.queues}
        for queue in sorted(pumped):
            for signal in keyspace[queue].signals:
                if not isinstance(signal, Poison) and not _spoilt(keyspace, signal.parent_queue, signal.parent_id):
                    yield f"the entry of {world.label(signal.child_id)} waits in the outbox of {queue} for ever"


class _Repeatable(Promise):
    def concerns(self, world: World) -> str | None:
        faults = world.faults
        roles = {actor.role for actor in world.actors}
        again = faults.lost_replies or faults.redeliveries or (faults.crashes and roles & {"pump", "producer"})
        again = again or any(getattr(actor, "repeats", 0) for actor in world.actors)
        return None if again else "nobody has a reason to repeat anything in this world"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        if not _changed(move):
            return
        if move.lands:
            yield from self._landing(world, move, facts)
        for _, verb, id, token, _ in _settles(move):
            if ("settled", id, token, verb) in facts:
                yield f"{verb} of {world.label(id)} with token {token}, repeated, changed something again"
        for verb, child, parent, _ in _deliveries(move):
            if ("delivered", verb, child, parent) in facts:
                yield f"delivering the entry of {world.label(child)} again changed something again"

    def _landing(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for queue, id in _rows(move):
            if ("landed", id) not in facts or ("removed", id) in facts:
                continue
            before, after = move.before[queue], move.after[queue]
            row, old = after.row(id), before.row(id)
            who = world.label(id)
            if old is None:
                if row is not None:
                    yield f"adding {who} again brought back its row, which was gone"
            elif row is None or any(row.get(name) != value for name, value in old.items()):
                yield f"adding {who} again changed its row"
            elif before.places(id) != after.places(id):
                yield f"adding {who} again moved it from {before.places(id)} to {after.places(id)}"
            elif any(after.of(id).get(name) != value for name, value in before.of(id).items() if name != "row"):
                yield f"adding {who} again changed what it has collected"


class _CleanRefusal(Promise):
    def concerns(self, world: World) -> str | None:
        faults = world.faults
        meets = bool(faults.lost_replies or faults.lapses)  # a settle that is repeated, or comes too late
        for actor in world.actors:
            if isinstance(actor, Operator):
                meets = meets or any(deed.verb in ("reprocess", "remove") for deed in actor.deeds)
            elif actor.role == "producer":
                meets = meets or bool(faults.crashes or getattr(actor, "repeats", 0)) or len(world.flows) > 1
        return None if meets else "nobody in this world asks for what was done or taken away before"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        if len(move.calls) == 1 and move.calls[0][0].kind == "script" and _changed(move):
            call, reply = move.calls[0]
            if _refused(call, reply):
                yield f"{call.verb} answered {reply!s} and changed something"
        for program, done in move.ended:
            if program == move.program and isinstance(done.error, UNSENT):
                yield f"{program.name} says that nothing was sent, after it had sent something"


class _Policy(Promise):
    def concerns(self, world: World) -> str | None:
        fails = any(getattr(actor, "outcome", "fail") != "complete" for actor in world.actors if actor.role == "worker")
        return None if fails and world.links else "no child can die in this world"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for queue, verb, id, token, answer in _settles(move):
            link = world.links.get(id)
            if link is None or answer != "dead" or link.queue != queue:
                continue
            if ("settled", id, token, verb) in facts or ("revived", id) in facts:
                continue
            if link.queue == link.parent_queue:
                part = move.after[link.parent_queue]
                where = "unsuccessful" if link.policy == "id" else "failed"
                if not _recorded(part, link.parent_id, id, (where,)):
                    yield f"{world.label(id)} died with policy {link.policy}, and {where} does not know it"
                other = "failed" if link.policy == "id" else "unsuccessful"
                before = move.before[link.parent_queue]
                if not _recorded(before, link.parent_id, id, (other,)) and _recorded(
                    part, link.parent_id, id, (other,)
                ):
                    yield f"{world.label(id)} died with policy {link.policy} and was treated as the other one"
            else:
                yield from self._signal(world, move, queue, link)
        for call, _ in move.calls:
            if call.verb == "RPUSH" and call.keys and call.keys[0].endswith(b":flow:outbox"):
                for entry in map(outbox.decode, call.args):
                    yield from self._entry(world, entry)

    def _signal(self, world: World, move: Move, queue: str, link: Link) -> Iterator[str]:
        new = set(move.after[queue].entries) - set(move.before[queue].entries)
        fresh = [signal for signal in map(outbox.decode, new) if isinstance(signal, Failure)]
        if not any(signal.child_id == link.id for signal in fresh):
            old = [s for s in move.before[queue].signals if isinstance(s, Failure) and s.child_id == link.id]
            if not old:
                yield f"{world.label(link.id)} died and left no signal to {world.label(link.parent_id)}"
        for signal in fresh:
            yield from self._entry(world, signal)

    def _entry(self, world: World, entry: outbox.Entry) -> Iterator[str]:
        if isinstance(entry, Failure) and (link := world.links.get(entry.child_id)) is not None:
            if (entry.policy == "id") != (link.policy == "id"):
                yield f"the death of {world.label(link.id)} was signalled with {entry.policy}, not {link.policy}"


class _TurnAndLease(Promise):
    def concerns(self, world: World) -> str | None:
        return None

    def _clauses(self, world: World) -> Iterator[tuple[str, str, bool]]:
        """Each clause beside that of the turn: its name, its witness, and whether this world can try it."""
        working = {queue for actor in world.actors if actor.role == "worker" for queue in actor.queues}
        reaped = {queue for actor in world.actors if actor.role == "reaper" for queue in actor.queues}
        deeds = [deed for actor in world.actors if isinstance(actor, Operator) for deed in actor.deeds]
        faults = world.faults
        # A lease lapses under a live holder by a fault; else once its holder crashed or never heard of it.
        lapsing = bool(faults.lapses or faults.crashes or faults.lost_replies)
        yield "a pause", PAUSED, any(deed.verb == "pause" and deed.queue in working for deed in deeds)
        yield "reaping", "a lapsed lease was reaped", lapsing and bool(working & reaped)
        extends = any(getattr(actor, "heartbeats", False) for actor in world.actors)
        yield "an extension", "a lease was extended", extends

    def needed(self, world: World) -> tuple[str, ...]:
        return (*self.needs, *(witness for _, witness, tried in self._clauses(world) if tried))

    def untried(self, world: World) -> tuple[str, ...]:
        return tuple(name for name, _, tried in self._clauses(world) if not tried)

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        for queue, id, _ in _claims(move):
            pending = move.before[queue].members("pending")
            if pending and id != min(pending):
                yield f"{world.label(id)} was claimed before {world.label(min(pending))}"
            if move.began_paused and move.before[queue].paused:
                yield f"{world.label(id)} was claimed by a claim that began in a paused {queue}"
        for call, reply in move.calls:
            if call.kind != "script":
                continue
            key = keys.parse(call.keys[0]) if call.keys else None
            if key is None:
                continue
            before, after = move.before[key.queue], move.after[key.queue]
            if call.verb == "reap":
                for id, score in before.members("active").items():
                    if score == FUTURE and id not in after.members("active"):
                        yield f"the live lease of {world.label(id)} was reaped"
            elif call.verb == "extend_lock" and reply == 1:
                yield from self._extended(world, before, after, {_text(call.args[0])})
            elif call.verb == "extend_locks" and isinstance(reply, tuple):
                lost = {_text(id) for id in reply if isinstance(id, bytes)}
                yield from self._extended(world, before, after, {_text(id) for id in call.args[2::2]} - lost)

    def _extended(self, world: World, before: Part, after: Part, ids: set[str]) -> Iterator[str]:
        for id in sorted(ids):
            if id not in before.members("active"):
                yield f"an extension put {world.label(id)} into active, which was in {_places(before, id)}"
        active = keys.queue_key(before.queue, "active")
        old, new = dict(before.snapshot.entries), dict(after.snapshot.entries)
        old.pop(active, None)
        new.pop(active, None)
        if old != new:
            yield "an extension changed more than deadlines"
        for id, score in before.members("active").items():
            if id not in ids and after.members("active").get(id) != score:
                yield f"an extension moved the deadline of {world.label(id)}, which was not asked for"


def _places(part: Part, id: str) -> str:
    return " and in ".join(part.places(id)) or "no set"


class _Operators(Promise):
    def concerns(self, world: World) -> str | None:
        deeds = {deed.verb for actor in world.actors if isinstance(actor, Operator) for deed in actor.deeds}
        return None if deeds & {"reprocess", "remove"} else "nobody reprocesses or removes in this world"

    def move(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        call = move.call
        if call is not None and call.verb == "remove_job" and call.kind == "script" and move.calls[0][1] == 1:
            key = keys.parse(call.keys[0])
            id = _text(call.args[0])
            if key is not None and id in move.after[key.queue].ids:
                yield f"{world.label(id)} was removed and is still there"
        if not move.lands:
            for fact in facts:
                if fact[0] == "removed" and (queue := self._queue(world, fact[1])) is not None:
                    if fact[1] not in move.before[queue].ids and fact[1] in move.after[queue].ids:
                        yield f"{_verb(move)} brought {world.label(fact[1])} back, which an operator removed"
        yield from self._revived(world, move, facts)

    def _queue(self, world: World, id: str) -> str | None:
        if id in world.owed:
            return world.owed[id].queue
        return world.links[id].queue if id in world.links else None

    def _revived(self, world: World, move: Move, facts: Facts) -> Iterator[str]:
        children = {id for _, _, id, _, _ in _settles(move)} | {child for _, child, _, _ in _deliveries(move)}
        for child in sorted(children):
            link = world.links.get(child)
            if link is None or ("revived", child) not in facts:
                continue
            before, after = move.before[link.parent_queue], move.after[link.parent_queue]
            who = world.label(link.parent_id)
            if before.counter(link.parent_id) != after.counter(link.parent_id):
                yield f"{world.label(child)}, reprocessed after its outcome was recorded, moved the counter of {who}"
            if before.places(link.parent_id) != after.places(link.parent_id):
                yield f"{world.label(child)}, reprocessed after its outcome was recorded, moved {who}"


def _verb(move: Move) -> str:
    return move.call.verb if move.call is not None else move.kind


class _Leftovers(Promise):
    stays = ("dependencies", *RECORDS)

    def lacks(self, world: World, scripts: ScriptSet) -> str | None:
        # A script's header names its keys and its moves; it has no words for a time or for who removes what.
        return (
            f"The script set {scripts.name} states neither for how long anything stays nor what removes it; "
            "only the names of what stays were checked"
        )

    def end(self, world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
        for owed in world.owed.values():
            part = keyspace[owed.queue]
            if ("added", owed.flow) not in facts or part.row(owed.id) is not None:
                continue
            others = [name for name in part.of(owed.id) if name not in self.stays]
            if others or part.places(owed.id):
                what = [*others, *part.places(owed.id)]
                yield f"{world.label(owed.id)} is finished, and {', '.join(what)} of it stay"
            for link in owed.links:
                home = keyspace[link.queue]
                if link.id not in world.owed and home.of(link.id) and home.state(link.id) != "dead":
                    yield f"{world.label(owed.id)} is finished, and its child {world.label(link.id)} is still there"


RELEASED = "a parent was released"
PAUSED = "a claim found its queue paused"
PROMISES: tuple[Promise, ...] = (
    _AllOrNothing(
        "P1",
        "all or nothing",
        "One move takes a one-level same-queue flow from no key to held parent, counter and pending children.",
        ("a flow landed",),
    ),
    _Held("P2", "held", "No claim hands out a parent with an outstanding child.", ("a parent was claimed",)),
    _NoDrop(
        "P3",
        "no drop",
        "A child's outcome is in its parent's hashes, in an outbox or set aside, and no parent stays held for ever.",
        ("an outcome was recorded", RELEASED),
    ),
    _Once(
        "P4", "once", "In one life a parent is released at most once, and nothing brings back a dead one.", (RELEASED,)
    ),
    _Count("P5", "count", "Counter, processed and unsuccessful add up to N.", ("an outcome was recorded",)),
    _OnePlace("P6", "one place", "An id is in exactly the set its row's state names.", ("a job was claimed",)),
    _NoGhosts("P7", "no ghosts", "Every id in a set has a row, and every row is whole.", ("a job was claimed",)),
    _OneOutcome(
        "P8",
        "one outcome",
        "A child has one outcome, and what is recorded never changes.",
        ("an outcome was recorded",),
    ),
    _Fenced(
        "P9",
        "fenced",
        "An id's tokens grow, and each is settled at most once and not after a later claim.",
        ("a claim was settled",),
    ),
    _Isolated(
        "P10",
        "isolated",
        "A flow that fails leaves others alone; poison is kept, and what is behind it arrives.",
        ("a flow failed to land or a poison appeared",),
    ),
    _Repeatable(
        "P11",
        "repeatable",
        "The same add, settle or delivery again changes nothing but what was missing.",
        ("an add was repeated or a settle was repeated or a re-delivery really happened",),
    ),
    _CleanRefusal(
        "P12",
        "clean refusal",
        "What answers 0, −1 or an EMQ error leaves every key as it was, and a host refusal sends nothing.",
        ("a transition refused",),
    ),
    _Policy("P13", "policy", "A child's death does to its parent what its flow declared.", ("a child died",)),
    _TurnAndLease(
        "P14",
        "turn and lease",
        "A claim takes the smallest id, a pause is kept, no live lease is reaped, an extension moves a deadline only.",
        ("a job was claimed",),
    ),
    _Operators(
        "P15",
        "operators",
        "What is removed stays away; a child run again moves neither parent nor counter.",
        ("a job was removed or a dead job was reprocessed",),
    ),
    _Leftovers(
        "P16",
        "leftovers",
        "After a flow only the keys its set names remain, for a stated time, removed by a stated means.",
        ("a parent finished",),
    ),
)
"""Every promise, in order of their names."""


def names() -> tuple[str, ...]:
    """`P1` to `P16`."""
    return tuple(promise.name for promise in PROMISES)
