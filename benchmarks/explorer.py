"""How fast the explorer is, beside the plain method: restore a snapshot, make the call, dump every key.

    python -m benchmarks explorer               the flagship with one crash and one lapse, on fake and embedded
    python -m benchmarks explorer -- --large    and without the lapse: seven million transitions, a minute
    python -m benchmarks explorer -- --whole    and with all its faults: more than 40 million, a few minutes, 1.3 GB

The plain method is timed without the searching around it: only its three round trips, for the first calls of the same
world. The searching is timed beside it, as the plain enumerator of the tests does it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from plain_enumerator import enumerate_plainly

from emqkit.servers import open_server
from emqkit.sim import Result, explore, scenario
from emqkit.snapshot import capture, restore
from emqkit.wire import Flush

PLAIN_CALLS = 2_000


def main(argv: list[str]) -> int:
    """Measure and print; 1 when the explorer is not 25 times faster than the plain method on an embedded server."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks explorer")
    parser.add_argument("--large", action="store_true", help="finish the flagship without its lapse")
    parser.add_argument("--whole", action="store_true", help="finish the flagship with all its faults")
    parser.add_argument("--calls", type=int, default=PLAIN_CALLS, help="calls to time the plain method by")
    options = parser.parse_args(argv)
    world = scenario("flagship").with_faults(crashes=1, lost_replies=0, lapses=1)
    ratio = 0.0
    print(
        "| world | method | server | states | transitions | seconds | transitions/s | calls/transition | bytes/state |"
    )
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for url in ("fake://", "embedded://"):
        with open_server(url) as server:
            with server.scratch() as place:
                began = time.perf_counter()
                plain = enumerate_plainly(world, place, most_calls=options.calls)
                searched = time.perf_counter() - began
                began = time.perf_counter()
                for snapshot, call in plain.made:
                    restore(place, snapshot)
                    place.round_trip(Flush((call,)))
                    capture(place)
                called = time.perf_counter() - began
            plainly = plain.calls / called
            for method, seconds in (("plain enumerator", searched), ("plain calls alone", called)):
                print(
                    f"| {world.name}, {world.faults} | {method}, first {plain.calls:,} calls | {server.kind} | "
                    f"{len(plain.states):,} | {plain.calls:,} | {seconds:.1f} | {plain.calls / seconds:,.0f} | 1 | |"
                )
            result = explore(world, server=server)
            print(_row(result))
            ratio = result.transitions / result.seconds / plainly
            print(f"\n{server.kind}: {ratio:,.0f} times the plain calls\n")
    for lapses in [0] * options.large + [1] * options.whole:
        began = time.perf_counter()
        with open_server("embedded://") as server:
            result = explore("flagship", server=server, lapses=lapses)
        print(_row(result))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"\nfinished: {result.complete}; {time.perf_counter() - began:.0f} s in all, {peak:,.0f} MB at most")
    return 0 if ratio >= 25 else 1


def _row(result: Result) -> str:
    return (
        f"| {result.world.name}, {result.world.faults} | explorer | {result.server} | {result.states:,} | "
        f"{result.transitions:,} | {result.seconds:.1f} | {result.transitions / result.seconds:,.0f} | "
        f"{result.real_calls / result.transitions:.5f} | {result.bytes_per_state:.0f} |"
    )
