"""The Lua 5.1 in which a stepped script runs: in this process, or in a child process with a deadline.

Run as a program, this file is that child: it reads one job from standard input, asks its parent for the reply to every
`redis.call`, and never talks to a server. It imports nothing of emqkit, so a child starts quickly.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["Ending", "Halt", "Job", "run_apart", "run_here"]

MEMORY = 64 << 20
"""Bytes of Lua memory a script may use; the kit's own scripts need a thousandth of that."""

CHILD_MEMORY = 1 << 30
"""Bytes of address space the whole child process may have, on Linux."""

LARGEST_MESSAGE = 32 << 20
"""Bytes of the largest message a child may send."""

START_SECONDS = 60.0
"""How long a child may take to start."""

STOP = b"!"
"""An answer with this prefix stops the script; the rest says why."""


class Halt(Exception):
    """Raise this in `on_line` or `ask` to stop the script; its text says why."""


OnLine = Callable[[int, bool, list[tuple[bytes, bytes]]], None]
Ask = Callable[[bytes, int, list[bytes]], list[bytes]]


@dataclass(frozen=True, slots=True)
class Job:
    """The input of a machine: a script, its keys and arguments, and its limits.

    Attributes:
        source: the Lua text.
        codec: the Lua text of `spell` and `read`, with which both sides encode values as tokens.
        withheld: names that exist on a live server but not here, each with a sentence that says why.
        keys: KEYS.
        argv: ARGV.
        line_budget: how many lines it may run.
    """

    source: bytes
    codec: bytes
    withheld: tuple[tuple[bytes, bytes], ...]
    keys: tuple[bytes, ...]
    argv: tuple[bytes, ...]
    line_budget: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a script ended.

    Attributes:
        kind: it `returned` a value, `raised` an error, was `unreadable` as Lua, or was `stopped` by the machine.
        tokens: the value it returned.
        text: the error, or why it was stopped.
        line: where, counted from 1; 0 if unknown.
    """

    kind: Literal["returned", "raised", "unreadable", "stopped"]
    tokens: tuple[bytes, ...] = ()
    text: bytes = b""
    line: int = 0


def run_here(job: Job, on_line: OnLine, ask: Ask) -> Ending:
    """Run a job in this process.

    Args:
        job: what to run.
        on_line: called before each line with its number, whether it is in the main chunk, and the locals.
        ask: called with a verb of the bridge, the line and the arguments' tokens; returns the reply's tokens.

    Raises whatever `on_line` and `ask` raise, except a `Halt` from `ask`, which ends the script.
    """
    from lupa.lua51 import LuaMemoryError, LuaRuntime

    lua = LuaRuntime(
        encoding=None, register_eval=False, register_builtins=False, attribute_filter=_no_attribute, max_memory=MEMORY
    )
    problem: list[BaseException] = []

    # The script's own pcall could catch an exception that crosses Lua, so it is kept here and the script is stopped.
    def line(number: int, main: bool, *shown: bytes) -> bool:
        try:
            on_line(number, main, list(zip(shown[::2], shown[1::2], strict=True)))
        except BaseException as error:
            problem.append(error)
            return True
        return False

    def answer(verb: bytes, number: int, tokens: Any, count: int) -> Any:
        try:
            return lua.table_from(ask(verb, number, [tokens[place] for place in range(1, count + 1)]))
        except Halt as halt:
            return lua.table_from([STOP + str(halt).encode()])
        except BaseException as error:
            problem.append(error)
            return lua.table_from([STOP])

    def sha1hex(text: bytes) -> bytes:
        return hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()

    machine = lua.eval(b"loadstring")(Path(__file__).with_suffix(".lua").read_bytes(), b"=machine")
    withheld = lua.table_from(dict(job.withheld))
    keys, argv = lua.table_from(job.keys), lua.table_from(job.argv)
    try:
        kind, tokens, text, where = machine(
            job.source, job.codec, withheld, keys, argv, job.line_budget, line, answer, sha1hex
        )
    except LuaMemoryError:
        return Ending("stopped", text=b"it needed more memory than the stepper allows")
    if problem:
        raise problem.pop()
    return Ending(kind.decode(), tuple(tokens[place] for place in range(1, len(tokens) + 1)), text, where)


def _no_attribute(owner: object, name: object, setting: bool) -> object:
    raise AttributeError("Lua reaches no attribute of a Python object")


# --- in a child process -----------------------------------------------------------------------------------------------


def run_apart(job: Job, on_line: OnLine, ask: Ask, deadline_s: float) -> Ending:
    """Run a job in a child process, which is killed after `deadline_s` seconds; otherwise like `run_here`.

    A Lua pattern can spin inside C, where no line is counted and no interrupt arrives: only killing the process helps.
    """
    # By path and not by -m: importing the package would take longer than most scripts run. The child's path gets only
    # lupa's folder, and last: no module from there or from the current folder may shadow one of Python's.
    import lupa

    home = str(Path(lupa.__file__).resolve().parent.parent)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    assert child.stdin is not None and child.stdout is not None and child.stderr is not None
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    watch = threading.Timer(START_SECONDS, end)
    watch.start()
    last, why = 0, ""
    try:
        _send(child.stdin, [_text(job), deadline_s])
        while received := child.stdout.readline(LARGEST_MESSAGE):
            match _message(received):
                case ["ready"]:
                    watch.cancel()
                    watch = threading.Timer(deadline_s, end)
                    watch.start()
                case ["line", number, main, shown]:
                    last = number
                    on_line(number, main, [(_bytes(name), _bytes(value)) for name, value in shown])
                case ["ask", verb, number, tokens]:
                    last = number
                    answer = ask(_bytes(verb), number, [_bytes(token) for token in tokens])
                    _send(child.stdin, [_text(token) for token in answer])
                case ["end", kind, tokens, text, number]:
                    return Ending(kind, tuple(_bytes(token) for token in tokens), _bytes(text), number)
    except Halt as halt:
        why = str(halt)
    except BrokenPipeError:
        pass  # it was killed between its question and our answer
    finally:
        watch.cancel()
        child.kill()
        said = child.stderr.read().decode(errors="replace").strip().splitlines()
        for pipe in (child.stdin, child.stdout, child.stderr):
            with suppress(OSError):  # unsent data no longer matters
                pipe.close()
        child.wait()
    if late.is_set():
        why = f"it was still running after {deadline_s:g} seconds"
    why = why or f"the process it ran in ended: {said[-1] if said else 'it did not say why'}"
    return Ending("stopped", text=why.encode(), line=last)


def _message(line: bytes) -> Any:
    """Decode a message of the child; None if it is not valid, or too long."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _send(pipe: Any, message: object) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def _text(value: Any) -> Any:
    """Encode bytes for JSON, one character per byte, also inside containers."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Job):
        return {name: _text(item) for name, item in asdict(value).items()}
    return [_text(item) for item in value] if isinstance(value, list | tuple) else value


def _bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("latin-1")
    return tuple(_bytes(item) for item in value) if isinstance(value, list) else value


def _child() -> None:
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything printed goes to standard error
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (CHILD_MEMORY, CHILD_MEMORY))
    sys.path.append(sys.argv[1])
    fields, deadline_s = json.loads(source.readline())
    job = Job(**{name: _bytes(item) for name, item in fields.items()})
    # If the parent is gone by then, nothing else ends this process; a C thread does, whatever Lua is doing.
    faulthandler.dump_traceback_later(deadline_s + 5, exit=True)

    def on_line(number: int, main: bool, shown: Sequence[tuple[bytes, bytes]]) -> None:
        _send(sink, ["line", number, main, _text(shown)])

    def ask(verb: bytes, number: int, tokens: list[bytes]) -> list[bytes]:
        _send(sink, ["ask", _text(verb), number, _text(tokens)])
        answer = source.readline()
        if not answer:
            raise SystemExit  # the parent has gone
        return list(_bytes(json.loads(answer)))

    import lupa.lua51  # noqa: F401 - the time to find it is not the script's

    _send(sink, ["ready"])
    ending = run_here(job, on_line, ask)
    _send(sink, ["end", ending.kind, _text(ending.tokens), _text(ending.text), ending.line])


if __name__ == "__main__":
    _child()
