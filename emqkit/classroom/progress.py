"""What a learner has met so far: a small file of their own, and a row of badges.

The file is `EMQKIT_PROGRESS` if that is set (empty: none is kept), else `emqkit/progress.json` where programs of this
user keep their state. It is there for the learner alone: marking never reads it.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from emqkit.classroom.exercises import EXERCISES

__all__ = ["Badges", "badges", "met", "note", "place"]

FORMAT = "emqkit progress 1"
LARGEST = 1 << 16
"""Bytes of the file that are read."""


def place() -> Path | None:
    """Where progress is kept; None where none is."""
    named = os.environ.get("EMQKIT_PROGRESS")
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "emqkit" / "progress.json"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "emqkit" / "progress.json"


def met() -> frozenset[str]:
    """The exercises met so far. A file that cannot be read counts as none."""
    path = place()
    if path is None or not path.is_file():
        return frozenset()
    try:
        with path.open("rb") as file:
            kept = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return frozenset()
    if not isinstance(kept, dict) or kept.get("format") != FORMAT or not isinstance(kept.get("met"), list):
        return frozenset()
    return frozenset(name for name in kept["met"] if isinstance(name, str) and name in EXERCISES)


def note(name: str) -> None:
    """Note that an exercise is met. Where nothing can be written, nothing is noted."""
    path, before = place(), met()
    if path is None or name in before or (path.exists() and not path.is_file()):
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            json.dump({"format": FORMAT, "met": sorted({*before, name})}, file)
        os.replace(file.name, path)  # so that nobody ever reads half of it


class Badges:
    """A badge for each lesson that has exercises: how many of them are met. Its `repr` says the same in a sentence."""

    def __init__(self, met: Collection[str]) -> None:
        lessons = dict.fromkeys(exercise.lesson for exercise in EXERCISES.values())
        self.counts = {
            lesson: (sum(one.name in met for one in own), len(own))
            for lesson in lessons
            for own in [[exercise for exercise in EXERCISES.values() if exercise.lesson == lesson]]
        }
        """(met, all) by lesson."""

    def __repr__(self) -> str:
        done, total = (sum(count[n] for count in self.counts.values()) for n in (0, 1))
        if not done:
            return f"No exercise is met yet, of {total}. They are in the folder exercises."
        each = ", ".join(f"{_title(lesson)} {own} of {of}" for lesson, (own, of) in self.counts.items() if own)
        return f"{done} of {total} exercises are met: {each}."

    def _repr_html_(self) -> str:
        style = "display:inline-block;border:2px {0} currentColor;border-radius:1em;padding:.1em .7em;margin:.2em"
        badges = "".join(
            f'<li style="{style.format("solid" if own == of else "dotted")}">'
            f"{'✓ ' if own == of else ''}{html.escape(_title(lesson))} {own}/{of}</li>"
            for lesson, (own, of) in self.counts.items()
        )
        return f'<ul style="list-style:none;padding:0;margin:0">{badges}</ul><p>{html.escape(repr(self))}</p>'


def _title(lesson: str) -> str:
    return lesson.partition("_")[2].replace("_", " ")


def badges() -> Badges:
    """What is met so far, as badges."""
    return Badges(met())
