"""Errors in a learner's own code, in plain words: the line, what is there, and what the error means."""

from __future__ import annotations

import linecache
import re
import traceback
from types import CodeType

__all__ = ["lua_in_words", "python_in_words"]

LUA = (
    (r"'=' expected near '(.*?)'", "here a statement was expected; is an `=` or a call's brackets missing?"),
    (r"'end' expected .*near '<eof>'", "an `if`, `for`, `while` or `function` is not closed: an `end` is missing"),
    (r"'(\w+)' expected near '(.*?)'", "`{0}` is missing before `{1}`"),
    (r"unexpected symbol near '(.*?)'", "`{0}` cannot stand here"),
    (r"unfinished string near", "a text is not closed by its quotation mark"),
    (r"unfinished long", "a long comment or text is not closed"),
    (r"malformed number near '(.*?)'", "`{0}` is no number"),
    (r"global variable '(\w+)'", "`{0}` is not defined: is it spelled as where it got its value, after `local`?"),
    (r"readonly table", "a name gets a value without `local` before its first use"),
    (r"attempt to call .*'(\w+)' \(a (\w+) value\)", "`{0}` is called like a function, and it is a {1} value"),
    (r"attempt to index .*'(\w+)' \(a (\w+) value\)", "`{0}` has no parts: it is a {1} value"),
    (r"attempt to index", "something without parts is indexed; a missing reply is `false`"),
    (r"attempt to compare (\w+) with (\w+)", "a {0} is compared with a {1}: `tonumber` makes a number of a text"),
    (r"attempt to perform arithmetic .*\(a (\w+) value\)", "it calculates with a {0} value: `tonumber` helps"),
    (r"attempt to concatenate .*\(a (\w+) value\)", "`..` joins texts and numbers, and this is a {0} value"),
    (r"Wrong number of args", "a command has too many or too few arguments"),
    (r"WRONGTYPE", "the key holds another type than this command is for"),
    (r"(?i)unknown .*command", "there is no such command, or the sandbox does not allow it"),
    (r"NOPERM|permission|can't run this command", "the sandbox does not allow this command"),
)
"""What Lua and the server say, and what it means; `{0}` is what the brackets matched."""

PYTHON = {
    "NameError": "a name is used that nothing was assigned to; is it spelled as where it was made?",
    "UnboundLocalError": "a name is used before it has a value",
    "TypeError": "something was called or combined with the wrong kind or number of values",
    "AttributeError": "the object has no such attribute",
    "KeyError": "there is no such key",
    "IndexError": "the list is shorter than that",
    "ZeroDivisionError": "something is divided by zero",
    "ValueError": "the value has the right kind, but cannot be used",
    "RecursionError": "a function calls itself without end",
    "MemoryError": "it needs more memory than there is",
    "RuntimeError": "the call cannot be made at this point",
    "ImportError": "there is no such module, or it has no such name",
    "ModuleNotFoundError": "there is no such module",
    "StopIteration": "an iterator had nothing more to give",
    "AssertionError": "an `assert` of your own failed",
}


def lua_in_words(script: str, line: int, why: str, source: str) -> str:
    """An error of Lua as a sentence.

    Args:
        script: whose.
        line: where, from 1; 0 if not known.
        why: what Lua or the server said.
        source: the learner's text.
    """
    lines = source.split("\n")
    shown = f": `{lines[line - 1].strip()}`" if 0 < line <= len(lines) and lines[line - 1].strip() else ""
    where = f"in line {line}{shown}" if line else "somewhere"
    return f"Your {script} goes wrong {where}. Lua says “{why.strip()}”{_means(why)}."


def _means(why: str) -> str:
    for pattern, means in LUA:
        if found := re.search(pattern, why):
            return f" — {means.format(*found.groups())}"
    return ""


def python_in_words(error: BaseException, code: CodeType | None) -> str:
    """An error in a learner's Python as a sentence: the last line of theirs that it went through.

    Args:
        error: what was raised.
        code: of the function that was handed in; only lines of its file are shown.
    """
    name = type(error).__name__
    means = PYTHON.get(name, "")
    said = str(error).split("\n", 1)[0]
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if code is not None and frame.filename == code.co_filename:
            line = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            where = f" in line {frame.lineno} of its cell" + (f": `{line}`" if line else "")
    return f"Your code stops{where}. Python says “{name}: {said}”" + (f" — {means}." if means else ".")
