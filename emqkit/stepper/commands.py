"""What a stepped script may call and see, and the tokens that carry its values to a server's Lua and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from emqkit.arguments import to_bytes, to_text
from emqkit.errors import Refused
from emqkit.wire import Call, ErrorReply, Reply

__all__ = [
    "COMMANDS",
    "Tokens",
    "call_of",
    "clock_reading",
    "clock_tokens",
    "eval_of",
    "microseconds",
    "reply_of",
    "withheld",
    "word_of",
]

Tokens = list[bytes]


def call_of(
    verb: str, keys: tuple[bytes, ...], args: tuple[bytes, ...], kind: Literal["command", "tool"] = "command"
) -> Call[Any]:
    """A call that returns its raw reply."""
    return Call(verb, keys, args, lambda reply: reply, lambda error: Refused(verb, error.code, error.text), kind)


def eval_of(source: str, keys: Sequence[bytes], argv: Sequence[bytes]) -> Call[Any]:
    """The EVAL of this text with these keys and arguments."""
    return call_of("EVAL", (), (to_bytes(source), b"%d" % len(keys), *keys, *argv))


@dataclass(frozen=True, slots=True)
class Shape:
    """A command's key arguments: every `every`-th of the first `among` (None: all); and whether it writes."""

    among: int | None
    writes: bool
    every: int = 1

    def keys(self, args: Sequence[bytes]) -> tuple[bytes, ...]:
        return tuple(args[: self.among : self.every])


def _shapes() -> Iterator[tuple[str, Shape]]:
    one_read = """
        GET STRLEN GETRANGE GETBIT BITCOUNT TYPE TTL PTTL EXPIRETIME PEXPIRETIME
        HGET HMGET HGETALL HKEYS HVALS HLEN HEXISTS HSTRLEN LRANGE LLEN LINDEX LPOS
        ZSCORE ZMSCORE ZCARD ZCOUNT ZLEXCOUNT ZRANK ZREVRANK
        ZRANGE ZRANGEBYSCORE ZRANGEBYLEX ZREVRANGE ZREVRANGEBYSCORE ZREVRANGEBYLEX
        SCARD SISMEMBER SMISMEMBER SMEMBERS"""
    one_write = """
        SET SETNX SETEX PSETEX GETSET GETDEL GETEX APPEND SETRANGE SETBIT INCR INCRBY INCRBYFLOAT DECR DECRBY
        EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST
        HSET HMSET HSETNX HDEL HINCRBY HINCRBYFLOAT LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LREM LSET LTRIM LINSERT
        ZADD ZREM ZINCRBY ZPOPMIN ZPOPMAX ZREMRANGEBYSCORE ZREMRANGEBYRANK ZREMRANGEBYLEX SADD SREM"""
    yield from ((name, Shape(1, writes=False)) for name in one_read.split())
    yield from ((name, Shape(1, writes=True)) for name in one_write.split())
    two_write = "RENAME RENAMENX RPOPLPUSH LMOVE ZRANGESTORE SMOVE"
    yield from ((name, Shape(2, writes=True)) for name in two_write.split())
    yield from ((name, Shape(None, writes=False)) for name in ("EXISTS", "MGET", "TOUCH"))
    yield from ((name, Shape(None, writes=True)) for name in ("DEL", "UNLINK"))
    yield from ((name, Shape(None, writes=True, every=2)) for name in ("MSET", "MSETNX"))
    yield from ((name, Shape(0, writes=False)) for name in ("TIME", "PING", "ECHO"))


# The commands that can be stepped: those whose keys are known, so that they can be copied before the call. Omitted are
# those that read or change more than their keys (KEYS, SELECT, FLUSHALL), and random ones.
COMMANDS: Mapping[str, Shape] = dict(_shapes())


def withheld() -> Iterator[tuple[str, str]]:
    """The names that a script has on a live server but not here, each with the reason."""
    differs = "it differs between the fake and a live server"
    reasons = {
        "the stepper cannot see inside it": ("coroutine", "load", "loadstring"),
        "it holds different things on each kind of server": ("_G", "gcinfo", "collectgarbage", "os"),
        differs: ("cjson", "cmsgpack", "struct", "bit", "redis.setresp", "redis.replicate_commands"),
        "it has no meaning for one script on one server": (
            *("redis.set_repl", "redis.REPL_ALL", "redis.REPL_AOF", "redis.REPL_NONE", "redis.REPL_REPLICA"),
            *("redis.REPL_SLAVE", "redis.breakpoint", "redis.debug", "redis.acl_check_cmd"),
        ),
        "it names the server's own version": (
            *("redis.REDIS_VERSION", "redis.REDIS_VERSION_NUM", "redis.VALKEY_VERSION", "redis.VALKEY_VERSION_NUM"),
            "redis.SERVER_NAME",
        ),
        "two runs would draw different numbers": ("math.random", "math.randomseed"),
    }
    for why, names in reasons.items():
        for name in names:
            yield name, f"it uses {name}, which a live server has but the stepper leaves out: {why}"


# --- tokens -----------------------------------------------------------------------------------------------------------


def word_of(token: bytes) -> bytes:
    """An argument of a call as text."""
    if token[:1] != b"d":
        return token[1:]
    number = float(token[1:])
    return b"%d" % number if number.is_integer() else repr(number).encode()


def reply_of(tokens: Sequence[bytes]) -> Reply:
    """Decode these tokens, as a reply."""
    return _read(tokens, 0)[0]


def _read(tokens: Sequence[bytes], at: int) -> tuple[Reply, int]:
    kind, text = tokens[at][:1], tokens[at][1:]
    at += 1
    if kind == b"d":
        return int(float(text)), at
    if kind != b"t":
        # A script sees a missing value as false; x is an error that was raised, not returned.
        simple: dict[bytes, Reply] = {b"s": text, b"T": 1, b"x": _error(text)}
        return simple.get(kind), at
    entries: dict[Reply, Reply] = {}
    for _ in range(int(text)):
        name, at = _read(tokens, at)
        entries[name], at = _read(tokens, at)
    if isinstance(problem := entries.get(b"err"), bytes):
        return _error(problem), at
    if isinstance(status := entries.get(b"ok"), bytes):
        return status, at
    return tuple(entries[place] for place in range(1, len(entries) + 1)), at


def _error(text: bytes) -> ErrorReply:
    code, _, rest = to_text(text).partition(" ")
    return ErrorReply(code, rest)


def clock_tokens(milliseconds: int) -> Tokens:
    """TIME's reply at this moment, as tokens."""
    seconds, rest = divmod(milliseconds, 1000)
    return [b"t2", b"d1", b"s%d" % seconds, b"d2", b"s%d" % (rest * 1000)]


def microseconds(tokens: Sequence[bytes]) -> int:
    return clock_reading(reply_of(tokens))


def clock_reading(reply: Reply) -> int:
    """TIME's reply as unix microseconds."""
    if not isinstance(reply, tuple):
        raise TypeError(f"expected seconds and microseconds from TIME, not {reply!r}")
    seconds, microseconds = (int(part) for part in reply if isinstance(part, bytes))
    return seconds * 1_000_000 + microseconds
