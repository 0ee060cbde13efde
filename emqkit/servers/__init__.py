"""Where scripts run: *fake* (fakeredis with Lua, the default), *embedded* (a private Valkey from a wheel), *live*."""

from __future__ import annotations

import os

from emqkit.errors import BadArgument
from emqkit.ids import Minter
from emqkit.scripts import ScriptSet
from emqkit.servers.base import Server

__all__ = ["Server", "open_server"]

LIVE = ("valkey", "valkeys", "redis", "rediss", "unix")


def open_server(
    url: str | None = None, *, scripts: str | ScriptSet = "published", minter: Minter | None = None
) -> Server:
    """Open a server to run flows on.

    Args:
        url: `fake://`, `embedded://`, `valkey://host:port/db`, `valkeys://…` (TLS), `redis://`, `rediss://` or
            `unix:///path`. Without one: the environment's `EMQKIT_SERVER`, else `fake://`.
        scripts: the script set its calls mean: `published`, `zoo/<mistake>`, a folder of your own Lua laid over the
            published one, or a `ScriptSet`.
        minter: where new ids come from; the process's own unless given. `Minter.fixed()` gives the same ids every time.

    Raises:
        BadArgument: the URL's scheme is none of these.
        ScriptMissing, BadHeader: the script set cannot be read.
        Unreachable, UnsuitableServer: there is no such server, or it cannot do what the scripts need.
    """
    url = url or os.environ.get("EMQKIT_SERVER") or "fake://"
    scheme = url.partition(":")[0].lower()  # urlsplit may quote a part of the password when it fails
    if scheme not in ("fake", "embedded", *LIVE):
        known = ", ".join(f"{name}://" for name in ("fake", "embedded", *LIVE))
        shown = url if "@" not in url else f"{scheme}://…"  # what stands before @ may be a password
        raise BadArgument("server URL", shown, f"does not begin with one of {known}")
    script_set = scripts if isinstance(scripts, ScriptSet) else ScriptSet.load(scripts)
    server = _open(url, scheme, script_set)
    if minter is not None:
        server.minter = minter
    return server


def _open(url: str, scheme: str, scripts: ScriptSet) -> Server:
    if scheme == "fake":
        from emqkit.servers.fake import open_fake

        return open_fake(scripts)
    if scheme == "embedded":
        from emqkit.servers.embedded import open_embedded

        return open_embedded(scripts)
    from emqkit.servers.live import open_live

    return open_live(url, scripts)
