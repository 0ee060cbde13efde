"""A trace records what an operation did: each round trip, each call in it, and the keyspace before and after.

Everything a learner sees is a pure function of a trace. There are two ways to get one:

    trace = Trace.of(flows.add.program("orders", flow), server)       # one operation; its error is kept, not raised
    with record(server) as trace:                                     # everything that runs in the block
        claim = jobs.claim("orders")
        jobs.complete("orders", claim)

While recording, the calls of a flush run one by one, with a look at the keyspace after each. A flush is not atomic, so
this order is possible anyway. MULTI … EXEC stays one step. A look reads the keys written since the last one, or
everything if the server does not tell which keys those are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from emqkit.arguments import whole
from emqkit.errors import BadArgument, ReplyLost, Stopped, Unreachable
from emqkit.scripts import ScriptSet
from emqkit.servers.base import Server, ServerKind
from emqkit.servers.touched import Touched
from emqkit.snapshot import EVERYTHING, Change, Snapshot, Timeline, capture, diff, look_call
from emqkit.wire import Call, Flush, Program, Recorder, Reply, Spot, Steps, path

__all__ = ["CallRecord", "Step", "Trace", "record"]


@dataclass(frozen=True)
class CallRecord:
    """One call, its raw reply, and the keyspace before and after; `scripts` if its set is not that of the trace."""

    call: Call[Any]
    reply: Reply
    before: Snapshot
    after: Snapshot
    scripts: ScriptSet | None = None

    @cached_property
    def diff(self) -> tuple[Change, ...]:
        """What the call changed; empty for a read and for a clean refusal."""
        return diff(self.before, self.after)


@dataclass(frozen=True)
class Step:
    """One round trip.

    Attributes:
        operation: the operation it belongs to, such as `flows.add`.
        run: which of the trace's operations, counted from 0 in the order they started.
        number: which round trip of that operation, counted from 1.
        flush: what was sent.
        calls: what each call did.
        lost: the error, if not all replies came.
        mark: for an event without calls, such as a crash or a lapsed lease in a history: its sentence.
        host: the lines of the operation that sent it, outermost first; empty if not recorded.
        fault: the kind of a mark that is a fault, such as `crash` or `lapse`; empty otherwise.
    """

    operation: str
    run: int
    number: int
    flush: Flush[Any]
    calls: tuple[CallRecord, ...]
    before: Snapshot
    after: Snapshot
    lost: Exception | None = None
    mark: str = ""
    host: tuple[Spot, ...] = ()
    fault: str = ""

    @cached_property
    def diff(self) -> tuple[Change, ...]:
        """What the round trip changed."""
        return diff(self.before, self.after)


class Trace:
    """The recorded round trips of one or more operations on one server.

    Attributes:
        scripts: the script set the calls ran with.
        server_kind: `fake`, `embedded`, `sandbox` or `live`.
        initial: the keyspace before the first round trip.
        program: the operation with its arguments (`Trace.of` only).
        result: what the operation returned (`Trace.of` only).
        error: the exception it raised instead, or None (`Trace.of` only).
        payloads: (id, payload) of jobs known from elsewhere, to name them by (`Trace.assembled` only).
    """

    payloads: tuple[tuple[str, bytes], ...] = ()

    def __init__(self, server: Server, pattern: bytes = EVERYTHING) -> None:
        self.scripts: ScriptSet = server.scripts
        self.server_kind = server.kind
        self.program: Program[Any] | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self._server = server
        self._pattern = pattern
        self._steps: list[Step] = []
        self._runs = 0
        self._stop_after: int | None = None
        self._lock = threading.RLock()
        self._touched: Touched | None = None
        self._timeline = Timeline(capture(server, pattern))
        self.initial = self._timeline.end

    @classmethod
    def of(
        cls, program: Program[Any], server: Server, *, stop_after: int | None = None, pattern: bytes = EVERYTHING
    ) -> Trace:
        """Run a program on a server and return its trace; if it raised, the exception is in `.error`.

        Args:
            program: `flows.add.program("orders", flow)`.
            server: where it runs; other changes made there meanwhile show up too.
            stop_after: stop it after this many calls, 0 or more, as if its host had crashed; `.error` is then
                `Stopped`. It can stop between two calls of one flush.
            pattern: which keys to record, a glob.

        Raises:
            BadArgument: `program` is not a program (but, say, the operation's result), or `stop_after` is not a number.
        """
        if not isinstance(program, Program):
            why = f"is {type(program).__name__}, not a program: pass flows.add.program(…), which has not run yet"
            raise BadArgument("program", program, why)
        if stop_after is not None:
            whole("stop_after", stop_after, at_least=0, unit="calls")
        with record(server, pattern=pattern) as trace:
            trace.program = program
            trace._stop_after = stop_after
            try:
                trace.result = program.run(server)
            except Exception as error:  # the trace is the answer, whatever happened
                trace.error = error
        return trace

    @classmethod
    def assembled(
        cls,
        scripts: ScriptSet,
        server_kind: ServerKind,
        initial: Snapshot,
        steps: Iterable[Step],
        payloads: Iterable[tuple[str, bytes]] = (),
    ) -> Trace:
        """Make a trace of existing steps; this is how an explored history becomes one."""
        trace = cls.__new__(cls)
        trace.payloads = tuple(payloads)
        trace.scripts = scripts
        trace.server_kind = server_kind
        trace.initial = initial
        trace.program = trace.result = trace.error = None
        trace._steps = list(steps)
        trace._runs = max((step.run + 1 for step in trace._steps), default=0)
        trace._lock = threading.RLock()
        return trace

    @property
    def steps(self) -> tuple[Step, ...]:
        """The round trips so far, in order."""
        return tuple(self._steps)

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """Every call of every round trip, in order."""
        return tuple(record for step in self._steps for record in step.calls)

    @property
    def final(self) -> Snapshot:
        """The keyspace after the last round trip."""
        return self._steps[-1].after if self._steps else self.initial

    @contextmanager
    def listening(self) -> Iterator[Trace]:
        """Record until the block ends."""
        server = self._server
        self._touched = Touched(server, self._pattern)
        earlier: Recorder | None = server.recorder
        server.recorder = self
        try:
            yield self
        finally:
            server.recorder = earlier
            self._touched.close()

    def watch(self, operation: str, steps: Steps[Any]) -> Callable[[Flush[Any]], tuple[Reply, ...]]:
        """Return the function that makes and records the round trips of one operation (the `Recorder` protocol)."""
        with self._lock:
            run, self._runs = self._runs, self._runs + 1
        number = 0

        def round_trip(flush: Flush[Any]) -> tuple[Reply, ...]:
            nonlocal number
            with self._lock:
                number += 1
                return self._round_trip(operation, run, number, flush, path(steps))

        return round_trip

    def _round_trip(
        self, operation: str, run: int, number: int, flush: Flush[Any], host: tuple[Spot, ...]
    ) -> tuple[Reply, ...]:
        for call in flush.calls:
            self._server.script(call)  # refuse a call that fits no script before any of the flush is sent
        first = before = self._look(only_if_touched=True)
        records: list[CallRecord] = []
        parts = [flush] if flush.atomic else [Flush((call,)) for call in flush.calls]
        try:
            for part in parts:
                if self._stop_after is not None and len(self.calls) + len(records) >= self._stop_after:
                    raise Stopped(operation, self._stop_after)
                replies = self._server.round_trip(part)
                after = self._look_again(part)
                for call, reply in zip(part.calls, replies, strict=True):
                    records.append(CallRecord(call, reply, before, after))
                    before = after
        except Exception as lost:
            if isinstance(lost, Stopped) and not records:
                raise  # nothing of this round trip was sent, so it is no step
            self._steps.append(Step(operation, run, number, flush, tuple(records), first, before, lost, host=host))
            raise
        self._steps.append(Step(operation, run, number, flush, tuple(records), first, before, host=host))
        return tuple(record.reply for record in records)

    def _look(self, *, only_if_touched: bool = False) -> Snapshot:
        """The keyspace now; with `only_if_touched`, as last seen if nothing was written since."""
        assert self._touched is not None, "a trace looks while it records"
        touched = self._touched.take()
        if touched is None:
            return self._look_at_everything()
        if only_if_touched and not touched:
            return self._timeline.end
        call = look_call(touched)
        reply, *setting = self._server.round_trip(Flush((call, *self._touched.asks)))
        found = call.read(reply)
        seen = self._timeline.move(found.values, found.now)
        # The setting may have been changed meanwhile; and some keys vanish without a notification: by FLUSHALL, and on
        # the fake server when they expire.
        if self._touched.mends(setting) or found.count < self._timeline.count:
            return self._look_at_everything()
        return seen

    def _look_at_everything(self) -> Snapshot:
        seen = capture(self._server, self._pattern)
        return self._timeline.move(dict.fromkeys(self._timeline.known()) | dict(seen.entries), seen.now)

    def _look_again(self, ran: Flush[Any]) -> Snapshot:
        try:
            return self._look()
        except Unreachable as error:  # only the look failed: the calls before it were sent and answered
            raise ReplyLost(error.url, ", ".join(call.verb for call in ran.calls)) from error

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __repr__(self) -> str:
        operations = list(dict.fromkeys(step.operation for step in self._steps))
        return f"<trace of {', '.join(operations) or 'nothing yet'}: {len(self._steps)} round trips>"


@contextmanager
def record(server: Server, *, pattern: bytes = EVERYTHING) -> Iterator[Trace]:
    """Record every operation run through this server object until the block ends; the trace is readable meanwhile."""
    with Trace(server, pattern).listening() as trace:
        yield trace
