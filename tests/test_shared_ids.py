"""Whoever mints for one server, process, thread or fork: no id is minted twice, by construction."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from emqkit import Child, Flow, Flows, Minter, keys
from emqkit.errors import ReplyLost, Unreachable, UnsuitableServer
from emqkit.ids import EPOCH_MS, SharedMinter, Stretch, parse, process_minter
from emqkit.servers import Server, open_server
from emqkit.servers.base import IDS_KEY
from emqkit.servers.embedded import EmbeddedServer, start_process
from emqkit.wire import ErrorReply, Flush, Reply, command

NOW = EPOCH_MS + 10**11


def reserve(server: Server, now: int, length: int) -> Stretch:
    call = command("reserve", [IDS_KEY], [b"%d" % now, b"%d" % length], lambda reply: reply)
    (reply,) = server.round_trip(Flush((replace(call, kind="tool"),)))
    assert isinstance(reply, tuple)
    return Stretch(*(int(part) for part in reply if isinstance(part, bytes)))


# --- stretches --------------------------------------------------------------------------------------------------------


def test_stretches_of_one_node_never_overlap_however_many_are_asked_for(private_server: Server) -> None:
    asked = [(NOW + step % 7 * 40 - step % 3 * 500, 1000 + step % 5 * 50) for step in range(1500)]  # clocks differ
    given = [reserve(private_server, now, length) for now, length in asked]
    for (now, length), stretch in zip(asked, given, strict=True):
        assert stretch.first >= now
        assert stretch.last - stretch.first + 1 == length
        assert 0 <= stretch.node <= 1023
    by_node: dict[int, list[Stretch]] = {}
    for stretch in given:
        by_node.setdefault(stretch.node, []).append(stretch)
    assert len(by_node) == 1024
    for stretches in by_node.values():
        for before, after in pairwise(stretches):
            assert after.first > before.last


def test_a_node_is_given_again_only_after_the_last_millisecond_of_whoever_had_it(private_server: Server) -> None:
    first = reserve(private_server, NOW, 1000)
    assert first == Stretch(0, NOW, NOW + 999)
    assert reserve(private_server, NOW + 999, 1000).node == 1  # its former owner may have borrowed up to its end
    assert reserve(private_server, NOW + 1000, 1000) == Stretch(0, NOW + 1000, NOW + 1999)


def test_the_memory_of_stretches_outlives_every_one_of_them_and_not_for_ever(private_server: Server) -> None:
    far = 4_000_000_000_000
    reserve(private_server, far, 1000)
    reserve(private_server, NOW, 1000)
    left = private_server.client.pttl(IDS_KEY)
    (now, _) = private_server.client.time()
    assert abs(now * 1000 + left - (far + 999 + 7 * 24 * 3600 * 1000)) < 60_000


# --- minting ----------------------------------------------------------------------------------------------------------


def test_a_minter_asks_for_the_next_stretch_when_it_is_through_and_when_its_clock_is() -> None:
    asked: list[tuple[int, int]] = []

    def given(now: int, length: int) -> Stretch:
        asked.append((now, length))
        return Stretch(len(asked), now + 5, now + 5)  # one millisecond of 4096 ids, a little ahead

    minter = SharedMinter(given)
    minted = [parse(minter.mint()) for _ in range(4096 * 3)]
    assert len({one.snowflake for one in minted}) == len(minted)
    pairs = [(one.milliseconds, one.sequence) for one in minted]
    assert pairs == sorted(pairs)
    assert {one.node for one in minted} == set(range(1, len(asked) + 1))
    assert [length for _, length in asked[:3]] == [1000, 2000, 4000]


def test_one_process_mints_no_id_twice_on_two_servers() -> None:
    one, other = (SharedMinter(lambda now, length: Stretch(0, now, now + length)) for _ in range(2))
    minted = [minter.mint() for _ in range(5000) for minter in (one, other, process_minter())]
    assert len(set(minted)) == len(minted)


def test_a_parent_is_minted_before_its_children(server: Server, queue: str) -> None:
    added = Flows(server).add(queue, Flow("p", [Child("x") for _ in range(50)]))
    minted = [parse(id) for id in (added.parent_id, *added.child_ids)]
    assert [(one.milliseconds, one.sequence) for one in minted] == sorted(
        (one.milliseconds, one.sequence) for one in minted
    )


def test_a_server_that_gives_no_ids_says_what_to_do(
    server: Server, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.minter = SharedMinter(server._reserve)
    with monkeypatch.context() as patch:
        patch.setattr(server, "round_trip", lambda flush: (ErrorReply("NOPERM", "no such key for you"),))
        with pytest.raises(UnsuitableServer, match=r"emqkit:ids was answered with NOPERM .* set server\.minter"):
            Flows(server).add(queue, Flow("p", [Child("x")]))

    def lost(flush: Flush[object]) -> tuple[Reply, ...]:
        raise ReplyLost(server.url, "reserve")

    with monkeypatch.context() as patch:
        patch.setattr(server, "round_trip", lost)
        with pytest.raises(Unreachable, match="does no harm"):
            Flows(server).add(queue, Flow("p", [Child("x")]))
    Flows(server).add(queue, Flow("p", [Child("x")]))


def test_a_minter_of_ones_own_asks_nobody(embedded_server: EmbeddedServer, queue: str) -> None:
    embedded_server.minter = Minter.fixed()
    Flows(embedded_server).add(queue, Flow("p", [Child("x")]))
    assert not embedded_server.client.exists(IDS_KEY)


def test_what_a_minter_shows_and_which_node_it_has(embedded_server: EmbeddedServer) -> None:
    minter = embedded_server.minter
    assert repr(minter) == "SharedMinter(namespace='JOB')"
    assert parse(minter.mint()).node == minter.node


# --- processes, forks, threads ----------------------------------------------------------------------------------------

MINTING = """
import os, sys, threading
import emqkit
url, folder, forks, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
server = emqkit.open_server(url)
server.minter.mint()            # before the forks, so that each inherits a stretch that is not its own
for _ in range(forks):
    if not os.fork():
        forks = 0
        break
minted = []
def mint():
    minted.append([server.minter.mint() for _ in range(count)])
threads = [threading.Thread(target=mint) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with open(os.path.join(folder, str(os.getpid())), "w") as file:
    file.write("\\n".join(id for one in minted for id in one))
sys.stdout.close()
for _ in range(forks): os.wait()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_two_hundred_processes_forks_and_threads_mint_no_id_twice(wheel: str, tmp_path: Path) -> None:
    with start_process() as process:
        command = [sys.executable, "-c", MINTING, process.url, str(tmp_path), "49", "250"]
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(4)]
        assert [one.wait(300) for one in running] == [0] * 4
    files = list(tmp_path.iterdir())
    assert len(files) == 200
    minted = [id for file in files for id in file.read_text().split("\n")]
    assert len(minted) == 200 * 2 * 250
    assert len(set(minted)) == len(minted)


def test_threads_that_share_a_server_mint_no_id_twice(embedded_server: EmbeddedServer) -> None:
    minted: list[list[str]] = []

    def mint(minter: Callable[[], str]) -> None:
        minted.append([minter() for _ in range(2000)])

    with open_server(embedded_server.process.url_of(embedded_server.database)) as live:
        threads = [
            threading.Thread(target=mint, args=(one.minter.mint,)) for one in (embedded_server, live) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    every = [id for one in minted for id in one]
    assert len(set(every)) == len(every) == 16_000


def test_two_processes_that_add_flows_to_one_server_overwrite_nothing(wheel: str) -> None:
    code = (
        "import emqkit, sys\n"
        "flows = emqkit.Flows(emqkit.open_server(sys.argv[1]))\n"
        "for _ in range(200): flows.add('o', emqkit.Flow('p', [emqkit.Child('x', queue='shared')]))"
    )
    with start_process() as process, open_server(process.url) as server:
        running = [subprocess.Popen([sys.executable, "-c", code, process.url]) for _ in range(2)]
        assert [one.wait(120) for one in running] == [0, 0]
        assert server.client.zcard(keys.queue_key("shared", "pending")) == 400
