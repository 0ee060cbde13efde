"""Ids: every vector of the protocol, exact refusals, and a minter that only ever goes up."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqkit import ids
from emqkit.errors import BadArgument, IllFormedId
from emqkit.ids import EPOCH_MS, LARGEST_SNOWFLAKE, Minter, check, encode, parse

VECTORS = [
    (0, "00000000000"),
    (61, "0000000000z"),
    (62, "00000000010"),
    (12345678901234, "0003VLrOWLi"),
    (274557032793636864, "0KHTOWnGLuC"),
    (320636799581945856, "0NgWEfAEJfs"),
    (328491001455796225, "0OGUWI87UdF"),
    (LARGEST_SNOWFLAKE, "AzL8n0Y58m7"),
]

snowflakes = st.integers(0, LARGEST_SNOWFLAKE)
namespaces = st.text(alphabet="ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3)
readings = st.one_of(st.integers(EPOCH_MS - 3, EPOCH_MS + 3), st.integers(-(10**15), EPOCH_MS + (1 << 41) - 10_000))


@pytest.mark.parametrize(("snowflake", "payload"), VECTORS)
def test_every_vector_reads_and_writes(snowflake: int, payload: str) -> None:
    assert encode(snowflake) == "JOB" + payload
    assert parse("JOB" + payload).snowflake == snowflake


def test_the_parts_of_the_vectors_are_the_stated_ones() -> None:
    dated = parse("JOB0KHTOWnGLuC")
    assert dated.instant == datetime(2026, 1, 27, 15, 11, 37, 641000, tzinfo=UTC)
    assert (dated.namespace, dated.node, dated.sequence) == ("JOB", 0, 0)
    numbered = parse("JOB0OGUWI87UdF")
    assert (numbered.node, numbered.sequence) == (758, 1)


def test_the_first_millisecond_of_node_four_is_the_stated_id() -> None:
    assert encode(1 << 22 | 4 << 12) == "JOB0000000HfOK"
    assert Minter(4, clock=lambda: EPOCH_MS + 1).mint() == "JOB0000000HfOK"


@given(snowflakes, namespaces)
def test_an_id_reads_back_as_what_was_written(snowflake: int, namespace: str) -> None:
    id = encode(snowflake, namespace)
    parts = parse(id)
    assert len(id.encode()) == 14
    assert (parts.snowflake, parts.namespace, parts.id) == (snowflake, namespace, id)
    since = parts.milliseconds - EPOCH_MS
    assert since << 22 | parts.node << 12 | parts.sequence == snowflake


@given(snowflakes, snowflakes)
def test_byte_order_is_numeric_order(one: int, other: int) -> None:
    assert (encode(one).encode() < encode(other).encode()) == (one < other)


@given(st.text(alphabet=st.sampled_from("0Az9ZaJOB"), min_size=14, max_size=14))
def test_text_is_an_id_exactly_when_writing_its_number_gives_it_back(text: str) -> None:
    try:
        parts = parse(text)
    except IllFormedId:
        assert not text[:3].isalpha() or not text[:3].isupper() or text[3:] > "AzL8n0Y58m7"
    else:
        assert parts.id == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has 0 characters, an id has 14"),
        ("JOB0000000000", "it has 13 characters, an id has 14"),
        ("JOB000000000000", "it has 15 characters, an id has 14"),
        ("JOB00000000000\n", "it has 15 characters, an id has 14"),
        ("job00000000000", "its namespace is 'job', a namespace is three letters A-Z"),
        ("J0B00000000000", "its namespace is 'J0B', a namespace is three letters A-Z"),
        ("ÄÖÜ00000000000", "its namespace is 'ÄÖÜ', a namespace is three letters A-Z"),
        ("JOB0000000000-", "character 14 is '-', which is not one of 0-9, A-Z, a-z"),
        ("JOB 0000000000", "character 4 is ' ', which is not one of 0-9, A-Z, a-z"),
        ("JOB000\x000000000", "character 7 is '\\x00', which is not one of 0-9, A-Z, a-z"),
        ("JOB0000000000é", "character 14 is 'é', which is not one of 0-9, A-Z, a-z"),
        ("JOB0000000000٣", "character 14 is '٣', which is not one of 0-9, A-Z, a-z"),
        ("JOBAzL8n0Y58m8", "its payload 'AzL8n0Y58m8' is above the largest one, 'AzL8n0Y58m7' (2^63-1)"),
        ("JOBzzzzzzzzzzz", "its payload 'zzzzzzzzzzz' is above the largest one, 'AzL8n0Y58m7' (2^63-1)"),
    ],
)
def test_an_ill_formed_id_is_refused_with_the_exact_reason(text: str, why: str) -> None:
    with pytest.raises(IllFormedId) as refusal:
        check(text)
    assert refusal.value.id == text
    assert refusal.value.why == why


@pytest.mark.parametrize("value", [b"JOB00000000000", 14, None])
def test_what_is_not_text_is_no_id(value: object) -> None:
    with pytest.raises(IllFormedId, match="an id is text"):
        parse(value)  # type: ignore[arg-type]


def test_an_id_of_another_namespace_is_well_formed() -> None:
    assert check("EVT0KHTOWnGLuC") == "EVT0KHTOWnGLuC"
    assert parse("EVT0KHTOWnGLuC").namespace == "EVT"


@pytest.mark.parametrize("snowflake", [-1, LARGEST_SNOWFLAKE + 1, True, 1.0])
def test_a_snowflake_that_does_not_fit_is_a_bad_argument(snowflake: int) -> None:
    with pytest.raises(BadArgument) as refusal:
        encode(snowflake)
    assert (refusal.value.name, refusal.value.value) == ("snowflake", snowflake)


@pytest.mark.parametrize("namespace", ["", "JO", "JOBS", "job", "J B", "ÄÖÜ"])
def test_a_namespace_is_three_letters_everywhere(namespace: str) -> None:
    with pytest.raises(BadArgument, match="three letters"):
        encode(0, namespace)
    with pytest.raises(BadArgument, match="three letters"):
        Minter(namespace=namespace)


@pytest.mark.parametrize("node", [-1, 1024, 2**40, True, 3.0])
def test_a_node_outside_ten_bits_is_a_bad_argument(node: int) -> None:
    with pytest.raises(BadArgument) as refusal:
        Minter(node)
    assert (refusal.value.name, refusal.value.value) == ("node", node)


@given(st.lists(readings, min_size=1, max_size=60), st.integers(0, 1023))
def test_a_minter_only_goes_up_whatever_its_clock_does(clock: list[int], node: int) -> None:
    ticks = iter(clock)
    minter = Minter(node, clock=lambda: next(ticks))
    minted = [minter.mint() for _ in clock]
    assert minted == sorted(set(minted))
    assert {parse(id).node for id in minted} == {node}
    high = EPOCH_MS
    for reading, id in zip(clock, minted, strict=True):
        high = max(high, reading)
        assert parse(id).milliseconds == high, "with ids to spare, an id carries the latest reading so far"


@pytest.mark.parametrize("node", [0, 1023])
def test_after_4096_ids_in_a_millisecond_the_next_one_is_borrowed(node: int) -> None:
    now = EPOCH_MS + 1000
    minter = Minter(node, clock=lambda: now)
    minted = [minter.mint() for _ in range(2 * 4096 + 1)]
    assert minted == sorted(set(minted))
    assert [(parse(minted[n]).milliseconds - now, parse(minted[n]).sequence) for n in (0, 4095, 4096, 8191, 8192)] == [
        (0, 0),
        (0, 4095),
        (1, 0),
        (1, 4095),
        (2, 0),
    ]
    now += 2  # the clock has caught up with what was borrowed, and the count goes on
    assert parse(minter.mint()).sequence == 1
    now += 1
    assert parse(minter.mint()).sequence == 0


def test_a_reading_no_id_can_hold_mints_nothing_and_spoils_nothing() -> None:
    now = EPOCH_MS + 5
    minter = Minter(clock=lambda: now)
    first = minter.mint()
    now = EPOCH_MS + (1 << 41)
    with pytest.raises(BadArgument, match="clock"):
        minter.mint()
    now = EPOCH_MS + 5
    assert parse(minter.mint()).snowflake == parse(first).snowflake + 1


def test_the_last_millisecond_is_minted_to_its_end_and_then_refused() -> None:
    minter = Minter(1023, clock=lambda: EPOCH_MS + (1 << 41) - 1)
    minted = [minter.mint() for _ in range(4096)]
    assert minted[-1] == encode(LARGEST_SNOWFLAKE)
    with pytest.raises(BadArgument, match="used up"):
        minter.mint()


@given(snowflakes.filter(lambda snowflake: snowflake >> 22 < (1 << 41) - 1), st.integers(0, 1023))
def test_a_minter_started_after_an_id_stays_above_it(last: int, node: int) -> None:
    assert Minter(node, clock=lambda: 0, start=encode(last)).mint() > encode(last)


def test_a_start_that_is_no_id_is_refused_at_once() -> None:
    with pytest.raises(IllFormedId):
        Minter(start="yesterday")


def test_a_fixed_minter_gives_the_same_ids_on_every_run() -> None:
    minter = Minter.fixed()
    assert [minter.mint(), minter.mint(), minter.mint()] == ["JOB0KHTOWnGLuC", "JOB0KHTOWnGLuD", "JOB0KHTOWnGLuE"]
    assert parse(Minter.fixed(instant_ms=EPOCH_MS + 7, node=9, namespace="EVT").mint()) == ids.Parts(
        "EVT", EPOCH_MS + 7, 9, 0, 7 << 22 | 9 << 12
    )


def test_a_fixed_instant_must_be_a_whole_number_of_milliseconds() -> None:
    with pytest.raises(BadArgument, match="instant_ms"):
        Minter.fixed(instant_ms=1.5)  # type: ignore[arg-type]


def test_the_default_clock_is_the_wall_clock() -> None:
    before = ids.unix_milliseconds()
    minted = parse(Minter().mint()).milliseconds
    assert before <= minted <= ids.unix_milliseconds()


def test_threads_share_a_minter_without_a_repeat() -> None:
    minter = Minter.fixed()
    minted: list[list[str]] = [[] for _ in range(4)]

    def work(mine: list[str]) -> None:
        mine.extend(minter.mint() for _ in range(3000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in minted)
    assert len({id for mine in minted for id in mine}) == 12_000


def test_a_minter_shows_what_it_mints_for() -> None:
    assert repr(Minter(7, namespace="EVT")) == "Minter(node=7, namespace='EVT')"
    assert (Minter(7).node, Minter(7).namespace) == (7, "JOB")


def test_a_process_shares_one_minter() -> None:
    assert ids.process_minter() is ids.process_minter()
    assert ids.process_minter().mint() < ids.process_minter().mint()
