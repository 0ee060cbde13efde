"""Make the notebooks that are handed out of those with the solutions, which are the one source.

    notebooks/solutions/NAME.ipynb   →   notebooks/exercises/NAME.ipynb

What stands between nbgrader's markers is taken out and a comment left in its place, as `nbgrader generate_assignment`
does with the stub of `notebooks/nbgrader_config.py`; outputs are cleared. Nothing of a solution is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from emqkit.classroom.exercises import EXERCISES
from emqkit.errors import EmqError

__all__ = ["BEGIN", "END", "STUB", "BadNotebook", "build", "cleared", "handed_out"]

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STUB = "# your code here"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CHECKED = re.compile(r'check\("([\w-]+)"')


class BadNotebook(EmqError):
    """A notebook with solutions cannot be made into one to hand out."""

    def __init__(self, path: Path, cell: int, why: str) -> None:
        super().__init__(f"{path}, cell {cell}: {why}.")


def cleared(source: str) -> str:
    """A cell's text with a comment in the place of each solution. Raises `ValueError` if the markers do not pair."""
    lines: list[str] = []
    inside = False
    for line in source.split("\n"):
        marker = line.strip()
        if marker in (BEGIN, END):
            if inside == (marker == BEGIN):
                raise ValueError(f"{marker} has no partner")
            inside = not inside
            if inside:
                lines.append(line[: len(line) - len(line.lstrip())] + STUB)
        elif not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"{BEGIN} has no partner")
    return "\n".join(lines)


def handed_out(path: Path) -> str:
    """The notebook to hand out, as text, made of one with solutions.

    Raises:
        BadNotebook: the markers do not pair, a solution stands in a cell that is not marked as one, or a check names no
            exercise.
    """
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells):
        graded = cell.metadata.get("nbgrader", {})
        try:
            source = cleared(cell.source)
        except ValueError as wrong:
            raise BadNotebook(path, number, str(wrong)) from None
        if (source != cell.source) != bool(graded.get("solution")):
            raise BadNotebook(path, number, "a solution and nbgrader's mark of one go together")
        for name in CHECKED.findall(source):
            if name not in EXERCISES:
                raise BadNotebook(path, number, f"there is no exercise {name}")
        cell.source = source
        cell.id = f"{path.stem[:2]}-{number:02d}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata = nbformat.from_dict(METADATA)
    text: str = nbformat.writes(notebook, version=4)
    return text + "\n"


def build(notebooks: Path, *, check: bool = False) -> tuple[str, ...]:
    """Write the notebooks to hand out; the names of those that were not as they should be.

    Args:
        notebooks: the folder with `solutions` and `exercises` in it.
        check: write nothing.
    """
    return tuple(_differing(notebooks, check))


def _differing(notebooks: Path, check: bool) -> Iterator[str]:
    made = {path.name: handed_out(path) for path in sorted((notebooks / "solutions").glob("[!.]*.ipynb"))}
    folder = notebooks / "exercises"
    there = {path.name: path.read_text("utf-8") for path in folder.glob("[!.]*.ipynb")}
    for name in sorted({*made, *there}):
        if made.get(name) == there.get(name):
            continue
        yield name
        if not check and name in made:
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(made[name], encoding="utf-8")
        elif not check:
            (folder / name).unlink()
