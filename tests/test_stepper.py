"""The stepper tells the truth: what it shows is what one real EVAL from the same start does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emqkit import Child, Flow, Flows, Jobs, Trace, record
from emqkit.errors import BadArgument, ScriptArity
from emqkit.scripts import Argument, Group, Item, Layout, Script, ScriptSet, lua_folder
from emqkit.servers import Server, open_server
from emqkit.snapshot import Hash, Items, Ranked, Snapshot, Text, Value, capture, digest, restore
from emqkit.stepper import Stepped, step, step_call
from emqkit.wire import Call, ErrorReply, Flush, Reply

P, A, B, C = (f"JOB0000000000{letter}" for letter in "PABC")
FOREIGN = "USR0000000000A"
FAR = 10**14  # milliseconds: a lease or a delay that no test outlives


def send(server: Server, verb: str, *args: str | bytes | int) -> Reply:
    """One command; an error is a value."""
    words = tuple(word if isinstance(word, bytes) else str(word).encode() for word in args)
    call: Call[Reply] = Call(verb, (), words, lambda reply: reply, lambda error: BadArgument("", "", ""))
    (reply,) = server.round_trip(Flush((call,)))
    return reply


def evaluate(server: Server, source: str, *keys: str) -> Reply:
    return send(server, "EVAL", source, len(keys), *keys)


def text(*lines: str) -> str:
    return "\n".join(lines)


# --- every script, on arbitrary keyspaces -----------------------------------------------------------------------------


def every_script() -> list[Script]:
    """The kit's scripts, of whatever set, each text once."""
    found: dict[str, Script] = {}
    for path in sorted(lua_folder().rglob("*.lua")):
        if path.parent.name != "tools":
            script = Script.read(path)
            found.setdefault(script.sha, script)
    return list(found.values())


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
def calls(draw: st.DrawFn, script: Script, base: str, start: Snapshot) -> Drawn:
    layout: Layout = draw(st.sampled_from(script.layouts))
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

    @settings(
        max_examples=8 + 12 * len(script.layouts),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        start = data.draw(keyspaces(base))
        call = data.draw(calls(script, base, start))
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

    check()
    if script.path.count("/") == 1:  # the published one: its every move was stepped through
        assert reached >= {move.name for move in script.moves}


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


def test_a_call_belongs_to_the_line_that_made_it(server: Server) -> None:
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
    stepped = step(source, ["k"], [], server)
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


@pytest.mark.parametrize(
    ("lua", "shown"),
    [
        ("'a\\n\\0\\255\"'", '"a\\n\\0\\xff\\""'),
        ("string.rep('ż', 60)", '"' + "ż" * 35 + '…"'),
        ("{1, 'b', {true}}", '{1, "b", {true}}'),
        ("{a = 1, b = {{{}}}}", "{a = 1, b = {{…}}}"),
        ("{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}", "{1, 2, 3, 4, 5, 6, 7, 8, … 2 more}"),
        ("{err = 'EMQX no'}", '{err = "EMQX no"}'),
        ("setmetatable({}, {__index = error, __tostring = error})", "{}"),
        ("type", "function"),
        ("0.5", "0.5"),
        ("1796057897306", "1796057897306"),
        ("nil", "nil"),
    ],
)
def test_a_local_is_shown_as_lua_would_write_it(lua: str, shown: str) -> None:
    with open_server("fake://") as server:
        stepped = step(f"local it = {lua}\nreturn 1", [], [], server)
    assert stepped.lines[-1].locals == (("it", shown),)


def test_a_repr_is_the_sentence(server: Server, queue: str, added: Trace) -> None:
    stepped = claim(server, queue)
    where = "a fake" if server.kind == "fake" else "an embedded"
    assert repr(stepped) == (
        "<claim ran 14 lines and made 6 calls; 4 changes. "
        f"In one go, on {where} server, it left the same keys and gave the same reply.>"
    )


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
    "return {1, nil, 3}",
    "return {nil}",
    "return {1, false, 3}",
    "return {true, 'a', 2.5, {3, {4, {}}}}",
    "return {1, 2, [4] = 4, x = 5}",
    "return {x = 1}",
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
    "redis.call = nil",
    "return rawset(redis, 'x', 1)",
    "local ok, e = pcall(function() return nope end) return e",
    "local ok, e = pcall(function() nope = 1 end) return e",
    "return print",
    "return redis.nosuch",
    "return redis.nosuch()",
]


@pytest.mark.parametrize("source", CONVERSIONS)
def test_a_value_becomes_the_reply_it_becomes_on_the_server(source: str, server: Server, queue: str) -> None:
    converted(source, server, queue)


@pytest.mark.parametrize("source", LIVE_CONVERSIONS)
def test_where_the_fake_differs_the_dialect_is_the_live_one(source: str, embedded_server: Server, queue: str) -> None:
    converted(source, embedded_server, queue)


def converted(source: str, server: Server, queue: str) -> None:
    stepped = step(source, [f"emq:{{{queue}}}:k"], [], server)
    assert stepped.agrees is True, stepped.agreement
    assert coarse(stepped.reply) == coarse(evaluate(server, source, f"emq:{{{queue}}}:k"))
