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
from emqkit.arguments import to_text
from emqkit.keys import SETS
from emqkit.keyspace import POLICIES, WHOLE, FanIn, Keyspace, Part, Stranger, known
from emqkit.outbox import Failure, Poison
from emqkit.snapshot import Change, Hash, Items, Members, Ranked, Snapshot, Text, Value, diff
from emqkit.viz.theme import BOARD_CSS, MARKS
from emqkit.words.changes import telling
from emqkit.words.names import Names, payloads
from emqkit.words.text import elided, plain, short, width

__all__ = ["Picture", "Plan", "board", "changes_of", "describe", "plan"]

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
    order: dict[str, dict[str, None]] = {}
    chips: dict[tuple[str, str], int] = {}
    parents: dict[str, dict[str, int]] = {}
    signals: dict[str, int] = {}
    strangers: dict[str, int] = {}
    outside = 0
    seen: set[tuple[int, int]] = set()
    for before, after in moves:
        if (id(before), id(after)) in seen:
            continue
        seen.add((id(before), id(after)))
        changes = _Changes(() if before is None else diff(before, after))
        held, was = Keyspace.of(after), Keyspace.of(before or Snapshot())
        outside = max(outside, len(held.strangers) + len(changes.lost("", held.strangers)))
        for name in sorted({queue.queue for one in (held, was) for queue in one.queues}):
            now = held[name]
            place = order.setdefault(name, {})
            for one in (was[name], now):
                place.update(dict.fromkeys(_ids(one)))
            place.update(dict.fromkeys(changes.jobs(name, "row")))
            for column in _COLUMNS:
                chips[name, column] = max(chips.get((name, column), 1), len(_chips(now, column, changes, after.now)))
            fans = parents.setdefault(name, {})
            for parent in _parents(now, changes):
                fans[parent] = max(fans.get(parent, 1), *(len(lines) for lines in _fan(now, parent, changes).values()))
            signals[name] = max(signals.get(name, 0), len(_signals(now, changes)))
            others = len(now.strangers) + len(changes.lost(name, now.strangers))
            strangers[name] = max(strangers.get(name, 0), others)
    return Plan(
        tuple(
            _Room(
                name,
                tuple(sorted(ids, key=keys.text)),
                {column: min(chips[name, column], _CHIPS_SHOWN) for column in _COLUMNS},
                {parent: min(lines, _ENTRIES_SHOWN) for parent, lines in parents[name].items()},
                min(signals[name], _ENTRIES_SHOWN),
                min(strangers[name], _ENTRIES_SHOWN),
            )
            for name, ids in order.items()
        ),
        min(outside, _ENTRIES_SHOWN),
    )


def changes_of(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """What a board or a list of changes shows between two snapshots (`words.changes.telling`)."""
    return tuple(telling(diff(before, after)))


def _ids(queue: Part) -> list[str]:
    """Every id the queue knows of, rows and members of sets and parents, sorted."""
    return sorted({*queue.ids, *queue.parents}, key=keys.text)


# --- what changed ----------------------------------------------------------------------------------------------------

_KINDS = {"added": "+", "removed": "-", "changed": "~"}


class _Changes:
    """Changes by key and part."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._all: dict[bytes, list[Change]] = {}
        self.by_key: dict[bytes, dict[bytes | None, Change]] = {}
        for change in telling(changes):
            self._all.setdefault(change.key, []).append(change)
            self.by_key.setdefault(change.key, {})[change.part] = change

    def all_of(self, key: bytes) -> Sequence[Change]:
        """Every change of a key, also two of one list position."""
        return self._all.get(key, ())

    def of(self, key: bytes) -> Mapping[bytes | None, Change]:
        return self.by_key.get(key, {})

    def mark(self, key: bytes, part: str | bytes | None) -> str:
        change = self.of(key).get(keys.text(part) if isinstance(part, str) else part)
        return "" if change is None else _KINDS[change.kind]

    def was(self, key: bytes, part: str | None) -> bytes | None:
        change = self.of(key).get(None if part is None else keys.text(part))
        return None if change is None else change.before

    def removed(self, key: bytes) -> dict[str, bytes]:
        """The parts this key lost, with what they held."""
        return {
            to_text(change.part): change.before
            for change in self.of(key).values()
            if change.kind == "removed" and change.part is not None and change.before is not None
        }

    def payloads(self) -> list[tuple[str, bytes]]:
        """The payloads that went away, by id."""
        gone = ((keys.parse(key), parts.get(b"payload")) for key, parts in self.by_key.items())
        return [(at.id, one.before) for at, one in gone if at and at.id and at.name == "row" and one and one.before]

    def jobs(self, queue: str, name: str) -> dict[str, bytes]:
        """The job keys called `name` that changed in this queue: id → key."""
        found = {}
        for key in self.by_key:
            at = keys.parse(key)
            if at is not None and at.queue == queue and at.name == name and at.id is not None:
                found[at.id] = key
        return found

    def lost(self, queue: str, present: Sequence[Stranger]) -> list[bytes]:
        """Keys of a queue, or of none (""), that are not the protocol's and went away altogether."""
        here = {stranger.key for stranger in present}
        lost = []
        for key, parts in self.by_key.items():
            at = keys.parse(key)
            if ("" if at is None else at.queue) != queue or key in here:
                continue
            if (at is None or not known(at)) and all(one.kind == "removed" for one in parts.values()):
                lost.append(key)
        return lost


@dataclass(frozen=True, slots=True)
class _Chip:
    id: str
    payload: str
    note: str
    mark: str = ""
    parent: bool = False
    warn: bool = False

    @property
    def gone(self) -> bool:
        return self.mark == "-"


def _row_key(queue: str, id: str) -> bytes:
    # ids on a board may be ill-formed, and still have to be shown: not keys.job, which is a gate
    return keys.job_prefix(queue) + keys.text(id)


def _chips(queue: Part, column: str, changes: _Changes, now: int) -> list[_Chip]:
    """The chips of one column in byte order, those that left with this move among them."""
    if column == "held":
        return _held(queue, changes)
    key = keys.queue_key(queue.queue, column)
    members = queue.sets[column]
    left = changes.removed(key)
    chips = []
    for id in sorted({*members, *left}, key=keys.text):
        row = queue.rows.get(id)
        payload = _payload(queue, id, changes)
        is_parent = id in queue.parents
        if id not in members:
            chips.append(_Chip(id, payload, _whither(queue, id), "-", is_parent))
            continue
        note, warn = _note(column, members[id], row, now)
        chips.append(_Chip(id, payload, note, changes.mark(key, id), is_parent, warn))
    return chips


def _payload(queue: Part, id: str, changes: _Changes) -> str:
    lost = changes.was(_row_key(queue.queue, id), "payload")
    return plain(queue.rows.get(id, {}).get("payload", lost or b""))


def _whither(queue: Part, id: str) -> str:
    """Where a chip that left has gone."""
    if places := queue.places(id):
        return f"to {' and '.join(places)}"
    return "to no set" if id in queue.rows else "row deleted"


_STATE_OF = {"pending": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead"}


def _whole(row: Mapping[str, bytes]) -> bool:
    return all(name in row for name in WHOLE)


def _note(column: str, score: float, row: Mapping[str, bytes] | None, now: int) -> tuple[str, bool]:
    if row is None:
        return "no row", True
    if not _whole(row):
        return "row not whole", True
    if row["state"] != _STATE_OF[column]:
        return f"says {plain(row['state'])}", True
    if column == "active":
        return ("lease running" if score > now else "lease lapsed"), False
    if column == "schedule":
        return ("due later" if score > now else "due now"), False
    if column == "dead" and "last_error" in row:
        return plain(row["last_error"]), False
    return f"attempts {plain(row['attempts'])}", False


def _held(queue: Part, changes: _Changes) -> list[_Chip]:
    """Jobs with a row and in no set: held parents, and what was lost; and those that were so before this move."""
    rows = changes.jobs(queue.queue, "row")
    chips = []
    for id in sorted({*queue.rows, *rows}, key=keys.text):
        key = _row_key(queue.queue, id)
        row = queue.rows.get(id)
        touched = changes.of(key).values()
        kept = sum(1 for change in touched if change.kind != "added")
        had_row = kept > 0 or (row is not None and len(row) > len(touched))
        placed = queue.places(id)
        was_placed = any(
            changes.mark(keys.queue_key(queue.queue, name), id) == "-"
            or (name in placed and changes.mark(keys.queue_key(queue.queue, name), id) != "+")
            for name in SETS
        )
        held_now, held_before = row is not None and not placed, had_row and not was_placed
        if not held_now and not held_before:
            continue
        counter_key = key + b":dependencies"
        payload = _payload(queue, id, changes)
        if not held_now or row is None:
            chips.append(_Chip(id, payload, _whither(queue, id), "-", id in queue.parents))
            continue
        mark = "+" if not held_before else "~" if touched or changes.of(counter_key) else ""
        fan = queue.parents.get(id)
        if not _whole(row):
            note, warn = "row not whole", True
        elif row["state"] != b"awaiting_children":
            note, warn = f"says {plain(row['state'])}", True
        elif fan is None or fan.counter is None:
            note, warn = "no counter", True
        else:
            note, warn = f"waits for {plain(fan.counter)}", False
        chips.append(_Chip(id, payload, note, mark, fan is not None, warn))
    return chips


def _parents(queue: Part, changes: _Changes) -> list[str]:
    names = ("dependencies", "processed", "unsuccessful", "failed")
    touched = (id for name in names for id in changes.jobs(queue.queue, name))
    return sorted({*queue.parents, *touched}, key=keys.text)


_HASHES = ("processed", "unsuccessful", "failed")


def _fan(queue: Part, parent: str, changes: _Changes) -> dict[str, list[tuple[str, str, bytes]]]:
    """The three hashes of a parent as (mark, child id, value), lost entries among them."""
    fan = queue.parents.get(parent, FanIn())
    lines: dict[str, list[tuple[str, str, bytes]]] = {}
    for name, held in zip(_HASHES, (fan.processed, fan.unsuccessful, fan.failed), strict=True):
        key = _row_key(queue.queue, parent) + b":" + name.encode()
        lost = changes.removed(key)
        lines[name] = [
            (changes.mark(key, id), id, held[id] if id in held else lost[id])
            for id in sorted({*held, *lost}, key=keys.text)
        ]
    return lines


def _signals(queue: Part, changes: _Changes) -> list[tuple[str, bytes]]:
    """The outbox as (mark, entry): entries trimmed by this move stand where they stood."""
    changed = list(changes.all_of(keys.queue_key(queue.queue, "flow:outbox")))
    gone = [("-", change.before) for change in changed if change.before is not None]
    new = sum(1 for change in changed if change.after is not None)
    kept = len(queue.entries) - new  # a list only loses at its head and gains at its tail
    return gone + [("" if at < kept else "+", item) for at, item in enumerate(queue.entries)]


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

    def badge(self, mark: str, x: float, y: float) -> None:
        self.parts.append(f'<circle class="k" cx="{x:g}" cy="{y:g}" r="9" fill="none" stroke="currentColor"/>')
        self.text("kt", x, y + 5, MARKS[mark])


def board(
    snapshot: Snapshot,
    *,
    changes: Iterable[Change] = (),
    previous: Snapshot | None = None,
    plan: Plan | None = None,
    names: Names | None = None,
    styled: bool = True,
) -> Picture:
    """Draw a keyspace.

    Args:
        snapshot: what to draw. Its `now` decides whether a lease is running and a delayed job due.
        changes: what to mark as changed, as `diff` gives it.
        previous: instead of `changes`: the snapshot to count them from.
        plan: the room to leave, from `plan` over a whole trace; without one, what this board alone needs.
        names: what to call each job, as over a whole trace; by its payload here, if left out.
        styled: with its own style sheet. Without, the page must have `theme.BOARD_CSS`.

    Returns:
        An SVG document as text: `role="img"`, a title and a description in words, no ids, no scripts, no outside
        reference. It reads on light and on dark paper, and as outlines where style sheets are dropped.
    """
    made = tuple(changes)
    if not made and previous is not None:
        made = tuple(diff(previous, snapshot))
    if plan is None:
        plan = _plan_one(snapshot, made)
    marked = _Changes(made)
    held = Keyspace.of(snapshot)
    if names is None:
        names = Names.of([*payloads(held), *marked.payloads()])
    pen = _Pen(names)
    y = 1.0
    for room in plan.queues:
        y = _panel(pen, y, held[room.name], room, marked, snapshot.now)
    planned = {room.name for room in plan.queues}
    for queue in (one for one in held.queues if one.queue not in planned):
        y = _panel(pen, y, queue, _plan_one(snapshot, made, queue.queue).queues[0], marked, snapshot.now)
    if plan.strangers or held.strangers:
        y = _outside(pen, y, held.strangers, plan.strangers, marked)
    if not plan.queues and not held.parts and not plan.strangers:
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


def _plan_one(snapshot: Snapshot, changes: Sequence[Change], only: str | None = None) -> Plan:
    """The room one board needs, its lost chips and entries included."""
    marked = _Changes(changes)
    held = Keyspace.of(snapshot)
    touched = {at.queue for key in marked.by_key if (at := keys.parse(key)) is not None}
    rooms = tuple(
        _Room(
            name,
            tuple(sorted({*_ids(queue), *marked.jobs(name, "row")}, key=keys.text)),
            {c: min(max(1, len(_chips(queue, c, marked, snapshot.now))), _CHIPS_SHOWN) for c in _COLUMNS},
            {
                parent: min(max(1, *map(len, _fan(queue, parent, marked).values())), _ENTRIES_SHOWN)
                for parent in _parents(queue, marked)
            },
            min(len(_signals(queue, marked)), _ENTRIES_SHOWN),
            min(len(queue.strangers) + len(marked.lost(name, queue.strangers)), _ENTRIES_SHOWN),
        )
        for name, queue in ((name, held[name]) for name in sorted({*touched, *(one.queue for one in held.queues)}))
        if only in (None, name)
    )
    return Plan(rooms, min(len(held.strangers) + len(marked.lost("", held.strangers)), _ENTRIES_SHOWN))


def _panel(pen: _Pen, top: float, queue: Part, room: _Room, changes: _Changes, now: int) -> float:
    start = len(pen.parts)
    y = _heading(pen, top + 34, queue, changes)
    y = _sets(pen, y + 14, queue, room, changes, now)
    if room.parents:
        y = _fans(pen, y + 14, queue, room, changes)
    y = _rows(pen, y + 14, queue, room, changes)
    if room.outbox or queue.entries:
        y = _outbox(pen, y + 14, queue, room, changes)
    lost = changes.lost(queue.queue, queue.strangers)
    if room.strangers or queue.strangers or lost:
        y = _strangers(pen, y + 14, "other keys", queue.strangers, lost, room.strangers, changes)
    behind = _Pen(pen.names)
    behind.rect("pa", 8, top, WIDTH - 16, y + 14 - top, 10)
    pen.parts[start:start] = behind.parts
    return y + 14 + 12


def _heading(pen: _Pen, y: float, queue: Part, changes: _Changes) -> float:
    name = elided(plain(queue.queue), 30)
    pen.open(f"queue {plain(queue.queue)}")
    pen.runs("", _LEFT, y, ("q", name), ("s", f"queue · slot {keys.slot(keys.base(queue.queue))}"))
    pen.close()
    x = float(_LEFT + _INNER)
    for name in ("failed", "completed"):
        key = keys.queue_key(queue.queue, f"metrics:{name}")
        mark = changes.mark(key, "count")
        words = f"{name} {_went(changes.was(key, 'count'), queue.counts.get(name), mark)}"
        pen.text("e b" if mark else "e s", x, y, f"{MARKS[mark]} {words}" if mark else words)
        x -= 7.6 * len(words) + 30
    meta = keys.queue_key(queue.queue, "meta")
    mark = changes.mark(meta, "paused")
    if queue.paused or mark:
        words = "paused" if queue.paused else "no longer paused"
        wide = 8.2 * len(words) + 24
        pen.rect("bx", x - wide, y - 17, wide, 24, 12)
        if mark:
            pen.rect("r", x - wide - 2, y - 19, wide + 4, 28, 14)
            pen.badge(mark, x, y - 19)
        pen.text("z b", x - wide / 2, y, words)
    return y


def _went(before: bytes | None, after: bytes | None, mark: str) -> str:
    now = "0" if after is None else plain(after)
    return f"{'0' if before is None else plain(before)} → {now}" if mark else now


def _sets(pen: _Pen, y: float, queue: Part, room: _Room, changes: _Changes, now: int) -> float:
    columns = {column: _chips(queue, column, changes, now) for column in _COLUMNS}
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


def _fans(pen: _Pen, y: float, queue: Part, room: _Room, changes: _Changes) -> float:
    for parent, lines in room.parents.items():
        height = max(130, 42 + lines * 24)
        pen.rect("bx", _LEFT, y, _INNER, height, 8)
        _counter(pen, _LEFT + 14, y, queue, parent, changes)
        hashes = _fan(queue, parent, changes)
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


def _counter(pen: _Pen, x: float, y: float, queue: Part, parent: str, changes: _Changes) -> None:
    fan = queue.parents.get(parent, FanIn())
    key = _row_key(queue.queue, parent) + b":dependencies"
    mark = changes.mark(key, None)
    pen.open(f"the fan-in of {plain(parent)}")
    pen.runs("", x, y + 25, ("h", "fan-in of"), ("m b", f"{pen.name(parent, 11)} ◆"))
    now = "none" if fan.counter is None else elided(plain(fan.counter), 6)
    shown = now
    if mark == "~":
        shown = f"{elided(plain(changes.was(key, None) or b''), 6)} → {now}"
    if fan.counter is None and not mark:
        pen.text("s", x, y + 63, "no counter")
        pen.close()
        return
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


def _rows(pen: _Pen, y: float, queue: Part, room: _Room, changes: _Changes) -> float:
    every = dict.fromkeys((*room.ids, *_ids(queue), *changes.jobs(queue.queue, "row")))
    ids = [id for id in every if id in queue.rows or changes.of(_row_key(queue.queue, id)) or id in room.ids]
    hidden = 0
    if len(ids) > _ROWS_SHOWN:
        # the changed rows first, then those that exist, each in its place
        def telling(at: int) -> tuple[bool, bool, int]:
            return (not changes.of(_row_key(queue.queue, ids[at])), ids[at] not in queue.rows, at)

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
        _row(pen, y + 53 + line * _ROW, queue, id, changes)
    if hidden:
        pen.text("s", _LEFT + 26, y + 53 + len(ids) * _ROW, f"and {hidden} more rows")
    return y + height


def _row(pen: _Pen, y: float, queue: Part, id: str, changes: _Changes) -> None:
    key = _row_key(queue.queue, id)
    row = queue.rows.get(id)
    touched = changes.of(key)
    lost = changes.removed(key)
    name = _short(id, 8)
    if row is None:
        pen.open(f"{plain(id)} · no row")
        if lost:
            pen.text("m b", _LEFT + 8, y, MARKS["-"])
            pen.text("m x", _LEFT + 26, y, name)
            _cells(pen, y, queue, {field: (plain(value), "x") for field, value in lost.items()}, id)
        else:
            pen.text("m s", _LEFT + 26, y, name)
            pen.text("s", _LEFT + 100, y, "no row")
        pen.close()
        return
    mark = "+" if touched and len(touched) >= len(row) and not lost and _all_added(touched) else "~" if touched else ""
    pen.open(" · ".join([plain(id), *(f"{field}: {plain(value)}" for field, value in sorted(row.items()))]))
    if mark:
        pen.rect("r t", _LEFT + 3, y - 18.5, _INNER - 6, 25, 6)
        pen.text("m b", _LEFT + 8, y, MARKS[mark])
    pen.text("m b", _LEFT + 26, y, f"{name} ◆" if id in queue.parents else name)
    cells = {}
    for field, value in row.items():
        change = changes.mark(key, field)
        words = plain(value)
        if change == "~" and field in ("state", "attempts"):
            # where both do not fit, the old value is cut: what it is now is the news
            was = plain(changes.was(key, field) or b"")
            words = f"{elided(was, max(2, _CELLS[field] - 3 - width(words)))} → {words}"
        cells[field] = (words, "b" if change else "")
    for field, value in lost.items():
        cells[field] = (plain(value), "x")
    _cells(pen, y, queue, cells, id)
    pen.close()


def _all_added(touched: Mapping[bytes | None, Change]) -> bool:
    return all(change.kind == "added" for change in touched.values())


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


def _outbox(pen: _Pen, y: float, queue: Part, room: _Room, changes: _Changes) -> float:
    lines = _signals(queue, changes)
    fits = max(room.outbox, min(len(lines), _ENTRIES_SHOWN), 1)
    height = 40 + fits * _ROW
    pen.rect("bx", _LEFT, y, _INNER, height, 8)
    pen.runs("", _LEFT + 12, y + 24, ("h", "outbox"), ("s", "signals to parents elsewhere, oldest first"))
    pen.text("s e", _LEFT + _INNER - 12, y + 24, str(len(queue.entries)))
    if not lines:
        pen.text("s", _LEFT + 26, y + 53, "empty")
    shown = lines if len(lines) <= fits else lines[: fits - 1]
    for line, (mark, raw) in enumerate(shown):
        at = y + 55 + line * _ROW
        struck = " x" if mark == "-" else ""
        pen.open(plain(raw))
        if mark == "+":
            pen.rect("r t", _LEFT + 3, at - 18.5, _INNER - 6, 25, 6)
        if mark:
            pen.text("m b", _LEFT + 8, at, MARKS[mark])
        kind, route, rest = _signal(pen, raw)
        pen.text("b" + struck, _LEFT + 26, at, ("⚠ " if kind == "poison" else "") + kind)
        pen.text("m" + struck, _LEFT + 112, at, elided(route, 38))
        pen.text("m" + struck, _LEFT + 420, at, elided(rest, 48))
        pen.close()
    if len(lines) > len(shown):
        pen.text("s", _LEFT + 26, y + 55 + len(shown) * _ROW, f"and {len(lines) - len(shown)} more")
    return y + height


def _signal(pen: _Pen, raw: bytes) -> tuple[str, str, str]:
    read = outbox.decode(raw)
    if isinstance(read, Poison):
        return "poison", plain(raw), read.why
    route = f"{pen.name(read.child_id, 11)} for {pen.name(read.parent_id, 11)} in {plain(read.parent_queue)}"
    if isinstance(read, Failure):
        return "died", route, f"policy {plain(read.policy)} · error {plain(read.error)}"
    own = read.result == keys.text(read.child_id)
    return "completed", route, "result: its own id" if own else f"result {plain(read.result)}"


def _strangers(
    pen: _Pen,
    y: float,
    title: str,
    present: Sequence[Stranger],
    lost: Sequence[bytes],
    room: int,
    changes: _Changes,
) -> float:
    lines = [(_key_mark(one, changes), one.key, one.why, value_words(one.value)) for one in present]
    lines += [("-", key, "gone", "") for key in lost]
    lines.sort(key=lambda line: line[1])
    fits = max(room, min(len(lines), _ENTRIES_SHOWN), 1)
    height = 40 + fits * _ROW
    pen.rect("bx", _LEFT, y, _INNER, height, 8)
    pen.text("h", _LEFT + 12, y + 24, title)
    shown = lines if len(lines) <= fits else lines[: fits - 1]
    if not lines:
        pen.text("s", _LEFT + 26, y + 53, "none")
    for line, (mark, key, why, words) in enumerate(shown):
        at = y + 55 + line * _ROW
        pen.open(f"{plain(key)} · {why} · {words}")
        if mark in ("+", "~"):
            pen.rect("r t", _LEFT + 3, at - 18.5, _INNER - 6, 25, 6)
        if mark:
            pen.text("m b", _LEFT + 8, at, MARKS[mark])
        parsed = keys.parse(key)
        within = key if parsed is None else key.removeprefix(keys.base(parsed.queue))  # the panel names the queue
        pen.text("m b" + (" x" if mark == "-" else ""), _LEFT + 26, at, elided(plain(within), 36))
        pen.text("s", _LEFT + 318, at, elided(why, 40))
        pen.text("m", _LEFT + 596, at, elided(words, 26))
        pen.close()
    if len(lines) > len(shown):
        pen.text("s", _LEFT + 26, y + 55 + len(shown) * _ROW, f"and {len(lines) - len(shown)} more")
    return y + height


def _key_mark(stranger: Stranger, changes: _Changes) -> str:
    touched = changes.of(stranger.key)
    if not touched:
        return ""
    parts = max(1, _size(stranger.value))
    return "+" if _all_added(touched) and len(touched) >= parts else "~"


def _size(value: Value) -> int:
    match value:
        case Text():
            return 1
        case Hash():
            return len(value.fields)
        case Items():
            return len(value.items)
        case Ranked() | Members():
            return len(value.members)


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


def _outside(pen: _Pen, top: float, present: Sequence[Stranger], room: int, changes: _Changes) -> float:
    start = len(pen.parts)
    pen.text("q", _LEFT, top + 34, "outside every queue")
    y = _strangers(pen, top + 48, "keys", present, changes.lost("", present), room, changes)
    behind = _Pen(pen.names)
    behind.rect("pa", 8, top, WIDTH - 16, y + 14 - top, 10)
    pen.parts[start:start] = behind.parts
    return y + 26


# --- in words --------------------------------------------------------------------------------------------------------


def describe(snapshot: Snapshot, names: Names | None = None) -> str:
    """The board in words, for those who do not see it: each queue, each set, who waits for how many."""
    names = names or Names.of_snapshot(snapshot)
    held = Keyspace.of(snapshot)
    said = []
    for queue in held.queues:
        parts = [f"queue {plain(queue.queue)}{', paused' if queue.paused else ''}"]
        for chip in _held(queue, _Changes(())):
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
