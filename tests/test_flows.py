"""Adding flows by their three paths, in bulk, and reading them: what lands, what stops, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from watch import (
    EVERY_BYTE,
    FOREIGN,
    ILL_FORMED,
    A,
    B,
    C,
    D,
    E,
    F,
    P,
    Q,
    R,
    at,
    counter,
    everything,
    fault,
    members,
    refused_unsent,
    row,
    unchanged,
    wire,
)

from emqkit import keys, transitions
from emqkit.errors import (
    BadArgument,
    BadFlow,
    EmqError,
    IllFormedId,
    IllFormedQueue,
    Refused,
    ReplyLost,
    Unreachable,
    WrongNamespace,
)
from emqkit.flows import DEEPEST, DEEPEST_MADE, AddedChild, AddedFlow, Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.outbox import Failure, encode
from emqkit.pump import Pump
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, scratch_for
from emqkit.snapshot import Snapshot
from emqkit.trace import Trace
from emqkit.wire import Flush


@pytest.fixture
def flows(server: Server) -> Flows:
    return Flows(server)


def child_row(payload: bytes = b"x", parent: str = P, policy: bytes = b"fp", **more: str) -> dict[bytes, bytes]:
    fields = {b"state": b"pending", b"attempts": b"0", b"payload": payload, b"parent": parent.encode()}
    return {**fields, b"parent_policy": policy, **{name.encode(): value.encode() for name, value in more.items()}}


def held_row(payload: bytes = b"p", **more: str) -> dict[bytes, bytes]:
    fields = {b"state": b"awaiting_children", b"attempts": b"0", b"payload": payload}
    return {**fields, **{name.encode(): value.encode() for name, value in more.items()}}


def landed(server: Server, *places: tuple[str, str]) -> set[str]:
    """Which of these (queue, id) have a row."""
    return {id for queue, id in places if row(server, queue, id)}


# --- one queue: one step ----------------------------------------------------------------------------------------------


def test_a_flow_of_one_queue_holds_its_parent_and_lets_its_children_be_claimed(flows: Flows, queue: str) -> None:
    flow = Flow("p", [Child("x", id=A), Child(EVERY_BYTE, id=B, on_failure="ignore")], id=P)
    added = flows.add(queue, flow)
    assert added == AddedFlow(queue, P, (AddedChild(queue, A), AddedChild(queue, B)))
    assert (added.parent_id, added.child_ids) == (P, (A, B))
    server = flows.server
    assert row(server, queue, P) == held_row()
    assert row(server, queue, A) == child_row()
    assert row(server, queue, B) == child_row(EVERY_BYTE, policy=b"id")
    assert members(server, queue, "pending") == [A, B]
    assert counter(server, queue, P) == 2
    assert len(everything(server).keys) == 5  # three rows, the set and the counter: nothing else
    assert Jobs(server).state(queue, P) == "awaiting_children"


def test_a_flow_of_one_queue_lands_in_one_script_and_its_policies_in_a_flush_of_their_own(
    flows: Flows, queue: str
) -> None:
    flows.add(queue, Flow("warm", [Child("x")]))
    with wire(flows.server) as sent:
        flows.add(queue, Flow("p", [Child("x"), Child("y"), Child("z")]))
    assert [[command[0] for command in commands] for commands in sent] == [[b"EVALSHA"], [b"HSET"] * 3]


def test_minted_ids_are_claimed_in_spec_order_and_the_parent_before_younger_work(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    added = flows.add(queue, Flow("p", [Child("first"), Child("second"), Child("third")]))
    jobs.enqueue(queue, "younger")
    seen = []
    while (claim := jobs.claim(queue)) is not None:
        seen.append(claim.payload)
        jobs.complete(queue, claim)
    assert seen == ["first", "second", "third", "p", "younger"]
    assert [added.parent_id, *added.child_ids] == sorted([added.parent_id, *added.child_ids])


def test_the_parent_is_released_by_its_last_child_and_its_first_token_is_one(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    flows.add(queue, Flow("p", [Child("x", id=A), Child("y", id=B)], id=P))
    for left in (1, 0):
        claim = jobs.claim(queue)
        assert claim is not None
        jobs.complete(queue, claim, result=f"{left} left")
        assert flows.dependencies(queue, P) == left
    assert jobs.state(queue, P) == "pending"
    parent = jobs.claim(queue)
    assert parent is not None and (parent.id, parent.token) == (P, 1)
    assert flows.children_values(queue, P) == {A: "1 left", B: "0 left"}
    assert jobs.complete(queue, parent)
    left_behind = {key.decode().rpartition(":")[2] for key in everything(flows.server).keys if b":job:" in key}
    assert left_behind == {"dependencies", "processed"}  # no published transition deletes them


@pytest.mark.parametrize("foreign", ["parent", "first child", "last child"])
def test_one_foreign_id_and_no_part_of_a_flow_of_one_queue_lands(flows: Flows, queue: str, foreign: str) -> None:
    ids = [FOREIGN if foreign == name else id for name, id in (("parent", P), ("first child", A), ("last child", B))]
    flow = Flow("p", [Child("x", id=ids[1]), Child("y", id=ids[2])], id=ids[0])
    with unchanged(flows.server, WrongNamespace, match=f"{FOREIGN}.*begin with JOB"):
        flows.add(queue, flow)
    error = Trace.of(flows.add.program(queue, flow), flows.server).error
    assert isinstance(error, WrongNamespace)
    assert error.ids == (FOREIGN,)  # and not the others


def test_a_refused_land_writes_no_policy(flows: Flows, queue: str) -> None:
    flows.add(queue, Flow("warm", [Child("x")]))
    with wire(flows.server) as sent, pytest.raises(WrongNamespace):
        flows.add(queue, Flow("p", [Child("x", id=FOREIGN)]))
    assert len(sent) == 1


# --- several queues: parent first, fail-closed ------------------------------------------------------------------------


def across(labels: str, emails: str) -> Flow:
    return Flow(
        "p",
        [
            Child("x", id=A, queue=labels),
            Child("y", id=B),
            Child("z", id=C, queue=emails, on_failure="ignore"),
            Child("w", id=D, queue=labels),
        ],
        id=P,
    )


def test_a_flow_across_queues_lands_each_child_on_its_own_slot(flows: Flows, queues: Callable[..., str]) -> None:
    orders, labels, emails = queues("orders"), queues("labels"), queues("emails")
    added = flows.add(orders, across(labels, emails))
    assert added == AddedFlow(
        orders, P, (AddedChild(labels, A), AddedChild(orders, B), AddedChild(emails, C), AddedChild(labels, D))
    )
    server = flows.server
    assert row(server, orders, P) == held_row()
    assert counter(server, orders, P) == 4
    assert row(server, labels, A) == child_row(parent_queue=orders)
    assert row(server, orders, B) == child_row(b"y")  # beside its parent: no queue is named
    assert row(server, emails, C) == child_row(b"z", policy=b"id", parent_queue=orders)
    assert [members(server, queue, "pending") for queue in (orders, labels, emails)] == [[B], [A, D], [C]]


def test_a_flow_across_queues_goes_parent_first_then_in_spec_order_each_child_with_its_policy_behind_it(
    flows: Flows, queues: Callable[..., str]
) -> None:
    orders, labels, emails = queues("orders"), queues("labels"), queues("emails")
    program = flows.add.program(orders, across(labels, emails))
    replies: list[tuple[Any, ...]] = []
    sent: list[list[tuple[str, bytes]]] = []
    while hasattr(flush := program.after(replies), "calls"):
        sent.append([(call.verb, call.keys[0]) for call in flush.calls])
        replies.append((1,) * len(flush.calls))

    def key(queue: str, id: str) -> bytes:
        return f"emq:{{{queue}}}:job:{id}".encode()

    assert sent == [
        [("hold_parent", key(orders, P))],
        [("enqueue_flow_child", key(labels, A))],
        [("HSET", key(labels, A))],
        [("enqueue_flow_child", key(orders, B))],
        [("HSET", key(orders, B))],
        [("enqueue_flow_child", key(emails, C))],
        [("HSET", key(emails, C))],
        [("enqueue_flow_child", key(labels, D))],
        [("HSET", key(labels, D))],
    ]


def test_a_child_that_names_its_parents_own_queue_is_no_crossing(flows: Flows, queue: str) -> None:
    with wire(flows.server):
        flows.add(queue, Flow("p", [Child("x", id=A, queue=queue)], id=P))
    assert row(flows.server, queue, A) == child_row()


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4])
def test_an_add_across_queues_stops_at_the_first_refusal_and_undoes_nothing(
    flows: Flows, queues: Callable[..., str], place: int
) -> None:
    orders, labels, emails = queues("orders"), queues("labels"), queues("emails")
    flow = across(labels, emails)
    ids = [P, A, B, C, D]
    where = dict(zip(ids, (orders, labels, orders, emails, labels), strict=True))
    if place == 0:
        bad = replace(flow, id=FOREIGN)
    else:
        children = [replace(c, id=FOREIGN) if c.id == ids[place] else c for c in flow.children]
        bad = replace(flow, children=children)
    with pytest.raises(WrongNamespace, match=FOREIGN):
        flows.add(orders, bad)
    assert landed(flows.server, *((where[id], id) for id in ids)) == set(ids[:place])
    assert counter(flows.server, orders, P) == (4 if place else None)
    assert Jobs(flows.server).state(orders, P) == ("awaiting_children" if place else "absent")
    for id in ids[1:place]:
        assert Jobs(flows.server).state(where[id], id) == "pending"  # landed children stay claimable
        assert row(flows.server, where[id], id)[b"parent_policy"] == (b"id" if id == C else b"fp")


@pytest.mark.parametrize("which, error", [("cut", Unreachable), ("lost", ReplyLost)])
@pytest.mark.parametrize("place", range(1, 10))
def test_an_add_across_queues_stopped_at_any_round_trip_is_made_whole_by_the_same_add(
    flows: Flows, queues: Callable[..., str], place: int, which: str, error: type[EmqError]
) -> None:
    orders, labels, emails = queues("orders"), queues("labels"), queues("emails")
    flow = across(labels, emails)
    order = [(orders, P), (labels, A), (orders, B), (emails, C), (labels, D)]
    with fault(flows.server, at(place, which)), pytest.raises(error):
        flows.add(orders, flow)
    answered = place - 1 if which == "cut" else place  # round trips: the hold, then a land and a policy a child
    assert landed(flows.server, *order) == {id for _, id in order[: 1 + answered // 2 if answered else 0]}
    written = [(queue, id) for queue, id in order[1:] if b"parent_policy" in row(flows.server, queue, id)]
    assert written == order[1 : 1 + (answered - 1) // 2]
    flows.add(orders, flow)
    with flows.server.scratch() as untouched:
        Flows(untouched).add(orders, flow)
        assert everything(flows.server) == everything(untouched)


# --- trees ------------------------------------------------------------------------------------------------------------


def tree(labels: str | None = None) -> Flow:
    """P waits for A, Q (who waits for B, and R in another queue who waits for C) and D."""
    return Flow(
        "p",
        [
            Child("a", id=A),
            Child(
                "q",
                id=Q,
                on_failure="ignore",
                children=[Child("b", id=B), Child("r", id=R, queue=labels, children=[Child("c", id=C)])],
            ),
            Child("d", id=D, on_failure="ignore"),
        ],
        id=P,
    )


def test_a_tree_answers_nested_as_it_was_given(flows: Flows, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    added = flows.add(orders, tree(labels))
    assert added.child_ids == (A, Q, D)
    assert added.children[1].child_ids == (B, R)
    assert added.children[1].children[1] == AddedChild(labels, R, (AddedChild(labels, C),))


def test_a_tree_holds_its_inner_nodes_and_links_every_node_to_the_one_above(
    flows: Flows, queues: Callable[..., str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    flows.add(orders, tree(labels))
    server = flows.server
    assert row(server, orders, P) == held_row()
    assert row(server, orders, Q) == held_row(b"q", parent=P, parent_policy="id")
    assert row(server, labels, R) == held_row(b"r", parent=Q, parent_queue=orders, parent_policy="fp")
    assert row(server, orders, A) == child_row(b"a")
    assert row(server, orders, B) == child_row(b"b", parent=Q)
    assert row(server, labels, C) == child_row(b"c", parent=R)  # a node without a queue runs in its parent's
    assert row(server, orders, D) == child_row(b"d", policy=b"id")
    assert [counter(server, queue, id) for queue, id in ((orders, P), (orders, Q), (labels, R))] == [3, 2, 1]
    assert members(server, orders, "pending") == [A, B, D]
    assert members(server, labels, "pending") == [C]


def test_a_tree_goes_depth_first_and_parent_first_and_links_a_node_once_it_is_held(
    flows: Flows, queues: Callable[..., str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    program = flows.add.program(orders, tree(labels))
    replies: list[tuple[Any, ...]] = []
    sent: list[list[tuple[str, str]]] = []
    while hasattr(flush := program.after(replies), "calls"):
        sent.append([(call.verb, call.keys[0].decode()[-14:]) for call in flush.calls])
        replies.append((1,) * len(flush.calls))
    assert sent == [
        [("hold_parent", P)],
        [("enqueue_flow_child", A)],
        [("HSET", A)],
        [("hold_parent", Q)],
        [("HSET", Q)],
        [("enqueue_flow_child", B)],
        [("HSET", B)],
        [("hold_parent", R)],
        [("HSET", R)],
        [("enqueue_flow_child", C)],
        [("HSET", C)],
        [("enqueue_flow_child", D)],
        [("HSET", D)],
    ]


def test_a_tree_of_one_queue_is_not_one_step_either(flows: Flows, queue: str) -> None:
    first = flows.add.program(queue, tree()).after(())
    assert isinstance(first, Flush) and [call.verb for call in first.calls] == ["hold_parent"]
    flows.add(queue, tree())
    assert row(flows.server, queue, R) == held_row(b"r", parent=Q, parent_policy="fp")


@pytest.mark.parametrize("which, error", [("cut", Unreachable), ("lost", ReplyLost)])
@pytest.mark.parametrize("place", range(1, 14))
def test_a_tree_stopped_at_any_round_trip_is_made_whole_by_the_same_add(
    flows: Flows, queues: Callable[..., str], place: int, which: str, error: type[EmqError]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    with fault(flows.server, at(place, which)), pytest.raises(error):
        flows.add(orders, tree(labels))
    order = [(orders, P), (orders, A), (orders, Q), (orders, B), (labels, R), (labels, C), (orders, D)]
    answered = place - 1 if which == "cut" else place  # round trips: the root's, then a land and a link or policy each
    assert landed(flows.server, *order) == {id for _, id in order[: 1 + answered // 2 if answered else 0]}
    flows.add(orders, tree(labels))
    with flows.server.scratch() as untouched:
        Flows(untouched).add(orders, tree(labels))
        assert everything(flows.server) == everything(untouched)


def test_a_foreign_id_deep_in_a_tree_stops_the_walk_there(flows: Flows, queue: str) -> None:
    flow = Flow("p", [Child("q", id=Q, children=[Child("x", id=FOREIGN), Child("y", id=B)]), Child("z", id=C)], id=P)
    with pytest.raises(WrongNamespace, match=FOREIGN):
        flows.add(queue, flow)
    assert landed(flows.server, *((queue, id) for id in (P, Q, B, C))) == {P, Q}


def test_a_tree_of_one_queue_is_released_from_its_leaves_up(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    flows.add(queue, tree())
    order = []
    while (claim := jobs.claim(queue)) is not None:
        order.append(claim.payload)
        jobs.complete(queue, claim)
    assert order.index("c") < order.index("r") < order.index("q") < order.index("p")
    assert sorted(order) == ["a", "b", "c", "d", "p", "q", "r"]


def test_eight_levels_are_a_flow_and_nine_are_not(flows: Flows, queue: str) -> None:
    def levels(count: int) -> Flow:
        node = Child("leaf")
        for _ in range(count - 2):
            node = Child("node", children=[node])
        return Flow("root", [node])

    assert DEEPEST == 8
    flows.add(queue, levels(8))
    with refused_unsent(flows.server, BadFlow, match="flow_too_deep: JOB.{11} is on level 9") as caught:
        flows.add(queue, levels(9))
    assert isinstance(caught[0], BadFlow)
    assert caught[0].reason == "flow_too_deep"
    assert len(caught[0].ids) == 1
    with refused_unsent(flows.server, BadFlow, match="flow_too_deep: JOB.{11} is on level 9"):
        flows.add(queue, levels(DEEPEST_MADE))
    for absurd in (DEEPEST_MADE + 1, 100_000):  # beyond what Python could walk
        with pytest.raises(BadFlow, match=f"flow_too_deep: it has {DEEPEST_MADE + 1} levels"):
            levels(absurd)


# --- deaths -----------------------------------------------------------------------------------------------------------


def test_a_dead_child_fails_its_parent_and_its_siblings_run_on(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    flows.add(queue, Flow("p", [Child("x", id=A), Child("y", id=B)], id=P))
    claim = jobs.claim(queue)
    assert claim is not None
    assert jobs.retry(queue, claim, error=EVERY_BYTE, max_attempts=1) == "dead"
    assert [jobs.state(queue, id) for id in (P, A, B)] == ["dead", "dead", "pending"]
    assert b"last_error" not in row(flows.server, queue, P)
    assert counter(flows.server, queue, P) == 2
    other = jobs.claim(queue)
    assert other is not None
    jobs.complete(queue, other)
    assert jobs.state(queue, P) == "dead"
    assert (flows.children_values(queue, P), flows.ignored_failures(queue, P)) == ({B: B}, {})


def test_an_ignored_death_is_a_satisfied_child(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    flows.add(queue, Flow("p", [Child("x", id=A, on_failure="ignore"), Child("y", id=B)], id=P))
    claim = jobs.claim(queue)
    assert claim is not None
    jobs.retry(queue, claim, error=EVERY_BYTE, max_attempts=1)
    assert flows.dependencies(queue, P) == 1
    read = flows.ignored_failures(queue, P)
    assert read[A].encode("utf-8", "surrogateescape") == EVERY_BYTE
    other = jobs.claim(queue)
    assert other is not None
    jobs.complete(queue, other)
    assert jobs.state(queue, P) == "pending"


@pytest.mark.parametrize("elsewhere", [True, False], ids=["grandparent elsewhere", "grandparent beside"])
def test_a_death_that_kills_an_inner_node_leaves_a_fail_entry_for_the_level_above(
    flows: Flows, queues: Callable[..., str], elsewhere: bool
) -> None:
    orders = queues("orders")
    labels = queues("labels") if elsewhere else orders
    flow = Flow("p", [Child("q", id=Q, queue=labels, on_failure="ignore", children=[Child("x", id=A)])], id=P)
    flows.add(orders, flow)
    jobs = Jobs(flows.server)
    claim = jobs.claim(labels)
    assert claim is not None
    jobs.retry(labels, claim, error="boom", max_attempts=1)
    assert jobs.state(labels, Q) == "dead"
    entry = encode(Failure(orders, P, Q, "id", b"boom"))  # the node's own policy, the same error
    assert everything(flows.server).items(f"emq:{{{labels}}}:flow:outbox".encode()) == (entry,)
    assert jobs.state(orders, P) == "awaiting_children"
    Pump(flows.server, labels).sweep()
    assert jobs.state(orders, P) == "pending"


def test_a_death_that_is_ignored_does_not_climb(flows: Flows, queue: str) -> None:
    flow = Flow("p", [Child("q", id=Q, children=[Child("x", id=A, on_failure="ignore")])], id=P)
    flows.add(queue, flow)
    jobs = Jobs(flows.server)
    claim = jobs.claim(queue)
    assert claim is not None
    jobs.retry(queue, claim, error="boom", max_attempts=1)
    assert jobs.state(queue, Q) == "pending"
    assert everything(flows.server).items(f"emq:{{{queue}}}:flow:outbox".encode()) == ()


def test_a_death_does_not_climb_past_a_node_that_was_revived_in_between(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    flows.add(queue, Flow("p", [Child("q", id=Q, children=[Child("x", id=A)])], id=P))
    claim = jobs.claim(queue)
    assert claim is not None

    def an_operator(flush: Flush[Any]) -> None:
        if flush.calls[0].verb == "HMGET" and flush.calls[0].args[0] == b"state":
            jobs.reprocess(queue, Q)

    with fault(flows.server, an_operator):
        assert jobs.retry(queue, claim, error="boom", max_attempts=1) == "dead"
    assert jobs.state(queue, Q) == "pending"
    assert everything(flows.server).items(f"emq:{{{queue}}}:flow:outbox".encode()) == ()


def test_a_death_that_kills_a_root_has_nowhere_to_climb(flows: Flows, queue: str) -> None:
    flows.add(queue, Flow("p", [Child("x", id=A)], id=P))
    jobs = Jobs(flows.server)
    claim = jobs.claim(queue)
    assert claim is not None
    jobs.retry(queue, claim, error="boom", max_attempts=1)
    assert everything(flows.server).items(f"emq:{{{queue}}}:flow:outbox".encode()) == ()


# --- refused before anything is sent ----------------------------------------------------------------------------------


def nested(*children: Child) -> list[Child]:
    return [Child("inner", id=F, children=list(children))]


BAD_SHAPES: dict[str, tuple[str, Flow, tuple[str, ...]]] = {
    "no children": ("no_children", Flow("p", [], id=P), (P,)),
    "a child twice": ("flow_cycle", Flow("p", [Child("x", id=A), Child("y", id=A)], id=P), (A,)),
    "a child that is its parent": ("flow_cycle", Flow("p", [Child("x", id=P)], id=P), (P,)),
    "a grandchild that is the root": ("flow_cycle", Flow("p", nested(Child("x", id=P)), id=P), (P,)),
    "a grandchild that is its parent": ("flow_cycle", Flow("p", nested(Child("x", id=F)), id=P), (F,)),
    "a grandchild that is its aunt": (
        "flow_cycle",
        Flow("p", [*nested(Child("x", id=A)), Child("y", id=A)], id=P),
        (A,),
    ),
    "a child twice in two queues": (
        "flow_cycle",
        Flow("p", [Child("x", id=A, queue="labels"), Child("y", id=A)], id=P),
        (A,),
    ),
    "two at once": (
        "flow_cycle",
        Flow("p", [Child("x", id=id) for id in (B, A, A, B, C)], id=P),
        (A, B),
    ),
}


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_a_bad_shape_is_refused_before_anything_is_sent(flows: Flows, queue: str, shape: str) -> None:
    reason, flow, ids = BAD_SHAPES[shape]
    with refused_unsent(flows.server, BadFlow, match=f"{reason}: .*Nothing was sent") as caught:
        flows.add(queue, flow)
    assert isinstance(caught[0], BadFlow)
    assert (caught[0].reason, caught[0].ids) == (reason, ids)
    assert all(id in str(caught[0]) for id in ids)


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_an_ill_formed_id_anywhere_in_a_flow_is_refused_before_anything_is_sent(
    flows: Flows, queue: str, id: Any
) -> None:
    makers: tuple[Callable[[], Flow], ...] = (
        lambda: Flow("p", [Child("x")], id=id),
        lambda: Flow("p", [Child("x"), Child("y", id=id)]),
        lambda: Flow("p", [Child("x", children=[Child("y", children=[Child("z", id=id)])])]),
    )
    for make in makers:
        with refused_unsent(flows.server, IllFormedId):
            flows.add(queue, make())
        with refused_unsent(flows.server, IllFormedId):
            flows.add_bulk(queue, [Flow("fine", [Child("x")]), make()])


@pytest.mark.parametrize("name", ["", "a{b", "a}b", "a\0b", b"orders", 7, None])
def test_an_ill_formed_queue_is_refused_before_anything_is_sent(flows: Flows, queue: str, name: Any) -> None:
    fine = Flow("p", [Child("x")])
    for refuse in (
        lambda: flows.add(name, fine),
        lambda: flows.add_bulk(name, [fine]),
        lambda: flows.add_bulk(name, []),
        lambda: flows.children_values(name, P),
        lambda: flows.dependencies(name, P),
        lambda: flows.ignored_failures(name, P),
    ):
        with refused_unsent(flows.server, IllFormedQueue):
            refuse()
    if name is not None:  # a child without a queue runs in its parent's
        with refused_unsent(flows.server, IllFormedQueue):
            flows.add(queue, Flow("p", [Child("x", queue=name)]))


@pytest.mark.parametrize(
    "make",
    [
        *(lambda bad=bad: Flow(bad, [Child("x")]) for bad in (None, 7, True, ["x"], "\ud800")),
        *(lambda bad=bad: Flow("p", [Child(bad)]) for bad in (None, 7, True, ["x"], "\ud800")),
        *(lambda bad=bad: Flow("p", [Child("x", on_failure=bad)]) for bad in ("", "fp", "id", None, True, "FAIL")),
        *(lambda bad=bad: Flow("p", bad) for bad in (None, "xy", b"xy", 7, {"x": 1}, [None], ["x"], [Flow("p", [])])),
        lambda: Flow("p", [Child("x", children="y")]),  # type: ignore[arg-type]
        lambda: Flow("p", (child for child in [Child("x")])),  # type: ignore[arg-type]
    ],
)
def test_a_flow_that_cannot_be_used_is_refused_where_it_is_made(make: Callable[[], Flow]) -> None:
    with pytest.raises(BadArgument, match="Nothing was sent"):
        make()


@pytest.mark.parametrize("flow", [None, "p", Child("x", id=A), {"payload": "p"}], ids=repr)
def test_what_is_no_flow_is_refused_before_anything_is_sent(flows: Flows, queue: str, flow: Any) -> None:
    with refused_unsent(flows.server, BadArgument, match="not a Flow"):
        flows.add(queue, flow)
    with refused_unsent(flows.server, BadArgument, match="not a Flow"):
        flows.add_bulk(queue, [flow])
    with refused_unsent(flows.server, BadArgument, match="flows .* is not a list of flows"):
        flows.add_bulk(queue, 7 if flow is None else "flows")  # type: ignore[arg-type]


def test_one_flow_is_not_a_list_of_flows(flows: Flows, queue: str) -> None:
    with refused_unsent(flows.server, BadArgument, match="is not a list of flows"):
        flows.add_bulk(queue, Flow("p", [Child("x")]))  # type: ignore[arg-type]


# --- a flow is a value ------------------------------------------------------------------------------------------------


def test_flows_are_values_that_no_later_change_of_a_list_reaches() -> None:
    children = [Child("x", id=A)]
    flow = Flow("p", children, id=P)
    children.append(Child("y", id=B))
    assert flow.children == (Child("x", id=A),)
    assert hash(flow) == hash(Flow("p", (Child("x", id=A),), id=P))


def test_the_failure_policy_has_two_names_and_two_tokens() -> None:
    assert [Child("x").policy, Child("x", on_failure="fail").policy, Child("x", on_failure="ignore").policy] == [
        "fp",
        "fp",
        "id",
    ]


# --- in bulk ----------------------------------------------------------------------------------------------------------


def one(parent: str, *children: str, **more: Any) -> Flow:
    return Flow(f"flow {parent}", [Child("x", id=id, **more) for id in children], id=parent)


def test_many_flows_land_in_input_order(flows: Flows, queue: str) -> None:
    bulk = flows.add_bulk(queue, [one(R, C), one(P, A), one(Q, B)])
    assert [flow.parent_id for flow in bulk.landed] == [R, P, Q]
    assert bulk.failed == ()
    assert members(flows.server, queue, "pending") == [A, B, C]


def test_no_flows_are_an_empty_ledger(flows: Flows, queue: str) -> None:
    with wire(flows.server) as sent:
        bulk = flows.add_bulk(queue, [])
    assert (bulk.landed, bulk.failed, sent) == ((), (), [])


def test_a_bulk_is_each_flows_own_add(flows: Flows, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    batch = [tree(labels), one(E, F)]
    bulk = flows.add_bulk(orders, batch)
    with flows.server.scratch() as other:
        assert bulk.landed == tuple(Flows(other).add(orders, flow) for flow in batch)
        assert everything(other) == everything(flows.server)


def test_a_refused_flow_of_one_queue_leaves_nothing_and_the_rest_land(flows: Flows, queue: str) -> None:
    bulk = flows.add_bulk(queue, [one(P, A), one(Q, B, FOREIGN), one(R, C)])
    assert [flow.parent_id for flow in bulk.landed] == [P, R]
    (failed,) = bulk.failed
    assert (failed.index, failed.parent_id, failed.remains, failed.landed_ids) == (1, Q, "absent", ())
    assert isinstance(failed.error, WrongNamespace)
    assert failed.reason == str(failed.error)
    assert landed(flows.server, (queue, Q), (queue, B)) == set()


def test_a_refused_flow_across_queues_leaves_its_parent_held_with_what_had_landed(
    flows: Flows, queues: Callable[..., str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    poison = Flow("q", [Child("x", id=A), Child("y", id=FOREIGN, queue=labels), Child("z", id=B)], id=Q)
    bulk = flows.add_bulk(orders, [poison, one(P, C)])
    assert [flow.parent_id for flow in bulk.landed] == [P]
    (failed,) = bulk.failed
    assert (failed.remains, failed.landed_ids) == ("held", (Q, A))
    assert Jobs(flows.server).state(orders, Q) == "awaiting_children"
    assert landed(flows.server, (orders, A), (orders, B), (labels, FOREIGN)) == {A}
    # The remedy: the same add with the same ids, once the poison is out.
    fine = replace(poison, children=[replace(c, id=D) if c.id == FOREIGN else c for c in poison.children])
    assert flows.add(orders, fine).parent_id == Q


def test_a_foreign_parent_across_queues_leaves_nothing(flows: Flows, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    (failed,) = flows.add_bulk(orders, [one(FOREIGN, A, queue=labels)]).failed
    assert (failed.remains, failed.landed_ids) == ("absent", ())


@pytest.mark.parametrize("shape", BAD_SHAPES)
def test_a_flow_of_bad_shape_is_left_out_and_the_rest_land(flows: Flows, queue: str, shape: str) -> None:
    reason, flow, _ = BAD_SHAPES[shape]
    bulk = flows.add_bulk(queue, [flow, one(R, D, E)])
    assert [added.parent_id for added in bulk.landed] == [R]
    (failed,) = bulk.failed
    assert isinstance(failed.error, BadFlow)
    assert (failed.error.reason, failed.remains) == (reason, "absent")
    assert landed(flows.server, *((queue, id) for id in (P, A, B, C, F))) == set()


@pytest.mark.parametrize("again", [[one(Q, A)], [one(P, B)], [one(Q, P)], [Flow("r", nested(Child("x", id=A)), id=R)]])
def test_an_id_that_an_earlier_flow_of_the_batch_has_leaves_the_later_flow_out(
    flows: Flows, queue: str, again: list[Flow]
) -> None:
    bulk = flows.add_bulk(queue, [one(P, A), *again, one(E, D)])
    assert [flow.parent_id for flow in bulk.landed] == [P, E]
    (failed,) = bulk.failed
    assert isinstance(failed.error, BadFlow)
    assert (failed.error.reason, failed.remains, len(failed.error.ids)) == ("flow_cycle", "absent", 1)
    assert "earlier flow of this batch" in failed.reason


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_one_ill_formed_id_at_any_depth_and_no_flow_of_the_batch_lands(flows: Flows, queue: str, depth: int) -> None:
    # An id is gated where a node is made. One that got past that, in a program made by hand, is gated before any wire.
    node = leaf = Child("x", id=A)
    for level in range(depth - 1):
        node = Child("node", children=[node], id=(Q, R)[level])
    object.__setattr__(leaf, "id", "JOB")
    for bad in (Flow("p", [node], id=P), Flow("p", [node], id=C)):
        batch = (one(D, E), bad, one(B, F))
        program = replace(flows.add_bulk.program(queue, []), args=(queue, batch))
        with refused_unsent(flows.server, IllFormedId):
            program.run()
        with refused_unsent(flows.server, IllFormedId):
            flows.add_bulk(queue, batch)


@pytest.mark.parametrize(
    "place, told, there",  # the hold; A and its policy; B and its policy
    [(2, (), {Q}), (3, (Q,), {Q, A}), (4, (Q, A), {Q, A}), (5, (Q, A), {Q, A, B}), (6, (Q, A, B), {Q, A, B})],
)
def test_a_lost_reply_leaves_a_flow_unknown_and_the_rest_land(
    flows: Flows, queues: Callable[..., str], place: int, told: tuple[str, ...], there: set[str]
) -> None:
    orders, labels = queues("orders"), queues("labels")
    batch = [one(P, C), one(Q, A, B, queue=labels), one(R, D)]
    with fault(flows.server, at(place + 1, "lost")):
        bulk = flows.add_bulk(orders, batch)
    assert [flow.parent_id for flow in bulk.landed] == [P, R]
    (failed,) = bulk.failed
    assert isinstance(failed.error, ReplyLost)
    assert (failed.parent_id, failed.remains, failed.landed_ids) == (Q, "unknown", told)
    assert landed(flows.server, (orders, Q), (labels, A), (labels, B)) == there
    flows.add(orders, batch[1])
    assert counter(flows.server, orders, Q) == 2


def test_a_lost_reply_of_a_flow_of_one_queue_is_unknown_though_it_landed(flows: Flows, queue: str) -> None:
    with fault(flows.server, at(1, "lost")):
        bulk = flows.add_bulk(queue, [one(P, A), one(Q, B)])
    assert [(f.parent_id, f.remains, f.landed_ids) for f in bulk.failed] == [(P, "unknown", ())]
    assert counter(flows.server, queue, P) == 1


def test_a_server_that_is_gone_leaves_every_flow_absent_or_as_it_was(flows: Flows, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    gone = 0

    def from_the_second_call_on(_: object) -> str | None:
        nonlocal gone
        gone += 1
        return "cut" if gone > 1 else None

    with fault(flows.server, from_the_second_call_on):
        bulk = flows.add_bulk(orders, [one(P, A, queue=labels), one(Q, B)])
    assert bulk.landed == ()
    assert [(f.remains, f.landed_ids, type(f.error)) for f in bulk.failed] == [
        ("held", (P,), Unreachable),
        ("absent", (), Unreachable),
    ]


# --- a set that takes the policy inside -------------------------------------------------------------------------------


@pytest.mark.usefixtures("wheel")
def test_a_set_that_declares_policy_tokens_gets_them_in_the_script_and_no_hset_follows(
    flows: Flows, queues: Callable[..., str]
) -> None:
    scripts = {script.name: script for script in flows.server.scripts}
    taking = {
        "enqueue_flow": ("(child_id payload)*n\n", "(child_id payload)*n [(policy)*n]\n"),
        "enqueue_flow_child": (
            "-- argv     child_id payload parent_id parent_queue\n",
            "-- argv     child_id payload parent_id parent_queue [policy]\n",
        ),
        "hold_parent": (
            "-- argv     parent_id payload n\n",
            "-- argv     parent_id payload n [above above_queue policy]\n",
        ),
    }
    for name, (old, new) in taking.items():
        assert old in scripts[name].source
        scripts[name] = type(scripts[name]).parse(scripts[name].source.replace(old, new, 1), scripts[name].path)
    orders, labels = queues("orders"), queues("labels")
    with scratch_for(flows.server, ScriptSet("taking", scripts)) as scratch:
        inside = Flows(scratch)

        def calls(flow: Flow) -> list[tuple[str, tuple[bytes, ...]]]:
            program = inside.add.program(orders, flow)
            replies: list[tuple[Any, ...]] = []
            sent: list[tuple[str, tuple[bytes, ...]]] = []
            while hasattr(flush := program.after(replies), "calls"):
                sent += [(call.verb, call.args) for call in flush.calls]
                replies.append((1,) * len(flush.calls))
            assert program.run()
            return sent

        ((verb, args),) = calls(Flow("p", [Child("x", id=A), Child("y", id=B, on_failure="ignore")], id=P))
        assert (verb, args[-2:]) == ("enqueue_flow", (b"fp", b"id"))
        sent = calls(tree(labels))
        assert [verb for verb, _ in sent].count("HSET") == 0
        assert [args[3:] for verb, args in sent if verb == "hold_parent"] == [
            (),
            (P.encode(), b"", b"id"),
            (Q.encode(), orders.encode(), b"fp"),
        ]
        assert [args[-1] for verb, args in sent if verb == "enqueue_flow_child"] == [b"fp", b"fp", b"fp", b"id"]


# --- the three reads --------------------------------------------------------------------------------------------------


def test_an_unknown_parent_reads_as_empty(flows: Flows, queue: str) -> None:
    with unchanged(flows.server):
        assert flows.children_values(queue, P) == {}
        assert flows.dependencies(queue, P) == 0
        assert flows.ignored_failures(queue, P) == {}


def test_the_reads_are_one_round_trip_each_and_change_nothing(flows: Flows, queue: str) -> None:
    flows.add(queue, one(P, A, B))
    for read in (flows.children_values, flows.dependencies, flows.ignored_failures):
        with unchanged(flows.server), wire(flows.server) as sent:
            read(queue, P)
        assert len([commands for commands in sent if commands[0][0] in (b"HGETALL", b"GET")]) == 1


def test_the_reads_never_read_failed(flows: Flows, queue: str) -> None:
    flows.server.client.hset(f"emq:{{{queue}}}:job:{P}:failed", A, "boom")
    assert (flows.children_values(queue, P), flows.ignored_failures(queue, P)) == ({}, {})


def test_what_is_read_is_lossless_text(flows: Flows, queue: str) -> None:
    for name, read in (("processed", flows.children_values), ("unsuccessful", flows.ignored_failures)):
        flows.server.client.hset(f"emq:{{{queue}}}:job:{P}:{name}", A, EVERY_BYTE)
        assert read(queue, P)[A].encode("utf-8", "surrogateescape") == EVERY_BYTE


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_the_reads_gate_the_parents_id(flows: Flows, queue: str, id: Any) -> None:
    for read in (flows.children_values, flows.dependencies, flows.ignored_failures):
        with refused_unsent(flows.server, IllFormedId):
            read(queue, id)


def test_a_key_of_the_wrong_type_is_said(flows: Flows, queue: str) -> None:
    flows.server.client.set(f"emq:{{{queue}}}:job:{P}:processed", "text")
    with pytest.raises(Refused, match="WRONGTYPE"):
        flows.children_values(queue, P)


def test_what_was_processed_outstanding_and_ignored_adds_up_at_every_step(flows: Flows, queue: str) -> None:
    jobs = Jobs(flows.server)
    children = [Child("x", id=id, on_failure="ignore") for id in (A, B, C, D)]
    flows.add(queue, Flow("p", children, id=P))

    def sums() -> Sequence[int]:
        return (
            len(flows.children_values(queue, P)),
            flows.dependencies(queue, P),
            len(flows.ignored_failures(queue, P)),
        )

    seen = [sums()]
    for place in range(4):
        claim = jobs.claim(queue)
        assert claim is not None
        if place % 2:
            jobs.retry(queue, claim, error="boom", max_attempts=1)
        else:
            jobs.complete(queue, claim)
        seen.append(sums())
    assert seen == [(0, 4, 0), (1, 3, 0), (1, 2, 1), (2, 1, 1), (2, 0, 2)]


def test_the_transitions_spell_a_flow_as_the_dive_prints_it() -> None:
    call = transitions.enqueue_flow("orders", P, b"p", [(A, b"x"), (B, b"y")])
    base = b"emq:{orders}:"
    row_of_p = base + b"job:" + P.encode()
    assert call.keys == (
        row_of_p,
        row_of_p + b":dependencies",
        base + b"pending",
        base + b"job:" + A.encode(),
        base + b"job:" + B.encode(),
    )
    assert call.args == (P.encode(), b"p", b"2", A.encode(), b"x", B.encode(), b"y")


def test_snapshots_of_equal_adds_are_equal(flows: Flows, queue: str) -> None:
    def after_add(server: Server) -> Snapshot:
        Flows(server).add(queue, tree())
        return everything(server)

    with flows.server.scratch() as one_server, flows.server.scratch() as other:
        assert after_add(one_server) == after_add(other)


def test_a_script_that_fails_half_way_leaves_nobody_knows_what(flows: Flows, queue: str) -> None:
    server = flows.server
    server.client.set(keys.job(queue, B), "no row")  # the second child's row cannot be written
    bulk = flows.add_bulk(queue, [Flow("p", [Child("a", id=A), Child("b", id=B)], id=P)])
    (failed,) = bulk.failed
    assert isinstance(failed.error, Refused)
    assert failed.remains == "unknown"
    assert server.client.exists(keys.job(queue, A)), "and something is left indeed"
