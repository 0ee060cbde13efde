"""A lab is a few buttons around a player: each makes real calls on a private server, and the player shows what it did.

Every lab has one sentence, which is its `repr` and which a screen reader is told, and a verb in Python for each button.
Its static twin is an output of its own, as the player's is: what is in the panel, and the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import ipywidgets as widgets

from emqkit import keys
from emqkit.errors import BadArgument, EmqError
from emqkit.ids import Minter
from emqkit.log import logger
from emqkit.scripts import ScriptSet
from emqkit.servers import Server, open_server
from emqkit.snapshot import Snapshot, capture, restore
from emqkit.trace import CallRecord, Step, Trace
from emqkit.viz.theme import theme_css
from emqkit.widgets.player import HERE, Sentence, StepPlayer
from emqkit.wire import Flush, Program
from emqkit.words.names import Names
from emqkit.words.text import many

__all__ = ["Crashes", "GapPicker", "Lab", "ServedLab", "Table", "Tape", "many", "payloads_of", "private"]


def _style(scope: str) -> str:
    """The style sheet of a lab, or of its twin: what both show, and for the lab its controls."""
    files = ("lab.css", "panel.css") if scope == ".emqkit-lab" else ("panel.css",)
    return f"<style>{theme_css(scope)}{''.join((HERE / name).read_text('utf-8') for name in files)}</style>"


def payloads_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """Payloads as a learner types them, with a comma between two, or as a sequence; blanks around them are left out."""
    found = names.split(",") if isinstance(names, str) else list(names)
    return tuple(one.strip() for one in found if one.strip())


def private(server: Server | None) -> Server:
    """A place of the lab's own: beside the server that is given and with its scripts, or where `EMQKIT_SERVER` says."""
    return open_server() if server is None else server.scratch()


# --- what a lab records -----------------------------------------------------------------------------------------------


class Tape:
    """One trace that grows: operation after operation on one server, and between them what nobody sent.

    Args:
        server: a private one, where the operations run.
        trace: what is on the tape already; nothing if left out.
        payloads: (id, payload) of jobs that the tape may not see alive.
    """

    def __init__(self, server: Server, trace: Trace | None = None, payloads: Iterable[tuple[str, bytes]] = ()) -> None:
        self.server = server
        self._payloads = tuple(payloads)
        self._initial = capture(server) if trace is None else trace.initial
        self._steps: list[Step] = [] if trace is None else list(trace.steps)
        self._runs = max((step.run + 1 for step in self._steps), default=0)

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def trace(self) -> Trace:
        """All that is on the tape, as a trace."""
        return Trace.assembled(self.server.scripts, self.server.kind, self._initial, self._steps, self._payloads)

    @property
    def names(self) -> Names:
        """What to call each job that is on the tape."""
        return Names.of_trace(self.trace)

    @property
    def now(self) -> Snapshot:
        """The keyspace after the last step."""
        return self._steps[-1].after if self._steps else self._initial

    def frame(self, steps: int) -> int:
        """The player's frame after so many round trips: of a flush it has one a call, and then one for the whole."""
        counts = (1 if len(one.flush.calls) <= 1 or one.flush.atomic else len(one.calls) + 1 for one in self._steps)
        return sum(list(counts)[:steps])

    def last(self, verb: str) -> int:
        """The player's frame of the last round trip that made this call; the last of all, if none did."""
        made = [n for n, one in enumerate(self._steps, 1) if any(record.call.verb == verb for record in one.calls)]
        return self.frame(made[-1] if made else len(self._steps))

    def run(self, program: Program[Any], *, stop_after: int | None = None, name: str = "") -> Trace:
        """Run an operation and keep its round trips; `stop_after` so many calls it ends, as by a crash.

        Returns:
            The trace of this operation alone, with its result or its error.
        """
        piece = Trace.of(program, self.server, stop_after=stop_after)
        for step in piece.steps:
            if len(step.calls) < len(step.flush.calls) and stop_after is not None:
                # The host stopped on purpose in the middle of a flush: what it never sent is no part of the step.
                sent = Flush(step.flush.calls[: len(step.calls)], atomic=step.flush.atomic)
                step = replace(step, flush=sent, lost=None)
            self._steps.append(replace(step, run=self._runs, operation=name or step.operation))
        self._runs += 1
        return piece

    def mark(self, who: str, sentence: str) -> None:
        """Note what happened without a call, such as a crash; the keyspace is looked at for what it changed."""
        before, after = self.now, capture(self.server)
        self._steps.append(Step(who, self._runs, 1, Flush(()), (), before, after, None, sentence))
        self._runs += 1

    def lapse(self, queue: str, id: str) -> None:
        """Put the deadline of an active job into the past, instead of waiting for it."""
        self.server.client.zadd(keys.queue_key(queue, "active"), {id: 0})
        self.mark("time", f"The lease of {self.names(id)} in {queue} lapses: its worker is too slow.")


@dataclass(frozen=True)
class Crashes:
    """Where an operation can be crashed now: the calls it would make, and a gap before, between and after them."""

    calls: tuple[str, ...]

    @classmethod
    def of(cls, program: Program[Any], tape: Tape) -> Crashes:
        """Find out by running it elsewhere: on a scratch server that holds the keyspace at the end of the tape."""
        with tape.server.scratch() as elsewhere:
            restore(elsewhere, tape.now, current=Snapshot())
            trace = Trace.of(program, elsewhere)
        names = tape.names
        return cls(tuple(_named(record, trace.scripts, names) for record in trace.calls))

    @property
    def gaps(self) -> tuple[str, ...]:
        """Each gap in words; a crash in gap n comes after n calls."""
        if not self.calls:
            return ("before it sends anything",)
        between = [f"between {one} and {other}" for one, other in zip(self.calls, self.calls[1:], strict=False)]
        return (f"before {self.calls[0]}", *between, f"after {self.calls[-1]}")

    @property
    def telling(self) -> int:
        """The gap worth trying first: just before the last call."""
        return max(len(self.calls) - 1, 0)

    def after(self, gap: int | str) -> int:
        """How many calls are made before this gap, given in words or as that number.

        Raises:
            BadArgument: there is no such gap now.
        """
        if isinstance(gap, str) and gap in self.gaps:
            return self.gaps.index(gap)
        if isinstance(gap, int) and not isinstance(gap, bool) and 0 <= gap < len(self.gaps):
            return gap
        raise BadArgument("gap", gap, f"is none of the gaps there are now, 0 to {len(self.gaps) - 1}: {self._listed}")

    @property
    def _listed(self) -> str:
        return "; ".join(f"{number} {gap}" for number, gap in enumerate(self.gaps))


class GapPicker:
    """The dropdown of the gaps there are now. What was chosen stays chosen while there is such a gap."""

    def __init__(self) -> None:
        self.crashes = Crashes(())
        self.widget = widgets.Dropdown(options=self.crashes.gaps, description="Crash it")

    def renew(self, crashes: Crashes) -> None:
        """Offer other gaps."""
        usual = self.crashes.gaps[self.crashes.telling]
        chosen = self.widget.value
        self.crashes = crashes
        self.widget.options = crashes.gaps
        kept = chosen in crashes.gaps and chosen != usual
        self.widget.value = chosen if kept else crashes.gaps[crashes.telling]

    def pick(self, gap: int | str | None) -> tuple[int, str]:
        """The calls before a gap, and its words; of the chosen one, if none is given. Raises `BadArgument`."""
        calls = self.crashes.after(self.widget.value if gap is None else gap)
        return calls, self.crashes.gaps[calls]


def _named(record: CallRecord, scripts: ScriptSet, names: Names) -> str:
    call = record.call
    child = scripts.view(call).args.get("child_id") if call.verb.endswith("deliver") else None
    return f"{call.verb} of {names(child)}" if child else call.verb


# --- what a lab shows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A small table: for the page, and for a reader of plain text. An empty one says `empty` instead.

    Attributes:
        caption: what it is about.
        heads: the names of the columns; the first column names its row.
        rows: the cells, as text.
        current: which row is marked, from 0; none if None.
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "Nothing."
    current: int | None = None

    def html(self) -> str:
        """The table as HTML."""
        caption = f"<caption>{escape(self.caption)}</caption>"
        if not self.rows:
            return f'<table class="emqkit-table">{caption}<tbody><tr><td>{escape(self.empty)}</td></tr></tbody></table>'
        marked = ' aria-current="true"'
        heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in self.heads)
        rows = "".join(
            f"<tr{marked if number == self.current else ''}>"
            f'<th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
            for number, row in enumerate(self.rows)
        )
        return f'<table class="emqkit-table">{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>'

    def text(self) -> str:
        """The table as plain text, a line a row."""
        lines = [" · ".join(cell for cell in row if cell) for row in self.rows] or [self.empty]
        return "\n".join([self.caption, *(f"  {line}" for line in lines)])


class Lab(widgets.VBox):  # type: ignore[misc]
    """Buttons, a status line, a player and a panel, one below the other; each lab says what its buttons do.

    Buttons, line and stage are to be seen at once, on one screen; what else there is to know is in the panel below. A
    lab has a private server of its own: nothing that is done elsewhere changes what it shows.

    Args:
        title: its name, which a screen reader is told.
        player: the player it is around.
        controls: rows of widgets; the title stands in the first.
    """

    def __init__(self, title: str, player: StepPlayer, controls: Sequence[Any]) -> None:
        self.player = player
        self._sentence = ""
        self._quiet = False
        self._line = widgets.HTML()
        self._line.add_class("emqkit-lab-line")
        self._panel = widgets.HTML()
        self._panel.add_class("emqkit-lab-panel")
        head = widgets.HTML(f'{_style(".emqkit-lab")}<p class="emqkit-lab-title">{escape(title)}</p>')
        first, *others = controls
        first.children = (head, *first.children)
        super().__init__([first, *others, self._line, player, self._panel])
        self.add_class("emqkit-lab")

    @property
    def sentence(self) -> Sentence:
        """How things stand after the last button or verb."""
        return Sentence(self._sentence)

    def tables(self) -> tuple[Table, ...]:
        """What the panel tells; a lab has its own."""
        return ()

    def picture(self) -> str:
        """What the panel draws, as HTML; a lab has its own."""
        return ""

    def _say(self, sentence: str) -> Sentence:
        """Say how things stand, and renew the panel."""
        self._sentence = sentence
        self._line.remove_class("emqkit-lab-refused")
        self._line.value = escape(sentence)
        self._panel.value = self._panel_html()
        return self.sentence

    def _panel_html(self) -> str:
        parts = self.picture() + "".join(table.html() for table in self.tables())
        return f'<div class="emqkit-parts">{parts}</div>'

    # --- controls ---------------------------------------------------------------------------------------------------

    def button(self, name: str, act: Callable[[], object], *, hint: str = "") -> Any:
        """A button of this lab. What its verb refuses, or fails with, is said in the status line."""
        made = widgets.Button(description=name, tooltip=hint, layout=widgets.Layout(width="auto"))
        made.on_click(lambda _: self._heed(act))
        return made

    def dropdown(self, label: str, options: Sequence[Any], value: object, act: Callable[[], object]) -> Any:
        """A dropdown that does this when another value is chosen; a refusal is said, and the value put back."""
        return self._minded(widgets.Dropdown(options=options, value=value, description=label), act)

    def field(self, label: str, act: Callable[[], object], *, width: str = "13em") -> Any:
        """A field to type into that does this at Enter, or when left; a refusal is said, and the text put back."""
        made = widgets.Text(description=label, continuous_update=False, layout=widgets.Layout(width=width))
        return self._minded(made, act)

    def _minded(self, control: Any, act: Callable[[], object]) -> Any:
        def changed(change: Any) -> None:
            if not self._quiet and not self._heed(act):
                with self._quietly():
                    control.value = change["old"]

        control.observe(changed, names="value")
        return control

    def _heed(self, act: Callable[[], object]) -> bool:
        """Do what a control asks; False if it was refused or failed, which is then said."""
        try:
            act()
        except Exception as error:  # a callback's traceback goes where nobody looks
            known = isinstance(error, EmqError)
            if not known:
                logger.exception("A control of %s failed.", type(self).__name__)
            self._say(str(error) if known else f"This failed: {type(error).__name__}: {error}")
            self._line.add_class("emqkit-lab-refused")
            return False
        return True

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Set controls without their doing anything."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    @staticmethod
    def row(*members: Any) -> Any:
        """Some controls side by side, wrapping where the page is narrow."""
        made = widgets.HBox(list(members))
        made.add_class("emqkit-lab-row")
        return made

    def close(self) -> None:
        """Close the widget and its server; also called when the lab is forgotten."""
        super().close()
        if hasattr(self, "server"):
            self.server.close()

    # --- being shown ------------------------------------------------------------------------------------------------

    def twin(self) -> str:
        """The lab as HTML that needs neither a kernel nor JavaScript: its sentence, its panel and its trace."""
        return self._twin(self._panel_html())

    def _twin(self, panel: str) -> str:
        head = f'<p class="emqkit-lab-line">{escape(self._sentence)}</p>'
        return f'<div class="emqkit-lab-twin">{_style(".emqkit-lab-twin")}{head}{panel}{self.player.twin()}</div>'

    def transcript(self) -> str:
        """The lab in plain text: its sentence, its tables and its trace."""
        return "\n".join([self._sentence, *(table.text() for table in self.tables()), self.player.transcript()])

    def __repr__(self) -> str:
        return self._sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | dict[str, Any] | None:
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        if isinstance(bundle, tuple):
            data, metadata = bundle
            return {**data, "text/plain": repr(self)}, metadata
        return None if bundle is None else {**bundle, "text/plain": repr(self)}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.twin(), "text/plain": self.transcript()}, raw=True)  # type: ignore[no-untyped-call]
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if data is not None:
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]


class ServedLab(Lab):
    """A lab that begins with an empty server, and can bring it back to the start.

    Args:
        title, controls: see `Lab`.
        server: beside which server, and with whose scripts; where `EMQKIT_SERVER` says, if left out.
    """

    def __init__(self, title: str, server: Server, controls: Sequence[Any]) -> None:
        self.server = server
        self.tape = Tape(server)
        super().__init__(title, StepPlayer(self.tape.trace), controls)

    @property
    def trace(self) -> Trace:
        """All that was done since the start, as a trace of its own: to be kept, or shown in another player."""
        return self.tape.trace

    def _rewind(self) -> None:
        """An empty server with the same ids to come."""
        restore(self.server, Snapshot())
        self.server.minter = Minter.fixed()

    def _landed_anew(self, change: Callable[[], object], undo: Callable[[], object]) -> Sentence:
        """Change what the lab is about and start over; where that is refused, all is as it was at the start."""
        try:
            change()
            return self.start_over()
        except EmqError:
            undo()
            with suppress(EmqError):
                self.start_over()
            raise

    def start_over(self) -> Sentence:
        """Back to the start; each lab has its own."""
        raise NotImplementedError

    def _new_tape(self, payloads: Iterable[tuple[str, bytes]] = ()) -> None:
        """Begin a trace at the keyspace there is now; `payloads` are of jobs that it may not see alive."""
        self.tape = Tape(self.server, payloads=payloads)

    def _show(self, sentence: str, verb: str = "") -> Sentence:
        """Show the end of the tape in the player, or the last time this call was made, and say how things stand."""
        self.player.load(self.tape.trace, at=self.tape.last(verb) if verb else "last")
        return self._say(sentence)
