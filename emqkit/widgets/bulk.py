"""The bulk ledger: one row a flow of a batch, and the way back for those that did not land (Batches dive 02).

ledger = BulkLedger(Trace.of(flows.add_bulk.program("orders", batch), server))
ledger.choose(4)          # the player goes to the round trips of flow 4
ledger.retry(4)           # the same add with the same ids
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import ipywidgets as widgets

from emqkit import keys
from emqkit.arguments import to_bytes
from emqkit.errors import BadArgument, BadFlow, EmqError, ReplyLost
from emqkit.flows import BulkAdded, Child, FailedFlow, Flow, Flows
from emqkit.ids import FIXED_INSTANT_MS, JOB, Minter
from emqkit.snapshot import restore
from emqkit.trace import Step, Trace
from emqkit.widgets.lab import Lab, Table, Tape, many
from emqkit.widgets.player import Sentence, StepPlayer
from emqkit.wire import Done, Program
from emqkit.words.names import Names

__all__ = ["BulkLedger", "LedgerRow"]

_LANDS = {"hold_parent": "parent_id", "enqueue_flow_child": "child_id"}  # and the name of the id that each lands
_MARKS = {"landed": "●", "held": "◐", "absent": "○", "unknown": "?"}


@dataclass(frozen=True)
class LedgerRow:
    """What became of one flow of a batch.

    Attributes:
        number: its place in the batch, from 1.
        flow: the flow, with its ids.
        outcome: `landed`, `held` (its parent is, without all of its children), `absent` (not a key of it exists), or
            `unknown` (a reply was lost).
        landed_ids: what was seen to land, parent first.
        trips: its round trips in the ledger's trace: the first, and the one after the last.
        reason: why it did not land; empty if it did.
        retried: how often it was tried again.
    """

    number: int
    flow: Flow
    outcome: str
    landed_ids: tuple[str, ...]
    trips: tuple[int, int]
    reason: str = ""
    retried: int = 0

    @property
    def parent_id(self) -> str:
        """Its parent."""
        return str(self.flow.id)

    @property
    def name(self) -> str:
        """Its parent's payload, as a row names it."""
        return Names.of([(self.parent_id, to_bytes(self.flow.payload))])(self.parent_id)

    @property
    def landed(self) -> str:
        """What of it landed, in words."""
        below = len(list(_below(self.flow.children)))
        if not self.landed_ids:
            return "nothing"
        return f"parent and {len(self.landed_ids) - 1} of {many(below, 'child', 'children')}"

    @property
    def sentence(self) -> str:
        """The row in one sentence."""
        again = f" after {many(self.retried, 'retry', 'retries')}" if self.retried else ""
        head = f"Flow {self.number}, {self.name}: {self.outcome}{again}"
        if self.outcome == "landed":
            return f"{head}; {self.landed}."
        left = f"{self.landed} landed" if self.landed_ids else "nothing of it is there"
        return f"{head}; {left}. Why: {self.reason}"


def _below(children: Sequence[Child]) -> Iterator[Child]:
    for child in children:
        yield child
        yield from _below(child.children)


class BulkLedger(Lab):
    """The ledger of a traced `flows.add_bulk`, a row a flow in input order, around a player.

    Each row is a button: it takes the player to that flow's round trips. `retry` makes the same add with the same ids
    again, on a private server that holds what the batch left: what happens where it ran does not matter to the ledger.

    Args:
        trace: `Trace.of(flows.add_bulk.program(queue, batch), server)`.

    Raises:
        BadArgument: the trace is of something else, or has no result.
    """

    def __init__(self, trace: Trace) -> None:
        program, bulk = trace.program, trace.result
        if program is None or program.name != "flows.add_bulk" or not isinstance(bulk, BulkAdded):
            raise BadArgument(
                "trace", trace, "is not one of a finished add_bulk: Trace.of(flows.add_bulk.program(…), …)"
            )
        self.queue: str = program.args[0]
        self.rows = _rows(program.owner, self.queue, program.args[1], bulk, trace.steps)
        self.server = program.owner.server.scratch()
        restore(self.server, trace.final)
        self.server.minter = _later(self.rows, trace)
        self._flows = Flows(self.server)
        self.tape = Tape(self.server, trace)
        self.chosen: int | None = None
        self._buttons = [self._row_button(row) for row in self.rows]
        self._cells = [widgets.HTML() for _ in self.rows]
        members = [part for pair in zip(self._buttons, self._cells, strict=True) for part in pair]
        head = [widgets.HTML(""), widgets.HTML(_cell("outcome", "what landed", "why not", "emqkit-ledger-head"))]
        grid = widgets.GridBox([*head, *members])
        grid.add_class("emqkit-ledger")
        actions = self.row(
            self.button("Retry by id", self._retry_chosen, hint="The same add with the same ids, for the chosen flow"),
            self.button("Whole batch", self.whole, hint="Back to the start of the batch"),
        )
        super().__init__("Bulk ledger", StepPlayer(trace), [actions, grid])
        self._renew(self._counted())

    def _row_button(self, row: LedgerRow) -> Any:
        def act() -> None:
            self.choose(row.number)

        return self.button(f"Flow {row.number}: {row.name}", act)

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def choose(self, number: int) -> Sentence:
        """Take the player to the first round trip of a flow; to where the batch stood, if it never sent any.

        Args:
            number: its place in the batch, from 1.

        Raises:
            BadArgument: there is no such flow.
        """
        row = self.rows[self._place(number)]
        self.chosen = number
        first, after = row.trips
        self.player.index = self.tape.frame(first) + (1 if after > first else 0)
        none = "" if after > first else " It has no round trip: it was refused before anything was sent."
        return self._renew(f"{row.sentence}{none}")

    def retry(self, number: int, flow: Flow | None = None) -> Sentence:
        """Add a flow that did not land once more, with the same ids.

        Args:
            number: its place in the batch, from 1.
            flow: the flow with its fault mended, and the same parent id. Left out, children whose id is not a job's get
                one that is, and everything else stays as it was.

        Raises:
            BadArgument: there is no such flow, or `flow` has another parent.
        """
        at = self._place(number)
        row = self.rows[at]
        self.chosen = number
        if row.outcome == "landed":
            return self._renew(f"Flow {number}, {row.name}, has landed: there is nothing to retry.")
        if flow is not None and flow.id != row.parent_id:
            raise BadArgument("flow", flow.id, f"is another parent; a retry by id is of {row.parent_id}")
        mended = _mended(row.flow) if flow is None else flow
        program = self._flows.add.program(self.queue, mended)
        first = len(self.tape)
        piece = self.tape.run(program)
        self.rows[at] = _retried(row, program, piece, (first, len(self.tape)))
        self.player.load(self.tape.trace)
        return self.choose(number)

    def whole(self) -> Sentence:
        """Choose no flow: the player goes to the start, and the sentence counts."""
        self.chosen = None
        self.player.first()
        return self._renew(self._counted())

    def _retry_chosen(self) -> Sentence:
        if self.chosen is None:
            return self._renew("Choose a flow first: each row of the ledger is a button.")
        return self.retry(self.chosen)

    # --- what it shows ----------------------------------------------------------------------------------------------

    def tables(self) -> tuple[Table, ...]:
        """The ledger, and the answer of the call."""
        heads = ("flow", "outcome", "what landed", "why not")
        cells = tuple(
            (f"{row.number}: {row.name}", f"{_MARKS[row.outcome]} {_outcome(row)}", row.landed, row.reason)
            for row in self.rows
        )
        current = None if self.chosen is None else self.chosen - 1
        return (Table("The ledger, a row a flow", heads, cells, current=current), self._answer())

    def _panel_html(self) -> str:
        return self._answer().html()  # alive, the ledger is the rows of buttons

    def twin(self) -> str:
        """The ledger and the trace as HTML that needs neither a kernel nor JavaScript."""
        return self._twin("".join(table.html() for table in self.tables()))

    def _answer(self) -> Table:
        first = [row for row in self.rows if row.outcome == "landed" and not row.retried]
        names = self.tape.names
        cells = tuple((names(row.parent_id), ", ".join(names(str(c.id)) for c in row.flow.children)) for row in first)
        return Table(
            "The answer of add_bulk: the flows that landed, in input order",
            ("parent", "children"),
            cells,
            empty="None landed.",
        )

    def _counted(self) -> str:
        count = {word: sum(row.outcome == word for row in self.rows) for word in _MARKS}
        said = ", ".join(f"{number} {word}" for word, number in count.items() if number)
        return f"{many(len(self.rows), 'flow')}: {said or 'none'}."

    def _renew(self, sentence: str) -> Sentence:
        for row, button, cell in zip(self.rows, self._buttons, self._cells, strict=True):
            chosen = row.number == self.chosen
            cell.tooltip = row.reason
            cell.value = _cell(
                f"{_MARKS[row.outcome]} {_outcome(row)}",
                row.landed,
                row.reason or "",
                f"emqkit-ledger-{row.outcome}{' emqkit-ledger-chosen' if chosen else ''}",
            )
            (button.add_class if chosen else button.remove_class)("emqkit-ledger-chosen")
        return self._say(sentence)

    def _place(self, number: int) -> int:
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= len(self.rows):
            return number - 1
        raise BadArgument("number", number, f"is no flow of this batch, which has flows 1 to {len(self.rows)}")


def _outcome(row: LedgerRow) -> str:
    return f"{row.outcome}, retried" if row.retried else row.outcome


def _cell(outcome: str, landed: str, why: str, kind: str) -> str:
    parts = "".join(f"<span>{escape(part)}</span>" for part in (outcome, landed, why))
    return f'<div class="emqkit-ledger-row {kind}">{parts}</div>'


# --- which round trips are whose --------------------------------------------------------------------------------------


def _rows(flows: Flows, queue: str, batch: Sequence[Flow], bulk: BulkAdded, steps: Sequence[Step]) -> list[LedgerRow]:
    """A row a flow. Whose round trip is whose is found by letting each flow's own add read the replies again."""
    failed: dict[int, FailedFlow] = {one.index: one for one in bulk.failed}
    rows: list[LedgerRow] = []
    at = 0
    for index, flow in enumerate(batch):
        failure = failed.get(index)
        # What was refused as a whole, by its shape or for an id of an earlier flow, sent nothing.
        silent = failure is not None and failure.remains == "absent" and isinstance(failure.error, BadFlow)
        end = at if silent else at + _taken(flows.add.program(queue, flow), steps[at:])
        ids = tuple(str(node.id) for node in _below(flow.children))
        rows.append(
            LedgerRow(index + 1, flow, "landed", (str(flow.id), *ids), (at, end))
            if failure is None
            else LedgerRow(index + 1, flow, failure.remains, failure.landed_ids, (at, end), failure.reason)
        )
        at = end
    return rows


def _taken(program: Program[Any], steps: Sequence[Step]) -> int:
    """How many of these round trips an operation reads before it ends."""
    past: list[Any] = []
    for step in steps:
        if isinstance(program.after(past), Done):
            break
        past.append(step.lost if step.lost is not None else tuple(record.reply for record in step.calls))
    return len(past)


# --- the retry --------------------------------------------------------------------------------------------------------


def _later(rows: Sequence[LedgerRow], trace: Trace) -> Minter:
    """A minter of ids later than any the batch or its server has, and the same ones on every run."""
    there = {at.id for key in trace.final.keys if (at := keys.parse(key)) is not None}
    there |= {id for row in rows for id in (row.flow.id, *(child.id for child in _below(row.flow.children)))}
    last = max((id for id in there if id is not None and id.startswith(JOB)), default=None)
    return Minter(clock=lambda: FIXED_INSTANT_MS, start=last)


def _mended(flow: Flow) -> Flow:
    """The same flow with the same ids; a child whose id is not a job's is given one that is."""

    def mend(children: Sequence[Child]) -> tuple[Child, ...]:
        return tuple(
            replace(child, id=child.id if str(child.id).startswith("JOB") else None, children=mend(child.children))
            for child in children
        )

    return replace(flow, children=mend(flow.children))


def _retried(row: LedgerRow, program: Program[Any], piece: Trace, trips: tuple[int, int]) -> LedgerRow:
    again = row.retried + 1
    flow: Flow = program.args[1]
    if piece.error is None:
        ids = tuple(str(node.id) for node in _below(flow.children))
        return LedgerRow(row.number, flow, "landed", (row.parent_id, *ids), trips, retried=again)
    if not isinstance(piece.error, EmqError):
        raise piece.error
    # What landed in an earlier try stays, and what this one landed before its refusal is there as well.
    landed = (one.call for one in piece.calls if one.call.verb in _LANDS and one.reply == 1)
    seen = (piece.scripts.view(call).args.text(_LANDS[call.verb]) for call in landed)
    there = tuple(dict.fromkeys([*row.landed_ids, *seen]))
    outcome = "unknown" if isinstance(piece.error, ReplyLost) else "held" if there else "absent"
    return LedgerRow(row.number, flow, outcome, there, trips, str(piece.error), again)
