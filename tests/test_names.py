"""What was importable stays importable, and no two public classes share a name."""

from __future__ import annotations

import importlib

import pytest

import emqkit

ONCE = {
    "emqkit": """AddedChild AddedFlow BadArgument BadFlow BadHeader BulkAdded BulkLedger Call Child Claim CounterLab
        Depths EmqError FailedFlow Flow FlowNotNative Flows Flush IllFormedId IllFormedQueue JobGone JobLocked Jobs
        Minter Native NotDead NotThisYet OutboxLab ParentLink Program Pump PumpCrashLab Ran Refused ReplyLost Script
        ScriptArity ScriptMissing ScriptSet Server Snapshot StaleToken StepPlayer Stepped Stopped Swept Trace
        Unreachable UnsuitableServer Verdict Worked Worker World WrongNamespace capture explore open_server operation
        record run step step_call""",
    "emqkit.sim": """SCENARIOS Actor Choice Faults History Kit Operator Planned Producer Promoter PumpActor Reaper
        Repeating Result Verdict Violation Worker World explore planned scenario""",
    "emqkit.sim.world": "planned",
    "emqkit.scripts": "lua_folder",
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in ONCE for name in ONCE[module].split()])
def test_what_was_importable_still_is(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None


def test_everything_that_is_exported_is_there() -> None:
    for module in ("emqkit", "emqkit.sim"):
        there = importlib.import_module(module)
        assert sorted(there.__all__) == sorted(set(there.__all__))
        assert all(hasattr(there, name) for name in there.__all__)
        assert set(ONCE[module].split()) <= set(there.__all__)
    assert emqkit.logger.name == "emqkit"
