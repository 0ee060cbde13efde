"""What is handed in, on its way from a submission's process to the one that judges: data alone, of known kinds.

A submission's process is believed nothing. What comes from there is JSON, bounded, and made into plain values, into the
kit's own small types, and into functions that ask the process when they are called.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from types import EllipsisType, FunctionType
from typing import Any

from emqkit.classroom.handed import NotThat
from emqkit.errors import EmqError
from emqkit.flows import Child, Flow
from emqkit.sim.history import History
from emqkit.sim.search.judge import Violation
from emqkit.sim.worlds.actors import Deed, Operator, Producer, Promoter, PumpActor, Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import Planned, World

__all__ = ["LONGEST", "FarFunction", "decode", "encode"]

LONGEST = 1 << 20
"""Characters of a message."""
DEEPEST = 40
_TYPES: dict[str, type] = {
    one.__name__: one
    for one in (Child, Deed, Faults, Flow, Operator, Planned, Producer, Promoter, PumpActor, Reaper, Worker, World)
}
_LEFT_OUT = {"World": {"setup", "about", "witnesses"}}


@dataclasses.dataclass(frozen=True)
class FarFunction:
    """A function in a submission's process.

    Attributes:
        number: by which it is asked for.
        name: what it is called there.
        generator: whether it is an operation.
        parameters: their names.
    """

    number: int
    name: str
    generator: bool
    parameters: tuple[str, ...]


def encode(value: object, functions: list[Callable[..., Any]]) -> Any:
    """A value as JSON holds it; functions are put into the list, and told by their place in it."""
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, EllipsisType):
        return ["..."]
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, tuple | list):
        return ["t" if isinstance(value, tuple) else "l", [encode(one, functions) for one in value]]
    if isinstance(value, dict):
        return ["d", [[encode(key, functions), encode(one, functions)] for key, one in value.items()]]
    if isinstance(value, Violation):
        value = value.history
    if isinstance(value, History):
        return encode(value.as_json(), functions)
    if isinstance(value, FunctionType):
        functions.append(value)
        parameters = list(inspect.signature(value).parameters)
        return ["f", len(functions) - 1, value.__name__, inspect.isgeneratorfunction(value), parameters]
    name = type(value).__name__
    if dataclasses.is_dataclass(value) and _TYPES.get(name) is type(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        kept = {n: one for n, one in fields.items() if n not in _LEFT_OUT.get(name, ()) and one is not None}
        return ["c", name, [[n, encode(one, functions)] for n, one in kept.items()]]
    return ["?", name]


def decode(text: str, function: Callable[[FarFunction], Any]) -> Any:
    """The value of a message.

    Args:
        text: the message, of anybody.
        function: makes a function of this process of one of that.

    Raises:
        NotThat: it is no message, too long, too deep, or of other kinds than are handed in.
    """
    try:
        if len(text) > LONGEST:
            raise NotThat("What is handed in is too much.")
        return _value(json.loads(text), function, 0)
    except (ValueError, TypeError, RecursionError, KeyError, EmqError) as wrong:
        raise NotThat(f"What is handed in cannot be read: {str(wrong)[:200]}") from None


def _value(given: Any, function: Callable[[FarFunction], Any], depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("it is nested too deep")
    if given is None or isinstance(given, bool | int | str | float):
        return given
    match given:
        case ["..."]:
            return ...
        case ["b", str(digits)]:
            return bytes.fromhex(digits)
        case [("t" | "l") as kind, [*items]]:
            values = [_value(item, function, depth + 1) for item in items]
            return tuple(values) if kind == "t" else values
        case ["d", [*pairs]]:
            return {_value(key, function, depth + 1): _value(one, function, depth + 1) for key, one in pairs}
        case ["f", int(number), str(name), bool(generator), [*parameters]]:
            return function(FarFunction(number, name, generator, tuple(map(str, parameters))))
        case ["c", str(name), [*fields]] if name in _TYPES:
            return _TYPES[name](**{str(field): _value(one, function, depth + 1) for field, one in fields})
        case ["?", str(name)]:
            raise ValueError(f"a {name[:60]} cannot be handed in")
    raise ValueError("it is of no known kind")
