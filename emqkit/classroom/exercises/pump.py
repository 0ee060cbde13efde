"""Exercises on the Pump and its crashes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from emqkit.classroom.checks import (
    Came,
    Exercise,
    Judging,
    judge_history,
    judge_prediction,
    of_result,
    promises,
)
from emqkit.classroom.handed import operation_of, program
from emqkit.classroom.hints import Classic, Judgement
from emqkit.flows import Child, Flow
from emqkit.keyspace import Keyspace
from emqkit.sim.history import History
from emqkit.sim.promises import Facts, Promise
from emqkit.sim.promises.clauses import of_end
from emqkit.sim.worlds.actors import Kit, Reaper, Repeating, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.mistakes import MISTAKES, HostileHabits
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World, planned
from emqkit.snapshot import capture, restore
from emqkit.wire import Flush

__all__ = ["EXERCISES", "WORLDS"]

LESSON = "06_pump_crashes"
HASTY = replace(
    MISTAKES["trim-before-delivery"].world,
    name="hasty-pump",
    flows=planned("orders", Flow("order", [Child("pick", "stock")])),
)
WORLDS = {"hasty-pump": (HASTY, "published")}
"""What can be walked by hand, by the exercise it belongs to: the world and the script set."""


# --- where it hurts -------------------------------------------------------------------------------------------------


def _child_done(kit: Kit) -> Any:
    added = kit.flows.add("orders", HASTY.flows[0].flow)
    claim = kit.jobs.claim("stock")
    assert claim is not None
    kit.jobs.complete("stock", claim)
    return added


def _crashing_after(kit: Kit, added: Any, calls: int) -> bool:
    """Whether the parent is released although the Pump's first pass stopped after so many calls."""
    held = capture(kit.server)
    steps = HostileHabits(kit.server).trim_first.steps("stock")
    made, flush = 0, next(steps)
    while made < calls:
        replies = [kit.server.round_trip(Flush((call,)))[0] for call in flush.calls[: calls - made]]
        made += len(replies)
        if made < calls:
            flush = steps.send(tuple(replies))
    kit.pump("stock").sweep()
    released = kit.jobs.state("orders", added.parent_id) == "pending"
    restore(kit.server, held)
    return released


def _hurts(kit: Kit, added: Any) -> Came:
    lost = [calls for calls in range(5) if not _crashing_after(kit, added, calls)]
    return Came(lost[0] if len(lost) == 1 else tuple(lost))


WHERE_IT_HURTS = Exercise(
    "where-it-hurts",
    LESSON,
    "predict",
    "After how many of its four calls does a crash of this Pump lose the child?",
    judge_prediction(
        _child_done,
        _hurts,
        "a whole number from 0 to 4",
        "After each of the four calls, ask: who knows now that the child is done? A crash takes what the Pump knows.",
        "While the entry is in the outbox the next pass finds it; once it is delivered, the parent has it.",
    ),
    (
        Classic(
            "before it is trimmed",
            "Not yet. At that moment the entry is still in the outbox, and the next pass finds it there.",
            lambda found, handed: handed == found.facts["right"] - 1,
        ),
        Classic(
            "after it is delivered",
            "Not yet. At that moment the parent has it: there is nothing left to lose.",
            lambda found, handed: handed == found.facts["right"] + 1,
        ),
        Classic(
            "before it is read",
            "Not yet. At that moment the Pump knows nothing that a crash could take.",
            lambda found, handed: handed < found.facts["right"] - 1,
        ),
    ),
)


# --- the crash, by hand ---------------------------------------------------------------------------------------------


def _crashed(history: History) -> str:
    if any(move.kind == "crash" and move.actor == "hasty pump" for move in history.moves):
        return ""
    return "Nobody has crashed yet: the Pump still has in memory what is nowhere else."


HASTY_PUMP = Exercise(
    "hasty-pump",
    LESSON,
    "find",
    "The crash that loses a child in this Pump, as a history.",
    judge_history(
        HASTY,
        "published",
        "P3",
        "Look for the moment at which the Pump alone knows that a child is done; a crash takes what it knows.",
        _crashed,
    ),
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


def _who(found: Judgement) -> tuple[str, ...]:
    moves = found.history.moves if found.history else ()
    return tuple(dict.fromkeys(move.actor for move in moves if move.kind == "crash"))


# --- a pass of one's own --------------------------------------------------------------------------------------------


@of_end("what is delivered is trimmed", Witness.RECORDED)
def _trimmed(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    if keyspace["stock"].entries:
        yield "an entry stays in the outbox for ever"


TRIMMED = Promise("yours", "trimmed", "An entry that is delivered leaves the outbox.", (_trimmed,))
TWO = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock")]))


def _judge_pass(trial: Judging, handed: object) -> Judgement:
    function = operation_of(handed, "queue")

    def sweeping(kit: Kit) -> Any:
        return program(function, kit, "stock", name="sweep")

    pump = Repeating("your pump", sweeping, ("stock",), "pump")
    among = (*promises("P3", "P5"), TRIMMED)
    for flows, faults in ((TWO, Faults()), (HASTY.flows, Faults(crashes=1))):
        world = World(
            "your-pump", (Worker("stock"), Worker("orders"), pump, Reaper("stock"), Reaper("orders")), flows, faults
        )
        finding = of_result(trial.explore(world, among=among), among)
        if not finding.met:
            return finding
    return finding


PASS = Exercise(
    "pass",
    LESSON,
    "write",
    "A Pump's pass: nothing lost, whatever crashes when, and nothing left behind.",
    _judge_pass,
    (
        Classic(
            "trims before it delivers",
            "Not yet. Your pass takes away what is not delivered yet; a crash just then, and nobody knows of it.",
            lambda found, handed: found.promise == "P3" and _at_trim(found),
        ),
        Classic(
            "does not deliver",
            "Not yet. The signal is there, your Pump passes by, and the parent waits for ever.",
            lambda found, handed: "P3" in found.facts.get("not kept", ()),
        ),
        Classic(
            "never trims",
            "Not yet. What is delivered stays in the outbox, and every further pass delivers it again.",
            lambda found, handed: found.promise == "yours",
        ),
    ),
    about=("P3", "P5"),
)


def _at_trim(found: Judgement) -> bool:
    """Whether an outbox lost an entry with the last move."""
    assert found.history is not None
    last = found.history.moves[-1]
    return len(Keyspace.of(last.after)["stock"].entries) < len(Keyspace.of(last.before)["stock"].entries)


EXERCISES = (WHERE_IT_HURTS, HASTY_PUMP, PASS)
