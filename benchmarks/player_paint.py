"""From a click to paint: how long one step of the player takes to be on the screen, in a real browser.

`python -m benchmarks player_paint`: a flow of some children, 100 clicks on Forward, each measured from the click to the
end of the frame that shows it. Beside it, in the same run, what a widget does whose pictures are drawn in the kernel: a
matplotlib figure, drawn and encoded. Needs a Chromium or Chrome.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from emqkit import Child, Flow, Flows, Jobs, Minter, Trace, open_server, record
from emqkit.widgets import StepPlayer

STEPS = 100
LIMIT_MS = 50.0

MEASURE = """async steps => {
  const button = [...document.querySelectorAll('.emqkit-player button')].find(one => /Forward/.test(one.textContent));
  const painted = () => new Promise(done => requestAnimationFrame(() => {
    const port = new MessageChannel(); port.port1.onmessage = () => done(performance.now()); port.port2.postMessage(0);
  }));
  const times = [];
  for (let step = 0; step < steps; step++) {
    await painted();
    const status = document.querySelector('.emqkit-status').textContent;
    const begun = performance.now();
    button.click();
    times.push(await painted() - begun);
    if (document.querySelector('.emqkit-status').textContent === status) throw new Error(`step ${step} did not move`);
  }
  return times;
}"""


def long_trace(children: int = 17) -> Trace:
    """A flow whose trace has well over a hundred steps."""
    with open_server("fake://", minter=Minter.fixed()) as server:
        flows, jobs = Flows(server), Jobs(server)
        with record(server) as trace:
            flows.add("orders", Flow("pack order 7", [Child(f"child {number}") for number in range(children)]))
            while claim := jobs.claim("orders"):
                jobs.complete("orders", claim)
    return trace


def drawn_in_python() -> float:
    """Milliseconds to draw and encode a figure of the board's size, without sending or painting it."""
    from emqkit.viz import figures

    trace = long_trace(3)
    parent = trace.calls[0].call.args[0].decode()
    begun = time.perf_counter()
    figures.counter_decay(trace, "orders", parent).savefig(io.BytesIO(), format="png")
    return (time.perf_counter() - begun) * 1000


def main(options: list[str]) -> int:
    """Measure and print; 1 when the 95th percentile is not below the limit, 2 without a browser."""
    from lab import NoBrowser, browser
    from playwright.sync_api import sync_playwright
    from stage_page import Shown, put

    player = StepPlayer(long_trace())
    try:
        with sync_playwright() as playwright, browser(playwright) as chromium:
            page = chromium.new_page(viewport={"width": 1100, "height": 1000})
            put(Shown(page, []), player)
            times = sorted(page.evaluate(MEASURE, STEPS))
    except NoBrowser as missing:
        print(f"not measured: {missing}")
        return 2
    median, late = statistics.median(times), times[int(len(times) * 0.95) - 1]
    beside = statistics.median(drawn_in_python() for _ in range(5))
    print(f"player of {len(player)} steps, {STEPS} clicks, from click to paint:")
    print(f"  median {median:.1f} ms, 95th percentile {late:.1f} ms")
    print(
        f"a figure drawn in the kernel: {beside:.1f} ms before it is even sent, {beside / median:.1f} times the median"
    )
    return 0 if late < LIMIT_MS else 1
