"""The named worlds (scenarios): each says who acts, what may go wrong, and what it tests.

None of them was tuned until it was quiet. They are small on purpose: what breaks a promise usually does so with two
children and one fault, and a small state space is explored whole. Every budget can be raised from the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from emqkit import keys
from emqkit.flows import Child, Flow
from emqkit.sim.worlds.actors import Deed, Operator, Producer, Promoter, PumpActor, Reaper, WorkerActor
from emqkit.sim.worlds.faults import Faults, Poisoning
from emqkit.sim.worlds.witness import Witness, crash_between
from emqkit.sim.worlds.world import World, planned

__all__ = ["SCENARIOS"]

BETWEEN = crash_between("pump.sweep", "flow_deliver", "LTRIM")


def _two(queue: str | None = None, *, ignore_second: bool = False) -> Flow:
    return Flow("order", [Child("pick", queue), Child("pack", queue, "ignore" if ignore_second else "fail")])


def _worlds() -> Iterator[World]:
    crossing = planned("orders", _two("stock"))
    same = planned("orders", _two())
    mixed = planned("orders", _two(ignore_second=True))
    mixed_crossing = planned("orders", _two("stock", ignore_second=True))
    parent = str(same[0].flow.id)
    pick, pack = (str(child.id) for child in same[0].flow.children)

    # --- crashes, lapses and lost replies around a flow that has landed -------------------------------------------
    yield World(
        "flagship",
        (
            WorkerActor("stock"),
            WorkerActor("stock"),
            WorkerActor("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        planned("orders", Flow("order", [Child(name, "stock") for name in ("pick", "pack", "label")])),
        Faults(crashes=2, lost_replies=1, lapses=1),
        witnesses=(Witness.DELIVERED_AGAIN, BETWEEN, Witness.REAPED),
        summary="three children in another queue, two workers, a Pump, and everything that can go wrong at once",
    )
    yield World(
        "pump-crashes",
        (WorkerActor("stock"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        crossing,
        Faults(crashes=3),
        witnesses=(Witness.DELIVERED_AGAIN, BETWEEN),
        summary="the promise of the Pump: it crashes in any of its gaps, again and again",
    )
    yield World(
        "same-queue",
        (WorkerActor("orders"), WorkerActor("orders"), Reaper("orders")),
        same,
        Faults(crashes=2, lost_replies=1),
        summary="a flow in one queue; workers crash and lose replies",
    )
    yield World(
        "lapses",
        (WorkerActor("orders"), WorkerActor("orders"), Reaper("orders")),
        same,
        Faults(lapses=2),
        witnesses=(Witness.REAPED,),
        summary="leases lapse under workers that are alive and settle all the same",
    )
    yield World(
        "heartbeats",
        (WorkerActor("orders", heartbeats=True), WorkerActor("orders"), Reaper("orders")),
        same,
        Faults(lapses=1),
        witnesses=(Witness.EXTENDED, Witness.REAPED),
        summary="a worker extends its lease, in time or too late",
    )
    yield World(
        "heartbeats-together",
        (WorkerActor("orders", heartbeats=True, together=True), WorkerActor("orders"), Reaper("orders")),
        same,
        Faults(lapses=1),
        witnesses=(Witness.EXTENDED, Witness.REAPED),
        summary="the same by extend_locks, many leases under one clock read",
    )
    yield World(
        "script-flush",
        (WorkerActor("stock"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        crossing,
        Faults(script_flushes=1, crashes=1),
        witnesses=(Witness.FORGOTTEN,),
        summary="the server forgets its scripts in the middle of it",
    )
    # --- failures and their policies ------------------------------------------------------------------------------
    yield World(
        "failures",
        (WorkerActor("orders", "either"), WorkerActor("orders", "either"), Reaper("orders")),
        mixed,
        Faults(crashes=1),
        summary="children die of their only failure, one failing its parent, one ignored",
    )
    yield World(
        "failures-cross-queue",
        (WorkerActor("stock", "either"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        mixed_crossing,
        Faults(crashes=1, lost_replies=1, redeliveries=1),
        witnesses=(Witness.DELIVERED_AGAIN,),
        summary="deaths in another queue, signalled and delivered by a Pump, once more than needed",
    )
    yield World(
        "retries",
        (WorkerActor("orders", "either", max_attempts=2), WorkerActor("orders"), Promoter("orders"), Reaper("orders")),
        mixed,
        Faults(crashes=1),
        summary="a failure is tried again later, and the second one is a death",
    )
    yield World(
        "repeated-settles",
        (WorkerActor("orders", "either"), WorkerActor("orders"), Reaper("orders")),
        mixed,
        Faults(lost_replies=1),
        witnesses=(Witness.SETTLED_AGAIN,),
        summary="a settle's reply is lost, and the worker settles again with the same token",
    )
    yield World(
        "repeated-retries",
        (WorkerActor("orders", "fail", max_attempts=2), WorkerActor("orders"), Promoter("orders"), Reaper("orders")),
        mixed,
        Faults(lost_replies=1),
        witnesses=(Witness.SETTLED_AGAIN,),
        summary="the same for a failure that is not the last one",
    )
    # --- landing, stopped anywhere and tried again by id ----------------------------------------------------------
    yield World(
        "landing",
        (Producer("orders", (same[0].flow,)), WorkerActor("orders"), Reaper("orders")),
        same,
        Faults(crashes=1, lost_replies=1),
        landed=False,
        witnesses=(Witness.LANDED_AGAIN,),
        summary="the producer of a one-queue flow is stopped anywhere and adds it again by id",
    )
    yield World(
        "landing-cross-queue",
        (
            Producer("orders", (crossing[0].flow,)),
            WorkerActor("stock"),
            WorkerActor("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        crossing,
        Faults(crashes=1),
        landed=False,
        witnesses=(Witness.LANDED_AGAIN,),
        summary="the same for children in another queue: parent first, then each child",
    )
    yield World(
        "landing-and-dying",
        (Producer("orders", (mixed[0].flow,)), WorkerActor("orders", "fail"), Reaper("orders")),
        mixed,
        landed=False,
        summary="children are claimed and die while their policies are still on the way",
    )
    yield World(
        "added-twice",
        (Producer("orders", (same[0].flow,), repeats=1), WorkerActor("orders"), Reaper("orders")),
        same,
        landed=False,
        witnesses=(Witness.LANDED_AGAIN,),
        summary="nothing fails; the same add is done once more although it was answered",
    )
    foreign = Flow("foreign", [Child("guest"), Child("alien", id="ORD" + pick[3:])])
    batch = planned("orders", _two(), foreign, Flow("late", [Child("wrap")]))
    yield World(
        "bulk",
        (Producer("orders", tuple(plan.flow for plan in batch), bulk=True), WorkerActor("orders"), Reaper("orders")),
        batch,
        Faults(crashes=1),
        landed=False,
        witnesses=(Witness.NOT_LANDED,),
        summary="three flows in one batch, the one in the middle refused; the batch is stopped and added again",
    )
    batch = planned("orders", _two("stock"), Flow("foreign", [Child("alien", "stock", id="ORD" + pick[3:])]))
    yield World(
        "bulk-cross-queue",
        (
            Producer("orders", tuple(plan.flow for plan in batch), bulk=True),
            WorkerActor("stock"),
            WorkerActor("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        batch,
        landed=False,
        witnesses=(Witness.NOT_LANDED,),
        summary="a batch across queues: the refused flow leaves its parent held",
    )
    # --- trees ----------------------------------------------------------------------------------------------------
    tree = planned("orders", Flow("root", [Child("branch", children=[Child("leaf")])]))
    yield World(
        "tree",
        (WorkerActor("orders", "either"), WorkerActor("orders"), PumpActor("orders"), Reaper("orders")),
        tree,
        Faults(crashes=2, lost_replies=1),
        summary="two levels in one queue; an inner node is released, works or dies, and so decides over the root",
    )
    yield World(
        "tree-landing",
        (Producer("orders", (tree[0].flow,)), WorkerActor("orders"), PumpActor("orders"), Reaper("orders")),
        tree,
        Faults(crashes=1),
        landed=False,
        witnesses=(Witness.LANDED_AGAIN,),
        summary="a tree lands node by node while a worker already works on it, and is added again",
    )
    yield World(
        "climbing",
        (WorkerActor("orders", "fail"), PumpActor("orders"), Reaper("orders")),
        planned("orders", Flow("root", [Child("branch", children=[Child("twig", children=[Child("leaf")])])])),
        Faults(crashes=1, lost_replies=1),
        witnesses=(Witness.CHILD_DIED,),
        summary="a leaf dies, and its death climbs three levels, by a retry and by the Pump, with a crash anywhere",
    )
    yield World(
        "climbing-cross-queue",
        (
            WorkerActor("stock", "fail"),
            WorkerActor("orders"),
            PumpActor("stock"),
            PumpActor("orders"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        planned("orders", Flow("root", [Child("branch", children=[Child("leaf", "stock")])])),
        Faults(crashes=1),
        witnesses=(Witness.CHILD_DIED,),
        summary="the same with the leaf in another queue: both levels climb by Pumps",
    )
    # --- Pumps ----------------------------------------------------------------------------------------------------
    yield World(
        "two-pumps",
        (
            WorkerActor("stock"),
            WorkerActor("orders"),
            PumpActor("stock"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        crossing,
        witnesses=(Witness.DELIVERED_AGAIN,),
        summary="two Pumps sweep one queue, and nothing else goes wrong",
    )
    yield World(
        "re-delivery",
        (WorkerActor("stock"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        crossing,
        Faults(redeliveries=2),
        witnesses=(Witness.DELIVERED_AGAIN,),
        summary="entries come a second and a third time after they were trimmed, also when the parent is done",
    )
    yield World(
        "poison",
        (WorkerActor("stock"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        crossing,
        Faults(
            poisons=1,
            poison=(
                Poisoning("an entry with too few fields", "stock", entry=b"orders\0nobody"),
                Poisoning(
                    "an entry with an ill-formed id", "stock", entry=b"orders\0nobody\0" + pick.encode() + b"\0done"
                ),
            ),
        ),
        summary="an outbox entry that nobody can deliver, with good ones behind it",
    )
    pair = planned("orders", Flow("spoilt", [Child("first", "stock")]), Flow("sound", [Child("second", "stock")]))
    yield World(
        "poison-wrong-type",
        (WorkerActor("stock"), WorkerActor("orders"), PumpActor("stock"), Reaper("stock"), Reaper("orders")),
        pair,
        Faults(
            poisons=1,
            poison=(
                Poisoning(
                    "a parent's processed turns out to be a string",
                    "orders",
                    spoil=keys.subkey("orders", str(pair[0].flow.id), "processed"),
                ),
            ),
        ),
        summary="an entry whose script answers an error, with that of another flow behind it",
    )
    yield World(
        "small-batches",
        (
            WorkerActor("stock", "either"),
            WorkerActor("orders"),
            PumpActor("stock", 1),
            Reaper("stock"),
            Reaper("orders"),
        ),
        mixed_crossing,
        Faults(crashes=2),
        witnesses=(BETWEEN,),
        summary="a Pump that reads one entry a pass, and crashes",
    )
    # --- operators ------------------------------------------------------------------------------------------------
    yield World(
        "reprocessed-child",
        (WorkerActor("orders", "either"), Reaper("orders"), Operator((Deed("reprocess", "orders", pack),))),
        mixed,
        witnesses=(Witness.RAN_AGAIN,),
        summary="an operator reprocesses a dead child whose outcome its parent already has",
    )
    yield World(
        "reprocessed-child-cross-queue",
        (
            WorkerActor("stock", "either"),
            WorkerActor("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
            Operator((Deed("reprocess", "stock", pack),)),
        ),
        mixed_crossing,
        witnesses=(Witness.RAN_AGAIN,),
        summary="the same across queues, also while the death still waits in the outbox",
    )
    yield World(
        "reprocessed-parent",
        (WorkerActor("orders", "either"), Reaper("orders"), Operator((Deed("reprocess", "orders", parent),))),
        same,
        witnesses=(Witness.REPROCESSED,),
        summary="an operator reprocesses a parent that died of a child, while a sibling is still out",
    )
    yield World(
        "removed-child",
        (WorkerActor("orders"), WorkerActor("orders"), Reaper("orders"), Operator((Deed("remove", "orders", pick),))),
        same,
        Faults(lapses=1),
        witnesses=(Witness.REMOVED,),
        summary="an operator removes a child, wherever it stands",
    )
    yield World(
        "removed-parent",
        (WorkerActor("orders"), WorkerActor("orders"), Reaper("orders"), Operator((Deed("remove", "orders", parent),))),
        same,
        witnesses=(Witness.REMOVED,),
        summary="an operator removes a held parent while its children run",
    )
    yield World(
        "removed-parent-cross-queue",
        (
            WorkerActor("stock", "either"),
            WorkerActor("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
            Operator((Deed("remove", "orders", parent),)),
        ),
        mixed_crossing,
        Faults(crashes=1),
        witnesses=(Witness.REMOVED,),
        summary="the same while its children's signals are under way",
    )
    yield World(
        "pause",
        (
            WorkerActor("orders"),
            WorkerActor("orders"),
            Reaper("orders"),
            Operator((Deed("pause", "orders"), Deed("resume", "orders"))),
        ),
        same,
        Faults(crashes=1, lost_replies=1),
        summary="an operator pauses the queue and resumes it",
    )


SCENARIOS = MappingProxyType({world.name: world for world in _worlds()})
"""Every listed world by name."""
