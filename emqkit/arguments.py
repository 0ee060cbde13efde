"""What callers hand over is checked here, before anything is sent."""

from __future__ import annotations

from typing import TypeVar

from emqkit import keys
from emqkit.errors import BadArgument

__all__ = ["Data", "check_data", "one_of", "to_bytes", "to_text", "whole"]

Data = str | bytes
"""A payload, result or error text: text, or any bytes."""

LARGEST = 2**53 - 1
"""A score is a double: above this, two milliseconds are one."""

C = TypeVar("C", bound=str)


def check_data(name: str, value: object) -> Data:
    """Return `value` when it is text or bytes; else `BadArgument`."""
    if not isinstance(value, str | bytes):
        raise BadArgument(name, value, f"is {type(value).__name__}, neither text nor bytes")
    if isinstance(value, str) and not keys.is_writable(value):
        raise BadArgument(name, value, "holds half of a surrogate pair, which no UTF-8 spells; hand over bytes instead")
    return value


def to_bytes(value: Data) -> bytes:
    """Text as UTF-8 (what came in as bytes goes out as the same bytes), bytes as they are."""
    return value if isinstance(value, bytes) else keys.text(value)


def to_text(value: bytes) -> str:
    """Bytes as text; what is not UTF-8 is kept by `surrogateescape`, so that nothing is lost."""
    return value.decode("utf-8", "surrogateescape")


def whole(name: str, value: object, *, at_least: int, unit: str = "") -> int:
    """Return `value` when it is a whole number of at least `at_least`; else `BadArgument`."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= LARGEST:
        of = f" of {unit}" if unit else ""
        raise BadArgument(name, value, f"is not a whole number{of} from {at_least} to 2^53-1")
    return value


def one_of(name: str, value: object, choices: tuple[C, ...]) -> C:
    """Return `value` when it is one of the choices; else `BadArgument`."""
    for choice in choices:
        if value == choice:
            return choice
    raise BadArgument(name, value, f"is none of {', '.join(choices)}")
