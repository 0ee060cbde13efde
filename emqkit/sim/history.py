"""A history is one path through the state space: who did what, and what went wrong where.

A history has an order but no times: to replay it makes the same calls, one by one, on a real server.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from emqkit.errors import BadArgument, ReplyLost
from emqkit.scripts import ScriptSet
from emqkit.servers.base import ServerKind
from emqkit.sim.promises import names
from emqkit.sim.worlds.faults import BUDGETS
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Snapshot
from emqkit.trace import CallRecord, Step, Trace
from emqkit.wire import Call, Flush, Reply
from emqkit.words.calls import sentences
from emqkit.words.names import Names

__all__ = ["History", "HistoryStep", "load", "save"]

FORMAT = "emqkit history 1"
LARGEST_FILE = 16 << 20
"""The largest history file, in bytes; one of a thousand moves has a quarter of a million."""
MOST_MOVES = 10_000
LONGEST = 1000
"""The most characters of a name or a label."""
SHA = re.compile(r"[0-9a-f]{40}")
NEXT = {
    "it succeeds": "Its work will succeed.",
    "it fails": "Its work will fail.",
    "a heartbeat": "A heartbeat is next.",
    "again": "It will do the same again.",
    "the same add again": "It will do the same add again.",
    "the same add once more": "It will do the same add once more.",
    "it gives up": "It gives up.",
}
"""An actor's choice as a sentence, by its label."""


@dataclass(frozen=True)
class HistoryStep:
    """One step of a history.

    Attributes:
        actor: whose step, such as `worker of validation 2`; empty for time and the server's own faults.
        kind: `call`, `lost`, `crash`, `lapse`, `due`, `expiry`, `re-delivery`, `poison` or `script flush`.
        operation: the operation it belongs to, such as `pump.sweep`.
        trip: which round trip of that operation, counted from 1.
        calls: the calls made, with their raw replies.
        scripts: the script set they ran with.
        before, after: the keyspace before and after it.
        choice: which of several continuations followed, by the actor's label.
        what: details: the id, the poison, `before` or `after` for a lost reply.
        fault: whether it cost some of a budget.
        fresh: whether its operation began with it.
        atomic: whether the calls were in MULTI.
    """

    actor: str
    kind: str
    operation: str
    trip: int
    calls: tuple[tuple[Call[Any], Reply], ...]
    scripts: ScriptSet
    before: Snapshot
    after: Snapshot
    choice: str = ""
    what: str = ""
    fault: bool = False
    fresh: bool = False
    atomic: bool = False
    queue: str = ""

    @property
    def records(self) -> tuple[CallRecord, ...]:
        """Its calls, as in a trace."""
        return tuple(CallRecord(call, reply, self.before, self.after, self.scripts) for call, reply in self.calls)

    def told(self, names: Names) -> str:
        """The step in plain words: who acted, what its calls did, and how the actor goes on.

        Args:
            names: what to call each job.
        """
        if self.kind == "crash":
            place = f" in {self.operation}"
            if not self.calls and self.fresh:
                place = f" before {self.operation}"
            return f"{_capital(self.actor)} crashes{place}: what it had read is gone."
        if self.kind == "lapse":
            who = "although its holder is alive" if self.fault else "as its holder is gone"
            return f"The lease of {self.what} in {self.queue} lapses, {who}."
        if self.kind == "due":
            return f"The delayed {self.what} in {self.queue} falls due."
        if self.kind == "expiry":
            return f"In {self.queue or 'no queue'} the time to live of {self.what} runs out: gone."
        if self.kind == "re-delivery":
            return "An entry that was delivered and trimmed is delivered once more."
        if self.kind == "poison":
            return f"Poison appears: {self.what}."
        if self.kind == "script flush":
            return "The server forgets its scripts."
        done = sentences(self.records, self.scripts, names, shared=True)
        if self.kind == "lost":
            done.append("The reply is lost." if done else "the replies are lost.")
        if self.choice:
            done.append(NEXT.get(self.choice, f"Next: {self.choice}."))
        return f"{_capital(self.actor)}, {self.operation}: {' '.join(done) or 'nothing more is sent.'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class History:
    """A path through a world's state space, and what is wrong at its end.

    Attributes:
        world: its world.
        scripts: the script set it was explored with.
        server_kind: where its calls were made.
        initial: the keyspace at the start.
        moves: its steps, in order.
        promise, says: what is broken at its end; empty if nothing is.
    """

    world: World
    scripts: ScriptSet
    server_kind: ServerKind
    initial: Snapshot
    moves: tuple[HistoryStep, ...]
    promise: str = ""
    says: str = ""

    def __len__(self) -> int:
        return len(self.moves)

    def __repr__(self) -> str:
        return f"<history of {len(self)} moves in {self.world.name}: {self.promise} {self.says}>"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The steps in plain words, and at the end what is broken."""
        told = [f"{n}. {self.told(move)}" for n, move in enumerate(self.moves, start=1)]
        return (*told, f"So {self.promise} is broken: {self.says}.") if self.says else tuple(told)

    def told(self, move: HistoryStep) -> str:
        """A step in plain words, with jobs named by their payloads."""
        return move.told(self.names)

    @property
    def names(self) -> Names:
        """The names of jobs in its sentences: their payloads."""
        return Names(self.world.labels)

    @cached_property
    def trace(self) -> Trace:
        """The history as a trace, for a `StepPlayer`, down to the Lua lines."""
        steps: list[Step] = []
        runs: dict[str, int] = {}
        last = len(self.moves) - 1
        count = 0
        for n, move in enumerate(self.moves):
            if move.actor and (move.fresh or move.actor not in runs):
                runs[move.actor], count = count, count + 1
            run = runs[move.actor] if move.actor else count
            if not move.actor:
                count += 1
            says = f" {self.promise} is broken: {self.says}." if n == last and self.says else ""
            operation = f"{move.actor} · {move.operation}" if move.actor else move.kind
            if records := move.records:
                lost = ReplyLost("sim://", records[0].call.verb) if move.kind == "lost" else None
                flush: Flush[Any] = Flush(tuple(call for call, _ in move.calls), atomic=move.atomic)
                steps.append(Step(operation, run, move.trip, flush, records, move.before, move.after, lost))
                if says:
                    steps.append(_marked("the verdict", count + 1, move.after, move.after, says.strip()))
                continue
            steps.append(_marked(operation, run, move.before, move.after, f"{self.told(move)}{says}"))
        return Trace.assembled(self.scripts, self.server_kind, self.initial, steps, self.world.payloads)

    # --- on paper ---------------------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """The history as JSON data: enough to replay it."""
        return {
            "format": FORMAT,
            "scenario": self.world.name,
            "scripts": self.scripts.name,
            "scripts_sha": self.scripts.sha,
            "faults": dict(zip(BUDGETS, self.world.faults.budget, strict=True)),
            "promise": self.promise,
            "says": self.says,
            "moves": [
                {
                    "actor": move.actor,
                    "kind": move.kind,
                    "operation": move.operation,
                    "calls": [call.verb for call, _ in move.calls],
                    "choice": move.choice,
                    "what": move.what,
                    "fault": move.fault,
                }
                for move in self.moves
            ],
            "sentences": list(self.sentences),
        }

    def command(self, file: str) -> str:
        """The command that replays it from a saved file."""
        return f"emqkit replay {file}"


def _marked(operation: str, run: int, before: Snapshot, after: Snapshot, sentence: str) -> Step:
    return Step(operation, run, 1, Flush(()), (), before, after, None, sentence)


def save(history: History, path: str | os.PathLike[str]) -> Path:
    """Write a history to a file; `emqkit replay FILE` replays it."""
    place = Path(path)
    place.write_text(json.dumps(history.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return place


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a saved history, without running any of it. Raises `BadArgument` if the file is not a history."""

    def none(why: str) -> BadArgument:
        return BadArgument("history file", str(path), why)

    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise none(f"is not an emqkit history: it is larger than {LARGEST_FILE >> 20} MB")
        saved = json.loads(text.decode("utf-8"))
    except OSError as error:
        raise none(f"cannot be read: {error.strerror}") from None
    except RecursionError:
        raise none("is not an emqkit history: it is nested too deep") from None
    except ValueError as error:
        if isinstance(error, BadArgument):
            raise
        raise none("is not an emqkit history: it is not JSON") from None
    if wrong := wrong_with(saved):
        raise none(f"is not an emqkit history: {wrong}; `emqkit explore SCENARIO --save FILE` writes such files")
    return dict(saved)


def wrong_with(saved: object) -> str:
    """Why this is not what `History.as_json` makes; empty if it is."""
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        return f"it does not say {FORMAT!r}"
    for name in ("scenario", "scripts"):
        if not _is_text(saved.get(name)) or not saved[name]:
            return f"its {name} cannot be read"
    if not isinstance(sha := saved.get("scripts_sha", "0" * 40), str) or not SHA.fullmatch(sha):
        return "its scripts_sha cannot be read"
    if saved.get("promise") not in ("", *names()):
        return "its promise is unknown"
    faults = saved.get("faults")
    if not isinstance(faults, dict) or not faults.keys() <= set(BUDGETS) or not all(map(_is_budget, faults.values())):
        return "its faults cannot be read"
    moves = saved.get("moves")
    if not isinstance(moves, list) or len(moves) > MOST_MOVES:
        return f"its moves are not a list of up to {MOST_MOVES}"
    for number, move in enumerate(moves, start=1):
        if not isinstance(move, dict) or not all(_is_text(move.get(n)) for n in ("actor", "kind", "choice", "what")):
            return f"its move {number} cannot be read"
        if not isinstance(move.get("fault"), bool):
            return f"its move {number} does not say whether it is a fault"
    return ""


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST


def _is_budget(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 16
