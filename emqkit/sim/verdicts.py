"""`python -m emqkit.sim.verdicts docs/findings.md` explores every listed scenario and rewrites that file's tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from emqkit.servers import Server, open_server
from emqkit.sim.catalogue import explore
from emqkit.sim.promises import names
from emqkit.sim.report import Result
from emqkit.sim.search.judge import Verdict, Violation
from emqkit.sim.worlds.scenarios import SCENARIOS

__all__ = ["BEGIN", "END", "main", "tables"]

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"
SIGNS = {"holds": "✓", "broken": "✗", "unknown": "?"}


def main(argv: Sequence[str] | None = None) -> int:
    """Explore and write; 0 when all ran to their end."""
    parser = argparse.ArgumentParser(prog="python -m emqkit.sim.verdicts", description=__doc__)
    parser.add_argument("file", type=Path, help="the page whose tables are rewritten, between two comments")
    parser.add_argument("scenario", nargs="*", help="only these; the others are left out of the tables")
    parser.add_argument("--scripts", default="published", metavar="SET")
    parser.add_argument("--server", default="embedded://", metavar="URL", help="where calls are made (embedded://)")
    options = parser.parse_args(argv)
    results = []
    with open_server(options.server, scripts=options.scripts) as server:
        for name in options.scenario or SCENARIOS:
            results.append(_explored(name, options.scripts, server))
    page = options.file.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    options.file.write_text(f"{before}{BEGIN}\n{tables(results)}{END}{after}", encoding="utf-8")
    return 0 if all(result.complete for result in results) else 2


def _explored(name: str, scripts: str, server: Server) -> Result:
    began = time.monotonic()
    result = explore(name, scripts=scripts, server=server)
    broken = " ".join(violation.promise for violation in result.violations) or "nothing broken"
    print(f"{name}: {result.word}, {broken}; {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return result


def tables(results: Sequence[Result]) -> str:
    """The tables and the histories, as Markdown."""
    promised = names()
    lines = [
        "",
        f"| scenario | faults | {' | '.join(promised)} | states | transitions | real calls | seconds |",
        f"| --- | --- | {' | '.join(':-:' for _ in promised)} | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        signs = " | ".join(_sign(result.verdicts[name]) for name in promised)
        lines.append(
            f"| [{result.world.name}](#{result.world.name}) | {result.world.faults} | {signs} | {result.states:,} | "
            f"{result.transitions:,} | {result.real_calls:,} | {result.seconds:.1f} |"
        )
    lines += [
        "",
        "✓ holds in every state · ✗ broken · ? unknown: something needed was not met · empty: this world cannot try "
        "it, or, of P16, the script set does not state what it asks for. "
        f"Script set `{results[0].scripts}`, calls made on the {results[0].server} server.",
        "",
    ]
    for result in results:
        lines += _section(result)
    return "\n".join(lines) + "\n"


def _sign(verdict: Verdict) -> str:
    return SIGNS[verdict.word] if verdict.concerns else ""


def _section(result: Result) -> list[str]:
    world = result.world
    lines = [f"### {world.name}", "", f"{_sentence(world.summary)} Actors: {'; '.join(world.names)}.", ""]
    for verdict in result.verdicts.values():
        if verdict.word == "unknown" and verdict.concerns:
            lines += [f"* {verdict.promise} {verdict.title} is unknown. {verdict.reason}"]
        elif verdict.untried:
            lines += [f"* {verdict.promise} {verdict.title} holds; not tried here: {', '.join(verdict.untried)}."]
    if lines[-1]:
        lines.append("")
    if not result.violations:
        return [*lines, f"Nothing was found broken. Fingerprint `{result.fingerprint[:16]}`.", ""]
    for violation in result.violations:
        lines += _history(world.name, result.scripts, violation)
    return [*lines, ""]


def _history(name: str, scripts: str, violation: Violation) -> list[str]:
    other = "" if scripts == "published" else f" --scripts {scripts}"
    told = "\n".join(violation.history.sentences)
    return [
        f"<details><summary>{violation.promise}, {len(violation.history)} moves: {violation.says}.</summary>",
        "",
        f"`emqkit explore {name}{other} --promise {violation.promise} --save h.json; emqkit replay h.json`",
        "",
        "```text",
        told,
        "```",
        "",
        "</details>",
        "",
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


if __name__ == "__main__":
    sys.exit(main())
