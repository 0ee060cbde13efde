"""What changed, in words: first which job moved where, then counters and results, rows, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from emqkit import keys, outbox
from emqkit.arguments import to_text
from emqkit.keyspace import POLICIES, WHOLE, known
from emqkit.outbox import Completion, Failure
from emqkit.snapshot import Change
from emqkit.words.names import Names
from emqkit.words.text import elided, many, plain, quoted

__all__ = ["changes_in_words", "field_words", "key_words", "signal_words", "telling"]

Line = tuple[str, str]
"""A change in words: its mark, `+`, `-` or `~`, and the text."""

_NOBODY = Names()
_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_ORDER = ("dependencies", "processed", "unsuccessful", "failed", "row", "flow:outbox", "logs", "meta", "metrics")
_ROW_ORDER = (*WHOLE, "parent", "parent_queue", "parent_policy", "last_error")
_OF_A_JOB = {"row": "the row", "dependencies": "the counter", "logs": "the logs"}
_OF_A_QUEUE = {"flow:outbox": "the outbox", "meta": "the settings"}


# --- keys, fields and signals ---------------------------------------------------------------------------------------


def key_words(key: bytes, names: Names = _NOBODY) -> str:
    """A key as sentences name it: `pending of orders`, `the row of pick`; a key outside the protocol is quoted."""
    at = keys.parse(key)
    if at is None or not (known(at) or at.name.startswith("metrics:")):
        return f"key {quoted(key, 60)}"
    if at.id is not None:
        return f"{_OF_A_JOB.get(at.name, at.name)} of {names(at.id)}"
    if at.name.startswith("metrics:"):
        return f"the {plain(at.name[8:])} count of {plain(at.queue)}"
    return f"{_OF_A_QUEUE.get(at.name, at.name)} of {plain(at.queue)}"


def signal_words(raw: bytes, names: Names = _NOBODY) -> str:
    """An outbox entry in words."""
    one = outbox.decode(raw)
    if not isinstance(one, Completion | Failure):
        return f"an entry that cannot be read, {quoted(raw)}"
    what = "completed" if isinstance(one, Completion) else f"died (policy {plain(one.policy)})"
    return f"{names(one.child_id)} {what}, for {names(one.parent_id)} in {plain(one.parent_queue)}"


def field_words(name: str, value: bytes, names: Names = _NOBODY) -> str:
    """A field of a row: a parent by its name, a policy by its meaning, anything a caller passed in quotation marks."""
    if name == "parent":
        return names(value)
    if name == "parent_policy" and value in POLICIES:
        return f"{plain(value)} ({POLICIES[value]})"
    return _value(value) if name in ("state", "attempts", "parent_policy", "parent_queue") else quoted(value)


def _value(value: bytes | None, missing: str = "none") -> str:
    return missing if value is None else elided(plain(value), 40)


# --- what is worth telling --------------------------------------------------------------------------------------------


def telling(changes: Iterable[Change]) -> Iterator[Change]:
    """The changes worth showing: all but deadlines and due times that moved by less than a second.

    Such a change is only the clock between two calls of one notebook cell. It varies from run to run, so it cannot be
    in a picture that is compared between runs; the sentence of an extension says what it did.
    """
    for change in changes:
        at = keys.parse(change.key)
        if change.kind == "changed" and at is not None and at.id is None and at.name in ("active", "schedule"):
            if abs(_score(change.after) - _score(change.before)) < 1000:  # milliseconds
                continue
        yield change


def _score(value: bytes | None) -> float:
    """A score as a number; anything else counts as infinitely far away."""
    try:
        return float(value or b"0")
    except ValueError:  # a list or string where the sorted set should be
        return float("inf")


# --- line by line -----------------------------------------------------------------------------------------------------


def changes_in_words(changes: Iterable[Change], names: Names = _NOBODY) -> list[Line]:
    """What changed, line by line: first which job moved where, then counters and results, then rows, then the rest.

    Args:
        changes: as `diff` gives them.
        names: the name of each job.

    Returns:
        (mark, text) pairs; the mark is `+`, `-` or `~`, so no line depends on colour.
    """
    moves: dict[tuple[str, str], dict[str, Change]] = {}
    rest: dict[bytes, list[Change]] = {}
    for change in telling(changes):
        at = keys.parse(change.key)
        if at is not None and at.id is None and at.name in keys.SETS:
            moves.setdefault((at.queue, to_text(change.part or b"")), {})[at.name] = change
        else:
            rest.setdefault(change.key, []).append(change)
    in_order = sorted(moves, key=lambda one: (keys.text(one[0]), keys.text(one[1])))
    lines = [line for queue, id in in_order for line in _moves(names(id), plain(queue), moves[queue, id])]
    for key in sorted(rest, key=_rank):
        lines += _of_key(key, rest[key], names)
    return lines


def _rank(key: bytes) -> int:
    at = keys.parse(key)
    name = "" if at is None else "metrics" if at.name.startswith("metrics:") else at.name if known(at) else ""
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _moves(who: str, queue: str, sets: dict[str, Change]) -> Iterator[Line]:
    """How one id moved between the sets of its queue."""
    into = [name for name in keys.SETS if name in sets and sets[name].kind == "added"]
    out = [name for name in keys.SETS if name in sets and sets[name].kind == "removed"]
    if len(into) == len(out) == 1:
        yield "~", f"{who} moves from {out[0]} to {into[0]} of {queue}"
    else:
        yield from (("-", f"{who} leaves {name} of {queue}") for name in out)
        yield from (("+", f"{who} enters {name} of {queue}") for name in into)
    for name in keys.SETS:
        if name in sets and sets[name].kind == "changed":
            later = "later" if _score(sets[name].after) > _score(sets[name].before) else "earlier"
            what = {"active": f"its lease ends {later}", "schedule": f"it is due {later}"}
            yield "~", f"{who} in {name} of {queue}: {what.get(name, 'its score changes')}"


def _of_key(key: bytes, made: Sequence[Change], names: Names) -> Iterator[Line]:
    at = keys.parse(key)
    if at is not None and at.id is None and at.name.startswith("metrics:"):
        for one in made:
            counts = f"{_value(one.before, '0')} → {_value(one.after, '0')}"
            yield _MARKS[one.kind], f"{key_words(key)[4:]}: {counts}"
    elif at is None or not known(at):
        kinds = {one.kind for one in made}
        mark = _MARKS[made[0].kind] if len(kinds) == 1 else "~"
        verb = {"+": "gains", "-": "loses", "~": "changes in"}[mark]
        yield mark, f"{key_words(key)} {verb} {many(len(made), 'part')}"
    elif at.id is not None and at.name == "row":
        yield from _row(names(at.id), made, names)
    elif at.id is not None:
        for one in made:
            yield _MARKS[one.kind], _of_a_job(at.name, names(at.id), one, names)
    else:
        for one in made:
            yield _MARKS[one.kind], _of_a_queue(at.name, plain(at.queue), one, names)


def _of_a_queue(name: str, queue: str, change: Change, names: Names) -> str:
    if name == "flow:outbox":
        verb, entry = ("gains", change.after) if change.before is None else ("drops", change.before)
        return f"the outbox of {queue} {verb}: {signal_words(entry or b'', names)}"
    if change.part == b"paused" and change.kind != "changed":
        return f"{queue} is {'paused' if change.kind == 'added' else 'no longer paused'}"
    return f"setting {plain(change.part or b'')} of {queue}: {_value(change.before)} → {_value(change.after)}"


def _of_a_job(name: str, who: str, change: Change, names: Names) -> str:
    if name == "dependencies":
        if change.before is None:
            return f"the counter of {who} starts at {_value(change.after)}"
        if change.after is None:
            return f"the counter of {who} is deleted; it was at {_value(change.before)}"
        return f"the counter of {who}: {_value(change.before)} → {_value(change.after)}"
    if name == "logs":
        return f"the logs of {who} {'lose' if change.after is None else 'gain'} a line"
    child = names(change.part or b"")
    if change.after is None:
        return f"{name} of {who} loses {child}"
    if change.before is None:
        own = change.after == change.part
        return f"{name} of {who} gains {child}: {'its own id' if own else quoted(change.after)}"
    return f"{name} of {who}, {child}: {quoted(change.before)} → {quoted(change.after)}"


def _row(who: str, made: Sequence[Change], names: Names) -> Iterator[Line]:
    """A row that appears or is deleted takes one line; otherwise each changed field does."""
    fields = {to_text(one.part or b""): one for one in made}
    order = [name for name in _ROW_ORDER if name in fields]
    order += sorted(name for name in fields if name not in order)
    by_kind = {kind: [name for name in order if fields[name].kind == kind] for kind in _MARKS}
    if set(WHOLE) <= set(by_kind["added"]):
        shown = ", ".join(
            f"{plain(one)} {field_words(one, fields[one].after or b'', names)}" for one in by_kind["added"]
        )
        yield "+", f"the row of {who} appears: {shown}"
        by_kind["added"] = []
    if set(WHOLE) <= set(by_kind["removed"]):
        yield "-", f"the row of {who} is deleted"
        by_kind["removed"] = []
    for name in by_kind["changed"]:
        before, after = (field_words(name, value or b"", names) for value in (fields[name].before, fields[name].after))
        yield "~", f"{plain(name)} of {who}: {before} → {after}"
    for name in by_kind["added"]:
        yield "+", f"the row of {who} gains {plain(name)} {field_words(name, fields[name].after or b'', names)}"
    for name in by_kind["removed"]:
        yield "-", f"the row of {who} loses {plain(name)}"
