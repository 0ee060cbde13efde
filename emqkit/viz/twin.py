"""A film as a page that needs neither a kernel nor JavaScript: a list of steps that open to what they did.

It is made of what survives everywhere: lists, tables, `details`, and styles on the elements themselves. A notebook that
JupyterLab does not trust loses style sheets and SVG, and GitHub more; without its styles the twin still reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from emqkit.viz.film import CHANGES, MANY, Film
from emqkit.viz.stage import LANES, Fact
from emqkit.viz.theme import ACCENTS, MARKS
from emqkit.words.text import many, plain

__all__ = ["twin"]

PICTURED = 24
"""How many steps get their board."""

CHIPS = 12

_PAPER = "background:#ffffff;color:#15181e;font:13px/1.45 system-ui,sans-serif"
_QUEUE = "border:1px solid #d3d7de;border-radius:8px;background:#f5f6f8;padding:4px 10px 6px;margin:0"
_CELL = "border:0;border-top:1px solid #d3d7de;padding:3px 8px 3px 0;text-align:left;vertical-align:top;color:#15181e"
_HEAD = f"{_CELL};font-weight:400;width:76px"
_TABLE = "width:100%;border-collapse:collapse;margin:2px 0 0;font-size:13px"
_SIGN = {"+": "border:2px solid #15181e", "~": "border:2px solid #15181e", "-": "border:1px dashed #555c68"}


def twin(film: Film, key: str = "") -> str:
    """The film as HTML.

    Args:
        film: what to show.
        key: what a player finds its twin by, to hide it once it is alive itself.

    Returns:
        Every sentence and every change, as long as they are not too many; in a long film some steps have no board.
    """
    stops = [number for number in film.told if film.frames[number].level == CHANGES]
    pictured = set(stops if len(stops) <= PICTURED else _spread(stops))
    items = []
    told = set(film.told)
    for number, (frame, (facts, marks)) in enumerate(zip(film.frames, film.stages(), strict=True)):
        if number not in told:
            continue
        diff = "".join(f"<li>{MARKS[mark]} {escape(words)}</li>" for mark, words in frame.diff[:MANY])
        diff += f"<li>and {len(frame.diff) - MANY} more</li>" if len(frame.diff) > MANY else ""
        style = "list-style:none;padding-left:1em;margin:2px 0 6px"
        changed = f'<ul style="{style}">{diff}</ul>' if diff else "<p>Nothing changed.</p>" if number else ""
        board = _board(film, facts, marks) if number in pictured else ""
        opened = " open" if number == stops[-1] else ""
        indent = f"margin-left:{1.4 * frame.depth:g}em;" if frame.depth else ""
        items.append(
            f'<li style="{indent}padding:1px 0" value="{number}"><details{opened}>'
            f'<summary style="cursor:pointer">{escape(frame.sentence)}</summary>'
            f'<p style="color:#555c68;margin:2px 0">{escape(frame.where)}</p>{changed}{board}</details></li>'
        )
    all_of_them = many(len(film.frames), "step")
    steps = f"{len(told)} of {all_of_them}" if len(told) < len(film.frames) else all_of_them
    return (
        f'<div class="emqkit-twin" data-emqkit-twin="{escape(key)}" style="{_PAPER};padding:8px 12px;max-width:1200px">'
        f'<p style="margin:0 0 4px"><b>{escape(film.title)}</b>, {steps}. Open a step to see what it did.</p>'
        f'<ol start="0" style="padding-left:2.4em;margin:0">{"".join(items)}</ol></div>'
    )


def _spread(stops: list[int]) -> Iterable[int]:
    last = len(stops) - 1
    return (stops[last * step // (PICTURED - 1)] for step in range(PICTURED))


def _board(film: Film, facts: dict[Fact, str], marks: dict[Fact, str]) -> str:
    """The stage at a frame: a table a queue, a row a lane."""
    queues = "".join(_queue(film, queue, facts, marks) for queue in film.queues)
    strays = [(fact, value) for fact, value in facts.items() if fact[0] == "other" and fact[1] == ""]
    rest = "".join(f"<li>{escape(fact[2])}: {escape(value)}</li>" for fact, value in strays)
    other = f"<p>Keys of no queue:</p><ul>{rest}</ul>" if rest else ""
    empty = "" if film.queues else "<p>There is no key yet.</p>"
    columns = "display:grid;grid-template-columns:repeat(auto-fit,minmax(280px,1fr));gap:8px;margin:4px 0 8px"
    return f'<div style="{columns}">{queues}</div>{other}{empty}'


def _queue(film: Film, queue: str, facts: dict[Fact, str], marks: dict[Fact, str]) -> str:
    here: dict[str, list[tuple[Fact, str]]] = {}
    for fact, value in facts.items():
        if fact[0] in ("set", "box", "other", "queue") and fact[1] == queue:
            here.setdefault(fact[2] if fact[0] == "set" else fact[0], []).append((fact, value))
    for fact, mark in marks.items():
        if mark == "-" and fact[0] == "set" and fact[1] == queue:
            here.setdefault(fact[2], []).append((fact, "gone from here"))
    rows = []
    for lane in LANES:
        if not film.peaks.get((queue, lane)):
            continue
        chips = sorted(here.get(lane, []), key=lambda one: one[0][3])
        rows.append((lane, [_chip(film, fact, note, marks) for fact, note in chips[:CHIPS]], len(chips)))
    if "box" in here:
        entries = [value.split("\t") for _, value in sorted(here["box"], key=lambda one: int(one[0][2]))]
        said = [f"{kind}: {child}{f', for {parent}' if parent else ''}" for kind, child, parent, _, _ in entries]
        rows.append(("outbox", [escape(one) for one in said[:CHIPS]], len(said)))
    if "other" in here:
        said = [f"{fact[2]}: {value}" for fact, value in here["other"]]
        rows.append(("other keys", [escape(one) for one in said[:CHIPS]], len(said)))
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{_HEAD}">{lane}</th>'
        f'<td style="{_CELL}">{" ".join(chips)}{f" and {count - CHIPS} more" if count > CHIPS else ""}</td></tr>'
        for lane, chips, count in rows
    )
    counts = "".join(
        " · paused" if fact[2] == "paused" else f" · {fact[2]} {escape(value)}" for fact, value in here.get("queue", [])
    )
    return (
        f'<div style="{_QUEUE}"><b style="font-size:14px">{escape(plain(queue))}</b>{counts}'
        f'<table style="{_TABLE}"><tbody>{body}</tbody></table></div>'
    )


def _chip(film: Film, fact: Fact, note: str, marks: dict[Fact, str]) -> str:
    mark = marks.get(fact, "")
    if not mark and fact[2] == "held" and ("fan", fact[1], fact[3]) in marks:
        mark = "~"
    name = escape(film.names(fact[3]))
    sign = f"{MARKS[mark]} " if mark else ""
    colour = ACCENTS[fact[2]]
    border = _SIGN.get(mark, f"border:1px solid {colour}")
    style = f"display:inline-block;{border};border-left:4px solid {colour};border-radius:5px;padding:0 6px;margin:1px 0"
    struck = f"<s>{name}</s>" if mark == "-" else f"<b>{name}</b>"
    said = note.removeprefix("!")
    return f'<span style="{style}">{sign}{struck}{f" · {escape(said)}" if said else ""}</span>'
