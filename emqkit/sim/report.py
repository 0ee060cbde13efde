"""The result of one exploration, in words and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from emqkit.sim.promises import PROMISES
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.judge import Gap, Verdict, Violation, Word
from emqkit.sim.worlds.world import World

__all__ = ["Result"]


@dataclass(frozen=True)
class Result:
    """The result of one exploration.

    Attributes:
        world: what was explored, with its budgets.
        scripts: the script set's name.
        server: `fake`, `embedded` or `live`: where calls were really made.
        verdicts: one for each promise, by name.
        states, transitions: the size of the graph.
        real_calls: how many calls were really made on the server; the others were cached.
        depth: to how many transitions deep every state was expanded.
        complete: whether the whole graph was seen; if not, `stopped` says why.
        seconds: how long it took.
        fingerprint: 64 hex digits, equal for equal graphs on any server.
        gaps: the places between calls, with the faults tried there.
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

    @classmethod
    def of(cls, explorer: Explorer) -> Result:
        """The result of a search as it is now."""
        verdicts = explorer.verdicts()
        return cls(
            world=explorer.world,
            scripts=explorer.server.scripts.name,
            server=explorer.server.kind,
            verdicts=verdicts,
            states=len(explorer.graph),
            transitions=len(explorer.graph.targets),
            real_calls=explorer.bench.calls,
            depth=explorer.depth,
            complete=explorer.complete,
            stopped=explorer.stopped,
            seconds=explorer.seconds,
            fingerprint=explorer.fingerprint(),
            gaps=explorer.gaps,
            witnesses=explorer.witnesses(),
            bytes_per_state=explorer.graph.bytes_per_state(),
        )

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The shortest violation of each broken promise, in order of the promises."""
        return tuple(verdict.violation for verdict in self.verdicts.values() if verdict.violation is not None)

    @property
    def judged(self) -> tuple[Verdict, ...]:
        """The verdicts that count in the overall one: those the world is about, else all that concern it."""
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
        """The result in words, the same every time: counts, verdicts, and the counterexample of each broken promise."""
        return self.told()

    def told(self, promise: str | None = None) -> str:
        """The result in words, the same every time.

        Args:
            promise: tell only the verdict and the history of this promise, such as `P3`.
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
        # What `holds` refers to is said above, once for all of them.
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
        """The result as JSON data."""
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
    """What a promise says, to end a line with."""
    says = next(promise.says for promise in PROMISES if promise.name == name)
    return f"{says[:1].lower()}{says[1:].removesuffix('.')}"
