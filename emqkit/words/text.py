"""Bytes, ids, counts and lists as readable text: on one line, and no wider than asked."""

from __future__ import annotations

from collections.abc import Sequence

from wcwidth import iter_graphemes
from wcwidth import width as columns_of

from emqkit.arguments import to_bytes, to_text
from emqkit.errors import IllFormedId
from emqkit.ids import check

__all__ = ["elided", "lasting", "listed", "many", "plain", "quoted", "short", "width"]


def plain(value: bytes | str) -> str:
    """Bytes as text on one line: UTF-8 where valid, and `\\x..` for every byte or character that cannot be shown."""
    text = to_text(to_bytes(value))
    if text.isprintable():
        return text
    shown = []
    for character in text:
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            shown.append(f"\\x{code - 0xDC00:02x}")
        elif character.isprintable():
            shown.append(character)
        else:
            shown.append("".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass")))
    return "".join(shown)


def width(text: str) -> int:
    """How many columns of a monospaced font the text takes: two for wide characters, none for combining ones."""
    return columns_of(text, control_codes="ignore")


def elided(text: str, columns: int) -> str:
    """The text, cut with an ellipsis if it is wider than `columns`; no character loses its accents."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in iter_graphemes(text):
        used += width(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…"


def quoted(value: bytes | str, columns: int = 40) -> str:
    """A value inside a sentence: in quotation marks, escaped and elided."""
    return f'"{elided(plain(value), columns)}"'


def short(id: str | bytes) -> str:
    """A short form of an id, for jobs whose payload is unknown: `JOB…LuC9`; anything that is not an id is elided."""
    text = to_text(id) if isinstance(id, bytes) else id
    try:
        check(text)
    except IllFormedId:
        return elided(plain(text), 24) or '""'
    return f"{text[:3]}…{text[-4:]}"


def many(count: int, noun: str, nouns: str = "") -> str:
    """A count and its noun: `1 child`, `2 children`."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def lasting(ms: int) -> str:
    """A span of time, from milliseconds, to two digits: `400 ms`, `3 s`, `1 day`."""
    step = 10 ** max(0, len(str(ms)) - 2)
    ms = -(-ms // step) * step  # it was measured a little after it began
    for unit, length in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        if ms >= length:
            return many(round(ms / length), unit)
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms} ms"


def listed(words: Sequence[str]) -> str:
    """A list in a sentence: `a`, `a and b`, `a, b and c`; `none` for an empty one."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"
