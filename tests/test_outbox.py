"""The outbox codec: any bytes go in and come out, and what cannot be read is poison with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch import EVERY_BYTE, ILL_FORMED, A, P, Q, outbox

from emqkit import transitions
from emqkit.errors import IllFormedId, IllFormedQueue
from emqkit.ids import LARGEST_SNOWFLAKE
from emqkit.ids import encode as id_of
from emqkit.outbox import Completion, Failure, Poison, decode, encode, signal_death
from emqkit.servers import Server
from emqkit.transitions import ParentLink
from emqkit.wire import run

# A queue's name is whatever came over the wire: text, or bytes that are no UTF-8 (kept by surrogateescape).
queue_names = (
    st.binary(min_size=1, max_size=12)
    .filter(lambda name: not set(name) & set(b"\0{}"))
    .map(lambda name: name.decode("utf-8", "surrogateescape"))
)
ids = st.builds(id_of, st.integers(0, LARGEST_SNOWFLAKE), st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3))
policies = st.sampled_from(["fp", "id", "", "else"]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
)
completions = st.builds(Completion, queue_names, ids, ids, st.binary())
failures = st.builds(Failure, queue_names, ids, ids, policies, st.binary())


@given(completions | failures)
def test_an_entry_read_back_is_the_entry_written(entry: Completion | Failure) -> None:
    assert decode(encode(entry)) == entry


@given(st.binary() | st.binary().map(b"\0fail\0".__add__) | st.lists(st.binary(max_size=4)).map(b"\0".join))
def test_any_bytes_are_an_entry_or_poison_and_never_an_exception(raw: bytes) -> None:
    entry = decode(raw)
    if isinstance(entry, Poison):
        assert entry.entry == raw
        assert entry.why
    else:
        assert encode(entry) == raw


@given(completions | failures, st.data())
def test_an_entry_cut_short_of_its_last_separator_is_poison(entry: Completion | Failure, data: st.DataObject) -> None:
    raw = encode(entry)
    last = len(raw) - len(entry.result if isinstance(entry, Completion) else entry.error) - 1
    cut = raw[: data.draw(st.integers(0, last))]
    assert isinstance(decode(cut), Poison)


def test_entries_are_spelled_as_the_protocol_says() -> None:
    p, a = P.encode(), A.encode()
    assert encode(Completion("orders", P, A, b"ok\0\xff")) == b"orders\0" + p + b"\0" + a + b"\0ok\0\xff"
    assert encode(Failure("orders", P, A, "fp", b"bo\0om")) == b"\0fail\0orders\0" + p + b"\0" + a + b"\0fp\0bo\0om"


def test_the_empty_first_field_tells_a_failure_from_a_queue_named_fail() -> None:
    assert decode(encode(Completion("fail", P, A, b"x"))) == Completion("fail", P, A, b"x")
    assert decode(encode(Failure("fail", P, A, "fail", b"fail"))) == Failure("fail", P, A, "fail", b"fail")


def test_a_result_full_of_separators_is_still_the_rest() -> None:
    assert decode(encode(Completion("orders", P, A, b"\0\0\0\0\0\0\0"))) == Completion("orders", P, A, b"\0" * 7)
    assert decode(encode(Failure("orders", P, A, "id", b"\0" * 9))) == Failure("orders", P, A, "id", b"\0" * 9)


GOOD = {"queue": b"orders", "parent": P.encode(), "child": A.encode()}


def completion(**wrong: bytes) -> bytes:
    part = GOOD | wrong
    return b"\0".join([part["queue"], part["parent"], part["child"], b"ok"])


def failure(tag: bytes = b"fail", **wrong: bytes) -> bytes:
    part = GOOD | wrong
    return b"\0".join([b"", tag, part["queue"], part["parent"], part["child"], b"fp", b"boom"])


POISON: dict[str, tuple[bytes, str]] = {
    "nothing at all": (b"", "0 NULs"),
    "no separator": (b"orders", "0 NULs"),
    "one separator too few": (b"orders\0" + P.encode() + b"\0" + A.encode(), "2 NULs, and a completion has 3"),
    "a failure with too few": (
        b"\0fail\0orders\0" + P.encode() + b"\0" + A.encode() + b"\0fp",
        "5 NULs, and a failure has 6",
    ),
    "a lone separator": (b"\0", "1 NULs, and a failure has 6"),
    "another tag": (failure(tag=b"fall"), "tag is 'fall'"),
    "a tag in capitals": (failure(tag=b"FAIL"), "tag is 'FAIL'"),
    "an empty tag": (failure(tag=b""), "tag is ''"),
    "an ill-formed parent": (completion(parent=b"JOB"), "ill-formed id 'JOB'"),
    "an ill-formed child": (completion(child=b"JOBAzL8n0Y58m8"), "ill-formed id"),
    "a parent that is no text": (completion(parent=b"\xff" * 14), "ill-formed id"),
    "an ill-formed queue": (completion(queue=b"or{ders"), "ill-formed queue"),
    "a dead child's ill-formed parent": (failure(parent=b""), "ill-formed id ''"),
    "a dead child's ill-formed id": (failure(child=b"job0000000000A"), "ill-formed id"),
    "a dead child's empty queue": (failure(queue=b""), "ill-formed queue name ''"),
    "a dead child's ill-formed queue": (failure(queue=b"a}b"), "ill-formed queue"),
}


@pytest.mark.parametrize("kind", POISON)
def test_poison_says_why_and_keeps_its_bytes(kind: str) -> None:
    raw, why = POISON[kind]
    entry = decode(raw)
    assert isinstance(entry, Poison)
    assert entry.entry == raw
    assert why in entry.why


def test_an_id_of_another_namespace_is_no_poison_by_itself() -> None:
    assert decode(completion(parent=b"USR0000000000A")) == Completion("orders", "USR0000000000A", A, b"ok")


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_poison_is_not_written_for_an_ill_formed_id(id: Any) -> None:
    for entry in (
        Completion("orders", id, A, b""),
        Completion("orders", P, id, b""),
        Failure("orders", id, A, "fp", b""),
    ):
        with pytest.raises(IllFormedId):
            encode(entry)


@pytest.mark.parametrize("queue", ["", "a{b", "a\0b", b"orders"])
def test_poison_is_not_written_for_an_ill_formed_queue(queue: Any) -> None:
    with pytest.raises(IllFormedQueue):
        encode(Failure(queue, P, A, "fp", b""))


@pytest.mark.parametrize("above", [None, "orders"])
def test_a_dead_inner_node_signals_from_its_own_queue(server: Server, queue: str, above: str | None) -> None:
    run(server, signal_death(queue, Q, ParentLink(P, above, "id"), EVERY_BYTE))
    assert outbox(server, queue) == (encode(Failure(above or queue, P, Q, "id", EVERY_BYTE)),)


@pytest.mark.parametrize("result", [b"", b"\0", EVERY_BYTE, b"\0fail\0"])
def test_the_scripts_and_the_codec_spell_a_completion_alike(server: Server, queue: str, result: bytes) -> None:
    server.client.hset(f"emq:{{{queue}}}:job:{A}", mapping={"attempts": "1", "state": "active", "payload": "x"})
    server.client.zadd(f"emq:{{{queue}}}:active", {A: 10**14})
    run(server, iter_steps(transitions.complete(queue, A, 1, ParentLink(P, "caf\udce9"), result)))
    assert [decode(raw) for raw in outbox(server, queue)] == [Completion("caf\udce9", P, A, result)]


@pytest.mark.parametrize("policy", ["fp", "id"])
@pytest.mark.parametrize("error", [b"", b"\0", EVERY_BYTE])
def test_the_scripts_and_the_codec_spell_a_failure_alike(server: Server, queue: str, policy: Any, error: bytes) -> None:
    server.client.hset(f"emq:{{{queue}}}:job:{A}", mapping={"attempts": "1", "state": "active", "payload": "x"})
    run(server, iter_steps(transitions.retry(queue, A, 1, 0, 1, error, ParentLink(P, "caf\udce9", policy))))
    assert [decode(raw) for raw in outbox(server, queue)] == [Failure("caf\udce9", P, A, policy, error)]


def iter_steps(call: Any) -> Any:
    value = yield from call
    return value
