"""A script's run told line by line: what each line came to, with the values in it, and a loop as one step.

Lines stand finest first, as everything in a film does: the rounds of a loop, one deeper, and then the loop as a whole.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NoReturn

from emqkit.stepper import Moment, Stepped
from emqkit.words.text import elided, many, plain

__all__ = ["LineTold", "told"]

CODE = 90


@dataclass(frozen=True)
class LineTold:
    """A line that ran, or a loop as a whole.

    Attributes:
        moment: the line, its calls and the keys after it; of a loop the head, with the last keys.
        sentence: what it came to.
        depth: 0, and one more inside each loop.
        asked: the calls made and their answers, as text.
    """

    moment: Moment
    sentence: str
    depth: int
    asked: tuple[tuple[str, str], ...]


def told(stepped: Stepped) -> Iterator[LineTold]:
    """The lines of a run, in the order they are shown."""
    teller = _Teller(stepped)
    yield from teller.tell(0, len(stepped.moments), 0, None)


# --- where blocks begin and end ---------------------------------------------------------------------------------------

_WORDS = re.compile(
    r"--\[\[.*?\]\]|--[^\n]*|\[\[.*?\]\]|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|\b\w+\b|\n", re.DOTALL
)


@dataclass(frozen=True)
class _Blocks:
    loops: Mapping[int, int]  # first line → last line
    functions: tuple[tuple[int, int], ...]


@lru_cache(maxsize=128)
def _blocks(source: str) -> _Blocks:
    line = 1
    open_: list[tuple[str, int]] = []
    loop = 0
    loops: dict[int, int] = {}
    functions: list[tuple[int, int]] = []
    for match in _WORDS.finditer(source):
        word = match[0]
        if word in ("for", "while"):
            loop = line
        elif word == "do":
            open_.append(("loop", loop) if loop else ("do", line))
            loop = 0
        elif word in ("if", "function"):
            open_.append((word, line))
        elif word == "repeat":
            open_.append(("loop", line))
        elif word in ("end", "until") and open_:
            kind, start = open_.pop()
            if kind == "loop":
                loops[start] = line
            elif kind == "function":
                functions.append((start, line))
        line += word.count("\n")
    return _Blocks(loops, tuple(functions))


# --- telling ----------------------------------------------------------------------------------------------------------


class _Teller:
    def __init__(self, stepped: Stepped) -> None:
        self.name = stepped.name
        self.moments = stepped.moments
        self.lines = stepped.source.splitlines()
        self.blocks = _blocks(stepped.source)
        self.given = {f"ARGV[{n}]": value for n, (_, value) in enumerate(stepped.argv, 1)}
        self.given |= {f"KEYS[{n}]": value for n, (_, value) in enumerate(stepped.keys, 1)}

    def tell(self, start: int, end: int, depth: int, inside: int | None) -> Iterator[LineTold]:
        """The moments from `start` up to `end`; `inside` is the head of the loop these are the rounds of."""
        at = start
        while at < end:
            head = self.moments[at].line.number
            last = self._loop_end(at, end) if head in self.blocks.loops and head != inside else at + 1
            if last - at > 1:
                yield from self.tell(at, last, depth + 1, head)
                yield self._loop(at, last, depth)
            else:
                yield self._line(at, depth)
            at = last

    def _loop_end(self, at: int, end: int) -> int:
        """Where the moments of a loop end: at the first line that is neither in it nor in a function it calls."""
        first = self.moments[at].line.number
        last = self.blocks.loops[first]
        called = [span for span in self.blocks.functions if not span[0] <= first <= span[1]]
        for place in range(at, end):
            line = self.moments[place].line.number
            if not first <= line <= last and not any(low < line <= high for low, high in called):
                return place
        return end

    def _loop(self, at: int, end: int, depth: int) -> LineTold:
        inside = self.moments[at:end]
        head = inside[0].line.number
        numbers = [one.line.number for one in inside]
        rounds = sum(one == head != other for one, other in pairwise(numbers))
        asked = tuple(pair for one in inside for pair in _asked(one))
        verbs = list(dict.fromkeys(call.partition(" ")[0] for call, _ in asked))
        counted = ", ".join(f"{sum(call.startswith(verb) for call, _ in asked)} × {verb}" for verb in verbs)
        runs = f"the loop runs {'once' if rounds == 1 else many(rounds, 'time')}"
        says = f"{self._at(head, inside[0].line.move)} · {runs}{': ' + counted if counted else ''}"
        return LineTold(Moment(inside[0].line, (), inside[-1].after), says, depth, asked[:20])

    def _line(self, at: int, depth: int) -> LineTold:
        moment = self.moments[at]
        asked = _asked(moment)
        came = [f"{elided(call, 80)} answers {elided(reply, 60)}" for call, reply in asked] + self._came_to(at)
        says = self._at(moment.line.number, moment.line.move)
        return LineTold(moment, f"{says} · {'; '.join(came)}" if came else says, depth, asked)

    def _at(self, number: int, move: str | None) -> str:
        return f"{self.name}, line {number}{f', move {move}' if move else ''}: {elided(self._code(number), CODE)}"

    def _code(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def _came_to(self, at: int) -> list[str]:
        line = self.moments[at].line
        after = self.moments[at + 1].line if at + 1 < len(self.moments) else None
        code = self._code(line.number)
        known = dict(line.locals)
        test = re.match(r"(?:else)?if (.*) then\b|while (.*) do\b", code)
        if test and after is not None:
            condition = test[1] or test[2]
            where = "into the next line" if after.number == line.number + 1 else f"on to line {after.number}"
            found = _compared(condition, _Values(known, self.given))
            return [f"{found}: {where}" if found else where]
        if after is None:
            value = _shown(_Values(known, self.given).of(code.removeprefix("return ").strip()))
            return [f"the answer is {value}"] if code.startswith("return ") and value else []
        if code.startswith("for ") and after.number != line.number + 1:
            return [f"no round is left: on to line {after.number}"]
        news = [f"{name} is {elided(value, 60)}" for name, value in after.locals if known.get(name) != value]
        return news if code.startswith(("local ", "for ")) or re.match(r"[\w, .]+ = ", code) else []


def _asked(moment: Moment) -> tuple[tuple[str, str], ...]:
    return tuple((one.call_text, one.reply_text) for one in moment.asked)


# --- what a condition compares ----------------------------------------------------------------------------------------

_SIGNS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}
Known = str | int | float | bool | None


class _Unknown(Exception):
    """What cannot be said without running Lua."""


class _Values:
    """The value of a small expression: names, literals, `string.sub`, `tonumber`, `#`, and sums."""

    def __init__(self, names: Mapping[str, str], given: Mapping[str, bytes]) -> None:
        self._names = names
        self._given = given

    def of(self, text: str) -> Known | _Unknown:
        """The value, or why there is none."""
        try:
            return self._of(text.strip())
        except (_Unknown, ValueError, TypeError, SyntaxError) as error:
            return error if isinstance(error, _Unknown) else _Unknown(text)

    def _of(self, text: str) -> Known:
        if quoted := re.fullmatch(r"'([^'\\]*)'|\"([^\"\\]*)\"", text):
            return quoted[1] if quoted[1] is not None else quoted[2]
        if text in ("nil", "true", "false"):
            return {"nil": None, "true": True, "false": False}[text]
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return float(text) if "." in text else int(text)
        if text in self._names:
            return self._local(self._names[text])
        if indexed := re.fullmatch(r"(ARGV|KEYS)\[(.+)\]", text):
            key = f"{indexed[1]}[{self._number(indexed[2])}]"
            return plain(self._given[key]) if key in self._given else None
        if cut := re.fullmatch(r"string\.sub\((.+), *(\d+), *(\d+)\)", text):
            return self._text(cut[1])[int(cut[2]) - 1 : int(cut[3])]
        if number := re.fullmatch(r"tonumber\((.+)\)", text):
            return self._local(self._text(number[1]))
        if text.startswith("#"):
            return len(self._text(text[1:]))
        return self._number(text)

    def _local(self, shown: str) -> Known:
        if shown.startswith('"'):
            value = ast.literal_eval(shown)
            return value if isinstance(value, str) else shown
        return self._of(shown) if re.fullmatch(r"\d+(\.\d+)?|nil|true|false", shown) else self._never(shown)

    def _text(self, text: str) -> str:
        value = self._of(text.strip())
        return value if isinstance(value, str) else self._never(text)

    def _number(self, text: str) -> int:
        def walk(node: ast.expr) -> int:
            match node:
                case ast.Constant(value=int() as value):
                    return value
                case ast.Name(id=name) if name in self._names:
                    known = self._of(name)
                    return known if isinstance(known, int) else self._never(name)
                case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as sign, right=right):
                    one, other = walk(left), walk(right)
                    return {"Add": one + other, "Sub": one - other, "Mult": one * other}[type(sign).__name__]
                case _:
                    return self._never(text)

        return walk(ast.parse(text, mode="eval").body)

    def _never(self, text: str) -> NoReturn:
        raise _Unknown(text)


def _compared(condition: str, values: _Values) -> str:
    """What a condition compares, as `'JOB' is 'JOB'`; empty when that cannot be said without running it."""
    parts = re.split(r"\s(==|~=|<=|>=|<|>)\s", condition)
    if len(parts) == 3 and not re.search(r"\b(and|or)\b", condition):
        one, other = values.of(parts[0].removeprefix("not ").strip()), values.of(parts[2])
        left, right = _shown(one), _shown(other)
        if left and right:
            if parts[1] in ("==", "~="):
                return f"{left} is {'' if one == other else 'not '}{right}"
            if isinstance(one, int | float) and isinstance(other, int | float):
                return f"{left} {parts[1]} {right} is {str(_SIGNS[parts[1]](one, other)).lower()}"
            return ""
    if re.search(r"\b(and|or)\b", condition):
        names = [name.removeprefix("not ").strip() for name in re.split(r"\b(?:and|or)\b", condition)]
        return ", ".join(f"{name} is {shown}" for name in names if (shown := _shown(values.of(name))))
    name = condition.removeprefix("not ").strip()
    shown = _shown(values.of(name))
    return f"{name} is {shown}" if shown else ""


def _shown(value: Known | _Unknown) -> str:
    match value:
        case _Unknown():
            return ""
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case str():
            return f"'{elided(value, 40)}'"
        case _:
            return str(value)
