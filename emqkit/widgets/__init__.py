"""Widgets for notebooks. They show what `emqkit.viz` makes of a trace, and have the same verbs in Python as buttons."""

from __future__ import annotations

from emqkit.widgets.bulk import BulkLedger
from emqkit.widgets.counter import CounterLab
from emqkit.widgets.outbox_lab import OutboxLab
from emqkit.widgets.player import StepPlayer
from emqkit.widgets.predict import Predict
from emqkit.widgets.pump_lab import PumpCrashLab

__all__ = ["BulkLedger", "CounterLab", "OutboxLab", "Predict", "PumpCrashLab", "StepPlayer"]
