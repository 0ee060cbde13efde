"""Who acts in a trace: the producer, workers, Pumps and the reaper, each with what it holds in memory and nowhere else.

What an actor holds is read from the replies it had: a worker its claims, each with its token, until it settles them; a
Pump the entries it read, until its pass is over. A crash takes the actor, and its memory with it.

    who NUMBER does          what it is doing
    who NUMBER state         `crashed`; nothing otherwise
    who NUMBER holds ID TOKEN    a claim: empty, or `lapsed` when another may have the job by now
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.errors import ScriptArity, ScriptMissing, Stopped
from emqkit.scripts import CallView, ScriptSet
from emqkit.trace import CallRecord, Step, Trace
from emqkit.viz.stage import Fact
from emqkit.wire import ErrorReply
from emqkit.words.text import plain

__all__ = ["Cast"]

_ORDER = ("producer", "worker", "Pump", "reaper", "reader", "")
_SETTLING = ("complete", "retry", "native_complete", "native_fail")
_WORK = ("claim", "complete", "retry", "extend_lock", "extend_locks")
_READS = ("children_values", "dependencies", "ignored_failures", "state", "depths", "paused")


@dataclass
class _Actor:
    name: str
    kind: str
    claims: dict[tuple[str, str], str] = field(default_factory=dict)  # (id, token) → queue
    read: int = 0
    delivered: int = 0
    trimmed: int = 0
    crashed: bool = False
    doing: str = "idle"


class Cast:
    """The actors of a trace, in a fixed order, followed step by step.

    Args:
        trace: whose.

    Attributes:
        actors: their names.
        of: by step, which actor it is; None for what nobody does, such as a lease that lapses.
    """

    def __init__(self, trace: Trace) -> None:
        self._scripts: ScriptSet = trace.scripts
        self._trace = trace
        found: dict[str, _Actor] = {}
        runs: dict[int, str] = {}
        names: list[str | None] = []
        pumps: list[str] = []
        for step in trace.steps:
            name, kind = runs.get(step.run, ""), ""
            if not name or step.mark:
                name, kind = _who(step)
            if step.mark and kind == "Pump" and name not in found and pumps:
                name = pumps[-1]  # `the Pump` of a mark is the one that was at work
            if not name:
                names.append(None)
                continue
            if not step.mark:
                runs[step.run] = name
            found.setdefault(name, _Actor(name, kind))
            if kind == "Pump":
                pumps.append(name)
            names.append(name)
        ordered = sorted(found.values(), key=lambda one: _ORDER.index(one.kind))
        self.actors = tuple(one.name for one in ordered)
        self._actors = ordered
        self.of = tuple(None if name is None else self.actors.index(name) for name in names)
        self._last = {step.run: number for number, step in enumerate(trace.steps)}
        self._totals: dict[int, int] = {}
        for step in trace.steps:
            self._totals[step.run] = max(self._totals.get(step.run, 0), step.number)

    def start(self) -> dict[Fact, str]:
        """What there is to say of each before anything happens."""
        return self._facts({})

    def follow(self, number: int, calls: int | None, facts: Mapping[Fact, str]) -> dict[Fact, str]:
        """What there is to say of each actor after a step, or after the nth call of it.

        Args:
            number: which step, counted from 0.
            calls: after how many of its calls; None after the whole of it.
            facts: the stage, where the jobs are.
        """
        which = self.of[number]
        step = self._trace.steps[number]
        for one in self._actors:
            if one.doing != "idle" and not one.crashed:
                one.doing = "idle"
        if which is None:
            return self._facts(facts)
        actor = self._actors[which]
        if step.fault == "crash" or (step.mark and " crashes " in step.mark):
            actor.crashed, actor.doing = True, "crashed: what it held is gone"
            return self._facts(facts)
        if actor.crashed:
            actor.crashed = False
            actor.claims.clear()
            actor.read = actor.delivered = actor.trimmed = 0
        if step.number == 1 and (calls == 1 or self._at_once(step)):
            actor.read = actor.delivered = actor.trimmed = 0
        records = step.calls if calls is None else step.calls[calls - 1 : calls]
        if calls is not None or self._at_once(step):
            for record in records:
                self._hear(actor, record)
        total = self._totals[step.run]
        operation = plain(step.operation.rpartition(" · ")[2]) or "an operation"
        trip = f", round trip {step.number} of {total}" if total > 1 else ""
        actor.doing = f"{operation}{trip}"
        over = self._last[step.run] == number and (calls is None or calls == len(step.flush.calls))
        if over and isinstance(self._trace.error, Stopped) and number == len(self._trace.steps) - 1:
            actor.crashed, actor.doing = True, "crashed: what it held is gone"
        facts_now = self._facts(facts)
        if over and not actor.crashed:
            actor.read = actor.delivered = actor.trimmed = 0
        return facts_now

    @staticmethod
    def _at_once(step: Step) -> bool:
        """Is the step told as one, and not call by call?"""
        return len(step.flush.calls) == 1 or step.flush.atomic

    def _hear(self, actor: _Actor, record: CallRecord) -> None:
        call, reply = record.call, record.reply
        if call.kind == "script" and (view := self._view(record)) is not None:
            if call.verb == "claim" and isinstance(reply, tuple) and len(reply) >= 3 and isinstance(reply[0], bytes):
                at = keys.parse(call.keys[0])
                token = plain(reply[2]) if isinstance(reply[2], bytes) else str(reply[2])
                actor.claims[to_text(reply[0]), token] = at.queue if at is not None else ""
            elif call.verb in _SETTLING:
                id, settled = view.args.get("id"), view.args.get("token")
                if id is not None and settled is not None:
                    actor.claims.pop((to_text(id), plain(settled)), None)
            elif call.verb in ("flow_deliver", "flow_fail_deliver") and not isinstance(reply, ErrorReply):
                actor.delivered += 1
        elif call.verb == "LRANGE" and actor.kind == "Pump" and isinstance(reply, tuple):
            actor.read = len(reply)
        elif call.verb == "LTRIM" and actor.kind == "Pump":
            actor.trimmed += sum(change.after is None for change in record.diff)

    def _view(self, record: CallRecord) -> CallView | None:
        try:
            return (record.scripts or self._scripts).view(record.call)
        except (ScriptMissing, ScriptArity):
            return None

    def _facts(self, facts: Mapping[Fact, str]) -> dict[Fact, str]:
        told: dict[Fact, str] = {}
        for number, one in enumerate(self._actors):
            said = one.doing
            if one.read or one.delivered or one.trimmed:
                said = f"{one.read} read, {one.delivered} delivered, {one.trimmed} trimmed"
            told["who", str(number), "does"] = said
            if one.crashed:
                told["who", str(number), "state"] = "crashed"
            for (id, token), queue in one.claims.items():
                note = facts.get(("set", queue, "active", id))
                told["who", str(number), "holds", id, token] = "" if note == f"token {token}" else "lapsed"
        return told


def _who(step: Step) -> tuple[str, str]:
    """Who makes a step, and of what kind; nobody for a lapse."""
    actor, dot, operation = step.operation.rpartition(" · ")
    if dot:  # a history names its actors
        kind = next((kind for kind in _ORDER[1:3] if actor.lower().startswith(kind.lower())), "producer")
        return plain(actor), kind
    if step.mark:
        return ("the Pump", "Pump") if "pump" in step.operation.lower() else ("", "")
    noun, _, verb = operation.partition(".")
    verb = verb.partition(",")[0]
    at = next((at for record in step.calls for key in record.call.keys if (at := keys.parse(key)) is not None), None)
    at = at or next((at for call in step.flush.calls for key in call.keys if (at := keys.parse(key)) is not None), None)
    where = f" of {plain(at.queue)}" if at is not None else ""
    if noun == "pump" or "pump" in noun:
        return f"Pump{where}", "Pump"
    if verb in ("reap", "promote"):
        return f"reaper{where}", "reaper"
    if verb in _READS:
        return "reader", "reader"
    if noun == "native" or verb in _WORK:
        return f"worker{where}", "worker"
    return "producer", "producer"
