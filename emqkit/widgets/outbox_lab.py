"""Outbox and policy under your hands: where each child runs, what its death means, and who tells the parent (dive 03).

lab = OutboxLab()
lab.set_child(2, queue="orders", on_failure="ignore")     # the flow lands anew
lab.set_flow(parent="ship order 8", other="warehouse")    # so it does with other names
lab.complete(1)
lab.die(2)
lab.sweep()
lab.crash(3)                                             # the Pump, after three calls of its pass
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow, Flows, OnFailure
from emqkit.jobs import Claim, Jobs
from emqkit.keyspace import Keyspace
from emqkit.outbox import Completion, Failure, Poison
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.trace import Trace
from emqkit.widgets.lab import Crashes, GapPicker, ServedLab, Table, many, private
from emqkit.widgets.player import Sentence
from emqkit.words.names import Names
from emqkit.words.text import elided, plain

__all__ = ["OutboxLab"]

PARENTS, ELSEWHERE = "orders", "stock"
POLICIES = (("fails its parent", "fail"), ("is ignored", "ignore"))
START = (("check address", PARENTS, "fail"), ("take from shelf", ELSEWHERE, "fail"), ("gift-wrap", ELSEWHERE, "ignore"))


class OutboxLab(ServedLab):
    """A parent and three children, each in the parent's queue or in another one, each with its policy.

    A child that is done or dies on its parent's own queue tells it at once; in another queue it leaves a signal in that
    queue's outbox, which is shown here field by field until that queue's Pump has delivered and trimmed it. In the
    beginning the two queues are `orders` and `stock`.

    Args:
        server: beside which server, and with whose scripts; where `EMQKIT_SERVER` says, if left out.
    """

    def __init__(self, server: Server | None = None) -> None:
        self.queue, self.other, self._parent = PARENTS, ELSEWHERE, "ship order 7"
        self._children: list[Child] = [Child(name, queue, _policy(policy)) for name, queue, policy in START]
        fields = (
            self.field("Parent", lambda: self.set_flow(parent=self._names[0].value)),
            self.field("Its queue", lambda: self.set_flow(queue=self._names[1].value), width="11em"),
            self.field("Other queue", lambda: self.set_flow(other=self._names[2].value), width="12em"),
        )
        self._names = fields
        start = self.button("Back to the start", self.start_over)
        self._payloads, self._places, self._policies = [], [], []  # type: list[Any], list[Any], list[Any]
        rows = [self._child_row(number) for number, _ in self._all()]
        self._picker = GapPicker()
        self.gap = self._picker.widget
        sweep = self.button("Let the Pump sweep once", self.sweep)
        sweep.add_class("emqkit-first")
        crash = self.button("Crash the Pump there", self.crash)
        ends = [self.row(*fields, start), *rows, self.row(sweep, self.gap, crash)]
        super().__init__("Outbox and policy", private(server), ends)
        self.start_over()

    def _all(self) -> list[tuple[int, Child]]:
        return list(enumerate(self._children, start=1))

    def _child_row(self, number: int) -> Any:
        child = self._children[number - 1]

        def renamed() -> None:
            self.set_child(number, payload=payload.value)

        def moved() -> None:
            self.set_child(number, queue=place.value)

        def judged() -> None:
            self.set_child(number, on_failure=policy.value)

        payload = self.field(f"Child {number}", renamed, width="17em")
        place = self.dropdown("runs in", self._queues(), child.queue, moved)
        policy = self.dropdown("its death", POLICIES, child.on_failure, judged)
        for kept, control in ((self._payloads, payload), (self._places, place), (self._policies, policy)):
            kept.append(control)
        complete = self.button(f"Complete child {number}", lambda: self.complete(number))
        die = self.button(f"Let child {number} die", lambda: self.die(number))
        return self.row(payload, place, policy, complete, die)

    def _queues(self) -> tuple[str, str]:
        return (self.queue, self.other)

    def _fill(self) -> None:
        """Put what there is into the fields and dropdowns."""
        with self._quietly():
            for field, value in zip(self._names, (self._parent, self.queue, self.other), strict=True):
                field.value = value
            for number, child in self._all():
                self._payloads[number - 1].value = plain(child.payload)
                self._policies[number - 1].value = child.on_failure
                place = self._places[number - 1]
                if place.options != self._queues():
                    place.options = self._queues()
                place.value = child.queue

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def start_over(self) -> Sentence:
        """The flow just landed: every child claimable, none settled."""
        self._fill()
        self._rewind()
        self._added = Flows(self.server).add(self.queue, Flow(self._parent, self._children))
        self._claims: dict[str, Claim] = {}
        self._settled: set[int] = set()
        self._new_tape()
        where = "; ".join(
            f"{child.payload!s} in {child.queue}, whose death {_words(POLICIES, child.on_failure)}"
            for _, child in self._all()
        )
        self._look()
        return self._show(f"The flow has landed: {where}. {self._stands()}")

    def set_flow(self, *, parent: str | None = None, queue: str | None = None, other: str | None = None) -> Sentence:
        """Choose what the parent is called and the two queues; the flow lands anew.

        Args:
            parent: its payload; as it was, if left out.
            queue: where it waits; as it was, if left out.
            other: the other queue, where a child can run; as it was, if left out.

        Raises:
            BadArgument, IllFormedQueue: a name cannot be a queue's, or both queues have one name.
        """
        old = self._parent, self.queue, self.other, list(self._children)

        def change() -> None:
            places = {self.queue: queue or self.queue, self.other: other or self.other}
            for name in (queue, other):
                if name is not None:
                    keys.check_queue(name)
            here, there = places[self.queue], places[self.other]
            if here == there:
                raise BadArgument("queue", here, "is the other queue's name too")
            self._children = [replace(child, queue=places[str(child.queue)]) for child in self._children]
            self.queue, self.other = here, there
            self._parent = self._parent if parent is None else parent

        def undo() -> None:
            self._parent, self.queue, self.other, self._children = old

        return self._landed_anew(change, undo)

    def set_child(
        self,
        number: int,
        *,
        payload: str | None = None,
        queue: str | None = None,
        on_failure: OnFailure | None = None,
    ) -> Sentence:
        """Choose what a child is called, where it runs and what its death means; the flow lands anew.

        Args:
            number: which child, from 1.
            payload: what it is called; as it was, if left out.
            queue: one of the two queues; as it was, if left out.
            on_failure: `fail` or `ignore`; as it was, if left out.

        Raises:
            BadArgument: there is no such child, place or policy.
        """
        at = self._place(number)
        old = self._children[at]
        if queue is not None and queue not in self._queues():
            raise BadArgument("queue", queue, f"is neither {self.queue} nor {self.other}")
        new = replace(
            old,
            payload=old.payload if payload is None else payload,
            queue=old.queue if queue is None else queue,
            on_failure=old.on_failure if on_failure is None else on_failure,
        )
        if new == old:
            return self.sentence

        def put(child: Child) -> Callable[[], None]:
            return lambda: self._children.__setitem__(at, child)

        return self._landed_anew(put(new), put(old))

    def complete(self, number: int) -> Sentence:
        """Claim a child and complete it.

        Raises:
            BadArgument: there is no such child.
        """
        claim = self._claim(number)
        if claim is None:
            return self._say(f"Child {number} is settled already. {self._stands()}")
        program = Jobs(self.server).complete.program(claim.queue, claim, result=f"{claim.payload}: done")
        return self._told(number, claim, self.tape.run(program), "is completed", "complete")

    def die(self, number: int) -> Sentence:
        """Claim a child and let it fail with no attempt left.

        Raises:
            BadArgument: there is no such child.
        """
        claim = self._claim(number)
        if claim is None:
            return self._say(f"Child {number} is settled already. {self._stands()}")
        dying = Jobs(self.server).retry.program(claim.queue, claim, error=f"{claim.payload}: failed", max_attempts=1)
        return self._told(number, claim, self.tape.run(dying), "dies", "retry")

    def sweep(self) -> Sentence:
        """Let the Pump of the other queue make one pass."""
        waiting = len(self._signals())
        piece = self.tape.run(Pump(self.server, self.other).sweep.program())
        self._look()
        done = 0 if piece.result is None else piece.result.delivered
        did = "delivers nothing" if waiting else "finds nothing to deliver"
        if done:
            trimmed = waiting - len(self._signals())
            did = f"delivers {many(done, 'signal')} and trims{'' if trimmed == done else f' {trimmed}'}"
        if piece.error is not None:
            did = f"ends with {type(piece.error).__name__}"
        return self._show(f"The Pump {did}. {self._stands()}")

    def crash(self, gap: int | str | None = None) -> Sentence:
        """Start a pass of the Pump and crash it in a gap.

        Args:
            gap: after how many calls, or the gap's words as in `gaps`; the one that is chosen, if left out.

        Raises:
            BadArgument: there is no such gap now.
        """
        calls, where = self._picker.pick(gap)
        self.tape.run(Pump(self.server, self.other).sweep.program(), stop_after=calls)
        self.tape.mark("the Pump", f"The Pump crashes {where}: what it had read is gone.")
        self._look()
        return self._show(f"The Pump crashes {where}. {self._stands()}")

    @property
    def gaps(self) -> tuple[str, ...]:
        """The places where the Pump can be crashed now, in words; the number of a gap is the calls made before it."""
        return self._picker.crashes.gaps

    # --- behind them ------------------------------------------------------------------------------------------------

    def _place(self, number: int) -> int:
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= len(self._children):
            return number - 1
        raise BadArgument("number", number, f"is none of the children 1 to {len(self._children)}")

    def _claim(self, number: int) -> Claim | None:
        """A child's claim. A queue hands out the smallest id first, so those before it are claimed and kept as well."""
        at = self._place(number)
        if number in self._settled:
            return None
        child = self._added.children[at]
        while child.id not in self._claims:
            claim = self.tape.run(Jobs(self.server).claim.program(child.queue)).result
            if claim is None:
                return None
            self._claims[claim.id] = claim
        self._settled.add(number)
        return self._claims[child.id]

    def _told(self, number: int, claim: Claim, piece: Trace, what: str, verb: str) -> Sentence:
        """What a settlement did, read from the keyspace it left."""
        heard = "its parent hears nothing"
        parent = self._added.parent_id
        before, after = (Keyspace.of(one)[self.queue].parents.get(parent) for one in (piece.initial, piece.final))
        if before != after:
            heard = "its parent is told at once"
        elif any(isinstance(one, Completion | Failure) and one.child_id == claim.id for one in self._signals()):
            heard = f"a signal waits in the outbox of {claim.queue}"
        if piece.error is not None:
            what = f"is refused ({type(piece.error).__name__})"
        self._look()
        head = f"Child {number}, {claim.payload}, {what} in {claim.queue}: {heard}."
        return self._show(f"{head} {self._stands()}", verb)

    def _look(self) -> None:
        program = Pump(self.server, self.other).sweep.program()
        self._picker.renew(Crashes.of(program, self.tape))

    # --- what it shows ----------------------------------------------------------------------------------------------

    def _signals(self) -> Sequence[Completion | Failure | Poison]:
        return Keyspace.of(self.tape.now)[self.other].signals

    def _stands(self) -> str:
        parents = Keyspace.of(self.tape.now)[self.queue]
        state = parents.state(self._added.parent_id) or "gone"
        held = f"held and waits for {parents.counter(self._added.parent_id)}"
        left = len(self._signals())
        waits = "the outbox is empty" if not left else f"the outbox holds {many(left, 'signal')}"
        return f"The parent is {({'awaiting_children': held, 'pending': 'released'}).get(state, state)}; {waits}."

    def tables(self) -> tuple[Table, ...]:
        """The outbox of the other queue, field by field."""
        names = self.tape.names
        rows = tuple(_fields(number, one, names) for number, one in enumerate(self._signals(), start=1))
        heads = ("no.", "kind", "parent queue", "parent", "child", "policy", "result or error")
        return (Table(f"The outbox of {self.other}, oldest first", heads, rows, empty="Empty."),)


def _fields(number: int, signal: Completion | Failure | Poison, names: Names) -> tuple[str, ...]:
    if isinstance(signal, Poison):
        return (str(number), "cannot be read", "", "", "", "", elided(plain(signal.entry), 40))
    whose = (plain(signal.parent_queue), names(signal.parent_id), names(signal.child_id))
    if isinstance(signal, Completion):
        return (str(number), "completion", *whose, "–", elided(plain(signal.result), 40))
    return (str(number), "failure", *whose, plain(signal.policy), elided(plain(signal.error), 40))


def _policy(text: str) -> OnFailure:
    return "ignore" if text == "ignore" else "fail"


def _words(options: Sequence[tuple[str, str]], value: str) -> str:
    return next(words for words, one in options if one == value)
