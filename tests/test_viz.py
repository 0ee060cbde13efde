"""Boards, sentences and figures: true to the snapshot and the reply, readable by everybody, the same on every run."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import A, B, C, P, as_operation, fields, held_flow, ranked, row, snapshot

from emqkit import Child, Flow, Flows, Jobs, Minter, Server, Trace, keys, open_server, record
from emqkit.errors import BadArgument, EmqError
from emqkit.keyspace import Keyspace
from emqkit.scripts import Script, ScriptSet
from emqkit.snapshot import Hash, Items, Members, Ranked, Snapshot, Text, Value, diff
from emqkit.viz import boards, figures
from emqkit.viz.frames import Film
from emqkit.viz.theme import ACCENTS, BOARD_CSS
from emqkit.wire import Call, run
from emqkit.words.changes import changes_in_words, telling
from emqkit.words.text import plain

SVG = "{http://www.w3.org/2000/svg}"


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
    assert "abcdefghij……GLuD" in texts(picture)
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
    assert "pack order 7 in no set, waits for 2" in told
    assert "pending: pick, label" in told


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
    assert "+ pickshelf 4" in texts(picture)
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
    first, second = (boards.board(one, previous=before, plan=planned) for one in (before, after))
    heights = {ElementTree.fromstring(one).get("height") for one in (first, second)}
    assert len(heights) == 1


def test_a_policy_nobody_knows_is_shown_raw() -> None:
    contents = held_flow()
    contents[keys.job("orders", A)] = row("pending", parent=P, parent_policy="xx")
    picture = boards.board(snapshot(contents))
    assert "⚠ xx" in texts(picture) and "ignore" in texts(picture)
    assert "parent_policy: id" in picture


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
    assert landing.diff == (("+", f"pick enters pending of {queue}"),)
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
    for words in ("enqueue_flow pack order 7", "complete pick", "complete weigh\npack order 7 is released"):
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
            run(server, as_operation(deliver))
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


def test_a_stepped_call_says_whether_its_lines_ended_as_the_recorded_run_did(server: Server) -> None:
    trace = Trace.of(Jobs(server).enqueue.program("orders", "payload"), server)
    alike = "The recorded run, all in one go, left the same keys and gave the same reply."
    assert Film.of(trace, lines=True).frames[-1].sentence.endswith(alike)
    assert "recorded run" not in Film.of(trace).frames[-1].sentence
    (step,) = trace.steps
    forged = replace(step, calls=(replace(step.calls[0], reply=0),))
    other = Trace.assembled(trace.scripts, trace.server_kind, trace.initial, [forged])
    assert "did not end alike" in Film.of(other, lines=True).frames[-1].sentence
