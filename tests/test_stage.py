"""The stage and its films: true to the snapshot at every frame, the same on every run, readable without a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import escape, unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import A, B, P, flow_trace, held_flow, ranked, row, snapshot
from rich_trace import rich_trace
from stage_reading import moments, shown

from emqkit import Child, Flow, Flows, Jobs, Pump, Server, Trace, keys, open_server, record
from emqkit.errors import EmqError
from emqkit.keyspace import Keyspace
from emqkit.snapshot import Hash, Items, Members, Ranked, Snapshot, Text, Value, diff
from emqkit.stepper import step, step_call
from emqkit.trace import CallRecord
from emqkit.viz.film import CHANGES, LOOPS, Film
from emqkit.viz.host import excerpt
from emqkit.viz.lines import told
from emqkit.viz.stage import Fact, Stage
from emqkit.viz.theme import theme_css
from emqkit.viz.twin import twin
from emqkit.wire import Spot

# --- any snapshot -----------------------------------------------------------------------------------------------------

bytes_ = st.binary(max_size=12) | st.sampled_from(
    [P.encode(), A.encode(), b"pending", b"active", b"1", b"-3", b"x" * 300]
)
names = st.sampled_from(
    ["pending", "active", "schedule", "dead", "flow:outbox", "meta", "metrics:completed", "metrics:failed", "odd"]
    + [
        f"job:{id}{tail}"
        for id in (P, A, "short", "")
        for tail in ("", ":dependencies", ":processed", ":logs", ":lock")
    ]
).map(lambda name: f"emq:{{orders}}:{name}".encode())
pairs = st.tuples(bytes_ | st.sampled_from([b"state", b"attempts", b"payload", b"parent", b"paused", b"count"]), bytes_)
values: st.SearchStrategy[Value] = st.one_of(
    st.builds(Text, bytes_),
    st.lists(pairs, max_size=5, min_size=1).map(lambda found: Hash(tuple(sorted(dict(found).items())))),
    st.lists(bytes_, max_size=5, min_size=1).map(lambda found: Items(tuple(found))),
    st.dictionaries(bytes_, st.floats(0, 2e12), max_size=5, min_size=1).map(lambda found: Ranked(tuple(found.items()))),
    st.builds(Members, st.sets(bytes_, max_size=3, min_size=1).map(lambda found: tuple(sorted(found)))),
)
snapshots = st.dictionaries(names | bytes_, values, max_size=8).map(
    lambda contents: Snapshot(tuple(sorted(contents.items())), 1_000_000)
)


def same(id: str) -> str:
    return id


def told_of(facts: dict[Fact, str]) -> dict[Fact, object]:
    """The facts without the numbers of outbox entries, which count on from the start of a trace."""
    boxes: dict[Fact, object] = {}
    for fact in sorted((one for one in facts if one[0] == "box"), key=lambda one: int(one[2])):
        boxes.setdefault(fact[:2], []).append(facts[fact])  # type: ignore[attr-defined]
    return {fact: value for fact, value in facts.items() if fact[0] != "box"} | boxes


@settings(deadline=None, max_examples=150)
@given(snapshots, snapshots)
def test_followed_or_read_at_once_any_keyspace_makes_the_same_stage(before: Snapshot, after: Snapshot) -> None:
    followed, fresh = Stage(same), Stage(same)
    first = dict(followed.begin(before))
    ops = followed.move(diff(before, after), after)
    fresh.begin(after)
    assert told_of(followed.facts) == told_of(fresh.facts)
    for fact, value in ops:
        first[fact] = value  # type: ignore[assignment]
    assert {fact: value for fact, value in first.items() if value is not None} == followed.facts
    held = Keyspace.of(after)
    lanes = {fact[1:] for fact in followed.facts if fact[0] == "set"}
    for queue in held.queues:
        for name, members in queue.sets.items():
            assert {(queue.queue, name, id) for id in members} == {
                one for one in lanes if one[:2] == (queue.queue, name)
            }
        unplaced = {(queue.queue, "held", id) for id, fields in queue.rows.items() if fields and not queue.places(id)}
        assert unplaced == {one for one in lanes if one[:2] == (queue.queue, "held")}
    strangers = [one for queue in (*held.queues, held[""]) for one in queue.strangers]
    assert len([fact for fact in followed.facts if fact[0] == "other"]) == len(strangers)
    assert len([fact for fact in followed.facts if fact[0] == "key"]) == len(after.entries)


# --- what a chip says -------------------------------------------------------------------------------------------------


def facts_of(contents: dict[bytes, Value], now: int = 1_000_000) -> dict[Fact, str]:
    stage = Stage(same)
    stage.begin(snapshot(contents, now))
    return stage.facts


def test_a_parent_is_held_with_its_counter_and_what_came_in() -> None:
    contents = held_flow() | {keys.subkey("orders", P, "processed"): Hash(((A.encode(), b"done"),))}
    facts = facts_of(contents)
    assert facts["set", "orders", "held", P] == "waits for 2"
    assert facts["fan", "orders", P] == "2\t1\t0\t0"
    assert facts["in", "orders", P, "processed", A] == "done"
    assert facts["row", "orders", B, "parent_policy"] == "ignore"


@pytest.mark.parametrize(
    ("lane", "score", "state", "says"),
    [
        ("active", 2_000_000, "active", "token 3"),
        ("active", 900_000, "active", "token 3, lease lapsed"),
        ("schedule", 2_000_000, "scheduled", "due later"),
        ("schedule", 1_000_000, "scheduled", "due now"),
        ("pending", 0, "pending", "tried 3 times"),
        ("pending", 0, "active", "!says active"),
    ],
)
def test_a_chip_says_how_its_job_stands_without_a_reading_of_the_clock(
    lane: str, score: int, state: str, says: str
) -> None:
    contents: dict[bytes, Value] = {
        keys.job("orders", A): row(state, attempts=3),
        keys.queue_key("orders", lane): ranked((A, score)),
    }
    assert facts_of(contents)["set", "orders", lane, A] == says


def test_a_lease_that_lapses_with_time_alone_is_a_change() -> None:
    contents: dict[bytes, Value] = {
        keys.job("orders", A): row("active", attempts=1),
        keys.queue_key("orders", "active"): ranked((A, 1_500_000)),
    }
    stage = Stage(same)
    stage.begin(snapshot(contents))
    assert stage.move((), snapshot(contents, 1_400_000)) == ()
    assert stage.move((), snapshot(contents, 1_600_000)) == ((("set", "orders", "active", A), "token 1, lease lapsed"),)


# --- films ------------------------------------------------------------------------------------------------------------


def test_a_film_is_the_same_on_every_server_and_every_run() -> None:
    films = []
    for url in ("fake://", "fake://", "embedded://"):
        try:
            with open_server(url) as server:
                films.append(Film.of(flow_trace(server, "orders")))
        except EmqError as missing:
            assert url == "embedded://", missing
    assert all(film == films[0] for film in films)
    assert twin(films[0], "k") == twin(films[-1], "k")
    assert films[0].payload() == films[-1].payload()


def test_no_frame_holds_a_clock_reading(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue), lines=["claim"])
    assert not re.search(r"\d{12,}", twin(film) + film.transcript() + str(film.payload()))


def test_at_each_frame_the_facts_are_those_of_its_snapshot() -> None:
    trace = rich_trace()
    film = Film.of(trace)
    assert len(film.frames) == len(list(moments(trace)))
    for (_, after), (facts, _) in zip(moments(trace), film.stages(), strict=True):
        fresh = Stage(film.names)
        fresh.begin(after)
        assert told_of({fact: value for fact, value in facts.items() if fact[0] != "who"}) == told_of(fresh.facts)


def test_a_mark_says_what_became_of_a_fact_and_what_others_did_meanwhile_has_none() -> None:
    trace = rich_trace()
    film = Film.of(trace)
    for (before, after), (_, marks), frame in zip(moments(trace), film.stages(), film.frames, strict=True):
        lanes = shown(before, after, film.names).lanes
        for (queue, lane), chips in lanes.items():
            wanted = {name: mark for name, note, mark in chips if mark in ("new", "gone")}
            found = {film.names(fact[3]): mark for fact, mark in marks.items() if fact[:3] == ("set", queue, lane)}
            said = {"+": "new", "-": "gone"}
            assert wanted == {name: said[mark] for name, mark in found.items() if mark != "~"}, frame.sentence
    assert any(frame.meanwhile for frame in film.frames)


def test_frames_stand_finest_first_and_a_flush_of_scripts_is_stepped_call_by_call(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue))
    assert film.frames[0].where == "the start"
    assert [frame.depth for frame in film.frames[:7]] == [0, 0, 1, 1, 1, 0, 0]
    assert film.frames[2].where == "flows.add · round trip 2 of 2 · call 1 of 3"
    assert film.frames[5].where == "flows.add · round trip 2 of 2"
    assert [at for at, frame in enumerate(film.frames[:7]) if frame.level == CHANGES] == [0, 1, 5]
    many = Film.of(Trace.of(Jobs(server).enqueue_many.program(queue, ["x", "y"]), server))
    assert [(frame.depth, frame.level == CHANGES) for frame in many.frames] == [
        (0, True),
        (1, True),
        (1, True),
        (0, True),
    ]


def test_a_poll_that_finds_nothing_is_no_step_and_a_repeat_that_counts_once_is(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    with record(server) as trace:
        jobs.claim(queue)
        added = jobs.enqueue(queue, "x", id=A)
        jobs.enqueue(queue, "x", id=A)
        jobs.paused(queue)
    film = Film.of(trace)
    assert added
    told_now = [frame.sentence.partition(" ")[0] for frame in film.frames if frame.level == CHANGES]
    assert told_now == ["The", "enqueue", "enqueue", film.frames[-1].sentence.partition(" ")[0]]


def test_a_film_can_go_into_the_lines_of_its_scripts(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue), lines=["enqueue_flow"])
    inside = [frame for frame in film.frames if frame.depth >= 2]
    assert inside and all("inside enqueue_flow" in frame.where for frame in inside)
    assert {frame.move for frame in inside} >= {"gate", "children", "parent", "counter"}
    assert [frame.depth >= 2 for frame in film.frames[: len(inside) + 2]] == [False, *[True] * len(inside), False]
    landing = next(frame for frame in inside if frame.asked and "ZADD" in frame.asked[0][0])
    assert landing.diff == (("+", f"pick enters pending of {queue}"),)
    assert landing.level == LOOPS
    assert landing.source is not None and landing.line is not None
    assert "ZADD" in film.sources[landing.source].lines[landing.line - 1]
    assert dict(landing.keys)["pending"] == f"emq:{{{queue}}}:pending"
    assert dict(landing.argv)["n"] == "3"


def test_many_commands_of_one_flush_are_one_frame_and_the_payload_stays_small(server: Server, queue: str) -> None:
    flow = Flow("pack", [Child(f"child {number}") for number in range(300)])
    film = Film.of(Trace.of(Flows(server).add.program(queue, flow), server))
    assert len(film.frames) == 3
    assert film.peaks[queue, "pending"] == 300
    assert len(str(film.payload())) < 300_000


def test_a_stepped_call_says_whether_its_lines_ended_as_the_recorded_run_did(server: Server) -> None:
    trace = Trace.of(Jobs(server).enqueue.program("orders", "payload"), server)
    alike = "The recorded run, all in one go, left the same keys and gave the same reply."
    assert Film.of(trace, lines=True).frames[-1].sentence.endswith(alike)
    assert "recorded run" not in Film.of(trace).frames[-1].sentence
    (step,) = trace.steps
    forged = replace(step, calls=(replace(step.calls[0], reply=0),))
    other = Trace.assembled(trace.scripts, trace.server_kind, trace.initial, [forged])
    assert "did not end alike" in Film.of(other, lines=True).frames[-1].sentence


# --- who acts ---------------------------------------------------------------------------------------------------------


def memory(film: Film, at: int) -> dict[str, dict[tuple[str, ...], str]]:
    """What each actor has in its box at a frame."""
    facts = [dict(facts) for facts, _ in film.stages()][at]
    return {
        name: {fact[2:]: value for fact, value in facts.items() if fact[:2] == ("who", str(number))}
        for number, name in enumerate(film.actors)
    }


def test_each_actor_holds_what_it_was_answered_until_it_is_settled(server: Server, queues: Callable[..., str]) -> None:
    orders, stock = queues("orders"), queues("stock")
    jobs, pump = Jobs(server), Pump(server, stock)
    with record(server) as trace:
        Flows(server).add(orders, Flow("p", [Child("x", id=A, queue=stock), Child("y", id=B, queue=stock)], id=P))
        claim = jobs.claim(stock)
        assert claim is not None
        jobs.complete(stock, claim)
        pump.sweep()
    film = Film.of(trace)
    assert film.actors == ("producer", f"worker of {stock}", f"Pump of {stock}")
    acts = [None if frame.actor is None else film.actors[frame.actor].partition(" ")[0] for frame in film.frames]
    assert [one for at, one in enumerate(acts) if one != acts[at - 1]] == [None, "producer", "worker", "Pump"]
    claimed = next(at for at, frame in enumerate(film.frames) if frame.sentence.startswith("claim"))
    assert memory(film, claimed)[f"worker of {stock}"]["holds", A, "1"] == ""
    assert ("holds", A, "1") not in memory(film, claimed + 3)[f"worker of {stock}"]
    said = [memory(film, at)[f"Pump of {stock}"]["does",] for at, one in enumerate(acts) if one == "Pump"]
    assert said[-1] == "1 read, 1 delivered, 1 trimmed"
    assert "1 read, 1 delivered, 0 trimmed" in said


def test_a_crash_takes_the_actor_and_a_lapse_the_lease(server: Server, queues: Callable[..., str]) -> None:
    orders, stock = queues("orders"), queues("stock")
    jobs, pump = Jobs(server), Pump(server, stock)
    Flows(server).add(orders, Flow("p", [Child("x", id=A, queue=stock)], id=P))
    with record(server) as trace:
        claim = jobs.claim(stock)
        server.client.zadd(keys.queue_key(stock, "active"), {A: 1})
        jobs.reap(stock)
    film = Film.of(trace)
    assert memory(film, len(film.frames) - 1)[f"worker of {stock}"]["holds", A, "1"] == "lapsed"
    again = jobs.claim(stock)
    assert claim is not None and again is not None
    jobs.complete(stock, again)
    stopped = Film.of(Trace.of(pump.sweep.program(), server, stop_after=3))
    last = memory(stopped, len(stopped.frames) - 1)[f"Pump of {stock}"]
    assert last["state",] == "crashed"


# --- both halves of the code ------------------------------------------------------------------------------------------


def test_an_excerpt_marks_the_smallest_statement_that_waits_and_leaves_out_the_docstring() -> None:
    with open_server("fake://") as server:
        trace = Trace.of(Flows(server).add.program("orders", Flow("p", [Child("x", queue="labels")])), server)
    path = [excerpt(spot) for spot in trace.steps[1].host]
    assert [one.name for one in path] == ["Flows.add", "Flows._add", "Flows._hold_and_land", "Flows._land"]
    for one in path:
        marked = [line for number, line in one.lines if one.marked[0] <= number <= one.marked[1]]
        assert any("yield from" in line for line in marked)
        assert len(marked) < 6
        assert not any('"""' in line for _, line in one.lines)
    inner = path[-1]
    assert "transitions.enqueue_flow_child(" in dict(inner.lines)[inner.marked[0]]


def test_a_function_without_a_source_has_no_excerpt_and_no_error() -> None:
    made: dict[str, Callable[[], object]] = {}
    exec("def steps():\n    yield 1\n", made)
    code = made["steps"].__code__  # type: ignore[attr-defined]
    assert excerpt(Spot(code, 2)).lines == ()


def lines_of(source: str, *argv: str) -> list[tuple[int, str]]:
    """Depth and what a line came to, for each line of a script."""
    with open_server("fake://") as server:
        stepped = step(source, ["emq:{q}:x"], list(argv), server)
    return [(one.depth, one.sentence.partition(": ")[2]) for one in told(stepped)]


def test_a_line_says_what_it_came_to_with_the_values_in_it() -> None:
    source = (
        "local n = tonumber(ARGV[1])\n"
        "if string.sub(ARGV[2], 1, 3) ~= 'JOB' then\n"
        "  return 0\n"
        "end\n"
        "if n > 1 and ARGV[2] == 'x' then\n"
        "  n = 0\n"
        "end\n"
        "if n >= 2 then\n"
        "  n = n + 1\n"
        "end\n"
        "return n\n"
    )
    assert [said for _, said in lines_of(source, "2", "JOBx")] == [
        "local n = tonumber(ARGV[1]) · n is 2",
        "if string.sub(ARGV[2], 1, 3) ~= 'JOB' then · 'JOB' is 'JOB': on to line 5",
        "if n > 1 and ARGV[2] == 'x' then · on to line 8",
        "if n >= 2 then · 2 >= 2 is true: into the next line",
        "n = n + 1 · n is 3",
        "return n · the answer is 3",
    ]


def test_a_loop_stands_after_its_rounds_one_less_deep_and_says_what_it_did() -> None:
    source = "for i = 1, 2 do\n  for j = 1, 2 do\n    redis.call('INCR', KEYS[1])\n  end\nend\nreturn 1\n"
    found = lines_of(source)
    assert [depth for depth, _ in found][:6] == [1, 2, 2, 2, 2, 2]
    assert (1, "for j = 1, 2 do · the loop runs 2 times: 2 × INCR") in found
    assert found[-2:] == [
        (0, "for i = 1, 2 do · the loop runs 2 times: 4 × INCR"),
        (0, "return 1 · the answer is 1"),
    ]


def test_every_published_script_is_told_to_its_end() -> None:
    trace = rich_trace()
    calls: list[CallRecord] = [call for call in trace.calls if call.call.kind == "script"]
    assert len({call.call.verb for call in calls}) > 8
    for call in calls:
        stepped = step_call(call, trace.scripts)
        numbers = [one.moment.line.number for one in told(stepped) if one.depth == 0]
        assert numbers[-1] == stepped.lines[-1].number


# --- the twin ---------------------------------------------------------------------------------------------------------


def test_a_twin_holds_every_sentence_and_change_and_needs_no_style_sheet_and_no_picture(
    server: Server, queue: str
) -> None:
    film = Film.of(flow_trace(server, queue))
    page = twin(film, "some-key")
    for frame in film.frames:
        assert escape(frame.sentence) in page
        for _, words in frame.diff:
            assert words in unescape(page)
    for lost in ("<script", "javascript", "<style", "<svg", "var(--", " id=", " role=", "aria-"):
        assert lost not in page, lost
    assert 'data-emqkit-twin="some-key"' in page
    assert page.count("<table") == sum(frame.level == CHANGES for frame in film.frames)


def test_a_long_twin_leaves_out_boards_but_no_sentence_and_a_very_long_one_tells_what_matters() -> None:
    with open_server("fake://") as server, record(server) as trace:
        jobs = Jobs(server)
        for number in range(150):
            jobs.enqueue("orders", f"job {number}")
            jobs.depths("orders")
    film = Film.of(trace)
    page = twin(film)
    assert len(film.frames) > 700 > len(film.told) == page.count("<summary") > 150
    assert page.count("<table") <= 24
    assert f"{len(film.told)} of {len(film.frames)} steps" in page
    assert film.transcript().endswith(f"{len(film.told)} of {len(film.frames)} steps.")


# --- colours ----------------------------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG counts it, 1 to 21."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_from_its_paper_in_both_themes() -> None:
    themes = re.findall(r"\.x\{([^{}]*--emq-ink[^{}]*)\}", theme_css(".x"))
    for theme in themes[:2]:
        colours = dict(re.findall(r"--emq-(\w+):(?:var\([^#]*)?(#\w{6})", theme))
        for ink in ("ink", "soft", "alarm"):
            for paper in ("paper", "panel"):
                assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper, colours)
    assert len(themes) >= 2
