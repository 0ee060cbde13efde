"""What a stage must show of a keyspace, read from snapshots alone: what the stage and the page are compared with.

It shares nothing with `emqkit.viz`: it starts from `Keyspace`, knows no changes and keeps nothing from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from emqkit import keys
from emqkit.keyspace import WHOLE, Keyspace, Part
from emqkit.snapshot import Snapshot, Value, diff
from emqkit.trace import Trace

STATES = {"pending": "pending", "active": "active", "schedule": "scheduled", "dead": "dead"}
Chip = tuple[str, str, str]
"""What a chip says: its name, its note, and how it is marked: `new`, `gone`, `changed`, or nothing."""


@dataclass
class Shown:
    """One moment of a page.

    Attributes:
        lanes: (queue, lane) → its chips, those that left among them.
        counts: queue → what its heading says.
        rows: each row as (queue, id, mark, state, attempts, payload).
        fans: each entry of a parent's hashes as (parent, child, hash, mark).
        outbox: queue → the marks of its entries, those that left first.
        keys: each key as (mark, key).
    """

    lanes: dict[tuple[str, str], list[Chip]] = field(default_factory=dict)
    counts: dict[str, list[str]] = field(default_factory=dict)
    rows: set[tuple[str, str, str, str, str, str]] = field(default_factory=set)
    fans: set[tuple[str, str, str, str]] = field(default_factory=set)
    outbox: dict[str, list[str]] = field(default_factory=dict)
    keys: set[tuple[str, str]] = field(default_factory=set)


def moments(trace: Trace) -> Iterator[tuple[Snapshot, Snapshot]]:
    """The keyspace before and after each frame of a film without lines, the start first."""
    yield trace.initial, trace.initial
    for step in trace.steps:
        if len(step.flush.calls) > 1 and not step.flush.atomic:
            yield from ((call.before, call.after) for call in step.calls)
        yield step.before, step.after


def shown(before: Snapshot, after: Snapshot, name: Callable[[str], str]) -> Shown:
    """What a page shows of a step that led from one snapshot to the other."""
    page = Shown()
    old, new = Keyspace.of(before), Keyspace.of(after)
    for queue in sorted({part.queue for part in (*old.queues, *new.queues)}):
        was, now = old[queue], new[queue]
        for lane in ("held", *keys.SETS):
            there, here = _in(was, lane), _in(now, lane)
            chips = []
            for id in sorted(there | here, key=keys.text):
                if id in here:
                    note = _note(now, lane, id, after.now)
                    mark = "" if id in there else "new"
                    if not mark and (
                        note != _note(was, lane, id, before.now) or (lane == "held" and _fan(was, now, id))
                    ):
                        mark = "changed"
                    chips.append((name(id), note, mark))
                else:
                    chips.append((name(id), _whither(now, lane, id), "gone"))
            if chips:
                page.lanes[queue, lane] = chips
        page.counts[queue] = _counts(was, now)
        for id in sorted({*was.rows, *now.rows}):
            page.rows.add((queue, id, *_row(was.rows.get(id, {}), now.rows.get(id, {}))))
        for parent, fan in now.parents.items():
            earlier = was.parents.get(parent)
            for hash in ("processed", "unsuccessful", "failed"):
                entries = getattr(fan, hash)
                known = getattr(earlier, hash) if earlier is not None else {}
                for child, value in entries.items():
                    mark = "new" if child not in known else "" if known[child] == value else "changed"
                    page.fans.add((name(parent), name(child), hash, mark))
        moved = [one for one in diff(before, after) if one.key == keys.queue_key(queue, "flow:outbox")]
        gone, came = (sum(getattr(one, side) is None for one in moved) for side in ("after", "before"))
        page.outbox[queue] = [*["gone"] * gone, *[""] * (len(now.entries) - came), *["new"] * came]
    for key in before.keys.keys() | after.keys.keys():
        sizes = [_size(one.value(key)) for one in (before, after)]
        mark = "new" if sizes[0] is None else "gone" if sizes[1] is None else "" if sizes[0] == sizes[1] else "changed"
        page.keys.add((mark, key.decode()))
    return page


def _size(value: Value | None) -> int | None:
    if value is None:
        return None
    return len(next(getattr(value, name) for name in ("value", "fields", "items", "members") if hasattr(value, name)))


def _counts(was: Part, now: Part) -> list[str]:
    """A queue's heading: its metrics, the old beside the new where they changed, and whether it is paused."""
    told = []
    for name in sorted({*was.counts, *now.counts}):
        old, new = (part.counts.get(name, b"0").decode() for part in (was, now))
        told.append(f"{name} {new}" if old == new else f"{name} {old} → {new}")
    if was.paused or now.paused:
        told.append("paused" if now.paused else "no longer paused")
    return told


def _in(part: Part, lane: str) -> set[str]:
    return {id for id in part.rows if not part.places(id)} if lane == "held" else set(part.sets[lane])


def _fan(was: Part, now: Part, id: str) -> bool:
    def size(part: Part) -> object:
        fan = part.parents.get(id)
        return fan and (fan.counter, len(fan.processed), len(fan.unsuccessful), len(fan.failed))

    return size(was) != size(now)


def _note(part: Part, lane: str, id: str, now: int) -> str:
    row = part.rows.get(id)
    if row is None:
        return "⚠ no row"
    if not all(name in row for name in WHOLE):
        return "⚠ row not whole"
    state = row["state"].decode()
    if lane == "held":
        if state != "awaiting_children":
            return f"⚠ says {state}"
        counter = part.parents[id].counter if id in part.parents else None
        return "⚠ no counter" if counter is None else f"waits for {counter.decode()}"
    if state != STATES[lane]:
        return f"⚠ says {state}"
    attempts = row["attempts"].decode()
    future = part.sets[lane][id] > now
    if lane == "active":
        return f"token {attempts}" if future else f"token {attempts}, lease lapsed"
    if lane == "schedule":
        return "due later" if future else "due now"
    if lane == "dead" and "last_error" in row:
        return row["last_error"].decode()
    return {"0": "", "1": "tried once"}.get(attempts, f"tried {attempts} times")


def _whither(part: Part, lane: str, id: str) -> str:
    lanes = [other for other in ("held", *keys.SETS) if other != lane and id in _in(part, other)]
    return f"to {' and '.join(lanes)}" if lanes else "to no set" if id in part.rows else "deleted"


def _row(was: dict[str, bytes] | object, now: dict[str, bytes] | object) -> tuple[str, str, str, str]:
    before, after = dict(was), dict(now)  # type: ignore[call-overload]
    mark = "new" if not before else "gone" if not after else "" if before == after else "changed"

    def cell(field: str) -> str:
        one, other = before.get(field), after.get(field)
        if other is None:
            return "" if one is None else f"− {one.decode()}"
        return other.decode() if one is None or one == other else f"{one.decode()} → {other.decode()}"

    return mark, cell("state"), cell("attempts"), cell("payload")
