"""The Pump delivers a queue's signals to parents elsewhere: read, deliver, and only then trim (Flows dive 03).

    outbox   [a, b, c]          read up to a batch, nothing removed
    deliver  a → 1, b → 1       one call an entry, on the parent's slot, in order
    trim     [c]                exactly the unbroken run of delivered entries

Delivery is at least once: after a crash before the trim, the next pass delivers again. It counts once, because the
parent's hashes keep the first record.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from emqkit import keys, outbox, transitions
from emqkit.arguments import whole
from emqkit.errors import EmqError, ReplyLost, Unreachable
from emqkit.jobs import node_call, value_or_raise
from emqkit.log import logger
from emqkit.outbox import Completion, Entry, Failure, Poison
from emqkit.servers.base import Server, check_server
from emqkit.wire import Reply, Steps, command, operation, pair

__all__ = ["Pump", "Swept"]


@dataclass(frozen=True, slots=True)
class Swept:
    """What one pass did.

    Attributes:
        promoted: due jobs moved to pending.
        delivered: outbox entries delivered and trimmed.
        blocked_by: the poison entry at which the pass stopped, if any; the entries behind it wait.
    """

    promoted: int
    delivered: int
    blocked_by: Poison | None = None


@dataclass(eq=False)
class Pump:
    """Sweeps one queue: by hand with `.sweep()`, or on a thread with `with pump:`.

    A queue with cross-queue children, or with inner nodes of a tree, needs one for the parents to be released; without
    it the signals wait in the outbox, delayed but not lost. Run only one: of two at once, each would trim as many
    entries as it delivered, even entries that the other has yet to deliver.

    Args:
        server: where the queue lives.
        queue: whose outbox is drained and whose due work is promoted.
        tick_ms: milliseconds between two passes of the thread, 1 or more.
        batch: the most entries read, and jobs promoted, per pass; 1 or more.

    Attributes:
        last_error: what the thread's last pass raised; None if it raised nothing.
        blocked_by: the poison entry at which the thread's last pass without an error stopped; None once it is delivered
            or removed.

    Raises:
        BadArgument, IllFormedQueue: when made.
    """

    server: Server
    queue: str
    tick_ms: int = 1000
    batch: int = 100
    last_error: Exception | None = field(default=None, init=False)
    blocked_by: Poison | None = field(default=None, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_server(self.server)
        keys.check_queue(self.queue)
        whole("tick_ms", self.tick_ms, at_least=1, unit="milliseconds")
        whole("batch", self.batch, at_least=1)

    @operation
    def sweep(self) -> Steps[Swept]:
        """One pass: promote due work and read the outbox, deliver in order, trim what was delivered.

        2 + n round trips for n entries, one less if none was delivered, one more for each death that climbs.

        Raises:
            ReplyLost, Unreachable: nothing is known to be trimmed; the next pass delivers again, and it counts once.
        """
        outbox_key = keys.queue_key(self.queue, "flow:outbox")
        head = command("LRANGE", [outbox_key], [b"0", b"%d" % (self.batch - 1)], _entries)
        promoting, reading = yield from pair(transitions.promote(self.queue, self.batch), head)
        promoted, entries = value_or_raise(promoting), value_or_raise(reading)
        delivered, blocked = 0, None
        for raw in entries:
            entry = outbox.decode(raw)
            blocked = yield from self._deliver(raw, entry)
            if blocked is not None:
                break
            delivered += 1
        if delivered:
            yield from command("LTRIM", [outbox_key], [b"%d" % delivered, b"-1"], lambda reply: reply)
        return Swept(promoted, delivered, blocked)

    def _deliver(self, raw: bytes, entry: Entry) -> Steps[Poison | None]:
        """Deliver one entry on its parent's slot; returns it as poison if it cannot be delivered, else None."""
        if isinstance(entry, Poison):
            return entry
        try:
            if isinstance(entry, Completion):
                yield from transitions.flow_deliver(entry.parent_queue, entry.parent_id, entry.child_id, entry.result)
            else:
                yield from self._deliver_death(entry)
        except (ReplyLost, Unreachable):
            raise  # a lost reply does not make it poison: the entry stays where it is
        except EmqError as error:
            return Poison(raw, str(error))
        return None

    def _deliver_death(self, entry: Failure) -> Steps[None]:
        """Apply a death's policy; if the parent dies too and has a parent itself, the death climbs a level."""
        deliver = transitions.flow_fail_deliver(
            entry.parent_queue, entry.parent_id, entry.child_id, entry.error, entry.policy
        )
        if entry.policy != "fp":
            yield from deliver
            return
        before, applied = yield from pair(node_call(entry.parent_queue, entry.parent_id), deliver)
        value_or_raise(applied)
        state, above = value_or_raise(before)
        if state != "dead" and above is not None:
            yield from outbox.signal_death(entry.parent_queue, entry.parent_id, above, entry.error)

    # --- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread: one pass at once, then one per tick. It survives errors and poison, shows and logs them."""
        if self._thread is not None:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name=f"emqkit pump {self.queue}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current pass; raises what its last pass raised, once."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        error, self.last_error = self.last_error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        while True:
            try:
                self._note(self.sweep().blocked_by, None)
            except Exception as error:  # the thread survives every error; stop() raises the last pass's
                self._note(self.blocked_by, error)
            if self._stop.wait(min(self.tick_ms / 1000, threading.TIMEOUT_MAX)):
                return

    def _note(self, blocked_by: Poison | None, error: Exception | None) -> None:
        """Record how a pass of the thread ended, and log what is new."""
        if error is not None and repr(error) != repr(self.last_error):
            logger.warning("The Pump of %s met an error and goes on: %s", self.queue, error)
        if error is None and self.last_error is not None:
            logger.info("The Pump of %s sweeps again.", self.queue)
        if blocked_by is not None and blocked_by != self.blocked_by:
            logger.warning("The Pump of %s is blocked, and what is behind waits: %s", self.queue, blocked_by.why)
        if blocked_by is None and self.blocked_by is not None:
            logger.info("The Pump of %s is no longer blocked.", self.queue)
        self.blocked_by, self.last_error = blocked_by, error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.stop()
            return
        try:
            self.stop()
        except Exception:  # the body's own error matters more
            return


def _entries(reply: Reply) -> tuple[bytes, ...]:
    return tuple(item for item in reply if isinstance(item, bytes)) if isinstance(reply, tuple) else ()
