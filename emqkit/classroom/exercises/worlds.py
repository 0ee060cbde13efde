"""Exercises on worlds and promises of one's own."""

from __future__ import annotations

from emqkit.classroom.checks import Exercise, Judging, judge_promise, promises
from emqkit.classroom.handed import NotThat
from emqkit.classroom.hints import Classic, Judgement, of_history
from emqkit.flows import Child, Flow
from emqkit.sim.worlds.actors import Reaper, Worker
from emqkit.sim.worlds.faults import Faults
from emqkit.sim.worlds.world import World, planned

__all__ = ["EXERCISES"]

LESSON = "09_worlds_of_your_own"


def _judge_world(trial: Judging, handed: object) -> Judgement:
    if not isinstance(handed, World):
        raise NotThat("Hand in a World: World(name, actors, flows, faults).")
    if any(actor.scripts is not None for actor in handed.actors):
        raise NotThat("Let your actors take the scripts that are explored: leave their `scripts` out.")
    among = promises("P9")
    calm = trial.explore(handed, "published", among)
    verdict = calm.verdicts["P9"]
    if calm.violations:
        return of_history(calm.violations[0].history, among[0])
    shown = trial.explore(handed, "zoo/no-fence", among, until="P9").violations
    facts = {
        "verdict": verdict.word,
        "reason": verdict.reason,
        "complete": calm.complete,
        "shown": bool(shown),
        "faults": sum(handed.faults.budget),
        "lapses": handed.faults.lapses,
    }
    rungs = (
        f"The verdict on P9 in your world, for the published scripts: {verdict.word}. {verdict.reason}",
        "Without the fence a worker settles a job that is no longer its own. How does a job come to be another's while "
        "its first holder is alive? Somebody has to take it back, and somebody has to claim it again.",
    )
    if shown and verdict.word == "holds":
        return Judgement(True, "Met. In your world P9 holds for the published scripts, and the mistake breaks it.")
    says = "Not yet. P9 is unknown there." if shown else "Not yet. In your world nobody notices that the fence is gone."
    return Judgement(False, says, rungs, facts=facts)


OWN_WORLD = Exercise(
    "own-world",
    LESSON,
    "defend",
    "A world in which a missing fence shows, and in which the published scripts keep P9.",
    _judge_world,
    (
        Classic(
            "nothing goes wrong",
            "Not yet. Nothing may go wrong in your world: every budget is zero, so no lease is ever lost.",
            lambda found, handed: found.facts.get("faults") == 0,
        ),
        Classic(
            "too large",
            "Not yet. Your world is larger than a check can see whole, so P9 stays unknown: take something away.",
            lambda found, handed: found.facts.get("complete") is False,
        ),
        Classic(
            "another fault",
            "Not yet. Something may go wrong in your world, but no holder ever loses a lease and settles all the same.",
            lambda found, handed: found.facts.get("lapses") == 0,
        ),
        Classic(
            "nobody takes it back",
            "Not yet. A lease may lapse there, but the job does not come to anybody else while its holder still works.",
            lambda found, handed: found.facts.get("shown") is False,
        ),
    ),
    about=("P9",),
)

LAPSING = World(
    "moves",
    (Worker("orders"), Worker("orders"), Reaper("orders")),
    planned("orders", Flow("order", [Child("pick")])),
    Faults(lapses=1),
)
TURNS = World("turns", (Worker("orders"), Reaper("orders")), planned("orders", Flow("order", [Child("a"), Child("b")])))

OWN_PROMISE = Exercise(
    "own-promise",
    LESSON,
    "defend",
    "A promise about moves that notices three mistakes.",
    judge_promise({"same-token": LAPSING, "impatient-reaper": TURNS, "newest-first": TURNS}, (LAPSING, TURNS)),
    (
        Classic(
            "asks too much",
            "Not yet. The published scripts make moves that your promise forbids, so it asks for more than is owed.",
            lambda found, handed: found.facts.get("asks too much") is True,
        ),
        Classic(
            "notices nothing",
            "Not yet. Whatever anybody does, your promise is content: compare what was before with what is after.",
            lambda found, handed: found.facts.get("noticed") == 0,
        ),
        Classic(
            "notices some",
            "Not yet. Your promise notices some of the mistakes and not others: there is a token, a turn and a lease "
            "to respect.",
            lambda found, handed: found.facts.get("noticed") is not None,
        ),
    ),
)

EXERCISES = (OWN_WORLD, OWN_PROMISE)
