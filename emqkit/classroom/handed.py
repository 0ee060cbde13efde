"""What learners hand in, made into what the explorer runs: an operation, a transition as text, a promise.

def finish(queue, claim):                       # an operation: a generator of round trips
    yield from transitions.complete(…)

def kept(keyspace): …                           # a promise: True where it is kept; of one keyspace …
def kept(before, after): …                      # … or of a move
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from emqkit.errors import BadHeader
from emqkit.keyspace import Keyspace
from emqkit.scripts import Script, ScriptSet
from emqkit.servers.base import Server
from emqkit.sim.promises import Facts, Promise, Transition
from emqkit.sim.promises.clauses import of_move, of_state
from emqkit.sim.worlds.actors import Kit
from emqkit.sim.worlds.witness import Witness
from emqkit.sim.worlds.world import World
from emqkit.wire import Program, Steps

__all__ = ["NotThat", "Raised", "Remote", "Yours", "operation_of", "program", "promise_of", "script_of"]


class NotThat(Exception):
    """What was handed in is not of the kind that was asked for; the text says what is."""


class Remote(Exception):
    """A learner's function in another process raised an error, or answers no more; the text is the whole sentence."""


class Raised(Exception):
    """A learner's function raised an error; `error` is that."""

    def __init__(self, error: BaseException, function: Callable[..., Any]) -> None:
        self.error, self.function = error, function


@dataclass(frozen=True)
class Yours:
    """Whose operation it is that a learner wrote."""

    server: Server


def operation_of(handed: object, *parameters: str) -> Callable[..., Steps[Any]]:
    """The generator function that was handed in. Raises `NotThat` for anything else."""
    takes = f"({', '.join(parameters)})"
    if not callable(handed):
        raise NotThat(f"Hand in the function itself, without calling it; it takes {takes}.")
    if not inspect.isgeneratorfunction(handed):
        raise NotThat(
            "Your function makes no round trip: an operation is a generator, and each call in it is a `yield from`."
        )
    try:
        inspect.signature(handed).bind(*parameters)
    except TypeError:
        raise NotThat(f"Your function has to take {takes}, in this order.") from None
    return handed


def program(
    function: Callable[..., Steps[Any]], kit: Kit, *args: Any, name: str = "operation", gives: object = None
) -> Program[Any]:
    """A learner's operation as a program, with its arguments.

    Args:
        function: what `operation_of` returned.
        kit: whose server it runs on.
        args: its arguments.
        name: what a history calls it.
        gives: what it is taken to answer, instead of what it returns.
    """
    return Program(_as_steps(function, name, gives), Yours(kit.server), args)


@lru_cache(maxsize=64)
def _as_steps(function: Callable[..., Steps[Any]], name: str, gives: object) -> Callable[..., Steps[Any]]:
    def steps(owner: Yours, *args: Any) -> Steps[Any]:
        value = yield from function(*args)
        return value if gives is None else gives

    steps.__name__ = name
    return steps


def script_of(handed: object, name: str, base: ScriptSet) -> ScriptSet:
    """The script set with this one script replaced by the text that was handed in.

    Raises:
        NotThat: it is no text, or its header is not the one it was handed out with.
    """
    if not isinstance(handed, str):
        raise NotThat(f"Hand in the Lua of {name} as a text.")
    ours = base[name]
    text = handed.strip("\n") + "\n"
    keep = "Leave the comment lines at the top as they were: they are the contract with those who call the script."
    try:
        script = Script.parse(text, f"yours/{name}.lua")
    except BadHeader as wrong:
        raise NotThat(f"Line {wrong.line}: {wrong.why}. {keep}") from None
    if script.name != name or script.layouts != ours.layouts:
        raise NotThat(keep)
    return base.overlay(ScriptSet("yours", {name: script}))


def promise_of(handed: object) -> Promise:
    """The promise that was handed in: a function of a keyspace, or of the two around a move, true where it is kept.

    Raises `NotThat` for anything else.
    """
    if not callable(handed) or inspect.isgeneratorfunction(handed):
        raise NotThat("Hand in a function of one keyspace, or of two (before, after), that returns True or False.")
    count = len(inspect.signature(handed).parameters)
    if count == 1:

        @of_state("what you promise", Witness.SETTLED)
        def clause(world: World, keyspace: Keyspace, facts: Facts) -> Iterator[str]:
            yield from _broken(handed, keyspace)

    elif count == 2:

        @of_move("what you promise", Witness.SETTLED, on="changed")
        def clause(world: World, move: Transition, facts: Facts) -> Iterator[str]:
            yield from _broken(handed, move.before, move.after)

    else:
        raise NotThat(f"Your promise takes {count} arguments: let it take one keyspace, or two (before, after).")
    return Promise("yours", "your promise", "What your function says is true.", (clause,))


def _broken(function: Callable[..., Any], *args: Keyspace) -> Iterator[str]:
    try:
        kept = function(*args)
    except Exception as error:
        raise Raised(error, function) from error
    if not isinstance(kept, bool):
        raise NotThat(f"Your promise answered {str(kept)[:60]!r}: let it return True where it is kept, else False.")
    if not kept:
        yield "your promise says that it is not kept"
