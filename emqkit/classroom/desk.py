"""The process in which a submission runs, and nothing else; `grade` starts it.

It confines itself, runs the notebook's cells one by one, and writes what they hand in; then it answers calls of the
functions that were handed in, until its standard input ends. Nobody believes it anything.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from emqkit.classroom.codec import encode
from emqkit.classroom.confine import confine
from emqkit.classroom.plain import python_in_words
from emqkit.errors import EmqError, ReplyLost
from emqkit.keyspace import Keyspace, Part
from emqkit.snapshot import Snapshot
from emqkit.wire import Done, Flush, Program

__all__ = ["main", "packed", "unpacked"]


class CellStuck(Exception):
    """A cell ran for too long."""


def packed(value: object) -> str:
    """A message to a desk."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpacked(text: str) -> Any:
    """A message to a desk, read there."""
    return pickle.loads(base64.b64decode(text))


def main(notebook: str, seconds: str, *readable: str) -> None:
    """Run a submission and answer for it."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    functions: list[Callable[..., Any]] = []

    def say(*message: Any) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    import emqkit.classroom as kit

    def hand_in(name: str, handed: tuple[Any, ...]) -> Any:
        say("handed", str(name), json.dumps(encode(handed, functions)))
        return kit.Feedback(name, kit.HANDED_IN)

    cells = _cells(Path(notebook))
    os.chdir(Path(notebook).parent)
    say("confined", confine(Path(notebook).parent, map(Path, readable)))
    kit.hands_in = hand_in
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in cells:
        try:
            with _at_most(float(seconds)), contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source, f"cell {number}", "exec"), names)
        except BaseException as error:
            say("went wrong", number, f"{type(error).__name__}: {str(error)[:200]}")
    say("ran")
    for line in sys.stdin:
        say("answer", *_answer(functions, *unpacked(line)))


def _cells(notebook: Path) -> list[tuple[int, str]]:
    """The code cells, without the lines that are no Python."""
    read = json.loads(notebook.read_text("utf-8"))
    found = []
    for number, cell in enumerate(read["cells"]):
        if cell["cell_type"] == "code":
            lines = "".join(cell["source"]).split("\n")
            kept = ["" if line.lstrip().startswith(("%", "!")) else line for line in lines]
            found.append((number, "\n".join(kept)))
    return found


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def stuck(*_: Any) -> None:
        raise CellStuck(f"it ran for more than {seconds:g} seconds")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, stuck)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(functions: list[Callable[..., Any]], number: int, args: tuple[Any, ...], replies: Any) -> tuple[Any, ...]:
    """What a function does: a promise's value; or of an operation, after these replies, the next flush or its end."""
    function = functions[number]
    try:
        if replies is None:
            return "value", json.dumps(encode(function(*map(_keyspace, args)), []))
        went = Program(lambda owner, *given: function(*given), None, args).after(replies)
    except Exception as error:
        went = Done(error=error)
    if isinstance(went, Flush):
        calls = [
            [call.verb, [key.hex() for key in call.keys], [arg.hex() for arg in call.args], call.kind]
            for call in went.calls
        ]
        return "flush", calls, went.atomic
    if went.error is None:
        return "value", json.dumps(encode(went.value, []))
    if isinstance(went.error, EmqError):
        return "refused", "lost" if isinstance(went.error, ReplyLost) else "", str(went.error)
    return "raised", python_in_words(went.error, function.__code__)


def _keyspace(parts: Any) -> Keyspace:
    return Keyspace(tuple(Part(queue, Snapshot(entries, now)) for queue, entries, now in parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
