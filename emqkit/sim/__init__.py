"""Explores every order of calls and every placement of a few faults, on the scripts and operations that ship.

    result = emqkit.explore("flagship")               # or a World of your own
    result.verdicts["P3"].word                        # holds, broken or unknown
    result.violations[0].history.trace                # the shortest counterexample, to step through

Read `scenarios` for the worlds, `faults` for what can go wrong and where, `promises` for what is checked.
"""

from __future__ import annotations

from emqkit.sim.catalogue import explore, scenario
from emqkit.sim.history import History
from emqkit.sim.report import Result
from emqkit.sim.search.judge import Verdict, Violation
from emqkit.sim.worlds.actors import (
    Actor,
    Choice,
    Kit,
    Operator,
    Producer,
    Promoter,
    PumpActor,
    Reaper,
    Repeating,
    Worker,
    WorkerActor,
)
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.scenarios import SCENARIOS
from emqkit.sim.worlds.world import Planned, World, planned

__all__ = [
    "SCENARIOS",
    "Actor",
    "Choice",
    "Faults",
    "History",
    "Kit",
    "Operator",
    "Planned",
    "Producer",
    "Promoter",
    "PumpActor",
    "Reaper",
    "Repeating",
    "Result",
    "Verdict",
    "Violation",
    "Worker",
    "WorkerActor",
    "World",
    "explore",
    "planned",
    "scenario",
]
