"""The sandbox runs Lua that is not the kit's own: in a private Valkey with tight limits, killed when it exceeds them.

    memory    256 MB, on Linux            time      3 s per call: only killing its process interrupts a Lua pattern,
    replies   16 MB                                 or a script that has written
    commands  those on keys, by an allow-list: no FLUSHALL, no MIGRATE, nothing that reaches beyond the keys it names

A process has one script set. The kit itself reads the keyspace (`emqkit.capture`) as another user. Whatever a script
does, this process is unharmed: it gets an error with a sentence (`ScriptStopped`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import redis

from emqkit.errors import ForeignLua, ReplyLost, ScriptBroken, ScriptStopped, Unreachable, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers.embedded import GUEST, Confinement, EmbeddedServer, Process, start_process
from emqkit.wire import ErrorReply, Reply

__all__ = ["CONFINEMENT", "DEADLINE_S", "Sandbox", "open_sandbox"]

DEADLINE_S = 3.0
"""Seconds a call may keep its sandbox busy."""
GRACE_S = 0.2
"""Seconds a sandbox has to show that it is not busy, after an interrupt."""
LAST_WORDS_S = 3.0
"""Seconds a crashing server may take to exit: it writes a report first."""

CONFINEMENT = Confinement(
    memory_bytes=256 << 20,
    reply_bytes=16 << 20,
    rules=(
        *("~*", "resetchannels", "-@all", "+@read", "+@write", "-@dangerous", "-@blocking"),
        *("-scan", "-randomkey", "-dbsize", "-move", "+time", "+ping", "+echo"),
        *("+eval", "+evalsha", "+script|load", "+auth", "+multi", "+exec", "+discard"),
    ),
)


class Sandbox(EmbeddedServer):
    """A private, confined Valkey for one script set; `scratch()` is another such process.

    Attributes:
        deadline_s: seconds a call may keep it busy before it is killed.
    """

    kind = "sandbox"
    confined = True

    def __init__(self, process: Process, scripts: ScriptSet, *, deadline_s: float = DEADLINE_S) -> None:
        super().__init__(process, scripts)
        self.url = "the sandbox"
        self.client.close()
        self.client = process.client(username=GUEST, socket_timeout=deadline_s)
        self._ended = ""
        self._deadline_s = deadline_s
        tools = (self._tools["capture"], self._tools["restore"])
        self._ours = frozenset(word for tool in tools for word in (tool.sha.encode(), tool.source.encode()))

    @property
    def deadline_s(self) -> float:
        """Seconds a call may keep it busy before it is killed."""
        return self._deadline_s

    @deadline_s.setter
    def deadline_s(self, seconds: float) -> None:
        self._deadline_s = seconds
        pool = self.client.connection_pool
        pool.connection_kwargs["socket_timeout"] = seconds
        pool.reset()  # an open connection keeps its timeout

    def scratch(self) -> Sandbox:
        """Another sandbox, empty, with the same scripts; the caller closes it."""
        return open_sandbox(self.scripts, deadline_s=self.deadline_s)

    def take(self, scripts: ScriptSet) -> None:
        """Run this script set from now on; its foreign scripts are compiled at once.

        Raises `ScriptBroken` if one does not compile; says where.
        """
        theirs = foreign(scripts)
        loads = [(b"SCRIPT", b"LOAD", script.source.encode("utf-8", "surrogateescape")) for script in theirs]
        for script, reply in zip(theirs, self.exchange(loads, "SCRIPT LOAD") if loads else [], strict=True):
            if isinstance(reply, ErrorReply):
                found = _COMPILING.search(reply.text)
                raise ScriptBroken(script.path, int(found[1]) if found else 0, found[2] if found else reply.text)
        self.scripts = scripts

    def exchange(self, commands: Sequence[tuple[bytes, ...]], what: str) -> list[Reply]:
        """As for every server.

        Raises `ScriptStopped` if a call exceeded a limit, and `Unreachable` once the sandbox has ended.
        """
        if self._ended:
            raise Unreachable(self.url, f"it has ended: {self._ended}")
        sent, kept = self._as_users(commands)
        try:
            replies = super().exchange(sent, what)
        except ScriptStopped:
            raise
        except Unreachable:
            if not self._answers():
                self._end("it no longer answers")
            raise
        except BaseException:  # an interrupt: the interrupted call must not go on unseen
            if not self._answers():
                self._end(f"{what} was interrupted")
            raise
        wanted = [replies[place] for place in kept]
        if wanted and commands[0] == (b"MULTI",) and isinstance(done := wanted[-1], tuple):
            wanted[-1] = tuple(done[place - 1] for place in kept[1:-1])
        return wanted

    def close(self) -> None:
        super().close()
        self.process.close()

    def _end(self, why: str) -> None:
        self._ended = why
        self.process.close()

    def _lost(self, commands: Sequence[tuple[bytes, ...]], answered: int, what: str, error: Exception) -> ReplyLost:
        """Which script's reply did not come, and why."""
        # The replies of one write arrive together, so any script without a reply may be the culprit.
        silent = commands if commands[0] == (b"MULTI",) else commands[answered:]  # in MULTI nothing runs until EXEC
        what = " or ".join(dict.fromkeys(filter(None, map(self._name, silent)))) or what
        if isinstance(error, redis.InvalidResponse):
            return ScriptStopped(self.url, what, "its reply is nested deeper than a client can read", False)
        if isinstance(error, redis.TimeoutError):
            why = f"it was still running after {self.deadline_s:g} seconds"
        elif self._answers():
            return ScriptStopped(self.url, what, f"its reply is larger than {CONFINEMENT.reply_bytes >> 20} MB", False)
        else:
            words = self.process.last_words(LAST_WORDS_S)
            why = words if words.startswith("it ") else "it crashed the server it ran on"
        self._end(f"{what} was stopped, since {why}")
        return ScriptStopped(self.url, what, why, True)

    def _name(self, command: tuple[bytes, ...]) -> str:
        """The name of a command's script; empty for the kit's own tools, and for other commands."""
        if command[0] not in (b"EVAL", b"EVALSHA") or command[1] in self._ours:
            return ""
        known = (script.name for script in self.scripts if command[1] in (script.sha.encode(), script.source.encode()))
        return next(known, "the script")

    def _answers(self) -> bool:
        try:
            with self.process.client(socket_timeout=GRACE_S) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def _as_users(self, commands: Sequence[tuple[bytes, ...]]) -> tuple[list[tuple[bytes, ...]], list[int]]:
        """The same commands, with a change of user around each of the kit's own tools; and where their replies are.

        Scripts and plain commands run as `guest`, who cannot even list the keys.
        """
        password = (self.process.password or "").encode()
        sent: list[tuple[bytes, ...]] = []
        kept: list[int] = []
        for command in commands:
            ours = command[0] in (b"EVAL", b"EVALSHA") and command[1] in self._ours
            if ours:
                sent.append((b"AUTH", b"default", password))
            kept.append(len(sent))
            sent.append(command)
            if ours:
                sent.append((b"AUTH", GUEST.encode(), password))
        return sent, kept


def open_sandbox(scripts: ScriptSet, *, deadline_s: float = DEADLINE_S) -> Sandbox:
    """A sandbox of its own process for a script set, empty; the caller closes it.

    Args:
        scripts: the set; its foreign scripts are compiled at once.
        deadline_s: seconds a call may keep it busy.

    Raises:
        ForeignLua: no embedded server is installed, or it does not start.
        ScriptBroken: a script does not compile; says where.
    """
    theirs = foreign(scripts)
    try:
        process = start_process(confinement=CONFINEMENT)
    except UnsuitableServer as missing:
        raise ForeignLua([script.name for script in theirs] or ["the script"], missing.why) from missing
    sandbox = Sandbox(process, scripts, deadline_s=deadline_s)
    try:
        sandbox.take(scripts)
    except BaseException:
        sandbox.close()
        raise
    return sandbox


_COMPILING = re.compile(r"Error compiling script.*?: user_script:(\d+): (.*)", re.DOTALL)
