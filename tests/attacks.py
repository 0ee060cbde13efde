"""Lua that wants out, or wants everything: what becomes of it wherever the kit takes somebody's Lua.

    python tests/attacks.py [SECONDS]     prints each attack against each door, with its outcome and the seconds it took

Each is a stretch of Lua that gets its turn in the middle of `complete`. It may fail, be refused or be stopped; it may
not reach the machine, nor take this process with it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from emqkit import EmqError, Jobs, explore, step
from emqkit.scripts import Script, ScriptSet
from emqkit.servers import open_server
from emqkit.servers.sandbox import Sandbox, open_sandbox
from emqkit.sim.catalogue import replay

MARK = Path(tempfile.gettempdir()) / "emqkit-attack-mark"
"""The file that an attack which reached the machine would have made."""

ATTACKS: Mapping[str, str] = {
    # --- out of Lua -------------------------------------------------------------------------------------------------
    "os.execute": f"os.execute('touch {MARK}')",
    "io.open": f"io.open('{MARK}', 'w'):close()",
    "require": "require('os')",
    "package.loadlib": "package.loadlib('libc.so.6', 'system')",
    "debug": "debug.getregistry()",
    "python": f"python.eval(\"open('{MARK}', 'w')\")",
    "the cells of redis.call": "local f = redis.call.__closure__[0].cell_contents",
    "the globals of redis.call": f"redis.call.__globals__.__builtins__.open('{MARK}', 'w')",
    "getfenv": f"getfenv(0).os.execute('touch {MARK}')",
    "bytecode": "local f = loadstring('\\27Lua' .. string.rep('\\255', 200)) if f then f() end",
    "a library left changed": "string.rep = function() return 'mine' end",
    "a metatable left changed": "getmetatable('').__index = function() return 'mine' end",
    # --- out of the keys --------------------------------------------------------------------------------------------
    "CONFIG": "redis.call('CONFIG', 'SET', 'dir', '/tmp')",
    "MIGRATE": "redis.call('MIGRATE', '127.0.0.1', '9', KEYS[2], '0', '10')",
    "REPLICAOF": "redis.call('REPLICAOF', '127.0.0.1', '9')",
    "FLUSHALL": "redis.call('FLUSHALL')",
    "SWAPDB": "redis.call('SWAPDB', '0', '0')",
    "KEYS": "redis.call('KEYS', '*')",
    "SHUTDOWN": "redis.call('SHUTDOWN', 'NOSAVE')",
    "MODULE": f"redis.call('MODULE', 'LOAD', '{MARK}')",
    "BGSAVE": "redis.call('BGSAVE')",
    "ACL": "redis.call('ACL', 'SETUSER', 'guest', '+@all')",
    "AUTH": "redis.call('AUTH', 'default', 'x')",
    "PUBLISH": "redis.call('PUBLISH', 'a', 'b')",
    # --- all the time -----------------------------------------------------------------------------------------------
    "a loop": "while true do end",
    "a loop in pcalls": "while true do pcall(function() while true do end end) end",
    "a loop that writes": "while true do redis.call('INCR', KEYS[2] .. ':n') end",
    "a pattern": "string.find(string.rep('a', 40000), string.rep('a?', 30) .. string.rep('a*', 20) .. 'b')",
    "a comparison": "table.sort({3, 2, 1}, function() while true do end end)",
    # --- all the memory ---------------------------------------------------------------------------------------------
    "a long text": "local s = string.rep('x', 5e8)",
    "many texts": "local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1e6) .. i end",
    "a doubled text": "local s = 'x' for i = 1, 40 do s = s .. s end",
    "500 MB in a key": "redis.call('SETRANGE', KEYS[2] .. ':big', 500000000, 'x')",
    "a long list": "for i = 1, 1e9 do redis.call('RPUSH', KEYS[2] .. ':l', string.rep('x', 1e5)) end",
    "a flood of the log": "while true do redis.log(redis.LOG_WARNING, string.rep('x', 1000)) end",
    # --- an answer that nobody can read ------------------------------------------------------------------------------
    "a large answer": "do return string.rep('x', 3e7) end",
    "a deep answer": "local t = {} local r = t for i = 1, 5000 do t[1] = {} t = t[1] end do return r end",
    "an endless answer": "local t = {} t[1] = t do return t end",
    "an error that is a table": "error({1, 2})",
    "an error of control characters": "do return redis.error_reply('\\27[2J\\r\\n+OK \\255') end",
    # --- the stack, and no Lua at all --------------------------------------------------------------------------------
    "recursion": "local function f() return 1 + f() end f()",
    "a deep expression": "local x = " + "(" * 5000 + "1" + ")" * 5000,
    "unpack": "redis.call('DEL', unpack({}, 1, 1e7))",
    "half a script": "if true then",
}

DOORS: dict[str, Callable[[str, float], str]] = {}


def against(door: str, attack: str, deadline_s: float) -> tuple[str, float]:
    """Try an attack: what became of it, in a line, and the seconds it took. Anything but an `EmqError` is raised."""
    MARK.unlink(missing_ok=True)
    began = time.monotonic()
    try:
        outcome = DOORS[door](ATTACKS[attack], deadline_s)
    except EmqError as error:
        outcome = f"{type(error).__name__}: {error}"
    if MARK.exists():
        outcome = f"REACHED THE MACHINE: {outcome}"
    return outcome, time.monotonic() - began


def attacked(body: str) -> ScriptSet:
    """The published scripts, with this stretch of Lua in `complete`."""
    scripts = ScriptSet.load("published")
    source = scripts["complete"].source.replace("-- move: retire\n", f"-- move: retire\n{body}\n")
    assert source != scripts["complete"].source
    return scripts.overlay(ScriptSet("attacked", {"complete": Script.parse(source, "attacked/complete.lua")}))


def _door(name: str) -> Callable[[Callable[[str, float], str]], Callable[[str, float], str]]:
    def kept(try_it: Callable[[str, float], str]) -> Callable[[str, float], str]:
        DOORS[name] = try_it
        return try_it

    return kept


@_door("open_server")
def _open_server(body: str, deadline_s: float) -> str:
    with open_server(scripts=attacked(body)) as server:
        assert isinstance(server, Sandbox)
        server.deadline_s = deadline_s
        jobs = Jobs(server)
        jobs.enqueue("q", "x")
        claim = jobs.claim("q")
        assert claim is not None
        return f"done: {jobs.complete('q', claim)}"


@_door("step")
def _step(body: str, deadline_s: float) -> str:
    script = attacked(body)["complete"]
    id = "JOB0000000000A"
    keys = ["emq:{q}:active", f"emq:{{q}}:job:{id}"]
    with open_server("fake://") as server:
        server.client.hset(keys[1], mapping={"state": "active", "attempts": "1", "payload": "x"})
        server.client.zadd(keys[0], {id: 1e14})
        stepped = step(script, keys, [id, "1", "emq:{q}:"], server, deadline_s=deadline_s)
        assert stepped.server_kind == "sandbox"
        try:
            stepped.commit(server)  # which must be refused, whatever became of the stepping
        except EmqError:
            return stepped.sentence
        return "COMMITTED IN THIS PROCESS"


@_door("explore")
def _explore(body: str, deadline_s: float) -> str:
    with open_sandbox(ScriptSet.load("published"), deadline_s=deadline_s) as server:
        result = explore("same-queue", scripts=attacked(body), server=server, crashes=0, lost_replies=0)
        return f"{result.word}: {', '.join(violation.promise for violation in result.violations) or 'nothing broken'}"


@_door("replay")
def _replay(body: str, deadline_s: float) -> str:
    with open_sandbox(ScriptSet.load("published"), deadline_s=deadline_s) as server:
        return f"replayed: {replay(_history(), scripts=attacked(body), server=server).says}"


def _history() -> dict[str, object]:
    if not _KEPT:
        violation = explore("lapses", until="P3").verdicts["P3"].violation
        assert violation is not None
        _KEPT.append(json.loads(json.dumps(violation.history.as_json())))
    return _KEPT[0]


_KEPT: list[dict[str, object]] = []


if __name__ == "__main__":
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    for name in ATTACKS:
        for where in DOORS:
            said, took = against(where, name, seconds)
            print(f"{name:30} {where:12} {took:5.1f} s  {said[:150]!r}", flush=True)
