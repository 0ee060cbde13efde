"""Exercises on the Pump and its crashes."""

from __future__ import annotations

from dataclasses import replace

from emqkit.classroom.checks import Exercise, judge_history
from emqkit.classroom.hints import Classic, Finding
from emqkit.flows import Child, Flow
from emqkit.sim.history import History
from emqkit.sim.worlds.mistakes import MISTAKES
from emqkit.sim.worlds.world import planned

__all__ = ["EXERCISES", "WORLDS"]

LESSON = "06_pump_crashes"
HASTY = replace(
    MISTAKES["trim-before-delivery"].world,
    name="hasty-pump",
    flows=planned("orders", Flow("order", [Child("pick", "stock")])),
)
WORLDS = {"hasty-pump": (HASTY, "published")}
"""What can be walked by hand, by the exercise it belongs to: the world and the script set."""


def _crashed(history: History) -> str:
    if any(move.kind == "crash" and move.actor == "hasty pump" for move in history.moves):
        return ""
    return "Nobody has crashed yet: the Pump still has in memory what is nowhere else."


HASTY_PUMP = Exercise(
    "hasty-pump",
    LESSON,
    "find",
    "The crash that loses a child in this Pump, as a history.",
    judge_history(HASTY, "published", "P3", _crashed),
    (
        Classic(
            "no crash",
            "Not yet. Nobody has crashed: the Pump still has in memory what is nowhere else, and would deliver it.",
            lambda found, handed: found.facts.get("confirmed") is True,
        ),
        Classic(
            "somebody else crashes",
            "Not yet. It is not the Pump that crashes in your history; whoever else does, comes back by its lease.",
            lambda found, handed: _who(found) not in ((), ("hasty pump",)),
        ),
        Classic(
            "crashes with nothing in hand",
            "Not yet. Where your Pump crashes, the entry is still in the outbox, or delivered already.",
            lambda found, handed: "hasty pump" in _who(found),
        ),
        Classic(
            "nothing to lose",
            "Not yet. No child has completed in your history, so there is no signal that could get lost.",
            lambda found, handed: (
                found.history is not None
                and not any(call.verb == "complete" for move in found.history.moves for call, _ in move.calls)
            ),
        ),
    ),
    about=("P3",),
)


def _who(found: Finding) -> tuple[str, ...]:
    moves = found.history.moves if found.history else ()
    return tuple(dict.fromkeys(move.actor for move in moves if move.kind == "crash"))


EXERCISES = (HASTY_PUMP,)
