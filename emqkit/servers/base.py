"""A server is where scripts run. This is the only module that does I/O with one.

Every client speaks RESP2 and leaves bytes undecoded, so raw replies are equal on every kind of server. No client ever
re-sends: the caller decides what to do about a lost reply (`ReplyLost`); the client must not hide it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from emqkit.errors import BadArgument, EmqError, ForeignLua, ReplyLost, Unreachable, UnsuitableServer
from emqkit.ids import Minter, SharedMinter, Stretch
from emqkit.scripts import Script, ScriptSet
from emqkit.scripts.released import is_released
from emqkit.wire import Call, ErrorReply, Flush, Recorder, Reply

__all__ = ["CLIENT_OPTIONS", "Server", "check_server"]

IDS_KEY = b"emqkit:ids"
"""Where a server keeps track of minted ids. Not a key of the protocol: those all begin with `emq:{`."""

ServerKind = Literal["fake", "embedded", "sandbox", "live"]


def CLIENT_OPTIONS() -> dict[str, Any]:
    """How every redis-py client is built here: RESP2, raw bytes, no retries."""
    return {"protocol": 2, "decode_responses": False, "retry": Retry(NoBackoff(), 0)}


class Server:
    """A place where scripts run, with the script set that its calls refer to.

    Attributes:
        url: reopens it, but has no password.
        kind: `fake` (fakeredis with Lua), `embedded` (a private Valkey), `sandbox` (a confined one, for Lua that is not
            the kit's own), or `live` (your own).
        scripts: the `ScriptSet` in which script calls are resolved.
        client: the redis-py client, for looking around; recorders do not see its commands.
        minter: where new ids come from: this server lends every process that mints for it a node of its own
            (`SharedMinter`). It can be replaced (by `Minter.fixed()` in a notebook).
        recorder: sees the operations run here; see `emqkit.record`.
    """

    kind: ServerKind = "live"
    confined: bool = False
    """Whether Lua that is not the kit's own may run here, because it is isolated and stopped in time."""

    def __init__(
        self, url: str, client: redis.Redis, scripts: ScriptSet, *, on_close: Callable[[], None] | None = None
    ) -> None:
        self.url = url
        self.client = client
        self.scripts = scripts
        self.minter: Minter = SharedMinter(self._reserve)
        self.recorder: Recorder | None = None
        self._tools = ScriptSet.load("tools")
        self._loaded: set[str] = set()
        self._lock = threading.Lock()
        self._on_close = on_close
        self._closed = False

    # --- what operations need ---------------------------------------------------------------------------------------

    def round_trip(self, flush: Flush[Any]) -> tuple[Reply, ...]:
        """Send the calls in one write and return one raw reply per call.

        A script not yet loaded on this server is loaded in the same write. If a call still answers NOSCRIPT (the script
        cache was flushed), it is sent once more, with the whole script.

        Raises:
            ScriptMissing, ScriptArity: a call fits no script of the set; nothing was sent.
            ForeignLua: a script is not the kit's own, and this is no sandbox; nothing was sent.
            Unreachable: no connection; nothing was sent.
            ReplyLost: sent, but the connection broke before all replies arrived.
        """
        scripts = [self.script(call) for call in flush.calls]
        if flush.atomic:
            return self._atomic(flush, scripts)
        with self._lock:
            missing = {s.sha: s for s in scripts if s is not None and s.sha not in self._loaded}
        loads: list[tuple[bytes, ...]] = [(b"SCRIPT", b"LOAD", s.source.encode()) for s in missing.values()]
        bodies = [_command(call, script) for call, script in zip(flush.calls, scripts, strict=True)]
        what = _what(flush)
        replies = self.exchange([*loads, *bodies], what)[len(loads) :]
        with self._lock:
            self._loaded.update(missing)
        unknown = [n for n, reply in enumerate(replies) if isinstance(reply, ErrorReply) and reply.code == "NOSCRIPT"]
        if unknown:
            with self._lock:
                self._loaded.difference_update(s.sha for n in unknown if (s := scripts[n]) is not None)
            whole = [_command(flush.calls[n], scripts[n], whole=True) for n in unknown]
            try:
                again = self.exchange(whole, what)
            except Unreachable as error:
                if len(unknown) == len(flush.calls):
                    raise  # a call answered by NOSCRIPT did nothing
                raise ReplyLost(self.url, what) from error  # the other calls of the flush ran
            for n, reply in zip(unknown, again, strict=True):
                replies[n] = reply
        return tuple(replies)

    def _atomic(self, flush: Flush[Any], scripts: Sequence[Script | None]) -> tuple[Reply, ...]:
        # With whole scripts: after a NOSCRIPT inside MULTI the other calls would have run, but not this one.
        bodies = [_command(call, script, whole=True) for call, script in zip(flush.calls, scripts, strict=True)]
        replies = self.exchange([(b"MULTI",), *bodies, (b"EXEC",)], _what(flush))
        last = replies[-1]
        if isinstance(last, tuple):
            return last
        return tuple(last if isinstance(last, ErrorReply) else None for _ in flush.calls)

    def script(self, call: Call[Any]) -> Script | None:
        """The script that a call runs on this server; None for a command. Checks its keys and arguments.

        Raises `ScriptMissing`, `ScriptArity` or `ForeignLua`.
        """
        if call.kind == "command":
            if not self.confined and (text := _lua_of(call)) is not None and not is_released(text):
                raise ForeignLua(["the script"], f"{self!r} is not one")
            return None
        script = (self.scripts if call.kind == "script" else self._tools)[call.verb]
        if not self.confined and not is_released(script):
            raise ForeignLua([script.name], f"{self!r} is not one; open one with these scripts")
        script.layout_for(call.keys, call.args)
        return script

    def exchange(self, commands: Sequence[tuple[bytes, ...]], what: str) -> list[Reply]:
        """Write these commands at once and read one raw reply for each; `what` names them in errors.

        Raises `Unreachable` (nothing was sent) or `ReplyLost`.
        """
        pool: Any = self.client.connection_pool  # redis-py leaves its connections untyped
        if self._closed:
            raise Unreachable(self.url, "it has been closed")
        try:
            connection = pool.get_connection()
        except (redis.RedisError, OSError) as error:
            raise Unreachable(self.url, str(error).rstrip(".")) from error
        replies: list[Reply] = []
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            for _ in commands:
                replies.append(_read(connection))
            return replies
        except (redis.ConnectionError, redis.TimeoutError, redis.InvalidResponse, OSError) as error:
            connection.disconnect()
            raise self._lost(commands, len(replies), what, error) from error
        except BaseException:
            connection.disconnect()  # interrupted while reading: outstanding replies must not answer a later call
            raise
        finally:
            pool.release(connection)

    def _lost(self, commands: Sequence[tuple[bytes, ...]], answered: int, what: str, error: Exception) -> ReplyLost:
        """The error to raise when only this many of the commands were answered."""
        return ReplyLost(self.url, what)

    def _reserve(self, now: int, length: int) -> Stretch:
        """A node and a stretch of milliseconds that this server never gave out before. One round trip, unrecorded."""

        def refused(error: ErrorReply) -> EmqError:
            why = f"it gives out no ids: {IDS_KEY.decode()} was answered with {error.code} {error.text}"
            return UnsuitableServer(self.url, f"{why}; set server.minter to a Minter with a node of its own")

        args = (b"%d" % now, b"%d" % length)
        call: Call[Reply] = Call("reserve", (IDS_KEY,), args, lambda reply: reply, refused, "tool")
        try:
            (reply,) = self.round_trip(Flush((call,)))
        except ReplyLost as error:
            raise Unreachable(self.url, "the reply to a reservation of ids was lost, which does no harm") from error
        if isinstance(reply, ErrorReply):
            raise call.refusal(reply)
        if not isinstance(reply, tuple):
            raise TypeError(f"expected node, first and last from reserve, not {reply!r}")
        return Stretch(*(int(part) for part in reply if isinstance(part, bytes)))

    # --- life -------------------------------------------------------------------------------------------------------

    def scratch(self) -> Server:
        """A private, empty place with the same scripts, for stepping and exploring; the caller closes it."""
        raise NotImplementedError  # each kind of server has its own

    def close(self) -> None:
        """Close the connections and stop whatever this server started; idempotent."""
        if self._closed:
            return
        self._closed = True
        self.client.close()
        self.client.connection_pool.disconnect()
        if self._on_close is not None:
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.kind} server, scripts {self.scripts.name}>"


def check_server(server: object) -> None:
    """Refuse anything but a server (a URL, say) when the verbs are constructed, not when they first fail."""
    if not isinstance(server, Server):
        raise BadArgument(
            "server", server, f"is {type(server).__name__}, not a server: emqkit.open_server(…) opens one"
        )


def _what(flush: Flush[Any]) -> str:
    verbs = [call.verb for call in flush.calls]
    return verbs[0] if len(verbs) == 1 else f"a flush of {len(verbs)} calls ({', '.join(sorted(set(verbs)))})"


def _lua_of(call: Call[Any]) -> bytes | None:
    """The Lua that a plain command carries, if any."""
    words = (*call.keys, *call.args)
    match call.verb.upper():
        case "EVAL" | "EVAL_RO":
            return words[0] if words else b""
        case "SCRIPT" | "FUNCTION":
            return words[-1] if words and words[0].upper() in (b"LOAD", b"RESTORE") else None
    return None


def _command(call: Call[Any], script: Script | None, *, whole: bool = False) -> tuple[bytes, ...]:
    if script is None:
        return (call.verb.encode(), *call.keys, *call.args)
    name, body = (b"EVAL", script.source.encode()) if whole else (b"EVALSHA", script.sha.encode())
    return (name, body, b"%d" % len(call.keys), *call.keys, *call.args)


def _read(connection: Any) -> Reply:
    try:
        return _plain(connection.read_response(disconnect_on_error=False))
    except (redis.ResponseError, redis.AuthenticationError, redis.exceptions.BusyLoadingError) as error:
        return _error(error)  # redis-py calls the last two connection errors, but the server answered, and nothing ran


def _error(error: redis.RedisError) -> ErrorReply:
    code = getattr(error, "status_code", None)  # redis-py strips known codes from the text and keeps them here
    if isinstance(code, str):
        return ErrorReply(code, str(error))
    first, _, rest = str(error).partition(" ")
    return ErrorReply(first, rest)


def _plain(reply: Any) -> Reply:
    if isinstance(reply, list):
        return tuple(_plain(item) for item in reply)
    if isinstance(reply, redis.ResponseError):
        return _error(reply)
    if isinstance(reply, str):
        return reply.encode("utf-8", "surrogateescape")
    if reply is None or isinstance(reply, bytes | int):
        return reply
    raise TypeError(f"a reply of type {type(reply).__name__} is not RESP2")
