"""The same random operations on the fake and on a real Valkey: equal answers, and an equal keyspace after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule, run_state_machine_as_test
from watch import FOREIGN, fall_due, lapse

from emqkit.errors import EmqError, Refused
from emqkit.flows import Child, Flow, Flows
from emqkit.ids import encode
from emqkit.jobs import Claim, Jobs
from emqkit.keyspace import digest
from emqkit.native import Native
from emqkit.pump import Pump
from emqkit.servers import Server, open_server
from emqkit.snapshot import Ranked, Snapshot, capture, restore
from emqkit.transitions import ParentLink

ORDERS, LABELS = "orders", "labels"
FAR = 10**12  # milliseconds: a lease or a delay that no run outlives
IDS = [encode(n) for n in range(1, 9)]

queues = st.sampled_from([ORDERS, LABELS])
ids = st.sampled_from(IDS)
any_ids = ids | ids | ids | st.just(FOREIGN)
data = st.binary(max_size=6) | st.sampled_from([b"\0", b"\0fail\0", b"\xff\r\n", b"7", b""]) | st.just("é")
tokens = st.integers(0, 4)
delays = st.sampled_from([0, FAR])
policies = st.sampled_from(["fail", "ignore"])


def child(below: st.SearchStrategy[list[Child]]) -> st.SearchStrategy[Child]:
    return st.builds(Child, data, st.none() | queues, policies, any_ids, below)


leaves = child(st.just([]))
nodes = st.one_of(leaves, leaves, child(st.lists(leaves, min_size=1, max_size=2)))
flows = st.builds(Flow, data, st.lists(nodes, max_size=3), any_ids)


def outcome(do: Callable[[], Any]) -> Any:
    """What came of it, comparable between servers: a server's own words for an error are its own."""
    try:
        return do()
    except Refused as error:
        return (Refused, error.code)
    except EmqError as error:
        return (type(error), str(error))


def contents(snapshot: Snapshot) -> dict[bytes, Any]:
    """Everything there is, scores of active and schedule as past (0) or future (1)."""
    shown: dict[bytes, Any] = {}
    for key, value in snapshot.entries:
        if isinstance(value, Ranked) and key.endswith((b":active", b":schedule")):
            shown[key] = sorted((member, score > snapshot.now) for member, score in value.members)
        else:
            shown[key] = value
    return shown


class Twins(RuleBasedStateMachine):
    """Two servers that are told the same."""

    claims = Bundle("claims")

    def __init__(self, servers: tuple[Server, Server]) -> None:
        super().__init__()
        self.servers = servers

    @initialize()
    def empty(self) -> None:
        for server in self.servers:
            restore(server, Snapshot())

    def both(self, do: Callable[[Server], Any]) -> Any:
        one, other = (outcome(partial(do, server)) for server in self.servers)
        assert repr(one) == repr(other)
        snapshots = [capture(server) for server in self.servers]
        assert contents(snapshots[0]) == contents(snapshots[1])
        assert digest(snapshots[0]) == digest(snapshots[1])
        return one

    # landing

    @rule(queue=queues, id=any_ids, payload=data)
    def enqueue(self, queue: str, id: str, payload: Any) -> None:
        self.both(lambda server: Jobs(server).enqueue(queue, payload, id=id))

    @rule(queue=queues, items=st.lists(st.tuples(any_ids, data), max_size=4))
    def enqueue_many(self, queue: str, items: list[Any]) -> None:
        self.both(lambda server: Jobs(server).enqueue_many(queue, items))

    @rule(queue=queues, id=any_ids, payload=data, delay=delays)
    def enqueue_in(self, queue: str, id: str, payload: Any, delay: int) -> None:
        self.both(lambda server: Jobs(server).enqueue_in(queue, payload, delay, id=id))

    @rule(queue=queues, id=any_ids, payload=data, at=st.sampled_from([0, 1, 2, 10**15]))
    def enqueue_at(self, queue: str, id: str, payload: Any, at: int) -> None:
        self.both(lambda server: Jobs(server).enqueue_at(queue, payload, at, id=id))

    @rule(queue=queues, flow=flows)
    def add(self, queue: str, flow: Flow) -> None:
        self.both(lambda server: Flows(server).add(queue, flow))

    @rule(queue=queues, batch=st.lists(flows, max_size=3))
    def add_bulk(self, queue: str, batch: list[Flow]) -> None:
        self.both(lambda server: Flows(server).add_bulk(queue, batch))

    # a job's life

    @rule(queue=queues, target=claims)
    def claim(self, queue: str) -> Any:
        claim = self.both(lambda server: Jobs(server).claim(queue, FAR))
        return claim if isinstance(claim, Claim) else multiple()

    @rule(claim=claims, result=st.none() | data)
    def complete(self, claim: Claim, result: Any) -> None:
        self.both(lambda server: Jobs(server).complete(claim.queue, claim, result=result))

    @rule(claim=claims, error=data, max_attempts=st.integers(1, 3), delay=delays)
    def retry(self, claim: Claim, error: Any, max_attempts: int, delay: int) -> None:
        self.both(
            lambda server: Jobs(server).retry(
                claim.queue, claim, error=error, max_attempts=max_attempts, delay_ms=delay
            )
        )

    @rule(queue=queues, id=any_ids, token=tokens, result=data)
    def complete_by_hand(self, queue: str, id: str, token: int, result: Any) -> None:
        self.both(lambda server: Jobs(server).complete(queue, id, token, result))

    @rule(queue=queues, id=any_ids, token=tokens, error=data)
    def kill_by_hand(self, queue: str, id: str, token: int, error: Any) -> None:
        self.both(lambda server: Jobs(server).retry(queue, id, token, error=error, max_attempts=1))

    @rule(queue=queues, id=any_ids, token=tokens)
    def extend_lock(self, queue: str, id: str, token: int) -> None:
        self.both(lambda server: Jobs(server).extend_lock(queue, id, token, lease_ms=FAR))

    @rule(queue=queues, pairs=st.lists(st.tuples(any_ids, tokens), max_size=4))
    def extend_locks(self, queue: str, pairs: list[Any]) -> None:
        self.both(lambda server: Jobs(server).extend_locks(queue, pairs, lease_ms=FAR))

    # time, operators, the Pump

    @rule(queue=queues, what=st.sampled_from([lapse, fall_due]))
    def time_goes_by(self, queue: str, what: Callable[[Server, str], None]) -> None:
        self.both(lambda server: what(server, queue))

    @rule(queue=queues)
    def reap(self, queue: str) -> None:
        self.both(lambda server: Jobs(server).reap(queue))

    @rule(queue=queues)
    def promote(self, queue: str) -> None:
        self.both(lambda server: Jobs(server).promote(queue))

    @rule(queue=queues)
    def sweep(self, queue: str) -> None:
        self.both(lambda server: Pump(server, queue).sweep())

    @rule(queue=queues, entry=st.binary(max_size=8))
    def poison(self, queue: str, entry: bytes) -> None:
        self.both(lambda server: server.client.rpush(f"emq:{{{queue}}}:flow:outbox", entry))

    @rule(queue=queues)
    def set_aside(self, queue: str) -> None:
        self.both(lambda server: server.client.lpop(f"emq:{{{queue}}}:flow:outbox"))

    @rule(queue=queues, id=any_ids)
    def reprocess(self, queue: str, id: str) -> None:
        self.both(lambda server: Jobs(server).reprocess(queue, id))

    @rule(queue=queues, id=any_ids)
    def remove(self, queue: str, id: str) -> None:
        self.both(lambda server: Jobs(server).remove(queue, id))

    @rule(queue=queues, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause(self, queue: str, verb: str) -> None:
        self.both(lambda server: getattr(Jobs(server), verb)(queue))

    # looking, and the models of the native commands

    @rule(queue=queues, id=any_ids)
    def look(self, queue: str, id: str) -> None:
        def read(server: Server) -> Any:
            jobs, flows = Jobs(server), Flows(server)
            return (
                jobs.state(queue, id),
                jobs.depths(queue),
                jobs.paused(queue),
                sorted(flows.children_values(queue, id).items()),
                flows.dependencies(queue, id),
                sorted(flows.ignored_failures(queue, id).items()),
            )

        self.both(read)

    @rule(
        queue=queues,
        id=any_ids,
        token=tokens,
        parent=st.none() | st.builds(ParentLink, any_ids, st.none() | queues, st.sampled_from(["fp", "id"])),
    )
    def native(self, queue: str, id: str, token: int, parent: ParentLink | None) -> None:
        self.both(lambda server: Native(server).complete(queue, id, token, parent=parent))
        self.both(lambda server: Native(server).fail(queue, id, token, error="e", delay_ms=FAR, parent=parent))


@pytest.fixture
def twins(embedded_server: Server) -> Iterator[tuple[Server, Server]]:
    with open_server("fake://") as fake, embedded_server.scratch() as real:
        yield fake, real


def test_the_fake_and_a_real_server_never_differ(twins: tuple[Server, Server]) -> None:
    run_state_machine_as_test(
        lambda: Twins(twins),  # type: ignore[arg-type]  # hypothesis asks for a class and calls it, no more
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )


def test_a_difference_would_be_seen(twins: tuple[Server, Server]) -> None:
    fake, real = twins
    machine = Twins(twins)
    machine.empty()
    machine.enqueue(ORDERS, IDS[0], b"x")
    real.client.hset(f"emq:{{{ORDERS}}}:job:{IDS[0]}", "payload", "y")
    with pytest.raises(AssertionError):
        machine.look(ORDERS, IDS[0])  # the same answers, and another keyspace
    fake.client.hset(f"emq:{{{ORDERS}}}:job:{IDS[0]}", "payload", "y")
    machine.look(ORDERS, IDS[0])
    real.client.zrem(f"emq:{{{ORDERS}}}:pending", IDS[0])
    with pytest.raises(AssertionError):
        machine.claim(ORDERS)
