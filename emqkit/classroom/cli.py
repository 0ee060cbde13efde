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
    grade = verbs.add_parser("grade", help="mark submissions, each in a confined process of its own")
    grade.add_argument("folder", metavar="DIR", help="one folder for each student, with notebooks in it")
    grade.add_argument("--to", default=".", metavar="FOLDER", help="where grades.csv and grades.html go; default: here")
    grade.add_argument("--jobs", type=int, metavar="N", help="processes at once; default: as many as processors")
    grade.set_defaults(verb=_grade)


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


def _grade(arguments: argparse.Namespace) -> int:
    from concurrent.futures import ProcessPoolExecutor

    from emqkit.classroom.grade import grade
    from emqkit.classroom.tables import ISOLATED, as_csv, as_html, summary

    with ProcessPoolExecutor(max_workers=arguments.jobs) as executor:
        marked = grade(Path(arguments.folder), executor)
    to = Path(arguments.to)
    (to / "grades.csv").write_text(as_csv(marked), encoding="utf-8")
    (to / "grades.html").write_text(as_html(marked), encoding="utf-8")
    print("\n".join(summary(marked)))
    for why in sorted({one.unconfined for one in marked}):
        print(f"not isolated: {why}" if why else ISOLATED)
    print(f"{len(marked)} submissions; see {to / 'grades.csv'} and {to / 'grades.html'}")
    return 0
