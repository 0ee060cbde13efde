"""Predict, then see: a step is asked for before it is shown, and what really happened comes only after an answer.

    Predict(trace, at="complete", nth=-1)                       # wrong answers from the mistakes of the zoo
    Predict(trace, at="flow_deliver", question="The counter?", choices=[2, 1, 0], answer=counter_as_it_was_read)

What is right is kept from everything that a notebook stores: the player is handed the trace up to the step, and the
rest of it leaves Python when an answer is committed to. The verdict does by a message, which nothing stores.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from emqkit import keys
from emqkit.errors import BadArgument, EmqError
from emqkit.keyspace import Keyspace
from emqkit.scripts import ScriptSet
from emqkit.servers import open_server
from emqkit.snapshot import Snapshot, capture, diff, restore
from emqkit.trace import Step, Trace
from emqkit.viz.theme import theme_css
from emqkit.widgets.player import HERE, Drawer, Sentence, StepPlayer
from emqkit.wire import ErrorReply, Reply
from emqkit.words.calls import reply_words, step_sentence
from emqkit.words.changes import changes_in_words
from emqkit.words.names import Names, payloads
from emqkit.words.text import listed

__all__ = ["Predict"]

MOST = 4
"""How many answers are offered, and how many changes an answer tells."""

LONGEST = 60

_NOTHING = "nothing changes"
_ABOUT = ("id", "child_id", "parent_id")
_DULL = ("row", "metrics:completed", "metrics:failed")
"""What an answer leaves out where something else changes too."""


@dataclass(frozen=True)
class _Answer:
    """One answer: what would happen, and of a mistake's whose it is."""

    lines: tuple[str, ...]
    refused: str = ""
    whose: str = ""


class _Question(anywidget.AnyWidget):
    """The question and its answers in the browser; which of them is right is not here."""

    _esm = HERE / "predict.js"
    _css = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)

    @traitlets.default("_css")
    def _read_css(self) -> str:
        return theme_css(".emqkit-predict") + (HERE / "predict.css").read_text("utf-8")


class Predict(widgets.VBox):  # type: ignore[misc]
    """A question about a step of a trace, and the trace up to that step; committing to an answer plays on.

    Args:
        trace: what happened, the step that is asked for included.
        at: which round trip: its number, from 1 or, negative, from the end; or a script or command that it calls.
        nth: of several round trips with that call, which; from 1 or, negative, from the end.
        question: the question; made from the step if left out.
        zoo: the mistakes whose doings are the wrong answers, such as `no-fence`; those that do something else here, if
            left out.
        choices: answers of your own instead.
        answer: with `choices`, the one that is right, as it was found by running it; it joins them if it is none yet.
        through: whether the question is about the end of the trace, so that all of the rest is played.
        lines, drawer: as for `StepPlayer`.

    Attributes:
        chosen: the number of the answer that was committed to, from 1; None before.

    Raises:
        BadArgument: there is no such step or mistake.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        at: int | str = -1,
        nth: int = 1,
        question: str = "",
        zoo: Sequence[str] | None = None,
        choices: Sequence[object] = (),
        answer: object = None,
        through: bool = False,
        lines: bool | Collection[str] = False,
        drawer: Drawer = "",
    ) -> None:
        if not isinstance(trace, Trace):
            raise BadArgument("trace", trace, f"is {type(trace).__name__}, not a trace: run the cell that records one")
        self._trace, self._through = trace, through
        self._place = _place(trace, at, nth)
        self.chosen: int | None = None
        step = trace.steps[self._place]
        names = Names.of_trace(trace)
        if choices:
            answers = [_Answer((text,)) for text in dict.fromkeys(map(str, choices))]
            right = _Answer((str(answer),))
            answers += [] if right in answers else [right]
            if right is answers[-1] and len(answers) > len(choices):  # not at the end, which would give it away
                answers.sort(key=lambda one: _shuffled(question, one.lines))
            texts = [one.lines[0] for one in answers]
        else:
            answers, names = _by_mistakes(trace, step, zoo)
            right, sure = answers[0], _sure(answers)
            answers.sort(key=lambda one: _shuffled(step.operation, (*one.lines, one.refused)))
            texts = [_text(one, sure) for one in answers]
            question = question or _question(trace, step, names, sure)
        self._answers, self._texts, self._right = answers, texts, answers.index(right)
        why = step_sentence(trace.steps[-1] if through else step, trace.scripts, names)
        self._why = f"It ends with this: {why}" if through else why
        self.player = StepPlayer(_until(trace, self._place), lines=lines, drawer=drawer)
        self.player.last()
        self._ask = _Question(question=question or _question(trace, step, names, ()), choices=texts)
        self._ask.on_msg(self._heard)
        super().__init__([self._ask, self.player])
        self.add_class("emqkit-predict-all")

    # --- the verb ---------------------------------------------------------------------------------------------------

    @property
    def question(self) -> str:
        """What is asked."""
        return str(self._ask.question)

    @property
    def choices(self) -> tuple[str, ...]:
        """The answers, of which `choose` takes the number, from 1."""
        return tuple(self._texts)

    @property
    def sentence(self) -> Sentence:
        """The question with its answers; once one is committed to, what really happened."""
        if self.chosen is None:
            offered = "; ".join(f"{number} {text}" for number, text in enumerate(self._texts, start=1))
            return Sentence(f"{self.question} {offered}. Commit to one to see.")
        right, mine = self._called(self._right), self._called(self.chosen - 1)
        if self.chosen - 1 == self._right:
            return Sentence(f"Right: {right}. {self._why}")
        whose = self._answers[self.chosen - 1].whose
        own = f"that is what happens where {whose}" if whose else "that is not what happens"
        return Sentence(f"You said {mine}: {own}. What really happens: {right}. {self._why}")

    def _called(self, place: int) -> str:
        """An answer in a sentence: a long one is called by its number."""
        text = self._texts[place]
        return text if len(text) <= LONGEST else f"answer {place + 1}"

    def choose(self, number: int) -> Sentence:
        """Commit to an answer; the player plays on, and the first answer stays the one that counts.

        Raises:
            BadArgument: there is no such answer.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(self._texts):
            raise BadArgument("number", number, f"is none of the answers, which are 1 to {len(self._texts)}")
        if self.chosen is None:
            self.chosen = number
            self._play_on()
        self._tell()
        return self.sentence

    def _play_on(self) -> None:
        key = self.player.twin_key
        before = len(self.player) - 1
        self.player.load(self._trace, at=before)
        self.player.twin_key = key  # the copy above it stays the one up to here
        if self._through:
            self.player.play()
        else:
            frames = self.player.film.frames
            self.player.index = max(at for at, frame in enumerate(frames) if frame.step <= self._place)

    def _heard(self, _: Any, content: Any, __: Any) -> None:
        """What the browser says: an answer committed to, or a new view that asks whether one was."""
        if isinstance(content, dict) and isinstance(content.get("choose"), int):
            self.choose(content["choose"])
        elif self.chosen is not None:
            self._tell()

    def _tell(self) -> None:
        self._ask.send({"chosen": self.chosen, "right": self._right + 1, "says": self.sentence})

    # --- being shown ------------------------------------------------------------------------------------------------

    def twin(self) -> str:
        """The question, its answers and the trace up to it as HTML that needs neither a kernel nor JavaScript."""
        items = "".join(f"<li>{escape(text)}</li>" for text in self._texts)
        head = f"<p><b>{escape(self.question)}</b></p><ol>{items}</ol>"
        return f"<div>{head}<p>Run this cell to commit to an answer.</p>{self.player.twin()}</div>"

    def transcript(self) -> str:
        """The same in plain text."""
        items = (f"  {number}. {text}" for number, text in enumerate(self._texts, start=1))
        return "\n".join([self.question, *items, self.player.transcript()])

    def __repr__(self) -> str:
        return str(self.sentence)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.twin(), "text/plain": self.transcript()}, raw=True)  # type: ignore[no-untyped-call]
        bundle: Any = super()._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        if data is not None:
            shown = {**data, "text/plain": repr(self)}
            display(shown, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]


# --- the step ---------------------------------------------------------------------------------------------------------


def _place(trace: Trace, at: int | str, nth: int) -> int:
    """Which step is meant, from 0."""
    count = len(trace)
    if not count:
        raise BadArgument("trace", trace, "has no step to ask for: run the cells that fill it again, from the top")
    if isinstance(at, str):
        made = [n for n, step in enumerate(trace.steps) if any(one.call.verb == at for one in step.calls)]
        if not made or not -len(made) <= nth <= len(made) or not nth:
            raise BadArgument("at", at, f"is called {len(made)} times in this trace, and not a time number {nth}")
        return made[nth - 1 if nth > 0 else nth]
    if isinstance(at, bool) or not isinstance(at, int) or not -count <= at <= count or not at:
        raise BadArgument("at", at, f"is no step of this trace, which has steps 1 to {count}")
    return at - 1 if at > 0 else count + at


def _until(trace: Trace, place: int) -> Trace:
    """The same trace, as it was before this step."""
    seen = trace.steps[:place]
    return Trace.assembled(trace.scripts, trace.server_kind, trace.initial, seen, trace.payloads)


def _question(trace: Trace, step: Step, names: Names, sure: Sequence[str]) -> str:
    calls = [_call(trace, step, at, names) for at in range(len(step.flush.calls))]
    so_far = f" This much is sure: {listed(list(sure))}." if sure else ""
    return f"{step.operation} now sends {listed(calls[:3])}.{so_far} What {'else ' if sure else ''}does it change?"


def _call(trace: Trace, step: Step, at: int, names: Names) -> str:
    call = step.flush.calls[at]
    if call.kind != "script":
        return call.verb
    args = (step.calls[at].scripts or trace.scripts if at < len(step.calls) else trace.scripts).view(call).args
    for name in _ABOUT:
        if isinstance(id := args.get(name), bytes):
            return f"{call.verb} for {names(id)}"
    return call.verb


# --- the answers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Done:
    """What a round trip did with some scripts, and of mistaken ones what is wrong in them."""

    replies: tuple[Reply, ...]
    before: Snapshot
    after: Snapshot
    whose: str = ""

    def answer(self, names: Names) -> _Answer:
        """The same in words, without rows and counts where something else changes too."""
        refused = next((reply_words(one) for one in self.replies if isinstance(one, ErrorReply)), "")
        changes = diff(self.before, self.after)
        places = [one for one in changes if not ((at := keys.parse(one.key)) and at.name in _DULL)]
        return _Answer(tuple(words for _, words in changes_in_words(places or changes, names)), refused, self.whose)


def _by_mistakes(trace: Trace, step: Step, zoo: Sequence[str] | None) -> tuple[list[_Answer], Names]:
    """What happened, and then what happens with mistakes in the scripts."""
    done = [_Done(tuple(one.reply for one in step.calls), step.before, step.after), *_mistaken(step, zoo)]
    # a job that lands by a mistake alone has a name too
    known = [*trace.payloads, *(found for one in done for found in payloads(Keyspace.of(one.after)))]
    names = Names.of_trace(Trace.assembled(trace.scripts, trace.server_kind, trace.initial, trace.steps, known))
    answers: list[_Answer] = []
    for one in done:
        other = one.answer(names)
        if all((other.lines, other.refused) != (it.lines, it.refused) for it in answers) and len(answers) < MOST:
            answers.append(other)
    if len(answers) < 2:  # nothing that can go wrong with this step does anything else here
        answers.append(_Answer(() if answers[0].lines else ("something changes",)))
    return answers, names


def _sure(answers: Sequence[_Answer]) -> tuple[str, ...]:
    """The changes that all answers have in common."""
    return tuple(line for line in answers[0].lines if all(line in one.lines for one in answers))


def _mistaken(step: Step, zoo: Sequence[str] | None) -> Iterator[_Done]:
    """What the same round trip does with each mistake of the zoo, from the same keyspace on."""
    from emqkit.sim.worlds.mistakes import MISTAKES  # the explorer comes with it: not before a question is asked

    verbs = {call.verb for call in step.flush.calls}
    for name in MISTAKES if zoo is None else zoo:
        if name not in MISTAKES:
            raise BadArgument("zoo", name, f"is no mistake of the zoo, which has {listed(list(MISTAKES))}")
        scripts, mistaken = _set(MISTAKES[name].scripts)
        if not verbs & mistaken:
            continue
        with open_server("fake://", scripts=scripts) as place:
            restore(place, step.before)
            try:
                replies = place.round_trip(step.flush)
            except EmqError:  # a header of the learner's own: the mistaken script does not take this call
                continue
            yield _Done(replies, step.before, capture(place), MISTAKES[name].says)


@functools.cache
def _set(name: str) -> tuple[ScriptSet, frozenset[str]]:
    """A shipped script set, and which of its scripts are not the published ones."""
    scripts, published = ScriptSet.load(name), ScriptSet.load("published")
    return scripts, frozenset(one.name for one in scripts if one != published[one.name])


def _text(one: _Answer, sure: Sequence[str]) -> str:
    own = [line for line in one.lines if line not in sure]
    shown = own if len(own) <= MOST else [*own[: MOST - 1], f"and {len(own) - MOST + 1} changes more"]
    changes = "; ".join(shown) or ("nothing else" if sure else _NOTHING)
    return f"it is refused ({one.refused}), and {changes}" if one.refused else changes


def _shuffled(salt: str, texts: Sequence[str]) -> str:
    """An order that is the same every time and says nothing."""
    return hashlib.sha256(json.dumps([salt, *texts]).encode()).hexdigest()
