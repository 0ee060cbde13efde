"""Every error has its own class here, and its message says what to do next.

All of them derive from `EmqError` and carry their data as attributes, so a handler need not parse the text.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

__all__ = [
    "BadArgument",
    "BadFlow",
    "BadHeader",
    "EmqError",
    "FlowNotNative",
    "ForeignLua",
    "IllFormedId",
    "IllFormedQueue",
    "JobGone",
    "JobLocked",
    "LaneJob",
    "NotDead",
    "NotInCall",
    "NotThisYet",
    "Refused",
    "ReplyLost",
    "ScriptArity",
    "ScriptBroken",
    "ScriptMissing",
    "ScriptStopped",
    "StaleToken",
    "Stopped",
    "Unreachable",
    "UnsuitableServer",
    "WrongNamespace",
]


def printable(text: str) -> str:
    """Untrusted text on one line, with every character that could control a terminal escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class EmqError(Exception):
    """The base of every error emqkit raises."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructors take data, not the message, so the default way to copy or pickle an exception fails.
        return _again, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: the message and the line of the cell, without the frames in between.

        (IPython asks for this name. `%debug` and `%tb` still have all of it.)
        """
        shown = [f"{type(self).__name__}: {self}"]
        cells = [one for one in traceback.extract_tb(self.__traceback__) if "ipykernel_" in one.filename]
        return [*(f"in line {one.lineno} of the cell: {one.line}" for one in cells[:1]), *shown]


def _again(kind: type[EmqError], args: tuple[Any, ...], data: dict[str, Any]) -> EmqError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(data)
    return error


# --- what the caller handed over: found before anything is sent ---------------------------------------------------


class IllFormedId(EmqError, ValueError):
    """An id is not three letters A–Z and eleven base62 digits; the key builder raises this before anything is sent."""

    def __init__(self, id: object, why: str) -> None:
        super().__init__(
            f"ill-formed id {id!r}: {why}. An id is three letters A–Z and eleven base62 digits, "
            f"such as JOB0NgWEfAEJfs; leave ids out to have them minted."
        )
        self.id = id
        self.why = why


class IllFormedQueue(EmqError, ValueError):
    """A queue name cannot be part of a key."""

    def __init__(self, queue: object, why: str) -> None:
        super().__init__(
            f"ill-formed queue name {queue!r}: {why}. A queue name is non-empty text without NUL, '{{' or '}}'."
        )
        self.queue = queue
        self.why = why


class BadArgument(EmqError, ValueError):
    """An argument cannot be used; nothing was sent."""

    def __init__(self, name: str, value: object, why: str) -> None:
        super().__init__(f"{name} {value!r} {why}. Nothing was sent.")
        self.name = name
        self.value = value
        self.why = why


class BadFlow(EmqError, ValueError):
    """A flow has a bad shape: `reason` is `no_children`, `flow_cycle` or `flow_too_deep`. Nothing was sent."""

    def __init__(self, reason: str, why: str, ids: Sequence[str] = ()) -> None:
        super().__init__(f"{reason}: {why} Nothing was sent.")
        self.reason = reason
        self.why = why
        self.ids = tuple(ids)


class NotThisYet(EmqError):
    """The request needs an operation that this version does not have."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} Nothing was sent.")
        self.what = what


# --- what a script answered ----------------------------------------------------------------------------------------


class WrongNamespace(EmqError):
    """A script that lands jobs refused a well-formed id of another namespace (`EMQKIND`), before any write."""

    def __init__(self, ids: Sequence[str], text: str) -> None:
        named = ", ".join(ids)
        super().__init__(f"the script refused {named}: {text}. Nothing was written; give ids that begin with JOB.")
        self.ids = tuple(ids)
        self.text = text


class JobGone(EmqError):
    """The job has no row: it was completed or removed, or never landed."""

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(
            f"job {id} has no row in queue {queue}: it was completed or removed, or never landed. "
            f"There is nothing left to settle; drop the claim."
        )
        self.queue = queue
        self.id = id


class StaleToken(EmqError):
    """The fencing token is stale: the job has been claimed again since. Nothing was written."""

    def __init__(self, queue: str, id: str, token: int) -> None:
        super().__init__(
            f"token {token} of job {id} in queue {queue} is stale: the job has been claimed again. "
            f"Drop this claim; whoever holds the newer token settles the job."
        )
        self.queue = queue
        self.id = id
        self.token = token


class NotDead(EmqError):
    """Only a dead job can be reprocessed."""

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(f"job {id} in queue {queue} is not dead; only a dead job can be reprocessed. See jobs.state.")
        self.queue = queue
        self.id = id


class LaneJob(EmqError):
    """A job's row has the field `group`: it belongs to a lane of the real system, which keeps counters of its own."""

    def __init__(self, queue: str, id: str, group: str) -> None:
        super().__init__(
            f"job {id} in queue {queue} belongs to the lane {group!r} (its row has the field group), and lanes are not "
            f"supported: settling it as a flat job would corrupt the lane's counters. Nothing was written."
        )
        self.queue = queue
        self.id = id
        self.group = group


class JobLocked(EmqError):
    """The job has a lock, so it was not removed."""

    def __init__(self, queue: str, id: str) -> None:
        super().__init__(f"job {id} in queue {queue} is locked; nothing was removed. Try again once its lock is gone.")
        self.queue = queue
        self.id = id


class FlowNotNative(EmqError):
    """The native commands refuse a flow child and the flow layouts, before any write (dive 01)."""

    def __init__(self, command: str, text: str) -> None:
        super().__init__(f"{command} refused: {text}. Flows run as scripts; use the jobs verb instead.")
        self.command = command
        self.text = text


class Refused(EmqError):
    """The server answered an error that no script's contract names."""

    def __init__(self, what: str, code: str, text: str) -> None:
        super().__init__(f"{what} was answered with an error: {printable(f'{code} {text}')}".rstrip())
        self.what = what
        self.code = code
        self.text = text


class Stopped(EmqError):
    """An operation was stopped on purpose after a given number of calls, as if its host had crashed."""

    def __init__(self, operation: str, calls: int) -> None:
        noun = "call" if calls == 1 else "calls"
        super().__init__(
            f"{operation} was stopped after {calls} {noun}; what was done stays done, and nothing follows."
        )
        self.operation = operation
        self.calls = calls


# --- scripts -------------------------------------------------------------------------------------------------------


class BadHeader(EmqError):
    """A Lua file's header is not a valid contract."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}, line {line}: {why}. The header is the script's contract; see lua/claim.lua for one.")
        self.path = path
        self.line = line
        self.why = why


class ScriptArity(EmqError):
    """A call's keys and arguments fit none of the layouts that the script's header declares; nothing was sent."""

    def __init__(self, script: str, why: str) -> None:
        super().__init__(f"{script}: {why}. Nothing was sent; the header of the Lua file says what it takes.")
        self.script = script
        self.why = why


class NotInCall(EmqError, KeyError):
    """A call has no key or argument of this name."""

    def __init__(self, script: str, what: str, name: str, declared: bool) -> None:
        why = "this call leaves it out" if declared else f"its header declares no {what} of that name"
        super().__init__(f"{script}: there is no {what} {name!r}: {why}.")
        self.script = script
        self.what = what
        self.name = name
        self.declared = declared

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message quoted


class ScriptMissing(EmqError, KeyError):
    """A script set, or the folder it would be read from, does not have what was asked for."""

    def __init__(self, script: str, where: str) -> None:
        super().__init__(f"no Lua script {script} in {where}. Check the name, or the folder the set was read from.")
        self.script = script
        self.where = where

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message quoted


class ScriptBroken(EmqError):
    """A Lua file does not compile. `line` counts from 1."""

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(f"{path}, line {line}: {why}. Nothing was run.")
        self.path = path
        self.line = line
        self.why = why


class ForeignLua(EmqError):
    """Lua that is not the kit's own would have run outside a sandbox; nothing was sent."""

    def __init__(self, scripts: Sequence[str], why: str) -> None:
        are = "are not the kit's own Lua" if len(scripts) > 1 else "is not the kit's own Lua"
        super().__init__(f"{', '.join(scripts)} {are} and may only run in a sandbox: {why}. Nothing was sent.")
        self.scripts = tuple(scripts)
        self.why = why


# --- the connection ------------------------------------------------------------------------------------------------


class Unreachable(EmqError):
    """No connection: nothing was sent, so nothing happened."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} cannot be reached: {why}. Nothing was sent; start the server or check the URL.")
        self.url = url
        self.why = why


class ReplyLost(EmqError):
    """The connection broke after the call was sent and before its reply arrived: it may or may not have taken effect.

    The remedy is the caller's: repeat the operation with the same ids or token. Nothing is re-sent automatically.
    """

    def __init__(self, url: str, what: str) -> None:
        super().__init__(
            f"the reply to {what} from {url} was lost: it may have taken effect. "
            f"Check the job's state, or repeat the operation with the same ids and token."
        )
        self.url = url
        self.what = what


class ScriptStopped(ReplyLost):
    """Foreign Lua exceeded a limit of its sandbox: time, memory, or the size of a reply.

    Attributes:
        what: the script, or whatever else the sandbox was asked to do.
        why: what it did.
        ended: whether the sandbox was killed, and its contents lost.
    """

    def __init__(self, url: str, what: str, why: str, ended: bool) -> None:
        end = "The sandbox was killed with all it held; open another" if ended else "What it wrote before stays"
        EmqError.__init__(self, f"{what} was stopped: {why}. {end}.")
        self.url = url
        self.what = what
        self.why = why
        self.ended = ended


class UnsuitableServer(EmqError):
    """A server was found, but it cannot do what the scripts need."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} cannot be used: {why}.")
        self.url = url
        self.why = why
