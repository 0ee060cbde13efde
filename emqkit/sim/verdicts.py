"""`make verdicts` explores every listed scenario and writes docs/verdicts.md: a table, and each counterexample.

    python -m emqkit.sim.verdicts docs/verdicts.md             all of it; the flagship alone takes minutes
    python -m emqkit.sim.verdicts docs/verdicts.md lapses bulk     only these; the others stay as on the page

Everything in a row but its seconds is the same on every machine and every server, and tests compare it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from emqkit.servers import open_server
from emqkit.sim.catalogue import explore
from emqkit.sim.promises import names
from emqkit.sim.report import Result
from emqkit.sim.search.judge import Verdict, Violation
from emqkit.sim.worlds.scenarios import SCENARIOS

__all__ = ["SIGNS", "main", "page", "row", "rows"]

SIGNS = {"holds": "✓", "broken": "✗", "unknown": "?"}
COUNTS = ("states", "transitions", "real calls", "fingerprint", "seconds")
HEAD = """\
# What exploring every scenario finds

Written by `make verdicts`, not by hand; [findings.md](findings.md) says what it means. Every listed world
(`emqkit explore --list`) was explored whole with the script set `published`, its calls made on the embedded server.

✓ holds in every state · ✗ broken · ? unknown: something needed was not met · empty: this world cannot try it, or, of
P16, the script set does not state what it asks for. A fingerprint is that of the whole graph, its first 16 digits.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Explore and write; 0 if every exploration was complete."""
    parser = argparse.ArgumentParser(prog="python -m emqkit.sim.verdicts", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path, help="the page")
    parser.add_argument("scenario", nargs="*", help="only these; the others stay as on the page")
    parser.add_argument("--server", default="embedded://", metavar="URL", help="where calls are made (embedded://)")
    options = parser.parse_args(argv)
    old = options.file.read_text(encoding="utf-8") if options.scenario else ""
    told = dict(zip(rows(old), old.split("\n### ")[1:], strict=True))
    table = rows(old)
    complete = True
    with open_server(options.server) as server:
        for name in options.scenario or SCENARIOS:
            result = explore(name, scripts="published", server=server)
            table[name], told[name] = row(result), _section(result)
            complete = complete and result.complete
            print(f"{name}: {result.word}; {result.seconds:.0f} s", file=sys.stderr, flush=True)
    options.file.write_text(page(table, told), encoding="utf-8")
    return 0 if complete else 2


def row(result: Result) -> dict[str, str]:
    """The row of a world, by column."""
    signs = {name: SIGNS[verdict.word] if verdict.concerns else "" for name, verdict in result.verdicts.items()}
    counts = (result.states, result.transitions, result.real_calls)
    told = (*(f"{count:,}" for count in counts), f"`{result.fingerprint[:16]}`", f"{result.seconds:.1f}")
    return {"faults": str(result.world.faults), **signs, **dict(zip(COUNTS, told, strict=True))}


def rows(text: str) -> dict[str, dict[str, str]]:
    """The rows of a page, by world name."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]
    return {cells[0].strip("[").split("]")[0]: dict(zip(lines[0][1:], cells[1:], strict=True)) for cells in lines[2:]}


def page(table: dict[str, dict[str, str]], told: dict[str, str]) -> str:
    """The page: the table, and a section for each world."""
    columns = ("faults", *names(), *COUNTS)
    sides = ("---", "---", *(":-:" for _ in names()), *("---:" for _ in COUNTS))
    lines = [HEAD, _line("scenario", *columns), _line(*sides)]
    worlds = [name for name in SCENARIOS if name in table]
    lines += [_line(f"[{name}](#{name})", *(table[name][column] for column in columns)) for name in worlds]
    return "\n".join(lines) + "".join(f"\n\n### {told[name].strip()}" for name in worlds) + "\n"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _section(result: Result) -> str:
    world = result.world
    summary = f"{world.summary[:1].upper()}{world.summary[1:]}."
    lines = [world.name, "", f"{summary} Actors: {'; '.join(world.names)}.", ""]
    notes = [note for verdict in result.verdicts.values() if (note := _note(verdict))]
    lines += [*notes, ""] if notes else []
    if not result.violations:
        lines.append("Nothing was found broken.")
    for violation in result.violations:
        lines += _history(world.name, violation)
    return "\n".join(lines)


def _note(verdict: Verdict) -> str:
    if verdict.word == "unknown" and verdict.concerns:
        return f"* {verdict.promise} {verdict.title} is unknown. {verdict.reason}"
    if verdict.untried:
        return f"* {verdict.promise} {verdict.title} holds; not tried here: {', '.join(verdict.untried)}."
    return ""


def _history(name: str, violation: Violation) -> list[str]:
    return [
        f"<details><summary>{violation.promise}, {len(violation.history)} moves: {violation.says}.</summary>",
        "",
        f"`emqkit explore {name} --promise {violation.promise} --save h.json; emqkit replay h.json`",
        "",
        "```text",
        *violation.sentences,
        "```",
        "",
        "</details>",
        "",
    ]


if __name__ == "__main__":
    sys.exit(main())
