"""A sentence for each plain command that operations send besides scripts: the host's reads, settings and cleanup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from emqkit import keys
from emqkit.arguments import to_text
from emqkit.wire import ErrorReply, Reply
from emqkit.words.changes import field_words, key_words, signal_words
from emqkit.words.names import Names
from emqkit.words.text import elided, listed, many, plain, quoted, short
from emqkit.words.told import Told

__all__ = ["COMMANDS", "reply_words"]

_NAMED_SIGNALS = 3


def reply_words(reply: Reply, names: Names | None = None) -> str:
    """A reply as text: a number, quoted text, `none`, an error as it came, a job by its name, or a list of these."""
    if reply is None:
        return "none"
    if isinstance(reply, ErrorReply):
        return elided(plain(str(reply)), 80)
    if isinstance(reply, bytes):
        is_id = short(reply) != elided(plain(reply), 24)
        return (names or Names())(reply) if is_id else quoted(reply)
    if isinstance(reply, int):
        return str(reply)
    if not reply:
        return "an empty list"
    shown = ", ".join(reply_words(item, names) for item in reply[:6])
    return f"{shown} and {len(reply) - 6} more" if len(reply) > 6 else shown


def _key(told: Told) -> str:
    return key_words(told.record.call.keys[0], told.names)


def _args(told: Told) -> Sequence[bytes]:
    return told.record.call.args


def _asks_for_pause(told: Told) -> bool:
    at = keys.parse(told.record.call.keys[0])
    return at is not None and at.id is None and at.name == "meta" and _args(told)[:1] == (b"paused",)


def _all_told(told: Told) -> None:
    """Mark the changes to the keys that the command names as told."""
    told.left[:] = [one for one in told.left if one.key not in told.record.call.keys]


def _hset(told: Told) -> str:
    _all_told(told)
    if _asks_for_pause(told):
        if not told.changed:
            return f"pauses {told.where}, which was paused already{told.end}."
        return f"pauses {told.where}: claims stop, and nothing else."
    pairs = zip(_args(told)[::2], _args(told)[1::2], strict=False)
    fields = [f"{plain(name)} = {field_words(to_text(name), value, told.names)}" for name, value in pairs]
    return f"writes {listed(fields)} on {_key(told)}{'' if told.changed else '; it was there already'}."


def _hdel(told: Told) -> str:
    _all_told(told)
    if _asks_for_pause(told):
        return f"resumes {told.where}{'' if told.changed else '; it was not paused'}."
    fields = listed([plain(name) for name in _args(told)])
    if not told.changed:
        return f"finds no {fields} of {_key(told)} to delete{told.end}."
    return f"deletes {fields} of {_key(told)}."


def _hmget(told: Told) -> str | None:
    values = told.reply if isinstance(told.reply, tuple) else (told.reply,)
    if len(values) != len(_args(told)):
        return None
    if _asks_for_pause(told):
        return f"asks whether {told.where} is paused: {'no' if values == (None,) else 'yes'}."
    found = [
        f"{plain(name)} {field_words(to_text(name), value, told.names) if isinstance(value, bytes) else 'none'}"
        for name, value in zip(_args(told), values, strict=True)
        if name != b"group" or value is not None  # read with every settle, but never there
    ]
    return f"reads {_key(told)}: {', '.join(found)}."


def _hgetall(told: Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    pairs = list(zip(told.reply[::2], told.reply[1::2], strict=False))
    if not pairs:
        return f"reads {_key(told)}: it is empty."
    found = [f"{reply_words(name, told.names)} → {reply_words(value, told.names)}" for name, value in pairs[:4]]
    more = f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""
    return f"reads {_key(told)}: {', '.join(found)}{more}."


def _hexists(told: Told) -> str:
    there = "yes" if told.reply == 1 else "no"
    if _asks_for_pause(told):
        return f"asks whether {told.where} is paused: {there}."
    return f"asks whether {_key(told)} has {told.names(_args(told)[0])}: {there}."


def _get(told: Told) -> str:
    found = plain(told.reply) if isinstance(told.reply, bytes) else "there is none"
    return f"reads {_key(told)}: {elided(found, 40)}."


def _zscore(told: Told) -> str:
    there = "it is not there" if told.reply is None else "it is there"
    return f"looks for {told.names(_args(told)[0])} in {_key(told)}: {there}."


def _count(told: Told) -> str:
    return f"counts {_key(told)}: {reply_words(told.reply)}."


def _exists(told: Told) -> str:
    return f"asks whether there is {_key(told)}: {'no' if told.reply == 0 else 'yes'}."


def _is_outbox(told: Told) -> bool:
    at = keys.parse(told.record.call.keys[0])
    return at is not None and at.id is None and at.name == "flow:outbox"


def _lrange(told: Told) -> str | None:
    if not isinstance(told.reply, tuple):
        return None
    if not told.reply:
        return f"reads {_key(told)} and removes nothing: it is empty."
    named = [item for item in told.reply if isinstance(item, bytes)]
    shown = [signal_words(item, told.names) if _is_outbox(told) else quoted(item) for item in named[:_NAMED_SIGNALS]]
    more = f"; and {len(named) - _NAMED_SIGNALS} more" if len(named) > _NAMED_SIGNALS else ""
    count = many(len(named), "entry", "entries")
    return f"reads {count} of {_key(told)} and removes nothing: {'; '.join(shown)}{more}."


def _ltrim(told: Told) -> str:
    _all_told(told)
    key = told.record.call.keys[0]
    before, after = (len(one.items(key)) for one in (told.record.before, told.record.after))
    if before == after:
        return f"trims nothing off {_key(told)}; {after} left{told.end}."
    return f"trims {many(before - after, 'entry', 'entries')} off {_key(told)}; {after} left."


def _rpush(told: Told) -> str | None:
    if not _is_outbox(told) or not told.changed:
        return None
    _all_told(told)
    return f"puts a signal into {_key(told)}: {'; '.join(signal_words(item, told.names) for item in _args(told))}."


def _del(told: Told) -> str:
    _all_told(told)
    names = [key_words(key, told.names) for key in told.record.call.keys]
    if told.reply == 0:
        return f"finds no {listed(names).removeprefix('the ')} to delete{told.end}."
    return f"deletes {listed(names)}{told.end}."


COMMANDS: Mapping[str, Callable[[Told], str | None]] = {
    "HSET": _hset,
    "HDEL": _hdel,
    "HMGET": _hmget,
    "HGET": _hmget,
    "HGETALL": _hgetall,
    "HEXISTS": _hexists,
    "GET": _get,
    "ZSCORE": _zscore,
    "ZCARD": _count,
    "HLEN": _count,
    "LLEN": _count,
    "EXISTS": _exists,
    "LRANGE": _lrange,
    "LTRIM": _ltrim,
    "RPUSH": _rpush,
    "DEL": _del,
}
"""What each says after the command's name; None if the reply is not of the kind that the command gives."""
