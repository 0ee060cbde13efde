"""For each exercise a second solution, and answers that are wrong in a known way: what `test_classroom` hands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from emqkit import keys, outbox, transitions
from emqkit.classroom import walk
from emqkit.errors import EmqError
from emqkit.flows import Child, Flow
from emqkit.keyspace import Keyspace, Part
from emqkit.scripts import ScriptSet
from emqkit.sim import Faults, Reaper, Worker, World, planned
from emqkit.sim.history import History
from emqkit.wire import Flush, command

Handed = Callable[[], tuple[Any, ...]]


def lua(script: str, *replaced: tuple[str, str], base: str = "published") -> Handed:
    """The published text of a script with some of it replaced."""

    def make() -> tuple[str]:
        text = ScriptSet.load(base)[script].source
        for old, new in replaced:
            assert text.count(old) == 1, f"{script} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        return (text,)

    return make


def just(*handed: Any) -> Handed:
    """These values."""
    return lambda: handed


# --- completion -------------------------------------------------------------------------------------------------------

TAKE = "local was_active = redis.call('ZREM', active, id) == 1\n"
OUT_OF_PENDING = "  redis.call('ZREM', base .. 'pending', id)\n"
FROM_BOTH = (OUT_OF_PENDING, "  was_active = redis.call('ZREM', base .. 'pending', id) == 1\n")

# --- add --------------------------------------------------------------------------------------------------------------


def hold(queue: str, flow: Any, n: int) -> Any:
    return transitions.hold_parent(queue, flow.id, flow.payload.encode(), n)


def child_of(queue: str, flow: Any, child: Any) -> Any:
    return transitions.enqueue_flow_child(child.queue, child.id, child.payload.encode(), flow.id, queue)


def children_in_one_flush(queue: str, flow: Any) -> Iterator[Any]:
    yield from hold(queue, flow, len(flow.children))
    yield from Flush(tuple(child_of(queue, flow, child) for child in flow.children))


def children_first(queue: str, flow: Any) -> Iterator[Any]:
    for child in flow.children:
        yield from child_of(queue, flow, child)
    yield from hold(queue, flow, len(flow.children))


def all_in_one_flush(queue: str, flow: Any) -> Iterator[Any]:
    children = (child_of(queue, flow, child) for child in flow.children)
    yield from Flush((hold(queue, flow, len(flow.children)), *children))


def deaf_to_refusals(queue: str, flow: Any) -> Iterator[Any]:
    try:
        yield from hold(queue, flow, len(flow.children))
    except EmqError:
        pass
    for child in flow.children:
        yield from child_of(queue, flow, child)


def counter_at_one(queue: str, flow: Any) -> Iterator[Any]:
    yield from hold(queue, flow, 1)
    for child in flow.children:
        yield from child_of(queue, flow, child)


def last_child_left_out(queue: str, flow: Any) -> Iterator[Any]:
    yield from hold(queue, flow, len(flow.children))
    for child in flow.children[:-1]:
        yield from child_of(queue, flow, child)


# --- the hasty Pump ---------------------------------------------------------------------------------------------------


def walked(name: str, *moves: tuple[str, ...]) -> Handed:
    """The history of these moves."""

    def make() -> tuple[History]:
        steps = walk(name)
        for move in moves:
            steps.take(*move)
        return (steps.history,)

    return make


def together(promise: str, history: Handed) -> Handed:
    """A promise's name and a history."""
    return lambda: (promise, *history())


DONE = (("worker of stock",),) * 4
WORKER, FAILS = ("worker of orders",), ("worker of orders", "it fails")
FIRST, OTHER, LAPSE = ("worker of orders 1",), ("worker of orders 2",), ("", "lapse")
CRASHED, REAPS = ("worker of orders", "crash"), ("reaper of orders",)
POMP, POMP_CRASH = ("pump of stock",), ("pump of stock", "crash")
PUMP, CRASH = ("hasty pump",), ("hasty pump", "crash")

# --- invariants -------------------------------------------------------------------------------------------------------


def sets_only(keyspace: Keyspace) -> bool:
    for queue in keyspace.queues:
        for id in queue.ids:
            expected = () if queue.state(id) == "awaiting_children" else (queue.state(id),)
            if queue.places(id) != expected:
                return False
    return True


def counters_only(keyspace: Keyspace) -> bool:
    for queue in keyspace.queues:
        for id in queue.parents:
            left = queue.counter(id) or 0
            if left < 0 or (left > 0 and "pending" in queue.places(id)):
                return False
    return True


def both(keyspace: Keyspace) -> bool:
    return sets_only(keyspace) and counters_only(keyspace)


# --- one look ---------------------------------------------------------------------------------------------------------


def reading(queue: str, parent: str, verbs: tuple[str, str], read: Callable[[Any], int]) -> tuple[Any, ...]:
    """The three reads as calls."""
    done, ignored = (keys.subkey(queue, parent, name) for name in ("processed", "unsuccessful"))
    counter = command("GET", [keys.subkey(queue, parent, "dependencies")], [], _number)
    return command(verbs[0], [done], [], read), counter, command(verbs[1], [ignored], [], read)


def _number(reply: Any) -> int:
    return int(reply or 0)


def by_keys(queue: str, parent_id: str) -> Iterator[Any]:
    calls = reading(queue, parent_id, ("HKEYS", "HKEYS"), lambda reply: len(reply or ()))
    return list((yield from Flush(calls, atomic=True)))  # type: ignore[return-value]


def three_trips(queue: str, parent_id: str) -> Iterator[Any]:
    answers = []
    for call in reading(queue, parent_id, ("HLEN", "HLEN"), lambda reply: reply):
        answers.append((yield from call))
    return tuple(answers)  # type: ignore[return-value]


def one_flush(queue: str, parent_id: str) -> Iterator[Any]:
    return (yield from Flush(reading(queue, parent_id, ("HLEN", "HLEN"), lambda reply: reply)))  # type: ignore


def other_order(queue: str, parent_id: str) -> Iterator[Any]:
    calls = reading(queue, parent_id, ("HLEN", "HLEN"), lambda reply: reply)
    return tuple(reversed((yield from Flush(calls, atomic=True))))[1:]  # type: ignore[return-value]


# --- a Pump's pass ----------------------------------------------------------------------------------------------------


def read_outbox(queue: str, last: bytes) -> Any:
    return command("LRANGE", [keys.queue_key(queue, "flow:outbox")], [b"0", last], lambda reply: reply)


def trim(queue: str, count: int) -> Any:
    return command("LTRIM", [keys.queue_key(queue, "flow:outbox")], [b"%d" % count, b"-1"], lambda reply: reply)


def deliver(raw: bytes) -> Any:
    entry = outbox.decode(raw)
    assert isinstance(entry, outbox.Completion)
    return transitions.flow_deliver(entry.parent_queue, entry.parent_id, entry.child_id, entry.result)


def one_by_one(queue: str) -> Iterator[Any]:
    while found := (yield from read_outbox(queue, b"0")):
        yield from deliver(found[0])
        yield from trim(queue, 1)


def trim_first(queue: str) -> Iterator[Any]:
    found = yield from read_outbox(queue, b"99")
    yield from trim(queue, len(found))
    for raw in found:
        yield from deliver(raw)


def trim_all(queue: str) -> Iterator[Any]:
    for raw in (yield from read_outbox(queue, b"99")):
        yield from deliver(raw)
    yield from command("DEL", [keys.queue_key(queue, "flow:outbox")], [], lambda reply: reply)


def never_trim(queue: str) -> Iterator[Any]:
    for raw in (yield from read_outbox(queue, b"99")):
        yield from deliver(raw)


def look_only(queue: str) -> Iterator[Any]:
    yield from read_outbox(queue, b"99")


# --- worlds and promises of one's own ---------------------------------------------------------------------------------

ONE = planned("orders", Flow("order", [Child("pick")]))
FOUR = planned("orders", Flow("order", [Child(name) for name in ("a", "b", "c", "d")]))
CREW = (Worker("orders"), Worker("orders"), Reaper("orders"))


def turn_token_lease(before: Keyspace, after: Keyspace) -> bool:
    return turn_only(before, after) and all(_lease(queue, after[queue.queue]) for queue in before.queues)


def _turn(before: Part, after: Part) -> bool:
    """Who is claimed is the first in line, and its attempts have grown."""
    claimed = [id for id in after.members("active") if id in before.members("pending")]
    return all(
        id == min(before.members("pending")) and int(after.rows[id]["attempts"]) == int(before.rows[id]["attempts"]) + 1
        for id in claimed
    )


def _lease(before: Part, after: Part) -> bool:
    """Nobody goes back to pending under a lease that has not lapsed."""
    return all(before.members("active")[id] == 1 for id in after.members("pending") if id in before.members("active"))


def turn_only(before: Keyspace, after: Keyspace) -> bool:
    return all(_turn(queue, after[queue.queue]) for queue in before.queues)


SECOND: dict[str, Handed] = {
    "counter": just(1),
    "next-claim": just(["pick", 2]),
    "three-reads": just([2, 1, 1]),
    "one-look": just(by_keys),
    "leftovers": just(1 + 1),
    "after-the-child": just("outbox"),
    "deaths": just(["dead", 1]),
    "death-delivery": lua("flow_fail_deliver", ("if redis.call('HSETNX', failed, child_id, failure) == 1 then\n",
        "if redis.call('HEXISTS', failed, child_id) == 0 then\n    redis.call('HSET', failed, child_id, failure)\n")),
    "deaf": walked("deaf", WORKER, ("reaper of orders",), FAILS, WORKER, WORKER),
    "remains": just([1, "absent", "held"]),
    "gate": lua("enqueue_flow", ("for i = 1, n do\n  local child_id = ARGV[2 + 2 * i]\n  if",
        "for i = n, 1, -1 do\n  local child_id = ARGV[2 + 2 * i]\n  if")),
    "where-it-hurts": just(3),
    "pass": just(one_by_one),
    "early": walked("early", FIRST, FIRST, OTHER, FIRST, FIRST, OTHER),
    "lost": together("P6", walked("lost", WORKER, WORKER, WORKER, CRASHED, LAPSE, REAPS)),
    "double": together("P5", walked("double", POMP, POMP, *DONE, POMP, POMP, POMP, POMP_CRASH, POMP, POMP, POMP)),
    "own-world": just(World("mine", CREW, ONE, Faults(lapses=1))),
    "own-promise": just(turn_token_lease),
    "completion": lua("complete", (TAKE, "redis.call('ZREM', active, id)\nlocal was_active = true\n"), (
        "if not was_active then\n", "do\n")),
    "delivery": lua("flow_deliver", (
        "if redis.call('HSETNX', processed, child_id, result) == 0 then\n  return 1\nend\n",
        "if redis.call('HEXISTS', processed, child_id) == 1 then\n  return 1\nend\n"
        "redis.call('HSET', processed, child_id, result)\n")),
    "add": just(children_in_one_flush),
    "hasty-pump": walked("hasty-pump", PUMP, PUMP, *DONE, PUMP, PUMP, PUMP, CRASH),
    "invariant": just(both),
}  # fmt: skip
"""A second solution for each exercise."""

IGNORES = ("if policy == 'fp' then", "if policy == 'none' then")
FATAL = ("if policy == 'fp' then", "if policy ~= 'none' then")
AGAIN = (
    "if redis.call('HSETNX', unsuccessful, child_id, failure) == 0 then",
    "if redis.call('HSETNX', unsuccessful, child_id, failure) == 2 then",
)
COUNTS_FATAL = (
    "    redis.call('HSET', parent, 'state', 'dead')",
    "    redis.call('DECR', dependencies)\n    redis.call('HSET', parent, 'state', 'dead')",
)
NO_GATE = (
    "  if string.sub(child_id, 1, 3) ~= 'JOB' then\n    return redis.error_reply('EMQKIND job id must be "
    "JOB-namespaced')\n  end\n",
    "",
)

WRONG: dict[str, list[tuple[str, Handed]]] = {
    "next-claim": [
        ("takes a held job", just(("pack", 1))),
        ("goes to the end of the line", just(("label", 1))),
        ("same token again", just(("pick", 1))),
    ],
    "three-reads": [
        ("a death as a result", just((3, 1, 0))),
        ("a death still outstanding", just((2, 2, 0))),
        ("a claimed child as done", just((3, 0, 1))),
    ],
    "leftovers": [("all gone", just(0)), ("the row stays", just(3)), ("the counter goes", just(1))],
    "one-look": [
        ("several round trips", just(three_trips)),
        ("a flush that others get into", just(one_flush)),
        ("wrong before anybody moves", just(other_order)),
    ],
    "after-the-child": [
        ("counts at once", just("counter")),
        ("records at once", just("processed")),
        ("releases at once", just("pending")),
    ],
    "deaths": [
        ("the parent waits on", just(("awaiting_children", 1))),
        ("counts the fatal death", just(("dead", 0))),
        ("siblings stop", just(("dead", 2))),
        ("released all the same", just(("pending", 0))),
    ],
    "death-delivery": [
        ("every death is ignored", lua("flow_fail_deliver", IGNORES)),
        ("every death is fatal", lua("flow_fail_deliver", FATAL)),
        ("counts again", lua("flow_fail_deliver", AGAIN)),
        ("counts the fatal death", lua("flow_fail_deliver", COUNTS_FATAL)),
    ],
    "deaf": [
        ("nobody dies", walked("deaf", WORKER, WORKER, WORKER, WORKER)),
        ("the ignored one dies", walked("deaf", *(WORKER,) * 5, WORKER, FAILS, WORKER, WORKER)),
        ("goes on for too long", walked("deaf", WORKER, FAILS, WORKER, WORKER, WORKER)),
    ],
    "remains": [
        ("all or nothing", just((0, "absent", "absent"))),
        ("one queue leaves a parent", just((1, "held", "held"))),
        ("across queues nothing is left", just((1, "absent", "absent"))),
    ],
    "gate": [
        ("looks too late", lua("enqueue_flow", base="zoo/late-gate")),
        ("lets anybody in", lua("enqueue_flow", NO_GATE)),
        ("lands in part", lua("enqueue_flow", ("SET', dependencies, n", "SET', dependencies, n - 1"))),
    ],
    "where-it-hurts": [
        ("before it is trimmed", just(2)),
        ("after it is delivered", just(4)),
        ("before it is read", just(1)),
        ("before it is read", just(0)),
    ],
    "pass": [
        ("trims before it delivers", just(trim_first)),
        ("trims before it delivers", just(trim_all)),
        ("never trims", just(never_trim)),
        ("does not deliver", just(look_only)),
    ],
    "early": [
        ("nobody claims it", walked("early", FIRST, FIRST, FIRST, FIRST)),
        ("every child is through", walked("early", *(FIRST,) * 2, *(OTHER,) * 2, *(FIRST,) * 3, *(OTHER,) * 3)),
        ("no child is through", walked("early", FIRST, FIRST)),
    ],
    "lost": [
        ("another promise", together("P5", walked("lost", WORKER, WORKER, CRASHED, LAPSE, REAPS))),
        ("another end", together("P6", walked("lost", *(WORKER,) * 6, WORKER, CRASHED, LAPSE, REAPS))),
        ("neither", together("P3", walked("lost", WORKER))),
    ],
    "double": [
        ("another promise", together("P8", walked("double", *DONE, *(POMP,) * 3, POMP_CRASH, *(POMP,) * 3))),
        ("another end", together("P5", walked("double", *DONE, *(POMP,) * 3, POMP_CRASH, *(POMP,) * 4))),
        ("neither", together("P5", walked("double", *DONE, POMP))),
    ],
    "own-world": [
        ("nothing goes wrong", just(World("mine", CREW, ONE))),
        ("another fault", just(World("mine", CREW, ONE, Faults(crashes=1)))),
        ("nobody takes it back", just(World("mine", CREW[:1], ONE, Faults(lapses=1)))),
        ("too large", just(World("mine", CREW * 2, FOUR, Faults(crashes=2, lapses=2)))),
    ],
    "own-promise": [
        ("asks too much", just(lambda before, after: before["orders"].ids == after["orders"].ids)),
        ("notices nothing", just(lambda before, after: True)),
        ("notices some", just(turn_only)),
    ],
    "counter": [
        ("counts a retry", just(0)),
        ("forgets the ignored death", just(2)),
        ("counts nothing", just(3)),
    ],
    "completion": [
        ("counts only what was in active", lua("complete")),
        ("leaves it in pending", lua("complete", (OUT_OF_PENDING, "  was_active = true\n"))),
        ("does not look at the token", lua("complete", FROM_BOTH, ("attempts ~= token", "token == ''"))),
    ],
    "delivery": [
        ("counts every delivery", lua("flow_deliver", ("== 0 then", "== 2 then"))),
        ("never releases", lua("flow_deliver", ("left > 0", "left > -9"))),
        ("counts nothing", lua("flow_deliver", ("'DECR'", "'GET'"), ("left > 0", "tonumber(left) > 0"))),
        ("releases too early", lua("flow_deliver", ("left > 0", "left > 1"))),
    ],
    "add": [
        ("goes on after a refusal", just(all_in_one_flush)),
        ("goes on after a refusal", just(deaf_to_refusals)),
        ("children first", just(children_first)),
        ("counter wrong", just(counter_at_one)),
        ("a child left out", just(last_child_left_out)),
    ],
    "hasty-pump": [
        ("no crash", walked("hasty-pump", *DONE, PUMP, PUMP, PUMP)),
        ("somebody else crashes", walked("hasty-pump", *DONE, ("worker of orders",), ("worker of orders", "crash"))),
        ("crashes with nothing in hand", walked("hasty-pump", *DONE, PUMP, PUMP, CRASH)),
        ("nothing to lose", walked("hasty-pump", PUMP)),
    ],
    "invariant": [
        ("asks too much", just(lambda keyspace: not any(queue.members("pending") for queue in keyspace.queues))),
        ("notices nothing", just(lambda keyspace: True)),
        ("looks at one side", just(sets_only)),
        ("looks at one side", just(counters_only)),
    ],
}  # fmt: skip
"""Wrong answers by exercise, each with the mistake it is known for."""
