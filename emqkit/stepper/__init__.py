"""One unmodified script, line by line, with the value of every local and the answer to every call it makes.

`step` runs the Lua in a machine of its own, against a private copy of the keys it touches: nothing reaches the server
it was given until `commit` runs the call there for real. Each `redis.call` is done, and its answer converted, by a
server's own Lua. And the same script is run in one go as well, by a real EVAL from the same start: whether both ended
alike is part of the answer, because a stepper that lies is worse than none.

    stepped = emqkit.step(server.scripts["claim"], [pending, active], [prefix, "30000"], server)
    for line in stepped.lines:
        print(line.number, line.move, dict(line.locals))
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple

from emqkit.arguments import to_bytes, to_text
from emqkit.errors import BadArgument, BadHeader, EmqError, Refused, ScriptArity
from emqkit.scripts import Move, Script, ScriptSet, lua_folder
from emqkit.servers import Server, open_server
from emqkit.snapshot import Change, Snapshot, Value, capture, diff, digest, restore, value_of
from emqkit.stepper.machine import STOP, Ending, Job, run_apart, run_here
from emqkit.trace import CallRecord
from emqkit.wire import Call, ErrorReply, Flush, Reply

__all__ = ["Asked", "Fault", "Line", "Moment", "Stepped", "step", "step_call"]

DEADLINE_S = 10.0
LINE_BUDGET = 20_000
EVERY_KEY = b"*"


# --- what a learner sees ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line about to run.

    Attributes:
        number: of the line, from 1.
        move: the `-- move:` it belongs to; inside a function, that of the line which called it.
        locals: name and shown value of each local in scope, before the line runs. Readings of the clock show as `now`.
    """

    number: int
    move: str | None
    locals: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Asked:
    """A `redis.call` or `redis.pcall` of the script, with its answer.

    Attributes:
        args: the command and its arguments, as text went out; a number in its shortest form.
        reply: what came back; a status is bytes, false is None.
        line: which line asked.
        before: the keys just before the call.
        after: and just after it.
        start: as they were before the script.
    """

    args: tuple[bytes, ...]
    reply: Reply
    line: int
    before: Snapshot = field(repr=False)
    after: Snapshot = field(repr=False)
    start: Snapshot = field(repr=False)

    @property
    def call_text(self) -> str:
        """The call as a line of text; a time is told from the script's `now`."""
        return " ".join(_told(word, self.after.now) for word in self.args)

    @property
    def reply_text(self) -> str:
        """The answer as the script sees it; that of `TIME` is `now`."""
        if self.args == (self.args[0],) and self.args[0].upper() == b"TIME":
            return "now"
        return "false" if self.reply is None else _shown(self.reply, self.after.now)

    @cached_property
    def diff(self) -> tuple[Change, ...]:
        """What this call changed."""
        return diff(self.before, self.after)

    @cached_property
    def diff_so_far(self) -> tuple[Change, ...]:
        """What the script has changed, this call included."""
        return diff(self.start, self.after)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a script did not end as it should.

    Attributes:
        line: where, from 1; 0 when it cannot be said.
        text: what was raised, with its code first as a server words it; or why it was stopped.
        stopped: whether the stepper stopped it, which no server would have done in this way.
    """

    line: int
    text: str
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A line with the calls made while it ran, and the keys once it had."""

    line: Line
    asked: tuple[Asked, ...]
    after: Snapshot = field(repr=False)


@dataclass(frozen=True)
class Stepped:
    """A script's whole run.

    Attributes:
        script: the script with its header; None when its text has none that can be read.
        source: its text.
        keys: KEYS, each with its name in the header.
        argv: ARGV, each with its name in the header.
        events: every line and every call, in order.
        reply: what a caller would get; None too when the script was stopped.
        error: where and why it failed or was stopped, or None. The writes before it stay.
        before: the keys it touched as they were; for a recorded call, all of them.
        after: as they are at the end.
        agrees: whether one real EVAL from the same start left the same keys and gave the same reply, readings of the
            clock apart; None when that was not tried.
        agreement: the same as a sentence, with the first differences.
        atomic_reply: the reply of that EVAL.
        atomic_after: the keys it left.
        server_kind: where the calls were answered, `fake` or `embedded`.
    """

    script: Script | None
    source: str = field(repr=False)
    keys: tuple[tuple[str, bytes], ...]
    argv: tuple[tuple[str, bytes], ...]
    events: tuple[Line | Asked, ...] = field(repr=False)
    reply: Reply
    error: Fault | None
    before: Snapshot = field(repr=False)
    after: Snapshot = field(repr=False)
    agrees: bool | None
    agreement: str
    atomic_reply: Reply
    atomic_after: Snapshot | None = field(repr=False)
    server_kind: Literal["fake", "embedded", "live"]

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
        """What it changed; after an error, the writes that stay."""
        return diff(self.before, self.after)

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """Line by line, with the calls of each: what a player shows one after the other."""
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
        """The fingerprint of what the EVAL left (`emqkit.snapshot.digest`)."""
        return None if self.atomic_after is None else digest(self.atomic_after)

    @property
    def name(self) -> str:
        """What the script is called."""
        return "the script" if self.script is None else self.script.name

    @property
    def sentence(self) -> str:
        """The run in a sentence or three; holds no reading of a clock."""
        ran = f"{self.name} ran {_count(len(self.lines), 'line')} and made {_count(len(self.asked), 'call')}"
        if self.error is None:
            end = f"{ran}; {_count(len(self.diff), 'change')}."
        else:
            where = f" in line {self.error.line}" if self.error.line else ""
            how = "was stopped" if self.error.stopped else "failed"
            made = _count(len(self.diff), "change")
            stay = {0: "It had changed nothing", 1: f"The {made} before that stays"}.get(
                len(self.diff), f"The {made} before that stay"
            )
            end = f"{ran}, then {how}{where}: {self.error.text}. {stay}."
        return f"{end} {self.agreement}"

    def commit(self, server: Server) -> Reply:
        """Run the call for real on this server, by EVAL, and return its reply.

        Raises:
            BadArgument: the script was stopped, so it would keep a server busy or reach what it must not.
            Unreachable, ReplyLost: as every round trip.
        """
        if self.error is not None and self.error.stopped:
            raise BadArgument("script", self.name, f"was stopped by the stepper ({self.error.text})")
        if server.kind == "fake" and (names := _ways_out(self.source)):
            raise BadArgument("script", self.name, f"names {names}, and the fake server's Lua is not closed in")
        (reply,) = server.round_trip(Flush((_eval(self.source, _values(self.keys), _values(self.argv)),)))
        return reply

    def __repr__(self) -> str:
        return f"<{self.sentence}>"


def _values(named: Iterable[tuple[str, bytes]]) -> tuple[bytes, ...]:
    return tuple(value for _, value in named)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# --- stepping ---------------------------------------------------------------------------------------------------------


def step(
    script: Script | str | bytes,
    keys: Sequence[str | bytes],
    argv: Sequence[str | bytes | int],
    server: Server,
    *,
    line_budget: int = LINE_BUDGET,
    deadline_s: float = DEADLINE_S,
) -> Stepped:
    """Run one script line by line, on a private copy of the keys it touches.

    The copy is made key by key, when the script first touches it, from what `server` holds then; `server` is read and
    never written. It lies in `server.scratch()`: a new fake for a fake, another database for an embedded server, and
    for a live one an embedded server if one is installed, else a fake.

    A script whose text is not one of the kit's own runs in a child process with a deadline, since a pattern can spin
    inside C, where no line is counted.

    Args:
        script: a `Script`, or the text of one; a header is read if there is one.
        keys: KEYS.
        argv: ARGV.
        server: whose keys to start from.
        line_budget: how many lines it may run before it is stopped, inside a pcall too.
        deadline_s: how many seconds edited Lua may take.

    Raises:
        ScriptArity: a `Script` does not take these keys and arguments. (A mere text may be called with anything.)
        BadArgument: a key holds a type that cannot be copied.
        Unreachable, ReplyLost: the server could not be read.
    """
    called = _Called.of(script, keys, argv)
    with server.scratch() as place:
        run = _Run(called, place, lambda names: _contents(server, names))
        run.touch(called.keys)
        return run.compared(run.through(line_budget, deadline_s))


def step_call(
    record: CallRecord,
    scripts: ScriptSet,
    server: Server | None = None,
    *,
    line_budget: int = LINE_BUDGET,
    deadline_s: float = DEADLINE_S,
) -> Stepped:
    """Step a recorded script call once more, from the keyspace it started from and at the time it ran.

    What it is compared with is what was recorded: that was the real call.

    Args:
        record: one call of a trace, of kind `script`.
        scripts: the set the trace was recorded with (`trace.scripts`).
        server: any server; the calls are answered on a scratch of it, and it is neither read nor written. A fake one
            without it.
        line_budget: as in `step`.
        deadline_s: as in `step`.

    Raises:
        BadArgument: the call is a plain command, which has no lines.
        ScriptMissing, ScriptArity: the set is not the one it ran with.
    """
    if record.call.kind != "script":
        raise BadArgument("call", record.call.verb, "is no script, so there are no lines to step through")
    called = _Called.of(scripts[record.call.verb], record.call.keys, record.call.args)
    before = record.before

    def contents(names: Iterable[bytes]) -> dict[bytes, Value]:
        return {name: before.keys[name] for name in names if name in before.keys}

    with server.scratch() if server is not None else open_server("fake://", scripts=scripts) as place:
        run = _Run(called, place, contents, before)
        return run.compared(run.through(line_budget, deadline_s), record)


@dataclass(frozen=True)
class _Called:
    """A script with what it is called with, and what its header says of both."""

    script: Script | None
    source: str
    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    named_keys: tuple[tuple[str, bytes], ...]
    named_argv: tuple[tuple[str, bytes], ...]
    moves: tuple[Move, ...]

    @classmethod
    def of(
        cls, script: Script | str | bytes, keys: Sequence[str | bytes], argv: Sequence[str | bytes | int]
    ) -> _Called:
        given_keys = tuple(to_bytes(key) for key in keys)
        given_argv = tuple(to_bytes(str(value) if isinstance(value, int) else value) for value in argv)
        if isinstance(script, Script):
            source, header = script.source, script
            view = script.view(given_keys, given_argv)
        else:
            source = script if isinstance(script, str) else to_text(script)
            header, view = None, None
            title = re.match(r"-- (\w+):", source)
            if title:
                try:
                    header = Script.parse(source, f"{title[1]}.lua")
                    view = header.view(given_keys, given_argv)
                except (BadHeader, ScriptArity):
                    pass  # a server takes any text with any arguments, and the stepper shows what then happens
        if view is None:
            named_keys = tuple((f"KEYS[{place}]", key) for place, key in enumerate(given_keys, 1))
            named_argv = tuple((f"ARGV[{place}]", value) for place, value in enumerate(given_argv, 1))
        else:
            named_keys, named_argv = view.keys.pairs, view.args.pairs
        lines = source.split("\n")
        moves = tuple(Move(m[1].strip(), n) for n, line in enumerate(lines, 1) if (m := _MOVE.fullmatch(line)))
        return cls(header, source, given_keys, given_argv, named_keys, named_argv, moves)

    @property
    def shipped(self) -> bool:
        """Whether the text is, byte for byte, one of the kit's own."""
        return hashlib.sha1(_bytes(self.source), usedforsecurity=False).hexdigest() in _shipped()

    def move(self, line: int) -> str | None:
        """The move a line of the main chunk belongs to."""
        return next((move.name for move in reversed(self.moves) if move.line <= line), None)


_MOVE = re.compile(r"\s*-- move: (\S.*)")


@cache
def _shipped() -> frozenset[str]:
    """The sha of every script the kit comes with, whatever its set."""
    files = (path.read_bytes() for path in lua_folder().rglob("*.lua"))
    return frozenset(hashlib.sha1(text, usedforsecurity=False).hexdigest() for text in files)


@cache
def _codec() -> bytes:
    """The move of `lua/tools/bridge.lua` by which both sides write values as tokens."""
    bridge = ScriptSet.load("tools")["bridge"]
    starts = {move.name: move.line for move in bridge.moves}
    lines = bridge.source.split("\n")
    return "\n".join(lines[starts["codec"] : starts["give"] - 1]).encode()


# --- line by line -----------------------------------------------------------------------------------------------------

Tokens = list[bytes]


class _Run:
    """One run of a script on one scratch server: first line by line, then in one go."""

    def __init__(
        self,
        called: _Called,
        place: Server,
        contents: Callable[[Iterable[bytes]], Mapping[bytes, Value]],
        base: Snapshot | None = None,
    ) -> None:
        self.called = called
        self.place = place
        self.contents = contents
        self.base = base
        self.touched: frozenset[bytes] = frozenset()
        self.start: dict[bytes, Value] = {}
        self.held = capture(place, EVERY_KEY)  # nothing yet, and what time it is
        self.move: str | None = None
        self.events: list[Line | _Answered] = []
        # TIME is read once a run; that of a recorded call is the time of the record.
        self.clock = _clock_tokens(base.now) if base is not None and base.now else None
        self.read_clock = False

    def touch(self, keys: Iterable[bytes]) -> None:
        """Copy what the script has not touched so far."""
        new = frozenset(keys) - self.touched
        if not new:
            return
        self.touched |= new
        copied = self.contents(new)
        if copied:
            self.start.update(copied)
            restore(self.place, Snapshot(tuple(sorted(copied.items()))), current=Snapshot())
            self.held = capture(self.place, EVERY_KEY)

    def through(self, line_budget: int, deadline_s: float) -> Stepped:
        """Step through the script; how that compares is still to be said."""
        job = Job(
            source=_bytes(self.called.source),
            codec=_codec(),
            withheld=tuple((name.encode(), why.encode()) for name, why in _withheld()),
            keys=self.called.keys,
            argv=self.called.argv,
            line_budget=line_budget,
        )
        if self.called.shipped:
            ending = run_here(job, self.on_line, self.ask)
        else:
            ending = run_apart(job, self.on_line, self.ask, deadline_s)
        reply, error = self.ended(ending)
        before = self.whole(frozenset(), Snapshot())
        return Stepped(
            script=self.called.script,
            source=self.called.source,
            keys=self.called.named_keys,
            argv=self.called.named_argv,
            events=tuple(event if isinstance(event, Line) else self.asked(event, before) for event in self.events),
            reply=reply,
            error=error,
            before=before,
            after=self.whole(self.touched, self.held),
            agrees=None,
            agreement="",
            atomic_reply=None,
            atomic_after=None,
            server_kind=self.place.kind,
        )

    def on_line(self, number: int, main: bool, shown: list[tuple[bytes, bytes]]) -> None:
        if main:
            self.move = self.called.move(number)
        seen = tuple((to_text(name), value.decode("utf-8", "backslashreplace")) for name, value in shown)
        self.events.append(Line(number, self.move, seen))

    def ask(self, verb: bytes, line: int, tokens: Tokens) -> Tokens:
        """The answer to one call of the script, by the scratch server's own Lua."""
        if verb != b"pcall":
            return self.bridge(verb, (), tokens)
        args = tuple(_word(token) for token in tokens)
        name = args[0].upper().decode("latin-1")
        shape = _COMMANDS.get(name)
        if shape is None:
            return [
                STOP
                + _bytes(f"it calls {name}, and the stepper knows no such command that touches only the keys it names")
            ]
        keys = shape.keys(args[1:])
        self.touch(keys)
        touched, before = self.touched, self.held
        if args == (args[0],) and name == "TIME":
            self.read_clock = True
            self.clock = answer = self.clock or self.bridge(verb, (), tokens)
        else:
            answer = self.bridge(verb, keys, tokens)
        if shape.writes:
            self.held = capture(self.place, EVERY_KEY)
        self.events.append(_Answered(args, _reply(answer), line, touched, before, self.held))
        return answer

    def bridge(self, verb: bytes, keys: tuple[bytes, ...], tokens: Sequence[bytes]) -> Tokens:
        reply = self.tool(verb, keys, tokens)
        if isinstance(reply, ErrorReply):
            raise Refused("bridge", reply.code, reply.text)
        if not isinstance(reply, tuple):
            raise TypeError(f"expected tokens from bridge, not {reply!r}")
        return [token for token in reply if isinstance(token, bytes)]

    def tool(self, verb: bytes, keys: tuple[bytes, ...], tokens: Sequence[bytes]) -> Reply:
        return self.send(_call("bridge", keys, (verb, *tokens), "tool"))

    def send(self, call: Call[Any]) -> Reply:
        """The scratch server's reply to one call."""
        try:
            (reply,) = self.place.round_trip(Flush((call,)))
        except EmqError:
            raise
        except Exception as crash:
            # The fake's own code falls over what a live server answers with an error, such as redis.call().
            return ErrorReply("ERR", f"the {self.place.kind} server fell over: {type(crash).__name__}: {crash}")
        return reply

    def ended(self, ending: Ending) -> tuple[Reply, Fault | None]:
        """What a caller gets, converted by the scratch server, and what went wrong."""
        text = to_text(ending.text)
        if ending.kind == "returned":
            return self.tool(b"give", (), ending.tokens), None
        if ending.kind == "unreadable":
            text = f"ERR Error compiling script (new function): {text}"
        line = ending.line or next((e.number for e in reversed(self.events) if isinstance(e, Line)), 0)
        if ending.kind == "stopped":
            return None, Fault(line, text, stopped=True)
        return self.tool(b"give", (), (b"t1", b"serr", b"s" + _bytes(text))), Fault(line, text)

    # A key that was copied late was there, and unchanged, from the start.
    def whole(self, touched: frozenset[bytes], held: Snapshot) -> Snapshot:
        """The keys as they were when those touched so far held this."""
        others = self.start if self.base is None else self.base.keys
        entries = {name: value for name, value in others.items() if name not in touched} | dict(held.keys)
        return Snapshot(tuple(sorted(entries.items())), self.now)

    def asked(self, answered: _Answered, start: Snapshot) -> Asked:
        args, reply, line, touched, before, after = answered
        return Asked(args, reply, line, self.whole(touched, before), self.whole(touched, after), start)

    @property
    def now(self) -> int:
        """The run's one clock, unix milliseconds; before the script asks, that of the latest look at the scratch."""
        return self.held.now if self.clock is None else _microseconds(self.clock) // 1000

    # --- in one go ----------------------------------------------------------------------------------------------------

    def compared(self, stepped: Stepped, record: CallRecord | None = None) -> Stepped:
        """Say whether a real run from the same start ended alike."""
        if stepped.error is not None and stepped.error.stopped:
            return replace(stepped, agreement="It was not run in one go, since it had to be stopped.")
        if record is not None:
            who, reply, after = "The recorded run, all in one go,", record.reply, record.after
            span = (record.before.now * 1000, record.after.now * 1000 + 999) if record.before.now else (0, 2**62)
        elif self.place.kind == "fake" and not self.called.shipped and (names := _ways_out(stepped.source)):
            why = f"It was not run in one go: it names {names}, and the fake server's Lua is not closed in."
            return replace(stepped, agreement=f"{why} An embedded server's is.")
        else:
            who = f"In one go, on {'an embedded' if self.place.kind == 'embedded' else 'a fake'} server, it"
            reply, after, span = self.in_one_go()
        clock = _Clock(_microseconds(self.clock), *span) if self.clock is not None and self.read_clock else None
        differences = [*_reply_differences(stepped.reply, reply, clock), *_key_differences(stepped.after, after, clock)]
        if not differences:
            agreement = f"{who} left the same keys and gave the same reply."
        else:
            more = f"; and {_count(len(differences) - 3, 'more difference')}" if len(differences) > 3 else ""
            advice = "Trust that run, not this one."
            if self.place.kind == "fake":
                advice = "The fake server's Lua is looser than a live one's; step it on embedded:// to know."
            agreement = f"{who} did not end alike: {'; '.join(differences[:3])}{more}. {advice}"
        return replace(stepped, agrees=not differences, agreement=agreement, atomic_reply=reply, atomic_after=after)

    def in_one_go(self) -> tuple[Reply, Snapshot, tuple[int, int]]:
        """A real EVAL from the same start: the reply, the keys it left, and between which microseconds it ran."""
        # Cleared first, not patched: a key that is equal may have got a time to live.
        restore(self.place, Snapshot(), current=self.held)
        restore(self.place, Snapshot(tuple(sorted(self.start.items()))), current=Snapshot())
        time = _call("TIME", (), ())
        begun = _clock_reading(self.send(time))
        reply = self.send(_eval(self.called.source, self.called.keys, self.called.argv))
        return reply, capture(self.place, EVERY_KEY), (begun, _clock_reading(self.send(time)))


class _Answered(NamedTuple):
    """An `Asked` before it is known what else the script will touch."""

    args: tuple[bytes, ...]
    reply: Reply
    line: int
    touched: frozenset[bytes]
    before: Snapshot
    after: Snapshot


# --- calls ------------------------------------------------------------------------------------------------------------


def _call(
    verb: str, keys: tuple[bytes, ...], args: tuple[bytes, ...], kind: Literal["command", "tool"] = "command"
) -> Call[Any]:
    return Call(verb, keys, args, lambda reply: reply, lambda error: Refused(verb, error.code, error.text), kind)


def _eval(source: str, keys: Sequence[bytes], argv: Sequence[bytes]) -> Call[Any]:
    return _call("EVAL", (), (_bytes(source), b"%d" % len(keys), *keys, *argv))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_READS: Mapping[bytes, tuple[str, tuple[bytes, ...]]] = {
    b"string": ("GET", ()),
    b"hash": ("HGETALL", ()),
    b"list": ("LRANGE", (b"0", b"-1")),
    b"zset": ("ZRANGE", (b"0", b"-1", b"WITHSCORES")),
    b"set": ("SMEMBERS", ()),
}


def _contents(server: Server, names: Iterable[bytes]) -> dict[bytes, Value]:
    """What a server holds under these names; those it does not have are left out. Two round trips of plain reads."""
    wanted = sorted(names)
    types = server.round_trip(Flush(tuple(_call("TYPE", (name,), ()) for name in wanted)))
    found = [(name, kind) for name, kind in zip(wanted, types, strict=True) if kind != b"none"]
    reads = []
    for name, kind in found:
        if not isinstance(kind, bytes) or kind not in _READS:
            raise BadArgument("key", name, f"holds {_shown(kind)}, which the stepper does not copy")
        verb, args = _READS[kind]
        reads.append(_call(verb, (name,), args))
    values = {}
    for (name, kind), call, reply in zip(found, reads, server.round_trip(Flush(tuple(reads))), strict=True):
        if isinstance(reply, ErrorReply):
            raise call.refusal(reply)
        items = [item for item in reply if isinstance(item, bytes)] if isinstance(reply, tuple) else [reply]
        if isinstance(kind, bytes) and items and isinstance(items[0], bytes):  # else it went meanwhile
            values[name] = value_of(kind.decode(), [item for item in items if isinstance(item, bytes)])
    return values


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which arguments of a command are keys: every `every`-th of the first `among` (None: of all); and if it writes."""

    among: int | None
    writes: bool
    every: int = 1

    def keys(self, args: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(args[: self.among : self.every])


def _shapes() -> Iterator[tuple[str, _Shape]]:
    one_read = """
        GET STRLEN GETRANGE GETBIT BITCOUNT TYPE TTL PTTL EXPIRETIME PEXPIRETIME
        HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN LRANGE LLEN LINDEX LPOS
        ZSCORE ZMSCORE ZCARD ZCOUNT ZLEXCOUNT ZRANK ZREVRANK
        ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX
        SCARD SISMEMBER SMISMEMBER SMEMBERS"""
    one_write = """
        SET SETNX SETEX PSETEX GETSET GETDEL GETEX APPEND SETRANGE SETBIT INCR INCRBY INCRBYFLOAT DECR DECRBY
        EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST
        HSET HMSET HSETNX HDEL HINCRBY HINCRBYFLOAT LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LREM LSET LTRIM LINSERT
        ZADD ZREM ZINCRBY ZPOPMIN ZPOPMAX ZREMRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYLEX SADD SREM"""
    yield from ((name, _Shape(1, writes=False)) for name in one_read.split())
    yield from ((name, _Shape(1, writes=True)) for name in one_write.split())
    two_write = "RENAME RENAMENX RPOPLPUSH LMOVE ZRANGESTORE SMOVE"
    yield from ((name, _Shape(2, writes=True)) for name in two_write.split())
    yield from ((name, _Shape(None, writes=False)) for name in ("EXISTS", "MGET", "TOUCH"))
    yield from ((name, _Shape(None, writes=True)) for name in ("DEL", "UNLINK"))
    yield from ((name, _Shape(None, writes=True, every=2)) for name in ("MSET", "MSETNX"))
    yield from ((name, _Shape(0, writes=False)) for name in ("TIME", "PING", "ECHO"))


# The commands that are stepped: those whose keys are known, so that they can be copied before the call. Left out are
# those that look at, or change, more than their keys (KEYS, SELECT, FLUSHALL), and those that throw dice.
_COMMANDS: Mapping[str, _Shape] = dict(_shapes())


def _withheld() -> Iterator[tuple[str, str]]:
    """What a script finds on a live server and not here."""
    differs = "it differs between the fake and a live server"
    reasons = {
        "the stepper cannot see inside it": ("coroutine", "load", "loadstring"),
        "it holds different things on each kind of server": ("_G", "gcinfo", "collectgarbage", "os"),
        differs: ("cjson", "cmsgpack", "struct", "bit", "redis.setresp", "redis.replicate_commands"),
        "it has no meaning for one script on one server": (
            *("redis.set_repl", "redis.REPL_ALL", "redis.REPL_AOF", "redis.REPL_NONE", "redis.REPL_REPLICA"),
            *("redis.REPL_SLAVE", "redis.breakpoint", "redis.debug", "redis.acl_check_cmd", "redis.register_function"),
        ),
        "it names the server's own version": (
            *("redis.REDIS_VERSION", "redis.REDIS_VERSION_NUM", "redis.VALKEY_VERSION", "redis.VALKEY_VERSION_NUM"),
            "redis.SERVER_NAME",
        ),
        "two runs would throw different dice": ("math.random", "math.randomseed"),
    }
    for why, names in reasons.items():
        for name in names:
            yield name, f"it uses {name}, which a live server has and the stepper keeps out: {why}"


# --- tokens -----------------------------------------------------------------------------------------------------------


def _word(token: bytes) -> bytes:
    """An argument of a call as text."""
    if token[:1] != b"d":
        return token[1:]
    number = float(token[1:])
    return b"%d" % number if number.is_integer() else repr(number).encode()


def _reply(tokens: Sequence[bytes]) -> Reply:
    """The value that these tokens spell, as a reply."""
    return _read(tokens, 0)[0]


def _read(tokens: Sequence[bytes], at: int) -> tuple[Reply, int]:
    kind, text = tokens[at][:1], tokens[at][1:]
    at += 1
    if kind == b"d":
        return int(float(text)), at
    if kind != b"t":
        # A server's script sees a missing value as false; x is an error that was raised and not returned.
        simple: dict[bytes, Reply] = {b"s": text, b"T": 1, b"x": _error(text)}
        return simple.get(kind), at
    entries: dict[Reply, Reply] = {}
    for _ in range(int(text)):
        name, at = _read(tokens, at)
        entries[name], at = _read(tokens, at)
    if isinstance(problem := entries.get(b"err"), bytes):
        return _error(problem), at
    if isinstance(status := entries.get(b"ok"), bytes):
        return status, at
    return tuple(entries[place] for place in range(1, len(entries) + 1)), at


def _error(text: bytes) -> ErrorReply:
    code, _, rest = to_text(text).partition(" ")
    return ErrorReply(code, rest)


def _clock_tokens(milliseconds: int) -> Tokens:
    """TIME's reply at this moment."""
    seconds, rest = divmod(milliseconds, 1000)
    return [b"t2", b"d1", b"s%d" % seconds, b"d2", b"s%d" % (rest * 1000)]


def _microseconds(tokens: Sequence[bytes]) -> int:
    return _clock_reading(_reply(tokens))


def _clock_reading(reply: Reply) -> int:
    """TIME's reply as unix microseconds."""
    if not isinstance(reply, tuple):
        raise TypeError(f"expected seconds and microseconds from TIME, not {reply!r}")
    seconds, microseconds = (int(part) for part in reply if isinstance(part, bytes))
    return seconds * 1_000_000 + microseconds


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Clock:
    """When the stepped run read the clock, and between which moments the other one did; unix microseconds."""

    ours: int
    earliest: int
    latest: int

    def explains(self, mine: float, other: float) -> bool:
        """Whether two numbers differ by no more than the two readings do, in seconds, milliseconds or microseconds.

        A lease deadline is the reading plus a constant: what is left of each without its reading must be the same.
        """
        for unit in (1_000_000, 1_000, 1):
            ours = self.ours / unit
            if min(mine, other) > ours / 2:
                reading = other - (mine - ours)
                if self.earliest / unit - 1 <= reading <= self.latest / unit + 1:
                    return True
        return False


def _same(mine: bytes, other: bytes, clock: _Clock | None) -> bool:
    if mine == other:
        return True
    if clock is None:
        return False
    try:
        return clock.explains(float(mine), float(other))
    except ValueError:
        return False


def _reply_differences(mine: Reply, other: Reply, clock: _Clock | None) -> Iterator[str]:
    if not _same_reply(mine, other, clock):
        yield f"the reply is {_shown(mine)} here and {_shown(other)} there"


def _same_reply(mine: Reply, other: Reply, clock: _Clock | None) -> bool:
    if isinstance(mine, tuple) and isinstance(other, tuple):
        return len(mine) == len(other) and all(_same_reply(*pair, clock) for pair in zip(mine, other, strict=True))
    if isinstance(mine, ErrorReply) and isinstance(other, ErrorReply):
        # The servers' own texts differ, so of theirs the code has to do; a script's own are compared whole.
        ours = mine.code.startswith("EMQ")
        return mine.code == other.code and (not ours or mine.text == _WHERE.sub("", other.text))
    if isinstance(mine, bytes) and isinstance(other, bytes):
        return _same(mine, other, clock)
    if isinstance(mine, int) and isinstance(other, int):
        return mine == other or (clock is not None and clock.explains(mine, other))
    return mine is None and other is None


# What a live server adds to an error that a script raised.
_WHERE = re.compile(r" script: (?:[0-9a-f]{40}, )?on @?user_script:\d+\.$")


def _key_differences(mine: Snapshot, other: Snapshot, clock: _Clock | None) -> Iterator[str]:
    for change in diff(mine, other):
        here, there = change.before, change.after
        if here is not None and there is not None and _same(here, there, clock):
            continue
        if _same_list(mine.items(change.key), other.items(change.key), clock):
            continue
        part = f" {to_text(change.part)!r}" if change.part is not None else ""
        yield f"{to_text(change.key)}{part} is {_shown(here)} here and {_shown(there)} there"


def _same_list(mine: tuple[bytes, ...], other: tuple[bytes, ...], clock: _Clock | None) -> bool:
    """Whether two lists differ in readings of the clock only: their diff is of items that left and items that came."""
    return 0 < len(mine) == len(other) and all(_same(*pair, clock) for pair in zip(mine, other, strict=True))


def _shown(reply: Reply, now: int = 0) -> str:
    """A reply in a sentence; with a `now`, times are told from it."""
    if isinstance(reply, tuple):
        return f"[{', '.join(_shown(item, now) for item in reply)}]"
    if isinstance(reply, bytes):
        return _from_now(reply, now) or _quoted(reply)
    return "nothing" if reply is None else str(reply)


def _told(word: bytes, now: int) -> str:
    """A word of a call: bare when it can stand so."""
    return _from_now(word, now) or (to_text(word) if re.fullmatch(rb"[!#-~]+", word) else _quoted(word))


def _quoted(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return json.dumps(shown if len(shown) <= 60 else shown[:59] + "…", ensure_ascii=False)


def _from_now(text: bytes, now: int) -> str:
    """Milliseconds within a year of now, told from there; else nothing. As in `shown` of machine.lua."""
    if not now or not re.fullmatch(rb"\d{12,}", text) or abs(off := int(text) - now) >= 32_000_000_000:
        return ""
    return "now" if not off else f"(now {'+' if off > 0 else '-'} {abs(off)})"


# --- ways out of the fake server's Lua --------------------------------------------------------------------------------

_LUA_TOKEN = re.compile(
    r"--\[(=*)\[.*?\]\1\]|--[^\n]*|\[(=*)\[.*?\]\2\]"
    r"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?P<name>[A-Za-z_]\w*)|.",
    re.DOTALL,
)
_OUT = frozenset(
    (
        *("_G", "coroutine", "debug", "dofile", "getfenv", "io", "load", "loadfile", "loadstring", "module"),
        *("newproxy", "os", "package", "python", "require", "setfenv"),
    )
)


def _ways_out(source: str) -> str:
    """Names in the script by which Lua on a fake server reaches Python or the machine; empty when there is none.

    Without `_G` and `getfenv`, a global is reached by its name only, so that it is enough to look for names.
    """
    names = {match["name"] for match in _LUA_TOKEN.finditer(source)}
    return ", ".join(sorted(name for name in names & _OUT if name))
