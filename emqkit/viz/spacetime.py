"""A spacetime diagram of a history: a lane for each actor, time running down, crashes and lost replies marked.

lane           what an actor does, call by call; a thick stretch is one operation
cross          it crashed here: the stretch ends, and what it had read is gone
open ring      the call took effect, or may have, and its reply was lost
diamond        time, or the server's own fault: a lease lapsed, a delay fell due
"""

from __future__ import annotations

from html import escape

from emqkit.sim.history import History, HistoryStep
from emqkit.viz.theme import theme_css
from emqkit.words.text import elided

__all__ = ["Picture", "spacetime"]


class Picture(str):
    """An SVG picture: text, which a notebook shows as a picture when it is a cell's last value."""

    def _repr_html_(self) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<an SVG picture of {len(self)} characters>"


LANE, ROW, LEFT, TOP = 186, 30, 44, 64
NOBODY = "time and the wire"

CSS = (
    theme_css(".emq-spacetime")
    + """
.emq-spacetime{display:block;height:auto;max-width:100%;background:var(--emq-paper);color:var(--emq-ink)}
.emq-spacetime text{fill:var(--emq-ink);font:12.5px var(--jp-ui-font-family, system-ui, "DejaVu Sans", sans-serif)}
.emq-spacetime .lane{stroke:var(--emq-line);stroke-width:1.5}
.emq-spacetime .run{stroke:var(--emq-pending);stroke-width:7;stroke-linecap:round;stroke-opacity:.55}
.emq-spacetime .call{fill:var(--emq-held);stroke:var(--emq-paper);stroke-width:1.5}
.emq-spacetime .change{fill:var(--emq-active)}
.emq-spacetime .lost{fill:var(--emq-paper);stroke:var(--emq-dead);stroke-width:2.5;stroke-dasharray:3 2}
.emq-spacetime .crash{stroke:var(--emq-dead);stroke-width:3.5;stroke-linecap:round}
.emq-spacetime .time{fill:var(--emq-schedule);stroke:var(--emq-paper);stroke-width:1.5}
.emq-spacetime .name{font-weight:650}
.emq-spacetime .n{fill:var(--emq-soft);text-anchor:end}
.emq-spacetime .what{fill:var(--emq-soft)}
.emq-spacetime .end{fill:var(--emq-dead);fill-opacity:var(--emq-wash);stroke:var(--emq-dead)}
.emq-spacetime .says{font-weight:650}
"""
)


def spacetime(history: History) -> Picture:
    """Draw a history.

    Args:
        history: of a violation, `result.violations[0].history`, or of a walk.

    Returns:
        SVG, light and dark, that shows itself in a notebook; hovering a mark shows its sentence.
    """
    names = [name for name in history.world.names if any(move.actor == name for move in history.moves)]
    if any(not move.actor for move in history.moves):
        names.append(NOBODY)
    at = {name: LEFT + LANE // 2 - 60 + LANE * n for n, name in enumerate(names)}
    bottom = TOP + ROW * (len(history.moves) + 1)
    width = max(LEFT + LANE * len(names), 720)
    height = bottom + (58 if history.says else 8)
    told = "; ".join(history.sentences)
    out = [
        f'<svg class="emq-spacetime" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(told, quote=True)}"><style>{CSS}</style>'
    ]
    for name, x in at.items():
        out.append(f'<line class="lane" x1="{x}" y1="{TOP - 14}" x2="{x}" y2="{bottom - ROW // 2}"/>')
        words = name.split(" of ", 1)
        for line, word in enumerate([words[0], f"of {words[1]}"] if len(words) == 2 else words):
            out.append(f'<text class="name" x="{x - 8}" y="{22 + 17 * line}">{escape(elided(word, 24))}</text>')
    out += _runs(history, at)
    for n, move in enumerate(history.moves):
        y = TOP + ROW * n + 6
        x = at[move.actor or NOBODY]
        out.append(f'<text class="n" x="{LEFT - 16}" y="{y + 4}">{n + 1}</text>')
        out.append(f"<g><title>{escape(f'{n + 1}. {history.told(move)}')}</title>{_mark(history, move, x, y)}</g>")
    if history.says:
        says = elided(f"{history.promise} is broken: {history.says}.", width // 8)
        out.append(f'<rect class="end" x="8" y="{bottom}" width="{width - 16}" height="40" rx="7"/>')
        out.append(f'<text class="says" x="22" y="{bottom + 25}">{escape(says)}</text>')
    out.append("</svg>")
    return Picture("".join(out))


def _runs(history: History, at: dict[str, int]) -> list[str]:
    """A thick stretch for every operation, from its first call to its last."""
    out: list[str] = []
    began: dict[str, int] = {}
    last: dict[str, int] = {}

    def close(actor: str) -> None:
        if actor in began and last[actor] > began[actor]:
            x = at[actor]
            first, end = TOP + ROW * began[actor] + 6, TOP + ROW * last[actor] + 6
            out.append(f'<line class="run" x1="{x}" y1="{first}" x2="{x}" y2="{end}"/>')
        began.pop(actor, None)

    for n, move in enumerate(history.moves):
        if not move.actor:
            continue
        if move.fresh and move.kind != "crash":
            close(move.actor)
            began[move.actor] = n
        last[move.actor] = n
        if move.kind in ("crash", "lost"):
            close(move.actor)
    for actor in list(began):
        close(actor)
    return out


def _mark(history: History, move: HistoryStep, x: int, y: int) -> str:
    words, more = _words(history, move)
    text = f'<text x="{x + 14}" y="{y + 4}">{escape(words)}<tspan class="what"> {escape(more)}</tspan></text>'
    if move.kind == "crash":
        lines = (
            f'<line class="crash" x1="{x - 7}" y1="{y - 7}" x2="{x + 7}" y2="{y + 7}"/>'
            f'<line class="crash" x1="{x - 7}" y1="{y + 7}" x2="{x + 7}" y2="{y - 7}"/>'
        )
        return lines + text
    if not move.actor:
        return f'<path class="time" d="M{x} {y - 9}L{x + 9} {y}L{x} {y + 9}L{x - 9} {y}Z"/>{text}'
    if move.kind == "lost":
        return f'<circle class="lost" cx="{x}" cy="{y}" r="7"/>{text}'
    changed = " change" if move.before != move.after else ""
    return f'<circle class="call{changed}" cx="{x}" cy="{y}" r="{7 if changed else 5}"/>{text}'


def _words(history: History, move: HistoryStep) -> tuple[str, str]:
    if move.kind == "crash":
        return "crashes", ""
    if not move.actor:
        return move.kind, elided(move.what.replace("\0", "·"), 14)
    verbs = " + ".join(call.verb for call, _ in move.calls)
    if move.kind == "lost":
        return (verbs or "nothing sent"), "reply lost"
    reply = move.calls[0][1] if move.calls else None
    if verbs == "LRANGE" and isinstance(reply, tuple):
        return verbs, f"→ {len(reply)} {'entry' if len(reply) == 1 else 'entries'}"
    if isinstance(reply, tuple):
        reply = reply[0] if reply else b"nothing"
    shown = history.names(reply) if isinstance(reply, bytes) else "none" if reply is None else str(reply)
    chosen = f", {move.choice}" if move.choice else ""
    return verbs, elided(f"→ {shown}{chosen}", 24 - len(verbs))
