"""What a header says of its script, and what that makes of a call: its layout, and a name for every value."""

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


@dataclass(frozen=True, eq=False)
class Contract:
    """What a Lua file opens with.

    Attributes:
        name: what calls name the script by, and the file's name without its ending.
        summary: the header's sentence.
        layouts: the shapes a call may have, the one without a name first.
        derives: the keys the script builds itself, as the header writes them.
        replies: what it answers, as the header writes it.
        moves: the moves of its body, in order.
    """

    name: str
    summary: str = field(compare=False)
    layouts: tuple[Layout, ...] = field(compare=False)
    derives: tuple[str, ...] = field(compare=False)
    replies: tuple[str, ...] = field(compare=False)
    moves: tuple[Move, ...] = field(compare=False)

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
            for argument in arguments_of(layout.argv)
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


def arguments_of(items: tuple[Item, ...]) -> list[Argument]:
    """The positions of a layout's keys or arguments, those in groups once."""
    return [a for item in items for a in (item.arguments if isinstance(item, Group) else (item,))]


@lru_cache(maxsize=1 << 14)  # scripts are equal when name and text are, so a changed one is another
def _view(contract: Contract, keys: tuple[bytes, ...], args: tuple[bytes, ...]) -> CallView:
    layout, fitted_keys, fitted_args = contract._match(keys, args)
    named_keys = fitted_keys.named(contract.name, "key", (one.keys for one in contract.layouts))
    named_args = fitted_args.named(contract.name, "argument", (one.argv for one in contract.layouts))
    return CallView(contract.name, layout.name, named_keys, named_args)


# --- does a call fit a layout -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Fitted:
    """The values of a layout that fits, and how many literals met."""

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
