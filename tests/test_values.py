"""What the kit hands out are values: nobody can change one behind another's back."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import emqkit

CHANGE = {"Pump", "Worker", "Events", "_Fitted", "_Queue", "_Actor"}
"""The first two work, the others are filled while something is read or drawn."""


def dataclasses() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages(emqkit.__path__, "emqkit."):
        if not module.name.endswith("__main__"):
            for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if one.__module__ == module.name and is_dataclass(one):
                    yield one


def test_a_value_cannot_be_changed() -> None:
    found = list(dataclasses())
    assert {one.__name__ for one in found if not one.__dataclass_params__.frozen} == CHANGE
