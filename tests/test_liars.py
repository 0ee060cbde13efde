"""Nothing broken is said to hold: each row of the table, run for real and explored."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from liars import LIARS, Liar, Stage

from emqkit.errors import UnsuitableServer
from emqkit.servers import Server
from emqkit.servers.embedded import Process, start_process


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """A Valkey of this file's own, since some rows empty the whole server."""
    try:
        process = start_process()
    except UnsuitableServer as missing:
        pytest.skip(f"no sandbox here: {missing}")
    with process:
        process.take_database()  # one is held throughout, so that the process does not end with a row
        yield process


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.broken)
def test_what_is_broken_is_seen_broken_and_not_said_to_hold(
    liar: Liar, process: Process, embedded_server: Server
) -> None:
    with Stage(process, liar.scripts) as stage:
        assert liar.shown(stage)
    said = liar.said(embedded_server)
    assert not said.startswith("holds")
    assert re.match(liar.says, said), said


def test_the_table_is_long_and_says_each_thing_once() -> None:
    assert len(LIARS) == len({liar.broken for liar in LIARS}) >= 40
