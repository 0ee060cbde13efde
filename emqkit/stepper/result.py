"""The result of a stepped run: its lines, its calls, how it ended and whether a real run ended alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from emqkit.arguments import to_text
from emqkit.errors import BadArgument, printable
from emqkit.keyspace import digest
from emqkit.scripts import Script
from emqkit.servers import Server
from emqkit.servers.base import ServerKind
from emqkit.snapshot import Change, Snapshot, diff
from emqkit.stepper.commands import eval_of
from emqkit.wire import Flush, Reply

__all__ = ["Asked", "Line", "Moment", "ScriptFailure", "Stepped", "counted", "shown"]


@dataclass(frozen=True, slots=True)
class Line:
    """A line about to run.

    Attributes:
        number: of the line, from 1.
        move: the `-- move:` it belongs to; inside a function, the move of the line that called it.
        locals: name and shown value of each local in scope, before the line runs. Clock readings show as `now`.
    """

    number: int
    move: str | None
    locals: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Asked:
    """A `redis.call` or `redis.pcall` of the script, with its reply.

    Attributes:
        args: the command and its arguments, as sent; a number in its shortest form.
        reply: its reply; a status is bytes, false is None.
        line: the line that made the call.
        before: the keys just before the call.
        after: the keys just after it.
        start: the keys before the script.
    """

    args: tuple[bytes, ...]
    reply: Reply
    line: int
    before: Snapshot = field(repr=False)
    after: Snapshot = field(repr=False)
    start: Snapshot = field(repr=False)

    @property
    def call_text(self) -> str:
        """The call as a line of text; times are relative to the script's `now`."""
        return " ".join(told(word, self.after.now) for word in self.args)

    @property
    def reply_text(self) -> str:
        """The reply as the script sees it; that of `TIME` is `now`."""
        if self.args == (self.args[0],) and self.args[0].upper() == b"TIME":
            return "now"
        return "false" if self.reply is None else shown(self.reply, self.after.now)

    @cached_property
    def diff(self) -> tuple[Change, ...]:
        """What this call changed."""
        return diff(self.before, self.after)

    @cached_property
    def diff_so_far(self) -> tuple[Change, ...]:
        """What the script has changed so far, this call included."""
        return diff(self.start, self.after)


@dataclass(frozen=True, slots=True)
class ScriptFailure:
    """Why a script did not end normally.

    Attributes:
        line: where, from 1; 0 if unknown.
        text: the error as a server words it, code first; or why it was stopped.
        stopped: whether the stepper stopped it, which a server would not have done.
    """

    line: int
    text: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A line with the calls made while it ran, and the keys after it."""

    line: Line
    asked: tuple[Asked, ...]
    after: Snapshot = field(repr=False)


@dataclass(frozen=True)
class Stepped:
    """The whole run of a script.

    Attributes:
        script: the script with its header; None if its text has no valid header.
        source: its text.
        keys: KEYS, each with its name in the header.
        argv: ARGV, each with its name in the header.
        events: every line and every call, in order.
        reply: what a caller would get; also None if the script was stopped.
        error: where and why it failed or was stopped, or None. Earlier writes stay.
        before: the keys it touched, as they were before; for a recorded call, all keys.
        after: the same keys at the end.
        agrees: whether a real EVAL from the same start left the same keys and gave the same reply, apart from clock
            readings; None if it was not run.
        agreement: the same as a sentence, with the first differences.
        atomic_reply: the reply of that EVAL.
        atomic_after: the keys it left.
        server_kind: where the calls were answered, `fake`, `embedded` or `sandbox`.
    """

    script: Script | None
    source: str
    keys: tuple[tuple[str, bytes], ...]
    argv: tuple[tuple[str, bytes], ...]
    events: tuple[Line | Asked, ...]
    reply: Reply
    error: ScriptFailure | None
    before: Snapshot
    after: Snapshot
    agrees: bool | None
    agreement: str
    atomic_reply: Reply
    atomic_after: Snapshot | None
    server_kind: ServerKind

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines that ran, in order."""
        return tuple(event for event in self.events if isinstance(event, Line))

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """The calls it made, in order."""
        return tuple(event for event in self.events if isinstance(event, Asked))

    @cached_property
    def diff(self) -> tuple[Change, ...]:
        """What it changed; after an error, the writes before it."""
        return diff(self.before, self.after)

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Line by line, with the calls of each: the steps that a player shows."""
        grouped: list[tuple[Line, list[Asked]]] = []
        for event in self.events:
            if isinstance(event, Line):
                grouped.append((event, []))
            elif grouped:
                grouped[-1][1].append(event)
        after, moments = self.before, []
        for line, asked in grouped:
            after = asked[-1].after if asked else after
            moments.append(Moment(line, tuple(asked), after))
        return tuple(moments)

    @property
    def atomic_state_digest(self) -> str | None:
        """The fingerprint of the keys that the EVAL left (`emqkit.keyspace.digest`)."""
        return None if self.atomic_after is None else digest(self.atomic_after)

    @property
    def name(self) -> str:
        """The script's name."""
        return "the script" if self.script is None else self.script.name

    @property
    def sentence(self) -> str:
        """The run in one to three sentences, without clock readings."""
        ran = f"{self.name} ran {counted(len(self.lines), 'line')} and made {counted(len(self.asked), 'call')}"
        if self.error is None:
            end = f"{ran}; {counted(len(self.diff), 'change')}."
        else:
            where = f" in line {self.error.line}" if self.error.line else ""
            how = "was stopped" if self.error.stopped else "failed"
            made = counted(len(self.diff), "change")
            stay = {0: "It had changed nothing", 1: f"The {made} before that stays"}.get(
                len(self.diff), f"The {made} before that stay"
            )
            end = f"{ran}, then {how}{where}: {printable(self.error.text)}. {stay}."
        return f"{end} {self.agreement}"

    def commit(self, server: Server) -> Reply:
        """Run the call for real on this server, by EVAL, and return its reply.

        Raises:
            BadArgument: the script was stopped, so it would keep a server busy or touch what it must not.
            ForeignLua: it is not the kit's own, and the server is not a sandbox.
            Unreachable, ReplyLost: as for every round trip.
        """
        if self.error is not None and self.error.stopped:
            raise BadArgument("script", self.name, f"was stopped by the stepper ({self.error.text})")
        (reply,) = server.round_trip(Flush((eval_of(self.source, values(self.keys), values(self.argv)),)))
        return reply

    def __repr__(self) -> str:
        return f"<{self.sentence}>"


def values(named: Iterable[tuple[str, bytes]]) -> tuple[bytes, ...]:
    return tuple(value for _, value in named)


def counted(number: int, what: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def shown(reply: Reply, now: int = 0) -> str:
    """A reply as text; with a `now`, times are relative to it."""
    if isinstance(reply, tuple):
        return f"[{', '.join(shown(item, now) for item in reply)}]"
    if isinstance(reply, bytes):
        return _from_now(reply, now) or _quoted(reply)
    return "nothing" if reply is None else str(reply)


def told(word: bytes, now: int) -> str:
    """A word of a call: without quotes if it needs none."""
    return _from_now(word, now) or (to_text(word) if re.fullmatch(rb"[!#-~]+", word) else _quoted(word))


def _quoted(text: bytes) -> str:
    decoded = text.decode("utf-8", "backslashreplace")
    return json.dumps(decoded if len(decoded) <= 60 else decoded[:59] + "…", ensure_ascii=False)


def _from_now(text: bytes, now: int) -> str:
    """Milliseconds within a year of now, relative to it; otherwise empty. As in `shown` of machine.lua."""
    if not now or not re.fullmatch(rb"\d{12,}", text) or abs(off := int(text) - now) >= 32_000_000_000:
        return ""
    signed = f"{off:+}"
    return f"(now {signed[:1]} {signed[1:]})" if off else "now"
