"""Exercises on flows across queues: the add, the signal, its delivery."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from emqkit import keys
from emqkit.classroom.checks import Came, Exercise, Judging, judge_lua, judge_prediction, of_result, promises
from emqkit.classroom.handed import operation_of, program
from emqkit.classroom.hints import Classic, Judgement
from emqkit.errors import ReplyLost
from emqkit.flows import AddedChild, AddedFlow, Child, Flow
from emqkit.ids import Minter
from emqkit.keyspace import Keyspace
from emqkit.sim.promises import Facts, Promise
from emqkit.sim.promises.clauses import of_state
from emqkit.sim.worlds.actors import REST, Actor, Choice, Kit, PumpActor, Reaper, Role, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World, planned
from emqkit.snapshot import capture, diff
from emqkit.wire import Done, Program

__all__ = ["EXERCISES"]

LESSON = "03_cross_queue_outbox"

CREW: tuple[Actor, ...] = (Worker("stock"), Worker("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders"))
TWO = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock")]))


# --- what a completion changes --------------------------------------------------------------------------------------

PLACES = {"dependencies": "counter", "processed": "processed", "flow:outbox": "outbox", "pending": "pending"}
"""Where a completion may leave something, and what the exercise calls it."""


def _claimed(kit: Kit) -> Any:
    kit.flows.add("orders", Flow("order 7", [Child("pick", "stock")]).with_ids(Minter.fixed()))
    return kit.jobs.claim("stock")


def _completed(kit: Kit, claim: Any) -> Came:
    before = capture(kit.server)
    kit.jobs.complete("stock", claim)
    made = [keys.parse(change.key) for change in diff(before, capture(kit.server)) if change.kind != "removed"]
    left = [PLACES[at.name] for at in made if at is not None and at.name in PLACES]
    return Came(left[0] if len(left) == 1 else ", ".join(left))


AFTER_THE_CHILD = Exercise(
    "after-the-child",
    LESSON,
    "predict",
    "What does the completion of a child of another queue change, besides taking the child away?",
    judge_prediction(
        _claimed,
        _completed,
        "one of the four words, in quotation marks",
        "One script runs on one slot. Which keys are on the slot of the child?",
        "The parent's keys are out of reach. What the parent has to hear is left on this side, for somebody to fetch.",
    ),
    (
        Classic(
            "counts at once",
            "Not yet. The counter is on the slot of the parent, and this script runs on that of the child.",
            lambda found, handed: handed == PLACES["dependencies"],
        ),
        Classic(
            "records at once",
            "Not yet. The results are beside the parent, on its slot, which the script of the child cannot reach.",
            lambda found, handed: handed == PLACES["processed"],
        ),
        Classic(
            "releases at once",
            "Not yet. Even the last child of another queue does not release its parent by itself.",
            lambda found, handed: handed == PLACES["pending"],
        ),
    ),
)


# --- the delivery that counts once ----------------------------------------------------------------------------------

TWICE = World("delivered-again", CREW, TWO, Faults(redeliveries=1))
DELIVERY = Exercise(
    "delivery",
    LESSON,
    "write",
    "The deliver script so that a re-delivery counts once.",
    judge_lua("flow_deliver", TWICE, *promises("P2", "P3", "P4", "P5", "P8")),
    (
        Classic(
            "counts every delivery",
            "Not yet. An entry that comes a second time is counted a second time, for a child that is counted already.",
            lambda found, handed: found.promise in ("P5", "P8", "P4") and "re-delivery" in _kinds(found),
        ),
        Classic(
            "never releases",
            "Not yet. Every child is through, and its parent still waits: somebody has to let it go at the last one.",
            lambda found, handed: found.promise == "P3",
        ),
        Classic(
            "counts nothing",
            "Not yet. What is recorded and what the counter says do not add up after the very first delivery.",
            lambda found, handed: found.promise == "P5",
        ),
        Classic(
            "releases too early",
            "Not yet. The parent goes out to a worker while a child is still at work.",
            lambda found, handed: found.promise == "P2",
        ),
    ),
    about=("P2", "P3", "P4", "P5", "P8"),
)


def _kinds(found: Judgement) -> tuple[str, ...]:
    return tuple(move.kind for move in found.history.moves) if found.history else ()


# --- the add that fails closed --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adder(Actor):
    """Adds one flow by a learner's operation; stopped, or without a reply, it does so again with the same ids."""

    role: ClassVar[Role] = "producer"

    queue: str
    flow: Flow
    function: Callable[..., Any]

    @property
    def title(self) -> str:
        return "producer"

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.queue,)

    def begin(self, kit: Kit) -> tuple[Choice, ...]:
        children = tuple(AddedChild(child.queue or self.queue, str(child.id)) for child in self.flow.children)
        gives = AddedFlow(self.queue, str(self.flow.id), children)
        return (Choice(program(self.function, kit, self.queue, self.flow, name="add", gives=gives)),)

    def after(self, kit: Kit, memory: Hashable, ended: Program[Any], done: Done[Any]) -> tuple[Choice, ...]:
        return self.begin(kit) if isinstance(done.error, ReplyLost) else REST


@of_state("no child without its parent", Witness.CLAIMED)
def _with_its_parent(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
    for link in world.links.values():
        if keyspace[link.queue].row(link.id) and not keyspace[link.parent_queue].row(link.parent_id):
            yield f"{world.label(link.id)} is there, and {world.label(link.parent_id)} is not"


FAIL_CLOSED = Promise("P1", "all or nothing", "No child is there without its parent.", (_with_its_parent,))
REFUSED = tuple(
    replace(plan, flow=replace(plan.flow, id="ORD" + str(plan.flow.id)[3:]))
    for plan in planned("orders", Flow("order", [Child("pick", "stock")]))
)


def _judge_add(trial: Judging, handed: object) -> Judgement:
    function = operation_of(handed, "queue", "flow")
    among = (FAIL_CLOSED, *promises("P2", "P3", "P5"))
    (plan,) = TWO
    adder = Adder("orders", plan.flow, function)
    world = World("adding", (adder, *CREW), TWO, Faults(), landed=False)
    finding = of_result(trial.explore(world, among=among), among)
    if not finding.met:
        return finding
    refused = World("refused", (Adder("orders", REFUSED[0].flow, function), *CREW), REFUSED, landed=False)
    result = trial.explore(refused, among=(FAIL_CLOSED,))
    if result.violations:
        return replace(of_result(result, (FAIL_CLOSED,)), facts={"refused": True})
    return finding


ADD = Exercise(
    "add",
    LESSON,
    "write",
    "The operation that adds a flow across queues, fail-closed.",
    _judge_add,
    (
        Classic(
            "goes on after a refusal",
            "Not yet. When the parent is refused, the children land all the same: calls of one flush all run, and an "
            "error that is caught stops nothing.",
            lambda found, handed: "refused" in found.facts,
        ),
        Classic(
            "children first",
            "Not yet. A child is there before its parent is, and may be done before anybody counts.",
            lambda found, handed: found.promise == "P1",
        ),
        Classic(
            "counter wrong",
            "Not yet. The counter does not start at the number of children, so it never comes out even.",
            lambda found, handed: found.promise in ("P5", "P2"),
        ),
        Classic(
            "a child left out",
            "Not yet. The flow is answered to have landed, and its parent waits for a child that never came.",
            lambda found, handed: found.promise == "P3",
        ),
    ),
    about=("P1", "P2", "P3", "P5"),
)

EXERCISES = (AFTER_THE_CHILD, DELIVERY, ADD)
