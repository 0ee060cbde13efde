"""Run the notebooks afresh and store what they show: python docs/notebooks.py [NAME …]

For after a change of a sentence, a picture or a notebook's text. What is stored names no machine and no moment: the
tests run each notebook again, on every server, and compare. Exercises and solutions store nothing that they show, so as
to give no answer away: `emqkit classroom build` makes the one of the other.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("tags", "nbgrader")
"""What a cell's metadata may hold."""
CLASSROOM = ("exercises", "solutions")
"""The folders whose notebooks store nothing that they show."""


def refresh(path: Path) -> None:
    """Execute one notebook in its folder and write it back, without run times, versions or widget state."""
    notebook = nbformat.read(path, as_version=4)
    ExecutePreprocessor(timeout=120, kernel_name="python3").preprocess(notebook, {"metadata": {"path": path.parent}})
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{path.stem[:2]}-{number:02d}"
        cell.metadata = nbformat.from_dict({name: cell.metadata[name] for name in KEPT if name in cell.metadata})
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    nbformat.write(notebook, path)


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """What a cell printed as one piece: where the pieces are cut depends on the moment."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if output.output_type == "stream" and last is not None and last.get("name") == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def main(names: list[str]) -> None:
    """Refresh the named notebooks, or all."""
    os.environ["EMQKIT_PROGRESS"] = ""  # what is stored shows nobody's badges
    for path in sorted(NOTEBOOKS.rglob("[!.]*.ipynb")):
        if path.parent.name not in CLASSROOM and (not names or path.stem in names):
            refresh(path)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
