"""Every step as a sentence: what was sent, what was answered and what it changed, in words a learner can read aloud.

A sentence is made from the call, its reply and the difference between the keyspace before and after, never from what a
script is supposed to do: where a script does something else, the sentence says so. It holds no clock reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from emqkit import keys
from emqkit.errors import ScriptArity, ScriptMissing
from emqkit.keyspace import Keyspace
from emqkit.scripts import ScriptSet
from emqkit.snapshot import Change, Snapshot
from emqkit.trace import CallRecord, Step
from emqkit.wire import ErrorReply, Reply
from emqkit.words.changes import field_words, key_words, signal_words
from emqkit.words.text import elided, listed, many, plain, quoted, short

__all__ = ["reply_words", "sentence", "start_sentence", "step_sentence"]

_NAMED_SIGNALS = 3


# --- keys and replies ------------------------------------------------------------------------------------------------


def reply_words(reply: Reply) -> str:
    """A reply as text: a number, quoted text, `none`, an error as it came, or a list of these."""
    if reply is None:
        return "none"
    if isinstance(reply, ErrorReply):
        return elided(plain(str(reply)), 80)
    if isinstance(reply, bytes):
        return short(reply) if short(reply) != plain(reply) and "…" in short(reply) else quoted(reply)
    if isinstance(reply, int):
        return str(reply)
    if not reply:
        return "an empty list"
    shown = ", ".join(reply_words(item) for item in reply[:6])
    return f"{shown} and {len(reply) - 6} more" if len(reply) > 6 else shown


def _ids(ids: Sequence[str]) -> str:
    """A few ids by name, many by the first and how many more."""
    named = [short(id) for id in ids]
    if len(named) > 4:
        return f"{', '.join(named[:3])} and {len(named) - 3} more"
    return listed(named)


# --- one call --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    """A call with what its sentence needs at hand."""

    record: CallRecord
    name: str

    @property
    def args(self) -> tuple[bytes, ...]:
        return self.record.call.args

    @property
    def keys(self) -> tuple[bytes, ...]:
        return self.record.call.keys

    @property
    def reply(self) -> Reply:
        return self.record.reply

    @property
    def diff(self) -> tuple[Change, ...]:
        return self.record.diff

    @cached_property
    def queue(self) -> str:
        at = keys.parse(self.keys[0])
        return "a key of no queue" if at is None else plain(at.queue)

    def text(self, position: int) -> str:
        return self.args[position].decode("utf-8", "surrogateescape")

    def id(self, position: int) -> str:
        return short(self.args[position])

    def moved(self, name: str, kind: str) -> list[str]:
        """The ids that entered (`added`) or left (`removed`) a set, in byte order."""
        found = []
        for change in self.diff:
            at = keys.parse(change.key)
            if at is not None and at.id is None and at.name == name and change.kind == kind and change.part is not None:
                found.append(change.part.decode("utf-8", "surrogateescape"))
        return found

    def change(self, key: bytes, part: bytes | None = None) -> Change | None:
        return next((one for one in self.diff if one.key == key and one.part == part), None)

    def counter(self, key: bytes) -> str:
        """`, whose counter goes 3 → 2`, or nothing when it did not move."""
        change = self.change(key)
        if change is None or change.after is None:
            return ""
        if change.before is None:
            return f", whose counter starts at {plain(change.after)}"
        return f", whose counter goes {plain(change.before)} → {plain(change.after)}"

    def fate(self, parent: str, counter: bytes = b"") -> str:
        """What became of a parent with this call: released, dead, or nothing to say."""
        if parent in self.moved("pending", "added"):
            last = "That was the last one: " if self.record.after.text(counter) == b"0" else ""
            return f" {last}{short(parent)} is released into pending."
        if parent in self.moved("dead", "added"):
            return f" {short(parent)} is dead with it."
        return ""

    def places(self, id: bytes) -> str:
        """Where an id of this queue stands after the call: `in pending`, or `in no set`."""
        at = keys.parse(self.keys[0])
        found = [
            name
            for name in keys.SETS
            if at is not None and id in self.record.after.ranked(keys.queue_key(at.queue, name))
        ]
        return f"in {listed(found)}" if found else "in no set"

    def deletes(self, key: bytes) -> bool:
        """Is the whole key gone with this call?"""
        return key in self.record.before.keys and key not in self.record.after.keys

    @property
    def nothing(self) -> str:
        return "nothing changed" if not self.diff else "and yet something changed"


def _enqueue(told: _Told) -> str | None:
    where = "schedule" if told.name == "schedule" else "pending"
    if told.reply == 0:
        return f"finds a row of {told.id(0)} in {told.queue} already: a duplicate; {told.nothing}."
    if told.reply != 1:
        return None
    place = "a row, and a place in pending" if where == "pending" else "a row, and a place in schedule until it is due"
    return f"lands {told.id(0)} in {told.queue}: {place}."


def _claim(told: _Told) -> str | None:
    if told.reply == ():
        return f"finds pending of {told.queue} empty: there is no job to hand out; {told.nothing}."
    if not isinstance(told.reply, tuple) or len(told.reply) < 3 or not isinstance(told.reply[0], bytes):
        return None
    token = told.reply[2]
    shown = plain(token) if isinstance(token, bytes) else str(token)
    waiting = told.record.before.ranked(told.keys[0])
    which = "the smallest id" if waiting and told.reply[0] == min(waiting) else "not the smallest id"
    now = "active under a lease" if told.reply[0] in told.record.after.ranked(told.keys[1]) else "not in active"
    out = f"hands out {short(told.reply[0])}, {which} in pending of {told.queue}"
    return f"{out}: it is {now}, and its token is {shown}."


def _complete(told: _Told) -> str | None:
    id = told.id(0)
    if told.reply == 0:
        return f"finds no row of {id} in {told.queue}: it is gone; {told.nothing}."
    if told.reply != 1:
        return None
    done = f"retires {id} of {told.queue}"
    if len(told.keys) == 5:
        counter = told.counter(told.keys[2])
        if not counter:
            return f"{done}. It was not in active any more, so its parent {told.id(3)} is told nothing."
        stored = told.change(told.keys[3], told.args[0])
        result = "its result is in processed" if stored else "its result is not taken into processed"
        return f"{done}: {result} of {told.id(3)}{counter}.{told.fate(told.text(3), told.keys[2])}"
    if len(told.keys) == 3:
        if not any(change.key == told.keys[2] for change in told.diff):
            return f"{done}. It was not in active any more, so no signal to its parent {told.id(3)} is left."
        return f"{done} and leaves a signal for {told.id(3)} in {plain(told.args[6])}, in the outbox of {told.queue}."
    return f"{done}: its row is {'deleted' if told.deletes(told.keys[1]) else 'still there'}."


def _retry(told: _Told) -> str | None:
    id, error = told.id(0), quoted(told.args[4])
    if told.reply == b"scheduled":
        return f"puts {id} of {told.queue} into schedule for another attempt, after {error}."
    if told.reply != b"dead":
        return None
    dead = f"finds no attempt left for {id} of {told.queue}: it is dead, after {error}."
    if len(told.keys) == 8:
        parent = told.id(7)
        if any(change.key == told.keys[4] for change in told.diff):
            return f"{dead} Its error is in failed of {parent}.{told.fate(told.text(7))}"
        if any(change.key == told.keys[5] for change in told.diff):
            ignored = f"The error is in unsuccessful of {parent}{told.counter(told.keys[6])}"
            return f"{dead} {ignored}.{told.fate(told.text(7), told.keys[6])}"
        return f"{dead} Its parent {parent} is told nothing."
    if len(told.keys) == 5:
        if any(change.key == told.keys[4] for change in told.diff):
            parent = f"{told.id(8)} in {plain(told.args[7])}"
            return f"{dead} A signal for its parent {parent} is in the outbox of {told.queue}."
        return f"{dead} No signal to its parent is left."
    return dead


def _promote(told: _Told) -> str | None:
    if not isinstance(told.reply, int):
        return None
    if told.reply == 0:
        return f"finds nothing due in schedule of {told.queue}; {told.nothing}."
    moved = told.moved("pending", "added")
    return f"moves {many(told.reply, 'due job')} of {told.queue} from schedule to pending: {_ids(moved)}."


def _reap(told: _Told) -> str | None:
    if not isinstance(told.reply, int):
        return None
    if told.reply == 0:
        return f"finds no lapsed lease in active of {told.queue}; {told.nothing}."
    moved = told.moved("pending", "added")
    who = "whose lease lapsed" if told.reply == 1 else "whose leases lapsed"
    kept = "" if any(change.part == b"attempts" for change in told.diff) else "; tokens stay"
    return f"puts {many(told.reply, 'job')} of {told.queue} {who} back into pending: {_ids(moved)}{kept}."


def _extend_lock(told: _Told) -> str | None:
    if told.reply == -1:
        return f"finds no row of {told.id(0)} in {told.queue}: it is gone; {told.nothing}."
    if told.reply != 1:
        return None
    if told.args[0].decode("utf-8", "surrogateescape") in told.moved("active", "added"):
        return f"puts {told.id(0)} into active of {told.queue} under a lease; it was not there before."
    return f"gives {told.id(0)} of {told.queue} a new deadline for its lease."


def _extend_locks(told: _Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    asked = [told.text(at) for at in range(2, len(told.args), 2)]
    refused = [item.decode("utf-8", "surrogateescape") for item in told.reply if isinstance(item, bytes)]
    done = f"gives {len(asked) - len(refused)} of {many(len(asked), 'lease')} of {told.queue} a new deadline"
    return f"{done}; not extended: {_ids(refused)}." if refused else f"{done}."


def _reprocess(told: _Told) -> str | None:
    if told.reply == -1:
        return f"finds no row of {told.id(0)} in {told.queue}: it is gone; {told.nothing}."
    if told.reply != 1:
        return None
    return f"puts {told.id(0)} of {told.queue} back from dead into pending; its attempts are kept."


def _remove_job(told: _Told) -> str | None:
    if told.reply == -1:
        return f"finds no row of {told.id(0)} in {told.queue}: it is gone; {told.nothing}."
    if told.reply != 1:
        return None
    return f"takes {told.id(0)} out of {told.queue} for good: out of every set, and its row is deleted."


def _again(told: _Told, whole: bool) -> str:
    """That a call wrote nothing: because all of it was there, or for a reason the reply does not give."""
    if told.diff:
        return ""
    return " All of it was there already: nothing changed." if whole else " Nothing changed."


def _enqueue_flow(told: _Told) -> str | None:
    ids = told.args[3::2]
    if told.reply != len(ids):
        return None
    pending = told.record.after.ranked(told.keys[2])
    rows = [bool(told.record.after.hash(key)) for key in told.keys[3 : 3 + len(ids)]]
    waiting = [row for id, row in zip(ids, rows, strict=True) if id in pending]
    landed = sum(waiting)
    count = many(len(ids), "child", "children")
    count = count if landed == len(ids) else f"{landed} of {count}"
    children = f"{count} {'is' if landed == 1 else 'are'} claimable in pending"
    if landed < len(waiting):
        children += f" ({len(waiting) - landed} more in it without a row)"
    place, held = _parents_place(told)
    there = [bool(told.record.after.hash(told.keys[0])), *rows]
    much = "the flow" if all(there) else "part of the flow" if any(there) else "nothing of the flow"
    flow = f"lands {much} of {told.id(0)} in {told.queue}{' in one step' if all(there) else ''}"
    parent = f"the parent is {place}" if held else f"the parent {place}"
    whole = held and landed == len(ids)
    return f"{flow}: {children}, {parent}, {_its_counter(told)}.{_again(told, whole)}"


def _parents_place(told: _Told) -> tuple[str, bool]:
    """Where a parent stands after its call, and whether it is held: a row that awaits, a place in no set."""
    row = told.record.after.hash(told.keys[0])
    place = told.places(told.args[0])
    unset = place == "in no set"
    if not row:
        return "has no row" if unset else f"has no row and stands {place}", False
    if row.get(b"state") != b"awaiting_children":
        state = field_words(b"state", row[b"state"]) if b"state" in row else "none"
        return f"stands {place} with the state {state}", False
    return (f"held {place}", True) if unset else (f"stands {place}", False)


def _its_counter(told: _Told) -> str:
    counter = told.record.after.text(told.keys[1])
    return "without a counter" if counter is None else f"its counter at {plain(counter)}"


def _hold_parent(told: _Told) -> str | None:
    if told.reply != 1:
        return None
    place, held = _parents_place(told)
    where = f"{told.id(0)} in {told.queue}"
    start = f"lands {where}, {place}" if held else f"answers 1 for {where}, and yet the parent {place}"
    return f"{start}, {_its_counter(told)}.{_again(told, held)}"


def _enqueue_flow_child(told: _Told) -> str | None:
    if told.reply != 1:
        return None
    elsewhere = f" in {plain(told.args[3])}" if told.args[3] else ""
    child = f"{told.id(0)} in {told.queue}"
    row = told.record.after.hash(told.keys[0])
    place = told.places(told.args[0])
    if not row:
        return f"answers 1 for {child}, and yet it has no row and stands {place}.{_again(told, False)}"
    if row.get(b"parent") != told.args[2]:
        return f"lands {child}, {place}, with a row that does not name {told.id(2)} as its parent.{_again(told, False)}"
    return f"lands {child}, {place}, as a child of {told.id(2)}{elsewhere}.{_again(told, place == 'in pending')}"


def _flow_deliver(told: _Told) -> str | None:
    if told.reply != 1:
        return None
    parent = f"{told.id(2)} in {told.queue}"
    if not told.diff:
        return f"finds the result of {told.id(0)} with {parent} already: it counts once; nothing changed."
    also = told.counter(told.keys[0])
    return f"brings the result of {told.id(0)} into processed of {parent}{also}.{told.fate(told.text(2), told.keys[0])}"


def _flow_fail_deliver(told: _Told) -> str | None:
    if told.reply != 1:
        return None
    parent = f"{told.id(4)} in {told.queue}"
    if not told.diff:
        return f"finds the death of {told.id(0)} with {parent} already: it counts once; nothing changed."
    also = told.counter(told.keys[0])
    name = "failed" if any(change.key == told.keys[1] for change in told.diff) else "unsuccessful"
    return f"brings the death of {told.id(0)} into {name} of {parent}{also}.{told.fate(told.text(4), told.keys[0])}"


SCRIPTS: dict[str, Callable[[_Told], str | None]] = {
    "enqueue": _enqueue,
    "schedule": _enqueue,
    "claim": _claim,
    "complete": _complete,
    "retry": _retry,
    "promote": _promote,
    "reap": _reap,
    "extend_lock": _extend_lock,
    "extend_locks": _extend_locks,
    "reprocess": _reprocess,
    "remove_job": _remove_job,
    "enqueue_flow": _enqueue_flow,
    "hold_parent": _hold_parent,
    "enqueue_flow_child": _enqueue_flow_child,
    "flow_deliver": _flow_deliver,
    "flow_fail_deliver": _flow_fail_deliver,
    "native_complete": _complete,
    "native_fail": _retry,
}

_NAMES = {"native_complete": "EMQ.COMPLETE (a model)", "native_fail": "EMQ.FAIL (a model)"}


# --- commands --------------------------------------------------------------------------------------------------------


def _fields(args: Sequence[bytes]) -> str:
    pairs = zip(args[::2], args[1::2], strict=False)
    return listed([f"{plain(name)} = {field_words(name, value)}" for name, value in pairs])


def _hset(told: _Told) -> str | None:
    at = keys.parse(told.keys[0])
    if at is not None and at.name == "meta" and told.args[:1] == (b"paused",):
        return f"pauses {told.queue}: claims stop, nothing else does."
    same = "" if told.diff else "; it stood there already"
    return f"writes {_fields(told.args)} on {key_words(told.keys[0])}{same}."


def _hdel(told: _Told) -> str | None:
    at = keys.parse(told.keys[0])
    if at is not None and at.name == "meta" and told.args == (b"paused",):
        return f"resumes {told.queue}{'' if told.diff else '; it was not paused'}."
    fields = listed([plain(name) for name in told.args])
    return f"deletes {fields} of {key_words(told.keys[0])}: {reply_words(told.reply)}."


def _hmget(told: _Told) -> str | None:
    values = told.reply if isinstance(told.reply, tuple) else (told.reply,)
    at = keys.parse(told.keys[0])
    if at is not None and at.name == "meta" and told.args == (b"paused",):
        return f"asks whether {told.queue} is paused: {'no' if values == (None,) else 'yes'}."
    if len(values) != len(told.args):
        return None
    found = [
        f"{plain(name)} {'none' if value is None else field_words(name, value) if isinstance(value, bytes) else value}"
        for name, value in zip(told.args, values, strict=True)
    ]
    return f"reads {key_words(told.keys[0])}: {', '.join(found)}."


def _hgetall(told: _Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    pairs = list(zip(told.reply[::2], told.reply[1::2], strict=False))
    found = [f"{reply_words(name)} → {reply_words(value)}" for name, value in pairs[:4]]
    if not pairs:
        return f"reads {key_words(told.keys[0])}: it is empty."
    more = f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""
    return f"reads {key_words(told.keys[0])}: {', '.join(found)}{more}."


def _hexists(told: _Told) -> str | None:
    at = keys.parse(told.keys[0])
    there = "yes" if told.reply == 1 else "no"
    if at is not None and at.name == "meta" and told.args == (b"paused",):
        return f"asks whether {told.queue} is paused: {there}."
    return f"asks whether {key_words(told.keys[0])} has {short(told.args[0])}: {there}."


def _get(told: _Told) -> str | None:
    found = plain(told.reply) if isinstance(told.reply, bytes) else "there is none"
    return f"reads {key_words(told.keys[0])}: {elided(found, 40)}."


def _zscore(told: _Told) -> str | None:
    there = "it is not there" if told.reply is None else "it is there"
    return f"looks for {short(told.args[0])} in {key_words(told.keys[0])}: {there}."


def _count(told: _Told) -> str | None:
    return f"counts {key_words(told.keys[0])}: {reply_words(told.reply)}."


def _exists(told: _Told) -> str | None:
    return f"asks whether there is {key_words(told.keys[0])}: {'no' if told.reply == 0 else 'yes'}."


def _lrange(told: _Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    if not told.reply:
        return f"reads {key_words(told.keys[0])} and removes nothing: it is empty."
    at = keys.parse(told.keys[0])
    named = [item for item in told.reply if isinstance(item, bytes)]
    is_outbox = at is not None and at.name == "flow:outbox"
    found = "; ".join(signal_words(item) if is_outbox else quoted(item) for item in named[:_NAMED_SIGNALS])
    more = f"; and {len(named) - _NAMED_SIGNALS} more" if len(named) > _NAMED_SIGNALS else ""
    count = many(len(named), "entry", "entries")
    return f"reads {count} of {key_words(told.keys[0])} and removes nothing: {found}{more}."


def _ltrim(told: _Told) -> str | None:
    before, after = (len(one.items(told.keys[0])) for one in (told.record.before, told.record.after))
    if before == after:
        return f"trims {key_words(told.keys[0])}; nothing changed."
    return f"trims {many(before - after, 'entry', 'entries')} off {key_words(told.keys[0])}; {after} left."


def _rpush(told: _Told) -> str | None:
    at = keys.parse(told.keys[0])
    if at is None or at.name != "flow:outbox":
        return None
    return f"puts a signal into {key_words(told.keys[0])}: {'; '.join(signal_words(item) for item in told.args)}."


def _del(told: _Told) -> str | None:
    names = listed([key_words(key) for key in told.keys])
    if told.reply == 0:
        return f"finds no {names.removeprefix('the ')} to delete; {told.nothing}."
    return f"deletes {names}."


_COMMANDS: dict[str, Callable[[_Told], str | None]] = {
    "HSET": _hset,
    "HDEL": _hdel,
    "HMGET": _hmget,
    "HGET": _hmget,
    "HGETALL": _hgetall,
    "HEXISTS": _hexists,
    "GET": _get,
    "ZSCORE": _zscore,
    "ZCARD": _count,
    "HLEN": _count,
    "LLEN": _count,
    "EXISTS": _exists,
    "LRANGE": _lrange,
    "LTRIM": _ltrim,
    "RPUSH": _rpush,
    "DEL": _del,
}


# --- sentences -------------------------------------------------------------------------------------------------------


def sentence(record: CallRecord, scripts: ScriptSet) -> str:
    """One plain sentence for one call: what it was, what came back, what that did.

    Args:
        record: the call with its reply and the keyspace around it.
        scripts: the set it ran with, unless the record names its own; it says what a script nobody wrote a sentence
            for is about.
    """
    call = record.call
    scripts = record.scripts or scripts
    name = _NAMES.get(call.verb, call.verb)
    told = _Told(record, call.verb)
    if isinstance(record.reply, ErrorReply):
        return f"{name} {_refused(told, record.reply)}"
    words = None
    table = _COMMANDS if call.kind == "command" else SCRIPTS
    if call.verb in table and call.keys:
        try:
            words = table[call.verb](told)
        except IndexError:  # a script of the learner's own may take less than the published one
            words = None
    return f"{name} {words if words is not None else _otherwise(told, scripts)}"


def _refused(told: _Told, error: ErrorReply) -> str:
    about = ""
    if error.code == "EMQKIND" and told.args:
        taken = told.args[3::2] if told.name == "enqueue_flow" else ()
        texts = [arg.decode("utf-8", "surrogateescape") for arg in (told.args[0], *taken)]
        foreign = [id for id in texts if "…" in short(id) and not id.startswith("JOB")]
        about = f" because of {_ids(foreign)}" if foreign else ""
    elif told.record.call.kind == "script" and told.args and "…" in told.id(0):
        about = f" for {told.id(0)}"
    end = "nothing changed" if not told.diff else "what it had written before stays"
    return f"is refused{about}: {reply_words(error)}; {end}."


def _otherwise(told: _Told, scripts: ScriptSet) -> str:
    """The sentence of a call that has none of its own."""
    about = ""
    if told.record.call.kind == "script":
        try:
            summary = scripts[told.name].summary
        except (ScriptMissing, ScriptArity):
            summary = ""
        about = f" ({summary})" if summary else ""
    elif told.args:
        about = " " + " ".join(elided(plain(arg), 24) for arg in told.args[:6])
    where = f" on {listed([key_words(key) for key in told.keys[:3]])}" if told.keys else ""
    changed = many(len({change.key for change in told.diff}), "key")
    end = f"; {changed} changed" if told.diff else "; nothing changed"
    return f"{about.strip()}{where} answers {reply_words(told.reply)}{end}.".strip()


def step_sentence(step: Step, scripts: ScriptSet) -> str:
    """One sentence for a round trip: of its only call, or what its calls did one after the other."""
    if step.mark:
        return step.mark
    lost = ""
    if step.lost is not None:
        lost = (
            f" The round trip ends with {type(step.lost).__name__}: whether what is missing took effect is not known."
        )
    records: Sequence[CallRecord] = step.calls
    if step.flush.atomic:
        # MULTI … EXEC is one step: every call of it is told with what the whole changed.
        records = [replace(one, before=step.before, after=step.after) for one in records]
    if len(step.flush.calls) == 1 and records:
        return sentence(records[0], scripts) + lost
    policies = _policies(step)
    told = [sentence(one, scripts) for one in records]
    head = f"{len(step.flush.calls)} calls in one {'MULTI … EXEC' if step.flush.atomic else 'round trip'}"
    if not told:
        return f"{head}, and not one reply.{lost}"
    if policies:
        return f"{head}: {policies}"
    shown = told if len(told) <= 4 else [*told[:3], f"And {len(told) - 3} more."]
    return f"{head}: {' '.join(shown)}{lost}"


def _policies(step: Step) -> str:
    """The one sentence of a round trip that writes policies on the rows of several children, and does nothing else."""
    calls = [one.call for one in step.calls]
    plainly = all(
        call.verb == "HSET" and len(call.keys) == 1 and len(call.args) == 2 and call.args[0] == b"parent_policy"
        for call in calls
    )
    rows = {call.keys[0] for call in calls if plainly and (at := keys.parse(call.keys[0])) and at.name == "row"}
    refused = any(isinstance(one.reply, ErrorReply) for one in step.calls)
    if step.lost is not None or refused or len(rows) < max(2, len(calls)) or len(calls) != len(step.flush.calls):
        return ""
    codes = [elided(plain(call.args[1]), 12) for call in calls]
    listed = ", ".join(codes if len(codes) <= 6 else [f"{codes.count(one)} {one}" for one in dict.fromkeys(codes)])
    same = "" if step.diff else "; they stood there already"
    return f"the failure policies of {len(codes)} children are written ({listed}){same}."


def start_sentence(snapshot: Snapshot) -> str:
    """The sentence of the start, before anything was sent."""
    held = Keyspace.of(snapshot)
    there = [f"{plain(part.queue)} ({many(len(part.rows), 'row')})" for part in held.queues]
    there += [many(len(held.strangers), "other key")] if held.strangers else []
    if not there:
        return "The start: nothing has been sent yet, and the keyspace is empty."
    return f"The start: nothing has been sent yet. Already there: {listed(there)}."
