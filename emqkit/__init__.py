"""Learn, explore and try to break the flows of EchoMQ, over its real Lua scripts.

server = emqkit.open_server()                     # fakeredis with Lua; or "embedded://", "valkey://host:port/db"
flows, jobs = emqkit.Flows(server), emqkit.Jobs(server)
added = flows.add("orders", emqkit.Flow("pack order 7", [emqkit.Child("pick"), emqkit.Child("label")]))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from emqkit.errors import *  # noqa: F403
from emqkit.errors import __all__ as _errors
from emqkit.flows import AddedChild, AddedFlow, BulkAdded, Child, FailedFlow, Flow, Flows
from emqkit.ids import Minter
from emqkit.jobs import Claim, Depths, Enqueued, Jobs
from emqkit.jobs import Enqueued as Verdict  # its name of old
from emqkit.log import logger
from emqkit.native import Native
from emqkit.pump import Pump, Swept
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import Server, open_server
from emqkit.snapshot import Snapshot, capture
from emqkit.stepper import Stepped, step, step_call
from emqkit.trace import Trace, record
from emqkit.transitions import ParentLink
from emqkit.wire import Call, Flush, Program, operation, run
from emqkit.worker import Ran, Worked, Worker

if TYPE_CHECKING:
    from emqkit.sim.catalogue import explore
    from emqkit.sim.worlds.world import World
    from emqkit.widgets import BulkLedger, CounterLab, OutboxLab, Predict, PumpCrashLab, StepPlayer

__all__ = [
    *_errors,
    "AddedChild",
    "AddedFlow",
    "BulkAdded",
    "BulkLedger",
    "Call",
    "Child",
    "Claim",
    "CounterLab",
    "Depths",
    "Enqueued",
    "FailedFlow",
    "Flow",
    "Flows",
    "Flush",
    "Jobs",
    "Minter",
    "Native",
    "OutboxLab",
    "ParentLink",
    "Predict",
    "Program",
    "Pump",
    "PumpCrashLab",
    "Ran",
    "Script",
    "ScriptSet",
    "Server",
    "Snapshot",
    "StepPlayer",
    "Stepped",
    "Swept",
    "Trace",
    "Verdict",
    "Worked",
    "Worker",
    "World",
    "capture",
    "explore",
    "logger",
    "open_server",
    "operation",
    "record",
    "run",
    "step",
    "step_call",
]

__version__ = "0.1.0"

# Imported on first use, so that `import emqkit` needs neither ipywidgets nor matplotlib.
_LAZY = dict.fromkeys(
    ("BulkLedger", "CounterLab", "OutboxLab", "Predict", "PumpCrashLab", "StepPlayer"), "emqkit.widgets"
)
_LAZY |= dict.fromkeys(("World", "explore"), "emqkit.sim")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'emqkit' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
