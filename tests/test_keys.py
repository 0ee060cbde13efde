"""Every key is built in one place, gated there, and read back; its slot is the cluster's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch import ILL_FORMED

from emqkit import keys
from emqkit.errors import IllFormedId, IllFormedQueue
from emqkit.ids import LARGEST_SNOWFLAKE, encode
from emqkit.keys import ParsedKey

ID = "JOB0NgWEfAEJfs"

ILL_FORMED_QUEUES: list[Any] = ["", "a\0b", "a{b", "a}b", "{}", b"orders", None, 7, True, "\ud800"]

queue_names = st.text(st.characters(exclude_characters="\0{}", exclude_categories=["Cs"]), min_size=1, max_size=12)
job_ids = st.integers(0, LARGEST_SNOWFLAKE).map(encode)


@pytest.mark.parametrize(
    "key, slot",
    [
        ("123456789", 12739),
        ("orders", 105),
        ("validation", 2775),
        ("inventory", 14370),
        ("payments", 8507),
        ("quotes", 3378),
        ("emails", 3728),
        ("emq", 9051),
        ("emq:{orders}:pending", 105),
        ("emq:{}:pending", 7387),  # nothing stands between the braces: the whole key counts
        ("emq:{}{orders}:x", 9920),  # and later braces are not tried
        ("{orders}{payments}", 105),
        ("orders}{payments}", 8507),  # a brace that closes nothing counts for nothing
        ("{orders{payments}}", 6890),
        ("{orders", 3879),  # nor does one that is never closed
        ("", 0),
    ],
)
def test_slots_are_those_of_the_cluster(key: str, slot: int) -> None:
    assert keys.slot(key) == keys.slot(key.encode()) == slot


@given(queue_names, job_ids)
def test_every_key_of_a_queue_shares_its_slot(queue: str, id: str) -> None:
    one = keys.slot(queue)
    built = [keys.base(queue), keys.queue_key(queue, "pending"), keys.job(queue, id), keys.subkey(queue, id, "failed")]
    assert {keys.slot(key) for key in built} == {one}


def test_keys_are_spelled_as_the_protocol_says() -> None:
    assert keys.base("orders") == b"emq:{orders}:"
    assert keys.queue_key("orders", "flow:outbox") == b"emq:{orders}:flow:outbox"
    assert keys.job_prefix("orders") == b"emq:{orders}:job:"
    assert keys.job("orders", ID) == b"emq:{orders}:job:JOB0NgWEfAEJfs"
    assert keys.subkey("orders", ID, "dependencies") == b"emq:{orders}:job:JOB0NgWEfAEJfs:dependencies"


@pytest.mark.parametrize("queue", ILL_FORMED_QUEUES, ids=repr)
def test_an_ill_formed_queue_is_refused_by_every_builder(queue: Any) -> None:
    for build in (
        lambda: keys.check_queue(queue),
        lambda: keys.base(queue),
        lambda: keys.queue_key(queue, "pending"),
        lambda: keys.job_prefix(queue),
        lambda: keys.job(queue, ID),
        lambda: keys.subkey(queue, ID, "failed"),
    ):
        with pytest.raises(IllFormedQueue) as caught:
            build()
        assert caught.value.queue is queue


@pytest.mark.parametrize("id", ILL_FORMED, ids=repr)
def test_an_ill_formed_id_is_refused_at_the_key_builder(id: Any) -> None:
    builders: tuple[Callable[[], bytes], ...] = (
        lambda: keys.job("orders", id),
        lambda: keys.subkey("orders", id, "failed"),
    )
    for build in builders:
        with pytest.raises(IllFormedId) as caught:
            build()
        assert caught.value.id is id


def test_an_id_of_another_namespace_passes_the_key_builder() -> None:
    assert keys.job("orders", "USR0NgWEfAEJfs") == b"emq:{orders}:job:USR0NgWEfAEJfs"


def test_a_queue_name_that_came_as_any_bytes_goes_out_as_the_same_bytes() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert keys.base(name) == b"emq:{caf\xe9}:"
    parsed = keys.parse(b"emq:{caf\xe9}:pending")
    assert parsed is not None
    assert parsed.queue == name


@given(queue_names, job_ids, st.sampled_from(["dependencies", "processed", "failed", "unsuccessful", "logs"]))
def test_a_key_read_back_says_what_it_was_built_from(queue: str, id: str, name: str) -> None:
    assert keys.parse(keys.queue_key(queue, "flow:outbox")) == ParsedKey(queue, "flow:outbox")
    assert keys.parse(keys.job(queue, id)) == ParsedKey(queue, "row", id)
    assert keys.parse(keys.subkey(queue, id, name)) == ParsedKey(queue, name, id)


def test_no_two_keys_read_as_the_same() -> None:
    named = [b"emq:{q}:job:x", b"emq:{q}:job:x:row", b"emq:{q}:job:x:", b"emq:{q}:row", b"emq:{q}:job:x:logs"]
    parsed = [ParsedKey("q", "row", "x"), ParsedKey("q", "job:x:row"), ParsedKey("q", "job:x:"), ParsedKey("q", "row")]
    assert [keys.parse(key) for key in named] == [*parsed, ParsedKey("q", "logs", "x")]


@pytest.mark.parametrize(
    "key", [b"", b"orders", b"emq:orders:pending", b"emq:{}:pending", b"emq:{orders}", b"emq:{a{b}:x", b"emq:{a}b}:x"]
)
def test_a_key_that_is_not_the_protocols_is_none(key: bytes) -> None:
    assert keys.parse(key) is None


@given(st.binary(max_size=40))
def test_any_bytes_can_be_asked_about(key: bytes) -> None:
    parsed = keys.parse(b"emq:{" + key)
    if parsed is not None:
        keys.check_queue(parsed.queue)
