"""One real cluster node that owns the slot of one queue and no other, to run into a slot boundary on purpose.

A script may only touch keys of one slot, and a cluster refuses others. A node that owned every slot would not notice,
since it can reach each key. This one owns a single slot and refuses (`CROSSSLOT`, or an error in the script) as soon as
a call, or a key built inside a script, leaves it. Source: Flows dive 03.
"""

from __future__ import annotations

import time

from emqkit import keys
from emqkit.errors import UnsuitableServer
from emqkit.scripts import ScriptSet
from emqkit.servers.embedded import EmbeddedServer, start_process

__all__ = ["OneSlotNode", "open_one_slot_node"]

READY_SECONDS = 30.0
"""How long a node may take to serve its slot; usually about two seconds."""


class OneSlotNode(EmbeddedServer):
    """A private Valkey in cluster mode that serves the keys of one queue."""

    def scratch(self) -> EmbeddedServer:
        """A plain embedded server, since a cluster has only one database."""
        from emqkit.servers.embedded import open_embedded

        return open_embedded(self.scripts)


def open_one_slot_node(queue: str, *, scripts: str | ScriptSet = "published") -> OneSlotNode:
    """Start a cluster node that owns the slot of `queue` alone; close it when done.

    Raises:
        IllFormedQueue: the name cannot be part of a key.
        UnsuitableServer: no embedded Valkey is installed, or it does not start to serve.
    """
    slot = keys.slot(keys.base(queue))
    script_set = scripts if isinstance(scripts, ScriptSet) else ScriptSet.load(scripts)
    process = start_process(extra=["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"])
    node = OneSlotNode(process, script_set)
    try:
        node.exchange([(b"CLUSTER", b"ADDSLOTS", b"%d" % slot)], "CLUSTER ADDSLOTS")
        deadline = time.monotonic() + READY_SECONDS
        while b"cluster_state:ok" not in _info(node):
            if time.monotonic() > deadline:
                raise UnsuitableServer("the embedded cluster node", f"it does not start to serve slot {slot}")
            time.sleep(0.02)
    except BaseException:
        node.close()
        raise
    return node


def _info(node: OneSlotNode) -> bytes:
    (info,) = node.exchange([(b"CLUSTER", b"INFO")], "CLUSTER INFO")
    return info if isinstance(info, bytes) else b""
