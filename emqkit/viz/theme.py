"""The colours of every picture: Okabe and Ito's, which colour-blind readers can tell apart, on light and on dark paper.

Colour never says a thing alone: sets have their place and their name, changes have a mark and a ring.

A picture takes paper and ink from JupyterLab's theme where there is one, and otherwise follows the reader's system.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ACCENTS", "BOARD_CSS", "MARKS", "theme_css"]

ACCENTS: Mapping[str, str] = {
    "held": "#0072B2",
    "pending": "#56B4E9",
    "active": "#E69F00",
    "schedule": "#CC79A7",
    "dead": "#D55E00",
    "done": "#009E73",
    "plain": "#7A8190",
}
"""Okabe and Ito's colours by what they stand for: the four sets, a held parent, a finished child, anything else."""

MARKS: Mapping[str, str] = {"+": "+", "-": "−", "~": "±"}
"""How a change is marked: new, gone, changed."""

_LIGHT = {
    "paper": "var(--jp-layout-color0, #ffffff)",
    "panel": "#f5f6f8",
    "line": "#d3d7de",
    "ink": "#15181e",
    "soft": "#555c68",
    "wash": ".20",
    "bar": "#e4ecf7",
    "focus": "#0b62c4",
}
_DARK = {
    "paper": "var(--jp-layout-color0, #14161a)",
    "panel": "#20242b",
    "line": "#414854",
    "ink": "#f3f4f6",
    "soft": "#b3bac6",
    "wash": ".30",
    "bar": "#27364d",
    "focus": "#7db7ff",
}


def theme_css(scope: str) -> str:
    """The custom properties (`--emq-ink` and so on) of one element and what is in it, for light and dark.

    JupyterLab and VS Code say which theme is on, and that wins; elsewhere `prefers-color-scheme` decides.

    Args:
        scope: a CSS selector of one class, such as `.emq-board`.
    """
    accents = dict(ACCENTS)
    light = ";".join(f"--emq-{name}:{value}" for name, value in (accents | _LIGHT).items())
    dark = ";".join(f"--emq-{name}:{value}" for name, value in (_DARK | {"held": "#3A9BDC"}).items())
    return (
        f"{scope}{{{light};color-scheme:light}}\n"
        f"@media (prefers-color-scheme:dark){{{scope}{{{dark};color-scheme:dark}}}}\n"
        f'[data-jp-theme-light="true"] {scope},.vscode-light {scope}{{{light};color-scheme:light}}\n'
        f'[data-jp-theme-light="false"] {scope},.vscode-dark {scope}{{{dark};color-scheme:dark}}\n'
    )


_SANS = 'var(--jp-ui-font-family, system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif)'
_MONO = 'var(--jp-code-font-family, ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace)'

BOARD_CSS = (
    theme_css(".emq-board")
    + f"""
.emq-board{{display:block;width:100%;max-width:1200px;height:auto;background:var(--emq-paper)}}
.emq-board{{color:var(--emq-ink);fill:var(--emq-ink);stroke:none;font:13px {_SANS}}}
.emq-board .pa{{fill:var(--emq-panel);stroke:var(--emq-line)}}
.emq-board .bx{{fill:var(--emq-paper);stroke:var(--emq-line)}}
.emq-board .bh{{stroke-dasharray:6 4;stroke:var(--emq-held);stroke-width:1.5}}
.emq-board .ln{{stroke:var(--emq-line);fill:none}}
.emq-board .q{{font-size:19px;font-weight:700}}
.emq-board .h{{font-size:14px;font-weight:650}}
.emq-board .s{{font-size:12.5px;fill:var(--emq-soft)}}
.emq-board .m{{font-family:{_MONO}}}
.emq-board .b{{font-weight:700}}
.emq-board .n{{font-size:30px;font-weight:700}}
.emq-board .x{{text-decoration:line-through;fill:var(--emq-soft)}}
.emq-board .c{{fill-opacity:var(--emq-wash);stroke-width:1.25}}
.emq-board .r{{fill:none;stroke:var(--emq-ink);stroke-width:2.5}}
.emq-board .t{{stroke-width:1.6}}
.emq-board .pip{{fill:none;stroke:var(--emq-ink);stroke-width:1.4}}
.emq-board .g{{fill:none;stroke:var(--emq-soft);stroke-width:1.5;stroke-dasharray:4 3}}
.emq-board .k{{fill:var(--emq-ink);stroke:var(--emq-paper);stroke-width:1.5}}
.emq-board .kt{{fill:var(--emq-paper);font-size:14px;font-weight:700;text-anchor:middle}}
.emq-board .e{{text-anchor:end}}
.emq-board .z{{text-anchor:middle}}
"""
    + "".join(f".emq-board .{name}{{fill:var(--emq-{name});stroke:var(--emq-{name})}}\n" for name in ACCENTS)
)
"""The style sheet of the boards; a page needs it once, however many boards it shows."""
