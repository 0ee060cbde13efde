"""A pytest plugin for nbval: says where two outputs part, in three lines and at once.

Pytest's own comparison looks for the best alignment of every pair of lines. A picture is one line of a hundred thousand
characters, and between two of them that takes minutes.
"""

from __future__ import annotations

import pytest

AROUND = 60  # characters shown on either side


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.unregister(name="assertion")  # whose comparison would be asked for first


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str]:
    """Where `left`, what was committed, and `right`, what is shown now, differ first."""
    committed, now = (side if isinstance(side, str) else repr(side) for side in (left, right))
    pairs = enumerate(zip(committed, now, strict=False))
    at = next((place for place, (old, new) in pairs if old != new), min(len(committed), len(now)))
    return [
        f"the outputs differ from character {at} on ({len(committed)} were committed, {len(now)} are shown now)",
        f"committed: {_around(committed, at)}",
        f"shown now: {_around(now, at)}",
    ]


def _around(text: str, at: int) -> str:
    start, end = max(0, at - AROUND), at + AROUND
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
