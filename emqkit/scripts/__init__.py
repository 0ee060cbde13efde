"""A script is a Lua file that opens with its contract: what it takes, what it derives, what it answers.

The header is read once and used four times: it checks every call's shape before anything is sent, gives every key and
argument of a call its name, tells the host what a script set can do, and is the catalogue's text. Its grammar:

    -- NAME: one sentence
    -- keys     active row                  the layout without a name
    -- keys                                 a bare word: it takes none
    -- keys sq  active row dependencies     the layout `sq`: one space before its name, two or more after
    -- argv     id token (child payload)*n  `(…)*n` stands as often as the argument `n` says
    -- argv sq  id 'sq' (id token)*         a quoted word is literal; `(…)*` stands as often as there are values left
    -- argv up  id [parent policy]          `[…]` is a tail that is there as a whole or not at all
    -- derives  base..pending  row..:logs   keys the script builds itself, from a key or an argument
    -- replies  1 done · 0 gone             `derives` and `replies` may take several lines

The header ends at the first blank line, at the first line that is no comment, or at the first `-- move: NAME`. Such a
comment, anywhere in the body, opens a move: the unit a learner steps by.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from emqkit.arguments import to_text
from emqkit.errors import BadHeader, NotInCall, ScriptArity, ScriptMissing

__all__ = ["Argument", "CallView", "Group", "Layout", "Move", "Named", "Script", "ScriptSet", "lua_folder"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One position of KEYS or ARGV.

    Attributes:
        name: what the header calls it; for a literal, the word itself.
        literal: whether the value must be exactly that word.
    """

    name: str
    literal: bool = False

    def __str__(self) -> str:
        return f"'{self.name}'" if self.literal else self.name


@dataclass(frozen=True, slots=True)
class Group:
    """Positions that stand together: repeated, or an optional tail.

    Attributes:
        arguments: one round of it.
        count: the argument that says how often, `*` for as often as there are values left, empty for once.
        optional: whether the group may be missing as a whole.
    """

    arguments: tuple[Argument, ...]
    count: str = ""
    optional: bool = False

    def __str__(self) -> str:
        body = " ".join(map(str, self.arguments))
        if self.count:
            body = f"({body})*" if self.count == "*" else f"({body})*{self.count}"
        return f"[{body}]" if self.optional else body


Item = Argument | Group


@dataclass(frozen=True, slots=True)
class Layout:
    """One shape that a call of a script may have.

    Attributes:
        name: empty for the layout without a name.
        keys: what KEYS hold, in order.
        argv: what ARGV holds, in order.
    """

    name: str
    keys: tuple[Item, ...]
    argv: tuple[Item, ...]

    def __str__(self) -> str:
        return f"{_shape('keys', self.keys)}, {_shape('arguments', self.argv)}"


@dataclass(frozen=True, slots=True)
class Move:
    """A named stretch of a script's body; `line` (from 1) is that of its `-- move:` comment."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Named:
    """The keys of a call, or its arguments, by the names the header gives their positions.

    `args["id"]` is a value the call must carry, `args.get("policy")` one it may leave out, `args.all("child_id")` every
    round of a repeated one. The header's literals are no names.

    Attributes:
        script: which script's header gave the names.
        what: `key` or `argument`.
        pairs: all positions in order, literals too; repeated ones are numbered: `child 1`, `child 2`.
        declared: every name that some layout of the header has here.
    """

    script: str
    what: str
    pairs: tuple[tuple[str, bytes], ...]
    declared: frozenset[str] = field(repr=False)
    _single: Mapping[str, bytes] = field(hash=False, compare=False, repr=False)
    _rounds: Mapping[str, tuple[bytes, ...]] = field(hash=False, compare=False, repr=False)

    def __getitem__(self, name: str) -> bytes:
        """The value of this name; raises `NotInCall` when the header has no such name, or the call left it out."""
        try:
            return self._single[name]
        except KeyError:
            raise NotInCall(self.script, self.what, name, name in self.declared) from None

    def get(self, name: str) -> bytes | None:
        """The value of this name, or None when this call has none: a tail left out, or a header without it."""
        return self._single.get(name)

    def all(self, name: str) -> tuple[bytes, ...]:
        """The values of a repeated name, one for each round; empty when this call has none."""
        return self._rounds.get(name, ())

    def text(self, name: str) -> str:
        """The value of this name as text (UTF-8, other bytes kept by `surrogateescape`); raises `NotInCall`."""
        return to_text(self[name])

    def __contains__(self, name: object) -> bool:
        """Whether this call carries a value of this name, alone or repeated."""
        return name in self._single or name in self._rounds


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a script, read by its header: `call.args[0]` is `view.args["id"]`, wherever the header put it.

    Attributes:
        script: the script's name.
        layout: the name of the layout the call has; empty for the one without a name.
        keys: what the header calls its keys.
        args: what the header calls its arguments.
    """

    script: str
    layout: str
    keys: Named
    args: Named


class ScriptCall(Protocol):
    """What can be viewed: a `wire.Call` of a script, or anything with these three."""

    @property
    def verb(self) -> str: ...
    @property
    def keys(self) -> tuple[bytes, ...]: ...
    @property
    def args(self) -> tuple[bytes, ...]: ...


@dataclass(frozen=True)
class Script:
    """One Lua file and the contract it opens with.

    Attributes:
        name: what calls name it by, and the file's name without its ending.
        summary: the header's sentence.
        layouts: the shapes a call may have, the one without a name first.
        derives: the keys the script builds itself, as the header writes them.
        replies: what it answers, as the header writes it.
        moves: the moves of its body, in order.
        source: the whole text, as it is sent.
        path: where it was read, for messages; from `lua/` on if it lies there.

    Two scripts are equal when name and text are.
    """

    name: str
    summary: str = field(compare=False)
    layouts: tuple[Layout, ...] = field(compare=False)
    derives: tuple[str, ...] = field(compare=False)
    replies: tuple[str, ...] = field(compare=False)
    moves: tuple[Move, ...] = field(compare=False)
    source: str = field(repr=False)
    path: str = field(compare=False)

    @classmethod
    def parse(cls, source: str, path: str) -> Script:
        """Read a script from its text.

        Args:
            source: the Lua text, header first.
            path: where it lies; the file's name must be the script's.

        Raises:
            BadHeader: the header is no contract; says in which line and why.
        """
        return _Reader(source, path).script()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Script:
        """Read a script from a file of UTF-8 text.

        Raises:
            BadHeader: the header is no contract, or the file no UTF-8 text.
            ScriptMissing: there is no such file.
        """
        place = Path(path)
        try:
            source = place.read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise ScriptMissing(place.stem, str(place.parent)) from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise BadHeader(_shown(place), line, "the file is not UTF-8 text") from None
        return cls.parse(source, _shown(place))

    @cached_property
    def sha(self) -> str:
        """What EVALSHA calls the script by: the lower-case hexadecimal SHA-1 of its bytes."""
        return hashlib.sha1(self.source.encode("utf-8"), usedforsecurity=False).hexdigest()

    def layout_for(self, keys: Sequence[bytes], args: Sequence[bytes]) -> Layout:
        """The layout that a call with these keys and arguments has.

        Of several that fit, the one with most literals; of these, the first.

        Raises:
            ScriptArity: none fits; says what each expected and what came.
        """
        return self._match(keys, args)[0]

    def view(self, keys: Sequence[bytes], args: Sequence[bytes]) -> CallView:
        """A call with these keys and arguments, by the names of the header. Remembered, so that asking again is cheap.

        Raises:
            ScriptArity: the call fits no layout.
        """
        return _view(self, tuple(keys), tuple(args))

    def takes(self, name: str) -> bool:
        """Whether some layout has an argument of this name, such as `policy`: how the host learns what a set can do."""
        return any(
            argument.name == name and not argument.literal
            for layout in self.layouts
            for argument in _arguments(layout.argv)
        )

    def _match(self, keys: Sequence[bytes], args: Sequence[bytes]) -> tuple[Layout, _Fitted, _Fitted]:
        best: tuple[Layout, _Fitted, _Fitted] | None = None
        misfits: list[tuple[Layout, _Misfit]] = []
        for layout in self.layouts:
            try:
                # Arguments first: the keys' repetitions are counted by an argument.
                counts = dict.fromkeys((item.count for item in layout.keys + layout.argv if isinstance(item, Group)), 0)
                fitted_args = _fit("argument", layout.argv, args, counts)
                fitted_keys = _fit("key", layout.keys, keys, counts)
            except _Misfit as misfit:
                misfits.append((layout, misfit))
                continue
            if best is None or fitted_args.literals > best[2].literals:
                best = (layout, fitted_keys, fitted_args)
        if best is None:
            plain = "the plain layout" if len(self.layouts) > 1 else "it"
            came = f"{_count(len(keys), 'key')} and {_count(len(args), 'argument')} came"
            why = (f"{layout.name or plain} takes {layout}: {misfit}" for layout, misfit in misfits)
            raise ScriptArity(self.name, "; ".join((came, *why)))
        return best


@dataclass(frozen=True)
class ScriptSet:
    """Scripts by name: `published`, or another set laid over it.

    Attributes:
        name: what the set is called.
        scripts: its scripts, sorted by name.
    """

    name: str
    scripts: Mapping[str, Script] = field(hash=False, repr=False)

    def __post_init__(self) -> None:
        in_order = {name: self.scripts[name] for name in sorted(self.scripts)}
        object.__setattr__(self, "scripts", MappingProxyType(in_order))

    def __reduce__(self) -> tuple[Any, ...]:
        return ScriptSet, (self.name, dict(self.scripts))

    @classmethod
    def load(cls, name_or_path: str | os.PathLike[str]) -> ScriptSet:
        """Read a set of scripts.

        `published` is what lies in `lua/` itself, `tools` what lies in `lua/tools`, alone. Any other folder within
        `lua/` (`hardened`, `zoo/<mistake>`) or elsewhere is laid over `published`: it needs to hold only the scripts
        that differ. A name within `lua/` wins over a folder of that name here; a `Path` is never such a name.

        Raises:
            ScriptMissing: there is no such folder, or no Lua file in it.
            BadHeader: a script's header is no contract.
        """
        root = lua_folder()
        if name_or_path == "published":
            return cls("published", _read_folder(root))
        if name_or_path == "tools":
            return cls("tools", _read_folder(root / "tools"))
        wanted = os.fspath(name_or_path)
        folder = Path(wanted)
        name = folder.name
        if isinstance(name_or_path, str):
            if (root / wanted).is_dir() and not folder.is_absolute():
                folder, name = root / wanted, wanted
            elif not folder.is_dir():
                raise ScriptMissing(f"{wanted}/*.lua", f"{root}, nor from here")
        return cls.load("published").overlay(cls(name, _read_folder(folder)))

    def view(self, call: ScriptCall) -> CallView:
        """A call of one of these scripts, by the names of its header.

        Raises:
            ScriptMissing: the set has no script of this verb.
            ScriptArity: the call fits no layout of it.
        """
        return self[call.verb].view(call.keys, call.args)

    def overlay(self, other: ScriptSet) -> ScriptSet:
        """This set with the scripts of `other` in place of its own, under the name of `other`."""
        return ScriptSet(other.name, {**self.scripts, **other.scripts})

    def __getitem__(self, name: str) -> Script:
        """The script of this name; raises `ScriptMissing`."""
        try:
            return self.scripts[name]
        except KeyError:
            raise ScriptMissing(name, f"the set {self.name}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.scripts

    def __iter__(self) -> Iterator[Script]:
        """The scripts, sorted by name."""
        return iter(self.scripts.values())

    def __len__(self) -> int:
        return len(self.scripts)


def lua_folder() -> Path:
    """Where the Lua files lie: inside the installed package, or beside it in a checkout.

    Raises:
        ScriptMissing: in neither; names both places.
    """
    package = Path(__file__).resolve().parent.parent
    packaged, sibling = package / "lua", package.parent / "lua"
    for folder in (packaged, sibling):
        if folder.is_dir():
            return folder
    raise ScriptMissing("*.lua", f"{packaged} or {sibling}")


# --- does a call fit a layout -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Fitted:
    """The values of a layout that fits, and how many literals met."""

    pairs: list[tuple[str, bytes]] = field(default_factory=list)
    single: dict[str, bytes] = field(default_factory=dict)
    rounds: dict[str, list[bytes]] = field(default_factory=dict)
    literals: int = 0

    def named(self, script: str, what: str, layouts: Iterable[tuple[Item, ...]]) -> Named:
        declared = frozenset(a.name for items in layouts for a in _arguments(items) if not a.literal)
        rounds = {name: tuple(values) for name, values in self.rounds.items()}
        return Named(script, what, tuple(self.pairs), declared, self.single, rounds)


@lru_cache(maxsize=1 << 14)  # scripts compare by name and text, so a changed one is another
def _view(script: Script, keys: tuple[bytes, ...], args: tuple[bytes, ...]) -> CallView:
    layout, fitted_keys, fitted_args = script._match(keys, args)
    named_keys = fitted_keys.named(script.name, "key", (one.keys for one in script.layouts))
    named_args = fitted_args.named(script.name, "argument", (one.argv for one in script.layouts))
    return CallView(script.name, layout.name, named_keys, named_args)


class _Misfit(Exception):
    """Why a call does not fit a layout."""


def _fit(what: str, items: tuple[Item, ...], values: Sequence[bytes], counts: dict[str, int]) -> _Fitted:
    """Give each value the name of its position; fills in what counting arguments say."""
    fitted = _Fitted()
    named = fitted.pairs

    def take(argument: Argument, number: int = 0) -> None:
        name = f"{argument.name} {number}" if number else argument.name
        place = len(named)
        if place == len(values):
            raise _Misfit(f"{what} {place + 1} ({name}) is missing")
        value = values[place]
        if argument.literal:
            fitted.literals += 1
            if value != argument.name.encode():
                raise _Misfit(f"{what} {place + 1} is {_quoted(value)}, not {argument}")
        elif number:
            fitted.rounds.setdefault(argument.name, []).append(value)
        else:
            fitted.single[argument.name] = value
        named.append((name, value))

    for item in items:
        if isinstance(item, Argument):
            take(item)
            if what == "argument" and item.name in counts and not item.literal:
                value = named[-1][1]
                if not value.isdigit() or len(value) > 9:
                    raise _Misfit(f"{what} {len(named)} ({item.name}) is {_quoted(value)}, not a count")
                counts[item.name] = int(value)
            continue
        left = len(values) - len(named)
        if item.optional and not left:
            continue
        if item.count == "*":
            rounds = -(-left // len(item.arguments))
        elif item.count:
            rounds = counts[item.count]
            # Without this, a count of a thousand million would be walked through before it is refused.
            if rounds * len(item.arguments) > left:
                each = "" if len(item.arguments) == 1 else f" × {len(item.arguments)}"
                raise _Misfit(f"{item.count} says {rounds}{each}, and {_count(left, what)} came for {item}")
        else:
            rounds = 1
        for number in range(1, rounds + 1):
            for argument in item.arguments:
                take(argument, number if item.count else 0)
    if len(named) < len(values):
        raise _Misfit(f"{_count(len(values) - len(named), what)} too many")
    return fitted


def _shape(what: str, items: tuple[Item, ...]) -> str:
    return f"{what} {' '.join(map(str, items))}" if items else f"no {what}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _quoted(value: bytes) -> str:
    text = value.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:39] + "…")


# --- reading a file ---------------------------------------------------------------------------------------------------

_TITLE = re.compile(r"-- (\w+): (\S.*)")
_LINE = re.compile(r"-- (\w+)( +)(\S.*)")
_LAYOUT = re.compile(r"(\w+) {2,}(\S.*)")
_MOVE = re.compile(r"\s*-- move: (\S.*)")
_TOKEN = re.compile(r"\s*(?:(?P<word>\w+)|'(?P<literal>[^']+)'|(?P<mark>\)\*\w*|[()\[\]]))")


class _Reader:
    """Reads one file; every refusal names the line."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path
        self.lines = [line.rstrip() for line in source.split("\n")]

    def bad(self, line: int, why: str) -> BadHeader:
        return BadHeader(self.path, line, why)

    def script(self) -> Script:
        name, summary = self.title()
        shapes: dict[str, dict[str, tuple[int, tuple[Item, ...]]]] = {"keys": {}, "argv": {}}
        derives: list[tuple[int, str]] = []
        replies: list[str] = []
        for number, word, gap, rest in self.header():
            if word in shapes:
                layout, rest = self.layout_name(gap, rest)
                if layout in shapes[word]:
                    again = f"layout {layout} has" if layout else "there are"
                    hint = "" if layout else "; a layout's name stands one space after the word and two before the rest"
                    raise self.bad(number, f"{again} two lines of {word}{hint}")
                items = self.items(number, word, rest)
                self.check_names(number, items)
                shapes[word][layout] = (number, items)
            elif word == "derives":
                derives += [(number, pattern) for pattern in rest.split()]
            elif word == "replies":
                replies += [reply.strip() for reply in rest.split(" · ")]
            else:
                raise self.bad(number, f"a header knows keys, argv, derives and replies, not {word!r}")
        layouts = self.layouts(shapes["keys"], shapes["argv"])
        if not replies:
            raise self.bad(1, "the header has no replies line")
        declared = {a.name for layout in layouts for a in _arguments(layout.keys + layout.argv)}
        for number, pattern in derives:
            root, dots, _ = pattern.partition("..")
            if not dots or root not in declared:
                raise self.bad(number, f"derives {pattern} does not start with a key or an argument and two dots")
        moves = self.moves()
        return Script(
            name, summary, layouts, tuple(p for _, p in derives), tuple(replies), moves, self.source, self.path
        )

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
                yield number, line[3:], "", ""  # the script takes none
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
            # What a layout does not say for itself, it shares with the layout without a name.
            mine = {"keys": keys.get(name, keys.get("")), "argv": argv.get(name, argv.get(""))}
            missing = [word for word, shape in mine.items() if shape is None]
            line = max(shapes[name][0] for shapes in (keys, argv) if name in shapes) if name or not missing else 0
            if missing and name:
                raise self.bad(
                    line, f"layout {name} has no {missing[0]} line, and there is none without a name to share"
                )
            if mine["keys"] is None or mine["argv"] is None:
                continue
            layout = Layout(name, mine["keys"][1], mine["argv"][1])
            self.check_counts(mine["argv"][0], layout.argv, ())
            self.check_counts(mine["keys"][0], layout.keys, layout.argv)
            for other in layouts:
                if _alike(layout.keys, other.keys) and _alike(layout.argv, other.argv):
                    raise self.bad(line, f"no call could tell layout {name} from {other.name or 'that without a name'}")
            layouts.append(layout)
        return tuple(layouts)

    def check_names(self, line: int, items: tuple[Item, ...]) -> None:
        # Repeated names are numbered, so `payload` may stand beside `(child_id payload)*n`.
        for repeated in (True, False):
            part = tuple(item for item in items if (isinstance(item, Group) and item.count != "") == repeated)
            names = [argument.name for argument in _arguments(part) if not argument.literal]
            for name in names:
                if names.count(name) > 1:
                    raise self.bad(line, f"the name {name} stands twice")

    def check_counts(self, line: int, items: tuple[Item, ...], before: Sequence[Item]) -> None:
        """Each `*n` is counted by a plain argument, which must have been read by then."""
        for place, item in enumerate(items):
            if not isinstance(item, Group) or item.count in ("", "*"):
                continue
            if Argument(item.count) not in (*before, *items[:place]):
                raise self.bad(line, f"{item} is counted by {item.count}, which is no argument before it")

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
            if len(inner) == 1 and isinstance(inner[0], Group) and not inner[0].optional:
                return Group(inner[0].arguments, inner[0].count, optional=True)
            return Group(self.plain(number, "[…]", inner), optional=True)
        if text == "(":
            inner = []
            while tokens and not tokens[0][1].startswith(")"):
                inner.append(self.item(number, word, tokens))
            mark = self.close(number, tokens, ")")
            if not mark.startswith(")*"):
                raise self.bad(number, "(…) is followed by *n, or by * for as often as there are values left")
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
                raise self.bad(number, f"{text[place:].strip()!r} is no word, 'literal', (…)*n or […]")
            assert token.lastgroup is not None
            tokens.append((token.lastgroup, token[token.lastgroup]))
            place = token.end()
        return tokens

    def moves(self) -> tuple[Move, ...]:
        moves: dict[str, Move] = {}
        for number, line in enumerate(self.lines, start=1):
            found = _MOVE.fullmatch(line)
            if found is None:
                continue
            if found[1] in moves:
                raise self.bad(number, f"the move {found[1]!r} opens in line {moves[found[1]].line} already")
            moves[found[1]] = Move(found[1], number)
        return tuple(moves.values())


def _arguments(items: tuple[Item, ...]) -> list[Argument]:
    return [a for item in items for a in (item.arguments if isinstance(item, Group) else (item,))]


def _alike(one: tuple[Item, ...], other: tuple[Item, ...]) -> bool:
    """Whether the same values always fit both; with groups it is left to the calls."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if isinstance(a, Group) or isinstance(b, Group):
            return False
        if (a.literal or b.literal) and a != b:
            return False
    return True


def _read_folder(folder: Path) -> dict[str, Script]:
    scripts = [Script.read(path) for path in sorted(folder.glob("*.lua"))]
    if not scripts:
        raise ScriptMissing("*.lua", str(folder))
    return {script.name: script for script in scripts}


def _shown(place: Path) -> str:
    """A path for messages and pages: from `lua/` on for our own files, so that it reads the same everywhere."""
    root = lua_folder()
    try:
        return (Path(root.name) / place.resolve().relative_to(root)).as_posix()
    except ValueError:
        return str(place)
