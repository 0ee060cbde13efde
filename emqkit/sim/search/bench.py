"""Where the calls of a search are really made: a private server that holds just what each call shall find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from emqkit import keys
from emqkit.arguments import to_bytes
from emqkit.errors import EmqError
from emqkit.keyspace import FUTURE, TIMED, Keyspace, Part, home, parts_of
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers import Server, scratch_for
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Snapshot, capture_call, read_capture, restore_call
from emqkit.wire import Call, ErrorReply, Flush, Reply

__all__ = ["Bench", "Deadline", "Doubt", "Effect", "StrayWrite", "place_for"]


@dataclass(frozen=True, order=True, slots=True)
class Doubt:
    """Something the explorer cannot see, repeat or count on: every promise that is not broken is then unknown.

    Attributes:
        name: which kind of thing: `chance`, `clock`, `keys`.
        says: who does what, as a phrase.
    """

    name: str
    says: str


Deadline = tuple[str, str, str]
"""A lease or a due time: queue, `active` or `schedule`, id."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What real calls did.

    Attributes:
        replies: their answers.
        parts: every part that is not empty afterwards.
        metrics: whether metrics moved.
        renewed: the deadlines ahead that were written again, each with how far ahead it is now, in milliseconds. A
            canonical keyspace does not show them.
    """

    replies: tuple[Reply, ...]
    parts: tuple[Part, ...]
    metrics: bool
    renewed: tuple[tuple[Deadline, float], ...] = ()


class StrayWrite(EmqError):
    """A call wrote a key outside the queue whose keys it was given; on a cluster the server would refuse it."""

    def __init__(self, call: str, queues: Iterable[str]) -> None:
        named = ", ".join(sorted(repr(queue) for queue in queues))
        super().__init__(f"{call} wrote keys of {named}, which it was not given. A script may touch its own slot only.")


def place_for(world: World, server: Server, scripts: ScriptSet | None = None) -> Server:
    """A private, empty place for a world, which the caller closes: a sandbox, if any script in it is not the kit's own.

    Args:
        world: whose actors may carry script sets of their own.
        server: beside which one.
        scripts: what calls mean where an actor says nothing else; the server's own set without it.
    """
    scripts = server.scripts if scripts is None else scripts
    sets = (scripts, *(actor.scripts for actor in world.actors if actor.scripts is not None))
    place = scratch_for(server, next(filter(foreign, sets), scripts))
    place.scripts = scripts
    return place


class Bench:
    """Where calls are really made: a private server, made to hold what the call shall find, and read afterwards.

    Attributes:
        server: the scratch server; its script set decides what the calls mean.
        calls: how many calls were really made.
        doubts: what about them cannot be relied on.
        instants: how many readings of the clock were tried; 0 while no script of one's own has read it.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.calls = 0
        self.doubts: set[Doubt] = set()
        self.instants = 0
        self._held: Snapshot | None = None

    def make(
        self,
        parts: tuple[Part, ...],
        calls: tuple[Call[Any], ...],
        *,
        atomic: bool = False,
        scripts: ScriptSet | None = None,
    ) -> Effect:
        """Make these calls on a server that holds these parts and nothing else.

        Args:
            parts: what it holds.
            calls: what is sent.
            atomic: whether in MULTI.
            scripts: the set that the calls mean; the server's own if left out.

        Raises:
            StrayWrite: they were given the keys of one queue and wrote keys of another.
        """
        target = parts[0].snapshot if len(parts) == 1 else Keyspace(parts).snapshot
        before = restore_call(target, self._held)
        self.calls += len(calls)
        self._held = None  # until the capture has answered, nobody knows
        own, self.server.scripts = self.server.scripts, scripts or self.server.scripts
        try:
            if atomic:
                _answered(self.server.round_trip(Flush((before,)))[0], before)
                replies = self.server.round_trip(Flush(calls, atomic=True))
                (read,) = self.server.round_trip(Flush((capture_call(),)))
            else:
                first, *rest, read = self.server.round_trip(Flush((before, *calls, capture_call())))
                _answered(first, before)
                replies = tuple(rest)
        finally:
            self.server.scripts = own
        after = read_capture(read)
        self._held = after
        found, metrics = parts_of(after)
        queue = home(calls)
        given = {part.queue: part for part in parts}
        if queue is not None and (stray := [p.queue for p in found if p.queue != queue and given.get(p.queue) != p]):
            raise StrayWrite(", ".join(call.verb for call in calls), stray)
        return Effect(replies, found, bool(metrics), tuple(_renewed(parts, after)))


def _renewed(parts: tuple[Part, ...], after: Snapshot) -> Iterator[tuple[Deadline, float]]:
    """The deadlines that stood ahead before and stand ahead now, elsewhere than they were put."""
    for part in parts:
        for name in TIMED:
            ahead = [id for id, score in part.members(name).items() if score == FUTURE]
            scores = after.ranked(keys.queue_key(part.queue, name)) if ahead else {}
            for id in ahead:
                score = scores.get(to_bytes(id), FUTURE)
                if score != FUTURE and score > after.now:
                    yield (part.queue, name, id), score - after.now


def _answered(reply: Reply, call: Call[Reply]) -> None:
    if isinstance(reply, ErrorReply):
        raise call.refusal(reply)
