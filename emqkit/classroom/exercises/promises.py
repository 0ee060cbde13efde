"""Exercises on promises: to find what breaks one, and to write one that notices."""

from __future__ import annotations

from dataclasses import replace

from emqkit.classroom.checks import Exercise, Judging, judge_history, judge_promise
from emqkit.classroom.handed import NotThat
from emqkit.classroom.hints import Classic, Judgement
from emqkit.flows import Child, Flow
from emqkit.keyspace import Keyspace, digest
from emqkit.sim.promises import names
from emqkit.sim.worlds.actors import Deed, Operator, Producer, PumpActor, Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import World, planned

__all__ = ["ACCIDENTS", "EXERCISES", "WORLDS"]

LESSON = "07_promises_kept"

LOST = "d4f1af999279890875011f118dcf71f23a36e1d9c97145e32993689de7c393f0"
DOUBLE = "1d7edb74900fc4c3d8783a1cde0b0afdb9048a58cbd3835372c3a6612767eebf"
"""The fingerprints of the keyspaces that two accidents left."""

SAME = planned("orders", Flow("order", [Child("pick"), Child("pack")]))
CROSS = planned("orders", Flow("order", [Child("pick", "stock"), Child("pack", "stock")]))
PICK = str(SAME[0].flow.children[0].id)
CALM = World("calm", (Worker("orders"), Reaper("orders")), SAME)
CRASHING = replace(CALM, name="crashing", faults=Faults(crashes=1))
LANDING = World("landing-alone", (Producer("orders", (SAME[0].flow,)), Reaper("orders")), SAME, landed=False)
REMOVING = World("removing", (Operator((Deed("remove", "orders", PICK),)), Worker("orders"), Reaper("orders")), SAME)
DELIVERING = World(
    "delivering",
    (Worker("stock"), Worker("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
    CROSS,
    Faults(redeliveries=1),
)
FIVE = {
    "parent-not-held": LANDING,
    "lapsed-is-lost": CRASHING,
    "half-removed": REMOVING,
    "early-release": CALM,
    "no-first-record": DELIVERING,
}

INVARIANT = Exercise(
    "invariant",
    LESSON,
    "defend",
    "The promise that notices these five mistakes and is kept by the published scripts.",
    judge_promise(FIVE, (LANDING, CRASHING, REMOVING, DELIVERING)),
    (
        Classic(
            "asks too much",
            "Not yet. The published scripts do not keep your promise either, so it asks for more than anybody is owed.",
            lambda found, handed: found.facts.get("asks too much") is True,
        ),
        Classic(
            "notices nothing",
            "Not yet. Your promise is kept by everybody, those who make the mistakes too: it says nothing yet.",
            lambda found, handed: found.facts.get("noticed") == 0,
        ),
        Classic(
            "looks at one side",
            "Not yet. Some mistakes show in the sets and some at the counter: your promise looks at one of the two.",
            lambda found, handed: found.facts.get("noticed") not in (None, 0),
        ),
    ),
)


# --- found by hand --------------------------------------------------------------------------------------------------

EARLY_WORLD = World("early", (Worker("orders"), Worker("orders"), Reaper("orders")), SAME)
EARLY = Exercise(
    "early",
    LESSON,
    "find",
    "The order in which these scripts release a parent early, and a worker takes it.",
    judge_history(
        EARLY_WORLD,
        "zoo/early-release",
        "P2",
        "Watch pending of orders after the first completion: who is in it, and whom does the next claim take?",
    ),
    (
        Classic(
            "nobody claims it",
            "Not yet. The parent is out too early, which is half of it: somebody has to claim it while a child is out.",
            lambda found, handed: "release" in _said(found),
        ),
        Classic(
            "every child is through",
            "Not yet. When the parent is claimed in your history, no child is outstanding any more: nothing is wrong.",
            lambda found, handed: _count(found, "complete") >= len(SAME[0].flow.children),
        ),
        Classic(
            "no child is through",
            "Not yet. No child has completed in your history, and before that nobody releases the parent.",
            lambda found, handed: _count(found, "complete") == 0,
        ),
    ),
    scripts="zoo/early-release",
    about=("P2",),
)


def _count(found: Judgement, verb: str) -> int:
    moves = found.history.moves if found.history else ()
    return sum(call.verb == verb and reply == 1 for move in moves for call, reply in move.calls)


def _said(found: Judgement) -> str:
    """What a history that is not there yet shows of its parent: `release` if that is out while a child is."""
    if found.history is None or not found.history.moves or _count(found, "complete") != 1:
        return ""
    parent = str(SAME[0].flow.id)
    return "release" if parent in Keyspace.of(found.history.moves[-1].after)["orders"].members("pending") else ""


# --- accidents ------------------------------------------------------------------------------------------------------


def _accident(name: str, world: World, scripts: str, seen: str, asks: str) -> Exercise:
    """A post-mortem: from what a keyspace is left with to the promise that broke and a history that ends so.

    Args:
        name: of the exercise.
        world: where it happened.
        scripts: on which script set.
        seen: the fingerprint of the keyspace that was left.
        asks: the question.
    """

    def judge(trial: Judging, promise: object, handed: object) -> Judgement:
        if promise not in names():
            raise NotThat('Hand in the name of a promise, such as "P7", and a history.')
        done = trial.replay(handed, world, scripts, str(promise))
        after = done.history.moves[-1].after if done.history.moves else done.history.initial
        same = digest(after) == seen
        facts = {"same": same, "confirmed": done.confirmed}
        if same and done.confirmed:
            return Judgement(True, f"Met. Your history ends as the accident did, and {promise} is broken there.")
        rungs = (
            "Compare the end of your history with what was left, set by set and row by row: what is the first thing "
            "that is there in one of them only?",
            "Who writes that? Have that actor move, and look again.",
        )
        return Judgement(False, "Not yet.", rungs, done.history.trace, history=done.history, facts=facts)

    return Exercise(
        name,
        LESSON,
        "post-mortem",
        asks,
        judge,
        (
            Classic(
                "another promise",
                "Not yet. Your history ends as the accident did, and yet the promise you name is kept there.",
                lambda found, *handed: found.facts.get("same") is True,
            ),
            Classic(
                "another end",
                "Not yet. The promise you name breaks in your history, but it ends otherwise than the accident did.",
                lambda found, *handed: found.facts.get("confirmed") is True,
            ),
            Classic(
                "neither",
                "Not yet. Your history ends otherwise than the accident did, and the promise you name is kept in it.",
                lambda found, *handed: found.facts.get("confirmed") is False,
            ),
        ),
        scripts=scripts,
    )


LOST_WORLD = World("lost", (Worker("orders"), Reaper("orders")), SAME, Faults(crashes=1))
DOUBLE_WORLD = World(
    "double",
    (Worker("stock"), Worker("orders"), PumpActor("stock")),
    CROSS,
    Faults(crashes=1),
)
ACCIDENTS = {
    "lost": (LOST_WORLD, "zoo/lapsed-is-lost", LOST),
    "double": (DOUBLE_WORLD, "zoo/no-first-record", DOUBLE),
}
LOST_ONE = _accident(
    "lost", *ACCIDENTS["lost"], "A job that is nowhere: which promise broke, and how did it come to that?"
)
DOUBLE_ONE = _accident("double", *ACCIDENTS["double"], "A counter that does not add up: which promise broke, and how?")
WORLDS = {"early": (EARLY_WORLD, "zoo/early-release")} | {n: (w, s) for n, (w, s, _) in ACCIDENTS.items()}

EXERCISES = (EARLY, LOST_ONE, DOUBLE_ONE, INVARIANT)
