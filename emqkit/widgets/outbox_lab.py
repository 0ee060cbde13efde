"""Outbox and policy under your hands: where each child runs, what its death means, and who tells the parent (dive 03).

lab = OutboxLab()
lab.set_child(2, queue="orders", on_failure="ignore")     # the flow lands anew
lab.complete(1)
lab.die(2)
lab.sweep()
lab.crash(3)                                             # the Pump, after three calls of its pass
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

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
PLACES = (("orders, same queue", PARENTS), ("stock, other queue", ELSEWHERE))
POLICIES = (("fails its parent", "fail"), ("is ignored", "ignore"))
START = (("check address", PARENTS, "fail"), ("take from shelf", ELSEWHERE, "fail"), ("gift-wrap", ELSEWHERE, "ignore"))


class OutboxLab(ServedLab):
    """A parent in `orders` and three children, each with the parent or in `stock`, each with its policy.

    A child that is done or dies on its parent's own queue tells it at once; in another queue it leaves a signal in that
    queue's outbox, which is shown here field by field until the Pump of `stock` has delivered and trimmed it.

    Args:
        server: beside which server, and with whose scripts; where `EMQKIT_SERVER` says, if left out.
    """

    def __init__(self, server: Server | None = None) -> None:
        self._children: list[Child] = [Child(name, queue, _policy(policy)) for name, queue, policy in START]
        self._places = [
            self._choice(PLACES, child.queue, f"{n}: {child.payload!s} runs in") for n, child in self._all()
        ]
        self._policies = [self._choice(POLICIES, child.on_failure, "its death") for _, child in self._all()]
        rows = [self._child_row(number) for number, _ in self._all()]
        self._picker = GapPicker()
        self.gap = self._picker.widget
        sweep = self.button("Let the Pump sweep once", self.sweep)
        sweep.add_class("emqkit-first")
        crash = self.button("Crash the Pump there", self.crash)
        start = self.button("Back to the start", self.start_over)
        super().__init__(
            "Outbox and policy", private(server), [*rows, self.row(sweep, start), self.row(self.gap, crash)]
        )
        self.start_over()

    def _all(self) -> list[tuple[int, Child]]:
        return list(enumerate(self._children, start=1))

    @staticmethod
    def _choice(options: Sequence[tuple[str, str]], value: str | None, description: str) -> Any:
        return widgets.Dropdown(options=options, value=value, description=description)

    def _child_row(self, number: int) -> Any:
        place, policy = self._places[number - 1], self._policies[number - 1]

        def landed_anew(_: object) -> None:
            self.set_child(number, queue=place.value, on_failure=policy.value)

        def complete() -> None:
            self.complete(number)

        def die() -> None:
            self.die(number)

        place.observe(landed_anew, names="value")
        policy.observe(landed_anew, names="value")
        buttons = self.button(f"Complete child {number}", complete), self.button(f"Let child {number} die", die)
        row = self.row(place, policy, *buttons)
        row.add_class("emqkit-lab-child")
        return row

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def start_over(self) -> Sentence:
        """The flow just landed: every child claimable, none settled."""
        self._rewind()
        self._added = Flows(self.server).add(PARENTS, Flow("ship order 7", self._children))
        self._claims: dict[str, Claim] = {}
        self._settled: set[int] = set()
        self._new_tape()
        where = "; ".join(
            f"{child.payload!s} in {child.queue}, whose death {_words(POLICIES, child.on_failure)}"
            for _, child in self._all()
        )
        self._look()
        return self._show(f"The flow has landed: {where}. {self._stands()}")

    def set_child(self, number: int, *, queue: str | None = None, on_failure: OnFailure | None = None) -> Sentence:
        """Choose where a child runs and what its death means; the flow lands anew.

        Args:
            number: which child, from 1.
            queue: `orders` or `stock`; as it was, if left out.
            on_failure: `fail` or `ignore`; as it was, if left out.

        Raises:
            BadArgument: there is no such child, place or policy.
        """
        at = self._place(number)
        old = self._children[at]
        queue = old.queue if queue is None else queue
        if queue not in (PARENTS, ELSEWHERE):
            raise BadArgument("queue", queue, f"is neither {PARENTS} nor {ELSEWHERE}")
        new = replace(old, queue=queue, on_failure=old.on_failure if on_failure is None else on_failure)
        if new == old:
            return self.sentence
        self._children[at] = new
        self._places[at].value, self._policies[at].value = new.queue, new.on_failure  # told again, they find it done
        return self.start_over()

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
        """Let the Pump of `stock` make one pass."""
        waiting = len(self._signals())
        piece = self.tape.run(Pump(self.server, ELSEWHERE).sweep.program())
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
        self.tape.run(Pump(self.server, ELSEWHERE).sweep.program(), stop_after=calls)
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
        before, after = (Keyspace.of(one)[PARENTS].parents.get(parent) for one in (piece.initial, piece.final))
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
        program = Pump(self.server, ELSEWHERE).sweep.program()
        self._picker.renew(Crashes.of(program, self.tape))

    # --- what it shows ----------------------------------------------------------------------------------------------

    def _signals(self) -> Sequence[Completion | Failure | Poison]:
        return Keyspace.of(self.tape.now)[ELSEWHERE].signals

    def _stands(self) -> str:
        parents = Keyspace.of(self.tape.now)[PARENTS]
        state = parents.state(self._added.parent_id) or "gone"
        held = f"held and waits for {parents.counter(self._added.parent_id)}"
        left = len(self._signals())
        waits = "the outbox is empty" if not left else f"the outbox holds {many(left, 'signal')}"
        return f"The parent is {({'awaiting_children': held, 'pending': 'released'}).get(state, state)}; {waits}."

    def tables(self) -> tuple[Table, ...]:
        """The outbox of `stock`, field by field."""
        names = self.tape.names
        rows = tuple(_fields(number, one, names) for number, one in enumerate(self._signals(), start=1))
        heads = ("no.", "kind", "parent queue", "parent", "child", "policy", "result or error")
        return (Table(f"The outbox of {ELSEWHERE}, oldest first", heads, rows, empty="Empty."),)


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
