"""The player: from an operation to a picture, and from a click to paint, in a real browser.

`python -m benchmarks player` prints, for traces of several sizes, the seconds to record and to make the player, the
bytes it sends to the browser, and the milliseconds from a click on Forward to the end of the frame that shows it; and
beside them what a widget does whose pictures are drawn in the kernel: a matplotlib figure, drawn and encoded. Seconds
are of the processor, so that what else the machine does counts less; those of the clock stand beside them. Needs a
Chromium or Chrome.
"""

from __future__ import annotations

import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from emqkit import Child, Flow, Flows, Jobs, Minter, Pump, Server, Trace, open_server, record
from emqkit.widgets import StepPlayer

CLICKS = 100
LIMIT_MS = 50.0

OPEN = """async state => {
  const painted = () => new Promise(done => requestAnimationFrame(() => {
    const port = new MessageChannel(); port.port1.onmessage = () => done(performance.now()); port.port2.postMessage(0);
  }));
  document.querySelector('main').replaceChildren();
  await painted();
  const begun = performance.now();
  window.model = makeModel(JSON.parse(state));
  show(model);
  return await painted() - begun;
}"""

CLICK = """async ([clicks, first]) => {
  const button = [...document.querySelectorAll('.emqkit-player button')].find(one => /Forward/.test(one.textContent));
  const painted = () => new Promise(done => requestAnimationFrame(() => {
    const port = new MessageChannel(); port.port1.onmessage = () => done(performance.now()); port.port2.postMessage(0);
  }));
  const times = [];
  model.set('index', first);
  for (let step = 0; step < clicks; step++) {
    await painted();
    if (button.getAttribute('aria-disabled')) break;
    const begun = performance.now();
    button.click();
    times.push(await painted() - begun);
  }
  return times;
}"""


@dataclass(frozen=True)
class Size:
    """A trace to make, and what may be spent on it: seconds for recording and opening, megabytes for the browser."""

    name: str
    make: Callable[[Server], None]
    seconds: float | None
    megabytes: float | None
    url: str = "fake://"


def shop(operations: int) -> Callable[[Server], None]:
    """Orders over two queues, each with three children, until so many operations are made."""

    def make(server: Server) -> None:
        flows, jobs, pump = Flows(server), Jobs(server), Pump(server, "stock")
        done = 0
        for order in range(operations):
            children = [Child(f"pick {order}"), *(Child(f"{what} {order}", queue="stock") for what in ("label", "pay"))]
            flows.add("orders", Flow(f"order {order}", children))
            for queue in ("orders", "stock", "stock"):
                jobs.complete(queue, _claimed(jobs, queue))
            pump.sweep()
            jobs.complete("orders", _claimed(jobs, "orders"))
            done += 10
            if done >= operations:
                return

    return make


def _claimed(jobs: Jobs, queue: str):  # type: ignore[no-untyped-def]
    claim = jobs.claim(queue)
    assert claim is not None
    return claim


def wide(children: int, complete: int = 10) -> Callable[[Server], None]:
    """One flow of many children, of whom some are completed."""

    def make(server: Server) -> None:
        flows, jobs = Flows(server), Jobs(server)
        flows.add("orders", Flow("pack order 7", [Child(f"child {number}") for number in range(children)]))
        for _ in range(min(complete, children)):
            jobs.complete("orders", _claimed(jobs, "orders"))

    return make


SIZES = (
    Size("a flow of 17 children, all completed", wide(17, 17), None, None),
    Size("200 operations, two queues", shop(200), 2.0, 3.0),
    Size("200 operations, embedded server", shop(200), 2.0, 3.0, "embedded://"),
    Size("1,550 operations: 5,000 steps", shop(1550), 10.0, 5.0),
    Size("a flow of 2,000 children", wide(2000), 10.0, 5.0),
    Size("a flow of 10,000 children", wide(10_000), None, 5.0),
)


def drawn_in_python() -> float:
    """Milliseconds to draw and encode a figure of the board's size, without sending or painting it."""
    from emqkit.viz import figures

    trace, _, _ = recorded(Size("", wide(3, 3), None, None))
    parent = trace.calls[0].call.args[0].decode()
    begun = time.perf_counter()
    figures.counter_decay(trace, "orders", parent).savefig(io.BytesIO(), format="png")
    return (time.perf_counter() - begun) * 1000


def recorded(size: Size) -> tuple[Trace, float, float]:
    """A trace of this size, and the seconds it took: of the processor, and of the clock."""
    with open_server(size.url, minter=Minter.fixed()) as server:
        clock, processor = time.perf_counter(), time.process_time()
        with record(server) as trace:
            size.make(server)
        return trace, time.process_time() - processor, time.perf_counter() - clock


def main(options: list[str]) -> int:
    """Measure and print; 1 when something takes more than it may, 2 without a browser."""
    from lab import NoBrowser, browser
    from playwright.sync_api import sync_playwright
    from stage_page import Shown, put

    failed = False
    try:
        with sync_playwright() as playwright, browser(playwright) as chromium:
            page = chromium.new_page(viewport={"width": 1100, "height": 1000})
            put(Shown(page, []), StepPlayer(recorded(SIZES[0])[0]))
            for size in SIZES:
                trace, processor, clock = recorded(size)
                begun, before = time.perf_counter(), time.process_time()
                player = StepPlayer(trace)
                made, making = time.process_time() - before, time.perf_counter() - begun
                state = {name: getattr(player, name) for name in ("payload", "index", "shows", "twin_key")}
                sent = json.dumps(state | {"playing": False})
                opened = page.evaluate(OPEN, sent)
                middle = player.stops[len(player.stops) // 2] if len(player.stops) > 2 * CLICKS else 0
                times = sorted(page.evaluate(CLICK, [CLICKS, middle]))
                late = times[max(0, int(len(times) * 0.95) - 1)]
                total, bulk = processor + made + opened / 1000, len(sent) / 1e6
                slow = size.seconds is not None and total > size.seconds
                big = size.megabytes is not None and bulk > size.megabytes
                failed = failed or slow or big or late >= LIMIT_MS
                print(f"{size.name}: {len(player):,} steps, {len(player.stops):,} of them stops")
                print(
                    f"  recorded in {processor:.2f} s ({clock:.2f} by the clock), made in {made:.2f} s ({making:.2f}),"
                    f" opened in {opened:.0f} ms: {total:.2f} s{f' of {size.seconds:g}' if size.seconds else ''}"
                    f"{', TOO LONG' if slow else ''}"
                )
                most = f" of {size.megabytes:g}" if size.megabytes else ""
                print(f"  {bulk:.2f} MB{most}{', TOO MUCH' if big else ''}")
                print(
                    f"  {len(times)} clicks, to paint: median {statistics.median(times):.1f} ms,"
                    f" 95th percentile {late:.1f} ms{'' if late < LIMIT_MS else ', TOO LONG'}"
                )
    except NoBrowser as missing:
        print(f"not measured: {missing}")
        return 2
    beside = statistics.median(drawn_in_python() for _ in range(5))
    print(f"a figure drawn in the kernel: {beside:.1f} ms before it is even sent")
    return 1 if failed else 0
