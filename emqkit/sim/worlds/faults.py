"""What can go wrong, where, and how often: a world's budgets, and the gaps that a crash may hit.

An operation is a sequence of calls, so a Pump's pass over one entry has these gaps:

    promote · LRANGE · deliver · LTRIM
    ^       ^        ^         ^       ^        a crash in any of them; a reply lost in any flush

* crash: the process dies between two calls, with everything it had read. Its claims stay under their leases.
* lost reply: `ReplyLost` is raised inside the operation, after any prefix of the flush took effect; the caller repeats
  the operation with the same ids and token.
* lapse: a lease expires although its holder is alive and will still settle. (The lease of a holder that is gone
  expires by itself: that is time, and costs nothing. So does the delay of a scheduled job.)
* re-delivery: an outbox entry is delivered again after it was trimmed.
* poison: an undeliverable entry appears in an outbox, or a parent's subkey has another type.
* script flush: the server loses its script cache, and the next call of each script answers NOSCRIPT.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

from emqkit.errors import BadArgument

__all__ = ["BUDGETS", "Fault", "Faults", "Poisoning"]


class Fault(IntEnum):
    """A kind of fault, by its place in a budget; `word` and `plural` are its names in sentences."""

    word: str
    plural: str

    def __new__(cls, word: str, plural: str) -> Fault:
        fault = int.__new__(cls, len(cls.__members__))
        fault._value_ = len(cls.__members__)
        fault.word, fault.plural = word, plural
        return fault

    CRASH = "crash", "crashes"
    LOST_REPLY = "lost reply", "lost replies"
    LAPSE = "lapse", "lapses"
    REDELIVERY = "re-delivery", "re-deliveries"
    POISON = "poison", "poisons"
    SCRIPT_FLUSH = "script flush", "script flushes"


@dataclass(frozen=True, slots=True)
class Poisoning:
    """A poison that may appear in a world: an outbox entry, or a plain string in place of a key.

    Attributes:
        what: its name in a history.
        queue: the queue of the outbox or of the key.
        entry: the bytes appended to the outbox, or None.
        spoil: the key to be set to a string if it does not exist yet, or None.
    """

    what: str
    queue: str
    entry: bytes | None = None
    spoil: bytes | None = None


@dataclass(frozen=True, slots=True)
class Faults:
    """How often each fault may happen in all, 0 or more.

    Attributes:
        crashes: of any actor, between any two calls.
        lost_replies: of any flush.
        lapses: of leases whose holder is alive.
        redeliveries: of entries that were trimmed.
        poisons: of the kinds in `poison`.
        script_flushes: of the server's script cache.
        poison: what `poisons` may be spent on.
    """

    crashes: int = 0
    lost_replies: int = 0
    lapses: int = 0
    redeliveries: int = 0
    poisons: int = 0
    script_flushes: int = 0
    poison: tuple[Poisoning, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "poison" and (
                isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 16
            ):
                raise BadArgument(field.name, value, "is not a whole number from 0 to 15")

    @property
    def budget(self) -> tuple[int, ...]:
        """How often each `Fault` may happen, in order of the faults."""
        return tuple(getattr(self, name) for name in BUDGETS)

    def __str__(self) -> str:
        counted = [(n, fault) for n, fault in zip(self.budget, Fault, strict=True) if n]
        return ", ".join(f"{n} {fault.word if n == 1 else fault.plural}" for n, fault in counted) or "none"


BUDGETS = tuple(field.name for field in fields(Faults))[: len(Fault)]
"""The budgets by name, in order of the faults."""
