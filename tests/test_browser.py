"""What a person sees and a screen reader hears, in a real JupyterLab in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab import Lab, Player
    from playwright.sync_api import Page

FIRST_NOTEBOOK = "01_same_queue_flow.ipynb"


@pytest.fixture(scope="module")
def opened(lab: Lab) -> Iterator[Page]:
    """The first notebook with a player, all cells run; what it asked for on the way is in `lab.outside`."""
    from lab import run_all

    lab.outside.clear()
    page = lab.open(FIRST_NOTEBOOK)
    run_all(page)
    yield page
    lab.close_pages()


@pytest.fixture
def first(opened: Page) -> Player:
    """Its first player, at the start."""
    from lab import player

    found = player(opened)
    found.press("Home")
    return found


def test_the_player_is_stepped_by_keyboard_and_says_each_step(first: Player) -> None:
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


def test_the_players_buttons_have_names_and_do_what_the_keys_do(first: Player) -> None:
    from lab import expect

    for name in ("First", "Back", "Play", "Forward", "Last"):
        expect(first.root.get_by_role("button", name=name, exact=True)).to_have_count(1)
    start = first.says()
    by_key = first.press_and_listen("ArrowRight")
    first.press_and_listen("Home")
    first.click("Forward")
    expect(first.status).to_have_text(by_key)
    first.click("Back")
    expect(first.status).to_have_text(start)


def test_keys_pressed_in_the_player_do_not_edit_the_notebook(opened: Page, first: Player) -> None:
    count = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = opened.evaluate(count)
    for key in ("a", "b", "x", "d", "d"):
        first.press(key)
    assert opened.evaluate(count) == before


def test_the_drawer_that_was_asked_for_is_open(opened: Page) -> None:
    from lab import expect, player

    root = player(opened, 2).root  # after the two side by side and the one with lines
    expect(root.get_by_role("button", name="the host's line")).to_have_attribute("aria-expanded", "true")
    expect(root.locator(".emqkit-panel-host")).to_contain_text("yield from self._land_at_once")


def test_a_notebook_asks_nothing_of_the_outside(opened: Page, first: Player, lab: Lab) -> None:
    assert lab.outside == []
