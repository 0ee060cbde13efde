"""What was importable stays importable, and no two public classes share a name."""

from __future__ import annotations

import importlib
import pkgutil

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


# Told apart by where they are: a layout's argument and a script's are one thing read twice, and so on.
def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, set[str]] = {}
    for found in pkgutil.walk_packages(emqkit.__path__, "emqkit."):
        if found.name.endswith(("__main__", "pytest_plugin", "stepper.machine")):
            continue
        for name, one in vars(importlib.import_module(found.name)).items():
            if isinstance(one, type) and not name.startswith("_") and one.__module__.startswith("emqkit."):
                places.setdefault(one.__name__, set()).add(one.__module__)
    assert {name: sorted(modules) for name, modules in places.items() if len(modules) > 1} == {}
