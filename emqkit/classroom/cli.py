"""`emqkit classroom build` and `emqkit classroom grade`."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["declare", "run"]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the two verbs."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    build = verbs.add_parser("build", help="make the notebooks to hand out of those with solutions")
    build.add_argument("folder", nargs="?", default="notebooks", metavar="NOTEBOOKS", help="default: notebooks")
    build.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where one is not as it would be made"
    )
    build.set_defaults(verb=_build)


def run(arguments: argparse.Namespace) -> int:
    """Run a verb."""
    status: int = arguments.verb(arguments)
    return status


def _build(arguments: argparse.Namespace) -> int:
    from emqkit.classroom.build import build

    changed = build(Path(arguments.folder), check=arguments.check)
    for name in changed:
        print(f"exercises/{name} {'differs from' if arguments.check else 'made anew of'} solutions/{name}")
    return 1 if changed and arguments.check else 0
