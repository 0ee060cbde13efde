"""A live server is your own Valkey or Redis. It is checked once, on opening; a sentence says what is wrong.

    valkey://host:port/db    redis://…       plain; with a user and a password: valkey://user:password@host
    valkeys://host:port/db   rediss://…      TLS; add ?ssl_ca_certs=/path/to/ca.pem for your own certificate
    unix:///path/to/socket?db=1              a socket file

Nothing here ever flushes it, and no message, repr or shown URL contains a password.
"""

from __future__ import annotations

import hashlib
import re
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import redis

from emqkit.errors import BadArgument, EmqError, ReplyLost, Unreachable, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.servers.base import CLIENT_OPTIONS, Server
from emqkit.servers.embedded import open_embedded
from emqkit.wire import ErrorReply, Reply

__all__ = ["OLDEST", "LiveServer", "open_live"]

OLDEST = (7, 0)
"""Since 7.0 scripts are always replicated by their effects, so a script may write after reading TIME."""

CHECK_KEY = b"emq:{emqkit}:check"
"""Not a key of any queue; it exists only while the check's script runs."""
CHECK = b"redis.call('SET', KEYS[1], '1', 'PX', 1000) return redis.call('DEL', KEYS[1])"


@dataclass(frozen=True)
class _Address:
    """A parsed URL: as redis-py wants it, and as it may be shown."""

    shown: str
    database: int
    secret: str = field(repr=False)


class LiveServer(Server):
    """Your own server. Its `scratch()` is elsewhere: on an embedded server if one is installed, else on a fake.

    Attributes:
        version: its name and version, such as `Valkey 9.1.2`; empty if its access list (ACL) hides them.
    """

    kind = "live"

    def __init__(self, url: str, client: redis.Redis, scripts: ScriptSet) -> None:
        super().__init__(url, client, scripts, on_close=self._close_home)
        self.version = ""
        self._home: Server | None = None  # where scratches live: opened with the first one and shared by all
        self._home_lock = threading.Lock()

    def scratch(self) -> Server:
        """A private, empty place elsewhere, with the same scripts; the caller closes it. This server is not touched."""
        with self._home_lock:
            if self._home is None:
                self._home = _open_home(self.scripts)
            place = self._home.scratch()
        place.scripts = self.scripts
        return place

    def _close_home(self) -> None:
        with self._home_lock:
            if self._home is not None:
                self._home.close()
                self._home = None


def _open_home(scripts: ScriptSet) -> Server:
    """Embedded where that is installed, else fake."""
    try:
        return open_embedded(scripts)
    except UnsuitableServer:
        from emqkit.servers.fake import open_fake  # fakeredis and Lua, which a live server does not need by itself

        return open_fake(scripts)


def open_live(url: str, scripts: ScriptSet) -> LiveServer:
    """Connect and check once whether flows can run there; say what is wrong if they cannot.

    The check is one round trip: it asks for the version, and runs a script that writes a key and deletes it again.

    Args:
        url: see the top of this module. Special characters of a password are percent-encoded (`@` is `%40`).
        scripts: the script set to run.

    Raises:
        BadArgument: the URL cannot be read.
        Unreachable: nothing answers there.
        UnsuitableServer: it answers, but wants another password, has no such database, is too old, is a read-only
            replica, is one node of a cluster, has no scripting, or accepts no writes (out of memory).
    """
    address = _read_url(url)
    try:
        client = redis.Redis.from_url(address.secret)
        # These override the URL's query: the replies and the promises depend on them.
        client.connection_pool.connection_kwargs.update(CLIENT_OPTIONS())
        pool: Any = client.connection_pool
        pool.make_connection()  # does not connect yet
        pool.reset()
    except (ValueError, TypeError):  # their messages may quote part of the password
        raise BadArgument("server URL", address.shown, _UNREADABLE) from None
    server = LiveServer(address.shown, client, scripts)
    try:
        server.version = _look(server, address.database)
    except BaseException:
        server.close()
        raise
    return server


# --- the URL ----------------------------------------------------------------------------------------------------------

_UNREADABLE = (
    "cannot be read; write it like valkey://user:password@host:6379/0, with special characters of the password "
    "percent-encoded (@ is %40, / is %2F)"
)


def _read_url(url: str) -> _Address:
    scheme, _, rest = url.partition("://")
    unreadable = BadArgument("server URL", f"{scheme}://…", _UNREADABLE)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise unreadable from None
    # A stray @ means that a special character in the password has split it: refuse, rather than show half of it.
    if parts.fragment or "@" in parts.query or (scheme != "unix" and "@" in parts.path):
        raise unreadable
    where = parts.netloc.rpartition("@")[2]
    asked = re.search(r"(?:^|&)db=([^&]*)", parts.query)
    if scheme == "unix":
        if where or not parts.path.strip("/"):
            raise BadArgument(
                "server URL", f"{scheme}://…", "cannot be read; a socket file's is unix:///path/to/socket"
            )
        number = asked[1] if asked else "0"
    else:
        if not parts.hostname and (port is not None or where):
            raise unreadable
        number = parts.path.strip("/") or (asked[1] if asked else "0")
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise unreadable
    database = int(number)
    if scheme == "unix":
        shown = f"unix://{parts.path}" + (f"?db={database}" if database else "")
        return _Address(shown, database, url)
    shown = f"{scheme}://{where}" + (f"/{database}" if database else "")
    return _Address(shown, database, f"{scheme.replace('valkey', 'redis')}://{rest}")


# --- the look ---------------------------------------------------------------------------------------------------------


def _look(server: LiveServer, database: int) -> str:
    sha = hashlib.sha1(CHECK).hexdigest().encode()
    try:
        about, *replies = server.exchange(
            [
                (b"INFO", b"server"),
                (b"SCRIPT", b"LOAD", CHECK),
                (b"EVALSHA", sha, b"1", CHECK_KEY),
                (b"EVAL", CHECK, b"1", CHECK_KEY),
            ],
            "the check on opening",
        )
    except (Unreachable, ReplyLost) as error:
        raise _why_unreachable(server, database, error) from error
    name, version = _version(about)
    if version and version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UnsuitableServer(server.url, f"it is {name}, and the scripts are for {oldest} or later")
    for verb, reply in zip(("SCRIPT LOAD", "EVALSHA", "EVAL"), replies, strict=True):
        if isinstance(reply, ErrorReply):
            raise UnsuitableServer(server.url, _why_refused(verb, reply))
    return name


def _version(about: Reply) -> tuple[str, tuple[int, ...]]:
    """`("Valkey 9.1.2", (9, 1, 2))`, or nothing if the access list hides it."""
    text = about.decode(errors="replace") if isinstance(about, bytes) else ""
    # Valkey also reports a redis_version, for clients that know no other; so look for its own line first.
    for line, name in (("valkey_version", "Valkey"), ("redis_version", "Redis")):
        found = re.search(rf"^{line}:(([0-9]+)\.([0-9]+)\S*)", text, re.MULTILINE)
        if found:
            return f"{name} {found[1]}", (int(found[2]), int(found[3]))
    return "", ()


def _why_refused(verb: str, error: ErrorReply) -> str:
    # Inside a script a refusal has no code: the first wording is Valkey's, the second Redis 7.0's.
    denied = re.match(r"ACL failure in script|The user executing the script can't", error.text)
    match "NOPERM" if denied else error.code:
        case "READONLY":
            return "it is a read-only replica; open the primary it copies from"
        case "OOM":
            return "it is out of memory (maxmemory is reached) and accepts no writes; raise it or delete something"
        case "NOPERM":
            return (
                f"its access list (ACL) refuses this user {verb} ({error.text.rstrip('.')}); "
                "scripts need SCRIPT LOAD, EVALSHA and EVAL, and every command on keys emq:*"
            )
        case "MOVED" | "CLUSTERDOWN" | "CROSSSLOT":
            return "it is one node of a cluster and does not have every slot; open a standalone server"
        case "LOADING":
            return "it is still loading its data; try again in a moment"
        case "MISCONF":
            return f"it accepts no writes: {error.text.rstrip('.')}"
        case "ERR" if error.text.lower().startswith("unknown command"):
            return f"it has no scripting: {verb} is unknown to it"
    return f"it answers {verb} with {str(error).rstrip('.')}"


def _why_unreachable(server: LiveServer, database: int, error: Unreachable | ReplyLost) -> EmqError:
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, redis.AuthenticationError | redis.exceptions.AuthenticationWrongNumberOfArgsError):
            if _asks_for_one(server):
                return UnsuitableServer(server.url, "it wants a password; write it as valkey://:password@host")
            return UnsuitableServer(server.url, "it refuses the user name or the password of this URL")
        if isinstance(cause, redis.BusyLoadingError):
            return UnsuitableServer(server.url, _why_refused("", ErrorReply("LOADING", "")))
        if isinstance(cause, redis.InvalidResponse):
            return UnsuitableServer(server.url, "what answers there does not speak the Redis protocol")
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(
                server.url,
                f"its certificate is not trusted ({cause.verify_message.rstrip('.')}); "
                "pass its authority's with ?ssl_ca_certs=/path/to/ca.pem",
            )
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            return UnsuitableServer(server.url, "it does not speak TLS; write valkey:// or redis://, without the s")
        if str(cause) in ("DB index is out of range", "Invalid Database"):
            return UnsuitableServer(server.url, f"it has no database {database}")
    if any(isinstance(cause, redis.TimeoutError | TimeoutError) for cause in causes):
        # A server without TLS takes the handshake for a line and waits for its end.
        plain = "; if it does not speak TLS, leave the s off the scheme" if server.url.split(":")[0][-1] == "s" else ""
        return Unreachable(server.url, f"no answer came in time{plain}")
    for cause in causes:
        if (
            isinstance(cause, OSError)
            and cause.strerror
            and not isinstance(cause, ConnectionResetError | BrokenPipeError)
        ):
            return Unreachable(server.url, cause.strerror[0].lower() + cause.strerror[1:])
    for cause in causes:
        if isinstance(cause, redis.RedisError) and not _HUNG_UP.match(str(cause)):
            return Unreachable(server.url, str(cause).rstrip("."))
    return Unreachable(server.url, "it hung up without an answer; if it wants TLS, write valkeys:// or rediss://")


_HUNG_UP = re.compile(r"Connection closed by server|Error (\d+ )?while (reading|writing)")


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error.__cause__ or error.__context__
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _asks_for_one(server: LiveServer) -> bool:
    return not server.client.connection_pool.connection_kwargs.get("password")
