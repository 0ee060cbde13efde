"""Checks what callers pass in, before anything is sent."""

from __future__ import annotations

from typing import TypeVar

from emqkit import keys
from emqkit.errors import BadArgument

__all__ = ["Data", "check_data", "one_of", "to_bytes", "to_text", "whole"]

Data = str | bytes
"""A payload, result or error text: text, or any bytes."""

LARGEST = 2**53 - 1
"""A score is a double: above this, two adjacent milliseconds can be equal."""

C = TypeVar("C", bound=str)


def check_data(name: str, value: object) -> Data:
    """Return `value` if it is text or bytes; otherwise raise `BadArgument`."""
    if not isinstance(value, str | bytes):
        raise BadArgument(name, value, f"is {type(value).__name__}, neither text nor bytes")
    if isinstance(value, str) and not keys.is_writable(value):
        raise BadArgument(name, value, "holds half of a surrogate pair, which UTF-8 cannot encode; pass bytes instead")
    return value


def to_bytes(value: Data) -> bytes:
    """Encode text as UTF-8, lossless for what `to_text` decoded; return bytes as they are."""
    return value if isinstance(value, bytes) else keys.text(value)


def to_text(value: bytes) -> str:
    """Decode bytes as UTF-8, lossless: `surrogateescape` keeps all other bytes."""
    return value.decode("utf-8", "surrogateescape")


def whole(name: str, value: object, *, at_least: int, unit: str = "") -> int:
    """Return `value` if it is a whole number of at least `at_least`; otherwise raise `BadArgument`."""
    if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= LARGEST:
        of = f" of {unit}" if unit else ""
        raise BadArgument(name, value, f"is not a whole number{of} from {at_least} to 2^53-1")
    return value


def one_of(name: str, value: object, choices: tuple[C, ...]) -> C:
    """Return `value` if it is one of the choices; otherwise raise `BadArgument`."""
    for choice in choices:
        if value == choice:
            return choice
    raise BadArgument(name, value, f"is not one of {', '.join(choices)}")
