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
        page = lab.open("01_same_queue_flow.ipynb", width=1120, height=1320)
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        run_all(page)
        landed = player(page, 1)
        landed.press_and_listen("End")
        while "parent_policy" in landed.press_and_listen("ArrowLeft"):
            pass  # from the round trip that adds the policies back into the script that landed the flow
        landed.root.evaluate("root => root.scrollIntoView({ block: 'start' })")
        page.mouse.move(0, 0)  # off the cell, whose toolbar would lie over it
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "notebook-01.png")


if __name__ == "__main__":
    main()
