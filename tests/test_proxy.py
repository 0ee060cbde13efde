"""Nothing emqkit asks of a server is sent twice, whatever becomes of the reply."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis
from proxy import Proxy

from emqkit.errors import ReplyLost, Unreachable
from emqkit.servers import Server, open_server
from emqkit.wire import Call, ErrorReply, Flush, command


def incr(key: bytes = b"n") -> Call[object]:
    return command("INCR", [key], [], lambda reply: reply)


@pytest.fixture
def proxy(embedded_server: Server) -> Iterator[Proxy]:
    with Proxy.before(embedded_server.client) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy) -> Iterator[Server]:
    """The embedded server, reached through the proxy as one would reach a live one."""
    with open_server(proxy.url) as server:
        yield server


def test_the_fault_guarded_against_a_stock_client_executes_a_call_twice_after_a_lost_reply(proxy: Proxy) -> None:
    # Built from a URL, redis-py does not; built from a host and a port, it tries ten times.
    with redis.Redis(**proxy.options) as stock:
        proxy.swallow_reply("INCRBY")  # what its incr() sends
        assert stock.incr("n") == 2
    assert proxy.count("INCRBY", executed=True) == 2


def test_a_lost_reply_is_reported_and_the_call_was_executed_once(
    proxy: Proxy, through: Server, embedded_server: Server
) -> None:
    proxy.swallow_reply("INCR")
    with pytest.raises(ReplyLost):
        through.round_trip(Flush((incr(),)))
    assert proxy.count("INCR") == proxy.count("INCR", executed=True) == 1
    assert embedded_server.client.get("n") == b"1"


def test_a_call_that_never_arrived_is_reported_the_same_and_was_not_executed(
    proxy: Proxy, through: Server, embedded_server: Server
) -> None:
    # The client cannot tell the two apart: it sent, and no reply came.
    proxy.drop_command("INCR")
    with pytest.raises(ReplyLost):
        through.round_trip(Flush((incr(),)))
    assert proxy.count("INCR") == 1
    assert proxy.count("INCR", executed=True) == 0
    assert embedded_server.client.get("n") is None


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_reply_lost_in_the_middle_of_a_flush_leaves_a_prefix_done(
    lost: int, proxy: Proxy, through: Server, embedded_server: Server
) -> None:
    proxy.swallow_reply("INCR", nth=lost)
    with pytest.raises(ReplyLost):
        through.round_trip(Flush((incr(), incr(), incr())))
    assert embedded_server.client.get("n") == b"%d" % lost


def test_a_lost_reply_to_exec_leaves_all_of_it_done_once(
    proxy: Proxy, through: Server, embedded_server: Server
) -> None:
    proxy.swallow_reply("EXEC")
    with pytest.raises(ReplyLost):
        through.round_trip(Flush((incr(b"a"), incr(b"b")), atomic=True))
    assert embedded_server.client.mget("a", "b") == [b"1", b"1"]


def test_the_next_call_after_a_lost_reply_gets_its_own_reply(proxy: Proxy, through: Server) -> None:
    proxy.swallow_reply("INCR")
    with pytest.raises(ReplyLost):
        through.round_trip(Flush((incr(),)))
    assert through.round_trip(Flush((incr(), command("GET", [b"n"], [], lambda reply: reply)))) == (2, b"2")


def test_a_stalled_reply_arrives_and_the_call_was_sent_once(proxy: Proxy, through: Server) -> None:
    proxy.stall_reply("INCR")
    timer = threading.Timer(0.2, proxy.resume)
    timer.start()
    assert through.round_trip(Flush((incr(),))) == (1,)
    timer.join()
    assert proxy.count("INCR") == 1


def test_an_error_reply_is_an_answer_and_nothing_is_sent_again(proxy: Proxy, through: Server) -> None:
    through.round_trip(Flush((command("SET", [b"n"], [b"word"], lambda reply: reply),)))
    (reply,) = through.round_trip(Flush((incr(),)))
    assert isinstance(reply, ErrorReply)
    assert proxy.count("INCR") == 1


def test_without_a_server_nothing_is_sent_and_the_error_says_so(embedded_server: Server) -> None:
    with Proxy.before(embedded_server.client) as proxy:
        server = open_server(proxy.url)
    with server, pytest.raises(Unreachable):
        for _ in range(2):  # a connection left from opening may be found dead only when it is used
            server.round_trip(Flush((incr(),)))
    assert proxy.count("INCR") == 0
    assert embedded_server.client.get("n") is None
