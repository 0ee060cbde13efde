"""The former place of `planned`, kept for imports; worlds are in `emqkit.sim.worlds`."""

from emqkit.sim.worlds.world import Planned, World, planned

__all__ = ["Planned", "World", "planned"]
