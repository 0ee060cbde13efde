"""What exploring found: a verdict for each promise, and how it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from emqkit.sim.promises import PROMISES

if TYPE_CHECKING:
    from emqkit.sim.history import History
    from emqkit.sim.worlds.world import World
    from emqkit.trace import Trace

__all__ = ["Evidence", "Gap", "Result", "Verdict", "Violation", "Word", "judge"]

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
    """

    states: int
    complete: bool
    depth: int
    missing: tuple[str, ...] = ()
    where: str = "this world"
    untried: tuple[str, ...] = ()


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
    """The verdict on one promise: the only place that says `holds`, and only of what was seen whole and really tried.

    Args:
        promise: its name.
        title: its two words.
        evidence: what was explored.
        violation: the shortest one, if any was met; that is enough, however little was explored.
        unconcerned: why this world cannot try it.
        lacks: what the script set had to state and does not. Then only `broken` can be known, and a verdict that is
            not takes no part in the whole one.
    """
    if violation is not None:
        return Verdict(promise, title, "broken", f"{violation.says}.", True, violation)
    if unconcerned is not None:
        return Verdict(promise, title, "unknown", f"Not tried: {unconcerned}.", False)
    if lacks is not None:
        return Verdict(promise, title, "unknown", f"{lacks}.", False, lacks=lacks)
    if not evidence.complete:
        return Verdict(promise, title, "unknown", f"No violation up to depth {evidence.depth}; the world goes deeper.")
    if evidence.missing:
        return Verdict(promise, title, "unknown", f"Not met anywhere: {'; '.join(evidence.missing)}.")
    reason = f"In each of the {evidence.states:,} states of {evidence.where}."
    if evidence.untried:
        reason += f" Not tried here: {', '.join(evidence.untried)}."
    return Verdict(promise, title, "holds", reason, untried=evidence.untried, key=_KEY)


@dataclass(frozen=True, slots=True)
class Gap:
    """A place between two calls of an operation, and how often it was hit.

    Attributes:
        operation: such as `pump.sweep`.
        before, after: the calls around it; `start` where the operation has sent nothing.
        visits: states in which an actor stood there.
        crashes: crashes tried there.
        lost: replies lost there.
    """

    operation: str
    before: str
    after: str
    visits: int
    crashes: int
    lost: int

    def __str__(self) -> str:
        return f"{self.operation} between {self.before} and {self.after}"


@dataclass(frozen=True)
class Result:
    """What one exploration found.

    Attributes:
        world: what was explored, with its budgets.
        scripts: the script set's name.
        server: `fake`, `embedded` or `live`: where calls were really made.
        verdicts: one for each promise, by name.
        states, transitions: of the graph.
        real_calls: how many calls were really made on the server; the others were remembered.
        depth: how many moves deep every state was expanded.
        complete: whether the whole graph was seen; if not, `stopped` says why.
        seconds: how long it took.
        fingerprint: 64 hex digits; equal for equal graphs, on any server.
        gaps: where actors stood between calls, with what was tried there.
        witnesses: what really happened somewhere.
    """

    world: World
    scripts: str
    server: str
    verdicts: Mapping[str, Verdict]
    states: int
    transitions: int
    real_calls: int
    depth: int
    complete: bool
    stopped: str
    seconds: float
    fingerprint: str
    gaps: tuple[Gap, ...]
    witnesses: frozenset[str]
    bytes_per_state: float = 0.0

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The shortest violation of each broken promise, in order of the promises."""
        return tuple(verdict.violation for verdict in self.verdicts.values() if verdict.violation is not None)

    @property
    def judged(self) -> tuple[Verdict, ...]:
        """The verdicts that make the whole one: those the world is about, else all that concern it."""
        about = self.world.about
        return tuple(
            verdict
            for name, verdict in self.verdicts.items()
            if verdict.word == "broken" or (verdict.concerns if about is None else name in about)
        )

    @property
    def word(self) -> Word:
        """`broken` if any promise is, else `unknown` if any judged one is or none was judged, else `holds`."""
        words = [verdict.word for verdict in self.judged]
        if "broken" in words:
            return "broken"
        return "unknown" if "unknown" in words or not words else words[0]

    @property
    def exit_status(self) -> int:
        """0 holds, 1 broken, 2 unknown."""
        return {"holds": 0, "broken": 1, "unknown": 2}[self.word]

    def __repr__(self) -> str:
        return (
            f"<{self.world.name} on {self.scripts}: {self.word}; {self.states:,} states, "
            f"{self.transitions:,} transitions>"
        )

    @property
    def text(self) -> str:
        """The result in words, the same every time: counts, verdicts, and the history of each broken promise."""
        return self.told()

    def told(self, promise: str | None = None) -> str:
        """The result in words, the same every time.

        Args:
            promise: tell the verdict and the history of this promise only, such as `P3`.
        """
        verdicts = [verdict for name, verdict in self.verdicts.items() if promise in (None, name)]
        lines = [
            f"{self.world.name} on {self.scripts}: {self.word}",
            f"  {self.states:,} states, {self.transitions:,} transitions, {self.real_calls:,} real calls; "
            f"faults: {self.world.faults}",
            f"  fingerprint {self.fingerprint} (to compare runs)",
        ]
        if self.gaps:
            crashed, lost = (
                sum(bool(n) for n in hit) for hit in zip(*((g.crashes, g.lost) for g in self.gaps), strict=True)
            )
            lines.append(
                f"  of {len(self.gaps)} gaps between calls, {crashed} were hit by a crash and {lost} by a lost reply"
            )
            missed = [str(gap) for gap in self.gaps if not gap.crashes and not gap.lost]
            if missed and (self.world.faults.crashes or self.world.faults.lost_replies):
                more = f"; and {len(missed) - 3} more" if len(missed) > 3 else ""
                lines.append(f"  not hit: {'; '.join(missed[:3])}{more}")
        if self.stopped:
            lines.append(f"  stopped {self.stopped}: what follows is what was known by then")
        # What `holds` is said of stands above, once for all of them.
        for verdict in verdicts:
            if verdict.concerns and verdict.word == "holds":
                but = f" (not tried here: {', '.join(verdict.untried)})" if verdict.untried else ""
                lines.append(f"  {verdict.promise} {verdict.title}: holds — {_promised(verdict.promise)}{but}")
            elif verdict.concerns or verdict.lacks:
                lines += [f"  {verdict}", f"    promised: {_promised(verdict.promise)}"]
        left_out = [verdict.promise for verdict in verdicts if not verdict.concerns and not verdict.lacks]
        if left_out:
            lines.append(f"  not tried here: {', '.join(left_out)}")
        for violation in (verdict.violation for verdict in verdicts if verdict.violation is not None):
            lines += ["", str(violation), *(f"  {sentence}" for sentence in violation.sentences)]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The result as JSON holds it."""
        return {
            "scenario": self.world.name,
            "scripts": self.scripts,
            "server": self.server,
            "faults": str(self.world.faults),
            "verdict": self.word,
            "states": self.states,
            "transitions": self.transitions,
            "real_calls": self.real_calls,
            "depth": self.depth,
            "complete": self.complete,
            "stopped": self.stopped,
            "seconds": round(self.seconds, 3),
            "fingerprint": self.fingerprint,
            "promises": {
                name: {
                    "title": verdict.title,
                    "verdict": verdict.word,
                    "reason": verdict.reason,
                    "concerns": verdict.concerns,
                    "history": None if verdict.violation is None else verdict.violation.history.as_json(),
                }
                for name, verdict in self.verdicts.items()
            },
            "gaps": [
                {
                    "operation": gap.operation,
                    "before": gap.before,
                    "after": gap.after,
                    "visits": gap.visits,
                    "crashes": gap.crashes,
                    "lost_replies": gap.lost,
                }
                for gap in self.gaps
            ],
            "witnesses": sorted(self.witnesses),
        }


def _promised(name: str) -> str:
    """What a promise says, as the end of a line."""
    says = next(promise.says for promise in PROMISES if promise.name == name)
    return f"{says[:1].lower()}{says[1:].removesuffix('.')}"
