"""Figures for the things a board does not show: a counter over time, the ring of slots, the parts of a key.

matplotlib is imported inside the functions only. Each returns a `Figure` that belongs to no window and no global state:
a notebook shows it as a cell's last value, a script saves it with `figure.savefig`. Colours are `theme.ACCENTS`; what a
colour says is also said by a shape, a line or a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.keys import SETS
from emqkit.keyspace import Keyspace
from emqkit.trace import CallRecord, Trace
from emqkit.viz.theme import ACCENTS
from emqkit.words.names import Names
from emqkit.words.text import elided, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["counter_decay", "key_parts", "placement", "slot_ring"]

_INK, _SOFT, _LINE = "#15181e", "#555c68", "#d3d7de"
_MARKERS = "os^DvPX"
_COLOURS = tuple(ACCENTS[name] for name in ("held", "dead", "done", "schedule", "active", "pending", "plain"))


def counter_decay(trace: Trace, queue: str, parent_id: str) -> Figure:
    """The fan-in counter of a parent, call by call, with the call that moved it named at each step (Flows dive 01).

    Args:
        trace: what was recorded.
        queue: the parent's queue.
        parent_id: the parent.

    Raises:
        IllFormedId, IllFormedQueue: the parent cannot be named so.
        BadArgument: this parent has no counter anywhere in the trace.
    """
    keys.job(queue, parent_id)  # the gate
    parts = [Keyspace.of(one)[queue] for one in (trace.initial, *(record.after for record in trace.calls))]
    names = Names.of_trace(trace)
    who = names(parent_id)
    values = [part.counter(parent_id) for part in parts]
    if all(value is None for value in values):
        raise BadArgument("parent_id", parent_id, f"has no counter in this trace, in queue {queue!r}")
    held = [part.state(parent_id) == "awaiting_children" for part in parts]
    moved = [at for at in range(1, len(values)) if values[at] != values[at - 1]]

    figure, axes = _figure(9, 3.6)
    axes.set_title(f"The counter of {who} in {queue}", loc="left", fontsize=13, fontweight="bold")
    axes.step(
        range(len(values)),
        [float("nan") if value is None else value for value in values],
        where="post",
        color=ACCENTS["held"],
        linewidth=2.2,
    )
    for at in moved:
        value = values[at]
        if value is None:
            continue
        is_released = not held[at] and held[at - 1]
        axes.plot(
            [at],
            [value],
            marker="*" if is_released else "o",
            markersize=15 if is_released else 8,
            color=ACCENTS["done" if is_released else "held"],
            markeredgecolor=_INK,
            linestyle="none",
            zorder=3,
        )
        axes.annotate(
            _mover(trace, trace.calls[at - 1], names) + (f"\n{who} is released" if is_released else ""),
            (at, value),
            xytext=(7, 9),
            textcoords="offset points",
            fontsize=10,
            color=_INK,
        )
    _shade(axes, held)
    known = [value for value in values if value is not None]
    axes.set_ylim(min(0, *known) - 0.4, max(known) + 1)
    axes.set_xlim(-0.5, len(values) + max(1.0, len(values) * 0.12))
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("calls so far (shaded: the parent is held, in no set)")
    axes.set_ylabel("children outstanding")
    return figure


def _mover(trace: Trace, record: CallRecord, names: Names) -> str:
    """The call that moved the counter, with the id it was about."""
    if record.call.kind != "script":
        return record.call.verb
    args = trace.scripts.view(record.call).args
    ids = [id for name in ("id", "child_id", "parent_id") if (id := args.get(name)) is not None]
    return " ".join((record.call.verb, *map(names, ids[:1])))


def _shade(axes: Any, held: Sequence[bool]) -> None:
    start: int | None = None
    for at, is_held in enumerate([*held, False]):
        if is_held and start is None:
            start = at
        elif not is_held and start is not None:
            axes.axvspan(start, at, color=ACCENTS["held"], alpha=0.10, linewidth=0)
            start = None


def slot_ring(queues: Sequence[str]) -> Figure:
    """The 16384 slots as a ring, and where the keys of each queue are on it (Flows dive 03).

    Args:
        queues: names; one key's braces decide for all keys of a queue.

    Raises:
        IllFormedQueue: a name cannot stand inside a key.
        BadArgument: there is no name at all.
    """
    from math import cos, pi, sin

    slots = _slots(queues)
    figure, axes = _figure(8, 4.6)
    axes.set_aspect("equal")
    axes.axis("off")
    axes.set_title("One slot a queue, 16384 in the ring", loc="left", fontsize=13, fontweight="bold")
    steps = [2 * pi * step / 240 for step in range(241)]
    axes.plot([sin(at) for at in steps], [cos(at) for at in steps], color=_LINE, linewidth=10, solid_capstyle="round")
    for quarter in range(4):
        turn = 2 * pi * quarter / 4
        words = str(keys.SLOTS * quarter // 4)
        axes.text(0.84 * sin(turn), 0.84 * cos(turn), words, ha="center", va="center", fontsize=10, color=_SOFT)
    turns = {queue: 2 * pi * slot / keys.SLOTS for queue, slot in slots.items()}
    for side in (1, -1):
        here = [queue for queue, turn in turns.items() if (sin(turn) >= 0) == (side == 1)]
        here.sort(key=lambda queue: (-cos(turns[queue]), queue))
        heights = _apart([cos(turns[queue]) * 1.1 for queue in here], 0.27)
        for queue, height in zip(here, heights, strict=True):
            turn, place = turns[queue], list(turns).index(queue)
            axes.plot([1.04 * sin(turn), side * 1.3], [1.04 * cos(turn), height], color=_SOFT, linewidth=1, zorder=1)
            axes.plot(
                [sin(turn)],
                [cos(turn)],
                marker=_MARKERS[place % len(_MARKERS)],
                markersize=13,
                color=_COLOURS[place % len(_COLOURS)],
                markeredgecolor=_INK,
                zorder=3,
            )
            words = f"{elided(plain(queue), 18)}  {slots[queue]}"
            axes.text(
                side * 1.34, height, words, ha="left" if side == 1 else "right", va="center", fontsize=12, color=_INK
            )
    axes.set_xlim(-2.5, 2.5)
    axes.set_ylim(-1.4, 1.4)
    return figure


def _apart(heights: Sequence[float], least: float) -> list[float]:
    """The same heights, from the highest down, moved so that neighbours are `least` apart or more."""
    moved: list[float] = []
    for height in heights:
        moved.append(min(height, moved[-1] - least) if moved else height)
    if moved and moved[-1] < -1.3:  # too low: push the column up from its foot
        moved[-1] = -1.3
        for at in range(len(moved) - 2, -1, -1):
            moved[at] = max(moved[at], moved[at + 1] + least)
    return moved


def placement(queues: Sequence[str], *, nodes: int = 3) -> Figure:
    """The slots as a line, cut among the nodes of a cluster, and where each queue is: on whose node no script may reach
    for another's keys (Flows dive 03).

    Args:
        queues: names.
        nodes: how many nodes share the slots evenly, 1 to 8.

    Raises:
        IllFormedQueue: a name cannot stand inside a key.
        BadArgument: there is no name at all, or `nodes` is out of range.
    """
    if not isinstance(nodes, int) or isinstance(nodes, bool) or not 1 <= nodes <= 8:
        raise BadArgument("nodes", nodes, "is not a whole number from 1 to 8")
    slots = _slots(queues)
    figure, axes = _figure(9, 1.9 + 0.42 * len(slots))
    axes.set_title("Where the keys of each queue are", loc="left", fontsize=13, fontweight="bold")
    borders = [round(keys.SLOTS * node / nodes) for node in range(nodes + 1)]
    for node in range(nodes):
        start, end = borders[node], borders[node + 1]
        if node % 2:
            axes.axvspan(start, end, color=_LINE, alpha=0.35, linewidth=0)
        axes.text((start + end) / 2, -0.9, f"node {node + 1}", ha="center", va="center", fontsize=11, color=_SOFT)
    for line, slot in enumerate(slots.values()):
        colour, marker = _COLOURS[line % len(_COLOURS)], _MARKERS[line % len(_MARKERS)]
        axes.plot([0, keys.SLOTS], [line, line], color=_LINE, linewidth=1, zorder=1)
        axes.plot(
            [slot], [line], marker=marker, markersize=12, color=colour, markeredgecolor=_INK, zorder=3, clip_on=False
        )
        axes.annotate(
            str(slot),
            (slot, line),
            xytext=(11 if slot < keys.SLOTS * 0.9 else -11, 7),
            textcoords="offset points",
            ha="left" if slot < keys.SLOTS * 0.9 else "right",
            fontsize=11,
            color=_INK,
        )
    axes.set_yticks(range(len(slots)), [elided(plain(queue), 24) for queue in slots], fontsize=12)
    axes.set_ylim(len(slots) - 0.3, -1.4)
    axes.set_xlim(0, keys.SLOTS)
    axes.set_xticks(borders)
    axes.set_xlabel("slot = CRC16 of what stands between the braces, modulo 16384")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


def _slots(queues: Sequence[str]) -> dict[str, int]:
    if isinstance(queues, str) or not queues:
        raise BadArgument("queues", queues, "is not a list of queue names with at least one in it")
    return {queue: keys.slot(keys.base(queue)) for queue in dict.fromkeys(queues)}


def key_parts(key: str | bytes) -> Figure:
    """A key taken apart: what each stretch of it says, and which slot it makes (Flows dive 01, "the grammar of a row").

    Args:
        key: any key; one that is not the protocol's is shown as such.
    """
    whole = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    parts = _parts(whole)
    shown = [(plain(text), words, colour) for text, words, colour in parts]
    columns = sum(len(text) for text, _, _ in shown)
    room = max(columns, 46)
    figure, axes = _figure(0.134 * (room + 4), 2.4)  # 0.134 inches: one column of the monospaced font, and a hair
    axes.axis("off")
    axes.set_xlim(-2, room + 2)
    axes.set_ylim(-2.6, 1.6)
    at = 0.0
    for place, (text, words, colour) in enumerate(shown):
        middle = at + len(text) / 2
        axes.text(middle, 0.55, text, ha="center", va="center", family="monospace", fontsize=15, color=_INK)
        if words:
            axes.plot([at + 0.15, at + len(text) - 0.15], [0, 0], color=colour, linewidth=5, solid_capstyle="butt")
            low = -0.75 if place % 4 < 2 else -1.5  # neighbours are named at two heights, so that no name covers one
            axes.plot([middle, middle], [-0.1, low + 0.3], color=_LINE, linewidth=1.2)
            axes.text(middle, low, words, ha="center", va="center", fontsize=11, color=_INK)
        at += len(text)
    tag = f"slot {keys.slot(whole)}"
    why = "of what stands between the braces" if b"{" in whole and b"}" in whole else "of the whole key"
    axes.text(0, -2.35, f"{tag}: CRC16 {why}, modulo {keys.SLOTS}", ha="left", va="center", fontsize=11, color=_SOFT)
    return figure


_SAYS = {
    "row": "the row",
    "dependencies": "the counter",
    "processed": "results, by child",
    "failed": "errors, policy fp",
    "unsuccessful": "errors, policy id",
    "logs": "its logs",
    "flow:outbox": "signals to parents",
    "meta": "settings",
    "metrics:completed": "how many completed",
    "metrics:failed": "how many died",
} | dict.fromkeys(SETS, "a set")


def _parts(key: bytes) -> list[tuple[bytes, str, str]]:
    """The key in stretches: (bytes, what they say, colour); separators say nothing."""
    at = keys.parse(key)
    if at is None:
        return [(key, "not one of the protocol's keys", ACCENTS["plain"])]
    queue = at.queue.encode("utf-8", "surrogateescape")
    parts = [(b"emq", "EchoMQ's", ACCENTS["plain"]), (b":{", "", _LINE), (queue, "the queue", ACCENTS["held"])]
    if at.id is None:
        name = at.name.encode("utf-8", "surrogateescape")
        return [*parts, (b"}:", "", _LINE), (name, _SAYS.get(at.name, "somebody's own"), ACCENTS["active"])]
    id = at.id.encode("utf-8", "surrogateescape")
    parts += [(b"}:", "", _LINE), (b"job", "a job", ACCENTS["plain"]), (b":", "", _LINE)]
    parts.append((id, "its id" if at.name != "row" else "its id: this is the row", ACCENTS["done"]))
    if at.name != "row":
        name = at.name.encode("utf-8", "surrogateescape")
        parts += [(b":", "", _LINE), (name, _SAYS.get(at.name, "somebody's own"), ACCENTS["active"])]
    return parts


@cache
def _drawing() -> type[Figure]:
    from io import BytesIO

    from matplotlib.figure import Figure

    class Drawing(Figure):
        """A figure that a notebook can show by itself; matplotlib's own needs pyplot to have been imported."""

        def _repr_png_(self) -> bytes:
            drawn = BytesIO()
            self.savefig(drawn, format="png", dpi=110)
            return drawn.getvalue()

    return Drawing


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    """A figure without pyplot: nothing global, nothing shown twice, and its text dark on white in every theme."""
    figure = _drawing()(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=11, colors=_INK)
    return figure, axes
