"""Reads a script's header, and splits its text into moves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from emqkit.errors import BadHeader
from emqkit.scripts.contract import Argument, Contract, Group, Item, Layout, Move, arguments_of

__all__ = ["alike", "moves_of", "read_header", "sections"]

_TITLE = re.compile(r"-- (\w+): (\S.*)")
_LINE = re.compile(r"-- (\w+)( +)(\S.*)")
_LAYOUT = re.compile(r"(\w+) {2,}(\S.*)")
_MOVE = re.compile(r"\s*-- move: (\S.*)")
_TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|'(?P<literal>[^']+)'|(?P<mark>\)\*\w*|[()\[\]]))")


def read_header(source: str, path: str) -> Contract:
    """Read the contract at the top of a Lua text; the file name in `path` must be the script's name.

    Raises:
        BadHeader: the header is not a valid contract; says in which line and why.
    """
    return _Reader(source, path).contract()


def moves_of(source: str) -> tuple[Move, ...]:
    """The moves that a text opens, in order."""
    lines = enumerate(source.split("\n"), start=1)
    return tuple(Move(found[1], number) for number, line in lines if (found := _MOVE.fullmatch(line.rstrip())))


def sections(source: str) -> list[str]:
    """The text before the first move, then that of each move; joined by newlines they are the whole text."""
    lines = source.split("\n")
    starts = [0, *(move.line - 1 for move in moves_of(source)), len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(starts)]


def alike(one: tuple[Item, ...], other: tuple[Item, ...]) -> bool:
    """Whether the same values always fit both; a pair with groups is not checked here but call by call."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if isinstance(a, Group) or isinstance(b, Group):
            return False
        if (a.literal or b.literal) and a != b:
            return False
    return True


class _Reader:
    """Reads one file; every refusal names the line."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path
        self.lines = [line.rstrip() for line in source.split("\n")]

    def bad(self, line: int, why: str) -> BadHeader:
        return BadHeader(self.path, line, why)

    def contract(self) -> Contract:
        name, summary = self.title()
        shapes: dict[str, dict[str, tuple[int, tuple[Item, ...]]]] = {"keys": {}, "argv": {}}
        derives: list[tuple[int, str]] = []
        replies: list[str] = []
        for number, word, gap, rest in self.header():
            if word in shapes:
                layout, rest = self.layout_name(gap, rest)
                if layout in shapes[word]:
                    again = f"layout {layout} has" if layout else "there are"
                    hint = "" if layout else "; a layout's name goes one space after the word and two before the rest"
                    raise self.bad(number, f"{again} two lines of {word}{hint}")
                items = self.items(number, word, rest)
                self.check_names(number, items)
                shapes[word][layout] = (number, items)
            elif word == "derives":
                derives += [(number, pattern) for pattern in rest.split()]
            elif word == "replies":
                replies += [reply.strip() for reply in rest.split(" · ")]
            else:
                raise self.bad(number, f"a header has keys, argv, derives and replies, not {word!r}")
        layouts = self.layouts(shapes["keys"], shapes["argv"])
        if not replies:
            raise self.bad(1, "the header has no replies line")
        declared = {a.name for layout in layouts for a in arguments_of(layout.keys + layout.argv)}
        for number, pattern in derives:
            root, dots, _ = pattern.partition("..")
            if not dots or root not in declared:
                raise self.bad(number, f"derives {pattern} does not start with a key or an argument and two dots")
        derived = tuple(pattern for _, pattern in derives)
        return Contract(name, summary, layouts, derived, tuple(replies), self.moves())

    def title(self) -> tuple[str, str]:
        expected = Path(self.path).stem
        title = _TITLE.fullmatch(self.lines[0])
        if title is None:
            raise self.bad(1, f"the first line is not '-- {expected}: one sentence'")
        if title[1] != expected:
            raise self.bad(1, f"the header is that of {title[1]}, and the file is called {expected}.lua")
        return title[1], title[2]

    def header(self) -> Iterator[tuple[int, str, str, str]]:
        for number, line in enumerate(self.lines[1:], start=2):
            if not line.startswith("--") or _MOVE.fullmatch(line):
                return
            if line in ("-- keys", "-- argv"):
                yield number, line[3:], "", ""  # it takes none
                continue
            read = _LINE.fullmatch(line)
            if read is None:
                raise self.bad(
                    number, f"{line!r} is not '-- word  rest'; a blank line ends the header, and comments follow it"
                )
            yield number, read[1], read[2], read[3]

    @staticmethod
    def layout_name(gap: str, rest: str) -> tuple[str, str]:
        named = _LAYOUT.fullmatch(rest) if gap == " " else None
        return (named[1], named[2]) if named else ("", rest)

    def layouts(
        self, keys: dict[str, tuple[int, tuple[Item, ...]]], argv: dict[str, tuple[int, tuple[Item, ...]]]
    ) -> tuple[Layout, ...]:
        for word, shapes in (("keys", keys), ("argv", argv)):
            if not shapes:
                raise self.bad(1, f"the header has no {word} line")
        layouts: list[Layout] = []
        for name in dict.fromkeys(("", *keys, *argv)):
            # A line that a layout lacks is taken from the layout without a name.
            mine = {"keys": keys.get(name, keys.get("")), "argv": argv.get(name, argv.get(""))}
            missing = [word for word, shape in mine.items() if shape is None]
            line = max(shapes[name][0] for shapes in (keys, argv) if name in shapes) if name or not missing else 0
            if missing and name:
                raise self.bad(line, f"layout {name} has no {missing[0]} line, and there is no unnamed one to share")
            if mine["keys"] is None or mine["argv"] is None:
                continue
            layout = Layout(name, mine["keys"][1], mine["argv"][1])
            self.check_counts(mine["argv"][0], layout.argv, ())
            self.check_counts(mine["keys"][0], layout.keys, layout.argv)
            for other in layouts:
                if alike(layout.keys, other.keys) and alike(layout.argv, other.argv):
                    raise self.bad(line, f"no call could tell layout {name} from {other.name or 'the unnamed one'}")
            layouts.append(layout)
        return tuple(layouts)

    def check_names(self, line: int, items: tuple[Item, ...]) -> None:
        # Repeated names are numbered, so `payload` can appear beside `(child_id payload)*n`.
        for repeated in (True, False):
            part = tuple(item for item in items if (isinstance(item, Group) and item.count != "") == repeated)
            names = [argument.name for argument in arguments_of(part) if not argument.literal]
            for name in names:
                if names.count(name) > 1:
                    raise self.bad(line, f"the name {name} appears twice")

    def check_counts(self, line: int, items: tuple[Item, ...], before: Sequence[Item]) -> None:
        """Each `*n` is counted by a plain argument, which must come first."""
        for place, item in enumerate(items):
            if not isinstance(item, Group) or item.count in ("", "*"):
                continue
            if Argument(item.count) not in (*before, *items[:place]):
                raise self.bad(line, f"{item} is counted by {item.count}, which is not an argument before it")

    def items(self, number: int, word: str, text: str) -> tuple[Item, ...]:
        tokens = self.tokens(number, text)
        items: list[Item] = []
        while tokens:
            if items and isinstance(items[-1], Group) and (items[-1].optional or items[-1].count == "*"):
                raise self.bad(number, f"nothing can follow {items[-1]}")
            items.append(self.item(number, word, tokens))
        return tuple(items)

    def item(self, number: int, word: str, tokens: list[tuple[str, str]]) -> Item:
        kind, text = tokens.pop(0)
        if kind == "word":
            return Argument(text)
        if kind == "literal":
            if word == "keys":
                raise self.bad(number, f"'{text}': a key has a name, only an argument can be literal")
            return Argument(text, literal=True)
        if text == "[":
            inner: list[Item] = []
            while tokens and tokens[0][1] != "]":
                inner.append(self.item(number, word, tokens))
            self.close(number, tokens, "]")
            match inner:
                case [Group(optional=False) as repeated]:
                    return Group(repeated.arguments, repeated.count, optional=True)
            return Group(self.plain(number, "[…]", inner), optional=True)
        if text == "(":
            inner = []
            while tokens and not tokens[0][1].startswith(")"):
                inner.append(self.item(number, word, tokens))
            mark = self.close(number, tokens, ")")
            if not mark.startswith(")*"):
                raise self.bad(number, "(…) must be followed by *n, or by * to repeat until no values are left")
            return Group(self.plain(number, "(…)", inner), mark[2:] or "*")
        raise self.bad(number, f"{text} closes nothing")

    def close(self, number: int, tokens: list[tuple[str, str]], mark: str) -> str:
        if not tokens:
            raise self.bad(number, f"{mark} is missing")
        return tokens.pop(0)[1]

    def plain(self, number: int, what: str, inner: list[Item]) -> tuple[Argument, ...]:
        arguments = tuple(item for item in inner if isinstance(item, Argument))
        if not arguments or len(arguments) < len(inner):
            also = " or one (…)" if what == "[…]" else ""
            raise self.bad(number, f"{what} holds one or more words{also} and nothing else")
        return arguments

    def tokens(self, number: int, text: str) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            token = _TOKEN.match(text, place)
            if token is None:
                raise self.bad(number, f"{text[place:].strip()!r} is not a word, 'literal', (…)*n or […]")
            assert token.lastgroup is not None
            tokens.append((token.lastgroup, token[token.lastgroup]))
            place = token.end()
        return tokens

    def moves(self) -> tuple[Move, ...]:
        moves: dict[str, Move] = {}
        for move in moves_of(self.source):
            if move.name in moves:
                raise self.bad(move.line, f"the move {move.name!r} already opens in line {moves[move.name].line}")
            moves[move.name] = move
        return tuple(moves.values())
