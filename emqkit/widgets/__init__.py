"""Widgets for notebooks. They show what `emqkit.viz` makes of a trace, and have the same verbs in Python as buttons."""

from __future__ import annotations

from emqkit.widgets.player import StepPlayer

__all__ = ["StepPlayer"]
