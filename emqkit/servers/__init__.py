"""Where scripts run: *fake* (fakeredis with Lua, the default), *embedded* (a private Valkey from a wheel), *live*.

Lua that is not the kit's own only ever runs in a *sandbox*, whatever server is asked for.
"""

from __future__ import annotations

import os

from emqkit.errors import BadArgument, ForeignLua
from emqkit.ids import Minter
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import foreign
from emqkit.servers.base import Server

__all__ = ["Server", "open_server", "scratch_for"]

LIVE = ("valkey", "valkeys", "redis", "rediss", "unix")


def open_server(
    url: str | None = None, *, scripts: str | ScriptSet = "published", minter: Minter | None = None
) -> Server:
    """Open a server to run flows on.

    With scripts that are not the kit's own, you get a sandbox (`kind` `sandbox`) instead of a fake or an embedded
    server, so that they never run in this process. A live server is not opened with such scripts.

    Args:
        url: `fake://`, `embedded://`, `valkey://host:port/db`, `valkeys://…` (TLS), `redis://`, `rediss://` or
            `unix:///path`. Default: the environment's `EMQKIT_SERVER`, else `fake://`.
        scripts: the script set to run: `published`, `zoo/<mistake>`, a folder of your own Lua laid over the
            published one, or a `ScriptSet`.
        minter: where new ids come from; default: the server's own. `Minter.fixed()` gives the same ids every time.

    Raises:
        BadArgument: the URL's scheme is none of these.
        ScriptMissing, BadHeader, ScriptBroken: the script set cannot be read, or does not compile.
        ForeignLua: it is not the kit's own, and no sandbox is available.
        Unreachable, UnsuitableServer: there is no such server, or it cannot do what the scripts need.
    """
    url = url or os.environ.get("EMQKIT_SERVER") or "fake://"
    scheme = url.partition(":")[0].lower()  # not urlsplit, whose error may quote part of the password
    if scheme not in ("fake", "embedded", *LIVE):
        known = ", ".join(f"{name}://" for name in ("fake", "embedded", *LIVE))
        shown = url if "@" not in url else f"{scheme}://…"  # what precedes @ may be a password
        raise BadArgument("server URL", shown, f"does not begin with one of {known}")
    script_set = scripts if isinstance(scripts, ScriptSet) else ScriptSet.load(scripts)
    server = _open(url, scheme, script_set)
    if minter is not None:
        server.minter = minter
    return server


def _open(url: str, scheme: str, scripts: ScriptSet) -> Server:
    if theirs := foreign(scripts):
        if scheme in LIVE:
            why = "a live server is not one; open embedded:// with these scripts, a private server"
            raise ForeignLua([script.name for script in theirs], why)
        from emqkit.servers.sandbox import open_sandbox

        return open_sandbox(scripts)
    if scheme == "fake":
        from emqkit.servers.fake import open_fake

        return open_fake(scripts)
    if scheme == "embedded":
        from emqkit.servers.embedded import open_embedded

        return open_embedded(scripts)
    from emqkit.servers.live import open_live

    return open_live(url, scripts)


def scratch_for(server: Server, scripts: ScriptSet | None = None) -> Server:
    """A private, empty place for stepping and exploring; the caller closes it.

    Args:
        server: the server it accompanies.
        scripts: the script set to run; by default the server's own. A foreign one gets a sandbox.

    Raises:
        ScriptBroken, ForeignLua: a script does not compile, or no sandbox is available.
    """
    scripts = server.scripts if scripts is None else scripts
    if server.confined or foreign(scripts):
        from emqkit.servers.sandbox import DEADLINE_S, Sandbox, open_sandbox

        return open_sandbox(scripts, deadline_s=server.deadline_s if isinstance(server, Sandbox) else DEADLINE_S)
    place = server.scratch()
    place.scripts = scripts
    return place
