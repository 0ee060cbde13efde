"""The player: the same verbs in Python and on its buttons, a twin where nothing runs, and a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emqkit import Child, Flow, Flows, Jobs, Minter, Trace, open_server, record
from emqkit.errors import BadArgument
from emqkit.widgets import StepPlayer

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Locator, Page


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
    player = StepPlayer(trace, index=1)
    assert [frame.depth for frame in player.film.frames[1:6]] == [0, 1, 1, 1, 0]
    assert player.over().startswith("3 calls in one round trip") and player.index == 5
    player.index = 1
    assert player.into().startswith("HSET writes parent_policy = fp (fail) on the row of child 0")
    player.over()
    assert player.index == 3
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
    assert len(player.payload["frames"]) == 6
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


def test_what_goes_to_the_browser_is_json_with_each_picture_once(trace: Trace) -> None:
    payload = StepPlayer(trace, lines=True).payload
    assert json.loads(json.dumps(payload)) == payload
    assert len(set(payload["boards"])) == len(payload["boards"]) < len(payload["frames"])
    wanted = {
        "board",
        "sentence",
        "where",
        "diff",
        "depth",
        "source",
        "line",
        "move",
        "keys",
        "argv",
        "locals",
        "asked",
    }
    assert all(set(frame) == wanted for frame in payload["frames"])
    assert all(set(source) == {"name", "lines", "moves"} for source in payload["sources"])


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
    assert 'class="emq-board"' in page


# --- in a browser, without Jupyter ------------------------------------------------------------------------------------

in_a_browser = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

# A model as a widget manager gives one, and nothing else of Jupyter's.
STUB = """
window.saved = 0;
window.makeModel = state => {
    const heard = {};
    return {
        get: name => state[name],
        set(name, value) {
            if (state[name] === value) return;
            state[name] = value;
            (heard['change:' + name] || []).forEach(act => act());
        },
        on(event, act) { (heard[event] = heard[event] || []).push(act); },
        off() {},
        save_changes() { window.saved += 1; },
    };
};
window.show = (model, place) => {
    const el = document.createElement('div');
    document.querySelector(place || 'main').append(el);
    return window.player.render({ model, el });
};
"""


@dataclass
class Shown:
    """A page with players of stub models."""

    page: Page
    errors: list[str]

    def root(self, nth: int = 0) -> Locator:
        return self.page.locator(".emqkit-player").nth(nth)

    def says(self, nth: int = 0) -> str:
        return self.root(nth).locator(".emqkit-status").inner_text()

    def press(self, *pressed: str, nth: int = 0) -> None:
        self.root(nth).focus()
        for key in pressed:
            self.page.keyboard.press(key)

    def button(self, name: str, nth: int = 0) -> Locator:
        return self.root(nth).get_by_role("button", name=name, exact=True)

    def index(self) -> int:
        return int(self.page.evaluate("() => model.get('index')"))


@pytest.fixture
def shown(lab: Lab) -> Iterator[Shown]:
    """A blank page that has the player's module, its style, and a stub of a model."""
    page = lab.context.new_page()
    page.set_viewport_size({"width": 1000, "height": 900})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield Shown(page, errors)
    page.close()
    assert not errors


def put(shown: Shown, player: StepPlayer, *, twins: int = 0, theme: str = "light") -> None:
    """Show a player, and its twin above it as often as asked."""
    state = {"payload": player.payload, "index": player.index, "playing": False, "twin_key": player.twin_key}
    module = player._esm.replace("export default { render };", "window.player = { render };")
    shown.page.set_content(
        f"<!doctype html><meta charset='utf-8'><style>body {{ margin: 12px }} {player._css}</style>"
        f"<body data-jp-theme-light='{'true' if theme == 'light' else 'false'}'>"
        f"{player.twin() * twins}<main></main><aside></aside>"
    )
    shown.page.add_script_tag(content=STUB + module)
    shown.page.evaluate("state => { window.model = makeModel(state); window.cleanup = show(model); }", state)
    shown.root().locator(".emqkit-board svg").wait_for()


class TestInABrowser:
    pytestmark = in_a_browser

    def test_the_keys_step_and_the_status_line_says_each_step(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        assert shown.says() == player.sentence
        for key, verb in (
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
            ("Out", player.out),
            ("Over", player.over),
            ("Back", player.back),
            ("Last", player.last),
            ("First", player.first),
            ("Forward", player.forward),
        ):
            shown.button(name).click()
            assert shown.says() == verb(), name
        names = shown.root().get_by_role("button").evaluate_all("all => all.map(one => one.innerText.trim())")
        assert names == ["First", "Back", "Play", "Forward", "Last", "Into", "Over", "Out"]

    def test_buttons_that_lead_nowhere_are_out_of_use_and_keep_the_focus(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        disabled = "() => [...document.querySelectorAll('[aria-disabled=true]')].map(one => one.innerText.trim())"
        assert shown.page.evaluate(disabled) == ["First", "Back", "Out"]
        shown.button("Last").focus()
        shown.page.keyboard.press("Enter")
        assert shown.page.evaluate(disabled) == ["Forward", "Last", "Into", "Over", "Out"]
        assert shown.page.evaluate("() => document.activeElement.innerText.trim()") == "Last"
        shown.page.keyboard.press("ArrowLeft")
        assert shown.index() == len(player) - 2

    def test_the_slider_steps_and_is_named(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        slider = shown.root().get_by_role("slider", name="Step")
        slider.fill("4")
        assert shown.index() == 4
        slider.focus()
        shown.page.keyboard.press("ArrowRight")
        assert shown.index() == 5, "one step, not one of the slider's and one of the player's"
        assert slider.get_attribute("aria-valuetext") == f"step 5 of {len(player) - 1}"
        assert shown.says() == player.film.frames[5].sentence

    def test_play_steps_by_itself_and_stops_at_the_end(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace, index=len(trace.steps))
        put(shown, player)
        shown.root().get_by_label("Speed").select_option("8")
        play = shown.button("Play")
        assert play.get_attribute("aria-pressed") == "false"
        shown.press(" ")
        pause = shown.button("Pause")
        assert pause.get_attribute("aria-pressed") == "true"
        last = f"() => model.get('index') === {len(player) - 1} && !model.get('playing')"
        shown.page.wait_for_function(last)
        assert shown.button("Play").get_attribute("aria-pressed") == "false"
        assert shown.root().locator(".emqkit-status").get_attribute("aria-live") == "polite"
        shown.button("Play").click()
        assert shown.index() == 0, "from the start again"
        shown.button("Pause").click()
        assert shown.page.evaluate("() => model.get('playing')") is False

    def test_the_speed_keeps_its_own_keys_and_shortcuts_of_the_page_are_left_alone(
        self, shown: Shown, trace: Trace
    ) -> None:
        put(shown, StepPlayer(trace, index=3))
        shown.root().get_by_label("Speed").focus()
        shown.page.keyboard.press("End")
        assert shown.index() == 3
        shown.press("Control+ArrowRight", "Alt+ArrowRight", "b", "d")
        assert shown.index() == 3
        root = shown.root()
        assert root.get_attribute("data-lm-suppress-shortcuts") == "true"
        assert root.get_attribute("tabindex") == "0"
        assert "Arrow keys".lower() in (root.get_attribute("aria-label") or "")

    def test_the_kernel_sets_the_step_and_every_view_follows(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        shown.page.evaluate("() => { show(model); model.set('index', 4); }")
        assert shown.says(0) == shown.says(1) == player.film.frames[4].sentence
        shown.press("ArrowRight", nth=1)
        assert shown.says(0) == shown.says(1) == player.film.frames[5].sentence

    def test_two_views_play_at_the_pace_of_one(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace))
        shown.page.evaluate("() => { show(model); }")
        shown.page.clock.install()
        shown.button("Play", nth=1).click()
        shown.page.clock.run_for(1700)
        assert shown.index() == 1
        assert shown.button("Pause", nth=0).count() == 1
        shown.page.clock.run_for(1700)
        assert shown.index() == 2

    def test_players_of_other_traces_step_apart(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace))
        other = StepPlayer(make_trace(complete=False))
        state = {"payload": other.payload, "index": 0, "playing": False, "twin_key": ""}
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
        assert shown.root().get_by_role("slider").get_attribute("max") == str(len(other) - 1)

    def test_what_changed_is_listed_with_marks_that_are_read_out(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace, index=1))
        lines = shown.root().locator(".emqkit-line")
        assert lines.count() == 8
        assert lines.nth(0).evaluate("one => one.textContent") == "+new: child 0 enters pending of orders"
        assert lines.nth(0).locator(".emqkit-mark").get_attribute("aria-hidden") == "true"
        shown.press("Home")
        assert "Nothing yet" in shown.root().locator(".emqkit-diff").inner_text()

    def test_the_lua_is_shown_with_the_line_that_runs(self, shown: Shown, traced_lines: StepPlayer) -> None:
        player = traced_lines
        player.first()
        put(shown, player)
        asking = next(at for at, frame in enumerate(player.film.frames) if frame.asked)
        shown.page.evaluate("index => model.set('index', index)", asking)
        source = shown.root().locator(".emqkit-source")
        current = source.locator("[aria-current]")
        assert current.count() == 1
        assert "redis.call('HSET'" in current.inner_text()
        assert current.evaluate("one => getComputedStyle(one, '::before').content") == '"▶"'
        assert current.evaluate(
            "one => { const code = one.parentElement.getBoundingClientRect(), line = one.getBoundingClientRect();"
            " return line.top >= code.top && line.bottom <= code.bottom; }"
        )
        assert "move children" in source.locator("summary").inner_text()
        captions = source.locator("caption").all_inner_texts()
        assert captions == ["asked", "locals", "ARGV", "KEYS"]
        assert "HSET emq:{orders}:job:JOB0KHTOWnGLuD" in source.inner_text()

    def test_a_step_without_lua_keeps_one_slim_line_and_into_steps_on(
        self, shown: Shown, traced_lines: StepPlayer
    ) -> None:
        player = traced_lines
        player.first()
        put(shown, player)
        source = shown.root().locator(".emqkit-source")
        assert source.inner_text() == "Nothing has run yet: press Into to enter enqueue_flow"
        height = "one => one.getBoundingClientRect().height"
        assert source.evaluate(height) < 60
        shown.button("Into").click()
        assert source.evaluate(height) > 200
        shown.press("End", "ArrowLeft")  # is it paused?
        assert source.inner_text() == "A plain command: no script runs in this step"
        line = next(
            at
            for at, frame in enumerate(player.film.frames[1:-1], 1)
            if frame.line and player.film.frames[at + 1].depth == frame.depth
        )
        shown.page.evaluate("index => model.set('index', index)", line)
        shown.button("Into").click()
        assert shown.index() == line + 1, "as into() does in Python"

    def test_a_script_without_lines_to_step_is_there_to_be_opened(self, shown: Shown, trace: Trace) -> None:
        put(shown, StepPlayer(trace, index=1))
        source = shown.root().locator(".emqkit-source")
        assert source.locator(".emqkit-code").is_hidden()
        source.locator("summary").click()
        assert source.locator(".emqkit-code").is_visible()
        shown.press("ArrowRight")
        assert source.is_hidden(), "an HSET has no Lua"

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
        assert shown.page.locator("svg:visible").count() == 1
        summaries.nth(1).click()
        assert shown.page.locator("svg:visible").count() == 2

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_it_paints_its_board_on_the_themes_paper(
        self, shown: Shown, trace: Trace, theme: str, tmp_path: Path
    ) -> None:
        put(shown, StepPlayer(trace, index=1), theme=theme)
        colours = shown.page.evaluate(
            """() => ['.emqkit-player', '.emq-board'].map(name => {
                const style = getComputedStyle(document.querySelector(name));
                return [style.backgroundColor, style.color];
            })"""
        )
        bright = [[sum(map(int, re.findall(r"\d+", one)[:3])) > 380 for one in pair] for pair in colours]
        assert bright == [[theme == "light", theme != "light"]] * 2
        box = shown.root().locator("svg.emq-board").bounding_box()
        assert box is not None and box["width"] > 800 and box["height"] > 400
        shown.page.screenshot(path=tmp_path / f"{theme}.png", full_page=True)

    def test_nothing_is_cut_off_in_a_narrow_window(self, shown: Shown, traced_lines: StepPlayer) -> None:
        traced_lines.first()
        put(shown, traced_lines)
        for width in (1400, 800, 420):
            shown.page.set_viewport_size({"width": width, "height": 900})
            shown.press("End", "ArrowLeft")
            wide = shown.page.evaluate("() => document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels in a window of {width}"

    def test_no_text_of_a_board_leaves_its_picture_or_lies_over_another(self, shown: Shown, trace: Trace) -> None:
        player = StepPlayer(trace)
        put(shown, player)
        for index in range(len(player)):
            shown.page.evaluate("index => model.set('index', index)", index)
            clashes = shown.page.evaluate(
                """() => {
                    const board = document.querySelector('.emqkit-player svg.emq-board');
                    const frame = board.getBoundingClientRect();
                    const boxes = [...board.querySelectorAll('text')]
                        .map(one => [one.textContent, one.getBoundingClientRect()])
                        .filter(([, box]) => box.width);
                    const bad = boxes.filter(([, box]) => box.right > frame.right || box.bottom > frame.bottom);
                    for (const [words, one] of boxes) for (const [other, two] of boxes) {
                        const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
                        const down = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
                        if (one !== two && across > 1 && down > 5) bad.push([words, other]);
                    }
                    return bad.map(([words, other]) => `${words} / ${typeof other === 'string' ? other : 'edge'}`);
                }"""
            )
            assert not clashes, (index, clashes)

    def test_still_is_what_asks_for_stillness_gets(self, shown: Shown, trace: Trace) -> None:
        moving = "() => getComputedStyle(document.querySelector('.emq-board .r')).animationName"
        put(shown, StepPlayer(trace, index=1))
        assert shown.page.evaluate(moving) == "emqkit-arrive"
        shown.page.emulate_media(reduced_motion="reduce")
        assert shown.page.evaluate(moving) == "none"

    def test_hundreds_of_steps_are_painted_without_a_wait(self, shown: Shown) -> None:
        player = StepPlayer(make_trace(children=12), lines=True)
        assert len(player) > 300
        put(shown, player)
        times = shown.page.evaluate(
            """last => {
                const times = [];
                for (let index = 1; index <= last; index += 1) {
                    const start = performance.now();
                    model.set('index', index);
                    document.body.offsetHeight;
                    times.push(performance.now() - start);
                }
                return times.sort((one, other) => one - other);
            }""",
            len(player) - 1,
        )
        assert times[len(times) * 9 // 10] < 50, (
            "milliseconds: nine steps of ten, on a machine that does other things too"
        )
