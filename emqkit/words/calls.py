"""Every step as a sentence: what was sent, the reply and what changed, in words a learner can read aloud.

A sentence is made from the call, its reply and the difference between the keyspace before and after, never from what
the script should do; if it does something else, the sentence says so. It contains no clock reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emqkit import keys
from emqkit.errors import IllFormedId, ScriptArity, ScriptMissing
from emqkit.ids import check
from emqkit.keyspace import Keyspace
from emqkit.scripts import CallView, ScriptSet
from emqkit.snapshot import Snapshot
from emqkit.trace import CallRecord, Step
from emqkit.wire import ErrorReply
from emqkit.words.changes import key_words
from emqkit.words.commands import COMMANDS, reply_words
from emqkit.words.names import Names
from emqkit.words.scripts import SCRIPTS
from emqkit.words.text import elided, listed, many, plain
from emqkit.words.told import Told

__all__ = ["reply_words", "sentence", "sentences", "start_sentence", "step_sentence"]

_NAMES = {"native_complete": "EMQ.COMPLETE (a model)", "native_fail": "EMQ.FAIL (a model)"}
_LANDED = {"enqueue_flow": ("parent_id", "child_id"), "hold_parent": ("parent_id",)}
"""The arguments with the ids a script lands, if not `id`."""


def sentence(record: CallRecord, scripts: ScriptSet, names: Names | None = None) -> str:
    """One call in plain words, usually one sentence: the call, its reply, and its effect.

    Args:
        record: the call with its reply and the keyspace around it.
        scripts: the set it ran with, unless the record names its own; its headers name the arguments.
        names: the name of each job; by default its short id.
    """
    (words,) = sentences([record], scripts, names)
    return words


def sentences(
    records: Sequence[CallRecord], scripts: ScriptSet, names: Names | None = None, *, shared: bool = False
) -> list[str]:
    """Several calls in plain words, one text each.

    Args:
        records, scripts, names: as for `sentence`.
        shared: whether they share one difference, as the calls of a MULTI do, which is then told once.
    """
    left = list(records[0].diff) if shared and records else []
    told = []
    for record in records:
        own = record.scripts or scripts
        one = Told(record, names or Names(), _view(record, own), left if shared else list(record.diff))
        if record.call.kind == "command":
            one.changed = any(change.key in record.call.keys for change in record.diff)
        told.append(f"{_NAMES.get(record.call.verb, record.call.verb)} {_words(one, own)}")
        if not shared or record is records[-1]:
            rest = one.rest()
            told[-1] += f" Also: {rest}." if rest else ""
    return told


def _view(record: CallRecord, scripts: ScriptSet) -> CallView | None:
    try:
        return scripts.view(record.call) if record.call.kind == "script" else None
    except (ScriptMissing, ScriptArity):  # the trace's set is not the one that its calls ran with
        return None


def _words(told: Told, scripts: ScriptSet) -> str:
    call = told.record.call
    if isinstance(told.reply, ErrorReply):
        return _refused(told, told.reply)
    table = COMMANDS if call.kind == "command" else SCRIPTS
    before = list(told.left)
    try:
        words = table[call.verb](told) if call.verb in table and call.keys else None
    except LookupError:  # a learner's header with other names, or a key of no queue
        words = None
    if words is None:
        told.left[:] = before
    return words or _otherwise(told, scripts)


def _refused(told: Told, error: ErrorReply) -> str:
    about = ""
    if ids := _ids_of(told):
        foreign = [id for id in ids if not id.startswith("JOB")]
        about = f" because of {told.ids(foreign)}" if error.code == "EMQKIND" and foreign else ""
        about = about or f" for {told.names(ids[0])}"
    rest = told.rest()
    end = f"; what it had written before stays: {rest}" if rest else told.end
    return f"is refused{about}: {reply_words(error)}{end}."


def _ids_of(told: Told) -> list[str]:
    """The jobs that a script's call is about, according to its header."""
    try:
        args = told.view.args
    except LookupError:
        return []
    values = [
        value
        for name in _LANDED.get(told.verb, ("id", "child_id"))
        for value in (told.args(name) or ([told.arg(name)] if name in args else []))
    ]
    return [value for value in values if _is_id(value)]


def _is_id(value: str) -> bool:
    try:
        check(value)
    except IllFormedId:
        return False
    return True


def _otherwise(told: Told, scripts: ScriptSet) -> str:
    """The sentence for any other call: its purpose, its keys, its reply; its changes follow."""
    call = told.record.call
    about = " ".join(elided(plain(arg), 24) for arg in call.args[:6])
    if call.kind == "script":
        about = f"({scripts[call.verb].summary})" if call.verb in scripts else ""
    where = f"on {listed([key_words(key, told.names) for key in call.keys[:3]])}" if call.keys else ""
    rest = told.rest()
    answers = f"answers {reply_words(told.reply, told.names)}{f': {rest}' if rest else told.end}."
    return " ".join(part for part in (about, where, answers) if part)


# --- round trips ------------------------------------------------------------------------------------------------------


def step_sentence(step: Step, scripts: ScriptSet, names: Names | None = None) -> str:
    """One round trip in plain words: its only call, or what its calls did one by one."""
    if step.mark:
        return step.mark
    lost = ""
    if step.lost is not None:
        ended = f" The round trip ends with {type(step.lost).__name__}:"
        lost = f"{ended} it is not known whether what is missing took effect."
    records: Sequence[CallRecord] = step.calls
    if step.flush.atomic:
        # MULTI … EXEC is one step: each of its calls is told with the changes of the whole.
        records = [replace(one, before=step.before, after=step.after) for one in records]
    told = sentences(records, scripts, names, shared=step.flush.atomic)
    if len(step.flush.calls) == 1 and told:
        (words,) = told
        return words + lost
    head = f"{len(step.flush.calls)} calls in one {'MULTI … EXEC' if step.flush.atomic else 'round trip'}"
    if not told:
        return f"{head}, and not one reply.{lost}"
    if policies := _policies(step):
        return f"{head}: {policies}"
    shown = told if len(told) <= 4 else [*told[:3], f"And {len(told) - 3} more."]
    return f"{head}: {' '.join(shown)}{lost}"


def _policies(step: Step) -> str:
    """The one sentence for a round trip that only writes policies on the rows of several children."""
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
    each = ", ".join(codes if len(codes) <= 6 else [f"{codes.count(one)} {one}" for one in dict.fromkeys(codes)])
    same = "" if step.diff else "; they were there already"
    return f"the failure policies of {len(codes)} children are written ({each}){same}."


def start_sentence(snapshot: Snapshot) -> str:
    """The sentence for the start, before anything is sent."""
    held = Keyspace.of(snapshot)
    there = [f"{plain(part.queue)} ({many(len(part.rows), 'row')})" for part in held.queues]
    there += [many(len(held.strangers), "other key")] if held.strangers else []
    if not there:
        return "The start: nothing has been sent yet, and the keyspace is empty."
    return f"The start: nothing has been sent yet. Already there: {listed(there)}."
