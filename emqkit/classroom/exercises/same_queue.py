"""Exercises on flows in one queue."""

from __future__ import annotations

import time
from typing import Any

from emqkit.classroom.checks import Came, Exercise, judge_lua, judge_prediction, promises
from emqkit.classroom.hints import Classic
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.sim.worlds.actors import Kit, Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import World, planned

__all__ = ["EXERCISES"]

LESSON = "01_same_queue_flow"


def _three(kit: Kit) -> Any:
    flow = Flow("order 7", [Child("pick"), Child("pack"), Child("label", on_failure="ignore")]).with_ids(Minter.fixed())
    added = kit.flows.add("orders", flow)
    return added, [kit.jobs.claim("orders") for _ in range(3)]


def _counter(kit: Kit, setting: Any) -> Came:
    added, (pick, pack, label) = setting
    before = kit.flows.dependencies("orders", added.parent_id)
    kit.jobs.complete("orders", pick)
    completed = before - kit.flows.dependencies("orders", added.parent_id)
    kit.jobs.retry("orders", pack, error="no box", max_attempts=3)
    kit.jobs.retry("orders", label, error="no ink", max_attempts=1)
    left = kit.flows.dependencies("orders", added.parent_id)
    return Came(left, {"started at": before, "completed": completed})


COUNTER = Exercise(
    "counter",
    LESSON,
    "predict",
    "What does the counter say after one child completed, one failed for the first time and one died, ignored?",
    judge_prediction(
        _three,
        _counter,
        "a whole number",
        "Of the three settles, ask of each: is its child through with for its parent?",
        "A failure that will be tried again tells the parent nothing yet. What a death does is up to its policy.",
    ),
    (
        Classic(
            "counts a retry",
            "Not yet. A child that failed and will be tried again is still outstanding.",
            lambda found, handed: handed == found.facts["right"] - 1,
        ),
        Classic(
            "forgets the ignored death",
            "Not yet. A death that is ignored satisfies the dependency, as a completion does.",
            lambda found, handed: handed == found.facts["started at"] - found.facts["completed"],
        ),
        Classic(
            "counts nothing",
            "Not yet. The counter does not wait for the last child: each one that is through is counted at once.",
            lambda found, handed: handed == found.facts["started at"],
        ),
    ),
)


def _reaped(kit: Kit) -> Any:
    kit.flows.add("orders", Flow("order 7", [Child("pick"), Child("pack"), Child("label")]).with_ids(Minter.fixed()))
    kit.jobs.claim("orders", lease_ms=1)
    held = kit.jobs.claim("orders")
    time.sleep(0.01)
    kit.jobs.reap("orders")
    return held


def _next_claim(kit: Kit, held: Any) -> Came:
    claim = kit.jobs.claim("orders")
    assert claim is not None and held is not None
    return Came((claim.payload, claim.token), {"held": held.payload})


NEXT_CLAIM = Exercise(
    "next-claim",
    LESSON,
    "predict",
    "Which job does the next claim hand out, and with which token?",
    judge_prediction(
        _reaped,
        _next_claim,
        'a payload and a token, such as ("pack", 7)',
        "Ask which ids are in pending now, and how a claim chooses among them.",
        "A claim takes the smallest id, however it came into pending; and each claim of a job has a token of its own.",
    ),
    (
        Classic(
            "takes a held job",
            "Not yet. That job is in active under a lease that has not lapsed: nobody else can claim it.",
            lambda found, handed: handed[0] == found.facts["held"],
        ),
        Classic(
            "goes to the end of the line",
            "Not yet. There is no line to go to the end of: pending is sorted by id, and a claim takes the smallest.",
            lambda found, handed: handed[0] != found.facts["right"][0],
        ),
        Classic(
            "same token again",
            "Not yet. The job is right, and the token is not: who held the job before has that one.",
            lambda found, handed: handed[0] == found.facts["right"][0],
        ),
    ),
)

LAPSING = World(
    "late-completion",
    (Worker("orders"), Worker("orders"), Reaper("orders")),
    planned("orders", Flow("order", [Child("pick")])),
    Faults(lapses=1),
)

COMPLETION = Exercise(
    "completion",
    LESSON,
    "write",
    "The completion that a reaper may come before: a lapsed child still counts, and counts once.",
    judge_lua("complete", LAPSING, *promises("P3", "P5", "P6", "P7", "P9")),
    (
        Classic(
            "counts only what was in active",
            "Not yet. A reaper may have put the job back into pending: its worker still holds the newest token, "
            "settles it, and its parent never hears of it.",
            lambda found, handed: found.promise in ("P3", "P5") and "reap" in _operations(found),
        ),
        Classic(
            "leaves it in pending",
            "Not yet. The job is done and still waits in pending, where the next claim finds an id without a row.",
            lambda found, handed: found.promise in ("P6", "P7"),
        ),
        Classic(
            "does not look at the token",
            "Not yet. Somebody whose claim is over can still settle the job that another one works on.",
            lambda found, handed: found.promise == "P9",
        ),
    ),
    about=("P3", "P5", "P6", "P7", "P9"),
)


def _operations(found: Any) -> str:
    return " ".join(move.operation for move in found.history.moves) if found.history else ""


EXERCISES = (COUNTER, NEXT_CLAIM, COMPLETION)
