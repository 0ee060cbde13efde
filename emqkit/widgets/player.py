"""The player steps through a recorded trace: pictures, sentences and Lua, forwards and backwards.

It is handed the whole trace and steps in the browser, so no click waits for the kernel. In Python it has the same verbs
as buttons, and its `repr` is the sentence of the step it shows: what a test compares and a screen reader says.

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

from emqkit.errors import BadArgument
from emqkit.trace import Trace
from emqkit.viz.frames import Film, Frame
from emqkit.viz.theme import BOARD_CSS, theme_css

__all__ = ["Sentence", "StepPlayer"]

HERE = Path(__file__).parent


class Sentence(str):
    """A sentence that shows itself without quotation marks where it is a cell's last value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class StepPlayer(anywidget.AnyWidget):
    """A trace to step through: `StepPlayer(Trace.of(flows.add.program("orders", flow), server))`.

    Every verb returns the sentence of the step it arrives at. At either end a verb stays where it is.

    Args:
        trace: what to show.
        lines: whether to step through the Lua of script calls too: True for all, or the names of some scripts.
        index: which step to begin with; 0 is the start, before anything was sent.

    Raises:
        BadArgument: there is no such step.
    """

    _esm = HERE / "player.js"
    _css = traitlets.Unicode().tag(sync=True)
    payload = traitlets.Dict().tag(sync=True)
    twin_key = traitlets.Unicode().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)

    def __init__(self, trace: Trace, *, lines: bool | Collection[str] = False, index: int = 0) -> None:
        self._lines = lines
        self._take(trace)
        super().__init__(payload=self._film.payload(), twin_key=self._key)
        self.index = index

    def _take(self, trace: Trace) -> None:
        self._trace = trace
        self._film = Film.of(trace, lines=self._lines)
        text = json.dumps(self._film.payload(), sort_keys=True, ensure_ascii=True)
        self._key = hashlib.sha256(text.encode()).hexdigest()[:16]

    @traitlets.default("_css")
    def _read_css(self) -> str:
        return theme_css(".emqkit-player") + BOARD_CSS + (HERE / "player.css").read_text("utf-8")

    @traitlets.validate("index")
    def _within(self, proposal: Any) -> int:
        value: int = proposal["value"]
        if not 0 <= value < len(self):
            raise BadArgument("index", value, f"is not a step of this trace, which has steps 0 to {len(self) - 1}")
        return value

    # --- what it shows ----------------------------------------------------------------------------------------------

    @property
    def trace(self) -> Trace:
        """The trace it shows."""
        return self._trace

    @property
    def film(self) -> Film:
        """The frames, pictures and scripts."""
        return self._film

    @property
    def frame(self) -> Frame:
        """The step it is at."""
        return self._film.frames[self.index]

    @property
    def sentence(self) -> Sentence:
        """What happened in the step it is at."""
        return Sentence(self.frame.sentence)

    def __len__(self) -> int:
        """How many steps there are, the start included."""
        return len(self._film.frames)

    def load(self, trace: Trace, at: Literal["first", "last"] | int = "first") -> Sentence:
        """Show another trace, or the same one grown longer; `at` says which step."""
        self._take(trace)
        last = len(self) - 1
        place = {"first": 0, "last": last}[at] if isinstance(at, str) else at
        if not 0 <= place <= last:
            raise BadArgument("at", at, f"is not a step of this trace, which has steps 0 to {last}")
        self.playing = False
        with self.hold_sync():
            self.index = 0
            self.payload = self._film.payload()
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
        """Go one step on, whatever its depth."""
        return self._go(min(self.index + 1, len(self) - 1))

    def back(self) -> Sentence:
        """Go one step back."""
        return self._go(max(self.index - 1, 0))

    def into(self) -> Sentence:
        """Go into what comes next: a round trip's first call, a call's first line. With nothing inside, one step on."""
        return self.forward()

    def over(self) -> Sentence:
        """Go over what is inside: to the next step that is no deeper than this one."""
        return self._next(lambda depth, here: depth <= here)

    def out(self) -> Sentence:
        """Go out to the end of the call or the round trip this step is inside of."""
        return self._next(lambda depth, here: depth < here)

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

    def _next(self, wanted: Callable[[int, int], bool]) -> Sentence:
        frames = self._film.frames
        here = self.frame.depth
        ahead = (number for number in range(self.index + 1, len(frames)) if wanted(frames[number].depth, here))
        return self._go(next(ahead, self.index))

    # --- being shown ------------------------------------------------------------------------------------------------

    def twin(self) -> str:
        """The trace as HTML that needs neither a kernel nor JavaScript."""
        return self._film.twin(self._key)

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

        display({"text/html": self.twin(), "text/plain": self._film.transcript()}, raw=True)  # type: ignore[no-untyped-call]
        bundle = self._repr_mimebundle_()
        if bundle is not None:
            data, metadata = bundle
            display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
