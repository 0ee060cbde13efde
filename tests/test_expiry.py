"""Keys that run out: they are read and put back, cut into groups, and run out in a search as time would let them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from liars import COUNTER, ORDER, SMALL, beside, sends

from emqkit import keys
from emqkit.keyspace import EXPIRES, Keyspace, Part, digest, groups, moved, parts_of, run_out
from emqkit.servers import Server, open_server
from emqkit.sim import History, World, explore
from emqkit.sim.catalogue import replay
from emqkit.snapshot import Snapshot, Text, capture, restore
from emqkit.wire import Steps, command, operation
from emqkit.words.text import lasting

A, B, C = (keys.subkey("orders", ORDER, name) for name in ("dependencies", "processed", "failed"))


def snapshot(**deadlines: int) -> Snapshot:
    """Three strings, those named here with a deadline."""
    named = {"a": A, "b": B, "c": C}
    entries = tuple(sorted((key, Text(b"1")) for key in named.values()))
    return Snapshot(entries, 1_000, tuple(sorted((named[name], at) for name, at in deadlines.items())))


def the_part(taken: Snapshot, **more: int) -> Part:
    (part,) = parts_of(taken, **more)[0]
    return part


# --- a keyspace -------------------------------------------------------------------------------------------------------


def test_a_time_to_live_is_read_and_put_back(server: Server, queue: str) -> None:
    name, other = keys.queue_key(queue, "x"), keys.queue_key(queue, "y")
    far = int(time.time() * 1000) + 900_000
    server.client.execute_command("SET", name, "1", "PXAT", far)
    server.client.execute_command("HSET", other, "f", "1")
    taken = capture(server, keys.base(queue) + b"*")
    assert taken.deadlines == ((name, far),)
    server.client.execute_command("PERSIST", name)
    server.client.execute_command("PEXPIREAT", other, far)
    now = capture(server, keys.base(queue) + b"*")
    assert now != taken and now.entries == taken.entries
    restore(server, taken, current=now)
    assert capture(server, keys.base(queue) + b"*") == taken
    assert server.client.execute_command("PEXPIRETIME", name) == far
    assert server.client.execute_command("PEXPIRETIME", other) == -1


def test_keys_of_one_deadline_are_a_group_and_groups_have_no_order() -> None:
    together, apart = the_part(snapshot(a=5_000, b=5_000)), the_part(snapshot(a=5_000, b=5_001))
    assert groups(together) == {EXPIRES: {A, B}}
    assert sorted(map(sorted, groups(apart).values())) == [[A], [B]]
    assert apart == the_part(snapshot(a=90_000, b=7_000)) != together
    assert the_part(snapshot(a=5_000, b=5_001), slack_ms=1) == together
    assert the_part(snapshot()) != the_part(snapshot(c=5_000)) != the_part(snapshot(a=5_000))
    assert the_part(Keyspace((apart,)).snapshot, slack_ms=1) == apart  # as made canonical, groups stay apart


def test_a_group_runs_out_whole_and_the_others_stay() -> None:
    part = the_part(snapshot(a=5_000, b=5_000, c=6_000))
    deadline = next(at for at, names in groups(part).items() if A in names)
    later = run_out(part, deadline)
    assert [name for name, _ in later.snapshot.entries] == [C] and groups(later) == {EXPIRES: {C}}
    assert run_out(later, EXPIRES).snapshot.entries == ()
    assert moved(part, "active", "x", 1.0).snapshot.deadlines == part.snapshot.deadlines


def test_a_deadline_is_part_of_a_digest() -> None:
    assert digest(snapshot(a=5_000)) == digest(snapshot(a=6_000)) != digest(snapshot())
    assert digest(snapshot(a=5_000, b=5_000)) != digest(snapshot(a=5_000, b=5_001))


@pytest.mark.parametrize(
    ("ms", "said"),
    [(1, "1 ms"), (399, "400 ms"), (1000, "1 s"), (2_999, "3 s"), (59_998, "1 minute"), (86_399_500, "1 day")],
)
def test_a_duration_is_said_to_two_digits(ms: int, said: str) -> None:
    assert lasting(ms) == said


# --- a search ---------------------------------------------------------------------------------------------------------

RUNS_OUT = sends("PEXPIRE", COUNTER, b"60000")


def test_a_counter_that_runs_out_breaks_the_same_promise_on_both_servers(embedded_server: Server) -> None:
    with open_server("fake://") as fake:
        one, other = explore(RUNS_OUT, server=fake), explore(RUNS_OUT, server=embedded_server)
    assert one.fingerprint == other.fingerprint and one.states == other.states
    history = one.violations[0].history
    told = "In orders the time to live of dependencies of order (1 minute) runs out: gone."
    assert any(sentence.endswith(f". {told}") for sentence in history.sentences)
    assert [v.history.sentences for v in one.violations] == [v.history.sentences for v in other.violations]


def test_such_a_history_is_saved_and_replayed() -> None:
    history: History = explore(RUNS_OUT).violations[0].history
    again = replay(history.as_json(), world=RUNS_OUT)
    assert again.confirmed and again.history.sentences == history.sentences


def test_what_nobody_gives_a_time_to_live_is_explored_as_before(server: Server) -> None:
    if server.kind == "live":
        pytest.skip("worlds are explored in a place of our own")
    result = explore(SMALL, server=server)
    assert (result.word, result.states) == ("holds", 17)


def test_keys_of_no_queue_run_out_too() -> None:
    @dataclass(frozen=True)
    class Lock:
        """Somebody who takes a lock that is no queue's."""

        server: Any

        @operation
        def hold(self) -> Steps[bool]:
            taken = yield from command("SET", [b"lock"], [b"1", b"NX", b"PX", b"60000"], lambda reply: reply)
            return taken is not None

    world: World = beside(lambda kit: Lock(kit.server).hold.program())
    result = explore(world)
    assert (result.word, result.states) == ("holds", 2 * 17)  # with the lock, and without


def test_a_lifetime_that_the_fake_cannot_show_is_unknown(embedded_server: Server) -> None:
    world = sends("SET", keys.queue_key("orders", "x"), b"1", b"PXAT", b"1")
    said = explore(world, server="fake://").verdicts["P9"].reason
    assert "what an operation's SET lets live may be gone on the fake before it is seen" in said
    assert explore(world, server=embedded_server).word == "holds"
