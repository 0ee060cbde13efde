"""What a header declares, and how to read a call by it: the call's layout, and a name for every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from emqkit.arguments import to_text
from emqkit.errors import NotInCall, ScriptArity

__all__ = ["Argument", "CallView", "Contract", "Group", "Item", "Layout", "Move", "Named", "arguments_of"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One position of KEYS or ARGV.

    Attributes:
        name: what the header calls it; for a literal, the word itself.
        literal: whether the value must be that exact word.
    """

    name: str
    literal: bool = False

    def __str__(self) -> str:
        return f"'{self.name}'" if self.literal else self.name


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive positions that repeat, or that form an optional tail.

    Attributes:
        arguments: one round of it.
        count: the argument that says how often it repeats, `*` for until no values are left, empty for once.
        optional: whether the whole group may be missing.
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
    """One shape that a call of the script may have.

    Attributes:
        name: empty for the layout without a name.
        keys: the positions of KEYS, in order.
        argv: the positions of ARGV, in order.
    """

    name: str
    keys: tuple[Item, ...]
    argv: tuple[Item, ...]

    def __str__(self) -> str:
        return f"{_shape('keys', self.keys)}, {_shape('arguments', self.argv)}"


@dataclass(frozen=True, slots=True)
class Move:
    """A named stretch of a script's body; `line` (from 1) is the line of its `-- move:` comment."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Named:
    """The keys or the arguments of a call, by the names that the header gives their positions.

    `args["id"]` is a required value, `args.get("policy")` an optional one, `args.all("child_id")` all values of a
    repeated one. Literals are not names.

    Attributes:
        script: which script's header gave the names.
        what: `key` or `argument`.
        pairs: all positions in order, literals too; repeated ones are numbered: `child 1`, `child 2`.
        declared: every name that any layout of the header declares.
    """

    script: str
    what: str
    pairs: tuple[tuple[str, bytes], ...]
    declared: frozenset[str] = field(repr=False)
    _single: Mapping[str, bytes] = field(compare=False, repr=False)
    _rounds: Mapping[str, tuple[bytes, ...]] = field(compare=False, repr=False)

    def __getitem__(self, name: str) -> bytes:
        """The value of this name; raises `NotInCall` if the header has no such name or the call left it out."""
        try:
            return self._single[name]
        except KeyError:
            raise NotInCall(self.script, self.what, name, name in self.declared) from None

    def get(self, name: str) -> bytes | None:
        """The value of this name, or None if this call has none: an omitted tail, or a header without the name."""
        return self._single.get(name)

    def all(self, name: str) -> tuple[bytes, ...]:
        """The values of a repeated name, one per round; empty if this call has none."""
        return self._rounds.get(name, ())

    def text(self, name: str) -> str:
        """The value of this name as text (UTF-8, other bytes kept by `surrogateescape`); raises `NotInCall`."""
        return to_text(self[name])

    def __contains__(self, name: object) -> bool:
        """Whether this call has a value of this name, single or repeated."""
        return name in self._single or name in self._rounds


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a script, read by its header: `view.args["id"]` is the id, whatever its position.

    Attributes:
        script: the script's name.
        layout: the name of the call's layout; empty for the one without a name.
        keys: its keys by their names in the header.
        args: its arguments by their names in the header.
    """

    script: str
    layout: str
    keys: Named
    args: Named


@dataclass(frozen=True, eq=False)
class Contract:
    """The contract with which a Lua file opens.

    Attributes:
        name: the script's name in calls, and the file's name without its extension.
        summary: the header's sentence.
        layouts: the shapes a call may have, the one without a name first.
        derives: the keys the script builds itself, as written in the header.
        replies: its replies, as written in the header.
        moves: the moves of its body, in order.
    """

    name: str
    summary: str
    layouts: tuple[Layout, ...]
    derives: tuple[str, ...]
    replies: tuple[str, ...]
    moves: tuple[Move, ...]

    def layout_for(self, keys: Sequence[bytes], args: Sequence[bytes]) -> Layout:
        """The layout of a call with these keys and arguments.

        If several fit, the one with the most literals; of these, the first.

        Raises:
            ScriptArity: none fits; says what each expects and what the call has.
        """
        return self._match(keys, args)[0]

    def view(self, keys: Sequence[bytes], args: Sequence[bytes]) -> CallView:
        """A call with these keys and arguments, by the names in the header. Cached.

        Raises:
            ScriptArity: no layout fits the call.
        """
        return _view(self, tuple(keys), tuple(args))

    def takes(self, name: str) -> bool:
        """Whether some layout has an argument of this name, such as `policy`; it tells the host what a set can do."""
        return any(
            argument.name == name and not argument.literal
            for layout in self.layouts
            for argument in arguments_of(layout.argv)
        )

    def _match(self, keys: Sequence[bytes], args: Sequence[bytes]) -> tuple[Layout, _Fitted, _Fitted]:
        best: tuple[Layout, _Fitted, _Fitted] | None = None
        misfits: list[tuple[Layout, _Misfit]] = []
        for layout in self.layouts:
            try:
                # Arguments first: how often keys repeat is given by an argument.
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


def arguments_of(items: tuple[Item, ...]) -> list[Argument]:
    """The positions of a layout's keys or arguments, with each group's positions once."""
    return [a for item in items for a in (item.arguments if isinstance(item, Group) else (item,))]


@lru_cache(maxsize=1 << 14)  # scripts are equal when name and text are, so an edited one has its own entry
def _view(contract: Contract, keys: tuple[bytes, ...], args: tuple[bytes, ...]) -> CallView:
    layout, fitted_keys, fitted_args = contract._match(keys, args)
    named_keys = fitted_keys.named(contract.name, "key", (one.keys for one in contract.layouts))
    named_args = fitted_args.named(contract.name, "argument", (one.argv for one in contract.layouts))
    return CallView(contract.name, layout.name, named_keys, named_args)


# --- does a call fit a layout -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Fitted:
    """The values of a layout that fits, and how many literals matched."""

    pairs: list[tuple[str, bytes]] = field(default_factory=list)
    single: dict[str, bytes] = field(default_factory=dict)
    rounds: dict[str, list[bytes]] = field(default_factory=dict)
    literals: int = 0

    def named(self, script: str, what: str, layouts: Iterable[tuple[Item, ...]]) -> Named:
        declared = frozenset(a.name for items in layouts for a in arguments_of(items) if not a.literal)
        rounds = {name: tuple(values) for name, values in self.rounds.items()}
        return Named(script, what, tuple(self.pairs), declared, self.single, rounds)


class _Misfit(Exception):
    """Why a call does not fit a layout."""


def _fit(what: str, items: tuple[Item, ...], values: Sequence[bytes], counts: dict[str, int]) -> _Fitted:
    """Name each value by its position; fills in the values of counting arguments."""
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
            # Otherwise a count of a billion would be iterated before it is refused.
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
