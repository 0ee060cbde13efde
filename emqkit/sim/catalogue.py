"""Resolves names to worlds; the engine below only takes a `World`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from emqkit.arguments import whole
from emqkit.errors import BadArgument
from emqkit.scripts import ScriptSet
from emqkit.scripts.released import shipped_sets
from emqkit.servers import Server, open_server
from emqkit.sim.history import wrong_with
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.report import Result
from emqkit.sim.search.bench import place_for
from emqkit.sim.search.explore import MOST_STATES, Explorer, Progress
from emqkit.sim.search.limits import MEGABYTE, most_memory
from emqkit.sim.search.walk import Replay, walk_along
from emqkit.sim.worlds.mistakes import MISTAKES, Mistake
from emqkit.sim.worlds.scenarios import SCENARIOS
from emqkit.sim.worlds.world import World

__all__ = ["explore", "explore_mistake", "mistake", "replay", "scenario"]


def scenario(name: str) -> World:
    """A listed world by name, or that of a mistake of the zoo. Raises `BadArgument` for an unknown name."""
    if name in SCENARIOS:
        return SCENARIOS[name]
    for one in MISTAKES.values():
        if name in (one.name, one.world.name):
            return one.world
    near = get_close_matches(name, [*SCENARIOS, *MISTAKES], n=1)
    meant = f"; did you mean {near[0]}?" if near else ";"
    raise BadArgument("scenario", name, f"is not listed{meant} `emqkit explore --list` names all {len(SCENARIOS)}")


def mistake(name: str) -> Mistake:
    """A mistake by name. Raises `BadArgument` for an unknown name."""
    try:
        return MISTAKES[name]
    except KeyError:
        raise BadArgument("mistake", name, f"is not one of {', '.join(MISTAKES)}") from None


def explore(
    world: World | str,
    *,
    scripts: str | ScriptSet | None = None,
    server: Server | str | None = None,
    crashes: int | None = None,
    lost_replies: int | None = None,
    lapses: int | None = None,
    redeliveries: int | None = None,
    poisons: int | None = None,
    script_flushes: int | None = None,
    max_states: int | None = MOST_STATES,
    max_depth: int | None = None,
    max_memory: int | None = None,
    until: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    promises: tuple[Promise, ...] = PROMISES,
) -> Result:
    """Explore every order of calls, with every placement of the world's faults, and judge each promise.

    Args:
        world: a `World`, or a scenario's name (see `emqkit explore --list`).
        scripts: the script set to explore: `published`, `zoo/<mistake>`, a folder of your own Lua, or a `ScriptSet`;
            by default the server's own.
        server: where calls are really made: a server, whose scratch place is used, or a URL; `fake://` by default.
            Scripts that are not the kit's own are always explored in a sandbox.
        crashes, lost_replies, lapses, redeliveries, poisons, script_flushes: budgets that replace the world's own.
        max_states: stop after this many states, 1 or more; what is not `broken` is then `unknown`. (Faulty scripts
            can make the state space infinite: a job reaped while it runs gets a new token each time.)
        max_depth: expand no state this many transitions deep, 1 or more.
        max_memory: stop at this many megabytes, as estimated, 1 or more; by default half of the memory there is.
        until: stop once this promise is broken.
        progress: called about once a second.
        promises: which promises to check.

    Returns:
        The result. After Ctrl-C, it has what was known by then.

    Raises:
        BadArgument: no scenario has this name, or a number is out of its range.
        ScriptMissing, BadHeader, UnsuitableServer, Unreachable: the scripts or the server are not available.
        ScriptBroken, ForeignLua: a script does not compile, or no sandbox is available.
        ScriptStopped: a script exceeded a limit of its sandbox.
    """
    for name, most in (("max_states", max_states), ("max_depth", max_depth), ("max_memory", max_memory)):
        if most is not None:
            whole(name, most, at_least=1)
    if isinstance(world, str):
        world = scenario(world)
    world = world.with_faults(
        crashes=crashes,
        lost_replies=lost_replies,
        lapses=lapses,
        redeliveries=redeliveries,
        poisons=poisons,
        script_flushes=script_flushes,
    )
    if scripts is None and isinstance(server, Server):
        scripts = server.scripts
    script_set = scripts if isinstance(scripts, ScriptSet) else ScriptSet.load(scripts or "published")
    opened = open_server(server or "fake://") if not isinstance(server, Server) else None
    base = opened if opened is not None else server
    assert isinstance(base, Server)
    try:
        with place_for(world, base, script_set) as place:
            explorer = Explorer(world, place, promises)
            most = most_memory() if max_memory is None else max_memory * MEGABYTE
            explorer.search(max_states=max_states, max_depth=max_depth, max_memory=most, until=until, progress=progress)
            return Result.of(explorer)
    finally:
        if opened is not None:
            opened.close()


def explore_mistake(one: Mistake, *, server: Server | str | None = None) -> Result:
    """Explore a mistake in its world until its promise breaks. (Some of these state spaces are infinite.)"""
    return explore(one.world, scripts=one.scripts, server=server, until=one.breaks)


def replay(
    saved: dict[str, Any],
    *,
    scripts: str | ScriptSet | None = None,
    server: Server | str | None = None,
    world: World | None = None,
) -> Replay:
    """Replay a saved history on a scratch place of a server, really making every call.

    A saved history is untrusted data: it may name a listed world and a shipped script set, nothing else. Pass your own
    world, or your own scripts, yourself.

    Args:
        saved: what `history.load` read.
        scripts: another script set, to see whether that breaks too; or the history's own set, if it does not ship.
            `Replay.same_scripts` says whether it is the set the history was made with.
        server: where; `fake://` by default.
        world: the world it was found in, if that is not listed.

    Raises:
        BadArgument: it is not a history, its scenario is neither listed nor `world`, or its scripts do not ship.
    """
    if wrong := wrong_with(saved):
        raise BadArgument("saved", type(saved).__name__, f"is not a history: {wrong}")
    named: str = saved["scenario"]
    if world is not None and world.name != named:
        raise BadArgument("world", world.name, f"is not where this history was found, which is {named!r}")
    try:
        found = world or scenario(named)
    except BadArgument:
        why = "is not listed; if it is your own world, pass it: replay(saved, world=…)"
        raise BadArgument("scenario", named, why) from None
    given: dict[str, int] = saved["faults"]
    if scripts is None and saved["scripts"] not in shipped_sets():
        why = "is not a shipped set; pass the one it was made with: --scripts FOLDER, or replay(saved, scripts=…)"
        raise BadArgument("script set", saved["scripts"], why)
    script_set = scripts if isinstance(scripts, ScriptSet) else ScriptSet.load(scripts or saved["scripts"])
    done = walk_along(found.with_faults(**given), saved["moves"], saved["promise"], script_set, server)
    return replace(done, same_scripts=script_set.sha == saved.get("scripts_sha", script_set.sha))
