"""The one reading of a snapshot: what is where, what is strange, and what counts as the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from watch import A, B, C, P, lapse

from emqkit import keys
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.keyspace import (
    FUTURE,
    NOW_MS,
    PAST,
    FanIn,
    Keyspace,
    Part,
    Stranger,
    canonical_reply,
    digest,
    home,
    known,
    moved,
    parts_of,
)
from emqkit.outbox import Completion, Failure, Poison, encode
from emqkit.servers import Server
from emqkit.snapshot import Hash, Items, Ranked, Snapshot, Text, Value, capture, restore
from emqkit.wire import Call, ErrorReply, Reply, command

DONE = encode(Completion("orders", P, B, b"picked"))
DIED = encode(Failure("orders", P, C, "fp", b"no stock"))


def snapshot(contents: Mapping[str, Value], now: int = 1_000) -> Snapshot:
    return Snapshot(tuple(sorted((keys.text(key), value) for key, value in contents.items())), now)


def hash_of(**fields: str) -> Hash:
    return Hash(tuple(sorted((name.encode(), value.encode()) for name, value in fields.items())))


def ranked(**members: float) -> Ranked:
    return Ranked(tuple((id.encode(), float(score)) for id, score in members.items()))


@pytest.fixture
def orders() -> Part:
    """A queue with one of everything the protocol has."""
    row = f"emq:{{orders}}:job:{P}"
    return Keyspace.of(
        snapshot(
            {
                "emq:{orders}:pending": ranked(**{A: 0, B: 0}),
                "emq:{orders}:active": ranked(**{C: 2_000}),
                row: hash_of(state="awaiting_children", attempts="0", payload="pack"),
                f"{row}:dependencies": Text(b"2"),
                f"{row}:processed": Hash(((B.encode(), b"picked"),)),
                f"{row}:failed": Hash(((C.encode(), b"no stock"),)),
                f"{row}:unsuccessful": Hash(((A.encode(), b"late"),)),
                f"{row}:logs": Items((b"one", b"two")),
                f"emq:{{orders}}:job:{A}": hash_of(state="pending", attempts="3"),
                "emq:{orders}:flow:outbox": Items((DONE, DIED, b"poison")),
                "emq:{orders}:meta": hash_of(paused="1"),
                "emq:{orders}:metrics:completed": hash_of(count="7"),
                "emq:{stock}:pending": ranked(**{P: 0}),
            }
        )
    )["orders"]


# --- one queue --------------------------------------------------------------------------------------------------------


def test_the_four_sets_give_each_id_its_score_and_an_id_its_places(orders: Part) -> None:
    assert orders.sets == {"pending": {A: 0.0, B: 0.0}, "active": {C: 2_000.0}, "schedule": {}, "dead": {}}
    assert orders.members("active") == {C: 2_000.0}
    assert (orders.places(A), orders.places(P)) == (("pending",), ())
    both = Keyspace.of(snapshot({"emq:{q}:dead": ranked(x=0), "emq:{q}:active": ranked(x=0)}))["q"]
    assert both.places("x") == ("active", "dead")


def test_rows_and_their_states_are_read_by_id_and_a_missing_one_is_none(orders: Part) -> None:
    assert orders.rows == {
        P: {"state": b"awaiting_children", "attempts": b"0", "payload": b"pack"},
        A: {"state": b"pending", "attempts": b"3"},
    }
    assert orders.row(A) == {"state": b"pending", "attempts": b"3"}
    assert orders.row(B) is None
    assert (orders.state(P), orders.state(B)) == ("awaiting_children", None)
    assert orders.ids == {P, A, B, C}


def test_a_parent_is_its_counter_and_its_three_hashes(orders: Part) -> None:
    assert orders.parents == {P: FanIn(b"2", {B: b"picked"}, {A: b"late"}, {C: b"no stock"})}
    assert (orders.counter(P), orders.counter(A)) == (2, None)
    assert orders.hash(P, "processed") == {B: b"picked"}
    assert orders.hash(A, "processed") == {}


@pytest.mark.parametrize("name", ["processed", "failed", "unsuccessful"])
def test_one_hash_alone_makes_a_parent_that_has_no_counter(name: str) -> None:
    part = Keyspace.of(snapshot({f"emq:{{q}}:job:{P}:{name}": Hash(((b"c", b"v"),))}))["q"]
    assert part.parents == {P: FanIn(None, **{name: {"c": b"v"}})}


@pytest.mark.parametrize("value", [Text(b"two"), Text(b""), hash_of(count="2")], ids=repr)
def test_a_counter_that_is_no_number_is_none(value: Value) -> None:
    part = Keyspace.of(snapshot({f"emq:{{q}}:job:{P}:dependencies": value}))["q"]
    assert part.counter(P) is None


def test_logs_outbox_pause_and_counts_are_read_from_the_queues_own_keys(orders: Part) -> None:
    assert orders.logs == {P: (b"one", b"two")}
    assert orders.entries == (DONE, DIED, b"poison")
    assert [type(signal) for signal in orders.signals] == [Completion, Failure, Poison]
    assert orders.paused
    assert orders.counts == {"completed": b"7"}
    assert orders.of(None)["meta"] == hash_of(paused="1")
    assert set(orders.of(P)) == {"row", "dependencies", "processed", "failed", "unsuccessful", "logs"}
    assert orders.strangers == ()


def test_every_list_of_a_queue_keeps_entries_not_its_outbox_alone() -> None:
    part = Keyspace.of(snapshot({"emq:{q}:flow:outbox": Items((b"a",)), "emq:{q}:flow:aside": Items((b"b",))}))["q"]
    assert part.kept == {b"a", b"b"}
    assert part.entries == (b"a",)


def test_a_queue_that_has_other_settings_beside_its_pause_is_paused_and_has_a_stranger() -> None:
    part = Keyspace.of(snapshot({"emq:{q}:meta": hash_of(paused="1", wire="2")}))["q"]
    assert part.paused
    assert [stranger.why for stranger in part.strangers] == ["a hash with fields that the protocol does not give it"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("emq:{q}:pending", Items((b"x",)), "a list where the protocol has a zset"),
        ("emq:{q}:flow:outbox", hash_of(a="b"), "a hash where the protocol has a list"),
        ("emq:{q}:flow:aside", Items((b"x",)), "a list, not one of the protocol's keys"),
        (f"emq:{{q}}:job:{A}", Text(b"x"), "a string where the protocol has a hash"),
        (f"emq:{{q}}:job:{A}:dependencies", hash_of(a="b"), "a hash where the protocol has a string"),
        (f"emq:{{q}}:job:{A}:lock", Text(b"x"), "a string, not one of the protocol's keys"),
        (f"emq:{{q}}:job:{A}:row", hash_of(state="pending"), "a hash, not one of the protocol's keys"),
        (f"emq:{{q}}:job:{A}:", hash_of(state="pending"), "a hash, not one of the protocol's keys"),
        ("emq:{q}:job", Text(b"x"), "a string, not one of the protocol's keys"),
        ("emq:{q}:meta", hash_of(wire="2"), "a hash with fields that the protocol does not give it"),
        ("emq:{q}:metrics:failed", hash_of(sum="2"), "a hash with fields that the protocol does not give it"),
        ("emq:{q}:metrics:completed", Text(b"7"), "a string where the protocol has a hash"),
    ],
)
def test_a_key_of_a_queue_that_is_not_as_the_protocol_has_it_is_a_stranger(key: str, value: Value, why: str) -> None:
    part = Keyspace.of(snapshot({key: value}))["q"]
    assert part.strangers == (Stranger(keys.text(key), value, why),)
    assert (part.rows, part.parents, part.counts, part.entries, part.paused) == ({}, {}, {}, (), False)
    assert part.ids == set()


def test_an_ill_formed_id_is_read_like_any_other() -> None:
    part = Keyspace.of(snapshot({"emq:{q}:job:": hash_of(state="dead"), "emq:{q}:job:\udcff": hash_of(state="dead")}))[
        "q"
    ]
    assert set(part.rows) == {"", "\udcff"}
    assert part.strangers == ()


def test_a_key_is_known_by_its_name_and_by_whose_it_is() -> None:
    parsed = {name: keys.parse(f"emq:{{q}}:{name}".encode()) for name in ("meta", f"job:{A}", f"job:{A}:meta", "row")}
    assert {name: known(at) for name, at in parsed.items() if at} == {
        "meta": True,
        f"job:{A}": True,
        f"job:{A}:meta": False,
        "row": False,
    }


# --- all of them ------------------------------------------------------------------------------------------------------


def test_a_keyspace_has_its_queues_by_name_and_what_is_of_no_queue_apart() -> None:
    taken = snapshot({"emq:{b}:pending": ranked(x=0), "other": Text(b"1"), "emq:{a}:meta": hash_of(paused="1")}, now=5)
    held = Keyspace.of(taken)
    assert [part.queue for part in held.queues] == ["a", "b"]
    assert held.strangers == (Stranger(b"other", Text(b"1"), "a string, not one of the protocol's keys"),)
    assert held["b"].members("pending") == {"x": 0.0}
    assert held["b"].snapshot.now == 5
    assert held["nowhere"] == Part("nowhere", Snapshot())
    assert held.snapshot == taken


def test_a_keyspace_of_nothing_has_no_part() -> None:
    assert Keyspace.of(Snapshot()) == Keyspace(())
    assert (Keyspace(()).queues, Keyspace(()).strangers, Keyspace(()).snapshot) == ((), (), Snapshot())


# --- canonical --------------------------------------------------------------------------------------------------------


def test_canonical_parts_know_past_and_future_only_and_have_no_metrics() -> None:
    taken = snapshot(
        {
            "emq:{q}:active": Ranked(((b"b", 999.0), (b"a", 1_000.0), (b"c", 1_001.0))),
            "emq:{q}:schedule": ranked(d=5),
            "emq:{q}:dead": ranked(e=5),
            "emq:{q}:metrics:completed": hash_of(count="7"),
            "emq:{q}:metrics:mine": hash_of(count="7"),
            "emq:{r}:active": Text(b"x"),
            "other": Ranked(((b"f", 5.0),)),
        },
        now=1_000,
    )
    parts, metrics = parts_of(taken)
    assert metrics == {b"emq:{q}:metrics:completed", b"emq:{q}:metrics:mine"}
    assert [part.queue for part in parts] == ["", "q", "r"]
    assert parts[1].snapshot.entries == (
        (b"emq:{q}:active", Ranked(((b"a", PAST), (b"b", PAST), (b"c", FUTURE)))),
        (b"emq:{q}:dead", ranked(e=5)),
        (b"emq:{q}:schedule", ranked(d=PAST)),
    )
    assert parts[0].snapshot.entries == ((b"other", Ranked(((b"f", 5.0),))),)
    assert parts[2].snapshot.entries == ((b"emq:{r}:active", Text(b"x")),)
    assert {part.snapshot.now for part in parts} == {NOW_MS}
    assert PAST < NOW_MS < FUTURE


def test_equal_parts_hash_alike_and_another_queue_or_score_makes_another_part() -> None:
    one, again = (Part("q", snapshot({"emq:{q}:dead": ranked(x=0)}, now)) for now in (1, 2))
    assert one == again
    assert hash(one) == hash(again)
    assert one != Part("r", one.snapshot)
    assert one != Part("q", snapshot({"emq:{q}:dead": ranked(x=1)}))


def test_a_score_that_is_moved_moves_alone_and_the_set_stays_in_order() -> None:
    taken = {"emq:{q}:active": ranked(a=FUTURE, b=FUTURE), "emq:{q}:schedule": ranked(b=FUTURE)}
    part = Part("q", snapshot(taken))
    lapsed = moved(part, "active", "b", PAST)
    assert lapsed == Part("q", snapshot(taken | {"emq:{q}:active": ranked(b=PAST, a=FUTURE)}))
    assert lapsed.snapshot.now == NOW_MS
    assert moved(part, "active", "nobody", PAST) == part
    assert moved(lapsed, "active", "b", FUTURE) == part


def test_a_part_whose_set_is_of_another_type_is_moved_by_nothing() -> None:
    part = Part("q", snapshot({"emq:{q}:active": Text(b"x")}))
    assert moved(part, "active", "x", PAST) == part


def call(verb: str, *names: bytes) -> Call[Reply]:
    return command(verb, names, (), lambda reply: reply)


def test_calls_are_at_home_in_the_one_queue_whose_keys_they_take() -> None:
    q, r = call("GET", b"emq:{q}:a", b"emq:{q}:b"), call("GET", b"emq:{r}:a")
    assert home([q, q]) == "q"
    assert home([q, r]) is None
    assert home([q, call("GET", b"other")]) is None
    assert home([call("GET", b"other")]) is None
    assert home([]) is None


@pytest.mark.parametrize(
    ("verb", "key", "reply", "canonical"),
    [
        ("ZSCORE", b"emq:{q}:active", b"123", b"a score"),
        ("ZSCORE", b"emq:{q}:schedule", b"123", b"a score"),
        ("ZSCORE", b"emq:{q}:pending", b"0", b"0"),
        ("ZSCORE", b"emq:{q}:active", None, None),
        ("GET", b"emq:{q}:active", b"123", b"123"),
        ("GET", b"k", 7, 7),
        ("claim", b"k", (b"a", b"b"), (b"a", b"b")),
        ("x", b"k", ErrorReply("EMQSTALE", "job gone"), ("error", "EMQSTALE", "job gone")),
        ("x", b"k", ErrorReply("ERR", "at line 7"), ("error", "ERR", "")),
        ("x", b"k", (b"a", ErrorReply("ERR", "at line 7")), (b"a", ("error", "ERR"))),
    ],
)
def test_a_canonical_reply_holds_no_clock_reading_and_no_servers_own_words(
    verb: str, key: bytes, reply: Reply, canonical: object
) -> None:
    assert canonical_reply(call(verb, key), reply) == canonical


# --- fingerprints -----------------------------------------------------------------------------------------------------


def test_equal_contents_have_equal_digests_of_64_hex_digits() -> None:
    one, again = (Snapshot(((b"emq:{q}:a", Text(b"x")), (b"other", Items((b"y",)))), now) for now in (1, 2))
    assert digest(one) == digest(again)
    assert re.fullmatch("[0-9a-f]{64}", digest(one))


def test_a_digest_takes_leases_and_delays_as_past_or_future_only(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "x", id=A)
    jobs.enqueue_in(queue, "y", 10**6, id=B)
    jobs.claim(queue, lease_ms=10**6)
    before = digest(capture(server))
    jobs.extend_lock(queue, A, 1, lease_ms=10**9)
    assert digest(capture(server)) == before
    lapse(server, queue)
    assert digest(capture(server)) != before


def test_a_digest_orders_members_after_telling_past_from_future() -> None:
    key = b"emq:{q}:active"

    def holding(*members: tuple[bytes, float]) -> Snapshot:
        return Snapshot(((key, Ranked(members)),), now=100)

    assert digest(holding((b"a", 101.0), (b"b", 102.0))) == digest(holding((b"b", 101.0), (b"a", 102.0)))
    assert digest(holding((b"a", 99.0), (b"b", 102.0))) != digest(holding((b"b", 99.0), (b"a", 102.0)))
    assert digest(holding((b"a", 100.0))) == digest(holding((b"a", 1.0)))  # a lease at this very instant has lapsed


def test_a_digest_keeps_the_scores_of_pending_and_dead_and_of_nobodys_sets() -> None:
    for name in (b"emq:{q}:pending", b"emq:{q}:dead", b"emq:other"):
        one, other = (Snapshot(((name, Ranked(((b"a", score),))),), now=100) for score in (1.0, 2.0))
        assert digest(one) != digest(other)


def test_a_digest_leaves_metrics_out(server: Server, queue: str) -> None:
    before = digest(capture(server))
    server.client.hincrby(f"emq:{{{queue}}}:metrics:completed", "count", 1)
    server.client.hincrby(f"emq:{{{queue}}}:metrics:failed", "count", 1)
    assert digest(capture(server)) == before


def test_a_digest_renames_queues_in_keys_rows_and_outboxes(private_server: Server, queues: Callable[..., str]) -> None:
    server = private_server  # emptied on the way

    def history() -> str:
        orders, labels = queues("orders"), queues("labels")
        jobs = Jobs(server)
        flow = Flow("p", [Child(id, id=id, queue=labels) for id in (A, B, C)], id=P)
        Flows(server).add(orders, flow)
        for _ in range(2):
            claim = jobs.claim(labels)
            assert claim is not None
            if claim.id == A:
                jobs.complete(labels, claim, result=orders)
            else:
                jobs.retry(labels, claim, error=labels.encode()[:3], max_attempts=1)
        server.client.rpush(f"emq:{{{labels}}}:flow:outbox", "poison")
        taken = capture(server)
        restore(server, Snapshot())
        assert set(taken.queues) == {orders, labels}
        # What a handler gave is data: it is not renamed, whatever it says.
        data = taken.items(f"emq:{{{labels}}}:flow:outbox".encode())[0].rpartition(b"\0")[2]
        assert data == orders.encode()
        entries = [
            encode(Completion(orders, P, A, b"same")),
            encode(Failure(orders, P, B, "fp", b"lab")),
            b"poison",
        ]
        keys = dict(taken.entries) | {f"emq:{{{labels}}}:flow:outbox".encode(): Items(tuple(entries))}
        return digest(Snapshot(tuple(sorted(keys.items())), taken.now), rename={orders: "orders", labels: "labels"})

    assert history() == history()


def test_a_digest_tells_apart_what_only_a_name_differs_in() -> None:
    one, other = (Snapshot(((name, Text(b"x")),)) for name in (b"emq:{a}:x", b"emq:{b}:x"))
    assert digest(one) != digest(other)
    assert digest(one, rename={"a": "c"}) == digest(other, rename={"b": "c"})


def test_nothing_runs_together_in_a_digest() -> None:
    one = Snapshot(((b"emq:{q}:h", Hash(((b"a", b"bc"),))),))
    other = Snapshot(((b"emq:{q}:h", Hash(((b"ab", b"c"),))),))
    assert digest(one) != digest(other)
    assert digest(Snapshot(((b"emq:{q}:h", Text(b"x")),))) != digest(Snapshot(((b"emq:{q}:h", Items((b"x",))),)))
