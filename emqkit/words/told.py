"""A call while its sentence is made: its values by its header's names, and its changes, told piece by piece.

A sentence removes the changes it has told from `left`; what remains at the end is told line by line. So two calls that
did different things never get the same sentence, whatever their scripts should do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from emqkit import keys, outbox
from emqkit.arguments import to_text
from emqkit.keyspace import FUTURE, OF_A_JOB, OF_A_QUEUE, WHOLE, Part
from emqkit.outbox import Completion, Failure
from emqkit.scripts import CallView
from emqkit.snapshot import Change, Snapshot
from emqkit.trace import CallRecord
from emqkit.wire import Reply
from emqkit.words.changes import changes_in_words
from emqkit.words.names import Names
from emqkit.words.text import listed, many, plain

__all__ = ["Told"]

POLICY = "parent_policy"
_LINES = 6
LONGEST_ID = 64
"""How many bytes an argument that names a job may have; a longer one is a payload, a result or an error."""


class Told:
    """A call that a sentence is about.

    Args:
        record: the call, its reply, and the keyspace before and after.
        names: the name of each job.
        view: the call by its header's names; None for a command, or if no header fits.
        left: the changes not told yet.
    """

    def __init__(self, record: CallRecord, names: Names, view: CallView | None, left: list[Change]) -> None:
        self.record = record
        self.names = names
        self._view = view
        self.left = left
        self.changed = bool(left)

    # --- the call -------------------------------------------------------------------------------------------------

    @property
    def verb(self) -> str:
        """The name of the script or command."""
        return self.record.call.verb

    @property
    def reply(self) -> Reply:
        """The raw reply."""
        return self.record.reply

    @property
    def view(self) -> CallView:
        """The call by its header's names."""
        if self._view is None:
            raise LookupError(f"no header names what {self.verb} takes")
        return self._view

    def arg(self, name: str) -> str:
        """An argument as text; raises `NotInCall`."""
        return self.view.args.text(name)

    def args(self, name: str) -> list[str]:
        """A repeated argument as text."""
        return [to_text(value) for value in self.view.args.all(name)]

    @cached_property
    def queue(self) -> str:
        """The queue whose keys it takes; raises `LookupError` if its first key belongs to no queue."""
        at = keys.parse(self.record.call.keys[0])
        if at is None:
            raise LookupError(f"{self.record.call.keys[0]!r} is of no queue")
        return at.queue

    @property
    def where(self) -> str:
        """That queue, in words."""
        return plain(self.queue)

    @cached_property
    def was(self) -> Part:
        """That queue before the call, as far as the call is about it."""
        return self._part(self.record.before)

    @cached_property
    def now(self) -> Part:
        """That queue after the call, as far as the call is about it."""
        return self._part(self.record.after)

    def _part(self, snapshot: Snapshot) -> Part:
        """The queue's own keys, and those of the jobs that the call names or changes: not all of a big keyspace."""
        wanted = {self.own_key(name) for name in OF_A_QUEUE}
        wanted |= {self.job_key(id, "" if name == "row" else name) for id in self._ids for name in OF_A_JOB}
        held = ((key, snapshot.value(key)) for key in sorted(wanted))
        return Part(self.queue, Snapshot(tuple((key, value) for key, value in held if value is not None), snapshot.now))

    @cached_property
    def _ids(self) -> frozenset[str]:
        """What may be a job of this call: what its keys, its arguments and its reply name, and what changed."""
        call = self.record.call
        named = {at.id for key in call.keys if (at := keys.parse(key)) is not None and at.id is not None}
        answered = self.reply if isinstance(self.reply, tuple) else ()
        said = (*call.args, *(item for item in answered if isinstance(item, bytes)))
        named |= {to_text(one) for one in said if len(one) <= LONGEST_ID}
        for change in self.record.diff:
            at = keys.parse(change.key)
            if at is not None and at.id is not None:
                named.add(at.id)
            elif change.part is not None:
                named.add(to_text(change.part))
        return frozenset(named)

    # --- what it changed ------------------------------------------------------------------------------------------

    def take(self, key: bytes, part: str | None = None, *, after: bytes | None = None, kind: str = "") -> Change | None:
        """Take the change of this part out of `left` and return it, if it is of this kind or ended with this value."""
        wanted = None if part is None else keys.text(part)
        for at in range(bisect_left(self.left, key, key=lambda one: one.key), len(self.left)):
            change = self.left[at]  # they stand in byte order of their keys
            if change.key != key:
                break
            if change.part == wanted and (after is None or change.after == after) and kind in ("", change.kind):
                return self.left.pop(at)
        return None

    def own_key(self, name: str) -> bytes:
        """A key of the queue itself."""
        return keys.queue_key(self.queue, name)

    def job_key(self, id: str, name: str = "") -> bytes:
        """The row of a job, or another of its keys; ill-formed ids have keys too, so this is not a gate."""
        return keys.job_prefix(self.queue) + keys.text(f"{id}:{name}" if name else id)

    def left_set(self, name: str, id: str) -> bool:
        """Whether it took the id out of a set."""
        return self.take(self.own_key(name), id, kind="removed") is not None

    def entered(self, name: str, id: str) -> bool:
        """Whether it put the id into a set, with the score 0 for pending and dead."""
        score = b"0" if name in ("pending", "dead") else None
        return self.take(self.own_key(name), id, kind="added", after=score) is not None

    def moved(self, name: str, kind: str) -> list[str]:
        """The ids that it `added` to a set or `removed` from it, in byte order."""
        key = self.own_key(name)
        return [to_text(one.part or b"") for one in self.left if one.key == key and one.kind == kind]

    def set_field(self, id: str, field: str, value: str | bytes) -> None:
        """Mark the change of an existing row's field to this value as told."""
        if id in self.was.rows:
            self.take(self.job_key(id), field, after=keys.text(value) if isinstance(value, str) else value)

    def counted(self, name: str) -> None:
        """Mark the increment of a metric by one, which is expected, as told."""
        before = self.was.counts.get(name, b"0")
        self.take(
            self.own_key(f"metrics:{name}"), "count", after=b"%d" % (int(before) + 1) if before.isdigit() else b""
        )

    def row_deleted(self, id: str) -> bool:
        """Whether it deleted the row."""
        if id in self.now.rows or id not in self.was.rows:
            return False
        self.left[:] = [one for one in self.left if one.key != self.job_key(id)]
        return True

    def row(self, id: str, **expected: str | bytes) -> str:
        """The row that a land left: `a row`, or what is wrong with it. Marks fields that got these values as told.

        Args:
            id: the landed job.
            expected: its expected state and other fields.
        """
        row = self.now.row(id)
        for name, value in expected.items():
            self.take(self.job_key(id), name, after=keys.text(value) if isinstance(value, str) else value, kind="added")
        if row is None:
            return "no row"
        if not all(name in row for name in WHOLE):
            return "an incomplete row"
        if row["state"] == keys.text(str(expected["state"])):
            return "a row"
        self.take(self.job_key(id), "state", kind="added")
        return f"a row that says {plain(row['state'])}"

    def logs_deleted(self, id: str) -> bool:
        """Whether it deleted the job's logs."""
        if id in self.now.logs or id not in self.was.logs:
            return False
        self.left[:] = [one for one in self.left if one.key != self.job_key(id, "logs")]
        return True

    def linked(self, id: str, parent: str, queue: str, policy: str) -> bool:
        """Whether a child's row names its parent, the parent's queue and, if one is given, the policy."""
        row = self.now.row(id) or {}
        wanted = {"parent": parent, "parent_queue": queue, "parent_policy": policy}
        for name, value in wanted.items():
            self.take(self.job_key(id), name, after=keys.text(value), kind="added")
        return all(row.get(name, b"") == keys.text(value) for name, value in wanted.items() if value or name != POLICY)

    def signalled(self, signal: Completion | Failure) -> bool:
        """Whether it put this signal into the queue's outbox."""
        key = self.own_key("flow:outbox")
        for one in self.left:
            if one.key == key and one.before is None and outbox.decode(one.after or b"") == signal:
                self.left.remove(one)
                return True
        return False

    # --- words for it ---------------------------------------------------------------------------------------------

    def places(self, id: str) -> str:
        """Where an id is after the call (`in active and dead`, `in no set`); marks its arrival there as told."""
        for name in self.now.places(id):
            self.entered(name, id)
        return f"in {listed(self.now.places(id))}" if self.now.places(id) else "in no set"

    def out_of(self, id: str, *, into: str = "") -> str:
        """Mark the id's removal from its sets as told, and describe it unless it simply left active.

        Args:
            id: the settled job.
            into: the set it goes into, which is told elsewhere.

        Returns:
            An empty text, or a clause between commas.
        """
        gone = [name for name in keys.SETS if self.left_set(name, id)]
        stays = [name for name in self.now.places(id) if name != into]
        if stays:
            return f", which stays in {listed(stays)},"
        if not gone:
            return ", which was in no set,"
        return "" if gone == ["active"] else f", which was in {listed(gone)},"

    def under(self, id: str, token: str) -> str:
        """A clause between commas if the token was not the one on the row, else empty."""
        attempts = (self.was.row(id) or {}).get("attempts")
        if attempts is None or attempts == keys.text(token):
            return ""
        return f", under token {plain(token)} although its row says {plain(attempts)},"

    def says(self, id: str, state: str) -> str:
        """One more sentence if a row has another state than this, else empty."""
        now = self.now.state(id)
        return "" if now == state else " It has no state." if now is None else f" Its row says {plain(now)}."

    def ids(self, ids: Sequence[str]) -> str:
        """A few ids by name; of many, the first three and how many more."""
        named = [self.names(id) for id in ids]
        return listed(named) if len(named) <= 4 else f"{', '.join(named[:3])} and {len(named) - 3} more"

    def counter(self, parent: str, *, expected: bool) -> str:
        """What became of a parent's counter, as a clause; if it was `expected` to change, also that it did not."""
        change = self.take(self.job_key(parent, "dependencies"))
        counter = self.now.parents[parent].counter if parent in self.now.parents else None
        if change is not None and change.after is not None:
            if change.before is None:
                return f", whose counter starts at {plain(change.after)}"
            return f", whose counter goes {plain(change.before)} → {plain(change.after)}"
        if not expected:
            return ""
        return ", which has no counter" if counter is None else f", whose counter stays at {plain(counter)}"

    def moves(self, parent: str) -> bool:
        """Whether it changed a parent's counter, and that is not told yet."""
        return any(one.key == self.job_key(parent, "dependencies") for one in self.left)

    def touches(self, parent: str, name: str, child: str) -> bool:
        """Whether it changed a child's entry in a parent's hash, and that is not told yet."""
        part = keys.text(child)
        return any(one.key == self.job_key(parent, name) and one.part == part for one in self.left)

    def recorded(self, parent: str, name: str, child: str, value: bytes) -> bool:
        """Whether this call recorded the child in a parent's hash; marks it as told if it has this value."""
        touched = self.touches(parent, name, child)
        self.take(self.job_key(parent, name), child, after=value, kind="added")
        return touched and child in self.now.hash(parent, name)

    def fate(self, parent: str) -> str:
        """What became of a parent: released, dead, or held although no child is outstanding; otherwise empty."""
        who, outstanding = self.names(parent), self.now.counter(parent)
        if self.entered("pending", parent):
            self.set_field(parent, "state", "pending")
            says = self.says(parent, "pending")
            if outstanding == 0:
                return f" That was the last one: {who} is released into pending.{says}"
            still = "its counter below 0" if outstanding else "without a counter"
            if outstanding is not None and outstanding > 0:
                still = f"and {many(outstanding, 'child is', 'children are')} still outstanding"
            return f" {who} is released into pending, {still}.{says}"
        if self.entered("dead", parent):
            self.set_field(parent, "state", "dead")
            out = ", out of pending" if self.left_set("pending", parent) else ""
            return f" {who} is dead with it{out}.{self.says(parent, 'dead')}"
        moved = outstanding != self.was.counter(parent)
        if moved and outstanding is not None and outstanding <= 0 and self.now.state(parent) == "awaiting_children":
            return f" {who} is not released, although no child is outstanding."
        return ""

    def extended(self, id: str, lease: str) -> bool:
        """Whether the id's lease, of this many milliseconds, runs from this call on, whatever the clock did."""
        deadline = self.now.members("active").get(id)
        if deadline is None:
            return False
        if deadline == FUTURE or deadline != self.was.members("active").get(id):
            return True
        lasts = int(lease) if lease.isdigit() else 0
        return self.record.before.now + lasts <= deadline <= self.record.after.now + lasts

    @property
    def end(self) -> str:
        """`; nothing changed` if nothing did, else empty."""
        return "" if self.changed else "; nothing changed"

    def rest(self) -> str:
        """The changes not told yet, in a few words, now told; empty if there are none."""
        lines = [words for _, words in changes_in_words(self.left, self.names)]
        self.left.clear()
        more = f"; and {len(lines) - _LINES} more" if len(lines) > _LINES else ""
        return f"{'; '.join(lines[:_LINES])}{more}"
