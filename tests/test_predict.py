"""Predict, then see: the wrong answers are what mistakes do, and what is right is nowhere before an answer is given."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

from emqkit import Child, Flow, Flows, Jobs, Minter, Predict, Pump, Server, Trace, open_server, record
from emqkit.errors import BadArgument
from emqkit.keyspace import Keyspace

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Locator, Page

NAMES = ("pick", "label", "weigh")
PARENT = "JOB0KHTOWnGLuC"  # the first id of a fixed minter


def work(server: Server, queue: str) -> None:
    """Claim the next job and complete it."""
    claim = Jobs(server).claim(queue)
    assert claim is not None
    Jobs(server).complete(queue, claim, result="done")


def make_trace(server: Server, queue: str, *, settle: bool = True) -> Trace:
    """A flow of three children; each is claimed and completed."""
    server.minter = Minter.fixed()
    with record(server, pattern=b"emq:{%s*" % queue.encode()) as trace:
        Flows(server).add(queue, Flow("order 7", [Child(name) for name in NAMES]))
        for _ in NAMES if settle else ():
            work(server, queue)
    return trace


@pytest.fixture
def queue(queues: Callable[..., str]) -> str:
    return queues("orders")


@pytest.fixture
def trace(server: Server, queue: str) -> Trace:
    return make_trace(server, queue)


def answers(predict: Predict) -> list[bool]:
    """Which of the answers is right, found by committing to one."""
    predict.choose(1)
    return [number == predict._right for number in range(len(predict.choices))]


# --- the answers ------------------------------------------------------------------------------------------------------


def test_a_wrong_answer_is_what_a_mistake_of_the_zoo_does_and_says_which(trace: Trace, queue: str) -> None:
    def fresh() -> Predict:
        return Predict(trace, at="complete", nth=2)

    early = f"order 7 enters pending of {queue}"
    assert set(fresh().choices) == {early, "nothing else"}
    assert fresh().question.startswith("jobs.complete now sends complete for label. This much is sure: label leaves")
    assert "the counter of order 7: 2 → 1" in fresh().question and "What else does it change?" in fresh().question
    wrong = fresh()
    said = wrong.choose(wrong.choices.index(early) + 1)
    assert said.startswith(f"You said {early}: that is what happens where the parent is released at one, not at zero.")
    assert "What really happens: nothing else. complete retires label" in said
    right = fresh()
    assert right.choose(right.choices.index("nothing else") + 1).startswith("Right: nothing else. complete retires")


def test_the_wrong_answers_come_from_the_mistakes_that_are_named(server: Server, queue: str) -> None:
    trace = make_trace(server, queue, settle=False)
    jobs = Jobs(server)
    with record(server, pattern=b"emq:{%s*" % queue.encode()) as claiming:
        jobs.claim(queue)
    moved = [f"{name} moves from pending to active of {queue}" for name in NAMES]
    assert set(Predict(claiming, at="claim").choices) == {moved[0], moved[2]}, "newest-first takes the last"
    assert set(Predict(claiming, at="claim", zoo=["no-fence"]).choices) == {moved[0], "nothing changes"}
    with pytest.raises(BadArgument, match="is no mistake of the zoo, which has no-fence,"):
        Predict(claiming, at="claim", zoo=["no-such"])
    read = Predict(claiming, at="HEXISTS")
    assert set(read.choices) == {"nothing changes", "something changes"}
    assert "nothing changes" in read.choices[answers(read).index(True)]
    assert len(Predict(trace).choices) == 2, "the last step, if none is named"


def test_a_refusal_is_told_beside_what_would_be_written_without_it(server: Server, queue: str) -> None:
    server.minter = Minter.fixed()
    foreign = Flow("order 9", [Child("pick"), Child("label", id="USR0KHTOWnGLuC")])
    refused = Trace.of(Flows(server).add.program(queue, foreign), server, pattern=b"emq:{%s*" % queue.encode())
    predict = Predict(refused)
    clean, half = sorted(predict.choices, key=len)
    assert clean == "it is refused (EMQKIND job id must be JOB-namespaced), and nothing changes"
    assert half.endswith(f"and pick enters pending of {queue}"), "late-gate looks too late"
    assert predict.choices[answers(predict).index(True)] == clean
    assert f"answer {predict.choices.index(clean) + 1}. enqueue_flow is refused" in predict.sentence, "by its number"


def test_answers_of_ones_own_are_judged_by_what_was_found(trace: Trace, queue: str) -> None:
    counter = Keyspace.of(trace.final)[queue].counter(PARENT)
    own = Predict(trace, at="complete", nth=-1, question="And the counter?", choices=[0, 1, 2], answer=counter)
    assert own.choices == ("0", "1", "2") and repr(own).startswith("And the counter? 1 0; 2 1; 3 2.")
    assert own.choose(2).startswith(
        "You said 1: that is not what happens. What really happens: 0. complete retires weigh"
    )
    found = Predict(trace, question="Which?", choices=["a", "b", "c"], answer="what nobody thought of")
    assert set(found.choices) == {"a", "b", "c", "what nobody thought of"}, "what was found is always among them"
    places = {Predict(trace, question=f"{n}?", choices="abc", answer="z").choices.index("z") for n in range(20)}
    assert len(places) == 4, "and its place says nothing"


# --- before and after -------------------------------------------------------------------------------------------------


def told_before(predict: Predict) -> str:
    """Everything that leaves Python before an answer is committed to."""
    states = [widget.get_state() for widget in (predict._ask, predict.player)]
    for state in states:
        state.pop("layout", None)
        state.pop("_esm", None), state.pop("_css", None)
    return json.dumps([states, predict.twin(), predict.transcript(), repr(predict)], default=str)


def test_before_an_answer_nothing_says_which_is_right() -> None:
    """Two worlds that part only at the step: whatever is stored of the question is the same in both."""
    told, ends = [], []
    for scripts in ("published", "zoo/early-release"):
        with open_server("fake://", scripts=scripts, minter=Minter.fixed()) as place:
            Flows(place).add("orders", Flow("order 7", [Child("pick"), Child("label")]))
            with record(place) as trace:
                work(place, "orders")
                work(place, "orders")
            state = Keyspace.of(trace.steps[3].after)["orders"].state(PARENT)
        predict = Predict(
            trace, at="complete", question="The parent?", choices=["awaiting_children", "pending"], answer=state
        )
        told.append(told_before(predict))
        ends.append(predict.choose(1))
    assert ends[0] != ends[1], "they do part"
    assert told[0] == told[1]


def test_the_player_and_its_copies_stop_at_the_question_and_go_on_after_it(trace: Trace) -> None:
    predict = Predict(trace, at="complete", nth=2)
    after = "complete retires label"
    before = told_before(predict)
    assert "complete retires pick" in before and after not in before and "complete retires weigh" not in before
    assert predict.player.sentence.startswith("HMGET reads the row of label")
    key = predict.player.twin_key
    predict.choose(1)
    assert predict.player.twin_key == key, "the copy above it is still found, by a view drawn later too"
    assert predict.player.sentence.startswith(after)
    assert "complete retires weigh" in json.dumps(predict.player.payload, ensure_ascii=False)


def test_the_first_answer_counts(trace: Trace) -> None:
    predict = Predict(trace, at="complete", nth=2)
    assert predict.chosen is None and repr(predict).endswith("Commit to one to see.")
    said = predict.choose(2)
    predict.player.first()
    assert predict.choose(1) == said == repr(predict) and predict.chosen == 2
    assert predict.player.index == 0, "and the player stays where it was taken"
    for wrong in (0, 3, True, "1"):
        with pytest.raises(BadArgument, match="is none of the answers, which are 1 to 2"):
            predict.choose(wrong)  # type: ignore[arg-type]


def test_a_question_about_the_end_plays_all_of_the_rest(trace: Trace) -> None:
    predict = Predict(trace, at=2, through=True, question="And then?", choices=["x", "y"], answer="x")
    assert "enqueue_flow lands" in told_before(predict) and "parent_policy" not in told_before(predict)
    said = predict.choose(1)
    assert predict.player.playing and predict.player.index == 1
    assert "It ends with this: DEL" in said, "the last step is told"


def test_what_the_browser_says_is_heard_and_a_view_drawn_later_is_told(trace: Trace) -> None:
    predict = Predict(trace, at="complete", nth=2)
    sent: list[Any] = []
    predict._ask.send = lambda content: sent.append(content)
    predict._heard(predict._ask, {"ask": True}, [])
    assert sent == [] and predict.chosen is None
    predict._heard(predict._ask, {"choose": 1}, [])
    predict._heard(predict._ask, {"ask": True}, [])
    right = predict._right + 1
    assert sent == [{"chosen": 1, "right": right, "says": str(predict.sentence)}] * 2


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"at": "retry"}, "'retry' is called 0 times"),
        ({"at": "complete", "nth": 4}, "called 3 times in this trace, and not a time number 4"),
        ({"at": "complete", "nth": 0}, "called 3 times"),
        ({"at": 0}, "0 is no step of this trace, which has steps 1 to 17"),
        ({"at": 18}, "18 is no step"),
        ({"at": -18}, "-18 is no step"),
        ({"at": True}, "True is no step"),
    ],
)
def test_what_is_no_step_is_refused_in_words(trace: Trace, wanted: dict[str, Any], says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        Predict(trace, **wanted)


def test_what_is_no_trace_is_refused_with_what_to_run(trace: Trace, server: Server) -> None:
    with pytest.raises(BadArgument, match="is AddedFlow, not a trace: run the cell that records one"):
        Predict(Flows(server).add("elsewhere", Flow("order", [Child("pick")])))  # type: ignore[arg-type]
    with record(server) as nothing:
        pass
    with pytest.raises(BadArgument, match="has no step to ask for: run the cells that fill it again"):
        Predict(nothing)


def test_a_round_trip_of_many_calls_is_asked_for_as_one(server: Server, queues: Callable[..., str]) -> None:
    home, away = queues("orders"), queues("labels")
    pump = Pump(server, away)
    Flows(server).add(home, Flow("order 7", [Child("label", queue=away)]))
    work(server, away)
    pattern = b"emq:{*"
    Trace.of(pump.sweep.program(), server, stop_after=3, pattern=pattern)  # delivered, and crashed before the trim
    with record(server, pattern=pattern) as again:
        pump.sweep()
    first = Predict(again, at=1)
    assert first.question.startswith("pump.sweep now sends promote and LRANGE.")
    delivery = Predict(again, at="flow_deliver")
    assert "nothing changes" in delivery.choices and len(delivery.choices) == 2
    assert delivery.choices[answers(delivery).index(True)] == "nothing changes", "no-first-record counts it again"


# --- a notebook that is run and stored, and a real browser ------------------------------------------------------------

CELLS = [
    "import emqkit\n"
    "server = emqkit.open_server(minter=emqkit.Minter.fixed())\n"
    "flows, jobs = emqkit.Flows(server), emqkit.Jobs(server)\n"
    "flows.add('orders', emqkit.Flow('order 7', [emqkit.Child('pick'), emqkit.Child('label')]))\n"
    "with emqkit.record(server) as trace:\n"
    "    for _ in range(2):\n"
    "        jobs.complete('orders', jobs.claim('orders'), result='done')",
    "predict = emqkit.Predict(trace, at='complete')\npredict",
]


def book(path: Path) -> None:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)), metadata={"kernelspec": kernel})
    nbformat.write(made, path)


@pytest.mark.slow
def test_an_executed_notebook_and_its_page_hold_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "asked.ipynb"
    book(path)
    for to, suffix in (("notebook", ".done.ipynb"), ("html", ".html")):
        command = [sys.executable, "-m", "nbconvert", "--execute", "--to", to, "--output", f"asked{suffix}", str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        text = (tmp_path / f"asked{suffix}").read_text("utf-8")
        assert "What else does it change" in text and "emqkit-predict" in text, "the question and its widget are there"
        assert "complete retires" not in text, "and what the step did is not"


NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("0[0-6]_*.ipynb")), ids=lambda path: path.stem)
def test_no_notebook_holds_the_answers_to_what_it_asks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Predict] = []

    class Kept(Predict):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            asked.append(self)

    monkeypatch.setattr("emqkit.widgets.Predict", Kept)
    monkeypatch.setenv("EMQKIT_SERVER", "fake://")
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    names: dict[str, Any] = {}

    def run(cell: Any) -> None:
        if "emqkit.explore(" not in cell.source or "result" not in names:  # a whole state space is explored once
            exec(compile(cell.source, path.stem, "exec"), names)

    for cell in cells:  # each twice, and then all of them again: it means the same
        run(cell)
        run(cell)
    kept = asked[::2]
    assert len(kept) >= 3 and list(map(repr, kept)) == list(map(repr, asked[1::2]))
    again, asked[:] = asked[::2], []
    for cell in cells:
        run(cell)
    assert list(map(repr, asked)) == list(map(repr, again))
    stored = json.dumps(notebook, ensure_ascii=False)
    for one in kept:
        assert json.dumps(one.question, ensure_ascii=False)[1:-1] in stored
        why = one._why.removeprefix("It ends with this: ")
        assert json.dumps(why, ensure_ascii=False)[1:-1] not in stored, one.question
    for call in (node for cell in cells for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)):
        for word in call.keywords:
            assert word.arg != "answer" or not isinstance(word.value, ast.Constant), "an answer is found by running"


NAME = "predict.ipynb"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Iterator[Page]:
    from lab import run_all

    lab.outside.clear()
    book(lab.folder / NAME)
    page = lab.open(NAME, width=1440, height=900)
    run_all(page)
    yield page
    lab.close_pages()
    (lab.folder / NAME).unlink()


def question(page: Page) -> Locator:
    from lab import show

    return show(page, ".emqkit-predict")


def test_a_prediction_by_keyboard_only(opened: Page) -> None:
    from lab import Player
    from playwright.sync_api import expect

    root, player = question(opened), Player(opened.locator(".emqkit-player"))
    status = root.get_by_role("status")
    expect(status).to_have_attribute("aria-live", "polite")
    expect(player.status).to_contain_text("HMGET reads the row of pick")
    assert "counter goes" not in opened.locator("body").inner_html()
    commit = root.get_by_role("button", name="Commit to it")
    commit.focus()
    opened.keyboard.press("Enter")
    expect(status).to_have_text("Choose an answer first.")
    expect(root.get_by_role("radio").first).to_be_focused()
    opened.keyboard.press("2")
    opened.keyboard.press("ArrowUp")
    opened.keyboard.press("b")  # in a notebook's own hands that is a new cell
    expect(root.get_by_role("radio").first).to_be_checked()
    opened.keyboard.press("Enter")
    expect(status).to_contain_text("complete retires pick of orders: its result is in processed of order 7")
    expect(root.locator(".emqkit-right")).to_contain_text("nothing else")
    expect(root.locator(".emqkit-right .emqkit-verdict")).to_contain_text("what happens")
    expect(player.status).to_contain_text("complete retires pick of orders")
    player.press_and_listen("ArrowRight")
    assert opened.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length") == len(CELLS)


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_an_accessibility_scan_finds_nothing_serious(opened: Page, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    opened.evaluate("async theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    opened.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str("Light" in theme).lower())
    root = question(opened)
    if not opened.evaluate("() => Boolean(window.axe)"):
        opened.add_script_tag(content=resources.files(axe.__name__).joinpath("axe.min.js").read_text("utf-8"))
    result: dict[str, Any] = root.evaluate("element => window.axe.run(element)")
    assert len(result["passes"]) > 5, "it looked at something"
    serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
    assert [f"{one['help']} ({one['nodes'][0]['html'][:120]})" for one in serious] == []


def test_without_a_kernel_it_says_which_cell_to_run(opened: Page, lab: Lab) -> None:
    from lab import run_all
    from playwright.sync_api import expect

    run_all(opened)  # a fresh question
    root = question(opened)
    expect(root.get_by_role("status")).to_have_text("")
    opened.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown(); }")
    root.get_by_role("radio").first.check()
    root.get_by_role("button", name="Commit to it").click()
    expect(root.get_by_role("status")).to_contain_text("run this cell")
    assert lab.outside == []
