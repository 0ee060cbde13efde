"""Opening a server: by URL, by environment, with a script set and a minter; what each kind owes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from watch import A, everything, members

import emqkit
from emqkit.errors import BadArgument, BadHeader, Refused, ScriptMissing, Unreachable, UnsuitableServer
from emqkit.ids import Minter, process_minter
from emqkit.jobs import Jobs
from emqkit.scripts import ScriptSet, lua_folder
from emqkit.servers import Server, base, open_server, scratch_for
from emqkit.servers.embedded import EmbeddedServer, start_process
from emqkit.servers.fake import FakeServer
from emqkit.wire import ErrorReply, Flush, Reply, command


def as_is(reply: Reply) -> Reply:
    return reply


# --- which server -----------------------------------------------------------------------------------------------------


def test_without_a_url_the_environment_decides_and_else_it_is_the_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMQKIT_SERVER", raising=False)
    with open_server() as server:
        assert (server.kind, server.url) == ("fake", "fake://")
    monkeypatch.setenv("EMQKIT_SERVER", "")
    with open_server() as server:
        assert server.kind == "fake"
    monkeypatch.setenv("EMQKIT_SERVER", "nowhere://")
    with pytest.raises(BadArgument, match="nowhere"):
        open_server()


def test_an_explicit_url_always_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMQKIT_SERVER", "nowhere://")
    with open_server("fake://") as server:
        assert isinstance(server, FakeServer)


@pytest.mark.parametrize("url", ["localhost:6379", "http://x", "nowhere://", "fakes://", "://", "/tmp/socket"])
def test_a_scheme_that_is_none_of_ours_is_refused_and_the_known_ones_are_named(url: str) -> None:
    with pytest.raises(BadArgument, match="fake://, embedded://, valkey://"):
        open_server(url)


def test_a_refused_url_does_not_show_its_password() -> None:
    with pytest.raises(BadArgument) as caught:
        open_server("nowhere://user:secret@host")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(caught.value.value)


def test_nobody_at_home_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"valkey://127.0.0.1:1.*start the server or check the URL"):
        open_server("valkey://127.0.0.1:1")


# --- which scripts ----------------------------------------------------------------------------------------------------


def test_the_scripts_are_the_published_ones_unless_told() -> None:
    with open_server("fake://") as server:
        assert server.scripts.name == "published"


@pytest.mark.usefixtures("wheel")
def test_a_folder_of_ones_own_lies_over_the_published_set(tmp_path: Path) -> None:
    source = (lua_folder() / "enqueue.lua").read_text()
    (tmp_path / "enqueue.lua").write_text(source.replace("'attempts', '0'", "'attempts', '5'"))
    with open_server("fake://", scripts=str(tmp_path)) as server:
        jobs = Jobs(server)
        jobs.enqueue("orders", "x", id=A)
        claim = jobs.claim("orders")
        assert claim is not None and claim.token == 6


def test_a_script_set_is_taken_as_it_is() -> None:
    scripts = ScriptSet.load("published")
    with open_server("fake://", scripts=scripts) as server:
        assert server.scripts is scripts


def test_a_set_that_is_not_there_and_one_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    with pytest.raises(ScriptMissing, match="publishd"):
        open_server("fake://", scripts="publishd")
    (tmp_path / "claim.lua").write_text("return 1\n")
    with pytest.raises(BadHeader, match="claim.lua"):
        open_server("fake://", scripts=str(tmp_path))


@pytest.mark.usefixtures("wheel")
def test_two_servers_with_different_sets_do_not_mix_them_up(tmp_path: Path, server: Server, queue: str) -> None:
    source = (lua_folder() / "enqueue.lua").read_text()
    (tmp_path / "enqueue.lua").write_text(source.replace("return 1", "return 0"))
    with scratch_for(server, ScriptSet.load(str(tmp_path))) as other:
        assert Jobs(server).enqueue(queue, "x").landed
        assert not Jobs(other).enqueue(queue, "x").landed
        assert Jobs(server).enqueue(queue, "x").landed


# --- which ids --------------------------------------------------------------------------------------------------------


def test_ids_are_the_processes_own_unless_a_minter_is_given() -> None:
    with open_server("fake://") as one, open_server("fake://") as other:
        assert one.minter is other.minter is process_minter()
    minter = Minter.fixed()
    with open_server("fake://", minter=minter) as server:
        assert server.minter is minter


# --- what each kind owes ----------------------------------------------------------------------------------------------


def test_replies_are_raw_and_alike_on_every_kind(server: Server, queue: str) -> None:
    prefix = f"emq:{{{queue}}}:".encode()
    calls = [
        command("SET", [prefix + b"t"], [b"\xff\0"], as_is),
        command("GET", [prefix + b"t"], [], as_is),
        command("GET", [prefix + b"none"], [], as_is),
        command("HSET", [prefix + b"h"], [b"a", b"1", b"b", b"2"], as_is),
        command("HGETALL", [prefix + b"h"], [], as_is),
        command("HMGET", [prefix + b"h"], [b"a", b"z"], as_is),
        command("ZADD", [prefix + b"z"], [b"1.5", b"m"], as_is),
        command("ZSCORE", [prefix + b"z"], [b"m"], as_is),
        command("ZRANGE", [prefix + b"z"], [b"0", b"-1", b"WITHSCORES"], as_is),
        command("HEXISTS", [prefix + b"h"], [b"a"], as_is),
        command("LRANGE", [prefix + b"l"], [b"0", b"-1"], as_is),
        command("EXISTS", [prefix + b"t"], [], as_is),
        command("LPUSH", [prefix + b"t"], [b"x"], lambda reply: reply.code if isinstance(reply, ErrorReply) else reply),
    ]
    *replies, error = server.round_trip(Flush(tuple(calls)))
    assert replies == [
        b"OK",
        b"\xff\0",
        None,
        2,
        (b"a", b"1", b"b", b"2"),
        (b"1", None),
        1,
        b"1.5",
        (b"m", b"1.5"),
        1,
        (),
        1,
    ]
    assert isinstance(error, ErrorReply) and error.code == "WRONGTYPE"


def test_no_client_of_ours_sends_anything_twice(server: Server) -> None:
    with server.scratch() as scratch:
        for place in (server, scratch):
            pool: Any = place.client.connection_pool
            connection = pool.get_connection()
            assert connection.retry.get_retries() == 0
            pool.release(connection)


def test_a_scratch_is_empty_private_and_has_the_same_scripts(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "x", id=A)
    server.scripts = ScriptSet("mine", {script.name: script for script in server.scripts})
    with server.scratch() as scratch:
        assert scratch.scripts is server.scripts
        assert list(everything(scratch).keys) == []
        Jobs(scratch).enqueue(queue, "y")
    assert members(server, queue, "pending") == [A]
    jobs.enqueue(queue, "z")  # closing the scratch closed nothing of the server's


def test_a_server_is_closed_once_and_then_refuses(server: Server, queue: str) -> None:
    scratch = server.scratch()
    with scratch as same:
        assert same is scratch
    scratch.close()
    with pytest.raises(Unreachable, match="closed"):
        Jobs(scratch).reap(queue)


def test_a_repr_says_which_kind_and_which_scripts(server: Server) -> None:
    assert repr(server) == f"<{server.kind} server, scripts published>"


def test_two_fake_servers_share_nothing(queue: str) -> None:
    with open_server("fake://") as one, open_server("fake://") as other:
        Jobs(one).enqueue(queue, "x")
        assert list(everything(other).keys) == []


def test_the_client_is_an_ordinary_one_and_goes_past_every_recorder(server: Server, queue: str) -> None:
    assert isinstance(server.client, redis.Redis)
    with emqkit.record(server) as trace:
        server.client.set(f"emq:{{{queue}}}:x", "1")
    assert len(trace) == 0


@pytest.mark.parametrize("wrong", [1.5, {"a": 1}, object()], ids=["float", "dict", "object"])
def test_a_reply_that_is_not_of_this_protocol_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="RESP2"):
        base._plain(wrong)


def test_the_public_face_is_there() -> None:
    names: dict[str, Callable[..., Any]] = {
        name: getattr(emqkit, name) for name in emqkit.__all__ if name != "StepPlayer"
    }
    assert names["open_server"] is open_server
    for name in ("Flow", "Flows", "Child", "Jobs", "Pump", "Worker", "Native", "Trace", "record", "Server", "Minter"):
        assert name in names


def test_an_answer_that_nobody_is_logged_in_is_a_refusal_and_not_a_lost_reply() -> None:
    try:
        process = start_process(listen="tcp")  # a port has a password
    except UnsuitableServer as missing:
        pytest.skip(f"no embedded server here: {missing}")
    with EmbeddedServer(process, ScriptSet.load("published")) as server:
        server.exchange([(b"RESET",)], "RESET")  # forgets who this connection is
        with pytest.raises(Refused, match="NOAUTH"):
            Jobs(server).depths("orders")


@pytest.mark.parametrize("verbs", [emqkit.Flows, emqkit.Jobs, emqkit.Native, lambda url: emqkit.Pump(url, "orders")])
def test_a_url_is_not_yet_a_server(verbs: Callable[[Any], object]) -> None:
    with pytest.raises(BadArgument, match=r"is str, not a server: emqkit.open_server\(…\) opens one"):
        verbs("fake://")
