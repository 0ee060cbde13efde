"""Every notebook, run afresh on every server asked for, shows exactly what it was committed with.

Exercises are run as they are handed out, on the fake server alone: they show nothing that is stored, and their checks
bring their own server. Solutions are tried in `test_classroom`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import server_url

from emqkit.errors import UnsuitableServer
from emqkit.servers import open_server

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parent / "notebooks"


@pytest.mark.slow
def test_the_notebooks_run_afresh_show_what_they_were_committed_with(server_name: str) -> None:
    url = server_url(server_name)
    try:
        open_server(url).close()
    except UnsuitableServer as missing:
        pytest.skip(f"no {server_name} server here: {missing}")
    folders = [NOTEBOOKS, NOTEBOOKS / "exercises"] if server_name == "fake" else [NOTEBOOKS]
    notebooks = [path for folder in folders for path in sorted(folder.glob("[!.]*.ipynb"))]
    # A pytest of its own: nbval compares cell by cell, and its report says which notebook, which cell and which line.
    # One for all of them: starting it and its plugins costs as much as running a notebook.
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout", "60"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest", "-p", "notebook_differences"]
    command += ["-q", "--color", "no", "--no-header", *map(str, notebooks)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    environment |= {"EMQKIT_SERVER": url, "PYTHONPATH": path}
    done = subprocess.run(
        command,
        env=environment,
        cwd=NOTEBOOKS,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    if done.returncode:
        pytest.fail(done.stdout[-8000:] + done.stderr[-2000:], pytrace=False)


LESSONS = sorted(NOTEBOOKS.glob("0*.ipynb"))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_says_what_it_is_for_and_ends_with_a_recap_and_questions(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    opening, ending = cells[0].source, cells[-1].source
    assert re.findall(r"^\| \*\*(.*?)\*\* \|", opening, re.M) == ["You will be able to", "Takes", "You need"]
    minutes = re.search(r"about (\d+) minutes", opening)
    row = re.search(rf"^\| `{path.stem}` .*\| (\d+) \|$", (NOTEBOOKS.parent / "README.md").read_text("utf-8"), re.M)
    assert minutes and row and minutes[1] == row[1], "the README says the same minutes"
    recap, rest = ending[ending.index("## Recap") :].split("**Next:**")
    assert len(re.findall(r"[.!?](?=\s|$)", recap)) == 3
    questions = rest.split("## Questions")[1]
    asked = re.findall(r"^\d\. ", questions, re.M)
    assert len(asked) == questions.count("<details><summary>Answer</summary>") == questions.count("</details>") >= 3


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_link_leads_somewhere_and_a_cell_is_short(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        for target in re.findall(r"\]\(([^)#:]+)\)", cell.source if cell.cell_type == "markdown" else ""):
            assert (NOTEBOOKS / target).is_file(), target
        assert cell.cell_type == "markdown" or len(cell.source.splitlines()) <= 30, cell.source[:200]
