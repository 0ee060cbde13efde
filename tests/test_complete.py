"""Whoever adds a script is told what else it needs: a stub, a sentence, an operation, a world, a promise, a line.

`docs/scripts.md` says of each script who sends it and what watches it, or why nobody does, and is held to the
code here.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from emqkit import sim, transitions
from emqkit.flows import Flows
from emqkit.jobs import Jobs
from emqkit.native import Native
from emqkit.pump import Pump
from emqkit.scripts import ScriptSet
from emqkit.servers import Server
from emqkit.sim.promises import PROMISES
from emqkit.wire import Flush, Reply
from emqkit.words.scripts import SCRIPTS as SENTENCES

ROOT = Path(__file__).parent.parent
PAGE = "docs/scripts.md"
OWNERS = {"flows": Flows, "jobs": Jobs, "native": Native, "pump": Pump}
SCRIPTS = sorted(script.name for script in ScriptSet.load("published"))

each_script = pytest.mark.parametrize("script", SCRIPTS)


class Row(NamedTuple):
    """A line of the page."""

    sent_by: str
    explored: str
    watched_by: str


def page() -> Iterator[tuple[str, Row]]:
    for line in (ROOT / PAGE).read_text("utf-8").splitlines():
        if line.startswith("| `"):
            script, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            yield script.strip("`"), Row(*cells)


ROWS = dict(page())


def reason(cell: str) -> bool:
    """Whether a cell says why nobody does."""
    return re.fullmatch(r"nobody: \w.+", cell) is not None


def row_of(script: str) -> Row:
    if script not in ROWS:
        pytest.fail(f"{PAGE} has no line for `{script}`: add one to its table")
    return ROWS[script]


def test_the_page_has_a_line_for_every_script_and_for_nothing_else() -> None:
    assert [script for script, _ in page() if script not in SCRIPTS] == [], f"take them out of {PAGE}"
    assert len(list(page())) == len(ROWS), f"{PAGE} names a script twice"
    assert [script for script in SCRIPTS if script not in ROWS] == [], f"add a line for each to the table of {PAGE}"


@each_script
def test_every_script_has_a_stub(script: str) -> None:
    found = getattr(transitions, script, None)
    assert callable(found), (
        f"lua/{script}.lua has no stub: write `def {script}(queue, …) -> Call[…]` in emqkit/transitions.py"
    )


@each_script
def test_every_script_has_a_sentence(script: str) -> None:
    assert script in SENTENCES, (
        f"nothing says in words what {script} did: write a function for it in emqkit/words/scripts.py, "
        "and name it in SCRIPTS"
    )


def names_in(*files: Path) -> set[str]:
    """The attributes and the strings that stand in some modules: what they may mean when they name a script."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@each_script
def test_every_script_is_sent_by_an_operation(script: str) -> None:
    operations = re.findall(r"`(\w+)\.(\w+)`", row_of(script).sent_by)
    assert operations, (
        f"no operation sends {script}: write one in emqkit/jobs.py, flows.py or pump.py, and name it in {PAGE}"
    )
    for owner, verb in operations:
        assert hasattr(OWNERS[owner], verb), (
            f"{PAGE} says that {owner}.{verb} sends {script}: there is no such operation"
        )
        module = ROOT / "emqkit" / f"{owner}.py"
        assert script in names_in(module), f"{PAGE} says that {owner}.{verb} sends {script}: emqkit/{owner}.py does not"


@functools.cache
def sent_in(world: str) -> set[str]:
    """The scripts that were run while the first few hundred states of a world were explored."""
    sent: set[str] = set()
    round_trip = Server.round_trip

    def watched(server: Server, flush: Flush[Any]) -> tuple[Reply, ...]:
        sent.update(call.verb for call in flush.calls if call.kind == "script")
        return round_trip(server, flush)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Server, "round_trip", watched)
        sim.explore(world, max_states=400, promises=(), server="fake://")
    return sent


@each_script
def test_every_script_has_an_actor_or_a_reason_why_none(script: str) -> None:
    cell = row_of(script).explored
    if reason(cell):
        return
    found = re.fullmatch(r"`(\w+)` in `([\w-]+)`", cell)
    assert found, (
        f"no actor sends {script}: let one do so in emqkit/sim/worlds/actors.py, in a world of scenarios.py, and write "
        f"`Actor` in `world` into {PAGE}; or write nobody: and why"
    )
    actor, world = found.groups()
    assert world in sim.SCENARIOS, f"{PAGE} says that {script} is sent in the world {world}: there is none of this name"
    actors = {type(one).__name__ for one in sim.scenario(world).actors}
    assert actor in actors, f"{PAGE} says that {actor} sends {script} in {world}, where the actors are {actors}"
    assert script in sent_in(world), f"{PAGE} says that {script} is sent in {world}: it is not"


@each_script
def test_every_script_is_watched_by_a_promise_or_there_is_a_reason(script: str) -> None:
    cell = row_of(script).watched_by
    if reason(cell):
        return
    watching = set(cell.split(", "))
    assert cell and watching <= {promise.name for promise in PROMISES}, (
        f"no promise looks at {script}: name it in a clause or a witness of emqkit/sim/promises, "
        f"and the promise in {PAGE}; or write nobody: and why"
    )
    promises = names_in(*(ROOT / "emqkit" / "sim" / "promises").rglob("*.py"))
    assert script in promises, f"{PAGE} says that {cell} watches {script}: nothing in emqkit/sim/promises names it"
