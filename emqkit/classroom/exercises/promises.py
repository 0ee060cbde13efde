"""Exercises on promises: to find what breaks one, and to write one that notices."""

from __future__ import annotations

from dataclasses import replace

from emqkit.classroom.checks import Exercise, judge_promise
from emqkit.classroom.hints import Classic
from emqkit.flows import Child, Flow
from emqkit.sim.worlds.actors import Deed, Operator, Producer, PumpActor, Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import World, planned

__all__ = ["EXERCISES"]

LESSON = "07_promises_kept"

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

EXERCISES = (INVARIANT,)
