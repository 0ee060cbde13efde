"""An exercise in a real JupyterLab: failed, hinted at, mended, met; and the badge that is there then."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from emqkit.classroom import EXERCISES

if TYPE_CHECKING:
    from lab import Lab
    from playwright.sync_api import Page

RUN = """async ([number, source]) => {
    const { commands, shell } = window.jupyterapp;
    const notebook = shell.currentWidget.content;
    const cell = notebook.widgets[number];
    if (source !== null) cell.model.sharedModel.setSource(source);
    notebook.deselectAll();
    notebook.activeCellIndex = number;
    await notebook.scrollToItem(number);
    await commands.execute('notebook:run-cell');
    const outputs = cell.model.outputs.toJSON();
    return outputs.flatMap(output => Object.entries(output.data ?? { error: output.ename ?? output.text }));
}"""


def run(page: Page, beginning: str, source: str | None = None) -> dict[str, str]:
    """Run the first cell that begins so, with another text if one is given; its outputs by their type."""
    number = page.evaluate(
        """beginning => window.jupyterapp.shell.currentWidget.content.widgets
            .findIndex(cell => cell.model.sharedModel.source.startsWith(beginning))""",
        beginning,
    )
    assert number >= 0, f"no cell begins with {beginning}"
    return dict(page.evaluate(RUN, [number, source]))


def test_an_exercise_is_failed_hinted_at_mended_and_met_and_earns_its_badge(lab: Lab) -> None:
    from playwright.sync_api import expect

    page = lab.open("exercises/01_same_queue_flow.ipynb")
    opening = 'import os\nos.environ["EMQKIT_PROGRESS"] = "progress.json"\nfrom emqkit.classroom import badges, check'
    assert run(page, "from emqkit.classroom", opening) == {}

    run(page, "counter = ...", "counter = 0")
    assert "still outstanding" in run(page, 'answer = check("counter"')["text/plain"]
    assert "is its child through with" in run(page, "# answer.hint()", "answer.hint()")["text/plain"]
    assert "tells the parent nothing yet" in run(page, "answer.hint()")["text/plain"]
    shown = run(page, "answer.hint()")
    assert "application/vnd.jupyter.widget-view+json" in shown
    expect(page.locator(".emqkit-player").first).to_be_visible()

    run(page, "counter = 0", "counter = 1")
    assert run(page, 'answer = check("counter"')["text/plain"].startswith("Met.")
    badge = run(page, "answer.hint()", "badges()")
    assert badge["text/plain"] == f"1 of {len(EXERCISES)} exercises are met: same queue flow 1 of 3."
    expect(page.get_by_text("same queue flow 1/3")).to_be_visible()
    row = page.locator(".jp-OutputArea-output", has_text="same queue flow 1/3")
    row.scroll_into_view_if_needed()
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    page.add_script_tag(content=resources.files(axe.__name__).joinpath("axe.min.js").read_text("utf-8"))
    found: dict[str, Any] = row.evaluate("element => window.axe.run(element)")
    assert found["passes"], "it looked at something"
    assert [one["help"] for one in found["violations"]] == []
    page.close()
