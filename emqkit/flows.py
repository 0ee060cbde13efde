"""A flow is a parent held back until its children finish. Flows are added here, and read here while they run.

An add takes the first of three paths that fits. A tree (some child has children) is walked from the root down. If some
child lives in another queue, the parent lands first, then each child on its own slot. Otherwise one script does it all.
Sources: Flows dives 01 (same queue), 02 (the three reads), 03 (cross-queue, policy), Batches dive 02 (bulk).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from emqkit import keys, transitions
from emqkit.arguments import Data, check_data, one_of, to_bytes, to_text
from emqkit.errors import BadArgument, BadFlow, EmqError, Refused, ReplyLost
from emqkit.ids import Minter, check
from emqkit.jobs import value_or_raise
from emqkit.servers.base import Server, check_server
from emqkit.transitions import ParentLink, Policy
from emqkit.wire import Call, Flush, Reply, Steps, command, operation

__all__ = ["DEEPEST", "AddedChild", "AddedFlow", "BulkAdded", "Child", "FailedFlow", "Flow", "Flows"]

DEEPEST = 8
"""How many levels a flow may have; the root is level 1."""

DEEPEST_MADE = 64
"""How many levels a Flow object may have: more than can be added, and fewer than Python can recurse into."""

OnFailure = Literal["fail", "ignore"]
Remains = Literal["held", "absent", "unknown"]


# --- what a flow is ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Child:
    """One child of a flow: a job its parent waits for, or an inner node when it has children itself.

    Attributes:
        payload: text or bytes, for its worker.
        queue: where it runs; None is its parent's queue.
        on_failure: what its death does: `fail` the parent, or `ignore` the dependency and let the parent go on. (A
            child to which the dives give both flags is `ignore`.)
        id: minted when left out.
        children: the children this one waits for.

    Raises:
        BadArgument, IllFormedId, IllFormedQueue: when made.
        BadFlow: when made, with more than 64 levels; more than 8 are refused when added.
    """

    payload: Data
    queue: str | None = None
    on_failure: OnFailure = "fail"
    id: str | None = None
    children: Sequence[Child] = ()
    _levels: int = field(default=1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_node(self)
        if self.queue is not None:
            keys.check_queue(self.queue)
        one_of("on_failure", self.on_failure, ("fail", "ignore"))

    @property
    def policy(self) -> Policy:
        """The policy's token on the row: `fp` or `id`."""
        return "id" if self.on_failure == "ignore" else "fp"


@dataclass(frozen=True)
class Flow:
    """A parent and the children it waits for: `Flow("pack order 7", children=[Child("pick"), Child("label")])`."""

    payload: Data
    children: Sequence[Child]
    id: str | None = None
    _levels: int = field(default=1, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_node(self)

    def with_ids(self, minter: Minter) -> Flow:
        """The same flow with every missing id minted: a parent before its children, children in spec order."""
        id = self.id or minter.mint()
        return replace(self, id=id, children=tuple(_with_ids(child, minter) for child in self.children))


def _check_node(node: Flow | Child) -> None:
    check_data("payload", node.payload)
    if node.id is not None:
        check(node.id)
    if isinstance(node.children, str | bytes) or not isinstance(node.children, Sequence):
        raise BadArgument("children", node.children, "is not a list of Child")
    for child in node.children:
        if not isinstance(child, Child):
            raise BadArgument("child", child, f"is {type(child).__name__}, not a Child")
    object.__setattr__(node, "children", tuple(node.children))  # a list would make the flow unhashable
    levels = 1 + max((child._levels for child in node.children), default=0)
    if levels > DEEPEST_MADE:
        raise BadFlow("flow_too_deep", f"it has {levels} levels, and at most {DEEPEST} can be added.")
    object.__setattr__(node, "_levels", levels)


def _with_ids(child: Child, minter: Minter) -> Child:
    id = child.id or minter.mint()
    return replace(child, id=id, children=tuple(_with_ids(below, minter) for below in child.children))


@dataclass(frozen=True)
class _Node:
    """A child with its id, queue and policy resolved, and the children below it."""

    id: str
    queue: str
    payload: bytes
    link: ParentLink
    parent_queue: str
    below: tuple[_Node, ...]

    @property
    def field_parent_queue(self) -> str | None:
        return self.parent_queue if self.parent_queue != self.queue else None


def _settled(queue: str, parent_id: str, children: Sequence[Child], level: int = 2) -> tuple[_Node, ...]:
    """Resolve the children and theirs; the key builder checks every id and queue. The root's children are level 2."""
    nodes = []
    for child in children:
        own = child.queue or queue
        id = _id_of(child)
        keys.job(own, id)
        if level > DEEPEST:
            raise BadFlow("flow_too_deep", f"{id} is on level {level}; a flow has at most {DEEPEST} levels.", [id])
        below = _settled(own, id, child.children, level + 1)
        link = ParentLink(parent_id, queue if queue != own else None, child.policy)
        nodes.append(_Node(id, own, to_bytes(child.payload), link, queue, below))
    return tuple(nodes)


def _id_of(node: Flow | Child) -> str:
    if node.id is None:  # the prepare step mints ids; only a hand-made Program can lack one
        raise BadArgument("id", node.id, "is missing: an operation takes all its input as arguments")
    return node.id


# --- what an add answers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedChild:
    """A landed child: its queue and id, and its own children if it is an inner node."""

    queue: str
    id: str
    children: tuple[AddedChild, ...] = ()

    @property
    def child_ids(self) -> tuple[str, ...]:
        """The ids of its own children, in spec order."""
        return tuple(child.id for child in self.children)


@dataclass(frozen=True, slots=True)
class AddedFlow:
    """A landed flow: its parent's id, and its children as given."""

    queue: str
    parent_id: str
    children: tuple[AddedChild, ...]

    @property
    def child_ids(self) -> tuple[str, ...]:
        """The ids of the direct children, in spec order."""
        return tuple(child.id for child in self.children)


@dataclass(frozen=True, slots=True)
class FailedFlow:
    """A flow of a bulk add that did not land.

    Attributes:
        index: its position in the input, from 0.
        parent_id: its parent.
        error: why.
        remains: what is left behind: `held` (the parent, with `landed_ids`), `absent` (nothing), or `unknown` (a reply
            was lost, or a script failed half-way, and what it wrote before that stays). The remedy is the same add with
            the same ids.
        landed_ids: what landed before the refusal, as far as seen, parent first.
    """

    index: int
    parent_id: str
    error: EmqError
    remains: Remains
    landed_ids: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why, as a sentence."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class BulkAdded:
    """What a bulk add returns: the landed flows in input order, and the failed ones with what remains of them."""

    landed: tuple[AddedFlow, ...]
    failed: tuple[FailedFlow, ...]


# --- the verbs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flows:
    """The flow verbs of one server: `emqkit.Flows(server).add("orders", flow)`."""

    server: Server

    def __post_init__(self) -> None:
        check_server(self.server)

    @operation
    def add(self, queue: str, flow: Flow) -> Steps[AddedFlow]:
        """Land a flow: the parent held, its children claimable.

        In one queue, one script lands all or nothing, then the policies follow: 2 round trips. Across queues, or for a
        tree, the parent lands first, then each child on its own slot with its policy right after it: 1 + 2k round trips
        for k children. A refusal stops the add and undoes nothing: what is held stays held, and the remedy is the same
        add with the same ids.

        Args:
            queue: the parent's queue.
            flow: the parent and its children; missing ids are minted.

        Returns:
            The parent's id and the children's, in spec order.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
            BadFlow: no children, an id twice (`flow_cycle`) or too many levels; nothing was sent.
            WrongNamespace: a script refused an id that is not a job's.
        """
        yield from self._add(queue, flow, [])
        return _added(queue, flow)

    @add.prepare
    def _prepare_add(self, queue: str, flow: Flow) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        if not isinstance(flow, Flow):
            raise BadArgument("flow", flow, f"is {type(flow).__name__}, not a Flow")
        return (queue, flow.with_ids(self.server.minter)), {}

    @operation
    def add_bulk(self, queue: str, flows: Sequence[Flow]) -> Steps[BulkAdded]:
        """Land many flows in input order, each by `add`; one that fails is skipped and the rest land (Batches dive 02).

        Every id of every flow is checked first: if one is ill-formed, nothing lands.

        Returns:
            The landed flows, and the failed ones with the reason and what remains.

        Raises:
            BadArgument, IllFormedId, IllFormedQueue: before anything is sent.
        """
        for flow in flows:
            _gate_ids(queue, flow)
        landed: list[AddedFlow] = []
        failed: list[FailedFlow] = []
        earlier: set[str] = set()
        for index, flow in enumerate(flows):
            progress: list[str] = []
            own = _all_ids(flow)
            try:
                if again := sorted(earlier.intersection(own)):
                    raise BadFlow("flow_cycle", f"{', '.join(again)} is in an earlier flow of this batch.", again)
                yield from self._add(queue, flow, progress)
            except EmqError as error:
                failed.append(FailedFlow(index, _id_of(flow), error, _remains(error, progress), tuple(progress)))
            else:
                landed.append(_added(queue, flow))
            earlier.update(own)
        return BulkAdded(tuple(landed), tuple(failed))

    @add_bulk.prepare
    def _prepare_bulk(self, queue: str, flows: Sequence[Flow]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        keys.check_queue(queue)
        if isinstance(flows, Flow | str | bytes) or not isinstance(flows, Sequence):
            raise BadArgument("flows", flows, "is not a list of flows")
        return (queue, tuple(self._prepare_add(queue, flow)[0][1] for flow in flows)), {}

    # --- the three paths --------------------------------------------------------------------------------------------

    def _add(self, queue: str, flow: Flow, landed: list[str]) -> Steps[None]:
        """Land one flow; add each id to `landed` once its land has answered."""
        parent_id = _id_of(flow)
        keys.job(queue, parent_id)
        _gate_ids(queue, flow)
        if not flow.children:
            raise BadFlow("no_children", f"flow {parent_id} has no children; enqueue it as a job.", [parent_id])
        nodes = _settled(queue, parent_id, flow.children)
        ids = _all_ids(flow)
        if twice := sorted({id for id in ids if ids.count(id) > 1}):
            raise BadFlow("flow_cycle", f"{', '.join(twice)} is in the flow more than once.", twice)
        if any(node.below for node in nodes) or any(node.queue != queue for node in nodes):
            yield from self._hold_and_land(queue, parent_id, to_bytes(flow.payload), nodes, landed)
        else:
            yield from self._land_at_once(queue, parent_id, to_bytes(flow.payload), nodes, landed)

    def _land_at_once(
        self, queue: str, parent_id: str, payload: bytes, nodes: tuple[_Node, ...], landed: list[str]
    ) -> Steps[None]:
        inside = self.server.scripts["enqueue_flow"].takes("policy")
        policies = [node.link.policy for node in nodes]
        children = [(node.id, node.payload) for node in nodes]
        yield from transitions.enqueue_flow(queue, parent_id, payload, children, policies if inside else None)
        landed += [parent_id, *(node.id for node in nodes)]
        if not inside:
            # In one flush, but never in the land's own: after a refused land they would create rows of one field.
            for answer in (yield from Flush(tuple(map(_policy_call, nodes)))):
                value_or_raise(answer)

    def _hold_and_land(
        self, queue: str, parent_id: str, payload: bytes, nodes: tuple[_Node, ...], landed: list[str]
    ) -> Steps[None]:
        yield from transitions.hold_parent(queue, parent_id, payload, len(nodes))
        landed.append(parent_id)
        for node in nodes:
            yield from self._land(node, landed)

    def _land(self, node: _Node, landed: list[str]) -> Steps[None]:
        """Land one node on its own slot, parent first: an inner node held, a leaf claimable.

        If its script takes no policy, that is written on its row before the next node lands; until then a death follows
        the default policy.
        """
        if not node.below:
            inside = self.server.scripts["enqueue_flow_child"].takes("policy")
            policy = node.link.policy if inside else None
            yield from transitions.enqueue_flow_child(
                node.queue, node.id, node.payload, node.link.id, node.field_parent_queue, policy
            )
            landed.append(node.id)
            if not inside:
                yield from _policy_call(node)
            return
        inside = self.server.scripts["hold_parent"].takes("policy")
        yield from transitions.hold_parent(
            node.queue, node.id, node.payload, len(node.below), node.link if inside else None
        )
        landed.append(node.id)
        if not inside:
            fields = ["parent", node.link.id]
            if node.field_parent_queue is not None:
                fields += ["parent_queue", node.field_parent_queue]
            fields += ["parent_policy", node.link.policy]
            row = keys.job(node.queue, node.id)
            yield from command("HSET", [row], [keys.text(field) for field in fields], lambda reply: reply)
        for below in node.below:
            yield from self._land(below, landed)

    # --- the three reads --------------------------------------------------------------------------------------------

    @operation
    def children_values(self, queue: str, parent_id: str) -> Steps[dict[str, str]]:
        """The results of completed children: id → result; empty for an unknown parent. One round trip, no write."""
        values = yield from _read_hash(queue, parent_id, "processed")
        return values

    @operation
    def dependencies(self, queue: str, parent_id: str) -> Steps[int]:
        """The parent's counter: how many children are outstanding; 0 without a counter. One round trip, no write."""
        key = keys.subkey(queue, parent_id, "dependencies")
        left = yield from command("GET", [key], [], lambda reply: int(reply) if isinstance(reply, bytes) else 0)
        return left

    @operation
    def ignored_failures(self, queue: str, parent_id: str) -> Steps[dict[str, str]]:
        """The dead children that were ignored: id → error; empty for an unknown parent. One round trip, no write."""
        values = yield from _read_hash(queue, parent_id, "unsuccessful")
        return values


def _read_hash(queue: str, parent_id: str, name: str) -> Call[dict[str, str]]:
    def read(reply: Reply) -> dict[str, str]:
        flat = [to_text(item) for item in reply if isinstance(item, bytes)] if isinstance(reply, tuple) else []
        return dict(zip(flat[::2], flat[1::2], strict=True))

    return command("HGETALL", [keys.subkey(queue, parent_id, name)], [], read)


def _policy_call(node: _Node) -> Call[Any]:
    """The plain HSET that writes a child's policy on its row."""
    fields = [b"parent_policy", keys.text(node.link.policy)]
    return command("HSET", [keys.job(node.queue, node.id)], fields, lambda reply: reply)


def _remains(error: EmqError, landed: Sequence[str]) -> Remains:
    # A server's own error (Refused) can follow some of the script's writes; a refusal of ours precedes all of them.
    if isinstance(error, ReplyLost | Refused):
        return "unknown"
    return "held" if landed else "absent"


def _gate_ids(queue: str, flow: Flow) -> None:
    keys.job(queue, _id_of(flow))

    def gate(parent_queue: str, children: Sequence[Child]) -> None:
        for child in children:
            own = child.queue or parent_queue
            keys.job(own, _id_of(child))
            gate(own, child.children)

    gate(queue, flow.children)


def _all_ids(flow: Flow) -> list[str]:
    def below(children: Sequence[Child]) -> Iterator[str]:
        for child in children:
            yield _id_of(child)
            yield from below(child.children)

    return [_id_of(flow), *below(flow.children)]


def _added(queue: str, flow: Flow) -> AddedFlow:
    def below(parent_queue: str, children: Sequence[Child]) -> tuple[AddedChild, ...]:
        return tuple(
            AddedChild(own, _id_of(child), below(own, child.children))
            for child in children
            for own in [child.queue or parent_queue]
        )

    return AddedFlow(queue, _id_of(flow), below(queue, flow.children))
