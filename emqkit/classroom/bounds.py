"""What a check may cost: 500 real calls, two seconds of processor time, and one sandbox for a whole notebook.

A loop in Python is stopped by an exception raised in its thread, a loop in Lua with the sandbox it runs in. Neither is
more to a learner than a sentence; the next check gets another sandbox.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from emqkit.errors import UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers import Server
from emqkit.servers.embedded import find_wheel
from emqkit.servers.fake import open_fake
from emqkit.servers.sandbox import Sandbox, open_sandbox
from emqkit.snapshot import Snapshot, restore

__all__ = ["DEADLINE_S", "MOST_CALLS", "MOST_STATES", "SECONDS", "Room", "TimeUp", "shipped_set", "within"]

MOST_CALLS = 500
"""Real calls a check makes."""
MOST_STATES = 20_000
"""States a check looks at."""
SECONDS = 2.0
"""Seconds of processor time a check may take in this process."""
WAITS = 10
"""How many times as long it may take by the clock: it may have to wait for others."""
DEADLINE_S = 1.0
"""Seconds a call of a learner's Lua may take."""
TICK_S = 0.02


class TimeUp(BaseException):
    """The time of a check is over. No `Exception`: a learner's code shall not catch it by accident."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` in the block once it has used so many seconds of processor time, or waited ten times as long.

    It is raised between two lines of Python: a single call into C that never returns is not interrupted.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    began, at = time.process_time(), time.monotonic()
    over = threading.Event()
    raised = False

    def watch() -> None:
        nonlocal raised
        while not over.wait(TICK_S):
            if time.process_time() - began > seconds or time.monotonic() - at > WAITS * seconds:
                raised = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TimeUp))
                over.wait(0.5)  # code that catches everything gets it again

    watcher = threading.Thread(target=watch, name="emqkit check", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if raised:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)  # one that has not arrived yet


@lru_cache(maxsize=64)
def shipped_set(name: str) -> ScriptSet:
    """A script set that ships, read once."""
    return ScriptSet.load(name)


class Room:
    """Where checks run: one sandbox, emptied for each check, and a fake server where no sandbox can be had."""

    def __init__(self) -> None:
        self._place: Server | None = None

    def place(self, scripts: ScriptSet) -> Server:
        """The place, empty, running this script set.

        Raises:
            ForeignLua: the set is not the kit's own, and there is no embedded server to make a sandbox of.
            ScriptBroken: a script does not compile.
        """
        if self._place is None:
            self._place = open_sandbox(scripts, deadline_s=DEADLINE_S) if foreign(scripts) or _wheel() else None
        if self._place is None:
            self._place = open_fake(scripts)
        if isinstance(self._place, Sandbox):
            self._place.take(scripts)
        elif foreign(scripts):
            self.close()
            return self.place(scripts)
        self._place.scripts = scripts
        restore(self._place, Snapshot())
        return self._place

    def close(self) -> None:
        """Give the place up; the next check opens another."""
        if self._place is not None:
            self._place.close()
            self._place = None


def _wheel() -> bool:
    try:
        find_wheel()
    except UnsuitableServer:
        return False
    return True
