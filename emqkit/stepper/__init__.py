"""One unmodified script, line by line, with the value of every local and the answer to every call it makes.

`step` runs the Lua in a machine of its own, against a private copy of the keys it touches: nothing reaches the server
it was given until `commit` runs the call there for real. Each `redis.call` is done, and its answer converted, by a
server's own Lua. And the same script is run in one go as well, by a real EVAL from the same start: whether both ended
alike is part of the answer, because a stepper that lies is worse than none.

    stepped = emqkit.step(server.scripts["claim"], [pending, active], [prefix, "30000"], server)
    for line in stepped.lines:
        print(line.number, line.move, dict(line.locals))
"""

from emqkit.stepper.result import Asked, Fault, Line, Moment, Stepped
from emqkit.stepper.run import step, step_call

__all__ = ["Asked", "Fault", "Line", "Moment", "Stepped", "step", "step_call"]
