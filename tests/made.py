"""Keyspaces made by hand, and calls made singly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from emqkit import Child, Flow, Flows, Jobs, Minter, Server, Trace, keys, record
from emqkit.snapshot import Hash, Ranked, Snapshot, Text, Value
from emqkit.wire import Call, Reply, Steps, command

P, A, B, C = "JOB0KHTOWnGLuC", "JOB0KHTOWnGLuD", "JOB0KHTOWnGLuE", "JOB0KHTOWnGLuF"
NOW = 1_000_000
"""The instant of such a keyspace, in milliseconds."""


def fields(**named: str | bytes) -> Hash:
    encoded = ((name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in named.items())
    return Hash(tuple(sorted(encoded)))


def row(state: str, attempts: int = 0, payload: str | bytes = "pick", **more: str) -> Hash:
    return fields(state=state, attempts=str(attempts), payload=payload, **more)


def ranked(*members: tuple[str, float]) -> Ranked:
    return Ranked(tuple((id.encode(), float(score)) for id, score in members))


def snapshot(contents: Mapping[bytes, Value], now: int = NOW) -> Snapshot:
    return Snapshot(tuple(sorted(contents.items())), now)


def held_flow() -> dict[bytes, Value]:
    """One parent, two children, in queue orders."""
    return {
        keys.job("orders", P): row("awaiting_children", payload="pack order 7"),
        keys.subkey("orders", P, "dependencies"): Text(b"2"),
        keys.job("orders", A): row("pending", parent=P, parent_policy="fp"),
        keys.job("orders", B): row("pending", payload="label", parent=P, parent_policy="id"),
        keys.queue_key("orders", "pending"): ranked((A, 0), (B, 0)),
    }


def script_call(name: str, keys: Sequence[bytes] = (), args: Sequence[bytes] = ()) -> Call[Reply]:
    """A call of a script, nothing of which is read."""
    return replace(command(name, keys, args, lambda reply: reply), kind="script")


def as_operation(call: Call[Any]) -> Steps[Any]:
    """One call as an operation, to be run."""
    return (yield from call)


def flow_trace(server: Server, queue: str) -> Trace:
    """A flow of three children on one queue, every child completed, and the parent claimed."""
    server.minter = Minter.fixed()
    flows, jobs = Flows(server), Jobs(server)
    with record(server, pattern=keys.base(queue) + b"*") as trace:
        flows.add(queue, Flow("pack order 7", [Child("pick"), Child("label"), Child("weigh")]))
        for _ in range(3):
            claim = jobs.claim(queue)
            assert claim is not None
            jobs.complete(queue, claim)
        jobs.claim(queue)
    return trace
