"""A Worker claims the jobs of one queue, passes each to your handler, and settles it.

    tidy up      reap lapsed leases, promote what is due
    claim        the smallest pending id; none: is the queue empty, paused, or only waiting?
    handle       your function, with the claim
    settle       complete with what it returned, or retry with the text of what it raised

It runs the host half of the protocol in a loop and leaves every decision to the server that the server can make, so
several Workers can share a queue safely. It reads no clock except to wait. Source: Flows dives 01 and 03.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from emqkit import keys
from emqkit.arguments import Data, check_data, whole
from emqkit.errors import BadArgument, JobGone, StaleToken
from emqkit.jobs import Claim, Depths, Jobs
from emqkit.servers.base import Server

__all__ = ["Ended", "Handler", "Outcome", "Ran", "Worked", "Worker"]

Handler = Callable[[Claim], Data | None]
"""Your function: it gets the claim and returns the result (None: the job's own id), or raises."""

Outcome = Literal["completed", "scheduled", "dead", "lost"]
"""What became of a claim. `lost`: we could no longer settle it, since the job was gone or claimed again."""

Ended = Literal["empty", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class Ran:
    """One claimed job, and what became of it.

    Attributes:
        claim: what was claimed.
        outcome: `completed`, `scheduled` (it failed and will be retried), `dead` (its last attempt failed) or `lost`.
        error: what the handler raised, or None.
    """

    claim: Claim
    outcome: Outcome
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """What a run did.

    Attributes:
        completed, scheduled, dead, lost: how many claims ended in each `Outcome`.
        reaped: jobs with a lapsed lease, put back into pending.
        promoted: due jobs made claimable.
        ended: why it ended: the queue was `empty`, or `paused` with nothing to do, or `stop()` was called.
    """

    completed: int
    scheduled: int
    dead: int
    lost: int
    reaped: int
    promoted: int
    ended: Ended

    @property
    def claimed(self) -> int:
        """How many claims there were in all."""
        return self.completed + self.scheduled + self.dead + self.lost


@dataclass(eq=False)
class Worker:
    """Works through one queue: `emqkit.Worker(server, "orders", handler).run(until_empty=True)`.

    The handler's return value is the job's result. If it raises, the job is retried with the error's text; the bytes of
    an exception whose only argument is bytes are kept as they are. A result that is neither text nor bytes counts as
    an error. A BaseException such as KeyboardInterrupt ends the run, and the job is reaped once its lease lapses.

    The lease is not extended automatically: make it outlast the handler, or let the handler call `jobs.extend_lock`
    with its claim. If it lapses anyway and another worker claims the job, settling it here meets a stale token; that
    counts as `lost`, and the run goes on.

    Args:
        server: where the queue lives.
        queue: whose jobs are worked.
        handler: called with each claim.
        lease_ms: the length of a lease, milliseconds, 1 or more.
        max_attempts: how many claims a job gets in all before a failure makes it dead, 1 or more.
        delay_ms: milliseconds until a failed job is due again, 0 or more.
        poll_ms: milliseconds between two attempts while there is nothing to claim, 1 or more.
        sleep: waits the given number of seconds; by default a wait that `stop()` cuts short.

    Raises:
        BadArgument, IllFormedQueue: when made.
    """

    server: Server
    queue: str
    handler: Handler
    lease_ms: int = field(default=30_000, kw_only=True)
    max_attempts: int = field(default=3, kw_only=True)
    delay_ms: int = field(default=1000, kw_only=True)
    poll_ms: int = field(default=100, kw_only=True)
    sleep: Callable[[float], object] | None = field(default=None, kw_only=True)
    _stop: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def __post_init__(self) -> None:
        keys.check_queue(self.queue)
        if not callable(self.handler):
            raise BadArgument("handler", self.handler, "is not a function that takes a claim")
        whole("lease_ms", self.lease_ms, at_least=1, unit="milliseconds")
        whole("max_attempts", self.max_attempts, at_least=1)
        whole("delay_ms", self.delay_ms, at_least=0, unit="milliseconds")
        whole("poll_ms", self.poll_ms, at_least=1, unit="milliseconds")

    def run(self, until_empty: bool = True) -> Worked:
        """Work until there is nothing left to do, or until `stop()`.

        Args:
            until_empty: end once pending, active and schedule of the queue are all empty. Held parents do not count:
                they wait for their children, not for a worker. The run waits for jobs that are scheduled or claimed by
                others. A paused queue that is not empty also ends the run, as `paused`, since only a `resume` changes
                that. With False the worker serves until `stop()`, and through a pause.

        Raises:
            ReplyLost, Unreachable: the server went away. A job in hand is reaped once its lease lapses.
        """
        jobs = Jobs(self.server)
        done: Counter[str] = Counter()
        try:
            while True:
                if self._stop.is_set():
                    return _worked(done, "stopped")
                done["reaped"] += jobs.reap(self.queue)
                done["promoted"] += jobs.promote(self.queue)
                ran = self.run_one()
                if ran is not None:
                    done[ran.outcome] += 1
                    continue
                if until_empty:
                    if _nothing_waits(jobs.depths(self.queue)):
                        return _worked(done, "empty")
                    if jobs.paused(self.queue):
                        return _worked(done, "paused")
                self._wait()
        finally:
            self._stop.clear()

    def run_one(self) -> Ran | None:
        """Claim one job, handle it and settle it; None if there was none to claim. It neither reaps nor promotes."""
        jobs = Jobs(self.server)
        claim = jobs.claim(self.queue, self.lease_ms)
        if claim is None:
            return None
        failure: Exception | None = None
        result: Data | None = None
        try:
            result = self.handler(claim)
            if result is not None:
                check_data("result", result)
        except Exception as error:  # whatever the handler raised is the job's failure, not the worker's
            failure = error
        outcome: Outcome
        try:
            if failure is None:
                jobs.complete(self.queue, claim, result=result)
                outcome = "completed"
            else:
                outcome = jobs.retry(
                    self.queue,
                    claim,
                    error=_error_text(failure),
                    max_attempts=self.max_attempts,
                    delay_ms=self.delay_ms,
                )
        except (JobGone, StaleToken):
            outcome = "lost"
        return Ran(claim, outcome, failure)

    def stop(self) -> None:
        """End the run after the job in hand; callable from any thread. Before a run, it ends the next at once."""
        self._stop.set()

    def _wait(self) -> None:
        seconds = min(self.poll_ms / 1000, threading.TIMEOUT_MAX)
        if self.sleep is None:
            self._stop.wait(seconds)
        else:
            self.sleep(seconds)


def _nothing_waits(depths: Depths) -> bool:
    return not (depths.pending or depths.active or depths.scheduled)


def _worked(done: Counter[str], ended: Ended) -> Worked:
    return Worked(
        completed=done["completed"],
        scheduled=done["scheduled"],
        dead=done["dead"],
        lost=done["lost"],
        reaped=done["reaped"],
        promoted=done["promoted"],
        ended=ended,
    )


def _error_text(error: Exception) -> bytes:
    """What goes on the row as `last_error`: the exception's bytes, else its text, else its class."""
    if len(error.args) == 1 and isinstance(error.args[0], bytes):
        return error.args[0]
    said = str(error) or type(error).__name__
    return said.encode("utf-8", "surrogateescape" if keys.is_writable(said) else "backslashreplace")
