"""Nothing emqkit asks of a server is sent twice, whatever becomes of the reply."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import redis
from proxy import Proxy

from emqkit.errors import JobGone, ReplyLost, Unreachable
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
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
        proxy.forget()  # what opening it took
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


# --- the same for whole operations ------------------------------------------------------------------------------------


def scripts_run(proxy: Proxy) -> int:
    return proxy.count("EVALSHA", executed=True) + proxy.count("EVAL", executed=True)


def test_an_enqueue_whose_reply_was_lost_landed_once_and_asked_again_it_says_so(
    proxy: Proxy, through: Server, embedded_server: Server, queue: str
) -> None:
    jobs = Jobs(through)
    proxy.swallow_reply("EVALSHA")
    with pytest.raises(ReplyLost):
        jobs.enqueue(queue, "pack", id="JOB0NgWEfAEJfs")
    assert scripts_run(proxy) == 1
    assert Jobs(embedded_server).depths(queue).pending == 1
    assert not jobs.enqueue(queue, "pack", id="JOB0NgWEfAEJfs").landed


def test_a_completion_whose_reply_was_lost_counts_once_for_its_parent(
    proxy: Proxy, through: Server, embedded_server: Server, queue: str
) -> None:
    flow = Flows(embedded_server).add(queue, Flow("pack order 7", [Child("pick"), Child("label")]))
    jobs = Jobs(through)
    claim = jobs.claim(queue)
    assert claim is not None
    before = scripts_run(proxy)
    proxy.swallow_reply("EVALSHA")
    with pytest.raises(ReplyLost):
        jobs.complete(queue, claim)
    assert scripts_run(proxy) == before + 1
    assert embedded_server.client.get(f"emq:{{{queue}}}:job:{flow.parent_id}:dependencies") == b"1"
    with pytest.raises(JobGone):
        jobs.complete(queue, claim)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_flow_across_queues_that_lost_a_reply_is_made_whole_by_the_same_add(
    lost: int, proxy: Proxy, through: Server, embedded_server: Server, queues: Callable[..., str]
) -> None:
    orders, emails = queues("orders"), queues("emails")
    flow = Flow(
        "pack order 7",
        [Child("pick", id="JOB0NgWEfAEJft", queue=emails), Child("label", id="JOB0NgWEfAEJfu")],
        id="JOB0NgWEfAEJfs",
    )
    flows = Flows(through)
    proxy.swallow_reply("EVALSHA", nth=lost)
    with pytest.raises(ReplyLost):
        flows.add(orders, flow)
    assert scripts_run(proxy) == lost  # it stopped there, and sent nothing again by itself
    flows.add(orders, flow)
    jobs = Jobs(embedded_server)
    assert (jobs.depths(orders).pending, jobs.depths(emails).pending) == (1, 1)
    assert embedded_server.client.get(f"emq:{{{orders}}}:job:JOB0NgWEfAEJfs:dependencies") == b"2"
