"""A snapshot is everything a keyspace holds: captured, compared part by part, and put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watch import EVERY_BYTE, A, B, P

from emqkit.errors import Refused, Unreachable
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.servers import Server
from emqkit.snapshot import (
    Change,
    Hash,
    Items,
    Members,
    Ranked,
    Snapshot,
    Text,
    Timeline,
    Value,
    capture,
    diff,
    restore,
)
from emqkit.wire import ErrorReply

# Scores that a double holds exactly, as ours are; the servers print others in digits of their own.
odd_scores = st.sampled_from([0.5, -0.25, 1e14 + 0.5, float("inf"), float("-inf")])
scores = st.integers(-(2**53), 2**53).map(float) | odd_scores
texts = st.binary(max_size=8).map(Text)
hashes = st.dictionaries(st.binary(max_size=4), st.binary(max_size=4), min_size=1).map(
    lambda fields: Hash(tuple(sorted(fields.items())))
)
lists = st.lists(st.binary(max_size=4), min_size=1, max_size=6).map(lambda items: Items(tuple(items)))
zsets = st.dictionaries(st.binary(max_size=4), scores, min_size=1).map(
    lambda members: Ranked(tuple(sorted(members.items(), key=lambda member: (member[1], member[0]))))
)
values: st.SearchStrategy[Value] = st.one_of(texts, hashes, lists, zsets)
names = st.sampled_from([b"emq:{q}:a", b"emq:{q}:b", b"emq:{r}:a", b"emq:\xff\0", b"emq:{q}:job:x"])
snapshots = st.dictionaries(names, values, max_size=5).map(lambda keys: Snapshot(tuple(sorted(keys.items()))))


@pytest.fixture
def server(private_server: Server) -> Server:
    """One of our own: a restore takes away whatever else there is."""
    return private_server


# Every example restores the whole keyspace, so a server shared by the examples carries nothing from one to the next.
on_a_server = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def apply(changes: tuple[Change, ...], before: Snapshot) -> dict[bytes, dict[bytes | None, bytes]]:
    """The parts of a keyspace after these changes."""
    parts = {key: dict(_parts(value)) for key, value in before.keys.items()}
    for change in changes:
        held = parts.setdefault(change.key, {})
        if change.after is None:
            assert held.pop(change.part) == change.before
        else:
            assert held.get(change.part) == change.before
            held[change.part] = change.after
    return {key: held for key, held in parts.items() if held}


def _parts(value: Value) -> list[tuple[bytes | None, bytes]]:
    if isinstance(value, Text):
        return [(None, value.value)]
    if isinstance(value, Hash):
        return list(value.fields)
    if isinstance(value, Ranked):
        return [(m, b"%d" % s if s.is_integer() else repr(s).encode()) for m, s in value.members]
    assert isinstance(value, Items)
    return [(b"%d" % place, item) for place, item in enumerate(value.items)]


# --- capture and restore ----------------------------------------------------------------------------------------------


@on_a_server
@given(before=snapshots, snapshot=snapshots)
def test_what_is_restored_is_captured_again(server: Server, before: Snapshot, snapshot: Snapshot) -> None:
    restore(server, before)
    restore(server, snapshot)
    assert capture(server) == snapshot


@on_a_server
@given(before=snapshots, snapshot=snapshots)
def test_a_restore_that_knows_what_is_there_ends_the_same(server: Server, before: Snapshot, snapshot: Snapshot) -> None:
    restore(server, before)
    restore(server, snapshot, current=before)
    assert capture(server) == snapshot


def test_a_restore_that_knows_what_is_there_leaves_equal_keys_alone(server: Server, queue: str) -> None:
    Flows(server).add(queue, Flow("p", [Child("x", id=A)], id=P))
    before = capture(server)
    server.client.set("emq:{stranger}:x", "written since")
    restore(server, Snapshot(before.entries), current=before)
    assert server.client.get("emq:{stranger}:x") == b"written since"
    restore(server, before)
    assert capture(server) == before


def test_a_whole_flow_is_restored_and_runs_on(server: Server, queue: str) -> None:
    flows, jobs = Flows(server), Jobs(server)
    flows.add(queue, Flow("p", [Child(EVERY_BYTE, id=A), Child("y", id=B)], id=P))
    claim = jobs.claim(queue)
    assert claim is not None
    middle = capture(server)
    jobs.complete(queue, claim)
    restore(server, middle)
    assert capture(server) == middle
    jobs.complete(queue, claim, result=EVERY_BYTE)
    assert flows.dependencies(queue, P) == 1


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
def test_long_values_are_restored_in_pieces(server: Server, count: int) -> None:
    items = tuple(b"%d" % n for n in range(count))
    snapshot = Snapshot(
        (
            (b"emq:{q}:hash", Hash(tuple(sorted((item, item) for item in items)))),
            (b"emq:{q}:list", Items(items)),
            (b"emq:{q}:zset", Ranked(tuple((item, float(n)) for n, item in enumerate(items)))),
        )
    )
    restore(server, snapshot)
    assert capture(server) == snapshot


def test_a_pattern_narrows_what_is_seen(server: Server, queues: Callable[..., str]) -> None:
    orders, labels = queues("orders"), queues("labels")
    Jobs(server).enqueue(orders, "x")
    Jobs(server).enqueue(labels, "x")
    assert capture(server, f"emq:{{{orders}}}:*".encode()).queues == (orders,)
    assert capture(server).queues == tuple(sorted([orders, labels]))


def test_only_what_fits_the_protocol_is_seen_by_default(server: Server) -> None:
    server.client.set("somebody:else", "x")
    assert capture(server) == Snapshot()
    server.client.delete("somebody:else")


def test_a_plain_set_of_somebody_else_is_seen_too(server: Server) -> None:
    server.client.sadd("emq:{q}:tags", "b", "a")
    assert capture(server).keys == {b"emq:{q}:tags": Members((b"a", b"b"))}
    before = capture(server)
    restore(server, Snapshot())
    restore(server, before)
    assert capture(server) == before


def test_the_servers_time_is_kept_and_takes_no_part_in_equality(server: Server) -> None:
    seconds, _ = server.client.time()
    assert abs(capture(server).now - seconds * 1000) < 3_600_000
    assert Snapshot((), 1) == Snapshot((), 2)
    assert hash(Snapshot((), 1)) == hash(Snapshot((), 2))


def test_a_server_that_is_gone_is_said(server: Server) -> None:
    scratch = server.scratch()
    scratch.close()
    for look in (lambda: capture(scratch), lambda: restore(scratch, Snapshot())):
        with pytest.raises(Unreachable):
            look()


def test_an_error_that_the_server_answers_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "round_trip", lambda flush: (ErrorReply("OOM", "no memory"),))
    for look, name in ((lambda: capture(server), "capture"), (lambda: restore(server, Snapshot()), "restore")):
        with pytest.raises(Refused, match=f"{name} was answered with an error: OOM no memory"):
            look()


# --- looking into one -------------------------------------------------------------------------------------------------


def test_a_key_is_read_as_its_type_and_a_missing_one_as_nothing() -> None:
    snapshot = Snapshot(
        (
            (b"emq:{q}:h", Hash(((b"a", b"1"), (b"b", b"2")))),
            (b"emq:{q}:l", Items((b"x", b"y"))),
            (b"emq:{q}:t", Text(b"7")),
            (b"emq:{q}:z", Ranked(((b"m", 1.0),))),
        )
    )
    assert snapshot.hash(b"emq:{q}:h") == {b"a": b"1", b"b": b"2"}
    assert snapshot.items(b"emq:{q}:l") == (b"x", b"y")
    assert snapshot.text(b"emq:{q}:t") == b"7"
    assert snapshot.ranked(b"emq:{q}:z") == {b"m": 1.0}
    for other in (b"emq:{q}:t", b"nobody"):
        assert (snapshot.hash(other), snapshot.items(other), snapshot.ranked(other)) == ({}, (), {})
    assert (snapshot.text(b"emq:{q}:h"), snapshot.text(b"nobody")) == (None, None)
    fields, ranks = snapshot.keys[b"emq:{q}:h"], snapshot.keys[b"emq:{q}:z"]
    assert isinstance(fields, Hash) and isinstance(ranks, Ranked)
    assert (fields.get(b"a"), fields.get(b"z"), ranks.get(b"m"), ranks.get(b"n")) == (b"1", None, 1.0, None)
    assert [value.type for value in snapshot.keys.values()] == ["hash", "list", "string", "zset"]


def test_a_snapshot_cannot_be_changed(server: Server, queue: str) -> None:
    Jobs(server).enqueue(queue, "x")
    snapshot = capture(server)
    with pytest.raises(TypeError):
        snapshot.keys[b"x"] = Text(b"")  # type: ignore[index]
    assert len({snapshot, capture(server)}) == 1


# --- diff -------------------------------------------------------------------------------------------------------------


@given(snapshots)
def test_nothing_differs_from_itself(snapshot: Snapshot) -> None:
    assert diff(snapshot, snapshot) == ()


@given(snapshots, snapshots)
def test_a_diff_leads_from_one_to_the_other(before: Snapshot, after: Snapshot) -> None:
    changes = [change for change in diff(before, after) if not _is_list(change.key, before, after)]
    same = {key: value for key, value in before.keys.items() if not _is_list(key, before, after)}
    expected = {key: dict(_parts(value)) for key, value in after.keys.items() if not _is_list(key, before, after)}
    assert apply(tuple(changes), Snapshot(tuple(same.items()))) == expected


@given(snapshots, snapshots)
def test_a_diff_is_empty_only_between_equals(before: Snapshot, after: Snapshot) -> None:
    assert (diff(before, after) == ()) == (before == after)


def _is_list(key: bytes, *snapshots: Snapshot) -> bool:
    return any(isinstance(snapshot.keys.get(key), Items) for snapshot in snapshots)


@given(st.lists(st.binary(max_size=1), max_size=6), st.lists(st.binary(max_size=1), max_size=6))
def test_a_list_says_what_left_its_head_and_what_joined_its_tail(old: list[bytes], new: list[bytes]) -> None:
    def holding(items: list[bytes]) -> Snapshot:
        return Snapshot(((b"emq:{q}:l", Items(tuple(items))),) if items else ())

    changes = diff(holding(old), holding(new))
    removed = [change for change in changes if change.kind == "removed"]
    added = [change for change in changes if change.kind == "added"]
    assert len(removed) + len(added) == len(changes)
    assert old[len(removed) :] + [change.after for change in added] == new
    assert [change.before for change in removed] == old[: len(removed)]


def test_each_kind_of_change_is_named() -> None:
    key = b"emq:{q}:h"

    def holding(value: Value | None) -> Snapshot:
        return Snapshot(() if value is None else ((key, value),))

    hash_a, hash_b = Hash(((b"a", b"1"), (b"b", b"2"))), Hash(((b"b", b"3"), (b"c", b"4")))
    assert diff(holding(hash_a), holding(hash_b)) == (
        Change(key, b"a", b"1", None),
        Change(key, b"b", b"2", b"3"),
        Change(key, b"c", None, b"4"),
    )
    assert [change.kind for change in diff(holding(hash_a), holding(hash_b))] == ["removed", "changed", "added"]
    assert diff(holding(None), holding(Text(b"1"))) == (Change(key, None, None, b"1"),)
    assert diff(holding(Ranked(((b"m", 1.0),))), holding(Ranked(((b"m", 2.5),)))) == (Change(key, b"m", b"1", b"2.5"),)
    assert diff(holding(Text(b"1")), holding(Hash(((b"a", b"1"),)))) == (
        Change(key, None, b"1", None),
        Change(key, b"a", None, b"1"),
    )


# --- over time --------------------------------------------------------------------------------------------------------

SOME = st.sampled_from(
    [
        *(Text(b"1"), Text(b"2"), Hash(((b"f", b"1"),)), Hash(((b"f", b"1"), (b"g", b"2"))), Items((b"a", b"b"))),
        *(Items((b"b",)), Ranked(((b"m", 1.0),)), Ranked(((b"m", 2.0), (b"n", 2.0))), Ranked(((b"n", 2.0),)), None),
    ]
)
KEYS = st.sampled_from([b"a", b"b", b"c"])


@given(
    st.dictionaries(KEYS, SOME, max_size=3),
    st.lists(st.dictionaries(KEYS, SOME, max_size=3), max_size=6),
    st.data(),
)
def test_a_place_on_a_timeline_is_the_snapshot_that_it_stands_for(
    start: dict[bytes, Value | None], moves: list[dict[bytes, Value | None]], data: st.DataObject
) -> None:
    contents = {key: value for key, value in start.items() if value is not None}
    plain = [Snapshot(tuple(sorted(contents.items())), 0)]
    timeline = Timeline(plain[0])
    places = [timeline.end]
    for now, move in enumerate(moves, start=1):
        contents = {key: value for key, value in (contents | move).items() if value is not None}
        plain.append(Snapshot(tuple(sorted(contents.items())), now))
        places.append(timeline.move(move, now))
        assert places[-1] is timeline.end
        assert sorted(timeline.known()) == sorted(contents)
        assert timeline.count == len(contents)
    for place, as_it_was in zip(places, plain, strict=True):
        assert (place, place.entries, place.now) == (as_it_was, as_it_was.entries, as_it_was.now)
        assert [place.value(key) for key in (b"a", b"d")] == [as_it_was.value(key) for key in (b"a", b"d")]
    one, other = (data.draw(st.integers(0, len(moves))) for _ in range(2))
    elsewhere = Timeline(plain[other]).end
    expected = plain[one].unlike(plain[other])
    for another in (places[other], plain[other], elsewhere):
        assert places[one].unlike(another) == expected
        assert diff(places[one], another) == diff(plain[one], plain[other])
        assert diff(another, places[one]) == diff(plain[other], plain[one])


def test_what_stays_the_same_is_kept_once() -> None:
    words = [b"w%d" % n for n in range(4)]

    def again(word: bytes) -> bytes:
        return bytes(bytearray(word))

    for old, new in (
        (Items((words[0], words[1])), Items((again(words[1]), words[2]))),
        (Hash(((words[0], words[1]),)), Hash(((again(words[0]), again(words[1])), (words[2], words[3])))),
        (Ranked(((words[0], 1.0),)), Ranked(((again(words[0]), 1.0), (words[2], 2.0)))),
    ):
        timeline = Timeline(Snapshot(((b"k", old),)))
        then, now = (timeline.at(b"k", 0), timeline.move({b"k": new}, 1).value(b"k"))
        assert then is old
        assert now == new
        match now, old:
            case Items(items), Items(kept):
                assert items[0] is kept[1]
            case Hash(fields), Hash(kept):
                assert fields[0] is kept[0]
            case Ranked(members), Ranked(kept):
                assert members[0] is kept[0]
