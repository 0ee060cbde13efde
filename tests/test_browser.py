"""What a person sees and a screen reader hears, in a real JupyterLab in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab import Lab

FIRST_NOTEBOOK = "01_same_queue_flow.ipynb"


@pytest.fixture
def pages(lab: Lab) -> Iterator[Lab]:
    """The session's JupyterLab; whatever a test opens in it is closed again."""
    lab.outside.clear()
    yield lab
    lab.close_pages()


def test_the_player_is_stepped_by_keyboard_and_says_each_step(pages: Lab, tmp_path: Path) -> None:
    from lab import player, run_all

    page = pages.open(FIRST_NOTEBOOK)
    run_all(page)
    first = player(page)
    start, board = first.says(), first.draws()
    assert start

    told = first.press_and_listen("ArrowRight")
    assert told != start
    assert first.press_and_listen("ArrowLeft") == start
    assert first.draws() == board

    last = first.press_and_listen("End")
    assert last not in ("", start)
    assert first.draws() != board
    assert first.press_and_listen("Home") == start
    page.screenshot(path=tmp_path / "player.png")


def test_the_players_buttons_have_names_and_do_what_the_keys_do(pages: Lab) -> None:
    from lab import expect, player, run_all

    page = pages.open(FIRST_NOTEBOOK)
    run_all(page)
    first = player(page)
    for name in ("First", "Back", "Play", "Forward", "Last"):
        expect(first.root.get_by_role("button", name=name, exact=True)).to_have_count(1)
    start = first.says()
    by_key = first.press_and_listen("ArrowRight")
    first.press_and_listen("Home")
    first.click("Forward")
    expect(first.status).to_have_text(by_key)
    first.click("Back")
    expect(first.status).to_have_text(start)


def test_keys_pressed_in_the_player_do_not_edit_the_notebook(pages: Lab) -> None:
    from lab import player, run_all

    page = pages.open(FIRST_NOTEBOOK)
    run_all(page)
    first = player(page)
    count = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = page.evaluate(count)
    for key in ("a", "b", "x", "d", "d"):
        first.press(key)
    assert page.evaluate(count) == before


def test_a_notebook_asks_nothing_of_the_outside(pages: Lab) -> None:
    from lab import player, run_all

    page = pages.open(FIRST_NOTEBOOK)
    run_all(page)
    player(page)
    assert pages.outside == []
