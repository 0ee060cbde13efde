"""Each fault that docs/findings.md tells of happens as told, on every kind of server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import emqkit
from emqkit import keys, outbox
from emqkit.scripts import ScriptSet
from emqkit.servers import Server

PAGE = Path(__file__).parent.parent / "docs" / "findings.md"
SECTIONS = ("## Faults, each replayable", "## No promise broken, but surprising")


@dataclass(frozen=True)
class Entry:
    """One fault of the page: its title, what is said of it, and its blocks with the line each begins on."""

    title: str
    prose: str
    blocks: tuple[tuple[int, str], ...]


def read(page: str) -> tuple[list[tuple[int, str]], list[Entry]]:
    """The blocks of the replayable sections that stand in no entry, and the entries."""
    loose: list[tuple[int, str]] = []
    entries: list[Entry] = []
    title, prose, blocks = "", list[str](), loose
    code: list[str] | None = None
    replayable = False
    for number, line in enumerate([*page.splitlines(), "## end"], 1):
        if code is not None:
            if line == "```":
                blocks.append((number - len(code), "\n".join(code)))
                code = None
            else:
                code.append(line)
        elif line.startswith(("## ", "### ")):
            if title:
                entries.append(Entry(title, " ".join(prose), tuple(blocks)))
            replayable = line in SECTIONS if line.startswith("## ") else replayable
            title = line[4:] if replayable and line not in SECTIONS else ""
            prose, blocks = [], [] if title else loose
        elif replayable and line == "```python":
            code = []
        elif replayable:
            prose.append(line)
    return loose, entries


OPENING, ENTRIES = read(PAGE.read_text(encoding="utf-8"))
BLOCKS = [pytest.param(line, code, id=f"line-{line}") for entry in ENTRIES for line, code in entry.blocks]
each_block = pytest.mark.parametrize(("line", "code"), BLOCKS)
each_entry = pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.title) for entry in ENTRIES])


@each_block
def test_a_fault_happens_as_told(line: int, code: str, server: Server, queues: Callable[..., str]) -> None:
    # Names that nobody else has: a server that is not ours may have an `orders` of its own.
    own = {name: queues(name) for name in ("orders", "labels")}
    code = re.sub(r'"(orders|labels)"', lambda name: f'"{own[name[1]]}"', code)
    names: dict[str, Any] = {"emqkit": emqkit, "keys": keys, "outbox": outbox, "server": server}
    exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)  # a failure points at the page's own line


@each_block
def test_a_block_can_be_pasted_after_the_opening_and_ends_in_an_assert(line: int, code: str) -> None:
    assert code.startswith("flows, jobs = emqkit.Flows(server), emqkit.Jobs(server)\n")
    assert code.splitlines()[-1].lstrip().startswith("assert ")
    assert "emq:" not in code, "keys are named through emqkit.keys: the test renames the queues"


def test_the_opening_gives_a_server_on_which_a_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMQKIT_SERVER", raising=False)
    [(_, opening)] = OPENING
    names: dict[str, Any] = {}
    exec(opening, names)
    with names["server"]:
        exec(ENTRIES[0].blocks[0][1], names)


@each_entry
def test_an_entry_names_its_promises_and_has_a_block(entry: Entry) -> None:
    named = re.match(r"\*([^*]+)\*", entry.prose)
    assert named is not None
    promises = [int(number) for number in re.findall(r"\bP(\d+)", named[1])]
    assert promises and promises == sorted(set(promises)) and set(promises) <= set(range(1, 17))
    assert entry.blocks


@each_entry
def test_the_scripts_and_moves_that_an_entry_names_are_there(entry: Entry) -> None:
    published = ScriptSet.load("published")
    moves = {
        name: {move.name for move in published[name].moves} for name in re.findall(r"`lua/(\w+)\.lua`", entry.prose)
    }
    for name, named in re.findall(r"`lua/(\w+)\.lua`(?: \(|, )(`[a-z -]+`(?:, `[a-z -]+`)*)", entry.prose):
        assert set(re.findall(r"`([a-z -]+)`", named)) <= moves[name]
    for move in re.findall(r"\(`([a-z -]+)`\)", entry.prose):
        assert any(move in own for own in moves.values())
