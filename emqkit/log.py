"""The kit's logger, silent until a program adds a handler: `logging.getLogger("emqkit")`, or `emqkit.logger`."""

from __future__ import annotations

import logging

__all__ = ["logger"]

logger = logging.getLogger("emqkit")
logger.addHandler(logging.NullHandler())
