"""Exercises that are judged by running what a learner wrote, with the real explorer over the real scripts.

    from emqkit.classroom import check

    answer = check("counter", prediction)
    answer, answer.hint()

Read `checks` for how judging works, `exercises` for what is asked; `build` makes the notebooks that are handed out, and
`grade` marks those that come back.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from emqkit.classroom.bounds import Room
from emqkit.classroom.checks import judged
from emqkit.classroom.exercises import ACCIDENTS, EXERCISES, WORLDS
from emqkit.classroom.hints import Feedback, Judgement
from emqkit.classroom.progress import badges, note
from emqkit.classroom.walk import Left, Walk, left_by
from emqkit.errors import BadArgument

__all__ = ["EXERCISES", "Feedback", "Walk", "accident", "badges", "check", "walk"]

_ROOM = Room()
HANDED_IN = Judgement(False, "Handed in.")
"""What a submission is answered while it is marked."""
hands_in: Callable[[str, tuple[Any, ...]], Any] | None = None
"""Where checks hand in while a submission is marked."""


def check(name: str, *handed: Any) -> Feedback:
    """Judge what is handed in for an exercise. A check that is not met is an answer, too.

    Args:
        name: the exercise's.
        handed: what it asks for; dots (`...`) are nothing yet.

    Raises:
        BadArgument: there is no such exercise.
    """
    if hands_in is not None:
        return hands_in(name, handed)  # type: ignore[no-any-return]
    if name not in EXERCISES:
        near = get_close_matches(name, EXERCISES, n=1)
        raise BadArgument("exercise", name, f"is none; did you mean {near[0]}?" if near else "is none")
    answer = judged(EXERCISES[name], handed, _ROOM)
    if answer:
        note(name)
    return answer


def walk(name: str) -> Walk:
    """The world of an exercise, to be walked by hand. Raises `BadArgument` where it has none."""
    if name not in WORLDS:
        raise BadArgument("exercise", name, f"has no world to walk in; {', '.join(WORLDS)} have")
    return Walk(*WORLDS[name])


def accident(name: str) -> Left:
    """What an accident left, in words and on the stage. Raises `BadArgument` where there was none."""
    if name not in ACCIDENTS:
        raise BadArgument("exercise", name, f"is no post-mortem; {', '.join(ACCIDENTS)} are")
    return left_by(*ACCIDENTS[name])
