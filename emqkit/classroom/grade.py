"""Mark submissions: each runs in a confined process of its own; what it hands in is judged here, out of its reach.

    DIR/STUDENT/…/LESSON.ipynb      →      a table of who met what, and of the commonest mistakes

A submission's process only ever *hands in*: it is told no verdict, so it can forge none, and patching the kit changes
its own copy. Functions it hands in stay there and are asked, call by call, by the explorer here.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import emqkit
from emqkit.classroom.bounds import Room, TimeUp
from emqkit.classroom.checks import judged
from emqkit.classroom.codec import FarFunction, decode
from emqkit.classroom.desk import packed
from emqkit.classroom.exercises import EXERCISES
from emqkit.classroom.handed import NotThat, Remote
from emqkit.errors import BadArgument, EmqError, Refused, ReplyLost, Unreachable
from emqkit.keyspace import Keyspace
from emqkit.scripts import lua_folder
from emqkit.wire import Call, ErrorReply, Flush, Steps

__all__ = ["Mark", "Marked", "grade", "mark", "submissions"]

CELL_S = 10.0
"""Seconds a cell of a submission may take."""
NOTEBOOK_S = 60.0
"""Seconds all cells of a notebook may take."""
ANSWER_S = 3.0
"""Seconds a function may take to answer one call."""
LARGEST_NOTEBOOK = 5 << 20
LARGEST_FOLDER = 64 << 20
MOST_RESTARTS = 4
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""So that numpy, which comes with fakeredis, makes no thread: confining is for one thread and those it makes."""


@dataclass(frozen=True)
class Mark:
    """One exercise of one student.

    Attributes:
        exercise: its name.
        met: whether it is met.
        mistake: the known mistake, if it is one.
        says: what the student is told.
    """

    exercise: str
    met: bool
    mistake: str
    says: str


@dataclass(frozen=True)
class Marked:
    """A student's marks.

    Attributes:
        student: the folder's name.
        marks: for each exercise of the notebooks handed in.
        notes: what went wrong on the way.
        unconfined: what the system could not shut off; empty where the submission was isolated.
        seconds: how long it took.
    """

    student: str
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    unconfined: str
    seconds: float

    @property
    def met(self) -> int:
        """How many exercises are met."""
        return sum(mark.met for mark in self.marks)


def submissions(folder: Path) -> dict[str, tuple[Path, ...]]:
    """The notebooks by student: every folder in this one is a student's.

    Raises `BadArgument` if there is none.
    """
    found = {
        place.name: tuple(sorted(path for path in place.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts))
        for place in sorted(folder.iterdir() if folder.is_dir() else ())
        if place.is_dir() and not place.is_symlink() and not place.name.startswith(".")
    }
    if not found:
        raise BadArgument("folder", str(folder), "has no folder in it; each student has one, with notebooks in it")
    return found


def grade(folder: Path, executor: Executor | None = None) -> tuple[Marked, ...]:
    """Mark every submission in a folder, in order of the students' names.

    Args:
        folder: one folder for each student.
        executor: where; by default as many processes as there are processors.
    """
    students = submissions(folder)
    if executor is not None:
        return tuple(executor.map(mark, students, students.values()))
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as own:
        return tuple(own.map(mark, students, students.values()))


def mark(student: str, notebooks: tuple[Path, ...]) -> Marked:
    """Mark one student's notebooks."""
    began = time.monotonic()
    marks: dict[str, Mark] = {}
    notes: list[str] = []
    unconfined = ""
    room = Room()
    try:
        for path in notebooks:
            with tempfile.TemporaryDirectory(prefix="emqkit-") as scratch:
                if why := _unfit(path):
                    notes.append(f"{path.name}: {why}")
                    continue
                copy = Path(scratch) / "notebook.ipynb"
                shutil.copyfile(path, copy, follow_symlinks=False)
                desk = Desk(copy)
                try:
                    for name, message in desk.handed.items():
                        marks[name] = _mark(name, message, desk, room)
                finally:
                    desk.close()
                notes += (f"{path.name}, {note}" for note in desk.notes)
                unconfined = unconfined or desk.unconfined
    finally:
        room.close()
    for name, exercise in EXERCISES.items():
        if name not in marks and any(path.stem == exercise.lesson for path in notebooks):
            marks[name] = Mark(name, False, "never handed in", "The check of this exercise was not reached.")
    in_order = tuple(marks[name] for name in EXERCISES if name in marks)
    return Marked(student, in_order, tuple(notes), unconfined, time.monotonic() - began)


def _unfit(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return "it is no file of its own, and is not opened"
    return "it is larger than 5 MB" if path.stat().st_size > LARGEST_NOTEBOOK else ""


def _mark(name: str, message: str, desk: Desk, room: Room) -> Mark:
    try:
        handed = decode(message, desk.function)
        answer = judged(EXERCISES[name], handed if isinstance(handed, tuple) else (handed,), room)
    except NotThat as other:
        return Mark(name, False, "something else handed in", str(other))
    except Exception as error:  # whatever a submission does, the others are marked
        return Mark(name, False, "cannot be judged", f"It cannot be judged: {type(error).__name__}.")
    return Mark(name, answer.met, answer.mistake, str(answer))


# --- the process a submission runs in ---------------------------------------------------------------------------------


class Desk:
    """A submission's process: runs the notebook, then answers for the functions that were handed in.

    Attributes:
        handed: the last message for each exercise.
        notes: what went wrong in it.
        unconfined: what could not be shut off.
    """

    def __init__(self, notebook: Path) -> None:
        self.notebook = notebook
        self.handed: dict[str, str] = {}
        self.notes: list[str] = []
        self.unconfined = "its process never said that it is confined"
        self._restarts = 0
        self._start()

    def _start(self) -> None:
        readable = dict.fromkeys(map(str, _readable()))
        command = [sys.executable, "-I", "-c", _BEGIN, str(_package()), str(self.notebook), f"{CELL_S:g}", *readable]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=_environment(self.notebook.parent),
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue(maxsize=1000)
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        self.handed.clear()
        self.notes.clear()
        deadline = time.monotonic() + NOTEBOOK_S
        first = True
        while (said := self._next(deadline)) is not None:
            match said:
                case ["confined", str(what)] if first:  # it is said before anything of the submission runs
                    self.unconfined = what
                case ["handed", str(name), str(message)] if name in EXERCISES:
                    self.handed[name] = message
                case ["went wrong", int(number), str(why)] if len(self.notes) < 20:
                    self.notes.append(f"cell {number}: {why[:200]}")
                case ["ran"]:
                    return
            first = False
        self.notes.append(f"it was ended before its last cell: {self._why}")
        self._kill()

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        try:
            while line := process.stdout.readline(_LONGEST_LINE):
                lines.put(line)
        except (OSError, ValueError):
            pass
        lines.put(None)

    def _next(self, deadline: float) -> list[Any] | None:
        """The next message; None when there is none by then, or when the process is gone."""
        while True:
            try:
                line = self._lines.get(timeout=0.05)
            except queue.Empty:
                self._why = "it ran for too long" if time.monotonic() > deadline else ""
                if not self._why and _size(self.notebook.parent) > LARGEST_FOLDER:
                    self._why = "it wrote too much"
                if self._why:
                    return None
                continue
            if line is None:
                self._why = "its process is gone"
                return None
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue  # whoever writes there himself says nothing
            if isinstance(said, list):
                return said

    def ask(self, number: int, args: tuple[Any, ...], replies: Any) -> list[Any]:
        """Ask a function. Raises `TimeUp` when it does not answer, and `Remote` once it cannot."""
        if self._process.poll() is not None:
            if self._restarts >= MOST_RESTARTS:
                raise Remote("Your code cannot be asked any more: its process has ended too often.")
            self._restarts += 1
            handed, notes = dict(self.handed), list(self.notes)
            self._start()
            self.handed, self.notes = handed, notes
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(packed((number, args, replies)) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Remote("Your code cannot be asked: its process has ended.") from None
        said = self._next(time.monotonic() + ANSWER_S)
        if said is None:
            self._kill()
            raise TimeUp
        return said[1:] if said[:1] == ["answer"] else ["raised", "Your code answers something else than it was asked."]

    def function(self, asked: FarFunction) -> Callable[..., Any]:
        """A function here that asks the one there."""

        def operation(*args: Any) -> Steps[Any]:
            replies: list[Any] = []
            while True:
                match self.ask(asked.number, args, replies):
                    case ["flush", [*calls], bool(atomic)]:
                        flush: Flush[Any] = Flush(tuple(map(_call, calls)), atomic)
                    case said:
                        return _ended(said)
                try:
                    replies.append((yield flush))
                except (ReplyLost, Unreachable):
                    replies.append(ReplyLost("sim://", flush.calls[0].verb if flush.calls else ""))

        def promise(*args: Any) -> Any:
            return _ended(self.ask(asked.number, tuple(map(_parts, args)), None))

        function: Callable[..., Any] = operation if asked.generator else promise
        names = (
            inspect.Parameter(f"p{n}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in range(len(asked.parameters))
        )
        function.__signature__ = inspect.Signature(list(names))  # type: ignore[attr-defined]
        return function

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()

    def close(self) -> None:
        """End the process."""
        self._kill()


_LONGEST_LINE = 4 << 20
_BEGIN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from emqkit.classroom.desk import main; main(*sys.argv[1:])"


def _environment(home: Path) -> dict[str, str]:
    """Nothing of this process's own but what Windows needs to start any."""
    kept = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    return kept | ONE_THREAD | {"PATH": os.defpath, "HOME": str(home), "LC_ALL": "C.UTF-8"}


def _package() -> Path:
    return Path(emqkit.__file__).resolve().parent.parent


def _readable() -> Iterator[Path]:
    """What a Python process has to be able to read: itself, the kit, what the kit imports."""
    yield from (_package() / "emqkit", lua_folder(), Path(sys.prefix), Path(sys.base_prefix))
    yield from (Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (Path(place) for place in sys.path if place.endswith(("site-packages", "dist-packages")))
    yield from map(Path, ("/usr", "/lib", "/lib64", "/dev/null", "/dev/urandom", "/etc/ld.so.cache"))


def _size(folder: Path) -> int:
    try:
        return sum(path.lstat().st_size for path in folder.rglob("*"))
    except OSError:
        return 0


def _call(given: Any) -> Call[Any]:
    match given:
        case [str(verb), [*keys], [*args], ("command" | "script") as kind]:
            named, sent = (tuple(map(bytes.fromhex, one)) for one in (keys, args))
            return Call(
                verb, named, sent, lambda reply: reply, lambda error: Refused(verb, error.code, error.text), kind
            )
    raise Remote("Your operation sends something that is no call.")


def _refusal(verb: str, error: ErrorReply) -> EmqError:
    return Refused(verb, error.code, error.text)


def _ended(said: list[Any]) -> Any:
    match said:
        case ["value", str(message)]:
            return decode(message, lambda asked: None)
        case ["refused", str(how), str(text)]:
            raise ReplyLost("sim://", "the call") if how == "lost" else EmqError(text[:500])
        case ["raised", str(text)]:
            raise Remote(text[:1000])
    raise Remote("Your code answers something else than it was asked.")


def _parts(keyspace: Keyspace) -> tuple[Any, ...]:
    return tuple((part.queue, part.snapshot.entries, part.snapshot.now) for part in keyspace.parts)
