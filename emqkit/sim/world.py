"""Where `planned` used to be, and is still found; the room is `emqkit.sim.worlds`."""

from emqkit.sim.worlds.world import Planned, World, planned

__all__ = ["Planned", "World", "planned"]
