"""What can be changed in one line: cosmic-ray's operators and two of ours for Python, a token list for Lua."""

from __future__ import annotations

import ast
import random
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.keyword_replacer import KeywordReplacementOperator
from cosmic_ray.operators.provider import OperatorProvider

__all__ = ["Mutant", "Site", "mutant_of", "room_of", "sample", "sites_of", "sources", "statement_lines"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Attributes:
        path: the file, from the tree's root.
        line: where, from 1.
        before, after: the line as it was and as it is, stripped; `after` is empty if it is gone.
        text: the whole file with the fault in it.
    """

    path: str
    line: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before}  →  {self.after or '(dropped)'}"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a file, with every text the file could have after one fault there."""

    path: str
    line: int
    column: int
    choices: tuple[Callable[[], str | None], ...]


def room_of(path: str) -> str:
    """The room a file belongs to: a package of emqkit, `host` for its single modules, `lua` for the transitions."""
    first, second, *rest = path.split("/")
    return "lua" if first == "lua" else second if rest else "host"


def sources(tree: Path) -> dict[str, str]:
    """Every file that can be mutated, with its text.

    Not the zoo: a zoo script is a mistake already, and a second one in it is none that anybody meets.
    """
    files = [*(tree / "emqkit").rglob("*.py"), *(tree / "emqkit").rglob("*.lua"), *(tree / "lua").rglob("*.lua")]
    paths = sorted(file.relative_to(tree).as_posix() for file in files)
    return {path: (tree / path).read_text("utf-8") for path in paths if not path.startswith("lua/zoo/")}


def sites_of(path: str, text: str) -> list[Site]:
    """Every place of a file where there is something to change, in the order of the text."""
    found: dict[tuple[int, int], list[Callable[[], str | None]]] = {}
    for (line, column), choice in (_lua if path.endswith(".lua") else _python)(text):
        found.setdefault((line, column), []).append(choice)
    return [Site(path, line, column, tuple(choices)) for (line, column), choices in sorted(found.items())]


def sample(files: dict[str, str], seed: int, count: int, least: int = 10) -> list[Mutant]:
    """Draw mutants: from each room as many as its share of all sites, but no fewer than `least` while it has them.

    Every site is as likely as another, however many faults it offers. The same files and seed give the same mutants.
    """
    rooms: dict[str, list[Site]] = {}
    for path, text in files.items():
        rooms.setdefault(room_of(path), []).extend(sites_of(path, text))
    total = sum(map(len, rooms.values()))
    wanted = {room: min(len(sites), max(least, round(count * len(sites) / total))) for room, sites in rooms.items()}
    while excess := sum(wanted.values()) - count:
        able = [room for room in wanted if excess > 0 or wanted[room] < len(rooms[room])]
        if not able:
            break
        wanted[max(able, key=lambda room: (wanted[room], room))] -= 1 if excess > 0 else -1
    drawn: list[Mutant] = []
    for room, sites in sorted(rooms.items()):
        chance = random.Random(f"{seed} {room}")
        chance.shuffle(sites)
        found = (mutant for site in sites if (mutant := _drawn(site, files[site.path], chance)) is not None)
        drawn += [mutant for mutant, _ in zip(found, range(wanted[room]), strict=False)]
    return drawn


def _drawn(site: Site, text: str, chance: random.Random) -> Mutant | None:
    choices = list(site.choices)
    chance.shuffle(choices)
    return next((m for choice in choices if (m := mutant_of(site.path, text, choice())) is not None), None)


def mutant_of(path: str, before: str, after: str | None) -> Mutant | None:
    """The mutant that this text is; None if it is none: unchanged, changed in more than a line, or no Python at all."""
    if after is None:
        return None
    old, new = before.split("\n"), after.split("\n")
    gone = len(old) - len(new)
    if gone not in (0, 1) or old == new:
        return None
    row = next((row for row, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(new))
    if old[row + 1 :] != new[row + 1 - gone :]:
        return None
    if path.endswith(".py"):
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(after, path, "exec")
        except SyntaxError:
            return None
    return Mutant(path, row + 1, old[row].strip(), "" if gone else new[row].strip(), after)


def _starts(text: str) -> list[int]:
    """Where in the text each line begins."""
    return list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))


# --- Python -----------------------------------------------------------------------------------------------------------

# Each operator of arithmetic gets its nearest relative: `+` as `**` fails at once on whatever it meets.
_ARITHMETIC = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul RShift_LShift LShift_RShift BitOr_BitAnd "
)
_ARITHMETIC += "BitAnd_BitOr BitXor_BitAnd"
_PLAIN = "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd ReplaceBreakWithContinue "
_PLAIN += "ReplaceContinueWithBreak ExceptionReplacer NumberReplacer RemoveDecorator ZeroIterationForLoop "
_PLAIN += "ReplaceUnaryOperator_Delete_Not ReplaceUnaryOperator_Delete_USub "
# Each comparison gets its opposite and its boundary. `==` as `<=` is the same wherever nothing is smaller, and `==` as
# `is` wherever a value is interned.
_COMPARISONS = "Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt"
OPERATORS = (
    *_PLAIN.split(),
    *(f"ReplaceBinaryOperator_{pair}" for pair in _ARITHMETIC.split()),
    *(f"ReplaceComparisonOperator_{pair}" for pair in _COMPARISONS.split()),
)

# What a test cannot see, or ought not to look at.
_HINTS = {"overload", "override", "final", "runtime_checkable"}  # for the type checker alone
_NARROWS = re.compile(r"^\s*isinstance\(| is not None\s*$")  # asserted, so that the type checker knows it too
_MEMORY = {"cache", "lru_cache"}  # a remembered answer is the same answer
_KEYWORDS = {
    "slots",  # saves memory
    "strict",  # of zip: it states that the lengths agree, and they do
    "daemon",  # how the interpreter ends, should a thread outlive it
}

Choices = Iterator[tuple[tuple[int, int], Callable[[], str | None]]]


def _python(text: str) -> Choices:
    provider = OperatorProvider()
    operators = {name: provider[name]() for name in OPERATORS}
    seen = dict.fromkeys(operators, 0)
    # Asking each operator about each node takes most of the time; a leaf concerns one kind of operator.
    keywords = [name for name, operator in operators.items() if isinstance(operator, KeywordReplacementOperator)]
    arithmetic = [name for name in OPERATORS if name.startswith("ReplaceBinary")]
    of_leaves = {"number": ["NumberReplacer"], "operator": arithmetic, "keyword": keywords}
    of_leaves |= {leaf: [] for leaf in ("name", "newline", "string", "fstring_string")}
    of_nodes = [name for name in OPERATORS if not any(name in names for names in of_leaves.values())]
    starts = _starts(text)

    def replaced(span: tuple[tuple[int, int], tuple[int, int]], by: str) -> Callable[[], str]:
        begin, end = (starts[line - 1] + column for line, column in span)
        return lambda: text[:begin] + by + text[end:]

    for node in ast_nodes(get_ast(text)):
        left_out = None
        for name in of_leaves.get(node.type, of_nodes):
            operator = operators[name]
            for span in operator.mutation_positions(node):
                left_out = _left_out(node) if left_out is None else left_out
                if not left_out and name == "ExceptionReplacer":  # which fails at `except redis.RedisError`
                    yield span[0], replaced(span, "NeverRaised")
                elif not left_out:
                    yield span[0], partial(mutate_code, text, operator, seen[name])
                seen[name] += 1
        if node.type == "keyword" and node.value == "in" and node.parent.type == "comparison":
            yield node.start_pos, replaced((node.start_pos, node.end_pos), "not in")
        elif node.type == "comp_op" and node.get_code().split() == ["not", "in"]:
            yield node.start_pos, replaced((node.start_pos, node.end_pos), "in")
        elif node.type == "simple_stmt" and _does_something(node.children[0]) and not _left_out(node):
            yield node.start_pos, replaced((node.start_pos, node.children[0].end_pos), "pass")


def _does_something(node: Any) -> bool:
    """Whether a statement is a call made for its effect: it can be dropped, and nothing is left undefined."""
    return node.type in ("yield_expr", "await_expr") or (
        node.type in ("atom_expr", "power") and getattr(node.children[-1], "children", [None])[0] == "("
    )


def _left_out(node: Any) -> bool:
    inner, outer = None, node
    while outer is not None:
        kind, children = outer.type, getattr(outer, "children", [])
        if kind == "operator" and outer.parent.type == "parameters":
            return True  # the star before what is given by name only
        if kind == "annassign" and inner is children[1]:
            return True
        if (kind == "tfpdef" and inner is children[2]) or (kind == "funcdef" and inner is outer.annotation):
            return True
        if kind == "decorator" and set(re.findall(r"\w+", outer.get_code())) & (_HINTS | _MEMORY):
            return True
        if kind == "argument" and children[0].type == "name" and children[0].value in _KEYWORDS:
            return True
        if kind == "if_stmt" and children[1].get_code().strip() in ("TYPE_CHECKING", '__name__ == "__main__"'):
            return True
        if kind == "assert_stmt" and all(_NARROWS.search(part) for part in children[1].get_code().split(" and ")):
            return True
        if kind == "classdef" and children[2].type == "operator" and children[3].get_code() == "Protocol":
            return True
        if kind == "expr_stmt" and children[0].get_code().strip() == "__all__":
            return True
        inner, outer = outer, outer.parent
    return False


def statement_lines(text: str, line: int) -> tuple[range, range | None]:
    """The lines of the innermost statement around a line (of a block, its head), and those of the function or class."""
    inner, around = range(line, line + 1), None
    for node in ast.walk(ast.parse(text)):  # outer ones come first
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            first = min([first, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            last = max(end for one in ast.walk(node) if (end := getattr(one, "end_lineno", None)) is not None)
            if not first <= line <= last:
                continue
            body: list[ast.stmt] = getattr(node, "body", [])
            inner = range(first, max(first + 1, body[0].lineno) if body else last + 1)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                around = range(first, last + 1)
    return inner, around


# --- Lua --------------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<comment>--\[\[.*?\]\]|--[^\n]*)|(?P<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\[\[.*?\]\])"""
    r"""|(?P<number>\b\d+(?:\.\d+)?(?:e\d+)?\b)|(?P<name>[A-Za-z_]\w*)|(?P<sign>==|~=|<=|>=|\.\.\.|\.\.|[-+*/<>%])""",
    re.DOTALL,
)
_OTHERS = {
    "==": ["~="],
    "~=": ["=="],
    "<": ["<=", ">="],
    "<=": ["<", ">"],
    ">": [">=", "<="],
    ">=": [">", "<"],
    "+": ["-"],
    "-": ["+"],
    "*": ["/"],
    "/": ["*"],
    "and": ["or"],
    "or": ["and"],
    "true": ["false"],
    "false": ["true"],
    "not": [""],
}
_FIRST = re.compile(r"\bsub\([^(),]+, $")  # a text's part from 0 is its part from 1
_CONDITION = re.compile(r"^\s*(?:if|elseif|while) (.+) (?:then|do)\b", re.MULTILINE)
_CALLED = re.compile(r"^[ \t]*([\w.]+\(.*\))[ \t]*$", re.MULTILINE)


def _lua(text: str) -> Choices:
    tokens = list(_TOKEN.finditer(text))
    starts = _starts(text)
    code = text
    for token in tokens:  # with comments and strings blanked out
        if token.lastgroup in ("comment", "string"):
            blank = re.sub(r"[^\n]", " " if token.lastgroup == "comment" else "_", token[0])
            code = code[: token.start()] + blank + code[token.end() :]

    def change(begin: int, end: int, by: str) -> tuple[tuple[int, int], Callable[[], str]]:
        line = bisect_right(starts, begin)
        return (line, begin - starts[line - 1]), lambda: text[:begin] + by + text[end:]

    # A command under another name fails whatever is tested; a field, a state or a set under another name is a fault.
    words = sorted({token[0] for token in tokens if token.lastgroup == "string" and token[0].lower() == token[0]})
    for token in tokens:
        if token.lastgroup in ("name", "sign"):
            for other in _OTHERS.get(token[0], ()):
                yield change(*token.span(), other)
        elif token.lastgroup == "number":
            for step in (1, -1):
                if step < 0 and _FIRST.search(text, 0, token.start()):
                    continue
                yield change(*token.span(), f"{float(token[0]) + step:.17g}")
        elif token.lastgroup == "string" and token[0] in words:
            for other in words:
                if other != token[0]:
                    yield change(*token.span(), other)
    for found in _CONDITION.finditer(code):
        begin, end = found.span(1)
        yield change(begin, end, f"not ({text[begin:end]})")
    for found in _CALLED.finditer(code):
        begin, end = found.span(1)
        if code.count("(", begin, end) == code.count(")", begin, end):
            yield change(begin, end, "")
