"""A world is what is explored: flows, the actors around them, and a budget for each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from emqkit import keys
from emqkit.arguments import to_bytes
from emqkit.errors import BadArgument
from emqkit.flows import Child, Flow
from emqkit.ids import Minter
from emqkit.sim.worlds.actors import Actor, Kit
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.witness import check
from emqkit.transitions import Policy
from emqkit.wire import Program
from emqkit.words.names import Names

__all__ = ["Link", "Owed", "Planned", "World", "planned"]


@dataclass(frozen=True)
class Planned:
    """A flow of the world, with all ids given: its promises are checked, whoever lands it and when."""

    queue: str
    flow: Flow


def planned(queue: str, *flows: Flow, minter: Minter | None = None) -> tuple[Planned, ...]:
    """Flows of one queue with their missing ids minted, always the same ones.

    Args:
        queue: where the parents run.
        flows: in the order in which their ids are minted.
        minter: where the ids come from; use one for all flows of a world that is planned queue by queue.
    """
    minter = Minter.fixed() if minter is None else minter
    return tuple(Planned(queue, flow.with_ids(minter)) for flow in flows)


@dataclass(frozen=True, slots=True)
class Link:
    """A declared child: its queue, its parent, and its failure policy."""

    id: str
    queue: str
    parent_id: str
    parent_queue: str
    policy: Policy


@dataclass(frozen=True, slots=True)
class Owed:
    """A declared parent, inner nodes included.

    Attributes:
        id: the parent.
        queue: where it lives.
        links: its direct children, in spec order.
        flow: which of the world's flows, from 0.
        one_step: whether its flow is one level in one queue, and so is landed by one script.
        root: whether it is the flow's root.
    """

    id: str
    queue: str
    links: tuple[Link, ...]
    flow: int
    one_step: bool
    root: bool


@dataclass(frozen=True)
class World:
    """Everything that is explored: flows, actors and fault budgets.

    Attributes:
        name: its name.
        actors: who acts; equal ones are interchangeable, and are numbered in a history.
        flows: what the promises are about, with ids (see `planned`).
        faults: how often each fault may happen.
        landed: whether the flows exist from the start; if not, a `Producer` lands them.
        setup: what else exists from the start: makes programs from the kit, which run in order before exploring.
        about: names of the promises this world tests; None for all that concern it.
        witnesses: what must really have happened somewhere for any promise to hold here; see `worlds.witness`.
        summary: one sentence for the catalogue.
    """

    name: str
    actors: tuple[Actor, ...]
    flows: tuple[Planned, ...] = ()
    faults: Faults = field(default_factory=Faults)
    landed: bool = True
    setup: Callable[[Kit], Iterable[Program[Any]]] | None = None
    about: tuple[str, ...] | None = None
    witnesses: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        for need in self.witnesses:
            check(need)
        for id, flows in self.flow_of.items():
            if len(flows) > 1:
                places = " and ".join(str(index + 1) for index in sorted(flows))
                why = (
                    f"is in flows {places} of {self.name}, which would be taken for one: give it to only one of them; "
                    "`planned` mints the same ids each time, unless you pass it one minter for all"
                )
                raise BadArgument("id", id, why)

    def with_faults(self, **budgets: int | None) -> World:
        """The same world with some budgets changed; None leaves a budget unchanged."""
        given: dict[str, Any] = {name: budget for name, budget in budgets.items() if budget is not None}
        return replace(self, faults=replace(self.faults, **given))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each actor in a history: its title, its own script set if any, and a number if not unique."""
        titles = [
            actor.title if actor.scripts is None else f"{actor.title} on {actor.scripts.name}" for actor in self.actors
        ]
        return tuple(
            title if titles.count(title) == 1 else f"{title} {titles[: n + 1].count(title)}"
            for n, title in enumerate(titles)
        )

    @cached_property
    def owed(self) -> Mapping[str, Owed]:
        """Every declared parent by id."""
        owed: dict[str, Owed] = {}
        for index, plan in enumerate(self.flows):
            for parent in _owed(plan, index):
                owed.setdefault(parent.id, parent)
        return owed

    @cached_property
    def links(self) -> Mapping[str, Link]:
        """Every declared child by id."""
        links: dict[str, Link] = {}
        for parent in self.owed.values():
            for link in parent.links:
                links.setdefault(link.id, link)
        return links

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """The queues its flows run in."""
        named = {parent.queue for parent in self.owed.values()} | {link.queue for link in self.links.values()}
        return tuple(sorted(named))

    @property
    def payloads(self) -> Iterable[tuple[str, bytes]]:
        """Each id that its flows declare, with its payload."""
        return (pair for plan in self.flows for pair in _payloads(plan.flow))

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The name of each id in sentences: its payload, numbered if not unique."""
        return Names.of(self.payloads).labels

    def label(self, id: str) -> str:
        """The name of an id in sentences."""
        return self.labels.get(id, id)

    @cached_property
    def flow_of(self) -> Mapping[str, frozenset[int]]:
        """The flows that declare an id."""
        found: dict[str, set[int]] = {}
        for index, plan in enumerate(self.flows):
            for id in _ids(plan.flow):
                found.setdefault(id, set()).add(index)
        return {id: frozenset(indexes) for id, indexes in found.items()}

    def ids_of(self, index: int) -> frozenset[str]:
        """Every id that one of its flows declares."""
        return frozenset(_ids(self.flows[index].flow))

    @property
    def lands_later(self) -> bool:
        """Whether an actor lands flows while the world runs."""
        return any(actor.role == "producer" for actor in self.actors)

    def signals(self, queue: str) -> bool:
        """Whether a queue may have to signal parents: it has cross-queue children, or inner nodes that may die."""
        crossing = any(link.queue == queue != link.parent_queue for link in self.links.values())
        return crossing or any(link.id in self.owed and link.queue == queue for link in self.links.values())


def _payloads(node: Flow | Child) -> Iterator[tuple[str, bytes]]:
    if node.id is not None:
        yield node.id, to_bytes(node.payload)
    for child in node.children:
        yield from _payloads(child)


def _ids(node: Flow | Child) -> list[str]:
    own = [node.id] if node.id is not None else []
    return own + [id for child in node.children for id in _ids(child)]


def _owed(plan: Planned, index: int) -> list[Owed]:
    flow = plan.flow
    one_step = all(not child.children and (child.queue or plan.queue) == plan.queue for child in flow.children)
    found: list[Owed] = []

    def visit(id: str | None, queue: str, children: Sequence[Child], root: bool) -> None:
        if id is None:
            raise ValueError(f"flow {index} of the world has a node without an id; see planned()")
        keys.job(queue, id)
        links = tuple(Link(str(child.id), child.queue or queue, id, queue, child.policy) for child in children)
        found.append(Owed(id, queue, links, index, one_step, root))
        for child in children:
            if child.children:
                visit(child.id, child.queue or queue, child.children, False)

    visit(flow.id, plan.queue, flow.children, True)
    return found
