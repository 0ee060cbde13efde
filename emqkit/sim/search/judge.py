"""Verdicts: what is known of a promise, from what evidence, and the one place that says `holds`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from emqkit.sim.history import History
from emqkit.trace import Trace

__all__ = ["Evidence", "Gap", "Verdict", "Violation", "Word", "judge"]

Word = Literal["holds", "broken", "unknown"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        states: how many were seen.
        complete: whether they are all there are.
        depth: how many moves deep all of them were seen.
        missing: the witnesses that did not turn up, and whatever else was not tried, as phrases.
        where: the world, its script set and its faults, as a phrase: what a verdict is of.
        untried: the clauses of the promise that this world cannot try, as phrases.
        doubts: what could not be seen, repeated or counted on, as phrases: none of it holds then.
        grows: what was still growing where it was not seen whole, as phrases.
        instants: how many readings of the clock were tried, where a script of one's own reads it; 0 where none does.
    """

    states: int
    complete: bool
    depth: int
    missing: tuple[str, ...] = ()
    where: str = "this world"
    untried: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    instants: int = 0
    grows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """One way a promise breaks, by the shortest history there is.

    Attributes:
        promise: its name.
        says: what is wrong, as a sentence.
        history: the moves that lead there.
    """

    promise: str
    says: str
    history: History

    @property
    def trace(self) -> Trace:
        """The history as a trace, to be opened in a `StepPlayer`."""
        return self.history.trace

    @property
    def sentences(self) -> tuple[str, ...]:
        """The history in plain words."""
        return self.history.sentences

    def __str__(self) -> str:
        moves = "1 move" if len(self.history) == 1 else f"{len(self.history)} moves"
        return f"{self.promise} broken after {moves}: {self.says}."


class _Key:
    """Made here only, and asked for by `Verdict`: so nothing but `judge` can say that a promise holds."""


_KEY = _Key()


@dataclass(frozen=True)
class Verdict:
    """What is known of one promise in one world.

    Attributes:
        promise: its name.
        title: its two words.
        word: `holds`, `broken` or `unknown`.
        reason: why it is unknown, or how it breaks; for `holds`, what was seen.
        concerns: whether this world, on this script set, can settle it at all; if not, it takes no part in the whole
            verdict.
        violation: the shortest history that breaks it.
        untried: the clauses that this world cannot try: `holds` is not said of them.
        lacks: what the script set had to state and does not; empty where it asks for nothing.
    """

    promise: str
    title: str
    word: Word
    reason: str
    concerns: bool = True
    violation: Violation | None = None
    untried: tuple[str, ...] = ()
    lacks: str = ""
    key: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.word == "holds" and self.key is not _KEY:
            raise TypeError("only judge() says that a promise holds, and it needs the evidence")

    def __str__(self) -> str:
        return f"{self.promise} {self.title}: {self.word}. {self.reason}"


def judge(
    promise: str,
    title: str,
    evidence: Evidence,
    *,
    violation: Violation | None = None,
    unconcerned: str | None = None,
    lacks: str | None = None,
) -> Verdict:
    """The verdict on one promise. Only this says `holds`, and only of what was seen completely and really tried.

    Args:
        promise: its name.
        title: such as `no drop`.
        evidence: what was explored.
        violation: the shortest one, if any; it suffices, however little was explored.
        unconcerned: why this world cannot try it.
        lacks: what the script set should state but does not. Then only `broken` can be known, and any other verdict
            does not count in the overall one.
    """
    if violation is not None:
        return Verdict(promise, title, "broken", f"{violation.says}.", True, violation)
    if unconcerned is not None:
        return Verdict(promise, title, "unknown", f"Not tried: {unconcerned}.", False)
    if lacks is not None:
        return Verdict(promise, title, "unknown", f"{lacks}.", False, lacks=lacks)
    if evidence.doubts:
        return Verdict(promise, title, "unknown", f"Nothing seen is all there is: {'; '.join(evidence.doubts)}.")
    if not evidence.complete:
        reason = f"No violation up to depth {evidence.depth}; deeper states were not explored."
        if evidence.grows:
            reason += f" Still growing: {', '.join(evidence.grows)}."
        return Verdict(promise, title, "unknown", reason)
    if evidence.missing:
        return Verdict(promise, title, "unknown", f"Not met anywhere: {'; '.join(evidence.missing)}.")
    reason = f"In each of the {evidence.states:,} states of {evidence.where}."
    if evidence.instants:
        reason += f" The clock was tried at {evidence.instants} instants, which is no proof for the others."
    if evidence.untried:
        reason += f" Not tried here: {', '.join(evidence.untried)}."
    return Verdict(promise, title, "holds", reason, untried=evidence.untried, key=_KEY)


@dataclass(frozen=True, slots=True)
class Gap:
    """A place between two calls of an operation, and how often it was hit.

    Attributes:
        operation: such as `pump.sweep`.
        before, after: the calls around it; `start` if the operation has sent nothing.
        visits: states in which an actor is there.
        crashes: crashes tried there.
        lost: lost replies tried there.
    """

    operation: str
    before: str
    after: str
    visits: int
    crashes: int
    lost: int

    def __str__(self) -> str:
        return f"{self.operation} between {self.before} and {self.after}"
