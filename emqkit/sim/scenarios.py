"""The worlds that are explored by name: each says who acts, what may go wrong, and which promises it is there to try."""

from __future__ import annotations

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow
from emqkit.sim.actors import Deed, Operator, Producer, PumpActor, Reaper, Worker
from emqkit.sim.faults import Faults
from emqkit.sim.world import World, planned

__all__ = ["SCENARIOS", "scenario"]


def _flagship() -> World:
    flows = planned("orders", Flow("order", [Child(name, queue="stock") for name in ("pick", "pack", "label")]))
    return World(
        "flagship",
        (
            Worker("stock"),
            Worker("stock"),
            Worker("orders"),
            PumpActor("stock"),
            Reaper("stock"),
            Reaper("orders"),
        ),
        flows,
        Faults(crashes=2, lost_replies=1, lapses=1),
        summary="a parent and three children in another queue",
    )


SCENARIOS = {world.name: world for world in (_flagship(),)}


def scenario(name: str) -> World:
    """A listed world by name. Raises `BadArgument` when there is none of that name."""
    try:
        return SCENARIOS[name]
    except KeyError:
        raise BadArgument("scenario", name, f"is none of {', '.join(SCENARIOS)}") from None
