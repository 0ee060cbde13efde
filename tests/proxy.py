"""A TCP proxy for a redis server that loses what it is told to lose, where it is told to lose it.

It reads commands and replies one at a time, so that a fault falls exactly between two of them:

    client ──command──▶ proxy ──command──▶ server
           ◀──reply──         ◀──reply──
               ▲                  ▲
               │                  └ swallow_reply: the server has executed it, the client never hears
               └ drop_command: the proxy hangs up before the server hears

`seen` is every command a client sent, `executed` every command the server answered: the difference between "asked
once" and "done once" is what a lost reply is about.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

Address = tuple[str, int] | str
Fault = Literal["drop", "swallow", "stall"]


class Proxy:
    """A listener on loopback that forwards to one server.

    Args:
        upstream: `(host, port)`, or the path of a socket file.
        password: what the server asks for, if it does.
        database: which of its databases `url` names.
    """

    def __init__(self, upstream: Address, *, password: str | None = None, database: int = 0) -> None:
        self.upstream = upstream
        self._password = password
        self._database = database
        self.seen: list[tuple[bytes, ...]] = []
        self.executed: list[tuple[bytes, ...]] = []
        self._faults: list[tuple[Fault, bytes, int]] = []
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)

    @classmethod
    def before(cls, client: Any) -> Proxy:
        """A proxy for the server that a redis-py client is connected to."""
        options = client.connection_pool.connection_kwargs
        return cls(
            options["path"] if "path" in options else (options["host"], options["port"]),
            password=options.get("password"),
            database=options.get("db", 0),
        )

    @property
    def options(self) -> dict[str, Any]:
        """Where a client finds the server through this proxy, as redis-py's keyword arguments."""
        host, port = self._listener.getsockname()
        return {"host": host, "port": port, "db": self._database, "password": self._password}

    @property
    def url(self) -> str:
        """The same as a URL."""
        user = f":{self._password}@" if self._password else ""
        return "redis://{user}{host}:{port}/{db}".format(user=user, **self.options)

    # --- faults: each is used up by the first command it fits -------------------------------------------------------

    def swallow_reply(self, verb: str, nth: int = 1) -> None:
        """Hang up after the server has executed the nth command with this verb, counted from now."""
        self._plan("swallow", verb, nth)

    def drop_command(self, verb: str, nth: int = 1) -> None:
        """Hang up instead of forwarding the nth command with this verb, counted from now."""
        self._plan("drop", verb, nth)

    def stall_reply(self, verb: str, nth: int = 1) -> None:
        """Keep back the reply to the nth command with this verb, counted from now, until `resume()`."""
        self._flowing.clear()
        self._plan("stall", verb, nth)

    def resume(self) -> None:
        """Let stalled replies go."""
        self._flowing.set()

    def count(self, verb: str, *, executed: bool = False) -> int:
        """How often a client sent this command, or how often the server executed it."""
        with self._lock:
            return sum(command[0].upper() == verb.upper().encode() for command in self._list(executed))

    def forget(self) -> None:
        """Count from here on."""
        with self._lock:
            self.seen.clear()
            self.executed.clear()

    def _list(self, executed: bool) -> list[tuple[bytes, ...]]:
        return self.executed if executed else self.seen

    def _plan(self, fault: Fault, verb: str, nth: int) -> None:
        with self._lock:
            self._faults.append((fault, verb.upper().encode(), nth))

    def _fault(self, verb: bytes) -> Fault | None:
        with self._lock:
            for place, (fault, wanted, nth) in enumerate(self._faults):
                if wanted == verb.upper():
                    if nth == 1:
                        del self._faults[place]
                        return fault
                    self._faults[place] = (fault, wanted, nth - 1)
            return None

    # --- the wire ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._forget, client)
            if not self._remember(client):
                return
            server = self._connect()
            stack.callback(self._forget, server)
            if not self._remember(server):
                return
            commands, replies = stack.enter_context(client.makefile("rb")), stack.enter_context(server.makefile("rb"))
            with contextlib.suppress(OSError, ValueError):
                for raw, command in read_commands(commands):
                    with self._lock:
                        self.seen.append(command)
                    fault = self._fault(command[0])
                    if fault == "drop":
                        return
                    server.sendall(raw)
                    reply = read_reply(replies)
                    with self._lock:
                        self.executed.append(command)
                    if fault == "swallow":
                        return
                    if fault == "stall":
                        self._flowing.wait()
                    client.sendall(reply)

    def _connect(self) -> socket.socket:
        if isinstance(self.upstream, tuple):
            return socket.create_connection(self.upstream)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.upstream)
        return server

    def _remember(self, peer: socket.socket) -> bool:
        with self._lock:
            self._sockets.add(peer)
            return not self._closed

    def _forget(self, peer: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(peer)
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RDWR)  # close() alone does not wake a thread that reads
        peer.close()

    # --- life -------------------------------------------------------------------------------------------------------

    def _start(self, run: Any, *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Hang up on everybody and stop listening."""
        with self._lock:
            self._closed = True
            peers = list(self._sockets)
        self._flowing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- RESP -------------------------------------------------------------------------------------------------------------


def read_commands(stream: BinaryIO) -> Iterator[tuple[bytes, tuple[bytes, ...]]]:
    """Each command of a client: its bytes as sent, and its words."""
    while header := stream.readline():
        raw, words = header, []
        for _ in range(int(header[1:])):
            length = stream.readline()
            word = stream.read(int(length[1:]) + 2)
            raw += length + word
            words.append(word[:-2])
        yield raw, tuple(words)


def read_reply(stream: BinaryIO) -> bytes:
    """The bytes of one whole reply, RESP3 too, since that is what a stock client asks for.

    Raises OSError when the server hangs up first.
    """
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server hung up in the middle of a reply")
    kind, rest = line[:1], line[1:-2]
    if kind in (b"$", b"=", b"!"):  # so many bytes
        return line if rest == b"-1" else line + stream.read(int(rest) + 2)
    if kind in (b"*", b"~", b">"):  # so many replies
        return line + b"".join(read_reply(stream) for _ in range(int(rest)))
    if kind == b"%":  # so many pairs
        return line + b"".join(read_reply(stream) for _ in range(2 * int(rest)))
    return line
