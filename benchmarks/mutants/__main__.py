"""`make mutants`: put one fault at a time into the code and see whether the tests notice.

    make mutants                                  300 faults, the sample of seed 1; about an hour on two quiet cores
    make mutants ARGS="--seed 2 --count 100"      another sample, a smaller one
    make mutants ARGS="--only emqkit/jobs.py"     one file, or a pattern, or a room (sim, words, lua, host, …)
    make mutants ARGS="--only lua --tests test_lua.py"    and asked of one test file, which takes a minute

A fault is *killed* when a test fails. It *survives* when no test reaches its line, when every test that does passes,
or when the cap is used up first. A *timeout* is a fault that makes tests hang, or fail by waiting too long, and no
other test fail; it is no kill, and counts with the survivors. *Equivalent* are those that `equivalent.toml` lists.
Tests run on the fake server, each fault in a copy of the tree: the checkout is only read.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.mutants.running import copy_tree, import_ahead, run_tests
from benchmarks.mutants.sites import Mutant, mutant_of, room_of, sample, sites_of, sources
from benchmarks.mutants.tests import record, record_file

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
EQUIVALENT = "benchmarks/mutants/equivalent.toml"

# In per cent of the mutants that are not equivalent.
MOST_SURVIVING = {"sim": 10.0, "words": 10.0}
MOST_ELSEWHERE = 5.0
MOST_EQUIVALENT = 3.0

MOST_HANGS = 2  # of one mutant; then no more of its tests are tried


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: `killed` (by that test), `survived`, `timeout` or `equivalent`, and what it cost."""

    path: str
    line: int
    before: str
    after: str
    room: str
    status: str
    why: str
    cpu: float

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before}  →  {self.after or '(dropped)'}  ({self.why})"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that no test can tell from the code: the line as it is, as it would be, and why that is the same."""

    file: str
    line: str
    mutant: str
    reason: str


# --- in a worker: one fault at a time ---------------------------------------------------------------------------------

_copy: Path  # this worker's own


def _begin_worker(tree: Path, place: Path) -> None:
    global _copy
    _copy = copy_tree(tree, place / f"tree-{os.getpid()}")


def _record(file: str, options: list[str]) -> dict[str, object]:
    return record_file(_copy, file, options)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the tests of one mutant may go on.

    Attributes:
        cap: processor seconds for all of them.
        patience: processor seconds a test may take beyond five times its own; on the clock, twelve times as long.
        options: what pytest is told besides.
    """

    cap: float
    patience: float
    options: list[str]


def _try(mutant: Mutant, stamp: int, tests: list[tuple[str, float, float]], limits: Limits) -> Outcome:
    file = _copy / mutant.path
    original, times = file.read_bytes(), file.stat()
    file.write_bytes(mutant.text.encode())
    # Python takes a compiled file for current when size and second agree: no two mutants may share them.
    os.utime(file, (times.st_atime, times.st_mtime + 100 + stamp))
    try:
        status, why, cpu = _verdict(tests, limits)
    finally:
        file.write_bytes(original)
        os.utime(file, (times.st_atime, times.st_mtime))
    return Outcome(
        mutant.path, mutant.line, mutant.before, mutant.after, room_of(mutant.path), status, why, round(cpu, 1)
    )


def _verdict(tests: list[tuple[str, float, float]], limits: Limits) -> tuple[str, str, float]:
    cost = {test: (cpu, wall) for test, cpu, wall in tests}
    left, used = list(cost), 0.0
    hung: list[str] = []

    def allowed(test: str) -> tuple[float, float]:
        cpu, wall = cost.get(test, (2.0, 4.0))  # of none: they are being collected
        return limits.patience + 5 * cpu, 12 * limits.patience + 5 * wall

    while left and used < limits.cap and len(hung) < MOST_HANGS:
        files = list(dict.fromkeys(test.partition("::")[0] for test in left))
        events = run_tests(_copy, files, left, allowed, options=limits.options)
        for what, test, cpu, _ in events:
            if what == "fail":
                events.close()
                return "killed", test, used
            if what == "late" or what == "hang":
                hung.append(test)
            if what == "hang":
                used += allowed(test)[0]
                left = left[left.index(test) + 1 :] if test in cost else []
            used += cpu
            if used >= limits.cap or len(hung) >= MOST_HANGS:
                events.close()
                break
            if what == "hang":
                break
        else:
            left = []
    if hung:
        return "timeout", hung[0], used
    return (
        "survived",
        "no test reaches it" if not cost else "the cap came first" if left else f"{len(cost)} tests",
        used,
    )


# --- the sample -------------------------------------------------------------------------------------------------------


def read_equivalents(tree: Path, files: dict[str, str]) -> tuple[list[Equivalent], list[str]]:
    """The list of equivalent mutants, and what is wrong with it: entries that are no mutant of the code as it is."""
    place = tree / EQUIVALENT
    entries = (
        [Equivalent(**entry) for entry in tomllib.loads(place.read_text("utf-8"))["mutant"]] if place.exists() else []
    )
    wrong = []
    for entry in entries:
        if not entry.reason.strip():
            wrong.append(f"{entry.file}: no reason is given for  {entry.line}  →  {entry.mutant}")
        text = files.get(entry.file, "")
        at = {number for number, line in enumerate(text.split("\n"), 1) if line.strip() == entry.line}
        possible = (
            choice()
            for site in (sites_of(entry.file, text) if at else ())
            if site.line in at
            for choice in site.choices
        )
        made = (mutant_of(entry.file, text, changed) for changed in possible)
        if not any(mutant is not None and mutant.after == entry.mutant for mutant in made):
            wrong.append(f"{entry.file}: no longer a mutant of it:  {entry.line}  →  {entry.mutant}")
    return entries, wrong


def chosen(files: dict[str, str], patterns: list[str]) -> dict[str, str]:
    """The files that a pattern, or the name of a room, picks; all of them without one."""
    return {
        path: text
        for path, text in files.items()
        if not patterns or any(fnmatch(path, one) or room_of(path) == one for one in patterns)
    }


# --- the report -------------------------------------------------------------------------------------------------------


def table(outcomes: Iterable[Outcome]) -> str:
    """How each room did."""
    rooms: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for room in (outcome.room, "all"):
            rooms.setdefault(room, Counter())[outcome.status] += 1
    lines = ["| room | mutants | killed | survived | timeout | equivalent | not killed |", "| --- |" + " ---: |" * 6]
    for room in sorted(rooms, key=lambda room: (room == "all", room)):
        count = rooms[room]
        cells = (count.total(), *(count[status] for status in ("killed", "survived", "timeout", "equivalent")))
        lines.append(f"| {room} | {' | '.join(map(str, cells))} | {_share(count):.1f} % |")
    return "\n".join(lines)


def _share(count: Counter[str]) -> float:
    asked = count.total() - count["equivalent"]
    return 100 * (asked - count["killed"]) / asked if asked else 0.0


def too_much(outcomes: list[Outcome]) -> list[str]:
    """Each threshold that a sample is over, as a sentence."""
    groups: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        name = outcome.room if outcome.room in MOST_SURVIVING else "the other rooms"
        groups.setdefault(name, Counter())[outcome.status] += 1
    found = []
    for name, count in sorted(groups.items()):
        limit = MOST_SURVIVING.get(name, MOST_ELSEWHERE)
        if _share(count) > limit:
            found.append(f"{_share(count):.1f} % of the mutants in {name} were not killed; at most {limit:g} % may")
    equivalent = sum(outcome.status == "equivalent" for outcome in outcomes)
    if equivalent * 100 > MOST_EQUIVALENT * len(outcomes):
        found.append(f"{equivalent} of {len(outcomes)} are listed as equivalent; at most {MOST_EQUIVALENT:g} % may be")
    return found


# --- all of it --------------------------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    """Draw, run and report; 1 when a threshold is exceeded, 2 when the list of equivalents is stale."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="which sample (1)")
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="a file, a pattern or a room")
    parser.add_argument("--tests", action="append", default=[], metavar="PATTERN", help="ask these test files only")
    parser.add_argument("--cap", type=float, default=30.0, help="processor seconds of tests a mutant gets (30)")
    parser.add_argument("--patience", type=float, default=5.0, help="before a test counts as hanging (5)")
    parser.add_argument("--workers", type=int, default=2, help="how many run at once (2)")
    parser.add_argument("--tree", type=Path, default=CHECKOUT, help="another checkout to put the faults into")
    parser.add_argument(
        "--servers", default="fake", help="what the tests' --servers is (fake); empty for a tree without"
    )
    parser.add_argument("--json", type=Path, help="also write every outcome to this file")
    parser.add_argument("--keep", type=Path, default=CHECKOUT / ".mutants", help="where recordings are kept (.mutants)")
    parser.add_argument("--list", action="store_true", help="only show the sample")
    options = parser.parse_args(argv)
    tree = options.tree.resolve()
    files = sources(tree)
    entries, wrong = read_equivalents(tree, files)
    if wrong:
        print("\n".join([f"{EQUIVALENT} is stale:", *wrong]))
        return 2
    files = chosen(files, options.only)
    drawn = sample(files, options.seed, options.count)
    if options.list:
        print("\n".join(map(str, drawn)))
        return 0
    listed = {(entry.file, entry.line, entry.mutant): entry.reason for entry in entries}
    pytest_options = ["--servers", options.servers] if options.servers else []
    limits = Limits(options.cap, options.patience, pytest_options)
    import_ahead()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)  # a run in the background can be ended, too
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        pool = ProcessPoolExecutor(
            options.workers,
            multiprocessing.get_context("fork"),
            initializer=_begin_worker,
            initargs=(tree, Path(place)),
        )
        with pool:
            reach = record(
                tree, options.tests or ["*"], options.keep, lambda file: pool.submit(_record, file, pytest_options)
            )
            if reach.failing:
                print(f"left out, since they fail as the code is: {', '.join(reach.failing)}", flush=True)
            began = time.monotonic()
            running = []
            random.Random(options.seed).shuffle(drawn)  # so that a run that is cut off has seen every room
            for stamp, mutant in enumerate(drawn):
                reason = listed.get((mutant.path, mutant.before, mutant.after))
                if reason is not None:
                    room = room_of(mutant.path)
                    outcomes.append(
                        Outcome(mutant.path, mutant.line, mutant.before, mutant.after, room, "equivalent", reason, 0.0)
                    )
                    continue
                tests = [(test, *reach.cost[test]) for test in reach.tests_for(mutant, files[mutant.path])]
                running.append(pool.submit(_try, mutant, stamp, tests, limits))
            try:
                for done in as_completed(running):
                    outcomes.append(done.result())
                    _progress(outcomes, len(drawn), time.monotonic() - began)
            except KeyboardInterrupt:  # the report is then about those that have run
                pool.shutdown(wait=False, cancel_futures=True)
    outcomes.sort(key=lambda outcome: (outcome.path, outcome.line, outcome.after))
    for status in ("survived", "timeout"):
        found = [str(outcome) for outcome in outcomes if outcome.status == status]
        print("\n".join([f"\n{status}: {len(found)}", *found]))
    minutes = (time.monotonic() - began) / 60
    print(f"\nseed {options.seed}, {len(outcomes)} of {len(drawn)} mutants, {minutes:.0f} minutes\n\n{table(outcomes)}")
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1, ensure_ascii=False))
    over = too_much(outcomes)
    print("\n".join(["", *over]) if over else "\nwithin the thresholds")
    return 1 if over else 0


def _progress(outcomes: list[Outcome], total: int, seconds: float) -> None:
    count = Counter(outcome.status for outcome in outcomes)
    said = ", ".join(f"{count[status]} {status}" for status in ("killed", "survived", "timeout", "equivalent"))
    left = seconds / len(outcomes) * (total - len(outcomes)) / 60
    line = f"{len(outcomes)} of {total}: {said}; about {left:.0f} minutes left"
    if sys.stdout.isatty():
        print(f"\r{line:<100}", end="" if len(outcomes) < total else "\n", flush=True)
    elif outcomes[-1].status in ("survived", "timeout"):
        print(f"{line}\n  {outcomes[-1]}", flush=True)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # so that the same sample meets the same order of every set
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main(sys.argv[1:]))
