"""Run tests in a fork of this process, in a copy of the tree, and hear of each as it begins and ends.

The parent has imported what the tests import, emqkit apart, so that a run begins with their first line. A test that
hangs is cut off by the kernel (processor time) or by the parent (the clock on the wall), and the next one is begun.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest

__all__ = ["Cost", "Event", "copy_tree", "import_ahead", "run_tests"]

AHEAD = (
    "anywidget asyncio fakeredis hypothesis.stateful ipywidgets lupa.lua51 matplotlib.backends.backend_agg "
    "matplotlib.figure redis traitlets unittest.mock"
)
LEFT_OUT = {".git", ".venv", ".mutants", ".hypothesis", "__pycache__", "node_modules"}
# These are about the whole of the kit, in a browser, a kernel or a process that is attacked: a fault that only they
# find is not tested where it is.
NOT_THESE = {
    "test_attacks",
    "test_browser",
    "test_browser_attacks",
    "test_browser_classroom",
    "test_browser_labs",
    "test_classroom_grade",
    "test_export",
    "test_liars",
    "test_mutants",
    "test_notebooks",
}
# What is imported ahead has asserts of no interest; nbval takes four seconds to import.
QUIET = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "no:nbval"]
MEMORY_BYTES = 4 << 30
HUNG = (TimeoutError, subprocess.TimeoutExpired, MemoryError)

Event = tuple[str, str, float, float]  # what, which test, its processor seconds and its seconds
Cost = Callable[[str], tuple[float, float]]


def import_ahead() -> None:
    """Import what most tests import; what is missing here is imported by whoever wants it."""
    for name in AHEAD.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def copy_tree(tree: Path, into: Path) -> Path:
    """A copy of a tree without what is generated in it."""
    shutil.copytree(tree, into, symlinks=True, ignore=lambda folder, names: [n for n in names if _generated(n)])
    return into


def _generated(name: str) -> bool:
    return name in LEFT_OUT or name.endswith("_cache")


def run_tests(
    copy: Path,
    files: list[str],
    tests: list[str] | None,
    allowed: Cost,
    around: Any = None,
    options: list[str] | None = None,
) -> Generator[Event, None, None]:
    """Run tests and yield what happens, as it happens; close the iterator to end them.

    Args:
        copy: the tree they run in.
        files: the test files to collect.
        tests: those to run, in this order; None for all.
        allowed: the processor seconds and seconds that a test may take.
        around: a pytest plugin of the caller's, put into the run; its `start()` is called before anything is imported.
        options: more of pytest's options.

    Yields:
        `(what, test, processor seconds, seconds)`, where `what` is `begin`, `end`, `fail`, `late` (it failed because
        something it waited for took too long) or `hang`. A file that cannot be collected and a process that crashes
        fail. After a hang the process is gone.
    """
    reading, writing = os.pipe()
    shutil.rmtree(copy / ".hypothesis", ignore_errors=True)  # an example found for another fault would be tried first
    child = os.fork()
    if not child:
        os.close(reading)
        _in_child(copy, files, tests, allowed, around, options or [], writing)
    os.close(writing)
    running = ""
    deadline = time.monotonic() + allowed("")[1]
    received = b""
    try:
        while True:
            if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
                yield ("hang", running, 0.0, 0.0)
                return
            data = os.read(reading, 1 << 16)
            if not data:
                break
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                what, test, cpu, wall = json.loads(line)
                if what == "begin":
                    running, deadline = test, time.monotonic() + allowed(test)[1]
                if what == "over":
                    return
                yield (what, test, cpu, wall)
        _, status = os.waitpid(child, 0)
        child = 0
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            yield ("hang", running, 0.0, 0.0)
        else:
            yield ("fail", running, 0.0, 0.0)  # it crashed
    finally:
        os.close(reading)
        if child:
            # What it started without a group of its own goes with it; an embedded server goes with its parent.
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _in_child(
    copy: Path, files: list[str], tests: list[str] | None, allowed: Cost, around: Any, options: list[str], pipe: int
) -> NoReturn:
    try:
        os.setpgid(0, 0)
        for name in ("SIGINT", "SIGHUP", "SIGTERM"):
            signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(copy.parent / f"{copy.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        here = Path(__file__).resolve().parent.parent.parent
        for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
            del sys.modules[name]
        sys.path[:] = [str(copy), *(p for p in sys.path if Path(p or ".").resolve() != here)]
        os.environ["PYTHONPATH"] = str(copy)
        os.chdir(copy)
        importlib.invalidate_caches()
        if around is not None:
            around.start()
        arguments = [
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(copy),
            "--hypothesis-seed=0",
            *QUIET,
            *options,
            *files,
        ]
        watcher = Watcher(pipe, tests, allowed)
        watcher.limit("")
        ended = pytest.main(arguments, plugins=[watcher, *([around] if around else [])])
        if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            watcher.say("fail", "")  # not even a conftest.py could be imported
        watcher.say("over", "")
    except BaseException:
        traceback.print_exc()  # into its log; to the parent it is a crash
    finally:
        sys.stderr.flush()
        os._exit(0)


class Watcher:
    """Chooses and orders the tests, and says what becomes of them."""

    def __init__(self, pipe: int, tests: list[str] | None, allowed: Cost) -> None:
        self.pipe = pipe
        self.places = None if tests is None else {test: place for place, test in enumerate(tests)}
        self.allowed = allowed

    def say(self, what: str, test: str, cpu: float = 0.0, wall: float = 0.0) -> None:
        os.write(self.pipe, json.dumps([what, test, cpu, wall]).encode() + b"\n")

    def limit(self, test: str) -> None:
        """Have the kernel end this process when the test has used the processor for longer than it may."""
        until = int(time.process_time() + self.allowed(test)[0]) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if "lab" not in getattr(item, "fixturenames", ())]
        if self.places is not None:
            places = self.places
            kept = sorted((item for item in kept if item.nodeid in places), key=lambda item: places[item.nodeid])
        items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.say("fail", report.nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.say("begin", item.nodeid)
        self.limit(item.nodeid)
        began, used = time.monotonic(), _used()
        try:
            return (yield)
        finally:
            self.say("end", item.nodeid, _used() - used, time.monotonic() - began)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            hung = call.excinfo is not None and call.excinfo.errisinstance(HUNG)
            self.say("late" if hung else "fail", item.nodeid)
        return report


def _used() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
