"""The line of the host's own code that sent a round trip, with the function around it: the other half of the Lua."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from emqkit.wire import Spot

__all__ = ["Excerpt", "excerpt"]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A function's code, its docstring left out.

    Attributes:
        name: the function, such as `Flows.add`.
        first: the number of its first line in its file.
        lines: its lines, each with its number in the file.
        marked: the first and the last line of the smallest statement that waits for the answer.
    """

    name: str
    first: int
    lines: tuple[tuple[int, str], ...]
    marked: tuple[int, int]


@lru_cache(maxsize=1024)
def excerpt(spot: Spot) -> Excerpt:
    """The code around a spot. Where the source is not to be had, as of a function typed elsewhere, it has no lines."""
    lines, first, tree = _function(spot.code)
    if tree is None:
        return Excerpt(spot.code.co_qualname, spot.code.co_firstlineno, (), (spot.line, spot.line))
    line = spot.line - first + 1
    marked = (line, line)
    smallest = len(lines) + 1
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node is not tree.body[0]:
            start, end = node.lineno, node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                end = max(start, body[0].lineno - 1)  # of a loop or a condition, its head alone
            if start <= line <= end and end - start < smallest:
                smallest, marked = end - start, (start, end)
    hidden = _docstring(tree)
    shown = tuple((first + at, text) for at, text in enumerate(lines) if at + 1 not in hidden)
    return Excerpt(spot.code.co_qualname, first, shown, (first + marked[0] - 1, first + marked[1] - 1))


@lru_cache(maxsize=256)
def _function(code: CodeType) -> tuple[tuple[str, ...], int, ast.Module | None]:
    try:
        lines, first = inspect.getsourcelines(code)
        text = textwrap.dedent("".join(lines))
        return tuple(text.splitlines()), first, ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        return (), code.co_firstlineno, None


def _docstring(tree: ast.Module) -> range:
    function = tree.body[0]
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(function, clean=False):
        return range(function.body[0].lineno, (function.body[0].end_lineno or 0) + 1)
    return range(0)
