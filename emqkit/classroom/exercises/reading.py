"""Exercises on reading a flow while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emqkit import keys
from emqkit.classroom.checks import Came, Exercise, Judging, judge_prediction, of_result
from emqkit.classroom.handed import operation_of, program
from emqkit.classroom.hints import Classic, Judgement
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.keyspace import Part
from emqkit.sim.promises import Facts, Promise, Transition
from emqkit.sim.promises.clauses import of_move
from emqkit.sim.worlds.actors import Kit, Reaper, Repeating, Worker
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World, planned
from emqkit.snapshot import capture

__all__ = ["EXERCISES"]

LESSON = "02_reading_the_results"


def _four(kit: Kit) -> Any:
    children = [Child("pick"), Child("pack"), Child("label", on_failure="ignore"), Child("wrap")]
    added = kit.flows.add("orders", Flow("order 7", children).with_ids(Minter.fixed()))
    return added, [kit.jobs.claim("orders") for _ in children]


def _reads(kit: Kit, setting: Any) -> Came:
    added, (pick, pack, label, _) = setting
    kit.jobs.complete("orders", pick)
    kit.jobs.complete("orders", pack)
    kit.jobs.retry("orders", label, error="no ink", max_attempts=1)
    reads = (kit.flows.children_values, kit.flows.dependencies, kit.flows.ignored_failures)
    values, left, ignored = (read("orders", added.parent_id) for read in reads)
    assert isinstance(values, dict) and isinstance(left, int) and isinstance(ignored, dict)
    return Came((len(values), left, len(ignored)))


def _differs(found: Judgement, handed: Any, *by: int) -> bool:
    return tuple(handed) == tuple(one + more for one, more in zip(found.facts["right"], by, strict=True))


THREE_READS = Exercise(
    "three-reads",
    LESSON,
    "predict",
    "What do the three reads say while one child is still at work and one has died, ignored?",
    judge_prediction(
        _four,
        _reads,
        "three whole numbers, such as (1, 2, 1)",
        "Each child is in exactly one of the three; so they add up to the number of children.",
        "A child that somebody works on is outstanding. One that died, ignored, has no result.",
    ),
    (
        Classic(
            "a death as a result",
            "Not yet. A child that died has no result, also where its death is ignored.",
            lambda found, handed: _differs(found, handed, 1, 0, -1),
        ),
        Classic(
            "a death still outstanding",
            "Not yet. Nobody waits any more for a child that died and is ignored.",
            lambda found, handed: _differs(found, handed, 0, 1, -1) or _differs(found, handed, 0, 1, 0),
        ),
        Classic(
            "a claimed child as done",
            "Not yet. A child that is claimed is not done: it is outstanding until its worker settles it.",
            lambda found, handed: _differs(found, handed, 0, -1, 0) or _differs(found, handed, 1, -1, 0),
        ),
    ),
)


def _finished(kit: Kit) -> Any:
    added = kit.flows.add("orders", Flow("order 7", [Child("pick")]).with_ids(Minter.fixed()))
    _complete_one(kit)
    return added


def _complete_one(kit: Kit) -> None:
    claim = kit.jobs.claim("orders")
    assert claim is not None
    kit.jobs.complete("orders", claim)


def _leftovers(kit: Kit, added: Any) -> Came:
    _complete_one(kit)
    kept = [at for key, _ in capture(kit.server).entries if (at := keys.parse(key)) and at.id == added.parent_id]
    return Came(len(kept))


LEFTOVERS = Exercise(
    "leftovers",
    LESSON,
    "predict",
    "How many keys of a parent are left once it is completed itself?",
    judge_prediction(
        _finished,
        _leftovers,
        "a whole number",
        "A completion deletes one key. Which one, and what else does a parent have?",
        "Whoever wants the results later still finds them; and nobody deletes what was counted with.",
    ),
    (
        Classic(
            "all gone",
            "Not yet. A completion deletes the row, and nothing else of what the parent has.",
            lambda found, handed: handed == 0,
        ),
        Classic(
            "the row stays",
            "Not yet. The row of a job that is completed is deleted, a parent's too.",
            lambda found, handed: handed == found.facts["right"] + 1,
        ),
        Classic(
            "the counter goes",
            "Not yet. Where the results are left, so is what counted them.",
            lambda found, handed: handed == found.facts["right"] - 1,
        ),
    ),
)

FLOWS = planned("orders", Flow("order", [Child("pick", on_failure="ignore"), Child("pack", on_failure="ignore")]))
PARENT = str(FLOWS[0].flow.id)


def _now(part: Part) -> tuple[int, int, int]:
    """What a look at one moment says."""
    return len(part.hash(PARENT, "processed")), part.counter(PARENT) or 0, len(part.hash(PARENT, "unsuccessful"))


@of_move("a look adds up", Witness.SETTLED, on="ended")
def _adds_up(world: World, move: Transition, facts: Facts) -> Iterator[str]:
    for ran, done in move.ended:
        if ran.function.__name__ == "look" and done.error is not None:
            yield f"the look ended with an error: {done.error}"
        elif ran.function.__name__ == "look":
            value, now = done.value, _now(move.after["orders"])
            try:
                looked = tuple(value)  # type: ignore[arg-type]
            except TypeError:
                looked = (value,)
            if looked != now:
                yield f"the look answers {str(looked)[:80]}, and at that moment it is {now}"


LOOK = Promise("yours", "one look", "A look says what is so at one moment: done, outstanding, ignored.", (_adds_up,))


def _judge_look(trial: Judging, handed: object) -> Judgement:
    function = operation_of(handed, "queue", "parent_id")

    def looking(kit: Kit) -> Any:
        return program(function, kit, "orders", PARENT, name="look")

    world = World("looking", (Worker("orders", "either"), Repeating("reader", looking), Reaper("orders")), FLOWS)
    result = trial.explore(world, among=(LOOK,))
    finding = of_result(result, (LOOK,))
    for violation in result.violations:
        mine = [move for move in violation.history.moves if move.actor == "reader"]
        finding.facts["sum"] = violation.says
        finding.facts["trips"] = max((move.trip for move in mine), default=0)
        finding.facts["calm"] = all(move.actor == "reader" for move in violation.history.moves)
    return finding


ONE_LOOK = Exercise(
    "one-look",
    LESSON,
    "write",
    "The operation that reads the three numbers so that they always add up.",
    _judge_look,
    (
        Classic(
            "wrong before anybody moves",
            "Not yet. Even while nobody else does anything your look does not answer what is there.",
            lambda found, handed: found.facts.get("calm") is True,
        ),
        Classic(
            "several round trips",
            "Not yet. Between your round trips a child finishes, and the numbers are of two different moments.",
            lambda found, handed: found.facts.get("trips", 0) > 1,
        ),
        Classic(
            "a flush that others get into",
            "Not yet. It is one round trip and still not one moment: between the calls of a flush others are served.",
            lambda found, handed: found.facts.get("trips") == 1,
        ),
    ),
)

EXERCISES = (THREE_READS, LEFTOVERS, ONE_LOOK)
