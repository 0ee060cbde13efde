"""Finds what calls ask for that a search cannot see, repeat or rely on, in plain commands and foreign scripts.

A plain command is checked before it is sent. A script that is not the kit's own runs in its own sandbox, where

    its server      lets it have the keys it declares and derives, and no others; what it refuses stands in a log,
                    whatever the script makes of the refusal
    its first line  (`watch.lua`) notes what draws chance or reads the clock, and says what time it is

and it runs again at another time, with the fields of hashes in another order: any difference is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from emqkit import keys
from emqkit.keyspace import home
from emqkit.scripts import Script, ScriptSet
from emqkit.scripts.released import is_released
from emqkit.stepper.commands import COMMANDS
from emqkit.wire import Call, ErrorReply

__all__ = [
    "EXPIRING",
    "INSTANTS_MS",
    "KINDS",
    "NOTED",
    "Attempt",
    "asked_by",
    "foreign_in",
    "patterns",
    "refused",
    "static",
    "watched",
]

NOTED = b"emqkit:asked"
"""The key in which a watched script records what it asks for."""

INSTANTS_MS = (2_000_000_000_000, 2_000_000_001_001, 2_014_632_000_500, 2_019_686_400_000, 2_087_855_999_999)
"""The times to try if a script reads the clock: consecutive, across a second, hours, a year, a leap day. They are in
the future, so that a deadline computed from them has not passed."""

KEYLESS = frozenset(
    "KEYS SCAN DBSIZE RANDOMKEY INFO SELECT SWAPDB FLUSHDB FLUSHALL CONFIG CLIENT ACL COMMAND DEBUG MONITOR LATENCY "
    "SLOWLOG WAIT MULTI EXEC DISCARD WATCH UNWATCH PUBLISH SPUBLISH SUBSCRIBE PSUBSCRIBE SCRIPT FUNCTION".split()
)
CHANCE = ("SPOP", "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "RANDOMKEY")
LIFE = ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME")
FIELDS = tuple(
    "HEXPIRE HEXPIREAT HPEXPIRE HPEXPIREAT HEXPIRETIME HPEXPIRETIME HTTL HPTTL HPERSIST HSETEX HGETEX".split()
)
WALKS = ("HSCAN", "SSCAN", "ZSCAN")
UNSEEN = ("OBJECT", "MEMORY", "DUMP")
EXPIRING = frozenset({"SET", "SETEX", "PSETEX", "GETEX", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"})
"""The plain commands that may give a key a time to live."""

KINDS: Mapping[str, str] = {
    "chance": "draws chance",
    "life": "asks how long a key has still to live",
    "fields": "gives fields of a hash a time to live of their own",
    "walks": "takes fields or members in whatever order the server has them",
    "built": "builds Lua as it runs",
    "unseen": "asks for what is no content of a key",
    "clock": "reads the clock",
}
"""The phrase for each kind of thing that a call asks for."""

_KIND_OF = {
    verb: kind
    for kind, verbs in (("chance", CHANCE), ("life", LIFE), ("fields", FIELDS), ("walks", WALKS), ("unseen", UNSEEN))
    for verb in verbs
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a watched script runs: at what time, and whether unordered things come backwards."""

    instant_ms: int = INSTANTS_MS[0]
    backwards: bool = False


# --- plain commands ---------------------------------------------------------------------------------------------------


def asked_by(call: Call[Any]) -> str | None:
    """The kind of thing a plain command asks for that makes a verdict unknown; None if there is none."""
    verb = call.verb.upper()
    if verb == "TIME":
        return "clock"
    if verb in EXPIRING and call.args[-1:] and call.args[-1].upper() in (b"GT", b"LT"):
        return "life"
    return _KIND_OF.get(verb)


def refused(call: Call[Any]) -> str | None:
    """Why a plain command cannot be explored; None for one that can."""
    verb = call.verb.upper()
    if verb in _KIND_OF and verb != "RANDOMKEY":
        return None
    shape = COMMANDS.get(verb)
    if shape is None:
        if verb in KEYLESS:
            return f"{call.verb} looks at, or changes, more than keys that it names"
        return f"{call.verb} is none of the commands whose keys are known to it"
    beyond = set(shape.keys((*call.keys, *call.args))) - set(call.keys)
    if beyond:
        named = ", ".join(sorted(key.decode("utf-8", "backslashreplace") for key in beyond))
        return f"{call.verb} takes {named}, which is not among the keys that the call declares"
    return None


# --- foreign scripts --------------------------------------------------------------------------------------------------


def foreign_in(calls: Iterable[Call[Any]], scripts: ScriptSet) -> tuple[Call[Any], ...]:
    """The calls that run Lua which is not the kit's own."""
    return tuple(call for call in calls if call.kind == "script" and not is_released(scripts[call.verb]))


@lru_cache(maxsize=64)
def watched(scripts: ScriptSet, trial: Attempt) -> ScriptSet:
    """The script set with every foreign script watched."""
    first = _first_line(trial)
    own = {s.name: s if is_released(s) else replace(s, source=first + s.source) for s in scripts}
    return ScriptSet(scripts.name, own)


def _first_line(trial: Attempt) -> str:
    seconds, rest = divmod(trial.instant_ms, 1000)
    filled = {
        "noted": NOTED.decode(),
        "kinds": ", ".join(f"{verb} = '{kind}'" for verb, kind in _KIND_OF.items()),
        "seconds": str(seconds),
        "microseconds": str(rest * 1000),
        "backwards": str(trial.backwards).lower(),
    }
    return re.sub(r"<(\w+)>", lambda found: filled[found[1]], _text()) + " "


@cache
def _text() -> str:
    lines = Path(__file__).with_suffix(".lua").read_text("utf-8").splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith("--"))


def patterns(calls: Iterable[Call[Any]], scripts: ScriptSet) -> tuple[bytes, ...]:
    """The keys that these calls declare, and those that their scripts' headers derive on the same slot, for an ACL."""
    calls = tuple(calls)
    found: dict[bytes, None] = {NOTED: None}
    slot = b"" if (queue := home(calls)) is None else _escaped(keys.queue_key(queue, ""))
    for call in calls:
        found.update((_escaped(key), None) for key in call.keys)
        if call.kind == "script":
            derived = _derived(scripts[call.verb], call)
            found.update((pattern, None) for pattern in derived if pattern.startswith(slot))
    return tuple(found)


def _derived(script: Script, call: Call[Any]) -> Iterator[bytes]:
    view = script.view(call.keys, call.args)
    for derived in script.derives:
        name, _, rest = derived.partition("..")
        suffix = b"*".join(_escaped(part.encode()) for part in re.split(r"<\w+>", rest))
        for named in (view.keys, view.args):
            single = named.get(name)
            for value in named.all(name) if single is None else (single,):
                yield _escaped(value) + suffix


def _escaped(key: bytes) -> bytes:
    """A pattern that matches only this key, except that a space, which an ACL cannot contain, matches any byte."""
    escaped = re.sub(rb"([\\*?\[\]^])", rb"\\\1", key)
    return re.sub(rb"[\s\0]", b"?", escaped)


_STATIC = re.compile(
    r"[Uu]nknown (?:\w+ )?command called|[Ww]rong number of args calling|nonexistent global variable|readonly table"
    r"|[Cc]ommand arguments must be strings"
)
_PLACE = re.compile(r"user_script:(\d+)")


def static(reply: object) -> tuple[int, str] | None:
    """The line and the error of a script that no server like this one can run; None for another reply."""
    if not isinstance(reply, ErrorReply) or not _STATIC.search(str(reply)):
        return None
    place = _PLACE.search(reply.text)
    why = re.sub(r"^user_script:\d+: |\s*script: .*$", "", reply.text)
    return int(place[1]) if place else 0, why
