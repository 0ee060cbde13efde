"""A trace in which everything happens that a stage can show: deaths, refusals, a lapse, a pause, poison, a crash."""

from __future__ import annotations

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Trace, keys, open_server, record
from emqkit.errors import EmqError
from emqkit.snapshot import capture
from emqkit.trace import Step
from emqkit.wire import Call, Flush, Steps, command, run


def _to_and_fro(failed: bytes) -> Steps[None]:
    """One round trip that does something and undoes it, and something twice; and a parent's hash gets a stray entry."""

    def sent(verb: str, key: bytes, *args: bytes) -> Call[object]:
        return command(verb, [key], list(args), lambda reply: reply)

    meta, early = keys.queue_key("orders", "meta"), keys.job("stock", "JOB0000000000Z")
    yield from Flush(
        (
            sent("HSET", meta, b"paused", b"1"),
            sent("HDEL", meta, b"paused"),
            sent("HSET", early, b"attempts", b"1"),
            sent("HSET", early, b"attempts", b"2"),
            sent("HSET", early, b"payload", b"other"),
            sent("HSET", early, b"payload", b"early"),
            sent("HSET", failed, b"JOB0000000000Z", b"never its child"),
        )
    )


def rich_trace() -> Trace:
    """Two queues and a third that is only counted; the same on every run."""
    with open_server("fake://", minter=Minter.fixed()) as server:
        flows, jobs, pump = Flows(server), Jobs(server), Pump(server, "stock")
        client = server.client
        client.hset(
            keys.job("stock", "JOB0000000000Z"), mapping={"state": "pending", "attempts": 0, "payload": "early"}
        )
        with record(server) as trace:
            flow = Flow(
                "ship order 7",
                [Child("check"), Child("shelf", queue="stock", on_failure="ignore"), Child("wrap", queue="stock")],
            )
            flows.add("orders", flow)
            pack = flows.add("orders", Flow("pack", [Child("pick"), Child("pick")])).parent_id
            run(server, _to_and_fro(keys.subkey("orders", pack, "failed")))
            first, second = jobs.claim("stock"), jobs.claim("stock")
            assert first is not None and second is not None
            jobs.depths("stock")
            client.zadd(keys.queue_key("stock", "active"), {second.id: 0})  # a lease lapses between two round trips
            jobs.retry("stock", first, error="no such shelf", max_attempts=1)
            jobs.reap("stock")
            again = jobs.claim("stock")
            assert again is not None
            for late in (second, again):  # the first of them comes too late
                try:
                    jobs.complete("stock", late, result="wrapped")
                except EmqError:
                    pass
            client.rpush(keys.queue_key("stock", "flow:outbox"), b"not an entry")
            pump.sweep()
            jobs.pause("orders")
            jobs.claim("orders")
            jobs.resume("orders")
            third = jobs.claim("orders")
            assert third is not None
            jobs.retry("orders", third, error="busy", max_attempts=3, delay_ms=60_000)
            jobs.enqueue("orders", "late", id=third.id)
            for _ in range(2):
                claim = jobs.claim("orders")
                assert claim is not None
                jobs.complete("orders", claim)
            client.set("emq:stray", "1")
            jobs.promote("orders")
            jobs.paused("orders")
        steps = list(trace.steps)
        place = capture(server)
        steps.append(Step("the Pump", 99, 1, Flush(()), (), place, place, None, "The Pump crashes.", fault="crash"))
        return Trace.assembled(trace.scripts, trace.server_kind, trace.initial, steps)
