"""Boards, sentences and figures: true to the snapshot and the reply, readable by everybody, the same on every run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Server, Trace, capture, keys, open_server, record
from emqkit.errors import BadArgument, EmqError, ReplyLost, WrongNamespace
from emqkit.keyspace import Keyspace
from emqkit.scripts import Script, ScriptSet
from emqkit.snapshot import Change, Hash, Items, Members, Ranked, Snapshot, Text, Value, diff
from emqkit.trace import CallRecord, Step
from emqkit.viz import boards, figures
from emqkit.viz.frames import Film
from emqkit.viz.theme import ACCENTS, BOARD_CSS
from emqkit.wire import Call, ErrorReply, Flush, Reply, command, run
from emqkit.words import calls as text
from emqkit.words.changes import changes_in_words, telling
from emqkit.words.text import plain

SVG = "{http://www.w3.org/2000/svg}"

P, A, B, C = "JOB0KHTOWnGLuC", "JOB0KHTOWnGLuD", "JOB0KHTOWnGLuE", "JOB0KHTOWnGLuF"


def fields(**named: str | bytes) -> Hash:
    encoded = ((name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in named.items())
    return Hash(tuple(sorted(encoded)))


def row(state: str, attempts: int = 0, payload: str | bytes = "pick", **more: str) -> Hash:
    return fields(state=state, attempts=str(attempts), payload=payload, **more)


def ranked(*members: tuple[str, float]) -> Ranked:
    return Ranked(tuple((id.encode(), float(score)) for id, score in members))


def snapshot(contents: dict[bytes, Value], now: int = 1_000_000) -> Snapshot:
    return Snapshot(tuple(sorted(contents.items())), now)


def held_flow() -> dict[bytes, Value]:
    """One parent, two children, in queue orders."""
    return {
        keys.job("orders", P): row("awaiting_children", payload="pack order 7"),
        keys.subkey("orders", P, "dependencies"): Text(b"2"),
        keys.job("orders", A): row("pending", parent=P, parent_policy="fp"),
        keys.job("orders", B): row("pending", payload="label", parent=P, parent_policy="id"),
        keys.queue_key("orders", "pending"): ranked((A, 0), (B, 0)),
    }


def texts(picture: str) -> list[str]:
    """Every text of a picture, in the order it is drawn."""
    root = ElementTree.fromstring(picture)
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def classes(picture: str, name: str) -> int:
    """How many elements have this class."""
    root = ElementTree.fromstring(picture)
    return sum(name in (node.get("class") or "").split() for node in root.iter())


# --- boards -----------------------------------------------------------------------------------------------------------


def test_a_board_shows_who_is_where_and_what_a_parent_waits_for() -> None:
    picture = boards.board(snapshot(held_flow()))
    shown = " | ".join(texts(picture))
    for words in (
        "orders",
        "…GLuD",
        "pick",
        "…GLuE",
        "label",
        "…GLuC ◆",
        "waits for 2",
        "awaiting_children",
        "fail",
        "ignore",
    ):
        assert words in shown
    for name in ("held:", "pending", "active", "schedule", "dead", "processed", "unsuccessful", "failed"):
        assert any(name in words for words in texts(picture))


def test_a_long_payload_leaves_a_gap_before_the_parent_and_its_start_is_on_the_chip() -> None:
    contents = held_flow()
    contents[keys.job("orders", A)] = row("pending", payload="abcdefghijklmnopqrstuvwxyz", parent=P)
    picture = boards.board(snapshot(contents))
    assert "…GLuDabcdefghij…" in texts(picture)
    places = {
        "".join(node.itertext()): float(node.get("x", ""))
        for node in ElementTree.fromstring(picture).iter(f"{SVG}text")
    }
    cut = next(words for words in places if words.startswith("abc"))
    assert places[cut] + len(cut) * 7.9 + 8 <= places["parent"]  # px a letter, in the widest of the theme's fonts


def test_a_board_says_in_words_what_it_shows() -> None:
    picture = boards.board(snapshot(held_flow()))
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img"
    told = root.findtext(f"{SVG}desc")
    assert told == root.get("aria-label") == boards.describe(snapshot(held_flow()))
    assert "JOB…GLuC in no set, waits for 2" in told
    assert "pending: JOB…GLuD, JOB…GLuE" in told


def test_a_change_is_marked_by_a_ring_and_a_sign_and_not_by_colour_alone() -> None:
    before = snapshot(held_flow())
    contents = held_flow()
    contents[keys.queue_key("orders", "pending")] = ranked((B, 0))
    contents[keys.queue_key("orders", "active")] = ranked((A, 2_000_000))
    contents[keys.job("orders", A)] = row("active", 1, parent=P, parent_policy="fp")
    picture = boards.board(snapshot(contents), previous=before)
    assert classes(picture, "r") >= 2  # the chip in active, the row
    assert texts(picture).count("+") == 1
    assert "−" in texts(picture)
    assert "to active" in texts(picture)
    assert "pending → active" in texts(picture)
    assert "0 → 1" in texts(picture)

    unmarked = boards.board(snapshot(contents))
    assert classes(unmarked, "r") == 0
    assert not {"+", "−", "±"} & set(texts(unmarked))


def test_a_counter_that_moved_shows_both_values() -> None:
    contents = held_flow()
    contents[keys.subkey("orders", P, "dependencies")] = Text(b"1")
    contents[keys.subkey("orders", P, "processed")] = fields(**{A: "shelf 4"})
    picture = boards.board(snapshot(contents), previous=snapshot(held_flow()))
    assert "2 → 1" in texts(picture)
    assert "+ …GLuDshelf 4" in texts(picture)
    assert classes(picture, "pip") == 1  # one outstanding
    assert classes(picture, "done") == 1  # one result


def test_a_lease_is_running_or_lapsed_and_a_delay_due_or_not_without_a_figure() -> None:
    contents: dict[bytes, Value] = {
        keys.job("orders", A): row("active", 1),
        keys.job("orders", B): row("active", 1),
        keys.job("orders", C): row("scheduled"),
        keys.job("orders", P): row("scheduled"),
        keys.queue_key("orders", "active"): ranked((A, 1_700_000_000_000), (B, 1_700_000_000_002)),
        keys.queue_key("orders", "schedule"): ranked((C, 1_700_000_000_000), (P, 1_700_000_000_002)),
    }
    picture = boards.board(snapshot(contents, now=1_700_000_000_001))
    for words in ("lease lapsed", "lease running", "due now", "due later"):
        assert texts(picture).count(words) == 1
    assert "1700000000" not in picture


def test_a_deadline_that_moved_by_the_time_between_two_calls_is_no_change() -> None:
    active = keys.queue_key("orders", "active")
    before, soon, later = (
        snapshot({active: ranked((A, deadline)), keys.job("orders", A): row("active", 1)})
        for deadline in (50_000, 50_003, 80_000)
    )
    assert boards.board(soon, previous=before) == boards.board(before)
    assert changes_in_words(diff(before, soon)) == []
    assert changes_in_words(diff(before, later)) == [("~", "JOB…GLuD in active of orders: its lease ends later")]
    assert "±" in texts(boards.board(later, previous=before))


def test_what_went_wrong_is_shown_and_said() -> None:
    contents: dict[bytes, Value] = {
        keys.queue_key("orders", "pending"): ranked((A, 0)),  # no row
        keys.job("orders", B): fields(parent_policy="fp"),  # a row of one field
        keys.job("orders", C): row("pending"),  # in no set
        keys.job("orders", P): row("awaiting_children"),  # without a counter
    }
    shown = texts(boards.board(snapshot(contents)))
    for words in ("⚠ no row", "⚠ row not whole", "⚠ says pending", "⚠ no counter"):
        assert words in shown


def test_keys_of_nobody_and_of_the_wrong_type_are_on_the_board_too() -> None:
    contents: dict[bytes, Value] = {
        b"emq:{orders}:pending": Items((b"x",)),
        b"emq:{orders}:weird": Text(b"what?"),
        b"emq:{orders}:crowd": Members((b"m",)),
        b"elsewhere": fields(a="b"),
    }
    shown = " | ".join(texts(boards.board(snapshot(contents))))
    assert "a list where the protocol has a zset" in shown
    assert "a string, not one of the protocol's keys" in shown
    assert "what?" in shown
    assert "outside every queue" in shown
    assert "elsewhere" in shown
    gone = " | ".join(texts(boards.board(snapshot({}), previous=snapshot(contents))))
    assert "elsewhere" in gone and "weird" in gone


def test_payloads_of_any_bytes_are_escaped_and_long_ones_elided() -> None:
    contents = held_flow()
    contents[keys.job("orders", A)] = row("pending", payload=b'<b>&"\x00\xff\n' + b"long " * 50)
    picture = boards.board(snapshot(contents))
    ElementTree.fromstring(picture)
    assert "<b>" not in picture
    assert any(words.startswith('<b>&"\\x00\\xff') and words.endswith("…") for words in texts(picture))
    assert "\\x0a" + "long " * 50 in picture  # whole, in the tooltip


def test_an_outbox_is_decoded_and_poison_is_shown_as_such() -> None:
    orders, parent, child = b"orders", P.encode(), A.encode()
    contents: dict[bytes, Value] = {
        keys.queue_key("payments", "flow:outbox"): Items(
            (
                b"\0".join([orders, parent, child, b"ok"]),
                b"\0fail\0" + b"\0".join([orders, parent, child, b"id", b"declined"]),
                b"junk",
            )
        )
    }
    shown = texts(boards.board(snapshot(contents)))
    assert "…GLuD for …GLuC in orders" in shown
    assert "result ok" in shown
    assert "policy id · error declined" in shown
    assert "⚠ poison" in shown


def test_trimmed_entries_stand_struck_through_where_they_stood() -> None:
    key = keys.queue_key("payments", "flow:outbox")
    before = snapshot({key: Items((b"one", b"two"))})
    shown = texts(boards.board(snapshot({key: Items((b"two", b"three"))}), previous=before))
    marks = [(shown[at - 2], shown[at]) for at, words in enumerate(shown) if words in ("one", "three")]
    assert marks == [("−", "one"), ("+", "three")]


def test_a_pause_is_on_the_board() -> None:
    paused = snapshot({keys.queue_key("orders", "meta"): fields(paused="1")})
    assert "paused" in texts(boards.board(paused))
    assert "no longer paused" in texts(boards.board(snapshot({}), previous=paused))


def test_many_jobs_fit_by_being_counted_and_changed_ones_are_kept_in_sight() -> None:
    minter = Minter.fixed()
    ids = [minter.mint() for _ in range(60)]
    contents: dict[bytes, Value] = {keys.job("orders", id): row("pending") for id in ids}
    contents[keys.queue_key("orders", "pending")] = ranked(*((id, 0) for id in ids[:-1]))
    before = snapshot(contents)
    contents[keys.queue_key("orders", "pending")] = ranked(*((id, 0) for id in ids))
    shown = texts(boards.board(snapshot(contents), previous=before))
    assert "and 52 more" in shown
    assert any(re.fullmatch(r"and \d+ more rows", words) for words in shown)
    assert any(f"…{ids[-1][-4:]}" in words for words in shown)
    assert "60" in shown


def test_an_empty_keyspace_has_a_board() -> None:
    assert "the keyspace is empty" in texts(boards.board(Snapshot()))
    assert boards.describe(Snapshot()) == "The keyspace is empty."


def test_a_board_brings_its_style_unless_the_page_has_it() -> None:
    styled, bare = (boards.board(snapshot(held_flow()), styled=styled) for styled in (True, False))
    assert BOARD_CSS in styled
    assert "<style>" not in bare
    assert styled.replace(f"<style>{BOARD_CSS}</style>", "") == bare
    assert "http" not in styled.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert " id=" not in styled
    assert styled._repr_html_() == styled
    assert len(repr(styled)) < 60


def test_the_style_follows_light_and_dark_and_its_text_is_no_smaller_than_twelve() -> None:
    assert "prefers-color-scheme:dark" in BOARD_CSS
    assert '[data-jp-theme-light="false"]' in BOARD_CSS
    sizes = [float(size) for size in re.findall(r"font(?:-size)?:([\d.]+)px", BOARD_CSS)]
    assert sizes and min(sizes) >= 12
    assert len(set(ACCENTS.values())) == len(ACCENTS)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG counts it, 1 to 21."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_from_its_paper_in_both_themes() -> None:
    themes = re.findall(r"\.emq-board\{([^{}]*--emq-ink[^{}]*)\}", BOARD_CSS)
    for theme in themes[:2]:
        colours = dict(re.findall(r"--emq-(\w+):(?:var\([^#]*)?(#\w{6})", theme))
        for ink in ("ink", "soft"):
            for paper in ("paper", "panel"):
                assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper, colours)
    assert len(themes) >= 2


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
    st.builds(Members, st.sets(bytes_, max_size=3).map(lambda found: tuple(sorted(found)))),
)
snapshots = st.dictionaries(names | bytes_, values, max_size=8).map(
    lambda contents: Snapshot(tuple(sorted(contents.items())), 1_000_000)
)


@settings(deadline=None, max_examples=120)
@given(snapshots, snapshots)
def test_any_two_snapshots_make_a_well_formed_board_that_hides_no_key(before: Snapshot, after: Snapshot) -> None:
    picture = boards.board(after, previous=before)
    ElementTree.fromstring(picture)
    assert picture == boards.board(after, previous=before)
    held = Keyspace.of(after)
    shown = " ".join(texts(picture))
    assert not held.strangers or "outside every queue" in shown
    for queue in held.queues:
        assert plain(queue.queue)[:20] in shown
    lines = changes_in_words(diff(before, after))
    assert all(mark in "+-~" and "\n" not in words for mark, words in lines)
    assert bool(lines) == bool(list(telling(diff(before, after))))
    planned = boards.plan([(None, before), (before, after)])
    first, second = (boards.board(one, changes=diff(before, one), plan=planned) for one in (before, after))
    heights = {ElementTree.fromstring(one).get("height") for one in (first, second)}
    assert len(heights) == 1


# --- sentences --------------------------------------------------------------------------------------------------------


@pytest.fixture
def world(server: Server) -> Server:
    """The server with ids that are the same on every run."""
    server.minter = Minter.fixed()
    return server


def told(trace: Trace) -> list[str]:
    """The sentence of every call."""
    return [text.sentence(record, trace.scripts) for record in trace.calls]


def test_a_same_queue_flow_is_told_from_land_to_release(world: Server, queue: str) -> None:
    flows, jobs = Flows(world), Jobs(world)
    with record(world, pattern=keys.base(queue) + b"*") as trace:
        flows.add(queue, Flow("pack order 7", [Child("pick"), Child("label", on_failure="ignore")]))
        claim = jobs.claim(queue)
        assert claim is not None
        jobs.complete(queue, claim, result="shelf 4")
        second = jobs.claim(queue)
        assert second is not None
        jobs.retry(queue, second, error="no printer", max_attempts=1, delay_ms=0)
        with pytest.raises(EmqError):
            jobs.complete(queue, claim)
    assert told(trace) == [
        f"enqueue_flow lands the flow of JOB…GLuC in {queue} in one step: 2 children are claimable in pending, "
        "the parent is held in no set, its counter at 2.",
        "HSET writes parent_policy = fp (fail) on the row of JOB…GLuD.",
        "HSET writes parent_policy = id (ignore) on the row of JOB…GLuE.",
        f"HEXISTS asks whether {queue} is paused: no.",
        f"claim hands out JOB…GLuD, the smallest id in pending of {queue}: "
        "it is active under a lease, and its token is 1.",
        "HMGET reads the row of JOB…GLuD: parent JOB…GLuC, parent_queue none.",
        f"complete retires JOB…GLuD of {queue}: its result is in processed of JOB…GLuC, whose counter goes 2 → 1.",
        "DEL finds no logs of JOB…GLuD to delete; nothing changed.",
        f"HEXISTS asks whether {queue} is paused: no.",
        f"claim hands out JOB…GLuE, the smallest id in pending of {queue}: "
        "it is active under a lease, and its token is 1.",
        "HMGET reads the row of JOB…GLuE: parent JOB…GLuC, parent_queue none, parent_policy id (ignore).",
        f'retry finds no attempt left for JOB…GLuE of {queue}: it is dead, after "no printer". The error is in '
        "unsuccessful of JOB…GLuC, whose counter goes 1 → 0. That was the last one: JOB…GLuC is released into pending.",
        "HMGET reads the row of JOB…GLuD: parent none, parent_queue none.",
        f"complete finds no row of JOB…GLuD in {queue}: it is gone; nothing changed.",
    ]


def test_a_cross_queue_flow_is_told_with_its_outbox(world: Server, queues: Callable[..., str]) -> None:
    orders, payments = queues("orders"), queues("payments")
    flows, jobs = Flows(world), Jobs(world)
    with record(world) as trace:
        flows.add(orders, Flow("order", [Child("charge", queue=payments)]))
        claim = jobs.claim(payments)
        assert claim is not None
        jobs.complete(payments, claim)
        Pump(world, payments).sweep()
    spoken = told(trace)
    assert f"hold_parent lands JOB…GLuC in {orders}, held in no set, its counter at 1." in spoken
    assert f"enqueue_flow_child lands JOB…GLuD in {payments}, in pending, as a child of JOB…GLuC in {orders}." in spoken
    assert (
        f"complete retires JOB…GLuD of {payments} and leaves a signal for JOB…GLuC in {orders}, "
        f"in the outbox of {payments}." in spoken
    )
    assert any(one.startswith(f"LRANGE reads 1 entry of the outbox of {payments}") for one in spoken)
    assert (
        f"flow_deliver brings the result of JOB…GLuD into processed of JOB…GLuC in {orders}, whose counter goes 1 → 0. "
        "That was the last one: JOB…GLuC is released into pending." in spoken
    )
    assert f"LTRIM trims 1 entry off the outbox of {payments}; 0 left." in spoken
    with record(world) as again:
        run(world, iter_call(trace.calls[-2].call))
    assert told(again) == [
        f"flow_deliver finds the result of JOB…GLuD with JOB…GLuC in {orders} already: it counts once; nothing changed."
    ]


def iter_call(call: Call[object]):  # type: ignore[no-untyped-def]  # the steps of one call
    """One call as an operation."""
    return (yield from call)


def test_a_refusal_says_why_and_that_nothing_changed(world: Server, queue: str) -> None:
    trace = Trace.of(Flows(world).add.program(queue, Flow("order", [Child("x", id="ORD0KHTOWnGLuC")])), world)
    assert isinstance(trace.error, WrongNamespace)
    assert told(trace) == [
        "enqueue_flow is refused because of ORD…GLuC: EMQKIND job id must be JOB-namespaced; nothing changed."
    ]
    film = Film.of(trace)
    assert film.frames[-1].sentence == told(trace)[0] + " flows.add raises WrongNamespace."
    assert film.frames[-1].diff == ()


def test_every_transition_has_a_sentence_of_its_own(world: Server, queue: str) -> None:
    jobs = Jobs(world)
    with record(world) as trace:
        jobs.enqueue(queue, "a", id=A)
        jobs.enqueue(queue, "a", id=A)
        jobs.enqueue_many(queue, [(B, "b"), (C, "c")])
        jobs.enqueue_in(queue, "later", 0)
        jobs.promote(queue)
        jobs.promote(queue)
        waiting = jobs.claim(queue)
        assert waiting is not None and waiting.id == P  # the minted one
        claim = jobs.claim(queue)
        assert claim is not None and claim.id == A
        jobs.extend_lock(queue, claim)
        jobs.extend_locks(queue, [claim, (B, 7)])
        jobs.reap(queue)
        jobs.retry(queue, claim, error="once", max_attempts=3, delay_ms=60_000)
        second = jobs.claim(queue)
        assert second is not None
        jobs.retry(queue, second, error="for good", max_attempts=1, delay_ms=0)
        jobs.reprocess(queue, second.id)
        jobs.remove(queue, second.id)
        jobs.pause(queue)
        jobs.claim(queue)
        jobs.resume(queue)
        jobs.state(queue, A)
        jobs.depths(queue)
    spoken = told(trace)
    assert not [one for one in spoken if " answers " in one], "a sentence that only repeats the reply"
    for words in (
        f"enqueue lands JOB…GLuD in {queue}: a row, and a place in pending.",
        f"enqueue finds a row of JOB…GLuD in {queue} already: a duplicate; nothing changed.",
        f"promote finds nothing due in schedule of {queue}; nothing changed.",
        f"extend_lock gives JOB…GLuD of {queue} a new deadline for its lease.",
        f"extend_locks gives 1 of 2 leases of {queue} a new deadline; not extended: JOB…GLuE.",
        f"reap finds no lapsed lease in active of {queue}; nothing changed.",
        f'retry puts JOB…GLuD of {queue} into schedule for another attempt, after "once".',
        f"HSET pauses {queue}: claims stop, nothing else does.",
        f"HEXISTS asks whether {queue} is paused: yes.",
        f"HDEL resumes {queue}.",
    ):
        assert words in spoken
    assert any("schedule lands" in one and "until it is due" in one for one in spoken)
    assert any("back from dead into pending" in one for one in spoken)
    assert any("out of" in one and "for good" in one for one in spoken)


def test_a_script_that_does_something_else_is_not_told_as_if_it_did_not(world: Server, queue: str) -> None:
    jobs = Jobs(world)
    with record(world) as trace:
        jobs.enqueue(queue, "a", id=A)
        jobs.claim(queue)
    claim = trace.calls[-1]
    lost = CallRecord(claim.call, claim.reply, claim.before, claim.before)  # it answered, and wrote nothing
    assert "it is not in active" in text.sentence(lost, trace.scripts)
    odd = CallRecord(claim.call, b"what?", claim.before, claim.before)
    assert text.sentence(odd, trace.scripts).endswith('answers "what?"; nothing changed.')
    assert trace.scripts["claim"].summary in text.sentence(odd, trace.scripts)


def landed_with(scripts: ScriptSet | str) -> str:
    """The sentence of a flow of two that these scripts land."""
    with open_server("fake://", scripts=scripts) as server:
        server.minter = Minter.fixed()
        trace = Trace.of(Flows(server).add.program("orders", Flow("p", [Child("a"), Child("b")])), server)
    return told(trace)[0]


def edited(folder: Path, name: str, old: str, new: str = "") -> ScriptSet:
    """The published scripts with one of them copied to a folder and changed there."""
    source = ScriptSet.load("published")[name].source
    assert old in source
    (folder / f"{name}.lua").write_text(source.replace(old, new), "utf-8")
    return ScriptSet.load(folder)


HELD_ROW = "redis.call('HSET', parent, 'state', 'awaiting_children', 'attempts', '0', 'payload', payload)"


def test_a_parent_that_the_script_put_into_pending_is_not_called_held() -> None:
    assert landed_with("zoo/parent-not-held") == (
        "enqueue_flow lands the flow of JOB…GLuC in orders in one step: 2 children are claimable in pending, "
        "the parent stands in pending, its counter at 2."
    )


@pytest.mark.usefixtures("wheel")
def test_a_parent_or_child_without_a_row_or_place_is_told_as_such(tmp_path: Path) -> None:
    for old, new, words in (
        (HELD_ROW, "", "lands part of the flow of JOB…GLuC in orders: 2 children are claimable in pending, "
                       "the parent has no row, its counter at 2."),
        ("'awaiting_children'", "'pending'", "the parent stands in no set with the state pending, its counter at 2."),
        ("redis.call('ZADD', pending, 0, child_id)", "", "0 of 2 children are claimable in pending, the parent is"),
        ("for i = 1, n do\n  local child = KEYS", "for i = 1, 1 do\n  local child = KEYS",
         "lands part of the flow of JOB…GLuC in orders: 1 of 2 children is claimable in pending, the parent is held"),
        ("'HSET', child, 'state'", "'HSET', parent, 'state'",
         "0 of 2 children are claimable in pending (2 more in it without a row), the parent is held in no set"),
    ):  # fmt: skip
        assert words in landed_with(edited(tmp_path, "enqueue_flow", old, new))


@pytest.mark.usefixtures("wheel")
def test_a_parent_held_across_queues_is_told_by_its_row(tmp_path: Path) -> None:
    scripts = edited(tmp_path, "hold_parent", HELD_ROW)
    flow = Flow("p", [Child("a", queue="payments")])
    with open_server("fake://", scripts=scripts) as server:
        server.minter = Minter.fixed()
        spoken = told(Trace.of(Flows(server).add.program("orders", flow), server))
    assert spoken[0] == (
        "hold_parent answers 1 for JOB…GLuC in orders, and yet the parent has no row, its counter at 1."
    )
    scripts = edited(tmp_path, "enqueue_flow_child", "'parent', parent_id", "'mother', parent_id")
    with open_server("fake://", scripts=scripts) as server:
        server.minter = Minter.fixed()
        spoken = told(Trace.of(Flows(server).add.program("orders", flow), server))
    assert "enqueue_flow_child lands JOB…GLuD in payments, in pending, with a row that does not name JOB…GLuC" in (
        " ".join(spoken)
    )


def test_an_error_after_writes_is_not_called_clean(world: Server, queue: str) -> None:
    with record(world) as trace:
        Jobs(world).enqueue(queue, "a", id=A)
    one = trace.calls[-1]
    broken = CallRecord(one.call, ErrorReply("ERR", "attempt to index a nil value"), one.before, one.after)
    assert text.sentence(broken, trace.scripts).endswith("what it had written before stays.")


def test_a_round_trip_of_several_calls_is_one_sentence(world: Server, queue: str) -> None:
    trace = Trace.of(Flows(world).add.program(queue, Flow("p", [Child("a"), Child("b")])), world)
    assert text.step_sentence(trace.steps[0], trace.scripts) == told(trace)[0]
    with record(world, pattern=keys.base(queue) + b"*") as depths:
        Jobs(world).depths(queue)
    (step,) = depths.steps
    words = text.step_sentence(step, depths.scripts)
    assert words.startswith(f"{len(step.calls)} calls in one round trip: " + " ".join(told(depths)[:3]))


def test_policies_written_in_one_round_trip_are_told_once(world: Server, queue: str) -> None:
    flow = Flow("p", [Child("a"), Child("b"), Child("c", on_failure="ignore")])
    trace = Trace.of(Flows(world).add.program(queue, flow), world)
    step = trace.steps[1]
    once = "3 calls in one round trip: the failure policies of 3 children are written (fp, fp, id)"
    assert text.step_sentence(step, trace.scripts) == f"{once}."
    same = replace(step, before=step.after, calls=tuple(replace(one, before=step.after) for one in step.calls))
    assert text.step_sentence(same, trace.scripts) == f"{once}; they stood there already."
    refused = replace(step, calls=(replace(step.calls[0], reply=ErrorReply("WRONGTYPE", "no")), *step.calls[1:]))
    assert "is refused" in text.step_sentence(refused, trace.scripts)


def test_a_policy_nobody_knows_is_shown_raw() -> None:
    contents = held_flow()
    contents[keys.job("orders", A)] = row("pending", parent=P, parent_policy="xx")
    picture = boards.board(snapshot(contents))
    assert "⚠ xx" in texts(picture) and "ignore" in texts(picture)
    assert "parent_policy: id" in picture


def test_what_a_multi_did_is_told_of_the_whole_and_a_lost_reply_is_not_hidden() -> None:
    with open_server("fake://") as server:

        def both():  # type: ignore[no-untyped-def]  # two calls in MULTI
            meta = keys.queue_key("orders", "meta")
            yield from Flush(
                (
                    command("HSET", [meta], [b"paused", b"1"], lambda reply: reply),
                    command("HEXISTS", [meta], [b"paused"], lambda reply: reply),
                ),
                atomic=True,
            )

        with record(server) as trace:
            run(server, both())
        (step,) = trace.steps
        words = text.step_sentence(step, trace.scripts)
        assert words.startswith("2 calls in one MULTI … EXEC: HSET pauses orders: claims stop, nothing else does.")
        assert [frame.depth for frame in Film.of(trace).frames] == [0, 0]
        gone = Step("jobs.pause", 0, 1, step.flush, (), step.before, step.before, ReplyLost("fake://", "HSET"))
        assert "ReplyLost" in text.step_sentence(gone, trace.scripts)
        assert "not known" in text.step_sentence(gone, trace.scripts)


def test_changes_are_told_with_who_moved_first_and_rows_later() -> None:
    contents = held_flow()
    del contents[keys.job("orders", A)]
    contents[keys.queue_key("orders", "pending")] = ranked((P, 0))
    contents[keys.queue_key("orders", "active")] = ranked((B, 1))
    contents[keys.job("orders", B)] = row("active", 1, payload="label", parent=P, parent_policy="id")
    contents[keys.subkey("orders", P, "dependencies")] = Text(b"1")
    contents[keys.subkey("orders", P, "processed")] = fields(**{A: A})
    contents[keys.queue_key("orders", "metrics:completed")] = fields(count="1")
    contents[b"elsewhere"] = Text(b"x")
    lines = changes_in_words(diff(snapshot(held_flow()), snapshot(contents)))
    assert lines == [
        ("+", "JOB…GLuC enters pending of orders"),
        ("-", "JOB…GLuD leaves pending of orders"),
        ("~", "JOB…GLuE moves from pending to active of orders"),
        ("~", "the counter of JOB…GLuC: 2 → 1"),
        ("+", "processed of JOB…GLuC gains JOB…GLuD: its own id"),
        ("-", "the row of JOB…GLuD is deleted"),
        ("~", "state of JOB…GLuE: pending → active"),
        ("~", "attempts of JOB…GLuE: 0 → 1"),
        ("+", "completed count of orders: 0 → 1"),
        ("+", 'key "elsewhere" gains 1 part'),
    ]


def test_fields_written_apart_and_settings_are_told_for_what_they_are() -> None:
    rows = keys.job("orders", A)
    meta = keys.queue_key("orders", "meta")
    assert changes_in_words([Change(rows, b"parent_policy", None, b"id")]) == [
        ("+", "the row of JOB…GLuD gains parent_policy id (ignore)")
    ]
    assert changes_in_words([Change(rows, b"last_error", b"boom", None)]) == [
        ("-", "the row of JOB…GLuD loses last_error")
    ]
    assert changes_in_words([Change(meta, b"paused", None, b"1")]) == [("+", "orders is paused")]
    assert changes_in_words([Change(meta, b"paused", b"1", None)]) == [("-", "orders is no longer paused")]


# --- films ------------------------------------------------------------------------------------------------------------


def flow_trace(server: Server, queue: str) -> Trace:
    """A flow of three children on one queue, every child completed, and the parent claimed."""
    server.minter = Minter.fixed()
    flows, jobs = Flows(server), Jobs(server)
    with record(server, pattern=keys.base(queue) + b"*") as trace:
        flows.add(queue, Flow("pack order 7", [Child("pick"), Child("label"), Child("weigh")]))
        for _ in range(3):
            claim = jobs.claim(queue)
            assert claim is not None
            jobs.complete(queue, claim)
        jobs.claim(queue)
    return trace


def test_a_film_is_the_same_on_every_server_and_every_run() -> None:
    films = []
    for url in ("fake://", "fake://", "embedded://"):
        try:
            with open_server(url) as server:
                films.append(Film.of(flow_trace(server, "orders")))
        except EmqError as missing:
            assert url == "embedded://", missing
    assert all(film == films[0] for film in films)
    assert "…GLuC" in films[0].twin("k")
    assert films[0].twin("k") == films[-1].twin("k")


def test_no_frame_holds_a_clock_reading(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue), lines=["claim"])
    assert not re.search(r"\d{12,}", film.twin() + film.transcript() + "".join(film.boards))


def test_frames_stand_finest_first_and_share_their_pictures(server: Server, queue: str) -> None:
    trace = flow_trace(server, queue)
    film = Film.of(trace)
    assert film.frames[0].where == "the start"
    assert [frame.depth for frame in film.frames[:7]] == [0, 0, 1, 1, 1, 0, 0]
    assert film.frames[2].where == "flows.add · round trip 2 of 2 · call 1 of 3"
    assert film.frames[5].where == "flows.add · round trip 2 of 2"
    assert len(film.boards) == len(set(film.boards)) < len(film.frames)
    assert {frame.board for frame in film.frames} == set(range(len(film.boards)))
    heights = {ElementTree.fromstring(picture).get("height") for picture in film.boards}
    assert len(heights) == 1, "nothing moves from one picture to the next"


def test_an_id_keeps_its_row_through_the_whole_film(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue))
    places: dict[str, set[str | None]] = {}
    for picture in film.boards:
        for node in ElementTree.fromstring(picture).iter(f"{SVG}text"):
            words = "".join(node.itertext()).split()
            if words and words[0].startswith("…GLu") and node.get("x") == "48":
                places.setdefault(words[0], set()).add(node.get("y"))
    assert set(places) == {"…GLuC", "…GLuD", "…GLuE", "…GLuF"}
    assert all(len(found) == 1 for found in places.values())


def test_a_film_can_go_into_the_lines_of_its_scripts(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue), lines=["enqueue_flow"])
    inside = [frame for frame in film.frames if frame.depth == 2]
    assert inside and all("inside enqueue_flow" in frame.where for frame in inside)
    assert {frame.move for frame in inside} >= {"gate", "children", "parent", "counter"}
    assert [frame.depth for frame in film.frames[: len(inside) + 2]] == [0, *[2] * len(inside), 0]
    landing = next(frame for frame in inside if frame.asked and "ZADD" in frame.asked[0][0])
    assert landing.diff == (("+", f"JOB…GLuD enters pending of {queue}"),)
    assert landing.source is not None and landing.line is not None
    assert "ZADD" in film.sources[landing.source].lines[landing.line - 1]
    assert dict(landing.keys)["pending"] == f"emq:{{{queue}}}:pending"
    assert dict(landing.argv)["n"] == "3"


def test_a_twin_holds_every_sentence_and_change_and_no_script(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue))
    page = film.twin("some-key")
    from html import escape, unescape

    for frame in film.frames:
        assert escape(frame.sentence) in page
        for _, words in frame.diff:
            assert words in unescape(page)
    assert "<script" not in page and "javascript" not in page
    assert " id=" not in page
    assert page.count("<svg") == len(film.frames)
    assert 'data-emqkit-twin="some-key"' in page


def test_a_long_twin_leaves_out_pictures_but_no_sentence(server: Server, queue: str) -> None:
    film = Film.of(flow_trace(server, queue), lines=True)
    page = film.twin()
    assert page.count("<summary>") == len(film.frames) > 100
    assert page.count("<svg") <= 24
    assert len(film.transcript().splitlines()) > len(film.frames)


# --- figures ----------------------------------------------------------------------------------------------------------


def words_of(figure) -> str:  # type: ignore[no-untyped-def]  # a matplotlib figure
    """Every text in a figure."""
    from matplotlib.text import Text as Words

    return " | ".join(found.get_text() for found in figure.findobj(Words) if found.get_text())


def test_the_counters_decay_names_the_calls_and_the_release(server: Server, queue: str) -> None:
    trace = flow_trace(server, queue)
    drawn = words_of(figures.counter_decay(trace, queue, P))
    for words in ("enqueue_flow JOB…GLuC", "complete JOB…GLuD", "complete JOB…GLuF\nJOB…GLuC is released"):
        assert words in drawn
    with pytest.raises(BadArgument, match="no counter"):
        figures.counter_decay(trace, queue, A)


@pytest.mark.usefixtures("wheel")
def test_the_counters_decay_reads_a_learners_header() -> None:
    source = ScriptSet.load("published")["flow_deliver"].source
    for old, new in (
        ("argv     child_id result parent_id base", "argv     base result parent_id child_id"),
        ("ARGV[1], ARGV[2], ARGV[3], ARGV[4]", "ARGV[4], ARGV[2], ARGV[3], ARGV[1]"),
    ):
        assert old in source
        source = source.replace(old, new)
    mine = ScriptSet("mine", {"flow_deliver": Script.parse(source, "mine/flow_deliver.lua")})
    dependencies, processed = (keys.subkey("orders", P, name) for name in ("dependencies", "processed"))
    args = (keys.base("orders"), b"ok", P.encode(), A.encode())
    deliver = Call("flow_deliver", (dependencies, processed, keys.job("orders", P)), args, bool, RuntimeError, "script")
    with open_server("fake://", scripts=mine) as server:
        server.client.set(dependencies, 2)
        with record(server) as trace:
            run(server, iter_call(deliver))
    assert "flow_deliver JOB…GLuD" in words_of(figures.counter_decay(trace, "orders", P))


def test_the_ring_and_the_placement_compute_their_slots() -> None:
    ring = words_of(figures.slot_ring(["orders", "validation", "quotes", "emails"]))
    for words in ("orders  105", "validation  2775", "quotes  3378", "emails  3728"):
        assert words in ring
    line = words_of(figures.placement(["orders", "payments"], nodes=3))
    for words in ("orders", "105", "payments", "8507", "node 3"):
        assert words in line
    with pytest.raises(BadArgument):
        figures.slot_ring([])
    with pytest.raises(BadArgument):
        figures.placement(["orders"], nodes=0)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (f"emq:{{orders}}:job:{P}:dependencies", ["orders", "the queue", P, "the counter", "slot 105"]),
        (f"emq:{{orders}}:job:{P}", ["its id: this is the row", "slot 105"]),
        ("emq:{orders}:flow:outbox", ["signals to parents"]),
        ("emq:{}:pending", ["not one of the protocol's keys", "slot 7387"]),
        (b"\xff$x", ["\\xff$x"]),
    ],
)
def test_a_key_is_taken_apart(key: str | bytes, expected: list[str]) -> None:
    drawn = words_of(figures.key_parts(key))
    for words in expected:
        assert words in drawn


def test_a_figure_is_shown_by_a_notebook_and_opens_no_window(tmp_path: Path) -> None:
    program = (
        "import sys, emqkit.viz.figures as f; assert 'matplotlib' not in sys.modules\n"
        "figure = f.key_parts('emq:{orders}:pending')\n"
        "assert figure._repr_png_().startswith(b'\\x89PNG'); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_replies_are_told_as_they_came() -> None:
    replies: list[tuple[Reply, str]] = [
        (None, "none"),
        (3, "3"),
        (b"scheduled", '"scheduled"'),
        (A.encode(), "JOB…GLuD"),
        ((), "an empty list"),
        ((1, None, b"x"), '1, none, "x"'),
        (tuple(range(9)), "0, 1, 2, 3, 4, 5 and 3 more"),
        (ErrorReply("EMQSTALE", "job gone"), "EMQSTALE job gone"),
    ]
    for reply, words in replies:
        assert text.reply_words(reply) == words


def test_the_start_says_what_there_is(server: Server, queue: str) -> None:
    assert "the keyspace is empty" in text.start_sentence(Snapshot())
    Jobs(server).enqueue(queue, "a")
    start = "The start: nothing has been sent yet. Already there: "
    assert text.start_sentence(capture(server, keys.base(queue) + b"*")) == f"{start}{queue} (1 row)."
    several = {keys.job("orders", A): row("pending"), keys.job("payments", B): row("pending"), b"stray": Text(b"x")}
    assert text.start_sentence(snapshot(several)) == f"{start}orders (1 row), payments (1 row) and 1 other key."


def test_a_stepped_call_says_whether_its_lines_ended_as_the_recorded_run_did(server: Server) -> None:
    trace = Trace.of(Jobs(server).enqueue.program("orders", "payload"), server)
    alike = "The recorded run, all in one go, left the same keys and gave the same reply."
    assert Film.of(trace, lines=True).frames[-1].sentence.endswith(alike)
    assert "recorded run" not in Film.of(trace).frames[-1].sentence
    (step,) = trace.steps
    forged = replace(step, calls=(replace(step.calls[0], reply=0),))
    other = Trace.assembled(trace.scripts, trace.server_kind, trace.initial, [forged])
    assert "did not end alike" in Film.of(other, lines=True).frames[-1].sentence
