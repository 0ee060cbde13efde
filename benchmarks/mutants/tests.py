"""Which tests reach which line: recorded once for each test file, and kept in `.mutants/` until something changes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import coverage
import pytest

from benchmarks.mutants.running import NOT_THESE, run_tests
from benchmarks.mutants.sites import Mutant, room_of, statement_lines

__all__ = ["Reach", "record", "record_file"]

PATIENT = (600.0, 1200.0)  # processor seconds and seconds that a test may take while it is recorded

ASKED_OF = {"emqkit/servers/supervise.py": {"embedded", "sandbox"}}
"""The words of the tests that have a program run, where it is not called so."""

FORM = b"1"  # of what is kept: another one, and nothing that was kept is read again
KEPT = 4  # recordings of a test file, the latest


@dataclass
class Reach:
    """What the tests of a tree reach.

    Attributes:
        cost: of each test that passes, the processor seconds and the seconds it took while it was recorded.
        failing: tests that fail as the tree is; nothing is asked of them.
        lines: file → line → the tests that run it; a line that runs as its module is imported has the test "" too.
        scripts: file below `lua/` → the tests that have a server run it.
    """

    cost: dict[str, tuple[float, float]] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    scripts: dict[str, set[str]] = field(default_factory=dict)

    def tests_for(self, mutant: Mutant, text: str) -> list[str]:
        """The tests that could notice a mutant: those of its file first, then those of its room, then the fastest."""
        own = {test for test in self.cost if _is_of(test, mutant.path)}
        if mutant.path.endswith(".lua"):
            # The stepper's own machine runs where no coverage looks, as do scripts that are read and never sent.
            found = self.scripts.get(mutant.path, set()) | own
        else:
            found = self._reaching(mutant, text, own)
        named = {Path(mutant.path).stem} | ({"values"} if mutant.before.startswith("@dataclass") else set())

        def order(test: str) -> tuple[bool, bool, float, str]:
            return not named & _words(test), test not in own, self.cost[test][0], test

        return sorted(found & self.cost.keys(), key=order)

    def _reaching(self, mutant: Mutant, text: str, own: set[str]) -> set[str]:
        lines = self.lines.get(mutant.path, {})
        everywhere = set().union(*lines.values()) - {""}
        if not everywhere:
            return own  # it runs in processes of its own, where nobody looks
        statement, around = statement_lines(text, mutant.line)
        found = set().union(*(lines.get(line, set()) for line in statement))
        if not found and "__name__ ==" in text:
            return own  # the same, of a line that runs only where the file is a program
        if "" not in found:
            return found
        # It runs as the module is imported; who uses what it makes is to be asked. Some tests may run it only because a
        # process of theirs imports it, so those of its room are asked too.
        inside = set().union(*(lines.get(line, set()) for line in around or ())) - {""}
        return (inside or everywhere) | own


def _is_of(test: str, path: str) -> bool:
    """Whether a test's file is that a source file's or its room's: `test_sim_explore.py` of `sim/search/explore.py`."""
    words = _words(test)
    if path.endswith(".lua") and room_of(path) == "lua":
        return "lua" in words
    if path.endswith(".py") and words == {"values"}:
        return True  # it looks at every module
    parts = {part for part in Path(path).with_suffix("").parts[1:] if part != "__init__"}
    return bool(words & (parts | ASKED_OF.get(path, set())))


def _words(test: str) -> set[str]:
    return set(Path(test.partition("::")[0]).stem.split("_")[1:])


def record(tree: Path, patterns: list[str], keep: Path, recorded: Callable[[str], Future[dict[str, Any]]]) -> Reach:
    """What each test of a tree reaches; test files that were recorded as they are now are not run again.

    Args:
        tree: where `emqkit`, `lua` and `tests` lie.
        patterns: the test files to look at.
        keep: the folder that remembers.
        recorded: has a worker record a test file, by `record_file`.
    """
    every = [file for file in sorted((tree / "tests").rglob("test_*.py")) if file.stem not in NOT_THESE]
    files = [file for file in every if any(fnmatch(file.name, pattern) for pattern in patterns)]
    rest = [file for name in ("emqkit", "lua", "tests") for file in sorted((tree / name).rglob("*"))]
    base = hashlib.sha256(FORM)
    for file in [*rest, tree / "pyproject.toml"]:
        if file.is_file() and not file.name.startswith("test_") and "__pycache__" not in file.parts:
            base.update(file.read_bytes())
    known = {file: keep / f"{file.stem}-{_digest(base.digest() + file.read_bytes())}.json" for file in files}
    keep.mkdir(parents=True, exist_ok=True)
    new = [file for file, place in known.items() if not place.exists()]
    if new:
        print(f"recording what the tests reach: {len(new)} of {len(files)} files", flush=True)
    running = {file: recorded(file.relative_to(tree).as_posix()) for file in new}
    for file, future in running.items():
        known[file].write_text(json.dumps(future.result()))
        for old in sorted(keep.glob(f"{file.stem}-*.json"), key=lambda place: -place.stat().st_mtime)[KEPT:]:
            old.unlink()
    reach = Reach()
    for place in known.values():
        found = json.loads(place.read_text())
        tests = ["", *found["cost"]]
        reach.cost |= {test: (cpu, wall) for test, (cpu, wall) in found["cost"].items() if test not in found["failing"]}
        reach.failing += found["failing"]
        for path, lines in found["lines"].items():
            kept = reach.lines.setdefault(path, {})
            for line, numbers in lines.items():
                kept.setdefault(int(line), set()).update(tests[number] for number in numbers)
        for path, numbers in found["scripts"].items():
            reach.scripts.setdefault(path, set()).update(tests[number] for number in numbers)
    return reach


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def record_file(copy: Path, file: str, options: list[str]) -> dict[str, Any]:
    """Run one test file in a copy of the tree, under coverage; what its tests cost and reach, as JSON can carry it."""
    folder = copy.parent / f"{copy.name}.recorded"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    cost: dict[str, tuple[float, float]] = {}
    failing: list[str] = []
    for what, test, cpu, wall in run_tests(copy, [file], None, lambda test: PATIENT, Recorder(copy, folder), options):
        if what == "end":
            cost[test] = (round(cpu, 3), round(wall, 3))
        elif what in ("fail", "late", "hang"):
            failing.append(test)
    combined = coverage.Coverage(data_file=str(folder / "combined"), config_file=False)
    with warnings.catch_warnings(action="ignore"):  # a process that was killed leaves half a file
        combined.combine([str(part) for part in folder.glob("data.*")])
    numbers = {test: number for number, test in enumerate(["", *cost])}
    lines = {}
    for measured in combined.get_data().measured_files():
        contexts = combined.get_data().contexts_by_lineno(measured)
        named = {
            line: sorted({numbers[t] for c in found if (t := _test(c)) in numbers}) for line, found in contexts.items()
        }
        lines[Path(measured).relative_to(copy).as_posix()] = named
    sent: dict[str, list[str]] = json.loads((folder / "sent.json").read_text())
    scripts = {path: sorted(numbers[test] for test in tests if test in numbers) for path, tests in sent.items()}
    return {"cost": cost, "failing": failing, "lines": lines, "scripts": scripts}


def _test(context: str) -> str:
    """The test of a context: its id, or what pytest calls it in the environment of a process that the test started."""
    return re.sub(r" \((setup|call|teardown)\)$", "", context)


class Recorder:
    """A pytest plugin: coverage with the running test as its context, and the scripts that each test sends."""

    def __init__(self, copy: Path, folder: Path) -> None:
        self.copy, self.folder = copy, folder
        self.sent: dict[str, list[str]] = {}
        self.test = ""

    def start(self) -> None:
        """Begin to record, here and in every Python that a test starts."""
        settings = {"parallel": "true", "source": self.copy / "emqkit", "data_file": self.folder / "data"}
        settings |= {"context": "${PYTEST_CURRENT_TEST-}", "disable_warnings": "no-data-collected,module-not-imported"}
        rc = self.folder / "coverage.rc"
        rc.write_text("\n".join(["[run]", *(f"{name} = {value}" for name, value in settings.items())]))
        (self.folder / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n")
        sys.path.append(str(self.folder))
        os.environ["PYTHONPATH"] += os.pathsep + str(self.folder)
        os.environ["COVERAGE_PROCESS_START"] = str(rc)
        self.coverage = coverage.Coverage(config_file=str(rc), context="")
        self.coverage.start()
        self._listen()

    def _listen(self) -> None:
        """Note whose script each EVALSHA and EVAL is, wherever a client of redis-py sends one."""
        import redis.connection

        files = {hashlib.sha1(file.read_bytes()).hexdigest(): file for file in (self.copy / "lua").rglob("*.lua")}
        by_sha = {sha: file.relative_to(self.copy).as_posix() for sha, file in files.items()}
        connection: Any = redis.connection.AbstractConnection
        one, several = connection.send_command, connection.pack_commands

        def note(command: tuple[Any, ...]) -> None:
            verb, what = (part.encode() if isinstance(part, str) else part for part in (*command[:2], b"", b"")[:2])
            sha = what.decode() if verb == b"EVALSHA" else hashlib.sha1(what).hexdigest() if verb == b"EVAL" else ""
            if sha in by_sha and self.test not in (tests := self.sent.setdefault(by_sha[sha], [])):
                tests.append(self.test)

        def send_command(self: Any, *command: Any, **options: Any) -> Any:
            note(command)
            return one(self, *command, **options)

        def pack_commands(self: Any, commands: Any) -> Any:
            for command in commands:
                note(command)
            return several(self, commands)

        connection.send_command, connection.pack_commands = send_command, pack_commands

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.test = item.nodeid
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.test = ""
            self.coverage.switch_context("")

    def pytest_unconfigure(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        (self.folder / "sent.json").write_text(json.dumps(self.sent))
