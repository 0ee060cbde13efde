"""The graph of a world: its states, the moves between them, and its components; packed, for millions of states."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

from emqkit.sim.search.interner import WIDTHS, TooMany, Widths

__all__ = ["Graph"]


class Graph:
    """States numbered in the order in which they are met, each with its moves once it is expanded.

    Attributes:
        states: side, vector and budget of each, packed.
        number_of: the number of each packed state.
        parents, parent_slots, parent_labels: from which state each was first met, by whose move of which kind; an
            initial state is its own parent.
        targets, labels: the target and the kind of each move.
        starts: where the moves of each expanded state begin, and where those of the last one end.
    """

    def __init__(self, widths: Widths = WIDTHS) -> None:
        self.states: array[int] = array("Q")
        self.number_of: dict[int, int] = {}
        self.parents: array[int] = array("I")
        self.parent_slots: array[int] = array("B")
        self.parent_labels: array[int] = array("I")
        self.targets: array[int] = array("I")
        self.labels: array[int] = array("I")
        self.starts: array[int] = array("Q", [0])
        self.side_at = widths.vector + widths.budget
        self.vector_at = widths.budget
        self.vector_mask = (1 << widths.vector) - 1
        self.budget_mask = (1 << widths.budget) - 1
        self._bits = widths.state

    def __len__(self) -> int:
        return len(self.states)

    def packed(self, side: int, vector: int, budget: int) -> int:
        """A state packed into one number; the interners keep each of the three within its width."""
        return side << self.side_at | vector << self.vector_at | budget

    def side(self, state: int) -> int:
        """The world-side of a state, by the state's number."""
        return self.states[state] >> self.side_at

    def vector(self, state: int) -> int:
        """The vector of a state, by the state's number."""
        return self.states[state] >> self.vector_at & self.vector_mask

    def meet(self, packed: int, parent: int, slot: int, label: int) -> int:
        """Give a new state its number. Raises `TooMany`."""
        number = len(self.states)
        if number >> self._bits:
            raise TooMany("states", self._bits)
        self.number_of[packed] = number
        self.states.append(packed)
        self.parents.append(parent)
        self.parent_slots.append(slot)
        self.parent_labels.append(label)
        return number

    def forget_half(self) -> None:
        """Drop the moves of a state that was only partly expanded."""
        del self.targets[self.starts[-1] :], self.labels[self.starts[-1] :]

    def path(self, state: int) -> tuple[int, list[tuple[int, int]]]:
        """The shortest path to a state: its first state, and the slots and labels of its moves."""
        path: list[tuple[int, int]] = []
        while self.parents[state] != state:
            path.append((self.parent_slots[state], self.parent_labels[state]))
            state = self.parents[state]
        path.reverse()
        return state, path

    def bytes_per_state(self) -> float:
        """How much memory a state takes in all: its number, its parent, and its moves."""
        arrays = (self.states, self.parents, self.parent_slots, self.parent_labels)
        edges = (self.targets, self.labels, self.starts)
        held = sum(numbers.itemsize * len(numbers) for numbers in (*arrays, *edges))
        # A dict entry and its two integers.
        held += sys.getsizeof(self.number_of) + len(self) * (sys.getsizeof(1 << 60) + sys.getsizeof(1 << 20))
        return held / max(len(self), 1)

    def moves(self, state: int) -> Iterator[tuple[int, int]]:
        """The moves of an expanded state: target and label of each."""
        stretch = slice(self.starts[state], self.starts[state + 1])
        return zip(self.targets[stretch], self.labels[stretch], strict=True)

    def bottoms(self, skip: bytearray) -> list[list[int]]:
        """The strongly connected components that no move leaves.

        Args:
            skip: for each label, whether to ignore its moves.
        """
        component, leaves = self.components(skip)
        found: dict[int, list[int]] = {}
        for state, number in enumerate(component):
            if not leaves[number]:
                found.setdefault(number, []).append(state)
        return list(found.values())

    def components(self, skip: bytearray) -> tuple[array[int], bytearray]:
        """The strongly connected components: which one each state is in, and whether a move leaves it.

        (Tarjan's algorithm, without recursion.)

        Args:
            skip: for each label, whether to ignore its moves.
        """
        starts, targets, labels = self.starts, self.targets, self.labels
        count = len(starts) - 1
        index = array("I", bytes(4 * count))  # 0: not met yet
        low = array("I", bytes(4 * count))
        closed = bytearray(count)
        leaves = bytearray(count)  # whether something below leads out of its component
        component = array("I", bytes(4 * count))
        left = bytearray()
        cursor = array("Q", starts[:count])
        stack: list[int] = []
        path: list[int] = []
        clock = 0
        for root in range(count):
            if index[root]:
                continue
            path.append(root)
            while path:
                node = path[-1]
                if not index[node]:
                    clock += 1
                    index[node] = low[node] = clock
                    stack.append(node)
                at, stop = cursor[node], starts[node + 1]
                deeper = -1
                lowest = low[node]
                while at < stop:
                    if skip[labels[at]]:
                        at += 1
                        continue
                    target = targets[at]
                    if not index[target]:
                        deeper = target
                        break  # looked at again once it is known
                    if closed[target]:
                        leaves[node] = 1
                    elif low[target] < lowest:
                        lowest = low[target]
                    at += 1
                low[node] = lowest
                cursor[node] = at
                if deeper >= 0:
                    path.append(deeper)
                    continue
                path.pop()
                if lowest == index[node]:
                    out = 0
                    while True:
                        member = stack.pop()
                        closed[member] = 1
                        component[member] = len(left)
                        out |= leaves[member]
                        if member == node:
                            break
                    left.append(out)
        return component, left
