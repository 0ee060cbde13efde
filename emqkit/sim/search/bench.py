"""Makes the calls of a search, on a private server that holds exactly what each call should find."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.errors import EmqError
from emqkit.keyspace import EXPIRES, TIMED, Keyspace, Part, canonical_reply, home, parts_of
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers import Server, scratch_for
from emqkit.servers.base import IDS_KEY
from emqkit.servers.embedded import GUEST, EmbeddedServer
from emqkit.sim.search.watch import (
    EXPIRING,
    INSTANTS_MS,
    KINDS,
    NOTED,
    Attempt,
    asked_by,
    foreign_in,
    patterns,
    refused,
    static,
    watched,
)
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Snapshot, capture_call, read_capture, restore_call
from emqkit.wire import Call, ErrorReply, Flush, Program, Reply
from emqkit.words.text import listed, plain

TYPES = frozenset({"string", "hash", "list", "zset", "set"})
"""The types that can be read and restored completely. A stream has more than its entries."""
EVERY_KEY = b"*"
"""All keys: the server is private, so a key without the protocol's prefix belongs to the world too."""

__all__ = ["Bench", "Deadline", "Doubt", "Effect", "StrayWrite", "Unrunnable", "Unseen", "place_for"]


@dataclass(frozen=True, order=True, slots=True)
class Doubt:
    """Something the explorer cannot see, repeat or rely on: every promise that is not broken is then unknown.

    Attributes:
        name: which kind of thing: `chance`, `clock`, `keys`, `roles`.
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
        replies: their replies.
        parts: every non-empty part afterwards.
        metrics: whether metrics changed.
        written: the future deadlines that were written, each with how far ahead it is, in milliseconds. A canonical
            keyspace does not show that one was rewritten.
    """

    replies: tuple[Reply, ...]
    parts: tuple[Part, ...]
    metrics: bool
    written: tuple[tuple[Deadline, float], ...] = ()


class Unseen(EmqError):
    """Something was done that the explorer cannot see or repeat: it is refused by name."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: that cannot be explored.")


class Unrunnable(EmqError):
    """A foreign script cannot run on a server like this one, whatever the keys hold; says where."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}, line {line}: {why}. No server like this one can run that, whatever its keys hold.")
        self.path, self.line, self.why = path, line, why


class StrayWrite(EmqError):
    """A call wrote a key outside the queue of its keys; on a cluster the server would refuse it."""

    def __init__(self, call: str, queues: Iterable[str]) -> None:
        named = ", ".join(sorted(repr(queue) for queue in queues))
        super().__init__(f"{call} wrote keys of {named}, which it was not given. A script may touch its own slot only.")


def place_for(world: World, server: Server, scripts: ScriptSet | None = None) -> Server:
    """A private, empty place for a world, closed by the caller: a sandbox if any of its scripts is not the kit's own.

    Args:
        world: the world; its actors may carry their own script sets.
        server: the server it accompanies.
        scripts: the script set for actors without their own; by default the server's.
    """
    scripts = server.scripts if scripts is None else scripts
    sets = (scripts, *(actor.scripts for actor in world.actors if actor.scripts is not None))
    place = scratch_for(server, next(filter(foreign, sets), scripts))
    place.scripts = scripts
    return place


@dataclass(frozen=True, slots=True)
class _Run:
    """The outcome of calls, and what a watched script asked for: kinds of things, with a word for each."""

    effect: Effect
    asked: frozenset[tuple[str, str]]

    def like(self, other: _Run, calls: tuple[Call[Any], ...]) -> bool:
        """Whether the same calls had the same outcome, as far as it can be repeated."""
        if (self.effect.parts, self.effect.metrics) != (other.effect.parts, other.effect.metrics):
            return False
        pairs = zip(calls, self.effect.replies, other.effect.replies, strict=True)
        return all(canonical_reply(call, one) == canonical_reply(call, two) for call, one, two in pairs)


class Bench:
    """Really makes calls: on a private server, set up with what a call should find, and read afterwards.

    Attributes:
        server: the scratch server, with the script set of the calls.
        calls: how many calls were really made.
        doubts: what cannot be relied on about them.
        instants: how many clock readings were tried; 0 until one of your own scripts reads the clock.
        lives: the time to live that keys were first given, in milliseconds, by key.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.calls = 0
        self.doubts: set[Doubt] = set()
        self.instants = 0
        self.lives: dict[bytes, int] = {}
        self._held: Snapshot | None = None
        self._allowed: tuple[bytes, ...] = ()
        self._keeper: Any = None  # a client that may read what a sandbox refused

    def make(
        self,
        parts: tuple[Part, ...],
        calls: tuple[Call[Any], ...],
        *,
        atomic: bool = False,
        scripts: ScriptSet | None = None,
    ) -> Effect:
        """Make these calls on the server, holding these parts and nothing else.

        Args:
            parts: what it holds.
            calls: what is sent.
            atomic: whether in MULTI.
            scripts: the script set of the calls; by default the server's own.

        Raises:
            StrayWrite: they got the keys of one queue but wrote keys of another.
            Unseen: they, or a foreign script among them, do something that cannot be seen.
            Unrunnable: a foreign script among them cannot run on this server, whatever the keys hold.
        """
        scripts = scripts or self.server.scripts
        for call in calls:
            if call.kind == "command":
                self._command(call)
        theirs = foreign_in(calls, scripts) if self.server.confined else ()
        run = self._run(parts, calls, atomic, scripts, Attempt() if theirs else None)
        if theirs:
            self._try_again(run, parts, calls, atomic, scripts, theirs)
        queue, found = home(calls), run.effect.parts
        if self.server.kind == "fake":
            self._miss(calls, run)
        given = {part.queue: part for part in parts}
        if queue is not None and (stray := [p.queue for p in found if p.queue != queue and given.get(p.queue) != p]):
            raise StrayWrite(", ".join(call.verb for call in calls), stray)
        return run.effect

    def begin(self, programs: Iterable[Program[Any]]) -> tuple[Part, ...]:
        """Run the world's setup, each call as in a search; returns what the server then holds."""
        start = _Start(self)
        for program in programs:
            program.run(start)
        self.calls = 0  # the search has made none yet
        return start.parts

    def _command(self, call: Call[Any]) -> None:
        """Check a plain command before it is sent. Raises `Unseen`."""
        if why := refused(call):
            raise Unseen(why)
        if kind := asked_by(call):
            self._doubt(f"an operation's {call.verb}", ((kind, ""),), clock=True)

    def _miss(self, calls: tuple[Call[Any], ...], run: _Run) -> None:
        """Doubt a time to live that may expire before it is seen: the fake's clock advances before the look."""
        for call, reply in zip(calls, run.effect.replies, strict=True):
            gone = all(key not in part.snapshot.keys for key in call.keys[:1] for part in run.effect.parts)
            if call.verb.upper() in EXPIRING and gone and reply not in (0, None) and not isinstance(reply, ErrorReply):
                says = f"what an operation's {call.verb} lets live may be gone on the fake before it is seen"
                self.doubts.add(Doubt("life", says))

    def _doubt(self, who: str, asked: Iterable[tuple[str, str]], *, clock: bool = False) -> None:
        for kind, what in asked:
            if kind != "clock" or clock:
                self.doubts.add(Doubt(kind, f"{who} {KINDS[kind]}{f' ({what})' if what else ''}"))

    # --- once -------------------------------------------------------------------------------------------------------

    def _run(
        self,
        parts: tuple[Part, ...],
        calls: tuple[Call[Any], ...],
        atomic: bool,
        scripts: ScriptSet,
        trial: Attempt | None,
    ) -> _Run:
        """Make the calls once, as a trial if foreign scripts are among them."""
        target = parts[0].snapshot if len(parts) == 1 else Keyspace(parts).snapshot
        # A trial starts from keys written anew, so that the order of hash fields is always the same.
        before = restore_call(target, self._held if trial is None else None, pattern=EVERY_KEY)
        self.calls += len(calls)
        self._held = None  # unknown until the capture has answered
        if self.server.confined:
            self._allow((b"*",) if trial is None else patterns(calls, scripts))
        began = time.monotonic()
        own, self.server.scripts = self.server.scripts, scripts if trial is None else watched(scripts, trial)
        try:
            first, *replies, read = self._exchange(before, calls, atomic)
        finally:
            self.server.scripts = own
        _answered(first, before)
        if trial is not None:
            theirs = foreign_in(calls, scripts)
            self._look_for_refusals(f"{listed(list(dict.fromkeys(call.verb for call in theirs)))} of {scripts.name}")
            self._look_for_errors(calls, replies, scripts, before, atomic)
        # The fake's clock advances within a call: two deadlines set by one call differ by no more than its duration.
        slack_ms = 1 + int((time.monotonic() - began) * 1000) if self.server.kind == "fake" else 0
        self._held = read_capture(read)
        return self._read(parts, tuple(replies), self._held, slack_ms, trial)

    def _exchange(self, before: Call[Any], calls: tuple[Call[Any], ...], atomic: bool) -> tuple[Reply, ...]:
        """Restore what the calls should find, make them, and read what they left.

        In one MULTI time stands still, so even a key that lives a millisecond is read.
        """
        after = capture_call(EVERY_KEY)
        together = atomic or self.server.confined or any(call.verb.upper() in EXPIRING for call in calls)
        replies = self.server.round_trip(Flush((before, *calls, after), atomic=together))
        if not together or not isinstance(replies[0], ErrorReply):
            return replies
        if atomic:  # refused as a whole, since one of the calls is not a command: nothing was done
            first, read = self.server.round_trip(Flush((before, after)))
            return (first, *replies[1:-1], read)
        return self.server.round_trip(Flush((before, *calls, after)))

    def _read(
        self,
        given: tuple[Part, ...],
        replies: tuple[Reply, ...],
        found: Snapshot,
        slack_ms: int,
        trial: Attempt | None = None,
    ) -> _Run:
        noted = found.items(NOTED)
        asked = frozenset((kind, what) for kind, _, what in (to_text(note).partition(" ") for note in noted))
        entries = tuple(entry for entry in found.entries if entry[0] not in (NOTED, IDS_KEY))
        for name, value in entries:
            if value.type not in TYPES:
                raise Unseen(f"{plain(name)} holds a {value.type}, which cannot be put back as it was")
        now = trial.instant_ms if trial is not None and any(kind == "clock" for kind, _ in asked) else found.now
        for name, deadline in found.deadlines:
            if deadline < EXPIRES:
                self.lives.setdefault(name, deadline - (now if deadline > now else found.now))
        after = Snapshot(entries, now, found.deadlines)
        parts, metrics = parts_of(after, slack_ms=slack_ms)
        return _Run(Effect(replies, parts, bool(metrics), tuple(_written(given, parts, after))), asked)

    # --- foreign scripts --------------------------------------------------------------------------------------------

    def _try_again(
        self,
        run: _Run,
        parts: tuple[Part, ...],
        calls: tuple[Call[Any], ...],
        atomic: bool,
        scripts: ScriptSet,
        theirs: tuple[Call[Any], ...],
    ) -> None:
        """Doubt foreign scripts that do something else when they run again at another time."""
        who = listed(list(dict.fromkeys(call.verb for call in theirs)))
        self._doubt(who, run.asked)

        def differs(trial: Attempt) -> bool:
            return not run.like(self._run(parts, calls, atomic, scripts, trial), calls)

        kinds = {kind for kind, _ in run.asked}
        if "chance" in kinds:
            return  # whatever it is now, it may differ the next time
        if "clock" in kinds:
            self.instants = len(INSTANTS_MS)
        if differs(Attempt(INSTANTS_MS[1], backwards=True)):
            if differs(Attempt()):
                self.doubts.add(Doubt("chance", f"{who} does not do the same twice"))
                return
            if differs(Attempt(backwards=True)):
                self.doubts.add(Doubt("order", f"{who} does otherwise when a hash or a set comes in another order"))
        if "clock" in kinds and any(differs(Attempt(instant)) for instant in INSTANTS_MS[1:]):
            self.doubts.add(Doubt("clock", f"{who} does otherwise at another time"))

    def _allow(self, allowed: tuple[bytes, ...]) -> None:
        """Allow the scripts of a sandbox only the keys that match these patterns."""
        if allowed != self._allowed:
            self._admin("SETUSER", GUEST, "resetkeys", *(b"~" + pattern for pattern in allowed))
            self._allowed = allowed

    def _look_for_refusals(self, who: str) -> None:
        """Raise `Unseen` for what a sandbox refused a script, whatever the script did about it."""
        entries = [
            {to_text(name): value for name, value in zip(one[::2], one[1::2], strict=True)}
            for one in self._admin("LOG")
        ]
        entry = next((entry for entry in entries if entry["context"] == b"lua"), None)
        if entry is None:
            return
        self._admin("LOG", "RESET")
        what = plain(entry["object"])
        if entry["reason"] == b"key":
            why = "which its header neither declares, nor derives on the slot of a declared key"
            raise Unseen(f"{who} asks for {what}, {why}")
        raise Unseen(f"{who} runs {what.upper()}, which looks at, or changes, more than keys that it names")

    def _look_for_errors(
        self, calls: tuple[Call[Any], ...], replies: list[Reply], scripts: ScriptSet, before: Call[Any], atomic: bool
    ) -> None:
        """Raise `Unrunnable` for an error that is due to the text and not to a key."""
        place = next((n for n, reply in enumerate(replies) if calls[n].kind == "script" and static(reply)), None)
        if place is None:
            return
        own, self.server.scripts = self.server.scripts, scripts  # unwatched, so that the line is the author's
        try:
            again = self._exchange(before, calls, atomic)[place + 1]
        finally:
            self.server.scripts = own
        raise Unrunnable(scripts[calls[place].verb].path, *(static(again) or (0, str(again))))

    def _admin(self, *words: str | bytes) -> Any:
        assert isinstance(self.server, EmbeddedServer)
        if self._keeper is None:
            self._keeper = self.server.process.client()
        return self._keeper.execute_command("ACL", *words)


class _Start:
    """Runs the programs of a world's setup."""

    recorder = None

    def __init__(self, bench: Bench) -> None:
        self.parts: tuple[Part, ...] = ()
        self._bench = bench

    def round_trip(self, flush: Flush[Any]) -> tuple[Reply, ...]:
        replies: list[Reply] = []
        for calls in (flush.calls,) if flush.atomic else [(call,) for call in flush.calls]:
            effect = self._bench.make(self.parts, calls, atomic=flush.atomic)
            self.parts = effect.parts
            replies += effect.replies
        return tuple(replies)


def _written(given: tuple[Part, ...], found: tuple[Part, ...], after: Snapshot) -> Iterator[tuple[Deadline, float]]:
    """The deadlines that stand ahead, elsewhere than they were put."""
    put = {part.queue: part for part in given}
    for part in found:
        for name in TIMED if part.queue else ():
            before = put[part.queue].members(name) if part.queue in put else {}
            for raw, score in after.ranked(keys.queue_key(part.queue, name)).items():
                id = to_text(raw)
                if score > after.now and before.get(id) != score:
                    yield (part.queue, name, id), score - after.now


def _answered(reply: Reply, call: Call[Reply]) -> None:
    if isinstance(reply, ErrorReply):
        raise call.refusal(reply)
