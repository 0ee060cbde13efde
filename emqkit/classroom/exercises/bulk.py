"""Exercises on adding many flows at once, and on what is refused."""

from __future__ import annotations

from collections.abc import Iterator

from emqkit.classroom.checks import Came, Exercise, judge_lua, judge_prediction, promises
from emqkit.classroom.hints import Classic
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.keyspace import Part
from emqkit.sim.promises import Promise
from emqkit.sim.promises.clauses import of_part
from emqkit.sim.worlds.actors import Kit, Producer, Reaper, Worker
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World, planned

__all__ = ["EXERCISES"]

LESSON = "05_bulk_ledger"


def _nothing(kit: Kit) -> None:
    """There is nothing before a batch."""
    kit.jobs.depths("orders")


def _batch(kit: Kit, setting: None) -> Came:
    minter = Minter.fixed()
    foreign = [Child("alien", queue, id="ORD" + minter.mint()[3:]) for queue in (None, "stock")]
    flows = [
        Flow("order 1", [Child("pick"), Child("pack")]),
        Flow("order 2", [Child("pick"), foreign[0]]),
        Flow("order 3", [Child("pick", "stock"), foreign[1]]),
    ]
    added = kit.flows.add_bulk("orders", [flow.with_ids(minter) for flow in flows])
    return Came((len(added.landed), *(failed.remains for failed in added.failed)))


REMAINS = Exercise(
    "remains",
    LESSON,
    "predict",
    "Three flows in one call, two of them with an id that is refused: how many land, and what remains of the others?",
    judge_prediction(
        _nothing,
        _batch,
        'a number and two words, such as (3, "held", "held")',
        "Each flow of a batch is added for itself. In how many steps does each of these three land?",
        "One script lands a flow of one queue; across queues the parent is there before its first child is asked for.",
    ),
    (
        Classic(
            "all or nothing",
            "Not yet. The ids are well-formed, so the batch is begun; each flow stands or falls by itself.",
            lambda found, handed: handed[0] != found.facts["right"][0],
        ),
        Classic(
            "one queue leaves a parent",
            "Not yet. In one queue a flow lands in one script, which looks at every id before it writes.",
            lambda found, handed: handed[1] != found.facts["right"][1],
        ),
        Classic(
            "across queues nothing is left",
            "Not yet. Across queues the parent has landed when a child is refused, and nobody takes it away again.",
            lambda found, handed: handed[2] != found.facts["right"][2],
        ),
    ),
)

PICK = Minter.fixed().mint()
BATCH = planned(
    "orders",
    Flow("foreign", [Child("guest"), Child("alien", id="ORD" + PICK[3:])]),
    Flow("late", [Child("wrap")]),
)
LANDING = World(
    "gated",
    (Producer("orders", tuple(plan.flow for plan in BATCH), bulk=True), Worker("orders"), Reaper("orders")),
    BATCH,
    landed=False,
)


@of_part("what is no job is not landed", Witness.LANDED)
def _no_job(world: World, part: Part) -> Iterator[str]:
    yield from (f"{world.label(id)} is landed, and its id is no job's" for id in part.ids if not id.startswith("JOB"))


GATED = Promise("yours", "gated", "What is no job is not landed as one.", (_no_job,))

GATE = Exercise(
    "gate",
    LESSON,
    "write",
    "The landing script that leaves nothing behind when it refuses.",
    judge_lua("enqueue_flow", LANDING, GATED, *promises("P12", "P1")),
    (
        Classic(
            "looks too late",
            "Not yet. When an id is refused, what was written before it stays: a script is not rolled back.",
            lambda found, handed: found.promise == "P12",
        ),
        Classic(
            "lets anybody in",
            "Not yet. No id is refused any more, and an id of another kind of thing is landed as a job.",
            lambda found, handed: found.promise == GATED.name,
        ),
        Classic(
            "lands in part",
            "Not yet. A flow lands without all of what makes it one: parent held, counter, every child claimable.",
            lambda found, handed: found.promise == "P1",
        ),
    ),
    about=("P1", "P12"),
)

EXERCISES = (REMAINS, GATE)
