"""What a check answers: a sentence, and on request hints, one rung further each time.

    answer                  # Not yet: …
    answer.hint()           # which promise; then at which moment; then what changed; at last the history, in the player

An answer knows neither how the check looks at things nor what would pass it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emqkit.sim.history import History
from emqkit.sim.promises import Promise
from emqkit.snapshot import diff
from emqkit.trace import Trace
from emqkit.wire import ErrorReply
from emqkit.words.changes import changes_in_words

if TYPE_CHECKING:
    from emqkit.widgets.player import Sentence, StepPlayer

__all__ = ["Classic", "Feedback", "Judgement", "lua_error", "lua_line", "marks", "of_history"]


FULL_MARK = "1.0"
"""What nbgrader reads of a check that is met: the points, as a number."""


def marks() -> bool:
    """Whether nbgrader runs this."""
    return bool(os.environ.get("NBGRADER_EXECUTION"))


@dataclass(frozen=True)
class Judgement:
    """What judging came to.

    Attributes:
        met: whether the exercise is met.
        says: one sentence.
        rungs: the hints in words, in order.
        trace: what the player shows as the last hint; None if there is nothing to show.
        promise: the promise that broke, if one did.
        history: the shortest way there.
        facts: more that a classic mistake can be told by.
        mistake: its name, if it is a known one.
    """

    met: bool
    says: str
    rungs: tuple[str, ...] = ()
    trace: Trace | None = None
    promise: str = ""
    history: History | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    mistake: str = ""


@dataclass(frozen=True)
class Classic:
    """A mistake that many make, told apart from others by what was handed in or by what came of it.

    Attributes:
        name: for the teacher's table.
        says: its own message.
        when: from the finding and what was handed in to whether this is it.
    """

    name: str
    says: str
    when: Callable[..., bool]


class Feedback:
    """An answer to what a learner handed in. It is true when the exercise is met.

    Attributes:
        exercise: its name.
        met: whether it is met.
        sentence: what is to be said.
        mistake: the classic mistake it is, if any.
        promise: the promise that broke, if any.
    """

    def __init__(self, exercise: str, finding: Judgement) -> None:
        self.exercise = exercise
        self.met = finding.met
        self.sentence = finding.says
        self.mistake = finding.mistake
        self.promise = finding.promise
        self._rungs = finding.rungs
        self._trace = finding.trace
        self._at = 0

    def hint(self) -> Sentence | StepPlayer:
        """The next hint: a sentence, or at last the player. After the last one it is the last one again."""
        from emqkit.widgets.player import Sentence, StepPlayer  # a command line needs no widgets

        if self.met:
            return Sentence("There is nothing to hint at: the exercise is met.")
        at, self._at = self._at, self._at + 1
        if at < len(self._rungs):
            return Sentence(self._rungs[at])
        if self._trace is not None and len(self._trace):
            return StepPlayer(self._trace)
        return Sentence(self._rungs[-1] if self._rungs else "There is no further hint: the sentence says all.")

    def __bool__(self) -> bool:
        return self.met

    def __repr__(self) -> str:
        return FULL_MARK if self.met and marks() else self.sentence


def of_history(history: History, promise: Promise, says: str = "") -> Judgement:
    """The finding that a promise is broken by this history.

    Args:
        history: the shortest one there is.
        promise: which one it breaks.
        says: the sentence, if not the usual one.
    """
    last, number = history.moves[-1] if history.moves else None, len(history.moves)
    moves = "move" if number == 1 else "moves"
    named = f"{promise.name}, {promise.title}," if promise.name != "yours" else f"The promise “{promise.title}”"
    rungs = [f"{named} is the one that breaks: {promise.says}"]
    if last is None:
        rungs.append("It is broken from the start, before anybody has moved.")
    else:
        who = f"{last.actor}, in {last.operation}" if last.actor else f"nobody in particular: a {last.kind}"
        before = f" Just before: {history.told(history.moves[-2])}" if number > 1 else ""
        rungs.append(f"It breaks with move {number}, and the one who moves is {who}.{before}")
        changed = [text for _, text in changes_in_words(diff(last.before, last.after), history.names)]
        what = f"That move changes this: {'; '.join(changed)}." if changed else "That move changes nothing."
        rungs.append(f"{what} So {history.says}." if history.says else what)
    return Judgement(
        False,
        says or f"Not yet. There is an order of {number} {moves} after which something that is owed is broken.",
        tuple(rungs),
        history.trace,
        promise.name,
        history,
    )


_LUA_LINE = re.compile(r"user_script:(\d+)\.?")
_LUA_SAYS = re.compile(
    r"^(?:ERR )?(?:user_script:\d+: )?(.*?)(?: script: \w+, on @user_script:\d+\.?| script: on @.*)?$", re.DOTALL
)


def lua_error(history: History, script: str) -> tuple[int, str] | None:
    """The first error with which this script of the learner's ended in a history: its line, and what Lua says."""
    for move in history.moves:
        for call, reply in move.calls:
            if call.verb == script and isinstance(reply, ErrorReply) and not reply.code.startswith("EMQ"):
                return lua_line(str(reply))
    return None


def lua_line(text: str) -> tuple[int, str]:
    """An error reply of a script: the line it names, 0 if none, and what Lua says."""
    line, said = _LUA_LINE.search(text), _LUA_SAYS.search(text)
    return int(line[1]) if line else 0, said[1] if said else text
