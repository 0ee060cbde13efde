"""Marking: what submissions hand in is judged out of their reach, and none of them gains or harms anything.

All of them are marked once, together, on an executor; then each test looks at one.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
import pytest

from emqkit.__main__ import main
from emqkit.classroom import grade as grading
from emqkit.classroom.codec import LONGEST, decode, encode
from emqkit.classroom.confine import confine
from emqkit.classroom.grade import Mark, Marked, grade, mark, submissions
from emqkit.classroom.handed import NotThat
from emqkit.classroom.tables import as_csv, as_html, summary
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow
from emqkit.sim import Faults, Reaper, Worker, World, explore, planned

LESSON = "01_same_queue_flow"
SOLVED = 'check("counter", 1)'
linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")

FORGES = """
import os
os.makedirs(os.path.expanduser("~/.local/state/emqkit"), exist_ok=True)
open(os.path.expanduser("~/.local/state/emqkit/progress.json"), "w").write('{"counter": true}')
for fd in range(3, 20):
    try:
        os.write(fd, b'["mark", "counter", true]\\n["ran"]\\n["confined", ""]\\nnonsense\\n')
    except OSError:
        pass
check("counter", 0)
"""
PATCHES = """
import emqkit.classroom.checks, emqkit.classroom.hints, emqkit.sim.search.judge as judge
emqkit.classroom.checks.judged = lambda *given: True
emqkit.classroom.hints.Feedback.__bool__ = lambda self: True
judge.judge = lambda *given, **named: True
check("counter", 0)
"""
STUCK = """
def kept(keyspace):
    while True:
        pass
check("invariant", kept)
check("counter", 1)
"""
LIES_ABOUT_ITSELF = """
class Sly(int):
    def __eq__(self, other):
        return True
    __hash__ = int.__hash__
check("counter", Sly(7))
"""
TOO_DEEP = """
deep = ()
for _ in range(100):
    deep = (deep,)
check("deaths", deep)
check("next-claim", "x" * 3_000_000)
check("completion", object())
"""

ATTACKS = {
    "reads another's notebook": ("open({other!r}).read()", "PermissionError"),
    "lists the folder": ("import os; os.listdir({folder!r})", "PermissionError"),
    "forks": ("os.fork()", "Operation not permitted"),
    "runs a program": ("import subprocess; subprocess.run(['true'])", "Operation not permitted"),
    "kills": ("import signal; os.kill(os.getppid(), signal.SIGKILL)", "Operation not permitted"),
    "calls out": ("import socket; socket.socket()", "Operation not permitted"),
    "writes outside": ("open({outside!r}, 'w')", "PermissionError"),
    "bombs": ("bytearray(3 << 30)", "MemoryError"),
    "loops": ("while True: pass", "CellStuck: it ran for more than 0.7 seconds"),
    "raises": ("1 / 0", "ZeroDivisionError"),
}
"""What a cell of one submission does, and how that ends."""

SUBMISSIONS: Mapping[str, tuple[str, ...]] = {
    "solved": (SOLVED,),
    "wrong": ('check("counter", 0)',),
    "forges": (FORGES,),
    "patches": (PATCHES,),
    "attacks": (*(cell for cell, _ in ATTACKS.values()), "open('mine', 'w').write('x')", "%magic", SOLVED),
    "crashes": (SOLVED, "import os; os._exit(3)"),
    "stuck": (STUCK,),
    "too deep": (TOO_DEEP, LIES_ABOUT_ITSELF),
}


@dataclass(frozen=True)
class Course:
    """A folder of submissions, and what came of them."""

    folder: Path
    marked: Mapping[str, Marked]

    def mark(self, student: str, exercise: str = "counter") -> Mark:
        return next(mark for mark in self.marked[student].marks if mark.exercise == exercise)


def notebook(path: Path, *cells: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    sources = ("from emqkit.classroom import check", *cells)
    nbformat.write(nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources))), path)
    return path


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    folder = tmp_path_factory.mktemp("course")
    where = {
        "other": str(folder / "solved" / f"{LESSON}.ipynb"),
        "folder": str(folder),
        "outside": str(folder / "outside"),
    }
    for student, cells in SUBMISSIONS.items():
        told = (cell.format(**where) if "{o" in cell or "{f" in cell else cell for cell in cells)
        notebook(folder / student / f"{LESSON}.ipynb", *told)
    (folder / "borrows").mkdir()
    (folder / "borrows" / f"{LESSON}.ipynb").symlink_to(folder / "solved" / f"{LESSON}.ipynb")
    patch = pytest.MonkeyPatch()
    patch.setattr(grading, "CELL_S", 0.7)
    patch.setattr(grading, "ANSWER_S", 0.7)
    with ThreadPoolExecutor(2) as executor:
        marked = grade(folder, executor)
    patch.undo()
    yield Course(folder, {one.student: one for one in marked})


def test_who_solved_it_has_met_it_and_who_did_not_has_not(course: Course) -> None:
    assert course.mark("solved").met
    assert not course.mark("wrong").met
    assert course.mark("wrong").mistake == "counts a retry"
    assert course.mark("solved", "completion") == Mark(
        "completion", False, "never handed in", "The check of this exercise was not reached."
    )


@pytest.mark.parametrize("student", ["forges", "patches"])
def test_forging_progress_and_patching_the_kit_gains_nothing(student: str, course: Course) -> None:
    assert not course.mark(student).met
    assert course.mark(student).mistake in ("counts a retry", "never handed in")


@linux
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_forbidden_fails_in_its_own_cell(attack: str, course: Course) -> None:
    number = list(ATTACKS).index(attack) + 1
    (note,) = (note for note in course.marked["attacks"].notes if f" cell {number}: " in note)
    assert ATTACKS[attack][1] in note


@linux
def test_the_rest_is_marked_and_nothing_is_left_outside(course: Course) -> None:
    attacks = course.marked["attacks"]
    assert (attacks.unconfined, len(attacks.notes)) == ("", len(ATTACKS))
    assert course.mark("attacks").met
    assert not (course.folder / "outside").exists()


def test_a_crash_is_noted_and_what_was_handed_in_before_is_marked(course: Course) -> None:
    assert course.mark("crashes").met
    assert "it was ended before its last cell: its process is gone" in course.marked["crashes"].notes[0]


def test_a_function_that_never_answers_costs_its_exercise_and_no_other(course: Course) -> None:
    assert course.mark("stuck", "invariant").mistake == "a loop without end"
    assert course.mark("stuck").met


@pytest.mark.parametrize(
    ("exercise", "says"),
    [
        ("deaths", "What is handed in cannot be read: it is nested too deep"),
        ("next-claim", "What is handed in is too much."),
        ("completion", "What is handed in cannot be read: a object cannot be handed in"),
        ("counter", "Not yet. The scripts do something else."),
    ],
)
def test_what_cannot_be_read_is_not_met(exercise: str, says: str, course: Course) -> None:
    assert course.mark("too deep", exercise).says == says


def test_a_link_to_anothers_notebook_is_not_opened(course: Course) -> None:
    assert course.marked["borrows"].met == 0
    assert "it is no file of its own" in course.marked["borrows"].notes[0]


def test_a_notebook_that_is_too_large_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "LARGEST_NOTEBOOK", 10)
    assert "larger than" in mark("ada", (notebook(tmp_path / f"{LESSON}.ipynb", SOLVED),)).notes[0]


def test_operations_promises_worlds_and_histories_are_judged_from_afar(tmp_path: Path, wheel: str) -> None:
    solutions = Path(__file__).resolve().parent.parent / "notebooks" / "solutions"
    lessons = ("02_reading_the_results", "06_pump_crashes", "09_worlds_of_your_own")
    marked = mark("ada", tuple(solutions / f"{lesson}.ipynb" for lesson in lessons))
    assert [one.says for one in marked.marks if not one.met] == []
    assert {one.exercise for one in marked.marks} >= {"one-look", "pass", "hasty-pump", "own-world", "own-promise"}


# --- tables -----------------------------------------------------------------------------------------------------------


def test_the_tables_say_who_met_what_and_the_commonest_mistakes(course: Course) -> None:
    marked = tuple(course.marked.values())
    rows = list(csv.DictReader(io.StringIO(as_csv(marked))))
    assert {(row["student"], row["met"]) for row in rows if row["exercise"] == "counter"} >= {
        ("solved", "1"),
        ("wrong", "0"),
    }
    (counter, *_) = summary(marked)
    assert counter.startswith("counter")
    assert "counts a retry (2)" in counter
    page = as_html(marked)
    assert "counts a retry (2)" in page
    assert "<th scope=row>crashes" in page


def test_tables_run_nothing_and_say_what_is_not_isolated() -> None:
    one = Marked("=cmd|x", (Mark("counter", False, "<b>", "=1+1"),), ("<script>",), "darwin has neither", 1.0)
    page = as_html((one, replace(one, student="<i>", unconfined="")))
    assert "<script>" not in page and "<b>" not in page and "<i>" not in page
    assert "not isolated: darwin has neither" in page
    assert "'=cmd|x" in as_csv((one,))
    assert "'=1+1" in as_csv((one,))


def test_the_command_writes_both_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook(tmp_path / "course" / "ada" / f"{LESSON}.ipynb", SOLVED)
    assert main(["classroom", "grade", str(tmp_path / "course"), "--to", str(tmp_path), "--jobs", "1"]) == 0
    assert "1 of 1" in capsys.readouterr().out.split("\n")[0]
    assert (tmp_path / "grades.csv").exists() and (tmp_path / "grades.html").exists()


def test_a_folder_without_students_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="each student has one"):
        submissions(tmp_path)


# --- what travels -----------------------------------------------------------------------------------------------------


def sent(value: object) -> object:
    return decode(json.dumps(encode(value, [])), lambda asked: asked)


def test_data_arrives_as_it_was_and_a_function_as_one_to_be_asked() -> None:
    flows = planned("orders", Flow("order", [Child("pick")]))
    world = World("mine", (Worker("orders"), Reaper("orders")), flows, Faults(lapses=1))
    for value in (None, 1, "x", b"\xff", (1, [2, (3,)]), {"a": [1]}, ..., world):
        assert sent(value) == value
    history = explore("lapses", lapses=1).violations[0].history
    assert sent(history) == history.as_json()

    def kept(before: object, after: object) -> bool:
        return True

    assert str(sent(kept)) == "FarFunction(number=0, name='kept', generator=False, parameters=('before', 'after'))"


@pytest.mark.parametrize(
    "text",
    [
        '["c", "Popen", []]',
        '["?", "object"]',
        "[1, 2]",
        "{",
        '["c", "Worker", [["queue", 5], ["x", 1]]]',
        '["b", "zz"]',
    ],
)
def test_nothing_else_is_made_of_a_message(text: str) -> None:
    with pytest.raises(NotThat):
        decode(text, lambda asked: asked)


def test_a_message_that_is_too_long_or_too_deep_is_not_read() -> None:
    with pytest.raises(NotThat, match="too much"):
        decode('"' + "x" * LONGEST + '"', lambda asked: asked)
    with pytest.raises(NotThat, match="too deep"):
        decode('["t", [' * 100 + "1" + "]]" * 100, lambda asked: asked)


# --- confining --------------------------------------------------------------------------------------------------------


@linux
def test_a_confined_process_says_so_and_cannot_undo_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from emqkit.classroom.confine import confine\n"
        f"assert confine(Path({str(tmp_path)!r}), map(Path, ('/usr', sys.prefix, sys.base_prefix))) == ''\n"
        "import os, resource, threading\n"
        "threading.Thread(target=int).start()\n"
        "for tried in (os.fork, lambda: os.execv('/bin/true', ['true']), lambda: os.chroot('/'),\n"
        "              lambda: os.kill(1, 0), lambda: os.listdir('/etc'),\n"
        "              lambda: resource.setrlimit(resource.RLIMIT_CPU, (10, 1000))):\n"
        "    try:\n        tried()\n        print('not stopped')\n    except (OSError, ValueError):\n        pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=grading.ONE_THREAD
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_elsewhere_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("emqkit.classroom.confine._limit", lambda: "")
    assert confine(tmp_path, ()) == "darwin has neither Landlock nor seccomp"
