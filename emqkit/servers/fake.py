"""The fake server is fakeredis with real Lua: in this process, instant, and sufficient for learning.

It differs from a live server: its TIME advances while a script runs, its Lua can reach all of Python, and a script that
never ends blocks the interpreter. So it only runs the kit's own Lua; any other runs in a sandbox
(`emqkit.servers.sandbox`).
"""

from __future__ import annotations

import fakeredis

from emqkit.ids import process_minter
from emqkit.scripts import ScriptSet
from emqkit.servers.base import CLIENT_OPTIONS, Server

__all__ = ["FakeServer", "open_fake"]


class FakeServer(Server):
    """A private fakeredis; no other client can see it, and closing it discards its contents."""

    kind = "fake"

    def __init__(self, scripts: ScriptSet) -> None:
        self.store = fakeredis.FakeServer()
        client = fakeredis.FakeRedis(server=self.store, **CLIENT_OPTIONS())
        super().__init__("fake://", client, scripts)
        self.minter = process_minter()  # no other process mints for it

    def scratch(self) -> FakeServer:
        return FakeServer(self.scripts)


def open_fake(scripts: ScriptSet) -> FakeServer:
    """A new fake server, empty."""
    return FakeServer(scripts)
