"""For each exercise a second solution, and answers that are wrong in a known way: what `test_classroom` hands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from emqkit import transitions
from emqkit.classroom import walk
from emqkit.errors import EmqError
from emqkit.keyspace import Keyspace
from emqkit.scripts import ScriptSet
from emqkit.sim.history import History
from emqkit.wire import Flush

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


DONE = (("worker of stock",),) * 4
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


SECOND: dict[str, Handed] = {
    "counter": just(1),
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

WRONG: dict[str, list[tuple[str, Handed]]] = {
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
