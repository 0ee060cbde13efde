"""A board is a keyspace as a picture: one panel a queue, who is in which set, what waits for what, what just changed.

A board is a pure function of a snapshot and the changes that led to it. It shows no clock reading: a lease is running
or lapsed, a delayed job is due now or later. Every change has a mark (+ − ±) and a ring besides its colour, and every
key of the snapshot is on the board, also those that should not be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from emqkit import keys, outbox
from emqkit.keys import SETS
from emqkit.keyspace import POLICIES, WHOLE, FanIn, Keyspace, Part, Stranger
from emqkit.outbox import Failure, Poison
from emqkit.snapshot import Hash, Items, Members, Ranked, Snapshot, Text, Value
from emqkit.viz.theme import BOARD_CSS, MARKS
from emqkit.words.names import Names
from emqkit.words.text import elided, plain, short, width

__all__ = ["Picture", "Plan", "board", "describe", "plan"]

WIDTH = 860
_LEFT, _INNER = 22, 816
_COLUMNS = ("held", "pending", "active", "schedule", "dead")
_TITLES = {"held": (("h", "held:"), ("s", "in no set"))}
_COLUMN, _GAP = 158.4, 6
_CHIP, _CHIP_GAP = 45, 9
_ROW = 28
_CHIPS_SHOWN, _ROWS_SHOWN, _ENTRIES_SHOWN = 8, 24, 8
_MONO = 7.9  # px a column of the 13 px monospaced font takes, in the widest of the fonts named in the theme


class Picture(str):
    """An SVG picture: text, which a notebook shows as a picture when it is a cell's last value."""

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<an SVG picture of {len(self)} characters>"


# --- room for a whole trace ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Room:
    """What one queue needs over a whole trace."""

    name: str
    ids: tuple[str, ...]
    chips: Mapping[str, int]
    parents: Mapping[str, int]
    outbox: int
    strangers: int

    def with_room_for(self, other: _Room | None) -> _Room:
        """The most that either needs."""
        if other is None:
            return self
        parents = [*other.parents, *(id for id in self.parents if id not in other.parents)]
        return _Room(
            self.name,
            tuple(sorted({*self.ids, *other.ids}, key=keys.text)),
            {column: max(self.chips[column], other.chips[column]) for column in _COLUMNS},
            {id: max(self.parents.get(id, 0), other.parents.get(id, 0)) for id in parents},
            max(self.outbox, other.outbox),
            max(self.strangers, other.strangers),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The room every part needs over a whole trace, so that nothing moves from one board to the next."""

    queues: tuple[_Room, ...]
    strangers: int


def plan(moves: Iterable[tuple[Snapshot | None, Snapshot]]) -> Plan:
    """Plan the boards of a trace.

    Args:
        moves: every board's snapshot in the order of the trace, each with the one its changes are counted from.

    Returns:
        Queues in the order they first appear, ids in byte order; the most each place ever shows.
    """
    rooms: dict[str, _Room] = {}
    strangers = 0
    seen: set[tuple[int, int]] = set()
    for before, after in moves:
        if (id(before), id(after)) in seen:
            continue
        seen.add((id(before), id(after)))
        for name, move in _moves(before, after).items():
            if name:
                rooms[name] = _room(move).with_room_for(rooms.get(name))
            else:
                strangers = max(strangers, _room(move).strangers)
    return Plan(tuple(rooms.values()), strangers)


# --- what changed ----------------------------------------------------------------------------------------------------

_STATE_OF = {"pending": "pending", "active": "active", "schedule": "scheduled", "dead": "dead"}
_HASHES = ("processed", "unsuccessful", "failed")


@dataclass(frozen=True, slots=True)
class _Move:
    """One queue as it was and as it is, and the server's time now, in milliseconds."""

    was: Part
    now: Part
    at: int


def _moves(before: Snapshot | None, after: Snapshot) -> dict[str, _Move]:
    """Each queue that is or was there, by name; the keys of none as one without a name."""
    now = Keyspace.of(after)
    was = now if before is None else Keyspace.of(before)
    names = sorted({part.queue for part in (*was.parts, *now.parts)})
    return {name: _Move(was[name], now[name], after.now) for name in names}


def _mark(before: object, after: object) -> str:
    """`+` came, `-` went, `~` is different now; nothing where they are equal."""
    return "" if before == after else "+" if before is None else "-" if after is None else "~"


def _ids(move: _Move) -> list[str]:
    """Every id the queue knows or knew of, rows and members of sets and parents, in byte order."""
    return sorted({id for part in (move.was, move.now) for id in (*part.ids, *part.parents)}, key=keys.text)


@dataclass(frozen=True, slots=True)
class _Chip:
    id: str
    payload: str
    note: str
    mark: str
    parent: bool
    warn: bool

    @property
    def gone(self) -> bool:
        return self.mark == "-"


def _chips(move: _Move, column: str) -> list[_Chip]:
    """The chips of one column in byte order, those that left with this move among them."""
    was, now = (_standing(part, column) for part in (move.was, move.now))
    return [_chip_of(move, column, id, _mark(was.get(id), now.get(id))) for id in sorted({*was, *now}, key=keys.text)]


def _standing(part: Part, column: str) -> Mapping[str, object]:
    """The ids of a column with what is marked when it changes: a set's scores; of those held, row and counter.

    A deadline or due time that moves by less than a second is no news (`words.changes.telling`).
    """
    if column == "held":
        return {id: (row, part.of(id).get("dependencies")) for id, row in part.rows.items() if not part.places(id)}
    return part.members(column)


def _chip_of(move: _Move, column: str, id: str, mark: str) -> _Chip:
    row = move.now.row(id)
    payload = plain((row or move.was.row(id) or {}).get("payload", b""))
    if mark == "-":
        note, warn = _whither(move.now, id), False
    elif row is None:
        note, warn = "no row", True
    elif not all(name in row for name in WHOLE):
        note, warn = "row not whole", True
    elif row["state"] != keys.text(_STATE_OF.get(column, "awaiting_children")):
        note, warn = f"says {plain(row['state'])}", True
    else:
        note, warn = _note(move, column, id, row)
    if mark == "~" and column in ("active", "schedule"):
        moved = abs(move.now.members(column)[id] - move.was.members(column)[id])
        mark = mark if moved >= 1000 else ""  # milliseconds
    return _Chip(id, payload, note, mark, id in move.now.parents, warn)


def _whither(queue: Part, id: str) -> str:
    """Where a chip that left has gone."""
    if places := queue.places(id):
        return f"to {' and '.join(places)}"
    return "to no set" if id in queue.rows else "row deleted"


def _note(move: _Move, column: str, id: str, row: Mapping[str, bytes]) -> tuple[str, bool]:
    """What a chip says of a job that is as it should be."""
    if column == "held":
        fan = move.now.parents.get(id)
        if fan is None or fan.counter is None:
            return "no counter", True
        return f"waits for {plain(fan.counter)}", False
    ahead = move.now.members(column)[id] > move.at
    if column == "active":
        return ("lease running" if ahead else "lease lapsed"), False
    if column == "schedule":
        return ("due later" if ahead else "due now"), False
    if column == "dead" and "last_error" in row:
        return plain(row["last_error"]), False
    return f"attempts {plain(row['attempts'])}", False


def _fan(move: _Move, parent: str) -> dict[str, list[tuple[str, str, bytes]]]:
    """The three hashes of a parent as (mark, child id, value), lost entries among them."""
    lines: dict[str, list[tuple[str, str, bytes]]] = {}
    for name in _HASHES:
        was, now = move.was.hash(parent, name), move.now.hash(parent, name)
        each = sorted({*was, *now}, key=keys.text)
        lines[name] = [(_mark(was.get(id), now.get(id)), id, now[id] if id in now else was[id]) for id in each]
    return lines


def _signals(move: _Move) -> list[tuple[str, bytes]]:
    """The outbox as (mark, entry): entries trimmed by this move stand where they stood."""
    was, now = move.was.entries, move.now.entries
    gone = next(n for n in range(len(was) + 1) if was[n:] == now[: len(was) - n])
    new = len(was) - gone  # a list only loses at its head and gains at its tail
    return [*(("-", item) for item in was[:gone]), *(("" if at < new else "+", item) for at, item in enumerate(now))]


def _others(move: _Move) -> list[tuple[bytes, str, Stranger]]:
    """The keys that are not as the protocol has them, with their marks; those that went away too."""
    now, was = move.now.snapshot.keys, move.was.snapshot.keys
    found = [(one.key, _mark(was.get(one.key), one.value), one) for one in move.now.strangers]
    found += [(one.key, "-", one) for one in move.was.strangers if one.key not in now]
    return sorted(found, key=lambda one: one[0])


def _room(move: _Move) -> _Room:
    """What this board alone needs."""
    parents = sorted({*move.was.parents, *move.now.parents}, key=keys.text)
    return _Room(
        move.now.queue,
        tuple(_ids(move)),
        {column: min(max(1, len(_chips(move, column))), _CHIPS_SHOWN) for column in _COLUMNS},
        {parent: min(max(1, *map(len, _fan(move, parent).values())), _ENTRIES_SHOWN) for parent in parents},
        min(len(_signals(move)), _ENTRIES_SHOWN),
        min(len(_others(move)), _ENTRIES_SHOWN),
    )


# --- drawing ---------------------------------------------------------------------------------------------------------


def _xml(text: str) -> str:
    """Text as XML may hold it: what cannot be shown is escaped, whoever forgot to before."""
    return escape(plain(text), quote=False)


class _Pen:
    """Writes SVG elements; every text is escaped here and nowhere else."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.parts: list[str] = []

    def name(self, id: str, columns: int) -> str:
        """What to call a job where there is not much room."""
        return elided(self.names(id), columns) if self.names.known(id) else _short(id, columns)

    def rect(self, kind: str, x: float, y: float, w: float, h: float, radius: int = 0) -> None:
        rounded = f' rx="{radius}"' if radius else ""
        # fill and stroke as attributes are for readers whose page drops style sheets: outlines instead of black boxes
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"{rounded} fill="none" '
            f'stroke="currentColor"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "ln") -> None:
        self.parts.append(f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}" stroke="currentColor"/>')

    def text(self, kind: str, x: float, y: float, text: str) -> None:
        named = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text{named} x="{x:g}" y="{y:g}">{_xml(text)}</text>')

    def runs(self, kind: str, x: float, y: float, *runs: tuple[str, str]) -> None:
        """Stretches of text one after the other, each with its own kind: no width has to be guessed."""
        named = f' class="{kind}"' if kind else ""
        spans = []
        for at, (own, text) in enumerate(runs):
            styled = f' class="{own}"' if own else ""
            apart = ' dx="9"' if at else ""
            spans.append(f"<tspan{styled}{apart}>{_xml(text)}</tspan>")
        self.parts.append(f'<text{named} x="{x:g}" y="{y:g}">{"".join(spans)}</text>')

    def open(self, title: str = "") -> None:
        self.parts.append("<g>" + (f"<title>{_xml(title)}</title>" if title else ""))

    def close(self) -> None:
        self.parts.append("</g>")

    def behind(self, start: int, top: float, bottom: float) -> None:
        """Put a panel behind everything that was drawn since `start`."""
        drawn, self.parts[start:] = self.parts[start:], []
        self.rect("pa", 8, top, WIDTH - 16, bottom + 14 - top, 10)
        self.parts += drawn

    def badge(self, mark: str, x: float, y: float) -> None:
        self.parts.append(f'<circle class="k" cx="{x:g}" cy="{y:g}" r="9" fill="none" stroke="currentColor"/>')
        self.text("kt", x, y + 5, MARKS[mark])


def board(
    snapshot: Snapshot,
    *,
    previous: Snapshot | None = None,
    plan: Plan | None = None,
    names: Names | None = None,
    styled: bool = True,
) -> Picture:
    """Draw a keyspace.

    Args:
        snapshot: what to draw. Its `now` decides whether a lease is running and a delayed job due.
        previous: the snapshot before: what changed since is marked.
        plan: the room to leave, from `plan` over a whole trace; without one, what this board alone needs.
        names: what to call each job, as over a whole trace; by its payload here, if left out.
        styled: with its own style sheet. Without, the page must have `theme.BOARD_CSS`.

    Returns:
        An SVG document as text: `role="img"`, a title and a description in words, no ids, no scripts, no outside
        reference. It reads on light and on dark paper, and as outlines where style sheets are dropped.
    """
    moves = _moves(previous, snapshot)
    if names is None:
        names = Names.of_snapshot(snapshot, previous or Snapshot())
    planned = {} if plan is None else {room.name: room for room in plan.queues}
    outside = _room(moves[""]).strangers if "" in moves else 0
    outside = max(outside, 0 if plan is None else plan.strangers)
    pen = _Pen(names)
    y = 1.0
    for name in dict.fromkeys((*planned, *(name for name in moves if name))):
        move = moves.get(name) or _Move(Part(name, Snapshot()), Part(name, Snapshot()), snapshot.now)
        y = _panel(pen, y, move, planned[name] if name in planned else _room(move))
    if outside:
        nothing = Part("", Snapshot())
        y = _outside(pen, y, moves.get("", _Move(nothing, nothing, 0)), outside)
    if y == 1.0:
        pen.rect("pa", 8, y, WIDTH - 16, 72, 10)
        pen.text("s z", WIDTH / 2, y + 42, "the keyspace is empty")
        y += 84
    legend = ("ringed: this move", "+ new", "− gone", "± changed", "◆ a flow's parent")
    pen.runs("s", _LEFT, y + 12, *(("", words if at == 0 else f"· {words}") for at, words in enumerate(legend)))
    height = int(y + 24)
    style = f"<style>{BOARD_CSS}</style>" if styled else ""
    words = describe(snapshot, names)
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="emq-board" role="img" viewBox="7 0 {WIDTH - 14} {height}" '
        f'width="{WIDTH - 14}" height="{height}" fill="currentColor" font-family="sans-serif" font-size="13" '
        f'aria-label="{escape(words)}"><title>The keyspace</title><desc>{_xml(words)}</desc>'
        f"{style}{''.join(pen.parts)}</svg>"
    )


def _panel(pen: _Pen, top: float, move: _Move, room: _Room) -> float:
    start = len(pen.parts)
    y = _heading(pen, top + 34, move)
    y = _sets(pen, y + 14, move, room)
    if room.parents:
        y = _fans(pen, y + 14, move, room)
    y = _rows(pen, y + 14, move, room)
    if room.outbox or move.now.entries:
        y = _outbox(pen, y + 14, move, room)
    if room.strangers or _others(move):
        y = _strangers(pen, y + 14, "other keys", move, room.strangers)
    pen.behind(start, top, y)
    return y + 14 + 12


def _heading(pen: _Pen, y: float, move: _Move) -> float:
    queue = move.now.queue
    pen.open(f"queue {plain(queue)}")
    pen.runs("", _LEFT, y, ("q", elided(plain(queue), 30)), ("s", f"queue · slot {keys.slot(keys.base(queue))}"))
    pen.close()
    x = float(_LEFT + _INNER)
    for name in ("failed", "completed"):
        was, now = (part.counts.get(name) for part in (move.was, move.now))
        mark = _mark(was, now)
        count = "0" if now is None else plain(now)
        words = f"{name} {'0' if was is None else plain(was)} → {count}" if mark else f"{name} {count}"
        pen.text("e b" if mark else "e s", x, y, f"{MARKS[mark]} {words}" if mark else words)
        x -= 7.6 * len(words) + 30
    mark = _mark(move.was.paused or None, move.now.paused or None)
    if move.now.paused or mark:
        words = "paused" if move.now.paused else "no longer paused"
        wide = 8.2 * len(words) + 24
        pen.rect("bx", x - wide, y - 17, wide, 24, 12)
        if mark:
            pen.rect("r", x - wide - 2, y - 19, wide + 4, 28, 14)
            pen.badge(mark, x, y - 19)
        pen.text("z b", x - wide / 2, y, words)
    return y


def _sets(pen: _Pen, y: float, move: _Move, room: _Room) -> float:
    columns = {column: _chips(move, column) for column in _COLUMNS}
    rows = max(max(room.chips[column], min(len(chips), _CHIPS_SHOWN)) for column, chips in columns.items())
    over = any(len(chips) > _CHIPS_SHOWN for chips in columns.values()) or rows == _CHIPS_SHOWN
    height = 34 + rows * (_CHIP + _CHIP_GAP) + (20 if over else 2)
    for place, (column, chips) in enumerate(columns.items()):
        x = _LEFT + place * (_COLUMN + _GAP)
        pen.rect("bx bh" if column == "held" else "bx", x, y, _COLUMN, height, 8)
        pen.rect(column, x + 12, y + 12, 10, 10, 2)
        pen.runs("", x + 29, y + 22, *_TITLES.get(column, (("h", column),)))
        present = sum(1 for chip in chips if not chip.gone)
        pen.text("s e", x + _COLUMN - 12, y + 22, str(present))
        shown = _most_telling(chips)
        for line, chip in enumerate(shown):
            _chip(pen, x + 5, y + 34 + line * (_CHIP + _CHIP_GAP) + 3, column, chip)
        if len(chips) > len(shown):
            pen.text("s", x + 12, y + height - 9, f"and {len(chips) - len(shown)} more")
    return y + height


def _most_telling(chips: list[_Chip]) -> list[_Chip]:
    """The chips there is room for: the changed ones first to be kept, all in their order."""
    if len(chips) <= _CHIPS_SHOWN:
        return chips
    order = sorted(range(len(chips)), key=lambda at: (not chips[at].mark, at))
    return [chips[at] for at in sorted(order[:_CHIPS_SHOWN])]


def _chip(pen: _Pen, x: float, y: float, column: str, chip: _Chip) -> None:
    w = _COLUMN - 10
    pen.open(f"{plain(chip.id)} · {chip.payload} · {chip.note}")
    if chip.gone:
        pen.rect("g", x, y, w, _CHIP, 7)
    else:
        pen.rect(f"c {column}", x, y, w, _CHIP, 7)
        pen.rect(column, x, y + 7, 4, _CHIP - 14, 2)
        if chip.mark:
            pen.rect("r", x - 1, y - 1, w + 2, _CHIP + 2, 8)
    marked, id = " ◆" if chip.parent else "", _short(chip.id, 12)
    runs = [("b", id + marked)]
    if pen.names.known(chip.id):
        room = int((w - 21) / _MONO) - width(id + marked)
        runs = [("b", pen.name(chip.id, room) + marked), ("s", id)]
    pen.runs(f"m{' x' if chip.gone else ''}", x + 10, y + 19, *runs)
    pen.text(
        "s b" if chip.warn else "s",
        x + 10,
        y + 37,
        elided(("⚠ " if chip.warn else "") + chip.note, 16 if chip.warn else 19),
    )
    if chip.mark:
        pen.badge(chip.mark, x + w - 3, y + 3)
    pen.close()


def _short(id: str, columns: int) -> str:
    """An id on a chip: its last four characters, unless its namespace or shape is worth seeing."""
    name = short(id)
    return name[3:] if name.startswith("JOB…") else elided(name, columns)


def _fans(pen: _Pen, y: float, move: _Move, room: _Room) -> float:
    for parent, lines in room.parents.items():
        height = max(130, 42 + lines * 24)
        pen.rect("bx", _LEFT, y, _INNER, height, 8)
        _counter(pen, _LEFT + 14, y, move, parent)
        hashes = _fan(move, parent)
        for place, name in enumerate(_HASHES):
            x = _LEFT + 206 + place * 206
            pen.line(x - 14, y + 12, x - 14, y + height - 12)
            pen.text("h", x, y + 25, name)
            entries = hashes[name]
            pen.text("s e", x + 186, y + 25, str(sum(1 for mark, _, _ in entries if mark != "-")))
            if not entries:
                pen.text("s", x, y + 50, "none")
            shown = entries if len(entries) <= lines else entries[: lines - 1]
            for line, (mark, child, value) in enumerate(shown):
                _hash_line(pen, x, y + 50 + line * 24, mark, child, value)
            if len(entries) > len(shown):
                pen.text("s", x, y + 50 + len(shown) * 24, f"and {len(entries) - len(shown)} more")
        y += height + 10
    return y - 10


def _counter(pen: _Pen, x: float, y: float, move: _Move, parent: str) -> None:
    was, fan = (part.parents.get(parent, FanIn()) for part in (move.was, move.now))
    mark = _mark(was.counter, fan.counter)
    pen.open(f"the fan-in of {plain(parent)}")
    pen.runs("", x, y + 25, ("h", "fan-in of"), ("m b", f"{pen.name(parent, 11)} ◆"))
    if fan.counter is None and not mark:
        pen.text("s", x, y + 63, "no counter")
        pen.close()
        return
    shown = "none" if fan.counter is None else elided(plain(fan.counter), 6)
    if mark == "~":
        shown = f"{elided(plain(was.counter or b''), 6)} → {shown}"
    pen.text("n", x, y + 66, shown)
    wide = 18.5 * width(shown)
    if mark:
        pen.rect("r", x - 7, y + 37, wide + 18, 38, 8)
        pen.badge(mark, x + wide + 11, y + 39)
    pen.text("s", x, y + 95, "children outstanding")
    pen.close()
    # One pip a child: ■ its result is in, ▨ it died and was ignored, □ still outstanding.
    if fan.counter is not None and fan.counter.isdigit():
        done, ignored, left = len(fan.processed), len(fan.unsuccessful), int(fan.counter)
        if 0 < done + ignored + left <= 12:
            for place, kind in enumerate("p" * done + "u" * ignored + "o" * left):
                at = x + place * 16
                pen.rect("done" if kind == "p" else "pip", at, y + 105, 11, 11, 2)
                if kind == "u":
                    pen.line(at, y + 116, at + 11, y + 105, "pip")


def _hash_line(pen: _Pen, x: float, y: float, mark: str, child: str, value: bytes) -> None:
    pen.open(f"{plain(child)}: {plain(value)}")
    if mark and mark != "-":
        pen.rect("r t", x - 6, y - 16, 190, 23, 6)
    start = f"{MARKS[mark]} " if mark else ""
    own = value == keys.text(child)
    words = "its own id" if own else elided(plain(value), 14 if mark else 16)
    pen.runs("m x" if mark == "-" else "m", x, y, ("b", start + pen.name(child, 10)), ("s" if own else "", words))
    pen.close()


_TABLE = (("id", 26), ("state", 100), ("attempts", 298), ("payload", 362), ("parent", 524), ("policy", 652), ("", 708))
_CELLS = {"state": 24, "attempts": 7, "payload": 19, "parent": 15, "policy": 6, "": 13}
_POLICIES = {plain(code): words for code, words in POLICIES.items()}


def _rows(pen: _Pen, y: float, move: _Move, room: _Room) -> float:
    was, now = move.was.rows, move.now.rows
    ids = list(dict.fromkeys((*room.ids, *_ids(move))))
    hidden = 0
    if len(ids) > _ROWS_SHOWN:
        # the changed rows first, then those that exist, each in its place
        def telling(at: int) -> tuple[bool, bool, int]:
            return (not _mark(was.get(ids[at]), now.get(ids[at])), ids[at] not in now, at)

        kept = sorted(sorted(range(len(ids)), key=telling)[: _ROWS_SHOWN - 1])
        hidden = len(ids) - len(kept)
        ids = [ids[at] for at in kept]
    lines = max(1, len(ids) + (1 if hidden else 0))
    height = 38 + lines * _ROW
    pen.rect("bx", _LEFT, y, _INNER, height, 8)
    for label, x in _TABLE:
        pen.text("s", _LEFT + x, y + 22, label or "more")
    pen.line(_LEFT + 12, y + 31, _LEFT + _INNER - 12, y + 31)
    if not ids:
        pen.text("s", _LEFT + 26, y + 53, "no rows yet")
    for line, id in enumerate(ids):
        _row(pen, y + 53 + line * _ROW, move, id)
    if hidden:
        pen.text("s", _LEFT + 26, y + 53 + len(ids) * _ROW, f"and {hidden} more rows")
    return y + height


def _row(pen: _Pen, y: float, move: _Move, id: str) -> None:
    was, row = move.was.row(id) or {}, move.now.row(id)
    lost = {field: (plain(value), "x") for field, value in was.items() if field not in (row or {})}
    mark = _mark(move.was.row(id), row)
    name = _short(id, 8)
    if row is None:
        pen.open(f"{plain(id)} · no row")
        if lost:
            pen.text("m b", _LEFT + 8, y, MARKS["-"])
            pen.text("m x", _LEFT + 26, y, name)
            _cells(pen, y, move.now, lost, id)
        else:
            pen.text("m s", _LEFT + 26, y, name)
            pen.text("s", _LEFT + 100, y, "no row")
        pen.close()
        return
    pen.open(" · ".join([plain(id), *(f"{field}: {plain(value)}" for field, value in sorted(row.items()))]))
    if mark:
        pen.rect("r t", _LEFT + 3, y - 18.5, _INNER - 6, 25, 6)
        pen.text("m b", _LEFT + 8, y, MARKS[mark])
    pen.text("m b", _LEFT + 26, y, f"{name} ◆" if id in move.now.parents else name)
    cells = {}
    for field, value in row.items():
        words, changed = plain(value), _mark(was.get(field), value)
        if changed == "~" and field in ("state", "attempts"):
            # where both do not fit, the old value is cut: what it is now is the news
            words = f"{elided(plain(was[field]), max(2, _CELLS[field] - 3 - width(words)))} → {words}"
        cells[field] = (words, "b" if changed else "")
    _cells(pen, y, move.now, cells | lost, id)
    pen.close()


def _cells(pen: _Pen, y: float, queue: Part, cells: Mapping[str, tuple[str, str]], id: str) -> None:
    columns = dict(_TABLE)
    shown = {field: cells[field] for field in ("state", "attempts", "payload") if field in cells}
    if "parent" in cells:
        parent, tone = cells["parent"]
        place, other = cells.get("parent_queue", ("", ""))
        shown["parent"] = (
            f"{pen.name(parent, max(5, 13 - width(place)) if place else 15)}{' @' + place if place else ''}",
            tone or other,
        )
    elif "parent_queue" in cells:
        shown["parent"] = (f"@{cells['parent_queue'][0]}", cells["parent_queue"][1])
    if "parent_policy" in cells:
        code, tone = cells["parent_policy"]
        shown["policy"] = (_POLICIES.get(code, f"⚠ {code}"), tone)
    used = {"state", "attempts", "payload", "parent", "parent_queue", "parent_policy"}
    rest = [(field, *cells[field]) for field in sorted(cells) if field not in used]
    if id in queue.logs:
        rest.append(("logs", str(len(queue.logs[id])), ""))
    if rest:
        words = " ".join(value if field == "last_error" else f"{plain(field)}={value}" for field, value, _ in rest)
        tones = {tone for _, _, tone in rest}
        shown[""] = (words, "b" if "b" in tones else "x" if tones == {"x"} else "")
    missing = [field for field in ("state", "attempts", "payload") if field not in shown]
    for field, (words, tone) in shown.items():
        pen.text(f"m {tone}".rstrip(), _LEFT + columns[field], y, elided(words, _CELLS[field]))
    for field in missing:
        pen.text("s b", _LEFT + columns[field], y, "⚠ none")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a list: its mark, what hovering it says, and its texts as (style, x, text)."""

    mark: str
    title: str
    cells: tuple[tuple[str, float, str], ...]


def _list(
    pen: _Pen,
    y: float,
    head: tuple[tuple[str, str], ...],
    lines: Sequence[_Line],
    room: int,
    none: str,
    count: str = "",
) -> float:
    """A box with a heading, a count at its right, and as many lines as there is room for."""
    fits = max(room, min(len(lines), _ENTRIES_SHOWN), 1)
    height = 40 + fits * _ROW
    pen.rect("bx", _LEFT, y, _INNER, height, 8)
    pen.runs("", _LEFT + 12, y + 24, *head)
    if count:
        pen.text("s e", _LEFT + _INNER - 12, y + 24, count)
    shown = lines if len(lines) <= fits else lines[: fits - 1]
    for place, line in enumerate(shown):
        at = y + 55 + place * _ROW
        pen.open(line.title)
        if line.mark in ("+", "~"):
            pen.rect("r t", _LEFT + 3, at - 18.5, _INNER - 6, 25, 6)
        if line.mark:
            pen.text("m b", _LEFT + 8, at, MARKS[line.mark])
        for style, x, text in line.cells:
            pen.text(style, _LEFT + x, at, text)
        pen.close()
    if not lines:
        pen.text("s", _LEFT + 26, y + 53, none)
    if len(lines) > len(shown):
        pen.text("s", _LEFT + 26, y + 55 + len(shown) * _ROW, f"and {len(lines) - len(shown)} more")
    return y + height


def _outbox(pen: _Pen, y: float, move: _Move, room: _Room) -> float:
    lines = []
    for mark, raw in _signals(move):
        kind, route, rest = _signal(pen, raw)
        struck = " x" if mark == "-" else ""
        cells = (
            ("b" + struck, 26, ("⚠ " if kind == "poison" else "") + kind),
            ("m" + struck, 112, elided(route, 38)),
            ("m" + struck, 420, elided(rest, 48)),
        )
        lines.append(_Line(mark, plain(raw), cells))
    head = (("h", "outbox"), ("s", "signals to parents elsewhere, oldest first"))
    return _list(pen, y, head, lines, room.outbox, "empty", str(len(move.now.entries)))


def _signal(pen: _Pen, raw: bytes) -> tuple[str, str, str]:
    read = outbox.decode(raw)
    if isinstance(read, Poison):
        return "poison", plain(raw), read.why
    route = f"{pen.name(read.child_id, 11)} for {pen.name(read.parent_id, 11)} in {plain(read.parent_queue)}"
    if isinstance(read, Failure):
        return "died", route, f"policy {plain(read.policy)} · error {plain(read.error)}"
    own = read.result == keys.text(read.child_id)
    return "completed", route, "result: its own id" if own else f"result {plain(read.result)}"


def _strangers(pen: _Pen, y: float, title: str, move: _Move, room: int) -> float:
    lines = []
    for key, mark, one in _others(move):
        why, words = ("gone", "") if mark == "-" else (one.why, value_words(one.value))
        at = keys.parse(key)
        within = key if at is None else key.removeprefix(keys.base(at.queue))  # the panel names the queue
        cells = (
            ("m b x" if mark == "-" else "m b", 26.0, elided(plain(within), 36)),
            ("s", 318.0, elided(why, 40)),
            ("m", 596.0, elided(words, 26)),
        )
        lines.append(_Line(mark, f"{plain(key)} · {why} · {words}", cells))
    return _list(pen, y, (("h", title),), lines, room, "none")


def value_words(value: Value) -> str:
    """A value of any type on one line; the scores of a sorted set are left out, they may be clock readings."""
    match value:
        case Text():
            return plain(value.value)
        case Hash():
            return ", ".join(f"{plain(name)}={plain(content)}" for name, content in value.fields)
        case Items():
            return ", ".join(plain(item) for item in value.items)
        case Ranked():
            return ", ".join(plain(member) for member, _ in value.members)
        case Members():
            return ", ".join(plain(member) for member in value.members)


def _outside(pen: _Pen, top: float, move: _Move, room: int) -> float:
    start = len(pen.parts)
    pen.text("q", _LEFT, top + 34, "outside every queue")
    y = _strangers(pen, top + 48, "keys", move, room)
    pen.behind(start, top, y)
    return y + 26


# --- in words --------------------------------------------------------------------------------------------------------


def describe(snapshot: Snapshot, names: Names | None = None) -> str:
    """The board in words, for those who do not see it: each queue, each set, who waits for how many."""
    names = names or Names.of_snapshot(snapshot)
    held = Keyspace.of(snapshot)
    said = []
    for queue in held.queues:
        parts = [f"queue {plain(queue.queue)}{', paused' if queue.paused else ''}"]
        for chip in _chips(_Move(queue, queue, snapshot.now), "held"):
            parts.append(f"{names(chip.id)} in no set, {chip.note}")
        for name in SETS:
            members = [names(id) for id in sorted(queue.sets[name], key=keys.text)]
            parts.append(f"{name}: {', '.join(members[:12]) or 'none'}{' and more' if len(members) > 12 else ''}")
        for parent, fan in queue.parents.items():
            counts = f"{len(fan.processed)} processed, {len(fan.unsuccessful)} unsuccessful, {len(fan.failed)} failed"
            counter = "no counter" if fan.counter is None else f"counter {plain(fan.counter)}"
            parts.append(f"fan-in of {names(parent)}: {counter}, {counts}")
        if queue.entries:
            parts.append(f"outbox: {len(queue.entries)} waiting")
        if queue.strangers:
            parts.append(f"{len(queue.strangers)} other keys")
        said.append("; ".join(parts))
    if held.strangers:
        said.append(f"{len(held.strangers)} keys outside every queue")
    return ". ".join(said) + "." if said else "The keyspace is empty."
