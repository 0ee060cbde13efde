"""Which keys were written: told by the server itself, whose setting is put back as it was found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emqkit import open_server
from emqkit.errors import Unreachable
from emqkit.servers import Server
from emqkit.servers.embedded import EmbeddedServer
from emqkit.servers.touched import Touched, _flags, _is_on
from emqkit.wire import ErrorReply, Flush, Reply

SETTING = b"notify-keyspace-events"


def send(server: Server, *words: str | bytes) -> Reply:
    return server.exchange([tuple(w.encode() if isinstance(w, str) else w for w in words)], "a test's")[0]


def setting(server: Server) -> set[str]:
    return set(_flags(send(server, "CONFIG", "GET", SETTING)) or "")


@pytest.fixture
def place(embedded_server: EmbeddedServer) -> Iterator[EmbeddedServer]:
    send(embedded_server, "CONFIG", "SET", SETTING, "")
    yield embedded_server
    send(embedded_server, "CONFIG", "SET", SETTING, "")


@pytest.mark.parametrize(
    ("reply", "flags", "on"),
    [
        ((SETTING, b"AK"), "AK", True),
        ((SETTING, b"KE"), "KE", False),
        ((SETTING, b"AE"), "AE", False),
        ((SETTING, b"Kg$lshzxet"), "Kg$lshzxet", True),
        ((SETTING, b"Kg$lshzxe"), "Kg$lshzxe", False),
        ((SETTING, b""), "", False),
        ((), None, False),
        ((SETTING, None), None, False),
        ((SETTING, b"AK", b"more"), None, False),
        (ErrorReply("NOPERM", "no"), None, False),
    ],
)
def test_notifications_are_on_where_every_write_to_a_key_is_told(reply: Reply, flags: str | None, on: bool) -> None:
    assert _flags(reply) == flags
    assert _is_on(flags) is on


def test_the_keys_of_the_pattern_are_told_once_whatever_wrote_them(place: EmbeddedServer) -> None:
    assert place.database > 0, "another database's keys are told under its number"
    touched = Touched(place, b"emq:{q}:*")
    assert touched.take() == set()
    for words in (
        ("SET", "emq:{q}:a", "1"),
        ("SET", "emq:{q}:a", "2"),
        ("HSET", "emq:{q}:h", "f", "v"),
        ("ZADD", "emq:{q}:z", "1", "m"),
        ("RPUSH", b"emq:{q}:l__:\xff", "x"),
        ("SET", "elsewhere", "1"),
        ("GET", "emq:{q}:b"),
    ):
        send(place, *words)
    assert touched.take() == {b"emq:{q}:a", b"emq:{q}:h", b"emq:{q}:z", b"emq:{q}:l__:\xff"}
    assert touched.take() == set()
    send(place, "DEL", "emq:{q}:a", "emq:{q}:h")
    assert touched.take() == {b"emq:{q}:a", b"emq:{q}:h"}
    touched.close()
    touched.close()
    assert touched.take() is None


@pytest.mark.parametrize("before", ["", "E$", "K$", "KA", "AKE"])
def test_the_setting_gains_what_is_missing_and_is_put_back(place: EmbeddedServer, before: str) -> None:
    send(place, "CONFIG", "SET", SETTING, before)
    as_told = setting(place)
    touched = Touched(place, b"*")
    assert setting(place) == {"A", "K"} | (as_told & {"E"})
    touched.close()
    assert setting(place) == as_told


def test_a_setting_that_somebody_changed_meanwhile_is_left_alone(place: EmbeddedServer) -> None:
    touched = Touched(place, b"*")
    send(place, "CONFIG", "SET", SETTING, "AKE")
    touched.close()
    assert setting(place) == set("AKE")


def test_notifications_that_were_turned_off_are_on_again_once_that_is_seen(place: EmbeddedServer) -> None:
    touched = Touched(place, b"*")
    assert [(call.verb, call.keys, call.args) for call in touched.asks] == [("CONFIG", (), (b"GET", SETTING))]
    assert not touched.mends(place.round_trip(Flush(touched.asks)))
    assert not touched.mends(())
    send(place, "CONFIG", "SET", SETTING, "")
    send(place, "SET", "unseen", "1")
    assert touched.mends(place.round_trip(Flush(touched.asks)))
    send(place, "SET", "seen", "1")
    assert touched.take() == {b"seen"}
    touched.close()
    assert setting(place) == set()


@pytest.mark.parametrize("verb", ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
def test_once_a_key_will_expire_everything_is_to_be_looked_at(place: EmbeddedServer, verb: str) -> None:
    touched = Touched(place, b"*")
    send(place, "SET", "k", "1")
    send(place, verb, "k", "9999999999999" if verb == "PEXPIREAT" else "9999999999" if verb == "EXPIREAT" else "100000")
    assert touched.take() is None
    assert touched.take() is None
    assert setting(place) == set()


def test_a_server_that_refuses_the_setting_is_left_as_it_is(place: EmbeddedServer) -> None:
    for rules in (("+@all", "-config"), ("+@all", "-config", "+config|get")):
        send(place, "ACL", "SETUSER", "asker", "reset", "on", ">p", "~*", "&*", *rules)
        with place.process.client(place.database, username="asker", password="p") as client:
            server = Server("redis://asker", client, place.scripts)
            touched = Touched(server, b"*")
            assert touched.take() is None
            touched.close()
    send(place, "ACL", "DELUSER", "asker")
    assert setting(place) == set()


def test_a_server_that_lets_nobody_listen_is_left_as_it_was(place: EmbeddedServer) -> None:
    send(place, "ACL", "SETUSER", "deaf", "reset", "on", ">p", "~*", "+@all", "-psubscribe")
    with place.process.client(place.database, username="deaf", password="p") as client:
        touched = Touched(Server("redis://deaf", client, place.scripts), b"*")
        assert touched.take() is None
    send(place, "ACL", "DELUSER", "deaf")
    assert setting(place) == set()


def test_a_listener_that_is_cut_off_says_so(place: EmbeddedServer) -> None:
    touched = Touched(place, b"*")
    send(place, "CLIENT", "KILL", "TYPE", "pubsub")
    with pytest.raises(Unreachable) as caught:
        touched.take()
    assert caught.value.url == place.url
    assert not caught.value.why.endswith(".")
    touched.close()
    assert setting(place) == set()


def test_the_fake_always_tells_and_has_no_setting() -> None:
    with open_server("fake://") as server:
        touched = Touched(server, b"a*")
        server.client.set("a", "1")
        server.client.set("b", "1")
        assert touched.asks == ()
        assert touched.take() == {b"a"}
        assert not touched.mends(())
        touched.close()
        assert touched.take() is None
