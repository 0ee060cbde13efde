"""`make mutants` tells a fault that a test notices from one that none does, one that hangs and one that is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed (pip install -e '.[mutants]')")
if not hasattr(os, "fork"):
    pytest.skip("each mutant runs in a fork, and there is none here", allow_module_level=True)

from benchmarks.mutants.__main__ import Outcome, chosen, table, too_much
from benchmarks.mutants.sites import Mutant, mutant_of, room_of, sample, sites_of, sources, statement_lines
from benchmarks.mutants.tests import Reach

ROOT = Path(__file__).resolve().parent.parent

TOY = {
    "emqkit/__init__.py": "",
    "emqkit/toy.py": """\
def add(left, right):
    return left + right


def scale(left, right):
    return left * right


def unseen(left, right):
    return left - right


def spin(n, step):
    while n:
        n = n - step
    return n


def give_up(done):
    if done:
        raise TimeoutError


def same(left, right):
    return left | right


LIMIT = 3
assert LIMIT > 2
""",
    "tests/conftest.py": "from emqkit import toy\n",
    "lua/take.lua": "redis.call('SET', KEYS[1], ARGV[1])\nreturn 1\n",
    "tests/test_toy.py": """\
from pathlib import Path

import fakeredis

from emqkit import toy


def test_add():
    assert toy.add(2, 3) == 5


def test_scale():
    assert toy.scale(6, 1) == 6


def test_spin():
    assert toy.spin(3, 1) == 0


def test_give_up():
    toy.give_up(False)


def test_same():
    toy.same(1, 1)


def test_take():
    source = Path(__file__).parent.parent.joinpath("lua/take.lua").read_text()
    assert fakeredis.FakeRedis().eval(source, 1, "key", "value") == 1
""",
    "pyproject.toml": "",
    "benchmarks/mutants/equivalent.toml": """\
[[mutant]]
file = "emqkit/toy.py"
line = "return left | right"
mutant = "return left & right"
reason = "both sides are the same"
""",
}


def planted(into: Path, **changed: str) -> Path:
    for name, text in (TOY | changed).items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text)
    return into


def mutants(tree: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.mutants", "--tree", str(tree), "--servers", ""]
    return subprocess.run(
        [*command, "--keep", str(tree.parent / "kept"), *options], cwd=ROOT, capture_output=True, text=True
    )


def afters(path: str, text: str) -> set[str]:
    made = [mutant_of(path, text, choice()) for site in sites_of(path, text) for choice in site.choices]
    return {" ".join(mutant.after.split()) for mutant in made if mutant is not None}


# --- a whole run ------------------------------------------------------------------------------------------------------


def test_each_fault_of_a_small_tree_is_called_what_it_is(tmp_path: Path) -> None:
    tree, found = planted(tmp_path / "toy"), tmp_path / "found.json"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tree.rglob("*") if path.is_file()}
    run = mutants(tree, "--patience", "1", "--json", str(found))
    outcomes = {(o["path"], o["after"].strip()): o for o in json.loads(found.read_text())}

    def status(after: str, path: str = "emqkit/toy.py") -> tuple[str, str]:
        return outcomes[path, after]["status"], outcomes[path, after]["why"]

    assert status("return left - right") == ("killed", "tests/test_toy.py::test_add")
    assert status("return left / right") == ("survived", "1 tests")
    assert status("return left + right") == ("survived", "no test reaches it")
    assert status("n = n + step") == ("timeout", "tests/test_toy.py::test_spin")
    assert status("while not n:") == ("killed", "tests/test_toy.py::test_spin")
    assert status("if not done:") == ("timeout", "tests/test_toy.py::test_give_up")
    assert status("return left & right") == ("equivalent", "both sides are the same")
    assert status("assert LIMIT <= 2") == ("killed", ""), "nothing could be imported"
    assert status("", "lua/take.lua") == ("survived", "1 tests")
    assert {o["status"] for (_, after), o in outcomes.items() if after in ("return 0", "return 2")} == {"killed"}
    assert run.returncode == 1, run.stderr
    assert "emqkit/toy.py:6  return left * right  →  return left / right  (1 tests)" in run.stdout
    assert "lua/take.lua:1  redis.call('SET', KEYS[1], ARGV[1])  →  (dropped)  (1 tests)" in run.stdout
    assert "% of the mutants in the other rooms were not killed; at most 5 % may" in run.stdout
    # The tree is only read, and a second run does not record anew.
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tree.rglob("*") if path.is_file()} == before
    assert "recording" in run.stdout
    assert "recording" not in mutants(tree, "--count", "1").stdout


def test_a_listed_equivalent_that_is_no_mutant_of_the_code_any_more_ends_the_run(tmp_path: Path) -> None:
    toy = TOY["emqkit/toy.py"].replace("return left | right", "return left ^ right")
    run = mutants(planted(tmp_path, **{"emqkit/toy.py": toy}))
    assert run.returncode == 2
    assert "emqkit/toy.py: no longer a mutant of it:  return left | right  →  return left & right" in run.stdout


def test_an_equivalent_wants_a_reason(tmp_path: Path) -> None:
    name = "benchmarks/mutants/equivalent.toml"
    run = mutants(planted(tmp_path, **{name: TOY[name].replace("both sides are the same", " ")}))
    assert run.returncode == 2
    assert "emqkit/toy.py: no reason is given for  return left | right  →  return left & right" in run.stdout


# --- the sample -------------------------------------------------------------------------------------------------------


def test_a_seed_gives_one_sample_of_every_room_and_another_seed_another() -> None:
    files = chosen(sources(ROOT), ["emqkit/j*.py", "emqkit/p*.py", "emqkit/viz/sp*.py", "lua"])
    drawn = sample(files, 7, 60)
    assert sample(files, 7, 60) == drawn
    assert [(m.path, m.line) for m in sample(files, 8, 60)] != [(m.path, m.line) for m in drawn]
    rooms = Counter(room_of(mutant.path) for mutant in drawn)
    assert rooms.total() == 60 and set(rooms) == {"host", "viz", "lua"} and min(rooms.values()) >= 10
    assert len({(mutant.path, mutant.line, mutant.after) for mutant in drawn}) == 60
    for mutant in drawn:
        old, new = files[mutant.path].split("\n"), mutant.text.split("\n")
        assert old[mutant.line - 1].strip() == mutant.before
        rest = (old[: mutant.line - 1], old[mutant.line :])
        assert (new[: mutant.line - 1], new[mutant.line + len(new) - len(old) :]) == rest, "one line, and no other"


def test_the_zoo_is_not_drawn_from_and_the_tools_are() -> None:
    files = sources(ROOT)
    assert "lua/tools/restore.lua" in files and "emqkit/stepper/machine.lua" in files
    assert not any(path.startswith("lua/zoo") for path in files)
    assert [room_of(path) for path in ("emqkit/jobs.py", "emqkit/sim/search/walk.py", "lua/tools/restore.lua")] == [
        "host",
        "sim",
        "lua",
    ]


def test_of_a_line_that_runs_in_processes_of_its_own_the_tests_of_its_room_are_asked() -> None:
    path, text = "emqkit/stepper/machine.py", "def here():\n    return 1\n\ndef child():\n    return 2\n\n"
    program = text + "if __name__ == '__main__':\n    child()\n"
    reach = Reach({"tests/test_stepper.py::a": (2.0, 2.0), "tests/test_stepper.py::b": (1.0, 1.0)})
    reach.lines[path] = {1: {""}, 2: {"tests/test_stepper.py::a"}, 4: {""}}
    mutants = [Mutant(path, line, "", "", "") for line in (2, 5)]
    a, b = reach.cost
    assert [reach.tests_for(mutant, text) for mutant in mutants] == [[a], []]
    assert [reach.tests_for(mutant, program) for mutant in mutants] == [[a], [b, a]]
    other = "tests/test_jobs.py::a"
    reach.cost[other] = (0.5, 0.5)
    reach.lines[path] = {1: {""}, 2: {"", other}, 4: {""}, 5: {b}}
    assert reach.tests_for(mutants[0], text) == [b, a, other], "a process of the other's may only import it"
    named = [f"tests/test_{name}.py::a" for name in ("embedded", "jobs", "lua", "values")]
    asked = Reach(dict.fromkeys(named, (1.0, 1.0)))
    assert asked.tests_for(Mutant("emqkit/servers/supervise.py", 1, "", "", ""), "") == [named[0], named[3]]
    named = ["tests/test_servers.py::a", "tests/test_supervise.py::a", "tests/test_embedded.py::a"]
    asked.cost = {test: (float(place), 0.0) for place, test in enumerate(named)}
    assert asked.tests_for(Mutant("emqkit/servers/supervise.py", 1, "", "", ""), "") == [named[1], named[0], named[2]]
    named = ["tests/test_jobs.py::a", "tests/test_values.py::a"]
    asked.cost = {test: (float(place), 0.0) for place, test in enumerate(named)}
    for before, first in (("@dataclass(frozen=True)", named[1]), ("LIMIT = 3", named[0])):
        assert asked.tests_for(Mutant("emqkit/jobs/x.py", 1, before, "", ""), "")[0] == first
    asked.cost = dict.fromkeys(["tests/test_embedded.py::a", "tests/test_lua.py::a"], (1.0, 1.0))
    assert asked.tests_for(Mutant("lua/claim.lua", 1, "", "", ""), "") == ["tests/test_lua.py::a"]


# --- what can be changed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "if a < b: x()",
            {"if a <= b: x()", "if a >= b: x()", "if not a < b: x()", "if a < b: pass"},
        ),
        ("ok = a in b", {"ok = a not in b"}),
        ("ok = a not in b", {"ok = a in b"}),
        ("ok = a is None", {"ok = a is not None"}),
        ("ok = a and not b", {"ok = a or not b", "ok = a and b"}),
        ("n = -7", {"n = - 8", "n = - 6", "n = 7"}),
        ("send(a)", {"pass"}),
        (
            "try: a\nexcept (OSError, redis.RedisError): b",
            {"except (NeverRaised, redis.RedisError): b", "except (OSError, NeverRaised): b"},
        ),
        ("@register\ndef f(): ...", {""}),
        ("'''Docstring: 1 < 2 and not True.'''", set()),
        ("# 1 < 2", set()),
        ("__all__ = [1 < 2]", set()),
        ("if TYPE_CHECKING:\n    n = 1", set()),
        ("n: Literal[1] | None", set()),
        ("def f(n: Literal[1] | None) -> Literal[2] | None: ...", set()),
        ("@lru_cache(maxsize=8)\ndef f(): ...", set()),
        ("@overload\ndef f(): ...", set()),
        ("class Call(Protocol):\n    @property\n    def verb(self, n=1) -> str: ...", set()),
        ("class Call(Base):\n    @property\n    def verb(self) -> str: ...", {""}),
        ("pairs = zip(a, b, strict=True)", set()),
        ("def f(a, *, b): ...", set()),
        (
            "def f(*a, b=2 * c): ...",
            {"def f(*a, b= 1 * c): ...", "def f(*a, b= 3 * c): ...", "def f(*a, b=2 / c): ..."},
        ),
        ("assert a is not None and isinstance(b, Pair)", set()),
        ("assert a > 1", {"assert a >= 1", "assert a <= 1", "assert a > 0", "assert a > 2", "assert not a > 1"}),
    ],
)
def test_a_line_of_python_can_become(line: str, expected: set[str]) -> None:
    assert afters("emqkit/x.py", line + "\n") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "if a < 2 then",
            {"if a <= 2 then", "if a >= 2 then", "if a < 3 then", "if a < 1 then", "if not (a < 2) then"},
        ),
        ("x = a == b or not c", {"x = a ~= b or not c", "x = a == b and not c", "x = a == b or c"}),
        ("redis.call('DEL', key)", {""}),
        ("return {redis.call('GET', key)}", set()),
        ("-- 1 < 2 and 'three'", set()),
        ("local a, b = 'one', 'two'", {"local a, b = 'two', 'two'", "local a, b = 'one', 'one'"}),
        ("local a = [[1 < 2]]", set()),
        ("x = string.sub(text, 1, 3)", {f"x = string.sub(text, {part})" for part in ("2, 3", "1, 4", "1, 2")}),
    ],
)
def test_a_line_of_lua_can_become(line: str, expected: set[str]) -> None:
    assert afters("lua/x.lua", line + "\n") == expected


def test_the_lines_of_a_statement_and_of_what_it_stands_in() -> None:
    text = (
        "class A:\n    x = f(\n        1,\n    )\n\n    def g(self,\n          a=1):\n        if a:\n            b()\n"
    )
    assert statement_lines(text, 3) == (range(2, 5), range(1, 10)), "all lines of a call"
    assert statement_lines(text, 8) == (range(8, 9), range(6, 10)), "only the head of a block"
    assert statement_lines(text, 7)[1] == range(6, 10), "a default belongs to its function"


# --- the verdict ------------------------------------------------------------------------------------------------------


def outcome(room: str, status: str) -> Outcome:
    return Outcome("emqkit/x.py", 1, "a", "b", room, status, "", 0.0)


def test_a_room_may_leave_as_many_unkilled_as_its_threshold_says_and_a_timeout_is_no_kill() -> None:
    sim = [outcome("sim", "killed")] * 18 + [outcome("sim", "survived"), outcome("sim", "timeout")]
    rest = [outcome("host", "killed")] * 19 + [outcome("viz", "timeout")]
    assert too_much(sim + rest) == []
    assert too_much([*sim[1:], *rest]) == ["10.5 % of the mutants in sim were not killed; at most 10 % may"]
    assert too_much(sim + rest[1:]) == ["5.3 % of the mutants in the other rooms were not killed; at most 5 % may"]
    words = [replace(one, room="words") for one in sim[1:]]
    assert too_much(sim + rest + words) == ["10.5 % of the mutants in words were not killed; at most 10 % may"]


def test_few_may_be_equivalent_and_they_count_neither_way() -> None:
    killed, equivalent = [outcome("host", "killed")] * 97, [outcome("host", "equivalent")] * 3
    assert too_much(killed + equivalent) == []
    assert too_much(killed[1:] + equivalent) == ["3 of 99 are listed as equivalent; at most 3 % may be"]
    assert table(killed + equivalent).splitlines()[2:] == [
        "| host | 100 | 97 | 0 | 0 | 3 | 0.0 % |",
        "| all | 100 | 97 | 0 | 0 | 3 | 0.0 % |",
    ]
