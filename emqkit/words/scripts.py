"""A sentence for each script, made from the call's arguments, its reply and its changes.

None of them says what a script should do. If a script replies as if it had written but wrote nothing, or gives a reply
that its contract does not have, there is no sentence here, and the call is told by its reply and its changes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.outbox import Completion, Failure
from emqkit.words.text import listed, many, plain, quoted
from emqkit.words.told import Told

__all__ = ["SCRIPTS"]

HELD = "held in no set"


# --- landing ----------------------------------------------------------------------------------------------------------


def _enqueue(told: Told) -> str | None:
    id = told.arg("id")
    who, where = told.names(id), told.where
    if told.reply == 0:
        if told.was.row(id) is None:
            return f"answers that {who} is a duplicate, although {where} had no row of it{told.end}."
        return f"finds a row of {who} in {where} already: a duplicate{told.end}."
    if told.reply != 1 or not told.changed:
        return None
    place, state = ("schedule", "scheduled") if told.verb == "schedule" else ("pending", "pending")
    row = told.row(id, state=state, attempts="0", payload=told.view.args["payload"])
    told.entered(place, id)
    if told.now.places(id) != (place,):
        return f"lands {who} in {where}: {row}, {told.places(id)}."
    return f"lands {who} in {where}: {row}, and a place in {place}{' until it is due' if place == 'schedule' else ''}."


def _enqueue_flow(told: Told) -> str | None:
    parent, children = told.arg("parent_id"), told.args("child_id")
    who = f"{told.names(parent)} in {told.where}"
    if told.reply != len(children):
        return None
    policies = told.args("policy") or [""] * len(children)
    claimable, astray = [], []
    for child, payload, policy in zip(children, told.view.args.all("payload"), policies, strict=True):
        row = told.row(child, state="pending", attempts="0", payload=payload)
        told.entered("pending", child)
        if row == "a row" and told.now.places(child) == ("pending",):
            claimable.append(child)
        if not told.linked(child, parent, "", policy) and row != "no row":
            astray.append(child)
    stands, counter = _parent(told, parent), _starts(told, parent)
    count = many(len(children), "child", "children")
    count = count if len(claimable) == len(children) else f"{len(claimable)} of {count}"
    said = [f"{count} {'is' if len(claimable) == 1 else 'are'} claimable in pending"]
    if ghosts := [id for id in children if told.now.row(id) is None and told.now.places(id)]:
        said.append(f"there without a row: {told.ids(ghosts)}")
    if astray:
        said.append(f"not linked as declared: {told.ids(astray)}")
    said += [f"the parent is {stands}", counter]
    there = [told.now.row(id) is not None for id in (parent, *children)]
    if not told.changed:
        whole = stands == HELD and len(claimable) == len(children) and not astray
        return f"finds the flow of {who} already, just as it lands it; nothing changed." if whole else None
    much = "the flow" if all(there) else "part of the flow" if any(there) else "nothing of the flow"
    return f"lands {much} of {who}{' in one step' if all(there) else ''}: {', '.join(said)}."


def _hold_parent(told: Told) -> str | None:
    parent = told.arg("parent_id")
    if told.reply != 1:
        return None
    stands = f"{_parent(told, parent)}, {_starts(told, parent)}"
    who = f"{told.names(parent)} in {told.where}"
    if told.changed:
        return f"lands {who}, {stands}."
    return f"finds {who} already, {stands}; nothing changed." if told.now.row(parent) else None


def _parent(told: Told, parent: str) -> str:
    """A parent's state after its land: held (a row that awaits its children, in no set), or whatever it is."""
    row = told.row(parent, state="awaiting_children", attempts="0", payload=told.view.args["payload"])
    if row == "a row" and not told.now.places(parent):
        return HELD
    return f"{told.places(parent)}{'' if row == 'a row' else f' with {row}'}"


def _starts(told: Told, parent: str) -> str:
    told.take(told.job_key(parent, "dependencies"), kind="added")
    counter = told.now.parents[parent].counter if parent in told.now.parents else None
    return "without a counter" if counter is None else f"its counter at {plain(counter)}"


def _enqueue_flow_child(told: Told) -> str | None:
    child, parent, elsewhere = told.arg("child_id"), told.arg("parent_id"), told.arg("parent_queue")
    policy = told.view.args.get("policy")
    if told.reply != 1:
        return None
    row = told.row(child, state="pending", attempts="0", payload=told.view.args["payload"])
    told.entered("pending", child)
    of = f"as a child of {told.names(parent)}{f' in {plain(elsewhere)}' if elsewhere else ''}"
    if not told.linked(child, parent, elsewhere, "" if policy is None else to_text(policy)):
        of = f"not {of}"
    stands = f"{told.places(child)}{'' if row == 'a row' else f' with {row}'}, {of}"
    who = f"{told.names(child)} in {told.where}"
    if told.changed:
        return f"lands {who}, {stands}."
    return f"finds {who} already, {stands}; nothing changed." if told.now.row(child) else None


# --- a job's life -----------------------------------------------------------------------------------------------------


def _gone(told: Told, id: str) -> str:
    """The sentence for the reply that a job is gone, which is believed only if it has no row."""
    if told.was.row(id) is not None:
        return f"answers that {told.names(id)} of {told.where} is gone, although it has a row{told.end}."
    return f"finds no row of {told.names(id)} in {told.where}: it is gone{told.end}."


def _claim(told: Told) -> str | None:
    waiting = told.was.members("pending")
    if told.reply == ():
        if waiting:
            jobs = many(len(waiting), "job waits", "jobs wait")
            return f"hands out nothing, although {jobs} in pending of {told.where}{told.end}."
        return f"finds pending of {told.where} empty: there is no job to hand out{told.end}."
    if not isinstance(told.reply, tuple) or len(told.reply) < 3 or not isinstance(told.reply[0], bytes):
        return None
    id, token = to_text(told.reply[0]), told.reply[2]
    shown = plain(token) if isinstance(token, bytes) else str(token)
    before, now = (part.row(id) for part in (told.was, told.now))
    told.left_set("pending", id)
    told.entered("active", id)
    told.set_field(id, "state", "active")
    told.set_field(id, "attempts", shown)
    which = "not the smallest id" if id in waiting else "not"
    if id == min(waiting, key=keys.text, default=None):
        which = "the smallest id"
    held = "active under a lease" if told.now.places(id) == ("active",) else told.places(id)
    said = f"hands out {told.names(id)}, {which} in pending of {told.where}: it is {held}, and its token is {shown}"
    if before is None or now is None:
        return f"{said}; it {'has' if before else 'had'} no row."
    if now.get("attempts") != shown.encode():
        return f"{said}, while its row says {plain(now.get('attempts', b'nothing'))}."
    if before.get("attempts") == shown.encode():
        return f"{said}, as it was before.{told.says(id, 'active')}"
    return f"{said}.{told.says(id, 'active')}"


def _complete(told: Told) -> str | None:
    id, token = told.arg("id"), told.arg("token")
    if told.reply == 0:
        return _gone(told, id)
    if told.reply != 1 or not told.changed:
        return None
    done = f"retires {told.names(id)} of {told.where}{told.under(id, token)}{told.out_of(id)}"
    told.counted("completed")
    deleted = told.row_deleted(id)
    if "parent_id" not in told.view.args:
        return f"{done.rstrip(',')}: its row is {'deleted' if deleted else 'still there'}."
    kept = "" if deleted else " Its row is still there."
    parent, result = told.arg("parent_id"), told.view.args["result"]
    if "outbox" in told.view.keys:
        elsewhere = told.arg("parent_queue")
        to = f"for {told.names(parent)} in {plain(elsewhere)}"
        if told.signalled(Completion(elsewhere, parent, id, result)):
            return f"{done} and leaves a signal {to}, in the outbox of {told.where}.{kept}"
        return f"{done} and leaves no signal {to}.{kept}"
    return f"{done.rstrip(',')}: {_counts(told, parent, 'processed', id, result)}{kept}"


def _retry(told: Told) -> str | None:
    id, token, error = told.arg("id"), told.arg("token"), told.view.args["error"]
    if told.reply not in (b"scheduled", b"dead") or not told.changed:
        return None
    place = "schedule" if told.reply == b"scheduled" else "dead"
    told.entered(place, id)
    told.set_field(id, "state", to_text(told.reply))
    told.set_field(id, "last_error", error)
    who = f"{told.names(id)} of {told.where}{told.under(id, token)}{told.out_of(id, into=place)}"
    left = _attempts_left(told, id)
    after = f"after {quoted(error)}"
    if place not in told.now.places(id):
        said = f"answers {to_text(told.reply)} for {who.rstrip(',')}: it is {told.places(id)}, {after}."
    elif place == "schedule":
        another = "another attempt" if left else "an attempt too many"
        said = f"puts {who} into schedule for {another}, {after}."
    else:
        said = (
            f"finds {many(left, 'attempt') if left else 'no attempt'} left for {who.rstrip(',')}: it is dead, {after}."
        )
    said += told.says(id, to_text(told.reply))
    if (told.now.row(id) or {}).get("last_error") != error:
        said += " Its row does not say why."
    told.counted("failed")
    if told.reply == b"scheduled" or "parent_id" not in told.view.args:
        return said
    parent = told.arg("parent_id")
    if "outbox" in told.view.keys:
        elsewhere, policy = told.arg("parent_queue"), told.arg("leg")[3:]
        signal = "A signal" if told.signalled(Failure(elsewhere, parent, id, policy, error)) else "No signal"
        return f"{said} {signal} for {told.names(parent)} in {plain(elsewhere)} is in the outbox of {told.where}."
    name = next((one for one in ("failed", "unsuccessful") if told.touches(parent, one, id)), "failed")
    told_of = _counts(told, parent, name, id, error)
    return f"{said} {told_of[0].upper()}{told_of[1:]}"


def _attempts_left(told: Told, id: str) -> int:
    """How many attempts a job had left before its failure; 0 if unknown."""
    attempts, most = (told.was.row(id) or {}).get("attempts", b""), told.view.args["max"]
    return max(0, int(most) - int(attempts)) if attempts.isdigit() and most.isdigit() else 0


def _counts(told: Told, parent: str, name: str, child: str, value: bytes) -> str:
    """What the end of a child did to its parent in the same queue, and what became of the parent."""
    to, what = told.names(parent), "its result" if name == "processed" else "its error"
    moves = told.moves(parent)
    counter = told.counter(parent, expected=name != "failed")
    if told.recorded(parent, name, child, value):
        return f"{what} is in {name} of {to}{counter}.{told.fate(parent)}"
    if moves:
        return f"{what} is not taken into {name} of {to}{counter}.{told.fate(parent)}"
    return f"its parent {to} is told nothing.{told.fate(parent)}"


def _promote(told: Told) -> str | None:
    due, already = _past(told, "schedule")
    gone = told.moved("schedule", "removed")
    if told.reply == 0 and not gone:
        if already:
            jobs = many(len(already), "job is", "jobs are")
            return f"moves nothing, although {jobs} due in schedule of {told.where}{told.end}."
        return f"finds nothing due in schedule of {told.where}{told.end}."
    if told.reply != len(gone):
        return None
    early = [id for id in gone if id not in due]
    jobs = f"{many(len(gone), 'job' if early else 'due job')} of {told.where}"
    said = _into_pending(told, "schedule", gone, jobs, f"moves {jobs} from schedule to pending")
    return f"{said}{f'; not due yet: {told.ids(early)}' if early else ''}."


def _reap(told: Told) -> str | None:
    lapsed, already = _past(told, "active")
    gone = told.moved("active", "removed")
    if told.reply == 0 and not gone:
        if already:
            leases = many(len(already), "lease", "leases")
            return f"takes nothing back, although {leases} lapsed in active of {told.where}{told.end}."
        return f"finds no lapsed lease in active of {told.where}{told.end}."
    if told.reply != len(gone):
        return None
    live = [id for id in gone if id not in lapsed]
    lease = "" if live else " whose lease lapsed" if len(gone) == 1 else " whose leases lapsed"
    jobs = f"{many(len(gone), 'job')} of {told.where}{lease}"
    said = _into_pending(told, "active", gone, jobs, f"puts {jobs} back into pending")
    said += f"; still under a lease: {told.ids(live)}" if live else ""
    return f"{said}." if any(one.part == b"attempts" for one in told.left) else f"{said}; tokens stay."


def _past(told: Told, name: str) -> tuple[list[str], list[str]]:
    """The ids of a set that are due after the call, and those that were due before it."""
    scores = told.was.members(name)
    come, came = (
        [id for id, score in scores.items() if score <= at] for at in (told.record.after.now, told.record.before.now)
    )
    return come, came


def _into_pending(told: Told, source: str, ids: list[str], jobs: str, way: str) -> str:
    """How these ids moved from a set to pending; the sentence starts with `way` if all of them arrived."""
    for id in ids:
        told.left_set(source, id)
        told.entered("pending", id)
        told.set_field(id, "state", "pending")
    lost = [id for id in ids if told.now.places(id) != ("pending",)]
    said = f"{f'takes {jobs} out of {source}' if lost else way}: {told.ids(ids)}"
    said += "".join(f"; {told.names(id)} is {told.places(id)}" for id in lost)
    stale = [id for id in ids if id in told.now.rows and told.now.state(id) != "pending"]
    return said + "".join(
        f"; the row of {told.names(id)} says {plain(told.now.state(id) or 'nothing')}" for id in stale
    )


def _extend_lock(told: Told) -> str | None:
    id, token, lease = told.arg("id"), told.arg("token"), told.arg("lease")
    if told.reply == -1:
        return _gone(told, id)
    if told.reply != 1 or not told.extended(id, lease):
        return None
    under = told.under(id, token).rstrip(",")
    if told.entered("active", id):
        return f"puts {told.names(id)} into active of {told.where} under a lease; it was not there before{under}."
    told.take(told.own_key("active"), id, kind="changed")
    return f"gives {told.names(id)} of {told.where} a new deadline for its lease{under}."


def _extend_locks(told: Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    lease, asked = told.arg("lease"), told.args("id")
    refused = [to_text(item) for item in told.reply if isinstance(item, bytes)]
    done = [id for id in asked if id not in refused and told.extended(id, lease)]
    fresh = [id for id in done if told.entered("active", id)]
    for id in done:
        told.take(told.own_key("active"), id, kind="changed")
    said = f"gives {len(done)} of {many(len(asked), 'lease')} of {told.where} a new deadline"
    said += f"; not extended: {told.ids(refused)}" if refused else ""
    said += f"; not in active before: {told.ids(fresh)}" if fresh else ""
    silent = [id for id in asked if id not in refused and id not in done]
    return f"{said}; no answer for: {told.ids(silent)}." if silent else f"{said}."


def _reprocess(told: Told) -> str | None:
    id = told.arg("id")
    if told.reply == -1:
        return _gone(told, id)
    if told.reply != 1 or not told.changed:
        return None
    who, before, now = told.names(id), told.was.row(id) or {}, told.now.row(id) or {}
    revived = told.left_set("dead", id)
    revived = told.entered("pending", id) and revived and told.now.places(id) == ("pending",)
    told.set_field(id, "state", "pending")
    told.take(told.job_key(id), "last_error", kind="removed")
    said = f"puts {who} of {told.where} back from dead into pending"
    if not revived:
        said = f"answers 1 for {who} of {told.where}, which is {told.places(id)}"
    said += f"; its attempts are {'kept' if before.get('attempts') == now.get('attempts') else 'not kept'}"
    error = " Its last error stays on the row." if "last_error" in now else ""
    return f"{said}.{told.says(id, 'pending')}{error}"


def _remove_job(told: Told) -> str | None:
    id = told.arg("id")
    if told.reply == -1:
        return _gone(told, id)
    if told.reply != 1 or not told.changed:
        return None
    left = [name for name in keys.SETS if told.left_set(name, id)]
    deleted = ["its row"] if told.row_deleted(id) else []
    deleted += ["its logs"] if told.logs_deleted(id) else []
    gone = f"{listed(deleted)} {'is' if deleted == ['its row'] else 'are'} deleted"
    stays, who = told.now.places(id), told.names(id)
    if "its row" in deleted and not stays:
        out = f"out of {listed(left)}" if left else "it was in no set"
        return f"takes {who} out of {told.where} for good: {out}, and {gone}."
    said = [f"out of {listed(left)}"] if left else []
    said += [gone] if deleted else []
    said += [f"it stays {told.places(id)}"] if stays else []
    said += ["its row is still there"] if told.now.row(id) is not None else []
    return f"removes {who} of {told.where} in part: {', '.join(said)}."


# --- deliveries -------------------------------------------------------------------------------------------------------


def _flow_deliver(told: Told) -> str | None:
    return _delivered(told, "processed", told.view.args["result"], "result")


def _flow_fail_deliver(told: Told) -> str | None:
    child, parent = told.arg("child_id"), told.arg("parent_id")
    policy = "failed" if told.arg("policy") == "fp" else "unsuccessful"
    name = next((one for one in ("failed", "unsuccessful") if told.touches(parent, one, child)), policy)
    return _delivered(told, name, told.view.args["error"], "death")


def _delivered(told: Told, name: str, value: bytes, what: str) -> str | None:
    """The sentence for an outbox entry that is delivered to the parent's queue."""
    child, parent = told.arg("child_id"), told.arg("parent_id")
    what, to = f"the {what} of {told.names(child)}", f"{told.names(parent)} in {told.where}"
    before = child in told.was.hash(parent, name)
    if told.reply != 1 or not (told.changed or before):
        return None
    if not told.changed:
        return f"finds {what} in {name} of {to} already: it counts once; nothing changed."
    counter = told.counter(parent, expected=name != "failed" and not before)
    if told.recorded(parent, name, child, value) and not before:
        return f"brings {what} into {name} of {to}{counter}.{told.fate(parent)}"
    had = f"which had it in {name} already" if before else f"which does not take it into {name}"
    return f"brings {what} to {to}, {had}{counter.replace(',', ' and', 1)}.{told.fate(parent)}"


SCRIPTS: Mapping[str, Callable[[Told], str | None]] = {
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
"""What each says after the script's name; None if the reply is not in the script's contract."""
