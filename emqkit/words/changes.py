"""What changed, in words: who moved where, counters and results, rows, and then the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from emqkit import keys, outbox
from emqkit.keyspace import POLICIES, WHOLE, known
from emqkit.outbox import Completion, Failure, Poison
from emqkit.snapshot import Change
from emqkit.words.text import elided, many, plain, quoted, short

__all__ = ["changes_in_words", "field_words", "key_words", "signal_words", "telling"]

Line = tuple[str, str]
"""A change in words: its mark, `+`, `-` or `~`, and the text."""

_OF_A_JOB = {
    "row": "the row",
    "dependencies": "the counter",
    "processed": "processed",
    "failed": "failed",
    "unsuccessful": "unsuccessful",
    "logs": "the logs",
}


def key_words(key: bytes) -> str:
    """A key as a sentence names it: `pending of orders`, `the row of JOB…LuC9`; a key of nobody's, quoted."""
    at = keys.parse(key)
    if at is not None and at.id is not None and at.name in _OF_A_JOB:
        return f"{_OF_A_JOB[at.name]} of {short(at.id)}"
    if at is not None and at.id is None:
        queue = plain(at.queue)
        if at.name in keys.SETS:
            return f"{at.name} of {queue}"
        if at.name == "flow:outbox":
            return f"the outbox of {queue}"
        if at.name == "meta":
            return f"the settings of {queue}"
        if at.name.startswith("metrics:"):
            return f"the {plain(at.name[8:])} count of {queue}"
    return f"key {quoted(key, 60)}"


def signal_words(raw: bytes) -> str:
    """An outbox entry in words."""
    match outbox.decode(raw):
        case Completion() as one:
            return f"{short(one.child_id)} completed, for {short(one.parent_id)} in {plain(one.parent_queue)}"
        case Failure() as one:
            where = f"{short(one.parent_id)} in {plain(one.parent_queue)}"
            return f"{short(one.child_id)} died (policy {plain(one.policy)}), for {where}"
        case Poison():
            return f"an entry that cannot be read, {quoted(raw)}"


def field_words(name: bytes, value: bytes) -> str:
    if name in (b"parent", b"child"):
        return short(value)
    if name == b"parent_policy" and value in POLICIES:
        return f"{plain(value)} ({POLICIES[value]})"
    return (
        elided(plain(value), 40)
        if name in (b"state", b"attempts", b"parent_policy", b"parent_queue")
        else quoted(value)
    )


def telling(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes worth showing: all but a deadline or due time that moved by less than a second.

    Such a move is the clock between two calls of one notebook cell. It is there or not from run to run, and a picture
    that is compared from run to run cannot hold it; what an extension did is said by the sentence of its call.
    """
    for change in changes:
        at = keys.parse(change.key)
        if change.kind == "changed" and at is not None and at.id is None and at.name in ("active", "schedule"):
            if abs(_score(change.after) - _score(change.before)) < 1000:  # milliseconds
                continue
        yield change


def _score(value: bytes | None) -> float:
    """A score as a number; what is none counts as infinitely far away."""
    try:
        return float(value or b"0")
    except ValueError:  # a list or string where the sorted set should be
        return float("inf")


# --- changes ---------------------------------------------------------------------------------------------------------

_ORDER = ("set", "dependencies", "processed", "unsuccessful", "failed", "row", "flow:outbox", "logs", "meta", "metrics")
_MARKS = {"added": "+", "removed": "-", "changed": "~"}


def changes_in_words(changes: Iterable[Change]) -> list[Line]:
    """What changed, line by line: first who moved where, then counters and results, then rows, then the rest.

    Args:
        changes: as `diff` gives them.

    Returns:
        (mark, text) pairs; the mark is `+`, `-` or `~`, so that no line needs a colour.
    """
    by_key: dict[bytes, list[Change]] = {}
    for change in telling(changes):
        by_key.setdefault(change.key, []).append(change)
    lines: list[tuple[int, Line]] = [(0, line) for line in _moves(by_key)]
    for key, made in by_key.items():
        at = keys.parse(key)
        kind = "other" if at is None else "metrics" if at.name.startswith("metrics:") else at.name
        if at is not None and at.id is None and kind in keys.SETS:
            continue
        is_known = at is not None and (kind == "metrics" or known(at))
        rank = _ORDER.index(kind) if is_known and kind in _ORDER else len(_ORDER)
        lines += [(rank, line) for line in _key_lines(key, at, made, is_known)]
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def _moves(by_key: dict[bytes, list[Change]]) -> list[Line]:
    """Set members: from where to where, one line an id."""
    moves: dict[tuple[str, str], dict[str, Change]] = {}
    for key, made in by_key.items():
        at = keys.parse(key)
        if at is None or at.id is not None or at.name not in keys.SETS:
            continue
        for change in made:
            part = (change.part or b"").decode("utf-8", "surrogateescape")
            moves.setdefault((at.queue, part), {})[at.name] = change
    lines: list[Line] = []
    for (queue, id), sets in sorted(moves.items(), key=lambda one: (keys.text(one[0][0]), keys.text(one[0][1]))):
        who, where = short(id), plain(queue)
        into = [name for name in keys.SETS if name in sets and sets[name].kind == "added"]
        out = [name for name in keys.SETS if name in sets and sets[name].kind == "removed"]
        if len(into) == len(out) == 1:
            lines.append(("~", f"{who} moves from {out[0]} to {into[0]} of {where}"))
        else:
            lines += [("-", f"{who} leaves {name} of {where}") for name in out]
            lines += [("+", f"{who} enters {name} of {where}") for name in into]
        for name in keys.SETS:
            if name in sets and sets[name].kind == "changed":
                lines.append(("~", f"{who} in {name} of {where}: {_rescored(name, sets[name])}"))
    return lines


def _rescored(name: str, change: Change) -> str:
    later = _score(change.after) > _score(change.before)
    what = {"active": "its lease ends", "schedule": "it is due"}.get(name, "its score is")
    return f"{what} {'later' if later else 'earlier'}" if name in ("active", "schedule") else "its score changes"


def _key_lines(key: bytes, at: keys.ParsedKey | None, made: list[Change], is_known: bool) -> list[Line]:
    if at is None or not is_known:
        return [_unknown_line(key, made)]
    if at.id is not None:
        return _job_lines(at.id, at.name, made)
    if at.name == "flow:outbox":
        return [
            ("-", f"the outbox of {plain(at.queue)} drops: {signal_words(change.before)}")
            if change.before is not None
            else ("+", f"the outbox of {plain(at.queue)} gains: {signal_words(change.after or b'')}")
            for change in made
        ]
    if at.name == "meta":
        return [
            ({"added": "+", "removed": "-"}.get(change.kind, "~"), _setting(plain(at.queue), change)) for change in made
        ]
    return [
        (
            "~" if change.before is not None else "+",
            f"{key_words(key)[4:]}: {_value(change.before, '0')} → {_value(change.after, '0')}",
        )
        for change in made
    ]


def _setting(queue: str, change: Change) -> str:
    if change.part == b"paused" and change.kind != "changed":
        return f"{queue} is {'paused' if change.kind == 'added' else 'no longer paused'}"
    return f"setting {plain(change.part or b'')} of {queue}: {_value(change.before)} → {_value(change.after)}"


def _value(value: bytes | None, missing: str = "none") -> str:
    return missing if value is None else elided(plain(value), 40)


def _unknown_line(key: bytes, made: list[Change]) -> Line:
    kinds = {change.kind for change in made}
    mark = _MARKS[made[0].kind] if len(kinds) == 1 else "~"
    verb = {"+": "gains", "-": "loses", "~": "changes in"}[mark]
    return mark, f"{key_words(key)} {verb} {many(len(made), 'part')}"


def _job_lines(id: str, name: str, made: list[Change]) -> list[Line]:
    who = short(id)
    if name == "row":
        return _row_lines(who, made)
    if name == "dependencies":
        (change,) = made[:1]
        if change.before is None:
            return [("+", f"the counter of {who} starts at {_value(change.after)}")]
        if change.after is None:
            return [("-", f"the counter of {who} goes; it stood at {_value(change.before)}")]
        return [("~", f"the counter of {who}: {_value(change.before)} → {_value(change.after)}")]
    lines: list[Line] = []
    for change in made:
        child = short(change.part or b"")
        if name == "logs":
            text = f"the logs of {who} {'lose' if change.after is None else 'gain'} a line"
        elif change.before is None:
            own = change.after == change.part
            text = f"{name} of {who} gains {child}: {'its own id' if own else quoted(change.after or b'')}"
        elif change.after is None:
            text = f"{name} of {who} loses {child}"
        else:
            text = f"{name} of {who}, {child}: {quoted(change.before)} → {quoted(change.after)}"
        lines.append((_MARKS[change.kind], text))
    return lines


_ROW_ORDER = (b"state", b"attempts", b"payload", b"parent", b"parent_queue", b"parent_policy", b"last_error")


def _row_lines(who: str, made: list[Change]) -> list[Line]:
    order = {name: at for at, name in enumerate(_ROW_ORDER)}
    made = sorted(made, key=lambda change: (order.get(change.part or b"", len(order)), change.part or b""))
    added = [change for change in made if change.kind == "added"]
    removed = [change for change in made if change.kind == "removed"]
    whole = {name.encode() for name in WHOLE}
    lines: list[Line] = []
    if whole <= {change.part for change in added}:
        fields = ", ".join(
            f"{plain(change.part or b'')} {field_words(change.part or b'', change.after or b'')}" for change in added
        )
        lines.append(("+", f"the row of {who} appears: {fields}"))
        added = []
    if whole <= {change.part for change in removed}:
        lines.append(("-", f"the row of {who} is deleted"))
        removed = []
    for change in made:
        name = plain(change.part or b"")
        if change.kind == "changed":
            before, after = (field_words(change.part or b"", value or b"") for value in (change.before, change.after))
            lines.append(("~", f"{name} of {who}: {before} → {after}"))
    lines += [
        ("+", f"the row of {who} gains {plain(one.part or b'')} {field_words(one.part or b'', one.after or b'')}")
        for one in added
    ]
    lines += [("-", f"the row of {who} loses {plain(one.part or b'')}") for one in removed]
    return lines
