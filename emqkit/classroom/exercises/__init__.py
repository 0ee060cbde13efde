"""The exercises, by lesson: what each asks, in which world it is judged, and the mistakes that are known."""

from __future__ import annotations

from types import MappingProxyType

from emqkit.classroom.exercises import bulk, cross_queue, policy, promises, pump, reading, same_queue, worlds

__all__ = ["ACCIDENTS", "EXERCISES", "WORLDS"]

EXERCISES = MappingProxyType(
    {
        exercise.name: exercise
        for exercise in (
            *same_queue.EXERCISES,
            *reading.EXERCISES,
            *cross_queue.EXERCISES,
            *policy.EXERCISES,
            *bulk.EXERCISES,
            *pump.EXERCISES,
            *promises.EXERCISES,
            *worlds.EXERCISES,
        )
    }
)
"""Every exercise by name, in the order of the lessons."""

WORLDS = MappingProxyType({**policy.WORLDS, **pump.WORLDS, **promises.WORLDS})
"""What can be walked by hand, by the exercise it belongs to: the world and the script set."""

ACCIDENTS = MappingProxyType(promises.ACCIDENTS)
"""What accidents left, by exercise: the world, the script set, the fingerprint of the keyspace."""
