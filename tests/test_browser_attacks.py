"""Lua that means harm, run from cells of a real JupyterLab: a sentence each time, and the kernel lives on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from test_browser_classroom import run

if TYPE_CHECKING:
    from lab import Lab

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("browser")]

NAME = "attacks.ipynb"
HERE = Path(__file__).parent
FIVE = {
    "a loop": "step",
    "a pattern": "open_server",
    "500 MB in a key": "explore",
    "os.execute": "replay",
    "recursion": "step",
}


def test_a_kernel_outlives_five_attacks(lab: Lab) -> None:
    first = f"import sys, os\nsys.path.insert(0, {str(HERE)!r})\nfrom attacks import against\nkept = 'kept'"
    cells = [first, *(f"against({door!r}, {attack!r}, 3.0)" for attack, door in FIVE.items()), "(kept, os.getpid())"]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)), metadata={"kernelspec": kernel})
    nbformat.write(book, lab.folder / NAME)
    page = lab.open(NAME)
    try:
        assert run(page, "import sys") == {}
        alive = run(page, "(kept")["text/plain"]
        assert alive.startswith("('kept', ") and str(os.getpid()) not in alive
        for attack, door in FIVE.items():
            said = run(page, f"against({door!r}, {attack!r}")["text/plain"]
            print(f"{attack:16} {door:12} {said[:150]}")
            assert "REACHED THE MACHINE" not in said and said.startswith(("('", '("'))
            assert run(page, "(kept")["text/plain"] == alive, attack
    finally:
        lab.close_pages()
        (lab.folder / NAME).unlink()
