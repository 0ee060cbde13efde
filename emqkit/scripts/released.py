"""Which Lua is the kit's own: the texts whose hashes it ships with. All other Lua is foreign.

    lua/complete.lua, as released      runs wherever a server is opened
    the same file, one line edited     foreign: runs in the sandbox only (`emqkit.servers.sandbox`)

The text counts, not where it was read from: an edited copy is foreign even within `lua/`, until `make hashes` releases
it again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from emqkit.scripts import Script, ScriptSet, lua_folder, patches, shipped

__all__ = ["HASHES", "foreign", "is_released", "listing", "shipped_sets"]

HASHES = Path(__file__).with_name("released.txt")
"""One line per text: its SHA-1, as for EVALSHA, and its path. `make hashes` writes it."""


def is_released(script: Script | bytes) -> bool:
    """Whether this script, or this text, is byte for byte one that the kit ships with."""
    return (script.sha if isinstance(script, Script) else _sha(script)) in _released()


def foreign(scripts: ScriptSet) -> tuple[Script, ...]:
    """The scripts of a set that are not the kit's own."""
    return tuple(script for script in scripts if not is_released(script))


def shipped_sets() -> frozenset[str]:
    """The script sets that data files may name: those the kit ships with, and no path."""
    root = lua_folder()
    folders = (path.name for path in root.iterdir() if path.is_dir() and path.name not in ("zoo", "tools"))
    return frozenset(("published", *folders, *(f"zoo/{patch.name}" for patch in patches())))


def listing() -> str:
    """The content `HASHES` should have for `lua/` as it is now, with the scripts composed from the zoo."""
    return "".join(f"{script.sha}  {script.path}\n" for script in shipped())


@cache
def _released() -> frozenset[str]:
    return frozenset(line.partition(" ")[0] for line in HASHES.read_text("ascii").splitlines())


def _sha(text: bytes) -> str:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()
