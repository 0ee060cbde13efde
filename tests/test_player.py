"""The player: the same verbs in Python and on its buttons, a twin where nothing runs, and a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich_trace import rich_trace
from stage_page import Shown, differences, noticed, put

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Trace, open_server, record
from emqkit.errors import BadArgument
from emqkit.widgets import StepPlayer

if TYPE_CHECKING:
    from lab import Lab


def make_trace(*, children: int = 3, complete: bool = True) -> Trace:
    """A flow of some children on the fake server, every child completed; the same on every run."""
    with open_server("fake://") as server:
        server.minter = Minter.fixed()
        flows, jobs = Flows(server), Jobs(server)
        with record(server) as trace:
            flows.add("orders", Flow("pack order 7", [Child(f"child {number}") for number in range(children)]))
            while complete and (claim := jobs.claim("orders")):
                jobs.complete("orders", claim)
    return trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace()


@pytest.fixture(scope="module")
def traced_lines(trace: Trace) -> StepPlayer:
    return StepPlayer(trace, lines=["enqueue_flow"])


# --- in Python --------------------------------------------------------------------------------------------------------


def test_every_verb_answers_the_sentence_it_arrives_at(trace: Trace) -> None:
    player = StepPlayer(trace)
    start = player.sentence
    landed = player.forward()
    assert landed.startswith("enqueue_flow lands the flow of pack order 7") and player.index == 1
    assert player.back() == start and player.index == 0
    assert player.back() == start, "it stays where it is at the start"
    end = player.last()
    assert player.index == len(player) - 1
    assert player.forward() == end, "and at the end"
    assert player.first() == start


def test_over_stays_on_a_level_and_out_goes_to_the_end_of_what_it_is_in(trace: Trace) -> None:
    player = StepPlayer(trace, index=1, shows="trips")
    assert [frame.depth for frame in player.film.frames[1:6]] == [0, 1, 1, 1, 0]
    assert player.over().startswith("3 calls in one round trip") and player.index == 5
    player.index = 1
    assert player.into().startswith("HSET writes parent_policy = fp (fail) on the row of child 0")
    player.over()
    assert player.index == 3
    player.back()
    assert player.index == 2, "every call is a step now"
    player.out()
    assert player.index == 5
    player.out()
    assert player.index == 5, "there is nothing further out"


def test_into_goes_down_to_the_lines_of_a_script_and_out_comes_back(trace: Trace) -> None:
    player = StepPlayer(trace, lines=["enqueue_flow"])
    assert player.into().startswith("enqueue_flow, line 7, move gate: local parent")
    assert player.frame.depth == 2
    assert player.out().startswith("enqueue_flow lands the flow")


def test_its_repr_is_the_sentence_and_changes_with_every_step(trace: Trace) -> None:
    player = StepPlayer(trace)
    for _ in range(len(player)):
        assert repr(player) == player.sentence == repr(player.sentence)
        player.forward()


def test_an_index_that_is_no_step_is_refused_in_words(trace: Trace) -> None:
    player = StepPlayer(trace, index=2)
    for wrong in (-1, len(player), 10_000):
        with pytest.raises(BadArgument, match=f"steps 0 to {len(player) - 1}"):
            player.index = wrong
        with pytest.raises(BadArgument):
            StepPlayer(trace, index=wrong)
    assert player.index == 2


def test_what_is_no_trace_is_refused_with_what_makes_one(trace: Trace) -> None:
    with open_server("fake://") as server:
        added = Flows(server).add("orders", Flow("pack order 7", [Child("pick")]))
    for wrong in ({"trace": added}, {"trace": trace, "beside": added}):
        with pytest.raises(BadArgument, match=r"is AddedFlow, not a trace: Trace.of\(flows.add.program"):
            StepPlayer(**wrong)  # type: ignore[arg-type]


def test_a_drawer_can_be_open_at_first(trace: Trace) -> None:
    assert StepPlayer(trace).drawer == "" and StepPlayer(trace, drawer="host").drawer == "host"
    with pytest.raises(BadArgument, match="is not one of , rows, lua, host, keys, words"):
        StepPlayer(trace, drawer="attic")  # type: ignore[arg-type]


def test_play_and_pause_are_told_to_the_browser(trace: Trace) -> None:
    player = StepPlayer(trace)
    player.last()
    player.play()
    assert player.playing and player.index == 0
    player.pause()
    assert not player.playing


def test_another_trace_can_be_loaded(trace: Trace) -> None:
    player = StepPlayer(trace)
    player.last()
    before = player.twin_key
    said = player.load(make_trace(complete=False), at="last")
    assert len(player) == 6 and player.index == 5 and said == player.sentence
    assert player.twin_key != before
    assert len(player.payload["films"][0]["frames"]) == 6
    with pytest.raises(BadArgument):
        player.load(trace, at=999)


def test_observers_hear_of_each_step(trace: Trace) -> None:
    player = StepPlayer(trace)
    heard: list[int] = []
    player.observe(lambda change: heard.append(change["new"]), names="index")
    player.forward()
    player.last()
    player.last()
    assert heard == [1, len(player) - 1]


def test_it_displays_its_twin_and_then_itself_as_two_outputs(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, Any]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **more: shown.append(data))
    player = StepPlayer(trace)
    player._ipython_display_()
    twin, widget = shown
    assert set(twin) == {"text/html", "text/plain"}
    assert twin["text/html"] == player.twin()
    assert twin["text/plain"].startswith("0. The start")
    assert widget["text/plain"] == player.sentence
    assert "application/vnd.jupyter.widget-view+json" in widget
    assert "text/html" not in widget


def test_two_players_of_one_history_are_the_same_to_nbval() -> None:
    one, other = StepPlayer(make_trace()), StepPlayer(make_trace())
    assert one.twin() == other.twin()
    assert one.payload == other.payload
    assert repr(one) == repr(other)


def test_the_twin_holds_every_sentence(trace: Trace) -> None:
    player = StepPlayer(trace)
    page = unescape(player.twin())
    assert all(frame.sentence in page for frame in player.film.frames)
    assert f'data-emqkit-twin="{player.twin_key}"' in page


def test_by_default_a_step_changes_something_or_is_refused_and_reads_only_count(trace: Trace) -> None:
    player = StepPlayer(trace)
    said = [player.sentence, *(player.forward() for _ in player.stops[1:])]
    assert [one.partition(" ")[0] for one in said] == [
        "The",
        "enqueue_flow",
        "3",
        *["claim", "complete"] * 3,
        "claim",
        "complete",
        "claim",
    ]
    assert player.index == len(player) - 1, "the end is always a step"
    player.back()
    every = StepPlayer(trace, shows="trips")
    assert every.stops == tuple(range(len(every)))
    every.shows = "changes"
    assert every.stops == player.stops
    with pytest.raises(BadArgument, match="none of changes, trips, lines"):
        every.shows = "all"


def test_a_trace_of_reads_alone_shows_every_read() -> None:
    with open_server("fake://") as server, record(server) as reads:
        Jobs(server).depths("orders")
        Jobs(server).paused("orders")
    player = StepPlayer(reads)
    assert len(player.stops) == len(player) > 4


def test_a_loop_is_one_step_unless_one_goes_into_it(trace: Trace) -> None:
    player = StepPlayer(trace, lines=["enqueue_flow"])
    said = [player.forward() for _ in range(5)]
    assert "line 11, move gate" in said[3] and said[3].endswith("'JOB' is 'JOB': on to line 14")
    assert said[4].endswith("for i = 1, n do · the loop runs 3 times")
    player.back()
    inside = player.into()
    assert inside.endswith("for i = 1, n do · i is 1") and player.frame.depth == 3
    assert player.forward().endswith('child_id is "JOB0KHTOWnGLuD"'), "inside, the next line is the next step"
    assert player.out() == said[4]


def test_what_goes_to_the_browser_is_json_with_each_text_once(trace: Trace) -> None:
    payload = StepPlayer(trace, lines=True).payload
    assert json.loads(json.dumps(payload)) == payload
    (film,) = payload["films"]
    assert len(set(film["texts"])) == len(film["texts"])
    assert len(film["frames"]) == len(StepPlayer(trace, lines=True))


def test_two_traces_stand_beside_each_other_round_trip_by_round_trip(trace: Trace) -> None:
    one, other = make_trace(children=2), make_trace(children=3, complete=False)
    player = StepPlayer(one, beside=other, labels=("short", "long"))
    assert player.forward().startswith("short: enqueue_flow lands") and " — long: enqueue_flow lands" in player.sentence
    frames = [
        [film["frames"][at]["w"] for film, at in zip(player.payload["films"], pair, strict=True)]
        for pair in player.payload["pairs"]
    ]
    assert len(frames) == len(player) >= len(StepPlayer(one))
    player.last()
    assert player.sentence.count("long: ") == 1
    assert set(player.payload["differ"]) == {"orders held", "orders pending", "orders active"}
    assert player.load(one) and len(player.payload["films"]) == 1


def test_the_module_needs_nothing_from_outside() -> None:
    player = StepPlayer(make_trace(complete=False))
    assert not re.search(r"\bimport\b[^a-z]|https?://(?!www\.w3\.org/2000/svg)", player._esm)
    assert "url(" not in player._css and "@import" not in player._css


@pytest.mark.slow
def test_an_exported_page_reads_without_a_kernel_or_a_network(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import HTMLExporter

    source = (
        "import emqkit\n"
        "server = emqkit.open_server('fake://'); server.minter = emqkit.Minter.fixed()\n"
        "flows = emqkit.Flows(server)\n"
        "flow = emqkit.Flow('pack', [emqkit.Child('pick')])\n"
        "player = emqkit.StepPlayer(emqkit.Trace.of(flows.add.program('orders', flow), server))\n"
        "player"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(book, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [sorted(output["data"]) for output in book.cells[0].outputs]
    assert kinds == [
        ["text/html", "text/plain"],
        ["application/vnd.jupyter.widget-view+json", "text/plain"],
    ]
    page, _ = HTMLExporter().from_notebook_node(book)
    assert "enqueue_flow lands the flow of pack in orders in one step" in page
    assert page.count("<summary") == len(book.cells[0].outputs[0]["data"]["text/html"].split("<summary")) - 1 == 3


# --- in a browser, without Jupyter ------------------------------------------------------------------------------------

in_a_browser = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def shown(lab: Lab) -> Iterator[Shown]:
    """A blank page that has the player's module, its style, and a stub of a model."""
    assert lab.context.browser is not None
    context = lab.context.browser.new_context()  # its own: a clock that a test stops is stopped for all of a context
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.set_viewport_size({"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield Shown(page, errors)
    context.close()
    assert not errors


@pytest.fixture(scope="module")
def across() -> Trace:
    """A flow over three queues: what the biggest stage of the notebooks is of."""
    with open_server("fake://", minter=Minter.fixed()) as server:
        flows, jobs, pump = Flows(server), Jobs(server), Pump(server, "payments")
        children = [
            Child("check stock"),
            Child("validate address", queue="validation"),
            Child("take payment", queue="payments", on_failure="ignore"),
        ]
        with record(server) as trace:
            flows.add("orders", Flow("ship order 7", children))
            payment, validation = jobs.claim("payments"), jobs.claim("validation")
            assert payment is not None and validation is not None
            jobs.retry("payments", payment, error="declined", max_attempts=1)
            jobs.complete("validation", validation)
            pump.sweep()
    return trace


FAULTS = [
    (
        "for (let n = undo.length - 2; n >= 0; n -= 2)",
        "for (let n = undo.length - 2; n > 0; n -= 2)",
    ),
    (
        "const meanwhile = 2 * (this.film.frames[this.at].b || 0);",
        "const meanwhile = this.film.frames[this.at].b || 0;",
    ),
    (
        "this.go(frame.n);",
        "this.go(index - 1);",
    ),
    (
        'mark: was < 0 ? "+" : now < 0',
        'mark: was < 0 ? "~" : now < 0',
    ),
    (
        "if (was !== now) marks.set",
        "marks.set",
    ),
    (
        "if (!first.has(undo[n])) first.set",
        "first.set",
    ),
    (
        'if (mark.mark !== "-" || own.length',
        "if (own.length",
    ),
    (
        "if (to.length) return `to ${to.join",
        "if (!to.length) return `to ${to.join",
    ),
    (
        '? "to no set" : "deleted"',
        '? "deleted" : "to no set"',
    ),
    (
        '`${what} ${mark ? `${mark.was || 0} → ` : ""}',
        '`${what} ${mark ? `${mark.was} → ` : ""}',
    ),
    (
        "entries.filter(([, entry]) => !entry.gone).length;\n    const head",
        "entries.length;\n    const head",
    ),
    (
        'lane === "held" && fanMark ?',
        'lane === "pending" && fanMark ?',
    ),
    (
        '[...this.under("set", number, lane)].toSorted(([one], [other]) => one - other)',
        '[...this.under("set", number, lane)].toSorted(([one], [other]) => other - one)',
    ),
    (
        '[...this.under("box", number)].toSorted(([one], [other]) => one - other)',
        '[...this.under("box", number)].toSorted(([one], [other]) => other - one)',
    ),
    (
        'marks.every((one) => one === "+")',
        'marks.some((one) => one === "+")',
    ),
    (
        '!kept.size ? "-"',
        'kept.size ? "-"',
    ),
    (
        "`${change.was} → ${entry.value}`",
        "entry.value",
    ),
    (
        "count += levels[at] === 1 && this.whole(at)",
        "count += levels[at] === 1",
    ),
    (
        "const acts = this.frame.a === number;",
        "const acts = this.frame.a >= number;",
    ),
    (
        'make(lapsed ? "s" : "span"',
        'make(lapsed ? "span" : "s"',
    ),
    (
        'crashed ? make("s", "", does) : does',
        "does",
    ),
    (
        "`gone; was ${entry.value}`",
        "`gone; was ${mark.was} ${entry.was}`",
    ),
    (
        "number >= marked[0] && number <= marked[1]",
        "number > marked[0] && number <= marked[1]",
    ),
    (
        'this.scene.get("fan", number, job)?.value.split("\\t")[0] ?? "none"',
        'this.scene.get("fan", number, job)?.value.split("\\t")[1] ?? "none"',
    ),
    (
        'kind === "died" ? ` · ${rest}`',
        'kind !== "died" ? ` · ${rest}`',
    ),
    (
        "for (const hash of HASHES) {",
        "for (const hash of HASHES.slice(1)) {",
    ),
    (
        "const place = this.stops.findLastIndex((at) => at <= index);",
        "const place = this.stops.findLastIndex((at) => at < index);",
    ),
    (
        '["ARGV", "v"], ["KEYS", "k"]',
        '["ARGV", "k"], ["KEYS", "v"]',
    ),
    (
        "frames.map((_, at) => [at])",
        "frames.map((_, at) => [at, at])",
    ),
]
"""One line of the JavaScript each, and that line with a fault: no page with one of them may pass for the right one."""


class TestInABrowser:
    pytestmark = in_a_browser

    def test_at_each_step_the_page_is_what_trace_and_frames_say(self, shown: Shown) -> None:
        player = StepPlayer(rich_trace())
        shown.page.set_viewport_size({"width": 2000, "height": 900})
        put(shown, player, style=WIDE)
        assert len(player) > 50
        assert differences(shown.page, player) == []

    @pytest.mark.parametrize(
        "fault", [pytest.param(fault, marks=[pytest.mark.long] if at % 10 else []) for at, fault in enumerate(FAULTS)]
    )
    def test_a_fault_in_one_line_of_the_javascript_is_noticed(self, shown: Shown, fault: tuple[str, str]) -> None:
        player = StepPlayer(rich_trace())
        source = Path(player._esm).read_text("utf-8") if isinstance(player._esm, Path) else str(player._esm)
        assert source.count(fault[0]) == 1, "the line is there, once"
        shown.page.set_viewport_size({"width": 2000, "height": 900})
        assert noticed(shown, player, source.replace(*fault), WIDE)

    def test_each_line_of_lua_is_marked_with_its_values_and_the_next_one_told_apart(
        self, shown: Shown, traced_lines: StepPlayer
    ) -> None:
        player = traced_lines
        player.first()
        put(shown, player)
        film = player.film
        seen = shown.page.evaluate(
            """last => Array.from({ length: last + 1 }, (_, index) => {
                model.set('index', index);
                const panel = document.querySelector('.emqkit-panel');
                const lines = kind => [...panel.querySelectorAll(kind)].map(one => one.value);
                const code = panel.querySelector('.emqkit-pane');
                const line = panel.querySelector('[aria-current]');
                const [room, own] = [code, line].map(one => one && one.getBoundingClientRect());
                return {
                    ran: lines('[aria-current]'), next: lines('.emqkit-next'),
                    seen: !line || (own.top >= room.top - 1 && own.bottom <= room.bottom + 1),
                    tables: [...panel.querySelectorAll('table')].map(table => [
                        table.caption.textContent,
                        [...table.rows].map(row => [...row.cells].map(cell => cell.textContent)),
                    ]),
                };
            })""",
            len(player) - 1,
        )
        named = (("asked", "asked"), ("locals", "locals"), ("ARGV", "argv"), ("KEYS", "keys"))
        lined = 0
        for at, (frame, found) in enumerate(zip(film.frames, seen, strict=True)):
            tables = [[title, [list(pair) for pair in getattr(frame, name)]] for title, name in named]
            assert found["tables"] == [table for table in tables if table[1]], at
            assert found["ran"] == ([] if frame.line is None else [frame.line]), at
            after = film.frames[at + 1] if at + 1 < len(film.frames) else frame
            follows = frame.line and after.line not in (None, frame.line) and after.source == frame.source
            assert found["next"] == ([after.line] if follows else []), at
            assert found["seen"], at
            lined += frame.line is not None
        assert lined > 30

    def test_the_keys_step_and_the_status_line_says_each_step(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        assert shown.says() == player.sentence
        for key, verb in (
            ("ArrowRight", player.forward),
            ("ArrowRight", player.forward),
            ("ArrowRight", player.forward),
            ("ArrowLeft", player.back),
            ("End", player.last),
            ("ArrowRight", player.forward),
            ("Home", player.first),
            ("ArrowLeft", player.back),
        ):
            shown.press(key)
            assert shown.says() == verb()
            assert shown.index() == player.index
        status = shown.root().locator(".emqkit-status")
        assert status.get_attribute("aria-live") == "polite"
        assert shown.page.evaluate("() => window.saved") > 0

    def test_the_buttons_have_names_and_do_what_the_verbs_do(self, shown: Shown, traced_lines: StepPlayer) -> None:
        player = traced_lines
        player.first()
        put(shown, player)
        for name, verb in (
            ("Into", player.into),
            ("Over", player.over),
            *[("Forward", player.forward)] * 3,
            ("Back", player.back),
            ("Into", player.into),
            ("Forward", player.forward),
            ("Back", player.back),
            ("Out", player.out),
            ("Out", player.out),
            ("Last", player.last),
            ("First", player.first),
        ):
            shown.button(name).click()
            assert shown.says() == verb(), name
        bar = shown.root().locator(".emqkit-bar").get_by_role("button")
        names = bar.evaluate_all("all => all.map(one => one.textContent)")
        assert names == ["First", "Back", "Play", "Forward", "Last", "Into", "Over", "Out"]

    def test_what_is_shown_is_chosen_on_the_page_and_in_python(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        count = shown.root().locator(".emqkit-count")
        assert count.inner_text() == f"step 0 of {len(player.stops) - 1}"
        assert not shown.button("Into").is_visible()
        shows = shown.root().get_by_label("Shows")
        assert shows.locator("option:not([hidden])").all_inner_texts() == ["changes", "every call"]
        shows.select_option("trips")
        assert count.inner_text() == f"step 0 of {len(player) - 1}"
        assert shown.page.evaluate("() => model.get('shows')") == "trips"
        assert shown.button("Into").is_visible()
        shown.page.evaluate("() => model.set('shows', 'changes')")
        assert shows.input_value() == "changes"
        assert count.inner_text() == f"step 0 of {len(player.stops) - 1}"

    def test_buttons_that_lead_nowhere_are_out_of_use_and_keep_the_focus(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        shown.button("Last").focus()
        shown.page.keyboard.press("Enter")
        assert shown.index() == len(player) - 1
        assert shown.button("Last").get_attribute("aria-disabled") == "true"
        assert shown.page.evaluate("() => document.activeElement.textContent") == "Last"
        shown.page.keyboard.press("ArrowLeft")
        assert shown.index() == player.stops[-2]

    def test_the_slider_steps_and_is_named(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        slider = shown.root().get_by_role("slider", name="Step")
        slider.fill("4")
        assert shown.index() == player.stops[4]
        slider.focus()
        shown.page.keyboard.press("ArrowRight")
        assert shown.index() == player.stops[5], "one step, not one of the slider's and one of the player's"
        assert slider.get_attribute("aria-valuetext") == f"step 5 of {len(player.stops) - 1}"
        assert shown.says() == player.film.frames[player.stops[5]].sentence

    def test_play_steps_by_itself_longer_at_a_longer_sentence_and_stops_at_the_end(
        self, shown: Shown, trace: Trace
    ) -> None:
        player = StepPlayer(trace, index=StepPlayer(trace).stops[-3])
        put(shown, player)
        shown.page.evaluate("() => { show(model); }")
        shown.page.clock.install(time=0)
        shown.page.clock.pause_at(1000)
        assert shown.button("Play").get_attribute("aria-pressed") == "false"
        shown.press(" ")
        assert shown.button("Pause").get_attribute("aria-pressed") == "true"
        for stop in player.stops[-2:]:
            wait = min(5200, 900 + 26 * len(shown.says()))
            shown.page.clock.run_for(wait - 150)
            assert shown.index() == player.index, "two views step at the pace of one"
            shown.page.clock.run_for(200)
            assert shown.index() == stop == player.stops[player.stops.index(player.index) + 1]
            player.forward()
        assert shown.page.evaluate("() => model.get('playing')") is False
        assert shown.button("Play").get_attribute("aria-pressed") == "false"
        shown.button("Play").click()
        assert shown.index() == 0, "from the start again"
        shown.root().get_by_label("Pace").select_option("8")
        assert shown.root().locator(".emqkit-status").get_attribute("aria-live") == "off", "faster than anybody listens"
        shown.button("Pause").click()
        assert shown.page.evaluate("() => model.get('playing')") is False
        assert shown.root().locator(".emqkit-status").get_attribute("aria-live") == "polite"

    def test_fields_keep_their_own_keys_and_shortcuts_of_the_page_are_left_alone(
        self, shown: Shown, trace: Trace
    ) -> None:
        put(shown, StepPlayer(trace, index=6))
        for label in ("Pace", "Shows", "Follow"):
            shown.root().get_by_label(label).focus()
            shown.page.keyboard.press("Home")
            assert shown.index() == 6
        shown.press("Control+ArrowRight", "Alt+ArrowRight", "b", "d")
        assert shown.index() == 6
        root = shown.root()
        assert root.get_attribute("data-lm-suppress-shortcuts") == "true"
        assert root.get_attribute("tabindex") == "0"
        assert "Arrow keys".lower() in (root.get_attribute("aria-label") or "")

    def test_the_kernel_sets_the_step_and_every_view_follows(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        shown.page.evaluate("() => { show(model); model.set('index', 5); }")
        assert shown.says(0) == shown.says(1) == player.film.frames[5].sentence
        shown.press("ArrowRight", nth=1)
        player.index = 5
        assert shown.says(0) == shown.says(1) == player.forward()

    def test_players_of_other_traces_step_apart(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace))
        other = StepPlayer(make_trace(complete=False))
        state = {"payload": other.payload, "index": 0, "shows": "changes", "playing": False, "twin_key": ""}
        shown.page.evaluate("state => { show(makeModel(state), 'aside'); }", state)
        shown.press("End", nth=1)
        assert shown.says(1) == other.last()
        assert shown.index() == 0
        ids = shown.page.evaluate("() => [...document.querySelectorAll('.emqkit-player [id]')].length")
        assert ids == 0

    def test_another_trace_replaces_the_first(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace, index=9))
        other = StepPlayer(make_trace(complete=False))
        other.last()
        change = "([payload, index]) => { model.set('index', index); model.set('payload', payload); }"
        shown.page.evaluate(change, [other.payload, other.index])
        assert shown.says() == other.sentence
        assert shown.root().get_by_role("slider").get_attribute("max") == str(len(other.stops) - 1)

    def test_from_a_chip_to_the_next_and_the_last_step_that_touches_it(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        shown.press("ArrowRight")
        chip = shown.root().get_by_role("button", name="child 1")
        chip.click()
        assert shown.root().locator(".emqkit-followed").count() == 1
        touching = [
            at
            for at in player.stops
            if at and any("child 1" in value or "GLuE" in "".join(fact) for fact, value in _texts(player, at))
        ]
        met = [shown.index()]
        while shown.button("Later").get_attribute("aria-disabled") != "true":
            shown.button("Later").click()
            met.append(shown.index())
        assert met == touching and len(met) == 3
        shown.button("Earlier").click()
        assert shown.index() == touching[-2]
        follow = shown.root().get_by_label("Follow")
        assert follow.locator("option:checked").inner_text() == "child 1"
        follow.select_option("-1")
        assert not shown.button("Later").is_visible()

    def test_the_twin_is_hidden_while_the_player_lives(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace), twins=2)
        visible = "() => [...document.querySelectorAll('.emqkit-twin')].map(one => one.offsetParent !== null)"
        assert shown.page.evaluate(visible) == [True, False], "only the one just above it"
        shown.page.evaluate("() => cleanup()")
        assert shown.page.evaluate(visible) == [True, True]

    def test_the_twin_opens_without_javascript(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        shown.page.set_content(f"<!doctype html><meta charset='utf-8'>{player.twin()}")
        summaries = shown.page.locator("summary")
        assert summaries.count() == len(player)
        assert shown.page.locator("table:visible").count() == 1
        summaries.nth(1).click()
        assert shown.page.locator("table:visible").count() == 2

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_it_stands_on_the_themes_paper(self, shown: Shown, trace: Trace, theme: str, tmp_path: Path) -> None:
        put(shown, StepPlayer(trace, index=1), theme=theme)
        colours = shown.page.evaluate(
            """() => ['.emqkit-player', '.emqkit-queue'].map(name => {
                const style = getComputedStyle(document.querySelector(name));
                return [style.backgroundColor, style.color];
            })"""
        )
        bright = [[sum(map(int, re.findall(r"\d+", one)[:3])) > 380 for one in pair] for pair in colours]
        assert bright == [[theme == "light", theme != "light"]] * 2
        shown.page.screenshot(path=tmp_path / f"{theme}.png", full_page=True)

    @pytest.mark.parametrize(
        ("width", "limits"),
        [(1008, {"two": 600, "three": 720, "lines": 600}), (592, dict.fromkeys(("two", "three", "lines"), 650))],
    )
    def test_one_stage_fits_a_screen_with_a_drawer_open_and_no_text_is_small(
        self, shown: Shown, trace: Trace, across: Trace, width: int, limits: dict[str, int]
    ) -> None:
        players = {
            "two": StepPlayer(rich_trace()),
            "three": StepPlayer(across),
            "lines": StepPlayer(trace, lines=["enqueue_flow", "complete"]),
        }
        shown.page.set_viewport_size({"width": width, "height": 900})
        for name, player in players.items():
            put(shown, player, style="body { margin: 0 }")
            measured = shown.page.evaluate(MEASURE, list(player.stops))
            assert max(measured["heights"]) <= limits[name], (name, measured["heights"])
            assert measured["wide"] <= width, name
            assert measured["smallest"] >= 11, name
            assert measured["jumps"] == [], (name, "the stage's height changes from step to step")

    def test_many_children_are_counted_and_changed_ones_stay_in_sight(self, shown: Shown) -> None:
        trace = make_trace(children=300, complete=False)
        with open_server("fake://", minter=Minter.fixed()) as server:
            with record(server) as trace:
                Flows(server).add("orders", Flow("pack", [Child(f"child {number}") for number in range(300)]))
                claim = Jobs(server).claim("orders")
        assert claim is not None
        player = StepPlayer(trace)
        put(shown, player)
        shown.press("End", "ArrowLeft", "ArrowRight")
        pending = shown.root().locator(".emqkit-lane-pending")
        assert pending.locator(".emqkit-lane-name .emqkit-soft").inner_text() == "299"
        kept = pending.locator(".emqkit-chip").count()
        ghost = pending.locator(".emqkit-ghost")
        assert ghost.locator("s").inner_text() == "child 0"
        assert pending.locator(".emqkit-more").inner_text() == f"{299 - (kept - 1)} more"
        pending.locator(".emqkit-more").click()
        assert "rows of orders, 40 of 301" in shown.root().locator(".emqkit-panel").inner_text()

    def test_motion_is_short_and_none_where_the_system_asks_for_none(self, shown: Shown, trace: Trace) -> None:
        moving = "() => document.getAnimations().map(one => one.effect.getTiming().duration)"
        put(shown, StepPlayer(trace))
        shown.press("ArrowRight")
        shown.page.evaluate("() => document.getAnimations().forEach(one => one.finish())")
        shown.press("ArrowRight", "ArrowRight")
        running = shown.page.evaluate(moving)
        assert running and max(running) < 300
        shown.page.emulate_media(reduced_motion="reduce")
        shown.page.evaluate("() => document.getAnimations().forEach(one => one.finish())")
        shown.press("ArrowLeft", "ArrowRight")
        assert shown.page.evaluate(moving) == []

    def test_two_boards_stand_under_one_transport_and_show_what_differs(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace, beside=make_trace(complete=False), labels=("done", "landed"))
        put(shown, player)
        shown.press("End")
        films = shown.root().locator(".emqkit-film")
        assert films.locator("h3").all_inner_texts() == ["done", "landed"]
        assert films.nth(1).locator(".emqkit-lane-pending .emqkit-chip").count() == 3
        assert shown.says() == player.last()
        same = StepPlayer(trace, beside=make_trace())
        put(shown, same)
        shown.press("End")
        assert shown.root().locator(".emqkit-lane:not(.emqkit-outbox)").count() == 0
        assert "the same in both: held, pending, active" in films.nth(0).inner_text()

    def test_an_accessibility_scan_finds_nothing(self, shown: Shown) -> None:
        axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
        player = StepPlayer(rich_trace(), index=26)
        source = resources.files(axe.__name__).joinpath("axe.min.js").read_text("utf-8")
        for theme in ("light", "dark"):
            put(shown, player, theme=theme)
            shown.page.add_script_tag(content=source)
            for drawer in ("rows and hashes", "the Lua that ran", "the host's line", "keys", "all changes"):
                shown.root().get_by_role("button", name=drawer).click()
                result = shown.root().evaluate("element => window.axe.run(element)")
                assert len(result["passes"]) > 10, "it looked at something"
                told = [f"{one['id']}: {node['html'][:120]}" for one in result["violations"] for node in one["nodes"]]
                assert told == [], (theme, drawer)


WIDE = ".emqkit-player { max-width: none; max-height: none }"
"""So wide that no chip is folded away."""

# Heights at each step with each drawer open; how wide the page is; the smallest text.
MEASURE = """stops => {
    const root = document.querySelector('.emqkit-player');
    const handles = [...root.querySelectorAll('.emqkit-handle')];
    const heights = new Set();
    const jumps = [];
    let wide = 0;
    let smallest = 99;
    for (const handle of handles) {
        if (handle.getAttribute('aria-expanded') !== 'true') handle.click();
        let last = 0;
        for (const stop of [...stops, ...stops]) {
            model.set('index', stop);
            const height = Math.round(root.getBoundingClientRect().height);
            heights.add(height);
            if (last > height) jumps.push([handle.textContent, stop, last, height]);
            last = height;
            wide = Math.max(wide, document.documentElement.scrollWidth);
        }
        for (const node of root.querySelectorAll('*')) {
            if ([...node.childNodes].some(one => one.nodeType === 3 && one.textContent.trim()))
                smallest = Math.min(smallest, parseFloat(getComputedStyle(node).fontSize));
        }
    }
    return { heights: [...heights], jumps, wide, smallest };
}"""


def _texts(player: StepPlayer, at: int) -> list[tuple[tuple[str, ...], str]]:
    """The facts that changed with a stop, those of the calls since the one before it among them."""
    stops = player.stops
    last = stops[stops.index(at) - 1]
    return [(fact, value or "") for frame in player.film.frames[at : at + 1] for fact, value in frame.ops if last < at]
