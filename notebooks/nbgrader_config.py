"""For nbgrader: what it leaves in the place of a solution is what `emqkit classroom build` leaves there."""

c = get_config()  # noqa: F821  nbgrader defines it
c.ClearSolutions.code_stub = {"python": "# your code here"}
