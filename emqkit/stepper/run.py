"""Runs a script on a scratch server: line by line, then in one go from the same start."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from emqkit.arguments import to_bytes, to_text
from emqkit.errors import BadArgument, BadHeader, EmqError, Refused, ScriptArity, ScriptStopped
from emqkit.scripts import Move, Script, ScriptSet, moves_of
from emqkit.scripts.released import is_released
from emqkit.servers import Server, open_server
from emqkit.servers.base import ServerKind
from emqkit.servers.sandbox import DEADLINE_S, Sandbox, open_sandbox
from emqkit.snapshot import Snapshot, Value, capture, flat, restore, value_of
from emqkit.stepper.commands import (
    COMMANDS,
    Tokens,
    call_of,
    clock_reading,
    clock_tokens,
    eval_of,
    microseconds,
    reply_of,
    withheld,
    word_of,
)
from emqkit.stepper.compare import Clock, key_differences, reply_differences
from emqkit.stepper.machine import Ending, Halt, Job, run_apart, run_here
from emqkit.stepper.result import Asked, Line, ScriptFailure, Stepped, counted, shown
from emqkit.trace import CallRecord
from emqkit.wire import Call, ErrorReply, Flush, Reply

__all__ = ["codec", "step", "step_call"]

LINE_BUDGET = 20_000
KEPT_BYTES = 64 << 20
"""Bytes kept of a foreign script's run, lines and keys together, since it can make both as large as it likes."""
LEAST_S = 0.2
"""The least seconds left for the run in one go, however long the stepped one took."""
EVERY_KEY = b"*"
ABOUT_A_KEY = 100
"""Bytes each key costs whenever the keys are kept, apart from its name and its contents."""
NOTHING = ScriptSet("nothing", {})


def step(
    script: Script | str | bytes,
    keys: Sequence[str | bytes],
    argv: Sequence[str | bytes | int],
    server: Server,
    *,
    line_budget: int = LINE_BUDGET,
    deadline_s: float = DEADLINE_S,
) -> Stepped:
    """Run a script line by line, on a private copy of the keys it touches.

    Each key is copied from `server` when the script first touches it; `server` is read but never written. The copy is
    in `server.scratch()`: a new fake for a fake, another database for an embedded server, and for a live one an
    embedded server if one is installed, else a fake.

    A script whose text is not one of the kit's own is foreign: its lines run in a child process with a deadline, since
    a Lua pattern can spin inside C, where no line is counted; its calls, and its run in one go, use a sandbox.

    Args:
        script: a `Script`, or the text of one, with or without a header.
        keys: KEYS.
        argv: ARGV.
        server: whose keys to start from.
        line_budget: how many lines it may run before it is stopped, inside a pcall too.
        deadline_s: how many seconds foreign Lua may take.

    Raises:
        ScriptArity: a `Script` does not take these keys and arguments. (A plain text may be called with anything.)
        ForeignLua: it is not the kit's own, and no sandbox is available.
        BadArgument: a key holds a type that cannot be copied.
        Unreachable, ReplyLost: the server could not be read.
    """
    called = _Called.of(script, keys, argv)
    with server.scratch() if called.shipped else open_sandbox(NOTHING, deadline_s=deadline_s) as place:
        run = _Run(called, place, lambda names: _contents(server, names), deadline_s)
        run.touch(called.keys)
        return run.compared(run.through(line_budget))


def step_call(
    record: CallRecord,
    scripts: ScriptSet,
    server: Server | None = None,
    *,
    line_budget: int = LINE_BUDGET,
    deadline_s: float = DEADLINE_S,
) -> Stepped:
    """Step a recorded script call again, from the keyspace it started from and at the time it ran.

    It is compared with the record, which was the real call.

    Args:
        record: one call of a trace, of kind `script`.
        scripts: the set the trace was recorded with (`trace.scripts`).
        server: any server; the calls are answered on a scratch of it, and it is neither read nor written. By default a
            fake one; those of foreign Lua are answered in a sandbox.
        line_budget: as in `step`.
        deadline_s: as in `step`.

    Raises:
        BadArgument: the call is a plain command, which has no lines.
        ScriptMissing, ScriptArity: the set is not the one it ran with.
    """
    if record.call.kind != "script":
        raise BadArgument("call", record.call.verb, "is not a script, so it has no lines to step through")
    called = _Called.of(scripts[record.call.verb], record.call.keys, record.call.args)
    before = record.before

    def contents(names: Iterable[bytes]) -> dict[bytes, Value]:
        return {name: before.keys[name] for name in names if name in before.keys}

    if not called.shipped:
        opened: Server = open_sandbox(NOTHING, deadline_s=deadline_s)
    else:
        opened = server.scratch() if server is not None else open_server("fake://")
    with opened as place:
        run = _Run(called, place, contents, deadline_s, before)
        return run.compared(run.through(line_budget), record)


@dataclass(frozen=True)
class _Called:
    """A script with its keys and arguments, named by its header."""

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
                    pass  # a server runs any text with any arguments, and the stepper shows what happens
        if view is None:
            named_keys = tuple((f"KEYS[{place}]", key) for place, key in enumerate(given_keys, 1))
            named_argv = tuple((f"ARGV[{place}]", value) for place, value in enumerate(given_argv, 1))
        else:
            named_keys, named_argv = view.keys.pairs, view.args.pairs
        return cls(header, source, given_keys, given_argv, named_keys, named_argv, moves_of(source))

    @property
    def shipped(self) -> bool:
        """Whether the text is, byte for byte, one of the kit's own."""
        return is_released(to_bytes(self.source))

    def move(self, line: int) -> str | None:
        """The move a line of the main chunk belongs to."""
        return next((move.name for move in reversed(self.moves) if move.line <= line), None)


@cache
def codec() -> bytes:
    """The move of `lua/tools/bridge.lua` with which both sides encode values as tokens."""
    bridge = ScriptSet.load("tools")["bridge"]
    starts = {move.name: move.line for move in bridge.moves}
    lines = bridge.source.split("\n")
    return "\n".join(lines[starts["codec"] : starts["give"] - 1]).encode()


_READS: Mapping[bytes, tuple[str, tuple[bytes, ...]]] = {
    b"string": ("GET", ()),
    b"hash": ("HGETALL", ()),
    b"list": ("LRANGE", (b"0", b"-1")),
    b"zset": ("ZRANGE", (b"0", b"-1", b"WITHSCORES")),
    b"set": ("SMEMBERS", ()),
}


def _contents(server: Server, names: Iterable[bytes]) -> dict[bytes, Value]:
    """The values of these keys on a server, without missing ones. Two round trips of plain reads."""
    wanted = sorted(names)
    types = server.round_trip(Flush(tuple(call_of("TYPE", (name,), ()) for name in wanted)))
    found = [(name, kind) for name, kind in zip(wanted, types, strict=True) if kind != b"none"]
    reads = []
    for name, kind in found:
        if not isinstance(kind, bytes) or kind not in _READS:
            raise BadArgument("key", name, f"holds {shown(kind)}, which the stepper does not copy")
        verb, args = _READS[kind]
        reads.append(call_of(verb, (name,), args))
    values = {}
    for (name, kind), call, reply in zip(found, reads, server.round_trip(Flush(tuple(reads))), strict=True):
        if isinstance(reply, ErrorReply):
            raise call.refusal(reply)
        items = [item for item in reply if isinstance(item, bytes)] if isinstance(reply, tuple) else [reply]
        if isinstance(kind, bytes) and items and isinstance(items[0], bytes):  # else the key was deleted meanwhile
            values[name] = value_of(kind.decode(), [item for item in items if isinstance(item, bytes)])
    return values


class _Run:
    """A run of a script on a scratch server: first line by line, then in one go."""

    def __init__(
        self,
        called: _Called,
        place: Server,
        contents: Callable[[Iterable[bytes]], Mapping[bytes, Value]],
        deadline_s: float,
        base: Snapshot | None = None,
    ) -> None:
        self.called = called
        self.place = place
        self.contents = contents
        self.base = base
        self.touched: frozenset[bytes] = frozenset()
        self.start: dict[bytes, Value] = {}
        self.kept = 0
        self.deadline_s = deadline_s
        self.until = time.monotonic() + deadline_s
        self.held = capture(place, EVERY_KEY)  # no keys yet, but the time
        self.move: str | None = None
        self.events: list[Line | _Answered] = []
        # TIME is read once per run; a recorded call uses the time of the record.
        self.clock = clock_tokens(base.now) if base is not None and base.now else None
        self.read_clock = False

    def touch(self, keys: Iterable[bytes]) -> None:
        """Copy those keys that the script has not touched so far."""
        new = frozenset(keys) - self.touched
        if not new:
            return
        self.touched |= new
        copied = self.contents(new)
        if copied:
            self.start.update(copied)
            restore(self.place, Snapshot(tuple(sorted(copied.items()))), current=Snapshot())
            self.held = self.look()

    def look(self) -> Snapshot:
        """The keys of the scratch server now, sharing unchanged values with the last look."""
        known = self.held.keys
        entries = []
        for name, value in capture(self.place, EVERY_KEY).entries:
            if known.get(name) == value:
                value = known[name]
            else:
                self.keep(sum(map(len, flat(value))))
            entries.append((name, value))
        self.keep(ABOUT_A_KEY * len(entries))
        return replace(self.held, entries=tuple(entries))

    def keep(self, size: int) -> None:
        """Count what is kept of a foreign script's run. Raises `Halt` if it is too much."""
        self.kept += size
        if self.kept > KEPT_BYTES and not self.called.shipped:
            raise Halt(f"its run takes more than the {KEPT_BYTES >> 20} MB that the stepper keeps")

    def through(self, line_budget: int) -> Stepped:
        """Step through the script; the comparison is added later."""
        job = Job(
            source=to_bytes(self.called.source),
            codec=codec(),
            withheld=tuple((name.encode(), why.encode()) for name, why in withheld()),
            keys=self.called.keys,
            argv=self.called.argv,
            line_budget=line_budget,
        )
        if self.called.shipped:
            ending = run_here(job, self.on_line, self.ask)
        else:
            ending = run_apart(job, self.on_line, self.ask_safely, self.deadline_s)
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

    def on_line(self, number: int, main: bool, scope: list[tuple[bytes, bytes]]) -> None:
        if main:
            self.move = self.called.move(number)
        self.keep(sum(len(name) + len(value) for name, value in scope))
        seen = tuple((to_text(name), value.decode("utf-8", "backslashreplace")) for name, value in scope)
        self.events.append(Line(number, self.move, seen))

    def ask_safely(self, verb: bytes, line: int, tokens: Tokens) -> Tokens:
        """As `ask`, but a call that the sandbox stops or refuses ends the run. Raises `Halt`."""
        try:
            return self.ask(verb, line, tokens)
        except ScriptStopped as stopped:
            raise Halt(f"in this call {stopped.why}") from None
        except Refused as refused:
            raise Halt(f"the sandbox could not answer this call: {refused.text}") from None

    def ask(self, verb: bytes, line: int, tokens: Tokens) -> Tokens:
        """The reply to one call of the script, by the scratch server's own Lua. Raises `Halt`."""
        if verb in (b"error_reply", b"status_reply"):
            return self.bridge(verb, (), tokens)
        args = tuple(word_of(token) for token in tokens)
        name = args[0].upper().decode("latin-1")
        shape = COMMANDS.get(name)
        if shape is None:
            raise Halt(f"it calls {name}, and the stepper knows no such command that touches only the keys it names")
        keys = shape.keys(args[1:])
        self.touch(keys)
        touched, before = self.touched, self.held
        if args == (args[0],) and name == "TIME":
            self.read_clock = True
            self.clock = answer = self.clock or self.bridge(verb, (), tokens)
        else:
            answer = self.bridge(verb, keys, tokens)
        if shape.writes:
            self.held = self.look()
        self.events.append(_Answered(args, reply_of(answer), line, touched, before, self.held))
        return answer

    def bridge(self, verb: bytes, keys: tuple[bytes, ...], tokens: Sequence[bytes]) -> Tokens:
        reply = self.tool(verb, keys, tokens)
        if isinstance(reply, ErrorReply):
            raise Refused("bridge", reply.code, reply.text)
        if not isinstance(reply, tuple):
            raise TypeError(f"expected tokens from bridge, not {reply!r}")
        return [token for token in reply if isinstance(token, bytes)]

    def tool(self, verb: bytes, keys: tuple[bytes, ...], tokens: Sequence[bytes]) -> Reply:
        return self.send(call_of("bridge", keys, (verb, *tokens), "tool"))

    def send(self, call: Call[Any]) -> Reply:
        """The scratch server's reply to one call."""
        try:
            (reply,) = self.place.round_trip(Flush((call,)))
        except EmqError:
            raise
        except Exception as crash:
            # The fake's own code crashes where a live server answers with an error, such as redis.call().
            return ErrorReply("ERR", f"the {self.place.kind} server crashed: {type(crash).__name__}: {crash}")
        return reply

    def ended(self, ending: Ending) -> tuple[Reply, ScriptFailure | None]:
        """What a caller gets, converted by the scratch server, and the error, if any."""
        text = to_text(ending.text)
        if ending.kind == "returned":
            try:
                return self.tool(b"give", (), ending.tokens), None
            except ScriptStopped as stopped:
                ending = Ending("stopped", text=(text := f"its reply is too large: {stopped.why}").encode())
        if ending.kind == "unreadable":
            text = f"ERR Error compiling script (new function): {text}"
        line = ending.line or next((e.number for e in reversed(self.events) if isinstance(e, Line)), 0)
        if ending.kind == "stopped":
            return None, ScriptFailure(line, text, stopped=True)
        return self.tool(b"give", (), (b"t1", b"serr", b"s" + to_bytes(text))), ScriptFailure(line, text)

    # A key that was copied late existed, unchanged, from the start.
    def whole(self, touched: frozenset[bytes], held: Snapshot) -> Snapshot:
        """All keys at the moment when those touched so far held this."""
        others = self.start if self.base is None else self.base.keys
        entries = {name: value for name, value in others.items() if name not in touched} | dict(held.keys)
        return Snapshot(tuple(sorted(entries.items())), self.now)

    def asked(self, answered: _Answered, start: Snapshot) -> Asked:
        args, reply, line, touched, before, after = answered
        return Asked(args, reply, line, self.whole(touched, before), self.whole(touched, after), start)

    @property
    def now(self) -> int:
        """The run's one clock reading, unix milliseconds; before the script asks, that of the last look."""
        return self.held.now if self.clock is None else microseconds(self.clock) // 1000

    # --- in one go ----------------------------------------------------------------------------------------------------

    def compared(self, stepped: Stepped, record: CallRecord | None = None) -> Stepped:
        """Say whether a real run from the same start ended alike."""
        if stepped.error is not None and stepped.error.stopped:
            return replace(stepped, agreement="It was not run in one go, because it had to be stopped.")
        if record is not None:
            who, reply, after = "The recorded run, all in one go,", record.reply, record.after
            span = (record.before.now * 1000, record.after.now * 1000 + 999) if record.before.now else (0, 2**62)
        else:
            who = f"In one go, {_WHERE[self.place.kind]}, it"
            try:
                reply, after, span = self.in_one_go()
            except ScriptStopped as stopped:
                return replace(stepped, agrees=False, agreement=f"{who} did not end alike: {stopped.why}.")
        clock = Clock(microseconds(self.clock), *span) if self.clock is not None and self.read_clock else None
        differences = [*reply_differences(stepped.reply, reply, clock), *key_differences(stepped.after, after, clock)]
        if not differences:
            agreement = f"{who} left the same keys and gave the same reply."
        else:
            more = f"; and {counted(len(differences) - 3, 'more difference')}" if len(differences) > 3 else ""
            advice = "Trust that run, not this one."
            if self.place.kind == "fake":
                advice = "The fake server's Lua is looser than a live one's; step it on embedded:// to know."
            agreement = f"{who} did not end alike: {'; '.join(differences[:3])}{more}. {advice}"
        return replace(stepped, agrees=not differences, agreement=agreement, atomic_reply=reply, atomic_after=after)

    def in_one_go(self) -> tuple[Reply, Snapshot, tuple[int, int]]:
        """A real EVAL from the same start: the reply, the keys it left, and the microseconds between which it ran."""
        # Cleared first, not patched: an equal key may have acquired a time to live.
        restore(self.place, Snapshot(), current=self.held)
        restore(self.place, Snapshot(tuple(sorted(self.start.items()))), current=Snapshot())
        if isinstance(self.place, Sandbox):
            self.place.deadline_s = max(LEAST_S, self.until - time.monotonic())
        clock = call_of("TIME", (), ())
        begun = clock_reading(self.send(clock))
        reply = self.send(eval_of(self.called.source, self.called.keys, self.called.argv))
        return reply, capture(self.place, EVERY_KEY), (begun, clock_reading(self.send(clock)))


_WHERE: Mapping[ServerKind, str] = {
    "fake": "on a fake server",
    "embedded": "on an embedded server",
    "sandbox": "in a sandbox",
}


class _Answered(NamedTuple):
    """An `Asked` while it is not yet known what else the script will touch."""

    args: tuple[bytes, ...]
    reply: Reply
    line: int
    touched: frozenset[bytes]
    before: Snapshot
    after: Snapshot
