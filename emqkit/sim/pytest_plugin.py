"""A pytest fixture that explores: `pytest_plugins = ["emqkit.sim.pytest_plugin"]` in your conftest.

    def test_my_flow_is_never_dropped(explored):
        explored(my_world, scripts="my/lua").holds("P3", "P5")

A broken promise fails the test with the shortest counterexample; an unknown one fails it with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from emqkit.servers import Server, open_server
from emqkit.sim.catalogue import explore
from emqkit.sim.report import Result
from emqkit.sim.worlds.world import World

__all__ = ["Explored", "explored"]


@dataclass(frozen=True)
class Explored:
    """A result, with an assertion."""

    result: Result

    def holds(self, *promises: str) -> Result:
        """Fail unless these promises hold; by default all that the world is about.

        Args:
            promises: such as `P3`.
        """
        __tracebackhide__ = True
        verdicts = [self.result.verdicts[name] for name in promises] if promises else list(self.result.judged)
        told: list[str] = []
        for verdict in verdicts:
            if verdict.violation is not None:
                told += [str(verdict.violation), *verdict.violation.history.sentences]
            elif verdict.word != "holds":
                told.append(str(verdict))
        if told or not verdicts:
            pytest.fail("\n".join(told or ["no promise was judged"]), pytrace=False)
        return self.result


@pytest.fixture(scope="session")
def explorer_server() -> Iterator[Server]:
    """Where `explored` makes its calls: override it with your own server, whose scratch place is then used."""
    with open_server("fake://") as server:
        yield server


@pytest.fixture
def explored(explorer_server: Server) -> Callable[..., Explored]:
    """Explore a world, or a scenario by name; takes the arguments of `emqkit.explore`."""

    def run(world: World | str, **given: Any) -> Explored:
        given.setdefault("server", explorer_server)
        return Explored(explore(world, **given))

    return run
