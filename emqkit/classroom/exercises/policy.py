"""Exercises on failures and what they do to a parent."""

from __future__ import annotations

from typing import Any

from emqkit.classroom.checks import Came, Exercise, judge_history, judge_lua, judge_prediction, promises
from emqkit.classroom.hints import Classic, Judgement
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.sim.worlds.actors import Kit, PumpActor, Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import World, planned

__all__ = ["EXERCISES", "WORLDS"]

LESSON = "04_failure_policy"


def _mixed(kit: Kit) -> Any:
    children = [Child("pick"), Child("pack"), Child("label", on_failure="ignore")]
    added = kit.flows.add("orders", Flow("order 7", children).with_ids(Minter.fixed()))
    return added, [kit.jobs.claim("orders") for _ in children]


def _deaths(kit: Kit, setting: Any) -> Came:
    added, (pick, pack, label) = setting
    states = []
    for settle in (
        lambda: kit.jobs.retry("orders", label, error="no ink", max_attempts=1),
        lambda: kit.jobs.retry("orders", pack, error="no box", max_attempts=1),
        lambda: kit.jobs.complete("orders", pick),
    ):
        settle()
        states.append((kit.jobs.state("orders", added.parent_id), kit.flows.dependencies("orders", added.parent_id)))
    return Came(states[-1], {"before": states[0], "at the death": states[1]})


DEATHS = Exercise(
    "deaths",
    LESSON,
    "predict",
    "What state is the parent in, and what does its counter say, after an ignored death, a fatal one and a completion?",
    judge_prediction(
        _mixed,
        _deaths,
        'a state and a number, such as ("pending", 0)',
        "Take the three settles one by one: what does each do to the state, and what to the counter?",
        "A fatal death moves the parent and leaves the counter; the siblings run on and are counted as ever.",
    ),
    (
        Classic(
            "the parent waits on",
            "Not yet. A death that fails the parent does so at once; nobody waits for the siblings.",
            lambda found, handed: handed[0] == found.facts["before"][0],
        ),
        Classic(
            "counts the fatal death",
            "Not yet. A death that fails the parent satisfies nothing: the counter leaves it out.",
            lambda found, handed: handed == (found.facts["right"][0], found.facts["right"][1] - 1),
        ),
        Classic(
            "siblings stop",
            "Not yet. The siblings of a fatal death run on, and what they come to is counted all the same.",
            lambda found, handed: handed == found.facts["at the death"],
        ),
        Classic(
            "released all the same",
            "Not yet. A parent that has died of a child is not brought back by another one.",
            lambda found, handed: handed[0] not in (found.facts["right"][0], found.facts["before"][0]),
        ),
    ),
)

CROSS = World(
    "deaths-delivered",
    (Worker("stock", "either"), Worker("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
    planned("orders", Flow("order", [Child("pick", "stock", "ignore"), Child("pack", "stock")])),
    Faults(redeliveries=1),
)


(POLICY,) = promises("P13")

DELIVERY = Exercise(
    "death-delivery",
    LESSON,
    "write",
    "The delivery of a death: the policy decides, and a second delivery changes nothing.",
    judge_lua("flow_fail_deliver", CROSS, POLICY, *promises("P4", "P5", "P8")),
    (
        Classic(
            "every death is ignored",
            "Not yet. A child whose death shall fail its parent dies, and the parent waits on, or goes on without it.",
            lambda found, handed: found.promise == "P13" and "fail" in _policy(found),
        ),
        Classic(
            "every death is fatal",
            "Not yet. A child whose death shall be ignored takes its parent with it.",
            lambda found, handed: found.promise == "P13",
        ),
        Classic(
            "counts again",
            "Not yet. A death that is delivered a second time is counted a second time.",
            lambda found, handed: (
                found.history is not None and any(move.kind == "re-delivery" for move in found.history.moves)
            ),
        ),
        Classic(
            "counts the fatal death",
            "Not yet. The counter and the records do not add up: which deaths satisfy a dependency, and which do not?",
            lambda found, handed: found.promise == "P5",
        ),
    ),
    about=("P4", "P5", "P8", "P13"),
)


def _policy(found: Judgement) -> str:
    """What the last delivery of the history said the death does: `fail` or `ignore`."""
    assert found.history is not None
    calls = [call for move in found.history.moves for call, _ in move.calls if call.verb == "flow_fail_deliver"]
    return "fail" if calls and b"fp" in calls[-1].args else "ignore"


DYING = World(
    "deaf",
    (Worker("orders", "either"), Reaper("orders")),
    planned("orders", Flow("order", [Child("pick"), Child("pack", on_failure="ignore")])),
)
WORLDS = {"deaf": (DYING, "zoo/deaf-to-policy")}


def _died(found: Judgement) -> set[str]:
    """What died in a history, by payload."""
    died: set[str] = set()
    for move in found.history.moves if found.history else ():
        for call, reply in move.calls:
            if call.verb == "retry" and reply == b"dead":
                died.add(DYING.label(call.args[0].decode()))
    return died


DEAF = Exercise(
    "deaf",
    LESSON,
    "find",
    "These scripts are deaf to a policy: the history that shows it.",
    judge_history(
        DYING,
        "zoo/deaf-to-policy",
        "P13",
        "Which child's death should do something to the parent? Claim that one, and let its work fail.",
    ),
    (
        Classic(
            "nobody dies",
            "Not yet. Nobody dies in your history, and before a death no policy is asked.",
            lambda found, handed: not _died(found),
        ),
        Classic(
            "the ignored one dies",
            "Not yet. The child that dies in your history is the one whose death is ignored: that is what happens.",
            lambda found, handed: _died(found) == {"pack"},
        ),
        Classic(
            "goes on for too long",
            "Not yet. It was broken on the way and your history went on: end it with the move that breaks it.",
            lambda found, handed: "pick" in _died(found),
        ),
    ),
    scripts="zoo/deaf-to-policy",
    about=("P13",),
)

EXERCISES = (DEATHS, DELIVERY, DEAF)
