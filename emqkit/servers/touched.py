"""Which keys were written since the last look, according to the server's keyspace notifications.

Declared keys are not enough: a script may write keys that it derives. And reading every key after every call makes the
cost of a recording grow with the square of its length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import redis

from emqkit.errors import EmqError, Unreachable
from emqkit.servers.base import Server
from emqkit.wire import Call, ErrorReply, Reply, command

__all__ = ["Touched"]

SETTING = b"notify-keyspace-events"
GET: tuple[bytes, ...] = (b"CONFIG", b"GET", SETTING)
EVERY_CLASS = frozenset("g$lshzxet")


class Touched:
    """A subscription to the writes of one server's keys.

    If the server's notifications are off, they are turned on (a setting of the whole server) and off again at the end;
    the fake always sends them. If the setting is refused, `take` always returns None.

    Args:
        server: the server to watch.
        pattern: which keys, a glob.
    """

    def __init__(self, server: Server, pattern: bytes) -> None:
        self._server = server
        self._was: bytes | None = None  # the setting to restore
        self._set: str | None = None
        self._connection: Any = None
        if server.kind != "fake" and not _is_on(_flags(self._ask(GET))) and not self._turn_on():
            return
        pool: Any = server.client.connection_pool
        database = pool.connection_kwargs.get("db") or 0
        try:
            self._connection = pool.get_connection()
            self._connection.send_command("PSUBSCRIBE", b"__keyspace@%d__:" % database + pattern)
            self._connection.read_response()
        except redis.ResponseError:
            self.close()
        except (redis.RedisError, OSError) as error:
            self.close()
            raise Unreachable(server.url, str(error).rstrip(".")) from error

    def take(self) -> set[bytes] | None:
        """The keys written since the last call, including every write before now; None: look at everything.

        Raises:
            Unreachable: the connection is gone.
        """
        if self._connection is None:
            return None
        keys: set[bytes] = set()
        try:
            self._connection.send_command("PING")
            while True:
                heard = self._connection.read_response()
                if heard[0] == b"pong":  # notifications of writes before the PING precede its reply
                    return keys
                if heard[0] == b"pmessage":
                    keys.add(heard[2].partition(b"__:")[2])
                    if heard[3] in (b"expire", b"pexpire", b"expireat", b"pexpireat"):
                        self.close()  # not every server notifies when it expires
                        return None
        except (redis.RedisError, OSError) as error:
            raise Unreachable(self._server.url, str(error).rstrip(".")) from error

    @property
    def asks(self) -> tuple[Call[Reply], ...]:
        """The calls whose replies `mends` needs, to send along with a look: whether notifications are still on."""
        return () if self._server.kind == "fake" else (command("CONFIG", (), GET[1:], lambda reply: reply),)

    def mends(self, replies: Sequence[Reply]) -> bool:
        """Whether notifications were turned off meanwhile, say as another recording ended; turns them on again."""
        if not replies or _is_on(_flags(replies[0])):
            return False
        self._turn_on()
        return True

    def close(self) -> None:
        """Stop listening, and restore the setting; idempotent."""
        connection, self._connection = self._connection, None
        was, self._was = self._was, None
        if connection is not None:
            connection.disconnect()
            self._server.client.connection_pool.release(connection)
        if was is None:
            return
        with contextlib.suppress(EmqError):  # a server that is gone needs no restoring
            if _flags(self._ask(GET)) == self._set:
                self._ask((b"CONFIG", b"SET", SETTING, was))

    def _turn_on(self) -> bool:
        flags = _flags(self._ask(GET))
        if flags is None or isinstance(self._ask((b"CONFIG", b"SET", SETTING, flags.encode() + b"KA")), ErrorReply):
            return False
        self._was, self._set = flags.encode(), _flags(self._ask(GET))
        return True

    def _ask(self, command: tuple[bytes, ...]) -> Reply:
        return self._server.exchange([command], b" ".join(command[:2]).decode())[0]


def _flags(reply: Reply) -> str | None:
    """The setting, from the reply to its CONFIG GET; None if that was refused."""
    return reply[1].decode() if isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[1], bytes) else None


def _is_on(flags: str | None) -> bool:
    return flags is not None and "K" in flags and ("A" in flags or set(flags) >= EVERY_CLASS)
