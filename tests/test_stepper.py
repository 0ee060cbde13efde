"""The stepper tells the truth: what it shows is what one real EVAL from the same start does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import lupa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from emqkit import Child, Flow, Flows, Jobs, Trace, record
from emqkit.errors import BadArgument, ScriptArity
from emqkit.keyspace import digest
from emqkit.scripts import Argument, Group, Item, Layout, Script, ScriptSet, shipped
from emqkit.servers import Server, open_server
from emqkit.servers.embedded import EmbeddedServer
from emqkit.snapshot import Hash, Items, Ranked, Snapshot, Text, Value, capture, restore
from emqkit.stepper import Asked, Line, Moment, ScriptFailure, Stepped, step, step_call
from emqkit.stepper import machine as stepper_machine
from emqkit.stepper.commands import COMMANDS, clock_tokens, withheld
from emqkit.stepper.compare import Clock, key_differences, reply_differences
from emqkit.stepper.machine import Ending, Halt, Job, run_apart, run_here
from emqkit.stepper.result import shown
from emqkit.stepper.run import codec
from emqkit.trace import CallRecord
from emqkit.wire import Call, ErrorReply, Flush, Reply

P, A, B, C = (f"JOB0000000000{letter}" for letter in "PABC")
FOREIGN = "USR0000000000A"
READY = ScriptSet.load("published")
FAR = 10**14  # milliseconds: a lease or a delay that no test outlives


def send(server: Server, verb: str, *args: str | bytes | float) -> Reply:
    """One command; an error is a value."""
    words = tuple(word if isinstance(word, bytes) else str(word).encode() for word in args)
    call: Call[Reply] = Call(verb, (), words, lambda reply: reply, lambda error: BadArgument("", "", ""))
    (reply,) = server.round_trip(Flush((call,)))
    return reply


def evaluate(server: Server, source: str, *keys: str) -> Reply:
    return send(server, "EVAL", source, len(keys), *keys)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every text as if it were the kit's own, in this process and on any server: a sandbox for each takes long."""
    monkeypatch.setattr("emqkit.stepper.run.is_released", lambda text: True)
    monkeypatch.setattr("emqkit.servers.base.is_released", lambda text: True)


@pytest.fixture
def key(queue: str) -> str:
    """A key that nobody else has."""
    return f"emq:{{{queue}}}:k"


def text(*lines: str) -> str:
    return "\n".join(lines)


# --- every script, on arbitrary keyspaces -----------------------------------------------------------------------------


def every_script() -> list[Script]:
    """The kit's scripts, of whatever set, each text once."""
    return [script for script in dict.fromkeys(shipped()) if not script.path.startswith("lua/tools/")]


SETS = ("pending", "active", "schedule", "dead")
STATES = ("pending", "active", "scheduled", "dead", "awaiting_children")
NUMBERS = st.sampled_from(["0", "1", "2", "3"])
WORDS = st.sampled_from(["", "x", "with space", "\0a\0b", "żółw", "12"])


@st.composite
def keyspaces(draw: st.DrawFn, base: str) -> Snapshot:
    """Anything the scripts may find, sound or not."""
    held: dict[str, Value] = {}
    for name in SETS:
        scores = st.sampled_from([1.0, 5.0, FAR + 1.0, FAR + 2.0] if name in ("active", "schedule") else [0.0])
        members = draw(st.dictionaries(st.sampled_from([P, A, B, C]), scores, max_size=4))
        ranked = sorted(((m.encode(), s) for m, s in members.items()), key=lambda member: (member[1], member[0]))
        held[name] = Ranked(tuple(ranked))
    for id in (P, A, B, C):
        fields = draw(
            st.fixed_dictionaries(
                {"state": st.sampled_from(STATES), "attempts": NUMBERS, "payload": WORDS},
                optional={"parent": st.just(P), "last_error": WORDS},
            )
            if draw(st.integers(0, 4))
            else st.just({})
        )
        held[f"job:{id}"] = Hash(tuple(sorted((k.encode(), v.encode()) for k, v in fields.items())))
    for name in ("processed", "failed", "unsuccessful"):
        done = draw(st.dictionaries(st.sampled_from([A, B]), WORDS, max_size=2))
        held[f"job:{P}:{name}"] = Hash(tuple(sorted((k.encode(), v.encode()) for k, v in done.items())))
    held["flow:outbox"] = Items(tuple(draw(st.lists(st.sampled_from([b"one", b"two"]), max_size=2))))
    held["metrics:completed"] = held["metrics:failed"] = Hash(((b"count", b"4"),))
    singles = {f"job:{P}:dependencies": NUMBERS, "de:d": st.sampled_from([A, B]), f"job:{A}:lock": st.just("1")}
    for key, values in singles.items():
        if draw(st.booleans()):
            held[key] = Text(draw(values).encode())
    if draw(st.integers(0, 15)) == 0:
        held[draw(st.sampled_from(sorted(held)))] = Text(b"no number, and of the wrong type")
    full = {name: value for name, value in held.items() if isinstance(value, Text) or _filled(value)}
    return Snapshot(tuple(sorted(((base + name).encode(), value) for name, value in full.items())))


def _filled(value: Value) -> bool:
    return any(getattr(value, name, ()) for name in ("fields", "members", "items"))


@dataclass(frozen=True)
class Drawn:
    """A script call, its keys and arguments as its header asks for."""

    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]


@st.composite
def calls(draw: st.DrawFn, script: Script, layout: Layout, base: str, start: Snapshot) -> Drawn:
    id = draw(st.sampled_from([A, A, B, P]))
    token = start.hash(f"{base}job:{id}".encode()).get(b"attempts", b"1").decode()
    children = draw(st.lists(st.sampled_from([A, B, C, FOREIGN]), min_size=1, max_size=3, unique=True))
    places = {name: name for name in SETS} | {
        "row": f"job:{id}",
        "parent": f"job:{P}",
        "outbox": "flow:outbox",
        "dedup": "de:d",
    }
    places |= {name: f"job:{P}:{name}" for name in ("dependencies", "processed", "failed", "unsuccessful")}
    times = st.sampled_from(["-5000", "5000000", "5000000", str(FAR), str(FAR), "soon"])
    values: dict[str, st.SearchStrategy[str]] = {
        "id": st.just(id),
        "parent_id": st.sampled_from([P, P, P, FOREIGN]),
        "child_id": st.sampled_from([A, B, FOREIGN]),
        "token": st.sampled_from([token, token, token, token, "0", "9"]),
        "base": st.just(base),
        "prefix": st.just(base + "job:"),
        "n": st.just(str(len(children))),
        "lease": times,
        "delay": times,
        "ms": times,
        "max": st.sampled_from(["0", "0", "9"]),
        "limit": NUMBERS,
        "leg": st.sampled_from([f"{layout.name}:fp", f"{layout.name}:id"]),
        "policy": st.sampled_from(["fp", "id", "what"]),
        "dedup_id": st.sampled_from(["", "d"]),
    }

    def filled(items: tuple[Item, ...], one: Callable[[str, int], str]) -> Iterator[str]:
        for item in items:
            if isinstance(item, Argument):
                yield item.name if item.literal else one(item.name, 0)
            elif not item.optional or draw(st.booleans()):
                rounds = {"": 1, "n": len(children)}.get(item.count, draw(st.integers(0, 3)))
                for number in range(rounds):
                    for argument in _arguments(item):
                        yield argument.name if argument.literal else one(argument.name, number)

    def key(name: str, number: int) -> str:
        return base + (f"job:{children[number % len(children)]}" if name == "child" else places.get(name, name))

    def value(name: str, number: int) -> str:
        if name == "child_id" and script.name == "enqueue_flow":
            return children[number]
        if number and name == "id":
            return draw(st.sampled_from([A, B, C]))
        return draw(values.get(name, WORDS))

    return Drawn(
        tuple(word.encode() for word in filled(layout.keys, key)),
        tuple(word.encode() for word in filled(layout.argv, value)),
    )


def _arguments(group: Group) -> Iterator[Argument]:
    yield from group.arguments


def coarse(reply: Reply) -> Reply:
    """An error by its code, or without what a live server adds to it: the texts of servers differ."""
    if isinstance(reply, ErrorReply):
        return ErrorReply(reply.code, reply.text.split(" script: ")[0] if reply.code.startswith("EMQ") else "")
    return reply


@pytest.mark.parametrize("script", every_script(), ids=lambda script: script.path.removesuffix(".lua"))
def test_each_script_of_the_kit_ends_as_it_does_in_one_go(script: Script, server: Server, queue: str) -> None:
    base = f"emq:{{{queue}}}:"
    mine = f"emq:{{{queue}}}:*".encode()

    reached: set[str | None] = set()

    @given(data=st.data())
    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def check(layout: Layout, data: st.DataObject) -> None:
        start = data.draw(keyspaces(base))
        call = data.draw(calls(script, layout, base, start))
        restore(server, start, current=capture(server, mine))
        stepped = step(script, call.keys, call.argv, server)
        assert capture(server, mine) == start  # nothing was written there
        reply = send(server, "EVAL", script.source, len(call.keys), *call.keys, *call.argv)
        after = capture(server, mine)
        assert coarse(stepped.reply) == coarse(reply)
        # What the script did not touch was not copied; the rest is what the server now holds.
        whole = {**start.keys, **stepped.after.keys}
        gone = stepped.before.keys.keys() - stepped.after.keys.keys()
        ours = Snapshot(
            tuple(sorted((key, value) for key, value in whole.items() if key not in gone)), stepped.after.now
        )
        assert digest(ours) == digest(after)
        if not any(asked.args == (b"TIME",) for asked in stepped.asked):
            assert ours == after
        assert stepped.agrees is True, stepped.agreement
        reached.update(line.move for line in stepped.lines)

    # A few keyspaces for every layout, and of the published scripts more, until each move has been stepped through.
    wanted = {move.name for move in script.moves} if script.path.count("/") == 1 else set()
    for number in range(20):
        for layout in script.layouts:
            seed(number)(check)(layout)
        if reached >= wanted:
            break
    assert reached >= wanted


# --- what it shows ----------------------------------------------------------------------------------------------------


@pytest.fixture
def added(server: Server, queue: str) -> Trace:
    """A flow of two children, landed and recorded."""
    return Trace.of(Flows(server).add.program(queue, Flow("order 7", [Child("pick"), Child("label")])), server)


def claim(server: Server, queue: str) -> Stepped:
    base = f"emq:{{{queue}}}:"
    return step(server.scripts["claim"], [base + "pending", base + "active"], [base + "job:", "30000"], server)


def test_a_line_shows_its_move_and_the_locals_before_it_runs(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    source = stepped.source.split("\n")
    line = next(line for line in stepped.lines if source[line.number - 1].startswith("local row ="))
    assert line.move == "take"
    shown = dict(line.locals)
    child = added.initial if not added.steps else added.calls[0].call.args[3].decode()
    assert shown["id"] == f'"{child}"'
    assert shown["popped"] == f'{{"{child}", "0"}}'
    assert "row" not in shown


@pytest.mark.usefixtures("here")
def test_keys_and_arguments_have_the_names_of_the_header(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    assert [name for name, _ in stepped.keys] == ["pending", "active"]
    assert [name for name, _ in stepped.argv] == ["prefix", "lease"]
    assert [value for _, value in step("return 1", ["k"], ["v", 7], server).argv] == [b"v", b"7"]
    assert [name for name, _ in step("return 1", ["k"], ["v", 7], server).argv] == ["ARGV[1]", "ARGV[2]"]


def test_every_call_shows_what_it_changed_and_what_has_changed_so_far(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    assert [asked.args[0] for asked in stepped.asked if asked.diff] == [b"ZPOPMIN", b"HINCRBY", b"HSET", b"ZADD"]
    assert [len(asked.diff_so_far) for asked in stepped.asked if asked.diff] == [1, 2, 3, 4]
    assert stepped.asked[-1].diff_so_far == stepped.diff
    assert [asked.before for asked in stepped.asked[1:]] == [asked.after for asked in stepped.asked[:-1]]
    assert stepped.before == stepped.asked[0].before
    assert stepped.after == stepped.asked[-1].after


@pytest.mark.usefixtures("here")
def test_a_call_belongs_to_the_line_that_made_it(server: Server, key: str) -> None:
    source = text(
        "local function get(key)",
        "  return redis.call('GET', key)",
        "end",
        "-- move: first",
        "redis.call('SET', KEYS[1],",
        "  get(KEYS[1]) or 'none')",
        "-- move: second",
        "return redis.call('APPEND', KEYS[1], get(KEYS[1]))",
    )
    stepped = step(source, [key], [], server)
    assert stepped.reply == 8
    found = [(asked.args[0], asked.line) for asked in stepped.asked]
    assert found == [(b"GET", 2), (b"SET", 5), (b"GET", 2), (b"APPEND", 8)]
    inside = [line.move for line in stepped.lines if line.number == 2]
    assert inside == ["first", "second"]


def test_the_lines_with_their_calls_are_moments(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    assert [moment.line for moment in stepped.moments] == list(stepped.lines)
    assert [asked for moment in stepped.moments for asked in moment.asked] == list(stepped.asked)
    assert stepped.moments[-1].after == stepped.after


def test_no_reading_of_the_clock_is_shown(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    last = dict(stepped.lines[-1].locals)
    assert last["time"] == "{now: seconds, microseconds}"
    assert (last["now"], last["deadline"]) == ("now", "now + 30000")
    told = {asked.args[0]: (asked.call_text, asked.reply_text) for asked in stepped.asked}
    assert told[b"TIME"] == ("TIME", "now")
    assert "(now + 30000)" in told[b"ZADD"][0]
    assert not any(
        character.isdigit()
        for character in stepped.sentence.replace("14 lines", "").replace("6 calls", "").replace("4 changes", "")
    )


EIGHT = "{a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8}"


@pytest.mark.parametrize(
    ("lua", "shown"),
    [
        ("'a\\n\\0\\255\"'", '"a\\n\\0\\xff\\""'),
        ("'\\\\ \\t\\31\\127~'", '"\\\\ \\x09\\x1f\\x7f~"'),
        ("string.rep('x', 72)", f'"{"x" * 72}"'),
        ("string.rep('x', 73)", f'"{"x" * 72}…"'),
        ("string.rep('ż', 60)", '"' + "ż" * 35 + '…"'),
        ("{1, 'b', {true}}", '{1, "b", {true}}'),
        ("{a = 1, b = {{{}}}}", "{a = 1, b = {{…}}}"),
        ("{a = 1, b = {{{}}}, [{{}}] = 2}", "{[{{…}}] = 2, a = 1, b = {{…}}}"),
        ("{{[{}] = {}}}", "{{[{…}] = {…}}}"),
        ("{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}", "{1, 2, 3, 4, 5, 6, 7, 8, … 2 more}"),
        ("{1, 2, 3, 4, 5, 6, 7, 8, a = 9}", "{1, 2, 3, 4, 5, 6, 7, 8, a = 9}"),
        ("{h = 8, g = 7, f = 6, e = 5, d = 4, c = 3, b = 2, a = 1}", EIGHT),
        ("{h = 8, g = 7, f = 6, e = 5, d = 4, c = 3, b = 2, a = 1, i = 9}", f"{EIGHT[:-1]}, … 1 more}}"),
        ("{1, nil, 3}", "{1, [3] = 3}"),
        ("{'a', [0] = 0, [-1] = 1, [1.5] = 2, [true] = 3}", '{"a", [-1] = 1, [0] = 0, [1.5] = 2, [true] = 3}'),
        ("{err = 'EMQX no'}", '{err = "EMQX no"}'),
        ("setmetatable({}, {__index = error, __tostring = error})", "{}"),
        ("type", "function"),
        ("0.5", "0.5"),
        ("1796057897306", "1796057897306"),
        ("123456789012345", "1.2345678901234e+14"),
        ("nil", "nil"),
        ("false", "false"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_local_is_shown_as_lua_would_write_it(lua: str, shown: str) -> None:
    with open_server("fake://") as server:
        stepped = step(f"local it = {lua}\nreturn 1", [], [], server)
    assert stepped.lines[-1].locals == (("it", shown),)


READS = "local time = redis.call('time')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\n"


@pytest.mark.parametrize(
    ("read_at", "lua", "shown"),
    [
        (1_796_057_897_306, "now", "now"),
        (1_796_057_897_306, "now + 1", "now + 1"),
        (1_796_057_897_306, "now - 30000", "now - 30000"),
        (1_796_057_897_306, "now + 31999999999", "now + 31999999999"),
        (1_796_057_897_306, "now + 32000000000", "1828057897306"),
        (1_796_057_897_306, "now - 31999999999", "now - 31999999999"),
        (1_796_057_897_306, "now - 32000000000", "1764057897306"),
        (1_000_000_000_500, "1e12", "now - 500"),
        (1_000_000_000_500, "1e12 - 1", "999999999999"),
        (1_796_057_897_306, "{time[1], time[2]}", "{now: seconds, microseconds}"),
        (1_796_057_897_306, "{time[1], time[2], 1}", '{"1796057897", "306000", 1}'),
        (1_796_057_897_306, "{time[1]}", '{"1796057897"}'),
        (1_796_057_897_306, "{1, time[2]}", '{1, "306000"}'),
    ],
)
def test_a_reading_of_the_clock_is_shown_as_now_and_a_time_within_a_year_from_there(
    read_at: int, lua: str, shown: str
) -> None:
    seen: list[list[tuple[bytes, bytes]]] = []
    job = replace(JOB, source=f"{READS}local it = {lua}\nreturn 1".encode())
    ending = run_here(job, lambda number, main, scope: seen.append(scope), lambda *_: clock_tokens(read_at))
    assert ending.kind == "returned"
    assert [dict(scope).get(b"now") for scope in seen] == [None, None, b"now", b"now"]
    assert seen[-1][-1] == (b"it", shown.encode())


@pytest.mark.parametrize(
    ("word", "told_from", "words"),
    [
        (b"1796057897306", 1_796_057_897_306, "now"),
        (b"1796057897307", 1_796_057_897_306, "(now + 1)"),
        (b"1796057897305", 1_796_057_897_306, "(now - 1)"),
        (b"1828057897305", 1_796_057_897_306, "(now + 31999999999)"),
        (b"1828057897306", 1_796_057_897_306, "1828057897306"),
        (b"1764057897306", 1_796_057_897_306, "1764057897306"),
        (b"1796057897306", 0, "1796057897306"),
        (b"99999999999", 100_000_000_000, "99999999999"),
        (b"100000000000", 100_000_000_001, "(now - 1)"),
        (b"a!~", 0, "a!~"),
        (b'"', 0, r'"\""'),
        (b"", 0, '""'),
        ("żółw".encode(), 0, '"żółw"'),
        (b"a b\xff", 0, r'"a b\\xff"'),
        (b" " * 60, 0, f'"{" " * 60}"'),
        (b" " * 61, 0, f'"{" " * 59}…"'),
    ],
)
def test_a_word_of_a_call_is_bare_where_it_can_be_and_a_time_is_told_from_now(
    word: bytes, told_from: int, words: str
) -> None:
    asked = Asked((b"SET", word), None, 1, Snapshot(), Snapshot(now=told_from), Snapshot())
    assert asked.call_text == f"SET {words}"


@pytest.mark.parametrize(
    ("args", "reply", "words"),
    [
        ((b"time",), (b"1", b"2"), "now"),
        ((b"TIME", b"x"), None, "false"),
        ((b"GET", b"time"), b"1796057897308", "(now + 2)"),
        ((b"GET", b"k"), b"a", '"a"'),
        ((b"GET", b"k"), 3, "3"),
        ((b"GET", b"k"), ErrorReply("ERR", "no"), "ERR no"),
        ((b"HMGET", b"k"), (b"1796057897306", None, (1, b"a")), '[now, nothing, [1, "a"]]'),
    ],
)
def test_an_answer_is_told_as_the_script_sees_it(args: tuple[bytes, ...], reply: Reply, words: str) -> None:
    nothing = Snapshot(now=1_796_057_897_306)
    assert Asked(args, reply, 1, nothing, nothing, nothing).reply_text == words


def test_a_repr_is_the_sentence(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    where = "a fake" if server.kind == "fake" else "an embedded"
    assert repr(stepped) == (
        "<claim ran 14 lines and made 6 calls; 4 changes. "
        f"In one go, on {where} server, it left the same keys and gave the same reply.>"
    )


@pytest.mark.parametrize(
    ("lines", "changed", "error", "sentence"),
    [
        (0, 0, None, "the script ran 0 lines and made 0 calls; 0 changes. It agrees."),
        (1, 1, None, "the script ran 1 line and made 0 calls; 1 change. It agrees."),
        (
            2,
            2,
            ScriptFailure(3, "ERR\x00no"),
            "failed in line 3: ERR\\x00no. The 2 changes before that stay. It agrees.",
        ),
        (2, 1, ScriptFailure(0, "ERR no"), "failed: ERR no. The 1 change before that stays. It agrees."),
        (
            2,
            0,
            ScriptFailure(2, "late", stopped=True),
            "was stopped in line 2: late. It had changed nothing. It agrees.",
        ),
    ],
)
def test_a_run_is_told_with_how_it_ended_and_what_stays(
    lines: int, changed: int, error: ScriptFailure | None, sentence: str
) -> None:
    nothing, after = Snapshot(), Snapshot(tuple((b"k%d" % n, Text(b"v")) for n in range(changed)))
    events: tuple[Line | Asked, ...] = tuple(Line(number, None, ()) for number in range(1, lines + 1))
    agreement = "It agrees."
    stepped = Stepped(None, "", (), (), events, None, error, nothing, after, True, agreement, None, None, "fake")
    ran = f"the script ran {lines} lines and made 0 calls, then "
    assert stepped.sentence == (sentence if error is None else ran + sentence)
    assert stepped.atomic_state_digest is None
    if error is not None and error.stopped:
        refusal = pytest.raises(BadArgument, match=r"the script.* was stopped by the stepper \(late\)")
        with open_server("fake://") as server, refusal:
            stepped.commit(server)


def test_a_call_belongs_to_the_moment_of_its_line() -> None:
    nothing, one, two = Snapshot(), *(Snapshot(((b"k", Text(value)),)) for value in (b"1", b"2"))
    calls = [Asked((b"SET",), b"OK", 1, before, after, nothing) for before, after in ((nothing, one), (one, two))]
    first, second, third = (Line(number, None, ()) for number in (1, 2, 3))
    events: tuple[Line | Asked, ...] = (first, second, *calls, third)
    stepped = Stepped(None, "", (), (), events, None, None, nothing, two, None, "", None, None, "fake")
    assert stepped.moments == (Moment(first, (), nothing), Moment(second, tuple(calls), two), Moment(third, (), two))
    assert (stepped.lines, stepped.asked) == ((first, second, third), tuple(calls))
    assert repr(stepped.moments[0]) == "Moment(line=Line(number=1, move=None, locals=()), asked=())"
    assert repr(calls[0]) == "Asked(args=(b'SET',), reply=b'OK', line=1)"
    early = replace(stepped, events=(calls[0], first))
    assert early.moments == (Moment(first, (), nothing),)


# --- conversions: the server's rules, not ours ------------------------------------------------------------------------

CONVERSIONS = [
    "return",
    "return nil",
    "return false",
    "return true",
    "return 3",
    "return 3.99",
    "return -3.99",
    "return 1e15",
    "return '3.99'",
    "return ''",
    "return '\\0\\255'",
    "return {}",
    "return 'not enough memory'",
    "return {1, nil, 3}",
    "return {nil}",
    "return {1, false, 3}",
    "return {true, 'a', 2.5, {3, {4, {}}}}",
    "return {1, 2, [4] = 4, x = 5}",
    "return {x = 1}",
    "return {1, [type] = 2}",
    "return {ok = 'fine'}",
    "return {err = 'EMQX not fine'}",
    "return {err = 'EMQX not fine', 1, 2}",
    "return {{ok = 'inside'}, {err = 'EMQX inside'}, 1}",
    "return redis.status_reply('fine')",
    "return redis.status_reply('fine').ok",
    "return redis.error_reply('EMQX not fine')",
    "return redis.error_reply('EMQX not fine').err",
    "return redis.error_reply('single')",
    "return redis.error_reply(1)",
    "return redis.call('PING')",
    "return type(redis.call('PING'))",
    "return redis.call('SET', KEYS[1], 'v').ok",
    "return redis.call('GET', KEYS[1])",
    "return type(redis.call('GET', KEYS[1]))",
    "redis.call('SET', KEYS[1], 7) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 1.5) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 2^53) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 0.1) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], -0.0) return redis.call('GET', KEYS[1])",
    "return redis.call('HMGET', KEYS[1], 'a', 'b')",
    "return redis.call('HGETALL', KEYS[1])",
    "redis.call('ZADD', KEYS[1], 1.5, 'm') return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "redis.call('ZADD', KEYS[1], 3, 'm') return redis.call('ZSCORE', KEYS[1], 'm')",
    "return redis.call('INCR', KEYS[1]) + 0.7",
    "redis.call('SET', KEYS[1], 'v') return redis.call('HGET', KEYS[1], 'f')",
    "redis.call('SET', KEYS[1], 'v') return redis.pcall('HGET', KEYS[1], 'f')",
    "redis.call('SET', KEYS[1], 'v') return redis.pcall('HGET', KEYS[1], 'f').err",
    "return redis.pcall('GET')",
    "return redis.pcall('SET', KEYS[1], true)",
    "return {pcall(error, 'text')}",
    "return {pcall(error)}",
    "return {pcall(error, {code = 5})}",
    "return select('#', pcall(error))",
    "return ('x'):rep(3) .. string.format('%d %5.2f %q', 3.7, 1 / 3, 'a')",
    "return {tostring(1e15), tostring(0 / 0 ~= 0 / 0), tostring(1 / 0), tonumber('0x10')}",
    "table.insert(KEYS, 'more') return KEYS",
    "return #KEYS .. #ARGV",
    "return getmetatable('').__index == string",
    "return tostring(nil) .. tostring(true)",
    "error('EMQX no code, since error() is no reply')",
    "local x = nil + 1",
    "for i = 1, 3 do if i == 2 then error({1, 2}) end end",
    "x y z",
]

# Where the fake's own conversion is not a live server's, or falls over.
LIVE_CONVERSIONS = [
    "return 1e300",
    "return 0 / 0",
    "return 1 / 0",
    "return tonumber('inf')",
    "return 1, 2",
    "return function() end",
    "return {err = 5}",
    "return redis.error_reply('-EMQX dash')",
    "return redis.error_reply('EMQX two\\nlines')",
    "return redis.error_reply()",
    "redis.call('SET', KEYS[1], 1e17) return redis.call('GET', KEYS[1])",
    "return redis.pcall()",
    "return redis.call({})",
    "return redis.sha1hex('')",
    "redis.call('SET', KEYS[1], 'v') local ok, e = pcall(redis.call, 'HGET', KEYS[1], 'f') return {type(e), e}",
    "redis.call('SET', KEYS[1], 'v') local ok, e = pcall(redis.call, 'HGET', KEYS[1], 'f') error(e)",
    "local r; xpcall(function() redis.call('GET') end, function(e) r = type(e) .. e.err end) return r",
    "return {pcall(error, {err = 'x'})}",
    "error({err = 'EMQX code'})",
    "return {xpcall(function() error('x') end, function(e) return e .. '!' end)}",
    "return nope",
    "nope = 1",
    "KEYS = 1",
    "string.rep = 1",
    "getmetatable('').__index.rep = 1",
    "redis.call = nil",
    "return rawset(redis, 'x', 1)",
    "local ok, e = pcall(function() return nope end) return e",
    "local ok, e = pcall(function() nope = 1 end) return e",
    "return print",
    "return redis.nosuch",
    "return redis.nosuch()",
    "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}",
    "return redis.log(redis.LOG_WARNING, 'x')",
    "return redis.log(0, 'x')",
    "return redis.log(-1, 'x')",
    "return redis.log(4, 'x')",
    "return redis.log('x', 'y')",
    "return redis.log()",
    "return redis.sha1hex('a', 'b')",
    "return redis.sha1hex()",
    "return redis.sha1hex(5)",
    "return redis.call('GET', KEYS[1], false)",
    "return server.call('PING')",
    "return xpcall(type)",
    "rawset(KEYS, 1, 'mine') return KEYS",
    "return _VERSION",
    "return math.max(1, math.huge)",
    "return {math.floor(2.5), table.concat({1, 2}, '-'), #ARGV, rawequal(1, 1), rawget({7}, 1)}",
    "return assert(nil, 'EMQX no')",
    "local t = {} for k, v in pairs({a = 1}) do t[1] = k end for i, v in ipairs({9}) do t[2] = v end return t",
    "return {next({5}), unpack({6}), not getmetatable(redis)}",
]


@pytest.mark.parametrize("source", CONVERSIONS)
@pytest.mark.usefixtures("here")
def test_a_value_becomes_the_reply_it_becomes_on_the_server(source: str, server: Server, key: str) -> None:
    converted(source, server, key)


@pytest.mark.parametrize("source", LIVE_CONVERSIONS)
@pytest.mark.usefixtures("here")
def test_where_the_fake_differs_the_dialect_is_the_live_one(source: str, embedded_server: Server, key: str) -> None:
    converted(source, embedded_server, key)


def converted(source: str, server: Server, key: str) -> None:
    stepped = step(source, [key], [], server)
    assert stepped.agrees is True, stepped.agreement
    there = evaluate(server, source, key)
    assert coarse(stepped.reply) == coarse(there)
    if server.kind == "embedded" and isinstance(stepped.reply, ErrorReply) and isinstance(there, ErrorReply):
        assert stepped.reply.text.partition(" script: ")[0] == there.text.partition(" script: ")[0]


# --- is it the truth --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_readings_of_the_clock_may_differ_between_the_two_runs(server: Server, key: str) -> None:
    source = text(
        "local time = redis.call('TIME')",
        "local now = time[1] * 1000 + math.floor(time[2] / 1000)",
        "redis.call('ZADD', KEYS[1], now + 30000, 'lease', now - 5000, 'late', 7, 'fixed')",
        "redis.call('HSET', KEYS[2], 'seconds', time[1], 'microseconds', time[1] * 1000000 + time[2])",
        "redis.call('RPUSH', KEYS[3], now)",
        "return {now, time[1], 'text'}",
    )
    stepped = step(source, [key + "z", key + "h", key + "l"], [], server)
    assert stepped.agrees is True, stepped.agreement
    assert stepped.atomic_state_digest is not None


@pytest.mark.usefixtures("here")
def test_nothing_but_the_clock_may_differ(server: Server, key: str) -> None:
    # An address is another one in every run, and as large as a time.
    address = "tonumber(string.sub(tostring({}), 8))"
    stepped = step(f"redis.call('TIME')\nredis.call('HSET', KEYS[1], 'f', {address})\nreturn 1", [key], [], server)
    assert stepped.agrees is False
    assert f"did not end alike: {key} 'f' is " in stepped.agreement


def test_a_small_number_is_never_taken_for_a_time() -> None:
    clock = Clock(ours=1_796_057_897_000_000, earliest=1_796_057_897_001_000, latest=1_796_057_897_009_000)
    assert clock.explains(1_796_057_897_000, 1_796_057_897_004)
    assert clock.explains(1_796_057_927_000, 1_796_057_927_004)  # a lease of 30 seconds
    assert clock.explains(101_796_057_897_000, 101_796_057_897_004)  # and one of three thousand years
    assert not clock.explains(1_796_057_897_000, 1_796_057_897_400)
    assert not clock.explains(1_796_057_927_000, 1_796_057_957_004)
    assert not clock.explains(3, 4)
    assert not clock.explains(5_000, 5_004)


@pytest.mark.parametrize(
    ("mine", "other", "explained"),
    [
        (1_700_000_000_000_000, 1_700_000_000_000_000, False),  # in microseconds: a reading before the other run began
        (1_700_000_000_000_000, 1_700_000_004_999_998, False),
        (1_700_000_000_000_000, 1_700_000_004_999_999, True),
        (1_700_000_000_000_000, 1_700_000_009_000_001, True),
        (1_700_000_000_000_000, 1_700_000_009_000_002, False),
        (1_700_000_000_000, 1_700_000_004_998, False),  # in milliseconds
        (1_700_000_000_000, 1_700_000_004_999, True),
        (1_700_000_000_000, 1_700_000_009_001, True),
        (1_700_000_000_000, 1_700_000_009_002, False),
        (1_700_000_000, 1_700_000_003, False),  # in seconds
        (1_700_000_000, 1_700_000_004, True),
        (1_700_000_000, 1_700_000_010, True),
        (1_700_000_000, 1_700_000_011, False),
        (1_699_999_970, 1_699_999_975, True),  # half a minute before
        (850_000_001, 850_000_006, True),
        (850_000_000, 850_000_005, False),  # no time any more
    ],
)
def test_two_numbers_may_differ_by_what_the_clock_may_have_said(mine: int, other: int, explained: bool) -> None:
    clock = Clock(ours=1_700_000_000_000_000, earliest=1_700_000_005_000_000, latest=1_700_000_009_000_000)
    assert clock.explains(mine, other) is explained


CLOCK = Clock(ours=1_700_000_000_000_000, earliest=1_700_000_000_001_000, latest=1_700_000_000_002_000)
THEN, SINCE = b"1700000000000", b"1700000000002"


@pytest.mark.parametrize(
    ("mine", "other", "alike", "but_for_the_clock"),
    [
        (1, 1, True, True),
        (1, 2, False, False),
        (1, b"1", False, False),
        (1, None, False, False),
        (None, None, True, True),
        (None, 1, False, False),
        (None, b"a", False, False),
        (b"a", b"a", True, True),
        (b"a", b"b", False, False),
        (int(THEN), int(SINCE), False, True),
        (THEN, SINCE, False, True),
        (THEN, b"a", False, False),
        ((1, (THEN,)), (1, (SINCE,)), False, True),
        ((1, 2), (1, 2), True, True),
        ((1,), (1, 2), False, False),
        ((1, 2), (1, 3), False, False),
        ((), (), True, True),
        ((), None, False, False),
        (ErrorReply("ERR", "here"), ErrorReply("ERR", "there"), True, True),
        (ErrorReply("ERR", "here"), ErrorReply("WRONGTYPE", "here"), False, False),
        (ErrorReply("EMQX", "no"), ErrorReply("EMQX", "yes"), False, False),
        (ErrorReply("EMQX", "no"), ErrorReply("EMQX", "no"), True, True),
        (ErrorReply("EMQX", "no"), ErrorReply("EMQX", f"no script: {'a1' * 20}, on @user_script:3."), True, True),
        (ErrorReply("EMQX", "no"), ErrorReply("EMQX", "no script: on user_script:12."), True, True),
        (ErrorReply("EMQX", "no"), ErrorReply("EMQY", "no"), False, False),
        (ErrorReply("EMQX", "no"), b"EMQX no", False, False),
    ],
)
def test_two_replies_are_alike_but_for_the_clock_and_the_texts_of_servers(
    mine: Reply, other: Reply, alike: bool, but_for_the_clock: bool
) -> None:
    for one, another in ((mine, other), (other, mine)) if isinstance(mine, tuple | int) else ((mine, other),):
        found = list(reply_differences(one, another, None))
        assert found == ([] if alike else [f"the reply is {shown(one)} here and {shown(another)} there"])
    assert (not list(reply_differences(mine, other, CLOCK))) is but_for_the_clock


@pytest.mark.parametrize(
    ("mine", "other", "differences", "with_a_clock"),
    [
        (None, Text(b"v"), ['k is nothing here and "v" there'], None),
        (Text(b"v"), None, ['k is "v" here and nothing there'], None),
        (Text(b"v"), Text(b"w"), ['k is "v" here and "w" there'], None),
        (Text(THEN), Text(SINCE), [f'k is "{THEN.decode()}" here and "{SINCE.decode()}" there'], []),
        (Hash(((b"f", b"v"),)), Hash(((b"f", b"w"),)), ['k \'f\' is "v" here and "w" there'], None),
        (Ranked(((b"m", 1.0),)), Ranked(((b"m", 2.0),)), ['k \'m\' is "1" here and "2" there'], None),
        (Ranked(((b"m", float(THEN)),)), Ranked(((b"m", float(SINCE)),)), None, []),
        (Items((b"a", THEN)), Items((b"a", SINCE)), None, []),
        (Items((b"a", THEN)), Items((b"b", SINCE)), None, None),
        (Items((THEN,)), Items((SINCE, SINCE)), None, None),
    ],
)
def test_two_keyspaces_are_alike_but_for_the_clock(
    mine: Value | None, other: Value | None, differences: list[str] | None, with_a_clock: list[str] | None
) -> None:
    here, there = (Snapshot() if value is None else Snapshot(((b"k", value),)) for value in (mine, other))
    found = list(key_differences(here, there, None))
    assert found
    assert found == (found if differences is None else differences)
    assert list(key_differences(here, there, CLOCK)) == (found if with_a_clock is None else with_a_clock)
    assert list(key_differences(here, here, None)) == []


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "; and 1 more difference"), (5, "; and 2 more differences")])
def test_of_several_differences_three_are_named(count: int, more: str) -> None:
    before = Snapshot(now=1_000)
    record = recorded("enqueue", [b"a", b"b"], [A.encode(), b"p"], 1, before, before)
    fields = ((b"attempts", b"0"), (b"payload", b"p"), (b"state", b"pending"))
    kept = ((b"a", Hash(fields[: 4 - count])),) if count < 4 else ()
    stepped = step_call(replace(record, reply=1 if count < 5 else 0, after=Snapshot(kept, 1_000)), READY)
    gone = [f"a '{name.decode()}' is \"{value.decode()}\" here and nothing there" for name, value in fields]
    gone = [*gone[max(0, 4 - count) :], f"b '{A}' is \"0\" here and nothing there"]
    said = [*(["the reply is 1 here and 0 there"] if count == 5 else []), *gone]
    assert len(said) == count
    assert stepped.agreement == (
        f"The recorded run, all in one go, did not end alike: {'; '.join(said[:3])}{more}. "
        "The fake server's Lua is looser than a live one's; step it on embedded:// to know."
    )


@pytest.mark.usefixtures("here")
def test_time_is_read_once(server: Server) -> None:
    source = "local a = redis.call('TIME')\nfor i = 1, 50 do a = redis.call('TIME') end\nreturn {a, redis.call('TIME')}"
    stepped = step(source, [], [], server)
    assert len({asked.reply for asked in stepped.asked}) == 1


@pytest.mark.usefixtures("here")
def test_where_the_fake_is_looser_the_answer_says_so(server: Server) -> None:
    stepped = step("return nope", [], [], server)
    assert stepped.error is not None
    assert stepped.error.text == "ERR user_script:1: Script attempted to access nonexistent global variable 'nope'"
    assert stepped.agrees is (server.kind != "fake")
    if server.kind == "fake":
        assert "step it on embedded:// to know" in stepped.sentence


@pytest.mark.usefixtures("here")
def test_a_reply_of_another_length_is_another_reply() -> None:
    with open_server("fake://") as server:
        stepped = step("return {1, not pcall(function() return nope end) and 2 or nil}", [], [], server)
    assert (stepped.reply, stepped.atomic_reply) == ((1, 2), (1,))
    assert stepped.agrees is False


@pytest.mark.usefixtures("here")
def test_a_global_cannot_be_set(server: Server, key: str) -> None:
    stepped = step("redis.call('SET', KEYS[1], 'v')\ncount = 1", [key], [], server)
    assert stepped.error == ScriptFailure(2, "ERR user_script:2: Attempt to modify a readonly table")


@pytest.mark.usefixtures("here")
def test_what_a_script_derives_is_copied_when_it_is_first_touched(server: Server, queue: str) -> None:
    send(server, "SET", f"emq:{{{queue}}}:a", "emq-b")
    send(server, "SET", f"emq:{{{queue}}}:b", "found")
    source = (
        "local name = redis.call('GET', KEYS[1])\nreturn redis.call('GET', 'emq:' .. ARGV[1] .. string.sub(name, 4))"
    )
    source = source.replace("string.sub(name, 4)", "':' .. string.sub(name, 5)")
    stepped = step(source, [f"emq:{{{queue}}}:a"], [f"{{{queue}}}"], server)
    assert stepped.reply == b"found"
    assert len(stepped.before.keys) == 2
    assert stepped.asked[0].before == stepped.before  # also what was copied only later
    assert stepped.agrees is True


@pytest.mark.usefixtures("here")
def test_every_type_of_key_is_copied(server: Server, queue: str) -> None:
    base = f"emq:{{{queue}}}:"
    send(server, "SET", base + "s", "\0x")
    send(server, "HSET", base + "h", "f", "v", "g", "")
    send(server, "RPUSH", base + "l", "a", "b", "a")
    send(server, "ZADD", base + "z", 1.5, "m", -3, "n")
    send(server, "SADD", base + "m", "one", "two")
    names = [base + name for name in "shlzm"]
    stepped = step("return redis.call('EXISTS', unpack(KEYS))", names, [], server)
    assert stepped.reply == 5
    assert stepped.before == capture(server, f"{base}*".encode())
    assert step("return redis.call('DEL', unpack(KEYS))", names, [], server).after == Snapshot()
    assert len(capture(server, f"{base}*".encode()).keys) == 5


def test_a_key_that_cannot_be_copied_is_named(embedded_server: Server, key: str) -> None:
    send(embedded_server, "XADD", key, "*", "f", "v")
    with pytest.raises(BadArgument, match='holds "stream", which the stepper does not copy'):
        step("return 1", [key], [], embedded_server)


@pytest.mark.usefixtures("here")
def test_a_time_to_live_set_by_the_stepped_run_does_not_reach_the_other_one(server: Server, key: str) -> None:
    source = "return {redis.call('TTL', KEYS[1]), redis.call('EXPIRE', KEYS[1], 100)}"
    assert step(source, [key], [], server).reply == (-2, 0)
    send(server, "SET", key, "v")
    stepped = step(source, [key], [], server)
    assert stepped.reply == (-1, 1)
    assert stepped.agrees is True, stepped.agreement


# --- errors half-way --------------------------------------------------------------------------------------------------

HALF = text(
    "redis.call('SET', KEYS[1], 'one')",
    "redis.call('HSET', KEYS[2], 'f', 'two')",
    "redis.call('HSET', KEYS[1], 'f', 'never')",
    "redis.call('SET', KEYS[1], 'never')",
)


@pytest.mark.usefixtures("here")
def test_an_error_half_way_shows_its_line_and_the_writes_that_stay(server: Server, key: str) -> None:
    stepped = step(HALF, [key, key + "h"], [], server)
    assert stepped.error is not None
    assert (stepped.error.line, stepped.error.text.split()[0], stepped.error.stopped) == (3, "WRONGTYPE", False)
    assert stepped.after.text(key.encode()) == b"one"
    assert stepped.after.hash(key.encode() + b"h") == {b"f": b"two"}
    assert len(stepped.diff) == 2
    assert isinstance(stepped.reply, ErrorReply)
    assert stepped.reply.code == "WRONGTYPE"
    assert stepped.agrees is True, stepped.agreement
    assert "failed in line 3: WRONGTYPE" in stepped.sentence
    assert "The 2 changes before that stay." in stepped.sentence


def test_an_error_in_a_script_of_the_kit_keeps_its_writes_too(server: Server, queue: str, added: Trace) -> None:
    base = f"emq:{{{queue}}}:"
    send(server, "SET", base + "active", "not a set")
    stepped = claim(server, queue)
    assert stepped.error is not None
    assert stepped.error.line == stepped.lines[-1].number
    assert [change.key for change in stepped.diff if change.key.endswith(b":pending")]
    assert stepped.agrees is True, stepped.agreement


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("local x = {}\nreturn x.a.b", 2),
        ("local function f()\n  error('no')\nend\nf()", 2),
        ("local function f()\n  return 1\nend\nlocal x = f() + nil", 4),
        ("local function f()\n  return error('no')\nend\n\nreturn f()", 2),
        ("local x = 1\nlocal y = = 2", 2),
        ("local x =\n  1 +\n  nil", 3),
    ],
)
@pytest.mark.usefixtures("here")
def test_an_error_has_its_line(source: str, line: int) -> None:
    with open_server("fake://") as server:
        stepped = step(source, [], [], server)
    assert stepped.error is not None
    assert stepped.error.line == line
    assert not stepped.error.stopped


# --- scripts that do not end ------------------------------------------------------------------------------------------

ENDLESS = {
    "a loop": "while true do end",
    "a loop inside pcall": "pcall(function() while true do end end)\nreturn 1",
    "a pcall inside a loop": "while true do\n  pcall(function() while true do end end)\nend",
    "pcalls inside pcalls": (
        "local function f() while true do pcall(function() while true do end end) end end\nwhile true do pcall(f) end"
    ),
    "a loop on the last line": "return pcall(function() while true do end end)",
    "a handler": "xpcall(error, function() while true do end end)\nreturn 1",
    "handlers in a loop": "while true do xpcall(error, function() while true do end end) end",
    "a tail call": "local function f() return f() end\nreturn f()",
    "a comparison": "table.sort({1, 2, 3}, function() while true do end end)",
    "a replacement": "string.gsub('xxx', '.', function() while true do end end)",
    "a metatable": "return setmetatable({}, {__index = function() while true do end end}).x",
    "calls": "while true do redis.call('GET', KEYS[1]) end",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.usefixtures("here")
def test_a_script_that_does_not_end_is_stopped(source: str) -> None:
    with open_server("fake://") as server:
        stepped = step("redis.call('SET', KEYS[1], 'v')\n" + source, ["k"], [], server, line_budget=500)
    assert stepped.error is not None
    assert stepped.error.stopped
    assert stepped.error.text == "it ran 500 lines without ending"
    assert len(stepped.lines) == 500
    assert stepped.reply is None
    assert stepped.agrees is None
    assert stepped.after.text(b"k") == b"v"  # what it had written is still to be seen
    assert "was stopped in line" in stepped.sentence


@pytest.mark.usefixtures("wheel")
def test_a_pattern_that_spins_inside_c_is_stopped_by_the_deadline(server: Server, key: str) -> None:
    source = text(
        "redis.call('SET', KEYS[1], 'v')",
        "local s = string.rep('a', 60)",
        "return string.find(s, string.rep('a-', 60) .. 'b')",
    )
    stepped = step(source, [key], [], server, deadline_s=0.3)
    assert stepped.error == ScriptFailure(3, "it was still running after 0.3 seconds", stopped=True)
    assert [asked.args[0] for asked in stepped.asked] == [b"SET"]
    assert stepped.agrees is None
    assert send(server, "EXISTS", key) == 0


@pytest.mark.usefixtures("here")
def test_a_script_that_wants_all_the_memory_is_stopped() -> None:
    with open_server("fake://") as server:
        stepped = step("local t = {}\nfor i = 1, 1000 do\n  t[i] = string.rep('x', 1000000) .. i\nend", [], [], server)
    assert stepped.error is not None
    assert stepped.error.stopped
    assert "memory" in stepped.error.text


@pytest.mark.usefixtures("here")
def test_a_script_that_was_stopped_is_not_committed(server: Server) -> None:
    stepped = step("for i = 1, 100 do local x = i end", [], [], server, line_budget=50)
    with pytest.raises(BadArgument, match="was stopped by the stepper"):
        stepped.commit(server)


# --- what a script cannot reach ---------------------------------------------------------------------------------------

KEPT_OUT = ["_G", "cjson", "cmsgpack", "struct", "bit", "os", "coroutine", "load", "loadstring", "collectgarbage"]
UNKNOWN = ["python", "io", "require", "debug", "package", "dofile", "loadfile", "getfenv", "setfenv", "print", "module"]


@pytest.mark.parametrize("name", [*KEPT_OUT, "redis.setresp", "redis.set_repl", "math.random"])
@pytest.mark.usefixtures("here")
def test_what_a_live_server_has_and_the_stepper_has_not_stops_it_even_in_a_pcall(name: str) -> None:
    with open_server("fake://") as server:
        stepped = step(f"pcall(function() return {name} end)\nreturn 1", [], [], server)
    assert stepped.error is not None
    assert stepped.error.stopped
    assert f"it uses {name}, which a live server has but the stepper leaves out" in stepped.error.text
    assert stepped.agrees is None


@pytest.mark.parametrize("catch", ["pcall(f)", "xpcall(f, type)"])
@pytest.mark.usefixtures("here")
def test_once_stopped_a_script_does_nothing_more_not_even_on_the_same_line(catch: str) -> None:
    with open_server("fake://") as server:
        stepped = step(f"local function f() return os end {catch} redis.call('SET', KEYS[1], 'v')", ["k"], [], server)
    assert stepped.error is not None
    assert stepped.error.stopped
    assert stepped.asked == ()


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.usefixtures("here")
def test_what_no_live_server_has_is_an_undefined_global(name: str) -> None:
    with open_server("fake://") as server:
        stepped = step(f"return {name}", [], [], server)
    assert stepped.error is not None
    assert stepped.error.text.endswith(f"Script attempted to access nonexistent global variable '{name}'")


@pytest.mark.parametrize("verb", ["FLUSHALL", "SELECT", "KEYS", "SCAN", "EVAL", "CONFIG", "RANDOMKEY", "SPOP", "NOPE"])
@pytest.mark.usefixtures("here")
def test_a_command_that_touches_more_than_its_keys_is_not_stepped(verb: str, server: Server, key: str) -> None:
    send(server, "SET", key, "v")
    stepped = step(f"redis.pcall('{verb}', '0', '1')\nreturn 1", [key], [], server)
    assert stepped.error is not None
    assert stepped.error.stopped
    assert f"it calls {verb}" in stepped.error.text
    assert send(server, "GET", key) == b"v"


def test_which_arguments_are_keys_and_what_writes_is_as_a_server_says_of_its_commands(embedded_server: Server) -> None:
    infos = send(embedded_server, "COMMAND", "INFO", *COMMANDS)
    assert isinstance(infos, tuple)
    words = tuple(b"%d" % place for place in range(6))
    for (name, shape), info in zip(COMMANDS.items(), infos, strict=True):
        assert isinstance(info, tuple), name
        flags, first, last, every = info[2:6]
        assert isinstance(flags, tuple)
        assert isinstance(first, int) and isinstance(last, int) and isinstance(every, int)
        line = (name.encode(), *words)
        keys = line[first : last % len(line) + 1 : every] if first else ()
        assert (shape.keys(words), shape.writes) == (keys, b"write" in flags), name


def test_what_is_left_out_is_left_out_for_a_reason_that_is_said() -> None:
    reasons = dict(withheld())
    said = ", which a live server has but the stepper leaves out: "
    for name, why in (
        ("coroutine", "the stepper cannot see inside it"),
        ("os", "it holds different things on each kind of server"),
        ("redis.setresp", "it differs between the fake and a live server"),
        ("redis.REPL_SLAVE", "it has no meaning for one script on one server"),
        ("redis.SERVER_NAME", "it names the server's own version"),
        ("math.randomseed", "two runs would draw different numbers"),
    ):
        assert reasons[name] == f"it uses {name}{said}{why}"
    assert all(why.startswith(f"it uses {name}{said}") for name, why in reasons.items())


@pytest.mark.usefixtures("here")
def test_all_that_a_live_server_offers_a_script_is_there_or_left_out(embedded_server: Server) -> None:
    inside = "local r = {} for n in pairs(%s) do r[#r + 1] = n end return r"
    for owner in ("_G", "redis", "string", "table", "math"):
        names = evaluate(embedded_server, inside % owner)
        assert isinstance(names, tuple)
        dotted = [name.decode() for name in names if isinstance(name, bytes) and not name.startswith(b"__")]
        for name in dotted if owner == "_G" else [f"{owner}.{name}" for name in dotted]:
            stepped = step(f"return type({name})", [], [], embedded_server)
            if name in dict(withheld()):
                assert stepped.error is not None and stepped.error.text == dict(withheld())[name]
            else:
                assert stepped.agrees is True, f"{name}: {stepped.agreement}"


# --- the server is left alone -----------------------------------------------------------------------------------------


def test_nothing_is_written_until_commit(server: Server, queue: str, added: Trace) -> None:
    mine = f"emq:{{{queue}}}:*".encode()
    before = capture(server, mine)
    stepped = claim(server, queue)
    assert capture(server, mine) == before
    reply = stepped.commit(server)
    assert reply == stepped.reply
    assert digest(capture(server, mine)) == digest(
        Snapshot(tuple(sorted({**before.keys, **stepped.after.keys}.items())), stepped.after.now)
    )


def test_stepping_is_not_recorded(server: Server, queue: str, added: Trace) -> None:
    with record(server) as trace:
        claim(server, queue)
    assert trace.steps == ()


def test_a_script_is_refused_what_its_header_does_not_take(server: Server) -> None:
    with pytest.raises(ScriptArity):
        step(server.scripts["claim"], ["one"], [], server)
    # A mere text is called with anything, as a server would; its arguments then have no names.
    stepped = step(server.scripts["claim"].source, ["one"], [], server)
    assert stepped.keys == (("KEYS[1]", b"one"),)
    assert stepped.error is not None


def test_a_live_server_is_only_read(embedded_server: EmbeddedServer, queue: str) -> None:
    with open_server(embedded_server.process.url_of(embedded_server.database)) as live:
        assert live.kind == "live"
        Flows(live).add(queue, Flow("order 7", [Child("pick")]))
        before = capture(live)
        calls_before = live.client.info("commandstats")
        stepped = claim(live, queue)
        calls_after = live.client.info("commandstats")
        assert stepped.agrees is True, stepped.agreement
        assert stepped.server_kind == "embedded"
        assert capture(live) == before
    asked = {name.removeprefix("cmdstat_") for name in calls_after if calls_after[name] != calls_before.get(name)}
    assert asked - {"info", "client|setinfo", "hello", "auth", "select"} == {"type", "zrange", "hgetall"}


# --- a recorded call --------------------------------------------------------------------------------------------------


def test_every_script_call_of_a_trace_can_be_stepped(server: Server, queue: str) -> None:
    flows, jobs = Flows(server), Jobs(server)
    with record(server) as trace:
        flows.add(queue, Flow("order 7", [Child("pick"), Child("label")]))
        for _ in range(3):
            job = jobs.claim(queue)
            assert job is not None
            jobs.complete(queue, job)
    scripts = [call for call in trace.calls if call.call.kind == "script"]
    assert len(scripts) == 7
    for call in scripts:
        stepped = step_call(call, trace.scripts)
        assert stepped.agrees is True, stepped.agreement
        assert stepped.agreement == "The recorded run, all in one go, left the same keys and gave the same reply."
        assert stepped.before == call.before
        assert digest(stepped.after) == digest(call.after)
        assert stepped.reply == call.reply
        assert stepped.atomic_reply == call.reply


def recorded(
    name: str, keys: list[bytes], args: list[bytes], reply: Reply, before: Snapshot, after: Snapshot
) -> CallRecord:
    call: Call[Reply] = Call(name, tuple(keys), tuple(args), lambda r: r, lambda e: BadArgument("", "", ""), "script")
    return CallRecord(call, reply, before, after)


def test_a_recorded_call_is_stepped_at_the_time_it_ran() -> None:
    schedule, pending, base = b"emq:{q}:schedule", b"emq:{q}:pending", b"emq:{q}:"
    then = Snapshot(((schedule, Ranked(((A.encode(), 2000.0),))),), now=1500)
    call = recorded("promote", [schedule, pending], [base, b"10"], 0, then, then)
    stepped = step_call(call, READY)
    assert stepped.reply == 0
    assert stepped.agrees is True, stepped.agreement
    assert stepped.after.now == 1500


def test_a_record_that_tells_something_else_is_contradicted() -> None:
    row, pending = f"emq:{{q}}:job:{A}".encode(), b"emq:{q}:pending"
    nothing = Snapshot(now=1500)
    stepped = step_call(recorded("enqueue", [row, pending], [A.encode(), b"p"], 0, nothing, nothing), READY)
    assert stepped.agrees is False
    assert "The recorded run, all in one go, did not end alike: the reply is 1 here and 0 there" in stepped.agreement


def test_a_command_has_no_lines() -> None:
    call = recorded("HGET", [b"k"], [b"f"], None, Snapshot(), Snapshot())
    with pytest.raises(BadArgument, match="not a script"):
        step_call(CallRecord(replace(call.call, kind="command"), None, Snapshot(), Snapshot()), READY)


# --- the machine ------------------------------------------------------------------------------------------------------

JOB = Job(source=b"", codec=codec(), withheld=(), keys=(b"k",), argv=(), line_budget=1000)
CAUGHT = b"while true do pcall(function() redis.call('GET', KEYS[1]) end) end"


class Interrupted(BaseException):
    """As a notebook's Interrupt is: no `Exception`."""


@pytest.mark.parametrize("run", [run_here, partial(run_apart, deadline_s=30.0)], ids=["here", "apart"])
def test_what_goes_wrong_outside_is_not_caught_by_the_scripts_pcall(run: Callable[..., Ending]) -> None:
    happened: list[str] = []

    def ask(verb: bytes, line: int, tokens: list[bytes]) -> list[bytes]:
        happened.append("asked")
        raise Interrupted

    def on_line(number: int, main: bool, shown: list[tuple[bytes, bytes]]) -> None:
        happened.append("line")
        raise Interrupted

    with pytest.raises(Interrupted):
        run(replace(JOB, source=CAUGHT), lambda *_: None, ask)
    with pytest.raises(Interrupted):
        run(replace(JOB, source=CAUGHT), on_line, ask)
    assert happened == ["asked", "line"]


def test_here_and_apart_a_script_ends_alike() -> None:
    source = b"local t = {redis.call('GET', KEYS[1]), '\\0\\255', 0.5, {x = false}}\nreturn t"

    def run(how: Callable[..., Ending], *more: float) -> tuple[Ending, list[object]]:
        seen: list[object] = []

        def ask(verb: bytes, line: int, tokens: list[bytes]) -> list[bytes]:
            seen.append((verb, line, tokens))
            return [b"s\0\xff"]

        return how(replace(JOB, source=source), lambda *line: seen.append(line), ask, *more), seen

    here, apart = run(run_here), run(run_apart, 30.0)
    assert here == apart
    assert here[0].kind == "returned"
    assert b"s\0\xff" in here[0].tokens


@pytest.mark.parametrize(
    ("token", "lua"),
    [
        (b"dinf", "math.huge"),
        (b"d-inf", "-math.huge"),
        (b"d1.#INF", "math.huge"),
        (b"d-1.#INF", "-math.huge"),
        (b"d0.10000000000000001", "0.1"),
    ],
)
def test_a_number_is_read_however_a_system_spells_it(token: bytes, lua: str) -> None:
    source = f"return redis.call('GET', 'k') == {lua}".encode()
    assert run_here(replace(JOB, source=source), lambda *_: None, lambda *_: [token]).tokens == (b"T",)


def test_a_child_whose_parent_is_gone_ends() -> None:
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", stepper_machine.__file__, str(Path(lupa.__file__).parent.parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with child:
        assert child.stdin is not None
        try:
            job = stepper_machine._text(replace(JOB, source=CAUGHT, line_budget=10**9))
            child.stdin.write(json.dumps([job, 600.0]).encode() + b"\n")
            child.stdin.flush()
            assert child.stdout is not None
            assert child.stdout.readline() == b'["ready"]\n'
            child.stdin.close()
            assert child.wait(60) is not None
        finally:
            child.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="a process's memory is bounded on Linux only")
def test_a_child_is_held_to_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[int] = []
    limits: list[str] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            children.append(self.pid)

    def ask(verb: bytes, line: int, tokens: list[bytes]) -> list[bytes]:
        limits.extend(Path(f"/proc/{children[0]}/limits").read_text().splitlines())
        return [b"T"]

    monkeypatch.setattr(subprocess, "Popen", Watched)
    ending = run_apart(replace(JOB, source=b"return redis.call('PING')"), lambda *_: None, ask, 30.0)
    assert ending.kind == "returned"
    (space,) = [line.split() for line in limits if line.startswith("Max address space")]
    assert space[3:5] == [str(1 << 30)] * 2


def test_a_message_that_is_too_long_or_none_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepper_machine, "LARGEST_MESSAGE", 80)
    monkeypatch.setattr(stepper_machine, "__file__", str(tmp_path / "child.py"))
    end = '["end", "returned", ["T"], "", 0]'
    lines = [f'["line", {number}, true, []]' for number in (1, 2)]
    long = f'["line", 3, true, [["{"x" * 80}", "1"]]]'
    says = [f"print({line!r})" for line in (lines[0], "what?", long, lines[1], end)]
    (tmp_path / "child.py").write_text("\n".join(["input()  # its job, before it goes", *says]))
    seen: list[int] = []
    ending = run_apart(JOB, lambda number, main, shown: seen.append(number), lambda *_: [], 30.0)
    assert (ending, seen) == (Ending("returned", (b"T",)), [1, 2])


def test_a_child_that_is_stopped_says_the_line_it_was_last_in() -> None:
    def ask(verb: bytes, line: int, tokens: list[bytes]) -> list[bytes]:
        raise Halt("no more")

    source = b"local x = 1\n\nredis.call('GET', 'k')\nreturn 1"
    ways: list[Callable[..., Ending]] = [run_here, partial(run_apart, deadline_s=30.0)]
    for run in ways:
        assert run(replace(JOB, source=source), lambda *_: None, ask) == Ending("stopped", text=b"no more", line=3)


def test_a_child_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "child.py").write_text("input()\nraise SystemExit('no Lua here')")
    monkeypatch.setattr(stepper_machine, "__file__", str(tmp_path / "child.py"))
    ending = run_apart(JOB, lambda *_: None, lambda *_: [], 30.0)
    assert ending.kind == "stopped"
    assert ending.text == b"the process it ran in ended: no Lua here"
