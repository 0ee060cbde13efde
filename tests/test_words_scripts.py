"""Each script's sentence: as published, with every mistake of the zoo, and with mistakes made for the purpose.

The calls are real ones, on a keyspace that was put there. Sentences are compared whole: a word too many is a fault.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
from made import A, B, C, P, as_operation, fields, held_flow, ranked, row, script_call, snapshot

from emqkit import keys, open_server, record
from emqkit import transitions as script
from emqkit.errors import EmqError
from emqkit.scripts import Script, ScriptSet, lua_folder
from emqkit.servers import Server
from emqkit.snapshot import Items, Snapshot, Text, Value, restore
from emqkit.trace import CallRecord, Trace
from emqkit.transitions import ParentLink
from emqkit.wire import Call, run
from emqkit.words.calls import sentence
from emqkit.words.names import Names
from emqkit.words.scripts import SCRIPTS

Contents = dict[bytes, Value]

LATER = 2e14  # a lease that runs through any test
STRANGER = "ORD0KHTOWnGLuC"
READY = ScriptSet.load("published")


def own(name: str, queue: str = "orders") -> bytes:
    return keys.queue_key(queue, name)


def job(id: str, queue: str = "orders") -> bytes:
    return keys.job(queue, id)


def sub(id: str, name: str, queue: str = "orders") -> bytes:
    return keys.subkey(queue, id, name)


def laid_over(name: str, source: str) -> ScriptSet:
    return READY.overlay(ScriptSet("mine", {name: Script.parse(source, f"mine/{name}.lua")}))


def mine(name: str, *edits: tuple[str, str]) -> ScriptSet:
    """The published scripts, one of them with some of its text replaced."""
    source = READY[name].source
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return laid_over(name, source)


def does(name: str, body: str) -> ScriptSet:
    """The published scripts, one of them with its header and this body."""
    return laid_over(name, f"{READY[name].source.split(chr(10) * 2)[0]}\n\n{body}\n")


@cache
def published() -> Server:
    return open_server("fake://")


def made(before: Contents, call: Call[Any], scripts: ScriptSet | None = None) -> Trace:
    """The trace of this call on this keyspace."""
    place = nullcontext(published()) if scripts is None else open_server("fake://", scripts=scripts)
    with place as server:
        restore(server, Snapshot(tuple(sorted(before.items()))))
        with record(server) as trace:
            try:
                run(server, as_operation(call))
            except (EmqError, TypeError) as refused:  # what its host makes of the reply is not looked at here
                assert trace.calls, refused
    return trace


def said(before: Contents, call: Call[Any], scripts: ScriptSet | None = None) -> str:
    trace = made(before, call, scripts)
    return sentence(trace.calls[-1], trace.scripts, Names.of_trace(trace))


# --- keyspaces --------------------------------------------------------------------------------------------------------

one: Contents = {job(A): row("pending"), own("pending"): ranked((A, 0))}
two: Contents = one | {job(B): row("pending", payload="label"), own("pending"): ranked((A, 0), (B, 0))}
active: Contents = {job(A): row("active", 1), own("active"): ranked((A, LATER))}
lapsed: Contents = {job(A): row("active", 1), own("active"): ranked((A, 1))}
reaped: Contents = {job(A): row("pending", 1), own("pending"): ranked((A, 0))}
dead: Contents = {job(A): row("dead", 3, last_error="boom"), own("dead"): ranked((A, 0))}
due: Contents = {job(A): row("scheduled"), own("schedule"): ranked((A, 1))}
early: Contents = {job(A): row("scheduled"), own("schedule"): ranked((A, LATER))}
flow: Contents = held_flow() | {job(A): row("pending", parent=P), job(B): row("pending", payload="label", parent=P)}
crossing: Contents = {
    job(A, "stock"): row("active", 1, parent=P, parent_queue="orders"),
    own("active", "stock"): ranked((A, LATER)),
}


def held(outstanding: int) -> Contents:
    """A parent that waits for so many."""
    counter = Text(b"%d" % outstanding)
    return {job(P): row("awaiting_children", payload="pack order 7"), sub(P, "dependencies"): counter}


def working(outstanding: int) -> Contents:
    """A parent that waits for so many, one of whom is at work."""
    return held(outstanding) | {job(A): row("active", 1, parent=P), own("active"): ranked((A, LATER))}


def without(contents: Contents, key: bytes) -> Contents:
    return {name: value for name, value in contents.items() if name != key}


six: Contents = {job(f"JOB0KHTOWnGLu{last}"): row("scheduled", payload=last) for last in "ABCDEF"}
six[own("schedule")] = ranked(*((f"JOB0KHTOWnGLu{last}", 1) for last in "ABCDEF"))

same, same_ignored = ParentLink(P), ParentLink(P, None, "id")
other, other_ignored = ParentLink(P, "orders"), ParentLink(P, "orders", "id")
pair = [(A, b"pick"), (B, b"label")]
LAND_CHILD = "redis.call('ZADD', pending, 0, child_id)"
HOLD = "redis.call('HSET', parent, 'state', 'awaiting_children', 'attempts', '0', 'payload', payload)"
INC = "local attempts = redis.call('HINCRBY', row, 'attempts', 1)\n"
LIMITED = "redis.call('ZRANGEBYSCORE', schedule, '-inf', now, 'LIMIT', 0, limit)"

# --- as published -----------------------------------------------------------------------------------------------------

# fmt: off
PUBLISHED: list[tuple[Contents, Call[Any], str]] = [
    ({}, script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: a row, and a place in pending."),
    (one, script.enqueue("orders", A, b"pick"),
     "enqueue finds a row of pick in orders already: a duplicate; nothing changed."),
    ({}, script.enqueue("orders", STRANGER, b"pick"),
     "enqueue is refused because of ORD…GLuC: EMQKIND job id must be JOB-namespaced; nothing changed."),
    ({}, script.schedule("orders", A, b"pick", "in", 10**9),
     "schedule lands pick in orders: a row, and a place in schedule until it is due."),
    (early, script.schedule("orders", A, b"pick", "in", 10),
     "schedule finds a row of pick in orders already: a duplicate; nothing changed."),
    (two, script.claim("orders", 30000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1."),
    (reaped, script.claim("orders", 30000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 2."),
    ({}, script.claim("orders", 30000),
     "claim finds pending of orders empty: there is no job to hand out; nothing changed."),
    ({own("pending"): ranked((A, 0))}, script.claim("orders", 30000),
     "claim hands out JOB…GLuD, the smallest id in pending of orders: it is active under a lease, and its "
     "token is 1; it had no row. Also: the row of JOB…GLuD gains state active; the row of JOB…GLuD gains "
     "attempts 1."),
    (active, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders: its row is deleted."),
    (reaped, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders, which was in pending: its row is deleted."),
    ({job(A): row("active", 1)}, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders, which was in no set: its row is deleted."),
    ({}, script.complete("orders", A, 1, None, b"r"),
     "complete finds no row of JOB…GLuD in orders: it is gone; nothing changed."),
    (active, script.complete("orders", A, 2, None, b"r"),
     "complete is refused for pick: EMQSTALE complete token mismatch; nothing changed."),
    (working(2), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 2 → 1."),
    (working(1), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 1 → 0. "
     "That was the last one: pack order 7 is released into pending."),
    (working(2) | {own("active"): ranked((C, LATER)), own("pending"): ranked((A, 0), (B, 0))},
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders, which was in pending: its parent pack order 7 is told nothing."),
    (crossing, script.complete("stock", A, 1, other, b"r"),
     "complete retires pick of stock and leaves a signal for JOB…GLuC in orders, in the outbox of stock."),
    (active, script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry puts pick of orders into schedule for another attempt, after "boom".'),
    (active, script.retry("orders", A, 1, 1000, 1, b"boom", None),
     'retry finds no attempt left for pick of orders: it is dead, after "boom".'),
    ({}, script.retry("orders", A, 1, 1000, 1, b"boom", None),
     "retry is refused for JOB…GLuD: EMQSTALE job gone; nothing changed."),
    (active, script.retry("orders", A, 2, 1000, 1, b"boom", None),
     "retry is refused for pick: EMQSTALE retry token mismatch; nothing changed."),
    (reaped, script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry puts pick of orders, which was in pending, into schedule for another attempt, after "boom".'),
    (working(2), script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     "pack order 7. pack order 7 is dead with it."),
    (working(2) | {job(P): row("pending", payload="pack order 7"), own("pending"): ranked((P, 0))},
     script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     "pack order 7. pack order 7 is dead with it, out of pending."),
    (working(2), script.retry("orders", A, 1, 1000, 1, b"boom", same_ignored),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in unsuccessful '
     "of pack order 7, whose counter goes 2 → 1."),
    (working(1), script.retry("orders", A, 1, 1000, 1, b"boom", same_ignored),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in unsuccessful '
     "of pack order 7, whose counter goes 1 → 0. That was the last one: pack order 7 is released into pending."),
    (crossing, script.retry("stock", A, 1, 1000, 1, b"boom", other_ignored),
     'retry finds no attempt left for pick of stock: it is dead, after "boom". A signal for JOB…GLuC in '
     "orders is in the outbox of stock."),
    (due, script.promote("orders", 10),
     "promote moves 1 due job of orders from schedule to pending: pick."),
    (early, script.promote("orders", 10),
     "promote finds nothing due in schedule of orders; nothing changed."),
    (lapsed, script.reap("orders"),
     "reap puts 1 job of orders whose lease lapsed back into pending: pick; tokens stay."),
    (active, script.reap("orders"),
     "reap finds no lapsed lease in active of orders; nothing changed."),
    (lapsed | {job(B): row("active", 2, payload="label"), own("active"): ranked((A, 1), (B, 2))},
     script.reap("orders"),
     "reap puts 2 jobs of orders whose leases lapsed back into pending: pick and label; tokens stay."),
    (active, script.extend_lock("orders", A, 1, 1000),
     "extend_lock gives pick of orders a new deadline for its lease."),
    (reaped, script.extend_lock("orders", A, 1, 1000),
     "extend_lock puts pick into active of orders under a lease; it was not there before."),
    ({}, script.extend_lock("orders", A, 1, 1000),
     "extend_lock finds no row of JOB…GLuD in orders: it is gone; nothing changed."),
    (active, script.extend_lock("orders", A, 3, 1000),
     "extend_lock is refused for pick: EMQSTALE extend token mismatch; nothing changed."),
    (active | {job(B): row("active", 2, payload="label")}, script.extend_locks("orders", 1000, [(A, 1), (B, 1)]),
     "extend_locks gives 1 of 2 leases of orders a new deadline; not extended: label."),
    (active, script.extend_locks("orders", 1000, [(A, 1)]),
     "extend_locks gives 1 of 1 lease of orders a new deadline."),
    (active, script.extend_locks("orders", 1000, [(A, 7), (C, 1)]),
     "extend_locks gives 0 of 2 leases of orders a new deadline; not extended: pick and JOB…GLuF."),
    (active, script.extend_locks("orders", 1000, []),
     "extend_locks gives 0 of 0 leases of orders a new deadline."),
    (dead, script.reprocess("orders", A),
     "reprocess puts pick of orders back from dead into pending; its attempts are kept."),
    ({}, script.reprocess("orders", A),
     "reprocess finds no row of JOB…GLuD in orders: it is gone; nothing changed."),
    (one, script.reprocess("orders", A),
     "reprocess is refused for pick: EMQSTATE not dead; nothing changed."),
    (one, script.remove_job("orders", A),
     "remove_job takes pick out of orders for good: out of pending, and its row is deleted."),
    (held(2), script.remove_job("orders", P),
     "remove_job takes pack order 7 out of orders for good: it was in no set, and its row is deleted."),
    (active | {sub(A, "logs"): Items((b"x", b"y"))}, script.remove_job("orders", A),
     "remove_job takes pick out of orders for good: out of active, and its row and its logs are deleted."),
    ({}, script.remove_job("orders", A),
     "remove_job finds no row of JOB…GLuD in orders: it is gone; nothing changed."),
    ({}, script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (B, b"label")]),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "the parent is held in no set, its counter at 2."),
    (flow, script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (B, b"label")]),
     "enqueue_flow finds the flow of pack order 7 in orders already, just as it lands it; nothing changed."),
    ({}, script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (STRANGER, b"label")]),
     "enqueue_flow is refused because of ORD…GLuC: EMQKIND job id must be JOB-namespaced; nothing changed."),
    (working(1), script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (B, b"label")]),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 1 of 2 children is claimable in "
     "pending, the parent is held in no set, its counter at 2. Also: the counter of pack order 7: 1 → 2; "
     "state of pick: active → pending; attempts of pick: 1 → 0."),
    ({}, script.hold_parent("orders", P, b"pack order 7", 2),
     "hold_parent lands pack order 7 in orders, held in no set, its counter at 2."),
    (held(2), script.hold_parent("orders", P, b"pack order 7", 2),
     "hold_parent finds pack order 7 in orders already, held in no set, its counter at 2; nothing changed."),
    (held(1), script.hold_parent("orders", P, b"pack order 7", 2),
     "hold_parent lands pack order 7 in orders, held in no set, its counter at 2. Also: the counter of "
     "pack order 7: 1 → 2."),
    (held(2), script.enqueue_flow_child("stock", A, b"pick", P, "orders"),
     "enqueue_flow_child lands pick in stock, in pending, as a child of pack order 7 in orders."),
    (held(2), script.enqueue_flow_child("orders", A, b"pick", P, None),
     "enqueue_flow_child lands pick in orders, in pending, as a child of pack order 7."),
    ({job(A, "stock"): row("pending", parent=P, parent_queue="orders"), own("pending", "stock"): ranked((A, 0))},
     script.enqueue_flow_child("stock", A, b"pick", P, "orders"),
     "enqueue_flow_child finds pick in stock already, in pending, as a child of JOB…GLuC in orders; nothing "
     "changed."),
    (held(2), script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD into processed of pack order 7 in orders, whose counter goes "
     "2 → 1."),
    (held(1), script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD into processed of pack order 7 in orders, whose counter goes "
     "1 → 0. That was the last one: pack order 7 is released into pending."),
    (held(1) | {sub(P, "processed"): fields(**{A: "ok"})}, script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver finds the result of JOB…GLuD in processed of pack order 7 in orders already: it counts "
     "once; nothing changed."),
    ({}, script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD into processed of JOB…GLuC in orders, whose counter starts "
     "at -1. JOB…GLuC is released into pending, its counter below 0. Also: the row of JOB…GLuC gains state "
     "pending."),
    (held(2), script.flow_fail_deliver("orders", P, A, b"boom", "fp"),
     "flow_fail_deliver brings the death of JOB…GLuD into failed of pack order 7 in orders. pack order 7 is "
     "dead with it."),
    (held(2) | {sub(P, "failed"): fields(**{A: "boom"})},
     script.flow_fail_deliver("orders", P, A, b"boom", "fp"),
     "flow_fail_deliver finds the death of JOB…GLuD in failed of pack order 7 in orders already: it counts "
     "once; nothing changed."),
    (held(2), script.flow_fail_deliver("orders", P, A, b"boom", "id"),
     "flow_fail_deliver brings the death of JOB…GLuD into unsuccessful of pack order 7 in orders, whose "
     "counter goes 2 → 1."),
    (held(1), script.flow_fail_deliver("orders", P, A, b"boom", "id"),
     "flow_fail_deliver brings the death of JOB…GLuD into unsuccessful of pack order 7 in orders, whose "
     "counter goes 1 → 0. That was the last one: pack order 7 is released into pending."),
    (active,
     script.native_complete("orders", A, 1, (own("active"), job(A)), (A.encode(), b"1", keys.base("orders"))),
     "EMQ.COMPLETE (a model) retires pick of orders: its row is deleted."),
    ({},
     script.native_fail("orders", A, 1, (own("active"), own("schedule"), own("dead"), job(A)),
          (A.encode(), b"1", b"1000", b"1", b"boom", keys.base("orders"))),
     "EMQ.FAIL (a model) is refused for JOB…GLuD: EMQSTALE job gone; nothing changed."),
    ({},
     script.native_complete("orders", A, 1, (own("active"), job(A)), (A.encode(), b"1", keys.base("orders"))),
     "EMQ.COMPLETE (a model) finds no row of JOB…GLuD in orders: it is gone; nothing changed."),
    (active,
     script.native_fail("orders", A, 1, (own("active"), own("schedule"), own("dead"), job(A)),
          (A.encode(), b"1", b"1000", b"1", b"boom", keys.base("orders"))),
     'EMQ.FAIL (a model) finds no attempt left for pick of orders: it is dead, after "boom".'),
    (working(2) | {sub(P, "processed"): fields(**{A: "old"})}, script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 2 → 1. "
     'Also: processed of pack order 7, pick: "old" → "r".'),
    ({job(A, "stock"): row("pending", 1, parent=P, parent_queue="orders"), own("pending", "stock"): ranked((A, 0))},
     script.complete("stock", A, 1, other, b"r"),
     "complete retires pick of stock, which was in pending, and leaves no signal for JOB…GLuC in orders."),
    ({job(A): fields(state="active", payload="pick"), own("active"): ranked((A, LATER))},
     script.complete("orders", A, 1, None, b"r"),
     "complete answers that pick of orders is gone, although it has a row; nothing changed."),
    (working(2) | {sub(P, "failed"): fields(**{A: "old"})}, script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     'pack order 7. pack order 7 is dead with it. Also: failed of pack order 7, pick: "old" → "boom".'),
    (crossing, script.retry("stock", A, 1, 1000, 3, b"boom", other),
     'retry puts pick of stock into schedule for another attempt, after "boom".'),
    ({own("schedule"): ranked((A, 1))}, script.promote("orders", 10),
     "promote moves 1 due job of orders from schedule to pending: JOB…GLuD. Also: the row of JOB…GLuD "
     "gains state pending."),
    (six, script.promote("orders", 10),
     "promote moves 6 due jobs of orders from schedule to pending: A, B, C and 3 more."),
    (reaped, script.extend_locks("orders", 1000, [(A, 1)]),
     "extend_locks gives 1 of 1 lease of orders a new deadline; not in active before: pick."),
    (one | {own("dead"): ranked((A, 0))}, script.remove_job("orders", A),
     "remove_job takes pick out of orders for good: out of pending and dead, and its row is deleted."),
    (one | {own("de:d"): Text(A.encode())}, script.remove_job("orders", A, "d"),
     "remove_job takes pick out of orders for good: out of pending, and its row is deleted. Also: key "
     '"emq:{orders}:de:d" loses 1 part.'),
    (one | {sub(A, "lock"): Text(b"x")}, script.remove_job("orders", A),
     "remove_job is refused for pick: EMQLOCK job is locked; nothing changed."),
    (held(2) | {sub(P, "unsuccessful"): fields(**{A: "boom"})},
     script.flow_fail_deliver("orders", P, A, b"boom", "id"),
     "flow_fail_deliver finds the death of JOB…GLuD in unsuccessful of pack order 7 in orders already: it "
     "counts once; nothing changed."),
    (active,
     script.native_complete("orders", A, 1, (own("active"), job(A), sub(P, "dependencies")),
          (A.encode(), b"1", keys.base("orders"))),
     "EMQ.COMPLETE (a model) is refused: EMQSTATE complete flow not native; nothing changed."),
]

ZOO: list[tuple[str, Contents, Call[Any], str]] = [
    ("newest-first", two, script.claim("orders", 30000),
     "claim hands out label, not the smallest id in pending of orders: it is active under a lease, and its "
     "token is 1."),
    ("same-token", reaped, script.claim("orders", 30000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1, as it was before."),
    ("no-fence", active, script.complete("orders", A, 2, None, b"r"),
     "complete retires pick of orders, under token 2 although its row says 1: its row is deleted."),
    ("early-release", working(2), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 2 → 1. "
     "pack order 7 is released into pending, and 1 child is still outstanding."),
    ("no-signal", crossing, script.complete("stock", A, 1, other, b"r"),
     "complete retires pick of stock and leaves no signal for JOB…GLuC in orders."),
    ("deaf-to-policy", working(2), script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in unsuccessful '
     "of pack order 7, whose counter goes 2 → 1."),
    ("every-death-counts", working(2), script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     "pack order 7, whose counter goes 2 → 1. pack order 7 is dead with it."),
    ("impatient-reaper", active, script.reap("orders"),
     "reap puts 1 job of orders back into pending: pick; still under a lease: pick; tokens stay."),
    ("lapsed-is-lost", lapsed, script.reap("orders"),
     "reap takes 1 job of orders whose lease lapsed out of active: pick; pick is in no set; tokens stay."),
    ("half-removed", one, script.remove_job("orders", A),
     "remove_job removes pick of orders in part: its row is deleted, it stays in pending."),
    ("parent-not-held", {}, script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (B, b"label")]),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "the parent is in pending, its counter at 2."),
    ("late-gate", {}, script.enqueue_flow("orders", P, b"pack order 7", [(A, b"pick"), (STRANGER, b"label")]),
     "enqueue_flow is refused because of ORD…GLuC: EMQKIND job id must be JOB-namespaced; what it had written "
     "before stays: pick enters pending of orders; the row of pick appears: state pending, attempts 0, "
     'payload "pick", parent JOB…GLuC.'),
    ("no-first-record", held(1) | {sub(P, "processed"): fields(**{A: "ok"})},
     script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD to pack order 7 in orders, which had it in processed already "
     "and whose counter goes 1 → 0. That was the last one: pack order 7 is released into pending."),
    ("impatient-reaper",
     lapsed | {job(B): row("active", 1, payload="label"), own("active"): ranked((A, 1), (B, LATER))},
     script.reap("orders"),
     "reap puts 2 jobs of orders back into pending: pick and label; still under a lease: label; tokens stay."),
    ("no-first-record", held(1) | {sub(P, "processed"): fields(**{A: "ok"})},
     script.flow_deliver("orders", P, A, b"new"),
     "flow_deliver brings the result of JOB…GLuD to pack order 7 in orders, which had it in processed already "
     "and whose counter goes 1 → 0. That was the last one: pack order 7 is released into pending. Also: "
     'processed of pack order 7, JOB…GLuD: "ok" → "new".'),
]

MISTAKEN: list[tuple[ScriptSet, Contents, Call[Any], str]] = [
    (does("enqueue", "return 0"), {}, script.enqueue("orders", A, b"pick"),
     "enqueue answers that JOB…GLuD is a duplicate, although orders had no row of it; nothing changed."),
    (does("enqueue", "return 1"), {}, script.enqueue("orders", A, b"pick"),
     "enqueue (land one job where the next claim can take it, unless its row is already there) on the row of "
     "JOB…GLuD and pending of orders answers 1; nothing changed."),
    (does("enqueue", "return 7"), {}, script.enqueue("orders", A, b"pick"),
     "enqueue (land one job where the next claim can take it, unless its row is already there) on the row of "
     "JOB…GLuD and pending of orders answers 7; nothing changed."),
    (mine("enqueue", ("redis.call('ZADD', pending, 0, id)", "")), {}, script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: a row, in no set."),
    (mine("enqueue", ("redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', payload)", "")),
     {}, script.enqueue("orders", A, b"pick"),
     "enqueue lands JOB…GLuD in orders: no row, and a place in pending."),
    (mine("enqueue", ("'attempts', '0', ", "")), {}, script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: an incomplete row, and a place in pending."),
    (mine("enqueue", ("'state', 'pending'", "'state', 'dead'")), {}, script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: a row that says dead, and a place in pending."),
    (mine("enqueue", ("'payload', payload", "'payload', 'x'")), {}, script.enqueue("orders", A, b"pick"),
     'enqueue lands x in orders: a row, and a place in pending. Also: the row of x gains payload "x".'),
    (mine("enqueue", ("return 1", "redis.call('ZADD', 'emq:{orders}:dead', 0, id) return 1")), {},
     script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: a row, in pending and dead."),
    (mine("enqueue", ("redis.call('ZADD', pending, 0, id)", "redis.call('ZADD', pending, 5, id)")), {},
     script.enqueue("orders", A, b"pick"),
     "enqueue lands pick in orders: a row, and a place in pending. Also: pick enters pending of orders."),
    (mine("enqueue", ("return 0", "redis.call('HSET', row, 'seen', '1') return 0")), one,
     script.enqueue("orders", A, b"pick"),
     'enqueue finds a row of pick in orders already: a duplicate. Also: the row of pick gains seen "1".'),
    (mine("schedule",
          ("redis.call('ZADD', schedule, due, id)", "redis.call('ZADD', 'emq:{orders}:pending', 0, id)")), {},
     script.schedule("orders", A, b"pick", "at", 5),
     "schedule lands pick in orders: a row, in pending."),
    (does("claim", "return {}"), one, script.claim("orders", 1000),
     "claim hands out nothing, although 1 job waits in pending of orders; nothing changed."),
    (does("claim", "return {}"), two, script.claim("orders", 1000),
     "claim hands out nothing, although 2 jobs wait in pending of orders; nothing changed."),
    (does("claim", "return 'what?'"), one, script.claim("orders", 1000),
     "claim (hand the oldest pending job to a worker, with a lease and a new fencing token) on pending of "
     'orders and active of orders answers "what?"; nothing changed.'),
    (does("claim", "return {'a', 'b'}"), one, script.claim("orders", 1000),
     "claim (hand the oldest pending job to a worker, with a lease and a new fencing token) on pending of "
     'orders and active of orders answers "a", "b"; nothing changed.'),
    (does("claim", "return {1, 2, 3}"), one, script.claim("orders", 1000),
     "claim (hand the oldest pending job to a worker, with a lease and a new fencing token) on pending of "
     "orders and active of orders answers 1, 2, 3; nothing changed."),
    (does("claim", f"return {{'{A}', 'pick', 1}}"), one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is in pending, and its token is 1, while "
     "its row says 0."),
    (mine("claim", ("redis.call('ZADD', active, deadline, id)", "")), one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is in no set, and its token is 1."),
    (mine("claim",
          ("local popped = redis.call('ZPOPMIN', pending)", "local popped = redis.call('ZRANGE', pending, 0, 0)")),
     one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is in pending and active, and its token "
     "is 1."),
    (mine("claim", ("local popped = redis.call('ZPOPMIN', pending)", f"local popped = {{'{A}'}}")),
     {job(A): row("dead"), own("dead"): ranked((A, 0))}, script.claim("orders", 1000),
     "claim hands out pick, not in pending of orders: it is in active and dead, and its token is 1."),
    (mine("claim", ("redis.call('HSET', row, 'state', 'active')", "")), one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1. Its row says pending."),
    (mine("claim", ("return {id, payload, attempts}", "return {id, payload, '9'}")), one,
     script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 9, while its row says 1. Also: attempts of pick: 0 → 1."),
    (mine("claim", ("return {id, payload, attempts}", "redis.call('DEL', row) return {id, payload, attempts}")),
     one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1; it has no row. Also: the row of pick is deleted."),
    (mine("claim", (INC, "redis.call('HDEL', row, 'attempts') local attempts = 1 ")), one,
     script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1, while its row says nothing. Also: the row of pick loses attempts."),
    (mine("claim", (INC, "local attempts = 1 "), ("redis.call('HSET', row, 'state', 'active')", "")), reaped,
     script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1, as it was before. Its row says pending."),
    (mine("claim", ("return {id", "redis.call('SET', 'mine', 1) return {id")), one, script.claim("orders", 1000),
     "claim hands out pick, the smallest id in pending of orders: it is active under a lease, and its token "
     "is 1."),
    (does("complete", "return 0"), active, script.complete("orders", A, 1, None, b"r"),
     "complete answers that pick of orders is gone, although it has a row; nothing changed."),
    (does("complete", "return 1"), active, script.complete("orders", A, 1, None, b"r"),
     "complete (settle a claim as done; the child of a flow also reports to its parent) on active of orders "
     "and the row of pick answers 1; nothing changed."),
    (does("complete", "return 7"), active, script.complete("orders", A, 1, None, b"r"),
     "complete (settle a claim as done; the child of a flow also reports to its parent) on active of orders "
     "and the row of pick answers 7; nothing changed."),
    (mine("complete", ("redis.call('DEL', row)", "")), active, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders: its row is still there."),
    (mine("complete", ("redis.call('ZREM', active, id) == 1", "redis.call('ZSCORE', active, id)")), active,
     script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders, which stays in active: its row is deleted."),
    (mine("complete",
          ("redis.call('DEL', row)", "redis.call('DEL', row) redis.call('ZREM', 'emq:{orders}:dead', id)")),
     active | {own("dead"): ranked((A, 0))}, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders, which was in active and dead: its row is deleted."),
    (mine("complete", ("'count', 1", "'count', 2")), active, script.complete("orders", A, 1, None, b"r"),
     "complete retires pick of orders: its row is deleted. Also: completed count of orders: 0 → 2."),
    (mine("complete", ("redis.call('DEL', row)", "")), working(2), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 2 → 1. "
     "Its row is still there."),
    (mine("complete", ("redis.call('HSET', processed, id, result)", "")), working(2),
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is not taken into processed of pack order 7, whose counter "
     "goes 2 → 1."),
    (mine("complete", ("redis.call('HSET', processed, id, result)", "redis.call('HSET', processed, id, 'x')")),
     working(2), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 2 → 1. "
     'Also: processed of pack order 7 gains pick: "x".'),
    (mine("complete", ("local left = redis.call('DECR', dependencies)", "local left = 1")), working(2),
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter stays at 2."),
    (mine("complete", ("local left = redis.call('DECR', dependencies)", "local left = 1")),
     without(working(2), sub(P, "dependencies")), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, which has no counter."),
    (mine("complete",
          ("local left = redis.call('DECR', dependencies)\n  redis.call('HSET', processed, id, result)\n",
          "local left = 0\n")), working(2), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its parent pack order 7 is told nothing. pack order 7 is released into "
     "pending, and 2 children are still outstanding."),
    (mine("complete", ("if left <= 0 then", "if left < 0 then")), working(1),
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 1 → 0. "
     "pack order 7 is not released, although no child is outstanding."),
    (mine("complete", ("redis.call('HSET', parent, 'state', 'pending')", "")), working(1),
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 1 → 0. "
     "That was the last one: pack order 7 is released into pending. Its row says awaiting_children."),
    (mine("complete", ("local left = redis.call('DECR', dependencies)", "local left = 0")),
     without(working(1), sub(P, "dependencies")), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, which has no counter. pack "
     "order 7 is released into pending, without a counter."),
    (mine("complete",
          ("local left = redis.call('DECR', dependencies)", "local left = 0 redis.call('DEL', dependencies)")),
     working(1), script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, which has no counter. pack "
     "order 7 is released into pending, without a counter."),
    (mine("complete", ("if left <= 0 then", "if left <= 2 then")), working(3),
     script.complete("orders", A, 1, same, b"r"),
     "complete retires pick of orders: its result is in processed of pack order 7, whose counter goes 3 → 2. "
     "pack order 7 is released into pending, and 2 children are still outstanding."),
    (mine("complete", ("redis.call('DEL', row)", "")), crossing, script.complete("stock", A, 1, other, b"r"),
     "complete retires pick of stock and leaves a signal for JOB…GLuC in orders, in the outbox of stock. Its "
     "row is still there."),
    (mine("complete", ("'\\0' .. result", "'\\0' .. 'x'")), crossing,
     script.complete("stock", A, 1, other, b"r"),
     "complete retires pick of stock and leaves no signal for JOB…GLuC in orders. Also: the outbox of "
     "stock gains: pick completed, for JOB…GLuC in orders."),
    (does("retry", "return 'scheduled'"), active, script.retry("orders", A, 1, 1000, 3, b"boom", None),
     "retry (settle a claim as failed; the job comes back later or dies, and the death of a child reaches its "
     'parent) on active of orders, schedule of orders and dead of orders answers "scheduled"; nothing changed.'),
    (does("retry", "redis.call('DEL', KEYS[4]) return 'ok'"), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     "retry (settle a claim as failed; the job comes back later or dies, and the death of a child reaches its "
     'parent) on active of orders, schedule of orders and dead of orders answers "ok": the row of pick is '
     "deleted."),
    (mine("retry", ("redis.call('ZADD', schedule, due, id)", "")), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry answers scheduled for pick of orders: it is in no set, after "boom".'),
    (mine("retry", ("redis.call('ZREM', active, id) == 0", "false")), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry puts pick of orders, which stays in active, into schedule for another attempt, after "boom".'),
    (mine("retry", ("redis.call('HSET', row, 'state', 'scheduled')", "")), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry puts pick of orders into schedule for another attempt, after "boom". Its row says active.'),
    (mine("retry", ("redis.call('HSET', row, 'last_error', failure)", "")), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry puts pick of orders into schedule for another attempt, after "boom". Its row does not say why.'),
    (mine("retry", ("local again = tonumber(attempts) < tonumber(ARGV[4])", "local again = true")), active,
     script.retry("orders", A, 1, 1000, 1, b"boom", None),
     'retry puts pick of orders into schedule for an attempt too many, after "boom".'),
    (mine("retry", ("local again = tonumber(attempts) < tonumber(ARGV[4])", "local again = false")), active,
     script.retry("orders", A, 1, 1000, 3, b"boom", None),
     'retry finds 2 attempts left for pick of orders: it is dead, after "boom".'),
    (mine("retry", ("local again = tonumber(attempts) < tonumber(ARGV[4])", "local again = false")), active,
     script.retry("orders", A, 1, 1000, 2, b"boom", None),
     'retry finds 1 attempt left for pick of orders: it is dead, after "boom".'),
    (mine("retry", ("if attempts ~= token then", "if false then")), active,
     script.retry("orders", A, 2, 1000, 3, b"boom", None),
     "retry puts pick of orders, under token 2 although its row says 1, into schedule for another attempt, "
     'after "boom".'),
    (mine("retry", ("redis.call('ZADD', dead, 0, id)", "")), active,
     script.retry("orders", A, 1, 1000, 1, b"boom", None),
     'retry answers dead for pick of orders: it is in no set, after "boom".'),
    (mine("retry", ("'count', 1", "'count', 2")), active, script.retry("orders", A, 1, 1000, 1, b"boom", None),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Also: failed count of '
     "orders: 0 → 2."),
    (mine("retry", ("if not ARGV[7] then", "if ARGV[7] then")), working(2),
     script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its parent pack order 7 is '
     "told nothing."),
    (mine("retry", ("redis.call('ZADD', dead, 0, parent_id)", ""),
          ("redis.call('HSET', parent, 'state', 'dead')", "")), working(2),
     script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     "pack order 7."),
    (mine("retry", ("redis.call('ZADD', dead, 0, parent_id)", "")), working(2),
     script.retry("orders", A, 1, 1000, 1, b"boom", same),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in failed of '
     "pack order 7. Also: state of pack order 7: awaiting_children → dead."),
    (mine("retry", ("redis.call('RPUSH', outbox, head .. '\\0' .. policy .. '\\0' .. failure)", "")), crossing,
     script.retry("stock", A, 1, 1000, 1, b"boom", other),
     'retry finds no attempt left for pick of stock: it is dead, after "boom". No signal for JOB…GLuC in '
     "orders is in the outbox of stock."),
    (mine("retry", (".. policy ..", ".. 'id' ..")), crossing,
     script.retry("stock", A, 1, 1000, 1, b"boom", other),
     'retry finds no attempt left for pick of stock: it is dead, after "boom". No signal for JOB…GLuC in '
     "orders is in the outbox of stock. Also: the outbox of stock gains: pick died (policy id), for "
     "JOB…GLuC in orders."),
    (mine("retry", ("local left = redis.call('DECR', dependencies)", "local left = 1")), working(2),
     script.retry("orders", A, 1, 1000, 1, b"boom", same_ignored),
     'retry finds no attempt left for pick of orders: it is dead, after "boom". Its error is in unsuccessful '
     "of pack order 7, whose counter stays at 2."),
    (does("promote", "return 0"), due, script.promote("orders", 10),
     "promote moves nothing, although 1 job is due in schedule of orders; nothing changed."),
    (does("promote", "return 0"), due | {job(B): row("scheduled"), own("schedule"): ranked((A, 1), (B, 2))},
     script.promote("orders", 10),
     "promote moves nothing, although 2 jobs are due in schedule of orders; nothing changed."),
    (mine("promote", (LIMITED, "redis.call('ZRANGE', schedule, 0, -1)")), early, script.promote("orders", 10),
     "promote moves 1 job of orders from schedule to pending: pick; not due yet: pick."),
    (mine("promote", ("redis.call('ZADD', pending, 0, id)", "")), due, script.promote("orders", 10),
     "promote takes 1 due job of orders out of schedule: pick; pick is in no set."),
    (mine("promote", ("redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')", "")), due,
     script.promote("orders", 10),
     "promote moves 1 due job of orders from schedule to pending: pick; the row of pick says scheduled."),
    (mine("promote", ("redis.call('ZREM', schedule, id)", "")), due, script.promote("orders", 10),
     "promote (make scheduled jobs claimable once their time has come) on schedule of orders and pending of "
     "orders answers 1: pick enters pending of orders; state of pick: scheduled → pending."),
    (mine("promote", ("return #due", "return 7")), due, script.promote("orders", 10),
     "promote (make scheduled jobs claimable once their time has come) on schedule of orders and pending of "
     "orders answers 7: pick moves from schedule to pending of orders; state of pick: scheduled → pending."),
    (mine("promote", ("return #due", "return 0")), due, script.promote("orders", 10),
     "promote (make scheduled jobs claimable once their time has come) on schedule of orders and pending of "
     "orders answers 0: pick moves from schedule to pending of orders; state of pick: scheduled → pending."),
    (does("promote", "return 'x'"), due, script.promote("orders", 10),
     "promote (make scheduled jobs claimable once their time has come) on schedule of orders and pending of "
     'orders answers "x"; nothing changed.'),
    (does("reap", "return 0"), lapsed, script.reap("orders"),
     "reap takes nothing back, although 1 lease lapsed in active of orders; nothing changed."),
    (does("reap", "return 0"), lapsed | {own("active"): ranked((A, 1), (B, 2))}, script.reap("orders"),
     "reap takes nothing back, although 2 leases lapsed in active of orders; nothing changed."),
    (mine("reap",
          ("redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')",
          "redis.call('HSET', base .. 'job:' .. id, 'state', 'pending', 'attempts', '0')")), lapsed,
     script.reap("orders"),
     "reap puts 1 job of orders whose lease lapsed back into pending: pick. Also: attempts of pick: 1 → 0."),
    (mine("reap", ("redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')", "")), lapsed,
     script.reap("orders"),
     "reap puts 1 job of orders whose lease lapsed back into pending: pick; the row of pick says active; "
     "tokens stay."),
    (mine("reap", ("redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')", "")),
     {job(A): fields(attempts="1", payload="pick"), own("active"): ranked((A, 1))}, script.reap("orders"),
     "reap puts 1 job of orders whose lease lapsed back into pending: pick; the row of pick says nothing; "
     "tokens stay."),
    (mine("reap",
          ("redis.call('ZADD', pending, 0, id)",
          "redis.call('ZADD', pending, 0, id) redis.call('ZADD', 'emq:{orders}:dead', 0, id)")), lapsed,
     script.reap("orders"),
     "reap takes 1 job of orders whose lease lapsed out of active: pick; pick is in pending and dead; tokens "
     "stay."),
    (mine("reap", ("return #lapsed", "return 7")), lapsed, script.reap("orders"),
     "reap (take back the jobs whose lease has lapsed and make them claimable again) on active of orders and "
     "pending of orders answers 7: pick moves from active to pending of orders; state of pick: active → "
     "pending."),
    (does("extend_lock", "return -1"), active, script.extend_lock("orders", A, 1, 1000),
     "extend_lock answers that pick of orders is gone, although it has a row; nothing changed."),
    (does("extend_lock", "return 1"), active | {own("active"): ranked((A, 10**13))},
     script.extend_lock("orders", A, 1, 1000),
     "extend_lock (give a worker that is still busy a new deadline) on active of orders and the row of pick "
     "answers 1; nothing changed."),
    (mine("extend_lock", ("if attempts ~= token then", "if false then")), active,
     script.extend_lock("orders", A, 3, 1000),
     "extend_lock gives pick of orders a new deadline for its lease, under token 3 although its row says 1."),
    (does("extend_lock", "return 1"), reaped, script.extend_lock("orders", A, 1, 1000),
     "extend_lock (give a worker that is still busy a new deadline) on active of orders and the row of pick "
     "answers 1; nothing changed."),
    (mine("extend_lock",
          ("redis.call('ZADD', active", "redis.call('ZREM', 'emq:{orders}:dead', id) redis.call('ZADD', active")),
     dead, script.extend_lock("orders", A, 3, 1000),
     "extend_lock puts pick into active of orders under a lease; it was not there before. Also: pick "
     "leaves dead of orders."),
    (does("extend_locks", "return {}"),
     active | {job(B): row("active", 2, payload="label"), own("active"): ranked((A, 10**13), (B, 10**13))},
     script.extend_locks("orders", 1000, [(A, 1), (B, 2)]),
     "extend_locks gives 0 of 2 leases of orders a new deadline; no answer for: pick and label."),
    (does("extend_locks", "return 1"), reaped, script.extend_locks("orders", 1000, [(A, 1)]),
     "extend_locks (give many busy workers of one queue a new deadline, all by one reading of the clock) on "
     "active of orders answers 1; nothing changed."),
    (does("reprocess", "return -1"), dead, script.reprocess("orders", A),
     "reprocess answers that pick of orders is gone, although it has a row; nothing changed."),
    (does("reprocess", "return 1"), dead, script.reprocess("orders", A),
     "reprocess (give a dead job another life, on an operator's word) on the row of pick, dead of orders and "
     "pending of orders answers 1; nothing changed."),
    (mine("reprocess", ("'state', 'pending')", "'state', 'pending', 'attempts', '0')")), dead,
     script.reprocess("orders", A),
     "reprocess puts pick of orders back from dead into pending; its attempts are not kept. Also: attempts "
     "of pick: 3 → 0."),
    (mine("reprocess", ("redis.call('HDEL', row, 'last_error')", "")), dead, script.reprocess("orders", A),
     "reprocess puts pick of orders back from dead into pending; its attempts are kept. Its last error stays "
     "on the row."),
    (mine("reprocess", ("redis.call('HSET', row, 'state', 'pending')", "")), dead, script.reprocess("orders", A),
     "reprocess puts pick of orders back from dead into pending; its attempts are kept. Its row says dead."),
    (mine("reprocess", ("redis.call('ZADD', pending, 0, id)", "")), dead, script.reprocess("orders", A),
     "reprocess answers 1 for pick of orders, which is in no set; its attempts are kept."),
    (mine("reprocess", ("redis.call('ZREM', dead, id) == 0", "false")), dead, script.reprocess("orders", A),
     "reprocess answers 1 for pick of orders, which is in pending and dead; its attempts are kept."),
    (mine("reprocess", ("redis.call('ZREM', dead, id) == 0", "redis.call('ZREM', 'emq:{orders}:active', id) == 0")),
     active, script.reprocess("orders", A),
     "reprocess answers 1 for pick of orders, which is in pending; its attempts are kept. Also: pick "
     "leaves active of orders."),
    (does("remove_job", "return -1"), one, script.remove_job("orders", A),
     "remove_job answers that pick of orders is gone, although it has a row; nothing changed."),
    (does("remove_job", "return 1"), one, script.remove_job("orders", A),
     "remove_job (take one job out of its queue for good, whatever state it is in) on the row of pick, "
     "pending of orders and active of orders answers 1; nothing changed."),
    (mine("remove_job", ("redis.call('DEL', row, row .. ':logs')", "")), one, script.remove_job("orders", A),
     "remove_job removes pick of orders in part: out of pending, its row is still there."),
    (mine("remove_job", ("redis.call('DEL', row, row .. ':logs')", ""), ("for i = 2, 5 do", "for i = 3, 5 do")),
     one | {own("dead"): ranked((A, 0))}, script.remove_job("orders", A),
     "remove_job removes pick of orders in part: out of dead, it stays in pending, its row is still there."),
    (mine("remove_job", ("redis.call('DEL', row, row .. ':logs')", "redis.call('DEL', row .. ':logs')")),
     one | {sub(A, "logs"): Items((b"x",))}, script.remove_job("orders", A),
     "remove_job removes pick of orders in part: out of pending, its logs are deleted, its row is still there."),
    (does("enqueue_flow", "return 7"), {}, script.enqueue_flow("orders", P, b"p", pair),
     "enqueue_flow (land a parent and all its children in one step, the children claimable and the parent "
     "held) on the row of JOB…GLuC, the counter of JOB…GLuC and pending of orders answers 7; nothing changed."),
    (does("enqueue_flow", "return 2"), {}, script.enqueue_flow("orders", P, b"p", pair),
     "enqueue_flow (land a parent and all its children in one step, the children claimable and the parent "
     "held) on the row of JOB…GLuC, the counter of JOB…GLuC and pending of orders answers 2; nothing changed."),
    (mine("enqueue_flow", (HOLD, "")), {}, script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands part of the flow of JOB…GLuC in orders: 2 children are claimable in pending, the "
     "parent is in no set with no row, its counter at 2."),
    (mine("enqueue_flow", ("'awaiting_children'", "'pending'")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "the parent is in no set with a row that says pending, its counter at 2."),
    (mine("enqueue_flow", (LAND_CHILD, "")), {}, script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 0 of 2 children are claimable in "
     "pending, the parent is held in no set, its counter at 2."),
    (mine("enqueue_flow", ("for i = 1, n do\n  local child = KEYS", "for i = 1, 1 do\n  local child = KEYS")),
     {}, script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands part of the flow of pack order 7 in orders: 1 of 2 children is claimable in pending, "
     "the parent is held in no set, its counter at 2."),
    (mine("enqueue_flow", ("'HSET', child, 'state'", "'HSET', parent, 'state'")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands part of the flow of pack order 7 in orders: 0 of 2 children are claimable in "
     "pending, there without a row: JOB…GLuD and JOB…GLuE, the parent is held in no set, its counter at 2. "
     "Also: the row of pack order 7 gains parent pack order 7."),
    (does("enqueue_flow", "redis.call('SET', KEYS[2], 9) return 2"), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands nothing of the flow of JOB…GLuC in orders: 0 of 2 children are claimable in pending, "
     "the parent is in no set with no row, its counter at 9."),
    (mine("enqueue_flow", ("redis.call('SET', dependencies, n)", "")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "the parent is held in no set, without a counter."),
    (mine("enqueue_flow", ("'parent', parent_id", "'mother', parent_id")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "not linked as declared: pick and label, the parent is held in no set, its counter at 2. Also: the "
     'row of pick gains mother "JOB0KHTOWnGLuC"; the row of label gains mother "JOB0KHTOWnGLuC".'),
    (mine("enqueue_flow", ("'parent', parent_id", "'parent', i == 2 and parent_id or 'x'")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "not linked as declared: pick, the parent is held in no set, its counter at 2. Also: the row of pick "
     "gains parent x."),
    (mine("enqueue_flow", ("'parent', parent_id", "'parent', parent_id, 'parent_queue', 'elsewhere'")), {},
     script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "not linked as declared: pick and label, the parent is held in no set, its counter at 2. Also: the "
     "row of pick gains parent_queue elsewhere; the row of label gains parent_queue elsewhere."),
    (mine("enqueue_flow",
          (HOLD, HOLD +
           " redis.call('ZADD', pending, 0, parent_id) redis.call('ZADD', 'emq:{orders}:dead', 0, parent_id)")),
     {}, script.enqueue_flow("orders", P, b"pack order 7", pair),
     "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
     "the parent is in pending and dead, its counter at 2."),
    (does("hold_parent", "return 7"), {}, script.hold_parent("orders", P, b"pack order 7", 1),
     "hold_parent (land a parent alone and held, before any of its children exists) on the row of JOB…GLuC "
     "and the counter of JOB…GLuC answers 7; nothing changed."),
    (does("hold_parent", "return 1"), {}, script.hold_parent("orders", P, b"pack order 7", 1),
     "hold_parent (land a parent alone and held, before any of its children exists) on the row of JOB…GLuC "
     "and the counter of JOB…GLuC answers 1; nothing changed."),
    (mine("hold_parent", (HOLD, "")), {}, script.hold_parent("orders", P, b"pack order 7", 1),
     "hold_parent lands JOB…GLuC in orders, in no set with no row, its counter at 1."),
    (mine("hold_parent", (HOLD, HOLD + " redis.call('ZADD', 'emq:{orders}:pending', 0, parent_id)")), {},
     script.hold_parent("orders", P, b"pack order 7", 1),
     "hold_parent lands pack order 7 in orders, in pending, its counter at 1."),
    (does("enqueue_flow_child", "return 7"), held(2), script.enqueue_flow_child("orders", A, b"pick", P, None),
     "enqueue_flow_child (land one claimable child on its own slot, for a parent that is already held) on the "
     "row of JOB…GLuD and pending of orders answers 7; nothing changed."),
    (does("enqueue_flow_child", "return 1"), held(2), script.enqueue_flow_child("orders", A, b"pick", P, None),
     "enqueue_flow_child (land one claimable child on its own slot, for a parent that is already held) on the "
     "row of JOB…GLuD and pending of orders answers 1; nothing changed."),
    (mine("enqueue_flow_child", ("'parent', parent_id", "'mother', parent_id")), held(2),
     script.enqueue_flow_child("orders", A, b"pick", P, None),
     "enqueue_flow_child lands pick in orders, in pending, not as a child of pack order 7. Also: the row "
     'of pick gains mother "JOB0KHTOWnGLuC".'),
    (mine("enqueue_flow_child", (LAND_CHILD, "")), held(2),
     script.enqueue_flow_child("orders", A, b"pick", P, None),
     "enqueue_flow_child lands pick in orders, in no set, as a child of pack order 7."),
    (mine("enqueue_flow_child", ("if parent_queue ~= '' then", "if false then")), {},
     script.enqueue_flow_child("stock", A, b"pick", P, "orders"),
     "enqueue_flow_child lands pick in stock, in pending, not as a child of JOB…GLuC in orders."),
    (does("flow_deliver", "return 0"), held(2), script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver (count a child of another queue that completed, on the slot of its parent) on the counter "
     "of pack order 7, processed of pack order 7 and the row of pack order 7 answers 0; nothing changed."),
    (does("flow_deliver", "return 1"), held(2), script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver (count a child of another queue that completed, on the slot of its parent) on the counter "
     "of pack order 7, processed of pack order 7 and the row of pack order 7 answers 1; nothing changed."),
    (does("flow_deliver", "redis.call('DECR', KEYS[1]) return 1"), held(2),
     script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD to pack order 7 in orders, which does not take it into "
     "processed and whose counter goes 2 → 1."),
    (mine("flow_deliver", ("local left = redis.call('DECR', dependencies)", "local left = 1")), held(2),
     script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD into processed of pack order 7 in orders, whose counter "
     "stays at 2."),
    (mine("flow_deliver",
          ("redis.call('ZADD', base .. 'pending', 0, parent_id)\nredis.call('HSET', parent, 'state', 'pending')",
          "")), held(1), script.flow_deliver("orders", P, A, b"ok"),
     "flow_deliver brings the result of JOB…GLuD into processed of pack order 7 in orders, whose counter goes "
     "1 → 0. pack order 7 is not released, although no child is outstanding."),
    (does("flow_fail_deliver", "return 1"), held(2), script.flow_fail_deliver("orders", P, A, b"boom", "fp"),
     "flow_fail_deliver (apply what the death of a child of another queue means, on the slot of its parent) "
     "on the counter of pack order 7, failed of pack order 7 and unsuccessful of pack order 7 answers 1; "
     "nothing changed."),
    (mine("flow_fail_deliver", ("if policy == 'fp' then", "if false then")), held(2),
     script.flow_fail_deliver("orders", P, A, b"boom", "fp"),
     "flow_fail_deliver brings the death of JOB…GLuD into unsuccessful of pack order 7 in orders, whose "
     "counter goes 2 → 1."),
    (mine("flow_fail_deliver",
          ("redis.call('HSET', parent, 'state', 'dead')",
          "redis.call('HSET', parent, 'state', 'dead') redis.call('DECR', dependencies)")), held(2),
     script.flow_fail_deliver("orders", P, A, b"boom", "fp"),
     "flow_fail_deliver brings the death of JOB…GLuD into failed of pack order 7 in orders, whose counter "
     "goes 2 → 1. pack order 7 is dead with it."),
    (mine("flow_fail_deliver", ("local left = redis.call('DECR', dependencies)", "local left = 1")), held(2),
     script.flow_fail_deliver("orders", P, A, b"boom", "id"),
     "flow_fail_deliver brings the death of JOB…GLuD into unsuccessful of pack order 7 in orders, whose "
     "counter stays at 2."),
]
# fmt: on


# --- what is said -----------------------------------------------------------------------------------------------------


def named(case: tuple[Any, ...]) -> str:
    return str(case[-1]).partition(": ")[0][:60]


@pytest.mark.parametrize(("before", "call", "words"), PUBLISHED, ids=map(named, PUBLISHED))
def test_a_published_script_is_told_by_what_it_did(before: Contents, call: Call[Any], words: str) -> None:
    assert said(before, call) == words


@pytest.mark.parametrize("name", sorted(one.name for one in READY))
def test_each_script_has_one_sentence_where_it_writes_and_another_where_it_does_not(name: str) -> None:
    cases = [made(before, call) for before, call, _ in PUBLISHED if call.verb == name]
    wrote = {sentence(trace.calls[-1], trace.scripts) for trace in cases if trace.calls[-1].diff}
    idle = {sentence(trace.calls[-1], trace.scripts) for trace in cases if not trace.calls[-1].diff}
    assert wrote
    assert idle
    assert not wrote & idle
    assert name in SCRIPTS


@pytest.mark.parametrize(("mistake", "before", "call", "words"), ZOO, ids=[case[0] for case in ZOO])
def test_a_mistake_of_the_zoo_is_told_otherwise_than_what_is_published(
    mistake: str, before: Contents, call: Call[Any], words: str
) -> None:
    assert said(before, call, ScriptSet.load(f"zoo/{mistake}")) == words
    assert said(before, call) != words


def test_every_mistake_of_the_zoo_is_told() -> None:
    assert {case[0] for case in ZOO} == {one.stem for one in (lua_folder() / "zoo").iterdir()}


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(("scripts", "before", "call", "words"), MISTAKEN, ids=map(named, MISTAKEN))
def test_a_script_that_does_something_else_is_not_told_as_if_it_did_not(
    scripts: ScriptSet, before: Contents, call: Call[Any], words: str
) -> None:
    assert said(before, call, scripts) == words


# --- scripts of somebody else's ---------------------------------------------------------------------------------------

REVERSE = """local given_keys, given = KEYS, ARGV
local KEYS, ARGV = {}, {}
for i = 1, #given do ARGV[i] = given[#given + 1 - i] end
for i = 1, #given_keys do KEYS[i] = given_keys[#given_keys + 1 - i] end
"""


def backwards(name: str) -> ScriptSet:
    """The published scripts, one of which takes its keys and arguments the other way round, as its header says."""
    header, body = READY[name].source.split("\n\n", 1)
    lines = []
    for line in header.split("\n"):
        start, _, items = line.partition("  ")
        turned = line.startswith(("-- keys", "-- argv"))
        lines.append(f"{start}  {' '.join(reversed(items.split()))}" if turned else line)
    head = "\n".join(lines)
    return laid_over(name, f"{head}\n\n{REVERSE}{body}")


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - {"enqueue_flow", "extend_locks"}))
def test_a_script_with_other_positions_is_told_as_its_header_names_them(name: str) -> None:
    scripts = backwards(name)
    for before, call, words in PUBLISHED:
        if call.verb == name:
            turned = Call(name, call.keys[::-1], call.args[::-1], call.read, call.refusal, "script")
            assert said(before, turned, scripts) == words


@pytest.mark.usefixtures("wheel")
def test_a_flow_that_takes_its_policies_in_the_script_is_told_like_any_other() -> None:
    sentences = []
    for code in ("'parent_policy', ARGV[3 + 2 * n + i]", "'parent_policy', 'fp'"):
        source = READY["enqueue_flow"].source.replace("(child_id payload)*n", "(child_id payload)*n [(policy)*n]")
        source = source.replace("'parent', parent_id)", f"'parent', parent_id, {code})")
        scripts = laid_over("enqueue_flow", source)
        sentences.append(said({}, script.enqueue_flow("orders", P, b"pack order 7", pair, ["fp", "id"]), scripts))
    lands = "enqueue_flow lands the flow of pack order 7 in orders in one step: 2 children are claimable in pending, "
    assert sentences == [
        f"{lands}the parent is held in no set, its counter at 2.",
        f"{lands}not linked as declared: label, the parent is held in no set, its counter at 2. "
        "Also: the row of label gains parent_policy fp (fail).",
    ]


@pytest.mark.usefixtures("wheel")
def test_a_child_that_takes_its_policy_in_the_script_is_told_like_any_other() -> None:
    source = READY["enqueue_flow_child"].source.replace("parent_id parent_queue\n", "parent_id parent_queue [policy]\n")
    source = source.replace("'parent', parent_id)", "'parent', parent_id, 'parent_policy', ARGV[5])")
    scripts = laid_over("enqueue_flow_child", source)
    call = script.enqueue_flow_child("orders", A, b"pick", P, None, "id")
    assert said(held(1), call, scripts) == (
        "enqueue_flow_child lands pick in orders, in pending, as a child of pack order 7."
    )


@pytest.mark.usefixtures("wheel")
def test_a_script_whose_header_has_other_names_is_told_by_its_reply_and_its_changes() -> None:
    source = READY["enqueue"].source.replace("-- argv     id payload", "-- argv     which what")
    assert said({}, script.enqueue("orders", A, b"pick"), laid_over("enqueue", source)) == (
        "enqueue (land one job where the next claim can take it, unless its row is already there) on the row of pick "
        "and pending of orders answers 1: pick enters pending of orders; "
        'the row of pick appears: state pending, attempts 0, payload "pick".'
    )


@pytest.mark.usefixtures("wheel")
def test_a_script_of_the_learners_own_is_told_by_its_summary() -> None:
    source = "-- greet: say hello\n-- keys\n-- argv\n-- replies  hello\n\nreturn 'hello'\n"
    told = said({}, script_call("greet"), laid_over("greet", source))
    assert told == 'greet (say hello) answers "hello"; nothing changed.'


def test_a_call_of_a_script_that_the_set_lacks_or_takes_otherwise_is_told_by_its_keys() -> None:
    (record,) = made({}, script.enqueue("orders", A, b"pick")).calls
    lands = "pick enters pending of orders; the row of pick appears: state pending, attempts 0, payload"
    for scripts, about in (
        (ScriptSet("none", {}), "enqueue on"),
        (mine("enqueue", ("-- argv     id payload", "-- argv     id")), "enqueue (land one job where the next claim "),
    ):
        words = sentence(record, scripts, Names({A: "pick"}))
        assert words.startswith(about)
        assert words.endswith(f'on the row of pick and pending of orders answers 1: {lands} "pick".')


def test_a_call_whose_first_key_is_of_no_queue_is_told_by_its_reply() -> None:
    assert said({}, script_call("enqueue", [b"emq:x", b"emq:y"], [A.encode(), b"pick"])) == (
        "enqueue (land one job where the next claim can take it, unless its row is already there) "
        'on key "emq:x" and key "emq:y" answers 1: '
        'key "emq:x" gains 3 parts; key "emq:y" gains 1 part.'
    )


# --- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "extended"),
    [(1_099, False), (1_100, True), (1_150, True), (1_200, True), (1_201, False), (2 * 10**14, True)],
)
def test_an_extension_within_one_moment_is_told_by_the_deadline_it_must_have(deadline: int, extended: bool) -> None:
    lease = snapshot({job(A): row("active", 1), own("active"): ranked((A, deadline))}, 1_000)
    later = Snapshot(lease.entries, 1_100)
    call = script.extend_lock("orders", A, 1, 100)
    words = sentence(CallRecord(call, 1, lease, later), READY)
    gives = "extend_lock gives JOB…GLuD of orders a new deadline for its lease."
    assert (words == gives) is extended
    assert extended or words.endswith("answers 1; nothing changed.")


def test_what_is_due_or_lapsed_at_the_very_moment_counts_as_such() -> None:
    for name, state, call, words in (
        ("schedule", "scheduled", script.promote("orders", 9), "moves nothing, although 1 job is due in schedule of"),
        ("active", "active", script.reap("orders"), "takes nothing back, although 1 lease lapsed in active of"),
    ):
        for score, said_so in ((1_000, True), (1_001, False)):
            before = snapshot({job(A): row(state, 1), own(name): ranked((A, score))}, 1_000)
            told = sentence(CallRecord(call, 0, before, Snapshot(before.entries, 2_000)), READY)
            assert (words in told) is said_so


def test_a_job_that_came_due_while_the_call_ran_was_due() -> None:
    for name, state, call, words in (
        ("schedule", "scheduled", script.promote("orders", 9), "promote moves 1 due job of orders from"),
        ("active", "active", script.reap("orders"), "reap puts 1 job of orders whose lease lapsed back"),
    ):
        for score, said_so in ((2_000, True), (2_001, False)):
            before = snapshot({job(A): row(state, 1), own(name): ranked((A, score))}, 1_000)
            after = snapshot({job(A): row("pending", 1), own("pending"): ranked((A, 0))}, 2_000)
            assert (words in sentence(CallRecord(call, 1, before, after), READY)) is said_so
