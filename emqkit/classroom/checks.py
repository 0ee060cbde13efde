"""A check judges what a learner handed in by running it: their code, the real scripts, the real explorer.

    answer = check("counter", prediction)
    answer                        # a sentence; a check that is not met is an answer, not an exception
    answer.hint()                 # one rung further each time

An exercise says what is asked, on which script set, and how that is judged. Nothing here knows a solution: a prediction
is compared with what really happens, an operation or a transition is explored in a world, an invariant is judged by the
mistakes it notices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from emqkit.classroom.bounds import MOST_CALLS, MOST_STATES, SECONDS, Room, TimeUp, shipped_set, within
from emqkit.classroom.handed import NotThat, Raised, Remote, promise_of, script_of
from emqkit.classroom.hints import Classic, Feedback, Judgement, lua_error, lua_line, marks, of_history
from emqkit.classroom.plain import lua_in_words, python_in_words
from emqkit.errors import EmqError, ForeignLua, ScriptBroken, ScriptStopped
from emqkit.scripts import ScriptSet
from emqkit.servers.fake import open_fake
from emqkit.sim.history import History, wrong_with
from emqkit.sim.promises import PROMISES, Promise
from emqkit.sim.report import Result
from emqkit.sim.search.bench import Unrunnable
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.judge import Violation
from emqkit.sim.search.model import ActorFailed, SilentActor
from emqkit.sim.search.walk import Replay, walk_along
from emqkit.sim.worlds.actors import Kit
from emqkit.sim.worlds.world import World
from emqkit.trace import Trace, record

__all__ = [
    "NOTHING",
    "Came",
    "Exercise",
    "Judging",
    "Kind",
    "NotMet",
    "judge_history",
    "judge_lua",
    "judge_prediction",
    "judge_promise",
    "judged",
    "of_result",
    "promises",
]

Kind = Literal["predict", "write", "find", "defend", "post-mortem"]

NOTHING = ("Nothing is handed in yet: put your answer where the dots are, run that cell, then this one.",)
LONGEST_HISTORY = 30
"""Moves a history that is handed in may have: making each costs a few real calls."""
SLOW = "It did not come to an end within {} seconds. Is there a loop in it that never ends?"


class NotMet(EmqError):
    """Raised instead of answered where nbgrader marks: it gives points for what raises nothing. It shows no frames."""


def promises(*names: str) -> tuple[Promise, ...]:
    """Promises by name, in this order."""
    return tuple(next(promise for promise in PROMISES if promise.name == name) for name in names)


class Judging:
    """One judging: what it may still cost, and the ways to run things.

    Attributes:
        calls: the real calls made so far.
    """

    def __init__(self, room: Room) -> None:
        self.room = room
        self.calls = 0

    def explore(
        self,
        world: World,
        scripts: ScriptSet | str = "published",
        among: tuple[Promise, ...] = PROMISES,
        *,
        until: str | None = None,
    ) -> Result:
        """Explore a world on a script set, as far as the calls last."""
        place = self.room.place(shipped_set(scripts) if isinstance(scripts, str) else scripts)
        explorer = Explorer(world, place, among)
        explorer.search(max_states=MOST_STATES, max_calls=MOST_CALLS - self.calls, until=until)
        self.calls += explorer.bench.calls
        if explorer.stopped == "interrupted":
            raise KeyboardInterrupt
        return Result.of(explorer)

    def run(self, doing: Callable[[Kit], Any], scripts: str = "published") -> tuple[Trace, Any]:
        """Do something for real, and record it: the trace, and what it came to."""
        with open_fake(shipped_set(scripts)) as place, record(place) as trace:
            value = doing(Kit(place))
        self.calls += len(trace.calls)
        return trace, value

    def replay(self, handed: object, world: World, scripts: str, promise: str) -> Replay:
        """Make the moves of a history that was handed in again. Raises `NotThat` if it is none of this world."""
        saved = _saved(handed)
        if saved["scenario"] != world.name:
            raise NotThat(f"This history is of {saved['scenario']}, and the one asked for is of {world.name}.")
        if len(saved["moves"]) > LONGEST_HISTORY:
            raise NotThat(f"This history has {len(saved['moves'])} moves; a shorter one is asked for, of up to 30.")
        return walk_along(world, saved["moves"], promise, shipped_set(scripts), "fake://")


def _saved(handed: object) -> dict[str, Any]:
    """A history as JSON holds it; nothing of it is believed."""
    if isinstance(handed, Violation):
        handed = handed.history
    if isinstance(handed, History):
        handed = handed.as_json()
    if wrong := wrong_with(handed):
        raise NotThat(f"Hand in a history, such as `walk.history`: {wrong}.")
    assert isinstance(handed, dict)
    return handed


Judge = Callable[..., Judgement]


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes:
        name: what `check` is given.
        lesson: the notebook it belongs to.
        kind: what is asked for.
        scripts: the script set its judging runs, by name.
        asks: what it asks, in a sentence.
        judge: from a `Judging` and what was handed in to a finding.
        classics: the mistakes that have their own message, the first that fits wins.
        about: the promises it is about, by name.
    """

    name: str
    lesson: str
    kind: Kind
    asks: str
    judge: Judge
    classics: tuple[Classic, ...] = ()
    scripts: str = "published"
    about: tuple[str, ...] = ()


def judged(exercise: Exercise, handed: tuple[Any, ...], room: Room) -> Feedback:
    """The answer to what was handed in; whatever that does, it is an answer. A list is as good as a tuple."""
    handed = tuple(tuple(one) if isinstance(one, list) else one for one in handed)
    finding = _found(exercise, handed, room)
    for classic in exercise.classics if not finding.met and not finding.mistake else ():
        if classic.when(finding, *handed):
            finding = replace(finding, says=classic.says, mistake=classic.name)
            break
    answer = Feedback(exercise.name, finding)
    if not answer and marks():
        raise NotMet(answer.sentence)
    return answer


def _found(exercise: Exercise, handed: tuple[Any, ...], room: Room) -> Judgement:
    if any(one is ... for one in handed) or not handed:
        return Judgement(False, NOTHING[0], mistake="nothing handed in")
    text = next((one for one in handed if isinstance(one, str)), "")
    code = next((one.__code__ for one in handed if hasattr(one, "__code__")), None)
    try:
        with within(SECONDS):
            return exercise.judge(Judging(room), *handed)
    except TimeUp:
        room.close()
        return Judgement(False, SLOW.format(f"{SECONDS:g}"), mistake="a loop without end")
    except ScriptStopped as stopped:
        room.close()
        return Judgement(False, f"Your Lua was stopped: {stopped.why}.", mistake="a loop or a bomb")
    except ScriptBroken as broken:
        says = lua_in_words("script", broken.line, broken.why, text.strip("\n"))
        return Judgement(False, says, mistake="broken Lua")
    except ForeignLua:
        says = "Lua of your own runs in a sandbox, which needs the embedded server: pip install 'emqkit[embedded]'."
        return Judgement(False, says, mistake="no sandbox here")
    except ActorFailed as failed:
        if isinstance(failed.error, Remote):
            return Judgement(False, str(failed.error), mistake="broken Python")
        return Judgement(False, python_in_words(failed.error, code), mistake="broken Python")
    except Remote as error:
        return Judgement(False, str(error), mistake="broken Python")
    except Raised as raised:
        if isinstance(raised.error, Remote):
            return Judgement(False, str(raised.error), mistake="broken Python")
        return Judgement(False, python_in_words(raised.error, code), mistake="broken Python")
    except SilentActor:
        return Judgement(False, "Not yet. Your operation makes no call at all.", mistake="makes no call")
    except NotThat as other:
        return Judgement(False, str(other), mistake="something else handed in")
    except EmqError as error:
        return Judgement(False, f"The kit refuses it: {error}", mistake=type(error).__name__)
    except (RecursionError, MemoryError) as error:
        room.close()
        return Judgement(False, python_in_words(error, code), mistake="broken Python")


# --- the usual ways to judge ------------------------------------------------------------------------------------------


def of_result(result: Result, among: tuple[Promise, ...]) -> Judgement:
    """The finding that an exploration comes to: met where every promise asked for holds."""
    broken = [v for v in result.violations if v.promise in [promise.name for promise in among]]
    if broken:
        shortest = min(broken, key=lambda violation: len(violation.history))
        promise = next(promise for promise in among if promise.name == shortest.promise)
        return replace(
            of_history(shortest.history, promise),
            facts={"not kept": {name for name, one in result.verdicts.items() if one.word != "holds"}},
        )
    unknown = [verdict for verdict in result.verdicts.values() if verdict.word != "holds"]
    if unknown:
        verdict = unknown[0]
        says = f"Not yet. No order breaks anything, but {verdict.promise} is not known to hold. {verdict.reason}"
        if result.stopped:
            says += f" The search stopped {result.stopped}."
        rungs = (
            f"{verdict.promise}, {verdict.title}, is what cannot be said to hold.",
            "What was never met was never tried: make sure that your code lets it happen.",
        )
        return Judgement(False, says, rungs)
    named = ", ".join(promise.title if promise.name == "yours" else promise.name for promise in among)
    return Judgement(True, f"Met. In all {result.states:,} states of that world these hold: {named}.")


@dataclass(frozen=True)
class Came:
    """What really happened where a prediction was asked for: the value, and what a wrong one can be told by."""

    value: object
    facts: dict[str, Any] = field(default_factory=dict)


def judge_prediction(
    setting: Callable[[Kit], Any],
    asked: Callable[[Kit, Any], Came],
    wanted: str,
    *rungs: str,
    scripts: str = "published",
) -> Judge:
    """Judge a prediction by what really happens.

    Args:
        setting: what the learner is shown; the last hint plays it.
        asked: what is to be predicted, from what `setting` returned.
        wanted: what a prediction is, as words after "hand in".
        rungs: the hints before.
        scripts: the script set.
    """

    def judge(trial: Judging, handed: object) -> Judgement:
        came: list[Came] = []
        shown: list[int] = []

        def doing(kit: Kit) -> None:
            value = setting(kit)
            shown.append(len(recording(kit)))
            came.append(asked(kit, value))

        trace, _ = trial.run(doing, scripts)
        seen = Trace.assembled(trace.scripts, trace.server_kind, trace.initial, trace.steps[: shown[0]])
        value, facts = came[0].value, came[0].facts | {"right": came[0].value}
        if not _alike(handed, value):
            raise NotThat(f"Hand in {wanted}.")
        if handed == value:
            return Judgement(True, "Met. That is what the scripts do.", facts=facts)
        return Judgement(False, "Not yet. The scripts do something else.", rungs, seen, facts=facts)

    return judge


def recording(kit: Kit) -> Trace:
    """The trace that is being recorded."""
    assert isinstance(kit.server.recorder, Trace)
    return kit.server.recorder


def _alike(one: object, other: object) -> bool:
    """Whether two values are of the same kind, parts included."""
    if isinstance(one, tuple | list) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other)


def judge_history(
    world: World, scripts: str, promise: str, rung: str, lacks: Callable[[History], str] = lambda history: ""
) -> Judge:
    """Judge a history by making its moves again: the promise has to be broken at its end.

    Args:
        world: where.
        scripts: on which script set.
        promise: by name.
        rung: the second hint; the first one is what the promise says.
        lacks: what else it has to show: from the history to what is missing, or nothing.
    """
    (owed,) = promises(promise)

    def judge(trial: Judging, handed: object) -> Judgement:
        done = trial.replay(handed, world, scripts, promise)
        lacking = lacks(done.history) if done.confirmed else ""
        if done.confirmed and not lacking:
            return Judgement(True, f"Met. At the end of your history {promise} is broken: {done.says}.")
        says = f"Not yet. {lacking}" if lacking else f"Not yet. In your history {promise} is kept: {done.says}."
        rungs = (
            f"{promise}, {owed.title}, is what has to break: {owed.says}",
            rung,
        )
        facts = {"confirmed": done.confirmed}
        return Judgement(False, says, rungs, done.history.trace, history=done.history, facts=facts)

    return judge


def judge_lua(script: str, world: World, *among: Promise) -> Judge:
    """Judge a transition that is handed in as text: these promises have to hold in this world."""

    def judge(trial: Judging, handed: object) -> Judgement:
        scripts = script_of(handed, script, shipped_set("published"))
        try:
            result = trial.explore(world, scripts, among)
        except (ScriptBroken, Unrunnable) as broken:
            line, why = lua_line(broken.why)
            says = lua_in_words(script, broken.line or line, why, scripts[script].source)
            return Judgement(False, says, mistake="broken Lua")
        finding = of_result(result, among)
        if finding.history is not None and (error := lua_error(finding.history, script)) is not None:
            says = lua_in_words(script, *error, scripts[script].source)
            return replace(finding, says=says, mistake="broken Lua")
        return finding

    return judge


def judge_promise(mistakes: Mapping[str, World], kept_in: tuple[World, ...]) -> Judge:
    """Judge an invariant by what it notices: each of these mistakes of the zoo, and nothing in what is published."""

    def judge(trial: Judging, handed: object) -> Judgement:
        yours = promise_of(handed)
        tried = [("published", world) for world in kept_in] + [(f"zoo/{n}", world) for n, world in mistakes.items()]
        found: dict[tuple[str, str], Result] = {}
        for scripts, world in random.SystemRandom().sample(
            tried, len(tried)
        ):  # a promise that counts calls shall not know
            found[scripts, world.name] = trial.explore(world, scripts, (yours,), until="yours")
        for world in kept_in:
            if broken := found["published", world.name].violations:
                says = "Not yet. Your promise is not kept by the published scripts, so it asks for more than is owed."
                facts = {"asks too much": True, "noticed": 0}
                return replace(of_history(broken[0].history, yours), says=says, facts=facts)
        missed = [
            (n, world)
            for n, (name, world) in enumerate(mistakes.items(), start=1)
            if not found[f"zoo/{name}", world.name].violations
        ]
        facts = {"noticed": len(mistakes) - len(missed), "asks too much": False}
        if not missed:
            return Judgement(True, f"Met. It notices all {len(mistakes)} mistakes, and finds no fault where none is.")
        says = f"Not yet. It notices {len(mistakes) - len(missed)} of {len(mistakes)} mistakes."
        number, world = missed[0]
        rungs = (f"Mistake {number} goes unnoticed, in a world where this happens: {_crew(world)}.",)
        return Judgement(False, says, rungs, facts=facts)

    return judge


def _crew(world: World) -> str:
    """Who acts in a world, and what may go wrong."""
    return f"{', '.join(world.names)} act, and what may go wrong is {world.faults}"
