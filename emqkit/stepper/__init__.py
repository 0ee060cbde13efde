"""Steps through an unmodified script, with the value of every local and the reply to every call it makes.

`step` runs the Lua in its own machine, on a private copy of the keys it touches: nothing changes on the given server
until `commit` runs the call there for real. A server's own Lua makes each `redis.call` and converts its reply. The same
script also runs in one go, by a real EVAL from the same start, and the result says whether both ended alike: a stepper
that lies is worse than none.

    stepped = emqkit.step(server.scripts["claim"], [pending, active], [prefix, "30000"], server)
    for line in stepped.lines:
        print(line.number, line.move, dict(line.locals))
"""

from emqkit.stepper.result import Asked, Line, Moment, ScriptFailure, Stepped
from emqkit.stepper.run import step, step_call

__all__ = ["Asked", "Line", "Moment", "ScriptFailure", "Stepped", "step", "step_call"]
