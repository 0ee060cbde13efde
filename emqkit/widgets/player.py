"""The player steps through a recorded trace: who acts, what changed, and the code that did it, forwards and backwards.

It is handed the whole trace as a film of changes and builds the stage in the browser, so no click waits for the
kernel. In Python it has the same verbs as buttons, and its `repr` is the sentence of the step it shows: what a test
compares and a screen reader says.

Where no kernel runs (nbconvert, nbviewer, GitHub) its static twin still reads. The twin is an output of its own, shown
before the widget and hidden by it once it is alive: in one output with a widget, an exported page would drop it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

import anywidget
import traitlets

from emqkit.arguments import one_of
from emqkit.errors import BadArgument
from emqkit.trace import Trace
from emqkit.viz.film import CHANGES, LINES, TRIPS, Film, Frame, differing, in_step
from emqkit.viz.theme import theme_css
from emqkit.viz.twin import twin

__all__ = ["Sentence", "StepPlayer"]

Drawer = Literal["", "rows", "lua", "host", "keys", "words"]

HERE = Path(__file__).parent

SHOWS = {"changes": CHANGES, "trips": TRIPS, "lines": LINES}
"""What a player can be told to stop at, and how fine that is."""


class Sentence(str):
    """A sentence that shows itself without quotation marks where it is a cell's last value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class StepPlayer(anywidget.AnyWidget):
    """A trace to step through: `StepPlayer(Trace.of(flows.add.program("orders", flow), server))`.

    Every verb returns the sentence of the step it arrives at. At either end a verb stays where it is. Which steps there
    are is chosen by `shows`: by default those that change something or are refused, and the calls between only count.

    Args:
        trace: what to show.
        lines: whether to step through the Lua of script calls too: True for all, or the names of some scripts.
        index: which frame to begin with; 0 is the start, before anything was sent.
        shows: `changes`, `trips` (every call) or `lines`; changes, and with `lines` the lines, if left out.
        beside: another trace, shown in step with the first: what differs, under one transport.
        labels: what the two are called.
        drawer: which drawer is open at first: `rows`, `lua`, `host`, `keys` or `words`; none, if left out.

    Attributes:
        index: which frame is shown, among all there are, whatever `shows` says.
        shows: which frames the verbs stop at.
        playing: whether the browser steps on by itself.

    Raises:
        BadArgument: `trace` is none, there is no such frame or drawer, or `shows` is none of the three.
    """

    _esm = HERE / "player.js"
    _css = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    twin_key = traitlets.Unicode().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    shows = traitlets.Unicode("changes").tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    drawer = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        trace: Trace,
        *,
        lines: bool | Collection[str] = False,
        index: int = 0,
        shows: Literal["changes", "trips", "lines"] | None = None,
        beside: Trace | None = None,
        labels: tuple[str, str] = ("first", "second"),
        drawer: Drawer = "",
    ) -> None:
        one_of("drawer", drawer, ("", "rows", "lua", "host", "keys", "words"))
        self._lines = lines
        self._labels = labels if beside is not None else ()
        self._take(trace, beside)
        super().__init__(payload=self._payload, twin_key=self._key, drawer=drawer)
        self.shows = shows or ("lines" if lines else "changes")
        self.index = index

    def _take(self, trace: Trace, beside: Trace | None = None) -> None:
        for one in (trace, beside):
            if one is not None and not isinstance(one, Trace):
                why = f"is {type(one).__name__}, not a trace: Trace.of(flows.add.program(…), server) makes one"
                raise BadArgument("trace", one, why)
        self._trace = trace
        self._films = tuple(Film.of(one, lines=self._lines) for one in (trace, beside) if one is not None)
        self._pairs = in_step(self._films)
        self._payload: dict[str, Any] = {"films": [film.payload() for film in self._films]}
        if beside is not None:
            self._payload |= {
                "labels": self._labels,
                "pairs": self._pairs,
                "differ": differing(self._films, self._pairs),
            }
        # what the twin says, and no line number of the code that was traced: a stored notebook keeps its key
        said = [[(frame.sentence, frame.where, frame.diff) for frame in film.frames] for film in self._films]
        self._key = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    @traitlets.default("_css")
    def _read_css(self) -> str:
        return theme_css(".emqkit-player") + (HERE / "player.css").read_text("utf-8")

    @traitlets.validate("index")
    def _within(self, proposal: Any) -> int:
        value: int = proposal["value"]
        if not 0 <= value < len(self):
            raise BadArgument("index", value, f"is not a step of this trace, which has steps 0 to {len(self) - 1}")
        return value

    @traitlets.validate("shows")
    def _known(self, proposal: Any) -> str:
        value: str = proposal["value"]
        if value not in SHOWS:
            raise BadArgument("shows", value, f"is none of {', '.join(SHOWS)}")
        return value

    # --- what it shows ----------------------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace it shows; of two, the first."""
        return self._trace

    @property
    def film(self) -> Film:
        """The frames, and what they share; of two, the first."""
        return self._films[0]

    @property
    def frame(self) -> Frame:
        """The frame it is at; of two, the first's."""
        return self._films[0].frames[self._pairs[self.index][0]]

    @property
    def stops(self) -> tuple[int, ...]:
        """The frames that the verbs stop at."""
        return tuple(at for at in range(len(self)) if self._level(at) <= SHOWS[self.shows])

    @property
    def sentence(self) -> Sentence:
        """What happened in the step it is at."""
        said = [film.frames[at].sentence for film, at in zip(self._films, self._pairs[self.index], strict=True)]
        if len(said) == 1:
            return Sentence(said[0])
        return Sentence(" — ".join(f"{label}: {one}" for label, one in zip(self._labels, said, strict=True)))

    def __len__(self) -> int:
        """How many frames there are, the start included."""
        return len(self._pairs)

    def _level(self, at: int) -> int:
        return min(film.frames[one].level for film, one in zip(self._films, self._pairs[at], strict=True))

    def _depth(self, at: int) -> int:
        return min(film.frames[one].depth for film, one in zip(self._films, self._pairs[at], strict=True))

    def load(self, trace: Trace, at: Literal["first", "last"] | int = "first") -> Sentence:
        """Show another trace, or the same one grown longer; `at` says which frame. A second trace is left out."""
        self._labels = ()
        self._take(trace)
        last = len(self) - 1
        place = {"first": 0, "last": last}[at] if isinstance(at, str) else at
        if not 0 <= place <= last:
            raise BadArgument("at", at, f"is not a step of this trace, which has steps 0 to {last}")
        self.playing = False
        with self.hold_sync():
            self.index = 0
            self.payload = self._payload
            self.twin_key = self._key
            self.index = place
        return self.sentence

    # --- the verbs, as on the buttons -------------------------------------------------------------------------------

    def first(self) -> Sentence:
        """Go to the start, before anything was sent."""
        return self._go(0)

    def last(self) -> Sentence:
        """Go to the last step."""
        return self._go(len(self) - 1)

    def forward(self) -> Sentence:
        """Go one step on; inside a loop, to its next line."""
        return self._seek(1, self._fine)

    def back(self) -> Sentence:
        """Go one step back; inside a loop, to its line before."""
        return self._seek(-1, self._fine)

    def into(self) -> Sentence:
        """Go into what comes next: a round trip's first call, a call's first line. With nothing inside, one step on."""
        return self._go(min(self.index + 1, len(self) - 1))

    def over(self) -> Sentence:
        """Go over what is inside: to the next step that is no deeper than this one."""
        return self._seek(1, lambda at: self._depth(at) <= self._depth(self.index))

    def out(self) -> Sentence:
        """Go out to the end of the loop, the call or the round trip this step is inside of."""
        return self._seek(1, lambda at: self._depth(at) < self._depth(self.index))

    def play(self) -> Sentence:
        """Let the browser step on by itself, from the start if it is at the end; without a browser nothing moves."""
        if self.index == len(self) - 1:
            self.index = 0
        self.playing = True
        return self.sentence

    def pause(self) -> Sentence:
        """Stop playing."""
        self.playing = False
        return self.sentence

    def _go(self, index: int) -> Sentence:
        self.index = index
        return self.sentence

    def _fine(self, at: int) -> bool:
        return self._level(at) <= max(SHOWS[self.shows], self._level(self.index))

    def _seek(self, step: int, wanted: Callable[[int], bool]) -> Sentence:
        ahead = range(self.index + 1, len(self)) if step > 0 else range(self.index - 1, -1, -1)
        return self._go(next((at for at in ahead if wanted(at)), self.index))

    # --- being shown ------------------------------------------------------------------------------------------------

    def twin(self) -> str:
        """The trace as HTML that needs neither a kernel nor JavaScript; of two, one after the other."""
        return "".join(twin(film, self._key) for film in self._films)

    def transcript(self) -> str:
        """The trace in plain text; of two, one after the other."""
        return "\n".join(film.transcript() for film in self._films)

    def __repr__(self) -> str:
        return str(self.sentence)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": repr(self)}, metadata

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.twin(), "text/plain": self.transcript()}, raw=True)  # type: ignore[no-untyped-call]
        bundle = self._repr_mimebundle_()
        if bundle is not None:
            data, metadata = bundle
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
