"""The colours of every picture: Okabe and Ito's, which colour-blind readers can tell apart, on light and on dark paper.

Colour never says a thing alone: sets have their place and their name, changes have a mark and a ring.

A picture takes paper and ink from JupyterLab's theme where there is one, and otherwise follows the reader's system.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ACCENTS", "MARKS", "theme_css"]

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
    "alarm": "#b3261e",
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
    "alarm": "#ff9d8f",
}


def theme_css(scope: str) -> str:
    """The custom properties (`--emq-ink` and so on) of one element and what is in it, for light and dark.

    JupyterLab and VS Code say which theme is on, and that wins; elsewhere `prefers-color-scheme` decides.

    Args:
        scope: a CSS selector of one class, such as `.emqkit-player`.
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
