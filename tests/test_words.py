"""Words: text, names, changes, plain commands and round trips. Each script's sentence is in `test_words_scripts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import A, B, C, P, as_operation, fields, held_flow, ranked, row, script_call, snapshot

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Server, Trace, capture, keys, record, run
from emqkit.errors import EmqError, ReplyLost, WrongNamespace
from emqkit.outbox import Completion, Failure, encode
from emqkit.scripts import ScriptSet
from emqkit.snapshot import Change, Items, Snapshot, Text, Value, diff
from emqkit.trace import CallRecord, Step
from emqkit.wire import ErrorReply, Flush, Reply, command
from emqkit.words import calls
from emqkit.words.changes import changes_in_words, field_words, key_words, signal_words, telling
from emqkit.words.commands import reply_words
from emqkit.words.names import Names
from emqkit.words.text import elided, listed, many, plain, quoted, short, width

READY = ScriptSet.load("published")
NAMES = Names({P: "pack order 7", A: "pick", B: "label"})
ORDERS, PENDING, META, BOX = (
    keys.base("orders"),
    *(keys.queue_key("orders", name) for name in ("pending", "meta", "flow:outbox")),
)

# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"pick", "pick"),
        ("größer", "größer"),
        (b"\xff\x00", r"\xff\x00"),
        ("a\nb\x7f", r"a\x0ab\x7f"),
        ("\u2028", r"\xe2\x80\xa8"),
        ("\udcff\udc80", r"\xff\x80"),
        ("", ""),
    ],
)
def test_any_bytes_are_one_line_of_text(value: bytes | str, shown: str) -> None:
    assert plain(value) == shown


@given(st.binary() | st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_plain_text_is_printable_whatever_it_was(value: bytes | str) -> None:
    assert plain(value).isprintable()


@pytest.mark.parametrize(
    ("text", "columns"), [("pick", 4), ("数据", 4), ("e\u0301", 1), ("👩\u200d👧", 2), ("", 0), ("a\x00b", 2)]
)
def test_width_is_counted_in_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("pick", 4, "pick"),
        ("picks", 4, "pic…"),
        ("数据库", 6, "数据库"),
        ("数据库", 5, "数据…"),
        ("数据库", 4, "数…"),
        ("ae\u0301bc", 3, "ae\u0301…"),
        ("pick", 0, "…"),
    ],
)
def test_a_long_text_is_cut_between_two_characters(text: str, columns: int, shown: str) -> None:
    assert elided(text, columns) == shown


def test_a_value_is_quoted_escaped_and_cut_at_forty_columns() -> None:
    assert quoted(b"a\n") == r'"a\x0a"'
    assert quoted("x" * 40) == f'"{"x" * 40}"'
    assert quoted("x" * 41) == f'"{"x" * 39}…"'
    assert quoted("xyz", 2) == '"x…"'


@pytest.mark.parametrize(
    ("id", "shown"),
    [
        (A, "JOB…GLuD"),
        (A.encode(), "JOB…GLuD"),
        ("ORD0KHTOWnGLuC", "ORD…GLuC"),
        ("no id", "no id"),
        (b"\xff", r"\xff"),
        ("", '""'),
        ("x" * 24, "x" * 24),
        ("x" * 25, f"{'x' * 23}…"),
    ],
)
def test_an_id_is_named_by_its_ends_and_what_is_none_by_itself(id: str | bytes, shown: str) -> None:
    assert short(id) == shown


def test_counts_and_lists_are_worded() -> None:
    assert (many(1, "child", "children"), many(2, "child", "children"), many(0, "job")) == (
        "1 child",
        "2 children",
        "0 jobs",
    )
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "none",
        "a",
        "a and b",
        "a, b and c",
    ]


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_job_is_called_by_its_payload_and_by_its_id_where_that_is_not_known() -> None:
    names = Names.of([(A, b"pick"), (B, b"label")])
    assert (names(A), names(B.encode()), names(C), names("no id")) == ("pick", "label", "JOB…GLuF", "no id")
    assert (names.known(A), names.known(C)) == (True, False)


def test_equal_payloads_are_told_apart_in_the_order_of_their_ids() -> None:
    assert Names.of([(C, b"pick"), (A, b"pick"), (B, b"label")]).labels == {A: "pick #1", B: "label", C: "pick #2"}


def test_payloads_that_are_equal_only_where_they_are_cut_are_told_apart() -> None:
    assert Names.of([(A, b"x" * 24 + b"a"), (B, b"x" * 24 + b"b")]).labels == {
        A: f"{'x' * 23}… #1",
        B: f"{'x' * 23}… #2",
    }


def test_a_number_that_is_a_payload_already_is_skipped() -> None:
    assert Names.of([(A, b"pick"), (B, b"pick"), (C, b"pick #1")]).labels == {A: "pick #2", B: "pick #3", C: "pick #1"}


@given(
    st.dictionaries(st.sampled_from([P, A, B, C, "a", "b"]), st.binary(max_size=3) | st.sampled_from([b"x", b"x #1"]))
)
def test_no_two_jobs_have_one_label(payloads: dict[str, bytes]) -> None:
    labels = Names.of(payloads.items()).labels
    assert len(set(labels.values())) == len(labels)
    assert labels.keys() <= payloads.keys()


def test_a_payload_that_shows_nothing_is_no_label_and_the_first_of_two_counts() -> None:
    names = Names.of([(A, b""), (B, b"  "), (C, b"\xff"), (C, b"other"), (P, b" x ")])
    assert names.labels == {C: r"\xff", P: "x"}


def test_names_are_read_from_the_rows_of_snapshots() -> None:
    contents = held_flow() | {keys.job("stock", C): fields(state="pending")}
    assert Names.of_snapshot(snapshot(contents)).labels == {P: "pack order 7", A: "pick", B: "label"}
    assert Names.of_snapshot(snapshot({}), snapshot({keys.job("stock", C): row("dead", payload="x")})).labels == {
        C: "x"
    }


def test_a_trace_names_every_job_it_ever_had_a_row_of(server: Server, queue: str) -> None:
    jobs = Jobs(server)
    jobs.enqueue(queue, "first", id=P)
    with record(server, pattern=keys.base(queue) + b"*") as trace:
        jobs.remove(queue, P)
        jobs.enqueue(queue, "second", id=A)
        jobs.remove(queue, A)
        jobs.pause(queue)
    assert Names.of_trace(trace).labels == {P: "first", A: "second"}


# --- keys, fields and signals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (PENDING, "pending of orders"),
        (keys.queue_key("orders", "dead"), "dead of orders"),
        (BOX, "the outbox of orders"),
        (META, "the settings of orders"),
        (keys.queue_key("orders", "metrics:failed"), "the failed count of orders"),
        (keys.job("orders", A), "the row of pick"),
        (keys.subkey("orders", P, "dependencies"), "the counter of pack order 7"),
        (keys.subkey("orders", P, "processed"), "processed of pack order 7"),
        (keys.subkey("orders", P, "logs"), "the logs of pack order 7"),
        (keys.job("orders", C), "the row of JOB…GLuF"),
        (keys.subkey("orders", A, "lock"), f'key "emq:{{orders}}:job:{A}:lock"'),
        (keys.queue_key("orders", "de:x"), 'key "emq:{orders}:de:x"'),
        (b"other\xff", 'key "other\\xff"'),
        (b"x" * 61, f'key "{"x" * 59}…"'),
    ],
)
def test_a_key_is_named_by_what_it_is(key: bytes, words: str) -> None:
    assert key_words(key, NAMES) == words


def test_a_signal_is_told_with_whose_it_is_and_for_whom() -> None:
    assert signal_words(encode(Completion("orders", P, A, b"r")), NAMES) == "pick completed, for pack order 7 in orders"
    died = signal_words(encode(Failure("orders", P, C, "fp", b"r")), NAMES)
    assert died == "JOB…GLuF died (policy fp), for pack order 7 in orders"
    assert signal_words(b"\xff") == r'an entry that cannot be read, "\xff"'


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("parent", P.encode(), "pack order 7"),
        ("parent_policy", b"fp", "fp (fail)"),
        ("parent_policy", b"id", "id (ignore)"),
        ("parent_policy", b"xx", "xx"),
        ("parent_queue", b"orders", "orders"),
        ("state", b"dead", "dead"),
        ("attempts", b"3", "3"),
        ("state", b"x" * 41, f"{'x' * 39}…"),
        ("payload", b"pick", '"pick"'),
        ("last_error", b"boom", '"boom"'),
    ],
)
def test_a_field_is_shown_by_what_it_means(name: str, value: bytes, words: str) -> None:
    assert field_words(name, value, NAMES) == words


# --- changes ----------------------------------------------------------------------------------------------------------


def test_changes_are_told_with_who_moved_first_and_rows_later() -> None:
    contents = held_flow()
    del contents[keys.job("orders", A)]
    contents[PENDING] = ranked((P, 0))
    contents[keys.queue_key("orders", "active")] = ranked((B, 1))
    contents[keys.job("orders", B)] = row("active", 1, payload="label", parent=P, parent_policy="id")
    contents[keys.subkey("orders", P, "dependencies")] = Text(b"1")
    contents[keys.subkey("orders", P, "processed")] = fields(**{A: A})
    contents[keys.queue_key("orders", "metrics:completed")] = fields(count="1")
    contents[b"elsewhere"] = Text(b"x")
    lines = changes_in_words(diff(snapshot(held_flow()), snapshot(contents)), NAMES)
    assert lines == [
        ("+", "pack order 7 enters pending of orders"),
        ("-", "pick leaves pending of orders"),
        ("~", "label moves from pending to active of orders"),
        ("~", "the counter of pack order 7: 2 → 1"),
        ("+", "processed of pack order 7 gains pick: its own id"),
        ("-", "the row of pick is deleted"),
        ("~", "state of label: pending → active"),
        ("~", "attempts of label: 0 → 1"),
        ("+", "completed count of orders: 0 → 1"),
        ("+", 'key "elsewhere" gains 1 part'),
    ]


def sub(name: str, part: str, before: str | None, after: str | None) -> Change:
    return change(keys.subkey("orders", P, name), part, before, after)


def change(key: bytes, part: str | None, before: str | None, after: str | None) -> Change:
    return Change(key, *(None if value is None else keys.text(value) for value in (part, before, after)))


ROW, COUNTER = keys.job("orders", A), keys.subkey("orders", P, "dependencies")
ACTIVE, SCHEDULE = (keys.queue_key("orders", name) for name in ("active", "schedule"))
METRIC = keys.queue_key("orders", "metrics:completed")
PICKED = "pick completed, for pack order 7 in orders"
DONE = encode(Completion("orders", P, A, b"r")).decode()


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ([change(ROW, "parent_policy", None, "id")], [("+", "the row of pick gains parent_policy id (ignore)")]),
        ([change(ROW, "last_error", "boom", None)], [("-", "the row of pick loses last_error")]),
        ([change(ROW, "last_error", "boom", "bang")], [("~", 'last_error of pick: "boom" → "bang"')]),
        (
            [change(ROW, name, None, "1") for name in ("zeta", "alpha", "payload", "state", "parent", "attempts")],
            [("+", 'the row of pick appears: state 1, attempts 1, payload "1", parent 1, alpha "1", zeta "1"')],
        ),
        (
            [change(ROW, name, "1", None) for name in ("payload", "state", "attempts", "zeta")],
            [("-", "the row of pick is deleted")],
        ),
        (
            [change(ROW, "state", None, "dead"), change(ROW, "attempts", "1", None), change(ROW, "payload", "a", "b")],
            [
                ("~", 'payload of pick: "a" → "b"'),
                ("+", "the row of pick gains state dead"),
                ("-", "the row of pick loses attempts"),
            ],
        ),
        ([change(COUNTER, None, None, "2")], [("+", "the counter of pack order 7 starts at 2")]),
        ([change(COUNTER, None, "2", None)], [("-", "the counter of pack order 7 is deleted; it was at 2")]),
        ([sub("failed", A, None, "boom")], [("+", 'failed of pack order 7 gains pick: "boom"')]),
        ([sub("failed", A, None, A)], [("+", "failed of pack order 7 gains pick: its own id")]),
        ([sub("failed", A, "boom", None)], [("-", "failed of pack order 7 loses pick")]),
        ([sub("failed", A, "boom", "bang")], [("~", 'failed of pack order 7, pick: "boom" → "bang"')]),
        ([sub("logs", "0", None, "a")], [("+", "the logs of pack order 7 gain a line")]),
        ([sub("logs", "0", "a", None)], [("-", "the logs of pack order 7 lose a line")]),
        (
            [change(BOX, "0", DONE, None)],
            [("-", f"the outbox of orders drops: {PICKED}")],
        ),
        (
            [change(BOX, "0", None, DONE)],
            [("+", f"the outbox of orders gains: {PICKED}")],
        ),
        ([change(META, "paused", None, "1")], [("+", "orders is paused")]),
        ([change(META, "paused", "1", None)], [("-", "orders is no longer paused")]),
        ([change(META, "paused", "1", "2")], [("~", "setting paused of orders: 1 → 2")]),
        ([change(META, "wire", None, "2")], [("+", "setting wire of orders: none → 2")]),
        ([change(METRIC, "count", None, "1")], [("+", "completed count of orders: 0 → 1")]),
        ([change(METRIC, "count", "1", "2")], [("~", "completed count of orders: 1 → 2")]),
        ([change(METRIC, "count", "1", None)], [("-", "completed count of orders: 1 → 0")]),
        ([change(PENDING, A, "0", "5")], [("~", "pick in pending of orders: its score changes")]),
        ([change(ACTIVE, A, "1", "5000")], [("~", "pick in active of orders: its lease ends later")]),
        ([change(ACTIVE, A, "5000", "1")], [("~", "pick in active of orders: its lease ends earlier")]),
        ([change(SCHEDULE, A, "1", "5000")], [("~", "pick in schedule of orders: it is due later")]),
        ([change(SCHEDULE, A, "5000", "1")], [("~", "pick in schedule of orders: it is due earlier")]),
        (
            [change(PENDING, A, "0", None), change(ACTIVE, A, None, "1"), change(SCHEDULE, A, None, "1")],
            [
                ("-", "pick leaves pending of orders"),
                ("+", "pick enters active of orders"),
                ("+", "pick enters schedule of orders"),
            ],
        ),
        ([change(b"mine", "a", None, "1"), change(b"mine", "b", None, "1")], [("+", 'key "mine" gains 2 parts')]),
        ([change(b"mine", "a", "1", None)], [("-", 'key "mine" loses 1 part')]),
        ([change(b"mine", "a", "1", None), change(b"mine", "b", None, "1")], [("~", 'key "mine" changes in 2 parts')]),
        (
            [change(keys.queue_key("orders", "metrics:mine"), "count", None, "1"), change(b"a", None, None, "1")],
            [("+", "mine count of orders: 0 → 1"), ("+", 'key "a" gains 1 part')],
        ),
    ],
    ids=str,
)
def test_each_kind_of_change_has_its_line(changes: list[Change], lines: list[tuple[str, str]]) -> None:
    assert changes_in_words(changes, NAMES) == lines


def test_keys_come_in_the_order_of_their_weight() -> None:
    named = ("metrics:failed", "meta", "flow:outbox")
    own = [change(keys.queue_key("orders", name), "x", None, "1") for name in named]
    of_a_job = [sub(name, "x", None, "1") for name in ("logs", "failed", "unsuccessful", "processed")]
    changes = [
        *own,
        *of_a_job,
        change(ROW, "x", None, "1"),
        change(COUNTER, None, None, "1"),
        change(b"z", None, None, "1"),
    ]
    assert [words.partition(" of ")[0] for _, words in changes_in_words(changes, NAMES)] == [
        "the counter",
        "processed",
        "unsuccessful",
        "failed",
        "the row",
        "the outbox",
        "the logs",
        "setting x",
        "failed count",
        'key "z" gains 1 part',
    ]


def test_queues_and_ids_come_in_byte_order() -> None:
    stock = keys.queue_key("stock", "pending")
    changes = [change(stock, A, None, "0"), change(PENDING, B, None, "0"), change(PENDING, A, None, "0")]
    assert [words for _, words in changes_in_words(changes, NAMES)] == [
        "pick enters pending of orders",
        "label enters pending of orders",
        "pick enters pending of stock",
    ]


@pytest.mark.parametrize(
    ("key", "before", "after", "told"),
    [
        (ACTIVE, "1000", "1999", False),
        (ACTIVE, "1999", "1000", False),
        (ACTIVE, "1000", "2000", True),
        (SCHEDULE, "1000", "1999", False),
        (ACTIVE, "1000", None, True),
        (ACTIVE, None, "1000", True),
        (PENDING, "0", "1", True),
        (keys.subkey("orders", P, "active"), "1", "2", True),
        (ACTIVE, "1", "text", True),
    ],
)
def test_a_deadline_that_moves_by_less_than_a_second_is_no_news(
    key: bytes, before: str | None, after: str | None, told: bool
) -> None:
    one = change(key, A, before, after)
    assert list(telling([one])) == ([one] if told else [])


# --- replies and commands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (None, "none"),
        (3, "3"),
        (b"scheduled", '"scheduled"'),
        (b"x" * 30, f'"{"x" * 30}"'),
        (b"\xff", r'"\xff"'),
        (A.encode(), "pick"),
        (C.encode(), "JOB…GLuF"),
        ((), "an empty list"),
        ((1, None, b"x"), '1, none, "x"'),
        (tuple(range(6)), "0, 1, 2, 3, 4, 5"),
        (tuple(range(9)), "0, 1, 2, 3, 4, 5 and 3 more"),
        (ErrorReply("EMQSTALE", "job gone"), "EMQSTALE job gone"),
        (ErrorReply("ERR", "x" * 90), f"ERR {'x' * 75}…"),
    ],
)
def test_replies_are_told_as_they_came(reply: Reply, words: str) -> None:
    assert reply_words(reply, NAMES) == words


def commanded(
    verb: str, key: bytes, *args: bytes, reply: Reply = None, after: Mapping[bytes, Value] | None = None, **more: Any
) -> Callable[[], str]:
    """What makes the sentence of a command on the held flow, which then holds what `after` adds to it."""
    before = snapshot(held_flow() | more.get("before", {}))
    then = before if after is None else snapshot({**dict(before.entries), **after})
    for name in more.get("gone", ()):
        then = Snapshot(tuple(one for one in then.entries if one[0] != name), then.now)
    call = command(verb, [key, *more.get("keys", ())], list(args), lambda reply: reply)
    return lambda: calls.sentence(CallRecord(call, reply, before, then), READY, NAMES)


PAUSED = {META: fields(paused="1")}
SIGNALS = tuple(encode(Completion("orders", P, id, b"r")) for id in (A, B, A, B))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (commanded("HSET", META, b"paused", b"1", after=PAUSED), "HSET pauses orders: claims stop, and nothing else."),
        (
            commanded("HSET", META, b"paused", b"1", before=PAUSED),
            "HSET pauses orders, which was paused already; nothing changed.",
        ),
        (commanded("HDEL", META, b"paused", reply=1, before=PAUSED, gone=[META]), "HDEL resumes orders."),
        (commanded("HDEL", META, b"paused", reply=0), "HDEL resumes orders; it was not paused."),
        (
            commanded("HSET", ROW, b"state", b"dead", b"note", b"x", after={ROW: fields(state="dead")}),
            'HSET writes state = dead and note = "x" on the row of pick.',
        ),
        (
            commanded("HSET", ROW, b"parent", P.encode()),
            "HSET writes parent = pack order 7 on the row of pick; it was there already.",
        ),
        (
            commanded("HSET", ROW, b"a", b"b", after={ROW: fields(a="b"), b"emq:{orders}:x": Text(b"1")}),
            'HSET writes a = "b" on the row of pick. Also: key "emq:{orders}:x" gains 1 part.',
        ),
        (
            commanded("HDEL", ROW, b"parent", b"x", after={ROW: fields(state="dead")}),
            "HDEL deletes parent and x of the row of pick.",
        ),
        (commanded("HDEL", ROW, b"x", reply=0), "HDEL finds no x of the row of pick to delete; nothing changed."),
        (
            commanded("HMGET", ROW, b"parent", b"x", b"payload", reply=(P.encode(), None, b"pick")),
            'HMGET reads the row of pick: parent pack order 7, x none, payload "pick".',
        ),
        (commanded("HGET", ROW, b"state", reply=b"dead"), "HGET reads the row of pick: state dead."),
        (commanded("HGET", META, b"paused", reply=None), "HGET asks whether orders is paused: no."),
        (commanded("HMGET", META, b"paused", reply=(b"1",)), "HMGET asks whether orders is paused: yes."),
        (
            commanded("HMGET", ROW, b"a", b"b", reply=(None,)),
            "HMGET a b on the row of pick answers none; nothing changed.",
        ),
        (commanded("HGETALL", ROW, reply=()), "HGETALL reads the row of pick: it is empty."),
        (
            commanded("HGETALL", ROW, reply=(A.encode(), b"r")),
            'HGETALL reads the row of pick: pick → "r".',
        ),
        (
            commanded("HGETALL", ROW, reply=(b"a", b"1") * 5),
            'HGETALL reads the row of pick: "a" → "1", "a" → "1", "a" → "1", "a" → "1" and 1 more.',
        ),
        (commanded("HGETALL", ROW, reply=b"x"), 'HGETALL on the row of pick answers "x"; nothing changed.'),
        (commanded("HEXISTS", META, b"paused", reply=1), "HEXISTS asks whether orders is paused: yes."),
        (commanded("HEXISTS", META, b"paused", reply=0), "HEXISTS asks whether orders is paused: no."),
        (
            commanded("HEXISTS", keys.subkey("orders", P, "processed"), A.encode(), reply=1),
            "HEXISTS asks whether processed of pack order 7 has pick: yes.",
        ),
        (commanded("HEXISTS", META, b"wire", reply=0), "HEXISTS asks whether the settings of orders has wire: no."),
        (commanded("GET", COUNTER, reply=b"2"), "GET reads the counter of pack order 7: 2."),
        (commanded("GET", COUNTER, reply=b"2" * 41), f"GET reads the counter of pack order 7: {'2' * 39}…."),
        (commanded("GET", COUNTER), "GET reads the counter of pack order 7: there is none."),
        (
            commanded("ZSCORE", PENDING, A.encode(), reply=b"0"),
            "ZSCORE looks for pick in pending of orders: it is there.",
        ),
        (commanded("ZSCORE", PENDING, A.encode()), "ZSCORE looks for pick in pending of orders: it is not there."),
        (commanded("ZCARD", PENDING, reply=2), "ZCARD counts pending of orders: 2."),
        (commanded("HLEN", COUNTER, reply=2), "HLEN counts the counter of pack order 7: 2."),
        (commanded("LLEN", BOX, reply=2), "LLEN counts the outbox of orders: 2."),
        (commanded("EXISTS", ROW, reply=0), "EXISTS asks whether there is the row of pick: no."),
        (commanded("EXISTS", ROW, reply=1), "EXISTS asks whether there is the row of pick: yes."),
        (
            commanded("LRANGE", BOX, b"0", b"9", reply=()),
            "LRANGE reads the outbox of orders and removes nothing: it is empty.",
        ),
        (
            commanded("LRANGE", BOX, b"0", b"9", reply=SIGNALS[:1]),
            "LRANGE reads 1 entry of the outbox of orders and removes nothing: pick completed, for pack order 7 "
            "in orders.",
        ),
        (
            commanded("LRANGE", BOX, b"0", b"9", reply=SIGNALS),
            "LRANGE reads 4 entries of the outbox of orders and removes nothing: pick completed, for pack order 7 in "
            "orders; label completed, for pack order 7 in orders; pick completed, for pack order 7 in orders; "
            "and 1 more.",
        ),
        (
            commanded("LRANGE", keys.subkey("orders", A, "logs"), b"0", b"9", reply=(b"a", b"b", b"c")),
            'LRANGE reads 3 entries of the logs of pick and removes nothing: "a"; "b"; "c".',
        ),
        (commanded("LRANGE", BOX, reply=b"x"), 'LRANGE on the outbox of orders answers "x"; nothing changed.'),
        (
            commanded("LTRIM", BOX, b"1", b"-1", before={BOX: Items(SIGNALS[:2])}, after={BOX: Items(SIGNALS[1:2])}),
            "LTRIM trims 1 entry off the outbox of orders; 1 left.",
        ),
        (
            commanded("LTRIM", BOX, b"2", b"-1", before={BOX: Items(SIGNALS[:2])}, gone=[BOX]),
            "LTRIM trims 2 entries off the outbox of orders; 0 left.",
        ),
        (
            commanded("LTRIM", BOX, b"2", b"-1", before={BOX: Items(SIGNALS[:2])}),
            "LTRIM trims nothing off the outbox of orders; 2 left; nothing changed.",
        ),
        (
            commanded("RPUSH", BOX, *SIGNALS[:2], reply=2, after={BOX: Items(SIGNALS[:2])}),
            "RPUSH puts a signal into the outbox of orders: pick completed, for pack order 7 in orders; "
            "label completed, for pack order 7 in orders.",
        ),
        (
            commanded("RPUSH", BOX, b"x", reply=2),
            "RPUSH x on the outbox of orders answers 2; nothing changed.",
        ),
        (
            commanded("RPUSH", b"emq:list", b"x", reply=1, after={b"emq:list": Items((b"x",))}),
            'RPUSH x on key "emq:list" answers 1: key "emq:list" gains 1 part.',
        ),
        (
            commanded("DEL", keys.subkey("orders", A, "logs"), reply=0),
            "DEL finds no logs of pick to delete; nothing changed.",
        ),
        (
            commanded("DEL", ROW, keys=[COUNTER], reply=2, gone=[ROW, COUNTER]),
            "DEL deletes the row of pick and the counter of pack order 7.",
        ),
        (commanded("DEL", ROW, reply=1), "DEL deletes the row of pick; nothing changed."),
        (
            commanded("SINTER", b"a", b"b" * 30, *(b"x",) * 7, keys=[b"b", b"c", b"d"], reply=()),
            f'SINTER {"b" * 23}… x x x x x on key "a", key "b" and key "c" answers an empty list; nothing changed.',
        ),
        (
            commanded("HSET", ROW, b"a", b"b", reply=ErrorReply("WRONGTYPE", "no")),
            "HSET is refused: WRONGTYPE no; nothing changed.",
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_each_command_has_its_sentence(said: Callable[[], str], told: str) -> None:
    assert said() == told


def test_a_command_without_a_key_is_told_by_its_arguments_and_its_reply() -> None:
    for verb, args, reply, words in (
        ("ECHO", [b"a", b"b"], b"a", 'ECHO a b answers "a"; nothing changed.'),
        ("PING", [], b"PONG", 'PING answers "PONG"; nothing changed.'),
        ("HSET", [], 1, "HSET answers 1; nothing changed."),
    ):
        call = command(verb, [], args, lambda reply: reply)
        assert calls.sentence(CallRecord(call, reply, Snapshot(), Snapshot()), READY) == words


def test_more_changes_than_a_sentence_holds_are_counted() -> None:
    more = {f"emq:{{orders}}:x{n}".encode(): Text(b"1") for n in range(7)}
    six = "; ".join(f'key "emq:{{orders}}:x{n}" gains 1 part' for n in range(6))
    assert (
        commanded("ZCARD", PENDING, reply=2, after=more)()
        == f"ZCARD counts pending of orders: 2. Also: {six}; and 1 more."
    )
    del more[b"emq:{orders}:x6"]
    assert commanded("ZCARD", PENDING, reply=2, after=more)() == f"ZCARD counts pending of orders: 2. Also: {six}."


# --- whole operations -------------------------------------------------------------------------------------------------


@pytest.fixture
def world(server: Server) -> Server:
    """The server with ids that are the same on every run."""
    server.minter = Minter.fixed()
    return server


def told(trace: Trace) -> list[str]:
    """The sentence of every call."""
    return [calls.sentence(one, trace.scripts, Names.of_trace(trace)) for one in trace.calls]


def test_a_same_queue_flow_is_told_from_land_to_release(world: Server, queue: str) -> None:
    flows, jobs = Flows(world), Jobs(world)
    with record(world, pattern=keys.base(queue) + b"*") as trace:
        flows.add(queue, Flow("pack order 7", [Child("pick"), Child("label", on_failure="ignore")]))
        claim = jobs.claim(queue)
        assert claim is not None
        jobs.complete(queue, claim, result="shelf 4")
        second = jobs.claim(queue)
        assert second is not None
        jobs.retry(queue, second, error="no printer", max_attempts=1, delay_ms=0)
        with pytest.raises(EmqError):
            jobs.complete(queue, claim)
    assert told(trace) == [
        f"enqueue_flow lands the flow of pack order 7 in {queue} in one step: 2 children are claimable in pending, "
        "the parent is held in no set, its counter at 2.",
        "HSET writes parent_policy = fp (fail) on the row of pick.",
        "HSET writes parent_policy = id (ignore) on the row of label.",
        f"HEXISTS asks whether {queue} is paused: no.",
        f"claim hands out pick, the smallest id in pending of {queue}: it is active under a lease, and its token is 1.",
        "HMGET reads the row of pick: parent pack order 7, parent_queue none.",
        f"complete retires pick of {queue}: its result is in processed of pack order 7, whose counter goes 2 → 1.",
        "DEL finds no logs of pick to delete; nothing changed.",
        f"HEXISTS asks whether {queue} is paused: no.",
        f"claim hands out label, the smallest id in pending of {queue}: it is active under a lease, and its token is "
        "1.",
        "HMGET reads the row of label: parent pack order 7, parent_queue none, parent_policy id (ignore).",
        f'retry finds no attempt left for label of {queue}: it is dead, after "no printer". Its error is in '
        "unsuccessful of pack order 7, whose counter goes 1 → 0. That was the last one: pack order 7 is released into "
        "pending.",
        "HMGET reads the row of pick: parent none, parent_queue none.",
        f"complete finds no row of pick in {queue}: it is gone; nothing changed.",
    ]


def test_a_cross_queue_flow_is_told_with_its_outbox(world: Server, queues: Callable[..., str]) -> None:
    orders, payments = queues("orders"), queues("payments")
    flows, jobs = Flows(world), Jobs(world)
    with record(world) as trace:
        flows.add(orders, Flow("order", [Child("charge", queue=payments)]))
        claim = jobs.claim(payments)
        assert claim is not None
        jobs.complete(payments, claim)
        Pump(world, payments).sweep()
    spoken = told(trace)
    for words in (
        f"hold_parent lands order in {orders}, held in no set, its counter at 1.",
        f"enqueue_flow_child lands charge in {payments}, in pending, as a child of order in {orders}.",
        f"complete retires charge of {payments} and leaves a signal for order in {orders}, in the outbox of "
        f"{payments}.",
        f"LRANGE reads 1 entry of the outbox of {payments} and removes nothing: charge completed, for order in "
        f"{orders}.",
        f"flow_deliver brings the result of charge into processed of order in {orders}, whose counter goes 1 → 0. "
        "That was the last one: order is released into pending.",
        f"LTRIM trims 1 entry off the outbox of {payments}; 0 left.",
    ):
        assert words in spoken
    with record(world) as again:
        run(world, as_operation(trace.calls[-2].call))
    assert told(again) == [
        f"flow_deliver finds the result of JOB…GLuD in processed of order in {orders} already: it counts once; "
        "nothing changed."
    ]


def test_a_refusal_says_why_and_that_nothing_changed(world: Server, queue: str) -> None:
    trace = Trace.of(Flows(world).add.program(queue, Flow("order", [Child("x", id="ORD0KHTOWnGLuC")])), world)
    assert isinstance(trace.error, WrongNamespace)
    assert told(trace) == [
        "enqueue_flow is refused because of ORD…GLuC: EMQKIND job id must be JOB-namespaced; nothing changed."
    ]


def test_a_refusal_names_whose_fault_it_is_as_far_as_the_call_says_so() -> None:
    kind = ErrorReply("EMQKIND", "job id must be JOB-namespaced")
    args = (P.encode(), b"p", b"2", A.encode(), b"a", b"ORD0KHTOWnGLuC", b"b")
    queue_keys = (keys.job("orders", P), COUNTER, PENDING, ROW, keys.job("orders", "ORD0KHTOWnGLuC"))
    for reply, sent, words in (
        (kind, args, "because of ORD…GLuC: EMQKIND job id must be JOB-namespaced"),
        (kind, (*args[:5], B.encode(), b"b"), "for pack order 7: EMQKIND job id must be JOB-namespaced"),
        (ErrorReply("ERR", "no"), args, "for pack order 7: ERR no"),
        (kind, (b"no id", *args[1:3], b"nor", b"a", b"this", b"b"), ": EMQKIND job id must be JOB-namespaced"),
        (kind, args[:2], ": EMQKIND job id must be JOB-namespaced"),
    ):
        one = CallRecord(script_call("enqueue_flow", queue_keys, sent), reply, Snapshot(), Snapshot())
        expected = f"enqueue_flow is refused {words}; nothing changed.".replace("refused :", "refused:")
        assert calls.sentence(one, READY, NAMES) == expected


def test_an_error_after_writes_is_told_with_what_stays(world: Server, queue: str) -> None:
    with record(world) as trace:
        Jobs(world).enqueue(queue, "a", id=A)
    one = trace.calls[-1]
    broken = CallRecord(one.call, ErrorReply("ERR", "attempt to index a nil value"), one.before, one.after)
    assert calls.sentence(broken, trace.scripts) == (
        "enqueue is refused for JOB…GLuD: ERR attempt to index a nil value; what it had written before stays: "
        f'JOB…GLuD enters pending of {queue}; the row of JOB…GLuD appears: state pending, attempts 0, payload "a".'
    )


# --- round trips ------------------------------------------------------------------------------------------------------


def test_a_round_trip_of_several_calls_is_one_sentence(world: Server, queue: str) -> None:
    trace = Trace.of(Flows(world).add.program(queue, Flow("p", [Child("a"), Child("b")])), world)
    assert calls.step_sentence(trace.steps[0], trace.scripts, Names.of_trace(trace)) == told(trace)[0]
    with record(world, pattern=keys.base(queue) + b"*") as depths:
        Jobs(world).depths(queue)
    (step,) = depths.steps
    four = f"4 calls in one round trip: {' '.join(told(depths))}"
    assert calls.step_sentence(step, depths.scripts) == four
    five = replace(step, flush=Flush((*step.flush.calls, step.flush.calls[0])), calls=(*step.calls, step.calls[0]))
    some = " ".join(told(depths)[:3])
    assert calls.step_sentence(five, depths.scripts) == f"5 calls in one round trip: {some} And 2 more."


def test_policies_written_in_one_round_trip_are_told_once(world: Server, queue: str) -> None:
    flow = Flow("p", [Child("a"), Child("b"), Child("c", on_failure="ignore")])
    trace = Trace.of(Flows(world).add.program(queue, flow), world)
    step = trace.steps[1]
    once = "3 calls in one round trip: the failure policies of 3 children are written (fp, fp, id)"
    assert calls.step_sentence(step, trace.scripts) == f"{once}."
    same = replace(step, before=step.after, calls=tuple(replace(one, before=step.after) for one in step.calls))
    assert calls.step_sentence(same, trace.scripts) == f"{once}; they were there already."
    writes = "HSET writes parent_policy = fp (fail) on the row of"
    refused = replace(step, calls=(replace(step.calls[0], reply=ErrorReply("WRONGTYPE", "no")), *step.calls[1:]))
    assert calls.step_sentence(refused, trace.scripts).startswith(
        "3 calls in one round trip: HSET is refused: WRONGTYPE"
    )
    twice = replace(step, calls=(step.calls[0], step.calls[0], step.calls[2]))
    assert calls.step_sentence(twice, trace.scripts).startswith(f"3 calls in one round trip: {writes}")
    fewer = replace(step, calls=step.calls[:2])
    assert calls.step_sentence(fewer, trace.scripts).startswith(f"3 calls in one round trip: {writes}")
    lost = replace(step, lost=ReplyLost("fake://", "HSET"))
    assert calls.step_sentence(lost, trace.scripts).startswith(f"3 calls in one round trip: {writes}")


def test_many_policies_are_counted_and_two_are_told_like_three(world: Server, queue: str) -> None:
    children = [Child(f"c{n}", on_failure="ignore" if n == 3 else "fail") for n in range(7)]
    for shown, words in (
        (children, "7 children are written (6 fp, 1 id)"),
        (children[2:4], "2 children are written (fp, id)"),
    ):
        trace = Trace.of(Flows(world).add.program(queue, Flow("p", shown)), world)
        said = calls.step_sentence(trace.steps[1], trace.scripts)
        assert said == f"{len(shown)} calls in one round trip: the failure policies of {words}."


@pytest.mark.parametrize(
    ("verb", "key", "args"),
    [
        ("HGET", ROW, (b"parent_policy", b"fp")),
        ("HSET", ROW, (b"parent_policy", b"fp", b"a", b"b")),
        ("HSET", ROW, (b"state", b"dead")),
        ("HSET", META, (b"parent_policy", b"fp")),
    ],
)
def test_a_round_trip_with_anything_else_is_told_call_by_call(verb: str, key: bytes, args: tuple[bytes, ...]) -> None:
    one = command("HSET", [keys.job("orders", B)], [b"parent_policy", b"fp"], lambda reply: reply)
    odd = command(verb, [key], list(args), lambda reply: reply)
    before = snapshot(held_flow())
    records = tuple(CallRecord(call, 1, before, before) for call in (one, odd))
    step = Step("x", 0, 1, Flush((one, odd)), records, before, before)
    assert "the failure policies" not in calls.step_sentence(step, READY)


def test_what_a_multi_did_is_told_of_the_whole_and_once() -> None:
    pause = command("HSET", [META], [b"paused", b"1"], lambda reply: reply)
    asks = command("HEXISTS", [META], [b"paused"], lambda reply: reply)
    before, after = snapshot({}), snapshot({META: fields(paused="1"), b"emq:{orders}:x": Text(b"1")})
    records = (CallRecord(pause, 1, before, before), CallRecord(asks, 1, after, after))
    step = Step("x", 0, 1, Flush((pause, asks), atomic=True), records, before, after)
    assert calls.step_sentence(step, READY) == (
        "2 calls in one MULTI … EXEC: HSET pauses orders: claims stop, and nothing else. "
        'HEXISTS asks whether orders is paused: yes. Also: key "emq:{orders}:x" gains 1 part.'
    )
    one = Step("x", 0, 1, Flush((pause,), atomic=True), records[:1], before, after)
    assert calls.step_sentence(one, READY).startswith("HSET pauses orders: claims stop, and nothing else. Also: key")


def test_a_lost_reply_is_not_hidden() -> None:
    pause = command("HSET", [META], [b"paused", b"1"], lambda reply: reply)
    before = snapshot({})
    lost = " The round trip ends with ReplyLost: it is not known whether what is missing took effect."
    step = Step("x", 0, 1, Flush((pause,)), (), before, before, ReplyLost("fake://", "HSET"))
    assert calls.step_sentence(step, READY) == f"1 calls in one round trip, and not one reply.{lost}"
    first = CallRecord(pause, 1, before, snapshot({META: fields(paused="1")}))
    step = replace(step, flush=Flush((pause, pause)), calls=(first,))
    pauses = "HSET pauses orders: claims stop, and nothing else."
    assert calls.step_sentence(step, READY) == f"2 calls in one round trip: {pauses}{lost}"
    assert calls.step_sentence(replace(step, flush=Flush((pause,))), READY) == f"{pauses}{lost}"


def test_what_nobody_sent_is_told_by_its_mark() -> None:
    step = Step("time", 0, 1, Flush(()), (), snapshot({}), snapshot({}), None, "The lease lapses.")
    assert calls.step_sentence(step, READY) == "The lease lapses."


def test_the_start_says_what_there_is(server: Server, queue: str) -> None:
    nothing = "The start: nothing has been sent yet, and the keyspace is empty."
    assert calls.start_sentence(Snapshot()) == nothing
    Jobs(server).enqueue(queue, "a")
    start = "The start: nothing has been sent yet. Already there: "
    assert calls.start_sentence(capture(server, keys.base(queue) + b"*")) == f"{start}{queue} (1 row)."
    rows = {keys.job("orders", A): row("pending"), keys.job("payments", B): row("pending")}
    several = snapshot({**rows, b"stray": Text(b"x")})
    assert calls.start_sentence(several) == f"{start}orders (1 row), payments (1 row) and 1 other key."
