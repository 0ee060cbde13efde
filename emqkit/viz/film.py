"""A film is a trace as a sequence of frames: a sentence, who acts, what changed on the stage, the code that did it.

    film = Film.of(trace)                      # round trips and the calls in them
    film = Film.of(trace, lines=True)          # and every Lua line of every script call
    film.frames[3].sentence

Frames stand finest first: the lines of a call, then the call, and after the calls of a flush the round trip as a whole.
So stepping over means the next frame that is no deeper than this one, and stepping out the next that is less deep.

A frame holds what changed, not a picture: whoever shows a film builds the stage from the frames before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emqkit import keys
from emqkit.errors import ScriptArity, ScriptMissing
from emqkit.scripts import Script
from emqkit.snapshot import Change, Snapshot, diff
from emqkit.trace import CallRecord, Step, Trace
from emqkit.viz.cast import Cast
from emqkit.viz.host import Excerpt, excerpt
from emqkit.viz.lines import told
from emqkit.viz.stage import LANES, Fact, Op, Stage
from emqkit.wire import ErrorReply, Spot
from emqkit.words import calls as text
from emqkit.words.changes import changes_in_words, telling
from emqkit.words.names import Names
from emqkit.words.text import elided, plain

__all__ = ["CHANGES", "LINES", "LOOPS", "TRIPS", "Film", "Frame", "Source", "differing", "in_step"]

Named = tuple[tuple[str, str], ...]

CHANGES, TRIPS, LINES, LOOPS = range(4)
"""How fine a frame is: a step that changes or is refused something, any call, a Lua line, a line inside a loop."""

_POLLS = ("promote", "reap", "claim")
"""Scripts that ask whether there is anything to do: one that finds nothing is no step worth a stop."""

LONGEST = 120

MANY = 200
"""How many plain commands of one flush are still told one by one."""

TOLD = 400
"""How many steps are told where nobody can step: of a longer film only those that matter, and no more of them."""


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
        sentence: what happened.
        where: operation, round trip and call, in words.
        diff: what changed, as (mark, text) lines.
        depth: 0 a round trip, 1 a call inside a flush of several, 2 a line of a script, 3 and more a line in a loop.
        level: how fine it is; a player that shows changes stops at `CHANGES` alone.
        since: the frame its changes are counted from.
        ops: which facts of the stage became others since the frame before.
        meanwhile: how many of those, the first ones, somebody else did between two round trips.
        step: which round trip of the trace, counted from 0; -1 at the start.
        actor: who acts, a number in the film's cast; None for nobody.
        event: `crash`, `lapse` or `death`, which the slider marks; mostly nothing.
        host: which of the film's paths through the host's code sent it; None where that is not known.
        source: which of the film's scripts; None where there is none.
        line: the line that ran, from 1; None outside a script.
        move: the move the line belongs to.
        keys: KEYS, named as the script's header does.
        argv: ARGV, likewise.
        locals: the script's local variables, as text.
        asked: the calls the line made, each with its answer.
    """

    sentence: str
    where: str
    diff: tuple[tuple[str, str], ...] = ()
    depth: int = 0
    level: int = CHANGES
    since: int = 0
    ops: tuple[Op, ...] = ()
    meanwhile: int = 0
    step: int = -1
    actor: int | None = None
    event: str = ""
    host: int | None = None
    source: int | None = None
    line: int | None = None
    move: str | None = None
    keys: Named = ()
    argv: Named = ()
    locals: Named = ()
    asked: Named = ()


@dataclass(frozen=True)
class Film:
    """The frames of a trace, and what they share.

    Attributes:
        frames: first the start, before anything was sent.
        sources: the scripts, each once.
        paths: the ways through the host's code, each once: functions from the outermost to the innermost.
        actors: who acts.
        jobs: each (queue, id) that is ever on the stage, in byte order of the ids.
        queues: the queues, in the order they appear.
        peaks: the most chips a (queue, lane) ever has.
        names: what a job is called.
        title: whose trace it is, such as `flows.add`.
    """

    frames: tuple[Frame, ...]
    sources: tuple[Source, ...]
    paths: tuple[tuple[Excerpt, ...], ...]
    actors: tuple[str, ...]
    jobs: tuple[tuple[str, str], ...]
    queues: tuple[str, ...]
    peaks: dict[tuple[str, str], int]
    names: Names
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

    def stages(self) -> Iterator[tuple[dict[Fact, str], dict[Fact, str]]]:
        """Frame by frame the whole stage, and the facts the frame changed, each with its mark.

        Returns:
            Pairs of one mapping that is carried on from frame to frame, and a new one: fact → `+` new, `-` gone, `~`
            another text.
        """
        facts: dict[Fact, str] = {}
        past: dict[Fact, list[tuple[int, str | None]]] = {}  # fact → what it became, and at which op of the whole film
        starts, counted = [0], 0
        for number, frame in enumerate(self.frames):
            for fact, value in frame.ops:
                past.setdefault(fact, []).append((counted, value))
                counted += 1
                if value is None:
                    facts.pop(fact, None)
                else:
                    facts[fact] = value
            starts.append(counted)
            marks: dict[Fact, str] = {}
            for earlier in range(frame.since + 1, number + 1) if number else ():
                first = starts[earlier] + self.frames[earlier].meanwhile
                for at, (fact, _) in enumerate(self.frames[earlier].ops[self.frames[earlier].meanwhile :], first):
                    if fact not in marks:
                        was = next((value for place, value in reversed(past[fact]) if place < at), None)
                        now = facts.get(fact)
                        marks[fact] = "" if was == now else "+" if was is None else "-" if now is None else "~"
            yield facts, {fact: mark for fact, mark in marks.items() if mark}

    @property
    def told(self) -> tuple[int, ...]:
        """The frames that a page nobody can step in tells."""
        if len(self.frames) <= TOLD:
            return tuple(range(len(self.frames)))
        return tuple(at for at, frame in enumerate(self.frames) if frame.level == CHANGES)[:TOLD]

    def transcript(self) -> str:
        """The sentences, numbered, with what changed below each: the film for a reader of plain text."""
        lines = []
        for number in self.told:
            frame = self.frames[number]
            lines.append(f"{number}. {frame.sentence}")
            shown = frame.diff if len(frame.diff) <= MANY else frame.diff[:MANY]
            lines += [f"     {mark} {words}" for mark, words in shown]
            lines += [f"     and {len(frame.diff) - MANY} more"] if len(frame.diff) > MANY else []
        if len(self.told) < len(self.frames):
            lines.append(f"{len(self.told)} of {len(self.frames)} steps.")
        return "\n".join(lines)

    def payload(self) -> dict[str, Any]:
        """The film as JSON, for the player in the browser: every text once, and numbers in its place."""
        return _Packed(self).payload()


def in_step(films: Sequence[Film]) -> list[list[int]]:
    """Which frames are shown together: a film's own, or of two films those of the same round trip, one by one."""
    if len(films) == 1:
        return [[at] for at in range(len(films[0].frames))]
    by_step: list[dict[int, list[int]]] = []
    for film in films:
        found: dict[int, list[int]] = {}
        for at, frame in enumerate(film.frames):
            found.setdefault(frame.step, []).append(at)
        by_step.append(found)
    pairs: list[list[int]] = []
    here = [0] * len(films)
    for step in sorted(set().union(*by_step)):
        rounds = [found.get(step, []) for found in by_step]
        for place in range(max(map(len, rounds))):
            here = [one[min(place, len(one) - 1)] if one else at for one, at in zip(rounds, here, strict=True)]
            pairs.append(here)
    return pairs


def differing(films: Sequence[Film], pairs: Sequence[Sequence[int]]) -> list[str]:
    """The lanes, as `QUEUE LANE`, in which the films are not alike at some moment."""
    lanes: list[list[dict[str, dict[str, str]]]] = []
    for film in films:
        now: dict[str, dict[str, str]] = {}
        seen = []
        for frame in film.frames:
            for fact, value in frame.ops:
                if fact[0] != "set":
                    continue
                lane = dict(now.get(f"{plain(fact[1])} {fact[2]}", {}))
                if value is None:
                    lane.pop(fact[3], None)
                else:
                    lane[fact[3]] = value
                now = now | {f"{plain(fact[1])} {fact[2]}": lane}
            seen.append(now)
        lanes.append(seen)
    found: dict[str, None] = {}
    for pair in pairs:
        one, *others = (seen[at] for seen, at in zip(lanes, pair, strict=True))
        for other in others:
            found |= dict.fromkeys(lane for lane in {**one, **other} if one.get(lane, {}) != other.get(lane, {}))
    return list(found)


# --- making one ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shot:
    """A frame before it is finished: the keyspace it leads to, and from which other frame its changes are counted."""

    before: Snapshot
    after: Snapshot
    changes: Sequence[Change]
    sentence: str
    where: str
    depth: int = 0
    level: int = CHANGES
    script: Script | None = None
    step: int | None = None
    calls: int | None = None
    host: tuple[Spot, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)


class _Making:
    """Goes through a trace once, and follows the stage and the cast on the way."""

    def __init__(self, trace: Trace, lines: bool | Collection[str]) -> None:
        self._trace = trace
        self._lines = lines
        self._steps = trace.steps
        self._names = Names.of_trace(trace)
        self._totals: dict[int, int] = {}
        for step in self._steps:
            self._totals[step.run] = max(self._totals.get(step.run, 0), step.number)

    def film(self) -> Film:
        stage, cast = Stage(self._names), Cast(self._trace)
        frames: list[Frame] = []
        sources: list[Source] = []
        shown: dict[str, int] = {}
        paths: dict[tuple[Spot, ...], int] = {}
        ops = list(stage.begin(self._trace.initial))
        who = cast.start()
        ops += list(who.items())
        start = text.start_sentence(self._trace.initial)
        frames.append(Frame(start, "the start", ops=tuple(ops)))
        here = self._trace.initial
        ends = {id(here): 0}  # at which frame a snapshot was reached
        for shot in self._shots():
            meanwhile = 0
            ops = []
            if shot.before is not here and shot.depth < 2 and (between := diff(here, shot.before)):
                if shot.calls is not None or shot.step is None or not self._apart(self._steps[shot.step]):
                    ops += stage.move(between, shot.before)
                    meanwhile, here = len(ops), shot.before
            if shot.after is not here:
                ops += stage.move(shot.changes if shot.before is here else diff(here, shot.after), shot.after)
                here = shot.after
            if shot.step is not None and shot.depth < 2:
                told_now = cast.follow(shot.step, shot.calls, stage.facts)
                ops += [(fact, None) for fact in who if fact not in told_now]
                ops += [(fact, value) for fact, value in told_now.items() if who.get(fact) != value]
                who = told_now
            at = None
            if shot.script is not None:
                at = shown.setdefault(shot.script.sha, len(shown))
                if at == len(sources):
                    sources.append(_source(shot.script))
            frames.append(
                Frame(
                    sentence=shot.sentence,
                    where=shot.where,
                    diff=tuple(changes_in_words(shot.changes, self._names)),
                    depth=shot.depth,
                    level=shot.level,
                    since=ends.get(id(shot.before), len(frames) - 1),
                    ops=tuple(ops),
                    meanwhile=meanwhile,
                    step=-1 if shot.step is None else shot.step,
                    actor=None if shot.step is None else cast.of[shot.step],
                    event="" if shot.step is None else _event(self._steps[shot.step], ops),
                    host=paths.setdefault(shot.host, len(paths)) if shot.host else None,
                    source=at,
                    **shot.extra,
                )
            )
            ends[id(shot.after)] = len(frames) - 1
        if self._trace.error is not None:
            name = self._steps[-1].operation if self._steps else "The operation"
            words = f"{frames[-1].sentence} {name} raises {type(self._trace.error).__name__}."
            frames[-1] = replace(frames[-1], sentence=words)
        operations = list(dict.fromkeys(step.operation for step in self._steps))
        return Film(
            frames=tuple(_levelled(frames)),
            sources=tuple(sources),
            paths=tuple(tuple(map(excerpt, spots)) for spots in paths),
            actors=cast.actors,
            jobs=tuple(sorted(stage.jobs, key=lambda job: (keys.text(job[1]), job[0]))),
            queues=tuple(stage.queues),
            peaks=dict(stage.peaks),
            names=self._names,
            title=elided(", ".join(name for name in operations if name) or "nothing yet", 80),
        )

    @staticmethod
    def _apart(step: Step) -> bool:
        """Is the step told call by call? Many plain commands in one flush are told as one."""
        calls = step.flush.calls
        scripts = any(call.kind == "script" for call in calls)
        return len(calls) > 1 and not step.flush.atomic and (scripts or len(calls) <= MANY)

    def _shots(self) -> Iterator[_Shot]:
        for number, step in enumerate(self._steps):
            yield from self._step(number, step)

    def _step(self, number: int, step: Step) -> Iterator[_Shot]:
        scripts = self._trace.scripts
        total = self._totals[step.run]
        where = f"{step.operation or 'an operation'} · round trip {step.number} of {total}"
        if step.mark:
            where = step.operation
        one = len(step.flush.calls) == 1
        by_call = not step.flush.atomic and any(call.kind == "script" for call in step.flush.calls)
        verdict = ""  # whether the lines that were stepped ended as the recorded call did
        apart = self._apart(step)
        if apart or one:
            for place, record in enumerate(step.calls, start=1):
                at = where if one else f"{where} · call {place} of {len(step.flush.calls)}"
                if self._steps_into(record):
                    verdict = yield from self._inside(record, at, number, step.host)
                if apart:
                    words = text.sentence(record, scripts, self._names) + verdict
                    verdict = ""
                    level = CHANGES if by_call and _matters(record) else TRIPS
                    shot = _Shot(record.before, record.after, record.diff, words, at, 1, level)
                    script, extra = self._script(record)
                    yield replace(shot, script=script, extra=extra, step=number, calls=place, host=step.host)
        lua: tuple[Script | None, dict[str, Any]] = self._script(step.calls[0]) if one and step.calls else (None, {})
        matters = bool(step.mark) or step.lost is not None
        if one or step.flush.atomic:
            matters = matters or any(map(_matters, step.calls))
        elif not by_call:
            matters = matters or any(telling(step.diff)) or any(isinstance(r.reply, ErrorReply) for r in step.calls)
        words = text.step_sentence(step, scripts, self._names) + verdict
        level = CHANGES if matters else TRIPS
        shot = _Shot(step.before, step.after, step.diff, words, where, 0, level)
        yield replace(shot, script=lua[0], step=number, host=step.host, extra=lua[1])

    def _steps_into(self, record: CallRecord) -> bool:
        verb = record.call.verb
        return record.call.kind == "script" and (self._lines is True or bool(self._lines and verb in self._lines))

    def _inside(self, record: CallRecord, where: str, number: int, host: tuple[Spot, ...]) -> Any:
        """The lines of a script call; returns whether they ended as the call did, as a sentence."""
        from emqkit.stepper import step_call

        stepped = step_call(record, record.scripts or self._trace.scripts)
        script, named = self._script(record)
        reached = record.before
        for one in told(stepped):
            line = one.moment.line
            after = reached if not one.moment.asked and not one.asked else one.moment.after
            extra = named | {"line": line.number, "move": line.move, "locals": line.locals, "asked": one.asked}
            shot = _Shot(reached, after, () if after is reached else diff(reached, after), one.sentence, where)
            at = f"{where} · inside {record.call.verb}"
            level = LINES if one.depth == 0 else LOOPS
            yield replace(
                shot, where=at, depth=2 + one.depth, level=level, script=script, step=number, host=host, extra=extra
            )
            reached = after
        return f" {stepped.sentence if stepped.error else stepped.agreement}"

    def _script(self, record: CallRecord) -> tuple[Script | None, dict[str, Any]]:
        """The script a call ran, and its KEYS and ARGV by their names in the header."""
        call, scripts = record.call, record.scripts or self._trace.scripts
        if call.kind != "script":
            return None, {}
        try:
            script = scripts[call.verb]
            view = script.view(call.keys, call.args)
        except (ScriptMissing, ScriptArity):
            return None, {}
        return script, {"keys": _shown(view.keys.pairs), "argv": _shown(view.args.pairs)}


def _event(step: Step, ops: Sequence[Op]) -> str:
    """What of a step is to be found again on the slider: who crashed, whose lease lapsed, that a job died."""
    if step.fault == "crash" or " crashes " in step.mark:
        return "crash"
    if step.fault == "lapse" or " lapses" in step.mark:
        return "lapse"
    died = any(fact[0] == "set" and fact[2] == "dead" and value is not None for fact, value in ops)
    return "death" if died else ""


def _matters(record: CallRecord) -> bool:
    """Is a call a change or a refusal, or at least an attempt at one?"""
    if isinstance(record.reply, ErrorReply) or any(telling(record.diff)):
        return True
    return record.call.kind == "script" and not (record.call.verb in _POLLS and not record.reply)


def _levelled(frames: list[Frame]) -> list[Frame]:
    """The last frame is always a stop; and where nothing matters, everything does."""
    if all(frame.level > CHANGES for frame in frames[1:]):
        frames = [replace(frame, level=CHANGES) if frame.level == TRIPS else frame for frame in frames]
    return [*frames[:-1], replace(frames[-1], level=CHANGES)]


def _shown(named: Collection[tuple[str, bytes]]) -> Named:
    shown = tuple((name, elided(plain(value), LONGEST)) for name, value in list(named)[:60])
    return (*shown, ("…", f"and {len(named) - 60} more")) if len(named) > 60 else shown


def _source(script: Script) -> Source:
    return Source(script.name, tuple(script.source.splitlines()), tuple((one.name, one.line) for one in script.moves))


# --- for the browser --------------------------------------------------------------------------------------------------


class _Packed:
    """A film with each of its texts once."""

    def __init__(self, film: Film) -> None:
        self.film = film
        self.texts: dict[str, int] = {}
        self.facts: dict[Fact, int] = {}
        self.jobs = {job: number for number, job in enumerate(film.jobs)}
        self.queues = {queue: number for number, queue in enumerate(film.queues)}
        self.by_id: dict[str, int] = {}
        for number, (_, id) in enumerate(film.jobs):
            self.by_id.setdefault(id, number)

    def payload(self) -> dict[str, Any]:
        film = self.film
        frames = [self._frame(frame) for frame in film.frames]
        return {
            "title": film.title,
            "frames": frames,
            "facts": [self._fact(fact) for fact in self.facts],
            "texts": list(self.texts),
            "jobs": [[film.names(id), plain(id), self.queues[queue]] for queue, id in film.jobs],
            "queues": [
                [plain(queue), keys.slot(keys.base(queue)), [film.peaks.get((queue, lane), 0) for lane in LANES]]
                for queue in film.queues
            ],
            "actors": list(film.actors),
            "sources": [
                {"name": one.name, "lines": list(one.lines), "moves": [list(move) for move in one.moves]}
                for one in film.sources
            ],
            "paths": [[self._excerpt(one) for one in path] for path in film.paths],
        }

    def _frame(self, frame: Frame) -> dict[str, Any]:
        packed: dict[str, Any] = {"s": self._text(frame.sentence), "w": self._text(frame.where), "n": frame.since}
        ops = []
        for fact, value in frame.ops:
            ops += [self.facts.setdefault(fact, len(self.facts)), -1 if value is None else self._text(value)]
        more: dict[str, Any] = {
            "f": ops,
            "d": frame.depth,
            "l": frame.level,
            "b": frame.meanwhile,
            "x": self._pairs(frame.diff[:TOLD]),
            "y": max(0, len(frame.diff) - TOLD),
            "e": frame.event,
            "k": self._pairs(frame.keys),
            "v": self._pairs(frame.argv),
            "o": self._pairs(frame.locals),
            "q": self._pairs(frame.asked),
        }
        packed |= {name: value for name, value in more.items() if value}
        numbers = {"a": frame.actor, "h": frame.host, "c": frame.source, "i": frame.line}
        packed |= {name: value for name, value in numbers.items() if value is not None}
        if frame.move is not None:
            packed["m"] = self._text(frame.move)
        return packed

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _pairs(self, pairs: Named) -> list[int]:
        return [self._text(part) for pair in pairs for part in pair]

    def _fact(self, fact: Fact) -> list[Any]:
        """A fact with numbers for its queue and its job; what is in the end is text."""
        kind, *rest = fact
        if kind in ("set", "fan", "in", "row", "box", "queue", "other"):
            rest[0] = str(self.queues.get(rest[0], -1))
        if kind in ("fan", "in", "row"):
            rest[1] = str(self.jobs[fact[1], fact[2]])
        elif kind == "set":
            rest[2] = str(self.jobs[fact[1], fact[3]])
        if kind == "in" or (kind == "who" and len(rest) > 2):
            rest[-2 if kind == "who" else 3] = self.film.names(fact[4 if kind == "in" else 3])
        return [kind, *map(plain, rest)]

    def _excerpt(self, one: Excerpt) -> dict[str, Any]:
        numbers = [number for number, _ in one.lines]
        return {
            "name": one.name,
            "numbers": numbers,
            "lines": [line for _, line in one.lines],
            "marked": list(one.marked),
        }
