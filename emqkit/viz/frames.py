"""A film is a trace as a sequence of frames: a picture, a sentence, what changed, and the Lua where there is some.

    film = Film.of(trace)                      # round trips and the calls in them
    film = Film.of(trace, lines=True)          # and every Lua line of every script call
    film.frames[3].sentence

Frames stand finest first: the lines of a call, then the call, and after the calls of a flush the round trip as a whole.
So stepping over means the next frame that is no deeper than this one, and stepping out the next that is less deep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from emqkit.errors import ScriptArity, ScriptMissing
from emqkit.scripts import Script
from emqkit.snapshot import Snapshot, diff
from emqkit.trace import CallRecord, Step, Trace
from emqkit.viz import boards
from emqkit.viz.theme import BOARD_CSS, MARKS, theme_css
from emqkit.words import calls as text
from emqkit.words.changes import changes_in_words
from emqkit.words.names import Names
from emqkit.words.text import elided, plain

if TYPE_CHECKING:
    from emqkit.stepper import Stepped

__all__ = ["Film", "Frame", "Source"]

Named = tuple[tuple[str, str], ...]

_PICTURES_IN_A_TWIN = 24


@dataclass(frozen=True, slots=True)
class Source:
    """A script as a player shows it: its name, its lines, and the (name, line) of each move."""

    name: str
    lines: tuple[str, ...]
    moves: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of a trace.

    Attributes:
        board: which of the film's pictures.
        sentence: what happened.
        where: operation, round trip and call, in words.
        diff: what changed, as (mark, text) lines.
        depth: 0 a round trip, 1 a call inside a flush of several, 2 a line of a script.
        source: which of the film's scripts; None where there is none.
        line: the line about to run, from 1; None outside a script.
        move: the move the line belongs to.
        keys: KEYS, named as the script's header does.
        argv: ARGV, likewise.
        locals: the script's local variables, as text.
        asked: the calls the line made, each with its answer.
    """

    board: int
    sentence: str
    where: str
    diff: tuple[tuple[str, str], ...] = ()
    depth: int = 0
    source: int | None = None
    line: int | None = None
    move: str | None = None
    keys: Named = ()
    argv: Named = ()
    locals: Named = ()
    asked: Named = ()

    def payload(self) -> dict[str, Any]:
        """The frame as JSON."""
        return {
            "board": self.board,
            "sentence": self.sentence,
            "where": self.where,
            "diff": [list(line) for line in self.diff],
            "depth": self.depth,
            "source": self.source,
            "line": self.line,
            "move": self.move,
            "keys": [list(pair) for pair in self.keys],
            "argv": [list(pair) for pair in self.argv],
            "locals": [list(pair) for pair in self.locals],
            "asked": [list(pair) for pair in self.asked],
        }


@dataclass(frozen=True)
class Film:
    """The frames of a trace, and the pictures and scripts they share.

    Attributes:
        frames: first the start, before anything was sent.
        boards: the pictures, each once, without a style sheet (`theme.BOARD_CSS`).
        sources: the scripts, each once.
        title: whose trace it is, such as `flows.add`.
    """

    frames: tuple[Frame, ...]
    boards: tuple[str, ...]
    sources: tuple[Source, ...]
    title: str

    @classmethod
    def of(cls, trace: Trace, *, lines: bool | Collection[str] = False) -> Film:
        """Make the film of a trace.

        Args:
            trace: what to show.
            lines: whether to step through the Lua of script calls too: True for all, or the names of some scripts.

        Raises:
            ScriptMissing, ScriptArity: `lines` was asked for, and the trace's set is not the one its calls ran with.
        """
        return _Making(trace, lines).film()

    def payload(self) -> dict[str, Any]:
        """The film as JSON, for the player in the browser."""
        return {
            "boards": list(self.boards),
            "sources": [
                {
                    "name": source.name,
                    "lines": list(source.lines),
                    "moves": [{"name": name, "line": line} for name, line in source.moves],
                }
                for source in self.sources
            ],
            "frames": [frame.payload() for frame in self.frames],
        }

    def transcript(self) -> str:
        """Every sentence, numbered, with what changed below it: the film for a reader of plain text."""
        lines = []
        for number, frame in enumerate(self.frames):
            lines.append(f"{number}. {frame.sentence}")
            lines += [f"     {mark} {words}" for mark, words in frame.diff]
        return "\n".join(lines)

    def twin(self, key: str = "") -> str:
        """The film as a page that needs neither a kernel nor JavaScript: a list of steps that open to pictures.

        Args:
            key: what a player finds its twin by, to hide it once it is alive itself.

        Returns:
            HTML. Every sentence and every change is in it; in a long film the pictures of some frames are left out, of
            lines first and of calls next.
        """
        pictured = _pictured(self.frames)
        open_ = max((number for number in pictured), default=0)
        steps = "".join(
            self._step(number, frame, number in pictured, number == open_) for number, frame in enumerate(self.frames)
        )
        head = f"<b>{escape(self.title)}</b>, {len(self.frames)} steps. Open a step to see what it did."
        return (
            f'<div class="emqkit-twin" data-emqkit-twin="{escape(key)}"><style>{BOARD_CSS}{TWIN_CSS}</style>'
            f'<p>{head}</p><ol start="0">{steps}</ol></div>'
        )

    def _step(self, number: int, frame: Frame, pictured: bool, is_open: bool) -> str:
        diff = "".join(f"<li><b>{MARKS[mark]}</b> {escape(words)}</li>" for mark, words in frame.diff)
        changed = f"<ul>{diff}</ul>" if diff else "<p>Nothing changed.</p>" if number else ""
        inside = f"{changed}{self.boards[frame.board] if pictured else ''}"
        return (
            f'<li class="emqkit-depth{frame.depth}"><details{" open" if is_open else ""}>'
            f"<summary>{escape(frame.sentence)}</summary><p><small>{escape(frame.where)}</small></p>{inside}</details></li>"
        )


TWIN_CSS = (
    theme_css(".emqkit-twin")
    + """
.emqkit-twin{font-size:14px;line-height:1.5;color:var(--emq-ink);max-width:1200px}
.emqkit-twin ol{padding-left:2.6em;margin:.4em 0}
.emqkit-twin ul{list-style:none;padding-left:1.2em;margin:.3em 0 .8em}
.emqkit-twin summary{cursor:pointer;padding:.15em 0}
.emqkit-twin p{margin:.2em 0 .5em}
.emqkit-twin .emqkit-depth1{margin-left:1.4em}
.emqkit-twin .emqkit-depth2{margin-left:2.8em}
"""
)


def _pictured(frames: tuple[Frame, ...]) -> set[int]:
    """Which frames of a twin get their picture: all, or the coarsest, evenly spaced where those are too many."""
    for deepest in (2, 1, 0):
        chosen = [number for number, frame in enumerate(frames) if frame.depth <= deepest]
        if len(chosen) <= _PICTURES_IN_A_TWIN:
            return set(chosen)
    last = len(chosen) - 1
    return {chosen[last * step // (_PICTURES_IN_A_TWIN - 1)] for step in range(_PICTURES_IN_A_TWIN)}


# --- making one ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shot:
    """A frame before its picture is drawn: what it is drawn of, and what it is compared with."""

    before: Snapshot | None
    after: Snapshot
    sentence: str
    where: str
    depth: int = 0
    script: Script | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class _Making:
    """Collects the shots of a trace, plans one layout for all, then draws."""

    def __init__(self, trace: Trace, lines: bool | Collection[str]) -> None:
        self._trace = trace
        self._lines = lines
        self._steps = trace.steps
        self._names = Names.of_trace(trace)
        totals: dict[int, int] = {}
        for step in self._steps:
            totals[step.run] = max(totals.get(step.run, 0), step.number)
        self._totals = totals

    def film(self) -> Film:
        shots = list(self._shots())
        if self._trace.error is not None:
            last = shots[-1]
            name = self._steps[-1].operation if self._steps else "The operation"
            words = f"{last.sentence} {name} raises {type(self._trace.error).__name__}."
            shots[-1] = _Shot(last.before, last.after, words, last.where, last.depth, last.script, last.extra)
        layout = boards.plan((shot.before, shot.after) for shot in shots)
        drawn: dict[str, int] = {}
        shown: dict[str, int] = {}
        sources: list[Source] = []
        frames = []
        for shot in shots:
            changes = () if shot.before is None else diff(shot.before, shot.after)
            picture = boards.board(shot.after, previous=shot.before, plan=layout, names=self._names, styled=False)
            at = None
            if shot.script is not None:
                at = shown.setdefault(shot.script.sha, len(shown))
                if at == len(sources):
                    sources.append(_source(shot.script))
            frames.append(
                Frame(
                    board=drawn.setdefault(picture, len(drawn)),
                    sentence=shot.sentence,
                    where=shot.where,
                    diff=tuple(changes_in_words(changes, self._names)),
                    depth=shot.depth,
                    source=at,
                    **shot.extra,
                )
            )
        operations = list(dict.fromkeys(step.operation for step in self._steps))
        title = ", ".join(name for name in operations if name) or "nothing yet"
        return Film(tuple(frames), tuple(drawn), tuple(sources), elided(title, 80))

    def _shots(self) -> Iterator[_Shot]:
        yield _Shot(None, self._trace.initial, text.start_sentence(self._trace.initial), "the start")
        for step in self._steps:
            yield from self._step(step)

    def _step(self, step: Step) -> Iterator[_Shot]:
        scripts = self._trace.scripts
        total = self._totals[step.run]
        where = f"{step.operation or 'an operation'} · round trip {step.number} of {total}"
        if step.mark:
            where = step.operation
        one = len(step.flush.calls) == 1
        verdict = ""  # whether the lines that were stepped ended as the recorded call did
        if not step.flush.atomic:
            for number, record in enumerate(step.calls, start=1):
                at = where if one else f"{where} · call {number} of {len(step.flush.calls)}"
                stepped = self._stepped(record)
                if stepped is not None:
                    yield from self._inside(record, stepped, at)
                    verdict = f" {stepped.sentence if stepped.error else stepped.agreement}"
                if not one:
                    words = text.sentence(record, scripts, self._names) + verdict
                    verdict = ""
                    yield _Shot(record.before, record.after, words, at, 1, *self._script(record))
        lua: tuple[Script | None, dict[str, Any]] = self._script(step.calls[0]) if one and step.calls else (None, {})
        yield _Shot(step.before, step.after, text.step_sentence(step, scripts, self._names) + verdict, where, 0, *lua)

    def _stepped(self, record: CallRecord) -> Stepped | None:
        """A script call line by line, where that was asked for."""
        verb = record.call.verb
        if record.call.kind != "script" or not (self._lines is True or (self._lines and verb in self._lines)):
            return None
        from emqkit.stepper import step_call

        return step_call(record, record.scripts or self._trace.scripts)

    def _inside(self, record: CallRecord, stepped: Stepped, where: str) -> Iterator[_Shot]:
        """The lines of a script call."""
        verb = record.call.verb
        script, named = self._script(record)
        before = record.before
        for moment in stepped.moments:
            asked = tuple((one.call_text, one.reply_text) for one in moment.asked)
            words = _line_sentence(verb, moment.line.number, stepped.source, moment.line.move, asked)
            extra = named | {
                "line": moment.line.number,
                "move": moment.line.move,
                "locals": moment.line.locals,
                "asked": asked,
            }
            yield _Shot(before, moment.after, words, f"{where} · inside {verb}", 2, script, extra)
            before = moment.after

    def _script(self, record: CallRecord) -> tuple[Script | None, dict[str, Any]]:
        """The script a call ran, and its KEYS and ARGV by their names in the header."""
        call, scripts = record.call, record.scripts or self._trace.scripts
        if call.kind != "script":
            return None, {}
        try:
            script, view = scripts[call.verb], scripts.view(call)
        except (ScriptMissing, ScriptArity):
            return None, {}
        return script, {"keys": _shown(view.keys.pairs), "argv": _shown(view.args.pairs)}


def _shown(named: Collection[tuple[str, bytes]]) -> Named:
    return tuple((name, elided(plain(value), 120)) for name, value in named)


def _source(script: Script) -> Source:
    return Source(script.name, tuple(script.source.splitlines()), tuple((one.name, one.line) for one in script.moves))


def _line_sentence(verb: str, number: int, source: str, move: str | None, asked: Named) -> str:
    lines = source.splitlines()
    code = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    at = f"{verb}, line {number}{f', move {move}' if move else ''}: {elided(code, 90)}"
    answers = [f"{elided(call, 80)} answers {elided(reply, 60)}" for call, reply in asked]
    return f"{at} · {'; '.join(answers)}" if answers else at
