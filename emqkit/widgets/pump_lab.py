"""The Pump's crashes: crash it in any gap of its pass, as often as you like, and watch what counts (Flows dive 03).

lab = PumpCrashLab()
lab.gaps                  # where it can be crashed now
lab.crash(3)              # after three calls
lab.finish()              # let a pass run to its end
lab.trim_first()          # from now on the mistaken order: trim, then deliver
"""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from emqkit.arguments import to_bytes
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Jobs
from emqkit.keyspace import Keyspace
from emqkit.outbox import Completion
from emqkit.pump import Pump
from emqkit.servers import Server
from emqkit.trace import Trace
from emqkit.widgets.lab import Crashes, GapPicker, ServedLab, Table, many, private
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
        children: how many signals wait, 1 to 8.

    Raises:
        BadArgument: `children` is out of range.
    """

    def __init__(self, server: Server | None = None, *, children: int = 2) -> None:
        from emqkit.sim.worlds.mistakes import HostileHabits  # the explorer comes with it: not before a lab is made

        self._habits = HostileHabits
        if isinstance(children, bool) or not isinstance(children, int) or not 1 <= children <= 8:
            raise BadArgument("children", children, "is not a number of signals from 1 to 8")
        self._children = children
        self.order = widgets.Dropdown(options=[PROPER, MISTAKEN], description="The Pump's order")
        self._picker = GapPicker()
        self.gap = self._picker.widget
        crash = self.button("Crash the Pump there", self.crash)
        crash.add_class("emqkit-first")
        finish = self.button("Let a pass finish", self.finish)
        again = self.button("Back to the start", self.start_over)
        rows = [self.row(self.gap, crash), self.row(finish, again, self.order)]
        super().__init__("The Pump's crashes", private(server), rows)
        self.start_over()
        self.order.observe(self._reordered, names="value")

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def start_over(self) -> Sentence:
        """Everything as in the beginning: the children done, their signals in the outbox, nothing delivered."""
        self._rewind()
        flows, jobs = Flows(self.server), Jobs(self.server)
        flow = Flow("ship order 7", [Child(f"pick item {n}", QUEUE) for n in range(1, self._children + 1)])
        self._added = flows.add(PARENTS, flow)
        while claim := jobs.claim(QUEUE):
            jobs.complete(QUEUE, claim, result=f"{claim.payload}: done")
        payloads = [to_bytes(child.payload) for child in flow.children]
        self._new_tape(zip(self._added.child_ids, payloads, strict=True))
        self.crashes = 0
        self._delivered = dict.fromkeys(self._added.child_ids, 0)
        self._counted = dict.fromkeys(self._added.child_ids, 0)
        self._look()
        many_signals = many(self._children, "signal waits", "signals wait")
        return self._show(f"{many_signals} in the outbox of {QUEUE}; nothing is delivered yet. {self._parent()}")

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
            return self._habits(self.server).trim_first.program(QUEUE)
        return Pump(self.server, QUEUE).sweep.program()

    def _reordered(self, _: object) -> None:
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
        signals = Keyspace.of(self.tape.now)[QUEUE].signals
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
