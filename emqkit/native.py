"""The native commands complete or fail a flat job in the server itself; they refuse flows, which only run as scripts.

    EMQ.COMPLETE 2 active row id token base
    EMQ.FAIL 4 active schedule dead row id token delay max error base

No stock server has these commands: `lua/native_complete.lua` and `lua/native_fail.lua` are models of them, labelled
as such. This module sends the command's line, including its number of keys, and the model answers it.
Source: Flows dive 01, its section on the native commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from emqkit import transitions
from emqkit.arguments import Data, check_data, one_of, to_bytes, whole
from emqkit.errors import BadArgument, JobGone
from emqkit.ids import check
from emqkit.jobs import settling
from emqkit.keys import check_queue
from emqkit.servers.base import Server, check_server
from emqkit.transitions import Claim, ParentLink
from emqkit.wire import Done, Program, Steps, operation

__all__ = ["Native"]

_COMMANDS = {"native_complete": "EMQ.COMPLETE", "native_fail": "EMQ.FAIL"}

_PLAIN = re.compile(rb"[!#-&(-~]+")  # what needs no quotes on a command line: no space, no quote, nothing unprintable


@dataclass(frozen=True)
class Native:
    """The two native commands of one server: `emqkit.Native(server).complete("orders", claim)`."""

    server: Server

    def __post_init__(self) -> None:
        check_server(self.server)

    @operation
    def complete(
        self,
        queue: str,
        job: Claim | str,
        token: int | None = None,
        *,
        parent: ParentLink | None = None,
        result: Data | None = None,
    ) -> Steps[bool]:
        """Send `EMQ.COMPLETE`. One round trip: unlike `jobs.complete` it does not read the row's parent first.

        Args:
            queue: where the job was claimed.
            job: the claim, or an id with `token` beside it.
            token: the claim's fencing token.
            parent: sends the line that `jobs.complete` would send for a child of this parent: 5 keys, or 3 if
                `parent.queue` is set. It is refused for its number of keys alone.
            result: the result on that line; the job's own id if omitted.

        Returns:
            True: the job had no parent and is done.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            FlowNotNative: the line is a flow's, or the row carries `parent`; nothing was written.
            JobGone, StaleToken: as in `jobs.complete`; nothing was written.
        """
        id, token = settling(queue, job, token)
        outcome = to_bytes(id if result is None else check_data("result", result))
        if result is not None and parent is None:
            raise BadArgument("result", result, "has no place on the flat line: it is for a parent, so pass parent=")
        as_script = transitions.complete(queue, id, token, _link(queue, parent), outcome)
        done = yield from transitions.native_complete(queue, id, token, as_script.keys, as_script.args)
        if not done:
            raise JobGone(queue, id)
        return True

    @operation
    def fail(
        self,
        queue: str,
        job: Claim | str,
        token: int | None = None,
        *,
        error: Data,
        max_attempts: int = 3,
        delay_ms: int = 1000,
        parent: ParentLink | None = None,
    ) -> Steps[Literal["scheduled", "dead"]]:
        """Send `EMQ.FAIL`. One round trip.

        Args:
            queue: where the job was claimed.
            job: the claim, or an id with `token` beside it.
            token: the claim's fencing token.
            error: what went wrong, text or bytes.
            max_attempts: how many claims the job gets in all, 1 or more.
            delay_ms: milliseconds until it is due again, 0 or more.
            parent: sends the line that `jobs.retry` would send for a child of this parent: 8 keys, or 5 if
                `parent.queue` is set. It is refused for its number of keys alone.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            FlowNotNative: the line is a flow's, or the row carries `parent`; nothing was written.
            JobGone, StaleToken: as in `jobs.retry`; nothing was written.
        """
        id, token = settling(queue, job, token)
        why = to_bytes(check_data("error", error))
        whole("max_attempts", max_attempts, at_least=1)
        whole("delay_ms", delay_ms, at_least=0, unit="milliseconds")
        link = _link(queue, parent)
        as_script = transitions.retry(queue, id, token, delay_ms, max_attempts, why, link)
        outcome = yield from transitions.native_fail(queue, id, token, as_script.keys, as_script.args)
        return outcome

    @staticmethod
    def line(program: Program[Any]) -> str:
        """The line that a native program sends, as you would type it: `EMQ.COMPLETE 2 emq:{orders}:active …`.

        Args:
            program: `native.complete.program("orders", claim)` or `native.fail.program(…)`; nothing is sent.

        Raises:
            BadArgument: the program is not one of a native command.
            EmqError: whatever the command raises before it sends anything.
        """
        sent = program.after(())
        if isinstance(sent, Done):
            raise sent.error or BadArgument("program", program.name, "sends nothing")
        (call, *_) = sent.calls
        if call.verb not in _COMMANDS:
            raise BadArgument("program", program.name, "is not native.complete or native.fail")
        words = [_COMMANDS[call.verb].encode(), b"%d" % len(call.keys), *call.keys, *call.args]
        return " ".join(map(_typed, words))


def _link(queue: str, parent: ParentLink | None) -> ParentLink | None:
    if parent is None:
        return None
    if not isinstance(parent, ParentLink):
        raise BadArgument("parent", parent, f"is {type(parent).__name__}, not a ParentLink")
    check(parent.id)
    one_of("policy", parent.policy, ("fp", "id"))
    # The queue's own name counts as absent, as it does on a row.
    elsewhere = None if parent.queue is None or parent.queue == queue else check_queue(parent.queue)
    return replace(parent, queue=elsewhere)


def _typed(word: bytes) -> str:
    """A word quoted as redis-cli expects it."""
    if _PLAIN.fullmatch(word):
        return word.decode()
    inside = "".join(_escaped(byte) for byte in word)
    return f'"{inside}"'


def _escaped(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}"
