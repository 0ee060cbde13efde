"""An operation is a generator of round trips: it yields what goes on the wire and receives the replies.

The same code runs for real (`run`), is traced (`emqkit.trace`) and is explored (`emqkit.sim`). There are four types:

* `Call` — one command or one script call, which the server runs atomically.
* `Flush` — several calls in one write. Not atomic: other calls may run in between, and perhaps only a prefix runs.
* `operation` — a generator method that runs when called; you can also get it without running it.
* `Program` — an operation with its arguments, not yet started: hashable, restartable, replayable from its replies.

No call of a flush may rely on the success of an earlier one: after an error reply the later calls still run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, GeneratorType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from emqkit.errors import EmqError, Refused, ReplyLost, Unreachable

__all__ = [
    "BoundOperation",
    "Call",
    "Done",
    "ErrorReply",
    "Flush",
    "Program",
    "Recorder",
    "Reply",
    "Runner",
    "Spot",
    "Steps",
    "command",
    "operation",
    "pair",
    "path",
    "run",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)  # for what only hands a value out: a Call[int] is a Call[object]
S = TypeVar("S")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error reply, as a value and not an exception. `code` is its first word, such as `EMQSTALE`."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


# A RESP2 reply; a status reply is bytes too, since redis-py does not tell the two apart.
Reply: TypeAlias = "int | bytes | ErrorReply | tuple[Reply, ...] | None"

Kind = Literal["command", "script", "tool"]


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One command or one script call; `value = yield from call` gives its decoded reply, or raises its refusal.

    Attributes:
        verb: a command's name (`HMGET`), or a script's (`complete`).
        keys: the keys it declares. A command goes out as verb, keys, args.
        args: everything after the keys, as bytes.
        read: turns the reply into a value.
        refusal: turns an error reply into an exception that says what it means.
        kind: `script` names a file of the server's script set, `tool` one of the kit's own helpers in `lua/tools`.
    """

    verb: str
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    read: Callable[[Reply], T_co] = field(compare=False, repr=False)
    refusal: Callable[[ErrorReply], EmqError] = field(compare=False, repr=False)
    kind: Kind = "command"

    def __iter__(self) -> Generator[Flush[Any], tuple[Reply, ...], T_co]:
        (reply,) = yield Flush((self,))
        if isinstance(reply, ErrorReply):
            raise self.refusal(reply)
        return self.read(reply)

    def value(self, reply: Reply) -> T_co | EmqError:
        """The decoded reply, or the refusal as a value."""
        return self.refusal(reply) if isinstance(reply, ErrorReply) else self.read(reply)


@dataclass(frozen=True, slots=True)
class Flush(Generic[T_co]):
    """Several calls in one write; `values = yield from flush` gives one value per call; a refusal is a value too.

    With `atomic` the calls go inside MULTI … EXEC and are one step to everyone else. An empty flush is not sent.
    """

    calls: tuple[Call[T_co], ...]
    atomic: bool = False

    def __iter__(self) -> Generator[Flush[Any], tuple[Reply, ...], tuple[T_co | EmqError, ...]]:
        if not self.calls:
            return ()
        replies = yield self
        return tuple(call.value(reply) for call, reply in zip(self.calls, replies, strict=True))


Steps: TypeAlias = Generator[Flush[Any], tuple[Reply, ...], T]


def command(verb: str, keys: Sequence[bytes], args: Sequence[bytes], read: Callable[[Reply], T]) -> Call[T]:
    """A plain command; an error reply to it is `Refused`."""

    def refusal(error: ErrorReply) -> EmqError:
        return Refused(verb, error.code, error.text)

    return Call(verb, tuple(keys), tuple(args), read, refusal)


def pair(first: Call[T], second: Call[S]) -> Steps[tuple[T | EmqError, S | EmqError]]:
    """Send two calls of different types in one flush; returns their values, refusals as values."""
    both: Flush[Any] = Flush((first, second))
    one, other = yield from both
    return one, other


# --- where an operation stands --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in an operation's own code: the function, and the line in its file that waits for a reply."""

    code: CodeType
    line: int


def path(steps: Steps[Any]) -> tuple[Spot, ...]:
    """The lines at which an operation waits for its next replies, outermost function first."""
    spots = []
    generator: Any = steps
    while isinstance(generator, GeneratorType):
        frame = generator.gi_frame
        if frame is not None and frame.f_code.co_filename != __file__:
            spots.append(Spot(frame.f_code, frame.f_lineno))
        generator = generator.gi_yieldfrom
    return tuple(spots)


# --- running ----------------------------------------------------------------------------------------------------------


class Recorder(Protocol):
    """Sees each round trip of each operation run on a server."""

    def watch(self, operation: str, steps: Steps[Any]) -> Callable[[Flush[Any]], tuple[Reply, ...]]:
        """Called when an operation starts; returns the function that makes its round trips."""
        ...


class Runner(Protocol):
    """What an operation needs from a server in order to run."""

    @property
    def recorder(self) -> Recorder | None: ...

    def round_trip(self, flush: Flush[Any]) -> tuple[Reply, ...]: ...


def run(server: Runner, steps: Steps[T], name: str = "") -> T:
    """Run an operation on a server, round trip by round trip, and return its value.

    Raises:
        Unreachable: nothing of the round trip was sent. Raised inside the operation first, as is
        ReplyLost: it was sent, and it is not known whether it took effect.
        EmqError: whatever the operation raises.
    """
    round_trip = server.round_trip if server.recorder is None else server.recorder.watch(name, steps)
    try:
        flush = next(steps)
        while True:
            try:
                replies = round_trip(flush)
            except (ReplyLost, Unreachable) as lost:
                flush = steps.throw(lost)
            else:
                flush = steps.send(replies)
    except StopIteration as end:
        value: T = end.value
        return value


# --- a method that is also a program ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done(Generic[T_co]):
    """How a program ended: with a value or with an exception."""

    value: T_co | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Program(Generic[T_co]):
    """An operation with its arguments, not yet started: hashable, restartable, replayable from its replies.

    Its whole state at any moment is the program and its replies so far, so the explorer keeps no generators.
    """

    function: Callable[..., Steps[T_co]]
    owner: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """`flows.add`, `jobs.claim`, `pump.sweep`: the owner's noun and the verb."""
        return f"{type(self.owner).__name__.lower()}.{self.function.__name__}"

    def start(self) -> Steps[T_co]:
        """A fresh generator of its round trips."""
        return self.function(self.owner, *self.args, **dict(self.kwargs))

    def run(self, server: Runner | None = None) -> T_co:
        """Run it for real, on its owner's server or the one given."""
        return run(self.owner.server if server is None else server, self.start(), self.name)

    def after(self, replies: Iterable[tuple[Reply, ...] | Exception]) -> Flush[Any] | Done[T_co]:
        """What it does after these replies: the next flush, or how it ended.

        An exception among the replies (`ReplyLost`) is raised inside the program at that point.
        """
        steps = self.start()
        try:
            flush = next(steps)
            for reply in replies:
                flush = steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
            return flush
        except StopIteration as end:
            return Done(value=end.value)
        except Exception as error:
            return Done(error=error)
        finally:
            steps.close()


Prepare = Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]


class BoundOperation(Generic[P, T]):
    """An operation of one object: call it to run it; `.steps` and `.program` give it without running it."""

    __name__: str

    def __init__(self, owner: Any, function: Callable[..., Steps[T]], prepare: Prepare | None) -> None:
        functools.update_wrapper(self, function)
        self.__signature__ = _as_bound(function)
        self._owner = owner
        self._function = function
        self._prepare = prepare

    def program(self, *args: P.args, **kwargs: P.kwargs) -> Program[T]:
        """The operation with these arguments, checked and complete (ids minted), but not started."""
        self.__signature__.bind(*args, **kwargs)  # a wrong call is a TypeError here, not at the first reply
        if self._prepare is None:
            return Program(self._function, self._owner, args, tuple(sorted(kwargs.items())))
        given, named = self._prepare(self._owner, *args, **kwargs)
        return Program(self._function, self._owner, given, tuple(sorted(named.items())))

    def steps(self, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """The generator of its round trips, for use by hand or with `yield from`."""
        return self.program(*args, **kwargs).start()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.program(*args, **kwargs).run()

    def __repr__(self) -> str:
        return f"<operation {self._function.__qualname__}>"


def _as_called(function: Callable[..., Any]) -> inspect.Signature:
    """The signature that a caller sees: it returns the value, not the generator."""
    signature = inspect.signature(function)
    returns = signature.return_annotation
    if isinstance(returns, str) and returns.startswith("Steps[") and returns.endswith("]"):
        return signature.replace(return_annotation=returns[len("Steps[") : -1])
    return signature


@functools.lru_cache(maxsize=256)
def _as_bound(function: Callable[..., Any]) -> inspect.Signature:
    """The same without `self`; cached, since an explorer binds an operation thousands of times."""
    signature = _as_called(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


class operation(Generic[S, P, T]):
    """Turns a generator method of an object that has a `server` into one that runs when called.

    `jobs.claim("orders")` runs it, `jobs.claim.steps("orders")` is the generator, `jobs.claim.program("orders")` the
    program. A function decorated with `@name.prepare` gets the arguments first and returns them complete: it may mint
    ids, or refuse. The operation itself takes all its input as arguments and reads no clock.
    """

    def __init__(self, function: Callable[Concatenate[S, P], Steps[T]]) -> None:
        functools.update_wrapper(cast(Callable[..., Any], self), function)
        self.__signature__ = _as_called(function)
        self._function = function
        self._prepare: Prepare | None = None

    def prepare(self, function: Prepare) -> Prepare:
        """Decorator: `function(self, *args, **kwargs)` returns the complete `(args, kwargs)`."""
        self._prepare = function
        return function

    @overload
    def __get__(self, owner: None, kind: type) -> operation[S, P, T]: ...
    @overload
    def __get__(self, owner: S, kind: type) -> BoundOperation[P, T]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        return self if owner is None else BoundOperation(owner, self._function, self._prepare)

    def __call__(self, owner: S, *args: P.args, **kwargs: P.kwargs) -> T:
        """`Jobs.claim(jobs, "orders")`, as with any method."""
        bound: BoundOperation[P, T] = BoundOperation(owner, self._function, self._prepare)
        return bound(*args, **kwargs)
