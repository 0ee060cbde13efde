"""Live servers: opened by URL, looked at once, and told apart in one sentence each, with no password in any."""

from __future__ import annotations

import contextlib
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path

import pytest
from redis import Redis

from emqkit import open_server
from emqkit.errors import BadArgument, EmqError, Unreachable, UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.servers import embedded, live
from emqkit.servers.embedded import EmbeddedServer, Process, find_wheel, start_process
from emqkit.servers.fake import FakeServer
from emqkit.servers.live import LiveServer, open_live
from emqkit.wire import Flush, Reply, command

try:
    find_wheel()
except UnsuitableServer as missing:
    pytest.skip(f"nothing to open here: {missing}", allow_module_level=True)

NO_SCRIPTS = ScriptSet("none", {})
SECRET = "geheim:sésame/ouvre+toi"
QUOTED = "geheim%3As%C3%A9same%2Fouvre%2Btoi"


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with start_process(listen="tcp") as process:
        yield process


def url_at(port: int | None, userinfo: str = "", rest: str = "") -> str:
    return f"valkey://{userinfo}127.0.0.1:{port}{rest}"


def opened(url: str) -> LiveServer:
    server = open_server(url, scripts=NO_SCRIPTS)
    assert isinstance(server, LiveServer)
    return server


def refused(url: str, kind: type[EmqError] = UnsuitableServer) -> str:
    """Why opening this URL is refused."""
    with pytest.raises(kind) as refusal:
        opened(url)
    assert type(refusal.value) is kind
    shown = "".join(traceback.format_exception(refusal.value))
    for secret in (SECRET, QUOTED, "geheim", "sésame"):
        assert secret not in shown
    return str(refusal.value)


# --- opening ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["valkey", "redis"])
def test_a_server_is_opened_by_its_url_and_shows_no_password(process: Process, scheme: str) -> None:
    with opened(f"{scheme}://:{process.password}@127.0.0.1:{process.port}/3") as server:
        assert server.url == f"{scheme}://127.0.0.1:{process.port}/3"
        assert server.kind == "live" and server.version == f"Valkey {process.version}"
        assert server.client.ping()
        for text in (repr(server), repr(server.client), repr(server.client.connection_pool), server.url):
            assert process.password is not None and process.password not in text


def test_a_database_is_that_database(process: Process) -> None:
    with opened(process.url_of(4)) as four, opened(process.url_of(5)) as five:
        four.client.set("here", "1")
        assert (four.client.dbsize(), five.client.dbsize()) == (1, 0)
        four.client.delete("here")


def test_a_database_may_stand_in_the_query(process: Process) -> None:
    with opened(process.url.removesuffix("/0") + "?db=6") as server:
        assert server.url == f"redis://127.0.0.1:{process.port}/6"
        assert server.client.connection_pool.connection_kwargs["db"] == 6


def test_the_look_leaves_no_key_behind(process: Process) -> None:
    with opened(process.url_of(7)) as server:
        assert server.client.dbsize() == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no socket files here")
def test_a_socket_file_is_opened_by_its_path() -> None:
    with start_process() as process, opened(process.url_of(2)) as server:
        assert server.url == f"unix://{process.socket}?db=2"
        assert server.client.ping()
    with start_process() as process:
        path = process.url
    assert "no such file or directory" in refused(path, Unreachable)


def test_a_user_with_a_difficult_password_gets_in(process: Process) -> None:
    with process.client() as admin, user(admin, "curious", "+@all", "~*"):
        with opened(url_at(process.port, f"curious:{QUOTED}@")) as server:
            assert server.client.acl_whoami() == "curious"
            assert server.url == url_at(process.port)


@contextlib.contextmanager
def user(admin: Redis, name: str, *rules: str) -> Iterator[None]:
    admin.execute_command("ACL", "SETUSER", name, "reset", "on", f">{SECRET}", *rules)
    try:
        yield
    finally:
        admin.execute_command("ACL", "DELUSER", name)


def test_a_url_cannot_change_how_replies_are_read_or_sent_again(process: Process) -> None:
    with opened(f"{process.url}?protocol=3&decode_responses=true&retry_on_timeout=true") as server:
        (reply,) = server.round_trip(Flush((command("PING", (), (), lambda reply: reply),)))
        assert reply == b"PONG"
        options = server.client.connection_pool.connection_kwargs
        assert options["protocol"] == 2 and not options["decode_responses"]
        assert options["retry"].get_retries() == 0


# --- what is wrong with a URL -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        f"valkey://:{SECRET}@127.0.0.1:6379",
        "valkey://:geheim/sésame@127.0.0.1",
        "valkey://:1234/sésame@127.0.0.1",
        "valkey://:1234#sésame@127.0.0.1",
        "valkey://:1234?sésame@127.0.0.1",
        "valkey://:ge[heim@127.0.0.1",
        "valkey://:[geheim]@127.0.0.1",
        "valkey://127.0.0.1:geheim",
        "valkey://:geheim@127.0.0.1:99999",
        "valkey://:geheim@:6379",
        "valkey://:6379",
        "valkey://:geheim@127.0.0.1/orders",
        "valkey://:geheim@127.0.0.1/-1",
        "valkey://:geheim@127.0.0.1?db=x",
        "valkey://:geheim@127.0.0.1?no_such_option=1",
        "valkey://:geheim@127.0.0.1?socket_timeout=soon",
        "unix://tmp/socket",
        "unix://",
    ],
)
def test_a_url_that_cannot_be_read_is_a_bad_argument_that_quotes_nothing_secret(url: str) -> None:
    assert "cannot be read" in refused(url, BadArgument)


@pytest.mark.parametrize(
    ("url", "shown", "database", "secret"),
    [
        ("valkey://h", "valkey://h", 0, "redis://h"),
        ("valkeys://u:p@h:1/0", "valkeys://h:1", 0, "rediss://u:p@h:1/0"),
        ("redis://u:p@h:1/3?x=1", "redis://h:1/3", 3, "redis://u:p@h:1/3?x=1"),
        ("rediss://h?db=4", "rediss://h/4", 4, "rediss://h?db=4"),
        ("redis://h/2?x=1&db=4", "redis://h/2", 2, "redis://h/2?x=1&db=4"),
        ("redis://h?xdb=4", "redis://h", 0, "redis://h?xdb=4"),
        ("redis://:p@[::1]:1/999999999", "redis://[::1]:1/999999999", 999_999_999, "redis://:p@[::1]:1/999999999"),
        ("redis://", "redis://", 0, "redis://"),
        ("unix:///a/s", "unix:///a/s", 0, "unix:///a/s"),
        ("unix://:p@/a@b/s?db=2", "unix:///a@b/s?db=2", 2, "unix://:p@/a@b/s?db=2"),
        ("unix:///a/s?x=1&db=0", "unix:///a/s", 0, "unix:///a/s?x=1&db=0"),
    ],
)
def test_a_url_is_read_and_shown_without_its_password(url: str, shown: str, database: int, secret: str) -> None:
    address = live._read_url(url)
    assert (address.shown, address.database, address.secret) == (shown, database, secret)
    assert repr(address) == f"_Address(shown={shown!r}, database={database})"


def test_a_server_that_cannot_be_used_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[LiveServer] = []
    monkeypatch.setattr(LiveServer, "close", lambda self: closed.append(self))
    with pytest.raises(Unreachable):
        open_live(url_at(free_port()), ScriptSet("none", {}))
    assert len(closed) == 1


@pytest.mark.parametrize("url", ["redis://h/1000000000", "redis://h/1/2", "redis://h/ 1", "redis://:1"])
def test_a_url_without_a_host_or_with_an_impossible_database_is_refused(url: str) -> None:
    with pytest.raises(BadArgument, match="cannot be read"):
        live._read_url(url)


@pytest.mark.parametrize(
    ("about", "name", "version"),
    [
        (b"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n", "Valkey 9.1.2", (9, 1)),
        (b"# Server\r\nredis_version:7.0.15-rc1\r\n", "Redis 7.0.15-rc1", (7, 0)),
        (b"my_redis_version:7.0\r\n", "", ()),
        (b"\xff", "", ()),
        (None, "", ()),
    ],
)
def test_a_server_says_what_it_is_or_keeps_it_to_itself(about: Reply, name: str, version: tuple[int, ...]) -> None:
    assert live._version(about) == (name, version)


# --- nobody there -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_a_port_nobody_listens_on_cannot_be_reached() -> None:
    port = free_port()
    message = refused(url_at(port, f":{QUOTED}@"), Unreachable)
    assert message == (
        f"valkey://127.0.0.1:{port} cannot be reached: connection refused. "
        "Nothing was sent; start the server or check the URL."
    )


def test_a_host_nobody_knows_cannot_be_reached() -> None:
    assert "valkey://nowhere.invalid cannot be reached: " in refused("valkey://nowhere.invalid", Unreachable)


@contextlib.contextmanager
def listener(answer: Callable[[BufferedIOBase, BufferedIOBase], object]) -> Iterator[int]:
    """The port of something that is no Valkey and answers as it likes."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                answer(self.rfile, self.wfile)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_what_hangs_up_is_suspected_of_wanting_tls() -> None:
    with listener(lambda asked, answers: None) as port:
        assert "hung up without an answer; if it wants TLS, write valkeys://" in refused(url_at(port), Unreachable)


def test_what_speaks_another_protocol_is_no_server() -> None:
    def web(asked: BufferedIOBase, answers: BufferedIOBase) -> None:
        asked.readline()
        answers.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener(web) as port:
        assert "does not speak the Redis protocol" in refused(url_at(port))


def test_what_never_answers_is_given_up() -> None:
    with listener(lambda asked, answers: asked.read() and None) as port:
        assert "no answer came in time." in refused(url_at(port, rest="?socket_timeout=0.2"), Unreachable)


# --- somebody there, but ----------------------------------------------------------------------------------------------


def test_a_missing_password_is_asked_for(process: Process) -> None:
    for database in ("", "/3"):
        assert "it wants a password; write it as valkey://:password@host" in refused(
            url_at(process.port, rest=database)
        )


def test_a_wrong_password_is_refused_without_being_shown(process: Process) -> None:
    for name in ("", "nobody"):
        message = refused(url_at(process.port, f"{name}:{QUOTED}@"))
        assert "it refuses the user name or the password of this URL" in message


def test_a_database_that_is_not_there_is_named(process: Process) -> None:
    assert f"it has no database {embedded.DATABASES}" in refused(process.url_of(embedded.DATABASES))


def test_a_read_only_replica_is_refused() -> None:
    with start_process(listen="tcp", extra=["--replicaof", "127.0.0.1 1"]) as process:
        assert "it is a read-only replica; open the primary it copies from" in refused(process.url)


def test_a_server_out_of_memory_is_refused() -> None:
    with start_process(listen="tcp", extra=["--maxmemory", "1"]) as process:
        assert "it is out of memory (maxmemory is reached) and accepts no writes" in refused(process.url)


@pytest.mark.parametrize(
    ("rules", "verb"),
    [
        (("+@all", "-@scripting", "~*"), "SCRIPT LOAD"),
        (("+@all", "-evalsha", "~*"), "EVALSHA"),
        (("+@all", "-eval", "~*"), "EVAL"),
        (("+@all", "~other:*"), "EVALSHA"),
        (("+@all", "-set", "~emq:*"), "EVALSHA"),
    ],
)
def test_a_user_who_may_not_run_scripts_is_told_which_command_is_refused(
    process: Process, rules: tuple[str, ...], verb: str
) -> None:
    with process.client() as admin, user(admin, "curious", *rules):
        message = refused(url_at(process.port, f"curious:{QUOTED}@"))
        assert f"its access list (ACL) refuses this user {verb} (" in message
        assert "every command on keys emq:*" in message


def test_a_user_of_the_emq_keys_alone_is_enough(process: Process) -> None:
    with process.client() as admin, user(admin, "curious", "+@all", "-info", "~emq:*"):
        with opened(url_at(process.port, f"curious:{QUOTED}@")) as server:
            assert server.version == "", "INFO is refused, and that alone is no reason"


def test_one_node_of_a_cluster_is_refused() -> None:
    with start_process(listen="tcp", extra=["--cluster-enabled", "yes"]) as process:
        assert "it is one node of a cluster" in refused(process.url)


def stub(**replies: bytes) -> Callable[[BufferedIOBase, BufferedIOBase], None]:
    """A server that answers each verb with what is given, and all others with OK."""

    def answer(asked: BufferedIOBase, answers: BufferedIOBase) -> None:
        while line := asked.readline():
            words = []
            for _ in range(int(line[1:])):
                words.append(asked.read(int(asked.readline()[1:])))
                asked.readline()
            answers.write(replies.get(words[0].decode(), b"+OK\r\n"))

    return answer


def bulk(text: str) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


def test_a_server_too_old_is_refused_by_name() -> None:
    with listener(stub(INFO=bulk("# Server\r\nredis_version:6.2.14\r\nos:Linux\r\n"))) as port:
        assert "it is Redis 6.2.14, and the scripts are for 7.0 or later" in refused(url_at(port))
    with listener(stub(INFO=bulk("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n"))) as port:
        with opened(url_at(port)) as server:
            assert server.version == "Redis 7.0.15"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"-ERR unknown command 'EVAL', with args beginning with: \r\n", "it has no scripting: EVAL is unknown to it."),
        (
            b"-ERR The user executing the script can't run this command\r\n",
            "its access list (ACL) refuses this user EVAL (",
        ),
        (b"-MISCONF Errors writing to the AOF file.\r\n", "it accepts no writes: Errors writing to the AOF file."),
        (b"-NOREPLICAS Not enough good replicas to write.\r\n", "it answers EVAL with NOREPLICAS Not enough good repl"),
        (b"-LOADING Loading the dataset in memory\r\n", "it is still loading its data; try again in a moment."),
        (b"-ERR max number of clients reached\r\n", "max number of clients reached"),
    ],
)
def test_whatever_else_refuses_a_script_is_said(reply: bytes, why: str) -> None:
    kind: type[EmqError] = Unreachable if b"max number" in reply else UnsuitableServer
    with listener(stub(EVAL=reply)) as port:
        assert why in refused(url_at(port), kind)


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    named = ["-subj", "/CN=emqkit", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    into = ["-out", str(certificate), "-keyout", str(key)]
    subprocess.run([openssl, *made, *into, *named], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def tls_port(process: Process, certificate: tuple[Path, Path]) -> Iterator[int]:
    """A port that takes TLS and passes on to the private Valkey, whose build has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    threads: list[threading.Thread] = []

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                with (
                    context.wrap_socket(self.request, server_side=True) as outside,
                    socket.create_connection(("127.0.0.1", process.port or 0)) as inside,
                ):
                    back = threading.Thread(target=copy, args=(inside, outside))
                    back.start()
                    copy(outside, inside)
                    back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threads.append(threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}))
        threads[0].start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            threads[0].join()


@pytest.mark.parametrize("scheme", ["valkeys", "rediss"])
def test_tls_is_spoken_to_a_trusted_certificate(
    process: Process, tls_port: int, certificate: tuple[Path, Path], scheme: str
) -> None:
    url = f"{scheme}://:{process.password}@127.0.0.1:{tls_port}/1?ssl_ca_certs={certificate[0]}"
    with opened(url) as server:
        assert server.client.ping()
        assert server.url == f"{scheme}://127.0.0.1:{tls_port}/1"


def test_a_certificate_that_is_not_trusted_names_the_remedy(process: Process, tls_port: int) -> None:
    message = refused(f"valkeys://:{process.password}@127.0.0.1:{tls_port}", Unreachable)
    assert "its certificate is not trusted (self" in message and "?ssl_ca_certs=" in message


def test_tls_towards_a_plain_server_says_so(process: Process) -> None:
    message = refused(f"valkeys://:{process.password}@127.0.0.1:{process.port}?socket_connect_timeout=0.3", Unreachable)
    assert "no answer came in time; if it does not speak TLS, leave the s off the scheme" in message


def test_tls_towards_something_that_talks_first_says_so() -> None:
    with listener(lambda asked, answers: answers.write(b"220 ready\r\n") and asked.read() and None) as port:
        assert "it does not speak TLS; write valkey:// or redis://" in refused(f"valkeys://127.0.0.1:{port}")


def test_plain_towards_tls_says_so(tls_port: int) -> None:
    assert "if it wants TLS, write valkeys://" in refused(url_at(tls_port), Unreachable)


# --- scratches --------------------------------------------------------------------------------------------------------


def test_scratches_are_elsewhere_and_share_one_private_process(process: Process) -> None:
    with opened(process.url_of(8)) as server:
        with server.scratch() as one, server.scratch() as other:
            assert isinstance(one, EmbeddedServer) and isinstance(other, EmbeddedServer)
            assert one.process is other.process and one.process.pid != process.pid
            assert one.scripts is server.scripts
            one.client.set("only here", "1")
            assert (other.client.dbsize(), server.client.dbsize()) == (0, 0)
            private = one.process
        assert not private.closed, "kept for the next scratch"
    assert private.closed


def test_without_an_embedded_server_a_scratch_is_fake(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str | None = None) -> embedded.Wheel:
        raise UnsuitableServer("embedded://", "none is installed")

    monkeypatch.setattr(embedded, "find_wheel", none)
    with opened(process.url_of(8)) as server, server.scratch() as one, server.scratch() as other:
        assert isinstance(one, FakeServer) and isinstance(other, FakeServer)
        one.client.set("only here", "1")
        assert (other.client.dbsize(), server.client.dbsize()) == (0, 0)


def test_closing_twice_is_harmless(process: Process) -> None:
    server = open_live(process.url, NO_SCRIPTS)
    server.close()
    server.close()
    with pytest.raises(Unreachable, match="closed"):
        server.round_trip(Flush((command("PING", (), (), lambda reply: reply),)))
