"""Figures: what they say, and that they open no window."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from made import A, P, as_operation, flow_trace

from emqkit import Server, keys, open_server, record
from emqkit.errors import BadArgument
from emqkit.scripts import Script, ScriptSet
from emqkit.viz import figures
from emqkit.wire import Call, run


def words_of(figure) -> str:  # type: ignore[no-untyped-def]  # a matplotlib figure
    """Every text in a figure."""
    from matplotlib.text import Text as Words

    return " | ".join(found.get_text() for found in figure.findobj(Words) if found.get_text())


def test_the_counters_decay_names_the_calls_and_the_release(server: Server, queue: str) -> None:
    trace = flow_trace(server, queue)
    drawn = words_of(figures.counter_decay(trace, queue, P))
    for words in ("enqueue_flow pack order 7", "complete pick", "complete weigh\npack order 7 is released"):
        assert words in drawn
    with pytest.raises(BadArgument, match="no counter"):
        figures.counter_decay(trace, queue, A)


@pytest.mark.usefixtures("wheel")
def test_the_counters_decay_reads_a_learners_header() -> None:
    source = ScriptSet.load("published")["flow_deliver"].source
    for old, new in (
        ("argv     child_id result parent_id base", "argv     base result parent_id child_id"),
        ("ARGV[1], ARGV[2], ARGV[3], ARGV[4]", "ARGV[4], ARGV[2], ARGV[3], ARGV[1]"),
    ):
        assert old in source
        source = source.replace(old, new)
    mine = ScriptSet("mine", {"flow_deliver": Script.parse(source, "mine/flow_deliver.lua")})
    dependencies, processed = (keys.subkey("orders", P, name) for name in ("dependencies", "processed"))
    args = (keys.base("orders"), b"ok", P.encode(), A.encode())
    deliver = Call("flow_deliver", (dependencies, processed, keys.job("orders", P)), args, bool, RuntimeError, "script")
    with open_server("fake://", scripts=mine) as server:
        server.client.set(dependencies, 2)
        with record(server) as trace:
            run(server, as_operation(deliver))
    assert "flow_deliver JOB…GLuD" in words_of(figures.counter_decay(trace, "orders", P))


def test_the_ring_and_the_placement_compute_their_slots() -> None:
    ring = words_of(figures.slot_ring(["orders", "validation", "quotes", "emails"]))
    for words in ("orders  105", "validation  2775", "quotes  3378", "emails  3728"):
        assert words in ring
    line = words_of(figures.placement(["orders", "payments"], nodes=3))
    for words in ("orders", "105", "payments", "8507", "node 3"):
        assert words in line
    with pytest.raises(BadArgument):
        figures.slot_ring([])
    with pytest.raises(BadArgument):
        figures.placement(["orders"], nodes=0)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (f"emq:{{orders}}:job:{P}:dependencies", ["orders", "the queue", P, "the counter", "slot 105"]),
        (f"emq:{{orders}}:job:{P}", ["its id: this is the row", "slot 105"]),
        ("emq:{orders}:flow:outbox", ["signals to parents"]),
        ("emq:{}:pending", ["not one of the protocol's keys", "slot 7387"]),
        (b"\xff$x", ["\\xff$x"]),
    ],
)
def test_a_key_is_taken_apart(key: str | bytes, expected: list[str]) -> None:
    drawn = words_of(figures.key_parts(key))
    for words in expected:
        assert words in drawn


def test_a_figure_is_shown_by_a_notebook_and_opens_no_window(tmp_path: Path) -> None:
    program = (
        "import sys, emqkit.viz.figures as f; assert 'matplotlib' not in sys.modules\n"
        "figure = f.key_parts('emq:{orders}:pending')\n"
        "assert figure._repr_png_().startswith(b'\\x89PNG'); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
