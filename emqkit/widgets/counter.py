"""The fan-in counter under your hands: complete children, complete again, complete too late (Flows dive 01).

lab = CounterLab(3)
lab.complete()            # the next child
lab.again()               # the same completion once more
lab.stale()               # a completion under a token that is not valid any more
lab.set_flow(children="pick, label, invoice, courier")    # the flow lands anew
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

from emqkit import keys
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow, Flows
from emqkit.jobs import Claim, Jobs
from emqkit.keyspace import Keyspace, Part
from emqkit.servers import Server
from emqkit.trace import Trace
from emqkit.widgets.lab import ServedLab, Table, many, payloads_of, private
from emqkit.widgets.player import Sentence
from emqkit.words.text import elided, listed, plain

__all__ = ["CounterLab"]


@dataclass(frozen=True)
class _Try:
    """One completion: what it was, of which child, by its name, and where the counter stood before and after."""

    what: str
    child: str
    before: int
    after: int
    answer: str


class CounterLab(ServedLab):
    """A flow on one queue and the counter beside its parent: three buttons that complete, two of which must not count.

    Every completion is real, on a private server.

    Args:
        flow: how many children, 1 to 8; or a flow of your own, whose children share its queue and have no children.
        queue: where it runs.
        server: beside which server, and with whose scripts; where `EMQKIT_SERVER` says, if left out.

    Raises:
        BadArgument: the flow is not of this kind.
        EmqError: it cannot be added.
    """

    def __init__(self, flow: Flow | int = 3, *, queue: str = "orders", server: Server | None = None) -> None:
        keys.check_queue(queue)
        self.queue = queue
        self._flow = _flow_of(flow, queue)
        complete = self.button("Complete the next child", self.complete)
        complete.add_class("emqkit-first")
        again = self.button("Complete the same again", self.again)
        stale = self.button("Complete with a stale token", self.stale)
        start = self.button("Back to the start", self.start_over)
        self._queue = self.field("Queue", lambda: self.set_flow(queue=self._queue.value), width="9em")
        self._parent = self.field("Parent", lambda: self.set_flow(parent=self._parent.value))
        self._children = self.field("Children", lambda: self.set_flow(children=self._children.value), width="30em")
        rows = [self.row(self._queue, self._parent, self._children), self.row(complete, again, stale, start)]
        super().__init__("The fan-in counter", private(server), rows)
        self.start_over()

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def start_over(self) -> Sentence:
        """The flow just landed: every child claimable, none done."""
        with self._quietly():
            self._queue.value = self.queue
            self._parent.value = plain(self._flow.payload)
            self._children.value = ", ".join(plain(child.payload) for child in self._flow.children)
        self._rewind()
        self._added = Flows(self.server).add(self.queue, self._flow)
        self._new_tape()
        self._claim: Claim | None = None
        self._last: Claim | None = None
        self._tries: list[_Try] = []
        return self._show(f"The flow has landed. {self._stands()}")

    def set_flow(
        self, *, queue: str | None = None, parent: str | None = None, children: str | Sequence[str] | None = None
    ) -> Sentence:
        """Choose where the flow runs and what its jobs are called; it lands anew.

        Args:
            queue: where it runs; as it was, if left out.
            parent: the parent's payload; as it was, if left out.
            children: 1 to 8 payloads, in one text with a comma between two or as a sequence; as they were, if left out.

        Raises:
            BadArgument, IllFormedQueue: it cannot run there, or there are none or too many of them.
        """
        old = self._flow, self.queue

        def change() -> None:
            if queue is not None:
                keys.check_queue(queue)
                kept = [replace(child, queue=None) for child in self._flow.children]
                self.queue, self._flow = queue, replace(self._flow, children=kept)
            if parent is not None:
                self._flow = replace(self._flow, payload=parent)
            if children is not None:
                names = payloads_of(children)
                if not 1 <= len(names) <= 8:
                    raise BadArgument("children", children, "are not 1 to 8 payloads, with a comma between two")
                self._flow = replace(self._flow, children=[Child(name) for name in names])

        def undo() -> None:
            self._flow, self.queue = old

        return self._landed_anew(change, undo)

    def complete(self) -> Sentence:
        """Claim the next child, if none is claimed yet, and complete it."""
        claim = self._take()
        if claim is None:
            return self._say(f"No child is left to complete. {self._stands()}")
        self._claim = None
        self._last = claim
        return self._settle("complete", claim)

    def again(self) -> Sentence:
        """Make the last completion once more, as a worker does that never heard its answer."""
        if self._last is None:
            return self._say(f"Nothing was completed yet that could be completed again. {self._stands()}")
        return self._settle("again", self._last)

    def stale(self) -> Sentence:
        """Let a lease lapse, hand the child out again, and let the slow worker complete it with its old token."""
        slow = self._take()
        if slow is None:
            return self._say(f"No child is left whose lease could lapse. {self._stands()}")
        self.tape.lapse(self.queue, slow.id)
        self.tape.run(Jobs(self.server).reap.program(self.queue))
        self._claim = None
        self._claim = self._take()
        return self._settle("stale", slow)

    # --- behind them ------------------------------------------------------------------------------------------------

    def _take(self) -> Claim | None:
        """The child that is claimed already, or the next one; the parent, once it is released, is left alone."""
        if self._claim is not None:
            return self._claim
        if not any(id in self._now().members("pending") for id in self._added.child_ids):
            return None
        claim: Claim | None = self.tape.run(Jobs(self.server).claim.program(self.queue)).result
        self._claim = claim
        return claim

    def _settle(self, what: str, claim: Claim) -> Sentence:
        before = self._counter()
        piece = self.tape.run(Jobs(self.server).complete.program(self.queue, claim, result=f"{claim.payload}: done"))
        after = self._counter()
        answer = "done" if piece.error is None else type(piece.error).__name__
        child = self.tape.names(claim.id)
        self._tries.append(_Try(what, child, before, after, answer))
        return self._show(f"{_told(what, child, claim.token, piece, before, after)} {self._stands()}", "complete")

    def _now(self) -> Part:
        return Keyspace.of(self.tape.now)[self.queue]

    def _counter(self) -> int:
        return self._now().counter(self._added.parent_id) or 0

    def _stands(self) -> str:
        state = self._now().state(self._added.parent_id) or "gone"
        places = self._now().places(self._added.parent_id)
        parent = {"awaiting_children": "held", "pending": "released"}.get(state, state)
        parent += f", in {listed(places) if places else 'no set'}"
        count = len(self._flow.children)
        return f"The counter stands at {self._counter()} of {count}; the parent is {parent}."

    # --- what it shows ----------------------------------------------------------------------------------------------

    def picture(self) -> str:
        """The counter after each completion, as a stair that goes down."""
        return _stairs(len(self._flow.children), self._tries, self._stands())

    def tables(self) -> tuple[Table, ...]:
        """Each completion, and what it did to the counter."""
        rows = tuple(
            (str(number), _WORDS[one.what], one.child, one.answer, f"{one.before} → {one.after}")
            for number, one in enumerate(self._tries, start=1)
        )
        heads = ("no.", "what", "child", "answer", "counter")
        return (Table("Completions", heads, rows, empty="None yet."),)


_WORDS = {"complete": "completed", "again": "the same again", "stale": "with a stale token"}
_SHORT = {"complete": "completed", "again": "again", "stale": "stale token"}


def _told(what: str, child: str, token: int, piece: Trace, before: int, after: int) -> str:
    moved = f"the counter goes {before} → {after}" if before != after else "the counter does not move"
    if what == "complete" and piece.error is None:
        return f"{child} is completed: {moved}."
    answer = "is taken" if piece.error is None else f"is refused ({type(piece.error).__name__})"
    which = {"complete": f"with token {token}", "again": "once more", "stale": f"with the stale token {token}"}[what]
    changed = "nothing changes" if not any(step.diff for step in piece) else "something changes"
    return f"Completing {child} {which} {answer}: {changed}, {moved}."


def _flow_of(flow: Flow | int, queue: str) -> Flow:
    if isinstance(flow, Flow):
        strays = [child for child in flow.children if child.children or child.queue not in (None, queue)]
        if strays:
            raise BadArgument("flow", flow, f"has {many(len(strays), 'child', 'children')} elsewhere or with children")
        return flow
    if isinstance(flow, bool) or not isinstance(flow, int) or not 1 <= flow <= 8:
        raise BadArgument("flow", flow, "is neither a Flow nor a number of children from 1 to 8")
    return Flow("pack order 7", [Child(f"item {number}") for number in range(1, flow + 1)])


# --- the stair --------------------------------------------------------------------------------------------------------

_STEP, _HIGH, _LEFT, _TOP = 92, 150, 34, 34


def _stairs(count: int, tries: Sequence[_Try], alt: str) -> str:
    """The counter over the completions as SVG: a line that falls where one counted, a cross where one did not."""
    columns = max(len(tries), count) + 1
    width, height = _LEFT + columns * _STEP + 30, _TOP + _HIGH + 46

    def x(at: float) -> float:
        return _LEFT + at * _STEP

    def y(value: float) -> float:
        return _TOP + _HIGH * (1 - value / count)

    parts = [
        f'<line x1="{_LEFT}" x2="{x(columns):.0f}" y1="{y(value):.1f}" y2="{y(value):.1f}" class="d-grid"/>'
        f'<text x="{_LEFT - 10}" y="{y(value) + 5:.1f}" class="d-soft d-end">{value}</text>'
        for value in range(count + 1)
    ]
    value, points = count, [(x(0), y(count))]
    marks = []
    for number, one in enumerate(tries, start=1):
        at = x(number)
        points += [(at, y(value)), (at, y(one.after))]
        value = one.after
        label = f'<text x="{at:.0f}" y="{height - 26}" class="d-mid">{_SHORT[one.what]}</text>'
        label += f'<text x="{at:.0f}" y="{height - 10}" class="d-mid d-soft">{escape(elided(one.child, 12))}</text>'
        if one.before == one.after:
            shape = f"M{at - 7:.1f} {y(value) - 7:.1f}l14 14m0 -14l-14 14"
            marks.append(f'<path d="{shape}" class="d-cross"/>{label}')
        else:
            kind = "d-done" if value <= 0 else "d-dot"
            marks.append(
                f'<circle cx="{at:.1f}" cy="{y(value):.1f}" r="{9 if value <= 0 else 7}" class="{kind}"/>{label}'
            )
    points.append((x(len(tries) + 0.6), y(value)))
    line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    said = escape(f"The counter over {many(len(tries), 'completion')}. {alt}", quote=True)
    title = f'<text x="{_LEFT - 18}" y="18" class="d-title">children outstanding</text>'
    return (
        f'<svg class="emqkit-drawing" viewBox="0 0 {width} {height}" style="max-width:{width}px" role="img" '
        f'aria-label="{said}">{title}{"".join(parts)}<polyline points="{line}" class="d-line"/>{"".join(marks)}</svg>'
    )
