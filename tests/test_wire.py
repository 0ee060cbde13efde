"""An operation is a generator of round trips: what is sent, how often, what comes back, and what is raised into it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from proxy import Proxy
from watch import FOREIGN, ILL_FORMED, A, B, C, P, at, everything, fault, members, refused_unsent, wire

from emqkit import keys, transitions
from emqkit.errors import (
    BadArgument,
    IllFormedId,
    JobGone,
    Refused,
    ReplyLost,
    ScriptArity,
    ScriptMissing,
    StaleToken,
    Unreachable,
    WrongNamespace,
)
from emqkit.flows import Child, Flow, Flows
from emqkit.ids import Minter
from emqkit.jobs import Claim, Jobs
from emqkit.pump import Pump
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, base, open_server
from emqkit.servers.base import CLIENT_OPTIONS
from emqkit.servers.fake import FakeServer
from emqkit.wire import Call, Done, ErrorReply, Flush, Reply, Steps, command, operation, pair, run


def as_is(reply: Reply) -> Reply:
    return reply


def get(key: str) -> Call[Reply]:
    return command("GET", [key.encode()], [], as_is)


def put(key: str, value: str) -> Call[Reply]:
    return command("SET", [key.encode()], [value.encode()], as_is)


def verbs(sent: list[tuple[tuple[bytes, ...], ...]]) -> list[list[str]]:
    return [[b" ".join(command[:1]).decode() for command in commands] for commands in sent]


@dataclass(frozen=True)
class Bench:
    """An owner of operations, as `Jobs` is."""

    server: Server

    @operation
    def swap(self, key: str, value: str, *, times: int = 1) -> Steps[tuple[Reply, ...]]:
        """Write a value and hand out what was there before."""
        seen: list[Reply] = []
        for _ in range(times):
            old = yield from get(key)
            yield from put(key, value)
            seen.append(old)
        return tuple(seen)

    @operation
    def careful(self, key: str) -> Steps[str]:
        try:
            yield from put(key, "x")
        except ReplyLost:
            found = yield from get(key)
            return "it was written" if found else "it was not written"
        except Unreachable:
            return "it was not sent"
        return "written"

    @operation
    def wrong(self, key: str) -> Steps[str]:
        try:
            yield from command("LPUSH", [key.encode()], [b"x"], as_is)
        except Refused as error:
            return error.code
        return ""

    @operation
    def needs_name(self, name: str | None = None) -> Steps[Reply]:
        value = yield from get(name or "nobody")
        return value

    @needs_name.prepare
    def _needs_name(self, name: str | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if name == "bad":
            raise BadArgument("name", name, "is bad")
        return (name or "prepared",), {}


@pytest.fixture
def cold(server: Server) -> Iterator[Server]:
    """A server that has been given no script yet, not even for ids."""
    with server.scratch() as cold:
        cold.minter = Minter.fixed()
        yield cold


# --- scripts over the wire --------------------------------------------------------------------------------------------


def test_a_script_is_loaded_in_the_flush_that_first_needs_it_and_then_called_by_sha(cold: Server) -> None:
    jobs = Jobs(cold)
    with wire(cold) as sent:
        jobs.enqueue("orders", "pick")
        jobs.enqueue("orders", "pack")
    assert verbs(sent) == [["SCRIPT", "EVALSHA"], ["EVALSHA"]]
    script = cold.scripts["enqueue"]
    assert sent[0][0] == (b"SCRIPT", b"LOAD", script.source.encode())
    assert sent[1][0][:3] == (b"EVALSHA", script.sha.encode(), b"2")


def test_each_script_of_a_flush_is_loaded_once(cold: Server) -> None:
    with wire(cold) as sent:
        Jobs(cold).enqueue_many("orders", ["pick", "pack", "label"])
    assert verbs(sent) == [["SCRIPT", "EVALSHA", "EVALSHA", "EVALSHA"]]


def test_after_a_script_flush_a_call_is_sent_again_as_eval_exactly_once(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "warm")
    server.client.execute_command("SCRIPT", "FLUSH")
    with wire(server) as sent:
        verdict = jobs.enqueue(queue, "pick", id=A)
    assert verbs(sent) == [["EVALSHA"], ["EVAL"]]
    assert verdict.landed
    with wire(server) as sent:
        assert jobs.enqueue(queue, "pick", id=A).outcome == "duplicate"
    assert verbs(sent) == [["SCRIPT", "EVALSHA"]]


def test_only_the_calls_that_met_an_empty_cache_are_sent_again(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "warm")
    server.client.execute_command("SCRIPT", "FLUSH")
    n = f"emq:{{{queue}}}:n".encode()
    count = command("INCR", [n], [], as_is)
    with wire(server) as sent:
        replies = server.round_trip(Flush((count, transitions.enqueue(queue, A, b"x"), count)))
    assert replies == (1, 1, 2)
    assert verbs(sent) == [["INCR", "EVALSHA", "INCR"], ["EVAL"]]


def test_a_server_that_goes_between_noscript_and_eval_did_nothing_of_a_lone_call(server: Server, queue: str) -> None:
    warm_and_flush(server, queue)
    before = everything(server)
    with only_one_exchange(server), pytest.raises(Unreachable):
        Jobs(server).enqueue(queue, "pick")
    assert everything(server) == before


def test_a_server_that_goes_between_noscript_and_eval_may_have_done_the_rest_of_a_flush(
    server: Server, queue: str
) -> None:
    warm_and_flush(server, queue)
    with only_one_exchange(server), pytest.raises(ReplyLost):
        server.round_trip(Flush((put(f"emq:{{{queue}}}:x", "1"), transitions.enqueue(queue, A, b"x"))))
    assert server.client.get(f"emq:{{{queue}}}:x") == b"1"


def warm_and_flush(server: Server, queue: str) -> None:
    Jobs(server).enqueue(queue, "warm")
    server.client.execute_command("SCRIPT", "FLUSH")


class only_one_exchange:
    """The server goes away after one write and its replies."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __enter__(self) -> None:
        exchange = self.server.exchange

        def once(commands: Any, what: str) -> list[Reply]:
            def gone(commands: Any, what: str) -> list[Reply]:
                raise Unreachable(self.server.url, "it went away")

            self.server.exchange = gone  # type: ignore[method-assign]
            return exchange(commands, what)

        self.server.exchange = once  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        del self.server.exchange


def test_a_call_that_fits_no_layout_is_refused_with_nothing_sent(server: Server, queue: str) -> None:
    good = transitions.enqueue(queue, A, b"x")
    bad = Call("enqueue", good.keys, good.args[:1], good.read, good.refusal, "script")
    with refused_unsent(server, ScriptArity, match="enqueue"):
        server.round_trip(Flush((put(f"emq:{{{queue}}}:x", "1"), good, bad)))
    with refused_unsent(server, ScriptArity):
        server.round_trip(Flush((good, bad), atomic=True))


def test_a_script_that_is_not_in_the_set_is_refused_with_nothing_sent(server: Server, queue: str) -> None:
    good = transitions.enqueue(queue, A, b"x")
    with refused_unsent(server, ScriptMissing, match="enqueu_"):
        server.round_trip(Flush((good, Call("enqueu_", good.keys, good.args, good.read, good.refusal, "script"))))


def test_a_tool_is_no_transition_and_a_transition_no_tool(server: Server, queue: str) -> None:
    call = transitions.reap(queue)
    with refused_unsent(server, ScriptMissing):
        server.round_trip(Flush((Call("capture", (), (b"*",), as_is, call.refusal, "script"),)))
    with refused_unsent(server, ScriptMissing):
        server.round_trip(Flush((Call("reap", call.keys, call.args, as_is, call.refusal, "tool"),)))


# --- a flush ----------------------------------------------------------------------------------------------------------


def test_errors_in_a_flush_are_values_and_later_calls_run(server: Server, queue: str) -> None:
    def steps() -> Steps[tuple[Any, ...]]:
        values = yield from Flush(
            (transitions.enqueue(queue, FOREIGN, b"x"), transitions.enqueue(queue, A, b"x"), transitions.reap(queue))
        )
        return values

    refused, landed, reaped = run(server, steps())
    assert isinstance(refused, WrongNamespace)
    assert refused.ids == (FOREIGN,)
    assert (landed, reaped) == (True, 0)
    assert members(server, queue, "pending") == [A]


def test_an_error_reply_is_a_value_with_its_code_and_text(server: Server, queue: str) -> None:
    replies = server.round_trip(
        Flush((transitions.retry(queue, A, 1, 0, 3, b"x", None), command("NOPE", [], [], as_is), get("nobody")))
    )
    assert replies[0] == ErrorReply("EMQSTALE", "job gone")
    assert isinstance(replies[1], ErrorReply)
    assert replies[1].code == "ERR"
    assert replies[2] is None
    assert str(replies[0]) == "EMQSTALE job gone"


def test_an_error_inside_a_list_is_a_value_too(server: Server) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "script", lambda call: None)
        call = command("EVAL", [], [b"return {1, redis.error_reply('EMQX y'), 'z'}", b"0"], as_is)
        assert server.round_trip(Flush((call,))) == ((1, ErrorReply("EMQX", "y"), b"z"),)


def test_one_call_raises_its_refusal_into_the_operation(server: Server, queue: str) -> None:
    server.client.set(f"emq:{{{queue}}}:x", "text")
    assert Bench(server).wrong(f"emq:{{{queue}}}:x") == "WRONGTYPE"


def test_an_empty_flush_is_not_sent(server: Server) -> None:
    def steps() -> Steps[tuple[Any, ...]]:
        values = yield from Flush(())
        return values

    with wire(server) as sent:
        assert run(server, steps()) == ()
    assert sent == []


def test_a_pair_is_one_flush_of_two_kinds(server: Server, queue: str) -> None:
    with wire(server) as sent:
        reaped, nothing = run(server, pair(transitions.reap(queue), get("nobody")))
    assert len(sent) == 1
    assert (reaped, nothing) == (0, None)


# --- MULTI ------------------------------------------------------------------------------------------------------------


def test_an_atomic_flush_goes_out_as_one_transaction_with_whole_scripts(cold: Server) -> None:
    flush = Flush((transitions.enqueue("orders", A, b"x"), transitions.enqueue("orders", A, b"x")), atomic=True)
    with wire(cold) as sent:
        assert cold.round_trip(flush) == (1, 0)
    assert verbs(sent) == [["MULTI", "EVAL", "EVAL", "EXEC"]]  # by sha it could leave half of it undone


def test_an_error_inside_an_atomic_flush_is_a_value_and_the_rest_runs(server: Server, queue: str) -> None:
    flush = Flush(
        (
            transitions.enqueue(queue, FOREIGN, b"x"),
            transitions.enqueue(queue, B, b"x"),
            transitions.retry(queue, A, 1, 0, 3, b"x", None),
        ),
        atomic=True,
    )
    kind, landed, gone = server.round_trip(flush)
    assert isinstance(kind, ErrorReply) and kind.code == "EMQKIND"
    assert landed == 1
    assert gone == ErrorReply("EMQSTALE", "job gone")
    assert members(server, queue, "pending") == [B]


def test_a_transaction_the_server_will_not_take_does_nothing_and_every_call_hears_of_it(
    server: Server, queue: str
) -> None:
    before = everything(server)
    flush = Flush((transitions.enqueue(queue, A, b"x"), command("NOPE", [], [], as_is)), atomic=True)
    replies = server.round_trip(flush)
    assert [type(reply) for reply in replies] == [ErrorReply, ErrorReply]
    assert everything(server) == before


# --- lost or never sent -----------------------------------------------------------------------------------------------


def test_with_no_connection_nothing_is_sent_and_the_error_says_so(queue: str) -> None:
    with open_server("fake://") as server:
        assert isinstance(server, FakeServer)
        jobs = Jobs(server)
        jobs.enqueue(queue, "there", id=A)
        before = everything(server)
        server.store.connected = False
        with pytest.raises(Unreachable, match=r"fake://.*Nothing was sent; start the server") as caught:
            jobs.enqueue(queue, "pick")
        assert caught.value.url == "fake://"
        server.store.connected = True
        assert everything(server) == before
        assert jobs.enqueue(queue, "pick").landed


def test_a_closed_server_is_unreachable(cold: Server) -> None:
    cold.close()
    with pytest.raises(Unreachable, match="closed"):
        Jobs(cold).reap("orders")


@pytest.fixture
def proxy(embedded_server: Server) -> Iterator[Proxy]:
    with Proxy.before(embedded_server.client) as proxy:
        yield proxy


@pytest.fixture
def through(proxy: Proxy) -> Iterator[Server]:
    client = redis.Redis(**proxy.options, **CLIENT_OPTIONS())
    with Server("valkey://proxy", client, ScriptSet.load("published")) as server:
        yield server


@pytest.mark.parametrize("executed", [True, False])
def test_a_lost_reply_says_that_it_may_have_happened_and_what_to_do(
    executed: bool, proxy: Proxy, through: Server, embedded_server: Server, queue: str
) -> None:
    jobs = Jobs(through)
    jobs.enqueue(queue, "warm", id=B)
    (proxy.swallow_reply if executed else proxy.drop_command)("EVALSHA")
    with pytest.raises(ReplyLost) as caught:
        jobs.enqueue(queue, "pick", id=A)
    assert (caught.value.url, caught.value.what) == ("valkey://proxy", "enqueue")
    said = str(caught.value)
    assert "may have taken effect" in said
    assert "repeat the operation with the same ids and token" in said
    assert proxy.count("EVALSHA") == 2  # the warm one, and this one: never re-sent
    assert members(embedded_server, queue, "pending") == ([A, B] if executed else [B])
    # The remedy it names works either way.
    assert jobs.enqueue(queue, "pick", id=A).outcome == ("duplicate" if executed else "landed")


def test_a_lost_eval_after_noscript_is_not_sent_a_third_time(
    proxy: Proxy, through: Server, embedded_server: Server, queue: str
) -> None:
    Jobs(through).enqueue(queue, "warm", id=B)
    embedded_server.client.execute_command("SCRIPT", "FLUSH")
    proxy.swallow_reply("EVAL")
    with pytest.raises(ReplyLost):
        Jobs(through).enqueue(queue, "pick", id=A)
    assert proxy.count("EVAL", executed=True) == 1
    assert members(embedded_server, queue, "pending") == [A, B]


def test_a_lost_flush_is_named_by_its_calls(proxy: Proxy, through: Server, queue: str) -> None:
    proxy.swallow_reply("EVALSHA", nth=2)
    with pytest.raises(ReplyLost, match=r"a flush of 2 calls \(enqueue\)"):
        Jobs(through).enqueue_many(queue, ["pick", "pack"])


@pytest.mark.parametrize(
    "which, outcome", [("lost", "it was written"), ("cut", "it was not sent")], ids=["lost", "cut"]
)
def test_what_became_of_a_round_trip_is_raised_inside_the_operation_first(
    server: Server, queue: str, which: str, outcome: str
) -> None:
    with fault(server, at(1, which)):
        assert Bench(server).careful(f"emq:{{{queue}}}:x") == outcome


def test_an_operation_that_does_not_catch_it_raises_it(server: Server, queue: str) -> None:
    with fault(server, at(2, "lost")), pytest.raises(ReplyLost):
        Bench(server).swap(f"emq:{{{queue}}}:x", "new")
    assert server.client.get(f"emq:{{{queue}}}:x") == b"new"


def test_an_interrupt_in_mid_read_leaves_no_reply_for_a_later_call(
    server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.client.set(f"emq:{{{queue}}}:x", "mine")
    read = base._read
    with monkeypatch.context() as patch:
        interrupt = iter([True, False, False])

        def interrupted(connection: Any) -> Reply:
            if next(interrupt):
                raise KeyboardInterrupt
            return read(connection)

        patch.setattr(base, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.round_trip(Flush((put("emq:stray:1", "stray"), get("emq:stray:1"))))
    assert server.round_trip(Flush((get(f"emq:{{{queue}}}:x"),))) == (b"mine",)
    server.client.delete("emq:stray:1")


def test_a_reply_still_on_its_way_at_an_interrupt_answers_no_later_call(
    proxy: Proxy, through: Server, embedded_server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded_server.client.set(f"emq:{{{queue}}}:x", "mine")
    through.round_trip(Flush((get("emq:warm"),)))
    proxy.stall_reply("INCR")
    with monkeypatch.context() as patch:
        patch.setattr(base, "_read", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            through.round_trip(Flush((command("INCR", [b"emq:stray:n"], [], as_is),)))
    late = threading.Timer(0.2, proxy.resume)  # it would come now, to a call that waited for it
    late.start()
    assert through.round_trip(Flush((get(f"emq:{{{queue}}}:x"),))) == (b"mine",)
    late.cancel()


def test_an_error_in_the_middle_of_replies_leaves_none_for_a_later_call(
    server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(base, "_read", raising(TypeError("a reply of type float is not RESP2")))
        with pytest.raises(TypeError):
            server.round_trip(Flush((get("emq:stray:1"),)))
    assert Jobs(server).enqueue(queue, "pick", id=A).landed


def raising(error: BaseException) -> Callable[[Any], Reply]:
    def function(_: Any) -> Reply:
        raise error

    return function


def test_threads_on_one_server_get_their_own_replies(server: Server, queue: str) -> None:
    wrong: list[object] = []

    def work(place: int) -> None:
        key = f"emq:{{{queue}}}:{place}"
        for turn in range(40):
            server.round_trip(Flush((put(key, f"{place}.{turn}"),)))
            (found,) = server.round_trip(Flush((get(key),)))
            if found != f"{place}.{turn}".encode():
                wrong.append((place, turn, found))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- programs ---------------------------------------------------------------------------------------------------------

CLAIM = Claim("orders", A, b"pick", 1)


def test_programs_of_the_same_call_are_equal_and_hash_alike(server: Server) -> None:
    jobs, flows, pump = Jobs(server), Flows(server), Pump(server, "orders")
    flow = Flow("p", [Child("a", id=A), Child("b", id=B, queue="labels", on_failure="ignore")], id=P)
    for make in (
        lambda: jobs.claim.program("orders", lease_ms=5),
        lambda: jobs.complete.program("orders", CLAIM, result="ok"),
        lambda: jobs.retry.program("orders", CLAIM, error=b"\xff", delay_ms=0),
        lambda: jobs.enqueue.program("orders", "x", id=A),
        lambda: jobs.enqueue_many.program("orders", [(A, "x"), (B, b"y")]),
        lambda: jobs.extend_locks.program("orders", [CLAIM, (B, 2)]),
        lambda: flows.add.program("orders", flow),
        lambda: flows.add_bulk.program("orders", [flow]),
        lambda: pump.sweep.program(),
    ):
        one, other = make(), make()
        assert one == other
        assert hash(one) == hash(other)
        assert len({one, other}) == 1
    assert jobs.claim.program("orders") != jobs.claim.program("labels")
    assert Jobs(server).claim.program("orders") == jobs.claim.program("orders")


def test_an_add_without_ids_has_them_minted_in_its_program(server: Server) -> None:
    program = Flows(server).add.program("orders", Flow("p", [Child("a"), Child("b", children=[Child("c")])]))
    _, flow = program.args
    ids = [flow.id, flow.children[0].id, flow.children[1].id, flow.children[1].children[0].id]
    assert ids == sorted(set(ids))
    assert program.start() is not program.start()
    assert program.after(()) == program.after(())


def test_a_program_is_named_by_its_noun_and_verb(server: Server) -> None:
    assert Jobs(server).claim.program("orders").name == "jobs.claim"
    assert Flows(server).add_bulk.program("orders", []).name == "flows.add_bulk"
    assert Pump(server, "orders").sweep.program().name == "pump.sweep"


def test_a_program_is_replayed_from_its_replies_without_a_server(server: Server) -> None:
    program = Jobs(server).complete.program("orders", CLAIM, result="ok")
    with wire(server) as sent:
        first = program.after(())
        assert isinstance(first, Flush)
        assert (first.calls[0].verb, first.calls[0].args) == ("HMGET", (b"parent", b"parent_queue", b"group"))
        flat = program.after([((None, None),)])
        assert isinstance(flat, Flush)
        assert len(flat.calls[0].keys) == 2
        child = program.after([((P.encode(), None),)])
        assert isinstance(child, Flush)
        assert (len(child.calls[0].keys), child.calls[0].args[3:]) == (5, (P.encode(), b"ok"))
        across = program.after([((P.encode(), b"labels"),)])
        assert isinstance(across, Flush)
        assert across.calls[0].args[3:] == (P.encode(), b"ok", b"xq", b"labels")
        logs = program.after([((None, None),), (1,)])
        assert isinstance(logs, Flush)
        assert logs.calls[0].verb == "DEL"
        assert program.after([((None, None),), (1,), (0,)]) == Done(value=True)
        gone = program.after([((None, None),), (0,)])
        assert isinstance(gone, Done) and isinstance(gone.error, JobGone)
        stale = program.after([((None, None),), (ErrorReply("EMQSTALE", "complete token mismatch"),)])
        assert isinstance(stale, Done) and isinstance(stale.error, StaleToken)
    assert sent == []


def test_a_loss_among_the_replies_is_raised_inside_at_that_point(server: Server) -> None:
    program = Bench(server).careful.program("x")
    lost = ReplyLost("fake://", "SET")
    asked = program.after([lost])
    assert isinstance(asked, Flush)
    assert asked.calls[0].verb == "GET"
    assert program.after([lost, (b"x",)]) == Done(value="it was written")
    claim = Jobs(server).claim.program("orders").after([lost])
    assert claim == Done(error=lost)


def test_a_program_run_and_a_program_replayed_take_the_same_way(server: Server, queue: str) -> None:
    program = Bench(server).swap.program(f"emq:{{{queue}}}:x", "new", times=3)
    replies: list[tuple[Reply, ...]] = []
    flush = program.after(())
    while isinstance(flush, Flush):
        replies.append(server.round_trip(flush))
        flush = program.after(replies)
    assert flush == Done(value=(None, b"new", b"new"))
    assert program.run() == (b"new",) * 3


def test_a_program_runs_on_another_server_when_told(server: Server, queue: str) -> None:
    program = Jobs(server).enqueue.program(queue, "pick", id=A)
    before = everything(server)
    with server.scratch() as scratch:
        assert program.run(scratch).landed
        assert members(scratch, queue, "pending") == [A]
    assert everything(server) == before


# --- an operation is a method -----------------------------------------------------------------------------------------


def test_the_signature_and_docstring_of_an_operation_survive(server: Server) -> None:
    swap = Bench(server).swap
    assert swap.__doc__ == "Write a value and hand out what was there before."
    assert swap.__name__ == "swap"
    assert str(inspect.signature(swap)) == "(key: 'str', value: 'str', *, times: 'int' = 1) -> 'tuple[Reply, ...]'"
    assert Bench.swap.__doc__ == swap.__doc__
    assert list(inspect.signature(Bench.swap).parameters) == ["self", "key", "value", "times"]
    assert "Bench.swap" in repr(swap)
    assert Bench.swap(Bench(server), "emq:x", "new") == (None,)
    server.client.delete("emq:x")


@pytest.mark.parametrize("owner", [Jobs, Flows, Pump])
def test_every_operation_of_the_house_has_a_docstring_of_its_own(owner: type) -> None:
    operations = [thing for thing in vars(owner).values() if isinstance(thing, operation)]
    assert operations
    for thing in operations:
        assert thing.__doc__ and thing.__doc__.rstrip().endswith(".")


def test_a_wrong_call_is_a_type_error_at_once(server: Server) -> None:
    bench: Any = Bench(server)
    jobs: Any = Jobs(server)
    wrong: tuple[Callable[[], object], ...] = (
        lambda: bench.swap.program("x"),
        lambda: bench.swap.steps("x", "y", tims=2),
        lambda: jobs.claim(),
        lambda: jobs.retry("orders", CLAIM),
    )
    for make in wrong:
        with wire(server) as sent, pytest.raises(TypeError):
            make()
        assert sent == []


def test_steps_are_driven_by_hand(server: Server) -> None:
    steps = Bench(server).swap.steps("x", "new")
    assert next(steps).calls[0].verb == "GET"
    assert steps.send((b"old",)).calls[0].verb == "SET"
    with pytest.raises(StopIteration) as end:
        steps.send((b"OK",))
    assert end.value.value == (b"old",)


def test_what_is_prepared_is_prepared_once_and_may_refuse(server: Server) -> None:
    bench = Bench(server)
    assert bench.needs_name.program().args == ("prepared",)
    for refuse in (bench.needs_name.program, bench.needs_name.steps, bench.needs_name):
        with refused_unsent(server, BadArgument, match="name 'bad' is bad"):
            refuse("bad")


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_an_ill_formed_id_never_becomes_a_call(id: Any) -> None:
    for make in (
        lambda: transitions.enqueue("orders", id, b""),
        lambda: transitions.complete("orders", id, 1, None, b""),
        lambda: transitions.extend_locks("orders", 1, [(A, 1), (id, 1)]),
        lambda: transitions.enqueue_flow("orders", P, b"", [(A, b""), (id, b"")]),
        lambda: transitions.flow_deliver("orders", P, id, b""),
        lambda: transitions.flow_fail_deliver("orders", id, C, b"", "fp"),
    ):
        with pytest.raises(IllFormedId):
            make()


def test_a_call_compares_by_what_it_sends(server: Server) -> None:
    assert transitions.reap("orders") == transitions.reap("orders")
    assert hash(transitions.reap("orders")) == hash(transitions.reap("orders"))
    assert transitions.reap("orders") != transitions.reap("labels")
    assert transitions.reap("orders").keys == (keys.queue_key("orders", "active"), keys.queue_key("orders", "pending"))
