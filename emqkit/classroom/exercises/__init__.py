"""The exercises, by lesson: what each asks, in which world it is judged, and the mistakes that are known."""

from __future__ import annotations

from types import MappingProxyType

from emqkit.classroom.exercises import cross_queue, promises, pump, same_queue

__all__ = ["EXERCISES"]

EXERCISES = MappingProxyType(
    {
        exercise.name: exercise
        for exercise in (
            *same_queue.EXERCISES,
            *cross_queue.EXERCISES,
            *pump.EXERCISES,
            *promises.EXERCISES,
        )
    }
)
"""Every exercise by name, in the order of the lessons."""
