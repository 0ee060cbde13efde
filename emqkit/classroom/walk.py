"""A world walked by hand: what may happen next, one move at a time, until a history shows what it shall show.

walk = Walk("hasty-pump")
walk                                         # where it stands, and who may move
walk.take("worker of stock")                 # the next call of that actor
walk.take("hasty pump", "crash")
walk.history                                 # to be handed in
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emqkit.classroom.bounds import MOST_CALLS, MOST_STATES, shipped_set
from emqkit.errors import BadArgument
from emqkit.keyspace import digest
from emqkit.servers.fake import open_fake
from emqkit.sim.history import History
from emqkit.sim.search.explore import Explorer
from emqkit.sim.search.walk import Option, Walker
from emqkit.sim.worlds.world import World
from emqkit.snapshot import Snapshot, diff
from emqkit.trace import Trace
from emqkit.words.changes import changes_in_words
from emqkit.words.names import Names

if TYPE_CHECKING:
    from emqkit.widgets.player import Sentence, StepPlayer

__all__ = ["Left", "Walk", "left_by"]


class Walk:
    """A world at one moment of a history that a learner makes.

    Args:
        world: where.
        scripts: the script set, one that ships.
    """

    def __init__(self, world: World, scripts: str = "published") -> None:
        self._walker = Walker(world, open_fake(shipped_set(scripts)))

    @property
    def options(self) -> tuple[str, ...]:
        """What may happen next, each as `take` is given it."""
        return tuple(dict.fromkeys(_named(option) for option in self._walker.options()))

    def take(self, who: str, what: str = "") -> Sentence:
        """Make a move: the next call of an actor, or what befalls it.

        Args:
            who: the actor; empty for time and the server's own faults.
            what: how it goes on where there is a choice (`it fails`), or `crash`, `lost`, `lapse`, `due` and so on.

        Returns:
            What happened, and what broke.

        Raises:
            BadArgument: nothing like this can happen now; names what can.
        """
        from emqkit.widgets.player import Sentence

        for option in self._walker.options():
            label = option.label
            if option.actor == who and what in ("", label.kind, label.choice) and (what or label.kind == "call"):
                moved = self._walker.take(option)
                broken = "".join(f" {name} is broken: {says}." for name, says in option.wrong)
                return Sentence(self.history.told(moved) + broken)
        can = ", ".join(self.options)
        raise BadArgument("move", f"{who} {what}".strip(), f"cannot be made now; what can: {can}")

    @property
    def history(self) -> History:
        """The moves so far."""
        return self._walker.history()

    @property
    def player(self) -> StepPlayer:
        """The moves so far, to be stepped through."""
        from emqkit.widgets.player import StepPlayer

        return StepPlayer(self.history.trace)

    def __repr__(self) -> str:
        count = len(self._walker.moves)
        told = f"After {count} {'move' if count == 1 else 'moves'}" if count else "At the start"
        return f"{told}. Next: {', '.join(self.options)}."


def _named(option: Option) -> str:
    """An option as the arguments of `take`."""
    what = option.label.choice or ("" if option.label.kind == "call" else option.label.kind)
    return f'take("{option.actor}", "{what}")' if what else f'take("{option.actor}")'


class Left:
    """What an accident left: in words, and on the stage.

    Attributes:
        player: without any steps.
        words: everything that is there, line by line.
    """

    def __init__(self, trace: Trace) -> None:
        from emqkit.widgets.player import StepPlayer

        self.player = StepPlayer(trace)
        names = Names.of(trace.payloads)
        self.words = tuple(text for _, text in changes_in_words(diff(Snapshot(), trace.initial), names))

    def __repr__(self) -> str:
        return "\n".join(("This was left; seen from an empty keyspace:", *(f"  {line}" for line in self.words)))

    def _ipython_display_(self) -> None:
        print(self)
        self.player._ipython_display_()


def left_by(world: World, scripts: str, seen: str) -> Left:
    """The one keyspace of a world that has this fingerprint."""
    with open_fake(shipped_set(scripts)) as place:
        explorer = Explorer(world, place, ())
        explorer.search(max_states=MOST_STATES, max_calls=MOST_CALLS)
        views = (explorer.model.view(explorer.graph.side(state)).snapshot for state in range(len(explorer.graph)))
        found = next(view for view in views if digest(view) == seen)
    return Left(Trace.assembled(place.scripts, place.kind, found, (), world.payloads))
