"""The Pump's crashes: crash it in any gap of its pass, as often as you like, and watch what counts (Flows dive 03).

lab = PumpCrashLab()
lab.gaps                  # where it can be crashed now
lab.crash(3)              # after three calls
lab.finish()              # let a pass run to its end
lab.trim_first()          # from now on the mistaken order: trim, then deliver
lab.set_flow(children="pick, label", queue="warehouse")    # other signals wait
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emqkit import keys
from emqkit.arguments import to_bytes
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.keyspace import Keyspace
from emqkit.outbox import Completion
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.trace import Trace
from emqkit.widgets.lab import Crashes, GapPicker, ServedLab, Table, many, payloads_of, private
from emqkit.widgets.player import Sentence
from emqkit.wire import Program
from emqkit.words.text import listed

__all__ = ["PumpCrashLab"]

QUEUE, PARENTS = "stock", "orders"
PROPER, MISTAKEN = "deliver, then trim", "trim, then deliver (a mistake)"


class PumpCrashLab(ServedLab):
    """A Pump with signals to deliver, and a finger on its off switch.

    The flow's children, in the queue `stock`, are done already; their signals wait in its outbox, and the parent waits
    in `orders`. Every pass of the Pump is real, on a private server.

    Args:
        server: beside which server, and with whose scripts; where `EMQKIT_SERVER` says, if left out.
        children: how many signals wait, 1 to 8, or the payloads of the children they are of.

    Raises:
        BadArgument: `children` is out of range.
    """

    def __init__(self, server: Server | None = None, *, children: int | str | Sequence[str] = 2) -> None:
        from emqkit.sim.worlds.mistakes import HostileHabits  # the explorer comes with it: not before a lab is made

        self._habits = HostileHabits
        self._children, self.queue = _payloads(children), QUEUE
        self._signals = self.field("Signals of", lambda: self.set_flow(children=self._signals.value), width="26em")
        self._queue = self.field("in the outbox of", lambda: self.set_flow(queue=self._queue.value), width="14em")
        self.order = self.dropdown("The Pump's order", [PROPER, MISTAKEN], PROPER, self._reordered)
        self._picker = GapPicker()
        self.gap = self._picker.widget
        crash = self.button("Crash the Pump there", self.crash)
        crash.add_class("emqkit-first")
        finish = self.button("Let a pass finish", self.finish)
        again = self.button("Back to the start", self.start_over)
        rows = [self.row(self._signals, self._queue), self.row(finish, again, self.order), self.row(self.gap, crash)]
        super().__init__("The Pump's crashes", private(server), rows)
        self.start_over()

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def start_over(self) -> Sentence:
        """Everything as in the beginning: the children done, their signals in the outbox, nothing delivered."""
        with self._quietly():
            self._signals.value, self._queue.value = ", ".join(self._children), self.queue
        self._rewind()
        flows, jobs = Flows(self.server), Jobs(self.server)
        flow = Flow("ship order 7", [Child(name, self.queue) for name in self._children])
        self._added = flows.add(PARENTS, flow)
        while claim := jobs.claim(self.queue):
            jobs.complete(self.queue, claim, result=f"{claim.payload}: done")
        payloads = [to_bytes(child.payload) for child in flow.children]
        self._new_tape(zip(self._added.child_ids, payloads, strict=True))
        self.crashes = 0
        self._delivered = dict.fromkeys(self._added.child_ids, 0)
        self._counted = dict.fromkeys(self._added.child_ids, 0)
        self._look()
        many_signals = many(len(self._children), "signal waits", "signals wait")
        return self._show(f"{many_signals} in the outbox of {self.queue}; nothing is delivered yet. {self._parent()}")

    def set_flow(self, *, children: str | Sequence[str] | None = None, queue: str | None = None) -> Sentence:
        """Choose whose signals wait, and in which queue's outbox; everything starts over.

        Args:
            children: 1 to 8 payloads, in one text with a comma between two or as a sequence; as they were, if left out.
            queue: where they ran; as it was, if left out.

        Raises:
            BadArgument, IllFormedQueue: there are none or too many of them, or they cannot run there.
        """
        old = self._children, self.queue

        def change() -> None:
            if queue == PARENTS:
                raise BadArgument("queue", queue, "is the parent's: its children would tell it without a signal")
            self.queue = self.queue if queue is None else keys.check_queue(queue)
            self._children = self._children if children is None else _payloads(children)

        def undo() -> None:
            self._children, self.queue = old

        return self._landed_anew(change, undo)

    def crash(self, gap: int | str | None = None) -> Sentence:
        """Start a pass and crash the Pump in a gap.

        Args:
            gap: after how many calls, or the gap's words as in `gaps`; the one that is chosen, if left out.

        Raises:
            BadArgument: there is no such gap now.
        """
        calls, where = self._picker.pick(gap)
        self._count(self.tape.run(self._pass(), stop_after=calls, name=self._name))
        self.tape.mark("the Pump", f"The Pump crashes {where}: what it had read is gone.")
        self.crashes += 1
        self._look()
        return self._show(f"The Pump crashes {where}. {self._tally()} {self._parent()}")

    def finish(self) -> Sentence:
        """Let the Pump make a whole pass."""
        piece = self.tape.run(self._pass(), name=self._name)
        self._count(piece)
        self._look()
        ends = "runs to its end" if piece.error is None else f"ends with {type(piece.error).__name__}"
        return self._show(f"A pass {ends}. {self._tally()} {self._parent()}")

    def trim_first(self, mistaken: bool = True) -> Sentence:
        """From now on let the Pump trim before it delivers, which is a mistake; or, with False, properly after."""
        self.order.value = MISTAKEN if mistaken else PROPER
        return self.sentence

    @property
    def gaps(self) -> tuple[str, ...]:
        """The places where the Pump can be crashed now, in words; the number of a gap is the calls made before it."""
        return self._picker.crashes.gaps

    # --- behind them ------------------------------------------------------------------------------------------------

    @property
    def _mistaken(self) -> bool:
        return bool(self.order.value == MISTAKEN)

    @property
    def _name(self) -> str:
        return "pump.sweep, trimming first" if self._mistaken else "pump.sweep"

    def _pass(self) -> Program[Any]:
        if self._mistaken:
            return self._habits(self.server).trim_first.program(self.queue)
        return Pump(self.server, self.queue).sweep.program()

    def _reordered(self) -> None:
        self._look()
        does = "trims before it delivers, a mistake made on purpose" if self._mistaken else "delivers before it trims"
        self._say(f"From now on the Pump {does}. {self._tally()} {self._parent()}")

    def _look(self) -> None:
        """Find out what the next pass would do, and so where it can be crashed."""
        self._picker.renew(Crashes.of(self._pass(), self.tape))

    def _count(self, piece: Trace) -> None:
        for record in piece.calls:
            if record.call.verb == "flow_deliver":
                child = piece.scripts.view(record.call).args.text("child_id")
                self._delivered[child] += 1
                self._counted[child] += 1 if record.diff else 0

    # --- what it shows ----------------------------------------------------------------------------------------------

    def _lost(self) -> tuple[str, ...]:
        """The children whose parent will never hear of them: neither counted nor in the outbox."""
        return tuple(id for id in self._added.child_ids if not self._counted[id] and id not in self._waiting())

    def _waiting(self) -> tuple[str, ...]:
        signals = Keyspace.of(self.tape.now)[self.queue].signals
        return tuple(one.child_id for one in signals if isinstance(one, Completion))

    def _left(self) -> str:
        left = len(self._waiting())
        return f"{many(left, 'signal')} still in the outbox" if left else "the outbox is empty"

    def _tally(self) -> str:
        delivered, counted = sum(self._delivered.values()), sum(self._counted.values())
        lost = self._lost()
        gone = f" LOST: {listed([self.tape.names(id) for id in lost])}, in no outbox and not counted." if lost else ""
        return f"{many(delivered, 'delivery', 'deliveries')} so far, {counted} counted; {self._left()}.{gone}"

    def _parent(self) -> str:
        parents = Keyspace.of(self.tape.now)[PARENTS]
        counter = parents.counter(self._added.parent_id)
        state = parents.state(self._added.parent_id) or "gone"
        if state != "awaiting_children":
            return f"The parent is {'released' if state == 'pending' else state}: its counter is at {counter}."
        ever = ", for ever" if self._lost() and not self._waiting() else ""
        return f"The parent waits for {counter}{ever}."

    def tables(self) -> tuple[Table, ...]:
        """Delivered and counted, child by child."""
        waiting, lost = self._waiting(), self._lost()
        rows = tuple(
            (
                self.tape.names(id),
                "lost" if id in lost else "yes" if id in waiting else "trimmed",
                many(self._delivered[id], "time"),
                many(self._counted[id], "time"),
            )
            for id in self._added.child_ids
        )
        caption = f"After {many(self.crashes, 'crash', 'crashes')}: delivered at least once, counted once?"
        return (Table(caption, ("signal of", "in the outbox", "delivered", "counted"), rows),)


def _payloads(children: object) -> tuple[str, ...]:
    if isinstance(children, int) and not isinstance(children, bool) and 1 <= children <= 8:
        return tuple(f"pick item {number}" for number in range(1, children + 1))
    if isinstance(children, str | Sequence) and all(isinstance(one, str) for one in children):
        names = payloads_of(children)
        if 1 <= len(names) <= 8 and not (isinstance(children, str) and children.isdecimal()):
            return names
    raise BadArgument("children", children, "is neither 1 to 8 payloads nor a number of signals from 1 to 8")
