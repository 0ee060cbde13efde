"""Every row of the transition table: each reply and the exact keyspace after it. A refusal leaves all keys alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis.exceptions import ResponseError

from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server

PUBLISHED = ScriptSet.load("published")

P, A, B, C = (f"JOB0000000000{digit}" for digit in "PABC")
FOREIGN = "USR0000000000A"
KIND = "EMQKIND job id must be JOB-namespaced"
FAR = 10**14  # milliseconds: a lease or a delay that no test outlives

Zset = frozenset[tuple[str, Any]]


def zset(**scores: float | str) -> Zset:
    return frozenset(scores.items())


def ids(*members: str, score: float | str = 0) -> Zset:
    return frozenset((member, score) for member in members)


def row(state: str, attempts: int, payload: str = "p", **fields: str) -> dict[str, str]:
    return {"state": state, "attempts": str(attempts), "payload": payload, **fields}


@dataclass(frozen=True)
class Room:
    """One queue: its keys by their short names, and the scripts run on them."""

    server: Server
    queue: str

    @property
    def base(self) -> str:
        return f"emq:{{{self.queue}}}:"

    def key(self, short: str) -> str:
        return self.base + short

    def do(self, *command: Any) -> Any:
        return self.server.client.execute_command(*command)

    def write(self, **contents: Any) -> None:
        """Put keys there by hand: a dict is a hash, a frozenset a zset, a list a list, and text a string."""
        for short, value in contents.items():
            key = self.key(short)
            if isinstance(value, dict):
                self.do("HSET", key, *(part for pair in value.items() for part in pair))
            elif isinstance(value, frozenset):
                for member, score in value:
                    self.do("ZADD", key, score, member)
            elif isinstance(value, list):
                self.do("RPUSH", key, *value)
            else:
                self.do("SET", key, value)

    def now(self) -> int:
        seconds, micros = self.do("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def score(self, short: str, member: str) -> float:
        return float(self.do("ZSCORE", self.key(short), member))

    def holds(self) -> dict[str, Any]:
        """Every key of the queue; a score that is no 0 reads `past` or `future`."""
        now = self.now()
        found: dict[str, Any] = {}
        for key in self.do("KEYS", f"{self.base}*"):
            short = _text(key).removeprefix(self.base)
            kind = _text(self.do("TYPE", key))
            if kind == "hash":
                fields, values = self.do("HKEYS", key), self.do("HVALS", key)
                found[short] = {_text(f): _text(v) for f, v in zip(fields, values, strict=True)}
            elif kind == "zset":
                flat = self.do("ZRANGE", key, 0, -1, "WITHSCORES")
                scores = [(_text(m), float(s)) for m, s in zip(flat[::2], flat[1::2], strict=True)]
                found[short] = frozenset((m, 0 if s == 0 else "future" if s > now else "past") for m, s in scores)
            elif kind == "list":
                found[short] = [_text(item) for item in self.do("LRANGE", key, 0, -1)]
            else:
                found[short] = _text(self.do("GET", key))
        return found

    def run(self, name: str, keys: list[str], args: list[Any]) -> Any:
        """Run a script as its header says; short names of keys."""
        encoded = [str(arg).encode("utf-8", "surrogateescape") for arg in args]
        PUBLISHED[name].layout_for([self.key(key).encode() for key in keys], encoded)
        return self.raw(name, keys, encoded)

    def raw(self, name: str, keys: list[str], args: list[Any]) -> Any:
        """Run a script whatever its header says."""
        return _read(self.do("EVAL", PUBLISHED[name].source, len(keys), *map(self.key, keys), *args))

    def refuses(self, text: str, name: str, keys: list[str], args: list[Any], how: str = "run") -> None:
        """The script answers this error and leaves every key as it was."""
        before = self.holds()
        with pytest.raises(ResponseError) as caught:
            getattr(self, how)(name, keys, args)
        assert str(caught.value) == text
        assert self.holds() == before

    def leaves(self, reply: Any, name: str, keys: list[str], args: list[Any]) -> None:
        """The script answers this and leaves every key as it was."""
        before = self.holds()
        assert self.run(name, keys, args) == reply
        assert self.holds() == before


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def _read(reply: Any) -> Any:
    if isinstance(reply, list | tuple):
        return [_read(item) for item in reply]
    return _text(reply) if isinstance(reply, bytes) else reply


@pytest.fixture
def room(server: Server, queue: str) -> Iterator[Room]:
    yield Room(server, queue)


# --- the clock --------------------------------------------------------------------------------------------------------

NOW = 1_704_067_200_987  # milliseconds; the server reads 654 microseconds more


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A queue on a fake server whose clock stands still."""
    with open_server("fake://") as server:
        monkeypatch.setattr(time, "time", lambda: (NOW * 1000 + 654) / 1_000_000)
        room = Room(server, "q")
        assert room.now() == NOW
        yield room


@pytest.mark.parametrize(
    ("name", "keys", "args", "into"),
    [
        ("schedule", [f"job:{B}", "schedule"], [B, "p", "in", 7], "schedule"),
        ("claim", ["pending", "active"], ["job:", 7], "active"),
        ("extend_lock", ["active", f"job:{A}"], [A, 2, 7], "active"),
        ("extend_locks", ["active"], ["", 7, A, 2], "active"),
        ("retry", ["active", "schedule", "dead", f"job:{A}"], [A, 2, 7, 3, "boom", ""], "schedule"),
        ("native_fail", ["active", "schedule", "dead", f"job:{A}"], [A, 2, 7, 3, "boom", ""], "schedule"),
    ],
)
def test_a_deadline_is_the_servers_clock_in_whole_milliseconds_and_the_time_asked_for(
    still: Room, name: str, keys: list[str], args: list[Any], into: str
) -> None:
    still.write(**{f"job:{A}": row("active", 2), "active": ids(A)} if name != "claim" else {"pending": ids(B)})
    bases = {"job:": still.key("job:"), "": still.base}
    still.run(name, keys, [bases.get(arg, arg) for arg in args])
    assert still.score(into, B if name in ("schedule", "claim") else A) == NOW + 7


@pytest.mark.parametrize(
    ("name", "source", "args"), [("promote", "schedule", [10]), ("reap", "active", [])], ids=["promote", "reap"]
)
def test_what_is_due_this_millisecond_is_due_and_the_next_is_not(
    still: Room, name: str, source: str, args: list[int]
) -> None:
    still.write(**{source: zset(**{A: NOW, B: NOW + 1})})
    assert still.run(name, [source, "pending"], [still.base, *args]) == 1
    assert still.holds()["pending"] == ids(A)


# --- enqueue and schedule ---------------------------------------------------------------------------------------------


def test_enqueue_lands_a_row_and_a_place_in_pending(room: Room) -> None:
    assert room.run("enqueue", [f"job:{A}", "pending"], [A, "p"]) == 1
    assert room.holds() == {f"job:{A}": row("pending", 0), "pending": ids(A)}


def test_enqueue_of_a_known_id_answers_0_and_changes_nothing(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 3), "active": ids(A, score=FAR)})
    room.leaves(0, "enqueue", [f"job:{A}", "pending"], [A, "another"])


def test_schedule_counts_a_delay_on_the_clock_of_the_server(room: Room) -> None:
    before = room.now()
    assert room.run("schedule", [f"job:{A}", "schedule"], [A, "p", "in", 7_200_000]) == 1
    assert before <= room.score("schedule", A) - 7_200_000 <= room.now()
    assert room.holds() == {f"job:{A}": row("scheduled", 0), "schedule": ids(A, score="future")}


def test_schedule_takes_a_fixed_time_as_it_comes(room: Room) -> None:
    assert room.run("schedule", [f"job:{A}", "schedule"], [A, "p", "at", 1_704_067_200_123]) == 1
    assert room.score("schedule", A) == 1_704_067_200_123
    assert room.holds() == {f"job:{A}": row("scheduled", 0), "schedule": ids(A, score="past")}


@pytest.mark.parametrize("mode", ["in", "at"])
def test_schedule_with_a_time_that_is_no_number_lands_nothing(room: Room, mode: str) -> None:
    with pytest.raises(ResponseError):
        room.run("schedule", [f"job:{A}", "schedule"], [A, "p", mode, "soon"])
    assert room.holds() == {}


@pytest.mark.parametrize("mode", ["in", "at"])
def test_schedule_of_a_known_id_answers_0_and_changes_nothing(room: Room, mode: str) -> None:
    room.write(**{f"job:{A}": row("dead", 3), "dead": ids(A)})
    room.leaves(0, "schedule", [f"job:{A}", "schedule"], [A, "another", mode, FAR])


@pytest.mark.parametrize("there", [False, True], ids=["no row", "a row"])
def test_a_foreign_id_is_refused_before_the_row_is_looked_for(room: Room, there: bool) -> None:
    if there:
        room.write(**{f"job:{FOREIGN}": row("pending", 0)})
    room.refuses(KIND, "enqueue", [f"job:{FOREIGN}", "pending"], [FOREIGN, "p"])
    room.refuses(KIND, "schedule", [f"job:{FOREIGN}", "schedule"], [FOREIGN, "p", "in", 5])


# --- claim ------------------------------------------------------------------------------------------------------------


def test_claim_of_an_empty_queue_answers_an_empty_list(room: Room) -> None:
    room.leaves([], "claim", ["pending", "active"], [room.key("job:"), 1000])


def test_claim_hands_out_the_smallest_id_with_a_token_and_a_lease(room: Room) -> None:
    room.write(**{f"job:{B}": row("pending", 0, "b"), f"job:{A}": row("pending", 4, "a"), "pending": ids(B, A)})
    before = room.now()
    assert room.run("claim", ["pending", "active"], [room.key("job:"), FAR]) == [A, "a", 5]
    assert before <= room.score("active", A) - FAR <= room.now()
    assert room.holds() == {
        f"job:{A}": row("active", 5, "a"),
        f"job:{B}": row("pending", 0, "b"),
        "pending": ids(B),
        "active": ids(A, score="future"),
    }


def test_claim_orders_ids_by_their_bytes_digits_before_capitals_before_small_letters(room: Room) -> None:
    small, capital, digit = (f"JOB0000000000{last}" for last in "aA9")
    room.write(pending=ids(small, capital, digit), **{f"job:{i}": row("pending", 0) for i in (small, capital, digit)})
    claimed = [room.run("claim", ["pending", "active"], [room.key("job:"), FAR])[0] for _ in range(3)]
    assert claimed == [digit, capital, small]


def test_claim_leaves_the_pause_to_its_host(room: Room) -> None:
    room.write(**{f"job:{A}": row("pending", 0), "pending": ids(A), "meta": {"paused": "1"}})
    assert room.run("claim", ["pending", "active"], [room.key("job:"), FAR]) == [A, "p", 1]


def test_claim_with_a_lease_that_is_no_number_takes_nothing(room: Room) -> None:
    room.write(**{f"job:{A}": row("pending", 0), "pending": ids(A)})
    before = room.holds()
    with pytest.raises(ResponseError):
        room.run("claim", ["pending", "active"], [room.key("job:"), "soon"])
    assert room.holds() == before


def test_claim_makes_a_row_without_payload_of_an_id_that_has_none(room: Room) -> None:
    # As published: a ghost in pending becomes a claim (docs/findings.md).
    room.write(pending=ids(A))
    assert room.run("claim", ["pending", "active"], [room.key("job:"), FAR]) == [A, None, 1]
    assert room.holds() == {f"job:{A}": {"state": "active", "attempts": "1"}, "active": ids(A, score="future")}


# --- complete ---------------------------------------------------------------------------------------------------------


FLAT = ["active", f"job:{A}"]
SQ = [*FLAT, f"job:{P}:dependencies", f"job:{P}:processed", f"job:{P}"]
XQ = [*FLAT, "flow:outbox"]


def completion(room: Room, layout: str, token: Any = 1, result: str = "r") -> tuple[list[str], list[Any]]:
    flat = [A, token, room.base]
    return {
        "flat": (FLAT, flat),
        "sq": (SQ, [*flat, P, result]),
        "xq": (XQ, [*flat, P, result, "xq", "orders"]),
    }[layout]


LAYOUTS = pytest.mark.parametrize("layout", ["flat", "sq", "xq"])
DONE = {"metrics:completed": {"count": "1"}}


def test_complete_retires_a_claimed_job_and_counts_it(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 1), "active": zset(**{A: FAR, B: FAR})})
    assert room.run("complete", *completion(room, "flat")) == 1
    assert room.holds() == {"active": ids(B, score="future"), **DONE}


@LAYOUTS
def test_complete_of_a_job_without_a_row_answers_0(room: Room, layout: str) -> None:
    room.write(**{f"job:{P}:dependencies": "2", "active": ids(A, score=FAR)})
    room.leaves(0, "complete", *completion(room, layout))


@LAYOUTS
@pytest.mark.parametrize("token", ["1", "3", "02", "2.0", ""])
def test_complete_compares_tokens_as_text(room: Room, layout: str, token: str) -> None:
    room.write(**{f"job:{A}": row("active", 2), "active": ids(A, score=FAR), f"job:{P}:dependencies": "2"})
    room.refuses("EMQSTALE complete token mismatch", "complete", *completion(room, layout, token))


@LAYOUTS
def test_complete_of_a_reaped_job_retires_it_but_tells_no_parent(room: Room, layout: str) -> None:
    # As published: a child that finishes from pending leaves its parent waiting (docs/findings.md).
    held = {f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "1"}
    room.write(**held, **{f"job:{A}": row("pending", 1, parent=P), "pending": ids(A, B)})
    assert room.run("complete", *completion(room, layout)) == 1
    assert room.holds() == {**held, "pending": ids(B), **DONE}


@pytest.mark.parametrize("where", ["schedule", "dead"])
def test_complete_of_a_job_elsewhere_deletes_the_row_and_leaves_the_id(room: Room, where: str) -> None:
    # As published (docs/findings.md).
    room.write(**{f"job:{A}": row(where, 1), where: ids(A)})
    assert room.run("complete", *completion(room, "flat")) == 1
    assert room.holds() == {where: ids(A), **DONE}


def test_complete_of_a_child_records_its_result_and_counts_down(room: Room) -> None:
    held = {f"job:{P}": row("awaiting_children", 0)}
    room.write(**held, **{f"job:{P}:dependencies": "2", f"job:{A}": row("active", 1, parent=P), "active": ids(A)})
    assert room.run("complete", *completion(room, "sq")) == 1
    assert room.holds() == {**held, f"job:{P}:dependencies": "1", f"job:{P}:processed": {A: "r"}, **DONE}


def test_complete_of_the_last_child_releases_the_parent(room: Room) -> None:
    room.write(**{f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "1"})
    room.write(**{f"job:{A}": row("active", 1, parent=P), "active": ids(A), f"job:{P}:processed": {B: "b"}})
    assert room.run("complete", *completion(room, "sq")) == 1
    assert room.holds() == {
        f"job:{P}": row("pending", 0),
        f"job:{P}:dependencies": "0",
        f"job:{P}:processed": {A: "r", B: "b"},
        "pending": ids(P),
        **DONE,
    }


def test_complete_of_a_child_too_many_releases_again(room: Room) -> None:
    # At or below zero, as published: the counter is the only witness (docs/findings.md).
    room.write(**{f"job:{A}": row("active", 1, parent=P), "active": ids(A)})
    assert room.run("complete", *completion(room, "sq")) == 1
    assert room.holds() == {
        f"job:{P}": {"state": "pending"},
        f"job:{P}:dependencies": "-1",
        f"job:{P}:processed": {A: "r"},
        "pending": ids(P),
        **DONE,
    }


@pytest.mark.parametrize("result", ["", "a\0b", "\udcff\udc80 \r\n", "é"])
def test_complete_of_a_cross_queue_child_leaves_a_signal_and_not_a_touch(room: Room, result: str) -> None:
    here = {f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "1"}
    room.write(**here, **{f"job:{A}": row("active", 1, parent=P), "active": ids(A), "flow:outbox": ["first"]})
    assert room.run("complete", *completion(room, "xq", result=result)) == 1
    assert room.holds() == {**here, "flow:outbox": ["first", f"orders\0{P}\0{A}\0{result}"], **DONE}


# --- retry ------------------------------------------------------------------------------------------------------------


FAIL = ["active", "schedule", "dead", f"job:{A}"]
FAIL_SQ = [*FAIL, f"job:{P}:failed", f"job:{P}:unsuccessful", f"job:{P}:dependencies", f"job:{P}"]
FAIL_XQ = [*FAIL, "flow:outbox"]


def failure(
    room: Room, leg: str, token: Any = 2, max: Any = 2, error: str = "boom", delay: Any = FAR
) -> tuple[list[str], list[Any]]:
    flat = [A, token, delay, max, error, room.base]
    if leg == "flat":
        return FAIL, flat
    if leg.startswith("sq"):
        return FAIL_SQ, [*flat, leg, P]
    return FAIL_XQ, [*flat, leg, "orders", P]


LEGS = pytest.mark.parametrize("leg", ["flat", "sq:fp", "sq:id", "xq:fp", "xq:id"])
FAILED = {"metrics:failed": {"count": "1"}}
DEAD_A = {f"job:{A}": row("dead", 2, last_error="boom")}


def claimed(room: Room, where: str = "active", /, **more: Any) -> None:
    room.write(**{f"job:{A}": row(where, 2), where: ids(A, score=FAR if where == "active" else 0)}, **more)


@LEGS
@pytest.mark.parametrize("where", ["active", "pending"])
def test_retry_below_the_maximum_schedules_and_leaves_the_parent_alone(room: Room, leg: str, where: str) -> None:
    held = {f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "1"}
    claimed(room, where, **held)
    before = room.now()
    assert room.run("retry", *failure(room, leg, max=3, delay=7_200_000)) == "scheduled"
    assert before <= room.score("schedule", A) - 7_200_000 <= room.now()
    assert room.holds() == {
        **held,
        f"job:{A}": row("scheduled", 2, last_error="boom"),
        "schedule": ids(A, score="future"),
    }


@pytest.mark.parametrize("maximum", ["2", "1", "0"])
@pytest.mark.parametrize("where", ["active", "pending"])
def test_retry_at_the_maximum_is_the_death_of_a_job(room: Room, maximum: str, where: str) -> None:
    claimed(room, where)
    assert room.run("retry", *failure(room, "flat", max=maximum)) == "dead"
    assert room.holds() == {**DEAD_A, "dead": ids(A), **FAILED}


def test_retry_compares_attempts_and_maximum_as_numbers(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 9), "active": ids(A)})
    assert room.run("retry", *failure(room, "flat", token=9, max=10)) == "scheduled"


@LEGS
def test_retry_of_a_job_without_a_row_is_refused(room: Room, leg: str) -> None:
    room.write(active=ids(A, score=FAR), **{f"job:{P}:dependencies": "1"})
    room.refuses("EMQSTALE job gone", "retry", *failure(room, leg))


@LEGS
@pytest.mark.parametrize("token", ["1", "3", "02", ""])
def test_retry_compares_tokens_as_text(room: Room, leg: str, token: str) -> None:
    claimed(room, **{f"job:{P}:dependencies": "1"})
    room.refuses("EMQSTALE retry token mismatch", "retry", *failure(room, leg, token))


@pytest.mark.parametrize(("delay", "maximum"), [("soon", "3"), ("5", "often")])
def test_a_failure_with_a_number_that_is_none_changes_nothing(room: Room, delay: str, maximum: str) -> None:
    claimed(room)
    before = room.holds()
    for name in ("retry", "native_fail"):
        with pytest.raises(ResponseError):
            room.run(name, *failure(room, "flat", max=maximum, delay=delay))
        assert room.holds() == before


@pytest.mark.parametrize("where", ["active", "pending"])
def test_a_death_under_fp_fails_the_parent_and_leaves_the_counter(room: Room, where: str) -> None:
    claimed(room, where, **{f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "2"})
    assert room.run("retry", *failure(room, "sq:fp")) == "dead"
    assert room.holds() == {
        **DEAD_A,
        f"job:{P}": row("dead", 0),
        f"job:{P}:dependencies": "2",
        f"job:{P}:failed": {A: "boom"},
        "dead": ids(A, P),
        **FAILED,
    }


def test_a_death_under_fp_takes_a_released_parent_out_of_pending(room: Room) -> None:
    claimed(room, **{f"job:{P}": row("pending", 0), "pending": ids(P, B), f"job:{P}:failed": {A: "earlier"}})
    assert room.run("retry", *failure(room, "sq:fp")) == "dead"
    assert room.holds() == {
        **DEAD_A,
        f"job:{P}": row("dead", 0),
        # As published: a plain HSET, so a second death of a child overwrites the first (docs/findings.md).
        f"job:{P}:failed": {A: "boom"},
        "dead": ids(A, P),
        "pending": ids(B),
        **FAILED,
    }


@pytest.mark.parametrize("where", ["active", "pending"])
def test_a_death_under_id_counts_as_a_satisfied_child(room: Room, where: str) -> None:
    held = {f"job:{P}": row("awaiting_children", 0)}
    claimed(room, where, **held, **{f"job:{P}:dependencies": "2"})
    assert room.run("retry", *failure(room, "sq:id")) == "dead"
    assert room.holds() == {
        **DEAD_A,
        **held,
        f"job:{P}:dependencies": "1",
        f"job:{P}:unsuccessful": {A: "boom"},
        "dead": ids(A),
        **FAILED,
    }


def test_the_last_death_under_id_releases_the_parent(room: Room) -> None:
    claimed(room, **{f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "1"})
    assert room.run("retry", *failure(room, "sq:id")) == "dead"
    assert room.holds() == {
        **DEAD_A,
        f"job:{P}": row("pending", 0),
        f"job:{P}:dependencies": "0",
        f"job:{P}:unsuccessful": {A: "boom"},
        "dead": ids(A),
        "pending": ids(P),
        **FAILED,
    }


@pytest.mark.parametrize("policy", ["fp", "id"])
@pytest.mark.parametrize("where", ["active", "pending"])
@pytest.mark.parametrize("error", ["boom", "", "a\0b\0c", "\udcff\n"])
def test_a_death_across_queues_leaves_a_fail_entry(room: Room, policy: str, where: str, error: str) -> None:
    claimed(room, where, **{"flow:outbox": ["first"]})
    assert room.run("retry", *failure(room, f"xq:{policy}", error=error)) == "dead"
    assert room.holds() == {
        f"job:{A}": row("dead", 2, last_error=error),
        "dead": ids(A),
        "flow:outbox": ["first", f"\0fail\0orders\0{P}\0{A}\0{policy}\0{error}"],
        **FAILED,
    }


# --- promote and reap -------------------------------------------------------------------------------------------------


def test_promote_moves_due_jobs_up_to_its_limit_the_earliest_first(room: Room) -> None:
    jobs = {f"job:{i}": row("scheduled", 1) for i in (A, B, C, P)}
    room.write(**jobs, schedule=zset(**{A: 3000, B: 1000, C: 2000, P: FAR}))
    assert room.run("promote", ["schedule", "pending"], [room.base, 2]) == 2
    assert room.holds() == {
        f"job:{A}": row("scheduled", 1),
        f"job:{B}": row("pending", 1),
        f"job:{C}": row("pending", 1),
        f"job:{P}": row("scheduled", 1),
        "schedule": zset(**{A: "past", P: "future"}),
        "pending": ids(B, C),
    }
    assert room.run("promote", ["schedule", "pending"], [room.base, 2]) == 1
    room.leaves(0, "promote", ["schedule", "pending"], [room.base, 2])


def test_reap_takes_back_lapsed_leases_and_keeps_their_attempts(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 3), f"job:{B}": row("active", 1), "active": zset(**{A: 1000, B: FAR})})
    assert room.run("reap", ["active", "pending"], [room.base]) == 1
    assert room.holds() == {
        f"job:{A}": row("pending", 3),
        f"job:{B}": row("active", 1),
        "active": ids(B, score="future"),
        "pending": ids(A),
    }
    room.leaves(0, "reap", ["active", "pending"], [room.base])


@pytest.mark.parametrize(
    ("name", "source", "args"), [("promote", "schedule", [10]), ("reap", "active", [])], ids=["promote", "reap"]
)
def test_an_hour_ago_is_due_and_in_an_hour_is_not(room: Room, name: str, source: str, args: list[int]) -> None:
    now = room.now()
    room.write(**{source: zset(**{A: now - 3_600_000, B: now + 3_600_000})})
    assert room.run(name, [source, "pending"], [room.base, *args]) == 1
    assert room.holds()["pending"] == ids(A)


def test_reap_takes_at_most_a_hundred_in_one_step(room: Room) -> None:
    jobs = [f"JOB{number:011d}" for number in range(103)]
    room.write(active=zset(**{job: 1000 + place for place, job in enumerate(jobs)}))
    assert room.run("reap", ["active", "pending"], [room.base]) == 100
    assert room.holds()["pending"] == ids(*jobs[:100])
    assert room.run("reap", ["active", "pending"], [room.base]) == 3


@pytest.mark.parametrize(
    ("name", "source", "args"), [("promote", "schedule", [10]), ("reap", "active", [])], ids=["promote", "reap"]
)
def test_an_id_without_a_row_gets_a_row_of_one_field(room: Room, name: str, source: str, args: list[int]) -> None:
    # As published (docs/findings.md).
    room.write(**{source: ids(A, score=1000)})
    assert room.run(name, [source, "pending"], [room.base, *args]) == 1
    assert room.holds() == {f"job:{A}": {"state": "pending"}, "pending": ids(A)}


# --- extend_lock and extend_locks -------------------------------------------------------------------------------------


def test_extend_lock_moves_the_deadline_to_a_lease_from_now(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 2), "active": zset(**{A: 1000, B: 1000})})
    before = room.now()
    assert room.run("extend_lock", ["active", f"job:{A}"], [A, 2, FAR]) == 1
    assert before <= room.score("active", A) - FAR <= room.now()
    assert room.holds() == {f"job:{A}": row("active", 2), "active": zset(**{A: "future", B: "past"})}


def test_extend_lock_of_a_job_without_a_row_answers_minus_1(room: Room) -> None:
    room.write(active=ids(A, score=1000))
    room.leaves(-1, "extend_lock", ["active", f"job:{A}"], [A, 2, FAR])


@pytest.mark.parametrize("token", ["1", "3", "02"])
def test_extend_lock_with_another_token_is_refused(room: Room, token: str) -> None:
    room.write(**{f"job:{A}": row("active", 2), "active": ids(A, score=1000)})
    room.refuses("EMQSTALE extend token mismatch", "extend_lock", ["active", f"job:{A}"], [A, token, FAR])


@pytest.mark.parametrize("state", ["pending", "scheduled", "dead"])
def test_extend_lock_puts_a_job_back_into_active_from_anywhere(room: Room, state: str) -> None:
    # As published: nothing looks whether the job is active (docs/findings.md).
    where = {"scheduled": "schedule"}.get(state, state)
    room.write(**{f"job:{A}": row(state, 2), where: ids(A)})
    assert room.run("extend_lock", ["active", f"job:{A}"], [A, 2, FAR]) == 1
    assert room.holds() == {f"job:{A}": row(state, 2), where: ids(A), "active": ids(A, score="future")}


def test_extend_locks_lists_the_lost_in_argument_order_under_one_reading_of_the_clock(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 1), f"job:{B}": row("active", 2), f"job:{P}": row("active", 3)})
    room.write(active=ids(A, B, C, P, score=1000))
    before = room.now()
    pairs = [P, 2, A, 1, C, 1, B, 2]
    assert room.run("extend_locks", ["active"], [room.base, FAR, *pairs]) == [P, C]
    assert before <= room.score("active", A) - FAR <= room.now()
    assert room.score("active", A) == room.score("active", B)
    assert room.holds() == {
        f"job:{A}": row("active", 1),
        f"job:{B}": row("active", 2),
        f"job:{P}": row("active", 3),
        "active": zset(**{A: "future", B: "future", C: "past", P: "past"}),
    }


def test_extend_locks_of_nobody_answers_an_empty_list(room: Room) -> None:
    room.leaves([], "extend_locks", ["active"], [room.base, FAR])


# --- reprocess and remove_job -----------------------------------------------------------------------------------------


def test_reprocess_gives_a_dead_job_another_life_with_its_attempts(room: Room) -> None:
    room.write(**{f"job:{A}": row("dead", 3, last_error="boom", parent=P), "dead": ids(A, B)})
    assert room.run("reprocess", [f"job:{A}", "dead", "pending"], [A]) == 1
    assert room.holds() == {f"job:{A}": row("pending", 3, parent=P), "dead": ids(B), "pending": ids(A)}


def test_reprocess_of_a_job_without_a_row_answers_minus_1(room: Room) -> None:
    room.write(dead=ids(A))
    room.leaves(-1, "reprocess", [f"job:{A}", "dead", "pending"], [A])


def test_reprocess_of_a_job_that_is_not_dead_is_refused(room: Room) -> None:
    room.write(**{f"job:{A}": row("scheduled", 3, last_error="boom"), "schedule": ids(A, score=FAR)})
    room.refuses("EMQSTATE not dead", "reprocess", [f"job:{A}", "dead", "pending"], [A])


REMOVE = [f"job:{A}", "pending", "active", "schedule", "dead", "de:"]


@pytest.mark.parametrize("where", ["pending", "active", "schedule", "dead"])
def test_remove_job_takes_an_id_out_of_every_set_with_its_row_and_logs(room: Room, where: str) -> None:
    room.write(**{f"job:{A}": row(where, 1), f"job:{A}:logs": ["one"], where: ids(A, B, score=FAR)})
    assert room.run("remove_job", REMOVE, [A, ""]) == 1
    assert room.holds() == {where: ids(B, score="future")}


def test_remove_job_looks_in_all_sets_whatever_the_row_says(room: Room) -> None:
    sets = {where: ids(A, B) for where in ("pending", "active", "schedule", "dead")}
    room.write(**{f"job:{A}": row("dead", 1)}, **sets)
    assert room.run("remove_job", REMOVE, [A, ""]) == 1
    assert room.holds() == {where: ids(B) for where in sets}


def test_remove_job_of_a_job_without_a_row_answers_minus_1(room: Room) -> None:
    room.write(pending=ids(A), **{f"job:{A}:logs": ["one"]})
    room.leaves(-1, "remove_job", REMOVE, [A, ""])


def test_remove_job_of_a_locked_job_is_refused(room: Room) -> None:
    room.write(**{f"job:{A}": row("active", 1), "active": ids(A, score=FAR), f"job:{A}:lock": "somebody"})
    room.refuses("EMQLOCK job is locked", "remove_job", REMOVE, [A, ""])


@pytest.mark.parametrize(("holder", "stays"), [(A, False), (B, True)], ids=["its own", "another job's"])
def test_remove_job_deletes_a_dedup_key_only_if_it_is_its_own(room: Room, holder: str, stays: bool) -> None:
    room.write(**{f"job:{A}": row("pending", 0), "pending": ids(A), "de:mail": holder})
    assert room.run("remove_job", [*REMOVE[:5], "de:mail"], [A, "mail"]) == 1
    assert room.holds() == ({"de:mail": B} if stays else {})


def test_remove_job_without_a_dedup_id_touches_no_dedup_key(room: Room) -> None:
    room.write(**{f"job:{A}": row("pending", 0), "pending": ids(A), "de:": A})
    assert room.run("remove_job", REMOVE, [A, ""]) == 1
    assert room.holds() == {"de:": A}


def test_remove_job_leaves_what_a_parent_collected(room: Room) -> None:
    collected: dict[str, Any] = {f"job:{A}:dependencies": "1"}
    collected |= {f"job:{A}:{kind}": {B: kind} for kind in ("processed", "failed", "unsuccessful")}
    room.write(**collected, **{f"job:{A}": row("awaiting_children", 0)})
    assert room.run("remove_job", REMOVE, [A, ""]) == 1
    assert room.holds() == collected


# --- landing flows ----------------------------------------------------------------------------------------------------


def flow(*children: str, parent: str = P) -> tuple[list[str], list[Any]]:
    keys = [f"job:{parent}", f"job:{parent}:dependencies", "pending", *(f"job:{child}" for child in children)]
    pairs = [part for child in children for part in (child, f"payload of {child[-1]}")]
    return keys, [parent, "p", len(children), *pairs]


def test_enqueue_flow_lands_claimable_children_and_a_held_parent(room: Room) -> None:
    assert room.run("enqueue_flow", *flow(A, B, C)) == 3
    assert room.holds() == {
        f"job:{P}": row("awaiting_children", 0),
        f"job:{P}:dependencies": "3",
        **{f"job:{child}": row("pending", 0, f"payload of {child[-1]}", parent=P) for child in (A, B, C)},
        "pending": ids(A, B, C),
    }


@pytest.mark.parametrize(
    ("children", "parent"),
    [((A, B), FOREIGN), ((FOREIGN, A, B), P), ((A, FOREIGN, B), P), ((A, B, FOREIGN), P), ((A, B, "job0000000000"), P)],
    ids=["parent", "first child", "middle child", "last child", "small letters"],
)
def test_enqueue_flow_with_one_foreign_id_lands_nothing(room: Room, children: tuple[str, ...], parent: str) -> None:
    room.write(**{f"job:{A}": row("active", 1), "active": ids(A, score=FAR)})
    room.refuses(KIND, "enqueue_flow", *flow(*children, parent=parent))


def test_enqueue_flow_never_looks_whether_a_row_exists(room: Room) -> None:
    # As published: the same ids again start the flow over, whatever it had reached (docs/findings.md).
    room.write(
        **{
            f"job:{A}": row("active", 2, "old", last_error="boom", parent=B),
            "active": ids(A, score=FAR),
            f"job:{P}": row("dead", 1, "old", last_error="boom"),
            f"job:{P}:dependencies": "-7",
            f"job:{P}:processed": {A: "r"},
        }
    )
    assert room.run("enqueue_flow", *flow(A)) == 1
    assert room.holds() == {
        f"job:{A}": row("pending", 0, "payload of A", last_error="boom", parent=P),
        "active": ids(A, score="future"),
        "pending": ids(A),
        f"job:{P}": row("awaiting_children", 0, last_error="boom"),
        f"job:{P}:dependencies": "1",
        f"job:{P}:processed": {A: "r"},
    }


def test_hold_parent_lands_a_row_in_no_set_and_a_counter(room: Room) -> None:
    assert room.run("hold_parent", [f"job:{P}", f"job:{P}:dependencies"], [P, "p", 12]) == 1
    assert room.holds() == {f"job:{P}": row("awaiting_children", 0), f"job:{P}:dependencies": "12"}


def test_hold_parent_never_looks_whether_a_row_exists(room: Room) -> None:
    room.write(**{f"job:{P}": row("pending", 3, "old"), "pending": ids(P), f"job:{P}:dependencies": "0"})
    assert room.run("hold_parent", [f"job:{P}", f"job:{P}:dependencies"], [P, "p", 1]) == 1
    assert room.holds() == {
        f"job:{P}": row("awaiting_children", 0),
        f"job:{P}:dependencies": "1",
        "pending": ids(P),
    }


def test_enqueue_flow_child_carries_its_parent_and_the_queue_of_the_parent(room: Room) -> None:
    assert room.run("enqueue_flow_child", [f"job:{A}", "pending"], [A, "p", P, "orders"]) == 1
    assert room.holds() == {f"job:{A}": row("pending", 0, parent=P, parent_queue="orders"), "pending": ids(A)}


def test_enqueue_flow_child_beside_its_parent_carries_no_queue(room: Room) -> None:
    assert room.run("enqueue_flow_child", [f"job:{A}", "pending"], [A, "p", P, ""]) == 1
    assert room.holds() == {f"job:{A}": row("pending", 0, parent=P), "pending": ids(A)}


def test_enqueue_flow_child_never_looks_whether_a_row_exists(room: Room) -> None:
    room.write(**{f"job:{A}": row("dead", 3, "old", parent=B, parent_queue="mail"), "dead": ids(A)})
    assert room.run("enqueue_flow_child", [f"job:{A}", "pending"], [A, "p", P, ""]) == 1
    assert room.holds() == {
        f"job:{A}": row("pending", 0, parent=P, parent_queue="mail"),
        "dead": ids(A),
        "pending": ids(A),
    }


def test_a_foreign_parent_or_child_is_refused_on_its_own_slot(room: Room) -> None:
    room.refuses(KIND, "hold_parent", [f"job:{FOREIGN}", f"job:{FOREIGN}:dependencies"], [FOREIGN, "p", 1])
    room.refuses(KIND, "enqueue_flow_child", [f"job:{FOREIGN}", "pending"], [FOREIGN, "p", P, ""])


def test_the_parent_of_a_child_is_data_and_not_gated_by_the_script(room: Room) -> None:
    assert room.run("enqueue_flow_child", [f"job:{A}", "pending"], [A, "p", FOREIGN, "orders"]) == 1


# --- delivering across queues -----------------------------------------------------------------------------------------


def delivery(room: Room, result: str = "r") -> tuple[list[str], list[Any]]:
    return [f"job:{P}:dependencies", f"job:{P}:processed", f"job:{P}"], [A, result, P, room.base]


def death(room: Room, policy: str, error: str = "boom") -> tuple[list[str], list[Any]]:
    keys = [f"job:{P}:dependencies", f"job:{P}:failed", f"job:{P}:unsuccessful", f"job:{P}"]
    return keys, [A, error, policy, room.base, P]


HELD = {f"job:{P}": row("awaiting_children", 0)}


def test_flow_deliver_records_a_result_and_counts_down_once(room: Room) -> None:
    room.write(**HELD, **{f"job:{P}:dependencies": "2"})
    assert room.run("flow_deliver", *delivery(room)) == 1
    assert room.holds() == {**HELD, f"job:{P}:dependencies": "1", f"job:{P}:processed": {A: "r"}}
    room.leaves(1, "flow_deliver", *delivery(room, "another"))


def test_flow_deliver_of_the_last_child_releases_the_parent_once(room: Room) -> None:
    room.write(**HELD, **{f"job:{P}:dependencies": "1"})
    assert room.run("flow_deliver", *delivery(room)) == 1
    released = {f"job:{P}:dependencies": "0", f"job:{P}:processed": {A: "r"}}
    assert room.holds() == {**released, f"job:{P}": row("pending", 0), "pending": ids(P)}
    room.run("claim", ["pending", "active"], [room.key("job:"), FAR])
    room.leaves(1, "flow_deliver", *delivery(room))


def test_flow_deliver_below_zero_releases_too(room: Room) -> None:
    room.write(**HELD, **{f"job:{P}:dependencies": "0"})
    assert room.run("flow_deliver", *delivery(room)) == 1
    assert room.holds()["pending"] == ids(P)


def test_flow_fail_deliver_under_fp_fails_the_parent_once(room: Room) -> None:
    room.write(**{f"job:{P}": row("pending", 0), f"job:{P}:dependencies": "2", "pending": ids(P, B)})
    assert room.run("flow_fail_deliver", *death(room, "fp")) == 1
    assert room.holds() == {
        f"job:{P}": row("dead", 0),
        f"job:{P}:dependencies": "2",
        f"job:{P}:failed": {A: "boom"},
        "dead": ids(P),
        "pending": ids(B),
    }
    room.run("reprocess", [f"job:{P}", "dead", "pending"], [P])
    room.leaves(1, "flow_fail_deliver", *death(room, "fp", "another"))


@pytest.mark.parametrize("policy", ["id", "", "FP", "anything"])
def test_flow_fail_deliver_under_any_other_token_counts_the_child_as_satisfied(room: Room, policy: str) -> None:
    room.write(**HELD, **{f"job:{P}:dependencies": "2"})
    assert room.run("flow_fail_deliver", *death(room, policy)) == 1
    assert room.holds() == {**HELD, f"job:{P}:dependencies": "1", f"job:{P}:unsuccessful": {A: "boom"}}
    room.leaves(1, "flow_fail_deliver", *death(room, policy, "another"))


def test_flow_fail_deliver_of_the_last_child_releases_the_parent(room: Room) -> None:
    room.write(**HELD, **{f"job:{P}:dependencies": "1"})
    assert room.run("flow_fail_deliver", *death(room, "id")) == 1
    assert room.holds() == {
        f"job:{P}": row("pending", 0),
        f"job:{P}:dependencies": "0",
        f"job:{P}:unsuccessful": {A: "boom"},
        "pending": ids(P),
    }


# --- the native commands, as models -----------------------------------------------------------------------------------

NO_FLOW = {"native_complete": "EMQSTATE complete flow not native", "native_fail": "EMQSTATE fail flow not native"}
SHAPE = {
    "native_complete": "EMQSHAPE complete takes 2 keys and id, token, base",
    "native_fail": "EMQSHAPE fail takes 4 keys and id, token, delay, max, error, base",
}
SITUATIONS: dict[str, dict[str, Any]] = {
    "active": {f"job:{A}": row("active", 2), "active": ids(A, score=FAR)},
    "pending": {f"job:{A}": row("pending", 2), "pending": ids(A)},
    "dead": {f"job:{A}": row("dead", 2), "dead": ids(A)},
    "gone": {"active": ids(A, score=FAR)},
    "empty": {},
}


def outcome(room: Room, name: str, keys: list[str], args: list[Any]) -> tuple[Any, dict[str, Any]]:
    """What a script answers and leaves behind, its error as text."""
    reply: Any
    try:
        reply = room.run(name, keys, args)
    except ResponseError as error:
        reply = str(error)
    return reply, room.holds()


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("token", ["2", "1"])
@pytest.mark.parametrize(
    ("name", "native", "maximum"),
    [("complete", "native_complete", None), ("retry", "native_fail", 2), ("retry", "native_fail", 3)],
    ids=["complete", "fail to death", "fail to schedule"],
)
def test_a_native_command_does_and_answers_what_the_flat_script_does(
    server: Server,
    queues: Callable[..., str],
    name: str,
    native: str,
    maximum: int | None,
    token: str,
    situation: str,
) -> None:
    outcomes = []
    for script in (name, native):
        room = Room(server, queues())
        room.write(**SITUATIONS[situation])
        flat = completion(room, "flat", token) if maximum is None else failure(room, "flat", token, maximum)
        outcomes.append(outcome(room, script, *flat))
    assert outcomes[0] == outcomes[1]


def test_a_native_failure_counts_its_delay_on_the_clock_of_the_server(room: Room) -> None:
    claimed(room)
    before = room.now()
    assert room.run("native_fail", *failure(room, "flat", max=3, delay=7_200_000)) == "scheduled"
    assert before <= room.score("schedule", A) - 7_200_000 <= room.now()


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(
    ("name", "keys"),
    [("native_complete", XQ), ("native_complete", SQ), ("native_fail", FAIL_XQ), ("native_fail", FAIL_SQ)],
    ids=["complete, 3 keys", "complete, 5 keys", "fail, 5 keys", "fail, 8 keys"],
)
@pytest.mark.parametrize("arguments", [0, 1, 3, 5, 7, 9])
def test_a_native_command_refuses_a_flow_layout_before_shape_row_and_token(
    room: Room, name: str, keys: list[str], situation: str, arguments: int
) -> None:
    room.write(**SITUATIONS[situation])
    room.refuses(NO_FLOW[name], name, keys, ["x"] * arguments)


@pytest.mark.parametrize("token", ["1", "3"])
def test_a_native_command_says_a_token_is_stale_before_it_says_flow(room: Room, token: str) -> None:
    room.write(**{f"job:{A}": row("active", 2, parent=P), "active": ids(A, score=FAR)})
    room.refuses("EMQSTALE complete token mismatch", "native_complete", *completion(room, "flat", token))
    room.refuses("EMQSTALE retry token mismatch", "native_fail", *failure(room, "flat", token))


@pytest.mark.parametrize("maximum", [2, 3])
@pytest.mark.parametrize("parent", [P, ""])
def test_a_native_command_refuses_a_row_that_carries_parent(room: Room, maximum: int, parent: str) -> None:
    room.write(**{f"job:{A}": row("active", 2, parent=parent), "active": ids(A, score=FAR)})
    room.refuses(NO_FLOW["native_complete"], "native_complete", *completion(room, "flat", 2))
    room.refuses(NO_FLOW["native_fail"], "native_fail", *failure(room, "flat", 2, maximum))


@pytest.mark.parametrize(
    ("name", "keys", "args"),
    [
        *(("native_complete", count, 3) for count in (0, 1, 4, 6)),
        *(("native_complete", 2, count) for count in (0, 2, 4, 5)),
        *(("native_fail", count, 6) for count in (0, 1, 2, 3, 6, 7, 9)),
        *(("native_fail", 4, count) for count in (0, 5, 7, 8)),
    ],
)
def test_a_native_command_calls_any_other_shape_by_its_name(room: Room, name: str, keys: int, args: int) -> None:
    room.write(**{f"job:{A}": row("active", 2), "active": ids(A, score=FAR)})
    room.refuses(SHAPE[name], name, [*FAIL_SQ, "more"][:keys], ["x"] * args, how="raw")
