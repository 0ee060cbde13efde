"""The name of a job in sentences and labels: its payload if that is known, otherwise its short id.

names = Names.of_trace(trace)
names("JOB0KHTOWnGLuD")         # pick; or pick #2, if two jobs have that payload; or JOB…GLuD
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.keyspace import Keyspace
from emqkit.snapshot import Snapshot
from emqkit.trace import Step, Trace
from emqkit.words.text import elided, plain, short

__all__ = ["Names", "payloads"]

COLUMNS = 24
"""The largest width of a label: a longer payload is cut."""


@dataclass(frozen=True)
class Names:
    """Labels by id. Call it with an id, text or bytes, to get the job's name.

    Attributes:
        labels: id → label; no two are alike.
    """

    labels: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, id: str | bytes) -> str:
        text = to_text(id) if isinstance(id, bytes) else id
        return self.labels.get(text) or short(text)

    def known(self, id: str) -> bool:
        """Whether the id has a label from its payload."""
        return id in self.labels

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, bytes]]) -> Names:
        """Labels for these (id, payload) pairs; if an id has two payloads, the first counts.

        Payloads that look alike are numbered in byte order of the ids: `pick #1`, `pick #2`. Empty ones give none.
        """
        seen: dict[str, str] = {}
        for id, payload in pairs:
            seen.setdefault(id, elided(plain(payload), COLUMNS).strip())
        often = Counter(seen.values())
        labels: dict[str, str] = {}
        taken = {label for label, count in often.items() if count == 1}
        numbers: Counter[str] = Counter()
        for id in sorted(seen, key=keys.text):
            label = numbered = seen[id]
            while often[label] > 1 and (numbered == label or numbered in taken):
                numbers[label] += 1
                numbered = f"{label} #{numbers[label]}"
            if label:
                labels[id] = numbered
        return cls(labels)

    @classmethod
    def of_snapshot(cls, *snapshots: Snapshot) -> Names:
        """Labels for every job that has a row in one of these snapshots."""
        return cls.of(found for snapshot in snapshots for found in payloads(Keyspace.of(snapshot)))

    @classmethod
    def of_trace(cls, trace: Trace) -> Names:
        """Labels for every job that has a row at some point of a trace, or is in its `payloads`."""
        landed = (found for step in trace.steps for found in _landed(step))
        return cls.of([*trace.payloads, *payloads(Keyspace.of(trace.initial)), *landed])


def payloads(keyspace: Keyspace) -> Iterator[tuple[str, bytes]]:
    """Every id that has a row here, with its payload if there is one."""
    for part in keyspace.parts:
        for id, row in part.rows.items():
            if "payload" in row:
                yield id, row["payload"]


def _landed(step: Step) -> Iterator[tuple[str, bytes]]:
    """The payloads that a round trip wrote, call by call, since a later call may delete what an earlier one wrote."""
    for change in (*step.diff, *(change for one in step.calls for change in one.diff)):
        at = keys.parse(change.key)
        if change.part == b"payload" and change.after is not None and at and at.name == "row" and at.id is not None:
            yield at.id, change.after
