"""The fake server is fakeredis with real Lua: in this process, at once, and a complete place to learn in.

Where it differs from a live server: its TIME moves while a script runs, its Lua reaches all of Python, and a script
that never ends blocks the interpreter. So it runs the kit's own Lua only; any other gets a sandbox
(`emqkit.servers.sandbox`).
"""

from __future__ import annotations

import fakeredis

from emqkit.ids import process_minter
from emqkit.scripts import ScriptSet
from emqkit.servers.base import CLIENT_OPTIONS, Server

__all__ = ["FakeServer", "open_fake"]


class FakeServer(Server):
    """A private fakeredis; nobody else can see it, and it is gone when it is closed."""

    kind = "fake"

    def __init__(self, scripts: ScriptSet) -> None:
        self.store = fakeredis.FakeServer()
        client = fakeredis.FakeRedis(server=self.store, **CLIENT_OPTIONS())
        super().__init__("fake://", client, scripts)
        self.minter = process_minter()  # nobody else mints for it

    def scratch(self) -> FakeServer:
        return FakeServer(self.scripts)


def open_fake(scripts: ScriptSet) -> FakeServer:
    """A new fake server, empty."""
    return FakeServer(scripts)
