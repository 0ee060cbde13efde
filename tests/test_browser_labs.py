"""Each lab in a real JupyterLab: by keyboard only, then by mouse, and what an accessibility scan says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Locator, Page

# One JupyterLab and one browser for the whole run: all of this goes to one worker.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

NAME = "labs.ipynb"
CELLS = [
    "import emqkit\n"
    "server = emqkit.open_server(minter=emqkit.Minter.fixed())\n"
    "flows = emqkit.Flows(server)\n"
    "batch = [\n"
    "    emqkit.Flow('order 1', [emqkit.Child('pick')]),\n"
    "    emqkit.Flow('order 2', [emqkit.Child('label', queue='labels'), emqkit.Child('pay', queue='payments',"
    " id='USR0KHTOWnGLuC')]),\n"
    "]\n"
    "trace = emqkit.Trace.of(flows.add_bulk.program('orders', batch), server)",
    "emqkit.BulkLedger(trace)",
    "emqkit.CounterLab(2, server=server)",
    "emqkit.OutboxLab(server)",
    "pumping = emqkit.PumpCrashLab(server)\npumping",
    "pumping.crash(4)",
]
LABS = ("Bulk ledger", "The fan-in counter", "Outbox and policy", "The Pump's crashes")


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Iterator[Page]:
    """A notebook with one lab of each kind, all cells run."""
    from lab import run_all

    lab.outside.clear()
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)), metadata={"kernelspec": kernel})
    nbformat.write(book, lab.folder / NAME)
    page = lab.open(NAME, width=1400, height=1600)
    run_all(page)
    yield page
    lab.close_pages()
    (lab.folder / NAME).unlink()


def found(page: Page, title: str) -> Locator:
    """A lab by its title, drawn and alive."""
    from lab import expect, show

    # by its title: JupyterLab takes out of the page what is far from the window, so a number would mean another one
    root = show(page, f'.emqkit-lab:has(.emqkit-lab-title:text-is("{title}"))')
    root.locator(".emqkit-queues").first.wait_for()
    expect(root).to_have_attribute("role", "group")
    expect(root).to_have_attribute("aria-label", title)
    expect(root.locator(".emqkit-lab-line [role=status]")).to_have_attribute("aria-live", "polite")
    return root


def line(root: Locator) -> Locator:
    """The line that a screen reader is told."""
    return root.locator(".emqkit-lab-line [role=status]")


def tab_to(page: Page, root: Locator, name: str) -> Locator:
    """Press Tab from the lab's first control until the control with this accessible name has the focus."""
    root.locator("button, select, input").first.focus()
    for _ in range(60):
        focused = page.locator(":focus")
        if focused.evaluate("e => (e.labels?.[0] ?? e).textContent.trim()") == name:
            return focused
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {name!r}")


def press(page: Page, root: Locator, name: str, key: str, says: str) -> None:
    """Go to a button by Tab, press a key on it, and wait until the lab's line says this."""
    from lab import expect

    tab_to(page, root, name)
    page.keyboard.press(key)
    expect(line(root)).to_contain_text(says)


def cells(page: Page) -> int:
    return int(page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length"))


def test_the_ledger_by_keyboard_only(opened: Page) -> None:
    from lab import expect

    root = found(opened, "Bulk ledger")
    status = root.locator(".emqkit-status")
    press(opened, root, "Flow 2: order 2", "Enter", "Flow 2, order 2: held; parent and 1 of 2 children landed")
    expect(status).to_contain_text("hold_parent lands order 2")
    expect(root.locator(".emqkit-player .emqkit-count")).to_have_text(re.compile(r"^step 3 of "))
    press(opened, root, "Retry by id", "Space", "Flow 2, order 2: landed after 1 retry")
    expect(status).to_contain_text("hold_parent finds order 2 in orders already")
    press(opened, root, "Whole batch", "Enter", "2 flows: 2 landed.")
    expect(root.locator(".emqkit-count")).to_have_text(re.compile(r"^step 0 of "))


def test_the_counter_by_keyboard_only(opened: Page) -> None:
    from lab import expect

    root = found(opened, "The fan-in counter")
    press(opened, root, "Complete the next child", "Enter", "the counter goes 2 → 1")
    press(opened, root, "Complete the same again", "Space", "is refused (JobGone): nothing changes")
    press(opened, root, "Complete with a stale token", "Enter", "is refused (StaleToken): nothing changes")
    press(opened, root, "Complete the next child", "Space", "the parent is released, in pending")
    drawing = root.get_by_role("img", name=re.compile("The counter over 4 completions"))
    expect(drawing.locator(".d-cross")).to_have_count(2)
    expect(root.locator(".emqkit-status")).to_contain_text(
        "That was the last one: pack order 7 is released into pending."
    )
    press(opened, root, "Back to the start", "Enter", "The counter stands at 2 of 2")


def test_the_outbox_by_keyboard_only(opened: Page) -> None:
    from lab import expect

    root = found(opened, "Outbox and policy")
    press(opened, root, "Let child 2 die", "Enter", "Child 2, take from shelf, dies in stock: a signal waits")
    row = root.get_by_role("row", name="1 failure orders ship order 7 take from shelf fp take from shelf: failed")
    expect(row).to_have_count(1)
    press(
        opened,
        root,
        "Crash the Pump there",
        "Enter",
        "The Pump crashes between flow_fail_deliver of take from shelf and LTRIM",
    )
    expect(line(root)).to_contain_text("The parent is dead; the outbox holds 1 signal.")
    press(opened, root, "Let the Pump sweep once", "Space", "The parent is dead; the outbox is empty.")
    tab_to(opened, root, "Child 2")
    opened.keyboard.press("Control+a")
    opened.keyboard.type("take from attic")
    opened.keyboard.press("Tab")
    expect(line(root)).to_contain_text("take from attic in stock, whose death fails its parent")
    expect(opened.locator(":focus")).to_have_js_property("tagName", "SELECT")  # the one beside it
    opened.keyboard.press("ArrowUp")
    expect(line(root)).to_contain_text(
        "The flow has landed: check address in orders, whose death fails its parent; take from attic in orders"
    )
    press(opened, root, "Let child 2 die", "Enter", "its parent is told at once. The parent is dead")
    tab_to(opened, root, "Other queue")
    opened.keyboard.press("Control+a")
    opened.keyboard.type("ware{house")
    opened.keyboard.press("Enter")
    expect(line(root)).to_contain_text("ill-formed queue name 'ware{house'")
    expect(root.locator(".emqkit-lab-refused")).to_have_count(1)
    expect(root.get_by_label("Other queue")).to_have_value("stock")
    press(opened, root, "Back to the start", "Enter", "The flow has landed")
    expect(root.locator(".emqkit-lab-refused")).to_have_count(0)


def test_the_pumps_crashes_by_keyboard_only(opened: Page) -> None:
    from lab import expect

    root = found(opened, "The Pump's crashes")
    expect(line(root)).to_contain_text("2 deliveries so far, 2 counted; 2 signals still in the outbox.")
    press(opened, root, "Crash the Pump there", "Enter", "4 deliveries so far, 2 counted")
    expect(root.get_by_role("row", name="pick item 1 yes 2 times 1 time")).to_have_count(1)
    press(opened, root, "Back to the start", "Space", "nothing is delivered yet")
    tab_to(opened, root, "The Pump's order")
    opened.keyboard.press("ArrowDown")
    expect(line(root)).to_contain_text("From now on the Pump trims before it delivers")
    press(opened, root, "Crash the Pump there", "Enter", "LOST: pick item 2")
    press(opened, root, "Back to the start", "Enter", "nothing is delivered yet")
    tab_to(opened, root, "The Pump's order")
    opened.keyboard.press("ArrowUp")
    expect(line(root)).to_contain_text("From now on the Pump delivers before it trims")
    tab_to(opened, root, "Crash it")
    opened.keyboard.press("Home")  # one key: a widget that is told twice at once may hear the second after the click
    press(opened, root, "Crash the Pump there", "Space", "The Pump crashes before promote.")
    press(opened, root, "Let a pass finish", "Enter", "2 deliveries so far, 2 counted; the outbox is empty.")


@pytest.mark.parametrize(("title", "tallest"), list(zip(LABS, (720, 600, 600, 600), strict=True)))  # 3 queues
def test_controls_sentence_and_stage_are_on_one_screen(opened: Page, title: str, tallest: int) -> None:
    opened.set_viewport_size({"width": 1440, "height": 900})
    try:
        root = found(opened, title)
        opened.wait_for_timeout(300)  # until the motion of the last step is over
        seen = root.evaluate(MEASURE)
    finally:
        opened.set_viewport_size({"width": 1400, "height": 1600})
    assert 900 < seen["width"] <= 1010
    assert seen["height"] <= tallest, "from the first control to the end of the stage"
    assert seen["sideways"] == 0 and seen["smallest"] >= 11
    assert seen["overlaps"] == [] and seen["cut"] == []


MEASURE = """root => {
    const box = node => node.getBoundingClientRect();
    const all = [...root.querySelectorAll('*')].filter(one => one.checkVisibility());
    const words = all.filter(one => [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) &&
        !one.closest('style, .emqkit-said, option'));
    const controls = [...root.querySelectorAll(':scope > .emqkit-lab-row > *, .emqkit-ledger .jupyter-button')].filter(
        one => one.checkVisibility());
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const name = node => node.textContent.trim().slice(0, 30);
    return {
        width: box(root).width,
        height: box(root.querySelector('.emqkit-stage')).bottom - box(controls[0]).top,
        sideways: Math.max(0, root.scrollWidth - root.clientWidth),
        smallest: Math.min(...words.map(one => parseFloat(getComputedStyle(one).fontSize))),
        overlaps: controls.flatMap((one, at) => controls.slice(at + 1).filter(two => meet(box(one), box(two)))
            .map(two => [name(one), name(two)])),
        cut: [...root.querySelectorAll('button, select, .widget-label')].filter(one => one.checkVisibility() &&
            one.scrollWidth > one.clientWidth + 1 && !one.closest('.emqkit-player')).map(name),
    };
}"""


@pytest.mark.parametrize(
    ("title", "clicks"),
    [
        ("Bulk ledger", [("Whole batch", "2 flows:"), ("Flow 1: order 1", "Flow 1, order 1: landed")]),
        ("The fan-in counter", [("Back to the start", "has landed"), ("Complete the next child", "goes 2 → 1")]),
        ("Outbox and policy", [("Back to the start", "has landed"), ("Complete child 3", "a signal waits")]),
        ("The Pump's crashes", [("Back to the start", "nothing is"), ("Let a pass finish", "A pass runs to its end.")]),
    ],
)
def test_a_lab_by_mouse(opened: Page, title: str, clicks: list[tuple[str, str]]) -> None:
    from lab import expect

    root = found(opened, title)
    for name, says in clicks:
        root.get_by_role("button", name=name, exact=True).click()
        expect(line(root)).to_contain_text(says)
    step = root.locator(".emqkit-count")
    root.get_by_role("button", name="First", exact=True).click()
    expect(step).to_have_text(re.compile(r"^step 0 of "))


def test_keys_pressed_on_a_labs_buttons_do_not_edit_the_notebook(opened: Page) -> None:
    before = cells(opened)
    for title in LABS:
        root = found(opened, title)
        for focused in (
            root.locator("button").first,
            root.get_by_role("button", name="Forward"),
            root.locator("select").last,
        ):
            focused.focus()
            for key in ("a", "b", "x", "d", "d"):
                opened.keyboard.press(key)
    assert cells(opened) == before


def test_the_twin_of_a_lab_is_hidden_while_the_lab_is_alive(opened: Page) -> None:
    from lab import expect

    for title in LABS:
        found(opened, title)
    twins = opened.locator(".emqkit-lab-twin")
    assert twins.count() >= 1
    for twin in twins.all():
        expect(twin).to_be_hidden()


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
@pytest.mark.parametrize("title", LABS)
def test_an_accessibility_scan_finds_nothing_serious(opened: Page, title: str, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    opened.emulate_media(color_scheme="dark" if "Dark" in theme else "light")
    opened.evaluate("async theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
    opened.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str("Light" in theme).lower())
    root = found(opened, title)
    if not opened.evaluate("() => Boolean(window.axe)"):
        opened.add_script_tag(content=resources.files(axe.__name__).joinpath("axe.min.js").read_text("utf-8"))
    result: dict[str, Any] = root.evaluate("element => window.axe.run(element)")
    assert len(result["passes"]) > 10, "it looked at something"
    told = [
        f"{one['impact']}: {one['help']} ({node['html'][:120]})"
        for one in result["violations"]
        for node in one["nodes"]
        if one["impact"] in ("serious", "critical")
    ]
    assert told == []


def test_the_labs_ask_nothing_of_the_outside(opened: Page, lab: Lab) -> None:
    for title in LABS:
        found(opened, title)
    assert lab.outside == []
