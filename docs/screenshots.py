"""Take the README's pictures: python docs/screenshots.py

Opens the notebooks in a real JupyterLab, as the browser tests do, and writes docs/notebook-01.png.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from lab import open_lab, player, run_all  # noqa: E402 - found through the line above


def main() -> None:
    """Write every picture."""
    with open_lab() as lab:
        page = lab.open("01_same_queue_flow.ipynb", width=1280, height=960)
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        run_all(page)
        stepped = player(page)
        for _ in range(3):
            stepped.press_and_listen("ArrowRight")
        page.screenshot(path=DOCS / "notebook-01.png")


if __name__ == "__main__":
    main()
